//! DEL: take a pod's wiring away, from (network, container, interface) alone. Never fails for what is gone.

use std::hash::Hasher;

use fnv::FnvHasher;

use super::{VerbError, lease};
use crate::{
    cni::request::{Attachment, Environment},
    config::Network,
    dataplane,
    host::{Host, LinuxHost, iptables, nft},
    plan::Step,
    state::{Record, Records, STATE_DIR},
};

/// Serves a DEL.
pub(super) fn del(network: &Network, environment: &Environment) -> Result<(), VerbError> {
    let attachment = environment.attachment.as_ref().ok_or(VerbError::Missing("CNI_CONTAINERID"))?;
    let records = Records::at(STATE_DIR);
    let record = records.read(&network.name, attachment)?;
    let mut host = LinuxHost::open(None)?;
    detach(network, attachment, record.as_ref(), &records, &mut host)?;
    log::info!("detached");
    Ok(())
}

/// Removes everything of one attachment and, with the last one, everything shared. Goes on after failures
/// and reports them all; the record stays then, so that another DEL or a GC tries again.
pub(super) fn detach(
    network: &Network,
    attachment: &Attachment,
    record: Option<&Record>,
    records: &Records,
    host: &mut LinuxHost,
) -> Result<(), VerbError> {
    let mut errors = Vec::new();
    // The link before the lease: an address must not be given to another while it is in use. With the link go
    // the pod's end, its addresses and routes, and the programs on it.
    let name = record.map_or_else(|| veth_name(&network.name, attachment), |record| record.veth.clone());
    let steps = [Step::DeleteLink { name: name.clone() }, Step::ForgetMac { port: name }];
    errors.extend(steps.iter().filter_map(|step| host.apply(step).err()).map(VerbError::from));
    errors.extend(lease::release(network, attachment, record).err());
    if errors.is_empty()
        && let Some(record) = record
    {
        match records.remove(&record.network, attachment) {
            Ok(()) => errors.extend(last_one_out(record, records, host)),
            Err(error) => errors.push(error.into()),
        }
    }
    VerbError::all(errors)
}

/// Takes away what is shared by the attachments of a network, or of the node, if there are no more. Only whoever
/// has removed a record comes here: records that somebody deleted by hand must not cost the living pods their
/// rules.
fn last_one_out(record: &Record, records: &Records, host: &LinuxHost) -> Vec<VerbError> {
    let alone = match records.alone() {
        Ok(alone) => alone,
        Err(error) => return vec![error.into()],
    };
    let mut errors = Vec::new();
    match alone.network_is_empty(&record.network) {
        Ok(true) => {
            errors.extend(nft::remove(&record.network).err().map(VerbError::from));
            if record.iptables {
                errors.extend(iptables::remove(&record.network).err().map(VerbError::from));
            }
        }
        Ok(false) => {}
        Err(error) => errors.push(error.into()),
    }
    match alone.node_is_empty() {
        Ok(true) => {
            errors.extend(nft::remove_table().err().map(VerbError::from));
            if let Some(bpffs) = &record.bpffs {
                errors.extend(dataplane::tear_down(bpffs, host).into_iter().map(VerbError::TearDown));
            }
        }
        Ok(false) => {}
        Err(error) => errors.push(error.into()),
    }
    errors
}

/// Name of the host end: computed from what every verb is told, so that DEL finds it without a record.
pub(super) fn veth_name(network: &str, attachment: &Attachment) -> String {
    let mut hasher = FnvHasher::default();
    for part in [network, &attachment.container_id, &attachment.ifname] {
        hasher.write(part.as_bytes());
        // None of the parts contains a slash.
        hasher.write(b"/");
    }
    // 15 characters, as IFNAMSIZ allows.
    format!("veth{:011x}", hasher.finish() & 0xfff_ffff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_by_each_part_and_fit_the_kernel() {
        let name = |network, id: &str, ifname: &str| {
            veth_name(network, &Attachment { container_id: id.into(), ifname: ifname.into() })
        };
        let base = name("n1", "c1", "eth0");
        assert_eq!(base.len(), 15);
        assert_eq!(base, name("n1", "c1", "eth0"));
        for other in [
            name("n2", "c1", "eth0"),
            name("n1", "c2", "eth0"),
            name("n1", "c1", "eth1"),
            name("n", "1c1", "eth0"),
        ] {
            assert_ne!(base, other);
        }
    }
}
