//! The classic format: a header, then packets.

use std::io::Read;

use super::{CaptureError, ETHERNET, Input, Meta, Order, believable};

const WHAT: &str = "a packet";
const HEADER: &str = "the file's header";

/// What the first four bytes say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flavour {
    order: Order,
    /// Nanoseconds of one unit of the times' fractions.
    unit: u32,
}

impl Flavour {
    pub(super) fn of(magic: [u8; 4]) -> Option<Self> {
        let flavour = |order, unit| Some(Self { order, unit });
        match magic {
            [0xa1, 0xb2, 0xc3, 0xd4] => flavour(Order::Big, 1000),
            [0xd4, 0xc3, 0xb2, 0xa1] => flavour(Order::Little, 1000),
            [0xa1, 0xb2, 0x3c, 0x4d] => flavour(Order::Big, 1),
            [0x4d, 0x3c, 0xb2, 0xa1] => flavour(Order::Little, 1),
            _ => None,
        }
    }
}

#[derive(Debug)]
pub(super) struct Header {
    flavour: Flavour,
}

impl Header {
    /// What follows the magic.
    pub(super) fn read<R: Read>(
        flavour: Flavour,
        input: &mut Input<R>,
    ) -> Result<Self, CaptureError> {
        let [m0, m1, _, _] = input.array(HEADER, 0)?;
        let major = flavour.order.u16([m0, m1]);
        if major != 2 {
            return Err(CaptureError::Field {
                offset: 4,
                field: "the major version",
                value: major.into(),
                remedy: "only 2 is known",
            });
        }
        // Time zone, accuracy, snap length: nobody uses them as they were meant.
        input.skip(12, HEADER, 0)?;
        // The upper half may tell of a frame check sequence, which is padding to us.
        let link = flavour.order.u32(input.array(HEADER, 0)?) as u16;
        if link != ETHERNET {
            return Err(CaptureError::Link {
                offset: 20,
                number: link,
            });
        }
        Ok(Self { flavour })
    }

    pub(super) fn packet<R: Read>(
        &self,
        input: &mut Input<R>,
        packet: &mut Vec<u8>,
    ) -> Result<Option<Meta>, CaptureError> {
        let begin = input.offset();
        let Flavour { order, unit } = self.flavour;
        let Some(seconds) = input.array_or_end(WHAT)? else {
            return Ok(None);
        };
        let fraction = input.array(WHAT, begin)?;
        let captured = believable(order.u32(input.array(WHAT, begin)?), begin + 8)?;
        let length = order.u32(input.array(WHAT, begin)?);
        packet.resize(captured, 0);
        input.exact(packet, WHAT, begin)?;
        let fraction = i128::from(order.u32(fraction)) * i128::from(unit);
        Ok(Some(Meta {
            time: Some(i128::from(order.u32(seconds)) * 1_000_000_000 + fraction),
            length: length.max(captured as u32),
        }))
    }
}
