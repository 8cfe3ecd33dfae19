//! The queues of all device ports, found by number.

use dpdk::{Burst, Mbuf};

/// No port has this place.
const NOWHERE: u16 = u16::MAX;

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
    /// Originated by the engine, and no buffer was left for them.
    pub no_buffer: u64,
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
    places: Box<[u16]>,
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
        let most = most.min(NOWHERE.into()) as usize;
        Self {
            ports: Vec::with_capacity(most),
            places: vec![NOWHERE; most].into_boxed_slice(),
            lost: Lost::default(),
        }
    }

    pub(super) fn add(&mut self, number: u32, queues: Box<dyn Queues>) -> Result<(), AddError> {
        let most = self.places.len().saturating_sub(1) as u32;
        let place = self.places.get_mut(number as usize);
        let Some(place) = place.filter(|_| number > 0) else {
            return Err(AddError::Range { number, most });
        };
        if *place != NOWHERE {
            return Err(AddError::InUse(number));
        }
        // At most as many as there are places, which is at most NOWHERE.
        *place = self.ports.len() as u16;
        self.ports.push(Port {
            device_port: number,
            queues,
            pending: Burst::new(),
        });
        Ok(())
    }

    pub(super) fn remove(&mut self, number: u32) -> Option<Box<dyn Queues>> {
        let place = self.places.get_mut(number as usize)?;
        let index = std::mem::replace(place, NOWHERE);
        if usize::from(index) >= self.ports.len() {
            return None;
        }
        let port = self.ports.swap_remove(usize::from(index));
        if let Some(moved) = self.ports.get(usize::from(index))
            && let Some(place) = self.places.get_mut(moved.device_port as usize)
        {
            *place = index;
        }
        Some(port.queues)
    }

    /// The device ports that are polled.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> {
        self.ports.iter().map(|port| port.device_port)
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

    /// Has `mbuf` leave through a device port with the next [`flush`](Self::flush).
    pub(super) fn queue(&mut self, device_port: u32, mbuf: Mbuf) {
        let place = self.places.get(device_port as usize).copied();
        let port = place.and_then(|place| self.ports.get_mut(usize::from(place)));
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
