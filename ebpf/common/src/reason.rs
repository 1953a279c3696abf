//! Why a packet was or was not carried by the fast path. One counter each, per program.
//!
//! The numbers index the COUNTERS map and appear in metrics: never renumber, retire with a tombstone.

/// Number of counters reserved for each program.
pub const PER_PROGRAM: u32 = 64;

/// Size of the COUNTERS map.
pub const COUNTERS: u32 = 2 * PER_PROGRAM;

macro_rules! reasons {
    ($(#[$doc:meta])* $name:ident from $base:expr; $($(#[$vdoc:meta])* $variant:ident = $number:literal, $text:literal;)*) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u32)]
        pub enum $name { $($(#[$vdoc])* $variant = $number,)* }

        impl $name {
            /// Every reason, in the order of the numbers.
            pub const ALL: &[$name] = &[$($name::$variant,)*];

            /// The stable name in metrics and JSON.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $text,)* }
            }

            /// Index into the COUNTERS map.
            pub const fn index(self) -> u32 {
                $base + self as u32
            }
        }
    };
}

reasons! {
    /// Outcomes of `flow_ingress`.
    Ingress from 0;
    /// Carried by the fast path.
    Redirected = 0, "redirected";
    /// The kill switch is off.
    Disabled = 1, "disabled";
    /// Neither IPv4 nor IPv6.
    NotIp = 2, "not_ip";
    /// A VLAN tag is on the packet.
    Vlan = 3, "vlan";
    /// Too short, or lengths that contradict each other.
    Malformed = 4, "malformed";
    /// IPv4 options.
    IpOptions = 5, "ip_options";
    /// Any fragment.
    Fragment = 6, "fragment";
    /// Neither TCP nor UDP (IPv6: also any extension header).
    Protocol = 7, "protocol";
    /// To or from a multicast or broadcast address, of L2 or L3.
    Multicast = 8, "multicast";
    /// TTL or hop limit of 1 or less, or not enough for the learned step.
    Ttl = 9, "ttl";
    /// TCP with SYN, FIN or RST, or without ACK.
    TcpFlags = 10, "tcp_flags";
    /// TCP, and conntrack's window tracking is not liberal.
    TcpNotLiberal = 11, "tcp_not_liberal";
    /// Nothing learned for this flow yet.
    NoFlow = 12, "no_flow";
    /// Learned longer than `renew` ago, or before the last `forget`.
    Stale = 13, "stale";
    /// Larger than any packet of the flow the kernel carried since the last renewal.
    Larger = 14, "larger";
    /// L2 header or DSCP other than that of the packet the flow was learned from.
    Differs = 15, "differs";
    /// A helper refused the rewrite.
    RewriteFailed = 16, "rewrite_failed";
    /// IPv4 header checksum that is wrong.
    Checksum = 17, "checksum";
}

reasons! {
    /// Outcomes of `flow_egress`.
    Egress from PER_PROGRAM;
    /// Recorded for the fast path.
    Learned = 0, "learned";
    /// Not tagged: sent by the host, or redirected by us.
    Untagged = 1, "untagged";
    /// The note made at ingress was overwritten, or is on another CPU.
    StashGone = 2, "stash_gone";
    /// Not the packet that was noted at ingress.
    OtherPacket = 3, "other_packet";
    /// Changed in a way the fast path does not repeat.
    Unrepeatable = 4, "unrepeatable";
    /// The flow map refused the entry.
    MapFull = 5, "map_full";
    /// Left the node more than once, flooded by a bridge or copied by a rule: a flow has one way only.
    Copied = 6, "copied";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_dense_and_fit() {
        for (number, reason) in Ingress::ALL.iter().enumerate() {
            assert_eq!(*reason as u32 as usize, number);
        }
        for (number, reason) in Egress::ALL.iter().enumerate() {
            assert_eq!(reason.index() as usize, PER_PROGRAM as usize + number);
        }
        assert!(Ingress::ALL.len() <= PER_PROGRAM as usize && Egress::ALL.len() <= PER_PROGRAM as usize);
    }
}
