//! The way out: queues of device ports, found by number, here or at another lcore.

use dpdk::{Burst, Mbuf};
use penstock_flow::DropReason;

use super::handover::{Handed, HandedOver, Peers};

/// Where the queues of a device port are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Nowhere.
    None,
    /// Here, at this index.
    Here(u16),
    /// At another lcore.
    At(u16),
}

/// The queues of one device port.
pub trait Queues: Send + std::fmt::Debug {
    /// Receives up to `most` frames behind those in `burst`; returns how many.
    fn receive(&mut self, burst: &mut Burst, most: usize) -> usize;
    /// Sends from the front of `burst`, leaving there what the device does not
    /// take; returns how many it took.
    fn send(&mut self, burst: &mut Burst) -> usize;
}

/// Frames that ended behind the engine's decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// The egress queue did not take them, or the port is gone.
    pub tx_full: u64,
    /// Decided on, and the ring to the lcore that has the port's queue was full.
    pub handover_full: u64,
    /// Originated by the engine or copied for another lcore, and no buffer was left for
    /// them.
    pub no_buffer: u64,
    /// Copied for another lcore, and the ring to it was full.
    pub copies: u64,
}

impl Lost {
    /// Those that end for this reason; frames of the worker's own have none.
    #[must_use]
    pub fn of(&self, reason: DropReason) -> u64 {
        match reason {
            DropReason::TxFull => self.tx_full,
            DropReason::HandoverFull => self.handover_full,
            _ => 0,
        }
    }
}

/// Why a port was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddError {
    /// The engine counts per port, and has no place for it.
    #[error("device port {number} is out of range; 1 to {most} are supported")]
    Range {
        /// What was asked for.
        number: u32,
        /// The highest number.
        most: u32,
    },
    /// The number is in use.
    #[error("device port {0} is in use; remove it first")]
    InUse(u32),
}

#[derive(Debug)]
pub(super) struct Wire {
    ports: Vec<Port>,
    /// Device port to index in `ports`.
    places: Box<[Place]>,
    pub(super) peers: Peers,
    pub(super) handed: HandedOver,
    pub(super) lost: Lost,
}

#[derive(Debug)]
struct Port {
    device_port: u32,
    queues: Box<dyn Queues>,
    pending: Burst,
}

impl Wire {
    /// Takes device ports numbered below `most`.
    pub(super) fn new(most: u32) -> Self {
        let most = most.min(u16::MAX.into()) as usize;
        Self {
            ports: Vec::with_capacity(most),
            places: vec![Place::None; most].into_boxed_slice(),
            peers: Peers::none(),
            handed: HandedOver::default(),
            lost: Lost::default(),
        }
    }

    pub(super) fn add(&mut self, number: u32, queues: Box<dyn Queues>) -> Result<(), AddError> {
        let most = self.places.len().saturating_sub(1) as u32;
        let place = self.places.get_mut(number as usize);
        let Some(place) = place.filter(|_| number > 0) else {
            return Err(AddError::Range { number, most });
        };
        if *place != Place::None {
            return Err(AddError::InUse(number));
        }
        // At most as many as there are places, which are numbered by 16 bits.
        *place = Place::Here(self.ports.len() as u16);
        self.ports.push(Port {
            device_port: number,
            queues,
            pending: Burst::new(),
        });
        Ok(())
    }

    /// Another lcore has the queues of a device port; one that is polled here stays.
    pub(super) fn set_home(&mut self, number: u32, lcore: u16) {
        if let Some(place) = self.places.get_mut(number as usize)
            && !matches!(place, Place::Here(_))
        {
            *place = Place::At(lcore);
        }
    }

    /// Forgets a device port, wherever its queues are.
    pub(super) fn remove(&mut self, number: u32) -> Option<Box<dyn Queues>> {
        let place = self.places.get_mut(number as usize)?;
        let Place::Here(index) = std::mem::replace(place, Place::None) else {
            return None;
        };
        if usize::from(index) >= self.ports.len() {
            return None;
        }
        let port = self.ports.swap_remove(usize::from(index));
        if let Some(moved) = self.ports.get(usize::from(index))
            && let Some(place) = self.places.get_mut(moved.device_port as usize)
        {
            *place = Place::Here(index);
        }
        Some(port.queues)
    }

    /// The device ports that are polled, by whichever lcore.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> {
        let places = (0..).zip(self.places.iter());
        places.filter_map(|(number, place)| (*place != Place::None).then_some(number))
    }

    pub(super) fn len(&self) -> usize {
        self.ports.len()
    }

    /// Receives from the port at `index`: its number, and how many frames came.
    pub(super) fn receive(&mut self, index: usize, burst: &mut Burst, most: usize) -> (u32, usize) {
        match self.ports.get_mut(index) {
            Some(port) => (port.device_port, port.queues.receive(burst, most)),
            None => (0, 0),
        }
    }

    /// Has `mbuf` leave through a device port: with the next [`flush`](Self::flush), or
    /// by the lcore that has its queue.
    pub(super) fn queue(&mut self, device_port: u32, mbuf: Mbuf) {
        match self.places.get(device_port as usize) {
            Some(Place::At(lcore)) => {
                let decided = Handed::Decided { device_port, mbuf };
                if self.peers.hand(*lcore, decided) {
                    self.handed.sent += 1;
                } else {
                    self.lost.handover_full += 1;
                }
            }
            _ => self.queue_here(device_port, mbuf),
        }
    }

    /// The same for a frame that another lcore has handed over for this: the queue is
    /// here, or was, and the frame goes no further.
    pub(super) fn queue_here(&mut self, device_port: u32, mbuf: Mbuf) {
        let port = match self.places.get(device_port as usize) {
            Some(Place::Here(index)) => self.ports.get_mut(usize::from(*index)),
            _ => None,
        };
        let Some(port) = port else {
            self.lost.tx_full += 1;
            return;
        };
        if port.pending.is_full() {
            self.lost.tx_full += port.flush();
        }
        if port.pending.push(mbuf).is_err() {
            self.lost.tx_full += 1;
        }
    }

    pub(super) fn flush(&mut self) {
        for port in &mut self.ports {
            if !port.pending.is_empty() {
                self.lost.tx_full += port.flush();
            }
        }
    }
}

impl Port {
    /// Offers what is pending once; what is not taken is dropped. Returns how many.
    fn flush(&mut self) -> u64 {
        self.queues.send(&mut self.pending);
        let left = self.pending.len() as u64;
        self.pending.clear();
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Knows its number and carries nothing.
    #[derive(Debug)]
    struct Silent(u32);

    impl Queues for Silent {
        fn receive(&mut self, _: &mut Burst, most: usize) -> usize {
            // Tells the test which port was asked.
            self.0 as usize * 100 + most
        }

        fn send(&mut self, _: &mut Burst) -> usize {
            0
        }
    }

    fn asked(wire: &mut Wire) -> Vec<(u32, usize)> {
        let mut burst = Burst::new();
        let ports = 0..wire.len();
        ports.map(|i| wire.receive(i, &mut burst, 7)).collect()
    }

    #[test]
    fn numbers_find_their_queues_whatever_comes_and_goes() {
        let mut wire = Wire::new(10);
        for number in [3, 9, 1] {
            assert_eq!(wire.add(number, Box::new(Silent(number))), Ok(()));
        }
        assert_eq!(wire.add(9, Box::new(Silent(9))), Err(AddError::InUse(9)));
        for number in [0, 10] {
            let range = AddError::Range { number, most: 9 };
            assert_eq!(wire.add(number, Box::new(Silent(0))), Err(range));
        }
        assert!(wire.remove(3).is_some());
        assert!(wire.remove(3).is_none());
        assert!(wire.remove(10).is_none());
        assert_eq!(asked(&mut wire), [(1, 107), (9, 907)]);
        assert!(wire.remove(1).is_some());
        assert_eq!(wire.add(3, Box::new(Silent(3))), Ok(()));
        assert_eq!(asked(&mut wire), [(9, 907), (3, 307)]);
    }
}
