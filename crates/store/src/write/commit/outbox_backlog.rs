//! The committer's part of the outbox: it removes sent rows and empty files, and measures how much waits.

use super::{Committer, OpenDay};
use crate::StoreError;
use crate::format::catalog::commit_clock::CommitTime;
use crate::format::catalog::{FileRole, LiveFile};
use crate::format::day_file::DayFile;
use crate::outbox::{Backlog, DropReason, Forwarding, OutboxRemoval, waiting};
use crate::write::queue::Submission;
use daytable_model::key::{DayTable, TableName};
use daytable_model::time::{self, Ticks};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How often the commit time is recorded and the age of the oldest row is checked.
const LEVEL_INTERVAL: Duration = Duration::from_secs(1);
/// Steps of dropping before the committer continues with other work.
const DROPS_AT_A_TIME: usize = 32;

/// The backlog of the outbox in memory.
#[derive(Default)]
pub(super) struct OutboxBacklog {
    /// The configured table that is not sent.
    stays: Option<TableName>,
    /// The outbox files by name, with the backlog of each.
    files: HashMap<String, (DayTable, Backlog)>,
    /// When a commit time was recorded last.
    stamped: Option<Instant>,
    /// When the level was updated last.
    looked: Option<Instant>,
    /// The oldest commit with waiting rows, and its time.
    oldest: Option<(i64, Ticks)>,
}

impl OutboxBacklog {
    fn oldest(&self) -> Option<i64> {
        self.files.values().filter_map(|(_, waiting)| waiting.oldest).min()
    }

    fn bytes(&self) -> u64 {
        self.files.values().map(|(_, waiting)| waiting.bytes).sum()
    }

    fn entities(&self) -> u64 {
        self.files.values().map(|(_, waiting)| waiting.entities).sum()
    }
}

impl Committer {
    /// Records in the catalog whether rows are forwarded, or reads the recorded setting.
    pub(super) fn decide(&mut self) -> Result<(), StoreError> {
        self.outbox.stays = match &self.options.forwarding {
            Forwarding::AsRecorded => self.catalog.local_table()?,
            Forwarding::Disabled => {
                self.catalog.disable_forwarding()?;
                None
            }
            Forwarding::To(outbox) => {
                self.catalog.set_local_table(&outbox.stays)?;
                Some(outbox.stays.clone())
            }
        };
        Ok(())
    }

    /// The role of the file that accepts the records of `day`.
    pub(super) fn role_of(&self, day: &DayTable) -> FileRole {
        match &self.outbox.stays {
            Some(stays) if !day.table().same(stays) => FileRole::Outbox,
            _ => FileRole::Open,
        }
    }

    /// Adds the indexes that the role of a file needs.
    pub(super) fn prepare(file: &DayFile, role: FileRole) -> Result<(), StoreError> {
        if role == FileRole::Outbox { file.index_unsent() } else { Ok(()) }
    }

    /// Measures the backlog of a folder that was just opened, and removes empty outbox files of past days.
    pub(super) fn survey_outbox(&mut self) -> Result<(), StoreError> {
        self.outbox = OutboxBacklog { stays: self.outbox.stays.take(), ..OutboxBacklog::default() };
        if self.options.forwarding.to().is_none() {
            return Ok(());
        }
        let outbox = self.catalog.files()?.into_iter().filter(|file| file.role == FileRole::Outbox);
        for live in outbox.collect::<Vec<_>>() {
            let path = self.layout.table_file(&live.name);
            let waiting = match self.days.get(&live.day).filter(|open| open.name == live.name) {
                Some(open) => {
                    open.file.index_unsent()?;
                    waiting(open.file.connection())
                }
                None => waiting(&crate::sqlite::open_to_read(&path)?),
            };
            let waiting = waiting.map_err(StoreError::sqlite(&path))?;
            self.outbox.files.insert(live.name, (live.day.clone(), waiting));
            self.remove_if_empty(&live.day)?;
        }
        self.level()
    }

    /// Whether a file has unsent rows, even if another daemon has to send them.
    pub(super) fn waits(&self, file: &LiveFile) -> Result<bool, StoreError> {
        if file.role != FileRole::Outbox {
            return Ok(false);
        }
        let path = self.layout.table_file(&file.name);
        let waiting = waiting(&crate::sqlite::open_to_read(&path)?).map_err(StoreError::sqlite(path))?;
        Ok(waiting.entities > 0)
    }

    /// Removes a file from the backlog.
    pub(super) fn forget_backlog(&mut self, file: &str) {
        self.outbox.files.remove(file);
    }

    /// The time of the next commit, if it is due to be recorded.
    pub(super) fn stamp(&mut self) -> Option<CommitTime> {
        self.options.forwarding.to()?;
        if self.outbox.stamped.is_some_and(|at| at.elapsed() < LEVEL_INTERVAL) {
            return None;
        }
        self.outbox.stamped = Some(Instant::now());
        Some(CommitTime { at: time::now(), oldest: self.outbox.oldest().unwrap_or(self.seq) })
    }

    /// Updates the backlog of these days after a commit wrote to them.
    pub(super) fn update_backlog<'d>(&mut self, days: impl Iterator<Item = &'d DayTable>) -> Result<(), StoreError> {
        if self.options.forwarding.to().is_none() {
            return Ok(());
        }
        for day in days {
            if self.role_of(day) == FileRole::Outbox {
                self.update_backlog_of(day)?;
            }
        }
        self.level()
    }

    fn update_backlog_of(&mut self, day: &DayTable) -> Result<(), StoreError> {
        let Some(OpenDay { file, name, .. }) = self.days.get(day) else { return Ok(()) };
        let waiting = waiting(file.connection()).map_err(StoreError::sqlite(file.path()))?;
        self.outbox.files.insert(name.clone(), (day.clone(), waiting));
        Ok(())
    }

    /// Wakes the sender.
    pub(super) fn notify_sender(&self) {
        if let Some(outbox) = self.options.forwarding.to() {
            (outbox.on_commit)();
        }
    }

    /// Removes sent pages.
    pub(crate) fn remove_sent(&mut self, departures: &[OutboxRemoval]) -> Result<(), StoreError> {
        for OutboxRemoval { day, file: name, pages } in departures {
            // If the file was removed meanwhile, so were its pages.
            let live = self.catalog.file_of(day, FileRole::Outbox)?;
            if live.is_none_or(|live| live.name != *name) || self.role_of(day) != FileRole::Outbox {
                continue;
            }
            daytable_platform::failpoint!("outbox-before-removal");
            let removed = self.writable_day(day)?.file.remove_sent(pages)?;
            daytable_platform::failpoint!("outbox-removed");
            self.compactor.removed(day, &removed);
            self.update_backlog_of(day)?;
        }
        self.level()
    }

    /// Adds rows of a local table, even if the outbox is full.
    pub(crate) fn keep(&mut self, submission: Submission) {
        self.pending.add(submission, None);
    }

    /// Updates the level if it is due.
    pub(super) fn refresh_outbox(&mut self) -> Result<(), StoreError> {
        let is_due = self.outbox.looked.is_none_or(|at| at.elapsed() >= LEVEL_INTERVAL);
        if self.options.forwarding.to().is_some() && is_due { self.level() } else { Ok(()) }
    }

    /// Removes the outbox file of `day` if the day is over and no rows wait. Returns whether it did.
    pub(super) fn remove_if_empty(&mut self, day: &DayTable) -> Result<bool, StoreError> {
        let empty = |(_, (of, waiting)): &(&String, &(DayTable, Backlog))| of == day && waiting.entities == 0;
        let Some((name, _)) = self.outbox.files.iter().find(empty) else { return Ok(false) };
        if day.end() > time::now() {
            return Ok(false);
        }
        let name = name.clone();
        self.catalog.remove_outbox_file(day, &name)?;
        daytable_platform::failpoint!("outbox-let-go");
        if self.days.get(day).is_some_and(|open| open.name == name)
            && let Some(open) = self.days.remove(day)
        {
            self.compactor.forget(day);
            open.file.abandon();
        }
        self.outbox.files.remove(&name);
        self.discard(&[name])?;
        tracing::debug!(table = %day, "all of it was sent");
        Ok(true)
    }

    /// Updates the level. If the outbox is full, blocks submissions or drops the oldest rows.
    fn level(&mut self) -> Result<(), StoreError> {
        self.outbox.looked = Some(Instant::now());
        let mut why = self.note_level()?;
        let Some(options) = self.options.forwarding.to() else { return Ok(()) };
        let is_full = why.is_some() && !options.drops_oldest;
        options.level.set_full(is_full);
        self.queue.set_full(is_full);
        // The next commit or refresh drops the rest.
        for drop in 0..DROPS_AT_A_TIME {
            let Some(bound) = why.filter(|_| !is_full) else { break };
            // More at a time while it is not enough, so that little more goes than must.
            if !self.drop_oldest(bound, 1 << (drop / 4))? {
                break;
            }
            why = self.note_level()?;
        }
        Ok(())
    }

    /// Publishes how much waits. Returns the exceeded limit, if any.
    fn note_level(&mut self) -> Result<Option<DropReason>, StoreError> {
        let Some(options) = self.options.forwarding.to() else { return Ok(None) };
        let oldest = self.outbox.oldest();
        if self.outbox.oldest.map(|(seq, _)| seq) != oldest {
            self.outbox.oldest = match oldest {
                Some(seq) => Some((seq, self.catalog.accepted_at(seq)?.unwrap_or_else(time::now))),
                None => None,
            };
        }
        let accepted = self.outbox.oldest.map(|(_, at)| at);
        options.level.set(self.outbox.bytes(), self.outbox.entities(), accepted);
        let is_old = options.age_max.is_some_and(|max| options.level.age(time::now()) > max);
        Ok(match self.outbox.bytes() > options.bytes_max {
            true => Some(DropReason::Bytes),
            false => is_old.then_some(DropReason::Age),
        })
    }

    /// Drops the `count` oldest pages. Returns whether there were any.
    fn drop_oldest(&mut self, why: DropReason, count: usize) -> Result<bool, StoreError> {
        let oldest = |(_, (_, waiting)): &(&String, &(DayTable, Backlog))| waiting.oldest.unwrap_or(i64::MAX);
        let Some((_, (day, _))) = self.outbox.files.iter().min_by_key(oldest) else { return Ok(false) };
        let day = day.clone();
        let OpenDay { file, .. } = self.writable_day(&day)?;
        let removed = file.remove_oldest(count)?;
        self.compactor.removed(&day, &removed);
        self.update_backlog_of(&day)?;
        if let Some(options) = self.options.forwarding.to() {
            options.level.count_dropped(why, removed.entities);
        }
        Ok(removed.entities > 0)
    }
}
