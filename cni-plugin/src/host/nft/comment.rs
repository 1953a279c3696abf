//! The mark by which we know a network's rules: the comment that `nft list ruleset` shows.
//!
//! The kernel keeps a rule's user data without looking into it. nft(8) puts type-length-value triples there,
//! one byte each for type and length; type 0 is the comment, NUL-terminated (libnftnl, `libnftnl/udata.h`,
//! `NFTNL_UDATA_RULE_COMMENT`).

const COMMENT: u8 = 0;
const PREFIX: &str = "network ";

/// The longest network name whose comment fits, in bytes: the length byte counts the prefix and the NUL too.
pub(super) const MAX_NAME: usize = u8::MAX as usize - PREFIX.len() - 1 - 2;

/// User data with the comment of `network`, whose name is at most [`MAX_NAME`] long.
pub(super) fn encode(network: &str) -> Vec<u8> {
    let text = format!("{PREFIX}{network}\0");
    [&[COMMENT, text.len() as u8], text.as_bytes()].concat()
}

/// The network that user data names.
pub(super) fn decode(mut data: &[u8]) -> Option<&str> {
    while let [kind, length, rest @ ..] = data {
        let (value, after) = rest.split_at_checked(usize::from(*length))?;
        if *kind == COMMENT {
            return std::str::from_utf8(value.strip_suffix(&[0])?).ok()?.strip_prefix(PREFIX);
        }
        data = after;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes are those nft 1.0.6 sends for `comment "network n1"`.
    #[test]
    fn the_bytes_are_nfts() {
        assert_eq!(encode("n1"), b"\x00\x0bnetwork n1\x00");
        assert_eq!(decode(b"\x00\x0bnetwork n1\x00"), Some("n1"));
        assert_eq!(decode(b"\x05\x01x\x00\x0bnetwork n1\x00"), Some("n1"), "behind another triple");
        assert_eq!(decode(b"\x00\x05mine\x00"), None);
        assert_eq!(decode(b"\x00\x0bnetw"), None, "cut short");
        let longest = "n".repeat(MAX_NAME);
        assert_eq!(decode(&encode(&longest)), Some(longest.as_str()));
        assert!(encode(&longest).len() < 256, "NFT_USERDATA_MAXLEN");
    }
}
