//! Waiting for duplicate address detection (RFC 4862, 5.4).

use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
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
