//! A connection whose first bytes have been read already.

use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// See the module.
#[derive(Debug)]
pub struct Stream {
    inner: TlsStream<TcpStream>,
    first: Vec<u8>,
}

impl Stream {
    pub(super) const fn new(inner: TlsStream<TcpStream>) -> Self {
        Self {
            inner,
            first: Vec::new(),
        }
    }

    /// Waits until the server says anything, and keeps it.
    pub(super) async fn listen(&mut self) -> io::Result<()> {
        let mut word = [0; 256];
        match self.inner.read(&mut word).await? {
            0 => Err(io::Error::new(
                ErrorKind::UnexpectedEof,
                "it closed the connection",
            )),
            n => {
                self.first.extend_from_slice(&word[..n]);
                Ok(())
            }
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.first.is_empty() {
            return Pin::new(&mut self.inner).poll_read(context, buffer);
        }
        let n = self.first.len().min(buffer.remaining());
        buffer.put_slice(&self.first[..n]);
        self.first.drain(..n);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
