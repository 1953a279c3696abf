//! GC: remove what belongs to no valid attachment of the network.

use std::collections::BTreeSet;

use super::{VerbError, del, lease};
use crate::{
    cni::request::{Attachment, Verb},
    config::{Ipam, Network},
    host::{Host, LinuxHost},
    ipam::{HostLocal, Owner},
    plan::{Side, Step},
    state::{Records, STATE_DIR},
};

/// Serves a GC. A missing list is not an empty one: then nothing is known to be invalid.
pub(super) fn gc(network: &Network) -> Result<(), VerbError> {
    let Some(valid) = &network.valid_attachments else {
        log::info!("GC without cni.dev/valid-attachments: nothing to do");
        return Ok(());
    };
    let valid: BTreeSet<Attachment> = valid
        .iter()
        .map(|v| Attachment { container_id: v.container_id.clone(), ifname: v.ifname.clone() })
        .collect();
    let records = Records::at(STATE_DIR);
    let mut host = LinuxHost::open(None)?;
    let mut errors = Vec::new();
    errors.extend(detach_invalid(network, &valid, &records, &mut host).err());
    errors.extend(delete_orphans(network, &valid, &records, &mut host).err());
    errors.extend(free_leases(network, &valid).err());
    errors.extend(lease::forward(network, Verb::Gc).err());
    if valid.is_empty() {
        // What a DEL that was killed has left when nothing else was.
        let shared = del::Shared::by_configuration(network);
        errors.extend(del::last_one_out(&shared, &records, &host).err());
    }
    VerbError::all(errors)
}

fn detach_invalid(
    network: &Network,
    valid: &BTreeSet<Attachment>,
    records: &Records,
    host: &mut LinuxHost,
) -> Result<(), VerbError> {
    let mut errors = Vec::new();
    for (_, attachment) in records.list(Some(&network.name))? {
        if !valid.contains(&attachment) {
            log::info!("GC: detaching {}/{}", attachment.container_id, attachment.ifname);
            let record = records.read(&network.name, &attachment)?;
            errors.extend(del::detach(network, &attachment, record.as_ref(), records, host).err());
        }
    }
    VerbError::all(errors)
}

/// Deletes ports of the bridge that have our kind of name and no record: somebody has deleted those. While another
/// network uses the bridge, nobody can tell whose they are.
fn delete_orphans(
    network: &Network,
    valid: &BTreeSet<Attachment>,
    records: &Records,
    host: &mut LinuxHost,
) -> Result<(), VerbError> {
    let Some(bridge) = host.link(Side::Node, &network.bridge)? else { return Ok(()) };
    // Before the records: an ADD writes its record first, so none of its links is found without.
    let links = host.node().links()?;
    let mut known: BTreeSet<String> = valid.iter().map(|a| del::veth_name(&network.name, a)).collect();
    for record in records.all()? {
        let record = record?;
        if record.network != network.name && record.bridge == network.bridge {
            return Ok(());
        }
        known.insert(record.veth);
    }
    let mut errors = Vec::new();
    for (name, link) in links {
        if link.controller == Some(bridge.index) && del::is_veth_name(&name) && !known.contains(&name) {
            log::info!("GC: deleting {name}, which no record speaks of");
            errors.extend(host.apply(&Step::DeleteLink { name }).err().map(VerbError::from));
        }
    }
    VerbError::all(errors)
}

/// Leases without a record: of another plugin that used the range before, or of pods from before a reboot.
fn free_leases(network: &Network, valid: &BTreeSet<Attachment>) -> Result<(), VerbError> {
    let Ipam::HostLocal(config) = &network.ipam else { return Ok(()) };
    let owners: Vec<Owner> = valid.iter().map(|v| Owner::new(&v.container_id, &v.ifname)).collect();
    let freed = HostLocal::new(&network.name, config.clone())?.retain(&owners)?;
    if !freed.is_empty() {
        log::info!("GC: freed {freed:?}");
    }
    Ok(())
}
