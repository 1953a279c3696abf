//! What is sent in the demo, and which way it went.

use std::net::IpAddr;

use anyhow::Result;
use ebpf_bridge_lab::traffic::{download, echo, upload};
use ebpf_bridge_lab::{Family, Place, Scene, Stats};

use super::SHARE;
use super::page::{Page, grouped};

const BULK: u64 = 100 << 20;
const DATAGRAMS: u64 = 10_000;

/// What one exchange did: the client as the server saw it, and a figure worth showing.
struct Outcome {
    client_seen: IpAddr,
    figure: String,
}

type Exchange = fn(&Place, &Place, IpAddr) -> Result<Outcome>;

const EXCHANGES: [(&str, Exchange); 3] =
    [("TCP 100 MB to", tcp_to), ("TCP 100 MB from", tcp_from), ("UDP echo with", udp)];
/// An address like a Service's, which no interface has.
pub(super) const CLUSTER_IP: &str = "10.96.0.1";

/// Whom the client talks to.
struct Peer<'a> {
    name: &'a str,
    place: &'a Place,
    address: IpAddr,
    /// The client as it must see it.
    client: IpAddr,
}

/// Sends everything to the second pod, to the outside host and to the service, and shows who carried the packets.
pub(super) fn show(page: &mut Page, scene: &Scene) -> Result<()> {
    let client = &scene.pods[0];
    page.heading(&format!("Traffic of {}: packets by who carried them", client.name()));
    page.line(&format!("   {:<30} {:>10} {:>10} {:>8}", "", "fast path", "kernel", "share"));
    let mut strangers = Vec::new();
    for peer in peers(scene)? {
        for (what, exchange) in EXCHANGES {
            let before = Stats::read(&scene.node)?;
            let outcome = exchange(client, peer.place, peer.address)?;
            let counted = &Stats::read(&scene.node)? - &before;
            show_counts(page, &format!("{what} {}", peer.name), &counted, &outcome.figure);
            if outcome.client_seen != peer.client {
                strangers.push(format!("{} saw {}", peer.name, outcome.client_seen));
            }
        }
    }
    page.line("");
    page.line("The kernel carries the start and the end of every connection, and one packet a second to be");
    page.line("asked again; the programs repeat what it did. A packet is what the programs see: up to 64 KB of TCP.");
    show_addresses_seen(page, scene, &strangers);
    Ok(())
}

fn peers(scene: &Scene) -> Result<Vec<Peer<'_>>> {
    let (client, server, outside) = (&scene.pods[0], &scene.pods[1], scene.node.outside());
    let mut peers = Vec::new();
    for (family, pod, beyond) in
        [(Family::V4, "pod2", "outside"), (Family::V6, "pod2, IPv6", "outside, IPv6")]
    {
        let own = client.address_in(family);
        peers.push(Peer { name: pod, place: server, address: server.address_in(family), client: own });
        let (address, client) = (outside.address_in(family), outside.node_address_in(family));
        peers.push(Peer { name: beyond, place: outside, address, client });
    }
    let service = CLUSTER_IP.parse()?;
    peers.push(Peer { name: "a ClusterIP", place: server, address: service, client: client.address() });
    Ok(peers)
}

fn show_counts(page: &mut Page, what: &str, counted: &Stats, figure: &str) {
    let (fast, kernel) = (grouped(counted.redirected()), grouped(counted.by_kernel()));
    let share = counted.fast_share();
    let line = format!("{what:<30} {fast:>10} {kernel:>10} {:>6.1} %   {figure}", 100.0 * share);
    page.verdict(share > SHARE, &line);
}

fn show_addresses_seen(page: &mut Page, scene: &Scene, strangers: &[String]) {
    let outside = scene.node.outside();
    page.heading("Addresses");
    let seen = format!(
        "outside saw {} and {}, the node's addresses, and never the pod's; pod2 saw the pod's own",
        outside.node_address(),
        outside.node_address_v6(),
    );
    page.verdict(strangers.is_empty(), &seen);
    strangers.iter().for_each(|stranger| page.line(stranger));
}

fn tcp_to(client: &Place, server: &Place, address: IpAddr) -> Result<Outcome> {
    let sent = upload(client, server, address, BULK)?;
    Ok(Outcome { client_seen: sent.peer.ip(), figure: rate(sent.elapsed.as_secs_f64()) })
}

fn tcp_from(client: &Place, server: &Place, address: IpAddr) -> Result<Outcome> {
    let sent = download(client, server, address, BULK)?;
    Ok(Outcome { client_seen: sent.peer.ip(), figure: rate(sent.elapsed.as_secs_f64()) })
}

fn udp(client: &Place, server: &Place, address: IpAddr) -> Result<Outcome> {
    let echo = echo(client, server, address, DATAGRAMS, 64)?;
    Ok(Outcome {
        client_seen: echo.peer.ip(),
        figure: format!("{} of {} lost", echo.lost, grouped(echo.sent)),
    })
}

fn rate(seconds: f64) -> String {
    format!("{:.1} Gbit/s", BULK as f64 * 8.0 / seconds / 1e9)
}
