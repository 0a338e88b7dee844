//! Leaves repeated entries out of a submission: see [`crate::entry`].
//!
//! The committer decides, so of two requests with an entry at one time the second one has the repeat. A repeat of an entry
//! that is not committed yet is acknowledged with the commit of that entry.

use super::Committer;
use crate::StoreError;
use crate::entry::PushedEntries;
use crate::entry::stored::{self, Candidate};
use crate::read::Reader;
use crate::write::queue::{CommitOutcome, Submission};
use daytable_model::batch::Batch;
use daytable_model::key::TableName;
use daytable_model::time::Ticks;
use std::collections::{HashMap, HashSet};

/// A stream in a configured table.
#[derive(Clone, Copy)]
struct TableStream {
    hash: u128,
    floor: Option<Ticks>,
    newest: Ticks,
}

/// The place of an entry's row in a submission.
#[derive(Clone, Copy)]
struct EntryRow {
    batch: u32,
    row: u32,
    /// The number of its configured table.
    table: u32,
}

impl Committer {
    /// Commits what waits if the memory of entries has no more room for a submission.
    pub(super) fn make_room_for_entries(&mut self, submission: &Submission) {
        if submission.entries.is_empty() {
            // Rows of an import may be entries, too.
            let is_import = submission.receipts.is_empty() && submission.advances.is_empty();
            if is_import && submission.batches.iter().any(|batch| !batch.is_empty()) {
                self.entries.forget_floors();
            }
        } else if self.entries.needs_commit() {
            self.commit_or_fail();
        }
    }

    /// Leaves out entries that are stored, or in this submission or in one before it. Returns whether anything is left to be
    /// committed; otherwise the submission is acknowledged.
    pub(super) fn leave_out_repeats(&mut self, submission: &mut Submission) -> bool {
        let entries = std::mem::take(&mut submission.entries);
        if entries.is_empty() {
            return true;
        }
        self.entries.make_room();
        let (rows, tables) = rows_of(&submission.batches);
        let (mut repeats, mut unsure) = (HashSet::new(), Vec::new());
        let mut streams: HashMap<(u32, u32), TableStream, foldhash::fast::RandomState> = HashMap::default();
        let mut last: Option<((u32, u32), TableStream)> = None;
        for entry in entries.entries() {
            let row = usize::try_from(entry.position).ok().and_then(|at| *rows.get(at)?);
            let Some(row) = row else { continue };
            let place = (entry.stream, row.table);
            if last.is_none_or(|(known, _)| known != place) {
                streams.extend(last.take());
                let hash = entries.stream_of(entry).wrapping_add(tables[row.table as usize].1);
                let found = streams.get(&place).copied();
                let found = found.unwrap_or_else(|| TableStream {
                    hash,
                    floor: self.entries.floor_of(hash),
                    newest: Ticks::MIN,
                });
                last = Some((place, found));
            }
            let Some((_, stream)) = &mut last else { continue };
            if !self.entries.add(entries.key_of(entry)) {
                repeats.insert(entry.position);
                continue;
            }
            stream.newest = stream.newest.max(entry.time);
            if stream.floor.is_none_or(|floor| entry.time <= floor) {
                unsure.push((entry, row, *stream));
            }
        }
        streams.extend(last);
        for stream in streams.values().filter(|stream| stream.newest > Ticks::MIN) {
            self.entries.note_newest(stream.hash, stream.newest);
        }
        if !unsure.is_empty() {
            let of_batch = |row: &EntryRow| &submission.batches[row.batch as usize];
            let candidate = |(entry, row, _): &(&crate::entry::PushedEntry, EntryRow, TableStream)| Candidate {
                table: &of_batch(row).table,
                partition: of_batch(row).partition_of(row.row as usize),
                key: of_batch(row).row(row.row as usize).key,
                hash: entry.hash,
            };
            let unsure = unsure.iter().map(|unsure| (unsure.2, candidate(unsure))).collect();
            match self.look_up(unsure) {
                Ok(stored) => repeats.extend(stored),
                // An entry that is stored twice is better than one that is lost.
                Err(error) => {
                    self.entry_reader = None;
                    tracing::warn!(%error, "failed to compare pushed entries with stored ones: repeats among them are stored again");
                }
            }
        }
        self.without(submission, &entries, &repeats)
    }

    /// Asks the store about entries. Returns the positions of those that are stored. Of streams of which nothing is known, the
    /// newest record beside them is read first: usually, all of their entries are newer.
    fn look_up(&mut self, mut unsure: Vec<(TableStream, Candidate<'_>)>) -> Result<Vec<u64>, StoreError> {
        let reader = match &mut self.entry_reader {
            Some(reader) => reader,
            none => none.insert(Reader::open(&self.layout.data)?),
        };
        let (mut newest, mut floors) = (HashMap::new(), HashMap::new());
        for (stream, Candidate { table, partition, .. }) in &mut unsure {
            if stream.floor.is_some() {
                continue;
            }
            let floor = match floors.get(&stream.hash) {
                Some(floor) => *floor,
                None => {
                    let group = stored::group_of(table, partition);
                    let floor = match newest.get(&group) {
                        Some(floor) => *floor,
                        None => *newest.entry(group).or_insert(stored::newest_of(reader, table, partition)?),
                    };
                    self.entries.set_floor(stream.hash, floor);
                    *floors.entry(stream.hash).or_insert(floor)
                }
            };
            stream.floor = Some(floor);
        }
        unsure.retain(|(stream, candidate)| stream.floor.is_none_or(|floor| candidate.key.time() <= floor));
        let candidates: Vec<Candidate<'_>> = unsure.into_iter().map(|(_, candidate)| candidate).collect();
        let stored = stored::are_stored(reader, &candidates)?;
        let found = candidates.iter().zip(stored).filter(|(_, is_stored)| *is_stored);
        Ok(found.map(|(candidate, _)| candidate.key.position()).collect())
    }

    fn without(&mut self, submission: &mut Submission, entries: &PushedEntries, repeats: &HashSet<u64>) -> bool {
        debug_assert!(repeats.len() <= entries.entries().len());
        if repeats.is_empty() {
            return true;
        }
        let is_repeat = |batch: &Batch| batch.rows().any(|row| repeats.contains(&row.key.position()));
        let kept = std::mem::take(&mut submission.batches).into_iter().map(|batch| match is_repeat(&batch) {
            true => batch.without(|key| repeats.contains(&key.position())),
            false => batch,
        });
        submission.batches = kept.filter(|batch| !batch.is_empty()).collect();
        let count = repeats.len() as u64;
        if let Some(receipt) = submission.receipts.first_mut() {
            receipt.records = receipt.records.saturating_sub(count);
        }
        submission.ack.note_repeats(count);
        let is_stored = submission.batches.is_empty() && submission.idempotency.is_none() && self.pending.is_empty();
        if is_stored {
            std::mem::take(&mut submission.ack).complete(CommitOutcome::Committed);
        }
        !is_stored
    }
}

/// The rows of records by their position, and the configured tables that they go to, with hashes of their names.
fn rows_of(batches: &[Batch]) -> (Vec<Option<EntryRow>>, Vec<(TableName, u128)>) {
    let mut rows = Vec::new();
    let mut tables: Vec<(TableName, u128)> = Vec::new();
    for (number, batch) in (0_u32..).zip(batches) {
        let name = batch.table.table();
        let table = tables.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
            tables.push((name.clone(), crate::entry::hash_of_table(name)));
            tables.len() - 1
        });
        for (at, row) in (0_u32..).zip(batch.rows()) {
            let (Ok(position), 0) = (usize::try_from(row.key.position()), row.key.item()) else { continue };
            if rows.len() <= position {
                rows.resize(position + 1, None);
            }
            // A request has far fewer tables than numbers.
            rows[position] = Some(EntryRow { batch: number, row: at, table: table as u32 });
        }
    }
    (rows, tables)
}
