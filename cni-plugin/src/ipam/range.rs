//! One range of addresses: the part of a subnet that may be leased. Pure arithmetic, no files.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnetwork::IpNetwork;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

#[cfg(test)]
mod tests;

/// Why a range cannot be used. Each message names the key, the value and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RangeError {
    /// A range without a subnet.
    #[error("{key}.subnet is missing, but every range needs a subnet such as \"10.1.0.0/16\"")]
    SubnetMissing {
        /// Path of the range inside the configuration.
        key: String,
    },
    /// Not an address with a prefix length.
    #[error("{key} is {value}, but must be an address and a prefix length such as \"10.1.0.0/16\"")]
    NotASubnet {
        /// Path of the key.
        key: String,
        /// The value as received, in JSON.
        value: String,
    },
    /// Not an IP address.
    #[error("{key} is {value}, but must be an IP address such as \"10.1.0.20\"")]
    NotAnAddress {
        /// Path of the key.
        key: String,
        /// The value as received, in JSON.
        value: String,
    },
    /// The subnet is written with an address inside it.
    #[error("{key} is {subnet}, which has host bits set; the network address is {network}")]
    HostBits {
        /// Path of the key.
        key: String,
        /// The value as received.
        subnet: IpNetwork,
        /// The same subnet, host bits cleared.
        network: IpNetwork,
    },
    /// A subnet with room for nobody beside its gateway.
    #[error("{key} is {subnet}, too small to lease from: a prefix length of at most {longest} is allowed")]
    TooSmall {
        /// Path of the key.
        key: String,
        /// The value as received.
        subnet: IpNetwork,
        /// Longest prefix length allowed for the family.
        longest: u8,
    },
    /// A bound or gateway that the range cannot have.
    #[error("{key} is {value}, but must be {allowed}")]
    OutOfPlace {
        /// Path of the key.
        key: String,
        /// The value as received.
        value: IpAddr,
        /// What would be right.
        allowed: String,
    },
}

/// A range as the configuration states it, nothing checked.
// The values stay JSON until they are parsed, so that one error serves a number in place of a string as well as a
// string that is no address.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RangeSpec {
    /// The subnet, required.
    #[serde(default, alias = "Subnet")]
    #[schemars(with = "Option<String>")]
    pub subnet: Option<Value>,
    /// First address to lease; absent: the first of the subnet.
    #[serde(default, alias = "RangeStart")]
    #[schemars(with = "Option<String>")]
    pub range_start: Option<Value>,
    /// Last address to lease; absent: the last of the subnet.
    #[serde(default, alias = "RangeEnd")]
    #[schemars(with = "Option<String>")]
    pub range_end: Option<Value>,
    /// The subnet's gateway; absent: the first address of the subnet.
    #[serde(default, alias = "Gateway")]
    #[schemars(with = "Option<String>")]
    pub gateway: Option<Value>,
}

/// A validated range: `start <= end`, both inside `subnet` and never its network address or (IPv4) its
/// broadcast address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    subnet: IpNetwork,
    start: IpAddr,
    end: IpAddr,
    gateway: IpAddr,
}

impl Range {
    /// Checks and completes `spec`, which stands at `key` in the configuration.
    ///
    /// The rules are those of the reference host-local, but for one: it leases the network and the broadcast
    /// address when a bound names them, we take the nearest usable address instead.
    pub fn new(key: &str, spec: &RangeSpec) -> Result<Self, RangeError> {
        let subnet = subnet(key, spec.subnet.as_ref())?;
        let (first, last) = usable(subnet);
        let start = address(&format!("{key}.rangeStart"), spec.range_start.as_ref())?;
        let end = address(&format!("{key}.rangeEnd"), spec.range_end.as_ref())?;
        let gateway = address(&format!("{key}.gateway"), spec.gateway.as_ref())?;

        for (name, bound) in [("rangeStart", start), ("rangeEnd", end)] {
            if let Some(value) = bound.filter(|ip| !subnet.contains(*ip)) {
                return Err(out_of_place(key, name, value, format!("an address of {subnet}")));
            }
        }
        // A gateway outside the subnet is legal (an on-link route reaches it), one of the other family never.
        if let Some(value) = gateway.filter(|ip| ip.is_ipv4() != subnet.is_ipv4()) {
            return Err(out_of_place(key, "gateway", value, format!("of the same family as {subnet}")));
        }
        let range = Self {
            subnet,
            start: start.unwrap_or(first).max(first),
            end: end.unwrap_or(last).min(last),
            gateway: gateway.unwrap_or(first),
        };
        if range.start > range.end {
            let (name, value, allowed) = match start {
                Some(value) => {
                    ("rangeStart", value, format!("at most {}, the last address to lease", range.end))
                }
                None => {
                    ("rangeEnd", range.end, format!("at least {}, the first address to lease", range.start))
                }
            };
            return Err(out_of_place(key, name, value, allowed));
        }
        Ok(range)
    }

    /// The subnet, host bits clear.
    pub fn subnet(&self) -> IpNetwork {
        self.subnet
    }

    /// The subnet's gateway, which is never leased.
    pub fn gateway(&self) -> IpAddr {
        self.gateway
    }

    /// True when `ip` lies between the bounds; the gateway may be among them.
    pub fn contains(&self, ip: IpAddr) -> bool {
        ip.is_ipv4() == self.subnet.is_ipv4() && self.start <= ip && ip <= self.end
    }

    /// True when both ranges have an address in common.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.subnet.is_ipv4() == other.subnet.is_ipv4() && self.start <= other.end && other.start <= self.end
    }

    /// The bounds as numbers.
    pub(super) fn bounds(&self) -> (u128, u128) {
        (number(self.start), number(self.end))
    }

    /// The address with the number `n`, in this range's family.
    pub(super) fn nth(&self, n: u128) -> IpAddr {
        from_number(n, self.subnet.is_ipv4())
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.start, self.end)
    }
}

/// The address as a number, so that both families share one arithmetic.
pub(super) fn number(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

fn from_number(n: u128, v4: bool) -> IpAddr {
    if v4 {
        // Callers count between two IPv4 addresses, so the upper bits are zero.
        IpAddr::V4(Ipv4Addr::from_bits(n as u32))
    } else {
        IpAddr::V6(Ipv6Addr::from_bits(n))
    }
}

/// First and last address a host may have: without the network address (for IPv6 the subnet-router anycast
/// address of RFC 4291, 2.6.1) and without the IPv4 broadcast address.
fn usable(subnet: IpNetwork) -> (IpAddr, IpAddr) {
    let v4 = subnet.is_ipv4();
    let first = number(subnet.network()) + 1;
    // ipnetwork calls the last address of an IPv6 subnet its broadcast address too, although it is an
    // ordinary one.
    let last = number(subnet.broadcast()) - u128::from(v4);
    (from_number(first, v4), from_number(last, v4))
}

fn subnet(key: &str, value: Option<&Value>) -> Result<IpNetwork, RangeError> {
    let value = value
        .filter(|value| !value.is_null())
        .ok_or_else(|| RangeError::SubnetMissing { key: key.to_owned() })?;
    let key = format!("{key}.subnet");
    // IpNetwork takes a bare address for a subnet of one; a prefix length left out is a typo here.
    let parsed = value.as_str().filter(|text| text.contains('/')).and_then(|text| text.parse().ok());
    let Some(subnet): Option<IpNetwork> = parsed else {
        return Err(RangeError::NotASubnet { key, value: value.to_string() });
    };
    let longest = if subnet.is_ipv4() { 30 } else { 126 };
    if subnet.prefix() > longest {
        return Err(RangeError::TooSmall { key, subnet, longest });
    }
    match IpNetwork::new(subnet.network(), subnet.prefix()) {
        Ok(network) if network == subnet => Ok(subnet),
        Ok(network) => Err(RangeError::HostBits { key, subnet, network }),
        Err(_) => Err(RangeError::NotASubnet { key, value: value.to_string() }),
    }
}

/// An optional address. The empty string counts as absent, as it does for the reference.
fn address(key: &str, value: Option<&Value>) -> Result<Option<IpAddr>, RangeError> {
    let Some(value) = value.filter(|value| !value.is_null() && value.as_str() != Some("")) else {
        return Ok(None);
    };
    match value.as_str().and_then(|text| text.parse::<IpAddr>().ok()) {
        Some(ip) => Ok(Some(ip.to_canonical())),
        None => Err(RangeError::NotAnAddress { key: key.to_owned(), value: value.to_string() }),
    }
}

fn out_of_place(key: &str, name: &str, value: IpAddr, allowed: String) -> RangeError {
    RangeError::OutOfPlace { key: format!("{key}.{name}"), value, allowed }
}
