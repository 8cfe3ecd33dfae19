//! A stream whose place is known.

use std::io::{BufReader, Read};

use super::CaptureError;

#[derive(Debug)]
pub(super) struct Input<R> {
    inner: BufReader<R>,
    offset: u64,
}

impl<R: Read> Input<R> {
    pub(super) fn new(read: R) -> Self {
        Self {
            inner: BufReader::with_capacity(1 << 16, read),
            offset: 0,
        }
    }

    /// How many bytes have been read.
    pub(super) const fn offset(&self) -> u64 {
        self.offset
    }

    /// Fills `bytes`, or as much of it as there is.
    fn fill(&mut self, bytes: &mut [u8]) -> Result<usize, CaptureError> {
        let mut have = 0;
        while let Some(rest) = bytes.get_mut(have..).filter(|rest| !rest.is_empty()) {
            match self.inner.read(rest) {
                Ok(0) => break,
                Ok(n) => {
                    have += n;
                    self.offset += n as u64;
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let offset = self.offset;
                    return Err(CaptureError::Read { offset, error });
                }
            }
        }
        Ok(have)
    }

    /// All of `bytes`, a part of `what`, which begins at `begin`.
    pub(super) fn exact(
        &mut self,
        bytes: &mut [u8],
        what: &'static str,
        begin: u64,
    ) -> Result<(), CaptureError> {
        if self.fill(bytes)? == bytes.len() {
            return Ok(());
        }
        Err(CaptureError::Ends {
            end: self.offset,
            what,
            offset: begin,
        })
    }

    pub(super) fn array<const N: usize>(
        &mut self,
        what: &'static str,
        begin: u64,
    ) -> Result<[u8; N], CaptureError> {
        let mut bytes = [0; N];
        self.exact(&mut bytes, what, begin)?;
        Ok(bytes)
    }

    /// The same, or nothing where the file has ended before.
    pub(super) fn array_or_end<const N: usize>(
        &mut self,
        what: &'static str,
    ) -> Result<Option<[u8; N]>, CaptureError> {
        let (begin, mut bytes) = (self.offset, [0; N]);
        match self.fill(&mut bytes)? {
            0 => Ok(None),
            n if n == N => Ok(Some(bytes)),
            _ => Err(CaptureError::Ends {
                end: self.offset,
                what,
                offset: begin,
            }),
        }
    }

    /// Reads `count` bytes and forgets them.
    pub(super) fn skip(
        &mut self,
        mut count: u64,
        what: &'static str,
        begin: u64,
    ) -> Result<(), CaptureError> {
        let mut waste = [0; 4096];
        while count > 0 {
            let n = count.min(waste.len() as u64);
            if let Some(part) = waste.get_mut(..n as usize) {
                self.exact(part, what, begin)?;
            }
            count -= n;
        }
        Ok(())
    }
}
