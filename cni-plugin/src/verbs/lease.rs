//! Addresses for an attachment: leased from wherever the configuration says, given back to wherever the
//! record says, and verified where CHECK asks.

use std::{net::IpAddr, path::Path, time::SystemTime};

use serde_json::Value;

use super::VerbError;
use crate::{
    cni::{
        delegate,
        error::Code,
        layout,
        request::{Attachment, Verb},
        types::Dns,
    },
    config::{Ipam, Network},
    host::{Netns, boot},
    ipam::{HostLocal, HostLocalConfig, IpamError, Owner},
    plan::Addressing,
    state::{LeaseSource, Record, Records},
};

/// What the record keeps of where addresses come from.
pub(super) fn source(network: &Network) -> LeaseSource {
    match &network.ipam {
        Ipam::None => LeaseSource::None,
        Ipam::HostLocal(config) => LeaseSource::HostLocal { data_dir: config.data_dir.clone() },
        Ipam::Exec { plugin } => {
            LeaseSource::Exec { plugin: plugin.clone(), ipam: network.raw["ipam"].clone() }
        }
    }
}

/// Leases addresses. `before` holds those that an earlier, unfinished ADD of the same attachment got.
pub(super) fn acquire(
    network: &Network,
    attachment: &Attachment,
    before: &[IpAddr],
    records: &Records,
) -> Result<(Addressing, Dns), VerbError> {
    match &network.ipam {
        Ipam::None => Ok((Addressing::default(), Dns::default())),
        Ipam::HostLocal(config) => {
            let owner = Owner::new(&attachment.container_id, &attachment.ifname);
            let ipam = HostLocal::new(&network.name, config.clone())?;
            let gone = |owner: &Owner, leased| is_gone(network, records, owner, leased);
            let lease = ipam.allocate(&owner, before, &network.requested_ips, &gone)?;
            Ok((Addressing { ips: lease.ips, routes: lease.routes }, lease.dns))
        }
        Ipam::Exec { plugin } => delegated(network, plugin),
    }
}

/// Leases from an executed plugin. Its answer may be null, and lack everything but what it leased.
fn delegated(network: &Network, plugin: &str) -> Result<(Addressing, Dns), VerbError> {
    let answer = execute(network, plugin, Verb::Add)?.unwrap_or_default();
    let result =
        layout::decode(&answer).map_err(|source| VerbError::Answer { plugin: plugin.to_owned(), source })?;
    if result.ips.is_empty() {
        log::warn!("the IPAM plugin {plugin} leased no address");
    }
    let mut ips = result.ips;
    ips.iter_mut().for_each(|ip| ip.interface = None);
    Ok((Addressing { ips, routes: result.routes }, result.dns))
}

/// Executes an IPAM plugin with the configuration as it was received.
fn execute(network: &Network, plugin: &str, verb: Verb) -> Result<Option<Value>, VerbError> {
    let stdin = serde_json::to_vec(&network.raw)?;
    Ok(delegate::run(plugin, &network.cni_path, verb, &[], &stdin)?)
}

/// Passes a verb that has no answer on to an executed plugin; the built-in one is served by the verbs themselves.
pub(super) fn forward(network: &Network, verb: Verb) -> Result<(), VerbError> {
    match &network.ipam {
        Ipam::Exec { plugin } => execute(network, plugin, verb).map(drop),
        Ipam::None | Ipam::HostLocal(_) => Ok(()),
    }
}

/// Those addresses of an attachment that the built-in IPAM does not hold for it.
pub(super) fn lost(network: &Network, record: &Record) -> Result<Vec<IpAddr>, VerbError> {
    match (&network.ipam, &record.lease) {
        (Ipam::Exec { .. }, _) => Ok(Vec::new()),
        (_, LeaseSource::HostLocal { data_dir }) => {
            let ipam = HostLocal::unconfigured(&network.name, data_dir)?;
            Ok(ipam.not_leased(&owner(record), &record.ips())?)
        }
        _ => Ok(Vec::new()),
    }
}

/// The built-in IPAM of a network that has room for another pod.
pub(super) fn with_room(network: &Network, config: &HostLocalConfig) -> Result<HostLocal, VerbError> {
    let ipam = HostLocal::new(&network.name, config.clone())?;
    match ipam.usage()?.into_iter().find(|usage| usage.is_full()) {
        Some(full) => Err(VerbError::Full { pool: full.pool, used: full.used }),
        None => Ok(ipam),
    }
}

/// Leases addresses again that were lost, which fails if another has got them meanwhile.
pub(super) fn restore(network: &Network, record: &Record, records: &Records) -> Result<(), VerbError> {
    let lost = lost(network, record)?;
    let Ipam::HostLocal(config) = &network.ipam else { return Ok(()) };
    if !lost.is_empty() {
        let gone = |owner: &Owner, leased| is_gone(network, records, owner, leased);
        let ipam = HostLocal::new(&network.name, config.clone())?;
        ipam.allocate(&owner(record), &record.ips(), &lost, &gone)?;
    }
    Ok(())
}

/// Whose the leases of an attachment are.
pub(super) fn owner(record: &Record) -> Owner {
    Owner::new(&record.container_id, &record.ifname)
}

/// Whether a lease may be taken from its owner, asked only when the range is full.
///
/// With a record: when both the namespace and the link are gone, nothing has the address. (A link that is not there
/// yet, of an ADD under way, is in a namespace that is.) Without one: when the lease is older than this boot, for
/// nothing has outlived that. A younger one may be that of a living pod which another plugin has attached.
fn is_gone(network: &Network, records: &Records, owner: &Owner, leased: SystemTime) -> bool {
    let record = match Attachment::new(owner.container_id.clone(), owner.ifname.clone()) {
        Ok(attachment) => records.read(&network.name, &attachment),
        // Anything may stand in a lease file. No runtime has such a container, and so there is no record.
        Err(_) => Ok(None),
    };
    match record {
        Ok(Some(record)) => {
            let link = Path::new("/sys/class/net").join(&record.veth);
            Netns::open(&record.netns).is_err() && !link.exists()
        }
        Ok(None) => boot::time().is_some_and(|boot| leased < boot),
        Err(_) => false,
    }
}

/// True where the pod's link has to be there still for its addresses to be given back: the `dhcp` plugin tells the
/// server through it (plugins#791), and the server alone gives them to another.
pub(super) fn is_released_through_link(network: &Network, record: Option<&Record>) -> bool {
    match record.map_or_else(|| source(network), |record| record.lease.clone()) {
        LeaseSource::Exec { plugin, .. } => plugin == "dhcp",
        LeaseSource::None | LeaseSource::HostLocal { .. } => false,
    }
}

/// Gives an attachment's addresses back, by the record if there is one and by the configuration if not.
pub(super) fn release(
    network: &Network,
    attachment: &Attachment,
    record: Option<&Record>,
) -> Result<(), VerbError> {
    let source = record.map_or_else(|| source(network), |record| record.lease.clone());
    match source {
        LeaseSource::None => Ok(()),
        LeaseSource::HostLocal { data_dir } => {
            let owner = Owner::new(&attachment.container_id, &attachment.ifname);
            let ipam = match &network.ipam {
                Ipam::HostLocal(config @ HostLocalConfig { data_dir: same, .. }) if *same == data_dir => {
                    HostLocal::new(&network.name, config.clone())?
                }
                _ => HostLocal::unconfigured(&network.name, &data_dir)?,
            };
            // That of an ADD cut short may not know all it has leased: then every lease is looked at.
            let hint = record.filter(|record| record.complete).map(Record::ips).unwrap_or_default();
            Ok(ipam.release(&owner, &hint)?)
        }
        LeaseSource::Exec { plugin, ipam } => {
            // As it was leased, whatever the configuration says now; and for a GC, in whose environment there is
            // no attachment.
            let mut config = network.raw.clone();
            config["ipam"] = ipam;
            let changes =
                [("CNI_CONTAINERID", &*attachment.container_id), ("CNI_IFNAME", &*attachment.ifname)];
            let stdin = serde_json::to_vec(&config)?;
            Ok(delegate::run(&plugin, &network.cni_path, Verb::Del, &changes, &stdin).map(drop)?)
        }
    }
}

/// The code of a failed lease.
pub(super) fn code(error: &IpamError) -> Code {
    match error {
        IpamError::RangeFull { .. } => Code::RangeFull,
        IpamError::NetworkName { .. }
        | IpamError::ResolvConf { .. }
        | IpamError::RequestedOutside { .. }
        | IpamError::RequestedGateway { .. }
        | IpamError::RequestedTaken { .. } => Code::InvalidConfig,
        IpamError::Store(_) => Code::Io,
    }
}
