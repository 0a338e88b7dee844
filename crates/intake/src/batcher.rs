//! Open batches, one for each table and partition, which are submitted together.
//!
//! A full batch is set aside, and an empty one replaces it. [`Batcher::take`] returns all batches. A caller that writes
//! many records to one place keeps a [`Slot`] and needs no lookup.

use daytable_model::batch::{Batch, Vocabulary};
use daytable_model::entity::SizedRecord;
use daytable_model::key::{DayTable, RowKey};
use daytable_model::record::Record;
use std::collections::HashMap;
use std::sync::Arc;

/// Memory of an empty batch in bytes: its lists, its place in the index, the route of its instance, and its page in the
/// commit.
const BATCH_MEMORY: usize = 1536;

/// Batches that are being filled.
#[derive(Default)]
pub struct Batcher {
    open: Vec<Batch>,
    index: HashMap<(DayTable, Arc<str>), usize, foldhash::quality::RandomState>,
    full: Vec<Batch>,
    /// The property names that the batches of the last filling used.
    vocabulary: Vocabulary,
    bytes: usize,
    /// The number of this filling: [`Batcher::take`] begins the next.
    filling: u64,
}

/// The place of one table and partition, until the batches are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    filling: u64,
    at: usize,
}

impl Batcher {
    /// The slot of a table and partition.
    pub fn slot(&mut self, table: &DayTable, partition: &Arc<str>) -> Slot {
        let (open, vocabulary) = (&mut self.open, &self.vocabulary);
        let at = *self.index.entry((table.clone(), partition.clone())).or_insert_with(|| {
            // A request is one filling, and its records resemble each other: names and their memory are made once.
            let latest = if vocabulary.is_empty() { open.last().and_then(Batch::vocabulary) } else { None };
            open.push(Batch::with_vocabulary(latest.as_ref().unwrap_or(vocabulary), table.clone(), partition.clone()));
            open.len() - 1
        });
        Slot { filling: self.filling, at }
    }

    /// Whether a slot is still valid.
    pub fn holds(&self, slot: Slot) -> bool {
        slot.filling == self.filling
    }

    /// Writes a record to a slot that is still [valid](Batcher::holds).
    pub fn push(&mut self, slot: Slot, key: RowKey, source: &str, record: &Record<'_>) {
        debug_assert!(self.holds(slot));
        let batch = &mut self.open[slot.at];
        let measured = SizedRecord::new(record, source);
        let (rows, bytes) = measured.room();
        if !batch.has_room(rows, bytes) {
            let next = batch.successor();
            self.full.push(std::mem::replace(batch, next));
        }
        let before = batch.bytes();
        measured.append(batch, key);
        self.bytes += batch.bytes() - before;
    }

    /// Bytes of all batches.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Memory of all batches in bytes, at most. A quarter is added to the rows: a batch reserves an eighth more than
    /// its predecessor needed, and the allocator rounds up.
    pub fn memory(&self) -> usize {
        self.bytes + self.bytes / 4 + (self.open.len() + self.full.len()) * BATCH_MEMORY
    }

    /// Takes every batch with rows, and ends all slots.
    pub fn take(&mut self) -> Vec<Batch> {
        self.index.clear();
        self.bytes = 0;
        self.filling += 1;
        self.learn();
        let mut batches = std::mem::take(&mut self.full);
        batches.extend(self.open.drain(..).filter(|batch| !batch.is_empty()));
        batches
    }

    /// Starts the next batches with the property names of this one. After a few batches, every batch knows the usual
    /// names. If there are too many names, the vocabulary is cleared.
    fn learn(&mut self) {
        let mut known = self.open.iter().filter_map(Batch::vocabulary).peekable();
        if known.peek().is_none() {
            self.vocabulary = Vocabulary::default();
        } else if let Some(learnt) = known.find(|known| !known.is_same(&self.vocabulary)) {
            self.vocabulary = learnt;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daytable_model::batch::ROWS_MAX;
    use daytable_model::key::{Period, TableName};
    use daytable_model::record::{Field, Value};
    use daytable_model::time::Ticks;

    #[test]
    fn a_full_batch_is_followed_by_an_empty_one_and_no_row_is_lost() {
        let table = DayTable::at(&TableName::new("Log").expect("a name"), Period::Day, Ticks::UNIX_EPOCH);
        let mut batcher = Batcher::default();
        let (one, two) = (batcher.slot(&table, &"one".into()), batcher.slot(&table, &"two".into()));
        assert_eq!(batcher.slot(&table, &"one".into()), one);
        for n in 0..250 {
            let record = Record { message: "text".into(), ..Record::default() };
            batcher.push(if n % 5 == 0 { two } else { one }, RowKey::new(Ticks::UNIX_EPOCH, 1, n), "s", &record);
        }
        let bytes = batcher.bytes();
        let batches = batcher.take();
        assert_eq!(bytes, batches.iter().map(Batch::bytes).sum::<usize>());
        assert_eq!(batches.iter().map(Batch::len).sum::<usize>(), 250);
        assert!(batches.iter().all(|batch| batch.len() <= ROWS_MAX));
        let of_one = batches.iter().filter(|batch| *batch.partition == *"one");
        assert_eq!(of_one.map(Batch::len).collect::<Vec<_>>(), [100, 100]);
        assert!(!batcher.holds(one));
        assert!(batcher.take().is_empty());
    }

    #[test]
    fn usual_names_are_known_to_every_batch_after_a_few_batches() {
        let table = DayTable::at(&TableName::new("Log").expect("a name"), Period::Day, Ticks::UNIX_EPOCH);
        let mut batcher = Batcher::default();
        let field = |name: String| Field { name: name.into(), value: Value::Boolean(true) };
        let mut fill = |fields: &[(&str, usize)]| {
            for &(partition, from) in fields {
                let slot = batcher.slot(&table, &partition.into());
                let fields = (from..from + 40).map(|n| field(format!("f{n}"))).collect();
                let record = Record { fields, ..Record::default() };
                batcher.push(slot, RowKey::new(Ticks::UNIX_EPOCH, 1, 0), "s", &record);
            }
            batcher.take()
        };
        let names = |batches: &[Batch]| batches.iter().map(|batch| batch.names().len()).collect::<Vec<_>>();
        // The names of `one`, and the names that only `two` has.
        assert_eq!(names(&fill(&[("one", 0), ("two", 10)])), [41, 51]);
        assert_eq!(names(&fill(&[("one", 0), ("two", 10)])), [41, 51]);
        assert_eq!(names(&fill(&[("one", 0), ("two", 10)])), [51, 51]);
        // More names than a vocabulary keeps.
        assert_eq!(names(&fill(&[("three", 100)])), [91]);
        let last = fill(&[("one", 0)]);
        assert_eq!(names(&last), [41]);
        let row = last[0].rows().next().expect("a row");
        assert_eq!(row.properties().count(), 41);
    }
}
