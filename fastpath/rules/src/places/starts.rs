//! Where something else begins: a step function over the places of a bucket.

use alloc::boxed::Box;
use alloc::vec::Vec;

/// Most buckets speak of 16 bits: a judgement finds its step in them by the first
/// bits, and its tags with the step.
#[derive(Clone, Debug)]
pub(super) enum Starts {
    Short {
        /// For each first bits, how many steps begin before; and how many there are.
        index: Box<[u32]>,
        /// How many bits are left.
        shift: u32,
        steps: Box<[Short]>,
    },
    Long(Box<[u64]>),
}

/// A step that begins at `start`.
#[derive(Clone, Debug)]
pub(super) struct Short {
    start: u16,
    /// How many tags, or that it is not so simple.
    len: u16,
    tags: u32,
}

/// What a place's step leads to.
pub(super) enum Step {
    /// The tags from one to another.
    Tags(usize, usize),
    /// Whatever the step of this number has.
    At(usize),
}

/// The tags are more than one run.
const SEVERAL: u16 = u16::MAX;

/// Steps that share their first bits, about.
const TOGETHER: usize = 4;

impl Starts {
    /// Steps, ascending, of so many bits; with each its tags, where they are one run:
    /// the first, and how many.
    pub(super) fn new(
        steps: impl ExactSizeIterator<Item = (u64, Option<(u32, u32)>)>,
        bits: u8,
    ) -> Self {
        if bits > 16 {
            return Self::Long(steps.map(|(start, _)| start).collect());
        }
        let steps: Box<[Short]> = steps
            .map(|(start, run)| {
                let run = run.and_then(|(tags, len)| Some((tags, u16::try_from(len).ok()?)));
                let (tags, len) = run.unwrap_or((0, SEVERAL));
                Short {
                    // 16 bits fit.
                    start: start as u16,
                    len,
                    tags,
                }
            })
            .collect();
        let cells = (steps.len() / TOGETHER).next_power_of_two().min(1 << bits);
        let shift = u32::from(bits) - cells.trailing_zeros();
        let before = |cell: usize| {
            let steps = steps.partition_point(|step| usize::from(step.start) < cell << shift);
            u32::try_from(steps).unwrap_or(u32::MAX)
        };
        let index: Vec<u32> = (0..=cells).map(before).collect();
        Self::Short {
            index: index.into_boxed_slice(),
            shift,
            steps,
        }
    }

    /// The step of a place; none where it is before the first.
    #[inline]
    pub(super) fn position(&self, place: u64) -> Option<usize> {
        let after = match self {
            Self::Short {
                index,
                shift,
                steps,
            } => {
                let cell = (place >> shift) as usize;
                let (from, to) = (*index.get(cell)? as usize, *index.get(cell + 1)? as usize);
                let among = steps.get(from..to)?;
                from + among.partition_point(|step| u64::from(step.start) <= place)
            }
            Self::Long(starts) => starts.partition_point(|start| *start <= place),
        };
        after.checked_sub(1)
    }

    #[inline]
    pub(super) fn find(&self, place: u64) -> Step {
        let Some(at) = self.position(place) else {
            return Step::Tags(0, 0);
        };
        match self {
            Self::Short { steps, .. } => match steps.get(at) {
                Some(step) if step.len != SEVERAL => {
                    let tags = step.tags as usize;
                    Step::Tags(tags, tags + usize::from(step.len))
                }
                _ => Step::At(at),
            },
            Self::Long(_) => Step::At(at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_finds_its_step() {
        // Few and many, close together and far apart, from 0 and from later on.
        for (first, by, count) in [(0, 1, 5), (9, 3, 1000), (500, 7919, 8), (65_535, 1, 1)] {
            let begins = move |i: u64| first + i * by;
            let run = |i: u64| match i % 3 {
                0 => None,
                1 => Some((1, u32::from(SEVERAL))),
                _ => Some((i as u32, 2)),
            };
            let steps: Vec<_> = (0..count).map(|i| (begins(i), run(i))).collect();
            let starts = Starts::new(steps.into_iter(), 16);
            for place in 0..=u64::from(u16::MAX) {
                let before = (0..count).take_while(|i| begins(*i) <= place).count();
                assert_eq!(starts.position(place), before.checked_sub(1), "{place}");
                let found = match starts.find(place) {
                    Step::Tags(from, to) => (Some((from, to)), None),
                    Step::At(i) => (None, Some(i)),
                };
                let expected = match before.checked_sub(1) {
                    None => (Some((0, 0)), None),
                    Some(i) if i % 3 == 2 => (Some((i, i + 2)), None),
                    Some(i) => (None, Some(i)),
                };
                assert_eq!(found, expected, "{place}");
            }
        }
    }
}
