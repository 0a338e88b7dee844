//! Rows as entities of the service, and back.
//!
//! The service also stores what derives from a row's key, for other programs that read it: `Time`, and `Severity` beside
//! `Level`, of each row that is a record. Items (the rows of a large record's parts) have only their own properties. These
//! properties are left out again when a row is read. `Message` is the whole message there. The `Layout` of such an entity
//! begins with `%=START+LENGTH;`, the bytes of it that are the row's own message, which a reader cuts out again.
//!
//! An entity without a key of daytable's form, or with properties that contradict its key, is not daytable's. A time
//! before 1601, which the service refuses, stands in the RowKey alone.

use daytable_azure as azure;
use daytable_azure::{DateTime, EdmValue, Pushed, Transaction};
use daytable_model::batch::{Batch, RowRef};
use daytable_model::entity::STRING_UNITS_MAX;
use daytable_model::key::RowKey;
use daytable_model::line::{LAYOUT, LineLayout, RowParts, VERBATIM};
use daytable_model::property::Property;
use daytable_model::record::Level;
use daytable_model::time::Ticks;
use daytable_query::tables::{OwnedRow, OwnedValue};
use daytable_store::page::Page;
use std::borrow::Cow;
use std::sync::Arc;

/// Adds row `index` of `page` to a transaction.
pub(crate) fn push(transaction: &mut Transaction, page: &Page, index: usize) -> Pushed {
    let (key, level) = (page.key(index), page.level(index));
    let own = own(key, level, page.properties(index).collect());
    transaction.push(&key.to_string(), derived(key, level).chain(own))
}

/// The properties of a row of `batch`.
pub(crate) fn properties<'a>(batch: &'a Batch, row: &RowRef<'a>) -> impl Iterator<Item = (&'a str, EdmValue<'a>)> {
    let names = batch.names();
    let own = row.properties().map(|(name, property)| (&*names[usize::from(name)], property));
    derived(row.key, row.level).chain(self::own(row.key, row.level, own.collect()))
}

/// Begins the layout of an entity that has the whole message.
const WHOLE: &str = "%=";

/// The properties of a row as the service stores them: with the whole message, where a reader can cut it again.
fn own<'a>(
    key: RowKey,
    level: Option<Level>,
    properties: Vec<(&'a str, Property<'a>)>,
) -> impl Iterator<Item = (&'a str, EdmValue<'a>)> {
    let parts = RowParts { key, level, properties };
    let mut whole = whole_message(&parts);
    let added = match &whole {
        Some((message, _)) if parts.text("Message").is_none() => Some(("Message", owned_text(message.clone()))),
        _ => None,
    };
    let own = parts.properties.into_iter().map(move |(name, property)| {
        let changed = match (name, &mut whole) {
            ("Message", Some((message, _))) => Some(std::mem::take(message)),
            (LAYOUT, Some((_, layout))) => Some(std::mem::take(layout)),
            _ => None,
        };
        (name, changed.map_or_else(|| value(property), owned_text))
    });
    added.into_iter().chain(own)
}

/// The whole message, and the layout that says which part of it is the row's own. `None` for a row whose message is
/// whole already, for a part of a large record, and where the own message is not a part of the whole one.
fn whole_message(row: &RowParts<'_>) -> Option<(String, String)> {
    let layout = row.text(LAYOUT).filter(|layout| layout.contains("%<") || layout.starts_with(WHOLE))?;
    if row.key.item() > 0 || row.properties.iter().any(|(name, _)| *name == "Items") {
        return None;
    }
    let mut line = Vec::new();
    let place = LineLayout::parse(layout).write_line(row, row.text(VERBATIM).unwrap_or_default(), &mut line);
    let message = row.text("Message").unwrap_or_default();
    let whole = match place {
        Some(place) => String::from_utf8(line.get(place)?.to_vec()).ok()?,
        None => message.to_owned(),
    };
    let start = whole.find(message)?;
    (whole.len() <= STRING_UNITS_MAX).then(|| (whole, format!("{WHOLE}{start}+{};{layout}", message.len())))
}

/// Cuts the whole message of a row that was read, and restores its layout. `None` if they do not belong together.
fn cut_message(row: &mut OwnedRow) -> Option<()> {
    let named = |row: &OwnedRow, name: &str| row.properties.iter().position(|(known, _)| known == name);
    let Some(at) = named(row, LAYOUT) else { return Some(()) };
    let OwnedValue::String(layout) = &mut row.properties[at].1 else { return Some(()) };
    let Some(marked) = layout.strip_prefix(WHOLE) else { return Some(()) };
    let (place, own) = marked.split_once(';')?;
    let (start, length) = place.split_once('+')?;
    let (start, length) = (start.parse::<usize>().ok()?, length.parse::<usize>().ok()?);
    *layout = own.to_owned();
    let at = named(row, "Message")?;
    let OwnedValue::String(whole) = &mut row.properties[at].1 else { return None };
    if length == 0 {
        row.properties.remove(at);
    } else {
        *whole = whole.get(start..start.checked_add(length)?)?.to_owned();
    }
    Some(())
}

/// The properties that derive from a record's key and level.
fn derived<'a>(key: RowKey, level: Option<Level>) -> impl Iterator<Item = (&'a str, EdmValue<'a>)> {
    let is_record = key.item() == 0;
    let first = Ticks::from_date(1601, 1, 1).unwrap_or(Ticks::MIN);
    let time = Some(key.time()).filter(|time| is_record && *time >= first);
    let level = level.filter(|_| is_record);
    let properties = [
        ("Time", time.map(|time| EdmValue::DateTime(DateTime::from_ticks(time.get())))),
        ("Level", level.map(|level| EdmValue::from(level.name()))),
        ("Severity", level.map(|level| EdmValue::Int32(level.severity()))),
    ];
    properties.into_iter().filter_map(|(name, value)| Some((name, value?)))
}

fn value(property: Property<'_>) -> EdmValue<'_> {
    match property {
        Property::String(text) => EdmValue::String(Cow::Borrowed(text)),
        Property::Int64(number) => EdmValue::Int64(number),
        Property::Double(number) => EdmValue::Double(number),
        Property::Boolean(truth) => EdmValue::Boolean(truth),
        Property::Int32(number) => EdmValue::Int32(number),
        Property::DateTime(time) => EdmValue::DateTime(DateTime::from_ticks(time.get())),
        Property::Guid(guid) => EdmValue::Guid(guid),
        Property::Binary(bytes) => EdmValue::Binary(Cow::Borrowed(bytes)),
    }
}

/// The row of an entity; otherwise, what is wrong with the entity.
pub(crate) fn row_of(entity: azure::Entity, partition: &Arc<str>) -> Result<OwnedRow, String> {
    let azure::Entity { partition_key, row_key, properties, .. } = entity;
    let at_row = |reason: &str| format!("{partition_key:?} {row_key:?}: {reason}");
    let key = RowKey::parse(&row_key).ok().filter(|key| key.to_string() == row_key);
    let key = key.ok_or_else(|| at_row("its RowKey is not of the form of daytable's"))?;
    let partition = if **partition == *partition_key { partition.clone() } else { partition_key.as_str().into() };
    let mut row = OwnedRow { partition, key, level: None, properties: Vec::with_capacity(properties.len()) };
    for (name, value) in properties {
        match (name.as_str(), value) {
            ("Severity", _) => {}
            ("Time", EdmValue::DateTime(time)) if time.ticks() == key.time().get() => {}
            ("Time", _) => return Err(at_row("its Time is not that of its RowKey")),
            ("Level", EdmValue::String(word)) => {
                let level = Level::ALL.into_iter().find(|level| level.name() == word);
                row.level = Some(level.ok_or_else(|| at_row("its Level is not one of daytable's"))?);
            }
            (_, value) => row.properties.push((name, owned(value).ok_or_else(|| at_row("a time is out of range"))?)),
        }
    }
    cut_message(&mut row).ok_or_else(|| at_row("its Message is not that of its Layout"))?;
    Ok(row)
}

fn owned_text<'a>(text: String) -> EdmValue<'a> {
    EdmValue::String(Cow::Owned(text))
}

fn owned(value: EdmValue<'static>) -> Option<OwnedValue> {
    Some(match value {
        EdmValue::String(text) => OwnedValue::String(text.into_owned()),
        EdmValue::Int64(n) => OwnedValue::Int64(n),
        EdmValue::Double(n) => OwnedValue::Double(n),
        EdmValue::Boolean(b) => OwnedValue::Boolean(b),
        EdmValue::Int32(n) => OwnedValue::Int32(n),
        EdmValue::DateTime(time) => OwnedValue::DateTime(Ticks::new(time.ticks())?),
        EdmValue::Guid(guid) => OwnedValue::Guid(guid),
        EdmValue::Binary(bytes) => OwnedValue::Binary(bytes.into_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text<'p>(properties: &'p [(&str, EdmValue<'_>)], name: &str) -> Option<&'p str> {
        properties.iter().find_map(|(known, value)| match value {
            EdmValue::String(text) if *known == name => Some(&**text),
            _ => None,
        })
    }

    /// The entity of a row, and the row that it is read as.
    fn there_and_back(row: &OwnedRow) -> (Vec<(&str, EdmValue<'_>)>, OwnedRow) {
        let properties = row.properties.iter().map(|(name, value)| (name.as_str(), value.as_property())).collect();
        let sent: Vec<_> = derived(row.key, row.level).chain(own(row.key, row.level, properties)).collect();
        let received = |value: &EdmValue<'_>| match value {
            EdmValue::String(text) => EdmValue::String(text.to_string().into()),
            EdmValue::Int64(number) => EdmValue::Int64(*number),
            EdmValue::Int32(number) => EdmValue::Int32(*number),
            EdmValue::DateTime(time) => EdmValue::DateTime(*time),
            value => panic!("{value:?}"),
        };
        let entity = azure::Entity {
            partition_key: "p".into(),
            row_key: row.key.to_string(),
            properties: sent.iter().map(|(name, value)| ((*name).to_owned(), received(value))).collect(),
            ..Default::default()
        };
        let back = row_of(entity, &row.partition).expect("a row");
        (sent, back)
    }

    fn row(properties: &[(&str, OwnedValue)]) -> OwnedRow {
        let key = RowKey::new(Ticks::from_date(2026, 11, 20).expect("a date"), 1, 2);
        let properties = properties.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        OwnedRow { partition: "p".into(), key, level: Some(Level::Info), properties }
    }

    #[test]
    fn an_entity_has_the_whole_message_and_gives_the_row_back() {
        let string = |text: &str| OwnedValue::String(text.to_owned());
        for (layout, message, verbatim, whole) in [
            ("%L %<%m n=%(n) x=%v%>", Some("disk full"), "1.50", "disk full n=3 x=1.50"),
            ("%v: %<%m n=%v%>", Some("up"), "a\u{1f}03", "up n=03"),
            ("%L %<n=%(n)%>", None, "", "n=3"),
            ("%L %m", Some("up"), "", "up"),
            // The whole message is a verbatim piece: a line that is kept whole.
            ("%v%<%v%>%v", Some("up"), "a\u{1f}up n=3\u{1f}", "up n=3"),
        ] {
            let mut properties = vec![("Source", string("/a")), ("n", OwnedValue::Int64(3)), (LAYOUT, string(layout))];
            properties.extend(message.map(|message| ("Message", string(message))));
            properties.push((VERBATIM, string(verbatim)));
            let row = row(&properties);
            let (sent, back) = there_and_back(&row);
            assert_eq!(text(&sent, "Message"), Some(whole), "{layout}");
            assert_eq!(back, row, "{layout}");
        }
    }

    proptest! {
        /// Any row comes back, whatever its layout says.
        #[test]
        fn any_row_comes_back(layout in "(%[<>mjvL]|%\\(n\\)|[ =n3]){0,9}", message in "[n=3 ]{1,6}", verbatim in "[n=3 \u{1f}]{0,6}") {
            let string = |text: &str| OwnedValue::String(text.to_owned());
            let row = row(&[
                ("Message", string(&message)),
                ("n", OwnedValue::Int64(3)),
                (LAYOUT, string(&layout)),
                (VERBATIM, string(&verbatim)),
            ]);
            prop_assert_eq!(there_and_back(&row).1, row);
        }
    }
}
