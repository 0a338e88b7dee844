//! A row of a page as an entity of a transaction.
//!
//! The properties are those that a reader of the embedded store is shown: `Time`, `Level` and `Severity`, which pages do not
//! store, then the row's own. Items of a large record have only their own. A time before 1601, which the service refuses,
//! stands in the RowKey alone.

use daytable_azure::{DateTime, Pushed, Transaction, Value};
use daytable_model::property::Property;
use daytable_model::time::Ticks;
use daytable_store::page::Page;
use std::borrow::Cow;

/// Adds row `index` of `page`.
pub(super) fn push(transaction: &mut Transaction, page: &Page, index: usize) -> Pushed {
    let key = page.key(index);
    let level = page.level(index).filter(|_| key.item() == 0);
    let time = Some(key.time()).filter(|time| key.item() == 0 && *time >= first_time());
    let fixed = [
        ("Time", time.map(|time| Value::DateTime(DateTime::from_ticks(time.get())))),
        ("Level", level.map(|level| Value::from(level.name()))),
        ("Severity", level.map(|level| Value::Int32(level.severity()))),
    ];
    let fixed = fixed.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let own = page.properties(index).map(|(name, property)| (name, value(property)));
    transaction.push(&key.to_string(), fixed.chain(own))
}

/// The first time that the service takes.
fn first_time() -> Ticks {
    Ticks::from_date(1601, 1, 1).unwrap_or(Ticks::MIN)
}

fn value(property: Property<'_>) -> Value<'_> {
    match property {
        Property::String(text) => Value::String(Cow::Borrowed(text)),
        Property::Int64(number) => Value::Int64(number),
        Property::Double(number) => Value::Double(number),
        Property::Boolean(truth) => Value::Boolean(truth),
        Property::Int32(number) => Value::Int32(number),
        Property::DateTime(time) => Value::DateTime(DateTime::from_ticks(time.get())),
        Property::Guid(guid) => Value::Guid(guid),
        Property::Binary(bytes) => Value::Binary(Cow::Borrowed(bytes)),
    }
}
