//! What an earlier ADD of the same attachment has left.

use super::{VerbError, lease};
use crate::{
    config::Network,
    host::{Host, LinuxHost, Netns},
    plan::{Side, Step},
    state::{LeaseSource, Record, Records},
};

/// An earlier ADD was cut short, or its namespace is gone without a DEL. What is left of its link goes; its addresses
/// are for this one in the latter case. One that is complete and alive is left alone.
pub(super) fn take_over(
    network: &Network,
    records: &Records,
    record: &mut Record,
    host: &mut LinuxHost,
) -> Result<(), VerbError> {
    let Some(before) = records.read(&record.network, &record.attachment())? else { return Ok(()) };
    if before.complete && is_alive(&before, record, host)? {
        return Err(VerbError::Exists { ifname: before.ifname });
    }
    log::info!("taking over what an earlier ADD left");
    host.apply(&Step::DeleteLink { name: before.veth.clone() })?;
    let keeps_lease = before.complete && matches!(before.lease, LeaseSource::HostLocal { .. });
    if !keeps_lease && let Err(error) = lease::release(network, &before.attachment(), Some(&before)) {
        log::warn!("the addresses of the earlier ADD could not be given back: {error}");
    }
    record.addresses = before.addresses;
    Ok(())
}

/// True if the interface is still there, in the namespace of then.
fn is_alive(before: &Record, record: &Record, host: &LinuxHost) -> Result<bool, VerbError> {
    if before.netns == record.netns {
        return Ok(host.link(Side::Pod, &before.ifname)?.is_some());
    }
    let Ok(netns) = Netns::open(&before.netns) else { return Ok(false) };
    Ok(LinuxHost::open(Some(netns))?.link(Side::Pod, &before.ifname)?.is_some())
}
