//! Whether the kernel can filter VLANs on bridges, found out where it harms nobody.

use std::{io, rc::Rc, thread};

use nix::sched::{CloneFlags, unshare};
use tokio::runtime::Builder;

use super::{HostError, netlink::Netlink};

/// Asks a bridge in a network namespace of its own.
///
/// # Errors
/// The kernel's answer: it has no VLAN filtering, or is out of namespaces.
pub fn probe() -> Result<(), HostError> {
    let failed = |error: io::Error| HostError::new("probe", "a network namespace of its own", error);
    let attempt = thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNET).map_err(|errno| failed(errno.into()))?;
        let runtime = Builder::new_current_thread().enable_io().build().map_err(failed)?;
        let netlink = Netlink::connect(Rc::new(runtime)).map_err(failed)?;
        netlink.create_bridge("probe", [2, 0, 0, 0, 0, 1])?;
        netlink.filter_vlans("probe")
    });
    attempt.join().unwrap_or_else(|_| Err(failed(io::Error::other("the thread panicked"))))
}
