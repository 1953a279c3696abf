//! Plugins of a node that note how they are called, and then do what they always do.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{Node, mounts::PLUGIN_DIR};

const CALLS: &str = "/run/lab/plugin-calls";

/// How a plugin was called.
#[derive(Debug, Clone)]
pub struct Call {
    /// `CNI_COMMAND`.
    pub verb: String,
    /// The plugin's type.
    pub kind: String,
    /// `CNI_CONTAINERID`.
    pub container: String,
    /// `CNI_IFNAME`.
    pub ifname: String,
    /// `CNI_ARGS`.
    pub args: String,
    /// What it was told on its standard input.
    pub config: Value,
}

/// Makes the plugins `kinds` of a node note their calls.
pub fn record(node: &Node, kinds: &[&str]) -> Result<()> {
    for kind in kinds {
        let path = Path::new(PLUGIN_DIR).join(kind);
        let path = path.to_str().context("a path that is no text")?;
        let real = node.call(&format!("readlink -f {path}"))?;
        let script = format!(
            "#!/bin/sh\nconfig=$(cat)\n\
             call=$(printf '%s\\t' \"$CNI_COMMAND\" {kind} \"$CNI_CONTAINERID\" \"$CNI_IFNAME\" \"$CNI_ARGS\" \
             \"$(printf %s \"$config\" | tr -d '\\n\\t')\")\n\
             # At once: a runtime calls several plugins at a time.\nprintf '%s\\n' \"$call\" >>{CALLS}\n\
             printf %s \"$config\" | exec {}\n",
            real.trim()
        );
        // Another process writes it: nothing executes a file that a test beside this one may have open for writing.
        let write = "mkdir -p /run/lab && rm \"$2\" && printf %s \"$1\" >\"$2\" && chmod +x \"$2\"";
        let status = node.command("sh").args(["-c", write, "sh", &script, path]).status()?;
        ensure!(status.success(), "writing {path}: {status}");
    }
    Ok(())
}

/// The calls of ADD and DEL until now, in their order.
pub fn recorded(node: &Node) -> Result<Vec<Call>> {
    let calls = node.read(CALLS)?;
    let calls: Vec<Call> = calls.lines().map(parse).collect::<Result<_>>()?;
    Ok(calls.into_iter().filter(|call| matches!(call.verb.as_str(), "ADD" | "DEL")).collect())
}

fn parse(line: &str) -> Result<Call> {
    let words: Vec<&str> = line.trim_end_matches('\t').splitn(6, '\t').collect();
    let [verb, kind, container, ifname, args, config] = words[..] else {
        anyhow::bail!("not a call: {line:?}");
    };
    let config = match config {
        "" => Value::Null,
        config => serde_json::from_str(config).with_context(|| format!("the configuration of {line:?}"))?,
    };
    Ok(Call {
        verb: verb.into(),
        kind: kind.into(),
        container: container.into(),
        ifname: ifname.into(),
        args: args.into(),
        config,
    })
}
