//! A transaction of one partition's rows. Every attempt sends the same bytes, until the service accepts all rows or
//! names rows that it rejects permanently.

use super::counters::DeadLetterReason;
use super::queued::{QueueId, QueuedRow};
use crate::entity;
use daytable_azure::{Pushed, SealedTransaction, StorageAccount, Transaction};
use std::collections::HashMap;

/// A transaction and its rows.
pub(super) struct TransactionRequest {
    pub(super) queue: QueueId,
    pub(super) rows: Vec<QueuedRow>,
    pub(super) sealed: SealedTransaction,
    pub(super) tries: u32,
    /// Whether the rows were already split at an index that the service named. Later splits halve the rows: if the
    /// service names the wrong row, seven requests suffice instead of a hundred.
    is_hinted: bool,
    /// Why the rows become dead letters, and the message of the service.
    pub(super) dead_letter: Option<(DeadLetterReason, String)>,
}

impl TransactionRequest {
    pub(super) fn new(queue: QueueId, rows: Vec<QueuedRow>, sealed: SealedTransaction) -> TransactionRequest {
        TransactionRequest { queue, rows, sealed, tries: 0, is_hinted: false, dead_letter: None }
    }

    /// Rows that become dead letters without an attempt to send them.
    pub(super) fn dead_letters(
        account: &StorageAccount,
        queue: QueueId,
        rows: Vec<QueuedRow>,
        reason: DeadLetterReason,
        text: String,
    ) -> TransactionRequest {
        let nothing = Transaction::new(account, "", "").seal();
        TransactionRequest { dead_letter: Some((reason, text)), ..TransactionRequest::new(queue, rows, nothing) }
    }

    /// Rows of a larger transaction, so they fit.
    fn sealed(
        account: &StorageAccount,
        table: &str,
        partition: &str,
        queue: QueueId,
        rows: Vec<QueuedRow>,
        is_hinted: bool,
    ) -> TransactionRequest {
        let mut transaction = Transaction::new(account, table, partition);
        for row in &rows {
            let pushed = entity::push(&mut transaction, &row.page, row.index);
            debug_assert_eq!(pushed, Pushed::Added);
        }
        TransactionRequest { is_hinted, ..TransactionRequest::new(queue, rows, transaction.seal()) }
    }

    /// Bytes in memory.
    pub(super) fn bytes(&self) -> usize {
        self.sealed.bytes().len()
    }

    /// Splits the rows into two requests: the record at `index` and the other records, or two halves without an index.
    /// The rows of a record stay together.
    pub(super) fn split(self, account: &StorageAccount, table: &str, partition: &str, index: Option<usize>) -> Split {
        let record = |row: &QueuedRow| row.key().with_item(0);
        let index = index.filter(|index| !self.is_hinted && *index < self.rows.len());
        let TransactionRequest { queue, rows, .. } = &self;
        let (first, second): (Vec<QueuedRow>, Vec<QueuedRow>) = match index {
            Some(index) => {
                let refused = record(&rows[index]);
                rows.iter().cloned().partition(|row| record(row) == refused)
            }
            None => {
                let middle = record(&rows[rows.len() / 2]);
                let at = rows.iter().position(|row| record(row) == middle).unwrap_or(0);
                // If the first record is longer than half, the first part is that record.
                let at = if at == 0 { rows.iter().take_while(|row| record(row) == middle).count() } else { at };
                (rows[..at].to_vec(), rows[at..].to_vec())
            }
        };
        if first.is_empty() || second.is_empty() {
            return Split::One(self);
        }
        let is_hinted = self.is_hinted || index.is_some();
        let part =
            |rows: Vec<QueuedRow>| TransactionRequest::sealed(account, table, partition, *queue, rows, is_hinted);
        Split::Two(part(first), part(second))
    }
}

/// The result of [`TransactionRequest::split`].
pub(super) enum Split {
    /// The request has only one record.
    One(TransactionRequest),
    Two(TransactionRequest, TransactionRequest),
}

/// The requests in flight: to the service, or to the dead letters.
#[derive(Default)]
pub(super) struct RequestsUnderWay {
    requests: HashMap<u64, TransactionRequest>,
    dead_letters: usize,
}

impl RequestsUnderWay {
    pub(super) fn insert(&mut self, number: u64, request: TransactionRequest) {
        self.dead_letters += usize::from(request.dead_letter.is_some());
        self.requests.insert(number, request);
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<TransactionRequest> {
        let request = self.requests.remove(&number)?;
        self.dead_letters -= usize::from(request.dead_letter.is_some());
        Some(request)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Requests in flight to the service.
    pub(super) fn to_service(&self) -> usize {
        self.requests.len() - self.dead_letters
    }

    /// Requests in flight to the dead letters.
    pub(super) fn to_dead_letters(&self) -> usize {
        self.dead_letters
    }

    /// Requests of the queues that `is_one` selects.
    pub(super) fn count(&self, is_one: impl Fn(QueueId) -> bool) -> usize {
        self.requests.values().filter(|request| is_one(request.queue)).count()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use daytable_model::batch::Batch;
    use daytable_model::key::{DayTable, Period, RowKey, TableName};
    use daytable_model::property::Property;
    use daytable_model::time::Ticks;
    use daytable_store::page::{Page, PageBuilder};
    use proptest::prelude::*;
    use std::sync::Arc;

    pub(in crate::outbox) fn account() -> StorageAccount {
        "AccountName=acme;AccountKey=c2VjcmV0".parse().expect("an account")
    }

    /// Records with these numbers of rows, as rows of a page.
    fn rows(records: &[u16]) -> Vec<QueuedRow> {
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
        (0..page.len()).map(|index| QueuedRow { number: 1, page: page.clone(), index }).collect()
    }

    fn request(rows: Vec<QueuedRow>) -> TransactionRequest {
        TransactionRequest::sealed(&account(), "Log20261121", "web", 1, rows, false)
    }

    proptest! {
        /// For any split, with or without an index: no row is lost or duplicated, records stay together, and an
        /// indivisible request is one record.
        #[test]
        fn parts_are_the_whole(records in prop::collection::vec(1u16..4, 1..30), index in prop::option::of(0usize..100)) {
            let rows = rows(&records);
            let keys = |request: &TransactionRequest| request.rows.iter().map(QueuedRow::key).collect::<Vec<_>>();
            let whole: Vec<RowKey> = rows.iter().map(QueuedRow::key).collect();
            match request(rows).split(&account(), "Log20261121", "web", index) {
                Split::One(request) => {
                    prop_assert_eq!(records.len(), 1);
                    prop_assert_eq!(keys(&request), whole);
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

    /// Even with misleading indexes, a single bad record of a hundred is isolated after the hint and seven halvings.
    #[test]
    fn a_bad_record_is_found_in_few_steps() {
        let all = rows(&[1; 100]);
        let bad = all[61].key();
        let (mut request, mut steps) = (request(all), 0);
        // The service always names index 0.
        loop {
            request = match request.split(&account(), "Log20261121", "web", Some(0)) {
                Split::One(request) => {
                    assert_eq!(request.rows[0].key(), bad);
                    break;
                }
                Split::Two(first, second) => {
                    let is_in = |request: &TransactionRequest| request.rows.iter().any(|row| row.key() == bad);
                    if is_in(&first) { first } else { second }
                }
            };
            steps += 1;
        }
        assert!(steps <= 8, "{steps} steps");
    }
}
