//! The transaction: whichever step of an ADD fails, afterwards the world is what it was.

use serde_json::{Value, json};

use super::*;
use crate::{
    cni::{
        request::Environment,
        types::{Ip, Route},
    },
    config::{NetConf, Network},
    host::fake::{FakeHost, FakeLink, World},
    plan::{self, Addressing, Placement, Side},
};

const NETWORK: &str = "n1";

fn network(keys: Value) -> Network {
    let mut raw = json!({"cniVersion": "1.1.0", "name": NETWORK, "bridge": "br0"});
    raw.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    let environment = Environment::read(|name| (name == "CNI_COMMAND").then(|| "STATUS".into())).unwrap();
    Network::validate(NetConf::parse(&raw).unwrap(), raw, &environment).unwrap()
}

/// Configurations that between them use every step of an ADD.
fn networks() -> Vec<Network> {
    let all = json!({"isDefaultGateway": true, "ipMasq": true, "mtu": 9000, "forceAddress": true, "hairpinMode": true,
        "portIsolation": true, "macspoofchk": true, "enabledad": true,
        "nodeRoutes": [{"podCIDR": "10.7.0.0/24", "via": "192.0.2.9"}]});
    let vlan = json!({"vlan": 7, "vlanTrunk": [{"id": 8}], "promiscMode": true});
    let inside = json!({"vlan": 7, "isGateway": true, "forceAddress": true, "preserveDefaultVlan": false});
    vec![network(all), network(vlan), network(inside), network(json!({"isGateway": true}))]
}

fn worlds() -> [World; 2] {
    let lo = || ((Side::Pod, "lo".to_owned()), FakeLink::default());
    let fresh = World { links: [lo()].into(), ..World::default() };
    let bridge = FakeLink {
        mtu: 1400,
        addresses: ["10.9.0.1/24", "fd00:1::9/64"].map(|address| address.parse().unwrap()).into(),
        ..FakeLink::default()
    };
    let used = World { links: [lo(), ((Side::Node, "br0".to_owned()), bridge)].into(), ..World::default() };
    [fresh, used]
}

fn leased() -> Addressing {
    let ip = |address: &str| Ip { interface: None, address: address.parse().unwrap(), gateway: None };
    Addressing {
        ips: vec![ip("10.1.0.2/24"), ip("fd00:1::2/64")],
        routes: vec![Route::to("203.0.113.0/24".parse().unwrap())],
    }
}

fn steps(network: &Network, host: &mut FakeHost) -> Option<Vec<Step>> {
    let observed = host.observe("br0", network.gateway_link()).unwrap();
    let placement = Placement { veth: "veth1".into(), ifname: "eth0".into(), bridge_mac: [2, 0, 0, 0, 0, 1] };
    let addressing = plan::complete(network, &observed, leased());
    // A bridge with another address is refused unless forceAddress is set: then nothing happens at all.
    plan::add(network, &observed, &placement, &addressing).ok()
}

/// Every world, network and failing step; `check` gets the host after it, the journal, and the world as it was.
fn for_every_failure(check: impl Fn(FakeHost, Journal, &World)) -> usize {
    let mut failures = 0;
    for network in networks() {
        for world in worlds() {
            let Some(steps) = steps(&network, &mut FakeHost::new(world.clone(), None)) else { continue };
            // One more than there are: what comes after the last step may fail, too.
            for failing in 0..=steps.len() {
                let mut host = FakeHost::new(world.clone(), Some(failing));
                let mut journal = Journal::default();
                assert_eq!(journal.run(&mut host, &steps).is_err(), failing < steps.len());
                host.fails_after = None;
                check(host, journal, &world);
                failures += 1;
            }
        }
    }
    failures
}

#[test]
fn whichever_step_fails_the_world_is_what_it_was() {
    let failures = for_every_failure(|mut host, journal, before| {
        assert!(journal.roll_back(&mut host, true).is_empty());
        // The rules of a network are not the journal's: whoever removes the last record takes them away.
        host.world.masqueraded.remove(NETWORK);
        assert_eq!(&host.world, before);
    });
    assert!(failures > 100, "only {failures}");
}

#[test]
fn what_others_have_come_to_rely_on_stays_and_the_pods_own_goes() {
    for_every_failure(|mut host, journal, before| {
        let bridge = host.world.links.get(&(Side::Node, "br0".to_owned())).cloned();
        assert!(journal.roll_back(&mut host, false).is_empty());
        let pod = |world: &World| -> Vec<_> {
            let own = world.links.iter().filter(|((side, name), _)| *side == Side::Pod || name == "veth1");
            own.map(|(key, link)| (key.clone(), link.clone())).collect()
        };
        assert_eq!(pod(&host.world), pod(before));
        assert_eq!(host.world.checked, before.checked);
        assert_eq!(host.world.links.get(&(Side::Node, "br0".to_owned())).cloned(), bridge);
    });
}

#[test]
fn undoing_goes_on_after_a_failure_and_tells_of_it() {
    let network = &networks()[0];
    let [world, _] = worlds();
    let steps = steps(network, &mut FakeHost::new(world.clone(), None)).unwrap();
    let mut host = FakeHost::new(world.clone(), None);
    let mut journal = Journal::default();
    journal.run(&mut host, &steps).unwrap();
    // The very first undo step fails: an address of the pod, which goes with its link all the same.
    host.fails_after = Some(0);
    assert_eq!(journal.roll_back(&mut host, true).len(), 1);
    host.world.masqueraded.clear();
    assert_eq!(host.world, world);
}
