//! Who takes part.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use ebpf_bridge_lab::frame::{Frame, Transport};
use ebpf_bridge_lab::libcni::Conflist;
use ebpf_bridge_lab::traffic::{self, Injector};
use ebpf_bridge_lab::{Family, Node, Scene, Variant, WiredPod, config};
use serde_json::{Value, json};

pub(super) const PORT: u16 = 7100;
const CLIENT: u16 = 40_100;
/// `ebpf.renew` of the node, unless a test says otherwise.
pub(super) const RENEW: Duration = Duration::from_secs(2);
/// What the payloads of the frames begin with.
const MARK: &[u8] = b"hostile ";

/// A victim that streams to a server, and an attacker on the same bridge.
pub(super) struct Stage {
    pub(super) scene: Scene,
    pub(super) family: Family,
    /// Of victim, server, attacker.
    pub(super) macs: [[u8; 6]; 3],
    pub(super) gateway: [u8; 6],
}

impl Stage {
    pub(super) fn new(variant: Variant, family: Family, changes: &Value) -> Result<Stage> {
        let changes = config::with(json!({"ebpf": {"renew": "2s"}}), changes);
        let list = Conflist::of(config::with(config::dual_stack(mode(variant)), &changes));
        let mut scene = Scene::new(Node::new()?, list);
        for name in ["victim", "server", "attacker"] {
            scene.wire(name)?;
        }
        let mut macs = [[0; 6]; 3];
        for (mac, pod) in macs.iter_mut().zip(&scene.pods) {
            *mac = parse_mac(pod.result.inside()?.mac.as_deref().context("no MAC in the result")?)?;
        }
        let link = scene.node.call_json("ip -json link show br0")?;
        let gateway = parse_mac(link[0]["address"].as_str().context("a bridge without a MAC")?)?;
        let stage = Stage { scene, family, macs, gateway };
        // Everybody's neighbours and the bridge's ports are known from here on.
        let (victim, server, attacker) = stage.pods();
        for (client, to) in [(attacker, server), (attacker, victim), (victim, server)] {
            traffic::round_trips(client, to, to.address_in(family), 20)?;
        }
        traffic::round_trips(attacker, stage.scene.node.outside(), stage.outside(), 20)?;
        Ok(stage)
    }

    pub(super) fn pods(&self) -> (&WiredPod, &WiredPod, &WiredPod) {
        (&self.scene.pods[0], &self.scene.pods[1], &self.scene.pods[2])
    }

    pub(super) fn address(&self, pod: usize) -> IpAddr {
        self.scene.pods[pod].address_in(self.family)
    }

    pub(super) fn outside(&self) -> IpAddr {
        self.scene.node.outside().address_in(self.family)
    }

    /// A datagram as the attacker's own socket would send it to the server.
    pub(super) fn honest(&self) -> Frame {
        Frame {
            macs: [self.macs[1], self.macs[2]],
            addresses: [self.address(2), self.address(1)],
            ttl: 64,
            dscp: 0,
            ecn: 0,
            id: 0,
            dont_fragment: true,
            ports: [CLIENT, PORT],
            transport: Transport::Udp { checksum: true },
            payload: payload("honest"),
        }
    }

    /// A datagram of the victim's flow to the server, out of the attacker's device.
    pub(super) fn of_the_victim(&self) -> Frame {
        Frame { addresses: [self.address(0), self.address(1)], ..self.honest() }
    }

    pub(super) fn injector(&self, pod: usize) -> Result<Injector> {
        Injector::new(&self.scene.pods[pod], "eth0")
    }
}

fn mode(variant: Variant) -> &'static str {
    if variant == Variant::Off { "off" } else { "required" }
}

fn parse_mac(text: &str) -> Result<[u8; 6]> {
    let mut mac = [0; 6];
    for (byte, text) in mac.iter_mut().zip(text.split(':')) {
        *byte = u8::from_str_radix(text, 16)?;
    }
    Ok(mac)
}

pub(super) fn payload(name: &str) -> Vec<u8> {
    [MARK, format!("{name:<32}").as_bytes()].concat()
}

pub(super) fn hostile(bytes: &[u8]) -> Option<String> {
    let at = bytes.windows(MARK.len()).position(|window| window == MARK)?;
    let name = bytes.get(at + MARK.len()..)?;
    Some(String::from_utf8_lossy(&name[..name.len().min(32)]).trim_end().into())
}
