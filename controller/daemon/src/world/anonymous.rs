//! Numbers of groups that no resource declares.
//!
//! A selector has the same number for as long as some resource holds it, restarts
//! included: nodes would otherwise see every membership change.

use std::collections::BTreeMap;
use std::sync::Arc;

use penstock_policies::anonymous;
use penstock_policies::model::Model;

use super::{Kind, LoadError};
use crate::ids::Ids;
use crate::store::{Batch, Store};

/// Where they begin in the store; then the number, and the text is the row.
const ROWS: &str = "anonymous-id/";

/// By the texts of [`anonymous`].
pub type Numbers = BTreeMap<String, u32>;

fn key(id: u32) -> Vec<u8> {
    format!("{ROWS}{id:08x}").into_bytes()
}

/// Reads the numbers of everything in the model.
///
/// # Errors
/// When the store fails, a row cannot be read, or one is missing: with a number of
/// its own choice a node could take one group for another.
pub(super) fn load(store: &dyn Store, model: &Model) -> Result<Numbers, LoadError> {
    let (_, stored) = store.snapshot(ROWS.as_bytes())?;
    let mut numbers = Numbers::new();
    for (row, text) in stored {
        let unreadable = |reason: &str| LoadError::Row {
            key: String::from_utf8_lossy(&row).into_owned(),
            reason: reason.to_owned(),
        };
        let digits = row
            .strip_prefix(ROWS.as_bytes())
            .and_then(|digits| std::str::from_utf8(digits).ok());
        let id = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let id = id
            .filter(|id| *id != 0 && key(*id) == row)
            .ok_or_else(|| unreadable("its key has no number"))?;
        let text = String::from_utf8(text).map_err(|_| unreadable("it is not UTF-8"))?;
        if numbers.insert(text, id).is_some() {
            return Err(unreadable("it says the same as another"));
        }
    }
    let wanted = anonymous::of(model);
    if let Some(text) = wanted.keys().find(|text| !numbers.contains_key(*text)) {
        let text: String = text.chars().take(200).collect();
        return Err(LoadError::NoNumber(text));
    }
    if let Some((text, id)) = numbers.iter().find(|(text, _)| !wanted.contains_key(*text)) {
        let text: String = text.chars().take(200).collect();
        return Err(LoadError::Row {
            key: String::from_utf8_lossy(&key(*id)).into_owned(),
            reason: format!("it is for {text}, which no resource speaks of"),
        });
    }
    Ok(numbers)
}

/// Numbers for another model: those there were, and new ones. `None`: there is none left.
pub(crate) fn renew(before: &Arc<Numbers>, model: &Model, ids: &mut Ids) -> Option<Arc<Numbers>> {
    let wanted = anonymous::of(model);
    if wanted.keys().eq(before.keys()) {
        return Some(Arc::clone(before));
    }
    let mut numbers = Numbers::new();
    for text in wanted.into_keys() {
        let id = match before.get(&text) {
            Some(id) => *id,
            None => ids.allocate(Kind::SecurityGroup)?,
        };
        numbers.insert(text, id);
    }
    for (text, id) in before.iter() {
        if !numbers.contains_key(text) {
            ids.release(Kind::SecurityGroup, *id);
        }
    }
    Some(Arc::new(numbers))
}

/// Adds what has changed to a commit.
pub(crate) fn save(before: &Arc<Numbers>, after: &Arc<Numbers>, batch: &mut Batch) {
    if Arc::ptr_eq(before, after) {
        return;
    }
    for (text, id) in before.iter() {
        if !after.contains_key(text) {
            batch.delete(key(*id));
        }
    }
    for (text, id) in after.iter() {
        if !before.contains_key(text) {
            batch.put(key(*id), text.as_bytes());
        }
    }
}
