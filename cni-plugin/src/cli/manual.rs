//! `completions` and `man`, made from the same definition that reads the command line.

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
    let mut tool = Cli::command().disable_help_subcommand(true);
    // Names of verbs become `ebpf-bridge-status`, as in the list of the tool's page.
    tool.build();
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
