//! The block format: sections, their interfaces, and packets of these.
//!
//! Read are section headers, interface descriptions with `if_tsresol` and
//! `if_tsoffset`, and enhanced, simple and old packet blocks. All others are skipped.

mod interface;

use std::io::Read;

use super::{CaptureError, ETHERNET, Input, Meta, Order, believable};

use interface::Interface;

pub(super) const SECTION_HEADER: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
const INTERFACE: u32 = 1;
const OLD_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

const WHAT: &str = "a block";
/// Type and length, and the length once more.
const AROUND: u32 = 12;
/// Interfaces of a section at most.
const INTERFACES: usize = 65_536;
/// Bytes of an interface's description at most.
const DESCRIPTION: u32 = 1 << 20;

const TSRESOL: u16 = 9;
const TSOFFSET: u16 = 14;

#[derive(Debug)]
pub(super) struct Section {
    order: Order,
    interfaces: Vec<Interface>,
}

/// The rest of a block.
struct Body {
    begin: u64,
    left: u32,
    total: u32,
}

impl Body {
    fn take<R: Read, const N: usize>(
        &mut self,
        input: &mut Input<R>,
    ) -> Result<[u8; N], CaptureError> {
        self.spend(N as u32)?;
        input.array(WHAT, self.begin)
    }

    fn spend(&mut self, bytes: u32) -> Result<(), CaptureError> {
        match self.left.checked_sub(bytes) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(CaptureError::Field {
                offset: self.begin + 4,
                field: "a block's length",
                value: self.total.into(),
                remedy: "it does not hold what its type says; the file is damaged",
            }),
        }
    }

    /// The packet, in its own bytes.
    fn packet<R: Read>(
        &mut self,
        input: &mut Input<R>,
        captured: u32,
        packet: &mut Vec<u8>,
    ) -> Result<(), CaptureError> {
        let len = believable(captured, input.offset())?;
        self.spend(captured)?;
        packet.resize(len, 0);
        input.exact(packet, WHAT, self.begin)
    }

    /// To the block's end, where its length stands again.
    fn end<R: Read>(self, input: &mut Input<R>, order: Order) -> Result<(), CaptureError> {
        input.skip(self.left.into(), WHAT, self.begin)?;
        let offset = input.offset();
        let again = order.u32(input.array(WHAT, self.begin)?);
        if again == self.total {
            return Ok(());
        }
        Err(CaptureError::Field {
            offset,
            field: "a block's length at its end",
            value: again.into(),
            remedy: "it is not what it was at the beginning; the file is damaged",
        })
    }
}

impl Section {
    /// What follows the type of a section's header.
    pub(super) fn read<R: Read>(input: &mut Input<R>, begin: u64) -> Result<Self, CaptureError> {
        let total = input.array(WHAT, begin)?;
        let order = match input.array(WHAT, begin)? {
            [0x1a, 0x2b, 0x3c, 0x4d] => Order::Big,
            [0x4d, 0x3c, 0x2b, 0x1a] => Order::Little,
            other => {
                return Err(CaptureError::Field {
                    offset: begin + 8,
                    field: "the byte-order magic",
                    value: u32::from_be_bytes(other).into(),
                    remedy: "it is 1a2b3c4d in either order",
                });
            }
        };
        let mut body = body(begin, order.u32(total))?;
        // The magic.
        body.spend(4)?;
        let major = order.u16(body.take(input)?);
        if major != 1 {
            return Err(CaptureError::Field {
                offset: begin + 12,
                field: "the major version",
                value: major.into(),
                remedy: "only 1 is known",
            });
        }
        body.end(input, order)?;
        Ok(Self {
            order,
            interfaces: Vec::new(),
        })
    }

    pub(super) fn packet<R: Read>(
        &mut self,
        input: &mut Input<R>,
        packet: &mut Vec<u8>,
    ) -> Result<Option<Meta>, CaptureError> {
        loop {
            let begin = input.offset();
            let Some(kind) = input.array_or_end(WHAT)? else {
                return Ok(None);
            };
            if kind == SECTION_HEADER {
                *self = Self::read(input, begin)?;
                continue;
            }
            let order = self.order;
            let mut body = body(begin, order.u32(input.array(WHAT, begin)?))?;
            let meta = match order.u32(kind) {
                INTERFACE => {
                    self.interface(input, &mut body)?;
                    None
                }
                ENHANCED_PACKET => Some(self.enhanced(input, &mut body, packet, false)?),
                OLD_PACKET => Some(self.enhanced(input, &mut body, packet, true)?),
                SIMPLE_PACKET => Some(self.simple(input, &mut body, packet)?),
                _ => None,
            };
            body.end(input, order)?;
            if meta.is_some() {
                return Ok(meta);
            }
        }
    }

    fn interface<R: Read>(
        &mut self,
        input: &mut Input<R>,
        body: &mut Body,
    ) -> Result<(), CaptureError> {
        let refuse = |field, value, remedy| CaptureError::Field {
            offset: body.begin,
            field,
            value,
            remedy,
        };
        if self.interfaces.len() >= INTERFACES {
            let count = self.interfaces.len() as u64 + 1;
            return Err(refuse("the number of interfaces", count, "use fewer"));
        }
        if body.total > DESCRIPTION {
            let remedy = "no interface is so long to describe; the file is damaged";
            return Err(refuse("a block's length", body.total.into(), remedy));
        }
        let order = self.order;
        let offset = body.begin + 8;
        let link = order.u16(body.take(input)?);
        let _reserved: [u8; 2] = body.take(input)?;
        let mut interface = Interface {
            link,
            offset,
            snap: order.u32(body.take(input)?),
            resolution: 6,
            ahead: 0,
        };
        while body.left >= 4 {
            let code = order.u16(body.take(input)?);
            let len = order.u16(body.take(input)?);
            match (code, len) {
                (0, _) => break,
                (TSRESOL, 1) => {
                    let [value, _, _, _] = body.take(input)?;
                    interface.resolution = value;
                }
                (TSOFFSET, 8) => {
                    let bytes = body.take(input)?;
                    interface.ahead = match order {
                        Order::Big => i64::from_be_bytes(bytes),
                        Order::Little => i64::from_le_bytes(bytes),
                    };
                }
                _ => {
                    let padded = u32::from(len).next_multiple_of(4);
                    body.spend(padded)?;
                    input.skip(padded.into(), WHAT, body.begin)?;
                }
            }
        }
        self.interfaces.push(interface);
        Ok(())
    }

    /// The interface of this number, which has Ethernet frames.
    fn ethernet(&self, number: u32, begin: u64) -> Result<&Interface, CaptureError> {
        let Some(interface) = self.interfaces.get(number as usize) else {
            return Err(CaptureError::Field {
                offset: begin,
                field: "a packet's interface",
                value: number.into(),
                remedy: "none of that number has been described before",
            });
        };
        if interface.link != ETHERNET {
            return Err(CaptureError::Link {
                offset: interface.offset,
                number: interface.link,
            });
        }
        Ok(interface)
    }

    fn enhanced<R: Read>(
        &self,
        input: &mut Input<R>,
        body: &mut Body,
        packet: &mut Vec<u8>,
        old: bool,
    ) -> Result<Meta, CaptureError> {
        let order = self.order;
        let id: [u8; 4] = body.take(input)?;
        let number = match id {
            // The old one counts lost packets in the other half.
            [a, b, _, _] if old => order.u16([a, b]).into(),
            id => order.u32(id),
        };
        let interface = self.ethernet(number, body.begin)?;
        let high = order.u32(body.take(input)?);
        let low = order.u32(body.take(input)?);
        let captured = order.u32(body.take(input)?);
        let length = order.u32(body.take(input)?);
        body.packet(input, captured, packet)?;
        Ok(Meta {
            time: Some(interface.time(high, low)),
            length: length.max(captured),
        })
    }

    fn simple<R: Read>(
        &self,
        input: &mut Input<R>,
        body: &mut Body,
        packet: &mut Vec<u8>,
    ) -> Result<Meta, CaptureError> {
        let interface = self.ethernet(0, body.begin)?;
        let length = self.order.u32(body.take(input)?);
        let snap = match interface.snap {
            0 => u32::MAX,
            snap => snap,
        };
        body.packet(input, length.min(snap), packet)?;
        Ok(Meta { time: None, length })
    }
}

fn body(begin: u64, total: u32) -> Result<Body, CaptureError> {
    match total.checked_sub(AROUND) {
        Some(left) if total.is_multiple_of(4) => Ok(Body { begin, left, total }),
        _ => Err(CaptureError::Field {
            offset: begin + 4,
            field: "a block's length",
            value: total.into(),
            remedy: "it is 12 or more, in fours; the file is damaged",
        }),
    }
}
