//! Rows of one partition that go together: as a transaction, byte for byte each time, until the service took them or said
//! which of them it never will.

use super::counters::SetAside;
use super::lane::{LaneId, Serial};
use super::wire;
use daytable_azure::{Account, Pushed, SealedTransaction, Transaction};
use daytable_model::key::RowKey;
use daytable_store::page::Page;
use std::sync::Arc;

/// A row, and the page that it is of.
#[derive(Clone)]
pub(super) struct RowAt {
    pub(super) unit: Serial,
    pub(super) page: Arc<Page>,
    pub(super) index: usize,
}

impl RowAt {
    pub(super) fn key(&self) -> RowKey {
        self.page.key(self.index)
    }
}

/// See the module's head.
pub(super) struct Flight {
    pub(super) lane: LaneId,
    pub(super) rows: Vec<RowAt>,
    pub(super) sealed: SealedTransaction,
    pub(super) tries: u32,
    /// Whether an index that the service named was followed already: from then on it is looked for by halving, so that a
    /// service that names the wrong one is asked seven times and not a hundred.
    pub(super) is_hinted: bool,
    /// Why its rows go to the dead letters and not to the service, and what is said of it.
    pub(super) set_aside: Option<(SetAside, String)>,
}

impl Flight {
    /// Rows that are not sent, but set aside.
    pub(super) fn aside(account: &Account, lane: LaneId, rows: Vec<RowAt>, why: SetAside, reason: String) -> Flight {
        let sealed = Transaction::new(account, "", "").seal();
        Flight { lane, rows, sealed, tries: 0, is_hinted: false, set_aside: Some((why, reason)) }
    }

    /// Bytes that it keeps.
    pub(super) fn bytes(&self) -> usize {
        self.sealed.bytes().len()
    }

    /// The same rows in two: those of the record at `index` alone, and the others; without an index, halves. None where
    /// there is one record only. A record's rows stay together.
    pub(super) fn split(self, account: &Account, table: &str, partition: &str, index: Option<usize>) -> Split {
        let record = |row: &RowAt| row.key().with_item(0);
        let index = index.filter(|index| !self.is_hinted && *index < self.rows.len());
        let Flight { lane, rows, .. } = &self;
        let (first, second): (Vec<RowAt>, Vec<RowAt>) = match index {
            Some(index) => {
                let refused = record(&rows[index]);
                rows.iter().cloned().partition(|row| record(row) == refused)
            }
            None => {
                let middle = record(&rows[rows.len() / 2]);
                let at = rows.iter().position(|row| record(row) == middle).unwrap_or(0);
                // Where the first record is the longer half, it is the half.
                let at = if at == 0 { rows.iter().take_while(|row| record(row) == middle).count() } else { at };
                (rows[..at].to_vec(), rows[at..].to_vec())
            }
        };
        if first.is_empty() || second.is_empty() {
            return Split::One(self);
        }
        let is_hinted = self.is_hinted || index.is_some();
        let part = |rows: Vec<RowAt>| seal(account, table, partition, *lane, rows, is_hinted);
        Split::Two(part(first), part(second))
    }
}

/// What [`Flight::split`] makes.
pub(super) enum Split {
    /// There is one record only.
    One(Flight),
    Two(Flight, Flight),
}

/// A flight of rows that were in one before: they fit.
pub(super) fn seal(
    account: &Account,
    table: &str,
    partition: &str,
    lane: LaneId,
    rows: Vec<RowAt>,
    is_hinted: bool,
) -> Flight {
    let mut transaction = Transaction::new(account, table, partition);
    for row in &rows {
        let pushed = wire::push(&mut transaction, &row.page, row.index);
        debug_assert_eq!(pushed, Pushed::Added);
    }
    Flight { lane, rows, sealed: transaction.seal(), tries: 0, is_hinted, set_aside: None }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use daytable_model::batch::Batch;
    use daytable_model::key::{DayTable, Period, TableName};
    use daytable_model::property::Property;
    use daytable_model::time::Ticks;
    use daytable_store::page::PageBuilder;
    use proptest::prelude::*;

    pub(in crate::outbox) fn account() -> Account {
        "AccountName=acme;AccountKey=c2VjcmV0".parse().expect("an account")
    }

    /// Records of so many rows each, as rows of a page.
    fn rows(records: &[u16]) -> Vec<RowAt> {
        let log = TableName::new("Log").expect("a name");
        let mut batch = Batch::new(DayTable::at(&log, Period::Day, Ticks::UNIX_EPOCH), "web".into());
        for (position, rows) in (0..).zip(records) {
            for item in 0..*rows {
                let key = RowKey::new(Ticks::UNIX_EPOCH, 7, position).with_item(item);
                let mut row = batch.begin(key, None);
                row.add("Message", Property::String("text"));
                row.finish();
            }
        }
        let mut builder = PageBuilder::new();
        builder.push_batch(&batch);
        let encoded = builder.build().pages.remove(0);
        let page = Arc::new(Page::decode(&encoded.header, &encoded.body).expect("a page"));
        (0..page.len()).map(|index| RowAt { unit: 1, page: page.clone(), index }).collect()
    }

    fn flight(rows: Vec<RowAt>) -> Flight {
        seal(&account(), "Log20261121", "web", 1, rows, false)
    }

    proptest! {
        /// Whatever is split, by an index or not: no row is lost, none is in both, a record stays together, and what cannot be
        /// split is one record.
        #[test]
        fn parts_are_the_whole(records in prop::collection::vec(1u16..4, 1..30), index in prop::option::of(0usize..100)) {
            let rows = rows(&records);
            let keys = |flight: &Flight| flight.rows.iter().map(RowAt::key).collect::<Vec<_>>();
            let whole: Vec<RowKey> = rows.iter().map(RowAt::key).collect();
            match flight(rows).split(&account(), "Log20261121", "web", index) {
                Split::One(flight) => {
                    prop_assert_eq!(records.len(), 1);
                    prop_assert_eq!(keys(&flight), whole);
                }
                Split::Two(first, second) => {
                    let (one, other) = (keys(&first), keys(&second));
                    prop_assert!(!one.is_empty() && !other.is_empty());
                    let record = |key: &RowKey| key.with_item(0);
                    prop_assert!(one.iter().map(record).all(|record| !other.iter().any(|key| key.with_item(0) == record)));
                    if let Some(index) = index.filter(|index| *index < whole.len()) {
                        prop_assert!(one.iter().all(|key| record(key) == record(&whole[index])));
                    }
                    let mut all = [one, other].concat();
                    all.sort();
                    prop_assert_eq!(all, whole);
                    prop_assert_eq!(first.sealed.len() + second.sealed.len(), first.rows.len() + second.rows.len());
                }
            }
        }
    }

    /// However the service misleads: a single bad record of a hundred is alone after the hint and seven halves.
    #[test]
    fn a_bad_record_is_found_in_few_steps() {
        let all = rows(&[1; 100]);
        let bad = all[61].key();
        let (mut flight, mut steps) = (flight(all), 0);
        // The service says 0, whichever it is.
        loop {
            flight = match flight.split(&account(), "Log20261121", "web", Some(0)) {
                Split::One(flight) => {
                    assert_eq!(flight.rows[0].key(), bad);
                    break;
                }
                Split::Two(first, second) => {
                    let is_in = |flight: &Flight| flight.rows.iter().any(|row| row.key() == bad);
                    if is_in(&first) { first } else { second }
                }
            };
            steps += 1;
        }
        assert!(steps <= 8, "{steps} steps");
    }
}
