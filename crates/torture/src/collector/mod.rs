//! What is tortured: how it is started on a folder of files, and how what it kept is read.

mod daytable;
mod rsyslog;

use self::daytable::Daytable;
use self::rsyslog::Rsyslog;
use crate::world::Abilities;
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// How far a collector is with the days of the records once it has read all there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It does something with them by itself.
    Busy,
    /// It does nothing more before it is told to let them go.
    Kept,
    /// Nothing more is expected of it.
    Done,
}

/// A collector that reads files and keeps their records. Whatever it needs lies in one folder.
pub(crate) trait Collector: Sync {
    /// Its name in what is printed.
    fn name(&self) -> &'static str;

    /// What it can read.
    fn abilities(&self) -> Abilities;

    /// How long it may take to have everything once it is left in peace, on a machine that is busy with other things.
    fn patience(&self) -> Duration {
        Duration::from_secs(180)
    }

    /// Whether it takes pushes, at the socket of a daytable.
    fn takes_pushes(&self) -> bool {
        false
    }

    /// The program and its arguments, for `home` as its folder and `logs` as what it reads. It stays in the foreground and
    /// ends at SIGTERM.
    fn command(&self, home: &Path, logs: &Path) -> io::Result<Command>;

    /// The messages that it kept so far. An error where they cannot be read now.
    fn messages(&self, home: &Path) -> io::Result<Vec<String>>;

    /// How far it is with `days`, such as `20261121`.
    fn stage(&self, home: &Path, days: &[String]) -> io::Result<Stage>;

    /// Changes its configuration so that days which are over are let go when it is told to read that again, by SIGHUP.
    fn let_go(&self, home: &Path, logs: &Path) -> io::Result<()>;

    /// A command that people give while it runs and that takes a while, for a day, if there is one.
    fn errand(&self, home: &Path, day: &str) -> Option<Command>;

    /// Whether it may have so many records by now, as far as can be asked quickly while it runs.
    fn seems_to_have(&self, _home: &Path, _count: usize) -> bool {
        true
    }

    /// What else has to be so at the end of a run, besides the records, of which there are `count`; the first thing that is not.
    fn fault(&self, home: &Path, count: usize) -> io::Result<Option<String>>;
}

/// The collector of a name. `daytable` is the program of the collector `daytable`.
pub(crate) fn named(name: &str, daytable: &Path) -> Option<Box<dyn Collector>> {
    match name {
        "daytable" => Some(Box::new(Daytable::new(daytable))),
        "rsyslog" => Some(Box::new(Rsyslog)),
        _ => None,
    }
}
