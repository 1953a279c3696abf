//! Range sets: one address is leased from each set, from any of its ranges. Pure arithmetic, no files.

use std::fmt;
use std::net::IpAddr;

use thiserror::Error;

use super::range::{Range, number};

#[cfg(test)]
mod tests;

/// Why ranges cannot be used together.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SetError {
    /// A set without ranges.
    #[error("{key} is an empty list, but must hold at least one range")]
    Empty {
        /// Path of the set inside the configuration.
        key: String,
    },
    /// Both families in one set.
    #[error("{key} holds the subnets {first} and {other}, but all ranges of a set must be of one family")]
    MixedFamilies {
        /// Path of the set inside the configuration.
        key: String,
        /// Subnet of the set's first range.
        first: String,
        /// Subnet of the other family.
        other: String,
    },
    /// Two ranges have addresses in common.
    #[error("{key} holds {range}, which overlaps {other} of {other_key}; no address may be in two ranges")]
    Overlap {
        /// Path of the set inside the configuration.
        key: String,
        /// The offending range, as "first-last".
        range: String,
        /// The range it collides with.
        other: String,
        /// The set of the other range.
        other_key: String,
    },
}

/// Ranges of one family without an address in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeSet {
    ranges: Vec<Range>,
}

impl RangeSet {
    /// Checks that `ranges`, which stand at `key` in the configuration, make a set.
    pub fn new(key: &str, ranges: Vec<Range>) -> Result<Self, SetError> {
        let first = ranges.first().ok_or_else(|| SetError::Empty { key: key.to_owned() })?;
        if let Some(other) = ranges.iter().find(|r| r.subnet().is_ipv4() != first.subnet().is_ipv4()) {
            return Err(SetError::MixedFamilies {
                key: key.to_owned(),
                first: first.subnet().to_string(),
                other: other.subnet().to_string(),
            });
        }
        for (i, range) in ranges.iter().enumerate() {
            if let Some(other) = ranges[..i].iter().find(|other| range.overlaps(other)) {
                return Err(overlap(key, range, key, other));
            }
        }
        Ok(Self { ranges })
    }

    /// Fails when a range of this set, which stands at `key`, overlaps one of `other`, which stands at
    /// `other_key`.
    pub fn disjoint(&self, key: &str, other: &Self, other_key: &str) -> Result<(), SetError> {
        for range in &self.ranges {
            if let Some(other) = other.ranges.iter().find(|other| range.overlaps(other)) {
                return Err(overlap(key, range, other_key, other));
            }
        }
        Ok(())
    }

    /// The ranges, in the order of the configuration.
    pub fn ranges(&self) -> &[Range] {
        &self.ranges
    }

    /// The range `ip` is in, be it one to lease or a gateway.
    pub fn range_of(&self, ip: IpAddr) -> Option<&Range> {
        self.ranges.iter().find(|range| range.contains(ip))
    }

    /// True when `ip` is some range's gateway.
    pub fn is_gateway(&self, ip: IpAddr) -> bool {
        self.ranges.iter().any(|range| range.gateway() == ip)
    }

    /// True when `ip` is an address of this set that can be leased.
    pub fn offers(&self, ip: IpAddr) -> bool {
        self.range_of(ip).is_some() && !self.is_gateway(ip)
    }

    /// How many addresses can be leased at once.
    pub fn capacity(&self) -> u128 {
        let all: u128 =
            self.ranges.iter().map(|range| range.bounds()).map(|(low, high)| high - low + 1).sum();
        let mut gateways: Vec<IpAddr> = self.ranges.iter().map(Range::gateway).collect();
        gateways.sort_unstable();
        gateways.dedup();
        all - gateways.into_iter().filter(|gateway| self.range_of(*gateway).is_some()).count() as u128
    }

    /// Every address that can be leased, each once: those after `last` first, then on through the ranges and
    /// round to `last` itself. Without `last`, or with one that is in no range, from the start of the first
    /// range. Lazy, so an IPv6 range costs no more than is taken.
    pub fn candidates(&self, last: Option<IpAddr>) -> impl Iterator<Item = (IpAddr, &Range)> {
        let count = self.ranges.len();
        let found = last.and_then(|ip| {
            self.ranges.iter().position(|range| range.contains(ip)).map(|index| (index, number(ip)))
        });
        let (first, resume) = found.map_or((0, None), |(index, n)| (index, Some(n)));
        // The range of `last` is visited in two parts: what follows `last` now, the rest at the end.
        let steps = count + usize::from(resume.is_some());
        (0..steps)
            .map(move |step| {
                let range = &self.ranges[(first + step) % count];
                let (low, high) = range.bounds();
                match resume {
                    Some(n) if step == 0 => (range, n, high, 1),
                    Some(n) if step == count => (range, low, n, 0),
                    _ => (range, low, high, 0),
                }
            })
            .flat_map(|(range, low, high, skip)| (low..=high).skip(skip).map(move |n| (range.nth(n), range)))
            .filter(|(ip, _)| !self.is_gateway(*ip))
    }
}

impl fmt::Display for RangeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, range) in self.ranges.iter().enumerate() {
            let separator = if i == 0 { "" } else { "," };
            write!(f, "{separator}{range}")?;
        }
        Ok(())
    }
}

fn overlap(key: &str, range: &Range, other_key: &str, other: &Range) -> SetError {
    SetError::Overlap {
        key: key.to_owned(),
        range: range.to_string(),
        other: other.to_string(),
        other_key: other_key.to_owned(),
    }
}
