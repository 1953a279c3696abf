//! Waiting for IPv6 addresses: for duplicate address detection (RFC 4862, 5.4), and without it for the moment from
//! which neighbours are answered.

use std::{
    io,
    net::Ipv6Addr,
    os::fd::{AsRawFd, OwnedFd},
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    libc,
    sys::{
        socket::{
            AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, setsockopt,
            socket, sockopt::ReceiveTimeout,
        },
        time::{TimeVal, TimeValLike},
    },
};

use super::{HostError, Netlink};

/// The detection takes up to two seconds for each address by default, all of a link at once.
const PATIENCE: Duration = Duration::from_secs(10);
/// `RTMGRP_IPV6_IFADDR` of `linux/rtnetlink.h`.
const IPV6_IFADDR: u32 = 0x100;
/// Longer than a busy kernel takes to get to an address that is not tried first.
const COMPLETION: Duration = Duration::from_secs(2);

/// Tells when an IPv6 address of a namespace changes.
pub struct Changes {
    socket: OwnedFd,
}

impl Changes {
    /// Listens in this thread's present namespace.
    pub fn listen() -> io::Result<Self> {
        let protocol = SockProtocol::NetlinkRoute;
        let socket = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, IPV6_IFADDR))?;
        setsockopt(&socket, ReceiveTimeout, &TimeVal::seconds(1))?;
        Ok(Self { socket })
    }

    /// Waits until the kernel is done with an address that has just been added without detection. It leaves that to a
    /// work queue, and only there joins the group by which neighbours ask for the address (`addrconf_dad_begin` in
    /// net/ipv6/addrconf.c): before, it drops their first question, and they ask again a second later. The message
    /// comes after that. Without one there is nothing to be done, and the address works sooner or later.
    pub fn await_completion(&self, address: Ipv6Addr) {
        let start = Instant::now();
        let mut buffer = [0; 4096];
        while start.elapsed() < COMPLETION {
            match recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
                Ok(length) if announces(&buffer[..length], address) => return,
                Ok(_) | Err(Errno::EAGAIN | Errno::EINTR) => {}
                Err(_) => return,
            }
        }
        log::warn!("the kernel has not confirmed {address} within {COMPLETION:?}");
    }

    /// Waits until no address of a link is tentative. What has changed is asked of `netlink`, the messages only wake.
    pub fn settle(&self, netlink: &Netlink, link: &str) -> Result<(), HostError> {
        let failed = |error: io::Error| HostError::new("wait for the addresses of", link, error);
        let index = netlink.need(link)?.index;
        let start = Instant::now();
        loop {
            let state = netlink.detection(index)?;
            if let Some(duplicate) = state.duplicate {
                return Err(failed(io::Error::new(
                    io::ErrorKind::AddrInUse,
                    format!("{duplicate} is in use by another host"),
                )));
            }
            if !state.tentative {
                return Ok(());
            }
            if start.elapsed() > PATIENCE {
                return Err(failed(io::ErrorKind::TimedOut.into()));
            }
            match recv(self.socket.as_raw_fd(), &mut [0; 4096], MsgFlags::empty()) {
                // A second without news, or more of it than the socket holds: look again.
                Ok(_) | Err(Errno::EAGAIN | Errno::EINTR | Errno::ENOBUFS) => {}
                Err(errno) => return Err(failed(errno.into())),
            }
        }
    }
}

/// True if a message says that an address is there (rtnetlink(7): `nlmsghdr`, `ifaddrmsg`, attributes). A multicast
/// comes as a datagram of one message.
fn announces(message: &[u8], address: Ipv6Addr) -> bool {
    const HEADERS: usize = 16 + 8;
    let Some((headers, mut attributes)) = message.split_at_checked(HEADERS) else { return false };
    if u16::from_ne_bytes([headers[4], headers[5]]) != libc::RTM_NEWADDR {
        return false;
    }
    while let [a, b, c, d, ..] = *attributes {
        let (length, kind) = (usize::from(u16::from_ne_bytes([a, b])), u16::from_ne_bytes([c, d]));
        if kind == libc::IFA_ADDRESS && attributes.get(4..length) == Some(&address.octets()) {
            return true;
        }
        match attributes.get(length.max(4).next_multiple_of(4)..) {
            Some(rest) => attributes = rest,
            None => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Laid out as in rtnetlink(7), for fd00::1/64 on link 1, with the one attribute that matters.
    #[test]
    fn a_message_is_read() {
        let mut message = vec![44, 0, 0, 0, 20, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
        message.extend([10, 64, 0x82, 0, 1, 0, 0, 0, 20, 0, 1, 0]);
        message.extend("fd00::1".parse::<Ipv6Addr>().unwrap().octets());
        assert!(announces(&message, "fd00::1".parse().unwrap()));
        assert!(!announces(&message, "fd00::2".parse().unwrap()));
        for length in 0..message.len() {
            assert!(!announces(&message[..length], "fd00::1".parse().unwrap()), "cut to {length}");
        }
        message[4] = 21;
        assert!(!announces(&message, "fd00::1".parse().unwrap()), "RTM_DELADDR");
    }
}
