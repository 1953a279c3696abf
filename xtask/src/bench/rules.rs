//! iptables rules beyond a plugin's: those of a Service and a host port, and those of a node in a cluster of some size.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::IpAddr;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use ebpf_bridge_lab::Place;

/// The Service's address, of the range that Kubernetes takes by default.
pub(super) const CLUSTER_IP: [u8; 4] = [10, 96, 0, 1];
/// Services, as kube-proxy has them: every new connection is compared with each until one is its own.
const SERVICES: u16 = 5000;
/// Rules of a policy that looks at every packet, as those do that do not let established connections pass first.
const POLICIES: u16 = 200;

/// Puts a pod behind the Service's address and behind the node's, as kube-proxy and portmap translate; for all ports,
/// since the generators take any.
pub(super) fn translate(node: &Place, host: IpAddr, pod: IpAddr) -> Result<()> {
    let service = IpAddr::from(CLUSTER_IP);
    let rules =
        [service, host].map(|to| format!("-A PREROUTING -d {to}/32 -j DNAT --to-destination {pod}\n"));
    restore(node, &format!("*nat\n{}COMMIT\n", rules.concat()))
}

/// Puts the rules of a cluster into a node's namespace. None of them is about the traffic that is measured.
pub(super) fn fill(node: &Place) -> Result<()> {
    restore(node, &cluster())
}

fn restore(node: &Place, text: &str) -> Result<()> {
    let mut restore = node
        .command("iptables-restore")
        .arg("--noflush")
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("running iptables-restore")?;
    let written = restore.stdin.take().context("no pipe to iptables-restore")?.write_all(text.as_bytes());
    let output = restore.wait_with_output().context("waiting for iptables-restore")?;
    ensure!(output.status.success(), "iptables-restore: {}", String::from_utf8_lossy(&output.stderr).trim());
    written.context("writing to iptables-restore")
}

/// In the language of iptables-restore(8). kube-proxy jumps to a chain per Service where this translates at once,
/// which is the same to all packets that do not match.
fn cluster() -> String {
    let mut text =
        String::from("*nat\n:SERVICES - [0:0]\n-A PREROUTING -j SERVICES\n-A OUTPUT -j SERVICES\n");
    for number in 0..SERVICES {
        let [high, low] = number.to_be_bytes();
        let service = format!("-d 10.97.{high}.{low}/32 -p tcp -m tcp --dport 80");
        let _ = writeln!(text, "-A SERVICES {service} -j DNAT --to-destination 10.1.0.250:8080");
    }
    text += "COMMIT\n*filter\n:POLICY - [0:0]\n-A FORWARD -j POLICY\n";
    for number in 0..POLICIES {
        let peers = format!("-s 10.244.{number}.0/24 -d 10.245.{number}.0/24 -p tcp -m tcp --dport 443");
        let _ = writeln!(text, "-A POLICY {peers} -j DROP");
    }
    text + "COMMIT\n"
}
