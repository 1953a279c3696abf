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

/// What cannot be read back is lost with the bridge.
fn stands_with(step: &Step, record: &Record) -> Option<Expectation> {
    match step {
        Step::CreateBridge { .. } | Step::PinMac { .. } => {
            Some(Expectation::Up(Side::Node, record.bridge.clone()))
        }
        Step::SetSysctl { side: Side::Node, .. } => Some(Expectation::Up(Side::Node, record.bridge.clone())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(conf: &str) -> Vec<(Step, Vec<Expectation>)> {
        let record = r#"{"network":"n1","containerId":"c1","ifname":"eth0","netns":"/run/netns/c1","bridge":"br0",
            "veth":"veth1","addresses":["10.1.0.2/24"],"gateways":["10.1.0.1"],"lease":{"type":"none"},"created":0,
            "complete":true,"bpffs":null,"notAccelerated":null,"pod":null}"#;
        let record: Record = serde_json::from_str(record).unwrap();
        let network = Network::read(serde_json::from_str(conf).unwrap()).unwrap();
        repair(&network, &record, [2, 0, 0, 0, 0, 1]).unwrap()
    }

    #[test]
    fn a_veth_joins_its_bridge_again_and_is_never_made_anew() {
        let steps = steps(r#"{"cniVersion":"1.0.0","name":"n1","bridge":"br0","mtu":1400}"#);
        assert!(!steps.iter().any(|(step, _)| matches!(step, Step::CreateVeth { .. })));
        let port = Expectation::Port("veth1".into(), "br0".into());
        assert!(
            steps.contains(&(Step::JoinBridge { link: "veth1".into(), bridge: "br0".into() }, vec![port]))
        );
        let mtu = Expectation::MtuAtLeast(Side::Pod, "eth0".into(), 1400);
        assert!(steps.iter().any(|(_, expected)| *expected == [mtu.clone()]));
    }

    #[test]
    fn a_bridge_that_is_gone_is_made_first_and_gets_its_gateway_back() {
        let steps = steps(r#"{"cniVersion":"1.0.0","name":"n1","bridge":"br0","isGateway":true}"#);
        let up = Expectation::Up(Side::Node, "br0".into());
        let create = Step::CreateBridge { name: "br0".into(), mac: [2, 0, 0, 0, 0, 1] };
        assert_eq!(steps[0], (create, vec![up]));
        let address = Expectation::Address(Side::Node, "br0".into(), "10.1.0.1/24".parse().unwrap());
        assert!(steps.iter().any(|(_, expected)| *expected == [address.clone()]));
    }
}
