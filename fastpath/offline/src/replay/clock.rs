//! The capture's clock, and when the engines' timers run.

use super::Note;

pub(super) const MS: u64 = 1_000_000;
/// The engines' time of the first packet: they have been running for a while.
const START: u64 = 10_000 * MS;
/// Looks at the timers in one gap between packets; more would tell nothing new.
const TICKS: u64 = 1024;
/// Longest time from the first packet, a century: further there is no sense in a time.
const LONGEST: i128 = 100 * 366 * 86_400 * 1_000_000_000;

#[derive(Debug)]
pub(super) struct Clock {
    first: Option<i128>,
    now: u64,
    ticked: u64,
    until: u64,
    /// Between two ticks of the gap at hand.
    step: u64,
    clamped: u64,
    timeless: bool,
}

impl Default for Clock {
    fn default() -> Self {
        Self {
            first: None,
            now: START,
            ticked: START,
            until: START,
            step: MS,
            clamped: 0,
            timeless: false,
        }
    }
}

impl Clock {
    /// To the time of the next packet, never back.
    pub(super) fn advance(&mut self, time: Option<i128>, notes: &mut Vec<Note>) -> u64 {
        let Some(time) = time else {
            if !self.timeless {
                self.timeless = true;
                notes.push(Note::NoTime);
            }
            return self.now;
        };
        let since = time - *self.first.get_or_insert(time);
        // Not negative, and below 2^63.
        let now = START + since.clamp(0, LONGEST) as u64;
        if now < self.now || since < 0 {
            if self.clamped == 0 {
                notes.push(Note::BackInTime {
                    by: (i128::from(self.now - START) - since).unsigned_abs(),
                });
            }
            self.clamped += 1;
            return self.now;
        }
        self.now = now;
        now
    }

    /// Timers are to run until then.
    pub(super) fn gap(&mut self, until: u64) {
        self.until = until;
        self.step = (until.saturating_sub(self.ticked) / TICKS).max(MS);
    }

    /// When they run next, the last time less than a millisecond before the gap's end.
    pub(super) fn next_tick(&mut self) -> Option<u64> {
        if self.until.saturating_sub(self.ticked) < MS {
            return None;
        }
        self.ticked = self.until.min(self.ticked + self.step);
        Some(self.ticked)
    }

    pub(super) const fn now(&self) -> u64 {
        self.now
    }

    /// Packets that came before their time.
    pub(super) const fn clamped(&self) -> u64 {
        self.clamped
    }

    /// Nanoseconds since the first packet.
    pub(super) const fn since_first(&self, now: u64) -> u64 {
        now.saturating_sub(START)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_forward_and_says_once_that_a_capture_does_not() {
        let mut clock = Clock::default();
        let mut notes = Vec::new();
        let mut at = |clock: &mut Clock, time| {
            let now = clock.advance(Some(time), &mut notes);
            clock.since_first(now)
        };
        assert_eq!(at(&mut clock, 5_000), 0);
        assert_eq!(at(&mut clock, 5_700), 700);
        assert_eq!(at(&mut clock, 4_000), 700);
        assert_eq!(at(&mut clock, 5_600), 700);
        assert_eq!(at(&mut clock, 5_701), 701);
        assert_eq!(at(&mut clock, i128::MAX / 2), LONGEST as u64);
        assert_eq!(clock.advance(None, &mut notes), clock.now());
        assert_eq!(notes, [Note::BackInTime { by: 1_700 }, Note::NoTime]);
        assert_eq!(clock.clamped(), 2);
    }

    #[test]
    fn a_gap_has_a_tick_each_millisecond_and_a_long_one_no_more_than_a_thousand() {
        let mut clock = Clock::default();
        let mut notes = Vec::new();
        let mut ticks = |time: u64| {
            let now = clock.advance(Some(time.into()), &mut notes);
            clock.gap(now);
            let mut count = 0;
            let mut last = 0;
            while let Some(tick) = clock.next_tick() {
                count += 1;
                last = tick;
            }
            assert!(count == 0 || (now - MS + 1..=now).contains(&last));
            count
        };
        assert_eq!(ticks(0), 0);
        assert_eq!(ticks(MS - 1), 0);
        assert_eq!(ticks(MS), 1);
        assert_eq!(ticks(100 * MS), 99);
        assert_eq!(ticks(102 * MS + 7), 2);
        assert!(ticks(365 * 86_400_000 * MS + 12_345) <= TICKS + 1);
    }
}
