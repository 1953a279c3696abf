//! Netlink messages as bytes: a builder for what we send, views of what the kernel answers.
//!
//! Headers are in host byte order. So are attribute headers, while nf_tables has its numbers in network byte
//! order. Messages and attributes are padded to 4 bytes.

use super::abi::*;

const ALIGN: usize = 4;

/// Builds messages one behind the other.
#[derive(Debug, Default)]
pub(super) struct Builder {
    bytes: Vec<u8>,
}

impl Builder {
    /// Appends a message of nf_tables for the objects of `family`; `fill` appends its attributes.
    pub(super) fn message(
        &mut self,
        kind: u16,
        flags: u16,
        sequence: u32,
        family: u8,
        fill: impl FnOnce(&mut Self),
    ) {
        self.raw((NFNL_SUBSYS_NFTABLES << 8) | kind, flags, sequence, family, 0, fill);
    }

    /// Appends the message that opens or closes a batch; it names the subsystem in place of a family.
    pub(super) fn batch(&mut self, kind: u16, sequence: u32, fill: impl FnOnce(&mut Self)) {
        self.raw(kind, 0, sequence, NFPROTO_UNSPEC, NFNL_SUBSYS_NFTABLES, fill);
    }

    fn raw(
        &mut self,
        kind: u16,
        flags: u16,
        sequence: u32,
        family: u8,
        resource: u16,
        fill: impl FnOnce(&mut Self),
    ) {
        let start = self.bytes.len();
        self.bytes.extend([0; 4]);
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend((NLM_F_REQUEST | flags).to_ne_bytes());
        self.bytes.extend(sequence.to_ne_bytes());
        // The port: 0 lets the kernel answer to the sending socket.
        self.bytes.extend(0u32.to_ne_bytes());
        self.bytes.extend([family, 0]);
        self.bytes.extend(resource.to_be_bytes());
        fill(self);
        let length = (self.bytes.len() - start) as u32;
        self.bytes[start..start + 4].copy_from_slice(&length.to_ne_bytes());
    }

    /// Appends an attribute. `value` is shorter than 64 KiB, as all of ours are.
    pub(super) fn attribute(&mut self, kind: u16, value: &[u8]) {
        self.bytes.extend(((ALIGN + value.len()) as u16).to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend(value);
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGN), 0);
    }

    /// Appends a number.
    pub(super) fn number(&mut self, kind: u16, value: u32) {
        self.attribute(kind, &value.to_be_bytes());
    }

    /// Appends a text, which the kernel wants NUL-terminated.
    pub(super) fn text(&mut self, kind: u16, value: &str) {
        self.attribute(kind, &[value.as_bytes(), &[0]].concat());
    }

    /// Appends an attribute that `fill` fills with attributes.
    pub(super) fn nested(&mut self, kind: u16, fill: impl FnOnce(&mut Self)) {
        let start = self.bytes.len();
        self.attribute(kind | NLA_F_NESTED, &[]);
        fill(self);
        let length = (self.bytes.len() - start) as u16;
        self.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
    }

    /// The messages so far.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// A message as received.
#[derive(Debug, Clone, Copy)]
pub(super) struct Message<'a> {
    /// Type, the subsystem in the upper byte.
    pub(super) kind: u16,
    pub(super) flags: u16,
    pub(super) sequence: u32,
    /// What follows the netlink header.
    pub(super) payload: &'a [u8],
}

impl<'a> Message<'a> {
    /// The attributes after the family header.
    pub(super) fn attributes(&self) -> Attributes<'a> {
        Attributes(self.payload.get(FAMILY_HEADER..).unwrap_or_default())
    }

    /// The status that NLMSG_ERROR and NLMSG_DONE carry: 0 or a negated errno.
    pub(super) fn status(&self) -> i32 {
        self.payload.first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes))
    }
}

/// The messages of one datagram; ends at the first that is cut short.
pub(super) struct Messages<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let header: &[u8; HEADER] = self.0.first_chunk()?;
        let [l0, l1, l2, l3, k0, k1, f0, f1, s0, s1, s2, s3, ..] = *header;
        let length = u32::from_ne_bytes([l0, l1, l2, l3]) as usize;
        let payload = self.0.get(HEADER..length)?;
        self.0 = self.0.get(length.next_multiple_of(ALIGN)..).unwrap_or_default();
        Some(Message {
            kind: u16::from_ne_bytes([k0, k1]),
            flags: u16::from_ne_bytes([f0, f1]),
            sequence: u32::from_ne_bytes([s0, s1, s2, s3]),
            payload,
        })
    }
}

/// Attributes, as (type, value); ends at the first that is cut short.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attributes<'a>(pub(super) &'a [u8]);

impl<'a> Attributes<'a> {
    /// The value of the first attribute of this type.
    pub(super) fn get(mut self, kind: u16) -> Option<&'a [u8]> {
        self.find(|(found, _)| *found == kind).map(|(_, value)| value)
    }

    /// The attributes inside the first attribute of this type.
    pub(super) fn nested(self, kind: u16) -> Option<Attributes<'a>> {
        self.get(kind).map(Attributes)
    }

    /// A number.
    pub(super) fn number(self, kind: u16) -> Option<u32> {
        self.get(kind)?.try_into().ok().map(u32::from_be_bytes)
    }

    /// A text, without its NUL.
    pub(super) fn text(self, kind: u16) -> Option<&'a str> {
        let bytes = self.get(kind)?;
        std::str::from_utf8(bytes.strip_suffix(&[0]).unwrap_or(bytes)).ok()
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let [l0, l1, k0, k1]: [u8; 4] = *self.0.first_chunk()?;
        let length = usize::from(u16::from_ne_bytes([l0, l1]));
        let value = self.0.get(ALIGN..length)?;
        self.0 = self.0.get(length.next_multiple_of(ALIGN)..).unwrap_or_default();
        Some((u16::from_ne_bytes([k0, k1]) & NLA_TYPE_MASK, value))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_built_is_read_back() {
        let mut builder = Builder::default();
        builder.batch(NFNL_MSG_BATCH_BEGIN, 7, |m| m.number(1, 0x0102_0304));
        builder.message(msg::NEWRULE, NLM_F_CREATE, 8, NFPROTO_INET, |m| {
            m.text(1, "odd");
            m.nested(4, |m| {
                m.attribute(1, &[1, 2, 3, 4, 5]);
                m.number(2, 9);
            });
        });
        let messages: Vec<_> = Messages(builder.bytes()).collect();
        // Literal bytes, little and big endian apart: the order is the kernel's, not ours to choose.
        assert_eq!(
            messages[0].payload,
            [0, 0, 0, 10].into_iter().chain(attribute_of_8(1)).collect::<Vec<_>>()
        );
        assert_eq!((messages[0].kind, messages[0].sequence), (0x10, 7));
        assert_eq!((messages[1].kind, messages[1].flags), (0x0a06, 0x401));
        let attributes = messages[1].attributes();
        assert_eq!(attributes.text(1), Some("odd"));
        let nested = attributes.nested(4).unwrap();
        assert_eq!((nested.get(1), nested.number(2)), (Some(&[1, 2, 3, 4, 5][..]), Some(9)));
        assert_eq!(messages.len(), 2);
    }

    fn attribute_of_8(kind: u16) -> Vec<u8> {
        [8u16.to_ne_bytes(), kind.to_ne_bytes(), [1, 2], [3, 4]].concat()
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_readers_panic_or_loop(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            for message in Messages(&bytes).take(100) {
                message.status();
                message.attributes().count();
            }
            prop_assert!(Messages(&bytes).count() <= bytes.len() / HEADER);
            prop_assert!(Attributes(&bytes).count() <= bytes.len() / ALIGN);
        }
    }
}
