//! Joins the rows of a record.
//!
//! [`daytable_model::entity`] defines how a record that exceeds one entity is written: a master row with the number
//! of `Items`, and items under its key. An item continues a property of the record, or adds another. All are
//! committed together, so a master without its items is damage; its available part is returned.

pub use crate::tables::{OwnedRow, OwnedValue};
use daytable_model::key::RowKey;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Merges an item into its master.
fn merge_item(master: &mut OwnedRow, item: OwnedRow) {
    for (name, value) in item.properties {
        let known = master.properties.iter_mut().find(|(known, _)| *known == name);
        match (known, value) {
            (Some((_, OwnedValue::String(text))), OwnedValue::String(more)) => text.push_str(&more),
            (_, value) => master.properties.push((name, value)),
        }
    }
}

/// Makes room for all parts of each text in its first: it would move with each part, and be there twice.
fn reserve(rows: &mut [OwnedRow]) {
    let Some((master, items)) = rows.split_first_mut() else { return };
    for (name, value) in &mut master.properties {
        let parts = items.iter().flat_map(|item| &item.properties).filter(|(of, _)| of == name);
        let more = parts.map(|(_, part)| if let OwnedValue::String(part) = part { part.len() } else { 0 });
        if let OwnedValue::String(text) = value {
            text.reserve_exact(more.sum());
        }
    }
}

/// Joins masters and items that arrive in any order, as long as the master is first.
///
/// An item without a master is skipped: its master did not match.
#[derive(Default)]
pub(super) struct Joiner {
    /// Masters with the items so far, by key. Only records of over 32 Ki units wait here.
    waiting: BTreeMap<(RowKey, Arc<str>), Vec<OwnedRow>>,
}

impl Joiner {
    /// Adds a row, and returns the entity that it completes.
    pub(super) fn push(&mut self, row: OwnedRow) -> Option<OwnedRow> {
        let items = if row.key.item() == 0 { row.items() } else { 0 };
        if row.key.item() == 0 && items == 0 {
            return Some(row);
        }
        let master = (row.key.with_item(0), row.partition.clone());
        if row.key.item() == 0 {
            self.waiting.insert(master, vec![row]);
            return None;
        }
        let rows = self.waiting.get_mut(&master)?;
        rows.push(row);
        let complete = rows.len() > rows[0].items();
        if complete { self.waiting.remove(&master).and_then(joined) } else { None }
    }

    /// The entities whose items did not all arrive, newest first.
    pub(super) fn drain_incomplete(&mut self) -> impl Iterator<Item = OwnedRow> + use<> {
        std::mem::take(&mut self.waiting).into_values().filter_map(joined)
    }
}

fn joined(mut rows: Vec<OwnedRow>) -> Option<OwnedRow> {
    rows.sort_by_key(|row| row.key);
    reserve(&mut rows);
    rows.into_iter().reduce(|mut master, item| {
        merge_item(&mut master, item);
        master
    })
}

/// The entities of `rows`, which arrive newest first, each joined with its items.
pub fn join<E>(rows: impl Iterator<Item = Result<OwnedRow, E>>) -> impl Iterator<Item = Result<OwnedRow, E>> {
    let (mut rows, mut joiner, mut incomplete) = (rows, Joiner::default(), VecDeque::new());
    std::iter::from_fn(move || {
        for row in rows.by_ref() {
            match row {
                Ok(row) => {
                    if let Some(entity) = joiner.push(row) {
                        return Some(Ok(entity));
                    }
                }
                Err(error) => return Some(Err(error)),
            }
        }
        incomplete.extend(joiner.drain_incomplete());
        incomplete.pop_front().map(Ok)
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use daytable_model::batch::Batch;
    use daytable_model::key::{DayTable, Period, TableName};
    use daytable_model::record::{Field, Level, Record, Value};
    use daytable_model::time::Ticks;
    use proptest::prelude::*;
    use std::convert::Infallible;

    /// The rows that `record` is written as, in the order of their keys.
    pub(crate) fn rows_of(partition: &str, key: RowKey, record: &Record<'_>) -> Vec<OwnedRow> {
        let table = DayTable::at(&TableName::new("Log").expect("a name"), Period::Day, Ticks::UNIX_EPOCH);
        let mut batch = Batch::new(table, partition.into());
        daytable_model::entity::append(&mut batch, key, "/var/log/app.log", record);
        let row = |row: daytable_model::batch::RowRef<'_>| OwnedRow {
            partition: partition.into(),
            key: row.key,
            level: row.level,
            properties: row
                .properties()
                .map(|(name, v)| (batch.names()[usize::from(name)].to_string(), v.into()))
                .collect(),
        };
        batch.rows().map(row).collect()
    }

    fn join_all(rows: Vec<OwnedRow>) -> Vec<OwnedRow> {
        join(rows.into_iter().map(Ok::<_, Infallible>)).map(|entity| entity.expect("infallible")).collect()
    }

    fn key(position: u64) -> RowKey {
        RowKey::new(Ticks::UNIX_EPOCH, 1, position)
    }

    fn large(text: &str) -> Record<'_> {
        let field = Field { name: "stack".into(), value: Value::String(text.into()) };
        Record { message: text.into(), fields: vec![field], level: Some(Level::Error), ..Record::default() }
    }

    fn text<'e>(entity: &'e OwnedRow, name: &str) -> Option<&'e str> {
        entity.properties.iter().find(|(known, _)| known == name).and_then(|(_, value)| match value {
            OwnedValue::String(text) => Some(text.as_str()),
            _ => None,
        })
    }

    #[test]
    fn a_master_row_without_its_items_is_shown_in_part() {
        let message = "x".repeat(100_000);
        let mut rows = rows_of("web", key(1), &large(&message));
        assert!(rows.len() > 2);
        rows.pop();
        let entities = join_all(rows);
        assert_eq!(entities.len(), 1);
        assert!(text(&entities[0], "Message").is_some_and(|got| got.len() < message.len() && message.starts_with(got)));
    }

    #[test]
    fn items_without_their_master_are_passed_over() {
        let message = "x".repeat(100_000);
        let rows = rows_of("web", key(1), &large(&message));
        assert_eq!(join_all(rows[1..].to_vec()), []);
    }

    #[test]
    fn rows_of_two_partitions_under_one_key_stay_apart() {
        let (first, second) = ("a".repeat(70_000), "b".repeat(70_000));
        let mut rows = rows_of("web-1", key(1), &large(&first));
        rows.extend(rows_of("web-2", key(1), &large(&second)));
        rows.sort_by_key(|row| row.key);
        let messages: Vec<_> =
            join_all(rows).iter().map(|e| (e.partition.to_string(), text(e, "Message").map(str::to_owned))).collect();
        assert_eq!(messages, [("web-1".into(), Some(first)), ("web-2".into(), Some(second))]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// The text of a record of any size is read back whole, beside small records before and after it.
        #[test]
        fn item_rows_are_read_as_one_record(pattern in "\\PC{1,9}", length in 0usize..300_000) {
            let message: String = pattern.chars().cycle().take(length).collect();
            let small = Record { message: "small".into(), ..Record::default() };
            let mut rows = rows_of("web", key(3), &small);
            rows.extend(rows_of("web", key(2), &large(&message)));
            rows.extend(rows_of("web", key(1), &small));
            let entities = join_all(rows);
            prop_assert_eq!(entities.len(), 3);
            prop_assert_eq!(text(&entities[1], "Message").unwrap_or_default(), message.as_str());
            prop_assert_eq!(text(&entities[1], "stack").unwrap_or_default(), message.as_str());
            prop_assert_eq!(entities[1].level, Some(Level::Error));
        }
    }
}
