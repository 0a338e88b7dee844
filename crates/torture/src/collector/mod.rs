//! The programs under test: how to start a collector on a folder of files, and how to read the records it stored.

mod daytable;
mod rsyslog;

pub(crate) use self::daytable::Daytable;
use self::rsyslog::Rsyslog;
use crate::world::Abilities;
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Progress of a collector on the days of the records, after it read every file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The collector still works on the days by itself.
    Busy,
    /// The collector waits for the command to drop the days.
    Kept,
    /// The collector has finished.
    Done,
}

/// A collector that reads files and keeps their records. All its files lie in one folder.
pub(crate) trait Collector: Sync {
    /// The name in the output.
    fn name(&self) -> &'static str;

    /// The file formats that the collector can read.
    fn abilities(&self) -> Abilities;

    /// Time limit for storing every record once the disturbances end, on a busy machine.
    fn patience(&self) -> Duration {
        Duration::from_secs(180)
    }

    /// Whether the collector accepts pushes, at the socket of a daytable.
    fn takes_pushes(&self) -> bool {
        false
    }

    /// The command line, with `home` as the collector's folder and `logs` as the folder it reads. The process stays in
    /// the foreground and ends at SIGTERM.
    fn command(&self, home: &Path, logs: &Path) -> io::Result<Command>;

    /// The messages stored so far. An error if the store cannot be read now.
    fn messages(&self, home: &Path) -> io::Result<Vec<String>>;

    /// The progress on `days`, such as `20261121`.
    fn stage(&self, home: &Path, days: &[String]) -> io::Result<Stage>;

    /// Changes the configuration so that the collector drops past days when it reloads at SIGHUP.
    fn let_go(&self, home: &Path, logs: &Path) -> io::Result<()>;

    /// A slow command that people run beside the collector, for a day. `None` if the collector has no such command.
    fn errand(&self, home: &Path, day: &str) -> Option<Command>;

    /// Whether the collector may hold `count` records by now, as far as a quick request can tell.
    fn seems_to_have(&self, _home: &Path, _count: usize) -> bool {
        true
    }

    /// The first violated condition at the end of a run, besides the `count` records. `None` if every condition holds.
    fn fault(&self, home: &Path, count: usize) -> io::Result<Option<String>>;
}

/// The collector of that name. `daytable` is the path of the program for the collector `daytable`.
pub(crate) fn named(name: &str, daytable: &Path) -> Option<Box<dyn Collector>> {
    match name {
        "daytable" => Some(Box::new(Daytable::new(daytable))),
        "rsyslog" => Some(Box::new(Rsyslog)),
        _ => None,
    }
}
