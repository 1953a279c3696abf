//! The execution protocol: versions and errors.

use anyhow::{Context, Result, ensure};
use ebpf_bridge_lab::libcni::{Conflist, Container, Runtime, exec};
use ebpf_bridge_lab::{Node, Snapshot, config, plugin};
use serde_json::json;

use crate::check::{equal, refused};
use crate::suite::Suite;

pub(crate) fn register(suite: &mut Suite) {
    suite.test("protocol: VERSION lists 0.1.0 to 1.1.0, with and without a configuration", version);
    suite.test("protocol: an unknown CNI_COMMAND is refused with code 4", unknown_command);
    suite.test("protocol: ADD without its variables names all of them, code 4", missing_variables);
    suite.test("protocol: standard input that is not JSON is refused with code 6", not_json);
    suite.test("protocol: a version nobody knows is refused with code 1", unknown_version);
    suite.test("protocol: a key of the wrong type is refused with code 7 and named", wrong_type);
}

fn version() -> Result<()> {
    let node = Node::new()?;
    for stdin in [r#"{"cniVersion":"1.0.0"}"#, ""] {
        let answer =
            exec(&node, plugin::NAME, "VERSION", &[], stdin)?.document.context("no answer to VERSION")?;
        ensure!(answer["cniVersion"].is_string(), "no cniVersion: {answer}");
        let versions = answer["supportedVersions"].as_array().context("no supportedVersions")?;
        for wanted in ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"] {
            ensure!(versions.contains(&json!(wanted)), "{wanted} is not among {versions:?}");
        }
    }
    Ok(())
}

fn unknown_command() -> Result<()> {
    let error = refused(exec(&Node::new()?, plugin::NAME, "MEND", &[], "{}"))?;
    equal("the code", error.code, 4)?;
    ensure!(error.msg.contains("MEND"), "the message does not name the command: {error}");
    Ok(())
}

fn missing_variables() -> Result<()> {
    let request = config::with(config::bridge("auto"), &json!({"cniVersion": "1.0.0", "name": "n1"}));
    let error = refused(exec(&Node::new()?, plugin::NAME, "ADD", &[], &request.to_string()))?;
    equal("the code", error.code, 4)?;
    for name in ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"] {
        ensure!(error.msg.contains(name), "the message does not name {name}: {error}");
    }
    Ok(())
}

fn not_json() -> Result<()> {
    let env = [("CNI_CONTAINERID", "c"), ("CNI_NETNS", "/run/netns/c"), ("CNI_IFNAME", "eth0")];
    let error = refused(exec(&Node::new()?, plugin::NAME, "ADD", &env, "{\"cniVersion\":"))?;
    equal("the code", error.code, 6)
}

fn unknown_version() -> Result<()> {
    refused_add(Conflist::of(config::bridge("auto")).version("9.0.0"), 1, "9.0.0")
}

fn wrong_type() -> Result<()> {
    refused_add(Conflist::of(config::with(config::bridge("auto"), &json!({"mtu": "large"}))), 7, "mtu")
}

/// ADD of a pod fails with `code` and a message that has `word`, and the node stays as it was.
fn refused_add(list: Conflist, code: u32, word: &str) -> Result<()> {
    let node = Node::new()?;
    let pod = node.pod("pod1")?;
    let before = Snapshot::take(&node)?;
    let error = refused(Runtime::new(list).add(&node, &Container::of(&pod)))?;
    equal("the code", error.code, code)?;
    ensure!(error.msg.contains(word), "the message does not name {word}: {error}");
    Snapshot::take(&node)?.ensure_equals(&before)
}
