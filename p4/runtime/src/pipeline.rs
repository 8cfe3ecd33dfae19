//! Typed entries of the NIC pipeline, generated from its p4info.
//!
//! One module per table with `Key`, `Action` and `Entry`; [`Key`] and [`Entry`]
//! are those of any table. All of them order, hash and compare, so that wanted
//! and found entries can be subtracted as sets. Tables with ternary or range
//! fields have a [`Priority`] in their key, because there it is part of what
//! tells entries apart.

#![allow(
    missing_docs,
    clippy::match_same_arms,
    clippy::unnecessary_wraps,
    reason = "generated"
)]

use prost::Message;

use crate::{
    Bits, DecodeError, Lpm, Meter, Priority, Range, Ternary, Wide, config, decode, encode, v1,
};

include!(concat!(env!("OUT_DIR"), "/pipeline.rs"));

/// The program's p4info as p4c wrote it.
pub const P4INFO_TEXT: &str = include_str!("../../program/penstock.p4info.txtpb");

/// The program as bmv2 loads it.
pub const DEVICE_CONFIG: &[u8] = include_bytes!("../../program/penstock.json");

/// The port behind which the worker sits.
pub const CPU_PORT: u32 = 254;

/// What a frame between switch and worker starts with.
pub const ENVELOPE: Wide<112> = Wide::truncate(0x0250_5354_4b01_0250_5354_4b02_88b5);

/// The distributed gateway's MAC address, the same on every node.
pub const GATEWAY_MAC: Bits<48> = Bits::truncate(0x0200_5e00_0001);

/// The program's p4info.
///
/// # Errors
///
/// Only if this crate was built from a p4info it cannot read back.
pub fn p4info() -> Result<config::P4Info, prost::DecodeError> {
    config::P4Info::decode(include_bytes!(concat!(env!("OUT_DIR"), "/p4info.bin")).as_slice())
}

/// What a pipeline commit carries, `device_config` being what the target runs.
///
/// # Errors
///
/// As [`p4info`].
pub fn forwarding_config(
    device_config: &[u8],
) -> Result<v1::ForwardingPipelineConfig, prost::DecodeError> {
    Ok(v1::ForwardingPipelineConfig {
        p4info: Some(p4info()?),
        p4_device_config: device_config.to_vec(),
        cookie: Some(v1::forwarding_pipeline_config::Cookie { cookie: COOKIE }),
    })
}

impl Table {
    /// The table with this id.
    ///
    /// # Errors
    ///
    /// [`DecodeError::UnknownTable`].
    pub fn from_id(id: u32) -> Result<Self, DecodeError> {
        Self::ALL
            .into_iter()
            .find(|table| table.id() == id)
            .ok_or(DecodeError::UnknownTable { id })
    }

    /// The pattern that reads every entry of the table, meters included: they
    /// are part of an entry, and a switch tells them only if asked.
    #[must_use]
    pub fn read_all(self) -> v1::Entity {
        entity(self.pattern())
    }

    /// The same with counters, where the table has them.
    #[must_use]
    pub fn read_all_with_counters(self) -> v1::Entity {
        let counter_data = self.is_counted().then(v1::CounterData::default);
        entity(v1::TableEntry {
            counter_data,
            ..self.pattern()
        })
    }

    fn pattern(self) -> v1::TableEntry {
        v1::TableEntry {
            table_id: self.id(),
            meter_config: self.is_metered().then(v1::MeterConfig::default),
            ..Default::default()
        }
    }
}

/// An entry as an entity.
#[must_use]
pub fn entity(entry: v1::TableEntry) -> v1::Entity {
    v1::Entity {
        entity: Some(v1::entity::Entity::TableEntry(entry)),
    }
}
