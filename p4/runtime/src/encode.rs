//! From typed values to messages. What a type can hold can be sent, so nothing
//! here fails.

use crate::pipeline::Table;
use crate::v1::field_match::{
    Exact, FieldMatchType, Lpm as LpmMatch, Range as RangeMatch, Ternary as TernaryMatch,
};
use crate::{Field, Lpm, Range, Ternary, v1};

/// The shortest big-endian string; one zero byte for zero.
pub(crate) fn bytes<T: Field>(value: T) -> Vec<u8> {
    let all = value.to_u128().to_be_bytes();
    let zeros = all.iter().take(15).take_while(|byte| **byte == 0).count();
    all[zeros..].to_vec()
}

/// A whole number of bytes in a packet. `to` is as long as the field is wide.
pub(crate) fn fixed<T: Field>(to: &mut [u8], value: T) {
    let all = value.to_u128().to_be_bytes();
    to.copy_from_slice(&all[all.len() - to.len()..]);
}

/// The match part of an entry. Fields that match everything are left out.
pub(crate) struct Fields(Vec<v1::FieldMatch>);

impl Fields {
    pub(crate) fn new(count: usize) -> Self {
        Self(Vec::with_capacity(count))
    }

    pub(crate) fn exact<T: Field>(&mut self, id: u32, value: T) {
        self.push(
            id,
            FieldMatchType::Exact(Exact {
                value: bytes(value),
            }),
        );
    }

    pub(crate) fn lpm<T: Field>(&mut self, id: u32, value: Lpm<T>) {
        // A prefix is never longer than 128 bits.
        let prefix_len = value.prefix_len() as i32;
        if prefix_len != 0 {
            let value = bytes(value.value());
            self.push(id, FieldMatchType::Lpm(LpmMatch { value, prefix_len }));
        }
    }

    pub(crate) fn ternary<T: Field>(&mut self, id: u32, value: Ternary<T>) {
        if value.mask().to_u128() != 0 {
            let mask = bytes(value.mask());
            let value = bytes(value.value());
            self.push(id, FieldMatchType::Ternary(TernaryMatch { value, mask }));
        }
    }

    pub(crate) fn range<T: Field>(&mut self, id: u32, value: Range<T>) {
        if !value.is_any() {
            let low = bytes(value.low());
            let high = bytes(value.high());
            self.push(id, FieldMatchType::Range(RangeMatch { low, high }));
        }
    }

    pub(crate) fn entry(self, table: Table, priority: i32) -> v1::TableEntry {
        v1::TableEntry {
            table_id: table.id(),
            r#match: self.0,
            priority,
            ..Default::default()
        }
    }

    fn push(&mut self, field_id: u32, value: FieldMatchType) {
        self.0.push(v1::FieldMatch {
            field_id,
            field_match_type: Some(value),
        });
    }
}

pub(crate) fn action(action_id: u32, params: Vec<v1::action::Param>) -> v1::TableAction {
    v1::TableAction {
        r#type: Some(v1::table_action::Type::Action(v1::Action {
            action_id,
            params,
        })),
    }
}

pub(crate) fn param<T: Field>(param_id: u32, value: T) -> v1::action::Param {
    v1::action::Param {
        param_id,
        value: bytes(value),
    }
}

pub(crate) fn metadata<T: Field>(metadata_id: u32, value: T) -> v1::PacketMetadata {
    v1::PacketMetadata {
        metadata_id,
        value: bytes(value),
    }
}

/// 292 years are as good as never ending.
pub(crate) fn idle_timeout(nanoseconds: u64) -> i64 {
    i64::try_from(nanoseconds).unwrap_or(i64::MAX)
}
