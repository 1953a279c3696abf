//! A rule made while a flow is fast is obeyed within one `renew`, and its removal is too.

use std::net::IpAddr;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use ebpf_bridge_lab::traffic::{self, Steady};
use ebpf_bridge_lab::{Family, Need, Place, Scene, Stats, Variant};

use crate::check::eventually;
use crate::rules::Rules;
use crate::suite::Suite;

/// One `renew` (1 s by default), and some.
const ENFORCED: Duration = Duration::from_millis(1100);

pub(crate) fn register(suite: &mut Suite) {
    let needs = [Need::Bpf, Need::Tool("iptables"), Need::Tool("ip6tables")];
    for rules in Rules::ALL {
        for bridged in [true, false] {
            let name = format!(
                "policy: drop rules by {rules} stop fast flows to outside within 1.1 s and let them go on, \
                 br_netfilter {}",
                u8::from(bridged)
            );
            suite.test_with(&needs, name, move || obeyed(rules, bridged, false));
        }
        let name = format!(
            "policy: drop rules by {rules} stop fast flows between pods within 1.1 s and let them go on"
        );
        suite.test_with(&needs, name, move || obeyed(rules, true, true));
    }
}

/// All four flows of a scene at once: both families, TCP and UDP.
fn obeyed(rules: Rules, bridged: bool, between_pods: bool) -> Result<()> {
    let scene = Scene::dual_stack(Variant::Auto, 2)?;
    for key in ["iptables", "ip6tables"] {
        let value = if bridged { "1" } else { "0" };
        scene.node.set_sysctl(&format!("net.bridge.bridge-nf-call-{key}"), value)?;
    }
    let client = &scene.pods[0];
    let (mut flows, mut pairs) = (Vec::new(), Vec::new());
    for family in Family::ALL {
        let (server, to): (&Place, IpAddr) = if between_pods {
            (&scene.pods[1], scene.pods[1].address_in(family))
        } else {
            (scene.node.outside(), scene.node.outside().address_in(family))
        };
        pairs.push((client.address_in(family), to));
        for (protocol, start) in [("TCP", Steady::tcp as Start), ("UDP", Steady::udp)] {
            flows.push((format!("{family} {protocol}"), started(&scene, client, server, to, start)?));
        }
    }
    for (from, to) in &pairs {
        rules.forbid(&scene.node, *from, *to)?;
    }
    thread::sleep(ENFORCED);
    for (name, flow) in &flows {
        flow.stands_still(Duration::from_millis(100)).with_context(|| name.clone())?;
    }
    for (from, to) in &pairs {
        rules.permit(&scene.node, *from, *to)?;
    }
    for (name, flow) in flows {
        flow.goes_on(20, traffic::PATIENCE).with_context(|| format!("{name}, after the rule was removed"))?;
        flow.stop()?;
    }
    Ok(())
}

type Start = fn(&Place, &Place, IpAddr) -> Result<Steady>;

/// A flow that is fast.
fn started(scene: &Scene, client: &Place, server: &Place, to: IpAddr, start: Start) -> Result<Steady> {
    let before = Stats::read(&scene.node)?.redirected();
    let flow = start(client, server, to)?;
    eventually("the flow is fast", traffic::PATIENCE, || {
        Ok(Stats::read(&scene.node)?.redirected() > before + 50)
    })?;
    Ok(flow)
}
