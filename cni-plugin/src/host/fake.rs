//! A host that is only a model: it keeps what steps change, and fails when it is told to.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
};

use ipnetwork::IpNetwork;
use nix::libc;

use super::{Host, HostError};
use crate::plan::{Bridge, Observed, Side, Step};

/// Everything that steps can change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct World {
    /// Links, by where they are and their names.
    pub links: BTreeMap<(Side, String), FakeLink>,
    /// Sysctls by place and name; one that is not here has the value 0.
    pub sysctls: BTreeMap<(Side, String), String>,
    /// Networks that are masqueraded.
    pub masqueraded: BTreeSet<String>,
    /// Ports whose MACs are checked.
    pub checked: BTreeSet<String>,
    /// Routes to other nodes' pods.
    pub node_routes: BTreeSet<String>,
}

/// A link of the model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FakeLink {
    pub mtu: u32,
    pub up: bool,
    pub addresses: BTreeSet<IpNetwork>,
    /// Whatever else was set, as text: promiscuous, hairpin, VLANs, routes.
    pub more: BTreeSet<String>,
    /// The other end, whose fate it shares.
    pub peer: Option<(Side, String)>,
}

/// The model, and how many more steps it carries out before one fails.
pub(crate) struct FakeHost {
    pub world: World,
    pub fails_after: Option<usize>,
}

impl FakeHost {
    pub(crate) fn new(world: World, fails_after: Option<usize>) -> Self {
        Self { world, fails_after }
    }

    fn link(&mut self, side: Side, name: &str) -> Result<&mut FakeLink, HostError> {
        let absent = || HostError::new("find link", name, io::Error::from_raw_os_error(libc::ENODEV));
        self.world.links.get_mut(&(side, name.to_owned())).ok_or_else(absent)
    }

    fn delete(&mut self, key: &(Side, String)) {
        let Some(link) = self.world.links.remove(key) else { return };
        let (side, name) = key;
        // `net.ipv6.conf.<link>.<key>` goes with its link.
        self.world.sysctls.retain(|(s, sysctl), _| s != side || !sysctl.contains(&format!(".{name}.")));
        if let Some(peer) = link.peer {
            self.delete(&peer);
        }
    }

    /// Notes something of a link that goes with it, or with somebody's explicit undoing.
    fn note(&mut self, side: Side, link: &str, what: String) -> Result<bool, HostError> {
        Ok(self.link(side, link)?.more.insert(what))
    }
}

impl Host for FakeHost {
    fn observe(&mut self, bridge: &str) -> Result<Observed, HostError> {
        let link = self.world.links.get(&(Side::Node, bridge.to_owned()));
        let bridge =
            link.map(|link| Bridge { addresses: link.addresses.iter().copied().collect(), mtu: link.mtu });
        Ok(Observed { bridge, ..Observed::default() })
    }

    fn apply(&mut self, step: &Step) -> Result<Option<Step>, HostError> {
        match &mut self.fails_after {
            Some(0) => {
                self.fails_after = None;
                return Err(HostError::new(
                    "do",
                    format!("{step:?}"),
                    io::Error::from_raw_os_error(libc::EIO),
                ));
            }
            Some(left) => *left -= 1,
            None => {}
        }
        self.carry_out(step)
    }
}

impl FakeHost {
    fn carry_out(&mut self, step: &Step) -> Result<Option<Step>, HostError> {
        match step {
            Step::CreateBridge { name, .. } => {
                let key = (Side::Node, name.clone());
                if self.world.links.contains_key(&key) {
                    return Ok(None);
                }
                self.world.links.insert(key, FakeLink { mtu: 1500, ..FakeLink::default() });
                Ok(Some(Step::DeleteLink { name: name.clone() }))
            }
            Step::CreateVeth { host, pod, mtu, .. } => {
                let ends = [(Side::Node, host.clone()), (Side::Pod, pod.clone())];
                for (own, other) in [(0, 1), (1, 0)] {
                    let link = FakeLink {
                        mtu: mtu.unwrap_or(1500),
                        up: own == 0,
                        peer: Some(ends[other].clone()),
                        ..FakeLink::default()
                    };
                    self.world.links.insert(ends[own].clone(), link);
                }
                Ok(Some(Step::DeleteLink { name: host.clone() }))
            }
            Step::DeleteLink { name } => {
                self.delete(&(Side::Node, name.clone()));
                Ok(None)
            }
            Step::SetMtu { side, link, mtu } => {
                let old = std::mem::replace(&mut self.link(*side, link)?.mtu, *mtu);
                Ok((old != *mtu).then(|| Step::SetMtu { side: *side, link: link.clone(), mtu: old }))
            }
            Step::SetUp { side, link, up } => {
                let old = std::mem::replace(&mut self.link(*side, link)?.up, *up);
                Ok((old != *up).then(|| Step::SetUp { side: *side, link: link.clone(), up: old }))
            }
            Step::SetPromiscuous { link, on } => {
                let more = &mut self.link(Side::Node, link)?.more;
                let changed =
                    if *on { more.insert("promiscuous".into()) } else { more.remove("promiscuous") };
                Ok(changed.then(|| Step::SetPromiscuous { link: link.clone(), on: !on }))
            }
            Step::AddAddress { side, link, address, .. } => {
                let added = self.link(*side, link)?.addresses.insert(*address);
                let undo = Step::RemoveAddress { side: *side, link: link.clone(), address: *address };
                Ok(added.then_some(undo))
            }
            Step::RemoveAddress { side, link, address } => {
                let Ok(found) = self.link(*side, link) else { return Ok(None) };
                let removed = found.addresses.remove(address);
                let (side, link, address) = (*side, link.clone(), *address);
                Ok(removed.then_some(Step::AddAddress { side, link, address, detect_duplicates: false }))
            }
            Step::SetSysctl { side, sysctl, value } => {
                let place = (*side, sysctl.to_string());
                let old = self.world.sysctls.get(&place).cloned().unwrap_or_else(|| "0".into());
                if value == "0" {
                    self.world.sysctls.remove(&place);
                } else {
                    self.world.sysctls.insert(place, value.clone());
                }
                let (side, sysctl) = (*side, sysctl.clone());
                Ok((old != *value).then_some(Step::SetSysctl { side, sysctl, value: old }))
            }
            Step::CheckMac { port, .. } => {
                self.world.checked.insert(port.clone());
                Ok(Some(Step::ForgetMac { port: port.clone() }))
            }
            Step::ForgetMac { port } => {
                self.world.checked.remove(port);
                Ok(None)
            }
            Step::AddNodeRoute(route) => {
                let added = self.world.node_routes.insert(format!("{route:?}"));
                Ok(added.then_some(Step::RemoveNodeRoute(*route)))
            }
            Step::RemoveNodeRoute(route) => {
                self.world.node_routes.remove(&format!("{route:?}"));
                Ok(None)
            }
            Step::Masquerade { network, .. } => {
                self.world.masqueraded.insert(network.clone());
                Ok(None)
            }
            Step::SetHairpin { link }
            | Step::JoinBridge { link, .. }
            | Step::SetIsolated { link }
            | Step::AddVlan { link, .. }
            | Step::RemoveVlan { link, .. } => self.note(Side::Node, link, format!("{step:?}")).map(|_| None),
            Step::AddRoute { link, .. } => self.note(Side::Pod, link, format!("{step:?}")).map(|_| None),
            Step::FilterVlans { link } | Step::PinMac { link } => self.link(Side::Node, link).map(|_| None),
            Step::AwaitAddresses { link } | Step::Announce { link } => {
                self.link(Side::Pod, link).map(|_| None)
            }
            Step::SyncCarrier { side, link } => self.link(*side, link).map(|_| None),
        }
    }
}
