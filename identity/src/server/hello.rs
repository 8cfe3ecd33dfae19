//! What a client speaks, by its first byte.

use std::io::{self, ErrorKind};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The first byte of a TLS handshake record (RFC 8446, 5.1).
const HANDSHAKE: u8 = 0x16;
/// So long the client may take to read why it is turned away.
const PARTING: Duration = Duration::from_secs(1);
const WORDS: &[u8] = b"this server speaks TLS only: call it with https and your certificate";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hello {
    Tls,
    /// HTTP/2 without TLS: `PRI * HTTP/2.0`.
    Http2,
    Other,
}

impl Hello {
    /// Looks, and takes nothing.
    pub(super) async fn read(stream: &TcpStream) -> io::Result<Self> {
        let mut first = [0];
        match stream.peek(&mut first).await? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(match first[0] {
                HANDSHAKE => Self::Tls,
                b'P' => Self::Http2,
                _ => Self::Other,
            }),
        }
    }
}

/// Empty SETTINGS, then GOAWAY with the reason: INADEQUATE_SECURITY and words (RFC 9113, 6.8).
pub(super) async fn turn_away(mut stream: TcpStream) -> io::Result<()> {
    let mut frames = vec![0, 0, 0, 4, 0, 0, 0, 0, 0];
    let length = 8 + WORDS.len();
    // The words are short: one byte of length.
    frames.extend([0, 0, u8::try_from(length).unwrap_or(u8::MAX), 7, 0]);
    frames.extend([0; 4]);
    frames.extend([0; 4]);
    frames.extend([0, 0, 0, 0x0c]);
    frames.extend(WORDS);
    stream.write_all(&frames).await?;
    stream.shutdown().await?;
    // A reset, which follows when unread bytes are thrown away, would overtake the words.
    let mut rest = [0; 1024];
    let reading = async { while stream.read(&mut rest).await.is_ok_and(|n| n > 0) {} };
    let _ = tokio::time::timeout(PARTING, reading).await;
    Ok(())
}
