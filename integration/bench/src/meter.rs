//! What the made-up ports are to send, and what they have seen: shared by the
//! polling thread and the bench.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::{Duration, Instant};

use crate::frames::{CLIENTS, Class, FLOWS, FLOWS_EACH, Label, Way};

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nothing.
    Silent = 0,
    /// Requests only, of each flow in turn, fast.
    Open = 1,
    /// The same with replies.
    Answer = 2,
    /// Everything, at the rates of the measurement.
    Steady = 3,
}

impl Phase {
    const ALL: [Self; 4] = [Self::Silent, Self::Open, Self::Answer, Self::Steady];
}

/// No client.
const NOBODY: u32 = u32::MAX;

/// See the module. Times are nanoseconds since it was made.
#[derive(Debug)]
pub struct Meter {
    origin: Instant,
    phase: AtomicU32,
    clients: AtomicU32,
    target: AtomicU32,
    sent: [AtomicU64; Class::ALL.len()],
    forwarded: [AtomicU64; Class::ALL.len()],
    /// When a frame of the target left last.
    last: AtomicU64,
    /// When a frame of each flow left last, requests before replies.
    seen: Vec<AtomicU64>,
    /// How late a frame was made at most.
    late: AtomicU64,
}

impl Default for Meter {
    fn default() -> Self {
        Self {
            origin: Instant::now(),
            phase: AtomicU32::new(Phase::Silent as u32),
            clients: AtomicU32::new(CLIENTS),
            target: AtomicU32::new(NOBODY),
            sent: Default::default(),
            forwarded: Default::default(),
            last: AtomicU64::new(0),
            seen: (0..2 * FLOWS).map(|_| AtomicU64::new(0)).collect(),
            late: AtomicU64::new(0),
        }
    }
}

impl Meter {
    /// Now.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.at(Instant::now())
    }

    /// A moment as this meter counts.
    #[must_use]
    pub fn at(&self, moment: Instant) -> u64 {
        // 584 years fit.
        moment.duration_since(self.origin).as_nanos() as u64
    }

    /// What is sent now.
    #[must_use]
    pub fn phase(&self) -> Phase {
        let at = self.phase.load(Relaxed) as usize;
        Phase::ALL.get(at).copied().unwrap_or(Phase::Silent)
    }

    /// Has something else sent.
    pub fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u32, Relaxed);
    }

    /// How many clients talk: the first ones.
    #[must_use]
    pub fn clients(&self) -> u32 {
        self.clients.load(Relaxed)
    }

    /// Has only so many clients talk, one at least.
    pub fn set_clients(&self, clients: u32) {
        self.clients.store(clients.clamp(1, CLIENTS), Relaxed);
    }

    /// The client whose permission comes and goes.
    #[must_use]
    pub fn target(&self) -> Option<u32> {
        Some(self.target.load(Relaxed)).filter(|client| *client != NOBODY)
    }

    /// Looks at another one.
    pub fn set_target(&self, client: Option<u32>) {
        self.target.store(client.unwrap_or(NOBODY), Relaxed);
    }

    /// A frame was made, so late.
    pub fn count_sent(&self, class: Class, late: u64) {
        self.sent[class as usize].fetch_add(1, Relaxed);
        self.late.fetch_max(late, Relaxed);
    }

    /// The worker has sent a frame.
    pub fn count_forwarded(&self, label: Label, now: u64) {
        self.forwarded[label.class as usize].fetch_add(1, Relaxed);
        if label.class == Class::Target {
            self.last.store(now, Relaxed);
        }
        if matches!(label.class, Class::Background | Class::Target)
            && let Some(seen) = self.seen.get(place(label.way, label.client, label.flow))
        {
            seen.store(now, Relaxed);
        }
    }

    /// Frames made.
    #[must_use]
    pub fn sent(&self, class: Class) -> u64 {
        self.sent[class as usize].load(Relaxed)
    }

    /// All frames so far.
    #[must_use]
    pub fn count(&self) -> Counted {
        Counted {
            sent: Class::ALL.map(|class| self.sent(class)),
            forwarded: Class::ALL.map(|class| self.forwarded[class as usize].load(Relaxed)),
        }
    }

    /// When a frame of the target left last.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.last.load(Relaxed)
    }

    /// How late a frame was made at most, since this was asked last.
    #[must_use]
    pub fn take_late(&self) -> Duration {
        Duration::from_nanos(self.late.swap(0, Relaxed))
    }

    /// How many flows have come through since, this way; of one client or of all.
    #[must_use]
    pub fn through(&self, way: Way, client: Option<u32>, since: u64) -> u32 {
        let (first, count) = client.map_or((0, FLOWS), |c| (c, FLOWS_EACH));
        let first = place(way, first, 0);
        let flows = self.seen.iter().skip(first).take(count as usize);
        // There are 200 000 at most.
        flows.filter(|seen| seen.load(Relaxed) > since).count() as u32
    }
}

/// Frames by class.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    sent: [u64; Class::ALL.len()],
    forwarded: [u64; Class::ALL.len()],
}

impl Counted {
    /// What has come since an earlier count.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            sent: Class::ALL.map(|class| self.sent(class) - before.sent(class)),
            forwarded: Class::ALL.map(|class| self.forwarded(class) - before.forwarded(class)),
        }
    }

    /// Frames made.
    #[must_use]
    pub fn sent(&self, class: Class) -> u64 {
        self.sent[class as usize]
    }

    /// Frames that came through.
    #[must_use]
    pub fn forwarded(&self, class: Class) -> u64 {
        self.forwarded[class as usize]
    }

    /// Frames that did not.
    #[must_use]
    pub fn lost(&self, class: Class) -> u64 {
        self.sent(class).saturating_sub(self.forwarded(class))
    }
}

fn place(way: Way, client: u32, flow: u16) -> usize {
    (way as u32 * FLOWS + client * FLOWS_EACH + u32::from(flow)) as usize
}
