//! A packet on loan, and what becomes of it.

use penstock_flow::DropReason;

use crate::fragments::Ports;

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Send the frame as it is now.
    Send {
        /// Where to.
        device_port: u32,
    },
    /// It ends here, for this reason; counted.
    Drop(DropReason),
    /// It was meant for the engine and is dealt with.
    Consumed,
    /// It waits: keep it as it is now, bounds and all, until
    /// [`next_release`](crate::Engine::next_release) names its place.
    Hold {
        /// Where; free until now, and below [`places`](crate::Engine::places).
        place: u32,
    },
    /// Another lcore has its flow: hand it over, as it is now, to that one's
    /// [`process_piece`](crate::Engine::process_piece), behind all that was handed
    /// over to it before. It counts there.
    HandOver {
        /// The index of that lcore's shard.
        lcore: u16,
        /// What the frame itself does not say.
        ports: Ports,
    },
}

/// Why a frame could not be moved within its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The data would begin before its buffer.
    #[error("needs {needed} bytes of headroom, has {has}; give buffers more headroom")]
    NoHeadroom {
        /// Bytes to put before the data.
        needed: usize,
        /// Bytes that are there.
        has: usize,
    },
    /// The data would end behind its buffer, or before it begins.
    #[error("{len} bytes from offset {start} do not fit a buffer of {size}; use a larger buffer")]
    OutOfBuffer {
        /// Where the data would begin.
        start: usize,
        /// How long it would be.
        len: usize,
        /// How large the buffer is.
        size: usize,
    },
}

/// One Ethernet frame inside a buffer with room before and behind it.
#[derive(Debug)]
pub struct Frame<'a> {
    buf: &'a mut [u8],
    // Invariant: start + len <= buf.len().
    start: usize,
    len: usize,
}

impl<'a> Frame<'a> {
    /// The `len` bytes of `buf` from `start` on.
    ///
    /// # Errors
    /// Where they reach beyond `buf`.
    pub fn new(buf: &'a mut [u8], start: usize, len: usize) -> Result<Self, FrameError> {
        let size = buf.len();
        match start.checked_add(len) {
            Some(end) if end <= size => Ok(Self { buf, start, len }),
            _ => Err(FrameError::OutOfBuffer { start, len, size }),
        }
    }

    /// The frame's bytes.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        self.buf
            .get(self.start..self.start + self.len)
            .unwrap_or(&[])
    }

    /// The frame's bytes, to change.
    pub fn data_mut(&mut self) -> &mut [u8] {
        self.buf
            .get_mut(self.start..self.start + self.len)
            .unwrap_or(&mut [])
    }

    /// Where the frame begins in its buffer.
    #[must_use]
    pub fn start(&self) -> usize {
        self.start
    }

    /// Bytes of the frame.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Begins the frame `n` bytes earlier; their content is undefined.
    ///
    /// # Errors
    /// Where the buffer begins later than that.
    pub fn prepend(&mut self, n: usize) -> Result<(), FrameError> {
        match self.start.checked_sub(n) {
            Some(start) => {
                self.start = start;
                self.len += n;
                Ok(())
            }
            None => Err(FrameError::NoHeadroom {
                needed: n,
                has: self.start,
            }),
        }
    }

    /// Takes `n` bytes off the front.
    ///
    /// # Errors
    /// Where the frame has fewer.
    pub fn strip(&mut self, n: usize) -> Result<(), FrameError> {
        match self.len.checked_sub(n) {
            Some(len) => {
                self.start += n;
                self.len = len;
                Ok(())
            }
            None => Err(FrameError::OutOfBuffer {
                start: self.start.saturating_add(n),
                len: 0,
                size: self.start + self.len,
            }),
        }
    }

    /// Ends the frame `len` bytes after its beginning.
    ///
    /// # Errors
    /// Where the buffer ends before that.
    pub fn set_len(&mut self, len: usize) -> Result<(), FrameError> {
        let size = self.buf.len();
        match self.start.checked_add(len) {
            Some(end) if end <= size => {
                self.len = len;
                Ok(())
            }
            _ => Err(FrameError::OutOfBuffer {
                start: self.start,
                len,
                size,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_within_its_buffer_and_never_beyond() {
        let mut buf = [0_u8; 100];
        assert!(Frame::new(&mut buf, 60, 41).is_err());
        assert!(Frame::new(&mut buf, usize::MAX, 2).is_err());
        let mut f = Frame::new(&mut buf, 60, 30).expect("fits");
        assert!(f.prepend(61).is_err());
        f.prepend(60).expect("room");
        assert_eq!((f.start(), f.len(), f.data().len()), (0, 90, 90));
        assert!(f.strip(91).is_err());
        f.strip(50).expect("that many");
        assert!(f.set_len(51).is_err());
        f.set_len(50).expect("room");
        assert_eq!((f.start(), f.data_mut().len()), (50, 50));
    }
}
