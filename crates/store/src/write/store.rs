//! A data folder that is open to write: the committer's thread, and the handles to it.

use super::commit::{CommitQueue, Committer};
use super::lifecycle_steps::LifecycleSteps;
use super::options::StoreOptions;
use super::outbox_removal::OutboxRemover;
use crate::StoreError;
use crate::layout::FolderLayout;
use crate::lock::Lock;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

/// A data folder, opened to write. Only one process has it open so at a time.
pub struct Store {
    queue: CommitQueue,
    thread: JoinHandle<Result<(), StoreError>>,
    /// Held until this is closed, also where the thread ended early: whoever comes next finds all of it gone, sockets
    /// included.
    _lock: Arc<Lock>,
}

impl Store {
    /// Opens the folder to write; makes it where there is none. Sets aside what a crash left half-way.
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

    /// Where sources hand over what they read.
    pub fn commit_queue(&self) -> CommitQueue {
        self.queue.clone()
    }

    /// The steps that change what is live.
    pub fn steps(&self) -> LifecycleSteps {
        LifecycleSteps { queue: self.queue.clone() }
    }

    /// What takes rows away that were sent elsewhere.
    pub fn outbox_remover(&self) -> OutboxRemover {
        OutboxRemover { queue: self.queue.clone() }
    }

    /// Has what sources have in hand be taken, however full the outbox is: they are about to stop.
    pub fn drain(&self) {
        self.queue.drain();
    }

    /// Commits what waits, and closes the folder so that every file is whole without its journal.
    pub fn close(self) -> Result<(), StoreError> {
        self.queue.close();
        self.thread.join().unwrap_or_else(|_| Err(StoreError::Refused("the committer ended early".into())))
    }
}

/// Says that the committer ended, however it did.
struct Ended(CommitQueue);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.end();
    }
}
