//! The nf_tables expressions of which our rules are made, to and from attributes.

use super::abi::{attr, expr as abi};
use super::message::{Attributes, Builder};

/// One step of a rule. All of ours pass their value through register 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Expression {
    /// Loads the packet's family, one byte, `NFPROTO_*`.
    Family,
    /// Loads bytes of the IP header.
    Load {
        /// From the start of the header, bytes.
        offset: u32,
        /// How many bytes.
        length: u32,
    },
    /// Clears the bits that are clear in the mask.
    Mask(Vec<u8>),
    /// Goes on only if the register equals the value, or, negated, does not.
    Compare {
        /// "not equal" instead of "equal".
        negated: bool,
        /// In the packet's byte order.
        value: Vec<u8>,
    },
    /// Loads the connection's state, a set of bits, 4 bytes in host order.
    State,
    /// Replaces the source by the output device's address; ends the rule.
    Masquerade,
    /// Drops the packet.
    Drop,
}

impl Expression {
    /// Appends the expression as an element of a rule's list.
    pub(super) fn encode(&self, list: &mut Builder) {
        let name = match self {
            Self::Family => "meta",
            Self::Load { .. } => "payload",
            Self::Mask(_) => "bitwise",
            Self::Compare { .. } => "cmp",
            Self::State => "ct",
            Self::Masquerade => "masq",
            Self::Drop => "immediate",
        };
        list.nested(attr::LIST_ELEM, |element| {
            element.text(abi::NAME, name);
            element.nested(abi::DATA, |data| self.encode_data(data));
        });
    }

    fn encode_data(&self, data: &mut Builder) {
        match self {
            Self::Family => {
                data.number(abi::META_KEY, abi::META_NFPROTO);
                data.number(abi::META_DREG, abi::REG_1);
            }
            Self::Load { offset, length } => {
                data.number(abi::PAYLOAD_DREG, abi::REG_1);
                data.number(abi::PAYLOAD_BASE, abi::PAYLOAD_NETWORK_HEADER);
                data.number(abi::PAYLOAD_OFFSET, *offset);
                data.number(abi::PAYLOAD_LEN, *length);
            }
            Self::Mask(mask) => {
                data.number(abi::BITWISE_SREG, abi::REG_1);
                data.number(abi::BITWISE_DREG, abi::REG_1);
                data.number(abi::BITWISE_LEN, mask.len() as u32);
                data.nested(abi::BITWISE_MASK, |value| value.attribute(abi::VALUE, mask));
                data.nested(abi::BITWISE_XOR, |value| value.attribute(abi::VALUE, &vec![0; mask.len()]));
            }
            Self::Compare { negated, value } => {
                data.number(abi::CMP_SREG, abi::REG_1);
                data.number(abi::CMP_OP, if *negated { abi::CMP_NEQ } else { abi::CMP_EQ });
                data.nested(abi::CMP_DATA, |data| data.attribute(abi::VALUE, value));
            }
            Self::State => {
                data.number(abi::CT_KEY, abi::CT_STATE);
                data.number(abi::CT_DREG, abi::REG_1);
            }
            Self::Masquerade => {}
            Self::Drop => {
                data.number(abi::IMMEDIATE_DREG, abi::REG_VERDICT);
                data.nested(abi::IMMEDIATE_DATA, |data| {
                    data.nested(abi::VERDICT, |verdict| verdict.number(abi::VERDICT_CODE, abi::NF_DROP));
                });
            }
        }
    }

    /// Reads an element of a rule's list; `None` for anything we do not make ourselves.
    pub(super) fn decode(element: Attributes<'_>) -> Option<Self> {
        let name = element.text(abi::NAME)?;
        let data = element.nested(abi::DATA).unwrap_or(Attributes(&[]));
        let register = |kind| data.number(kind) == Some(abi::REG_1);
        let value = |kind| Some(data.nested(kind)?.get(abi::VALUE)?.to_vec());
        match name {
            "meta" if register(abi::META_DREG) && data.number(abi::META_KEY)? == abi::META_NFPROTO => {
                Some(Self::Family)
            }
            "payload"
                if register(abi::PAYLOAD_DREG)
                    && data.number(abi::PAYLOAD_BASE)? == abi::PAYLOAD_NETWORK_HEADER =>
            {
                let (offset, length) = (data.number(abi::PAYLOAD_OFFSET)?, data.number(abi::PAYLOAD_LEN)?);
                Some(Self::Load { offset, length })
            }
            // Operation 0 is mask and xor; kernels before 5.6 do not state it.
            "bitwise"
                if register(abi::BITWISE_SREG)
                    && register(abi::BITWISE_DREG)
                    && data.number(abi::BITWISE_OP).unwrap_or(0) == 0
                    && value(abi::BITWISE_XOR)?.iter().all(|byte| *byte == 0) =>
            {
                Some(Self::Mask(value(abi::BITWISE_MASK)?))
            }
            "cmp" if register(abi::CMP_SREG) => {
                let negated = match data.number(abi::CMP_OP)? {
                    abi::CMP_EQ => false,
                    abi::CMP_NEQ => true,
                    _ => return None,
                };
                Some(Self::Compare { negated, value: value(abi::CMP_DATA)? })
            }
            "ct" if register(abi::CT_DREG) && data.number(abi::CT_KEY)? == abi::CT_STATE => Some(Self::State),
            "immediate" if data.number(abi::IMMEDIATE_DREG)? == abi::REG_VERDICT => {
                let verdict = data.nested(abi::IMMEDIATE_DATA)?.nested(abi::VERDICT)?;
                (verdict.number(abi::VERDICT_CODE)? == abi::NF_DROP).then_some(Self::Drop)
            }
            // Flags or ports would make it another thing.
            "masq" if data.count() == 0 => Some(Self::Masquerade),
            _ => None,
        }
    }
}
