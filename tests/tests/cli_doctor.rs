//! `doctor`: finds what is wrong, and the command it prints mends it. `gc`, `repair` and `plan` with it.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ebpf_bridge_lab::operator::operate;
use ebpf_bridge_lab::{Need, Node, Scene, Snapshot, UPLINK, plugin};
use serde_json::Value;

use crate::check::{equal, eventually};
use crate::cli_status::configured;
use crate::suite::Suite;

/// A fault, and the words of the finding that names it.
struct Fault {
    name: &'static str,
    /// What a shell does to the node; `VETH` is that of pod1.
    plant: &'static str,
    /// Of which check the finding must be, and what it must say.
    check: &'static str,
    says: &'static str,
    /// A part of the command that mends it.
    fix: &'static str,
}

const fn fault(
    name: &'static str,
    plant: &'static str,
    check: &'static str,
    says: &'static str,
    fix: &'static str,
) -> Fault {
    Fault { name, plant, check, says, fix }
}

const FAULTS: [Fault; 22] = [
    fault(
        "forwarding is off",
        "sysctl -qw net.ipv4.ip_forward=0",
        "forwarding",
        "ip_forward is 0",
        "sysctl -w net.ipv4.ip_forward=1",
    ),
    fault(
        "conntrack is strict",
        "sysctl -qw net.netfilter.nf_conntrack_tcp_be_liberal=0",
        "be_liberal",
        "be_liberal is 0",
        "be_liberal=1",
    ),
    fault(
        "conntrack forgets early",
        "sysctl -qw net.netfilter.nf_conntrack_tcp_timeout_unacknowledged=300",
        "timeouts",
        "is 300 s",
        "timeout_unacknowledged=",
    ),
    fault(
        "bridges do not ask iptables",
        "sysctl -qw net.bridge.bridge-nf-call-iptables=0",
        "br_netfilter",
        "bridge-nf-call-iptables is 0",
        "bridge-nf-call-iptables=1",
    ),
    fault(
        "the FORWARD policy is DROP",
        "iptables -P FORWARD DROP",
        "forward_policy",
        "FORWARD chain is DROP",
        "-i br0 -j ACCEPT",
    ),
    fault(
        "a second uplink is filtered strictly",
        "ip link add eth9 type veth peer name far9; ip link set eth9 up; ip link set far9 up; ip address add 198.18.0.1/24 dev eth9; ip route add default via 198.18.0.2 metric 900; sysctl -qw net.ipv4.conf.eth9.rp_filter=1",
        "rp_filter",
        "eth9.rp_filter is strict",
        "eth9.rp_filter=2",
    ),
    fault(
        "the masquerade rules are flushed",
        "nft flush ruleset",
        "masquerade",
        "missing or altered",
        "repair",
    ),
    fault("the bridge is down", "ip link set br0 down", "bridge", "br0 of the node up", "repair"),
    fault("the bridge is deleted", "ip link delete br0", "bridge", "no such link", "repair"),
    fault(
        "the gateway's address is gone",
        "ip address delete 10.1.0.1/24 dev br0",
        "bridge",
        "address 10.1.0.1/24",
        "repair",
    ),
    fault("a veth is no port", "ip link set VETH nomaster", "pods", "a port of bridge br0", "repair"),
    fault(
        "the pod's route is gone",
        "nsenter --net=/run/netns/pod1 ip route delete default",
        "pods",
        "route to 0.0.0.0/0",
        "repair",
    ),
    fault(
        "the pod's lease is gone",
        "rm /var/lib/cni/networks/n1/10.1.0.2",
        "pods",
        "10.1.0.2 is not leased",
        "repair",
    ),
    fault(
        "the programs are off a veth",
        "tc filter delete dev VETH ingress",
        "attached",
        "flow_ingress is not attached to VETH",
        "repair",
    ),
    fault(
        "the programs are off the uplink",
        "rm -f /sys/fs/bpf/ebpf-bridge/v1/links/*; tc qdisc delete dev eth0 clsact 2>/dev/null; true",
        "attached",
        "not attached to eth0",
        "repair",
    ),
    fault("the fast path is switched off", "PLUGIN off >/dev/null", "switch", "switched off", "on"),
    fault(
        "a veth belongs to no pod",
        "ip link add veth0123456789a type veth peer name gone0; ip link set veth0123456789a master br0",
        "veths",
        "veth0123456789a",
        "gc",
    ),
    fault(
        "a lease belongs to no pod",
        "printf 'ghost\\r\\neth0' >/var/lib/cni/networks/n1/10.1.0.77",
        "stale_leases",
        "10.1.0.77",
        "gc",
    ),
    fault("pins of another ABI are left", "mkdir /sys/fs/bpf/ebpf-bridge/v0", "pins", "ebpf-bridge/v0", "gc"),
    fault(
        "another configuration comes first",
        "echo '{\"cniVersion\":\"1.0.0\",\"name\":\"x\",\"type\":\"ptp\"}' >/etc/cni/net.d/00-x.conf",
        "order",
        "00-x.conf comes before 10-n1.conf",
        "00-x.conf.disabled",
    ),
    fault(
        "a configuration is broken",
        "echo nonsense >/etc/cni/net.d/05-y.conf",
        "validity",
        "05-y.conf: not JSON",
        "05-y.conf.broken",
    ),
    fault(
        "the binary is missing",
        "rm /opt/cni/bin/ebpf-bridge",
        "binary",
        "finds no plugin",
        "install --bin-dir /opt/cni/bin",
    ),
];

pub(crate) fn register(suite: &mut Suite) {
    let needs = [Need::Bpf, Need::Tool("iptables"), Need::Tool("nsenter")];
    for fault in &FAULTS {
        let name = format!("doctor: {}: it is found, and the printed command mends it", fault.name);
        suite.test_with(&needs, name, move || mends(fault));
    }
    suite.test_with(
        &[Need::Bpf],
        "doctor: a pod whose namespace is gone is found, and gc takes its traces away",
        namespace_gone,
    );
    suite.test_with(
        &[Need::Bpf],
        "doctor: without a bpffs the printed commands, in turn, make the pods fast again",
        without_bpffs,
    );
    suite.test_with(
        &[Need::Bpf],
        "doctor: of a healthy node there is nothing to mend, and nothing changes",
        healthy,
    );
    suite.test_with(&[Need::Bpf], "doctor: others' programs are told, and are nobody's fault", foreign);
    suite.test_with(
        &[Need::Bpf],
        "doctor: the bundle is a tar archive with the findings and without secrets",
        bundle,
    );
    suite.test_with(
        &[Need::Bpf],
        "operator: `gc --dry-run` tells what `gc` takes away, and takes nothing",
        dry_run,
    );
    suite.test_with(&[Need::Bpf], "operator: `plan` tells what an ADD then does, and touches nothing", plan);
}

/// What is wrong, as scripts get it.
fn wrong(node: &Node) -> Result<Vec<Value>> {
    let answer = operate(node, "doctor -o json")?;
    let json = answer.json()?;
    let mut findings: Vec<Value> = json["findings"].as_array().cloned().unwrap_or_default();
    findings.retain(|finding| finding["verdict"] == "wrong");
    equal("exit code", answer.code, i32::from(!findings.is_empty()))?;
    equal("healthy", json["healthy"].as_bool(), Some(findings.is_empty()))?;
    Ok(findings)
}

/// Types every command that is printed, in the order they are told in, each once.
fn follow(node: &Node) -> Result<()> {
    let mut typed: Vec<String> = Vec::new();
    for fix in wrong(node)?.iter().filter_map(|finding| finding["fix"].as_str()) {
        if !typed.iter().any(|line| line == fix) {
            shell(node, fix)?;
            typed.push(fix.to_owned());
        }
    }
    Ok(())
}

/// The kernel adds link-local addresses when it gets to it.
fn snapshot(node: &Node) -> Result<Snapshot> {
    Ok(Snapshot::take(node)?.without_link_local())
}

fn shell(node: &Node, line: &str) -> Result<()> {
    let output = node.command("sh").args(["-c", line]).output()?;
    ensure!(output.status.success(), "`{line}`: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

fn mends(fault: &Fault) -> Result<()> {
    let scene = configured()?;
    let node = &scene.node;
    equal("what is wrong before", wrong(node)?, Vec::<Value>::new())?;
    let veth = scene.pods[0].result.veth()?.name.clone();
    let plugin = plugin::path()?.display().to_string();
    shell(node, &fault.plant.replace("VETH", &veth).replace("PLUGIN", &plugin))?;
    let found = wrong(node)?;
    let says = fault.says.replace("VETH", &veth);
    let finding = found
        .iter()
        .find(|finding| {
            finding["check"] == fault.check && finding["text"].as_str().unwrap_or_default().contains(&says)
        })
        .with_context(|| format!("not found: {found:#?}"))?;
    let fix = finding["fix"].as_str().unwrap_or_default();
    ensure!(fix.contains(fault.fix), "another fix: {fix}");
    let shown = operate(node, "doctor")?.stdout;
    ensure!(shown.contains(&format!("fix: {fix}")), "not shown: {shown}");
    shell(node, fix)?;
    // One fault may have had another, such as an uplink that is new to us.
    follow(node)?;
    equal("what is wrong after", wrong(node)?, Vec::<Value>::new())?;
    scene.pods.iter().try_for_each(|pod| scene.runtime.check(node, &pod.container))
}

fn namespace_gone() -> Result<()> {
    let mut scene = configured()?;
    scene.pods.remove(0).pod.destroy()?;
    // The kernel takes the interfaces when it gets to it.
    let mut found = Vec::new();
    eventually("the finding", Duration::from_secs(30), || {
        found = wrong(&scene.node)?;
        Ok(found.iter().any(|finding| finding["check"] == "attachments"))
    })?;
    let fix = found[0]["fix"].as_str().context("no fix")?.to_owned();
    ensure!(fix.ends_with(" gc"), "another fix: {fix}");
    shell(&scene.node, &fix)?;
    equal("what is wrong after", wrong(&scene.node)?, Vec::<Value>::new())?;
    let leases = scene.node.tree("/var/lib/cni/networks/n1")?;
    ensure!(!leases.contains(&"10.1.0.2".to_owned()), "the lease is still there: {leases:?}");
    scene.runtime.check(&scene.node, &scene.pods[0].container)
}

fn without_bpffs() -> Result<()> {
    let scene = configured()?;
    scene.node.call("umount /sys/fs/bpf")?;
    let found = wrong(&scene.node)?;
    equal("the first finding", &found[0]["check"], "bpffs")?;
    follow(&scene.node)?;
    equal("what is wrong after", wrong(&scene.node)?, Vec::<Value>::new())?;
    scene.pods.iter().try_for_each(|pod| scene.runtime.check(&scene.node, &pod.container))
}

fn healthy() -> Result<()> {
    let scene = configured()?;
    let before = snapshot(&scene.node)?;
    let said = operate(&scene.node, "doctor")?.fine()?.stdout;
    ensure!(said.ends_with("nothing to mend\n"), "{said}");
    equal("repair", operate(&scene.node, "repair")?.fine()?.stdout, "nothing to repair\n")?;
    equal("gc", operate(&scene.node, "gc")?.fine()?.stdout, "nothing to remove\n")?;
    snapshot(&scene.node)?.ensure_equals(&before)
}

fn foreign() -> Result<()> {
    let scene = configured()?;
    // One of ours by another name, which is as good as anybody's.
    let pinned = scene.node.call("find /sys/fs/bpf/ebpf-bridge -name flow_egress_out")?;
    let filter = format!("egress pref 9 bpf direct-action object-pinned {}", pinned.trim());
    shell(&scene.node, &format!("tc qdisc add dev {UPLINK} clsact; tc filter add dev {UPLINK} {filter}"))?;
    let json = operate(&scene.node, "doctor -o json")?.fine()?.json()?;
    let notes =
        json["findings"].as_array().into_iter().flatten().filter(|f| f["check"] == "foreign_programs");
    let verdicts: Vec<_> = notes.map(|finding| finding["verdict"].clone()).collect();
    equal("verdicts", verdicts, ["note"])
}

fn bundle() -> Result<()> {
    let scene = configured()?;
    let secret = "s3cr3t-of-theirs";
    let other = format!(
        "{{\"cniVersion\":\"1.0.0\",\"name\":\"y\",\"plugins\":[{{\"type\":\"calico\",\"token\":\"{secret}\"}},\
         {{\"type\":\"ebpf-bridge\",\"password\":\"{secret}\",\"ipam\":{{\"type\":\"x\",\"etcd\":\"{secret}\"}}}}]}}"
    );
    scene.node.write("/etc/cni/net.d/20-y.conflist", &other)?;
    operate(&scene.node, "doctor --bundle /run/bundle.tar")?.fine()?;
    let names = scene.node.call("tar -tf /run/bundle.tar")?;
    for name in ["doctor.txt", "doctor.json", "pods.json", "stats.json", "configurations.json", "node.json"] {
        ensure!(names.contains(&format!("ebpf-bridge/{name}\n")), "no {name}: {names}");
    }
    let all = scene.node.call("tar -xOf /run/bundle.tar")?;
    ensure!(all.contains("nothing to mend") && all.contains("20-y.conflist"), "{all}");
    ensure!(!all.contains(secret), "a secret is in the bundle");
    ensure!(!all.contains('\u{1b}'), "colours are in the bundle");
    Ok(())
}

fn dry_run() -> Result<()> {
    let scene = configured()?;
    shell(&scene.node, "printf 'ghost\\r\\neth0' >/var/lib/cni/networks/n1/10.1.0.77")?;
    let before = snapshot(&scene.node)?;
    let told = operate(&scene.node, "gc --dry-run")?.fine()?.stdout;
    let what = "the lease of 10.1.0.77 in network n1 to ghost/eth0, which is no pod of this node";
    equal("told", told, format!("would remove {what}\n"))?;
    snapshot(&scene.node)?.ensure_equals(&before)?;
    equal("done", operate(&scene.node, "gc")?.fine()?.stdout, format!("removed {what}\n"))?;
    equal("left", operate(&scene.node, "gc")?.fine()?.stdout, "nothing to remove\n")
}

/// Of the node's part of the plan, all is so after the first pod; the pod's part names the address it then gets.
fn plan() -> Result<()> {
    let mut scene: Scene = configured()?;
    let before = snapshot(&scene.node)?;
    let line = format!("{} plan -o json </etc/cni/net.d/10-n1.conf", plugin::path()?.display());
    let output = scene.node.command("sh").args(["-c", &line]).output()?;
    ensure!(output.status.success(), "{output:?}");
    let json: Value = serde_json::from_slice(&output.stdout)?;
    snapshot(&scene.node)?.ensure_equals(&before)?;
    let plan = &json["plans"][0];
    equal("uplinks", &plan["uplinks"][0], UPLINK)?;
    let steps: Vec<&Value> = plan["steps"].as_array().into_iter().flatten().collect();
    let is_so = |text: &str| steps.iter().find(|step| step["text"] == text).map(|step| step["done"] == true);
    equal("masquerade", is_so("masquerade what leaves 10.1.0.0/24 of network n1"), Some(true))?;
    equal("forwarding", is_so("set net.ipv4.ip_forward of the node to 1"), Some(true))?;
    equal("a route", is_so("add a route of the pod to 0.0.0.0/0 via 10.1.0.1 on eth0"), Some(false))?;
    let address = scene.wire("pod3")?.result.ips[0].address;
    equal("the address", &plan["addresses"][0], &*address.to_string())?;
    let refused = scene
        .node
        .command("sh")
        .args(["-c", &line.replace("/etc/cni/net.d/10-n1.conf", "/dev/null")])
        .output()?;
    equal("of nothing", refused.status.code(), Some(1))
}
