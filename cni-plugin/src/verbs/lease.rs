//! Addresses for an attachment: leased from wherever the configuration says, given back to wherever the
//! record says.

use std::net::IpAddr;

use super::VerbError;
use crate::{
    cni::{error::Code, request::Attachment, types::Dns},
    config::{Ipam, Network},
    ipam::{HostLocal, HostLocalConfig, IpamError, Owner},
    plan::Addressing,
    state::{LeaseSource, Record, Records},
};

/// What the record keeps of where addresses come from.
pub(super) fn source(ipam: &Ipam) -> LeaseSource {
    match ipam {
        Ipam::None => LeaseSource::None,
        Ipam::HostLocal(config) => LeaseSource::HostLocal { data_dir: config.data_dir.clone() },
        Ipam::Exec { plugin } => LeaseSource::Exec { plugin: plugin.clone() },
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
            let gone = |owner: &Owner| is_gone(records, &network.name, owner);
            let lease = ipam.allocate(&owner, before, &network.requested_ips, &gone)?;
            Ok((Addressing { ips: lease.ips, routes: lease.routes }, lease.dns))
        }
        Ipam::Exec { plugin } => Err(VerbError::NoIpamPlugin { plugin: plugin.clone() }),
    }
}

/// A lease whose owner has no record on this node is from before a reboot, or of another plugin. Only the
/// former may be taken, and the two cannot be told apart by the lease alone.
fn is_gone(_records: &Records, _network: &str, _owner: &Owner) -> bool {
    false
}

/// Gives an attachment's addresses back, by the record if there is one and by the configuration if not.
pub(super) fn release(
    network: &Network,
    attachment: &Attachment,
    record: Option<&Record>,
) -> Result<(), VerbError> {
    let source = record.map_or_else(|| source(&network.ipam), |record| record.lease.clone());
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
            let hint = record.map(Record::ips).unwrap_or_default();
            Ok(ipam.release(&owner, &hint)?)
        }
        LeaseSource::Exec { plugin } => Err(VerbError::NoIpamPlugin { plugin }),
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
