//! Where frames wait: numbers that the caller keeps them by.

use alloc::boxed::Box;

use super::{Key, Verdict};
use crate::nic::exact::NONE;

/// A frame that waits no longer. It is to be given to
/// [`Engine::resume`](crate::Engine::resume).
#[derive(Clone, Copy, Debug)]
pub struct Release {
    place: u32,
    pub(crate) device_port: u32,
    pub(crate) key: Key,
    pub(crate) verdict: Verdict,
}

impl Release {
    /// The place that [`Outcome::Hold`](crate::Outcome::Hold) named.
    #[must_use]
    pub fn place(&self) -> u32 {
        self.place
    }

    /// Where the frame had come in.
    #[must_use]
    pub fn device_port(&self) -> u32 {
        self.device_port
    }
}

/// Places in order of arrival.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    first: u32,
    last: u32,
}

impl Line {
    pub(super) const EMPTY: Self = Self {
        first: NONE,
        last: NONE,
    };
}

#[derive(Clone, Copy, Debug)]
enum State {
    Free,
    /// For the packet in this slot.
    Waiting {
        slot: u32,
        key: Key,
        device_port: u32,
    },
    Ready(Release),
}

#[derive(Clone, Copy, Debug)]
struct Place {
    /// The next one of the same line.
    next: u32,
    state: State,
}

#[derive(Debug)]
pub(super) struct Places {
    all: Box<[Place]>,
    unused: u32,
    free: Line,
    ready: Line,
}

impl Places {
    pub(super) fn new(capacity: u32) -> Self {
        let capacity = capacity.min(NONE - 1);
        let all = (0..capacity).map(|i| Place {
            next: if i + 1 == capacity { NONE } else { i + 1 },
            state: State::Free,
        });
        let free = match capacity {
            0 => Line::EMPTY,
            n => Line {
                first: 0,
                last: n - 1,
            },
        };
        Self {
            all: all.collect(),
            unused: capacity,
            free,
            ready: Line::EMPTY,
        }
    }

    pub(super) fn capacity(&self) -> u32 {
        self.all.len() as u32
    }

    pub(super) fn free(&self) -> u32 {
        self.unused
    }

    /// For which slot the frame in `place` waits.
    pub(super) fn waits_for(&self, place: u32) -> Option<u32> {
        match self.all.get(place as usize)?.state {
            State::Waiting { slot, .. } => Some(slot),
            State::Free | State::Ready(_) => None,
        }
    }

    /// One more at the end of `line`.
    pub(super) fn take(
        &mut self,
        line: &mut Line,
        slot: u32,
        key: &Key,
        device_port: u32,
    ) -> Option<u32> {
        let place = self.pop(|this| &mut this.free)?;
        self.unused -= 1;
        let at = self.all.get_mut(place as usize)?;
        at.state = State::Waiting {
            slot,
            key: *key,
            device_port,
        };
        append(&mut self.all, line, place);
        Some(place)
    }

    /// All of `line` are ready; how many.
    pub(super) fn release(&mut self, line: &mut Line, verdict: Verdict) -> u32 {
        let mut released = 0;
        let mut place = core::mem::replace(line, Line::EMPTY).first;
        while let Some(at) = self.all.get_mut(place as usize) {
            let next = at.next;
            if let State::Waiting {
                key, device_port, ..
            } = at.state
            {
                at.state = State::Ready(Release {
                    place,
                    device_port,
                    key,
                    verdict,
                });
                append(&mut self.all, &mut self.ready, place);
                released += 1;
            }
            place = next;
        }
        released
    }

    /// The first that is ready; its place is free.
    #[inline]
    pub(super) fn next_release(&mut self) -> Option<Release> {
        if self.ready.first == NONE {
            return None;
        }
        let place = self.pop(|this| &mut this.ready)?;
        let at = self.all.get_mut(place as usize)?;
        let State::Ready(release) = core::mem::replace(&mut at.state, State::Free) else {
            return None;
        };
        append(&mut self.all, &mut self.free, place);
        self.unused += 1;
        Some(release)
    }

    fn pop(&mut self, line: impl Fn(&mut Self) -> &mut Line) -> Option<u32> {
        let place = line(self).first;
        let next = self.all.get(place as usize)?.next;
        let line = line(self);
        line.first = next;
        if next == NONE {
            line.last = NONE;
        }
        Some(place)
    }
}

fn append(all: &mut [Place], line: &mut Line, place: u32) {
    if let Some(at) = all.get_mut(place as usize) {
        at.next = NONE;
    }
    match all.get_mut(line.last as usize) {
        Some(last) => last.next = place,
        None => line.first = place,
    }
    line.last = place;
}
