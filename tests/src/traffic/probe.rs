//! UDP sockets that look at the path: hops by TTL, and the largest datagram that may not be fragmented.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::libc::{self, sock_extended_err};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt, sockopt};

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(2);

/// A connected UDP socket that gets to know of ICMP errors. Made where the caller is.
pub struct Prober {
    socket: UdpSocket,
    to: SocketAddr,
}

/// What a probe came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The server answered.
    Answered,
    /// A router or host on the way answered with an ICMP error of this type and code.
    Error(IpAddr, u8, u8),
    /// The kernel knows a smaller path MTU.
    TooLong,
    /// Nobody answered.
    Silence,
}

impl Prober {
    /// Connects to a server that answers every datagram.
    pub fn new(to: SocketAddr) -> Result<Prober> {
        let socket = UdpSocket::bind(super::any_like(to.ip()))?;
        socket.connect(to)?;
        socket.set_read_timeout(Some(Duration::from_millis(5)))?;
        let never_fragment = libc::IP_PMTUDISC_DO;
        if to.is_ipv4() {
            setsockopt(&socket, sockopt::Ipv4RecvErr, &true)?;
            option(&socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, never_fragment)?;
        } else {
            setsockopt(&socket, sockopt::Ipv6RecvErr, &true)?;
            option(&socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, never_fragment)?;
        }
        Ok(Prober { socket, to })
    }

    /// Limits how many hops the next datagrams go.
    pub fn set_ttl(&self, ttl: u8) -> Result<()> {
        let (level, name) = if self.to.is_ipv4() {
            (libc::IPPROTO_IP, libc::IP_TTL)
        } else {
            (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS)
        };
        option(&self.socket, level, name, ttl.into())
    }

    /// Sends a datagram of `size` bytes and waits for what comes of it.
    pub fn probe(&self, size: usize) -> Result<Outcome> {
        match self.socket.send(&vec![0x5a; size]) {
            Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => return Ok(Outcome::TooLong),
            // An error that came late for the probe before; its text is in the queue.
            Err(_) => drop(self.socket.send(&vec![0x5a; size])),
            Ok(_) => {}
        }
        let start = Instant::now();
        while start.elapsed() < ANSWER {
            if let Some(outcome) = self.error()? {
                return Ok(outcome);
            }
            if self.socket.recv(&mut [0; 64]).is_ok() {
                return Ok(Outcome::Answered);
            }
            thread::yield_now();
        }
        Ok(Outcome::Silence)
    }

    fn error(&self) -> Result<Option<Outcome>> {
        let mut space = nix::cmsg_space!(sock_extended_err, libc::sockaddr_in6);
        let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
        let message = recvmsg::<SockaddrStorage>(self.socket.as_raw_fd(), &mut [], Some(&mut space), flags);
        let message = match message {
            Err(Errno::EAGAIN) => return Ok(None),
            message => message.context("reading the error queue")?,
        };
        for control in message.cmsgs()? {
            match control {
                // The kernel's own, for a datagram it did not even send.
                ControlMessageOwned::Ipv4RecvErr(error, _) if is_local(&error) => {}
                ControlMessageOwned::Ipv6RecvErr(error, _) if is_local(&error) => {}
                ControlMessageOwned::Ipv4RecvErr(error, Some(by)) => {
                    let by = IpAddr::from(u32::from_be(by.sin_addr.s_addr).to_be_bytes());
                    return Ok(Some(outcome(&error, by)));
                }
                ControlMessageOwned::Ipv6RecvErr(error, Some(by)) => {
                    return Ok(Some(outcome(&error, by.sin6_addr.s6_addr.into())));
                }
                _ => {}
            }
        }
        Ok(None)
    }
}

fn is_local(error: &sock_extended_err) -> bool {
    error.ee_origin == libc::SO_EE_ORIGIN_LOCAL
}

fn outcome(error: &sock_extended_err, by: IpAddr) -> Outcome {
    Outcome::Error(by, error.ee_type, error.ee_code)
}

fn option(socket: &UdpSocket, level: i32, name: i32, value: i32) -> Result<()> {
    let length = size_of_val(&value) as libc::socklen_t;
    // SAFETY: `value` is an int, as these options take, and alive during the call.
    let result =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const value).cast(), length) };
    Errno::result(result).context("setting a socket option").map(drop)
}
