//! The Internet checksum (RFC 1071), whole and incremental (RFC 1624).

use crate::Addr;

/// An unfolded one's complement sum; order does not matter, alignment does:
/// every piece but the last has an even length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum(u64);

impl Sum {
    /// Adds `bytes`; an odd last byte is padded with zero.
    #[must_use]
    #[inline]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        let (words, tail) = bytes.as_chunks::<4>();
        // 32-bit words into 64 bits: cannot overflow below 16 GiB.
        let mut sum = words
            .iter()
            .fold(self.0, |sum, w| sum + u64::from(u32::from_be_bytes(*w)));
        if !tail.is_empty() {
            let mut last = [0; 4];
            for (to, from) in last.iter_mut().zip(tail) {
                *to = *from;
            }
            sum += u64::from(u32::from_be_bytes(last));
        }
        Self(sum)
    }

    /// Adds one 16-bit word.
    #[must_use]
    pub const fn word(self, word: u16) -> Self {
        Self(self.0 + word as u64)
    }

    /// Adds the pseudo header (RFC 9293, section 3.1; RFC 8200, section 8.1).
    #[must_use]
    pub fn pseudo(self, src: Addr, dst: Addr, proto: u8, len: u16) -> Self {
        let sum = match (src.v4_octets(), dst.v4_octets()) {
            (Some(src), Some(dst)) => self.bytes(&src).bytes(&dst),
            _ => self.bytes(&src.octets()).bytes(&dst.octets()),
        };
        sum.word(u16::from(proto)).word(len)
    }

    /// The checksum field's value: folded and complemented.
    #[must_use]
    #[inline]
    pub const fn finish(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }
}

/// The checksum after one 16-bit word changed (RFC 1624, equation 3).
#[must_use]
pub const fn update(checksum: u16, old: u16, new: u16) -> u16 {
    Sum(!checksum as u64 + !old as u64 + new as u64).finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_1071() {
        let data = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::default().bytes(&data).finish(), !0xddf2);
    }

    #[test]
    fn incremental_equals_whole() {
        for (old, new) in [(0u16, 0u16), (0x4011, 0x3f11), (0xffff, 0), (1, 0xfffe)] {
            let mut data = [0x12, 0x34, 0, 0, 0xff, 0xfe];
            data[2..4].copy_from_slice(&old.to_be_bytes());
            let before = Sum::default().bytes(&data).finish();
            data[2..4].copy_from_slice(&new.to_be_bytes());
            let after = Sum::default().bytes(&data).finish();
            assert_eq!(update(before, old, new), after, "{old:#x} -> {new:#x}");
        }
    }

    #[test]
    fn an_odd_tail_is_padded() {
        let odd = Sum::default().bytes(&[1, 2, 3]).finish();
        assert_eq!(odd, Sum::default().bytes(&[1, 2, 3, 0]).finish());
    }
}
