//! What all rows add up to, whatever their order: so that an open notices rows that the
//! database has lost, or brings back from long ago, without saying so.
//!
//! It guards against damage, not against somebody who changes files on purpose.

/// The sum of the rows' hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Digest(u128);

impl Digest {
    pub(super) fn add(&mut self, key: &[u8], value: &[u8]) {
        self.0 = self.0.wrapping_add(hash(key, value));
    }

    pub(super) fn remove(&mut self, key: &[u8], value: &[u8]) {
        self.0 = self.0.wrapping_sub(hash(key, value));
    }

    pub(super) const fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }
}

/// FNV-1a of 128 bits over both, the key's length between them.
fn hash(key: &[u8], value: &[u8]) -> u128 {
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let length = (key.len() as u64).to_be_bytes();
    let bytes = key.iter().chain(&length).chain(value);
    bytes.fold(BASIS, |hash, byte| {
        (hash ^ u128::from(*byte)).wrapping_mul(PRIME)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rows: &[(&str, &str)]) -> Digest {
        let mut digest = Digest::default();
        for (key, value) in rows {
            digest.add(key.as_bytes(), value.as_bytes());
        }
        digest
    }

    #[test]
    fn it_is_of_the_rows_and_not_of_their_order() {
        let all = of(&[("a", "1"), ("b", "2")]);
        assert_eq!(all, of(&[("b", "2"), ("a", "1")]));
        let mut fewer = all;
        fewer.remove(b"b", b"2");
        assert_eq!(fewer, of(&[("a", "1")]));
        for other in [
            &[("a", "1")][..],
            &[("a", "2"), ("b", "1")],
            &[("a1", ""), ("b", "2")],
            &[("a", "1"), ("b", "2"), ("b", "2")],
        ] {
            assert_ne!(all, of(other), "{other:?}");
        }
    }

    #[test]
    fn fnv_as_published() {
        // FNV-1a, 128 bits, of the empty string and of "a", from the authors' test vectors.
        let plain = |bytes: &[u8]| {
            bytes.iter().fold(
                0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128,
                |hash, byte| {
                    (hash ^ u128::from(*byte))
                        .wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
                },
            )
        };
        assert_eq!(plain(b"a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
        assert_eq!(hash(b"", b""), plain(&[0; 8]));
    }
}
