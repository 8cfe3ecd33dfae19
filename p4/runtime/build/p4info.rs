//! The part of P4Info that the generator needs, read from text form.

use std::collections::BTreeMap;
use std::error::Error;

use prost_reflect::{DescriptorPool, DynamicMessage, ReflectMessage, Value};
use prost_types::FileDescriptorSet;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Reads P4Info in protobuf text form.
pub(crate) fn read(descriptors: FileDescriptorSet, text: &str) -> Result<DynamicMessage> {
    let pool = DescriptorPool::from_file_descriptor_set(descriptors)?;
    let descriptor = pool
        .get_message_by_name("p4.config.v1.P4Info")
        .ok_or("the schema has no p4.config.v1.P4Info")?;
    Ok(DynamicMessage::parse_text_format(descriptor, text)?)
}

pub(crate) struct Program {
    pub(crate) tables: Vec<Table>,
    pub(crate) headers: Vec<Header>,
}

pub(crate) struct Table {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) size: i64,
    pub(crate) fields: Vec<Field>,
    pub(crate) actions: Vec<Action>,
    pub(crate) idle_timeout: bool,
    pub(crate) counted: bool,
    pub(crate) metered: bool,
}

pub(crate) struct Field {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) width: u32,
    pub(crate) kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Exact,
    Lpm,
    Ternary,
    Range,
}

#[derive(Clone)]
pub(crate) struct Action {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) params: Vec<Param>,
}

#[derive(Clone)]
pub(crate) struct Param {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) width: u32,
}

pub(crate) struct Header {
    pub(crate) name: String,
    pub(crate) fields: Vec<Param>,
}

impl Program {
    pub(crate) fn from_message(info: &DynamicMessage) -> Result<Self> {
        let mut actions = BTreeMap::new();
        for action in list(info, "actions")? {
            let (id, name) = preamble(&action)?;
            let params = params(&action, "params")?;
            actions.insert(id, Action { id, name, params });
        }
        let resources = |section: &str| -> Result<Vec<u32>> {
            list(info, section)?
                .iter()
                .map(|resource| number(resource, "direct_table_id"))
                .collect()
        };
        let counted = resources("direct_counters")?;
        let metered = resources("direct_meters")?;
        let tables = list(info, "tables")?
            .iter()
            .map(|table| read_table(table, &actions, &counted, &metered))
            .collect::<Result<Vec<_>>>()?;
        let headers = list(info, "controller_packet_metadata")?
            .iter()
            .map(|header| {
                Ok(Header {
                    name: preamble(header)?.1,
                    fields: params(header, "metadata")?,
                })
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(Self { tables, headers })
    }
}

fn read_table(
    table: &DynamicMessage,
    actions: &BTreeMap<u32, Action>,
    counted: &[u32],
    metered: &[u32],
) -> Result<Table> {
    let (id, name) = preamble(table)?;
    let mut fields = Vec::new();
    for field in list(table, "match_fields")? {
        fields.push(Field {
            id: number(&field, "id")?,
            name: string(&field, "name")?,
            width: number(&field, "bitwidth")?,
            kind: match number(&field, "match_type")? {
                2 => Kind::Exact,
                3 => Kind::Lpm,
                4 => Kind::Ternary,
                5 => Kind::Range,
                other => return Err(format!("table {name}: match type {other}").into()),
            },
        });
    }
    let mut used = Vec::new();
    for reference in list(table, "action_refs")? {
        // Actions that only a default may use never appear in an entry.
        if number(&reference, "scope")? == 2 {
            continue;
        }
        let action = number(&reference, "id")?;
        used.push(
            actions
                .get(&action)
                .ok_or_else(|| format!("table {name}: no action {action:#x}"))?
                .clone(),
        );
    }
    Ok(Table {
        id,
        size: get(table, "size")?.as_i64().ok_or("table size")?,
        idle_timeout: number(table, "idle_timeout_behavior")? != 0,
        counted: counted.contains(&id),
        metered: metered.contains(&id),
        name,
        fields,
        actions: used,
    })
}

fn params(message: &DynamicMessage, section: &str) -> Result<Vec<Param>> {
    list(message, section)?
        .iter()
        .map(|param| {
            Ok(Param {
                id: number(param, "id")?,
                name: string(param, "name")?,
                width: number(param, "bitwidth")?,
            })
        })
        .collect()
}

fn preamble(message: &DynamicMessage) -> Result<(u32, String)> {
    let value = get(message, "preamble")?;
    let preamble = value.as_message().ok_or("preamble is not a message")?;
    Ok((number(preamble, "id")?, string(preamble, "alias")?))
}

fn list(message: &DynamicMessage, field: &str) -> Result<Vec<DynamicMessage>> {
    let value = get(message, field)?;
    let items = value
        .as_list()
        .ok_or_else(|| format!("{field} is no list"))?;
    items
        .iter()
        .map(|item| {
            item.as_message()
                .cloned()
                .ok_or_else(|| format!("{field} is no list of messages").into())
        })
        .collect()
}

fn number(message: &DynamicMessage, field: &str) -> Result<u32> {
    let value = get(message, field)?;
    let number = match value {
        Value::U32(number) => Some(number),
        Value::I32(number) | Value::EnumNumber(number) => u32::try_from(number).ok(),
        _ => None,
    };
    number.ok_or_else(|| format!("{field} is no number from 0 up").into())
}

fn string(message: &DynamicMessage, field: &str) -> Result<String> {
    let value = get(message, field)?;
    Ok(value
        .as_str()
        .ok_or_else(|| format!("{field} is no text"))?
        .to_owned())
}

fn get(message: &DynamicMessage, field: &str) -> Result<Value> {
    let value = message.get_field_by_name(field);
    let name = message.descriptor().full_name().to_owned();
    Ok(value
        .ok_or_else(|| format!("{name} has no field {field}"))?
        .into_owned())
}
