//! `macspoofchk`: a pod may send from its own MAC only.
//!
//! One chain per checked pod, named after the host's end of its veth, in a table of our own:
//!
//! ```text
//! table bridge ebpf-bridge {
//!     chain veth0123456789a {
//!         type filter hook prerouting priority -300; policy accept;
//!         iifname "veth0123456789a" ether saddr != 02:00:00:00:00:01 drop
//!     }
//! }
//! ```
//!
//! A chain is named, made and deleted as a whole, so nothing has to be read first and nothing can be overtaken. Not
//! in family netdev: its ingress hook is skipped for packets that the bandwidth plugin sends through an ifb. The
//! kernel has 1,024 places in a hook (`MAX_HOOK_COUNT`), which bounds the checked pods of a node.

use nix::errno::Errno;

use super::abi::{
    NF_ACCEPT, NFNL_MSG_BATCH_BEGIN, NFNL_MSG_BATCH_END, NLM_F_ACK, NLM_F_APPEND, NLM_F_CREATE, NLM_F_DUMP,
    attr, expr, msg,
};
use super::connection::{Connection, End};
use super::message::Builder;
use super::table::TABLE;
use super::{ATTEMPTS, NftError};

/// `linux/netfilter.h`, and `NF_BR_PRE_ROUTING` of `linux/netfilter_bridge.h`. Needs Linux 5.3.
const NFPROTO_BRIDGE: u8 = 7;
const NF_BR_PRE_ROUTING: u32 = 0;
/// `NF_BR_PRI_NAT_DST_BRIDGED`, where the reference has its chain.
const PRIORITY: u32 = -300_i32 as u32;
/// For deletions: only if nothing is inside.
const NLM_F_NONREC: u16 = 0x100;

/// Drops what comes from the port `veth` with another source than `mac`. No such chain may be there: see [`forget_mac`].
pub fn check_mac(veth: &str, mac: [u8; 6]) -> Result<(), NftError> {
    let build = |batch: &mut Builder, sequence| {
        batch.message(msg::NEWTABLE, NLM_F_CREATE, sequence, NFPROTO_BRIDGE, |m| {
            m.text(attr::TABLE_NAME, TABLE)
        });
        batch.message(msg::NEWCHAIN, NLM_F_CREATE, sequence, NFPROTO_BRIDGE, |m| chain(m, veth));
        let flags = NLM_F_CREATE | NLM_F_APPEND | NLM_F_ACK;
        batch.message(msg::NEWRULE, flags, sequence, NFPROTO_BRIDGE, |m| rule(m, veth, mac));
    };
    commit(&mut Connection::open()?, "check the MACs of", veth, build)
}

/// True if the MACs of a port are checked: there is a rule in its chain.
pub fn mac_is_checked(veth: &str) -> Result<bool, NftError> {
    let mut connection = Connection::open()?;
    for _ in 0..ATTEMPTS {
        let mut checked = false;
        let request = |request: &mut Builder, sequence| {
            request.message(msg::GETRULE, NLM_F_DUMP, sequence, NFPROTO_BRIDGE, |m| {
                m.text(attr::RULE_TABLE, TABLE);
                m.text(attr::RULE_CHAIN, veth);
            });
        };
        // Of a table or a chain that is not there the kernel lists nothing.
        let end = connection.exchange("list the rules of", veth, request, |answer| {
            let rule = answer.attributes();
            checked |=
                rule.text(attr::RULE_TABLE) == Some(TABLE) && rule.text(attr::RULE_CHAIN) == Some(veth);
        })?;
        if end == End::Complete {
            return Ok(checked);
        }
    }
    Err(NftError::Busy { operation: "list the rules of", object: veth.to_owned() })
}

/// Undoes [`check_mac`]. None is fine.
pub fn forget_mac(veth: &str) -> Result<(), NftError> {
    let mut connection = Connection::open()?;
    // Asking is cheap, while a transaction that fails costs an RCU grace period of 8 to 16 ms.
    if !exists(&mut connection, veth)? {
        return Ok(());
    }
    let chain = |batch: &mut Builder, sequence| {
        batch.message(msg::DELCHAIN, NLM_F_ACK, sequence, NFPROTO_BRIDGE, |m| {
            m.text(attr::CHAIN_TABLE, TABLE);
            m.text(attr::CHAIN_NAME, veth);
        });
    };
    let table = |batch: &mut Builder, sequence| {
        let flags = NLM_F_ACK | NLM_F_NONREC;
        batch.message(msg::DELTABLE, flags, sequence, NFPROTO_BRIDGE, |m| m.text(attr::TABLE_NAME, TABLE));
    };
    unless(commit(&mut connection, "stop checking the MACs of", veth, chain), &[Errno::ENOENT])?;
    unless(commit(&mut connection, "delete table", TABLE, table), &[Errno::ENOENT, Errno::EBUSY])
}

fn exists(connection: &mut Connection, veth: &str) -> Result<bool, NftError> {
    let request = |request: &mut Builder, sequence| {
        request.message(msg::GETCHAIN, NLM_F_ACK, sequence, NFPROTO_BRIDGE, |m| {
            m.text(attr::CHAIN_TABLE, TABLE);
            m.text(attr::CHAIN_NAME, veth);
        });
    };
    match connection.exchange("look for the chain of", veth, request, |_| {}) {
        Ok(_) => Ok(true),
        Err(NftError::Kernel { source: Errno::ENOENT, .. }) => Ok(false),
        // A kernel without the family has no chains of it.
        Err(NftError::Kernel { source: Errno::EAFNOSUPPORT | Errno::EOPNOTSUPP, .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

fn commit(
    connection: &mut Connection,
    operation: &'static str,
    object: &str,
    build: impl FnOnce(&mut Builder, u32),
) -> Result<(), NftError> {
    let request = |batch: &mut Builder, sequence| {
        batch.batch(NFNL_MSG_BATCH_BEGIN, sequence, |_| {});
        build(batch, sequence);
        batch.batch(NFNL_MSG_BATCH_END, sequence, |_| {});
    };
    connection.exchange(operation, object, request, |_| {}).map(drop)
}

/// Takes these refusals for success.
fn unless(outcome: Result<(), NftError>, fine: &[Errno]) -> Result<(), NftError> {
    match outcome {
        Err(NftError::Kernel { source, .. }) if fine.contains(&source) => Ok(()),
        outcome => outcome,
    }
}

fn chain(chain: &mut Builder, veth: &str) {
    chain.text(attr::CHAIN_TABLE, TABLE);
    chain.text(attr::CHAIN_NAME, veth);
    chain.nested(attr::CHAIN_HOOK, |hook| {
        hook.number(attr::HOOK_HOOKNUM, NF_BR_PRE_ROUTING);
        hook.number(attr::HOOK_PRIORITY, PRIORITY);
    });
    chain.number(attr::CHAIN_POLICY, NF_ACCEPT);
    chain.text(attr::CHAIN_TYPE, "filter");
}

fn rule(rule: &mut Builder, veth: &str, mac: [u8; 6]) {
    rule.text(attr::RULE_TABLE, TABLE);
    rule.text(attr::RULE_CHAIN, veth);
    rule.nested(attr::RULE_EXPRESSIONS, |list| {
        expression(list, "meta", |data| {
            data.number(expr::META_KEY, expr::META_IIFNAME);
            data.number(expr::META_DREG, expr::REG_1);
        });
        let mut name = veth.as_bytes().to_vec();
        name.resize(16, 0);
        compare(list, expr::CMP_EQ, &name);
        expression(list, "payload", |data| {
            data.number(expr::PAYLOAD_DREG, expr::REG_1);
            data.number(expr::PAYLOAD_BASE, expr::PAYLOAD_LINK_HEADER);
            // The source behind the destination (IEEE 802.3, 3.1.1).
            data.number(expr::PAYLOAD_OFFSET, 6);
            data.number(expr::PAYLOAD_LEN, 6);
        });
        compare(list, expr::CMP_NEQ, &mac);
        expression(list, "immediate", |data| {
            data.number(expr::IMMEDIATE_DREG, expr::REG_VERDICT);
            data.nested(expr::IMMEDIATE_DATA, |data| {
                data.nested(expr::VERDICT, |verdict| verdict.number(expr::VERDICT_CODE, expr::NF_DROP));
            });
        });
    });
}

fn compare(list: &mut Builder, operation: u32, value: &[u8]) {
    expression(list, "cmp", |data| {
        data.number(expr::CMP_SREG, expr::REG_1);
        data.number(expr::CMP_OP, operation);
        data.nested(expr::CMP_DATA, |data| data.attribute(expr::VALUE, value));
    });
}

fn expression(list: &mut Builder, name: &str, fill: impl FnOnce(&mut Builder)) {
    list.nested(attr::LIST_ELEM, |element| {
        element.text(expr::NAME, name);
        element.nested(expr::DATA, fill);
    });
}
