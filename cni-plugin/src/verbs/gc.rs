//! GC: remove what belongs to no valid attachment of the network.

use super::{VerbError, del, lease};
use crate::{
    cni::request::{Attachment, Verb},
    config::{Ipam, Network},
    host::LinuxHost,
    ipam::{HostLocal, Owner},
    state::{Records, STATE_DIR},
};

/// Serves a GC. A missing list is not an empty one: then nothing is known to be invalid.
pub(super) fn gc(network: &Network) -> Result<(), VerbError> {
    let Some(valid) = &network.valid_attachments else {
        log::info!("GC without cni.dev/valid-attachments: nothing to do");
        return Ok(());
    };
    let is_valid = |attachment: &Attachment| {
        valid.iter().any(|v| v.container_id == attachment.container_id && v.ifname == attachment.ifname)
    };
    let records = Records::at(STATE_DIR);
    let mut host = LinuxHost::open(None)?;
    let mut errors = Vec::new();
    for (_, attachment) in records.list(Some(&network.name))? {
        if !is_valid(&attachment) {
            log::info!("GC: detaching {}/{}", attachment.container_id, attachment.ifname);
            let record = records.read(&network.name, &attachment)?;
            errors.extend(del::detach(network, &attachment, record.as_ref(), &records, &mut host).err());
        }
    }
    // Leases without a record: of an ADD killed between the two, or of another plugin that used the range before.
    if let Ipam::HostLocal(config) = &network.ipam {
        let owners: Vec<Owner> = valid.iter().map(|v| Owner::new(&v.container_id, &v.ifname)).collect();
        match HostLocal::new(&network.name, config.clone())?.retain(&owners) {
            Ok(freed) if !freed.is_empty() => log::info!("GC: freed {freed:?}"),
            Ok(_) => {}
            Err(error) => errors.push(error.into()),
        }
    }
    errors.extend(lease::forward(network, Verb::Gc).err());
    VerbError::all(errors)
}
