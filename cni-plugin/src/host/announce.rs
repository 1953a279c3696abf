//! Unsolicited announcements of a pod's addresses, so that neighbours with an old entry for a reused address
//! find the new owner at once.

use std::{
    io, mem,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
};

use nix::libc;

/// Announces an address on a link of this thread's namespace.
pub fn announce(ifindex: u32, mac: [u8; 6], address: IpAddr) -> io::Result<()> {
    match address {
        IpAddr::V4(address) => arp(ifindex, mac, address),
        IpAddr::V6(address) => neighbour_advertisement(ifindex, mac, address),
    }
}

/// An ARP announcement (RFC 5227, section 3): a broadcast request for our own address.
fn arp(ifindex: u32, mac: [u8; 6], address: Ipv4Addr) -> io::Result<()> {
    let protocol = (libc::ETH_P_ARP as u16).to_be();
    let socket = socket(libc::AF_PACKET, libc::SOCK_DGRAM, protocol as i32)?;
    let mut packet = Vec::with_capacity(28);
    // Ethernet, IPv4, 6-byte and 4-byte addresses, request (RFC 826).
    packet.extend([0, 1, 8, 0, 6, 4, 0, 1]);
    packet.extend(mac);
    packet.extend(address.octets());
    packet.extend([0; 6]);
    packet.extend(address.octets());
    // SAFETY: all-zero is a valid sockaddr_ll.
    let mut to: libc::sockaddr_ll = unsafe { mem::zeroed() };
    to.sll_family = libc::AF_PACKET as u16;
    to.sll_protocol = protocol;
    to.sll_ifindex = ifindex as i32;
    to.sll_halen = 6;
    to.sll_addr[..6].fill(0xff);
    send(&socket, &packet, &to)
}

/// An unsolicited neighbour advertisement (RFC 4861, sections 4.4 and 7.2.6) to all nodes, with the override
/// flag and our link-layer address. The kernel fills in the checksum (RFC 3542, section 3.1).
fn neighbour_advertisement(ifindex: u32, mac: [u8; 6], address: Ipv6Addr) -> io::Result<()> {
    let socket = socket(libc::AF_INET6, libc::SOCK_RAW, libc::IPPROTO_ICMPV6)?;
    let hops: libc::c_int = 255;
    let option = |name: libc::c_int, value: libc::c_int| {
        let size = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: `value` is an int that outlives the call, and `size` is its size.
        match unsafe {
            libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_IPV6, name, (&raw const value).cast(), size)
        } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    option(libc::IPV6_MULTICAST_HOPS, hops)?;
    option(libc::IPV6_MULTICAST_IF, ifindex as libc::c_int)?;
    let mut packet = Vec::with_capacity(32);
    packet.extend([136, 0, 0, 0, 0x20, 0, 0, 0]);
    packet.extend(address.octets());
    packet.extend([2, 1]);
    packet.extend(mac);
    // SAFETY: all-zero is a valid sockaddr_in6.
    let mut to: libc::sockaddr_in6 = unsafe { mem::zeroed() };
    to.sin6_family = libc::AF_INET6 as u16;
    to.sin6_addr.s6_addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1).octets();
    to.sin6_scope_id = ifindex;
    send(&socket, &packet, &to)
}

fn socket(family: libc::c_int, kind: libc::c_int, protocol: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: no pointers; the result is checked.
    let fd = unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor we have just got and nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn send<A>(socket: &OwnedFd, packet: &[u8], to: &A) -> io::Result<()> {
    // SAFETY: both pointers go with their own sizes, and `A` is a sockaddr structure in both callers.
    let sent = unsafe {
        libc::sendto(
            socket.as_raw_fd(),
            packet.as_ptr().cast(),
            packet.len(),
            0,
            (&raw const *to).cast(),
            size_of::<A>() as libc::socklen_t,
        )
    };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
