//! Traffic between places, by sockets made inside them; no tool of the machine takes part. Most of it asks what
//! arrives; [`flood()`], [`many_flows`], [`ping_pong`] and [`churn()`] ask how fast.

mod advert;
mod batch;
mod capture;
mod churn;
mod flood;
mod forged;
mod inject;
mod many;
mod pin;
mod pingpong;
mod probe;
mod service;
mod steady;
mod tcp;
mod udp;

pub use advert::advertise;
pub use capture::{Capture, Frame};
pub use churn::{Churn, churn};
pub use flood::{Flood, flood};
pub use forged::Segment;
pub use inject::Injector;
pub use many::{FLOWS, ManyFlows, many_flows};
pub use pin::cpus;
pub use pingpong::{PingPong, ping_pong};
pub use probe::{Outcome, Prober};
pub use service::{Answer, Service, ask_tcp, ask_udp, ask_udp_within};
pub use steady::{Report, STALL, Steady};
pub use tcp::{Transfer, download, round_trips, upload};
pub use udp::{Echo, echo, echo_whole};

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use pin::{pin, pinned};

/// How long a connection, a read or a write may take before it counts as failed: far more than a busy machine needs,
/// and far less than the faults that are looked for.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Any address and any port, of the same family as `address`.
fn any_like(address: IpAddr) -> SocketAddr {
    match address {
        IpAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        IpAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}
