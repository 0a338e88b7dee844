//! Finds waiting pages in the outbox's files, and gives each page to the queue of its partition.

use super::page_removal::PageRemoval;
use super::partition_queue::{PAGES_MAX, QueuedPage};
use super::queued::QueueId;
use super::queues::Queues;
use daytable_model::time::Ticks;
use daytable_store::StoreError;
use daytable_store::catalog::LiveFile;
use daytable_store::outbox::{OutboxPosition, OutboxReader, WaitingPage};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest time between two scans.
const SCAN_EVERY: Duration = Duration::from_secs(5);
/// The shortest time between two scans.
pub(super) const SCAN_PAUSE: Duration = Duration::from_millis(10);
/// How long to wait before a file that could not be read is read again.
const READ_AGAIN: Duration = Duration::from_secs(1);
/// Queues that get pages before answers are handled again.
const QUEUES_AT_A_TIME: usize = 64;

/// The read positions in the outbox's files.
#[derive(Default)]
pub(super) struct PageScan {
    last: Option<Instant>,
    /// Read position of each file.
    positions: HashMap<Arc<str>, OutboxPosition>,
    newest: Option<Ticks>,
}

impl PageScan {
    /// Whether a scan is due. `has_news`: rows were committed.
    pub(super) fn is_due(&self, has_news: bool, now: Instant) -> bool {
        self.last.is_none_or(|at| at + SCAN_EVERY <= now || has_news && at + SCAN_PAUSE <= now)
    }

    /// The newest timestamp of a record.
    pub(super) fn newest(&self) -> Option<Ticks> {
        self.newest
    }

    /// Reads the newest record time again, and drops the state of removed files.
    pub(super) fn refresh(&mut self, unsent: &OutboxReader, queues: &mut Queues) {
        match unsent.forget_gone().and_then(|()| unsent.newest()) {
            Ok(newest) => self.newest = newest,
            Err(error) => tracing::error!(%error, "failed to read the newest time of the outbox, retrying"),
        }
        if let Ok(files) = unsent.files() {
            queues.retain_files(|name| files.iter().any(|live| live.name == name));
            self.positions.retain(|name, _| queues.live_file(name).is_some());
        }
    }

    /// Scans all files. Returns whether more pages wait.
    pub(super) fn scan(
        &mut self,
        unsent: &OutboxReader,
        queues: &mut Queues,
        removal: &mut PageRemoval,
        now: Instant,
    ) -> bool {
        self.last = Some(now);
        let files = unsent.files().and_then(|files| {
            if self.newest.is_none() {
                self.newest = unsent.newest()?;
            }
            Ok(files)
        });
        let mut has_more = false;
        for live in files.inspect_err(log_unreadable).unwrap_or_default() {
            let table = live.day.clone();
            // A file that cannot be read does not delay other days.
            match self.scan_file(unsent, queues, removal, live, now) {
                Ok(more) => has_more |= more,
                Err(error) => {
                    tracing::error!(%error, %table, "failed to read rows that wait to be sent: they stay in the outbox, retrying")
                }
            }
        }
        has_more
    }

    fn scan_file(
        &mut self,
        unsent: &OutboxReader,
        queues: &mut Queues,
        removal: &mut PageRemoval,
        live: LiveFile,
        now: Instant,
    ) -> Result<bool, StoreError> {
        let name: Arc<str> = live.name.as_str().into();
        queues.add_file(&name, live.clone());
        // Stored only after all pages reached a queue: after an error the scan starts again, and known pages are
        // passed over.
        let mut position = self.positions.get(&name).cloned().unwrap_or_default();
        let news = unsent.new_pages(&live, &mut position)?;
        let mut touched = BTreeSet::new();
        for partition in news.behind {
            if let Some(id) = queue_of(unsent, queues, &name, &live, partition)? {
                queues.get_mut(id).into_iter().for_each(|queue| queue.set_unread(true));
                touched.insert(id);
            }
        }
        for head in news.pages {
            let Some(id) = queue_of(unsent, queues, &name, &live, head.partition())? else { continue };
            let is_full = queues.are_full();
            let Some(queue) = queues.get_mut(id) else { continue };
            touched.insert(id);
            if queue.has_unread() || queue.known().contains(&head.sent()) {
                continue;
            }
            if is_full || queue.page_count() >= PAGES_MAX {
                queue.set_unread(true);
                continue;
            }
            add_pages(queues, removal, id, vec![head], now);
        }
        touched.into_iter().for_each(|id| queues.schedule(id, now));
        self.positions.insert(name, position);
        Ok(news.has_more)
    }
}

/// Gives pages to queues that lack pages.
pub(super) fn fill_queues(unsent: &OutboxReader, queues: &mut Queues, removal: &mut PageRemoval, now: Instant) {
    queues.schedule_due(now);
    for _ in 0..QUEUES_AT_A_TIME {
        let Some(id) = queues.pop_hungry() else { return };
        let Some(queue) = queues.get(id) else { continue };
        let Some(file) = queues.file(queue) else { continue };
        let room = PAGES_MAX.saturating_sub(queue.page_count());
        match unsent.pages_of(file, queue.partition_id(), queue.known(), room, queues.is_newest_first()) {
            Ok((heads, has_more)) => {
                add_pages(queues, removal, id, heads, now);
                queues.get_mut(id).into_iter().for_each(|queue| queue.set_unread(has_more));
                queues.schedule(id, now);
            }
            Err(error) => {
                log_unreadable(&error);
                queues.schedule_at(id, now + READ_AGAIN);
            }
        }
    }
}

fn log_unreadable(error: &StoreError) {
    tracing::error!(%error, "failed to read rows that wait to be sent: they stay in the outbox, retrying");
}

/// The queue of a partition, or `None` if the file does not have the partition.
fn queue_of(
    unsent: &OutboxReader,
    queues: &mut Queues,
    name: &Arc<str>,
    live: &LiveFile,
    partition: i64,
) -> Result<Option<QueueId>, StoreError> {
    if let Some(id) = queues.id_of(name, partition) {
        return Ok(Some(id));
    }
    Ok(unsent.partition(live, partition)?.map(|text| queues.open(name, partition, text)))
}

fn add_pages(queues: &mut Queues, removal: &mut PageRemoval, id: QueueId, heads: Vec<WaitingPage>, now: Instant) {
    let mut pages = Vec::with_capacity(heads.len());
    for head in heads {
        let number = queues.next_number();
        removal.track(number, id, &head, now);
        pages.push(QueuedPage::new(number, head, now));
    }
    queues.add_pages(id, pages);
}
