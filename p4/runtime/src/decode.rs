//! From messages to typed values: the one place where entries are checked.
//!
//! Leading zero bytes are accepted, as the protocol asks of every receiver, and
//! vanish: what is typed is canonical. Everything else that would let one entry
//! be written in two ways is refused.

mod error;
mod params;

use std::collections::BTreeMap;

pub use error::DecodeError;
pub(crate) use params::{Metadata, Params};

use crate::pipeline::Table;
use crate::v1::field_match::FieldMatchType;
use crate::{Field, Lpm, Meter, Priority, Range, Ternary, v1};

/// A value, if the string has one and it fits.
fn number<T: Field>(owner: &str, field: &str, bytes: &[u8]) -> Result<T, DecodeError> {
    if bytes.is_empty() {
        return Err(DecodeError::Empty {
            owner: owner.to_owned(),
            field: field.to_owned(),
        });
    }
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    let digits = &bytes[zeros..];
    let value = (digits.len() <= 16)
        .then(|| {
            digits
                .iter()
                .fold(0, |all, byte| all << 8 | u128::from(*byte))
        })
        .and_then(T::from_u128);
    value.ok_or_else(|| DecodeError::TooWide {
        owner: owner.to_owned(),
        field: field.to_owned(),
        width: T::WIDTH,
        value: hex(digits),
    })
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;

    let mut text = String::from("0x");
    for byte in bytes {
        // Writing to a String does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Whole bytes of a packet, as wide as the field.
pub(crate) fn fixed<T: Field>(bytes: &[u8]) -> T {
    let value = bytes
        .iter()
        .fold(0, |all, byte| all << 8 | u128::from(*byte));
    T::from_u128(value).unwrap_or(T::ZERO)
}

/// The match part of an entry; what has been asked for is taken out.
pub(crate) struct Fields<'a> {
    table: Table,
    priority: i32,
    fields: BTreeMap<u32, &'a FieldMatchType>,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(table: Table, entry: &'a v1::TableEntry) -> Result<Self, DecodeError> {
        let name = table.name();
        if entry.table_id != table.id() {
            return Err(DecodeError::OtherTable {
                table: name,
                id: entry.table_id,
            });
        }
        if entry.is_default_action {
            return Err(DecodeError::DefaultAction { table: name });
        }
        if entry.is_const {
            return Err(DecodeError::Const { table: name });
        }
        if !table.has_priority() && entry.priority != 0 {
            return Err(DecodeError::PriorityForbidden {
                table: name,
                priority: entry.priority,
            });
        }
        if !table.has_idle_timeout() && entry.idle_timeout_ns != 0 {
            return Err(DecodeError::IdleTimeoutForbidden { table: name });
        }
        if !table.is_metered() && entry.meter_config.is_some() {
            return Err(DecodeError::MeterForbidden { table: name });
        }
        let mut fields = BTreeMap::new();
        for field in &entry.r#match {
            let Some(value) = &field.field_match_type else {
                return Err(DecodeError::NoMatch {
                    table: name,
                    id: field.field_id,
                });
            };
            if fields.insert(field.field_id, value).is_some() {
                return Err(DecodeError::DuplicateField {
                    owner: name.to_owned(),
                    id: field.field_id,
                });
            }
        }
        Ok(Self {
            table,
            priority: entry.priority,
            fields,
        })
    }

    pub(crate) fn priority(&self) -> Result<Priority, DecodeError> {
        Priority::new(self.priority).ok_or(DecodeError::Priority {
            table: self.table.name(),
            priority: self.priority,
        })
    }

    pub(crate) fn exact<T: Field>(
        &mut self,
        id: u32,
        field: &'static str,
    ) -> Result<T, DecodeError> {
        match self.fields.remove(&id) {
            Some(FieldMatchType::Exact(exact)) => number(self.table.name(), field, &exact.value),
            Some(other) => Err(self.other_kind(field, "exact", other)),
            None => Err(DecodeError::MissingField {
                owner: self.table.name().to_owned(),
                field,
                id,
            }),
        }
    }

    pub(crate) fn lpm<T: Field>(
        &mut self,
        id: u32,
        field: &'static str,
    ) -> Result<Lpm<T>, DecodeError> {
        let table = self.table.name();
        let (value, prefix_len) = match self.fields.remove(&id) {
            Some(FieldMatchType::Lpm(lpm)) if lpm.prefix_len == 0 => {
                return Err(DecodeError::DontCare { table, field });
            }
            Some(FieldMatchType::Lpm(lpm)) => {
                (number::<T>(table, field, &lpm.value)?, lpm.prefix_len)
            }
            Some(other) => return Err(self.other_kind(field, "lpm", other)),
            None => (T::ZERO, 0),
        };
        let lpm = u32::try_from(prefix_len)
            .ok()
            .and_then(|len| Lpm::new(value, len))
            .ok_or(DecodeError::PrefixLength {
                table,
                field,
                prefix_len,
                width: T::WIDTH,
            })?;
        if lpm.value() != value {
            return Err(DecodeError::StrayBits { table, field });
        }
        Ok(lpm)
    }

    pub(crate) fn ternary<T: Field>(
        &mut self,
        id: u32,
        field: &'static str,
    ) -> Result<Ternary<T>, DecodeError> {
        let table = self.table.name();
        match self.fields.remove(&id) {
            Some(FieldMatchType::Ternary(ternary)) => {
                let value = number::<T>(table, field, &ternary.value)?;
                let mask = number::<T>(table, field, &ternary.mask)?;
                let typed = Ternary::new(value, mask);
                if typed.value() != value {
                    return Err(DecodeError::StrayBits { table, field });
                }
                if mask.to_u128() == 0 {
                    return Err(DecodeError::DontCare { table, field });
                }
                Ok(typed)
            }
            Some(other) => Err(self.other_kind(field, "ternary", other)),
            None => Ok(Ternary::any()),
        }
    }

    pub(crate) fn range<T: Field>(
        &mut self,
        id: u32,
        field: &'static str,
    ) -> Result<Range<T>, DecodeError> {
        let table = self.table.name();
        match self.fields.remove(&id) {
            Some(FieldMatchType::Range(range)) => {
                let low = number::<T>(table, field, &range.low)?;
                let high = number::<T>(table, field, &range.high)?;
                let range = Range::new(low, high).ok_or(DecodeError::EmptyRange {
                    table,
                    field,
                    low: low.to_u128(),
                    high: high.to_u128(),
                })?;
                if range.is_any() {
                    return Err(DecodeError::DontCare { table, field });
                }
                Ok(range)
            }
            Some(other) => Err(self.other_kind(field, "range", other)),
            None => Ok(Range::any()),
        }
    }

    pub(crate) fn finish(self) -> Result<(), DecodeError> {
        unknown(self.table.name(), &self.fields)
    }

    fn other_kind(
        &self,
        field: &'static str,
        wanted: &'static str,
        found: &FieldMatchType,
    ) -> DecodeError {
        let found = match found {
            FieldMatchType::Exact(_) => "exact",
            FieldMatchType::Ternary(_) => "ternary",
            FieldMatchType::Lpm(_) => "lpm",
            FieldMatchType::Range(_) => "range",
            FieldMatchType::Optional(_) => "optional",
            FieldMatchType::Other(_) => "other",
        };
        DecodeError::MatchKind {
            table: self.table.name(),
            field,
            wanted,
            found,
        }
    }
}

fn unknown<T>(owner: &str, left: &BTreeMap<u32, T>) -> Result<(), DecodeError> {
    match left.keys().next() {
        None => Ok(()),
        Some(id) => Err(DecodeError::UnknownField {
            owner: owner.to_owned(),
            id: *id,
        }),
    }
}

pub(crate) fn idle_timeout(table: Table, entry: &v1::TableEntry) -> Result<u64, DecodeError> {
    u64::try_from(entry.idle_timeout_ns).map_err(|_| DecodeError::Negative {
        table: table.name(),
        field: "idle_timeout_ns",
        value: entry.idle_timeout_ns,
    })
}

pub(crate) fn meter(table: Table, entry: &v1::TableEntry) -> Result<Option<Meter>, DecodeError> {
    let Some(config) = entry.meter_config else {
        return Ok(None);
    };
    let part = |field, value: i64| {
        u64::try_from(value).map_err(|_| DecodeError::Negative {
            table: table.name(),
            field,
            value,
        })
    };
    let v1::MeterConfig {
        cir,
        cburst,
        pir,
        pburst,
        eburst,
    } = config;
    if eburst != 0 {
        return Err(DecodeError::ExcessBurst {
            table: table.name(),
        });
    }
    Ok(Some(Meter {
        committed_rate: part("meter_config.cir", cir)?,
        committed_burst: part("meter_config.cburst", cburst)?,
        peak_rate: part("meter_config.pir", pir)?,
        peak_burst: part("meter_config.pburst", pburst)?,
    }))
}
