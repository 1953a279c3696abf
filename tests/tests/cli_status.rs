//! The operator's `status` and `ls`.

use anyhow::{Context, Result, ensure};
use ebpf_bridge_lab::libcni::Conflist;
use ebpf_bridge_lab::operator::{operate, operate_unprivileged};
use ebpf_bridge_lab::{Need, Node, Scene, UPLINK, Variant, config};
use serde_json::json;

use crate::check::equal;
use crate::suite::Suite;

const AREAS: [&str; 7] = ["configs", "bridge", "leases", "programs", "conntrack", "masquerade", "last ADD"];

pub(crate) fn register(suite: &mut Suite) {
    suite.test_with(&[Need::Bpf], "operator: `status` of a healthy node has a line for each area", healthy);
    suite.test_with(
        &[Need::Bpf],
        "operator: `status` of a flushed node names what mends it, and that does",
        flushed,
    );
    suite.test("operator: `status`, `ls` and others of an empty node say that there is nothing", empty);
    suite.test_with(&[Need::Bpf], "operator: `ls` tells names, addresses and whether a pod is fast", lists);
    suite.test("operator: `ls` tells why a pod is not fast", not_fast);
    suite.test_with(
        &[Need::Tool("setpriv"), Need::Bpf],
        "operator: without root every verb says in one sentence that it needs it",
        unprivileged,
    );
    suite.test_with(
        &[Need::Tool("script")],
        "operator: colours are for terminals only, and a reader who has seen enough is no failure",
        output,
    );
}

/// A node whose runtime has our configuration, with two pods.
pub(crate) fn configured() -> Result<Scene> {
    let plugin =
        config::with(config::bridge("auto"), &json!({"cniVersion": "1.0.0", "name": config::NETWORK}));
    let mut scene = Scene::new(Node::new()?, Conflist::of(plugin.clone()));
    scene.node.write("/etc/cni/net.d/10-n1.conf", &plugin.to_string())?;
    for (pod, name) in [("pod1", "web"), ("pod2", "db")] {
        let args = format!("IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME={name}");
        scene.wire_with(pod, |container| container.args(&args))?;
    }
    Ok(scene)
}

/// Blanks and ages are not what a test is about.
fn squeezed(text: &str) -> Vec<String> {
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    text.lines().map(words).collect()
}

fn healthy() -> Result<()> {
    let scene = configured()?;
    let said = squeezed(&operate(&scene.node, "status")?.fine()?.stdout);
    let status = scene.status()?;
    let attach = &status.devices.iter().find(|d| d.ifname == UPLINK).context("no uplink")?.attach;
    let expected = [
        "ok configs 10-n1.conf comes first: network n1",
        "ok bridge br0 is up with 10.1.0.1 and has 2 of our pods",
        "ok leases network n1: 2 used and 251 free in 10.1.0.1-10.1.0.254",
        &format!(
            "ok programs a BPF file system is at /sys/fs/bpf; on {UPLINK} ({attach}) and 2 pods' veths (clsact)"
        ),
        "ok conntrack net.netfilter.nf_conntrack_tcp_be_liberal is 1",
        "ok masquerade rules of network n1 are in place",
    ];
    equal("lines", &said[..6], &expected[..])?;
    ensure!(said.len() == 7 && said[6].starts_with("ok last ADD pod shop/"), "{said:?}");
    equal("in brief", operate(&scene.node, "status --brief")?.fine()?.stdout, "healthy\n")?;
    let json = operate(&scene.node, "status -o json")?.fine()?.json()?;
    equal("healthy", &json["healthy"], true)?;
    let areas: Vec<_> =
        json["areas"].as_array().into_iter().flatten().map(|area| area["area"].clone()).collect();
    equal("areas", areas, AREAS.map(|area| json!(area)).to_vec())
}

fn flushed() -> Result<()> {
    let scene = configured()?;
    scene.node.call("nft flush ruleset")?;
    let answer = operate(&scene.node, "status")?;
    equal("exit code", answer.code, 1)?;
    let masquerade = answer.stdout.lines().find(|line| line.starts_with("!! masquerade")).unwrap_or_default();
    ensure!(masquerade.contains("network n1 for 10.1.0.0/24"), "{answer:?}");
    equal("in brief", operate(&scene.node, "status --brief")?.stdout, "unhealthy: masquerade\n")?;
    let fix = answer.stdout.lines().find_map(|line| line.trim().strip_prefix("fix: ")).context("no fix")?;
    scene.node.call(fix)?;
    operate(&scene.node, "status")?.fine()?;
    scene.runtime.check(&scene.node, &scene.pods[0].container)
}

fn empty() -> Result<()> {
    let node = Node::new()?;
    let answer = operate(&node, "status")?;
    equal("exit code", answer.code, 1)?;
    let said = squeezed(&answer.stdout);
    equal("configs", &*said[0], "!! configs there is no network configuration in /etc/cni/net.d")?;
    ensure!(said[1].contains("install --pod-cidr"), "{said:?}");
    equal("bridge", &*said[2], "ok bridge no pods, so no bridge is needed")?;
    equal("last ADD", &*said[7], "ok last ADD none that a pod of this node comes from")?;
    for (verb, expected) in [
        ("ls", "no pods on this node\n"),
        ("flows", "no flow is being carried\n"),
        ("stats", "the eBPF programs are not loaded: no pod of this node is accelerated\n"),
        ("repair", "nothing to repair\n"),
        ("gc", "nothing to remove\n"),
        ("gc --dry-run", "nothing to remove\n"),
    ] {
        equal(verb, operate(&node, verb)?.fine()?.stdout, expected)?;
        operate(&node, &format!("{verb} -o json"))?.fine()?.json()?;
    }
    for verb in ["monitor --for 1", "on", "off", "forget"] {
        let sentence = operate(&node, verb)?.refused(1)?;
        ensure!(sentence.contains("programs are not loaded"), "{verb}: {sentence}");
    }
    equal("files", node.tree("/run/ebpf-bridge")?, Vec::<String>::new())
}

fn lists() -> Result<()> {
    let scene = configured()?;
    let said = squeezed(&operate(&scene.node, "ls")?.fine()?.stdout);
    equal("head", &*said[0], "CONTAINER POD NETWORK IF ADDRESS VETH AGE PATH")?;
    for (pod, name) in scene.pods.iter().zip(["web", "db"]) {
        let veth = &pod.result.veth()?.name;
        let begin = format!("{} shop/{name} n1 eth0 {}/24 {veth} ", pod.name(), pod.address());
        let line = said
            .iter()
            .find(|line| line.starts_with(&begin))
            .with_context(|| format!("{begin}: {said:?}"))?;
        ensure!(line.ends_with("s fast"), "{line}");
    }
    for asked in ["pod1", "web", "shop/web"] {
        let json = operate(&scene.node, &format!("ls {asked} -o json"))?.fine()?.json()?;
        equal("pods", json["pods"].as_array().map(Vec::len), Some(1))?;
        let pod = &json["pods"][0];
        equal(
            asked,
            (&pod["containerId"], &pod["kubernetes"]["name"], &pod["accelerated"]),
            (&json!("pod1"), &json!("web"), &json!(true)),
        )?;
    }
    operate(&scene.node, "off")?.fine()?;
    let json = operate(&scene.node, "ls web -o json")?.fine()?.json()?;
    ensure!(json["pods"][0]["why"].as_str().is_some_and(|why| why.contains("switched off")), "{json}");
    Ok(())
}

fn not_fast() -> Result<()> {
    let scene = Scene::with_pods(Variant::Off, 1)?;
    let said = operate(&scene.node, "ls")?.fine()?.stdout;
    ensure!(said.contains("bridge: ebpf.mode is \"off\""), "{said}");
    Ok(())
}

fn unprivileged() -> Result<()> {
    let scene = configured()?;
    for verb in [
        "status",
        "ls",
        "flows",
        "stats",
        "repair",
        "gc",
        "monitor --for 1",
        "on",
        "off",
        "forget",
        "redirect plain",
    ] {
        let sentence = operate_unprivileged(&scene.node, verb)?.refused(1)?;
        ensure!(sentence.contains("root"), "{verb}: {sentence}");
    }
    let answer = operate_unprivileged(&scene.node, "doctor")?;
    equal("exit code", answer.code, 1)?;
    ensure!(answer.stdout.contains("!! privileges") && answer.stdout.contains("fix: sudo "), "{answer:?}");
    Ok(())
}

fn output() -> Result<()> {
    let node = Node::new()?;
    let plugin = ebpf_bridge_lab::plugin::path()?;
    let plugin = plugin.display();
    let plain = operate(&node, "status")?.stdout;
    ensure!(!plain.contains('\u{1b}'), "colours for a pipe: {plain:?}");
    // script(1) gives it a terminal.
    let on_a_terminal = |environment: &str| -> Result<String> {
        let line = format!("script -qec '{environment} {plugin} status' /dev/null");
        let output = node.command("sh").args(["-c", &line]).env("TERM", "xterm").output()?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    ensure!(on_a_terminal("env -u NO_COLOR")?.contains("\u{1b}[32mok"), "no colours on a terminal");
    ensure!(!on_a_terminal("NO_COLOR=1")?.contains('\u{1b}'), "colours in spite of NO_COLOR");
    let script = format!("({plugin} doctor; echo $? >/run/code) | true; cat /run/code");
    let output = node.command("sh").args(["-c", &script]).output()?;
    equal("of a broken pipe", String::from_utf8_lossy(&output.stdout).trim(), "1")?;
    equal("what it complains about", String::from_utf8_lossy(&output.stderr).trim(), "")?;
    let usage = operate(&node, "status --nonsense")?.refused(2)?;
    ensure!(usage.contains("--nonsense"), "{usage}");
    Ok(())
}
