//! The numbers of nf_tables' netlink interface that we speak: `linux/netfilter/nf_tables.h`,
//! `linux/netfilter/nfnetlink.h`, `linux/netlink.h` and `linux/netfilter.h`.

/// `struct nlmsghdr`, in bytes.
pub(super) const HEADER: usize = 16;
/// `struct nfgenmsg`, in bytes.
pub(super) const FAMILY_HEADER: usize = 4;

pub(super) const NLMSG_ERROR: u16 = 2;
pub(super) const NLMSG_DONE: u16 = 3;
pub(super) const NLM_F_REQUEST: u16 = 0x1;
pub(super) const NLM_F_ACK: u16 = 0x4;
pub(super) const NLM_F_DUMP_INTR: u16 = 0x10;
pub(super) const NLM_F_DUMP: u16 = 0x300;
pub(super) const NLM_F_CREATE: u16 = 0x400;
pub(super) const NLM_F_APPEND: u16 = 0x800;
pub(super) const NLA_F_NESTED: u16 = 1 << 15;
/// Clears `NLA_F_NESTED` and `NLA_F_NET_BYTEORDER`.
pub(super) const NLA_TYPE_MASK: u16 = 0x3fff;

pub(super) const NFNL_SUBSYS_NFTABLES: u16 = 10;
pub(super) const NFNL_MSG_BATCH_BEGIN: u16 = 0x10;
pub(super) const NFNL_MSG_BATCH_END: u16 = 0x11;
pub(super) const NFNL_BATCH_GENID: u16 = 1;

pub(super) const NFPROTO_UNSPEC: u8 = 0;
/// IPv4 and IPv6 in one table; NAT chains in it exist since Linux 5.2.
pub(super) const NFPROTO_INET: u8 = 1;
pub(super) const NFPROTO_IPV4: u8 = 2;
pub(super) const NFPROTO_IPV6: u8 = 10;
pub(super) const NF_INET_POST_ROUTING: u32 = 4;
/// `NF_IP_PRI_NAT_SRC`, which nft calls srcnat.
pub(super) const PRIORITY_SRCNAT: u32 = 100;
/// `NF_IP_PRI_FILTER`.
pub(super) const PRIORITY_FILTER: u32 = 0;
pub(super) const NF_ACCEPT: u32 = 1;

/// Message types, `NFT_MSG_*`, without the subsystem in the upper byte.
pub(super) mod msg {
    pub(in super::super) const NEWTABLE: u16 = 0;
    pub(in super::super) const GETTABLE: u16 = 1;
    pub(in super::super) const DELTABLE: u16 = 2;
    pub(in super::super) const NEWCHAIN: u16 = 3;
    pub(in super::super) const GETCHAIN: u16 = 4;
    pub(in super::super) const DELCHAIN: u16 = 5;
    pub(in super::super) const NEWRULE: u16 = 6;
    pub(in super::super) const GETRULE: u16 = 7;
    pub(in super::super) const DELRULE: u16 = 8;
    pub(in super::super) const NEWGEN: u16 = 15;
    pub(in super::super) const GETGEN: u16 = 16;
}

/// Attributes of tables, chains, rules and the generation, `NFTA_*`.
pub(super) mod attr {
    pub(in super::super) const TABLE_NAME: u16 = 1;
    pub(in super::super) const HOOK_HOOKNUM: u16 = 1;
    pub(in super::super) const HOOK_PRIORITY: u16 = 2;
    pub(in super::super) const CHAIN_TABLE: u16 = 1;
    pub(in super::super) const CHAIN_NAME: u16 = 3;
    pub(in super::super) const CHAIN_HOOK: u16 = 4;
    pub(in super::super) const CHAIN_POLICY: u16 = 5;
    pub(in super::super) const CHAIN_TYPE: u16 = 7;
    pub(in super::super) const RULE_TABLE: u16 = 1;
    pub(in super::super) const RULE_CHAIN: u16 = 2;
    pub(in super::super) const RULE_HANDLE: u16 = 3;
    pub(in super::super) const RULE_EXPRESSIONS: u16 = 4;
    pub(in super::super) const RULE_USERDATA: u16 = 7;
    pub(in super::super) const GEN_ID: u16 = 1;
    pub(in super::super) const LIST_ELEM: u16 = 1;
}

/// Attributes and values of expressions.
pub(super) mod expr {
    pub(in super::super) const NAME: u16 = 1;
    pub(in super::super) const DATA: u16 = 2;
    /// Register 1, 16 bytes wide; `NFT_REG_1`.
    pub(in super::super) const REG_1: u32 = 1;
    /// `NFTA_DATA_VALUE`.
    pub(in super::super) const VALUE: u16 = 1;
    pub(in super::super) const META_DREG: u16 = 1;
    pub(in super::super) const META_KEY: u16 = 2;
    pub(in super::super) const META_NFPROTO: u32 = 15;
    pub(in super::super) const META_IIFNAME: u32 = 6;
    pub(in super::super) const CT_DREG: u16 = 1;
    pub(in super::super) const CT_KEY: u16 = 2;
    pub(in super::super) const CT_STATE: u32 = 0;
    /// `NF_CT_STATE_INVALID_BIT`, also of packets without a connection.
    pub(in super::super) const CT_INVALID: u32 = 1;
    pub(in super::super) const PAYLOAD_DREG: u16 = 1;
    pub(in super::super) const PAYLOAD_BASE: u16 = 2;
    pub(in super::super) const PAYLOAD_OFFSET: u16 = 3;
    pub(in super::super) const PAYLOAD_LEN: u16 = 4;
    pub(in super::super) const PAYLOAD_LINK_HEADER: u32 = 0;
    pub(in super::super) const PAYLOAD_NETWORK_HEADER: u32 = 1;
    pub(in super::super) const BITWISE_SREG: u16 = 1;
    pub(in super::super) const BITWISE_DREG: u16 = 2;
    pub(in super::super) const BITWISE_LEN: u16 = 3;
    pub(in super::super) const BITWISE_MASK: u16 = 4;
    pub(in super::super) const BITWISE_XOR: u16 = 5;
    pub(in super::super) const BITWISE_OP: u16 = 6;
    pub(in super::super) const CMP_SREG: u16 = 1;
    pub(in super::super) const CMP_OP: u16 = 2;
    pub(in super::super) const CMP_DATA: u16 = 3;
    pub(in super::super) const CMP_EQ: u32 = 0;
    pub(in super::super) const CMP_NEQ: u32 = 1;
    pub(in super::super) const IMMEDIATE_DREG: u16 = 1;
    pub(in super::super) const IMMEDIATE_DATA: u16 = 2;
    /// `NFT_REG_VERDICT`.
    pub(in super::super) const REG_VERDICT: u32 = 0;
    /// `NFTA_DATA_VERDICT`.
    pub(in super::super) const VERDICT: u16 = 2;
    pub(in super::super) const VERDICT_CODE: u16 = 1;
    pub(in super::super) const NF_DROP: u32 = 0;
}
