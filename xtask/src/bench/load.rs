//! Kinds of traffic.

/// A kind of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Load {
    /// TCP in bulk, over so many connections.
    Streams(u8),
    /// TCP requests of 64 bytes over one connection, each after the answer to the one before; both ends on one CPU, or
    /// where the scheduler puts them.
    RoundTrips { pinned: bool },
    /// UDP datagrams of so many bytes of payload, counted where they arrive.
    Datagrams(u16),
    /// UDP datagrams of 64 bytes, of 10,000 flows in turn.
    ManyFlows,
    /// The first datagram of each of them.
    NewFlows,
    /// TCP connections: made, used for one request, closed.
    Connections,
}

impl Load {
    pub(super) const ALL: [Load; 10] = [
        Load::Datagrams(64),
        Load::Datagrams(1400),
        Load::ManyFlows,
        Load::RoundTrips { pinned: true },
        Load::RoundTrips { pinned: false },
        Load::Streams(1),
        Load::Streams(4),
        Load::Streams(16),
        Load::Connections,
        Load::NewFlows,
    ];

    pub(super) fn name(self) -> String {
        match self {
            Load::Streams(count) => format!("tcp-stream-{count}"),
            Load::RoundTrips { pinned: true } => "tcp-rr".into(),
            Load::RoundTrips { pinned: false } => "tcp-rr-unpinned".into(),
            Load::Datagrams(size) => format!("udp-{size}"),
            Load::ManyFlows => "udp-10k-flows".into(),
            Load::NewFlows => "udp-new-flows".into(),
            Load::Connections => "connect".into(),
        }
    }

    /// In reports and charts.
    pub(super) fn title(self) -> String {
        match self {
            Load::Streams(1) => "TCP stream".into(),
            Load::Streams(count) => format!("TCP, {count} streams"),
            Load::RoundTrips { pinned: true } => "TCP RR, one CPU".into(),
            Load::RoundTrips { pinned: false } => "TCP RR, not pinned".into(),
            Load::Datagrams(size) => format!("UDP {size} B"),
            Load::ManyFlows => "UDP 64 B, 10,000 flows".into(),
            Load::NewFlows => "UDP, first packets".into(),
            Load::Connections => "TCP connections".into(),
        }
    }

    pub(super) fn unit(self) -> &'static str {
        match self {
            Load::Streams(_) => "Gbit/s",
            Load::RoundTrips { .. } => "transactions/s",
            Load::Datagrams(_) | Load::ManyFlows => "packets/s",
            Load::NewFlows => "flows/s",
            Load::Connections => "connections/s",
        }
    }

    /// What the machine's CPU time is divided by.
    pub(super) fn work(self) -> &'static str {
        match self {
            Load::Streams(_) => "MB",
            Load::RoundTrips { .. } => "transaction",
            Load::Datagrams(_) | Load::ManyFlows => "packet",
            Load::NewFlows => "flow",
            Load::Connections => "connection",
        }
    }

    /// Whether TCP carries it, which sends again what was lost.
    pub(super) fn is_tcp(self) -> bool {
        matches!(self, Load::Streams(_) | Load::RoundTrips { .. } | Load::Connections)
    }
}
