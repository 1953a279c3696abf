//! Conntrack, which sees little of a fast flow: it must not forget the flow early, nor find it invalid.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ebpf_bridge_lab::libcni::Conflist;
use ebpf_bridge_lab::traffic::{self, PATIENCE};
use ebpf_bridge_lab::{Family, Need, Node, Scene, Stats, config};
use serde_json::json;

use crate::check::equal;
use crate::suite::Suite;

const PORT: u16 = 7000;
/// Shortened, in seconds; 300 by default.
const UNACKNOWLEDGED: &str = "net.netfilter.nf_conntrack_tcp_timeout_unacknowledged";
const SHORT: u64 = 2;

pub(crate) fn register(suite: &mut Suite) {
    for family in Family::ALL {
        for (name, talk) in TALKS {
            let name = format!(
                "idle: after {name} and a silence past conntrack's timeout_unacknowledged the server is heard, {family}"
            );
            suite.test_with(&[Need::Bpf], name, move || server_first(family, talk));
        }
    }
    suite.test_with(
        &[Need::Bpf],
        "idle: without liberal conntrack TCP stays with the kernel, says why, and UDP is fast",
        not_liberal,
    );
}

/// What client and server say before the silence, for longer than one `renew`.
type Talk = fn(&mut TcpStream, &mut TcpStream) -> Result<()>;
const TALKS: [(&str, Talk); 3] = [
    ("requests and answers", requests),
    ("an upload", |client, server| stream(client, server)),
    ("a download", |client, server| stream(server, client)),
];

fn requests(client: &mut TcpStream, server: &mut TcpStream) -> Result<()> {
    for _ in 0..800 {
        say(client, server)?;
        say(server, client)?;
        thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

fn stream(from: &mut TcpStream, to: &mut TcpStream) -> Result<()> {
    for _ in 0..800 {
        say(from, to)?;
        thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

fn say(from: &mut TcpStream, to: &mut TcpStream) -> Result<()> {
    let mut heard = [0; 100];
    from.write_all(&[0x5a; 100])?;
    to.read_exact(&mut heard).context("nothing is heard")
}

fn server_first(family: Family, talk: Talk) -> Result<()> {
    let node = Node::new()?;
    node.set_sysctl(UNACKNOWLEDGED, &SHORT.to_string())?;
    let mut scene = Scene::new(node, Conflist::of(config::dual_stack("required")));
    scene.wire("pod1")?;
    let (mut client, mut server) = connect(&scene, scene.node.outside().address_in(family))?;
    let before = Stats::read(&scene.node)?;
    talk(&mut client, &mut server)?;
    let counted = &Stats::read(&scene.node)? - &before;
    ensure!(counted.fast_share() > 0.9, "the connection was not fast: {counted:?}");
    thread::sleep(Duration::from_secs(SHORT + 2));
    say(&mut server, &mut client).context("from the server, after the silence")?;
    say(&mut client, &mut server).context("from the client, after that")
}

fn connect(scene: &Scene, address: IpAddr) -> Result<(TcpStream, TcpStream)> {
    let to = SocketAddr::from((address, PORT));
    let listener = scene.node.outside().run_in(|| Ok(TcpListener::bind(to)?))?;
    let client = scene.pods[0].run_in(|| Ok(TcpStream::connect_timeout(&to, PATIENCE)?))?;
    let (server, _) = listener.accept()?;
    for end in [&client, &server] {
        end.set_nodelay(true)?;
        end.set_read_timeout(Some(PATIENCE))?;
    }
    Ok((client, server))
}

fn not_liberal() -> Result<()> {
    let changes = json!({"ebpf": {"conntrackLiberal": false}});
    let list = Conflist::of(config::with(config::dual_stack("required"), &changes));
    let mut scene = Scene::new(Node::new()?, list);
    scene.wire("pod1")?;
    scene.wire("pod2")?;
    equal("the sysctl", scene.node.sysctl("net.netfilter.nf_conntrack_tcp_be_liberal")?.as_str(), "0")?;
    let pod = &scene.pods[0];
    for family in Family::ALL {
        let places = [
            (&**scene.node.outside(), scene.node.outside().address_in(family)),
            (&*scene.pods[1], scene.pods[1].address_in(family)),
        ];
        for (server, address) in places {
            let before = Stats::read(&scene.node)?;
            traffic::round_trips(pod, server, address, 500)?;
            let counted = &Stats::read(&scene.node)? - &before;
            equal("fast packets of TCP", counted.redirected(), 0)?;
            ensure!(counted.ingress["tcp_not_liberal"] >= 1000, "{counted:?}");
            let before = Stats::read(&scene.node)?;
            equal("datagrams lost", traffic::echo(pod, server, address, 500, 64)?.lost, 0)?;
            let counted = &Stats::read(&scene.node)? - &before;
            ensure!(counted.fast_share() > 0.9, "UDP is not fast: {counted:?}");
        }
    }
    let log = scene.log()?;
    ensure!(log.contains("TCP is not accelerated") && log.contains("be_liberal"), "the log:\n{log}");
    Ok(())
}
