//! TCP segments that no socket would send.

use std::net::{IpAddr, SocketAddr};

use anyhow::{Context, Result, bail};
use etherparse::PacketBuilder;
use socket2::{Domain, Protocol, Socket, Type};

/// A segment with ACK set, and payload.
#[derive(Debug, Clone, Copy)]
pub struct Segment {
    /// Sender.
    pub from: SocketAddr,
    /// Receiver.
    pub to: SocketAddr,
    /// Sequence number.
    pub sequence: u32,
    /// Acknowledgement number.
    pub acknowledgement: u32,
    /// Set for a reset as well.
    pub reset: bool,
    /// Whether the checksum is to be right.
    pub checksum_right: bool,
}

/// `IPPROTO_RAW`: the caller writes the IP header.
const RAW: i32 = 255;

impl Segment {
    /// The packet, from its IP header on.
    pub fn packet(&self) -> Result<Vec<u8>> {
        const PAYLOAD: &[u8] = b"too late";
        let builder = match (self.from.ip(), self.to.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => PacketBuilder::ipv4(from.octets(), to.octets(), 64),
            (IpAddr::V6(from), IpAddr::V6(to)) => PacketBuilder::ipv6(from.octets(), to.octets(), 64),
            _ => bail!("addresses of two families: {self:?}"),
        };
        let tcp = builder.tcp(self.from.port(), self.to.port(), self.sequence, 512);
        let tcp = tcp.ack(self.acknowledgement);
        let tcp = if self.reset { tcp.rst() } else { tcp };
        let mut packet = Vec::with_capacity(tcp.size(PAYLOAD.len()));
        tcp.write(&mut packet, PAYLOAD).context("building a segment")?;
        if !self.checksum_right {
            // The payload's last byte: the checksum is of what was there before.
            *packet.last_mut().context("an empty packet")? ^= 0x55;
        }
        Ok(packet)
    }

    /// Sends it from the place the caller is in.
    pub fn send(&self) -> Result<()> {
        let socket = Socket::new(Domain::for_address(self.to), Type::RAW, Some(Protocol::from(RAW)))?;
        let mut to = self.to;
        // A raw IPv6 socket refuses a port.
        to.set_port(0);
        socket.send_to(&self.packet()?, &to.into()).with_context(|| format!("sending {self:?}"))?;
        Ok(())
    }
}
