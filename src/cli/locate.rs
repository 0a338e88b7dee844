//! The folder of a command without `--config` and `--data`: the configuration that packages install, the data folder of
//! that configuration, and the data folder of the only running daemon.
//!
//! The kernel lists listening sockets in `/proc/net/unix`, so a running daemon needs no file at a fixed place.

use super::control::{Control, ControlError};
use super::exit::CliError;
use super::hint::hint;
use crate::config::{Config, ConfigError, environment};
use daytable_model::path_text::PathText;
use daytable_model::safe_text::SafeLines;
use serde::Deserialize;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Once};

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

/// The data folder of a command, and what the command knows of its configuration.
pub(super) struct Located {
    pub(super) data_dir: PathBuf,
    /// The configuration that the command names.
    pub(super) named: Option<Config>,
    /// Whether the configuration of the folder is wrong, so that no command knows its settings. The user was told of it.
    pub(super) is_wrong: bool,
}

impl Located {
    /// The named configuration, or the installed one if it is that of the folder.
    pub(super) fn config(&self) -> Option<Config> {
        self.named.clone().or_else(|| config_of(&self.data_dir))
    }
}

/// The data folder of a command that can do without settings: the `given` one, or that of the configuration in `file`. A wrong
/// configuration is warned of.
///
/// # Errors
///
/// The configuration is wrong, and nothing else says which folder is meant.
pub(super) fn located(given: Option<&Path>, file: Option<&Path>) -> Result<Located, CliError> {
    let named = match load_named_config(file) {
        Ok(named) => named,
        Err(error) => return located_despite(error, given, file),
    };
    let data_dir = match (given, &named) {
        (Some(given), _) => given.to_owned(),
        (None, Some(config)) => config.data_dir.clone(),
        (None, None) => data_dir(),
    };
    let is_wrong = named.is_none() && is_installed_wrong(&data_dir);
    Ok(Located { data_dir, named, is_wrong })
}

/// The data folder where the configuration cannot be read for an `error`, which is warned of.
///
/// # Errors
///
/// The file is not there, so another one was meant, or nothing else says which folder is.
pub(super) fn located_despite(
    error: ConfigError,
    given: Option<&Path>,
    file: Option<&Path>,
) -> Result<Located, CliError> {
    if matches!(&error, ConfigError::Read { source, .. } if source.kind() == ErrorKind::NotFound) {
        return Err(error.into());
    }
    match folder_despite(given, file) {
        Some(data_dir) => {
            warn_of_wrong(&error);
            Ok(Located { data_dir, named: None, is_wrong: true })
        }
        None => Err(CliError::UnknownFolder(error)),
    }
}

/// The given data folder, or that of a configuration with problems, if they leave no doubt about it.
pub(super) fn folder_despite(given: Option<&Path>, file: Option<&Path>) -> Option<PathBuf> {
    given.map(Path::to_owned).or_else(|| Config::data_dir_despite_problems(file, &environment::variables()))
}

/// Whether the installed configuration is that of `data_dir`, and has problems, which are warned of. Not every user may read it.
fn is_installed_wrong(data_dir: &Path) -> bool {
    let Some(file) = installed_file() else { return false };
    let Err(error @ ConfigError::Invalid(_)) = load_config(Some(file)) else { return false };
    let is_wrong = folder_despite(None, Some(file)).as_deref() == Some(data_dir);
    if is_wrong {
        warn_of_wrong(&error);
    }
    is_wrong
}

/// Warns once of a configuration that a command does without.
fn warn_of_wrong(error: &ConfigError) {
    static WARNED: Once = Once::new();
    let first = match error {
        ConfigError::Invalid(problems) => problems.first().map(ToString::to_string).unwrap_or_default(),
        error => error.to_string(),
    };
    let more = match error {
        ConfigError::Invalid(problems) if problems.len() > 1 => {
            format!(" (problems: {}, see `daytable check`)", problems.len())
        }
        _ => String::new(),
    };
    WARNED.call_once(|| {
        hint(format_args!(
            "daytable: warning: the configuration is wrong, and is not used: {}{more}",
            SafeLines(&first)
        ));
    });
}

/// The data folder: that of the installed configuration, or of the only running daemon if there is no store in the former.
pub(super) fn data_dir() -> PathBuf {
    let configured = config().map(|config| config.data_dir).or_else(|error| {
        let known = folder_despite(None, installed_file()).ok_or(())?;
        warn_of_wrong(&error);
        Ok(known)
    });
    let configured = configured.unwrap_or_else(|()| Config::default().data_dir);
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

/// The running daemon with this configuration, whatever its data folder is.
pub(super) fn daemon_with(file: &Path) -> Option<Control> {
    let file = file.canonicalize().ok()?;
    let has_file = |folder: &PathBuf| {
        let status = Control::connect(folder).ok()??.fetch("/-/status").ok()?;
        let status: StatusOfFolder = status.only("it is not the state of a daemon").ok()?;
        (Path::new(&status.config_file?).canonicalize().ok()? == file).then_some(())
    };
    let folder = running().into_iter().find(|folder| has_file(folder).is_some())?;
    Control::connect(&folder).ok()?
}

/// What of a daemon's state says which folder and which configuration are its own.
#[derive(Deserialize)]
struct StatusOfFolder {
    disk: DiskOfFolder,
    config_file: Option<String>,
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
