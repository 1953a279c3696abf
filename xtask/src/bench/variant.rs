//! What is compared.

/// One way to carry the same traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    /// Our plugin, `ebpf.mode` auto.
    Accelerated,
    /// Our plugin, `ebpf.mode` off.
    Off,
    /// The reference bridge with its iptables masquerade.
    Reference,
    /// The reference ptp: a veth per pod, routed, with the same masquerade.
    Ptp,
    /// A veth pair between two namespaces and nothing else: the limit from pod to pod.
    Wire,
    /// A process in the network namespace of a node without plugins: the limit between pod and outside.
    Host,
}

impl Variant {
    pub(super) const ALL: [Variant; 6] =
        [Variant::Accelerated, Variant::Off, Variant::Reference, Variant::Ptp, Variant::Wire, Variant::Host];

    /// In results, and for `--only`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Variant::Accelerated => "accelerated",
            Variant::Off => "off",
            Variant::Reference => "reference",
            Variant::Ptp => "ptp",
            Variant::Wire => "wire",
            Variant::Host => "host",
        }
    }

    /// In reports and charts.
    pub(super) fn title(self) -> &'static str {
        match self {
            Variant::Accelerated => "ebpf-bridge",
            Variant::Off => "ebpf-bridge, mode off",
            Variant::Reference => "reference bridge",
            Variant::Ptp => "reference ptp",
            Variant::Wire => "bare wire",
            Variant::Host => "node's own network",
        }
    }
}
