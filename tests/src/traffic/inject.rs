//! Frames put on a device as they are.

use std::os::fd::{AsRawFd, OwnedFd};

use anyhow::{Context, Result, ensure};
use nix::libc;
use nix::net::if_::if_nametoindex;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use crate::Place;

/// A packet socket that sends on one device. The frames' checksums are theirs: no device is to fill them in.
pub struct Injector {
    socket: OwnedFd,
    to: libc::sockaddr_ll,
}

impl Injector {
    /// For a device of a place.
    pub fn new(place: &Place, device: &str) -> Result<Injector> {
        place.run_in(|| {
            // Protocol 0: it receives nothing.
            let socket = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None)
                .context("a packet socket")?;
            // SAFETY: all zeroes are a value of this struct of integers.
            let mut to: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
            to.sll_family = libc::AF_PACKET as u16;
            to.sll_ifindex = if_nametoindex(device)? as i32;
            Ok(Injector { socket, to })
        })
    }

    /// Sends a frame, from the destination MAC on.
    pub fn send(&self, frame: &[u8]) -> Result<()> {
        let mut to = self.to;
        to.sll_protocol = u16::from_ne_bytes([frame[12], frame[13]]);
        // SAFETY: both pointers come with the size of what they point to, and outlive the call.
        let sent = unsafe {
            libc::sendto(
                self.socket.as_raw_fd(),
                frame.as_ptr().cast(),
                frame.len(),
                0,
                (&raw const to).cast(),
                size_of_val(&to) as u32,
            )
        };
        let error = std::io::Error::last_os_error();
        ensure!(sent == frame.len() as isize, "sending {} bytes: {error}", frame.len());
        Ok(())
    }
}
