//! What restores an attachment that is there, but not as its ADD left it.

use super::{
    add::{Placement, PlanError, add},
    check::{Expectation, left_by},
    step::{Side, Step},
    {Addressing, Observed},
};
use crate::{config::Network, state::Record};

/// The steps of the ADD that can be done again, each with what must hold after it: a step is needed if something of
/// that does not hold. `bridge_mac` is for a bridge that is gone.
///
/// # Errors
/// [`PlanError`], which cannot come of an ADD that succeeded.
pub fn repair(
    network: &Network,
    record: &Record,
    bridge_mac: [u8; 6],
) -> Result<Vec<(Step, Vec<Expectation>)>, PlanError> {
    let placement = Placement { veth: record.veth.clone(), ifname: record.ifname.clone(), bridge_mac };
    let addressing = Addressing { ips: record.result().ips, routes: record.routes.clone() };
    let steps = add(network, &Observed::default(), &placement, &addressing)?;
    let paired = steps.into_iter().flat_map(again).map(|step| {
        let mut expected = Vec::new();
        left_by(step.clone(), &mut expected);
        if expected.is_empty() {
            expected.extend(stands_with(&step, record));
        }
        (step, expected)
    });
    Ok(paired.filter(|(_, expected)| !expected.is_empty()).collect())
}

/// A veth is not made anew, that would take a new pod; what else its step does can be.
fn again(step: Step) -> Vec<Step> {
    let Step::CreateVeth { host, pod, mtu, bridge, .. } = step else { return vec![step] };
    let mtus = [(Side::Node, &host), (Side::Pod, &pod)]
        .into_iter()
        .filter_map(|(side, link)| Some(Step::SetMtu { side, link: link.clone(), mtu: mtu? }));
    let mut steps: Vec<Step> = mtus.collect();
    steps.push(Step::JoinBridge { link: host.clone(), bridge });
    steps.push(Step::SetUp { side: Side::Node, link: host, up: true });
    steps
}

/// What cannot be read back is lost with the bridge or with the port it belongs to.
fn stands_with(step: &Step, record: &Record) -> Option<Expectation> {
    match step {
        Step::CreateBridge { .. } | Step::PinMac { .. } | Step::FilterVlans { .. } => {
            Some(Expectation::Up(Side::Node, record.bridge.clone()))
        }
        Step::SetSysctl { side: Side::Node, .. } => Some(Expectation::Up(Side::Node, record.bridge.clone())),
        Step::AddVlan { .. } | Step::RemoveVlan { .. } => {
            Some(Expectation::Port(record.veth.clone(), record.bridge.clone()))
        }
        _ => None,
    }
}
