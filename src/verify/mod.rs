//! Whether a data folder is whole: nothing lost, nothing twice, as far as that can be told afterwards.
//!
//! ```text
//! what sources and listeners say they committed ═╗ books      what came in = what stands + what went
//! day-tables that the catalog names ───────────╬ tables     rows, and every page, block and manifest by its checksum
//! archives that it names ────────────────────────╬ archives   there, and by their manifests
//! files that were read, where they still are ────╣ sources    position, length, the bytes before the position
//! numbers that records carry, where they do ─────╝ sequences  one more each time
//! ```
//!
//! [`verify`] reads beside whoever writes, and changes nothing. What it compares it reads in one snapshot, or so that what
//! was written meanwhile is told from what is wrong: **a daemon at work is no finding**. A folder that is damaged in
//! any way gives findings; nothing ends at the first.
//!
//! The daily run of the daemon is the same with a share of the sealed days and archives, and at a bounded rate ([`Ask`]).

mod archives;
mod books;
mod finding;
mod sequences;
mod sources;
mod stream;
mod streams;
mod tables;

pub use finding::{Finding, Kind, Verdict};

use daytable_archive::Access;
use daytable_intake::tail::TailOptions;
use daytable_store::{Reader, StoreError};
use std::ops::ControlFlow;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::xxh3_64;

/// What is to be verified, and how much of it is read.
#[derive(Clone, Copy)]
pub struct Ask<'a> {
    /// The data folder.
    pub data_dir: &'a Path,
    /// How archives are reached.
    pub access: &'a Access,
    /// Whether archives are read back whole; else it is looked whether they are there, with the right length.
    pub reads_archives: bool,
    /// Which sealed days and archives are read to their last byte; of the others footer and manifest are.
    pub share: Share,
    /// Bytes that are read a second at most; none is as fast as it goes.
    pub bytes_per_second: Option<u64>,
    /// The files that are followed. Where that is not known, a file that is not what was read is a doubt: it may be one
    /// that nobody follows any more.
    pub tails: Option<&'a [TailOptions]>,
    /// The field that carries a number which goes up by one a record; none where there is no such.
    pub sequence: Option<&'a str>,
    /// Whether records of one source may be in several tables: none of them has all numbers, so they are not followed.
    pub is_routed: bool,
}

/// A part of the sealed days and archives: each of them is in one of `parts`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// How many parts there are.
    pub parts: u64,
    /// Which of them, from 0.
    pub part: u64,
}

impl Share {
    /// All of them.
    pub const ALL: Share = Share { parts: 1, part: 0 };

    /// Whether what has this name is in it.
    pub fn has(self, name: &str) -> bool {
        xxh3_64(name.as_bytes()) % self.parts.max(1) == self.part
    }
}

/// How far a verification is: what it looks at, and bytes that were read of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The file or archive.
    pub at: String,
    /// Things that were looked at.
    pub done: u64,
    /// Of how many.
    pub total: u64,
}

/// Told of progress; a break ends the verification with what was found by then.
pub type OnProgress<'a> = &'a mut dyn FnMut(&Progress) -> ControlFlow<()>;

/// What was found, and what it comes to.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// What does not hold, or cannot be told.
    pub findings: Vec<Finding>,
    /// What it comes to.
    pub verdict: Verdict,
    /// Whether it was ended before it had looked at everything.
    pub is_stopped: bool,
}

/// Verifies a data folder.
///
/// # Errors
///
/// [`StoreError::NoStore`], [`StoreError::NewerFormat`] and [`StoreError::Io`] where it may not be read: there is nothing that
/// could be verified.
pub fn verify(ask: &Ask<'_>, on: OnProgress<'_>) -> Result<Report, StoreError> {
    let mut run = Run { ask, report: Report::default(), on, progress: Progress::default(), pace: Pace::new(ask) };
    let reader = match Reader::open(ask.data_dir) {
        Ok(reader) => Some(reader),
        Err(error) if is_in_the_way(&error, ask.data_dir) => return Err(error),
        Err(error) => {
            run.find(Kind::Catalog, "catalog.db", None, error.to_string(), ADVICE_CATALOG);
            None
        }
    };
    if let Some(reader) = &reader {
        run.books(reader.catalog());
    }
    run.tables(reader.as_ref());
    if let Some(reader) = &reader {
        run.sources(reader);
        run.archives(reader.catalog());
        // Last: a sender that skips numbers crowds nothing out that was lost here.
        run.sequences(reader);
    }
    let Run { mut report, .. } = run;
    report.verdict.doubts = report.findings.iter().filter(|finding| finding.is_doubt).count() as u64;
    report.verdict.findings = report.findings.len() as u64 - report.verdict.doubts;
    report.verdict.whole = report.verdict.findings == 0;
    Ok(report)
}

/// Whether an error says that nobody can say anything of the folder. Of one that has lost its catalog the rest is looked
/// at.
fn is_in_the_way(error: &StoreError, data_dir: &Path) -> bool {
    match error {
        StoreError::NoStore(_) => !data_dir.join("tables").is_dir(),
        StoreError::NewerFormat { .. } => true,
        StoreError::Io { source, .. } => source.kind() == std::io::ErrorKind::PermissionDenied,
        _ => false,
    }
}

const ADVICE_CATALOG: &str =
    "stop the daemon, copy the folder, then bring catalog.db back from a backup, or run `daytable repair`";

impl Default for Progress {
    fn default() -> Progress {
        Progress { at: String::new(), done: 0, total: 1 }
    }
}

/// A verification under way.
struct Run<'a> {
    ask: &'a Ask<'a>,
    report: Report,
    on: OnProgress<'a>,
    progress: Progress,
    pace: Pace,
}

impl Run<'_> {
    fn find(&mut self, kind: Kind, place: &str, file: Option<&str>, found: String, advice: &'static str) {
        let file = file.map(str::to_owned);
        self.report.findings.push(Finding { finding: kind, place: place.into(), file, found, advice, is_doubt: false });
    }

    /// The same where it could not be told: it is no finding.
    fn doubt(&mut self, kind: Kind, place: &str, file: Option<&str>, found: String, advice: &'static str) {
        let file = file.map(str::to_owned);
        self.report.findings.push(Finding { finding: kind, place: place.into(), file, found, advice, is_doubt: true });
    }

    /// The next thing is looked at.
    fn begin(&mut self, at: &str) {
        at.clone_into(&mut self.progress.at);
        self.progress.done += 1;
        self.progress.total = self.progress.total.max(self.progress.done);
        // Whether it was ended is looked at before the next thing.
        let _ = self.told(0);
    }

    /// Bytes were read. Waits for as long as the rate demands, and breaks where it was ended.
    fn told(&mut self, bytes: u64) -> ControlFlow<()> {
        self.report.verdict.bytes += bytes;
        self.paced(bytes)
    }

    /// The same of bytes that were held against their checksums before.
    fn paced(&mut self, bytes: u64) -> ControlFlow<()> {
        self.pace.bytes = self.pace.bytes.saturating_add(bytes);
        loop {
            self.report.is_stopped |= (self.on)(&self.progress).is_break();
            if self.report.is_stopped {
                return ControlFlow::Break(());
            }
            let wait = self.pace.wait();
            if wait.is_zero() {
                return ControlFlow::Continue(());
            }
            std::thread::sleep(wait.min(WAIT_MAX));
        }
    }

    fn is_stopped(&self) -> bool {
        self.report.is_stopped
    }

    /// How often what is not as it should be is looked at again before it is said: somebody at work has a while to come
    /// to it.
    fn looks(&self) -> usize {
        let has_daemon = UnixStream::connect(daytable_store::control_socket(self.ask.data_dir)).is_ok();
        if has_daemon { LOOKS } else { LOOKS_ALONE }
    }
}

/// The longest wait after which it is asked again whether to go on.
const WAIT_MAX: Duration = Duration::from_millis(500);
/// How often a thing is looked at again where a daemon answers on the folder's socket,
const LOOKS: usize = 120;
/// how long after the time before,
const LOOK_WAIT: Duration = Duration::from_millis(500);
/// and how often where none does that could change it.
const LOOKS_ALONE: usize = 2;

/// Keeps reading at a rate, by waiting.
struct Pace {
    bytes_per_second: Option<u64>,
    since: Instant,
    bytes: u64,
}

impl Pace {
    fn new(ask: &Ask<'_>) -> Pace {
        Pace { bytes_per_second: ask.bytes_per_second, since: Instant::now(), bytes: 0 }
    }

    /// How long nothing more is to be read.
    fn wait(&self) -> Duration {
        let Some(rate) = self.bytes_per_second.filter(|rate| *rate > 0) else { return Duration::ZERO };
        Duration::from_millis(self.bytes.saturating_mul(1000) / rate).saturating_sub(self.since.elapsed())
    }
}
