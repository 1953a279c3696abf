//! What an ADD would do on this node now. Touches nothing.

use super::{VerbError, add::with_uplinks, del};
use crate::{
    cni::request::Attachment,
    config::{Ipam, Mode, Network},
    dataplane,
    host::{Host, LinuxHost},
    ipam::HostLocal,
    plan::{self, Addressing, Placement, Step},
};

/// A step of an ADD that has not been made.
pub struct PlannedStep {
    /// The step.
    pub step: Step,
    /// What it is to bring about is so already.
    pub is_done: bool,
}

/// An ADD that has not been made.
pub struct Preview {
    /// What it would lease; empty where another plugin does that.
    pub addressing: Addressing,
    /// What it would do, in order.
    pub steps: Vec<PlannedStep>,
    /// The uplinks it would have the programs on, or why there would be none.
    pub fast_path: Result<Vec<String>, String>,
}

/// Plans an ADD of a pod that has no interface yet.
///
/// # Errors
/// What the ADD would fail with before it touched anything.
pub fn preview(network: &Network) -> Result<Preview, VerbError> {
    let mut host = LinuxHost::open(None)?;
    let attachment = Attachment { container_id: "a-pod".to_owned(), ifname: "eth0".to_owned() };
    let observed = host.observe(&network.bridge, network.gateway_link())?;
    let addressing = plan::complete(network, &observed, leased(network)?);
    let placement = Placement {
        veth: del::veth_name(&network.name, &attachment),
        ifname: attachment.ifname,
        bridge_mac: Default::default(),
    };
    let mut steps = Vec::new();
    for step in plan::add(network, &observed, &placement, &addressing)? {
        let expected = plan::left_on_node(&step);
        let mut is_done = !expected.is_empty();
        for one in &expected {
            is_done &= host.verify(one)?.is_none();
        }
        steps.push(PlannedStep { step, is_done });
    }
    Ok(Preview { addressing, steps, fast_path: fast_path(network, &host)? })
}

/// What the built-in IPAM would lease; other plugins are not asked.
fn leased(network: &Network) -> Result<Addressing, VerbError> {
    let Ipam::HostLocal(config) = &network.ipam else { return Ok(Addressing::default()) };
    let ipam = HostLocal::new(&network.name, config.clone())?;
    if let Some(full) = ipam.usage()?.into_iter().find(|usage| usage.is_full()) {
        return Err(VerbError::Full { pool: full.pool, used: full.used });
    }
    let lease = ipam.preview()?;
    Ok(Addressing { ips: lease.ips, routes: lease.routes })
}

fn fast_path(network: &Network, host: &LinuxHost) -> Result<Result<Vec<String>, String>, VerbError> {
    if network.ebpf.mode == Mode::Off {
        return Ok(Err("ebpf.mode is \"off\"".to_owned()));
    }
    if network.bandwidth_limited {
        return Ok(Err("the pod has a bandwidth limit".to_owned()));
    }
    if dataplane::OBJECT.is_none() {
        return Ok(Err("this binary was built without the eBPF programs".to_owned()));
    }
    let uplinks = with_uplinks(network, host)?.uplinks;
    Ok(Ok(uplinks.map_or_else(|| host.default_uplinks(), Ok)?))
}
