//! The FLOWS maps: which packets, and what to do with them. One map per address family, `A` being
//! `u32` for IPv4 and `[u32; 4]` for IPv6, in network byte order.

/// A flow in one direction, as its packets come in.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowKey<A> {
    /// Device the packets come in by.
    pub ifindex: u32,
    /// 6 TCP, 17 UDP.
    pub protocol: u32,
    /// Source address.
    pub saddr: A,
    /// Destination address.
    pub daddr: A,
    /// Source port, network order.
    pub sport: u16,
    /// Destination port, network order.
    pub dport: u16,
}

/// Destination and source MAC, as at the start of an Ethernet header.
pub type Macs = [u16; 6];

/// What the kernel did to a packet of the flow, to be repeated.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow<A> {
    /// When the kernel did it, `bpf_ktime_get_ns` of at most a tick (10 ms) before; 0 means never.
    pub learned_ns: u64,
    /// Epoch of the configuration then.
    pub epoch: u32,
    /// Device the packet left by.
    pub ifindex: u32,
    /// Partial checksum difference of both addresses, see [`crate::checksum`].
    pub address_difference: u32,
    /// Partial checksum difference of both ports.
    pub port_difference: u32,
    /// `skb->mark` on leaving.
    pub mark: u32,
    /// `skb->priority` on leaving.
    pub priority: u32,
    /// L2 addresses it came in with.
    pub macs_in: Macs,
    /// L2 addresses it left with.
    pub macs_out: Macs,
    /// Source address on leaving.
    pub saddr: A,
    /// Destination address on leaving.
    pub daddr: A,
    /// Source port on leaving, network order.
    pub sport: u16,
    /// Destination port on leaving, network order.
    pub dport: u16,
    /// Longest L3 packet the kernel carried since the last renewal, bytes on the wire (of one segment
    /// of a GSO frame).
    pub max_len: u16,
    /// See the `FLOW_` flags.
    pub flags: u8,
    /// What the TTL or hop limit lost.
    pub ttl_step: u8,
    /// DSCP it came in with, in the upper six bits; the lower two are 0.
    pub dscp_in: u8,
    /// DSCP it left with, in the upper six bits; the lower two are 0.
    pub dscp_out: u8,
    /// Always 0.
    pub padding: [u8; 2],
    /// When the first packet of the flow was learned, in s of `bpf_ktime_get_ns`; 0 if that is not known.
    pub since_s: u32,
    /// See [`Flow::seal`].
    pub seal: u64,
}

impl<A: Copy> Flow<A> {
    /// What ties everything above to the key, and goes into the field of that name.
    ///
    /// An LRU map may give the memory of an entry to another key while a program reads it: when the entry is
    /// evicted, and at every renewal, which replaces it. A reader may thus see another flow, or parts of two. So it
    /// copies the entry and uses the copy only if the seal fits it and the key it asked for. Another flow or a
    /// mixture has the right seal by an accident of 64 bits. The seal is no secret, and needs none: only the
    /// programs write the map.
    #[inline(always)]
    pub fn seal(&self, key: &FlowKey<A>) -> u64 {
        let contents = Self { seal: 0, ..*self };
        let (contents, key) = (words::<_, u64>(&contents), words::<_, u32>(key));
        let mut seal = 0_u64;
        // No iterators: the compiler would make a function of the loop, for several times the cost.
        let mut place = 0;
        while place < contents.len() {
            seal = seal.wrapping_add(contents[place].wrapping_mul(FACTORS[place]));
            place += 1;
        }
        let mut word = 0;
        while word < key.len() {
            seal = seal.wrapping_add((key[word] as u64).wrapping_mul(FACTORS[place + word]));
            word += 1;
        }
        seal
    }
}

/// An odd number of its own for each place, and not a multiple of another's, or small differences in two places
/// could make up for each other: splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators").
const fn factor(place: usize) -> u64 {
    let state = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(place as u64 + 1);
    let state = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ state >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (state ^ state >> 31) | 1
}

/// One for each 64-bit word of a [`Flow`], and after them each 32-bit word of a [`FlowKey`].
const FACTORS: [u64; 25] = {
    let mut factors = [0; 25];
    let mut place = 0;
    while place < factors.len() {
        factors[place] = factor(place);
        place += 1;
    }
    factors
};

/// The words a wire type is made of.
#[inline(always)]
fn words<T, W>(value: &T) -> &[W] {
    // SAFETY: only for `Flow` as u64 and `FlowKey` as u32, both repr(C) of integers, without implicit padding, and
    // aligned to and a multiple of the word (asserted below).
    unsafe { core::slice::from_raw_parts((&raw const *value).cast(), size_of::<T>() / size_of::<W>()) }
}

/// The device it left by is a pod's veth (else an uplink).
pub const FLOW_TO_POD: u8 = 1 << 0;
/// The L2 addresses changed.
pub const FLOW_L2: u8 = 1 << 1;
/// An IP address changed.
pub const FLOW_ADDRESS: u8 = 1 << 2;
/// A port changed.
pub const FLOW_PORT: u8 = 1 << 3;
/// TTL or DSCP changed.
pub const FLOW_IP: u8 = 1 << 4;

/// What tells one packet of a flow from the next, and what of it may change on the way.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// L2 addresses.
    pub macs: Macs,
    /// TCP: sequence number. UDP: length and a zero, or as the header has them.
    pub sequence: u32,
    /// TCP: acknowledgement number. UDP: 0.
    pub acknowledgement: u32,
    /// IPv4: identification. IPv6: the low half of the flow label word.
    pub id: u16,
    /// L3 length in the header, bytes.
    pub len: u16,
    /// L3 length on the wire, bytes: of one segment if the packet is a GSO frame.
    pub wire_len: u16,
    /// TTL or hop limit.
    pub ttl: u8,
    /// DSCP in the upper six bits; the lower two are 0.
    pub dscp: u8,
}

const _: () = assert!(size_of::<FlowKey<u32>>() == 20);
const _: () = assert!(size_of::<FlowKey<[u32; 4]>>() == 44);
const _: () = assert!(size_of::<Flow<u32>>() == 88);
const _: () = assert!(size_of::<Flow<[u32; 4]>>() == 112);
const _: () = assert!(size_of::<Seen>() == 28);
const _: () = assert!(align_of::<Flow<u32>>() == 8 && align_of::<Flow<[u32; 4]>>() == 8);
const _: () = assert!(align_of::<FlowKey<u32>>() == 4 && align_of::<FlowKey<[u32; 4]>>() == 4);

#[cfg(feature = "user")]
mod pod {
    use super::*;

    // SAFETY: repr(C), integers only, no implicit padding (sizes asserted above).
    unsafe impl aya::Pod for FlowKey<u32> {}
    // SAFETY: as above.
    unsafe impl aya::Pod for FlowKey<[u32; 4]> {}
    // SAFETY: as above.
    unsafe impl aya::Pod for Flow<u32> {}
    // SAFETY: as above.
    unsafe impl aya::Pod for Flow<[u32; 4]> {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_differences_in_two_places_do_not_make_up_for_each_other() {
        let [saddr, daddr] = [[10, 0, 0, 2], [10, 0, 0, 40]].map(u32::from_ne_bytes);
        let key = FlowKey { ifindex: 1, protocol: 17, saddr, daddr, sport: 1, dport: 2 };
        let [saddr, daddr] = [[10, 0, 0, 31], [10, 0, 0, 13]].map(u32::from_ne_bytes);
        let other = FlowKey { saddr, daddr, ..key };
        // SAFETY: integers only.
        let flow: Flow<u32> = unsafe { core::mem::zeroed() };
        assert_ne!(flow.seal(&key), flow.seal(&other));
    }
}
