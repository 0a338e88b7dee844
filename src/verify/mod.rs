//! Verification of a data folder: no record lost, no record twice, as far as this can be checked afterwards.
//!
//! ```text
//! what sources and listeners have committed ══════╗ accounting accepted = stored + left
//! day-tables that the catalog names ──────────────╬ tables     rows, and every page, block and manifest by its checksum
//! archives that the catalog names ────────────────╬ archives   present, and equal to their manifests
//! files that were read, as far as they exist ─────╣ sources    position, length, the bytes before the position
//! sequence numbers of records, if configured ─────╝ sequences  one more each time
//! ```
//!
//! [`verify`] reads beside a writer, and changes no data. It compares values of one snapshot, or reads again, so that a write is not
//! mistaken for damage: **a daemon at work is not a finding**. A damaged folder gives all its findings, not only the first.
//!
//! The daily verification of the daemon reads a share of the sealed days and archives, at a limited rate ([`VerifyRequest`]).

mod archives;
mod accounting;
mod finding;
mod sequences;
mod sources;
mod number_sequence;
mod table_sequences;
mod tables;

pub use finding::{Finding, FindingKind, VerifyVerdict};

use daytable_archive::Access;
use daytable_intake::tail::TailOptions;
use daytable_store::{Reader, StoreError};
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::xxh3_64;

/// The subject of a verification, and how much of it is read.
#[derive(Clone, Copy)]
pub struct VerifyRequest<'a> {
    /// The data folder.
    pub data_dir: &'a Path,
    /// The access to archives.
    pub access: &'a Access,
    /// Whether archives are read to the last byte. Otherwise only their presence and length are checked.
    pub reads_archives: bool,
    /// The sealed days and archives to read to the last byte. Of the others, footer and manifest are read.
    pub share: Share,
    /// Bytes to read per second, or `None` for no limit.
    pub bytes_per_second: Option<u64>,
    /// The tailed files, or `None` if they are unknown. Then a changed file is a doubt, because daytable may no longer
    /// read it.
    pub tails: Option<&'a [TailOptions]>,
    /// The field with a number that rises by one with each record, if any.
    pub sequence: Option<&'a str>,
    /// Whether records of one source may be in several tables. Then no table has all numbers, and sequences are not checked.
    pub is_routed: bool,
}

/// A share of the sealed days and archives: each belongs to one of `parts`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The number of parts.
    pub parts: u64,
    /// The number of this part, from 0.
    pub part: u64,
}

impl Share {
    /// All days and archives.
    pub const ALL: Share = Share { parts: 1, part: 0 };

    /// Whether the file with this name belongs to the share.
    pub fn has(self, name: &str) -> bool {
        xxh3_64(name.as_bytes()) % self.parts.max(1) == self.part
    }
}

/// The progress of a verification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifyProgress {
    /// The file or archive.
    pub at: String,
    /// Files and archives that are checked.
    pub done: u64,
    /// All files and archives.
    pub total: u64,
}

/// A line of a verification that the daemon does for somebody who cannot read the folder.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VerifyLine {
    /// What is read at present.
    Progress(VerifyProgress),
    /// A finding or a doubt.
    Finding(Finding),
    /// The verdict, which is the last line.
    Verdict(VerifyVerdict),
}

/// Receives progress. If it breaks, the verification ends with the findings so far.
pub type OnVerifyProgress<'a> = &'a mut dyn FnMut(&VerifyProgress) -> ControlFlow<()>;

/// The findings and the verdict.
#[derive(Clone, Debug, Default)]
pub struct VerifyReport {
    /// Findings and doubts.
    pub findings: Vec<Finding>,
    /// The verdict.
    pub verdict: VerifyVerdict,
    /// Whether the verification was stopped early.
    pub is_stopped: bool,
}

/// Verifies a data folder.
///
/// # Errors
///
/// [`StoreError::NoStore`], [`StoreError::NewerFormat`], [`StoreError::OlderFormat`], and [`StoreError::Io`] for missing permissions: the folder cannot be
/// verified.
pub fn verify(request: &VerifyRequest<'_>, on: OnVerifyProgress<'_>) -> Result<VerifyReport, StoreError> {
    let mut verification = Verification {
        request,
        report: VerifyReport::default(),
        on,
        progress: VerifyProgress::default(),
        throttle: Throttle::new(request),
    };
    let reader = match Reader::open(request.data_dir) {
        Ok(reader) => Some(reader),
        Err(error) if is_fatal(&error, request.data_dir) => return Err(error),
        Err(error) => {
            verification.find(FindingKind::Catalog, "catalog.db", None, error.to_string(), ADVICE_CATALOG);
            None
        }
    };
    if let Some(reader) = &reader {
        verification.accounting(reader.catalog());
    }
    verification.tables(reader.as_ref());
    if let Some(reader) = &reader {
        verification.sources(reader);
        verification.archives(reader.catalog());
        // Last, so that gaps of a sender do not hide losses of daytable.
        verification.sequences(reader);
    }
    let Verification { mut report, .. } = verification;
    report.verdict.doubts = report.findings.iter().filter(|finding| finding.is_doubt).count() as u64;
    report.verdict.findings = report.findings.len() as u64 - report.verdict.doubts;
    report.verdict.whole = report.verdict.findings == 0;
    Ok(report)
}

/// Whether an error makes a verification impossible. Without a catalog, the other files are still checked.
fn is_fatal(error: &StoreError, data_dir: &Path) -> bool {
    match error {
        StoreError::NoStore(_) => !data_dir.join("tables").is_dir(),
        StoreError::NewerFormat { .. } | StoreError::OlderFormat { .. } => true,
        StoreError::Io { source, .. } => source.kind() == std::io::ErrorKind::PermissionDenied,
        _ => false,
    }
}

const ADVICE_CATALOG: &str =
    "stop the daemon, copy the folder, then bring catalog.db back from a backup, or run `daytable repair`";

impl Default for VerifyProgress {
    fn default() -> VerifyProgress {
        VerifyProgress { at: String::new(), done: 0, total: 1 }
    }
}

/// A running verification.
struct Verification<'a> {
    request: &'a VerifyRequest<'a>,
    report: VerifyReport,
    on: OnVerifyProgress<'a>,
    progress: VerifyProgress,
    throttle: Throttle,
}

impl Verification<'_> {
    fn find(&mut self, kind: FindingKind, place: &str, file: Option<&str>, found: String, advice: &'static str) {
        let file = file.map(str::to_owned);
        self.report.findings.push(Finding {
            finding: kind,
            place: place.into(),
            file,
            found,
            advice: advice.into(),
            is_doubt: false,
        });
    }

    /// A check without a result.
    fn doubt(&mut self, kind: FindingKind, place: &str, file: Option<&str>, found: String, advice: &'static str) {
        let file = file.map(str::to_owned);
        self.report.findings.push(Finding {
            finding: kind,
            place: place.into(),
            file,
            found,
            advice: advice.into(),
            is_doubt: true,
        });
    }

    /// Begins the check of the next file or archive.
    fn begin(&mut self, at: &str) {
        at.clone_into(&mut self.progress.at);
        self.progress.done += 1;
        self.progress.total = self.progress.total.max(self.progress.done);
        // The caller checks whether the verification was stopped.
        let _ = self.count_read(0);
    }

    /// Counts bytes that were read, waits as the rate demands, and breaks if the verification was stopped.
    fn count_read(&mut self, bytes: u64) -> ControlFlow<()> {
        self.report.verdict.bytes += bytes;
        self.throttle(bytes)
    }

    /// As [`count_read`](Verification::count_read), for bytes that were compared with their checksums before.
    fn throttle(&mut self, bytes: u64) -> ControlFlow<()> {
        self.throttle.bytes = self.throttle.bytes.saturating_add(bytes);
        loop {
            self.report.is_stopped |= (self.on)(&self.progress).is_break();
            if self.report.is_stopped {
                return ControlFlow::Break(());
            }
            let wait = self.throttle.wait();
            if wait.is_zero() {
                return ControlFlow::Continue(());
            }
            std::thread::sleep(wait.min(WAIT_MAX));
        }
    }

    fn is_stopped(&self) -> bool {
        self.report.is_stopped
    }

    /// How often a suspect is checked again before it becomes a finding: a daemon at work needs time.
    fn attempts(&self) -> usize {
        let has_daemon = UnixStream::connect(daytable_store::control_socket(self.request.data_dir)).is_ok();
        if has_daemon { ATTEMPTS } else { ATTEMPTS_WITHOUT_DAEMON }
    }
}

/// The longest wait before the next check for a stop.
const WAIT_MAX: Duration = Duration::from_millis(500);
/// Checks of a suspect with a running daemon.
const ATTEMPTS: usize = 120;
/// The wait between two checks of a suspect.
const RETRY_WAIT: Duration = Duration::from_millis(500);
/// Checks of a suspect without a daemon.
const ATTEMPTS_WITHOUT_DAEMON: usize = 2;

/// Limits the rate of reading by waiting.
struct Throttle {
    bytes_per_second: Option<u64>,
    since: Instant,
    bytes: u64,
}

impl Throttle {
    fn new(request: &VerifyRequest<'_>) -> Throttle {
        Throttle { bytes_per_second: request.bytes_per_second, since: Instant::now(), bytes: 0 }
    }

    /// How long to wait before the next read.
    fn wait(&self) -> Duration {
        let Some(rate) = self.bytes_per_second.filter(|rate| *rate > 0) else { return Duration::ZERO };
        Duration::from_millis(self.bytes.saturating_mul(1000) / rate).saturating_sub(self.since.elapsed())
    }
}
