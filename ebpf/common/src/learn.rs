//! What the kernel did to a packet: the packet as it came in and as it goes out make a [`Flow`].

use crate::{
    checksum,
    flow::{FLOW_ADDRESS, FLOW_IP, FLOW_L2, FLOW_PORT, Flow, FlowKey, Seen},
    headers::{Ip, TCP, TcpRest, Transport},
    reason::Egress,
};

/// Describes a packet. `rest` is given for TCP only; `wire_len` as in [`Seen`].
#[inline(always)]
pub fn see<I: Ip>(
    macs: &crate::flow::Macs,
    ip: &I,
    transport: &Transport,
    rest: Option<&TcpRest>,
    wire_len: u16,
) -> Seen {
    let word = |w: [u16; 2]| (w[0] as u32) << 16 | w[1] as u32;
    let (sequence, acknowledgement) = match rest {
        Some(rest) => (word(transport.word), word(rest.acknowledgement)),
        // The UDP length; its checksum changes under NAT.
        None => (transport.word[0] as u32, 0),
    };
    Seen {
        macs: *macs,
        sequence,
        acknowledgement,
        id: ip.id(),
        len: ip.total_len(),
        wire_len,
        ttl: ip.ttl(),
        dscp: ip.dscp(),
    }
}

/// What the packet has become, seen at an egress hook.
pub struct After<A> {
    /// Its appearance.
    pub seen: Seen,
    /// Its addresses and ports now; the interface index is that of the device it leaves by.
    pub key: FlowKey<A>,
}

/// The flow that repeats what was done between `key`/`before` and `after`. Time, epoch, mark, priority, the kind
/// of the device and last the seal are the caller's to fill in.
///
/// # Errors
/// [`Egress::OtherPacket`] if `after` is not the packet that was noted, [`Egress::Unrepeatable`] if more
/// changed than a flow can express.
#[inline(always)]
pub fn learn<I: Ip>(
    key: &FlowKey<I::Address>,
    before: &Seen,
    after: &After<I::Address>,
) -> Result<Flow<I::Address>, Egress> {
    if key.protocol != after.key.protocol
        || before.id != after.seen.id
        || before.len != after.seen.len
        || before.sequence != after.seen.sequence
        || before.acknowledgement != after.seen.acknowledgement
    {
        return Err(Egress::OtherPacket);
    }
    let ttl_step = before.ttl.wrapping_sub(after.seen.ttl);
    if ttl_step > 1 || before.wire_len != after.seen.wire_len {
        return Err(Egress::Unrepeatable);
    }
    let mut flags = 0;
    if before.macs != after.seen.macs {
        flags |= FLOW_L2;
    }
    if key.saddr != after.key.saddr || key.daddr != after.key.daddr {
        flags |= FLOW_ADDRESS;
    }
    if key.sport != after.key.sport || key.dport != after.key.dport {
        flags |= FLOW_PORT;
    }
    if ttl_step != 0 || before.dscp != after.seen.dscp {
        flags |= FLOW_IP;
    }
    Ok(Flow {
        learned_ns: 0,
        epoch: 0,
        ifindex: after.key.ifindex,
        address_difference: checksum::add(
            I::difference(key.saddr, after.key.saddr),
            I::difference(key.daddr, after.key.daddr),
        ),
        port_difference: checksum::add(
            checksum::difference(key.sport as u32, after.key.sport as u32),
            checksum::difference(key.dport as u32, after.key.dport as u32),
        ),
        mark: 0,
        priority: 0,
        macs_in: before.macs,
        macs_out: after.seen.macs,
        saddr: after.key.saddr,
        daddr: after.key.daddr,
        sport: after.key.sport,
        dport: after.key.dport,
        max_len: before.wire_len,
        flags,
        ttl_step,
        dscp_in: before.dscp,
        dscp_out: after.seen.dscp,
        padding: [0; 2],
        since_s: 0,
        seal: 0,
    })
}

/// L3 length on the wire: that of the packet, or of one segment if the frame is to be segmented into
/// pieces of `gso_size` bytes of payload (0 if it is not).
#[inline(always)]
pub fn wire_len<I: Ip>(ip: &I, rest: Option<&TcpRest>, gso_size: u32) -> u16 {
    if gso_size == 0 {
        return ip.total_len();
    }
    let transport = match rest {
        Some(rest) => rest.header_len(),
        None => size_of::<Transport>() as u32,
    };
    (size_of::<I>() as u32 + transport + gso_size).min(u16::MAX as u32) as u16
}

/// True if a packet of this protocol carries [`TcpRest`] after [`Transport`].
#[inline(always)]
pub fn has_rest(protocol: u8) -> bool {
    protocol == TCP
}
