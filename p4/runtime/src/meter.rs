//! The configuration of a direct meter.

use crate::v1;

/// Rates per second and bursts, in the meter's unit; two rates, three colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Meter {
    /// Up to here packets are green.
    pub committed_rate: u64,
    /// How much may come at once and still be green.
    pub committed_burst: u64,
    /// Up to here packets are yellow, above red.
    pub peak_rate: u64,
    /// How much may come at once without being red.
    pub peak_burst: u64,
}

/// Beyond what the wire can carry, rates and bursts are as good as unlimited and
/// become its largest number.
impl From<Meter> for v1::MeterConfig {
    fn from(meter: Meter) -> Self {
        let wire = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        Self {
            cir: wire(meter.committed_rate),
            cburst: wire(meter.committed_burst),
            pir: wire(meter.peak_rate),
            pburst: wire(meter.peak_burst),
            eburst: 0,
        }
    }
}
