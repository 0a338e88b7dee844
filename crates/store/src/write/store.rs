//! A data folder that is open to write: the thread of the committer, and the handles to it.

use super::commit::{CommitQueue, Committer};
use super::forwarding::ForwardSteps;
use super::lifecycle_steps::LifecycleSteps;
use super::options::StoreOptions;
use super::outbox_removal::OutboxRemover;
use crate::StoreError;
use crate::layout::FolderLayout;
use crate::lock::Lock;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

/// A data folder, opened to write. Only one process can have it open to write.
pub struct Store {
    queue: CommitQueue,
    thread: JoinHandle<Result<(), StoreError>>,
    /// Held until the store is closed, even if the thread ended early.
    _lock: Arc<Lock>,
}

impl Store {
    /// Opens the folder to write, and creates it if it does not exist. Moves unfinished commits to `trash/`.
    ///
    /// # Errors
    ///
    /// Another process writes there, files disagree with the catalog, or the disk fails.
    pub fn open(data_dir: &Path, options: StoreOptions) -> Result<Store, StoreError> {
        let committer = Committer::open(FolderLayout { data: data_dir.into() }, options)?;
        let (queue, lock) = (committer.commit_queue(), committer.lock());
        let ended = Ended(queue.clone());
        let thread = std::thread::Builder::new().name("commit".into()).spawn(move || {
            let _ended = ended;
            committer.run()
        });
        let thread = thread.map_err(StoreError::io("commit thread"))?;
        Ok(Store { queue, thread, _lock: lock })
    }

    /// The queue that sources submit to.
    pub fn commit_queue(&self) -> CommitQueue {
        self.queue.clone()
    }

    /// The steps of the lifecycle.
    pub fn steps(&self) -> LifecycleSteps {
        LifecycleSteps { queue: self.queue.clone() }
    }

    /// The steps of forwarding.
    pub fn forwarding(&self) -> ForwardSteps {
        ForwardSteps { queue: self.queue.clone() }
    }

    /// The handle that removes forwarded rows.
    pub fn outbox_remover(&self) -> OutboxRemover {
        OutboxRemover { queue: self.queue.clone() }
    }

    /// Accepts the submissions that stopping sources still have, however full the outbox is.
    pub fn drain(&self) {
        self.queue.drain();
    }

    /// Commits waiting submissions, and closes the folder so that each file is whole without its journal.
    pub fn close(self) -> Result<(), StoreError> {
        self.queue.close();
        self.thread.join().unwrap_or_else(|_| Err(StoreError::Refused("the committer ended early".into())))
    }
}

/// Marks the queue as ended when the committer's thread ends, also by a panic.
struct Ended(CommitQueue);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.end();
    }
}
