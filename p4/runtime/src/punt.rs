//! Frames between switch and worker where they travel as plain frames: on a
//! bench, over an interface, instead of PacketIn and PacketOut.

use thiserror::Error;

use crate::pipeline::{ENVELOPE, PacketIn, PacketOut};

/// Why a frame is not one that the switch asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// Shorter than the header.
    #[error("punted frame of {0} bytes is shorter than its header of {len}", len = PacketIn::LEN)]
    Short(usize),
    /// It is some other traffic.
    #[error("punted frame starts with {0:x?} and not with the switch's envelope")]
    Envelope([u8; 14]),
}

/// Splits a frame into the switch's header and the frame as it came in.
///
/// # Errors
///
/// A frame that does not come from the switch.
pub fn parse(frame: &[u8]) -> Result<(PacketIn, &[u8]), Error> {
    let (header, rest) = frame
        .split_first_chunk::<{ PacketIn::LEN }>()
        .ok_or(Error::Short(frame.len()))?;
    let parsed = PacketIn::from_bytes(header);
    if parsed.envelope != ENVELOPE {
        let mut start = [0; 14];
        start.copy_from_slice(&header[..14]);
        return Err(Error::Envelope(start));
    }
    Ok((parsed, rest))
}

/// What to put in front of a frame so that it leaves by `device_port`.
#[must_use]
pub fn header(device_port: u32) -> [u8; PacketOut::LEN] {
    packet_out(device_port).to_bytes()
}

/// The same as metadata of a PacketOut.
#[must_use]
pub fn packet_out(device_port: u32) -> PacketOut {
    PacketOut {
        envelope: ENVELOPE,
        device_port,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bits;

    #[test]
    fn a_punted_frame_splits() {
        let header = PacketIn {
            envelope: ENVELOPE,
            reason: 13,
            nic: 0,
            device_port: 2,
            ingress: 0x0102_0304,
            vpc: Bits::truncate(0x0a_0b0c),
        };
        let mut frame = header.to_bytes().to_vec();
        assert_eq!(
            frame,
            [
                0x02, 0x50, 0x53, 0x54, 0x4b, 0x01, 0x02, 0x50, 0x53, 0x54, 0x4b, 0x02, 0x88, 0xb5,
                13, 0, 0, 0, 0, 2, 1, 2, 3, 4, 0x0a, 0x0b, 0x0c
            ]
        );
        frame.extend(b"frame");
        assert_eq!(parse(&frame), Ok((header, b"frame".as_slice())));
        assert_eq!(parse(&frame[..26]), Err(Error::Short(26)));
        frame[13] = 0;
        assert!(matches!(parse(&frame), Err(Error::Envelope(_))));
    }

    #[test]
    fn metadata_and_bytes_say_the_same() {
        let header = packet_out(7);
        assert_eq!(PacketOut::decode(&header.encode()), Ok(header));
        assert_eq!(PacketOut::from_bytes(&super::header(7)), header);
    }
}
