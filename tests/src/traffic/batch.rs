//! Many datagrams in one system call, whose content is of no interest.

use std::io;
use std::marker::PhantomData;
use std::mem::zeroed;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

use nix::libc;
use socket2::SockAddr;

/// Datagrams under way at a time: well below the 212,992 bytes of a default receive buffer, of 1400 bytes each, too.
pub(super) const BATCH: usize = 64;

/// Message headers that all name the same bytes.
pub(super) struct Batch<'a> {
    messages: Vec<libc::mmsghdr>,
    _vector: Box<libc::iovec>,
    _names: Box<[SockAddr]>,
    _payload: PhantomData<&'a mut [u8]>,
}

impl<'a> Batch<'a> {
    /// [`BATCH`] datagrams through connected sockets.
    pub(super) fn of(payload: &'a mut [u8]) -> Self {
        Self::with(payload, BATCH, &[])
    }

    /// One datagram to each address.
    pub(super) fn towards(payload: &'a mut [u8], addresses: &[SocketAddr]) -> Self {
        Self::with(payload, addresses.len(), addresses)
    }

    fn with(payload: &'a mut [u8], count: usize, addresses: &[SocketAddr]) -> Self {
        let mut vector =
            Box::new(libc::iovec { iov_base: payload.as_mut_ptr().cast(), iov_len: payload.len() });
        let names: Box<[SockAddr]> = addresses.iter().map(|&address| address.into()).collect();
        // SAFETY: all zeros is a message header without name, control data and buffers.
        let empty: libc::mmsghdr = unsafe { zeroed() };
        let mut messages = vec![empty; count];
        for message in &mut messages {
            message.msg_hdr.msg_iov = &raw mut *vector;
            message.msg_hdr.msg_iovlen = 1;
        }
        for (message, name) in messages.iter_mut().zip(&names) {
            message.msg_hdr.msg_name = name.as_ptr().cast_mut().cast();
            message.msg_hdr.msg_namelen = name.len();
        }
        Self { messages, _vector: vector, _names: names, _payload: PhantomData }
    }

    /// Sends all of them in one system call; returns how many the kernel took.
    pub(super) fn send(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        let (messages, count) = (self.messages.as_mut_ptr(), self.messages.len() as libc::c_uint);
        // SAFETY: `count` headers, which name a vector, a payload and perhaps addresses that live as long as `self`.
        counted(unsafe { libc::sendmmsg(socket.as_raw_fd(), messages, count, 0) })
    }

    /// Takes up to as many of what is there in one system call; returns how many. Not for one with addresses, which
    /// it would overwrite.
    pub(super) fn receive(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        let (messages, count) = (self.messages.as_mut_ptr(), self.messages.len() as libc::c_uint);
        let no_timeout = std::ptr::null_mut();
        let flags = libc::MSG_DONTWAIT as _;
        // SAFETY: as in `send`, and nothing else reads the payload; a null timeout is none.
        counted(unsafe { libc::recvmmsg(socket.as_raw_fd(), messages, count, flags, no_timeout) })
    }
}

fn counted(result: libc::c_int) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}
