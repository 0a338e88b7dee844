//! Removes a page from its file after the service or the dead letters have all its rows.

use super::context::Context;
use super::event::Event;
use super::queued::{PageNumber, QueueId, QueuedRow, RemovablePage};
use super::queues::Queues;
use daytable_store::StoreError;
use daytable_store::outbox::{OutboxRemoval, STAYS_AFTER, SentPage, WaitingPage};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The shortest time between two removals.
const REMOVE_EVERY: Duration = Duration::from_millis(500);
/// How long to wait after a removal failed.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Maximum pages of one removal.
const PAGES_AT_A_TIME: usize = 4096;
/// Pages become due nearly in order. After this number of pages that are not due, the search stops.
const NOT_DUE_MAX: usize = 64;

/// A page with unsent rows.
struct OpenPage {
    rows: usize,
    queue: QueueId,
    page: SentPage,
    entities: u64,
    found: Instant,
}

/// The pages that wait for their removal.
pub(super) struct PageRemoval {
    open: HashMap<PageNumber, OpenPage>,
    sent: VecDeque<RemovablePage>,
    is_under_way: bool,
    last: Instant,
}

impl PageRemoval {
    pub(super) fn new() -> PageRemoval {
        PageRemoval { open: HashMap::new(), sent: VecDeque::new(), is_under_way: false, last: Instant::now() }
    }

    /// Starts to count the rows of a page.
    pub(super) fn track(&mut self, number: PageNumber, queue: QueueId, head: &WaitingPage, found: Instant) {
        let (rows, entities) = (head.entities() as usize, head.entities().into());
        self.open.insert(number, OpenPage { rows, queue, page: head.sent(), entities, found });
    }

    /// Removes a page that left its queue unsent.
    pub(super) fn forget(&mut self, number: PageNumber) -> Option<SentPage> {
        self.open.remove(&number).map(|open| open.page)
    }

    /// Counts sent rows. A page without unsent rows becomes due for removal.
    pub(super) fn rows_sent(&mut self, rows: &[QueuedRow], context: &Context) {
        let mut counts = BTreeMap::new();
        for row in rows {
            *counts.entry(row.number).or_insert(0) += 1;
        }
        for (number, rows) in counts {
            let Some(open) = self.open.get_mut(&number) else { continue };
            open.rows = open.rows.saturating_sub(rows);
            if open.rows == 0
                && let Some(OpenPage { queue, page, entities, found, .. }) = self.open.remove(&number)
            {
                context.counters.settling.fetch_add(entities, Ordering::Relaxed);
                self.sent.push_back(RemovablePage { due: found + STAYS_AFTER, queue, page, entities });
            }
        }
    }

    /// Sent entities that are still in their files, of the queues that `is_one` selects.
    pub(super) fn entities_sent(&self, is_one: impl Fn(QueueId) -> bool) -> u64 {
        self.sent.iter().filter(|page| is_one(page.queue)).map(|page| page.entities).sum()
    }

    /// Whether all sent pages are removed.
    pub(super) fn is_done(&self) -> bool {
        self.sent.is_empty() && !self.is_under_way
    }

    /// When the next removal is due.
    pub(super) fn next(&self) -> Option<Instant> {
        let first = self.sent.front().filter(|_| !self.is_under_way)?;
        Some(first.due.max(self.last + REMOVE_EVERY))
    }

    /// Asks the committer to remove the due pages; while the daemon stops, all sent pages.
    pub(super) fn run(&mut self, queues: &Queues, context: &Context, is_stopping: bool, now: Instant) {
        if self.is_under_way || !is_stopping && self.last + REMOVE_EVERY > now {
            return;
        }
        let mut by_file: BTreeMap<Arc<str>, Vec<SentPage>> = BTreeMap::new();
        let (mut pages, mut later) = (Vec::new(), VecDeque::new());
        while let Some(page) = self.sent.pop_front() {
            let is_due = is_stopping || page.due <= now;
            if !is_due || pages.len() >= PAGES_AT_A_TIME {
                later.push_back(page);
                if later.len() > NOT_DUE_MAX || pages.len() >= PAGES_AT_A_TIME {
                    break;
                }
            } else if let Some(queue) = queues.get(page.queue) {
                by_file.entry(queue.file().clone()).or_default().push(page.page);
                pages.push(page);
            }
        }
        later.append(&mut self.sent);
        self.sent = later;
        if pages.is_empty() {
            return;
        }
        let removals = by_file.into_iter().filter_map(|(file, pages)| {
            let day = queues.live_file(&file)?.day.clone();
            Some(OutboxRemoval { day, file: file.to_string(), pages })
        });
        let removals = removals.collect();
        let events = context.events.clone();
        let report = move |result| drop(events.send(Event::Removed(pages, result)));
        self.last = now;
        // While the store closes, pages stay: the next run sends them again.
        self.is_under_way = context.remover.remove(removals, report).is_ok();
    }

    /// The committer removed pages, or failed to.
    pub(super) fn finished(
        &mut self,
        pages: Vec<RemovablePage>,
        result: Result<(), StoreError>,
        queues: &mut Queues,
        context: &Context,
        now: Instant,
    ) {
        self.is_under_way = false;
        if let Err(error) = &result {
            tracing::error!(%error, "failed to remove what was sent, retrying");
        }
        for page in pages {
            if result.is_err() {
                self.sent.push_back(RemovablePage { due: now + RETRY_AFTER, ..page });
                continue;
            }
            context.counters.settling.fetch_sub(page.entities, Ordering::Relaxed);
            queues.get_mut(page.queue).into_iter().for_each(|queue| queue.forget(&page.page));
            queues.schedule(page.queue, now);
        }
    }
}
