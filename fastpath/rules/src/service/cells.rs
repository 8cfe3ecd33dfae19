//! Coarse answers to whether some rules match a header: sometimes yes where it is
//! no, never the other way round. They are asked before anything is searched.

use alloc::boxed::Box;
use alloc::vec;

use super::{Class, Header, dports};
use crate::model::Rule;

/// Sixteen ports of one protocol share one of 64 cells, with some of others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cells(pub(crate) u64);

impl Cells {
    const COUNT: u32 = 64;

    const fn cell(class: Class, port: u16) -> u32 {
        // Any odd number parts the protocols.
        (port as u32 >> 4) + class as u32 * 37
    }

    /// Where checked rules match.
    pub(crate) fn of<'a>(rules: impl Iterator<Item = &'a Rule>) -> Self {
        let mut cells = 0;
        for rule in rules {
            let Some(protocol) = rule.protocol else {
                return Self(u64::MAX);
            };
            let class = protocol.class();
            for (first, last) in dports(rule) {
                let (from, to) = (Self::cell(class, first), Self::cell(class, last));
                if to - from >= Self::COUNT - 1 {
                    return Self(u64::MAX);
                }
                for cell in from..=to {
                    cells |= 1 << (cell % Self::COUNT);
                }
            }
        }
        Self(cells)
    }

    /// The cells, each so much further.
    pub(crate) const fn turned(self, by: u32) -> u64 {
        self.0.rotate_left(by % Self::COUNT)
    }

    /// Whether a cell is there, after cells were turned.
    #[inline]
    pub(crate) const fn has(self, cell: u32, turned: u32) -> bool {
        self.0 >> (cell.wrapping_add(turned) % Self::COUNT) & 1 != 0
    }
}

impl Header {
    /// The cell it is in.
    #[inline]
    pub(crate) const fn cell(self) -> u32 {
        Cells::cell(self.class, self.dport)
    }
}

/// The same port by port, for rules that are many and asked each time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reach(Box<[u64]>);

impl Reach {
    /// As many bits as sixteen times the ports that rules speak of, within this.
    const BITS: u32 = 4096;

    const fn bit(class: Class, port: u16) -> u32 {
        port as u32 + class as u32 * 1187
    }

    /// Where checked rules match.
    pub(crate) fn of<'a, I: Iterator<Item = &'a Rule>>(rules: impl Fn() -> I) -> Self {
        let mut ports = 0_u32;
        for rule in rules() {
            if rule.protocol.is_none() {
                return Self::all();
            }
            for (first, last) in dports(rule) {
                ports += u32::from(last - first) + 1;
                if ports >= Self::BITS / 2 {
                    return Self::all();
                }
            }
        }
        let bits = (16 * ports).next_power_of_two().clamp(64, Self::BITS);
        let mut words = vec![0_u64; bits as usize / 64];
        for rule in rules() {
            let class = rule.protocol.map_or(0, crate::model::Protocol::class);
            for (first, last) in dports(rule) {
                for port in first..=last {
                    let bit = Self::bit(class, port) % bits;
                    if let Some(word) = words.get_mut(bit as usize / 64) {
                        *word |= 1 << (bit % 64);
                    }
                }
            }
        }
        Self(words.into_boxed_slice())
    }

    fn all() -> Self {
        Self(vec![u64::MAX].into_boxed_slice())
    }

    #[inline]
    pub(crate) fn has(&self, header: Header) -> bool {
        let bit = Self::bit(header.class, header.dport) as usize;
        let word = self.0.get((bit / 64) & self.0.len().wrapping_sub(1));
        word.is_some_and(|word| word >> (bit % 64) & 1 != 0)
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use alloc::vec::Vec;

    use super::*;
    use crate::model::{Direction, Protocol};

    fn rule(protocol: Protocol, ports: &[(u16, u16)]) -> Rule {
        Rule {
            protocol: Some(protocol),
            ports: Vec::from(ports),
            ..Rule::allow(String::new(), Direction::Ingress)
        }
    }

    /// Whether (the cells, the reach) of a rule say yes to a header.
    fn asked(rule: &Rule, header: Header) -> (bool, bool) {
        let turned = 41;
        let cells = Cells(Cells::of(core::iter::once(rule)).turned(turned));
        let reach = Reach::of(|| core::iter::once(rule));
        (cells.has(header.cell(), turned), reach.has(header))
    }

    #[test]
    fn what_a_rule_matches_is_never_denied() {
        let ranges: [&[(u16, u16)]; 6] = [
            &[(0, 0), (u16::MAX, u16::MAX)],
            &[(15, 16)],
            &[(1000, 2007)],
            &[(1000, 2008), (7, 9)],
            &[(0, u16::MAX)],
            &[],
        ];
        for (number, ports) in [6, 17, 255].iter().flat_map(|n| ranges.map(|r| (*n, r))) {
            let rule = rule(Protocol::Number(number), ports);
            let cells = Cells::of(core::iter::once(&rule)).turned(41);
            let reach = Reach::of(|| core::iter::once(&rule));
            for port in dports(&rule).flat_map(|(first, last)| first..=last) {
                let header = Header {
                    class: u16::from(number),
                    sport: 1,
                    dport: port,
                };
                assert!(Cells(cells).has(header.cell(), 41), "{number} {port}");
                assert!(reach.has(header), "{number} {port}");
            }
        }
        let roce = rule(Protocol::Roce, &[]);
        assert_eq!(asked(&roce, Header::new(17, 1, 4791)), (true, true));
        let any = Rule::allow(String::new(), Direction::Ingress);
        assert_eq!(asked(&any, Header::new(47, 0, 0)), (true, true));
    }

    #[test]
    fn most_else_is_denied() {
        let rule = rule(Protocol::Number(6), &[(80, 80), (443, 443)]);
        assert_eq!(asked(&rule, Header::new(6, 1, 100)), (false, false));
        assert_eq!(asked(&rule, Header::new(17, 1, 80)), (false, false));
        assert_eq!(asked(&rule, Header::new(1, 0, 0x0800)), (false, false));
        // The same cell, but another port.
        assert_eq!(asked(&rule, Header::new(6, 1, 81)), (true, false));
    }
}
