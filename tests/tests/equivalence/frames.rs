//! The corpus, sent frame by frame.

use std::fmt;
use std::net::IpAddr;

use anyhow::{Context, Result, bail, ensure};
use ebpf_bridge_lab::frame::{Frame, Transport, correct};
use ebpf_bridge_lab::traffic::{self, Capture, Injector};
use ebpf_bridge_lab::{Family, Place, Scene, Stats, UPLINK, Variant, config, observe};

use super::corpus::{Fast, Row, rows};
use super::seen::{is_error, is_from, normal};

/// Ordinary packets sent first, so that the flow is known and long packets are too.
const ORDINARY: usize = 4;
/// How often each frame is sent then.
const COPIES: usize = 8;
/// Fast copies that must be among them: on a busy machine a note can be too old when its packet leaves.
const FAST: u64 = 4;
/// Less than the bridge's, so that some packets do not fit.
const UPLINK_MTU: u32 = 1400;

/// Where the packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Over the bridge.
    Pod,
    /// Routed, and masqueraded.
    Outside,
}

impl Way {
    pub(super) const ALL: [Way; 2] = [Way::Pod, Way::Outside];
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Way::Pod { "another pod" } else { "outside" })
    }
}

/// What became of the copies of one packet.
struct Seen {
    /// Those that were fast; 0 with mode off.
    redirected: u64,
    /// The ordinary packets first.
    received: Vec<Vec<u8>>,
    /// ICMP errors that reached the sender.
    answered: Vec<Vec<u8>>,
}

/// A node with two pods, on which one variant is tried.
struct World {
    scene: Scene,
    variant: Variant,
    way: Way,
    family: Family,
    injector: Injector,
    macs: [[u8; 6]; 2],
}

pub(super) fn corpus(way: Way, family: Family) -> Result<()> {
    let (on, off) = (World::new(Variant::Auto, way, family)?, World::new(Variant::Off, way, family)?);
    let mut differences = Vec::new();
    let rows = rows().into_iter().filter(|row| row.only.is_none_or(|only| only == family));
    for (number, row) in rows.enumerate() {
        if let Err(error) = compare(&on, &off, &row, 20_000 + number as u16) {
            differences.push(format!("{}: {error:#}", row.name));
        }
    }
    ensure!(differences.is_empty(), "{}", differences.join("\n"));
    Ok(())
}

fn compare(on: &World, off: &World, row: &Row, port: u16) -> Result<()> {
    // The meant difference, see the parent module.
    if on.way == Way::Outside && row.name == "a wrong UDP checksum" {
        return Ok(());
    }
    let expected = off.send(row, port).context("with mode off")?;
    let got = on.send(row, port).context("on the fast path")?;
    let redirected = got.redirected;
    let fast = row.fast == Fast::Always || row.fast == Fast::Bridged && on.way == Way::Pod;
    match fast {
        true => ensure!(redirected >= FAST, "only {redirected} of {COPIES} copies were fast"),
        false => ensure!(redirected == 0, "{redirected} copies were fast"),
    }
    ensure!(!fast || got.received.len() == ORDINARY + COPIES, "{} packets arrived", got.received.len());
    equal("arrived", &got.received, &expected.received)?;
    equal("answered", &got.answered, &expected.answered)
}

fn equal(what: &str, got: &[Vec<u8>], expected: &[Vec<u8>]) -> Result<()> {
    if let Some((got, expected)) = got.iter().zip(expected).find(|(got, expected)| got != expected) {
        bail!("{what} on the fast path {got:x?}, without it {expected:x?}");
    }
    ensure!(
        got.len() == expected.len(),
        "{what}: {} on the fast path, {} without it",
        got.len(),
        expected.len()
    );
    Ok(())
}

impl World {
    fn new(variant: Variant, way: Way, family: Family) -> Result<World> {
        let scene = Scene::dual_stack(variant, 2)?;
        let node = &scene.node;
        for end in [&**node, &**node.outside()] {
            end.call(&format!("ip link set {UPLINK} mtu {UPLINK_MTU}"))?;
        }
        // Every packet that deserves an answer gets one.
        node.set_sysctl("net.ipv4.icmp_ratelimit", "0")?;
        node.set_sysctl("net.ipv6.icmp.ratelimit", "0")?;
        let next = match way {
            Way::Pod => observe::link(&scene.pods[1], "eth0")?,
            Way::Outside => observe::link(node, config::BRIDGE)?,
        };
        let macs = [mac(&next.mac)?, mac(&observe::link(&scene.pods[0], "eth0")?.mac)?];
        let injector = Injector::new(&scene.pods[0], "eth0")?;
        let world = World { scene, variant, way, family, injector, macs };
        world.mute()?;
        Ok(world)
    }

    fn receiver(&self) -> &Place {
        match self.way {
            Way::Pod => &self.scene.pods[1],
            Way::Outside => self.scene.node.outside(),
        }
    }

    fn addresses(&self) -> [IpAddr; 2] {
        let from = self.scene.pods[0].address_in(self.family);
        match self.way {
            Way::Pod => [from, self.scene.pods[1].address_in(self.family)],
            Way::Outside => [from, self.scene.node.outside().address_in(self.family)],
        }
    }

    /// Whom the receiver takes for the sender.
    fn sender(&self) -> IpAddr {
        match self.way {
            Way::Pod => self.scene.pods[0].address_in(self.family),
            Way::Outside => self.scene.node.outside().node_address_in(self.family),
        }
    }

    /// Finds the neighbours; afterwards the receiver's sockets say nothing to packets they did not expect.
    fn mute(&self) -> Result<()> {
        let receiver = self.receiver();
        traffic::echo(&self.scene.pods[0], receiver, self.addresses()[1], 3, 32)
            .context("finding the neighbours")?;
        receiver.call("nft add table inet mute")?;
        receiver.call("nft add chain inet mute c { type filter hook input priority -300 ; }")?;
        receiver.call("nft add rule inet mute c meta l4proto != { icmp, icmpv6 } drop")?;
        Ok(())
    }

    /// An ordinary packet.
    fn frame(&self, port: u16) -> Frame {
        Frame {
            macs: self.macs,
            addresses: self.addresses(),
            ttl: 64,
            dscp: 0,
            ecn: 0,
            id: port,
            dont_fragment: false,
            ports: [port, 4_000],
            transport: Transport::Tcp { sequence: 1, acknowledgement: 1 },
            payload: vec![0x42; 1_300],
        }
    }

    fn redirected(&self) -> Result<u64> {
        if self.variant == Variant::Off { Ok(0) } else { Ok(Stats::read(&self.scene.node)?.redirected()) }
    }

    fn send(&self, row: &Row, port: u16) -> Result<Seen> {
        let ordinary = self.frame(port);
        let mut frame = ordinary.clone();
        frame.payload.truncate(64);
        (row.frame)(&mut frame);
        let ordinary = Frame { transport: frame.transport, ..ordinary }.build();
        let mut bytes = frame.build();
        (row.bytes)(&mut bytes);
        if row.fast != Fast::Broken {
            correct(&mut bytes);
        }
        let sender = self.sender();
        let arriving =
            Capture::start(self.receiver(), move |frame| frame.for_host && is_from(frame, sender))?;
        let errors = Capture::start(&self.scene.pods[0], is_error)?;
        for _ in 0..ORDINARY {
            self.injector.send(&ordinary)?;
        }
        let before = self.redirected()?;
        for _ in 0..COPIES {
            self.injector.send(&bytes)?;
        }
        let redirected = self.redirected()? - before;
        let normal =
            |capture: Capture| -> Result<Vec<_>> { Ok(capture.stop()?.iter().map(normal).collect()) };
        Ok(Seen { redirected, received: normal(arriving)?, answered: normal(errors)? })
    }
}

pub(super) fn mac(text: &str) -> Result<[u8; 6]> {
    let bytes = text.split(':').map(|byte| u8::from_str_radix(byte, 16)).collect::<Result<Vec<_>, _>>()?;
    bytes.try_into().ok().with_context(|| format!("no MAC: {text}"))
}
