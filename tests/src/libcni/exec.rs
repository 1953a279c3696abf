//! One execution of one plugin.

use std::fmt;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::{self, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde_json::Value;

use crate::{Node, mounts::PLUGIN_DIR};

/// What a plugin answered when it succeeded.
#[derive(Debug)]
pub struct Output {
    /// The one JSON document on standard output, if there was one.
    pub document: Option<Value>,
    /// Standard error, where a plugin may write anything.
    pub stderr: String,
}

/// What a plugin answered when it failed: the specification's error structure.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginError {
    /// The version of the configuration; the reference plugins leave it out.
    pub cni_version: Option<String>,
    /// Which kind of failure, see the specification's table.
    pub code: u32,
    /// One line.
    pub msg: String,
    /// More lines.
    pub details: Option<String>,
}

impl fmt::Display for PluginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the plugin failed with code {}: {}", self.code, self.msg)?;
        self.details.as_ref().map_or(Ok(()), |details| write!(f, " ({details})"))
    }
}

impl std::error::Error for PluginError {}

/// Executes the plugin `kind` with `CNI_COMMAND=verb`, the given other variables, and `stdin`.
///
/// `CNI_PATH` is the node's plugin directory unless `env` names another.
///
/// # Errors
/// A [`PluginError`] (downcast to it) when the plugin failed as the specification says a plugin fails. Any other
/// error is a breach of the protocol: no such plugin, more than one document, or not JSON.
pub fn exec(node: &Node, kind: &str, verb: &str, env: &[(&str, &str)], stdin: &str) -> Result<Output> {
    let mut child = node
        .command(Path::new(PLUGIN_DIR).join(kind))
        .env("CNI_COMMAND", verb)
        .env("CNI_PATH", PLUGIN_DIR)
        .envs(env.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("executing the plugin `{kind}` for {verb}"))?;
    let written = child.stdin.take().context("no pipe to the plugin")?.write_all(stdin.as_bytes());
    let output = child.wait_with_output().context("waiting for the plugin")?;
    match written {
        // A plugin may exit without having read everything, for one when the environment is at fault.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            return Err(error).context("writing to the plugin");
        }
        _ => {}
    }
    judge(&format!("{verb} by `{kind}`"), output)
}

/// What an execution that is over has answered.
pub(super) fn judge(what: &str, output: process::Output) -> Result<Output> {
    let stdout = String::from_utf8(output.stdout).context("the plugin's output is not UTF-8")?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let said = || format!("{what} ({}): stdout {stdout:?}, stderr {stderr:?}", output.status);
    let mut documents = documents(&stdout).with_context(said)?;
    ensure!(documents.len() <= 1, "{} documents on standard output: {}", documents.len(), said());
    let document = documents.pop();
    if output.status.success() {
        return Ok(Output { document, stderr });
    }
    let Some(document) = document else { bail!("failed without an error document: {}", said()) };
    let error: PluginError = serde_json::from_value(document).with_context(said)?;
    ensure!(error.code != 0 && !error.msg.is_empty(), "an error without code or message: {}", said());
    Err(error.into())
}

fn documents(stdout: &str) -> Result<Vec<Value>> {
    serde_json::Deserializer::from_str(stdout)
        .into_iter()
        .collect::<Result<_, _>>()
        .context("standard output is not JSON")
}
