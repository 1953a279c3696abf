//! `cargo xtask demo`: two pods wired by the plugin, real traffic, and who carried it, for someone who sees it for
//! the first time.

mod page;
mod traffic;

use std::env;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use ebpf_bridge_lab::libcni::Conflist;
use ebpf_bridge_lab::{Need, Node, Scene, Snapshot, UPLINK, config, observe, plugin};

use self::page::Page;
use crate::fault::Fault;
use crate::workspace::Workspace;
use crate::{build, debian};

/// The part of a 100 MB transfer's packets that must take the fast path.
const SHARE: f64 = 0.95;

/// Builds what is missing, then plays the story. The exit code tells whether all of it came true.
pub(crate) fn run(workspace: &Workspace) -> Result<ExitCode> {
    check_machine()?;
    if env::var_os(plugin::PATH_VARIABLE).is_none() {
        plugin::choose(build::run(workspace)?);
    }
    let start = Instant::now();
    let mut page = Page::new();
    let node = Node::new()?;
    // ADD turns it on as well, and leaves it on; the kernel then gives every link anycast routes.
    node.set_sysctl("net.ipv6.conf.all.forwarding", "1")?;
    let before = Snapshot::take(&node)?;
    let scene = wire(node)?;
    let service = offer_service(&scene)?;
    show_addresses(&mut page, &scene)?;
    show_programs(&mut page, &scene)?;
    traffic::show(&mut page, &scene)?;
    scene.node.call(&format!("nft delete table {service}"))?;
    show_removal(&mut page, &scene, &before)?;
    Ok(page.conclude(start.elapsed()))
}

fn check_machine() -> Result<()> {
    if !debian::is_root() {
        let sentence = "the demo makes network namespaces and loads eBPF programs, which only root may";
        return Err(Fault::new(sentence, "become root (`sudo -s`), then `cargo xtask demo`").into());
    }
    for (tool, package) in [("ip", "iproute2"), ("nft", "nftables")] {
        if Need::Tool(tool).missing().is_some() {
            install(tool, package)?;
        }
    }
    match [Need::Lab, Need::Bpf].into_iter().find_map(Need::missing) {
        Some(missing) => Err(Fault::new(missing, "run the demo on a Linux machine that has it").into()),
        None => Ok(()),
    }
}

fn install(tool: &str, package: &str) -> Result<()> {
    let mend = format!("install the package that has `{tool}` (Debian: {package})");
    let sentence = format!("the demo looks at the node with `{tool}`, which is not here");
    if debian::refusal().is_some() {
        return Err(Fault::new(sentence, mend).into());
    }
    debian::update().and_then(|()| debian::install(&[package])).map_err(|error| {
        let sentence = format!("{sentence}, and installing it failed: {error:#}");
        Fault::new(sentence, mend).into()
    })
}

fn wire(node: Node) -> Result<Scene> {
    let mut scene = Scene::new(node, Conflist::of(config::dual_stack("auto")));
    for name in ["pod1", "pod2"] {
        scene.wire(name)?;
    }
    Ok(scene)
}

/// What kube-proxy does for a Service with one backend: a DNAT rule, of which the plugin knows nothing. Returns the
/// table it is in.
fn offer_service(scene: &Scene) -> Result<&'static str> {
    let table = "ip demo-service";
    // Replies go from pod to pod over the bridge, and must be translated back there.
    scene.node.set_sysctl("net.bridge.bridge-nf-call-iptables", "1")?;
    scene.node.call(&format!(
        "nft add table {table} ; \
         add chain {table} prerouting {{ type nat hook prerouting priority dstnat ; }} ; \
         add rule {table} prerouting ip daddr {} dnat to {}",
        traffic::CLUSTER_IP,
        scene.pods[1].address()
    ))?;
    Ok(table)
}

fn show_addresses(page: &mut Page, scene: &Scene) -> Result<()> {
    let outside = scene.node.outside();
    let gateway =
        scene.pods[0].result.ips.first().and_then(|ip| ip.gateway).context("no gateway in the result")?;
    page.heading("A node, two pods and a host outside, each in a network namespace of its own");
    for pod in &scene.pods {
        let inside = &pod.result.inside()?.name;
        let veth = &pod.result.veth()?.name;
        page.line(&format!(
            "{:<8} {:<14} {inside} <-> {veth}, a port of {}",
            pod.name(),
            pod.address(),
            config::BRIDGE
        ));
    }
    page.line(&format!("{:<8} {:<14} {}, the pods' gateway", "node", gateway, config::BRIDGE));
    page.line(&format!("{:<8} {:<14} {UPLINK}, the uplink", "", outside.node_address()));
    page.line(&format!("{:<8} {:<14} beyond the uplink, has no route to pods", "outside", outside.address()));
    let service = format!("a rule of netfilter's translates it to {}", scene.pods[1].name());
    page.line(&format!("{:<8} {:<14} {service}", "service", traffic::CLUSTER_IP));
    page.line("and each has an IPv6 address too, with IPv6 masquerade at the uplink");
    Ok(())
}

fn show_programs(page: &mut Page, scene: &Scene) -> Result<()> {
    page.heading("The eBPF programs, as the plugin says and the kernel confirms");
    let status = scene.status()?;
    for device in &status.devices {
        let found = observe::programs(&scene.node, &device.ifname)?;
        let confirmed =
            ["ingress", "egress"].iter().all(|direction| found.iter().any(|p| p.direction == *direction));
        let what = format!("{:<15} {:<8} {}", device.ifname, device.kind, device.programs.join(" and "));
        page.verdict(confirmed, &format!("{what} ({})", device.attach));
    }
    page.verdict(status.devices.len() == 3, "the two veths and the uplink have them");
    for pod in status.pods.iter().filter(|pod| !pod.accelerated) {
        page.verdict(false, &format!("{} is not accelerated: {}", pod.container_id, pod.why));
    }
    Ok(())
}

fn show_removal(page: &mut Page, scene: &Scene, before: &Snapshot) -> Result<()> {
    page.heading("DEL of both pods");
    scene.unwire()?;
    let changes = Snapshot::take(&scene.node)?.without_link(config::BRIDGE).changes_since(before);
    let left = format!(
        "links, addresses, routes, firewall rules, pins and leases are what they were, the bridge {} aside",
        config::BRIDGE
    );
    page.verdict(changes.is_empty(), &left);
    changes.iter().for_each(|change| page.line(change));
    Ok(())
}
