//! The folder of a command without `--config` and `--data`: the configuration that packages install, the data folder of
//! that configuration, and the data folder of the only running daemon.
//!
//! The kernel lists listening sockets in `/proc/net/unix`, so a running daemon needs no file at a fixed place.

use super::control::{Control, ControlError};
use super::exit::CliError;
use crate::config::{Config, ConfigError, environment};
use daytable_model::path_text::PathText;
use serde::Deserialize;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// The configuration that packages install.
const CONFIG_FILE: &str = "/etc/daytable/daytable.toml";
/// The kernel's list of sockets.
const SOCKETS: &str = "/proc/net/unix";
/// The name of a socket of readers, unless one is configured.
const READ_SOCKET: &str = "read.sock";
/// The flag of a listening socket in `/proc/net/unix`.
const LISTENING: &str = "00010000";

/// A file with the keys of the environment, or the defaults with these keys.
pub(super) fn load_config(path: Option<&Path>) -> Result<Config, ConfigError> {
    Config::load_with(path, &environment::variables())
}

/// As [`load_config`], or `None` without a file.
pub(super) fn load_named_config(path: Option<&Path>) -> Result<Option<Config>, ConfigError> {
    path.map(|path| load_config(Some(path))).transpose()
}

/// The configuration of `DAYTABLE_CONFIG`, or the installed one if it exists.
pub(super) fn installed_file() -> Option<&'static Path> {
    static NAMED: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
        let named = std::env::var_os("DAYTABLE_CONFIG").filter(|named| !named.is_empty());
        named.map(PathBuf::from)
    });
    NAMED.as_deref().or_else(|| Some(Path::new(CONFIG_FILE)).filter(|path| path.exists()))
}

/// The installed configuration; without it, the environment and the defaults.
pub(super) fn config() -> Result<Config, ConfigError> {
    load_config(installed_file())
}

/// The installed configuration, if it is that of `data_dir` and this user can read it.
pub(super) fn config_of(data_dir: &Path) -> Option<Config> {
    let config = load_config(Some(installed_file()?)).ok()?;
    (config.data_dir == data_dir).then_some(config)
}

/// The data folder: that of the installed configuration, or of the only running daemon if there is no store in the former.
pub(super) fn data_dir() -> PathBuf {
    let configured = config().map_or_else(|_| Config::default().data_dir, |config| config.data_dir);
    if holds_store(&configured) {
        return configured;
    }
    match &mut running()[..] {
        [only] => std::mem::take(only),
        _ => configured,
    }
}

/// Connects to the daemon of a command that only reads: over the control socket, or over the socket of readers where this user
/// must not open the former. `named` is the configuration that the command names. `None` without a daemon.
pub(super) fn connect(data_dir: &Path, named: Option<&Config>) -> Result<Option<Control>, ControlError> {
    match Control::connect(data_dir) {
        Err(ControlError::Socket { path, source }) if source.kind() == ErrorKind::PermissionDenied => {
            let reading = reading_daemon(data_dir, named);
            reading.map(Some).ok_or(ControlError::Socket { path, source })
        }
        connected => connected,
    }
}

/// The daemon of a folder behind a socket of readers: the configured one, or one that listens and says that the folder is its own.
fn reading_daemon(data_dir: &Path, named: Option<&Config>) -> Option<Control> {
    let installed = config_of(data_dir);
    let of_config = [named, installed.as_ref()].into_iter().flatten().find(|config| config.data_dir == data_dir);
    let configured = of_config.filter(|config| config.read_group.is_some()).map(|config| &config.read_socket);
    let open = |path: &Path| Control::at(path.to_owned()).ok().flatten();
    if let Some(control) = configured.and_then(|path| open(path)) {
        return Some(control);
    }
    let sockets = listening(&std::fs::read_to_string(SOCKETS).unwrap_or_default(), READ_SOCKET);
    let is_own = |folder: &PathBuf| {
        let status = open(&folder.join(READ_SOCKET))?.fetch("/-/status").ok()?;
        let status: StatusOfFolder = status.only("it is not the state of a daemon").ok()?;
        (Path::new(&status.disk.data_dir) == data_dir).then_some(())
    };
    let own = sockets.iter().find(|folder| is_own(folder).is_some())?;
    open(&own.join(READ_SOCKET))
}

/// What of a daemon's state says which folder is its own.
#[derive(Deserialize)]
struct StatusOfFolder {
    disk: DiskOfFolder,
}

#[derive(Deserialize)]
struct DiskOfFolder {
    data_dir: String,
}

/// The daemon of a command that needs one, and only reads.
pub(super) fn reader_of(data_dir: &Path, named: Option<&Config>) -> Result<Control, CliError> {
    connect(data_dir, named)?.ok_or_else(|| CliError::Unavailable(no_daemon(data_dir)))
}

/// The daemon of a command that needs one.
pub(super) fn daemon_of(data_dir: &Path) -> Result<Control, CliError> {
    Control::connect(data_dir)?.ok_or_else(|| CliError::Unavailable(no_daemon(data_dir)))
}

/// The error of a command that needs a running daemon, with the next step.
pub(super) fn no_daemon(data_dir: &Path) -> String {
    let others: Vec<String> = running().iter().map(|other| format!("--data {}", other.escaped())).collect();
    let others =
        if others.is_empty() { String::new() } else { format!("; daemons run elsewhere: {}", others.join(", ")) };
    format!("no daemon runs on {}; start it: {}{others}", data_dir.escaped(), start_command())
}

/// The command that starts a daemon.
pub(super) fn start_command() -> String {
    installed_file().map_or_else(
        || "daytable run --config FILE".to_owned(),
        |file| format!("systemctl start daytable, or daytable run --config {}", file.escaped()),
    )
}

fn holds_store(folder: &Path) -> bool {
    folder.join("catalog.db").exists()
}

/// The data folders of running daemons that this user can see.
fn running() -> Vec<PathBuf> {
    let mut folders = listening(&std::fs::read_to_string(SOCKETS).unwrap_or_default(), "control.sock");
    folders.retain(|folder| holds_store(folder));
    folders
}

/// The folders of the listening sockets of a name.
fn listening(table: &str, name: &str) -> Vec<PathBuf> {
    let folder = |line: &str| {
        let socket = line.find(" /").map(|at| Path::new(&line[at + 1..]))?;
        let is_listening = line.split_ascii_whitespace().nth(3) == Some(LISTENING);
        (is_listening && socket.ends_with(name)).then(|| socket.parent().map(Path::to_owned))?
    };
    let mut folders: Vec<PathBuf> = table.lines().filter_map(folder).collect();
    folders.sort();
    folders.dedup();
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_daemons_are_listening_sockets() {
        let table = "Num       RefCount Protocol Flags    Type St Inode Path\n\
             0000000000000000: 00000002 00000000 00010000 0001 01 21 /srv/my logs/control.sock\n\
             0000000000000000: 00000003 00000000 00000000 0001 03 22 /srv/my logs/control.sock\n\
             0000000000000000: 00000002 00000000 00010000 0001 01 23 /run/other.sock\n\
             0000000000000000: 00000002 00000000 00010000 0001 01 24 @/abstract/control.sock\n";
        assert_eq!(listening(table, "control.sock"), [Path::new("/srv/my logs")]);
        assert_eq!(listening(table, "other.sock"), [Path::new("/run")]);
        assert!(listening("", "control.sock").is_empty());
    }
}
