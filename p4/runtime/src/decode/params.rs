//! Arguments of actions and fields of controller headers: values by id.

use std::collections::BTreeMap;

use super::{DecodeError, number, unknown};
use crate::pipeline::Table;
use crate::{Field, v1};

/// The action of an entry and its arguments.
pub(crate) struct Params<'a> {
    table: Table,
    action: u32,
    name: &'static str,
    values: BTreeMap<u32, &'a [u8]>,
}

impl<'a> Params<'a> {
    pub(crate) fn new(table: Table, entry: &'a v1::TableEntry) -> Result<Self, DecodeError> {
        let name = table.name();
        let action = match entry
            .action
            .as_ref()
            .and_then(|action| action.r#type.as_ref())
        {
            Some(v1::table_action::Type::Action(action)) => action,
            Some(_) => return Err(DecodeError::ActionProfile { table: name }),
            None => return Err(DecodeError::NoAction { table: name }),
        };
        let mut values = BTreeMap::new();
        for param in &action.params {
            if values
                .insert(param.param_id, param.value.as_slice())
                .is_some()
            {
                return Err(DecodeError::DuplicateField {
                    owner: format!("action {:#010x} of {name}", action.action_id),
                    id: param.param_id,
                });
            }
        }
        Ok(Self {
            table,
            action: action.action_id,
            name: "",
            values,
        })
    }

    pub(crate) fn action(&self) -> u32 {
        self.action
    }

    /// What the action is called in errors.
    pub(crate) fn named(&mut self, name: &'static str) {
        self.name = name;
    }

    pub(crate) fn value<T: Field>(
        &mut self,
        id: u32,
        field: &'static str,
    ) -> Result<T, DecodeError> {
        let value = self.values.remove(&id);
        let value = value.ok_or_else(|| DecodeError::MissingField {
            owner: self.owner(),
            field,
            id,
        })?;
        number(&self.owner(), field, value)
    }

    pub(crate) fn unknown_action(&self) -> DecodeError {
        DecodeError::UnknownAction {
            table: self.table.name(),
            id: self.action,
        }
    }

    pub(crate) fn finish(self) -> Result<(), DecodeError> {
        unknown(&self.owner(), &self.values)
    }

    fn owner(&self) -> String {
        format!("{}.{}", self.table.name(), self.name)
    }
}

/// The fields of a controller header.
pub(crate) struct Metadata<'a> {
    header: &'static str,
    values: BTreeMap<u32, &'a [u8]>,
}

impl<'a> Metadata<'a> {
    pub(crate) fn new(
        header: &'static str,
        metadata: &'a [v1::PacketMetadata],
    ) -> Result<Self, DecodeError> {
        let mut values = BTreeMap::new();
        for field in metadata {
            if values
                .insert(field.metadata_id, field.value.as_slice())
                .is_some()
            {
                return Err(DecodeError::DuplicateField {
                    owner: header.to_owned(),
                    id: field.metadata_id,
                });
            }
        }
        Ok(Self { header, values })
    }

    pub(crate) fn value<T: Field>(
        &mut self,
        id: u32,
        field: &'static str,
    ) -> Result<T, DecodeError> {
        let value = self.values.remove(&id);
        let value = value.ok_or_else(|| DecodeError::MissingField {
            owner: self.header.to_owned(),
            field,
            id,
        })?;
        number(self.header, field, value)
    }

    pub(crate) fn finish(self) -> Result<(), DecodeError> {
        unknown(self.header, &self.values)
    }
}
