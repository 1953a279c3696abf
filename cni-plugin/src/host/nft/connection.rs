//! A netlink connection to nf_tables, in the network namespace of the thread that opens it.

use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, socket,
};

use super::NftError;
use super::abi::{NLM_F_DUMP_INTR, NLMSG_DONE, NLMSG_ERROR};
use super::message::{Builder, Message, Messages};

/// Bytes of one read. The kernel fills datagrams of a dump to at most 32 KiB (`netlink_dump`).
const BUFFER: usize = 64 * 1024;

/// How a conversation with the kernel ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// Done, all was answered.
    Complete,
    /// The ruleset changed while it was listed or before it was changed; nothing was changed.
    Overtaken,
}

/// An open connection.
#[derive(Debug)]
pub(super) struct Connection {
    fd: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Connection {
    /// Opens a connection.
    pub(super) fn open() -> Result<Self, NftError> {
        let fd = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkNetFilter,
        )
        .map_err(NftError::socket("open a netlink socket"))?;
        Ok(Self { fd, sequence: 0, buffer: vec![0; BUFFER] })
    }

    /// Sends what `request` builds, given the sequence number for its messages, and passes the answers to
    /// `answer` until the kernel says that it is done: one of the messages must be a dump or ask for an
    /// acknowledgement. `operation` and `object` are for the error.
    pub(super) fn exchange(
        &mut self,
        operation: &'static str,
        object: &str,
        request: impl FnOnce(&mut Builder, u32),
        mut answer: impl FnMut(Message<'_>),
    ) -> Result<End, NftError> {
        self.sequence += 1;
        let mut builder = Builder::default();
        request(&mut builder, self.sequence);
        self.send(builder.bytes())?;
        let mut overtaken = false;
        loop {
            let length = self.receive()?;
            for message in Messages(&self.buffer[..length]) {
                // Left over from a batch that failed at more than one message.
                if message.sequence != self.sequence {
                    continue;
                }
                overtaken |= message.flags & NLM_F_DUMP_INTR != 0;
                if !matches!(message.kind, NLMSG_ERROR | NLMSG_DONE) {
                    answer(message);
                    continue;
                }
                return match Errno::from_raw(-message.status()) {
                    _ if message.status() == 0 && !overtaken => Ok(End::Complete),
                    _ if message.status() == 0 => Ok(End::Overtaken),
                    // The generation that a batch names is not the ruleset's any more.
                    Errno::ERESTART => Ok(End::Overtaken),
                    errno => Err(NftError::Kernel { operation, object: object.to_owned(), source: errno }),
                };
            }
        }
    }

    fn send(&self, bytes: &[u8]) -> Result<(), NftError> {
        let kernel = NetlinkAddr::new(0, 0);
        retry(|| sendto(self.fd.as_raw_fd(), bytes, &kernel, MsgFlags::empty()))
            .map(drop)
            .map_err(NftError::socket("send to nf_tables"))
    }

    fn receive(&mut self) -> Result<usize, NftError> {
        let length = retry(|| recv(self.fd.as_raw_fd(), &mut self.buffer, MsgFlags::MSG_TRUNC))
            .map_err(NftError::socket("receive from nf_tables"))?;
        // With MSG_TRUNC the length is the datagram's, also when that did not fit.
        if length > self.buffer.len() {
            return Err(NftError::socket("receive a whole answer from nf_tables")(Errno::EMSGSIZE));
        }
        Ok(length)
    }
}

fn retry<T>(mut call: impl FnMut() -> nix::Result<T>) -> nix::Result<T> {
    loop {
        match call() {
            Err(Errno::EINTR) => {}
            result => return result,
        }
    }
}
