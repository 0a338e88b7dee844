//! A data folder that is open to write: the committer's thread, and the handles to it.

use super::commit::{Committer, Intake};
use super::lifecycle_steps::Steps;
use super::options::Options;
use super::outbox_removal::Departures;
use crate::StoreError;
use crate::layout::Layout;
use crate::lock::Lock;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

/// A data folder, opened to write. Only one process has it open so at a time.
pub struct Store {
    intake: Intake,
    thread: JoinHandle<Result<(), StoreError>>,
    /// Held until this is closed, also where the thread ended early: whoever comes next finds all of it gone, sockets
    /// included.
    _lock: Arc<Lock>,
}

impl Store {
    /// Opens the folder to write; makes it where there is none. Sets aside what a crash left half-way.
    pub fn open(data_dir: &Path, options: Options) -> Result<Store, StoreError> {
        let committer = Committer::open(Layout { data: data_dir.into() }, options)?;
        let (intake, lock) = (committer.intake(), committer.lock());
        let ended = Ended(intake.clone());
        let thread = std::thread::Builder::new().name("commit".into()).spawn(move || {
            let _ended = ended;
            committer.run()
        });
        let thread = thread.map_err(StoreError::io("commit thread"))?;
        Ok(Store { intake, thread, _lock: lock })
    }

    /// Where sources hand over what they read.
    pub fn intake(&self) -> Intake {
        self.intake.clone()
    }

    /// The steps that change what is live.
    pub fn steps(&self) -> Steps {
        Steps { intake: self.intake.clone() }
    }

    /// What takes rows away that were sent elsewhere.
    pub fn departures(&self) -> Departures {
        Departures { intake: self.intake.clone() }
    }

    /// Has what sources have in hand be taken, however full the outbox is: they are about to stop.
    pub fn drain(&self) {
        self.intake.drain();
    }

    /// Commits what waits, and closes the folder so that every file is whole without its journal.
    pub fn close(self) -> Result<(), StoreError> {
        self.intake.close();
        self.thread.join().unwrap_or_else(|_| Err(StoreError::Refused("the committer ended early".into())))
    }
}

/// Says that the committer ended, however it did.
struct Ended(Intake);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.end();
    }
}
