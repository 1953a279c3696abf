//! Our table as the kernel holds it: reading it, and changing it in one transaction.

use nix::errno::Errno;

use super::NftError;
use super::abi::{
    NF_ACCEPT, NF_INET_POST_ROUTING, NFNL_BATCH_GENID, NFNL_MSG_BATCH_BEGIN, NFNL_MSG_BATCH_END,
    NFNL_SUBSYS_NFTABLES, NFPROTO_INET, NFPROTO_UNSPEC, NLM_F_ACK, NLM_F_APPEND, NLM_F_CREATE, NLM_F_DUMP,
    PRIORITY_FILTER, PRIORITY_SRCNAT, attr, msg,
};
use super::comment;
use super::connection::{Connection, End};
use super::expression::Expression;
use super::message::{Attributes, Builder, Message};
use super::rule::{Action, Rule};

/// In family inet, so that both families share it.
pub(super) const TABLE: &str = "ebpf-bridge";

impl Action {
    /// The chain with the rules of this action.
    fn chain(self) -> &'static str {
        match self {
            Self::Masquerade => "postrouting",
            Self::DropInvalid => "invalid",
        }
    }
}

/// A rule in one of our chains.
#[derive(Debug)]
pub(super) struct Held {
    /// For which action the chain is.
    pub(super) place: Action,
    /// The kernel's name for the rule, 8 bytes as they came.
    pub(super) handle: Vec<u8>,
    /// The network it is marked with, if it is.
    pub(super) network: Option<String>,
    /// What it does; `None` when that is nothing we would make.
    pub(super) rule: Option<Rule>,
}

/// One change of the table.
#[derive(Debug)]
pub(super) enum Change {
    /// Makes table and chains unless they are there.
    Create,
    /// Adds a rule marked with the network.
    Add(String, Rule),
    /// Deletes the rule with this handle from the chain for an action.
    Delete(Action, Vec<u8>),
    /// Deletes the table with all that is in it.
    Drop,
}

/// The rules of our chains in their order; none when table or chain are absent. `None` when they changed
/// meanwhile and must be read again.
pub(super) fn list(connection: &mut Connection) -> Result<Option<Vec<Held>>, NftError> {
    let mut held = Vec::new();
    let end = connection.exchange(
        "list the rules of",
        TABLE,
        |request, sequence| {
            request.message(msg::GETRULE, NLM_F_DUMP, sequence, NFPROTO_INET, |m| {
                m.text(attr::RULE_TABLE, TABLE);
            });
        },
        |answer| held.extend(read(answer)),
    )?;
    Ok((end == End::Complete).then_some(held))
}

/// The generation of the namespace's whole ruleset. It changes with every transaction, anybody's.
pub(super) fn generation(connection: &mut Connection) -> Result<u32, NftError> {
    let mut generation = None;
    connection.exchange(
        "read the generation of",
        "the ruleset",
        |request, sequence| request.message(msg::GETGEN, NLM_F_ACK, sequence, NFPROTO_UNSPEC, |_| {}),
        |answer| {
            if answer.kind == (NFNL_SUBSYS_NFTABLES << 8) | msg::NEWGEN {
                generation = answer.attributes().number(attr::GEN_ID);
            }
        },
    )?;
    generation.ok_or(NftError::NoGeneration)
}

/// True when there is such a table, be it empty.
pub(super) fn exists(connection: &mut Connection) -> Result<bool, NftError> {
    let request = |request: &mut Builder, sequence| {
        request
            .message(msg::GETTABLE, NLM_F_ACK, sequence, NFPROTO_INET, |m| m.text(attr::TABLE_NAME, TABLE));
    };
    match connection.exchange("look for table", TABLE, request, |_| {}) {
        Ok(_) => Ok(true),
        Err(NftError::Kernel { source: Errno::ENOENT, .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Makes all `changes` or none: none, and [`End::Overtaken`], when the ruleset is no longer of `generation`.
pub(super) fn commit(
    connection: &mut Connection,
    generation: u32,
    operation: &'static str,
    object: &str,
    changes: &[Change],
) -> Result<End, NftError> {
    let request = |batch: &mut Builder, sequence| {
        batch.batch(NFNL_MSG_BATCH_BEGIN, sequence, |m| m.number(NFNL_BATCH_GENID, generation));
        for (i, change) in changes.iter().enumerate() {
            // Failures are reported for every message; that all went well need be said only once.
            let ack = if i + 1 == changes.len() { NLM_F_ACK } else { 0 };
            change.encode(batch, ack, sequence);
        }
        batch.batch(NFNL_MSG_BATCH_END, sequence, |_| {});
    };
    connection.exchange(operation, object, request, |_| {})
}

impl Change {
    fn encode(&self, batch: &mut Builder, ack: u16, sequence: u32) {
        match self {
            Self::Create => {
                batch.message(msg::NEWTABLE, NLM_F_CREATE, sequence, NFPROTO_INET, |m| {
                    m.text(attr::TABLE_NAME, TABLE);
                });
                for action in Action::ALL {
                    let ack = if action == Action::DropInvalid { ack } else { 0 };
                    batch.message(msg::NEWCHAIN, NLM_F_CREATE | ack, sequence, NFPROTO_INET, |chain| {
                        encode_chain(chain, action);
                    });
                }
            }
            Self::Add(network, rule) => {
                batch.message(msg::NEWRULE, NLM_F_CREATE | NLM_F_APPEND | ack, sequence, NFPROTO_INET, |m| {
                    m.text(attr::RULE_TABLE, TABLE);
                    m.text(attr::RULE_CHAIN, rule.action.chain());
                    m.nested(attr::RULE_EXPRESSIONS, |list| {
                        rule.expressions().iter().for_each(|expression| expression.encode(list));
                    });
                    m.attribute(attr::RULE_USERDATA, &comment::encode(network));
                });
            }
            Self::Delete(place, handle) => {
                batch.message(msg::DELRULE, ack, sequence, NFPROTO_INET, |m| {
                    m.text(attr::RULE_TABLE, TABLE);
                    m.text(attr::RULE_CHAIN, place.chain());
                    m.attribute(attr::RULE_HANDLE, handle);
                });
            }
            Self::Drop => {
                batch.message(msg::DELTABLE, ack, sequence, NFPROTO_INET, |m| {
                    m.text(attr::TABLE_NAME, TABLE);
                });
            }
        }
    }
}

/// `type nat hook postrouting priority srcnat; policy accept`, and `type filter ... priority filter`.
fn encode_chain(chain: &mut Builder, action: Action) {
    let (kind, priority) = match action {
        Action::Masquerade => ("nat", PRIORITY_SRCNAT),
        Action::DropInvalid => ("filter", PRIORITY_FILTER),
    };
    chain.text(attr::CHAIN_TABLE, TABLE);
    chain.text(attr::CHAIN_NAME, action.chain());
    chain.nested(attr::CHAIN_HOOK, |hook| {
        hook.number(attr::HOOK_HOOKNUM, NF_INET_POST_ROUTING);
        hook.number(attr::HOOK_PRIORITY, priority);
    });
    chain.number(attr::CHAIN_POLICY, NF_ACCEPT);
    chain.text(attr::CHAIN_TYPE, kind);
}

fn read(message: Message<'_>) -> Option<Held> {
    if message.kind != (NFNL_SUBSYS_NFTABLES << 8) | msg::NEWRULE {
        return None;
    }
    let rule = message.attributes();
    // The dump is filtered by the kernel; a filter it does not know it ignores.
    if rule.text(attr::RULE_TABLE)? != TABLE {
        return None;
    }
    let chain = rule.text(attr::RULE_CHAIN)?;
    let place = Action::ALL.into_iter().find(|action| action.chain() == chain)?;
    let expressions: Option<Vec<Expression>> = rule
        .nested(attr::RULE_EXPRESSIONS)
        .unwrap_or(Attributes(&[]))
        .map(|(_, element)| Expression::decode(Attributes(element)))
        .collect();
    let rule_read = expressions.and_then(|expressions| Rule::from_expressions(&expressions));
    Some(Held {
        place,
        handle: rule.get(attr::RULE_HANDLE)?.to_vec(),
        network: rule.get(attr::RULE_USERDATA).and_then(comment::decode).map(str::to_owned),
        // In the other chain it would not do what it says.
        rule: rule_read.filter(|rule| rule.action == place),
    })
}
