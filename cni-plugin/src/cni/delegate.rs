//! Executing another plugin for a part of the work, as section 4 of the specification ("Plugin Delegation") says:
//! found in `CNI_PATH`, with our own environment and the configuration as we received it.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
};

use serde::Deserialize;
use serde_json::Value;

use super::request::Verb;

/// Why a delegated plugin did not do its part.
#[derive(Debug, thiserror::Error)]
pub enum DelegateError {
    /// No such file.
    #[error("ipam.type is {plugin:?}, which is in no directory of CNI_PATH {path:?}")]
    NotFound {
        /// Its name.
        plugin: String,
        /// Where it was looked for.
        path: Vec<PathBuf>,
    },
    /// It could not be started, or its pipes failed.
    #[error("cannot execute the IPAM plugin {program:?}: {source}")]
    Execute {
        /// Its path.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It failed and did not say why.
    #[error("the IPAM plugin {program:?} failed without an error document: {status}")]
    Died {
        /// Its path.
        program: PathBuf,
        /// How it ended.
        status: ExitStatus,
    },
    /// It succeeded with something that is no result.
    #[error("the IPAM plugin {program:?} answered {answer:?}, which is not a CNI result: {source}")]
    Answer {
        /// Its path.
        program: PathBuf,
        /// What it printed, shortened.
        answer: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// It failed and said why: its error is ours.
    #[error("{msg}")]
    Refused {
        /// Its name.
        plugin: String,
        /// Its code.
        code: u32,
        /// Its message.
        msg: String,
        /// Its details.
        details: String,
    },
}

impl DelegateError {
    /// True if the plugin cannot have leased anything: it was not run, or has said itself that it failed.
    pub fn left_nothing(&self) -> bool {
        match self {
            Self::NotFound { .. } | Self::Execute { .. } | Self::Refused { .. } => true,
            Self::Died { .. } | Self::Answer { .. } => false,
        }
    }
}

/// The error document, read leniently: the reference plugins leave out `cniVersion`.
#[derive(Deserialize)]
struct Refusal {
    code: u32,
    msg: String,
    #[serde(default)]
    details: String,
}

/// Executes `plugin` for `verb`. Its environment is ours, but for `CNI_COMMAND` and `changes`. Returns the document
/// it printed, if it did.
///
/// # Errors
/// See [`DelegateError`].
pub fn run(
    plugin: &str,
    path: &[PathBuf],
    verb: Verb,
    changes: &[(&str, &str)],
    stdin: &[u8],
) -> Result<Option<Value>, DelegateError> {
    let program = find(plugin, path)?;
    let failed = |source: io::Error| DelegateError::Execute { program: program.clone(), source };
    let mut child = Command::new(&program)
        .env("CNI_COMMAND", verb.name())
        .envs(changes.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    if let Some(mut pipe) = child.stdin.take() {
        match pipe.write_all(stdin) {
            // It need not read what it does not want to know.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            written => written.map_err(failed)?,
        }
    }
    let output = child.wait_with_output().map_err(failed)?;
    if output.status.success() {
        answer(&program, &output.stdout)
    } else {
        Err(refusal(plugin, program, output))
    }
}

/// The first file of this name in the directories of `CNI_PATH`.
fn find(plugin: &str, path: &[PathBuf]) -> Result<PathBuf, DelegateError> {
    path.iter()
        .map(|directory| directory.join(plugin))
        .find(|program| program.is_file())
        .ok_or_else(|| DelegateError::NotFound { plugin: plugin.to_owned(), path: path.to_owned() })
}

fn answer(program: &Path, stdout: &[u8]) -> Result<Option<Value>, DelegateError> {
    if stdout.trim_ascii().is_empty() {
        return Ok(None);
    }
    serde_json::from_slice(stdout).map(Some).map_err(|source| DelegateError::Answer {
        program: program.to_owned(),
        answer: String::from_utf8_lossy(stdout).chars().take(200).collect(),
        source,
    })
}

fn refusal(plugin: &str, program: PathBuf, output: std::process::Output) -> DelegateError {
    match serde_json::from_slice(&output.stdout) {
        // Without a code or a word it is no error document: ours must have both.
        Ok(Refusal { code, msg, details }) if code != 0 && !msg.trim().is_empty() => {
            DelegateError::Refused { plugin: plugin.to_owned(), code, msg, details }
        }
        _ => DelegateError::Died { program, status: output.status },
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A directory with a plugin `fake` that runs one line of shell.
    fn with_plugin(script: &str) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        // Another process writes it: a test beside this one may fork while we have it open for writing, and until its child
        // executes something nobody can execute the file (ETXTBSY).
        let write = r#"printf '#!/bin/sh\n%s\n' "$1" >"$2" && chmod 755 "$2""#;
        let file = directory.path().join("fake");
        let status = Command::new("sh").args(["-c", write, "sh", script]).arg(file).status().unwrap();
        assert!(status.success());
        directory
    }

    fn run_fake(script: &str) -> Result<Option<Value>, DelegateError> {
        let directory = with_plugin(script);
        run("fake", &[directory.path().to_owned()], Verb::Add, &[("CNI_IFNAME", "eth7")], b"{\"name\":\"n\"}")
    }

    #[test]
    fn the_plugin_gets_verb_environment_and_configuration() {
        let script = r#"printf '{"verb":"%s","ifname":"%s","stdin":%s}' $CNI_COMMAND $CNI_IFNAME "$(cat)""#;
        let expected = serde_json::json!({"verb": "ADD", "ifname": "eth7", "stdin": {"name": "n"}});
        assert_eq!(run_fake(script).unwrap(), Some(expected));
    }

    #[test]
    fn the_first_directory_that_has_it_wins_and_a_directory_of_its_name_does_not() {
        let (first, second) = (with_plugin("echo 1"), with_plugin("echo 2"));
        let decoy = tempfile::tempdir().unwrap();
        fs::create_dir(decoy.path().join("fake")).unwrap();
        let path: Vec<PathBuf> = [&decoy, &first, &second].map(|d| d.path().to_owned()).into();
        assert_eq!(run("fake", &path, Verb::Add, &[], b"").unwrap(), Some(1.into()));
        let error = run("none", &path, Verb::Add, &[], b"").unwrap_err();
        assert!(error.to_string().contains("\"none\""), "{error}");
    }

    #[test]
    fn nothing_and_null_are_answers() {
        assert_eq!(run_fake("true").unwrap(), None);
        assert_eq!(run_fake("echo null").unwrap(), Some(Value::Null));
    }

    #[test]
    fn its_error_is_passed_on() {
        match run_fake(r#"echo '{"code":11,"msg":"later","details":"why"}'; exit 1"#).unwrap_err() {
            DelegateError::Refused { code: 11, msg, details, .. } => {
                assert_eq!((msg.as_str(), details.as_str()), ("later", "why"));
            }
            other => panic!("{other}"),
        }
    }

    #[test]
    fn a_plugin_that_breaks_the_protocol_is_named() {
        for script in [
            "exit 3",
            "echo nonsense; exit 1",
            "kill -9 $$",
            "echo nonsense",
            r#"echo '{"code":0,"msg":"why"}'; exit 1"#,
            r#"echo '{"code":7,"msg":""}'; exit 1"#,
        ] {
            let error = run_fake(script).unwrap_err();
            assert!(error.to_string().contains("/fake"), "{script}: {error}");
            assert!(!error.left_nothing(), "{script}");
        }
    }
}
