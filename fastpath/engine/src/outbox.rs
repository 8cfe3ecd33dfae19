//! Frames that the engine itself wants sent: ARP and ND on the underlay.
//!
//! Bounded, and filled without allocating; the worker empties it after each
//! burst and each tick. What does not fit is counted and asked again later, by
//! the back-off of whoever wanted it sent.

use alloc::boxed::Box;
use alloc::vec;

/// Bytes that one frame may have.
pub const FRAME_LEN: usize = 256;
/// Frames that fit.
pub const CAPACITY: usize = 64;

#[derive(Clone, Copy)]
struct Slot {
    device_port: u32,
    len: u16,
    bytes: [u8; FRAME_LEN],
}

/// See the module's contract.
pub struct Outbox {
    slots: Box<[Slot]>,
    used: usize,
    overflows: u64,
}

impl Default for Outbox {
    fn default() -> Self {
        Self::new()
    }
}

impl core::fmt::Debug for Outbox {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Outbox")
            .field("used", &self.used)
            .field("overflows", &self.overflows)
            .finish_non_exhaustive()
    }
}

impl Outbox {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        let empty = Slot {
            device_port: 0,
            len: 0,
            bytes: [0; FRAME_LEN],
        };
        Self {
            slots: vec![empty; CAPACITY].into_boxed_slice(),
            used: 0,
            overflows: 0,
        }
    }

    /// A frame of `len` bytes for `device_port`, which `write` fills; nothing
    /// is queued where `write` answers `None`. Returns whether it was queued.
    pub(crate) fn push(
        &mut self,
        device_port: u32,
        write: impl FnOnce(&mut [u8; FRAME_LEN]) -> Option<usize>,
    ) -> bool {
        let Some(slot) = self.slots.get_mut(self.used) else {
            self.overflows += 1;
            return false;
        };
        let Some(len) = write(&mut slot.bytes).filter(|len| *len <= FRAME_LEN) else {
            return false;
        };
        slot.len = len as u16;
        slot.device_port = device_port;
        self.used += 1;
        true
    }

    /// What is queued, oldest first: device port and bytes.
    pub fn frames(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.slots.iter().take(self.used).map(|s| {
            (
                s.device_port,
                s.bytes.get(..usize::from(s.len)).unwrap_or(&[]),
            )
        })
    }

    /// Forgets what is queued: it has been sent.
    pub fn clear(&mut self) {
        self.used = 0;
    }

    /// Whether nothing is queued.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Frames that did not fit, ever.
    #[must_use]
    pub fn overflows(&self) -> u64 {
        self.overflows
    }
}
