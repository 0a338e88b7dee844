//! Rows of one partition that go together: as a transaction, byte for byte each time, until the service took them or said
//! which of them it never will.

use super::counters::SetAside;
use super::lane::{LaneId, Serial};
use super::wire;
use crate::azure::{Account, Pushed, SealedTransaction, Transaction};
use crate::key::RowKey;
use crate::store::page::Page;
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
