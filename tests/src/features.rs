//! What the project can do, as the table of kernels has it: each feature with the tests that show it. Together they are
//! the core of the suite, which runs where all of it would take too long.

/// Set, to anything: the suite runs the core only.
pub const CORE_VARIABLE: &str = "EBPF_BRIDGE_LAB_CORE";

/// Something users see, or do not on a kernel that lacks what it takes.
pub struct Feature {
    /// As the table has it.
    pub title: &'static str,
    /// How the names of its tests begin.
    tests: &'static [&'static str],
}

impl Feature {
    /// Whether a test of this name shows it.
    pub fn has(&self, test: &str) -> bool {
        self.tests.iter().any(|start| test.starts_with(start))
    }
}

/// All of them, in the order of the table.
pub fn all() -> impl Iterator<Item = &'static Feature> {
    FEATURES.iter()
}

const FEATURES: [Feature; 24] = [
    feature("Programs load (`ebpf.mode` required)", &["modes: required works where eBPF does"]),
    feature("Verifier within its budget", &["verifier: "]),
    feature("Veths by clsact, uplinks by TCX", &["uplink: its programs are attached by tcx"]),
    feature("Veths and uplinks by clsact", &["uplink: its programs are attached by clsact"]),
    feature("`ebpf.attach` tcx", &["uplink: pods' veths have TCX"]),
    feature(
        "Fast from pod to pod, IPv4 and IPv6",
        &["fast: over 95 % of 20000 requests over one connection from pod to pod"],
    ),
    feature(
        "Fast to outside through masquerade, IPv4 and IPv6",
        &["fast: over 95 % of 20000 requests over one connection from pod to outside"],
    ),
    feature(
        "ClusterIP by iptables and nftables rules",
        &[
            "services: a ClusterIP chooses among backends, one of them the client, IPv4 by iptables, br_netfilter 1",
            "services: a ClusterIP chooses among backends, one of them the client, IPv4 by nftables, br_netfilter 1",
        ],
    ),
    feature("A drop rule stops a fast flow", &["change: a drop rule stops a fast flow to outside"]),
    feature(
        "Addresses, routes and sysctls",
        &[
            "wiring: the result of",
            "wiring: the bridge holds",
            "wiring: the pod has one default route",
            "wiring: routes",
        ],
    ),
    feature("CHECK finds what ADD made", &["check: right after ADD it is content"]),
    feature("DEL leaves nothing but the bridge", &["del: of both pods leaves the node as it was"]),
    feature(
        "Bridge path without a bpffs",
        &["modes: auto without a bpffs", "modes: required without a bpffs"],
    ),
    feature("Bridge path with `ebpf.mode` off", &["modes: off attaches and pins nothing"]),
    feature("`ipMasqBackend` iptables", &["keys: ipMasqBackend iptables masquerades"]),
    feature("`macspoofchk`", &["keys: macspoofchk"]),
    feature("`portIsolation`", &["keys: portIsolation"]),
    feature("`hairpinMode`", &["keys: hairpinMode"]),
    feature("`vlan`: pods of one VLAN only", &["vlan: pods of one VLAN"]),
    feature("`vlan` with `isGateway`", &["vlan: a gateway inside"]),
    feature("`vlanTrunk`: tagged frames", &["vlan: a trunk"]),
    feature("`preserveDefaultVlan`", &["vlan: the default VLAN"]),
    feature("CHECK and DEL of VLANs", &["vlan: CHECK", "vlan: DEL"]),
    feature("VLANs as the reference makes them", &["differential: vlan"]),
];

const fn feature(title: &'static str, tests: &'static [&'static str]) -> Feature {
    Feature { title, tests }
}
