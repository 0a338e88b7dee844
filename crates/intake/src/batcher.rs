//! Open batches, one for each table and partition, which are submitted together. Partitions with few rows share batches.
//!
//! A full batch is set aside, and an empty one replaces it. [`Batcher::take`] returns all batches. A caller that writes
//! many records to one place keeps a [`Slot`] and needs no lookup.

use daytable_model::batch::{Batch, Vocabulary};
use daytable_model::entity::SizedRecord;
use daytable_model::key::{DayTable, RowKey};
use daytable_model::record::Record;
use std::collections::HashMap;
use std::sync::Arc;

/// Memory of an empty batch in bytes: its lists, and its page in the commit.
const BATCH_MEMORY: usize = 1280;
/// Memory of a place in bytes, without the name of its partition: the index, the route of its instance, and what the commit
/// knows of its partition.
const PLACE_MEMORY: usize = 512;
/// Partitions of a filling that have batches of their own from their first row on. With so few, no batch is shared.
const OWN_PLACES: usize = 8;
/// Records of each further partition in batches of many partitions. A partition with more has batches of its own from then
/// on. If on average partitions had more of them in the last filling, all have their own from the beginning.
const SHARED_RECORDS: usize = 4;

/// Batches that are being filled.
#[derive(Default)]
pub struct Batcher {
    places: Vec<Place>,
    index: HashMap<(DayTable, Arc<str>), usize, foldhash::quality::RandomState>,
    /// Batches of one partition each.
    open: Vec<Batch>,
    full: Vec<Batch>,
    /// Batches of many partitions, one for each table.
    shared: Vec<SharedBatch>,
    shared_index: HashMap<DayTable, usize, foldhash::quality::RandomState>,
    full_shared: Vec<Batch>,
    /// The property names that the batches of the last filling used.
    vocabulary: Vocabulary,
    bytes: usize,
    records: usize,
    /// Bytes of the names of all partitions.
    name_bytes: usize,
    /// Whether partitions had so many records in the last filling that sharing is not worth it.
    had_many_records: bool,
    /// The number of this filling: [`Batcher::take`] begins the next.
    filling: u64,
}

/// Where the rows of one table and partition go.
enum Place {
    /// The number of its batch in `open`.
    Own(usize),
    Shared(SharedPlace),
}

/// A partition whose rows are in batches of many partitions.
struct SharedPlace {
    partition: Arc<str>,
    /// The number of its table's batch in `shared`.
    at: usize,
    /// The serial number of the batch that its last row went to, and its own number there.
    last: Option<(u64, u8)>,
    /// Its records so far.
    records: usize,
}

/// The batch of many partitions of a table that is being filled.
struct SharedBatch {
    batch: Batch,
    /// Counts the batches of this table in a filling.
    serial: u64,
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
        let known = self.index.get(&(table.clone(), partition.clone()));
        let at = known.copied().unwrap_or_else(|| self.add_place(table, partition));
        Slot { filling: self.filling, at }
    }

    fn add_place(&mut self, table: &DayTable, partition: &Arc<str>) -> usize {
        let is_own = self.had_many_records || self.places.len() < OWN_PLACES;
        let place = if is_own {
            Place::Own(self.add_open(table, partition))
        } else {
            let at = self.shared_of(table);
            Place::Shared(SharedPlace { partition: partition.clone(), at, last: None, records: 0 })
        };
        self.index.insert((table.clone(), partition.clone()), self.places.len());
        self.places.push(place);
        self.name_bytes += partition.len();
        self.places.len() - 1
    }

    /// A request is one filling, and its records resemble each other: names and their memory are made once.
    fn names(&self) -> Vocabulary {
        let latest = || self.open.last().and_then(Batch::vocabulary);
        let latest = if self.vocabulary.is_empty() { latest() } else { None };
        latest.unwrap_or_else(|| self.vocabulary.clone())
    }

    fn add_open(&mut self, table: &DayTable, partition: &Arc<str>) -> usize {
        self.open.push(Batch::with_vocabulary(&self.names(), table.clone(), partition.clone()));
        self.open.len() - 1
    }

    fn shared_of(&mut self, table: &DayTable) -> usize {
        if let Some(at) = self.shared_index.get(table) {
            return *at;
        }
        self.shared.push(SharedBatch { batch: Batch::of_many(&self.names(), table.clone()), serial: 0 });
        self.shared_index.insert(table.clone(), self.shared.len() - 1);
        self.shared.len() - 1
    }

    /// Whether a slot is still valid.
    pub fn holds(&self, slot: Slot) -> bool {
        slot.filling == self.filling
    }

    /// Writes a record to a slot that is still [valid](Batcher::holds).
    pub fn push(&mut self, slot: Slot, key: RowKey, source: &str, record: &Record<'_>) {
        debug_assert!(self.holds(slot));
        let measured = SizedRecord::new(record, source);
        let (rows, bytes) = measured.room();
        if let Place::Shared(place) = &self.places[slot.at]
            && place.records == SHARED_RECORDS
        {
            // Never again to a shared one: the commit reads those first, and of equal keys the later row wins.
            let (table, partition) = (self.shared[place.at].batch.table.clone(), place.partition.clone());
            self.places[slot.at] = Place::Own(self.add_open(&table, &partition));
        }
        let batch = match &mut self.places[slot.at] {
            Place::Own(at) => {
                let batch = &mut self.open[*at];
                self.full.extend(make_room(batch, rows, bytes));
                batch
            }
            Place::Shared(place) => {
                let SharedBatch { batch, serial } = &mut self.shared[place.at];
                if let Some(full) = make_room(batch, rows, bytes) {
                    self.full_shared.push(full);
                    *serial += 1;
                }
                match place.last {
                    Some((of, number)) if of == *serial => batch.continue_partition(number),
                    _ => place.last = Some((*serial, batch.begin_partition(place.partition.clone()))),
                }
                place.records += 1;
                batch
            }
        };
        let before = batch.bytes();
        measured.append(batch, key);
        self.bytes += batch.bytes() - before;
        self.records += 1;
    }

    /// Bytes of all batches.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Memory of all batches in bytes, at most. A quarter is added to the rows: a batch reserves an eighth more than
    /// its predecessor needed, and the allocator rounds up.
    pub fn memory(&self) -> usize {
        let batches = self.open.len() + self.full.len() + self.shared.len() + self.full_shared.len();
        // The route has a name, too.
        let places = self.places.len() * PLACE_MEMORY + 2 * self.name_bytes;
        self.bytes + self.bytes / 4 + batches * BATCH_MEMORY + places
    }

    /// Takes every batch with rows, and ends all slots. The rows of a partition are in the order in which they were pushed.
    pub fn take(&mut self) -> Vec<Batch> {
        self.had_many_records = self.records > self.places.len() * SHARED_RECORDS;
        self.learn();
        self.places.clear();
        self.index.clear();
        self.shared_index.clear();
        self.bytes = 0;
        self.records = 0;
        self.name_bytes = 0;
        self.filling += 1;
        let mut batches = std::mem::take(&mut self.full_shared);
        batches.extend(self.shared.drain(..).map(|shared| shared.batch).filter(|batch| !batch.is_empty()));
        batches.append(&mut self.full);
        batches.extend(self.open.drain(..).filter(|batch| !batch.is_empty()));
        batches
    }

    /// Starts the next batches with the property names of this one. After a few batches, every batch knows the usual
    /// names. If there are too many names, the vocabulary is cleared.
    fn learn(&mut self) {
        let open = self.open.iter().chain(self.shared.iter().map(|shared| &shared.batch));
        let mut known = open.filter_map(Batch::vocabulary).peekable();
        if known.peek().is_none() {
            self.vocabulary = Vocabulary::default();
        } else if let Some(learnt) = known.find(|known| !known.is_same(&self.vocabulary)) {
            self.vocabulary = learnt;
        }
    }
}

/// Replaces a batch without room for this many rows and bytes by an empty one, and returns it.
fn make_room(batch: &mut Batch, rows: usize, bytes: usize) -> Option<Batch> {
    let next = (!batch.has_room(rows, bytes)).then(|| batch.successor())?;
    Some(std::mem::replace(batch, next))
}

#[cfg(test)]
mod tests {
    use super::*;
    use daytable_model::batch::ROWS_MAX;
    use daytable_model::key::{Period, TableName};
    use daytable_model::record::{Field, Value};
    use daytable_model::time::Ticks;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

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

    /// Rows of a partition leave in the order in which they came, whatever batches they are in.
    fn taken(batcher: &mut Batcher) -> BTreeMap<(DayTable, String), Vec<u64>> {
        let mut rows: BTreeMap<(DayTable, String), Vec<u64>> = BTreeMap::new();
        for batch in batcher.take() {
            for (number, row) in batch.rows().enumerate() {
                let place = (batch.table.clone(), batch.partition_of(number).to_string());
                rows.entry(place).or_default().push(row.key.position());
            }
        }
        rows
    }

    fn day(date: u32) -> DayTable {
        let time = Ticks::from_date(2026, 11, date).expect("a date");
        DayTable::at(&TableName::new("Log").expect("a name"), Period::Day, time)
    }

    #[test]
    fn partitions_with_few_rows_share_batches() {
        let mut batcher = Batcher::default();
        let mut fill = |partitions: u64, rows: u64| {
            for n in 0..partitions * rows {
                let slot = batcher.slot(&day(20), &format!("p{}", n % partitions).into());
                let record = Record { message: "text".into(), ..Record::default() };
                batcher.push(slot, RowKey::new(Ticks::UNIX_EPOCH, 1, n), "s", &record);
            }
            let batches = batcher.take();
            assert_eq!(batches.iter().map(|batch| batch.len() as u64).sum::<u64>(), partitions * rows);
            let shared = batches.iter().filter(|batch| batch.is_of_many());
            (batches.len(), shared.map(|batch| batch.len() as u64).sum::<u64>())
        };
        let own = OWN_PLACES as u64;
        assert_eq!(fill(own, 1), (OWN_PLACES, 0));
        assert_eq!(fill(own + 1000, 1), (OWN_PLACES + 10, 1000));
        // Partitions with more rows have batches of their own, at once in the fillings after that.
        assert_eq!(fill(own + 100, 5), (OWN_PLACES + 104, 400));
        assert_eq!(fill(own + 100, 5), (OWN_PLACES + 100, 0));
        assert_eq!(fill(own + 100, 1), (OWN_PLACES + 100, 0));
        assert_eq!(fill(own + 100, 1), (OWN_PLACES + 1, 100));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn rows_of_a_partition_stay_in_their_order(
            fillings in proptest::collection::vec(
                proptest::collection::vec((20_u32..23, 0_usize..20, prop_oneof![20 => 0_usize..2, 1 => Just(2)]), 0..200),
                1..4,
            ),
        ) {
            let mut batcher = Batcher::default();
            for filling in fillings {
                let mut expected: BTreeMap<(DayTable, String), Vec<u64>> = BTreeMap::new();
                for (n, (date, partition, size)) in (0..).zip(filling) {
                    // The last kind has items.
                    let text = "x".repeat([3, 300, 40_000][size]);
                    let record = Record { message: text.as_str().into(), ..Record::default() };
                    let partition = format!("p{partition}");
                    let slot = batcher.slot(&day(date), &partition.as_str().into());
                    let before = batcher.bytes();
                    batcher.push(slot, RowKey::new(Ticks::UNIX_EPOCH, 1, n), "s", &record);
                    prop_assert!(batcher.bytes() > before);
                    let mut of_one = Batch::new(day(date), partition.as_str().into());
                    daytable_model::entity::append(&mut of_one, RowKey::new(Ticks::UNIX_EPOCH, 1, n), "s", &record);
                    let rows = of_one.rows().map(|row| row.key.position());
                    expected.entry((day(date), partition)).or_default().extend(rows);
                }
                prop_assert_eq!(taken(&mut batcher), expected);
                prop_assert_eq!(batcher.bytes(), 0);
            }
        }
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
