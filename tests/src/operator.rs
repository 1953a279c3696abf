//! The operator's side of the plugin: its verbs, run on a node as somebody at a shell does.

use std::process::Output;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{Node, plugin};

/// What a verb said.
#[derive(Debug)]
pub struct Answer {
    /// The exit code; -1 for a signal.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Answer {
    fn of(output: Output) -> Result<Answer> {
        let text = |bytes| String::from_utf8(bytes).context("the tool printed other than UTF-8");
        let (stdout, stderr) = (text(output.stdout)?, text(output.stderr)?);
        Ok(Answer { code: output.status.code().unwrap_or(-1), stdout, stderr })
    }

    /// Itself, if the verb succeeded and had nothing to complain about.
    pub fn fine(self) -> Result<Answer> {
        ensure!(self.code == 0 && self.stderr.is_empty(), "the verb failed: {self:?}");
        Ok(self)
    }

    /// The one sentence on standard error, if the verb failed with `code` and printed nothing.
    pub fn refused(self, code: i32) -> Result<String> {
        ensure!(self.code == code && self.stdout.is_empty(), "not refused with {code}: {self:?}");
        ensure!(code == 2 || self.stderr.lines().count() == 1, "not one sentence: {self:?}");
        Ok(self.stderr)
    }

    /// Standard output as the one JSON document of schema version 1.
    pub fn json(&self) -> Result<Value> {
        let json: Value =
            serde_json::from_str(&self.stdout).with_context(|| format!("not JSON: {self:?}"))?;
        ensure!(json["schemaVersion"] == 1, "of another schema: {json}");
        Ok(json)
    }
}

/// Runs a verb, its words split at blanks, as root.
pub fn operate(node: &Node, line: &str) -> Result<Answer> {
    let output = node.command(plugin::path()?).args(line.split_whitespace()).output();
    Answer::of(output.with_context(|| format!("running `ebpf-bridge {line}`"))?)
}

/// The same as a user without any privilege.
pub fn operate_unprivileged(node: &Node, line: &str) -> Result<Answer> {
    // Where the plugin was built need not be open to others.
    let copy = "/run/ebpf-bridge-for-all";
    node.call(&format!("install -m 755 {} {copy}", plugin::path()?.display()))?;
    let mut command = node.command("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", copy]);
    let output = command.args(line.split_whitespace()).output();
    Answer::of(output.with_context(|| format!("running `ebpf-bridge {line}` as nobody"))?)
}
