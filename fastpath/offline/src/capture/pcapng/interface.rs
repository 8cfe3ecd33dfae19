//! What a section says about an interface, and what its times mean.

#[derive(Clone, Copy, Debug)]
pub(super) struct Interface {
    pub(super) link: u16,
    /// Where it says so.
    pub(super) offset: u64,
    pub(super) snap: u32,
    pub(super) resolution: u8,
    /// Seconds to add to its times.
    pub(super) ahead: i64,
}

impl Interface {
    /// Nanoseconds since 1970.
    pub(super) fn time(&self, high: u32, low: u32) -> i128 {
        let ticks = u128::from(high) << 32 | u128::from(low);
        let exponent = u32::from(self.resolution & 0x7f);
        let ns = if self.resolution & 0x80 != 0 {
            (ticks * 1_000_000_000) >> exponent
        } else if exponent <= 9 {
            ticks * 10_u128.pow(9 - exponent)
        } else {
            let per_ns = 10_u128.checked_pow(exponent - 9);
            per_ns.map_or(0, |per_ns| ticks / per_ns)
        };
        // At most 2^64 seconds in nanoseconds: 94 bits.
        ns as i128 + i128::from(self.ahead) * 1_000_000_000
    }
}
