//! Errors of commands, and their exit codes. The codes are those of `sysexits.h`.

use super::control::ControlError;
use crate::config::ConfigError;
use crate::daemon::DaemonError;
use crate::http::{BindError, PushAuthError};
use crate::remote::RemoteError;
use daytable_archive::ArchiveError;
use daytable_intake::adopt::AdoptError;
use daytable_intake::source::SourceError;
use daytable_intake::tail::ImportError;
use daytable_lifecycle::StepError;
use daytable_logsql::SyntaxError;
use daytable_model::path_text::PathText;
use daytable_query::answer::FollowError;
use daytable_query::tables::TableError;
use daytable_query::tables::copy::CopyError;
use daytable_store::StoreError;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// An exit code. It tells what the caller can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Success.
    Ok = 0,
    /// The command line is wrong.
    Usage = 64,
    /// Stored or given data is wrong.
    Data = 65,
    /// A named input does not exist.
    NoInput = 66,
    /// The command is impossible in the present state.
    Unavailable = 69,
    /// A bug of the program.
    Software = 70,
    /// Reading or writing failed.
    Io = 74,
    /// A later attempt may succeed.
    TempFail = 75,
    /// A permission is missing.
    NoPerm = 77,
    /// The configuration is wrong.
    Config = 78,
}

impl Exit {
    /// All codes, with their meaning.
    pub const ALL: [(Exit, &'static str); 10] = [
        (Exit::Ok, "success"),
        (Exit::Usage, "the command line is wrong"),
        (Exit::Data, "the data is not as it should be"),
        (Exit::NoInput, "a named thing does not exist"),
        (Exit::Unavailable, "not possible as things are"),
        (Exit::Software, "a fault of the program"),
        (Exit::Io, "reading or writing failed"),
        (Exit::TempFail, "it may work later"),
        (Exit::NoPerm, "not permitted"),
        (Exit::Config, "the configuration is wrong"),
    ];
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// A command failed.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The reader of the output is closed, which is not a failure.
    #[error("the reader of the output is gone")]
    OutputClosed,
    /// The output cannot be written.
    #[error("failed to write the output: {0}")]
    Output(#[source] io::Error),
    /// A named file cannot be read.
    #[error("failed to read {}: {source}", .path.escaped())]
    Input {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file or folder cannot be written.
    #[error("failed to write {}: {source}", .path.escaped())]
    Write {
        /// The path.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Positions of another collector cannot be read.
    #[error(transparent)]
    Adopt(#[from] AdoptError),
    /// The record does not exist.
    #[error("{0} does not exist")]
    NotFound(String),
    /// The configuration has problems.
    #[error("the configuration is wrong:\n{0}")]
    Config(#[from] ConfigError),
    /// The data folder failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The configuration is wrong, and does not say which data folder is meant.
    #[error("the configuration is wrong, and does not say which data folder is meant:\n{0}")]
    UnknownFolder(ConfigError),
    /// A table store failed.
    #[error(transparent)]
    Tables(#[from] TableError),
    /// The configured remote store cannot be reached.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// Tables could not be copied.
    #[error(transparent)]
    Copy(#[from] CopyError),
    /// The running daemon did not do the request.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The daemon did not start, or ended without a signal.
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    /// Files could not be imported.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// Some of several files were not imported, or not to their end. Each was named.
    #[error("{files} of {of} files could not be read to the end")]
    Unimported {
        /// How many.
        files: usize,
        /// Of how many.
        of: usize,
        /// The error of the first one, which has the exit code.
        first: Box<CliError>,
    },
    /// A step of the lifecycle failed.
    #[error(transparent)]
    Step(#[from] StepError),
    /// The command is impossible in the present state.
    #[error("{0}")]
    Unavailable(String),
    /// The command drops data, and was not confirmed.
    #[error("{0}")]
    Unconfirmed(String),
    /// Stored data is not whole.
    #[error("{0}")]
    NotWhole(String),
    /// The query cannot be followed.
    #[error(transparent)]
    Follow(#[from] FollowError),
    /// The options do not fit each other.
    #[error("{0}")]
    Usage(String),
    /// The query is wrong.
    #[error("the query is wrong: {0}")]
    Query(#[from] SyntaxError),
    /// The output lacks records that could not be read.
    #[error("{0}")]
    Incomplete(String),
}

impl CliError {
    /// An error of standard output.
    pub(super) fn output(error: io::Error) -> CliError {
        if error.kind() == io::ErrorKind::BrokenPipe { CliError::OutputClosed } else { CliError::Output(error) }
    }

    /// The exit code of the process.
    pub fn exit(&self) -> Exit {
        match self {
            CliError::OutputClosed => Exit::Ok,
            CliError::Output(_) => Exit::Io,
            CliError::Input { source, .. } | CliError::Write { source, .. } => of_io(source),
            CliError::Adopt(AdoptError::Io { source, .. }) => of_io(source),
            CliError::Adopt(_) => Exit::Data,
            CliError::NotFound(_) => Exit::NoInput,
            CliError::Config(_) | CliError::UnknownFolder(_) => Exit::Config,
            CliError::Query(_)
            | CliError::Usage(_)
            | CliError::Follow(FollowError::Endless(_) | FollowError::Joined(_))
            | CliError::Unconfirmed(_) => Exit::Usage,
            CliError::Follow(FollowError::Store(error)) => of_store(error),
            CliError::Unavailable(_) => Exit::Unavailable,
            CliError::NotWhole(_) => Exit::Data,
            CliError::Incomplete(_) => Exit::TempFail,
            CliError::Store(error) | CliError::Step(StepError::Store(error)) => of_store(error),
            CliError::Tables(error) => of_tables(error),
            CliError::Remote(error) => of_remote(error),
            CliError::Copy(CopyError::Tables(error)) => of_tables(error),
            CliError::Copy(CopyError::State { source, .. }) => of_io(source),
            CliError::Copy(CopyError::Stopped | CopyError::Grew { .. }) => Exit::TempFail,
            CliError::Copy(_) => Exit::Data,
            CliError::Step(error) => of_step(error),
            CliError::Daemon(error) => of_daemon(error),
            CliError::Import(ImportError::Read { source, .. }) => of_io(source),
            CliError::Import(_) => Exit::Unavailable,
            CliError::Unimported { first, .. } => first.exit(),
            CliError::Control(ControlError::Socket { source, .. }) => match of_io(source) {
                Exit::NoPerm => Exit::NoPerm,
                _ => Exit::Unavailable,
            },
            CliError::Control(ControlError::Refused { status, .. }) => match status {
                400 => Exit::Data,
                403 => Exit::NoPerm,
                404 => Exit::NoInput,
                429 | 503 => Exit::TempFail,
                500 => Exit::Software,
                _ => Exit::Unavailable,
            },
            CliError::Control(ControlError::Failed(_) | ControlError::Ended) => Exit::Unavailable,
            CliError::Control(ControlError::Protocol(_)) => Exit::Software,
        }
    }

    /// What the caller can do, where the error does not say so itself.
    pub(super) fn next_step(&self) -> Option<String> {
        let step = match self {
            CliError::Input { path, source } | CliError::Write { path, source } => return of_path(path, source),
            CliError::Adopt(AdoptError::Io { path, source }) => return of_path(path, source),
            CliError::UnknownFolder(_) => {
                "name the data folder by --data, and this command does without the configuration"
            }
            CliError::Config(ConfigError::Read { path, source }) => match source.kind() {
                io::ErrorKind::NotFound => "`daytable config >daytable.toml` writes one with every key",
                io::ErrorKind::PermissionDenied => return of_path(path, source),
                _ => return None,
            },
            CliError::Remote(error) | CliError::Daemon(DaemonError::Remote(error)) => return of_remote_error(error),
            CliError::Config(ConfigError::Invalid(_)) => "`daytable config` prints every key with its values",
            CliError::Query(_) => "`daytable query --help` has examples",
            CliError::Follow(FollowError::Endless(_) | FollowError::Joined(_)) => {
                "leave the pipe out, or ask once by `daytable query`"
            }
            CliError::NotFound(_) => "`daytable sources` lists the sources, `daytable tables` the day-tables",
            CliError::Store(error) | CliError::Step(StepError::Store(error)) => return of_store_error(error),
            CliError::Tables(TableError::NotThere(_)) | CliError::Step(StepError::NoArchive(..)) => LIST_TABLES,
            CliError::Control(ControlError::Refused { status: 404, .. }) => LIST_TABLES,
            CliError::Control(ControlError::Refused { status: 403, .. }) => AS_DAEMON,
            CliError::Control(ControlError::Socket { source, .. }) => match source.kind() {
                io::ErrorKind::PermissionDenied => AS_READER,
                io::ErrorKind::NotADirectory => NO_FOLDER,
                _ => return None,
            },
            CliError::Daemon(DaemonError::ReadToken(_) | DaemonError::TenantToken(_)) => {
                "make one: openssl rand -hex 32 >FILE && chmod 600 FILE"
            }
            CliError::Daemon(DaemonError::PushAuth(PushAuthError::File(ConfigError::Read { .. }))) => {
                "correct `credentials_file` of [http], or make the file: docs/guide/credentials.md"
            }
            CliError::Daemon(DaemonError::Store(error)) => return of_store_error(error),
            CliError::Daemon(DaemonError::Bind(BindError::Io { source, .. })) => match source.kind() {
                io::ErrorKind::AddrInUse => "`ss -lntup` says by whom: stop it, or choose another `listen`",
                io::ErrorKind::AddrNotAvailable => "`ip address` lists the addresses of this host",
                io::ErrorKind::InvalidFilename => "a socket's path has at most 107 bytes: choose a shorter `data_dir`",
                _ => return None,
            },
            _ => return None,
        };
        Some(step.to_owned())
    }
}

const LIST_TABLES: &str = "`daytable tables` lists the day-tables";
const NO_FOLDER: &str = "name the data folder by --data: this is a file";
/// For a command that reads; the group is that of packages.
const AS_READER: &str = "call this as the user of the daemon: sudo -u daytable daytable …; or, to read, join the group of \
                         read_group (adm, as packaged): sudo usermod -aG adm $USER, and log in again";
const AS_DAEMON: &str = "call this as the user of the daemon: sudo -u daytable daytable …";

/// What to do about a path.
fn of_path(path: &Path, error: &io::Error) -> Option<String> {
    let shown = path.escaped();
    match error.kind() {
        io::ErrorKind::NotFound if path == Path::new("-") => {
            Some("standard input is no file: write it to one, or push it: curl --data-binary @- http://127.0.0.1:7878/ingest".into())
        }
        io::ErrorKind::NotFound => Some(format!("`namei -l {shown}` shows which part is missing")),
        io::ErrorKind::PermissionDenied => {
            Some(format!("`namei -l {shown}` shows which part is closed; call this as its owner, or by sudo"))
        }
        io::ErrorKind::IsADirectory => {
            let shown = shown.to_string();
            Some(format!("name the files in it, as in {}/*.log or {0}/*", shown.trim_end_matches('/')))
        }
        _ => None,
    }
}

/// What to do about a data folder.
fn of_store_error(error: &StoreError) -> Option<String> {
    match error {
        StoreError::NoStore(_) => Some("name the data folder by --data; a daemon makes it: daytable run".into()),
        StoreError::TableGone(_) => Some(LIST_TABLES.into()),
        StoreError::Locked(folder, _) => {
            let folder = folder.escaped();
            Some(format!("`daytable status --data {folder}` shows it: stop it, or name another folder"))
        }
        StoreError::Foreign(..) => Some("name another folder, or move the file away".into()),
        StoreError::Io { source, .. } if source.kind() == io::ErrorKind::NotADirectory => Some(NO_FOLDER.into()),
        StoreError::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => Some(AS_READER.into()),
        _ => None,
    }
}

/// What to do about a remote store.
fn of_remote_error(error: &RemoteError) -> Option<String> {
    match error {
        RemoteError::File { path, source } => of_path(path, source),
        RemoteError::ConnectionString(_) => {
            Some("copy the connection string anew from the access keys of the account".into())
        }
        _ => None,
    }
}

fn of_io(error: &io::Error) -> Exit {
    match error.kind() {
        io::ErrorKind::NotFound => Exit::NoInput,
        io::ErrorKind::PermissionDenied => Exit::NoPerm,
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Exit::TempFail,
        _ => Exit::Io,
    }
}

fn of_step(error: &StepError) -> Exit {
    match error {
        StepError::Store(error) => of_store(error),
        StepError::Tables(error) => of_tables(error),
        StepError::Archive(ArchiveError::Io { source, .. }) => of_io(source),
        StepError::Archive(ArchiveError::Missing { .. }) | StepError::NoArchive(..) => Exit::NoInput,
        StepError::Archive(ArchiveError::Damaged { .. } | ArchiveError::Source { .. }) | StepError::Manifest(..) => {
            Exit::Data
        }
        StepError::Archive(ArchiveError::Denied { .. }) => Exit::NoPerm,
        StepError::Archive(ArchiveError::Setup { .. }) | StepError::Address(..) => Exit::Config,
        StepError::Archive(_) => Exit::Unavailable,
        StepError::Stopped => Exit::TempFail,
    }
}

fn of_tables(error: &TableError) -> Exit {
    match error {
        TableError::Store(error) => of_store(error),
        TableError::Denied(_) => Exit::NoPerm,
        TableError::Service(_) | TableError::BeingDropped(_) | TableError::Interrupted => Exit::TempFail,
        TableError::Setup(_) | TableError::Runtime(_) => Exit::Software,
        TableError::NotThere(_) => Exit::NoInput,
        TableError::Foreign { .. } | TableError::Note { .. } => Exit::Data,
        TableError::TooLarge { .. } => Exit::Unavailable,
    }
}

fn of_remote(error: &RemoteError) -> Exit {
    match error {
        RemoteError::NotBuilt | RemoteError::Start(_) => Exit::Unavailable,
        RemoteError::File { source, .. } => of_io(source),
        RemoteError::NoConnectionString | RemoteError::ConnectionString(_) | RemoteError::Name(_) => Exit::Config,
        RemoteError::Tables(error) => of_tables(error),
        RemoteError::Store(error) => of_store(error),
    }
}

fn of_daemon(error: &DaemonError) -> Exit {
    match error {
        DaemonError::Store(error) => of_store(error),
        DaemonError::Bind(BindError::Io { source, .. })
        | DaemonError::Source(SourceError::Io { source, .. })
        | DaemonError::Start(source) => match of_io(source) {
            Exit::NoPerm => Exit::NoPerm,
            _ => Exit::Unavailable,
        },
        DaemonError::Source(SourceError::Settings(_)) => Exit::Config,
        DaemonError::Bind(_) | DaemonError::Source(_) => Exit::Unavailable,
        DaemonError::ReadToken(_)
        | DaemonError::TenantToken(_)
        | DaemonError::Tls(_)
        | DaemonError::BlockTls { .. }
        | DaemonError::PushAuth(_)
        | DaemonError::Activation(_) => Exit::Config,
        DaemonError::Remote(RemoteError::File { .. }) => Exit::Config,
        DaemonError::Remote(error) => of_remote(error),
        DaemonError::Died => Exit::Software,
    }
}

fn of_store(error: &StoreError) -> Exit {
    match error {
        StoreError::Locked(..) | StoreError::Closed | StoreError::NoMemory => Exit::TempFail,
        StoreError::NoStore(_) | StoreError::TableGone(_) => Exit::NoInput,
        StoreError::NewerFormat { .. } | StoreError::OlderFormat { .. } | StoreError::Refused(_) => Exit::Unavailable,
        StoreError::Foreign(..) | StoreError::Mismatch { .. } | StoreError::Displaced(..) => Exit::Data,
        StoreError::Damaged { .. } | StoreError::SealedDamaged { .. } | StoreError::SourceLogDamaged { .. } => {
            Exit::Data
        }
        StoreError::Unequal { .. } => Exit::Software,
        StoreError::Full(_) | StoreError::Sqlite { .. } => Exit::Io,
        StoreError::Io { source, .. } => of_io(source),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_the_meaning_of_each_code() {
        let page = include_str!("../../docs/reference/exit-codes.md");
        for (exit, meaning) in Exit::ALL {
            assert!(page.contains(&format!("\n| {} | {meaning} |", exit as u8)), "{meaning}");
        }
    }

    #[test]
    fn errors_have_the_exit_code_for_the_caller() {
        let refused = |status| CliError::Control(ControlError::Refused { status, reason: "no".into() });
        let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
        for (error, exit) in [
            (CliError::output(io::ErrorKind::BrokenPipe.into()), Exit::Ok),
            (CliError::output(io::ErrorKind::StorageFull.into()), Exit::Io),
            (CliError::Input { path: "a".into(), source: io::ErrorKind::NotFound.into() }, Exit::NoInput),
            (CliError::Input { path: "a".into(), source: denied() }, Exit::NoPerm),
            (StoreError::Locked("/d".into(), "7".into()).into(), Exit::TempFail),
            (StoreError::Displaced("/d".into(), "it was removed").into(), Exit::Data),
            (StoreError::NoStore("/d".into()).into(), Exit::NoInput),
            (StoreError::Io { path: "/d".into(), source: denied() }.into(), Exit::NoPerm),
            (StoreError::Foreign("/d".into(), "text".into()).into(), Exit::Data),
            (ConfigError::Invalid(vec![]).into(), Exit::Config),
            (refused(404), Exit::NoInput),
            (refused(409), Exit::Unavailable),
            (refused(503), Exit::TempFail),
        ] {
            assert_eq!(error.exit(), exit, "{error}");
        }
    }
}
