//! A router's advertisement, as a router sends it.

use std::io;
use std::mem::size_of_val;
use std::net::{Ipv6Addr, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use anyhow::{Context, Result};
use nix::libc;
use nix::net::if_::if_nametoindex;

use crate::Place;

/// Sends a router advertisement (RFC 4861, 4.2) with a lifetime and the autonomous prefix 2001:db8:bad::/64 (4.6.2)
/// from a link of `place` to all nodes on it.
pub fn advertise(place: &Place, link: &str) -> Result<()> {
    let index = if_index(place, link)?;
    place.run_in(|| {
        // SAFETY: no pointers; the result is checked.
        let raw = unsafe {
            libc::socket(libc::AF_INET6, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::IPPROTO_ICMPV6)
        };
        if raw < 0 {
            return Err(io::Error::last_os_error()).context("making a raw socket");
        }
        // SAFETY: a descriptor we have just got and nobody else owns.
        let socket = unsafe { OwnedFd::from_raw_fd(raw) };
        option(&socket, libc::IPV6_MULTICAST_HOPS, 255)?;
        option(&socket, libc::IPV6_MULTICAST_IF, index as libc::c_int)?;
        let all_nodes = std::net::SocketAddrV6::new(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1), 0, 0, index);
        // Only for its `send_to`: a raw socket is sent to as a datagram one is. The kernel fills in the checksum.
        UdpSocket::from(socket).send_to(&advertisement(), all_nodes).context("sending the advertisement")?;
        Ok(())
    })
}

fn if_index(place: &Place, link: &str) -> Result<u32> {
    place.run_in(|| Ok(if_nametoindex(link)?))
}

fn option(socket: &OwnedFd, name: libc::c_int, value: libc::c_int) -> Result<()> {
    // SAFETY: the option's value is an int, alive during the call, and its length is given.
    let set = unsafe {
        let value = (&raw const value).cast();
        libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_IPV6, name, value, size_of_val(&name) as u32)
    };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()).context("setting a socket option") }
}

fn advertisement() -> Vec<u8> {
    // Type 134, code, checksum, hop limit, flags, router lifetime 1800 s, reachable time, retransmission timer.
    let mut packet = vec![134, 0, 0, 0, 64, 0, 0x07, 0x08, 0, 0, 0, 0, 0, 0, 0, 0];
    // Prefix information: 4 times 8 bytes, /64, on-link and autonomous, valid and preferred for an hour.
    packet.extend([3, 4, 64, 0xc0, 0, 0, 0x0e, 0x10, 0, 0, 0x0e, 0x10, 0, 0, 0, 0]);
    packet.extend(Ipv6Addr::new(0x2001, 0xdb8, 0xbad, 0, 0, 0, 0, 0).octets());
    packet
}
