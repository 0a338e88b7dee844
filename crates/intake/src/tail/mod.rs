//! Files are found, told apart, followed through rotation, and read record by record.
//!
//! One thread serves every `[[tail]]` block. What it knows it has from the store ([`Intake::sources`]), what it reads it
//! hands to the store ([`Intake::submit`]), rows and positions in one piece; it keeps nothing of its own on the disk.
//!
//! * `options`, `counters`: what it is told, what it counts.
//! * `change`: other blocks, while it runs.
//! * `follower`: the loop. `files`, `followed`: what is followed, and how many descriptors that takes.
//! * `discover`, `patterns`, `hints`: which files there are. `drowsy`: those that nothing is written to.
//! * `adopt`, `kin`: what a file that was found is. `resume`, `rotation`: what became of one that was followed, while the
//!   daemon was down and while it runs. They get their facts from `search` and `content`, and their decisions from
//!   `identity` and `names`, which touch no file.
//! * `gzip`: what gzip(1) reads, and no less.
//! * `known`, `parked`: sources without a file, and files without a source.
//! * `cursor`: reading on in one file, and the records in what was read. `lag`: for how long something is not read.
//! * `import`: files that are read once, to their end. `begun`: sources that begin where another collector stopped.

mod adopt;
mod begun;
mod check;
mod change;
mod content;
mod counters;
mod cursor;
mod discover;
mod drowsy;
mod files;
mod follower;
mod followed;
mod gzip;
mod hints;
mod identity;
mod import;
mod kin;
mod known;
mod lag;
mod names;
mod options;
mod parked;
mod patterns;
mod resume;
mod rotation;
mod search;

pub use begun::{Adoptee, Begun, begin, matches};
pub use check::{Found, check};
pub use counters::{BlockCounters, TailCounters};
pub use import::{ImportError, Imported, Progress, import};
pub use options::{TailOptions, Watch};

use crate::route::Router;
use change::Change;
use daytable_store::Intake;
use follower::Follower;
use hints::Hints;
use options::Pace;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

/// Follows files, on a thread of its own.
pub struct Tailer;

/// A tailer that runs.
pub struct TailHandle {
    hints: Hints,
    changes: Sender<Change>,
    thread: Option<JoinHandle<()>>,
}

impl Tailer {
    /// Starts to follow the files of `options`. `host` is this host's name; `counters` are those of the same blocks, in
    /// the same order. An error where a pattern is none, or there is no thread to be had.
    pub fn spawn(
        options: Vec<TailOptions>,
        router: Router,
        host: String,
        intake: Intake,
        counters: Arc<TailCounters>,
    ) -> io::Result<TailHandle> {
        Tailer::spawn_paced(options, router, host, intake, counters, Pace::default())
    }

    fn spawn_paced(
        options: Vec<TailOptions>,
        router: Router,
        host: String,
        intake: Intake,
        counters: Arc<TailCounters>,
        pace: Pace,
    ) -> io::Result<TailHandle> {
        let (changes, told) = channel();
        let follower = Follower::new(options, router, host, intake, counters, pace)?;
        let hints = follower.hints.clone();
        let thread = std::thread::Builder::new().name("tail".into()).spawn(move || follower.run(&told))?;
        Ok(TailHandle { hints, changes, thread: Some(thread) })
    }
}

impl TailHandle {
    /// Follows these blocks instead, and returns once it does. What was read of the old ones is handed over, files that stay
    /// keep their descriptors and go on behind it; one that no block follows any more is left where it is, and goes on
    /// there when a block follows it again. An error where a pattern is none; then nothing has changed.
    pub fn change(&self, options: Vec<TailOptions>, counters: Arc<TailCounters>) -> io::Result<()> {
        let (done, is_done) = channel();
        let change = Change::new(options, counters, done)?;
        // A thread that has ended is noticed elsewhere.
        let _ = self.changes.send(change);
        self.hints.call();
        let _ = is_done.recv();
        Ok(())
    }

    /// Hands over what was read already and ends. Nothing is lost by what was not: it is read next time.
    pub fn stop(mut self) {
        self.end();
    }

    /// Whether it has ended, asked to or not: it does when the store is closed.
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    fn end(&mut self) {
        self.hints.stop();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the tailer failed by a fault of its own; what it had not handed over is read again");
        }
    }
}

/// A handle that is dropped stops its tailer.
impl Drop for TailHandle {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests;
