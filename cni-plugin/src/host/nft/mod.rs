//! Masquerading with nf_tables, over netlink and without executing `nft`.
//!
//! All of it is one table of our own with two chains and in each one rule per network and subnet. The second drops
//! what conntrack finds invalid: NAT leaves that alone, and it would go out with the pod's address (plugins#816).
//!
//! ```text
//! table inet ebpf-bridge {
//!     chain postrouting {
//!         type nat hook postrouting priority srcnat; policy accept;
//!         ip saddr 10.1.0.0/16 ip daddr != 10.1.0.0/16 ip daddr != 224.0.0.0/4 masquerade comment "network pods"
//!     }
//!     chain invalid {
//!         type filter hook postrouting priority filter; policy accept;
//!         ip saddr 10.1.0.0/16 ip daddr != 10.1.0.0/16 ip daddr != 224.0.0.0/4 ct state invalid drop comment "network pods"
//!     }
//! }
//! ```
//!
//! Every function works in the network namespace of the calling thread and blocks. Nothing is locked: what was
//! read is changed in one transaction that names the generation it was read from, and read again when the
//! kernel finds that somebody came first. Needs Linux 5.2 (NAT in family inet).

use ipnetwork::IpNetwork;
use nix::errno::Errno;
use thiserror::Error;

use self::connection::{Connection, End};
use self::rule::Rule;
use self::table::{Change, Held};

mod abi;
mod comment;
mod connection;
mod expression;
mod message;
mod rule;
mod spoof;
mod table;
#[cfg(test)]
mod tests;

pub use self::spoof::{check_mac, forget_mac, mac_is_checked};

/// How often a change that was overtaken is tried anew. Each failure means that another's change succeeded.
const ATTEMPTS: usize = 1000;

/// nf_tables could not be read or changed.
#[derive(Debug, Error)]
pub enum NftError {
    /// The netlink socket failed.
    #[error("cannot {operation}")]
    Socket {
        /// What was tried.
        operation: &'static str,
        /// What the kernel said.
        source: Errno,
    },
    /// The kernel refused a request.
    #[error("nf_tables: cannot {operation} {object}")]
    Kernel {
        /// What was tried.
        operation: &'static str,
        /// On which network or table.
        object: String,
        /// What the kernel said.
        source: Errno,
    },
    /// The kernel did not tell the generation of its ruleset.
    #[error("nf_tables: the kernel tells no generation of its ruleset")]
    NoGeneration,
    /// The rules of a network are marked with its name, and there is room for so much only.
    #[error("name is {network:?}, but must be at most {} bytes long to masquerade", comment::MAX_NAME)]
    NameTooLong {
        /// The network.
        network: String,
    },
    /// Others changed the ruleset all the time.
    #[error(
        "nf_tables: cannot {operation} {object}: the ruleset was changed by others {ATTEMPTS} times meanwhile"
    )]
    Busy {
        /// What was tried.
        operation: &'static str,
        /// On which network or table.
        object: String,
    },
}

impl NftError {
    fn socket(operation: &'static str) -> impl FnOnce(Errno) -> Self {
        move |source| Self::Socket { operation, source }
    }
}

/// Masquerades what leaves `subnets` of `network`, but not what goes from one of them to another or to one of
/// `spared`, and returns whether that needed a change.
///
/// Subnets which the network masquerades already are kept, until [`remove`]: there may be pods in them, from
/// before a change of the configuration or because an IPAM plugin gives out several. Rules that somebody
/// altered are replaced.
pub fn ensure(network: &str, subnets: &[IpNetwork], spared: &[IpNetwork]) -> Result<bool, NftError> {
    if network.len() > comment::MAX_NAME {
        return Err(NftError::NameTooLong { network: network.to_owned() });
    }
    transact("masquerade network", network, |held| {
        let own = own(held, network);
        let wanted = wanted(&own, subnets, spared);
        if are(&own, &wanted) {
            return Vec::new();
        }
        let deletions = own.iter().map(|held| Change::Delete(held.place, held.handle.clone()));
        let additions = wanted.into_iter().map(|rule| Change::Add(network.to_owned(), rule));
        [Change::Create].into_iter().chain(deletions).chain(additions).collect()
    })
}

/// True when the rules of `network` are exactly what [`ensure`] would leave.
pub fn present(network: &str, subnets: &[IpNetwork], spared: &[IpNetwork]) -> Result<bool, NftError> {
    let mut connection = Connection::open()?;
    for _ in 0..ATTEMPTS {
        if let Some(held) = table::list(&mut connection)? {
            let own = own(&held, network);
            return Ok(are(&own, &wanted(&own, subnets, spared)));
        }
    }
    Err(NftError::Busy { operation: "look for the rules of network", object: network.to_owned() })
}

/// The networks that have rules, each once.
pub fn networks() -> Result<Vec<String>, NftError> {
    let mut connection = Connection::open()?;
    for _ in 0..ATTEMPTS {
        if let Some(held) = table::list(&mut connection)? {
            let mut networks: Vec<String> = held.into_iter().filter_map(|held| held.network).collect();
            networks.sort();
            networks.dedup();
            return Ok(networks);
        }
    }
    Err(NftError::Busy { operation: "list the rules of", object: table::TABLE.to_owned() })
}

/// Deletes the rules of `network`, and the table with the last rule in it. None is fine.
pub fn remove(network: &str) -> Result<(), NftError> {
    transact("remove the rules of network", network, |held| {
        let own = own(held, network);
        if own.len() == held.len() {
            return vec![Change::Drop];
        }
        own.iter().map(|held| Change::Delete(held.place, held.handle.clone())).collect()
    })
    .map(drop)
}

/// Deletes our table, whatever is in it. None is fine.
pub fn remove_table() -> Result<(), NftError> {
    transact("delete table", table::TABLE, |_| vec![Change::Drop]).map(drop)
}

/// Reads our chains, lets `plan` say what to change, and changes that, until nobody comes between. Returns
/// whether there was something to change.
fn transact(
    operation: &'static str,
    object: &str,
    plan: impl Fn(&[Held]) -> Vec<Change>,
) -> Result<bool, NftError> {
    let mut connection = Connection::open()?;
    for _ in 0..ATTEMPTS {
        // Before the list: what changes after this moment, the commit notices.
        let generation = table::generation(&mut connection)?;
        let Some(held) = table::list(&mut connection)? else { continue };
        let changes = plan(&held);
        // Asking is cheap, while a transaction that fails costs an RCU grace period of 8 to 16 ms.
        let absent = matches!(changes[..], [Change::Drop]) && !table::exists(&mut connection)?;
        if absent || changes.is_empty() {
            return Ok(false);
        }
        if table::commit(&mut connection, generation, operation, object, &changes)? == End::Complete {
            return Ok(true);
        }
    }
    Err(NftError::Busy { operation, object: object.to_owned() })
}

fn own<'a>(held: &'a [Held], network: &str) -> Vec<&'a Held> {
    held.iter().filter(|held| held.network.as_deref() == Some(network)).collect()
}

/// The rules for `subnets` and for those that `own` serves already.
fn wanted(own: &[&Held], subnets: &[IpNetwork], spared: &[IpNetwork]) -> Vec<Rule> {
    let served = own.iter().filter_map(|held| held.rule.as_ref()).map(|rule| rule.source);
    rule::rules(&served.chain(subnets.iter().copied()).collect::<Vec<_>>(), spared)
}

fn are(own: &[&Held], wanted: &[Rule]) -> bool {
    own.iter().map(|held| held.rule.as_ref()).eq(wanted.iter().map(Some))
}
