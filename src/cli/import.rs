//! `daytable import`: loads whole files, with a progress bar.
//!
//! The command opens the files, as the user who called it. A running daemon gets the open files with `POST /-/import`, an
//! [`ImportRequest`], and responds with one [`ImportProgress`] per line. Without a daemon, the command does the work, under the lock of
//! the folder. Either way the positions of the files are in the commits of their records, so an import that was killed is called again.

use super::args::DataArgs;
use super::control::{Control, ControlError};
use super::exit::CliError;
use super::locate::{self, load_named_config};
use super::output::{self, bytes};
use super::say;
use crate::config::StoreKind;
use crate::daemon;
use crate::http::{ImportRequest, PASSED_FILES_MAX, UnreadFile};
use crate::remote::{local_limits, local_rules};
use daytable_intake::instance_template::InstanceTemplate;
use daytable_intake::route::Router;
use daytable_intake::tail::{self, ImportFile, ImportProgress, TailOptions, UNTIMED_FILES_MAX};
use daytable_lifecycle::retained_rules::retain_rules;
use daytable_model::path_text::PathText;
use daytable_model::safe_text::SafeLine;
use daytable_model::time::now;
use daytable_store::outbox::bucket_plans;
use daytable_store::{Store, StoreOptions};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often and how long the command waits for a daemon that is busy with another import.
const BUSY_PAUSES: u32 = 20;
const BUSY_PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    data: DataArgs,
    /// The configuration with the data folder, unless --data names it, the tables, and the secrets to replace. Without a file, /etc/daytable/daytable.toml, or a table Log that keeps 30 days. A running daemon uses its own configuration
    #[arg(long, value_name = "FILE", env = "DAYTABLE_CONFIG")]
    config: Option<PathBuf>,
    /// The instance of the records: {host}, {path}, {stem}, {field:NAME}, or text
    #[arg(long, value_name = "TEMPLATE", default_value = "{host}")]
    instance: InstanceTemplate,
    /// The format of the lines: auto, the name of a format, regex:PATTERN or grok:PATTERN
    #[arg(long, value_name = "FORMAT", value_parser = super::args::format)]
    format: Option<String>,
    /// Put records that are older than their table's keep into the days of their time, and keep these days for keep from now on. Without it, such records go to today's table. A day that was dropped is not made again
    #[arg(long)]
    keep_expired: bool,
    /// Files, plain or compressed with gzip or zstd. A copy counts as its file in the folder of that file, under a name like app.log.1, app.log.gz or app-20261121.log; under a free name, or in another folder, it is another file. Files of `journalctl --output=export` are read as entries, and {host} is the host of each entry
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let data_dir = args.data.located(args.config.as_deref())?.data_dir;
    let mut importer = match Control::connect(&data_dir)? {
        Some(_) => Importer::Daemon,
        None => Importer::Offline(None),
    };
    let bar = bar();
    let mut done = ImportProgress { files_total: args.files.len(), ..ImportProgress::default() };
    // A file that cannot be read holds up no other file.
    let (mut unread, mut ended) = (Vec::new(), None);
    for paths in args.files.chunks(PASSED_FILES_MAX) {
        let mut files = Vec::new();
        for path in paths {
            match ImportFile::open(path) {
                Ok(file) => files.push(file),
                Err(source) => unread.push(CliError::Input { path: path.clone(), source }),
            }
        }
        let before = done.clone();
        let mut show = |progress: ImportProgress| {
            done = ImportProgress {
                files: before.files + progress.files,
                files_total: before.files_total,
                bytes: before.bytes + progress.bytes,
                bytes_total: before.bytes + progress.bytes_total,
                records: before.records + progress.records,
                late_records: before.late_records + progress.late_records,
                followed: before.followed + progress.followed,
                untimed: before.untimed.iter().cloned().chain(progress.untimed).take(UNTIMED_FILES_MAX).collect(),
            };
            bar.set_length(done.bytes_total.max(done.bytes));
            bar.set_position(done.bytes);
        };
        if files.is_empty() {
            continue;
        }
        match importer.import(args, &data_dir, files, &mut show) {
            Ok(of_these) => unread.extend(of_these),
            Err(error) => {
                ended = Some(error);
                break;
            }
        }
    }
    bar.finish_and_clear();
    // Accepted records are committed, whether the import succeeds or not.
    let closed = match importer {
        Importer::Offline(Some(offline)) => offline.store.close(),
        Importer::Daemon | Importer::Offline(None) => Ok(()),
    };
    let is_worth_a_summary = done.files > 0 || done.records > 0;
    let ended = ended.or_else(|| closed.err().map(CliError::from));
    // One failure is the error of the command, and has its exit code.
    let error = match (ended, unread.len()) {
        (None, 1) if args.files.len() == 1 => unread.pop(),
        (ended, files) => {
            unread.iter().for_each(say);
            let first = (!unread.is_empty()).then(|| unread.swap_remove(0));
            ended.or(first.map(|first| CliError::Unimported { files, of: args.files.len(), first: Box::new(first) }))
        }
    };
    if error.is_none() || is_worth_a_summary {
        output::print(summary(&done, args.keep_expired))?;
    }
    error.map_or(Ok(()), Err)
}

/// Whoever imports: the daemon that ran at the start, or this command, which opens the store for the first file.
enum Importer {
    Daemon,
    Offline(Option<Box<OfflineImport>>),
}

impl Importer {
    /// Imports files, and gives the error of each that could not be read to its end.
    fn import(
        &mut self,
        args: &Args,
        data_dir: &Path,
        files: Vec<ImportFile>,
        show: &mut dyn FnMut(ImportProgress),
    ) -> Result<Vec<CliError>, CliError> {
        match self {
            Importer::Offline(Some(offline)) => import_offline(offline, files, show),
            Importer::Offline(none) => {
                let offline = Box::new(OfflineImport::open(args, data_dir)?);
                import_offline(none.insert(offline), files, show)
            }
            Importer::Daemon => ask_daemon(locate::daemon_of(data_dir)?, args, data_dir, files, show),
        }
    }
}

/// A progress bar with bytes, rate and time left on standard error, if that is a terminal.
fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr_with_hz(10));
    let template = "{bar:30} {percent:>3}%  {binary_bytes} of {binary_total_bytes}  {binary_bytes_per_sec}  {eta} left";
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

fn ask_daemon(
    control: Control,
    args: &Args,
    data_dir: &Path,
    files: Vec<ImportFile>,
    show: &mut dyn FnMut(ImportProgress),
) -> Result<Vec<CliError>, CliError> {
    let (paths, files) = files.into_iter().map(|file| (file.path, file.file)).unzip();
    let (instance, format) = (Some(args.instance.to_string()), args.format.clone());
    let import = ImportRequest { paths, instance, format, keep_expired: args.keep_expired };
    let body = serde_json::to_string(&import).map_err(|_| ControlError::Protocol("a path is not UTF-8"))?;
    let files: Vec<File> = files;
    let malformed = || ControlError::Protocol("a line is not a report of progress");
    let mut pauses = BUSY_PAUSES;
    let mut control = Some(control);
    let mut response = loop {
        let daemon = control.take().ok_or_else(|| CliError::Unavailable(locate::no_daemon(data_dir)))?;
        match daemon.post_with_files("/-/import", &body, &files) {
            // The daemon may still end the request before.
            Err(ControlError::Refused { status: 503, .. }) if pauses > 0 => {
                pauses -= 1;
                std::thread::sleep(BUSY_PAUSE);
                control = Control::connect(data_dir)?;
            }
            posted => break posted?,
        }
    };
    let mut unread = Vec::new();
    while let Some(line) = response.next_line()? {
        match serde_json::from_str(&line) {
            Ok(UnreadFile { unread: error }) => unread.push(CliError::Unavailable(error)),
            Err(_) => show(serde_json::from_str(&line).map_err(|_| malformed())?),
        }
    }
    Ok(unread)
}

/// An import without a daemon, under the lock of the folder.
struct OfflineImport {
    store: Store,
    options: TailOptions,
    router: Router,
    host: String,
}

impl OfflineImport {
    fn open(args: &Args, data_dir: &Path) -> Result<OfflineImport, CliError> {
        let config =
            load_named_config(args.config.as_deref())?.or_else(|| locate::config_of(data_dir)).unwrap_or_default();
        let is_remote = config.store.kind == StoreKind::Azure;
        if is_remote && bucket_plans::read(data_dir)?.is_none() {
            return Err(CliError::Unavailable(format!(
                "the buckets of the instances are not known yet, and records that were sent before would go to other partitions: \
                 start the daemon on {} and import again",
                data_dir.escaped()
            )));
        }
        if is_remote && args.keep_expired {
            return Err(CliError::Unavailable("--keep-expired: a remote store has no days that have expired".into()));
        }
        let store = Store::open(data_dir, StoreOptions::default())?;
        let steps = store.steps();
        // The days of a folder that no daemon has had yet get their `keep` from this configuration.
        if steps.lifecycle_state()?.rules.is_empty() {
            steps.set_rules(retain_rules(&[], &local_rules(&config), &local_limits(&config), now()))?;
        }
        let mut reading = config.reading();
        if let Some(format) = &args.format {
            // The command line accepts only formats that can be set.
            reading.set_format(format).map_err(|error| CliError::Unavailable(error.to_string()))?;
        }
        let options =
            TailOptions { instance: args.instance.clone(), reading, ..TailOptions::new("import", Vec::new()) };
        let router = daemon::router_of(&config.tables, data_dir)?.of_host(config.host_id());
        let router = if args.keep_expired { router.clone().keeping_expired().unwrap_or(router) } else { router };
        Ok(OfflineImport { store, options, router, host: config.host_name() })
    }
}

fn import_offline(
    offline: &OfflineImport,
    files: Vec<ImportFile>,
    show: &mut dyn FnMut(ImportProgress),
) -> Result<Vec<CliError>, CliError> {
    let OfflineImport { store, options, router, host } = offline;
    let imported = tail::import(files, options, router, host, &store.commit_queue(), show)?;
    Ok(imported.errors().map(CliError::from).collect())
}

fn summary(progress: &ImportProgress, keep_expired: bool) -> String {
    let ImportProgress { files, bytes: read, records, late_records, .. } = *progress;
    let plural = |one: bool| if one { "" } else { "s" };
    let mut summary = format!(
        "{records} new record{} from {files} file{} ({})",
        plural(records == 1),
        plural(files == 1),
        bytes(read)
    );
    if late_records > 0 {
        summary.push_str(&format!("; {late_records} dated before keep went to today's table"));
        if !keep_expired {
            summary.push_str(": import with --keep-expired puts such records into the days of their time");
        }
    }
    match progress.followed {
        0 => {}
        1 => summary.push_str("; 1 of them is followed by the daemon, which reads it"),
        followed => summary.push_str(&format!("; {followed} of them are followed by the daemon, which reads them")),
    }
    for file in &progress.untimed {
        let (path, likely) = (SafeLine(&file.path), SafeLine(&file.likely_time));
        summary.push_str(&format!(
            "\n{path}: no record has a time, although {likely} looks like one; they have the time of this import: \
             a pattern (--format) can name it"
        ));
    }
    summary
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_says_what_was_done() {
        let progress = ImportProgress { files: 1, bytes: 2048, records: 12, ..ImportProgress::default() };
        assert_eq!(summary(&progress, false), "12 new records from 1 file (2.0 KiB)");
        let late = ImportProgress { files: 1, records: 3, late_records: 2, ..ImportProgress::default() };
        let said = "3 new records from 1 file (0 B); 2 dated before keep went to today's table";
        let advice = ": import with --keep-expired puts such records into the days of their time";
        assert_eq!(summary(&late, false), format!("{said}{advice}"));
        assert_eq!(summary(&late, true), said);
        let followed = ImportProgress { files: 2, followed: 1, ..ImportProgress::default() };
        assert_eq!(
            summary(&followed, false),
            "0 new records from 2 files (0 B); 1 of them is followed by the daemon, which reads it"
        );
        let again = ImportProgress { files: 2, ..ImportProgress::default() };
        assert_eq!(summary(&again, false), "0 new records from 2 files (0 B)");
    }

    #[test]
    fn a_line_of_progress_may_leave_out_what_is_zero_and_say_more() {
        let progress: ImportProgress =
            serde_json::from_str(r#"{"bytes":5,"bytes_total":9,"path":"/a"}"#).expect("progress");
        assert_eq!(progress, ImportProgress { bytes: 5, bytes_total: 9, ..ImportProgress::default() });
    }

    #[test]
    fn the_bar_s_template_is_one() {
        assert!(bar().is_hidden() || bar().length() == Some(0));
    }
}
