//! The checks of `daytable doctor`.

use super::super::check::ZONE_ADVICE;
use super::super::locate;
use super::super::output::counted;
use super::files::{files, surveyed};
use super::identities::identities;
use super::receivers::{names, receivers};
use super::times::{behind, times};
use super::{CheckResult, CheckStatus};
use crate::config::{Config, ConfigError, Listen};
use crate::daemon::{StartFile, StartFileState, start_files};
use crate::remote::{local_limits, local_rules};
use daytable_intake::journal::JournalOptions;
use daytable_intake::syslog::ListenAddress;
use daytable_lifecycle::{View, today_exceeds};
use daytable_model::path_text::PathText;
use daytable_model::time::{self, Ticks};
use daytable_parse::host_zone_doubt;
use daytable_platform::group;
use daytable_query::ShownSource;
use daytable_store::{LifecycleState, Reader};
use rustix::fs::{StatVfsMountFlags, statfs, statvfs};
use serde::Deserialize;
use std::ffi::OsStr;
use std::fs::File;
use std::io::ErrorKind;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Free bytes below which a disk is nearly full, and below which it is full.
const FREE_BYTES: (u64, u64) = (1 << 30, 64 << 20);
/// File descriptors for other purposes than tailed files: day-tables, sockets.
const OTHER_DESCRIPTORS: u64 = 512;
/// A clock before this date is not set: daytable did not exist.
const CLOCK_LEAST: (i32, u32, u32) = (2025, 1, 1);

/// The folders of this host's journal, below the root.
const JOURNALS: [&str; 2] = ["var/log/journal", "run/log/journal"];

/// Other collectors: name, place of the positions, option of `daytable adopt`.
const COLLECTORS: [(&str, &str, &str); 6] = [
    ("Promtail", "/var/lib/promtail/positions.yaml", "--promtail"),
    ("Promtail", "/run/promtail/positions.yaml", "--promtail"),
    ("Filebeat", "/var/lib/filebeat/registry", "--filebeat"),
    ("Vector", "/var/lib/vector", "--vector"),
    ("Alloy", "/var/lib/alloy/data", "--promtail"),
    ("Fluent Bit", "/var/lib/fluent-bit", "--fluent-bit"),
];

/// Runs all checks.
pub(super) fn all(config: &Config) -> Vec<CheckResult> {
    let (data_dir, now) = (&config.data_dir, time::now());
    let control = locate::connect(data_dir, Some(config));
    let is_running = matches!(control, Ok(Some(_)));
    let mut results = vec![CheckResult::ok("configuration", "it can be read"), clock(now)];
    results.extend(host_zone_doubt().map(|doubt| CheckResult::warn("zone", doubt, ZONE_ADVICE)));
    match may_look_into(data_dir) {
        true => results.extend(data_folder(data_dir, is_running)),
        false => results.extend(closed_folder(config, is_running)),
    }
    results.extend(today(config, now));
    match surveyed(config, control.ok().flatten()) {
        Ok(surveyed) => {
            results.extend(files(config, &surveyed, is_running, now));
            results.extend(times(data_dir, &surveyed, now));
        }
        Err(error) => results.push(CheckResult::fail("files", error.to_string(), "`journalctl -u daytable` says why")),
    }
    results.extend(behind(locate::connect(data_dir, Some(config)).ok().flatten()));
    results.extend(journals(config, Path::new("/"), std::env::var_os("PATH").as_deref()));
    results.extend(descriptors(config));
    results.extend(watches());
    results.extend(ports(config, is_running));
    if may_look_into(data_dir) {
        results.extend(secrets(config));
    }
    results.extend(read_socket(config, is_running));
    results.extend(receivers(config));
    results.extend(names(config));
    results.extend(identities(config));
    results.extend(other_collectors(Path::new("/"), data_dir));
    results.extend(daemon(data_dir, Some(config), is_running, now));
    results
}

/// Runs the checks that need no settings, where the configuration is wrong. The folder may be unknown, too.
pub(super) fn without_settings(data_dir: Option<&Path>, error: &ConfigError) -> Vec<CheckResult> {
    const CHECK: &str = "configuration";
    let advice = match error {
        ConfigError::Read { .. } => {
            "checks of settings are left out: sudo -u daytable daytable doctor, or name another one by --config"
        }
        ConfigError::Invalid(_) => {
            "correct it: a daemon that runs keeps the settings that it has, and does not start again with these; checks of settings \
             are left out"
        }
    };
    let now = time::now();
    let mut results = vec![CheckResult::fail(CHECK, error.to_string(), advice), clock(now)];
    results.extend(host_zone_doubt().map(|doubt| CheckResult::warn("zone", doubt, ZONE_ADVICE)));
    results.extend(watches());
    let Some(data_dir) = data_dir else {
        let found = "the configuration does not say where it is, so neither it nor the daemon is checked";
        results.push(CheckResult::warn("data folder", found, "name it by --data"));
        return results;
    };
    let is_running = matches!(locate::connect(data_dir, None), Ok(Some(_)));
    if may_look_into(data_dir) {
        results.extend(data_folder(data_dir, is_running));
    }
    results.extend(behind(locate::connect(data_dir, None).ok().flatten()));
    results.extend(other_collectors(Path::new("/"), data_dir));
    results.extend(daemon(data_dir, None, is_running, now));
    results
}

fn clock(now: Ticks) -> CheckResult {
    let (year, month, day) = CLOCK_LEAST;
    match Ticks::from_date(year, month, day).is_some_and(|least| now < least) {
        true => CheckResult::fail(
            "clock",
            format!("it says {now}"),
            "set it: lines without a time would go to days of the past",
        ),
        false => CheckResult::ok("clock", format!("it says {now}, UTC")),
    }
}

/// The name of a network file system (`true`) or of a file system in memory, by its number in statfs(2).
fn file_system(kind: i64) -> Option<(&'static str, bool)> {
    // The numbers are 32 bits wide, some with their uppermost bit set.
    Some(match kind & 0xffff_ffff {
        0x6969 => ("NFS", true),
        0xff53_4d42 | 0xfe53_4d42 | 0x517b => ("SMB", true),
        0x0102_1997 => ("9P", true),
        0x6573_5546 => ("FUSE", true),
        0x00c3_6400 => ("Ceph", true),
        0x0102_1994 => ("tmpfs", false),
        0x8584_58f6 => ("ramfs", false),
        _ => return None,
    })
}

/// Whether this user may look into the data folder, or make it.
fn may_look_into(folder: &Path) -> bool {
    !matches!(folder.join("catalog.db").metadata(), Err(error) if error.kind() == ErrorKind::PermissionDenied)
}

/// What a user is told who may not look into the data folder: whether the daemon answers, and what is left out here.
fn closed_folder(config: &Config, is_running: bool) -> Vec<CheckResult> {
    const CHECK: &str = "this user";
    let folder = config.data_dir.escaped();
    let all = "for every check: sudo -u daytable daytable doctor";
    let socket = config.read_socket.escaped();
    vec![match (&config.read_group, is_running) {
        (_, true) => CheckResult {
            advice: Some(all.into()),
            ..CheckResult::ok(CHECK, format!("the daemon answers; what is in {folder} is its own, and not checked"))
        },
        (Some(group), false) => CheckResult::warn(
            CHECK,
            format!("{folder} is the daemon's own, and no daemon answers this user over {socket}"),
            format!(
                "{all}; members of the group {group} ask the daemon: sudo usermod -aG {group} $USER, and log in again"
            ),
        ),
        (None, false) => CheckResult::warn(
            CHECK,
            format!("{folder} is the daemon's own, so neither it nor the daemon is checked"),
            format!("{all}; for a group that may read, set read_group"),
        ),
    }]
}

fn data_folder(folder: &Path, is_running: bool) -> Vec<CheckResult> {
    const CHECK: &str = "data folder";
    let shown = folder.escaped();
    // The nearest existing folder stands for a folder that does not exist yet.
    let existing = folder.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    let mut results = Vec::new();
    results.push(match (folder.exists(), is_writable(existing)) {
        (true, true) => CheckResult::ok(CHECK, format!("{shown} can be written")),
        (false, true) => CheckResult::ok(CHECK, format!("{shown} is not there yet and can be made")),
        (_, false) => CheckResult::fail(
            CHECK,
            format!("{} cannot be written by this user", existing.escaped()),
            format!("run this as the daemon's user, or: install -d -o daytable -g daytable -m 0700 {shown}"),
        ),
    });
    #[allow(clippy::unnecessary_cast)]
    if let Ok(Some((name, is_remote))) = statfs(existing).map(|stat| file_system(stat.f_type as i64)) {
        results.push(match is_remote {
            true => CheckResult::fail(
                CHECK,
                format!("{shown} is on {name}"),
                "put it on a local disk: SQLite's locks and fsync do not hold over a network",
            ),
            false => CheckResult::warn(
                CHECK,
                format!("{shown} is on {name}"),
                "what is kept there is gone after a restart of the machine, and takes memory: put it on a disk",
            ),
        });
    }
    if let Ok(disk) = statvfs(existing) {
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        let says = format!("{} free", super::super::output::bytes(free));
        let advice = "make room, or set lifecycle.max_bytes: a full disk stops the intake until there is room";
        results.push(match free {
            _ if disk.f_flag.contains(StatVfsMountFlags::RDONLY) => {
                CheckResult::fail("disk", "it is mounted read-only", "mount it to be written")
            }
            free if free < FREE_BYTES.1 => CheckResult::fail("disk", says, advice),
            free if free < FREE_BYTES.0 => CheckResult::warn("disk", says, advice),
            _ => CheckResult::ok("disk", says),
        });
    }
    if folder.join("catalog.db").exists() {
        match Reader::open(folder).and_then(|reader| reader.sources()) {
            Ok(sources) => {
                let lost = sources.iter().map(ShownSource::of).filter(|source| source.ledger.lost_bytes > 0).count();
                if lost > 0 {
                    results.push(CheckResult::warn(
                        CHECK,
                        format!("{} lost bytes before being read", counted(lost as u64, "file")),
                        "`daytable sources` names them: rotate by rename and not by copytruncate, or keep files longer",
                    ));
                }
            }
            Err(error) => results.push(CheckResult::fail(CHECK, error.to_string(), "the message says what to do")),
        }
    } else if is_running {
        results.push(CheckResult::fail(CHECK, "a daemon answers, and there is no catalog", "look at its log"));
    }
    results
}

/// Whether the days that are not over exceed `max_bytes` alone. A folder that cannot be read has a finding already.
fn today(config: &Config, now: Ticks) -> Vec<CheckResult> {
    let Ok(reader) = Reader::open(&config.data_dir) else { return Vec::new() };
    let Ok(state) = LifecycleState::of(reader.catalog()) else { return Vec::new() };
    let view = View::of(&config.data_dir, state, &local_rules(config), local_limits(config), now);
    let advice = "set a larger max_bytes, or log less: the disk gets full otherwise";
    let exceeded = today_exceeds(&view);
    exceeded.iter().map(|excess| CheckResult::warn("max_bytes", excess.to_string(), advice)).collect()
}

fn is_writable(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok()
}

fn descriptors(config: &Config) -> Vec<CheckResult> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
    let files = config.sources.tails.iter().map(|tail| tail.open_files_max as u64).max().unwrap_or(0);
    let connections: u64 = config.sources.syslogs.iter().map(|syslog| u64::from(syslog.connections_max.get())).sum();
    let needed = files + connections + u64::from(config.http.connections_max.get()) + OTHER_DESCRIPTORS;
    vec![match limit {
        Some(limit) if limit < needed => CheckResult::warn(
            "descriptors",
            format!("{limit} may be open, {needed} may be needed"),
            format!(
                "raise LimitNOFILE= of the service (ulimit -n) to {needed}, or lower open_files_max and connections_max"
            ),
        ),
        _ => CheckResult::ok("descriptors", format!("{needed} may be needed, and can be had")),
    }]
}

/// Whether there is a journal for each block that reads one. `path` is the variable `PATH`.
fn journals(config: &Config, root: &Path, path: Option<&OsStr>) -> Vec<CheckResult> {
    const CHECK: &str = "journal";
    let is_there =
        || path.is_some_and(|path| std::env::split_paths(path).any(|folder| folder.join("journalctl").is_file()));
    let of_block = |block: &JournalOptions| {
        let name = format!("[[journal]] {:?}", block.name);
        let folders = match &block.directory {
            Some(folder) => vec![folder.clone()],
            None => JOURNALS.iter().map(|folder| root.join(folder)).collect(),
        };
        match folders.iter().any(|folder| folder.is_dir()) {
            false => {
                let folders =
                    folders.iter().map(|folder| folder.text().into_owned()).collect::<Vec<_>>().join(" nor in ");
                let found = format!("{name}: there is no journal in {folders}");
                CheckResult::warn(CHECK, found, "remove the block, and let [[tail]] read what is in /var/log")
            }
            true if !is_there() => CheckResult::warn(
                CHECK,
                format!("{name}: there is no program journalctl"),
                "install it (it is a part of systemd), or remove the block",
            ),
            true => CheckResult::ok(CHECK, format!("{name}: there is a journal")),
        }
    };
    config.sources.journals.iter().map(of_block).collect()
}

fn watches() -> Vec<CheckResult> {
    let read = |name: &str| {
        let text = std::fs::read_to_string(Path::new("/proc/sys/fs/inotify").join(name)).ok()?;
        text.trim().parse::<u64>().ok()
    };
    let (Some(watches), Some(instances)) = (read("max_user_watches"), read("max_user_instances")) else {
        return Vec::new();
    };
    vec![match watches < 8192 || instances < 16 {
        true => CheckResult::warn(
            "inotify",
            format!("{watches} watches and {instances} instances a user"),
            "without events folders are polled, which works: sysctl fs.inotify.max_user_watches=65536 fs.inotify.max_user_instances=128",
        ),
        false => CheckResult::ok("inotify", format!("{watches} watches and {instances} instances a user")),
    }]
}

/// Whether the ports can be bound. A running daemon has bound them already.
fn ports(config: &Config, is_running: bool) -> Vec<CheckResult> {
    if is_running {
        return Vec::new();
    }
    let mut results = Vec::new();
    if let Listen::Tcp(address) = config.http.listen {
        results.push(port(format!("[http] {address}"), TcpListener::bind(address).map(drop)));
    }
    for syslog in &config.sources.syslogs {
        let listener = format!("[[syslog]] {:?} {}", syslog.name, syslog.listen);
        match &syslog.listen {
            ListenAddress::Udp(address) => results.push(port(listener, UdpSocket::bind(address).map(drop))),
            ListenAddress::Tcp(address) | ListenAddress::Tls(address) | ListenAddress::Relp(address) => {
                results.push(port(listener, TcpListener::bind(address).map(drop)));
            }
            ListenAddress::UnixDatagram(path) | ListenAddress::UnixStream(path) => {
                let folder = path.parent().unwrap_or(Path::new("/"));
                results.push(match is_writable(folder) {
                    true => CheckResult::ok("port", listener),
                    false => CheckResult::fail(
                        "port",
                        format!("{listener}: {} cannot be written", folder.escaped()),
                        "use a folder of the daemon's (/run/daytable), or let systemd bind it (daytable.socket)",
                    ),
                });
            }
        }
    }
    results
}

fn port(listener: String, bound: std::io::Result<()>) -> CheckResult {
    match bound {
        Ok(()) => CheckResult::ok("port", format!("{listener} is free")),
        Err(error) if error.kind() == ErrorKind::AddrInUse => CheckResult::fail(
            "port",
            format!("{listener} is taken"),
            "`ss -lntup` says by whom: stop it, or choose another `listen`",
        ),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => CheckResult::fail(
            "port",
            format!("{listener} needs a privilege"),
            "give the service CAP_NET_BIND_SERVICE, or let systemd bind it (daytable.socket)",
        ),
        Err(error) => CheckResult::fail("port", format!("{listener}: {error}"), "choose an address of this host"),
    }
}

/// Whether the daemon alone can read the files with secrets.
fn secrets(config: &Config) -> Vec<CheckResult> {
    let http = &config.http;
    let keys = http.tls.iter().chain(config.sources.all().filter_map(|block| block.tls)).map(|tls| &tls.key_file);
    let account = config.store.remote().map(|remote| &remote.account);
    let of_store =
        account.into_iter().flat_map(|account| [&account.connection_string_file, &account.client_secret_file]);
    let headers = config.forward.iter().filter_map(|receiver| receiver.headers_file.as_ref());
    let files = http.token_file.iter().chain(&http.credentials_file).chain(keys);
    let files: Vec<_> = files.chain(of_store.flatten()).chain(headers).collect();
    let refused = refused(config, &files);
    let is_refused = |path: &Path| refused.iter().any(|(file, _)| file == path);
    let of_each = files
        .into_iter()
        .map(|path| match std::fs::metadata(path) {
            Err(error) => CheckResult::fail(
                "secrets",
                format!("{}: {error}", path.escaped()),
                "the daemon does not start without it",
            ),
            Ok(_) if !is_readable_now(path) => CheckResult::fail(
                "secrets",
                format!("{} cannot be read by this user", path.escaped()),
                "give it to the daemon's user, or use LoadCredential=",
            ),
            Ok(file) if file.permissions().mode() & 0o077 != 0 => CheckResult::warn(
                "secrets",
                format!("{} can be read by others", path.escaped()),
                format!("chmod 600 {}", path.escaped()),
            ),
            Ok(_) => CheckResult::ok("secrets", path.text().into_owned()),
        })
        .filter(|result| result.verdict != CheckStatus::Ok || !is_refused(Path::new(&result.found)));
    let mut results: Vec<CheckResult> = of_each.collect();
    let fail = |(_, error)| CheckResult::fail("secrets", error, "the daemon does not start with it: correct the file");
    results.extend(refused.into_iter().map(fail));
    results
}

/// The files with which the daemon does not start, and why. Those of `listed` that are not there are told of already.
fn refused(config: &Config, listed: &[&PathBuf]) -> Vec<(PathBuf, String)> {
    // The warning of a file that others can read is one of the results.
    let files = tracing::subscriber::with_default(tracing::subscriber::NoSubscriber::default(), || start_files(config));
    let refused = files.into_iter().filter_map(|StartFile { path, state, .. }| match state {
        StartFileState::Refused(error) if path.exists() || !listed.contains(&&path) => Some((path, error.to_string())),
        _ => None,
    });
    refused.collect()
}

/// Whether there is the group of readers, and its socket while the daemon runs.
fn read_socket(config: &Config, is_running: bool) -> Vec<CheckResult> {
    const CHECK: &str = "readers";
    let Some(name) = &config.read_group else { return Vec::new() };
    let socket = &config.read_socket;
    vec![match group::number(name) {
        Ok(Some(_)) if is_running && !socket.exists() => CheckResult::warn(
            CHECK,
            format!("the daemon has no socket {} for the group {name}", socket.escaped()),
            "the log says why: journalctl -u daytable",
        ),
        Ok(Some(_)) => CheckResult::ok(CHECK, format!("members of {name} may read over {}", socket.escaped())),
        Ok(None) => CheckResult::warn(
            CHECK,
            format!("there is no group {name}, so nobody reads over {}", socket.escaped()),
            format!("sudo groupadd --system {name}, or set read_group to another one"),
        ),
        Err(error) => CheckResult::warn(CHECK, format!("the groups cannot be read: {error}"), "look at /etc/group"),
    }]
}

fn is_readable_now(path: &Path) -> bool {
    File::open(path).is_ok()
}

/// Whether there are positions of another collector to continue from. Checked until daytable has a catalog.
fn other_collectors(root: &Path, data_dir: &Path) -> Vec<CheckResult> {
    if data_dir.join("catalog.db").exists() {
        return Vec::new();
    }
    let below_root = |path: &str| root.join(path.trim_start_matches('/'));
    let found = COLLECTORS.iter().filter(|(_, path, _)| below_root(path).exists());
    found
        .map(|(name, path, option)| {
            CheckResult::warn(
                "other collectors",
                format!("{name} keeps positions in {path}"),
                format!("to go on where it stopped: stop it, then `daytable adopt {option} {path}` before the first start (docs/guide/adopt.md)"),
            )
        })
        .collect()
}

/// Whether the daemon is ready, and drops what has expired.
fn daemon(data_dir: &Path, config: Option<&Config>, is_running: bool, now: Ticks) -> Vec<CheckResult> {
    const CHECK: &str = "daemon";
    if !is_running && !may_look_into(data_dir) {
        return Vec::new();
    }
    if !is_running {
        let found = format!("none runs on {}", data_dir.escaped());
        return vec![CheckResult::warn(CHECK, found, format!("start it: {}", locate::start_command()))];
    }
    let ask = |target: &str| locate::connect(data_dir, config).ok().flatten().map(|control| control.fetch(target));
    let why = "`journalctl -u daytable` says why";
    match ask("/readyz") {
        Some(Ok(_)) => {}
        Some(Err(error)) => return vec![CheckResult::fail(CHECK, error.to_string(), why)],
        None => return vec![CheckResult::fail(CHECK, "it does not answer", why)],
    }
    let mut results = vec![CheckResult::ok(CHECK, "it runs and is ready")];
    let Some(Ok(mut tables)) = ask("/api/tables") else { return results };
    while let Ok(Some(line)) = tables.next_line() {
        results.extend(serde_json::from_str(&line).ok().and_then(|table: ListedTable| table.trouble(now)));
    }
    results
}

/// A day-table in the daemon's list.
#[derive(Deserialize)]
struct ListedTable {
    table: String,
    state: String,
    expires: Option<String>,
    stays: Option<String>,
    error: Option<String>,
}

impl ListedTable {
    /// A day-table with a step that fails or is left, or that expired and still exists a day later.
    fn trouble(self, now: Ticks) -> Option<CheckResult> {
        if let Some(error) = &self.error {
            let found = format!("{}: {error}", self.table);
            return Some(CheckResult::warn("lifecycle", found, "daytable plan says what is due; the log says more"));
        }
        self.overdue(now)
    }

    /// A day-table that expired, and still exists a day later.
    fn overdue(self, now: Ticks) -> Option<CheckResult> {
        let expires = self.expires.filter(|_| self.state != "dropped")?;
        // Times of one form are in the order of their texts.
        let is_overdue = expires.as_str() < now.minus(Duration::from_secs(86_400)).to_string().as_str();
        let reason = self.stays.unwrap_or_else(|| "the next run of the lifecycle drops it".into());
        is_overdue.then(|| {
            let found = format!("{} expired at {expires}, and is still there: {reason}", self.table);
            CheckResult::warn("keep", found, "daytable plan says what it waits for")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdicts(results: &[CheckResult]) -> Vec<CheckStatus> {
        results.iter().map(|finding| finding.verdict).collect()
    }

    #[test]
    fn a_clock_that_was_never_set_fails() {
        assert_eq!(clock(Ticks::UNIX_EPOCH).verdict, CheckStatus::Fail);
        assert_eq!(clock(Ticks::from_date(2026, 11, 21).expect("a date")).verdict, CheckStatus::Ok);
    }

    #[test]
    fn file_systems_are_known_by_their_numbers() {
        assert_eq!(file_system(0x6969), Some(("NFS", true)));
        assert_eq!(file_system(-11_317_950), Some(("SMB", true)), "as a signed number");
        assert_eq!(file_system(0x0102_1994), Some(("tmpfs", false)));
        assert_eq!(file_system(0xef53), None, "ext4");
    }

    #[test]
    fn a_port_that_is_taken_or_forbidden_is_told_apart() {
        let taken = TcpListener::bind("127.0.0.1:0").expect("bound");
        let mut config = Config::default();
        config.http.listen = Listen::Tcp(taken.local_addr().expect("an address"));
        let results = ports(&config, false);
        assert_eq!(verdicts(&results), [CheckStatus::Fail]);
        assert!(results[0].found.ends_with("is taken"), "{results:?}");
        assert!(ports(&config, true).is_empty(), "a daemon that runs has it");
        assert!(
            port("x".into(), Err(ErrorKind::PermissionDenied.into()))
                .advice
                .is_some_and(|a| a.contains("CAP_NET_BIND"))
        );
    }

    #[test]
    fn a_block_without_a_journal_is_said() {
        let host = tempfile::tempdir().expect("a folder");
        let mut config = Config::default();
        config.sources.journals = vec![JournalOptions { name: "journal".into(), ..JournalOptions::default() }];
        let found = |config: &Config, path: &Path| journals(config, host.path(), Some(path.as_os_str()));
        let results = found(&config, host.path());
        assert!(results[0].verdict == CheckStatus::Warn && results[0].found.contains("no journal in"), "{results:?}");
        std::fs::create_dir_all(host.path().join("run/log/journal")).expect("made");
        let results = found(&config, host.path());
        assert!(results[0].verdict == CheckStatus::Warn && results[0].found.contains("journalctl"), "{results:?}");
        std::fs::write(host.path().join("journalctl"), "").expect("written");
        assert_eq!(verdicts(&found(&config, host.path())), [CheckStatus::Ok]);
        config.sources.journals[0].directory = Some(host.path().join("elsewhere"));
        assert_eq!(verdicts(&found(&config, host.path())), [CheckStatus::Warn]);
        assert!(found(&Config::default(), host.path()).is_empty());
    }

    #[test]
    fn secrets_that_others_can_read_are_said() {
        let folder = tempfile::tempdir().expect("a folder");
        let token = folder.path().join("token");
        std::fs::write(&token, "a-token-of-some-length").expect("written");
        let mut config = Config::default();
        config.http.token_file = Some(token.clone());
        for (mode, verdict) in [(0o600, CheckStatus::Ok), (0o640, CheckStatus::Warn)] {
            std::fs::set_permissions(&token, std::fs::Permissions::from_mode(mode)).expect("set");
            assert_eq!(verdicts(&secrets(&config)), [verdict], "{mode:o}");
        }
        config.http.token_file = Some("/nowhere/token".into());
        assert_eq!(verdicts(&secrets(&config)), [CheckStatus::Fail]);
    }

    #[test]
    fn another_collector_is_told_of_until_something_was_read() {
        let root = tempfile::tempdir().expect("a folder");
        let data = root.path().join("data");
        assert!(other_collectors(root.path(), &data).is_empty());
        std::fs::create_dir_all(root.path().join("var/lib/filebeat/registry")).expect("made");
        let found = other_collectors(root.path(), &data);
        assert!(found[0].advice.as_deref().is_some_and(|advice| advice.contains("adopt --filebeat")), "{found:?}");
        std::fs::create_dir(&data).expect("made");
        std::fs::write(data.join("catalog.db"), "").expect("written");
        assert!(other_collectors(root.path(), &data).is_empty());
    }
}
