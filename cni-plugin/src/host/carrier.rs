//! Making the kernel act on a changed carrier at once.
//!
//! When a veth's second end comes up, both get their carrier, but the operational state, and with it a
//! bridge port's forwarding and the qdisc, follow only when the link watch work queue has run, which can be a
//! second later. `ethtool_op_get_link` (`net/ethtool/ioctl.c`) runs it for the device it asks about, so asking
//! replaces waiting. veth and bridge both use it.

use std::{
    io, mem,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
};

use nix::libc;

/// `ETHTOOL_GLINK` of `linux/ethtool.h`.
const ETHTOOL_GLINK: u32 = 0x0a;

/// `struct ethtool_value`.
#[repr(C)]
struct EthtoolValue {
    cmd: u32,
    data: u32,
}

/// Synchronizes a link of this thread's namespace. Returns whether it has carrier.
pub fn sync(link: &str) -> io::Result<bool> {
    // SAFETY: no pointers; the result is checked.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor we have just got and nobody else owns.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    let mut value = EthtoolValue { cmd: ETHTOOL_GLINK, data: 0 };
    // SAFETY: all-zero is a valid ifreq.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    if link.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(link.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: `request` is an ifreq whose data points to an ethtool_value, both alive during the call.
    match unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) } {
        0 => Ok(value.data != 0),
        _ => Err(io::Error::last_os_error()),
    }
}
