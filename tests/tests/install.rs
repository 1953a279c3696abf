//! The operator's `install` and `uninstall`, and what the tool says about itself.

use std::fs;
use std::os::unix::fs::MetadataExt;

use anyhow::{Context, Result, ensure};
use ebpf_bridge_lab::libcni::Conflist;
use ebpf_bridge_lab::operator::{operate, operate_unprivileged};
use ebpf_bridge_lab::{Need, Node, Scene, Snapshot, Variant, config, plugin};
use serde_json::{Value, json};

use crate::check::equal;
use crate::suite::Suite;

const BIN: &str = "/run/host/opt/cni/bin";
const CONF: &str = "/run/host/etc/cni/net.d";
const CONFLIST: &str = "/run/host/etc/cni/net.d/10-ebpf-bridge.conflist";
const PLACE: &str = "--bin-dir /run/host/opt/cni/bin --conf-dir /run/host/etc/cni/net.d";

pub(crate) fn register(suite: &mut Suite) {
    suite.test("install: the binary and a configuration that wires a pod, and twice is once", installs);
    suite.test("install: a new range replaces our configuration, another's file stays", keeps_others);
    suite.test("install: what cannot be used is named, and nothing is written", refuses);
    suite.test_with(
        &[Need::Tool("strace")],
        "install: each file is whole on disk before it gets its name, the configuration last",
        order,
    );
    suite.test("uninstall: with pods their wiring and the binary stay, without it all goes", uninstalls);
    suite.test("uninstall: of what was never installed is fine", never_installed);
    suite.test_with(
        &[Need::Tool("setpriv")],
        "operator: install and uninstall without root say what is not allowed, in one sentence",
        unprivileged,
    );
    suite.test("operator: version, completions and manual pages", about_itself);
}

/// The list that is installed, as a runtime reads it.
fn installed(node: &Node) -> Result<Conflist> {
    let list: Value = serde_json::from_str(&node.read(CONFLIST)?)?;
    Conflist::read(&list)
}

fn installs() -> Result<()> {
    let node = Node::new()?;
    let line = format!("install {PLACE} --pod-cidr 10.9.0.0/24,fd00:9::/64");
    let said = operate(&node, &line)?.fine()?.stdout;
    equal("what it said", said, format!("installed {BIN}/ebpf-bridge\ninstalled {CONFLIST}\n"))?;
    let identical = node.run_in(|| {
        let file = fs::metadata(format!("{BIN}/ebpf-bridge"))?;
        Ok((file.mode() & 0o7777, fs::read(format!("{BIN}/ebpf-bridge"))? == fs::read(plugin::path()?)?))
    })?;
    equal("mode, and whether it is this binary", identical, (0o755, true))?;
    equal("all files", node.tree("/run/host")?.len(), 8)?;

    let before = node.call(&format!("stat -c %i.%Z {BIN}/ebpf-bridge {CONFLIST}"))?;
    let json = operate(&node, &format!("-o json {line}"))?.fine()?.json()?;
    equal("what it said again", &json["files"][1], &json!({"path": CONFLIST, "outcome": "unchanged"}))?;
    equal("the files", node.call(&format!("stat -c %i.%Z {BIN}/ebpf-bridge {CONFLIST}"))?, before)?;

    let list = installed(&node)?;
    let mut scene = Scene::new(node, list);
    let pod = scene.wire("pod1")?;
    let addresses: Vec<_> = pod.result.ips.iter().map(|ip| ip.address.to_string()).collect();
    equal("the pod's addresses", addresses, vec!["10.9.0.2/24".to_owned(), "fd00:9::2/64".to_owned()])?;
    scene.unwire()
}

fn keeps_others() -> Result<()> {
    let node = Node::new()?;
    operate(&node, &format!("install {PLACE} --pod-cidr 10.9.0.0/24"))?.fine()?;
    let said = operate(&node, &format!("install {PLACE} --pod-cidr 10.8.0.0/24"))?.fine()?.stdout;
    ensure!(said.contains(&format!("replaced {CONFLIST}")), "{said}");
    ensure!(node.read(CONFLIST)?.contains("10.8.0.0/24"), "not replaced");
    let said = operate(&node, &format!("install {PLACE}"))?.fine()?.stdout;
    ensure!(said.contains("no configuration was written"), "{said}");
    ensure!(node.read(CONFLIST)?.contains("10.8.0.0/24"), "replaced without being asked");

    let foreign = [("bridge", CONFLIST), ("an old script", "/run/host/opt/cni/bin/ebpf-bridge")];
    for (content, path) in foreign {
        let content =
            if path == CONFLIST { format!(r#"{{"type":"{content}"}}"#) } else { content.to_owned() };
        node.run_in(|| Ok(fs::write(path, &content)?))?;
        let line = format!("install {PLACE} --pod-cidr 10.9.0.0/24");
        let refused = operate(&node, &line)?.refused(1)?;
        ensure!(refused.contains(path) && refused.contains("--force"), "{refused}");
        equal("the foreign file", node.read(path)?, content)?;
        operate(&node, &format!("{line} --force"))?.fine()?;
    }
    installed(&node).map(drop)
}

fn refuses() -> Result<()> {
    let node = Node::new()?;
    let conflists = [
        ("nonsense", "not JSON"),
        (r#"{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"bridge"}]}"#, "no plugin in it"),
        (r#"{"cniVersion":"9.9.9","name":"n","plugins":[{"type":"ebpf-bridge"}]}"#, "9.9.9"),
        (r#"{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"ebpf-bridge","mtu":1}]}"#, "\"mtu\" is 1"),
    ];
    for (text, complaint) in conflists {
        node.run_in(|| Ok(fs::write("/run/given.conflist", text)?))?;
        let said = operate(&node, &format!("install {PLACE} --conflist /run/given.conflist"))?.refused(1)?;
        ensure!(said.contains("/run/given.conflist") && said.contains(complaint), "{text}: {said}");
    }
    for (options, code, complaint) in [
        ("--conflist /run/none.conflist", 1, "/run/none.conflist"),
        ("--pod-cidr 10.9.0.0", 1, "allowed is a subnet"),
        ("--pod-cidr 10.9.0.0/24,10.8.0.0/24", 1, "one of each family"),
        ("--pod-cidr 10.9.0.0/24 --conflist /run/given.conflist", 2, "cannot be used with"),
        ("--conf-name ../x.conflist", 2, "ends in .conflist"),
        ("--conf-name x.conf", 2, "ends in .conflist"),
    ] {
        let said = operate(&node, &format!("install {PLACE} {options}"))?.refused(code)?;
        ensure!(said.contains(complaint), "{options}: {said}");
    }
    ensure!(node.tree("/run/host")?.is_empty(), "something was written");
    Ok(())
}

/// Renames that make names, each with the last fsync before it, as strace shows them.
fn order() -> Result<()> {
    let node = Node::new()?;
    let line = format!(
        "strace -f -y -e trace=fsync,rename -o /run/install.strace {} install {PLACE} --pod-cidr 10.9.0.0/24",
        plugin::path()?.display()
    );
    node.call(&line)?;
    let trace = node.read("/run/install.strace")?;
    let mut synced = String::new();
    let mut named = Vec::new();
    for call in trace.lines() {
        if call.contains("fsync(") {
            let file = call.split(['<', '>']).nth(1).context("fsync of nothing")?;
            synced = file.to_owned();
        } else if call.contains("rename(") {
            let names: Vec<_> = call.split('"').collect();
            equal("synced before it gets its name", synced.as_str(), names[1])?;
            named.push(names[3].to_owned());
        }
    }
    equal("names in their order", named, vec![format!("{BIN}/ebpf-bridge"), CONFLIST.to_owned()])?;
    equal("synced in the end", synced.as_str(), CONF)
}

fn uninstalls() -> Result<()> {
    let node = Variant::Auto.node()?;
    let before = Snapshot::take(&node)?;
    operate(&node, &format!("install {PLACE} --pod-cidr 10.1.0.0/24"))?.fine()?;
    let route = json!([{"podCIDR": "10.2.0.0/24", "via": node.outside().address()}]);
    let conf = config::with(config::bridge("auto"), &json!({"nodeRoutes": route}));
    let mut scene = Scene::new(node, Conflist::of(conf));
    scene.wire("pod1")?;

    let said = operate(&scene.node, &format!("uninstall {PLACE}"))?.fine()?.stdout;
    ensure!(said.contains(&format!("removed {CONFLIST}\n")), "{said}");
    ensure!(said.contains("1 pods of this node need them"), "{said}");
    ensure!(said.contains(&format!("stays   {BIN}/ebpf-bridge")), "{said}");
    ensure!(scene.node.tree("/run/host")?.contains(&"opt/cni/bin/ebpf-bridge".into()), "the binary is gone");
    ensure!(scene.node.tree(CONF)?.is_empty(), "the configuration is not");
    scene.runtime.check(&scene.node, &scene.pods[0].container).context("CHECK after it")?;

    scene.unwire()?;
    ensure!(scene.node.call("ip route show proto 235")?.contains("10.2.0.0/24"), "no route to remove");
    let json = operate(&scene.node, &format!("-o json uninstall {PLACE}"))?.fine()?.json()?;
    equal("what stays", &json["stays"], &json!([]))?;
    Snapshot::take(&scene.node)?.without_link(config::BRIDGE).ensure_equals(&before)?;
    ensure!(scene.node.tree(BIN)?.is_empty(), "the binary stayed");
    Ok(())
}

fn never_installed() -> Result<()> {
    let node = Node::new()?;
    let before = Snapshot::take(&node)?;
    operate(&node, &format!("uninstall {PLACE}"))?.fine()?;
    Snapshot::take(&node)?.ensure_equals(&before)?;

    let foreign = r#"{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"bridge"}]}"#;
    let ours = foreign.replace("bridge", "ebpf-bridge");
    operate(&node, &format!("install {PLACE}"))?.fine()?;
    node.run_in(|| {
        fs::create_dir_all(CONF)?;
        fs::write(CONFLIST, foreign)?;
        Ok(fs::write(format!("{CONF}/20-pods.conflist"), ours)?)
    })?;
    let said = operate(&node, &format!("uninstall {PLACE}"))?.fine()?.stdout;
    ensure!(said.contains(&format!("stays   {CONFLIST}: it is not ours")), "{said}");
    ensure!(said.contains(&format!("stays   {CONF}/20-pods.conflist: it names ebpf-bridge")), "{said}");
    equal("files that are left", node.tree(CONF)?.len() + node.tree(BIN)?.len(), 3)
}

fn unprivileged() -> Result<()> {
    let node = Node::new()?;
    operate(&node, &format!("install {PLACE} --pod-cidr 10.9.0.0/24"))?.fine()?;
    let said = operate_unprivileged(&node, &format!("install {PLACE} --pod-cidr 10.8.0.0/24"))?.refused(1)?;
    ensure!(said.contains("cannot write") && said.contains("Permission denied"), "{said}");
    let said = operate_unprivileged(&node, &format!("uninstall {PLACE}"))?.refused(1)?;
    ensure!(said.contains("cannot remove") && said.contains("Permission denied"), "{said}");
    ensure!(node.read(CONFLIST)?.contains("10.9.0.0/24"), "not what it was");
    operate_unprivileged(&node, "version")?.fine().map(drop)
}

fn about_itself() -> Result<()> {
    let node = Node::new()?;
    let version = operate(&node, "version -o json")?.fine()?.json()?;
    let table = operate(&node, "version")?.fine()?.stdout;
    for key in ["version", "architecture"] {
        let value = version[key].as_str().context(key)?;
        ensure!(table.lines().next().is_some_and(|line| line.contains(value)), "no {value} in {table}");
    }
    ensure!(
        version["cniVersions"].as_array().is_some_and(|list| list.contains(&json!("1.1.0"))),
        "{version}"
    );

    for shell in ["bash", "zsh", "fish"] {
        let script = operate(&node, &format!("completions {shell}"))?.fine()?.stdout;
        ensure!(script.contains("uninstall"), "{shell}: {script}");
    }
    if Need::Tool("bash").missing().is_none() {
        completes(&node)?;
    }
    let page = operate(&node, "man")?.fine()?.stdout;
    ensure!(page.contains(".TH") && page.contains("uninstall"), "{page}");
    let page = operate(&node, "man install")?.fine()?.stdout;
    ensure!(page.contains(r"\-\-pod\-cidr") || page.contains("pod"), "{page}");
    let said = operate(&node, "man nothing")?.refused(1)?;
    ensure!(said.contains("allowed are") && said.contains("uninstall"), "{said}");
    operate(&node, "completions tcsh")?.refused(2).map(drop)
}

/// bash itself completes `ebpf-bridge uni<Tab>`.
fn completes(node: &Node) -> Result<()> {
    let script = format!(
        "source <({} completions bash); words=($(complete -p ebpf-bridge)); COMP_WORDS=(ebpf-bridge uni); \
         COMP_CWORD=1; ${{words[-2]}} ebpf-bridge uni ebpf-bridge; echo \"${{COMPREPLY[@]}}\"",
        plugin::path()?.display()
    );
    let output = node.command("bash").args(["-c", &script]).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    equal("what bash completes", said.trim(), "uninstall")
}
