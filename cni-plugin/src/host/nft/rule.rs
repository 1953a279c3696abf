//! The two rules of one subnet: what they say, and how nf_tables expressions say it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnetwork::{IpNetwork, Ipv4Network, Ipv6Network};

use super::abi::{NFPROTO_IPV4, NFPROTO_IPV6, expr::CT_INVALID};
use super::expression::Expression;

#[cfg(test)]
mod tests;

/// Where an address stands in its header (RFC 791, 3.1; RFC 8200, 3), in bytes.
struct Layout {
    family: u8,
    source: u32,
    destination: u32,
    /// Length of an address.
    length: u32,
}

const IPV4: Layout = Layout { family: NFPROTO_IPV4, source: 12, destination: 16, length: 4 };
const IPV6: Layout = Layout { family: NFPROTO_IPV6, source: 8, destination: 24, length: 16 };

/// RFC 5771.
const MULTICAST_V4: Ipv4Network = match Ipv4Network::new_checked(Ipv4Addr::new(224, 0, 0, 0), 4) {
    Some(net) => net,
    None => unreachable!(),
};
/// RFC 4291, 2.7.
const MULTICAST_V6: Ipv6Network =
    match Ipv6Network::new_checked(Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8) {
        Some(net) => net,
        None => unreachable!(),
    };

impl Layout {
    fn of(net: IpNetwork) -> &'static Self {
        if net.is_ipv4() { &IPV4 } else { &IPV6 }
    }
}

/// What is done to a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// It gets the output device's address.
    Masquerade,
    /// It is dropped if conntrack finds it invalid: NAT leaves such packets alone, and they would go out with the
    /// pod's address (plugins#816).
    DropInvalid,
}

impl Action {
    pub(super) const ALL: [Self; 2] = [Self::Masquerade, Self::DropInvalid];

    /// The end of a rule.
    fn expressions(self) -> Vec<Expression> {
        let bits = |bits: u32| bits.to_ne_bytes().to_vec();
        match self {
            Self::Masquerade => vec![Expression::Masquerade],
            Self::DropInvalid => vec![
                Expression::State,
                Expression::Mask(bits(CT_INVALID)),
                Expression::Compare { negated: true, value: bits(0) },
                Expression::Drop,
            ],
        }
    }
}

/// Something is done to packets from `source`, except those to one of `spared`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) action: Action,
    pub(super) source: IpNetwork,
    /// Destinations, of the same family.
    pub(super) spared: Vec<IpNetwork>,
}

/// The rules of a network, one per action and subnet and in a fixed order. Its own subnets are spared in each, so its
/// addresses never masquerade among themselves, and so are `others` and multicast.
pub(super) fn rules(subnets: &[IpNetwork], others: &[IpNetwork]) -> Vec<Rule> {
    let mut subnets: Vec<IpNetwork> = subnets.iter().map(|net| without_host_bits(*net)).collect();
    subnets.sort_unstable();
    subnets.dedup();
    let spared = |v4: bool| {
        let others = others.iter().map(|net| without_host_bits(*net));
        let own = subnets.iter().copied().chain(others).filter(|net| net.is_ipv4() == v4);
        own.chain([if v4 { MULTICAST_V4.into() } else { MULTICAST_V6.into() }]).collect()
    };
    let rule = |action, net: &IpNetwork| Rule { action, source: *net, spared: spared(net.is_ipv4()) };
    Action::ALL.into_iter().flat_map(|action| subnets.iter().map(move |net| rule(action, net))).collect()
}

impl Rule {
    /// The expressions, in the form that nft(8) prints as text.
    pub(super) fn expressions(&self) -> Vec<Expression> {
        let layout = Layout::of(self.source);
        let family = Expression::Compare { negated: false, value: vec![layout.family] };
        let mut expressions = vec![Expression::Family, family];
        expressions.extend(match_address(layout.source, false, self.source));
        for net in &self.spared {
            expressions.extend(match_address(layout.destination, true, *net));
        }
        expressions.extend(self.action.expressions());
        expressions
    }

    /// Reads a rule of ours back, also after nft(8) saved and restored it; `None` for any other.
    pub(super) fn from_expressions(expressions: &[Expression]) -> Option<Self> {
        let [Expression::Family, Expression::Compare { negated: false, value }, rest @ ..] = expressions
        else {
            return None;
        };
        let layout = [&IPV4, &IPV6].into_iter().find(|layout| *value == [layout.family])?;
        let (source, mut rest) = read_address(rest, layout, layout.source, false)?;
        let mut spared = Vec::new();
        loop {
            if let Some(action) = Action::ALL.into_iter().find(|action| *rest == *action.expressions()) {
                return Some(Self { action, source, spared });
            }
            let (net, after) = read_address(rest, layout, layout.destination, true)?;
            spared.push(net);
            rest = after;
        }
    }
}

/// "The address at `offset` is in `net`", or is not.
fn match_address(offset: u32, negated: bool, net: IpNetwork) -> Vec<Expression> {
    let layout = Layout::of(net);
    let mut expressions = vec![Expression::Load { offset, length: layout.length }];
    if u32::from(net.prefix()) < layout.length * 8 {
        expressions.push(Expression::Mask(octets(net.mask())));
    }
    expressions.push(Expression::Compare { negated, value: octets(net.network()) });
    expressions
}

/// The inverse of [`match_address`]. nft(8) itself loads only the leading bytes of an address when the prefix
/// is whole bytes long, and has no mask then.
fn read_address<'a>(
    expressions: &'a [Expression],
    layout: &Layout,
    at: u32,
    negation: bool,
) -> Option<(IpNetwork, &'a [Expression])> {
    let [Expression::Load { offset, length }, rest @ ..] = expressions else { return None };
    let (mask, rest) = match rest {
        [Expression::Mask(mask), rest @ ..] => (mask.clone(), rest),
        rest => (vec![0xff; usize::try_from(*length).ok()?.min(16)], rest),
    };
    let [Expression::Compare { negated, value }, rest @ ..] = rest else { return None };
    if (*offset, *negated) != (at, negation) || mask.len() != value.len() || *length as usize != value.len() {
        return None;
    }
    let net = IpNetwork::with_netmask(address(value, layout)?, address(&mask, layout)?).ok()?;
    Some((net, rest))
}

fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

/// The address with these leading bytes, the rest zero.
fn address(leading: &[u8], layout: &Layout) -> Option<IpAddr> {
    let mut bytes = [0; 16];
    bytes.get_mut(..leading.len())?.copy_from_slice(leading);
    let [a, b, c, d, ..] = bytes;
    match layout.family {
        NFPROTO_IPV4 if leading.len() > 4 => None,
        NFPROTO_IPV4 => Some(Ipv4Addr::new(a, b, c, d).into()),
        _ => Some(Ipv6Addr::from(bytes).into()),
    }
}

fn without_host_bits(net: IpNetwork) -> IpNetwork {
    match net {
        IpNetwork::V4(v4) => Ipv4Network::new(v4.network(), v4.prefix()).map_or(net, IpNetwork::V4),
        IpNetwork::V6(v6) => Ipv6Network::new(v6.network(), v6.prefix()).map_or(net, IpNetwork::V6),
    }
}
