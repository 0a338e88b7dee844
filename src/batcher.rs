//! Records gather in open batches, one a table and partition, until they are handed over together.
//!
//! A batch that is full is set aside and another one begins in its place; [`Batcher::take`] gives all of them. Who
//! writes many records to one place asks for its [`Slot`] once and pushes without a look-up.

use crate::batch::Batch;
use crate::entity;
use crate::key::{DayTable, RowKey};
use crate::record::Record;
use std::collections::HashMap;
use std::sync::Arc;

/// Batches that are being filled.
#[derive(Default)]
pub struct Batcher {
    open: Vec<Batch>,
    index: HashMap<(DayTable, Arc<str>), usize, foldhash::quality::RandomState>,
    full: Vec<Batch>,
    bytes: usize,
    /// Which filling this is: [`Batcher::take`] begins the next one.
    filling: u64,
}

/// Where the records of one table and partition go, until the batches are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    filling: u64,
    at: usize,
}

impl Batcher {
    /// The slot of a table and partition.
    pub fn slot(&mut self, table: &DayTable, partition: &Arc<str>) -> Slot {
        let open = &mut self.open;
        let at = *self.index.entry((table.clone(), partition.clone())).or_insert_with(|| {
            open.push(Batch::new(table.clone(), partition.clone()));
            open.len() - 1
        });
        Slot { filling: self.filling, at }
    }

    /// Whether a slot can still be pushed to.
    pub fn holds(&self, slot: Slot) -> bool {
        slot.filling == self.filling
    }

    /// Writes a record to a slot that this filling [holds](Batcher::holds).
    pub fn push(&mut self, slot: Slot, key: RowKey, source: &str, record: &Record<'_>) {
        debug_assert!(self.holds(slot));
        let batch = &mut self.open[slot.at];
        let (rows, bytes) = entity::room_for(record, source);
        if !batch.has_room(rows, bytes) {
            let next = batch.successor();
            self.full.push(std::mem::replace(batch, next));
        }
        let before = batch.bytes();
        entity::append(batch, key, source, record);
        self.bytes += batch.bytes() - before;
    }

    /// Bytes of all batches.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Every batch that has rows; slots end here.
    pub fn take(&mut self) -> Vec<Batch> {
        self.index.clear();
        self.bytes = 0;
        self.filling += 1;
        let mut batches = std::mem::take(&mut self.full);
        batches.extend(self.open.drain(..).filter(|batch| !batch.is_empty()));
        batches
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::ROWS_MAX;
    use crate::key::{Period, TableName};
    use crate::time::Ticks;

    #[test]
    fn a_full_batch_gives_way_to_the_next_and_nothing_is_left_behind() {
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
}
