//! What belongs to nobody any more, found without a runtime's list of valid attachments: only what certainly does.

use std::{
    collections::BTreeSet,
    fmt,
    net::IpAddr,
    path::{Path, PathBuf},
};

use super::{VerbError, del, lease};
use crate::{
    config::{Ipam, Network},
    dataplane::{self, Pins},
    host::{Host, Link, LinuxHost, Netns, boot, nft},
    ipam::{HostLocal, Owner},
    plan::Side,
    state::{LeaseSource, Record, Records, STATE_DIR},
};

/// Something that no pod needs.
#[derive(Debug, Clone)]
pub enum Leftover {
    /// An attachment whose namespace and link are gone.
    Attachment(Box<Record>),
    /// A port of a bridge with our kind of name and no record.
    Veth(String),
    /// A lease whose owner is no pod of this node.
    Lease {
        /// The network.
        network: String,
        /// `dataDir` of its leases.
        data_dir: PathBuf,
        /// The address.
        ip: IpAddr,
        /// Whose it was.
        owner: Owner,
    },
    /// Rules of a network without attachments.
    Rules(String),
    /// Pins of a device that is gone, of another build or another ABI.
    Pin(PathBuf),
}

impl fmt::Display for Leftover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Attachment(record) => write!(
                f,
                "the attachment {}/{} to network {}, whose namespace {} is gone",
                record.container_id,
                record.ifname,
                record.network,
                record.netns.display()
            ),
            Self::Veth(name) => write!(f, "the veth {name}, which no pod on record has"),
            Self::Lease { network, ip, owner, .. } => {
                write!(f, "the lease of {ip} in network {network} to {owner}, which is no pod of this node")
            }
            Self::Rules(network) => write!(f, "the rules of network {network}, which has no pods"),
            Self::Pin(path) => write!(f, "the pins {}", path.display()),
        }
    }
}

/// Finds what is left over. `configured` are the networks of this node's configuration.
///
/// # Errors
/// If something cannot be looked at.
pub fn leftovers(host: &LinuxHost, configured: &[Network], bpffs: &Path) -> Result<Vec<Leftover>, VerbError> {
    let records = Records::at(STATE_DIR);
    // Before the records: an ADD writes its record first, so none of what it makes is found without.
    let links = host.node().links()?;
    let ruled = nft::networks()?;
    let all = || records.all()?.collect::<Result<Vec<Record>, _>>();
    let leased = leases(configured, &all()?)?;
    let records = all()?;
    let mut found = Vec::new();
    let veths: BTreeSet<&str> = records.iter().map(|record| record.veth.as_str()).collect();
    let is_gone = |record: &&Record| {
        Netns::open(&record.netns).is_err() && !links.iter().any(|(name, _)| *name == record.veth)
    };
    found.extend(records.iter().filter(is_gone).cloned().map(Box::new).map(Leftover::Attachment));
    let orphans = links.iter().filter(|(name, link)| {
        link.controller.is_some() && del::is_veth_name(name) && !veths.contains(name.as_str())
    });
    found.extend(orphans.map(|(name, _)| Leftover::Veth(name.clone())));
    for lease in leased {
        if lease.is_left(&records, host, &links)? {
            found.push(Leftover::Lease {
                network: lease.network,
                data_dir: lease.data_dir,
                ip: lease.ip,
                owner: lease.owner,
            });
        }
    }
    let unused = ruled.into_iter().filter(|name| !records.iter().any(|record| record.network == *name));
    found.extend(unused.map(Leftover::Rules));
    found.extend(dataplane::leftover_pins(&Pins::under(bpffs), host)?.into_iter().map(Leftover::Pin));
    Ok(found)
}

impl Leftover {
    /// Takes it away.
    ///
    /// # Errors
    /// What could not be taken away.
    pub fn remove(&self, host: &mut LinuxHost, bpffs: &Path) -> Result<(), VerbError> {
        let records = Records::at(STATE_DIR);
        match self {
            Self::Attachment(record) => {
                let network = Network::read(record.conf.clone())?;
                del::detach(&network, &record.attachment(), Some(record), &records, host)
            }
            Self::Veth(name) => {
                Ok(del::unplug(name).iter().try_for_each(|step| host.apply(step).map(drop))?)
            }
            Self::Lease { network, data_dir, ip, owner } => {
                Ok(HostLocal::unconfigured(network, data_dir)?.release(owner, &[*ip])?)
            }
            Self::Rules(network) => del::last_one_out(&del::Shared::by_name(network), &records, host),
            Self::Pin(path) => {
                Ok(dataplane::remove_pin(&Pins::under(bpffs), path).map_err(VerbError::TearDown)?)
            }
        }
    }
}

/// A lease of one of our networks.
struct Lease {
    network: String,
    bridge: String,
    data_dir: PathBuf,
    ip: IpAddr,
    owner: Owner,
    before_boot: bool,
}

impl Lease {
    /// A lease without a record may be that of a living pod which another plugin has attached: not if it is older than
    /// this boot, nor if the bridge has no port of another's making.
    fn is_left(
        &self,
        records: &[Record],
        host: &LinuxHost,
        links: &[(String, Link)],
    ) -> Result<bool, VerbError> {
        let holder =
            |record: &Record| record.network == self.network && self.owner.covers(&lease::owner(record));
        if records.iter().any(holder) {
            return Ok(false);
        }
        if self.before_boot {
            return Ok(true);
        }
        let bridge = host.link(Side::Node, &self.bridge)?.map(|link| link.index);
        let foreign = |(name, link): &&(String, Link)| {
            bridge.is_some() && link.controller == bridge && !del::is_veth_name(name)
        };
        Ok(!links.iter().any(|link| foreign(&link)))
    }
}

/// The leases of all networks that are configured or have attachments.
fn leases(configured: &[Network], records: &[Record]) -> Result<Vec<Lease>, VerbError> {
    let mut places = BTreeSet::new();
    for network in configured {
        if let Ipam::HostLocal(config) = &network.ipam {
            places.insert((network.name.clone(), network.bridge.clone(), config.data_dir.clone()));
        }
    }
    for record in records {
        if let LeaseSource::HostLocal { data_dir } = &record.lease {
            places.insert((record.network.clone(), record.bridge.clone(), data_dir.clone()));
        }
    }
    let boot = boot::time();
    let mut leases = Vec::new();
    for (network, bridge, data_dir) in places {
        for (ip, owner, leased) in HostLocal::unconfigured(&network, &data_dir)?.leases()? {
            leases.push(Lease {
                network: network.clone(),
                bridge: bridge.clone(),
                data_dir: data_dir.clone(),
                ip,
                owner,
                before_boot: boot.is_some_and(|boot| leased < boot),
            });
        }
    }
    Ok(leases)
}
