//! A token bucket: how often something may happen.

const SECOND: u64 = 1_000_000_000;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bucket {
    tokens: u32,
    /// Up to when tokens have been put in.
    filled: u64,
}

impl Bucket {
    /// Whether one more is within `rate` per second; a second's worth may come
    /// at once.
    pub(crate) fn take(&mut self, now: u64, rate: u32) -> bool {
        if rate == 0 {
            return false;
        }
        let interval = (SECOND / u64::from(rate)).max(1);
        let earned = now.saturating_sub(self.filled) / interval;
        if earned >= u64::from(rate - self.tokens.min(rate)) {
            self.tokens = rate;
            self.filled = now;
        } else {
            self.tokens += earned as u32;
            self.filled += earned * interval;
        }
        if self.tokens == 0 {
            return false;
        }
        self.tokens -= 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seconds_worth_at_once_and_then_the_rate() {
        let mut b = Bucket::default();
        let mut now = 5 * SECOND;
        let burst = (0..1000).filter(|_| b.take(now, 100)).count();
        assert_eq!(burst, 100);
        let mut passed = 0;
        for _ in 0..2000 {
            now += SECOND / 1000;
            passed += usize::from(b.take(now, 100));
        }
        assert_eq!(passed, 200);
        assert!(!Bucket::default().take(now, 0));
    }
}
