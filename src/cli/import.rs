//! `daytable import`: whole files, with a bar that says how far it is.
//!
//! With a daemon on the data folder, the daemon does it: `POST /-/import` with `{"paths": […]}`, absolute, and an
//! answer of one [`Progress`] a line. Without one it is done here, under the folder's lock.

use super::args::Data;
use super::control::{Control, ControlError};
use super::exit::CliError;
use super::output::{Output, bytes};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    data: Data,
    /// Files, plain or compressed with gzip or zstd
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// How far an import is. Counts only grow, but for `bytes_total`, which may be corrected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Progress {
    /// Files that were read to their end.
    pub files: u64,
    /// Files of those that were imported before, and so gave nothing.
    pub files_known: u64,
    /// Bytes that were read, as they lie on disk: compressed ones as compressed.
    pub bytes: u64,
    /// Bytes there are to read.
    pub bytes_total: u64,
    /// Records that are committed.
    pub records: u64,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let paths: Result<Vec<PathBuf>, CliError> = args.files.iter().map(|path| absolute(path)).collect();
    let paths = paths?;
    let bar = bar();
    let mut shown = Progress::default();
    let mut show = |progress: Progress| {
        shown = progress;
        bar.set_length(progress.bytes_total.max(progress.bytes));
        bar.set_position(progress.bytes);
    };
    let imported = match Control::connect(&args.data.dir)? {
        Some(control) => ask_daemon(control, &paths, &mut show),
        None => import_here(&args.data.dir, &paths, &mut show),
    };
    bar.finish_and_clear();
    imported?;
    let mut output = Output::new();
    output.line(summary(&shown))?;
    output.flush()
}

/// The path that the daemon, whose folder is another, finds the file by.
fn absolute(path: &Path) -> Result<PathBuf, CliError> {
    std::fs::canonicalize(path).map_err(|source| CliError::Input { path: path.into(), source })
}

/// Bytes, rate and time left, on standard error; nothing where that is no terminal.
fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr_with_hz(10));
    let template = "{bar:30} {percent:>3}%  {binary_bytes} of {binary_total_bytes}  {binary_bytes_per_sec}  {eta} left";
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

fn ask_daemon(control: Control, paths: &[PathBuf], show: &mut dyn FnMut(Progress)) -> Result<(), CliError> {
    let body = serde_json::json!({ "paths": paths }).to_string();
    let mut answer = control.post("/-/import", &body)?;
    while let Some(line) = answer.next_line()? {
        let progress = serde_json::from_str(&line).map_err(|_| ControlError::Protocol("a line is no progress"))?;
        show(progress);
    }
    Ok(())
}

/// Imports where no daemon runs, under the folder's lock.
fn import_here(data_dir: &Path, paths: &[PathBuf], show: &mut dyn FnMut(Progress)) -> Result<(), CliError> {
    // JOIN: open the store in `data_dir`, then crate::tail::import(paths), which tells `show` how far it is.
    show(Progress::default());
    let (data_dir, files) = (data_dir.display(), paths.len());
    Err(CliError::Unavailable(format!(
        "no daemon runs on {data_dir}, and this build cannot import {files} files without one"
    )))
}

fn summary(progress: &Progress) -> String {
    let Progress { files, files_known, bytes: read, records, .. } = *progress;
    let known = if files_known > 0 { format!(", {files_known} of them imported before") } else { String::new() };
    let plural = |count: u64| if count == 1 { "" } else { "s" };
    format!("{records} record{} from {files} file{} ({}){known}", plural(records), plural(files), bytes(read))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_says_what_was_done() {
        let progress = Progress { files: 1, bytes: 2048, records: 12, ..Progress::default() };
        assert_eq!(summary(&progress), "12 records from 1 file (2.0 KiB)");
        let again = Progress { files: 2, files_known: 2, ..Progress::default() };
        assert_eq!(summary(&again), "0 records from 2 files (0 B), 2 of them imported before");
    }

    #[test]
    fn a_line_of_progress_may_leave_out_what_is_zero_and_say_more() {
        let progress: Progress = serde_json::from_str(r#"{"bytes":5,"bytes_total":9,"path":"/a"}"#).expect("progress");
        assert_eq!(progress, Progress { bytes: 5, bytes_total: 9, ..Progress::default() });
    }

    #[test]
    fn the_bar_s_template_is_one() {
        assert!(bar().is_hidden() || bar().length() == Some(0));
    }
}
