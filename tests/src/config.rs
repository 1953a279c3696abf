//! The network configurations the tests start from.

use serde_json::{Value, json};

/// The name of the network the tests use.
pub const NETWORK: &str = "n1";
/// The bridge of that network.
pub const BRIDGE: &str = "br0";
/// Where the plugin logs, in the node's own `/run`.
pub const LOG: &str = "/run/lab/ebpf-bridge.log";

/// A bridge with a gateway, a default route, masquerade and the range 10.1.0.0/24, the fast path as `mode` says.
pub fn bridge(mode: &str) -> Value {
    json!({
        "type": "ebpf-bridge",
        "bridge": BRIDGE,
        "isGateway": true,
        "isDefaultGateway": true,
        "ipMasq": true,
        "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.1.0.0/24"}]]},
        "ebpf": {"mode": mode},
        "logFile": LOG,
    })
}

/// The same with IPv6 beside IPv4: the pods also get addresses of fd00:10:1::/64.
pub fn dual_stack(mode: &str) -> Value {
    let ranges = json!([[{"subnet": "10.1.0.0/24"}], [{"subnet": "fd00:10:1::/64"}]]);
    with(bridge(mode), &json!({"ipam": {"ranges": ranges}}))
}

/// Puts the keys of `changes`, an object, over those of `config`; objects are merged, all else is replaced.
///
/// # Panics
/// If `config` is no object where `changes` is one.
pub fn with(mut config: Value, changes: &Value) -> Value {
    for (key, change) in changes.as_object().into_iter().flatten() {
        let slot = &mut config[key];
        *slot =
            if slot.is_object() && change.is_object() { with(slot.take(), change) } else { change.clone() };
    }
    config
}
