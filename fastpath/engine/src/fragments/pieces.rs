//! Which pieces of a packet have come.

use penstock_flow::packet::Fragment;

/// Pieces that a packet may have. 64 KiB over IPv6's smallest MTU are 54.
pub(super) const MOST: usize = 64;

/// How a piece goes with those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    New,
    Duplicate,
    /// It overlaps or contradicts one, or is one too many.
    Conflict,
}

#[derive(Debug)]
pub(super) struct Pieces {
    /// Begin and end of each, in order of arrival.
    ranges: [(u16, u16); MOST],
    len: u8,
    covered: u16,
    /// The farthest end.
    end: u16,
    /// Where the whole ends, once its last piece has come.
    total: Option<u16>,
}

impl Pieces {
    pub(super) const fn new() -> Self {
        Self {
            ranges: [(0, 0); MOST],
            len: 0,
            covered: 0,
            end: 0,
            total: None,
        }
    }

    pub(super) fn complete(&self) -> bool {
        self.total == Some(self.covered)
    }

    pub(super) fn add(&mut self, piece: &Fragment) -> Fit {
        // The parser has seen to it that this fits.
        let (begin, end) = (piece.offset, piece.offset.saturating_add(piece.len));
        let last = !piece.more;
        let known = self.ranges.get(..usize::from(self.len)).unwrap_or_default();
        // Most come in order: what is near came last.
        for &(b, e) in known.iter().rev() {
            if (b, e) == (begin, end) {
                return if last == (self.total == Some(end)) {
                    Fit::Duplicate
                } else {
                    Fit::Conflict
                };
            }
            if begin < e && b < end {
                return Fit::Conflict;
            }
        }
        let beyond = self.total.is_some_and(|total| last || end > total);
        let behind = last && end < self.end;
        let Some(range) = self.ranges.get_mut(usize::from(self.len)) else {
            return Fit::Conflict;
        };
        if beyond || behind {
            return Fit::Conflict;
        }
        *range = (begin, end);
        self.len += 1;
        self.covered += end - begin;
        self.end = self.end.max(end);
        if last {
            self.total = Some(end);
        }
        Fit::New
    }
}
