//! A frame in user space, read and written as the programs do it.

use ebpf_bridge_common::{
    checksum,
    flow::{FLOW_ADDRESS, FLOW_PORT, Flow, FlowKey, Seen},
    headers::{Ethernet, Ip, TCP, TcpRest, Transport, UDP, admit_transport},
    learn::{has_rest, see, wire_len},
    reason::Ingress,
};
use etherparse::Ipv4Header;

const L3: usize = size_of::<Ethernet>();

/// The bytes of a frame.
#[derive(Clone)]
pub(super) struct Frame(pub(super) Vec<u8>);

/// The transport header.
pub(super) struct Headers {
    transport: Transport,
    rest: Option<TcpRest>,
}

impl Frame {
    /// A frame; with `intact` its IPv4 header checksum is made right, if it has one.
    pub(super) fn new(bytes: &[u8], intact: bool) -> Self {
        let mut bytes = bytes.to_vec();
        if intact
            && bytes.get(L3) == Some(&0x45)
            && let Ok((header, _)) = Ipv4Header::from_slice(&bytes[L3..])
        {
            bytes[L3 + 10..L3 + 12].copy_from_slice(&header.calc_header_checksum().to_be_bytes());
        }
        Self(bytes)
    }

    /// The EtherType, host order.
    pub(super) fn ethertype(&self) -> Option<u16> {
        self.at::<Ethernet>(0).map(|ethernet| u16::from_be(ethernet.ethertype))
    }

    /// The header of type `T` at `offset`, if the frame holds it.
    pub(super) fn at<T: Copy>(&self, offset: usize) -> Option<T> {
        let bytes = self.0.get(offset..offset + size_of::<T>())?;
        // SAFETY: as many bytes as the type has; the header types are integers only, so any bytes are a value.
        Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
    }

    fn put<T: Copy>(&mut self, offset: usize, value: T) {
        let bytes = &mut self.0[offset..offset + size_of::<T>()];
        // SAFETY: as many bytes as the type has; the header types have no padding that would be read as bytes.
        unsafe { bytes.as_mut_ptr().cast::<T>().write_unaligned(value) }
    }

    /// Bytes behind the Ethernet header.
    pub(super) fn l3_available(&self) -> u32 {
        self.0.len().saturating_sub(L3) as u32
    }

    /// The transport header of TCP or UDP.
    pub(super) fn headers<I: Ip>(&self, ip: &I) -> Option<Headers> {
        if ip.protocol() != TCP && ip.protocol() != UDP {
            return None;
        }
        let offset = L3 + size_of::<I>();
        let transport = self.at(offset)?;
        let rest = if has_rest(ip.protocol()) { Some(self.at(offset + 8)?) } else { None };
        Some(Headers { transport, rest })
    }

    /// Corrects the TCP or UDP checksum for what a flow changes; 0 means that UDP does without (RFC 768).
    pub(super) fn correct_checksum<I: Ip>(&mut self, ip: &I, flow: &Flow<I::Address>) {
        let udp = ip.protocol() == UDP;
        let offset = L3 + size_of::<I>() + if udp { 6 } else { 16 };
        let Some(old) = self.at::<u16>(offset).filter(|check| !udp || *check != 0) else { return };
        let update = |check, flag, difference| {
            if flow.flags & flag == 0 { check } else { checksum::update(check, difference) }
        };
        let new = update(old, FLOW_ADDRESS, flow.address_difference);
        let new = update(new, FLOW_PORT, flow.port_difference);
        self.put(offset, if udp && new == 0 { u16::MAX } else { new });
    }

    /// Writes what a flow changes, the IP header as it has become.
    pub(super) fn rewrite<I: Ip>(&mut self, ip: &I, flow: &Flow<I::Address>) {
        let offset = L3 + size_of::<I>();
        let (ethernet, transport) = (self.at::<Ethernet>(0), self.at::<Transport>(offset));
        let (Some(ethernet), Some(transport)) = (ethernet, transport) else { return };
        self.put(0, Ethernet { macs: flow.macs_out, ..ethernet });
        self.put(L3, *ip);
        self.put(offset, Transport { sport: flow.sport, dport: flow.dport, ..transport });
    }
}

impl Headers {
    /// Whether the fast path takes it.
    pub(super) fn admit<I: Ip>(&self, ip: &I) -> Result<(), Ingress> {
        let len = ip.total_len() as u32 - size_of::<I>() as u32;
        admit_transport(len, &self.transport, self.rest.as_ref())
    }

    /// Key of the flow, for the device with this index.
    pub(super) fn key<I: Ip>(&self, ip: &I, ifindex: u32) -> FlowKey<I::Address> {
        FlowKey {
            ifindex,
            protocol: ip.protocol() as u32,
            saddr: ip.saddr(),
            daddr: ip.daddr(),
            sport: self.transport.sport,
            dport: self.transport.dport,
        }
    }

    /// The packet's appearance.
    pub(super) fn seen<I: Ip>(&self, ethernet: &Ethernet, ip: &I, gso_size: u32) -> Seen {
        let wire_len = wire_len(ip, self.rest.as_ref(), gso_size);
        see(&ethernet.macs, ip, &self.transport, self.rest.as_ref(), wire_len)
    }
}
