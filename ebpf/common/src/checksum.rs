//! One's complement sums (RFC 1071) and their incremental update (RFC 1624).
//!
//! A partial sum is 32 bits wide and not yet folded, like the kernel's `__wsum`. Words are summed as
//! they stand in memory, which is right on either byte order because the sum is byte-order independent
//! (RFC 1071, section 2B).

/// Adds two partial sums with end-around carry, as `csum_add` in `include/net/checksum.h`.
#[inline(always)]
pub fn add(a: u32, b: u32) -> u32 {
    let (sum, carry) = a.overflowing_add(b);
    sum + carry as u32
}

/// The partial sum that turns a sum over `old` into one over `new`.
#[inline(always)]
pub fn difference(old: u32, new: u32) -> u32 {
    add(!old, new)
}

/// Folds a partial sum to the 16 bits of a checksum field, without complementing it.
#[inline(always)]
pub fn fold(sum: u32) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

/// Updates a checksum field by a difference: `HC' = ~(~HC + ~m + m')`, equation 3 of RFC 1624.
#[inline(always)]
pub fn update(check: u16, difference: u32) -> u16 {
    !fold(add(!check as u32 & 0xffff, difference))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The textbook algorithm of RFC 1071, section 4.1, as the reference.
    fn checksum(words: &[u16]) -> u16 {
        let mut sum: u64 = words.iter().map(|&w| w as u64).sum();
        while sum >> 16 != 0 {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    /// 0x0000 and 0xffff are the same number in one's complement.
    fn same(a: u16, b: u16) -> bool {
        a == b || (a == 0 && b == 0xffff) || (a == 0xffff && b == 0)
    }

    proptest! {
        #[test]
        fn an_update_equals_a_full_sum(mut words in prop::collection::vec(any::<u16>(), 2..40), new in any::<u32>()) {
            let before = checksum(&words);
            let old = (words[0] as u32) << 16 | words[1] as u32;
            words[0] = (new >> 16) as u16;
            words[1] = new as u16;
            let updated = update(before, difference(old, new));
            prop_assert!(same(updated, checksum(&words)), "{updated:#x} against {:#x}", checksum(&words));
        }

        #[test]
        fn an_update_and_its_inverse_cancel(check in any::<u16>(), old in any::<u32>(), new in any::<u32>()) {
            let there = update(check, difference(old, new));
            prop_assert!(same(update(there, difference(new, old)), check));
        }
    }

    #[test]
    fn the_example_of_rfc_1624() {
        // Section 4: m = 0x5555, m' = 0x3285, HC = 0xdd2f gives 0x0000.
        assert_eq!(update(0xdd2f, difference(0x5555, 0x3285)), 0x0000);
    }
}
