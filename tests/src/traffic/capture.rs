//! What passes the interfaces of a place, as a sniffer there sees it.

use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};
use etherparse::{NetSlice, SlicedPacket};
use nix::libc;
use nix::sys::socket::{
    AddressFamily, LinkAddr, SockFlag, SockProtocol, SockType, recvfrom, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeVal;
use std::net::IpAddr;

use crate::Place;

/// A frame that was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// From the destination MAC on; the link layer's checksum is gone.
    pub bytes: Vec<u8>,
    /// Whether the kernel takes it for this host's own, or for everybody.
    pub for_host: bool,
}

impl Frame {
    /// Source and destination, of an IP packet.
    pub fn addresses(&self) -> Option<(IpAddr, IpAddr)> {
        match SlicedPacket::from_ethernet(&self.bytes).ok()?.net? {
            NetSlice::Ipv4(ip) => {
                Some((ip.header().source_addr().into(), ip.header().destination_addr().into()))
            }
            NetSlice::Ipv6(ip) => {
                Some((ip.header().source_addr().into(), ip.header().destination_addr().into()))
            }
            NetSlice::Arp(_) => None,
        }
    }
}

/// A sniffer on all interfaces of a place, those to come included.
pub struct Capture {
    done: Arc<AtomicBool>,
    thread: JoinHandle<Result<Vec<Frame>>>,
}

impl Capture {
    /// Starts to collect the frames that `keep` says yes to.
    pub fn start(place: &Place, keep: impl Fn(&Frame) -> bool + Send + 'static) -> Result<Capture> {
        let socket = place.run_in(|| {
            let all = SockProtocol::EthAll;
            socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, all)
                .context("a packet socket")
        })?;
        setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::new(0, 20_000))?;
        setsockopt(&socket, sockopt::RcvBufForce, &(16 << 20))?;
        let done = Arc::new(AtomicBool::new(false));
        let flag = done.clone();
        let thread = thread::spawn(move || {
            let mut frames = Vec::new();
            let mut buffer = vec![0; 1 << 17];
            let mut until_empty = false;
            loop {
                match recvfrom::<LinkAddr>(socket.as_raw_fd(), &mut buffer) {
                    Ok((length, from)) => {
                        let kind = from.map(|from| from.pkttype());
                        let for_host = kind.is_some_and(|kind| kind <= libc::PACKET_MULTICAST);
                        let frame = Frame { bytes: buffer[..length].to_vec(), for_host };
                        if keep(&frame) {
                            frames.push(frame);
                        }
                    }
                    Err(_) if until_empty => return Ok(frames),
                    Err(_) => until_empty = done_after(&flag),
                }
            }
        });
        Ok(Capture { done, thread })
    }

    /// Ends it and returns what was collected.
    pub fn stop(self) -> Result<Vec<Frame>> {
        // What was sent just now may still be under way.
        thread::sleep(Duration::from_millis(20));
        self.done.store(true, Ordering::Relaxed);
        self.thread.join().expect("the sniffer panicked")
    }
}

fn done_after(flag: &AtomicBool) -> bool {
    flag.load(Ordering::Relaxed)
}
