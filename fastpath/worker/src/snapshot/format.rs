//! A message on disk: magic, format version, length and CRC, then its bytes.

use prost::Message;

const MAGIC: &[u8; 8] = b"PENSTOCK";
/// Of the layout and of the messages in it.
const VERSION: u32 = 1;
/// Bytes before the message.
pub(super) const HEADER: usize = 8 + 4 + 8 + 4;

/// All bytes of a file with this message.
#[must_use]
pub fn encode(message: &impl Message) -> Vec<u8> {
    let body = message.encode_to_vec();
    let mut bytes = Vec::with_capacity(HEADER + body.len());
    bytes.extend_from_slice(&header(body.len() as u64, crc32fast::hash(&body)));
    bytes.extend_from_slice(&body);
    bytes
}

/// What is before a message of so many bytes.
pub(super) fn header(len: u64, crc: u32) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    let (magic, rest) = bytes.split_at_mut(8);
    magic.copy_from_slice(MAGIC);
    let (version, rest) = rest.split_at_mut(4);
    version.copy_from_slice(&VERSION.to_le_bytes());
    let (length, check) = rest.split_at_mut(8);
    length.copy_from_slice(&len.to_le_bytes());
    check.copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// What a header says of its message.
pub(super) struct Header {
    pub(super) len: u64,
    pub(super) crc: u32,
}

impl Header {
    /// Reads the first bytes.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, String> {
        let (magic, rest) = bytes.split_first_chunk::<8>().ok_or("cut short")?;
        let (version, rest) = rest.split_first_chunk::<4>().ok_or("cut short")?;
        let (len, rest) = rest.split_first_chunk::<8>().ok_or("cut short")?;
        let crc = rest.first_chunk::<4>().ok_or("cut short")?;
        if magic != MAGIC {
            return Err("not a snapshot".to_owned());
        }
        let version = u32::from_le_bytes(*version);
        if version != VERSION {
            return Err(format!(
                "format version {version}, this worker reads {VERSION}"
            ));
        }
        Ok(Self {
            len: u64::from_le_bytes(*len),
            crc: u32::from_le_bytes(*crc),
        })
    }
}

/// The message after it.
pub(super) fn decode_body<M: Message + Default>(header: &Header, body: &[u8]) -> Result<M, String> {
    if header.len != body.len() as u64 {
        return Err("its length is wrong".to_owned());
    }
    if header.crc != crc32fast::hash(body) {
        return Err("its checksum is wrong".to_owned());
    }
    M::decode(body).map_err(|error| error.to_string())
}

/// A file's message, from all its bytes.
///
/// # Errors
/// What is wrong with them.
pub fn decode<M: Message + Default>(bytes: &[u8]) -> Result<M, String> {
    let header = Header::decode(bytes)?;
    decode_body(&header, bytes.get(HEADER..).unwrap_or_default())
}
