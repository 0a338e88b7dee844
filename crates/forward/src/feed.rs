//! What a host sends next.
//!
//! ```text
//! commits of the host   1 ......... B          S ......... H      last
//! the receiver has      ├─ position ┤          ├─── head ──┤
//! a reader each                     └─► until S            └─►           by turns, while both have something
//! ```
//!
//! After an outage the newest commits go first, and the backlog beside them: where the oldest record that waits is older than
//! [`HEAD_AFTER`], and more than a request waits, a *head* is opened before the newest pages that fill a request. Requests for
//! the head and for the backlog take turns. So a host that always has something new sends its backlog as well, and where there is
//! nothing new, the backlog has every turn. When the backlog reaches the beginning of the head, there is one position again.

use daytable_model::time::Ticks;
use daytable_platform::memory;
use daytable_store::StoreError;
use daytable_store::forward::intervals::{HeadInterval, ReceivedCommits};
use daytable_store::forward::position::ForwardPosition;
use daytable_store::forward::reader::{CommitPages, ForwardError, ForwardReader, RequestLimits};
use std::path::PathBuf;
use std::time::Duration;

/// How old the oldest record that waits has to be before newer ones are sent first.
const HEAD_AFTER: Duration = Duration::from_secs(10);

/// The next commits, or a comparison.
#[derive(Debug)]
pub(crate) enum FeedStep {
    /// Pages after an end of what the receiver has. There may be none up to the beginning of its head.
    Pages { from: ForwardPosition, pages: CommitPages },
    /// Newer commits are sent first, from this end of a commit on.
    OpenHead(ForwardPosition),
    /// There are no pages up to this position.
    Nothing(ForwardPosition),
    /// Pages are gone, so those of commits after this one have to be compared.
    Compare(i64),
}

/// The commits of a folder, in the order of their sending.
pub(crate) struct CommitFeed {
    data_dir: PathBuf,
    /// Reads from the position on.
    pub(crate) reader: ForwardReader,
    /// Reads the head, once one was opened.
    head_reader: Option<ForwardReader>,
    /// Whether the last request was one for the head.
    is_turn_of_backlog: bool,
}

impl CommitFeed {
    /// Opens a data folder.
    pub(crate) fn open(data_dir: PathBuf) -> Result<CommitFeed, StoreError> {
        let reader = ForwardReader::open(&data_dir)?;
        Ok(CommitFeed { data_dir, reader, head_reader: None, is_turn_of_backlog: false })
    }

    /// What comes next for a receiver that has this.
    pub(crate) fn next(
        &mut self,
        received: &ReceivedCommits,
        limits: RequestLimits,
        now: Ticks,
    ) -> Result<FeedStep, StoreError> {
        let next = match received.head {
            Some(head) => self.next_of_two(received.position, head, limits),
            None => self.next_of_all(received.position, limits, now),
        };
        match next {
            // The receiver cannot tell that the bytes of a page are damaged here from a page that was left out.
            Ok(FeedStep::Pages { pages, .. }) if pages.damaged > 0 => Ok(FeedStep::Compare(received.position.commit)),
            Err(ForwardError::Incomplete(_)) => Ok(FeedStep::Compare(received.position.commit)),
            Err(ForwardError::Store(error)) => Err(error),
            Ok(next) => Ok(next),
        }
    }

    fn next_of_all(
        &mut self,
        position: ForwardPosition,
        limits: RequestLimits,
        now: Ticks,
    ) -> Result<FeedStep, ForwardError> {
        let pages = self.reader.pages_after(position, limits)?;
        let Some(oldest) = pages.pages.first() else {
            // Commits without pages move positions of sources. The receiver needs no request for them.
            return Ok(match pages.damaged {
                0 => FeedStep::Nothing(pages.to),
                _ => FeedStep::Pages { from: position, pages },
            });
        };
        if !pages.is_all
            && now.since(oldest.arrived()) > HEAD_AFTER
            && let Some(begin) = self.reader.before_newest(pages.to.commit, limits)?
        {
            return Ok(FeedStep::OpenHead(begin));
        }
        Ok(FeedStep::Pages { from: position, pages })
    }

    fn next_of_two(
        &mut self,
        position: ForwardPosition,
        head: HeadInterval,
        limits: RequestLimits,
    ) -> Result<FeedStep, ForwardError> {
        if !std::mem::take(&mut self.is_turn_of_backlog) {
            let reader = match &mut self.head_reader {
                Some(reader) => reader,
                unopened => unopened.insert(ForwardReader::open(&self.data_dir)?),
            };
            let pages = reader.pages_after(head.end, limits)?;
            if !pages.pages.is_empty() || pages.damaged > 0 {
                self.is_turn_of_backlog = true;
                return Ok(FeedStep::Pages { from: head.end, pages });
            }
        }
        let pages = self.reader.pages_between(position, head.begin.commit, limits)?;
        Ok(FeedStep::Pages { from: position, pages })
    }

    /// The backlog reached the head.
    pub(crate) fn join(&mut self) {
        if let Some(reader) = self.head_reader.take() {
            self.reader = reader;
        }
        self.is_turn_of_backlog = false;
    }

    /// Begins at another position than the one that was read last.
    pub(crate) fn rewind(&mut self) {
        self.reader.rewind();
        self.head_reader = None;
        self.is_turn_of_backlog = false;
    }

    /// Frees what can be read again, while there is nothing to send.
    pub(crate) fn release_memory(&self) {
        self.reader.release_memory();
        self.head_reader.as_ref().into_iter().for_each(ForwardReader::release_memory);
        memory::release_free();
    }

    /// Closes files that are no longer live.
    pub(crate) fn forget_gone(&self) -> Result<(), StoreError> {
        self.reader.forget_gone()?;
        self.head_reader.as_ref().map_or(Ok(()), ForwardReader::forget_gone)
    }
}
