//! A handful of frames that travel together.

use std::fmt;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;

use dpdk_sys as sys;

use crate::mbuf::Mbuf;

/// Up to [`Burst::CAPACITY`] mbufs, owned, in order and without a heap. Reads as a
/// slice of [`Mbuf`]; what is still inside when it is dropped goes back to its pool.
pub struct Burst {
    // The first `len` are mbufs of ours; the rest is not even initialised.
    mbufs: [MaybeUninit<*mut sys::rte_mbuf>; Self::CAPACITY],
    len: usize,
}

// SAFETY: a burst is the mbufs it owns, and those may change threads.
unsafe impl Send for Burst {}
// SAFETY: through a shared reference mbufs can only be read.
unsafe impl Sync for Burst {}

impl Burst {
    /// The most mbufs a burst holds.
    pub const CAPACITY: usize = 64;

    pub const fn new() -> Self {
        Self {
            mbufs: [MaybeUninit::uninit(); Self::CAPACITY],
            len: 0,
        }
    }

    /// True when nothing more fits.
    pub fn is_full(&self) -> bool {
        self.len == Self::CAPACITY
    }

    /// Adds at the end, or hands the mbuf back when the burst is full.
    pub fn push(&mut self, mbuf: Mbuf) -> Result<(), Mbuf> {
        match self.mbufs.get_mut(self.len) {
            Some(place) => {
                place.write(mbuf.into_raw());
                self.len += 1;
                Ok(())
            }
            None => Err(mbuf),
        }
    }

    /// Takes the last one.
    pub fn pop(&mut self) -> Option<Mbuf> {
        self.len = self.len.checked_sub(1)?;
        // SAFETY: the place was below the old `len`, so it holds an mbuf of ours; the
        // new `len` no longer covers it.
        unsafe {
            let raw = self.mbufs[self.len].assume_init();
            Some(Mbuf::from_raw(NonNull::new_unchecked(raw)))
        }
    }

    /// Takes all, first to last. What the iterator did not yield is freed with it.
    pub fn drain(&mut self) -> Drain<'_> {
        let len = std::mem::take(&mut self.len);
        Drain {
            burst: self,
            next: 0,
            len,
        }
    }

    /// Gives every mbuf back to its pool, in one go.
    pub fn clear(&mut self) {
        self.free(0, self.len);
        self.len = 0;
    }

    /// The uninitialised places behind the mbufs.
    pub(crate) fn spare(&mut self) -> &mut [MaybeUninit<*mut sys::rte_mbuf>] {
        &mut self.mbufs[self.len..]
    }

    /// Takes `count` mbufs over that were written to [`Burst::spare`].
    ///
    /// # Safety
    /// The first `count` spare places hold live single-segment mbufs with a reference count
    /// of one and no other owner.
    pub(crate) unsafe fn grow(&mut self, count: usize) {
        debug_assert!(self.len + count <= Self::CAPACITY);
        self.len += count;
    }

    pub(crate) fn as_mut_ptrs(&mut self) -> *mut *mut sys::rte_mbuf {
        self.mbufs.as_mut_ptr().cast()
    }

    /// Forgets the first `count`, whose owner is now somebody else, and moves the
    /// others to the front.
    ///
    /// # Safety
    /// `count` is at most the length, and the first `count` mbufs were given away.
    pub(crate) unsafe fn forget_front(&mut self, count: usize) {
        debug_assert!(count <= self.len);
        self.mbufs.copy_within(count..self.len, 0);
        self.len -= count;
    }

    fn free(&mut self, from: usize, to: usize) {
        if from < to {
            // SAFETY: callers name places that hold mbufs of ours and forget them after.
            unsafe {
                sys::rte_pktmbuf_free_bulk(self.as_mut_ptrs().add(from), (to - from) as u32);
            }
        }
    }
}

impl Deref for Burst {
    type Target = [Mbuf];

    fn deref(&self) -> &[Mbuf] {
        // SAFETY: the first `len` places hold mbufs of ours, and Mbuf is a transparent
        // wrapper of such a pointer.
        unsafe { slice::from_raw_parts(self.mbufs.as_ptr().cast(), self.len) }
    }
}

impl DerefMut for Burst {
    fn deref_mut(&mut self) -> &mut [Mbuf] {
        // SAFETY: as above, and exclusively. A caller may swap mbufs with others, but it
        // cannot take one out without putting one in.
        unsafe { slice::from_raw_parts_mut(self.mbufs.as_mut_ptr().cast(), self.len) }
    }
}

impl Drop for Burst {
    fn drop(&mut self) {
        self.clear();
    }
}

impl Default for Burst {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Burst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// What [`Burst::drain`] returns.
#[derive(Debug)]
pub struct Drain<'a> {
    // Its `len` is 0 while we live: were we forgotten, mbufs would leak, not double.
    burst: &'a mut Burst,
    next: usize,
    len: usize,
}

impl Iterator for Drain<'_> {
    type Item = Mbuf;

    fn next(&mut self) -> Option<Mbuf> {
        if self.next == self.len {
            return None;
        }
        // SAFETY: places `next..len` hold mbufs of ours, and each is read once.
        let mbuf = unsafe {
            let raw = self.burst.mbufs[self.next].assume_init();
            Mbuf::from_raw(NonNull::new_unchecked(raw))
        };
        self.next += 1;
        Some(mbuf)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.len - self.next, Some(self.len - self.next))
    }
}

impl ExactSizeIterator for Drain<'_> {}

impl Drop for Drain<'_> {
    fn drop(&mut self) {
        self.burst.free(self.next, self.len);
    }
}

const _: () = assert!(size_of::<Mbuf>() == size_of::<*mut sys::rte_mbuf>());
