//! DEL: take a pod's wiring away, from (network, container, interface) alone. Never fails for what is gone.

use std::{hash::Hasher, path::Path};

use fnv::FnvHasher;

use super::{VerbError, lease};
use crate::{
    cni::request::{Attachment, Environment},
    config::{MasqueradeBackend, Network},
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
    // The link before the lease: an address must not be given to another while it is in use (plugins#666). With the
    // link go the pod's end, its addresses and routes, and the programs on it.
    let link_first = !lease::is_released_through_link(network, record);
    if !link_first {
        errors.extend(lease::release(network, attachment, record).err());
    }
    let name = record.map_or_else(|| veth_name(&network.name, attachment), |record| record.veth.clone());
    errors.extend(unplug(&name).iter().filter_map(|step| host.apply(step).err()).map(VerbError::from));
    if link_first {
        errors.extend(lease::release(network, attachment, record).err());
    }
    if errors.is_empty() {
        match finish(network, attachment, record, records, host) {
            Ok(()) => {}
            Err(VerbError::Several(more)) => errors.extend(more),
            Err(error) => errors.push(error),
        }
    }
    VerbError::all(errors)
}

/// Removes the record, and what is shared if it was the last.
fn finish(
    network: &Network,
    attachment: &Attachment,
    record: Option<&Record>,
    records: &Records,
    host: &LinuxHost,
) -> Result<(), VerbError> {
    // Also one that could not be understood.
    records.remove(&network.name, attachment)?;
    match record {
        Some(record) => last_one_out(&Shared::by_record(record), records, host),
        None if records.left_unfinished(&network.name)? => {
            last_one_out(&Shared::by_configuration(network), records, host)
        }
        None => Ok(()),
    }
}

/// What the attachments of a network share, and where it may be.
pub(super) struct Shared<'a> {
    network: &'a str,
    iptables: bool,
    bpffs: Option<&'a Path>,
}

impl<'a> Shared<'a> {
    fn by_record(record: &'a Record) -> Self {
        Self { network: &record.network, iptables: record.iptables, bpffs: record.bpffs.as_deref() }
    }

    /// Only what is known by the network's name.
    pub(super) fn by_name(network: &'a str) -> Self {
        Self { network, iptables: false, bpffs: None }
    }

    pub(super) fn by_configuration(network: &'a Network) -> Self {
        let iptables = network.ip_masq && network.masquerade_backend == MasqueradeBackend::Iptables;
        Self { network: &network.name, iptables, bpffs: Some(&network.ebpf.bpffs) }
    }
}

/// Takes away what is shared by the attachments of a network, or of the node, if there are no more. Only for those
/// who know that there were some: records that somebody deleted by hand must not cost the living pods their rules.
/// The network's directory goes after its rules, and the node's last of all, so that they tell of a DEL cut short.
pub(super) fn last_one_out(
    shared: &Shared<'_>,
    records: &Records,
    host: &LinuxHost,
) -> Result<(), VerbError> {
    let alone = records.alone()?;
    let mut errors = Vec::new();
    if alone.network_is_empty(shared.network)? {
        errors.extend(nft::remove(shared.network).err().map(VerbError::from));
        if shared.iptables {
            errors.extend(iptables::remove(shared.network).err().map(VerbError::from));
        }
        if errors.is_empty() {
            alone.forget_network(shared.network);
        }
    }
    if alone.node_is_empty()? {
        errors.extend(nft::remove_table().err().map(VerbError::from));
        if let Some(bpffs) = shared.bpffs {
            errors.extend(dataplane::tear_down(bpffs, host).into_iter().map(VerbError::TearDown));
        }
    }
    VerbError::all(errors)
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

/// What takes a pod's port of the bridge away, with all that hangs on it.
pub(super) fn unplug(veth: &str) -> [Step; 2] {
    [Step::DeleteLink { name: veth.to_owned() }, Step::ForgetMac { port: veth.to_owned() }]
}

/// True for names that [`veth_name`] makes.
pub(super) fn is_veth_name(name: &str) -> bool {
    let digits = name.strip_prefix("veth").unwrap_or_default();
    digits.len() == 11 && digits.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f'))
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
        assert!(is_veth_name(&base));
        assert!(!is_veth_name("veth1234abcd") && !is_veth_name("vethABCDEFABCDE"));
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
