//! One frame and its buffer.

use std::fmt;
use std::mem;
use std::ptr::NonNull;
use std::slice;

use dpdk_sys as sys;

use crate::error::Error;

/// The owner of one mbuf: a single-segment frame inside a buffer with room at both
/// ends. Dropping it gives the mbuf back to its pool.
#[repr(transparent)]
pub struct Mbuf(NonNull<sys::rte_mbuf>);

// SAFETY: an owner is alone with its mbuf (its reference count is one), and pools take
// mbufs back from any thread.
unsafe impl Send for Mbuf {}
// SAFETY: through a shared reference an mbuf can only be read.
unsafe impl Sync for Mbuf {}

impl Mbuf {
    /// Takes ownership.
    ///
    /// # Safety
    /// `raw` is a live mbuf of one segment with a reference count of one and no
    /// other owner.
    pub(crate) unsafe fn from_raw(raw: NonNull<sys::rte_mbuf>) -> Self {
        Self(raw)
    }

    /// Gives ownership up; the caller sees to it that the mbuf is freed.
    pub(crate) fn into_raw(self) -> *mut sys::rte_mbuf {
        let raw = self.0.as_ptr();
        mem::forget(self);
        raw
    }

    /// The frame.
    pub fn data(&self) -> &[u8] {
        let (start, len) = self.bounds();
        // SAFETY: `bounds` lie inside the buffer (see there), which is initialised memory
        // (mapped zeroed by EAL) and ours for the life of `self`.
        unsafe { slice::from_raw_parts(self.buffer().add(start), len) }
    }

    /// The frame, to be changed in place.
    pub fn data_mut(&mut self) -> &mut [u8] {
        let (start, len) = self.bounds();
        // SAFETY: as in `data`, and `&mut self` makes the borrow exclusive.
        unsafe { slice::from_raw_parts_mut(self.buffer().add(start), len) }
    }

    /// Length of the frame.
    pub fn len(&self) -> usize {
        self.bounds().1
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Free bytes in front of the frame.
    pub fn headroom(&self) -> usize {
        self.bounds().0
    }

    /// Free bytes behind the frame.
    pub fn tailroom(&self) -> usize {
        let (start, len) = self.bounds();
        self.capacity() - start - len
    }

    /// The whole buffer, where the frame starts in it, and the frame's length.
    /// What is put before or behind the frame counts after [`Mbuf::set_bounds`].
    pub fn frame_parts(&mut self) -> (&mut [u8], usize, usize) {
        let (start, len) = self.bounds();
        let capacity = self.capacity();
        // SAFETY: the buffer has `capacity` initialised bytes, ours alone while borrowed.
        let buffer = unsafe { slice::from_raw_parts_mut(self.buffer(), capacity) };
        (buffer, start, len)
    }

    /// Declares which bytes of the buffer are the frame.
    pub fn set_bounds(&mut self, start: usize, length: usize) -> Result<(), Error> {
        let room = self.capacity();
        let refused = Error::Bounds {
            start,
            length,
            room,
        };
        match start.checked_add(length) {
            Some(end) if end <= room => {}
            _ => return Err(refused),
        }
        let (Ok(offset), Ok(len)) = (u16::try_from(start), u16::try_from(length)) else {
            return Err(refused);
        };
        // SAFETY: the owner is alone with its mbuf.
        let raw = unsafe { self.0.as_mut() };
        raw.data_off = offset;
        raw.data_len = len;
        raw.pkt_len = u32::from(len);
        Ok(())
    }

    /// Replaces the frame by a copy of `frame`, at the place where it starts now.
    pub fn fill(&mut self, frame: &[u8]) -> Result<(), Error> {
        let (buffer, start, _) = self.frame_parts();
        let room = buffer.len() - start;
        let Some(place) = buffer[start..].get_mut(..frame.len()) else {
            return Err(Error::TooLong {
                length: frame.len(),
                room,
            });
        };
        place.copy_from_slice(frame);
        self.set_bounds(start, frame.len())
    }

    /// Start and length of the frame inside the buffer. Every mbuf keeps
    /// start + length <= capacity: drivers deliver it so, and `set_bounds` checks.
    fn bounds(&self) -> (usize, usize) {
        // SAFETY: the owner keeps the mbuf alive.
        let raw = unsafe { self.0.as_ref() };
        (usize::from(raw.data_off), usize::from(raw.data_len))
    }

    fn capacity(&self) -> usize {
        // SAFETY: the owner keeps the mbuf alive.
        usize::from(unsafe { self.0.as_ref() }.buf_len)
    }

    fn buffer(&self) -> *mut u8 {
        // SAFETY: the owner keeps the mbuf alive.
        unsafe { self.0.as_ref() }.buf_addr.cast()
    }
}

impl Drop for Mbuf {
    fn drop(&mut self) {
        let mut raw = self.0.as_ptr();
        // SAFETY: the mbuf is ours and nobody sees it after this.
        unsafe { sys::rte_pktmbuf_free_bulk(&raw mut raw, 1) };
    }
}

impl fmt::Debug for Mbuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (start, len) = self.bounds();
        f.debug_struct("Mbuf")
            .field("start", &start)
            .field("len", &len)
            .finish_non_exhaustive()
    }
}
