//! What an ADD would do on this node now. Touches nothing.

use super::{
    VerbError,
    add::{declined, with_uplinks},
    del, lease,
};
use crate::{
    cni::request::Attachment,
    config::{Ipam, Network},
    dataplane,
    host::{Host, LinuxHost},
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
        let is_done = !expected.is_empty() && host.holds(&expected)?;
        steps.push(PlannedStep { step, is_done });
    }
    Ok(Preview { addressing, steps, fast_path: fast_path(network, &host)? })
}

/// What the built-in IPAM would lease; other plugins are not asked.
fn leased(network: &Network) -> Result<Addressing, VerbError> {
    let Ipam::HostLocal(config) = &network.ipam else { return Ok(Addressing::default()) };
    let lease = lease::with_room(network, config)?.preview()?;
    Ok(Addressing { ips: lease.ips, routes: lease.routes })
}

fn fast_path(network: &Network, host: &LinuxHost) -> Result<Result<Vec<String>, String>, VerbError> {
    if let Some(why) = declined(network) {
        return Ok(Err(why.to_owned()));
    }
    if dataplane::OBJECT.is_none() {
        return Ok(Err("this binary was built without the eBPF programs".to_owned()));
    }
    let uplinks = with_uplinks(network, host)?.uplinks;
    Ok(Ok(uplinks.map_or_else(|| host.default_uplinks(), Ok)?))
}
