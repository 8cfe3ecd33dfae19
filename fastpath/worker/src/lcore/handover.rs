//! How lcores hand frames to one another.
//!
//! There is one bounded ring per ordered pair of them, with one thread at each end: nothing
//! is locked, and what goes from one lcore to another arrives in its order. A ring that
//! is full refuses; the frame is lost and counted where it was refused.

use dpdk::Mbuf;
use penstock_engine::Ports;
use rtrb::{Consumer, Producer, RingBuffer};

/// A frame on its way to another lcore.
#[derive(Debug)]
pub(super) enum Handed {
    /// Received here, to be decided on there.
    Received { device_port: u32, mbuf: Mbuf },
    /// A fragment, with what the frame itself does not say: to be decided on there.
    Piece {
        device_port: u32,
        mbuf: Mbuf,
        ports: Ports,
    },
    /// Decided on here, to be sent there.
    Decided { device_port: u32, mbuf: Mbuf },
    /// Decided on here, and of interest to every lcore: a copy.
    Overheard { device_port: u32, mbuf: Mbuf },
}

/// Frames that went from one lcore to another, as this one sees them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandedOver {
    /// Received here, decided on elsewhere.
    pub given: u64,
    /// Received elsewhere, decided on here.
    pub taken: u64,
    /// Decided on here, sent elsewhere.
    pub sent: u64,
}

/// One lcore's ends of the rings.
#[derive(Debug)]
pub struct Peers {
    /// By number of the lcore at the other end; `None`: itself.
    to: Vec<Option<Producer<Handed>>>,
    from: Vec<Consumer<Handed>>,
}

impl Peers {
    /// Of an lcore that is alone.
    #[must_use]
    pub fn none() -> Self {
        Self {
            to: Vec::new(),
            from: Vec::new(),
        }
    }

    /// The ends of each of `lcores`, whose rings hold `room` frames each.
    #[must_use]
    pub fn mesh(lcores: u16, room: usize) -> Vec<Self> {
        let lcores = usize::from(lcores);
        let mut all: Vec<_> = (0..lcores).map(|_| Self::none()).collect();
        for sender in 0..lcores {
            for receiver in 0..lcores {
                let mut near = None;
                if sender != receiver {
                    let (producer, consumer) = RingBuffer::new(room);
                    near = Some(producer);
                    if let Some(receiver) = all.get_mut(receiver) {
                        receiver.from.push(consumer);
                    }
                }
                if let Some(sender) = all.get_mut(sender) {
                    sender.to.push(near);
                }
            }
        }
        all
    }

    /// Whether there is nobody to hand anything to.
    pub(super) fn is_empty(&self) -> bool {
        self.from.is_empty()
    }

    /// Numbers of the other lcores.
    pub(super) fn others(&self) -> impl Iterator<Item = u16> + use<> {
        let own = self.to.iter().position(Option::is_none);
        (0..self.to.len())
            .filter(move |index| Some(*index) != own)
            // At most 16.
            .map(|index| index as u16)
    }

    /// How many others there are, which is how many rings come in.
    pub(super) fn incoming(&self) -> usize {
        self.from.len()
    }

    /// Frames in the incoming ring that has most.
    pub(super) fn longest(&self) -> usize {
        self.from.iter().map(Consumer::slots).max().unwrap_or(0)
    }

    /// The next frame out of an incoming ring.
    pub(super) fn take(&mut self, ring: usize) -> Option<Handed> {
        self.from.get_mut(ring)?.pop().ok()
    }

    /// Hands a frame to an lcore; whether it went. One that did not is dropped.
    pub(super) fn hand(&mut self, lcore: u16, frame: Handed) -> bool {
        match self.to.get_mut(usize::from(lcore)) {
            Some(Some(ring)) => ring.push(frame).is_ok(),
            _ => false,
        }
    }
}
