//! The sender of a backend: a thread that reads the commits of this folder, and notes how far they were delivered.
//!
//! Where the commits after the position are no longer in their pages (the backend is new, or the folder was put back), all rows of
//! later commits are sent as they stand, and then the commits after the last one that there was when this began.

use super::address::backend;
use super::batch::LogsBatch;
use super::delivery::{BackendDelivery, Stopped};
use super::record::{EncodedRecord, RecordOrigin};
use crate::options::ForwardOptions;
use crate::sender::{Sender, SenderStatus};
use daytable_model::property::OwnedValue;
use daytable_platform::lock;
use daytable_query::StoredRecord;
use daytable_query::entity::{OwnedRow, join};
use daytable_store::forward::position::ForwardPosition;
use daytable_store::forward::reader::{Behind, CopyCursor, ForwardError, ForwardReader, RequestLimits};
use daytable_store::forward::wire::WirePage;
use daytable_store::{CommitQueue, ForwardSteps, Reader, StoreError};
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// Pages that are read at once.
const LIMITS: RequestLimits = RequestLimits { bytes: 1 << 20, raw_bytes: 4 << 20, pages: 256 };
/// How often the position is written while it moves.
const NOTE_EVERY: Duration = Duration::from_secs(1);
/// How often it is counted what the backend lacks.
const COUNT_EVERY: Duration = Duration::from_secs(10);
/// The pause after this folder could not be read.
const PAUSE: Duration = Duration::from_secs(5);

/// Starts a sender of the commits of `data_dir` to a backend.
///
/// # Errors
///
/// The thread cannot be started.
pub fn start(
    options: ForwardOptions,
    host: String,
    data_dir: PathBuf,
    (steps, queue): (ForwardSteps, CommitQueue),
) -> std::io::Result<Sender> {
    let status = Arc::new(SenderStatus::default());
    {
        let mut state = lock(&status.state);
        state.to.clone_from(&options.to);
        state.name = Some(host.clone());
    }
    let stop = Arc::new(AtomicBool::new(false));
    let delivery = BackendDelivery::new(options.clone(), queue.clone(), stop.clone(), status.clone());
    let work =
        Work { to: options.to.clone(), host, data_dir, steps, queue, status, delivery, noted: None, counted: None };
    let (queue, status) = (work.queue.clone(), work.status.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let thread = std::thread::Builder::new().name("forward".into()).spawn(move || work.work(&runtime))?;
    Ok(Sender::of_thread(options, stop, queue, thread, status))
}

/// Whether a block forwards to a backend.
pub fn is_backend(options: &ForwardOptions) -> bool {
    backend(&options.to).is_some()
}

struct Work {
    to: String,
    host: String,
    data_dir: PathBuf,
    steps: ForwardSteps,
    queue: CommitQueue,
    status: Arc<SenderStatus>,
    delivery: BackendDelivery,
    /// The position in the catalog, and when it was written.
    noted: Option<(ForwardPosition, Instant)>,
    /// When it was counted what the backend lacks.
    counted: Option<Instant>,
}

/// Why a session ends.
enum SessionEnd {
    Store(StoreError),
    /// Days changed while they were sent as they stand.
    Changed,
    Stopped,
}

impl From<StoreError> for SessionEnd {
    fn from(error: StoreError) -> SessionEnd {
        SessionEnd::Store(error)
    }
}

impl From<Stopped> for SessionEnd {
    fn from(_: Stopped) -> SessionEnd {
        SessionEnd::Stopped
    }
}

impl From<ForwardError> for SessionEnd {
    fn from(error: ForwardError) -> SessionEnd {
        match error {
            ForwardError::Store(error) => SessionEnd::Store(error),
            ForwardError::Incomplete(_) => SessionEnd::Changed,
        }
    }
}

impl Work {
    fn work(mut self, runtime: &Runtime) {
        while !self.delivery.is_stopping() {
            match self.session(runtime) {
                Ok(()) | Err(SessionEnd::Stopped) => break,
                Err(SessionEnd::Changed) => self.wait(PAUSE / 10),
                Err(SessionEnd::Store(error)) => {
                    self.status.failures.fetch_add(1, Ordering::Relaxed);
                    tracing::warn!(to = self.to, %error, "the records to forward cannot be read, which is tried again");
                    lock(&self.status.state).error = Some(error.to_string());
                    self.wait(PAUSE);
                }
            }
        }
    }

    /// Waits, unless it is stopped.
    fn wait(&self, pause: Duration) {
        let until = Instant::now() + pause;
        while !self.delivery.is_stopping() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Sends until something is not as expected.
    fn session(&mut self, runtime: &Runtime) -> Result<(), SessionEnd> {
        let mut reader = ForwardReader::open(&self.data_dir)?;
        let mut position = self.noted_position()?;
        self.noted = Some((position, Instant::now()));
        if !is_own(&reader, position)? {
            position = self.copy(runtime, &mut reader, position.commit)?;
        }
        tracing::info!(to = self.to, commit = position.commit, "forwarding");
        loop {
            if self.delivery.is_stopping() {
                self.note(position, true)?;
                return Ok(());
            }
            self.count(&reader, position, false)?;
            match reader.pages_after(position, LIMITS) {
                Ok(taken) if taken.pages.is_empty() && taken.damaged == 0 => {
                    position = taken.to;
                    self.note(position, true)?;
                    lock(&self.status.state).behind = Behind::default();
                    reader.forget_gone()?;
                    self.queue.wait_for_commit(position.commit, COUNT_EVERY, || !self.delivery.is_stopping());
                }
                Ok(taken) => {
                    self.status.damaged_pages.fetch_add(taken.damaged, Ordering::Relaxed);
                    self.deliver(runtime, &reader, position, &taken.pages)?;
                    position = taken.to;
                    self.note(position, taken.is_all)?;
                }
                Err(ForwardError::Incomplete(_)) => position = self.copy(runtime, &mut reader, position.commit)?,
                Err(ForwardError::Store(error)) => return Err(error.into()),
            }
        }
    }

    /// How far the backend has the commits, by the catalog.
    fn noted_position(&self) -> Result<ForwardPosition, StoreError> {
        let targets = Reader::open(&self.data_dir)?.catalog().forward_targets()?;
        Ok(targets.into_iter().find(|(name, _)| *name == self.to).map(|(_, position)| position).unwrap_or_default())
    }

    /// Writes the position to the catalog, at once or if that is due. The records up to there were delivered.
    fn note(&mut self, position: ForwardPosition, is_due: bool) -> Result<(), StoreError> {
        let is_same = self.noted.is_some_and(|(noted, _)| noted.commit == position.commit);
        let is_due = is_due || self.noted.is_none_or(|(_, at)| at.elapsed() >= NOTE_EVERY);
        // Within a commit, its pages are sent again after a restart.
        if is_same || !is_due || !position.is_between_commits() {
            return Ok(());
        }
        self.steps.note_forwarded(&self.to, position)?;
        self.noted = Some((position, Instant::now()));
        Ok(())
    }

    /// Counts what the backend lacks, at once or if that is due.
    fn count(&mut self, reader: &ForwardReader, position: ForwardPosition, is_due: bool) -> Result<(), StoreError> {
        if is_due || self.counted.is_none_or(|at| at.elapsed() >= COUNT_EVERY) {
            lock(&self.status.state).behind = reader.behind(position.commit, None)?;
            self.counted = Some(Instant::now());
        }
        Ok(())
    }

    /// Sends all rows of commits after `common` as they stand. Returns the position after that.
    fn copy(
        &mut self,
        runtime: &Runtime,
        reader: &mut ForwardReader,
        common: i64,
    ) -> Result<ForwardPosition, SessionEnd> {
        let common = common.min(reader.state()?.committed);
        let checksum = reader.checksum_of(common)?.unwrap_or(0);
        let base = ForwardPosition { commit: common, checksum, ..ForwardPosition::default() };
        // Keeps pages and days of later commits.
        self.note(base, true)?;
        // What comes meanwhile is sent afterwards.
        let (last, mut cursor) = (reader.state()?, CopyCursor::default());
        tracing::info!(to = self.to, after = common, "records are sent as they stand, some of them perhaps again");
        lock(&self.status.state).is_comparing = true;
        while let Some(copied) = reader.copy_after(common, &mut cursor, LIMITS)? {
            self.status.damaged_pages.fetch_add(copied.damaged, Ordering::Relaxed);
            self.deliver(runtime, reader, base, &copied.pages)?;
            self.count(reader, base, false)?;
        }
        lock(&self.status.state).is_comparing = false;
        reader.rewind();
        let position =
            ForwardPosition { commit: last.committed, checksum: last.checksum, ..ForwardPosition::default() };
        self.note(position, true)?;
        Ok(position)
    }

    /// Delivers the records of pages.
    fn deliver(
        &mut self,
        runtime: &Runtime,
        reader: &ForwardReader,
        position: ForwardPosition,
        pages: &[WirePage],
    ) -> Result<(), SessionEnd> {
        let mut batch = LogsBatch::default();
        for page in pages {
            let records = match records_of(page) {
                Ok(records) => records,
                Err(error) => {
                    // It was checked when it was read, so this happens to bytes that are wrong since they were written.
                    tracing::error!(%error, "a page is damaged: its rows are not forwarded; run `daytable verify`");
                    self.status.damaged_pages.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
            };
            let table = page.table.table().as_str();
            let origin = RecordOrigin { host: &self.host, table, arrived: page.arrived() };
            let encoded: Vec<EncodedRecord> = records.iter().map(|record| EncodedRecord::new(record, origin)).collect();
            for record in encoded {
                if batch.is_full_for(&record) {
                    self.send(runtime, reader, position, &std::mem::take(&mut batch))?;
                }
                batch.push(record);
            }
        }
        self.send(runtime, reader, position, &batch)
    }

    fn send(
        &mut self,
        runtime: &Runtime,
        reader: &ForwardReader,
        position: ForwardPosition,
        batch: &LogsBatch,
    ) -> Result<(), SessionEnd> {
        let status = self.status.clone();
        let mut while_waiting = || {
            // What cannot be counted now is counted later.
            if let Ok(behind) = reader.behind(position.commit, None) {
                lock(&status.state).behind = behind;
            }
        };
        Ok(self.delivery.deliver(runtime, batch, &mut while_waiting)?)
    }
}

/// Whether a position is one of this folder. Where the checksum is not kept any more, the number decides.
fn is_own(reader: &ForwardReader, position: ForwardPosition) -> Result<bool, StoreError> {
    if position.commit > reader.state()?.committed {
        return Ok(false);
    }
    Ok(reader.checksum_of(position.commit)?.is_none_or(|checksum| checksum == position.checksum))
}

/// The records of a page.
fn records_of(page: &WirePage) -> Result<Vec<StoredRecord>, daytable_store::forward::wire::BodyError> {
    let mut rows: Vec<OwnedRow> = Vec::new();
    page.each_row(|row| {
        let properties = row.properties.iter().map(|(name, value)| ((*name).to_owned(), OwnedValue::from(*value)));
        rows.push(OwnedRow {
            partition: row.partition.clone(),
            key: row.key,
            level: row.level,
            properties: properties.collect(),
        });
    })?;
    let table: Arc<str> = page.table.to_string().into();
    let records = join(rows.into_iter().map(Ok::<_, Infallible>));
    Ok(records.map(|record| StoredRecord::new(table.clone(), record.unwrap_or_else(|never| match never {}))).collect())
}
