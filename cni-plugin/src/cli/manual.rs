//! `completions` and `man`, made from the same definition that reads the command line.

use std::{fs, path::Path};

use anyhow::Context;
use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use super::Cli;

/// The completion script of a shell.
pub(super) fn completions(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "ebpf-bridge", &mut script);
    script
}

/// The manual page of the tool, or of one verb.
pub(super) fn man(verb: Option<&str>) -> anyhow::Result<Vec<u8>> {
    let tool = tool();
    let page = match verb {
        None => tool,
        Some(verb) => {
            let names = || tool.get_subcommands().map(Command::get_name).collect::<Vec<_>>().join(", ");
            let found = tool.find_subcommand(verb).cloned();
            found.ok_or_else(|| anyhow::anyhow!("VERB is {verb:?}; allowed are {}", names()))?
        }
    };
    let mut text = Vec::new();
    Man::new(page).render(&mut text)?;
    Ok(text)
}

/// Writes all of them.
pub(super) fn write_all(directory: &Path) -> anyhow::Result<()> {
    let failed = || format!("cannot write to {}", directory.display());
    fs::create_dir_all(directory).with_context(failed)?;
    clap_mangen::generate_to(tool(), directory).with_context(failed)
}

/// The definition, its verbs named as in the list of the tool's page: `ebpf-bridge-status`.
fn tool() -> Command {
    let mut tool = Cli::command().disable_help_subcommand(true);
    tool.build();
    tool
}
