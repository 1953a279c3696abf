//! `replay`: runs captured calls again, in their order, where they can do no harm.

mod adapt;
mod scratch;

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use anyhow::Context;
use serde_json::{Value, json};

use self::scratch::Scratch;
use super::{Report, SCHEMA_VERSION};
use crate::capture::{self, Call};

pub(super) fn replay(directory: &Path) -> anyhow::Result<Report> {
    let calls = captured(directory)?;
    let scratch = Scratch::enter(&uplinks(&calls))?;
    let mut replay = Replay { scratch, netns: BTreeMap::new(), results: BTreeMap::new() };
    let mut table = String::new();
    let mut answers = Vec::new();
    for call in &calls {
        let output = replay.run(call)?;
        table.push_str(&words(call, &output));
        answers.push(document(call, &output));
    }
    Ok(Report { json: json!({ "schemaVersion": SCHEMA_VERSION, "calls": answers }), table })
}

/// A call as it was captured.
struct Captured {
    call: Call,
    stdin: Vec<u8>,
    stdout: String,
}

impl Captured {
    fn read(directory: &Path) -> anyhow::Result<Self> {
        let read = |name: &str| {
            let file = directory.join(name);
            fs::read(&file).with_context(|| format!("cannot read {}", file.display()))
        };
        let call: Call = serde_json::from_slice(&read(capture::CALL)?).with_context(|| {
            format!("{} is not what was captured", directory.join(capture::CALL).display())
        })?;
        anyhow::ensure!(
            !call.cut,
            "{} was captured in part only: its input was too long",
            directory.display()
        );
        let stdout = read(capture::STDOUT).unwrap_or_default();
        Ok(Self { call, stdin: read(capture::STDIN)?, stdout: String::from_utf8_lossy(&stdout).into_owned() })
    }

    fn variable(&self, name: &str) -> &str {
        self.call.environment.get(name).map_or("", String::as_str)
    }
}

/// One call, or all in a `captureDir` by their time.
fn captured(directory: &Path) -> anyhow::Result<Vec<Captured>> {
    let directories: Vec<PathBuf> = if directory.join(capture::CALL).is_file() {
        vec![directory.to_owned()]
    } else {
        capture::calls(directory).with_context(|| format!("cannot list {}", directory.display()))?
    };
    anyhow::ensure!(!directories.is_empty(), "{} holds no captured call", directory.display());
    let mut calls = directories.iter().map(|one| Captured::read(one)).collect::<Result<Vec<_>, _>>()?;
    calls.sort_by_key(|one| one.call.started);
    Ok(calls)
}

/// The uplinks that the configurations name, which the scratch node must have.
fn uplinks(calls: &[Captured]) -> Vec<String> {
    let confs = calls.iter().filter_map(|one| serde_json::from_slice::<Value>(&one.stdin).ok());
    let named = confs.filter_map(|conf| Some(conf["ebpf"]["uplinks"].as_array()?.clone())).flatten();
    let mut names: Vec<String> = named.filter_map(|name| name.as_str().map(str::to_owned)).collect();
    names.sort();
    names.dedup();
    if names.is_empty() { vec!["eth0".to_owned()] } else { names }
}

/// The calls so far.
struct Replay {
    scratch: Scratch,
    /// Namespaces in place of the captured ones.
    netns: BTreeMap<String, PathBuf>,
    /// Results of ADDs, by container and interface.
    results: BTreeMap<[String; 2], Value>,
}

impl Replay {
    fn run(&mut self, one: &Captured) -> anyhow::Result<Output> {
        let mut environment = one.call.environment.clone();
        if let Some(netns) = environment.get_mut("CNI_NETNS").filter(|netns| !netns.is_empty()) {
            *netns = self.netns_for(netns)?.display().to_string();
        }
        let attachment = ["CNI_CONTAINERID", "CNI_IFNAME"].map(|name| one.variable(name).to_owned());
        let stdin = adapt::adapt(&one.stdin, self.results.get(&attachment))?;
        let output = execute(&environment, &stdin).context("cannot execute the plugin again")?;
        if one.variable("CNI_COMMAND") == "ADD"
            && let (true, Ok(result)) = (output.status.success(), serde_json::from_slice(&output.stdout))
        {
            self.results.insert(attachment, result);
        }
        Ok(output)
    }

    fn netns_for(&mut self, captured: &str) -> anyhow::Result<PathBuf> {
        if let Some(known) = self.netns.get(captured) {
            return Ok(known.clone());
        }
        let made = self.scratch.pod(self.netns.len())?;
        self.netns.insert(captured.to_owned(), made.clone());
        Ok(made)
    }
}

fn execute(environment: &BTreeMap<String, String>, stdin: &[u8]) -> std::io::Result<Output> {
    let mut command = Command::new("/proc/self/exe");
    command.env_clear().envs(environment);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    if let Some(mut pipe) = child.stdin.take() {
        // The environment may be at fault already; then nobody reads this.
        let _ = pipe.write_all(stdin);
    }
    child.wait_with_output()
}

fn words(one: &Captured, output: &Output) -> String {
    let then =
        one.call.exit_code.map_or_else(|| "did not end".to_owned(), |code| format!("ended with {code}"));
    let now = output.status.code().map_or_else(|| output.status.to_string(), |code| format!("with {code}"));
    let who = ["CNI_COMMAND", "CNI_CONTAINERID", "CNI_IFNAME"].map(|name| one.variable(name)).join(" ");
    let mut text = format!("{}: {then} then, {now} now\n", who.trim_end());
    for said in [&output.stderr, &output.stdout] {
        for line in String::from_utf8_lossy(said).lines() {
            text.push_str(&format!("    {line}\n"));
        }
    }
    text
}

fn document(one: &Captured, output: &Output) -> Value {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    json!({
        "call": one.call.call,
        "verb": one.variable("CNI_COMMAND"),
        "containerId": one.variable("CNI_CONTAINERID"),
        "then": { "exitCode": one.call.exit_code, "stdout": one.stdout },
        "now": {
            "exitCode": output.status.code(), "stdout": text(&output.stdout), "log": text(&output.stderr),
        },
    })
}
