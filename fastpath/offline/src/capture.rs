//! Captures, as tcpdump and Wireshark write them: pcap with times in micro- or
//! nanoseconds, and pcapng, in either byte order.
//!
//! A capture is read as a stream, however long it is: no more than one packet is
//! held, and none of more than [`MOST`] bytes is believed. Whatever contradicts its
//! format ends the reading, with the offset of the offending bytes. Only Ethernet is
//! read; every other link type is refused by name.

mod input;
mod pcap;
mod pcapng;

use std::io::Read;

use input::Input;

/// Bytes of a packet at most; what capturing programs use for "no limit".
pub const MOST: u32 = 262_144;
const ETHERNET: u16 = 1;

/// One packet of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Captured<'a> {
    /// Nanoseconds since 1970; `None` where the capture has no time for it.
    pub time: Option<i128>,
    /// Bytes that the packet had.
    pub length: u32,
    /// Those of them that were captured.
    pub data: &'a [u8],
}

/// Why a capture cannot be read, or not further.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The file cannot be read.
    #[error("cannot read on at byte {offset}: {error}")]
    Read {
        /// Where.
        offset: u64,
        /// Why.
        error: std::io::Error,
    },
    /// The file ends within something.
    #[error(
        "the file ends at byte {end}, inside {what} that begins at byte {offset}; was it cut off?"
    )]
    Ends {
        /// Where it ends.
        end: u64,
        /// Inside what.
        what: &'static str,
        /// Where that begins.
        offset: u64,
    },
    /// It does not begin as a capture does.
    #[error("no capture: it begins with {0:02x?}; give a pcap or pcapng file, decompressed")]
    Magic([u8; 4]),
    /// A field cannot have this value.
    #[error("byte {offset}: {field} is {value}; {remedy}")]
    Field {
        /// Where it is.
        offset: u64,
        /// Which.
        field: &'static str,
        /// Its value.
        value: u64,
        /// What would be right.
        remedy: &'static str,
    },
    /// Something other than Ethernet.
    #[error("byte {offset}: link type {number}{name}: only Ethernet (1) is read; {remedy}", name = link_name(*.number), remedy = link_remedy(*.number))]
    Link {
        /// Where it says so.
        offset: u64,
        /// The link type.
        number: u16,
    },
}

const fn link_name(number: u16) -> &'static str {
    match number {
        0 => " (BSD loopback)",
        12 | 14 | 101 => " (raw IP)",
        105 | 127 => " (802.11)",
        113 => " (Linux cooked)",
        228 => " (raw IPv4)",
        229 => " (raw IPv6)",
        276 => " (Linux cooked, v2)",
        _ => "",
    }
}

const fn link_remedy(number: u16) -> &'static str {
    match number {
        113 | 276 => "capture on one interface instead of \"any\"",
        _ => "capture on a port's own interface, or on the underlay's",
    }
}

/// Reads a capture's packets one after the other.
#[derive(Debug)]
pub struct Reader<R> {
    input: Input<R>,
    format: Format,
    packet: Vec<u8>,
}

#[derive(Debug)]
enum Format {
    Pcap(pcap::Header),
    Pcapng(pcapng::Section),
}

/// What a format's reader says about the packet that is now in the buffer.
#[derive(Clone, Copy, Debug)]
struct Meta {
    time: Option<i128>,
    length: u32,
}

impl<R: Read> Reader<R> {
    /// Begins with the file's header.
    ///
    /// # Errors
    /// If it has none that is known.
    pub fn new(read: R) -> Result<Self, CaptureError> {
        let mut input = Input::new(read);
        let magic = input.array("the file's header", 0)?;
        let format = match magic {
            pcapng::SECTION_HEADER => Format::Pcapng(pcapng::Section::read(&mut input, 0)?),
            _ => match pcap::Flavour::of(magic) {
                Some(flavour) => Format::Pcap(pcap::Header::read(flavour, &mut input)?),
                None => return Err(CaptureError::Magic(magic)),
            },
        };
        Ok(Self {
            input,
            format,
            packet: Vec::new(),
        })
    }

    /// The next packet; `None` at the end.
    ///
    /// # Errors
    /// If the file contradicts its format, or ends in the middle; there is no next
    /// packet then.
    pub fn next_packet(&mut self) -> Result<Option<Captured<'_>>, CaptureError> {
        let Self {
            input,
            format,
            packet,
        } = self;
        let meta = match format {
            Format::Pcap(header) => header.packet(input, packet)?,
            Format::Pcapng(section) => section.packet(input, packet)?,
        };
        Ok(meta.map(|Meta { time, length }| Captured {
            time,
            length,
            data: packet,
        }))
    }
}

/// Which end of a number comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Big,
    Little,
}

impl Order {
    const fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            Self::Big => u16::from_be_bytes(bytes),
            Self::Little => u16::from_le_bytes(bytes),
        }
    }

    const fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Self::Big => u32::from_be_bytes(bytes),
            Self::Little => u32::from_le_bytes(bytes),
        }
    }
}

/// A packet's length, where it can be believed.
fn believable(length: u32, offset: u64) -> Result<usize, CaptureError> {
    if length > MOST {
        return Err(CaptureError::Field {
            offset,
            field: "a packet's captured length",
            value: length.into(),
            remedy: "no packet has more than 262144 bytes; the file is damaged",
        });
    }
    Ok(length as usize)
}
