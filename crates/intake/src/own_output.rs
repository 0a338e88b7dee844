//! This daemon's own output in its input: reading it would log it again, without end.
//!
//! The output returns in three ways, and is recognised by properties that no other program has:
//!
//! * **A file** to which standard output or error is redirected, by device and inode. The file is not read, whatever
//!   its name is, and a warning is logged.
//! * **The journal**, by the invocation of the unit (`INVOCATION_ID`, which journald adds to each entry), else by the
//!   id and name of this process on this boot. Such entries are skipped and counted. Entries of an earlier start are
//!   read: they are finite.
//! * **Syslog**, if another program forwards the journal or writes it to a file, by the name `daytable`, the id of this
//!   process, and the name of this host if the message has one. Such records are skipped and counted.

use daytable_model::record::Record;
use rustix::fs::{FileType, fstat};
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Records and entries that were skipped.
static PASSED_OVER: AtomicU64 = AtomicU64::new(0);

/// Whether a file is the standard output or error of this process.
pub fn is_output(device: u64, inode: u64) -> bool {
    static FILES: OnceLock<Vec<(u64, u64)>> = OnceLock::new();
    let file = |fd: &dyn Fd| {
        let stat = fstat(fd.fd()).ok()?;
        (FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile).then_some((stat.st_dev, stat.st_ino))
    };
    let files =
        FILES.get_or_init(|| [file(&std::io::stdout()), file(&std::io::stderr())].into_iter().flatten().collect());
    files.contains(&(device, inode))
}

/// Standard output or error.
trait Fd {
    fn fd(&self) -> std::os::fd::BorrowedFd<'_>;
}

impl<F: AsFd> Fd for F {
    fn fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.as_fd()
    }
}

/// Whether standard error is the stream that `JOURNAL_STREAM` names. A child process inherits the variable even if its
/// output is redirected.
pub fn goes_to_journal() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else { return false };
    fstat(std::io::stderr()).is_ok_and(|stat| stream == format!("{}:{}", stat.st_dev, stat.st_ino))
}

/// The identity of this process in the journal.
struct Invocation {
    id: Option<String>,
    pid: String,
    /// In a container, another process of the host may have the same id: the name distinguishes them.
    name: Option<String>,
    boot: Option<String>,
}

/// Whether an entry of the journal comes from this process or its children. `field` returns the fields of the entry.
pub fn is_entry<'f>(field: impl Fn(&str) -> Option<&'f str>) -> bool {
    static OWN: OnceLock<Invocation> = OnceLock::new();
    let own = OWN.get_or_init(|| Invocation {
        // An interactive shell may inherit an invocation from the service that started it.
        id: goes_to_journal().then(|| std::env::var("INVOCATION_ID").ok()).flatten(),
        pid: std::process::id().to_string(),
        name: std::fs::read_to_string("/proc/self/comm").ok().map(|name| name.trim().to_owned()),
        boot: std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok().map(|id| id.trim().replace('-', "")),
    });
    let is = |name: &str, own: &Option<String>| own.is_some() && field(name) == own.as_deref();
    let by_process = || field("_PID") == Some(own.pid.as_str()) && is("_BOOT_ID", &own.boot) && is("_COMM", &own.name);
    let by_invocation = || is("_SYSTEMD_INVOCATION_ID", &own.id);
    by_process() || by_invocation()
}

/// Whether a syslog record is output of this process, forwarded by another program.
pub fn is_record(record: &Record<'_>) -> bool {
    static OWN: OnceLock<(String, String)> = OnceLock::new();
    // The name is compared first, because few records have it.
    let is = |name: &str, value: &str| record.text(name).is_some_and(|text| text == value);
    if !is("component", "daytable") {
        return false;
    }
    let (pid, host) = OWN.get_or_init(|| (std::process::id().to_string(), daytable_platform::host::name()));
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_ascii_lowercase();
    is("pid", pid) && record.text("host").is_none_or(|named| short(&named) == short(host))
}

/// Counts a skipped record or entry, and logs the first.
pub fn pass_over(source: &str) {
    if PASSED_OVER.fetch_add(1, Ordering::Relaxed) == 0 {
        tracing::info!(source, "this source returns the daemon's own output, which is skipped");
    }
}

/// How many were skipped.
pub fn passed_over() -> u64 {
    PASSED_OVER.load(Ordering::Relaxed)
}
