//! Default routes, which are looked for among many others.
//!
//! Every port of a bridge has a route to the link-local addresses behind it, which no filter of the kernel leaves out of a
//! dump. Decoding them all would take a good part of an ADD among 500 pods, so only their headers are looked at.

use std::io;

use nix::libc;
use rtnetlink::{
    packet_core::{
        NLM_F_DUMP, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR, NetlinkBuffer, NetlinkMessage, NetlinkPayload,
    },
    packet_route::{
        AddressFamily, RouteNetlinkMessage,
        route::{RouteMessage, RouteType},
    },
    sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE},
};

use super::{HostError, route::devices};

/// Where `rtm_dst_len` is in `struct rtmsg` of linux/rtnetlink.h.
const PREFIX: usize = 1;

/// All devices of this thread's namespace that carry a default route, of either family and in any table.
pub fn default_route_links() -> Result<Vec<u32>, HostError> {
    let mut links = Vec::new();
    for family in [AddressFamily::Inet, AddressFamily::Inet6] {
        let routes = list(family).map_err(|error| HostError::new("list", "default routes", error))?;
        links.extend(routes.iter().flat_map(|route| &route.attributes).flat_map(devices));
    }
    links.sort_unstable();
    links.dedup();
    Ok(links)
}

fn list(family: AddressFamily) -> io::Result<Vec<RouteMessage>> {
    let mut wanted = RouteMessage::default();
    wanted.header.address_family = family;
    wanted.header.kind = RouteType::Unicast;
    let mut request = NetlinkMessage::from(RouteNetlinkMessage::GetRoute(wanted));
    request.header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    request.finalize();
    let mut bytes = vec![0; request.buffer_len()];
    request.serialize(&mut bytes);
    let socket = Socket::new(NETLINK_ROUTE)?;
    // Strict, so that the kernel leaves out the routes of other types.
    socket.set_netlink_get_strict_chk(true)?;
    socket.send_to(&bytes, &SocketAddr::new(0, 0), 0)?;
    let mut found = Vec::new();
    loop {
        let (datagram, _) = socket.recv_from_full()?;
        if read(&datagram, &mut found)? {
            return Ok(found);
        }
    }
}

/// Adds the default routes of one datagram. Returns true if it was the last.
fn read(mut datagram: &[u8], found: &mut Vec<RouteMessage>) -> io::Result<bool> {
    while let Ok(message) = NetlinkBuffer::new_checked(datagram) {
        let length = message.length() as usize;
        let is_default = message.payload().get(PREFIX) == Some(&0);
        match message.message_type() {
            NLMSG_DONE => return Ok(true),
            kind if kind == NLMSG_ERROR || kind == libc::RTM_NEWROUTE && is_default => {
                let decoded = NetlinkMessage::deserialize(datagram).map_err(io::Error::other)?;
                match decoded.payload {
                    NetlinkPayload::Error(error) => return Err(error.to_io()),
                    NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewRoute(route)) => found.push(route),
                    _ => {}
                }
            }
            _ => {}
        }
        datagram = datagram.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}
