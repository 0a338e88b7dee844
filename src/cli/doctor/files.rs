//! The checks of files: what the blocks `[[tail]]` read, and why other files are left alone.
//!
//! A running daemon surveys the files itself ([`survey`]), because its user and its name spaces may be others than those of this
//! command.

use super::super::control::Control;
use super::super::exit::CliError;
use super::CheckResult;
use crate::cli::run::{BLOCK, DOCKER_BLOCK};
use crate::config::Config;
use daytable_intake::tail::{SurveyedPath, UnreadReason, survey};
use daytable_model::time::Ticks;
use daytable_model::units::show_duration;
use std::collections::HashSet;
use std::path::Path;

const CHECK: &str = "files";
/// Paths that a result names.
const NAMED_MAX: usize = 5;
/// The files, as the running daemon finds them, or as this process does.
pub(super) fn surveyed(config: &Config, control: Option<Control>) -> Result<Vec<SurveyedPath>, CliError> {
    let Some(control) = control else {
        let mut found = Vec::new();
        for tail in &config.sources.tails {
            found.extend(survey(tail).map_err(|error| CliError::Unavailable(error.to_string()))?);
        }
        return Ok(found);
    };
    Ok(control.fetch("/-/files")?.all("a line is not a file")?)
}

/// Whether the files of the blocks can be read, and why others are left alone.
pub(super) fn files(config: &Config, surveyed: &[SurveyedPath], is_of_daemon: bool, now: Ticks) -> Vec<CheckResult> {
    let reader = if is_of_daemon { "the daemon" } else { "this user" };
    let read_by_any = surveyed.iter().filter(|found| found.reason.is_none()).map(|found| found.path.as_str());
    let read_by_any: HashSet<&str> = read_by_any.collect();
    let mut results = Vec::new();
    for name in blocks(config, surveyed) {
        // The command line of the daemon has blocks that its configuration has not.
        let is_configured = config.sources.tails.iter().any(|tail| tail.name == name);
        let block = match name {
            BLOCK if !is_configured => "--tail of the command line".to_owned(),
            DOCKER_BLOCK if !is_configured => "--docker of the command line".to_owned(),
            _ => format!("[[tail]] {name:?}"),
        };
        let of_block = || surveyed.iter().filter(|found| found.block == name);
        let read: Vec<&SurveyedPath> = of_block().filter(|found| found.reason.is_none()).collect();
        results.push(match read.len() {
            0 => CheckResult::warn(
                CHECK,
                format!("{block} finds no file to read"),
                match is_configured {
                    true => "look at the next lines, and at `include`; after a change: daytable reload",
                    false => "look at the next lines; then stop the daemon, and start it with another pattern",
                },
            ),
            count => CheckResult::ok(CHECK, format!("{block}: {reader} can read {count}")),
        });
        for kind in Unread::ALL {
            // What lies beside the files of a block may be a file of another one.
            let is_left = |path: &&str| !matches!(kind, Unread::Beside) || !read_by_any.contains(path);
            let paths: Vec<&str> = of_block().filter_map(|found| kind.shows(found)).filter(is_left).collect();
            if !paths.is_empty() {
                results.push(kind.result(&block, &named(&paths)));
            }
        }
        for found in of_block() {
            if let Some(UnreadReason::NoMatch(beside)) = &found.reason {
                let beside: Vec<&str> = beside.iter().map(String::as_str).collect();
                let beside =
                    if beside.is_empty() { "no file is there".into() } else { format!("there are {}", named(&beside)) };
                results.push(CheckResult::warn(
                    CHECK,
                    format!("{block}: no file matches {}: {beside}", found.path),
                    "correct the pattern: * matches within a name, ** any number of folders",
                ));
            }
        }
        results.extend(expired(config, &block, &read, now));
        let inside: Vec<&str> = read
            .iter()
            .map(|found| found.path.as_str())
            .filter(|path| Path::new(path).starts_with(&config.data_dir))
            .collect();
        if !inside.is_empty() {
            results.push(CheckResult::fail(
                CHECK,
                format!("{block} reads the data folder itself: {}", named(&inside)),
                "leave it out with `exclude`",
            ));
        }
    }
    results
}

/// The blocks of the configuration, and those that the daemon has beside it.
fn blocks<'a>(config: &'a Config, surveyed: &'a [SurveyedPath]) -> Vec<&'a str> {
    let mut blocks: Vec<&str> = config.sources.tails.iter().map(|tail| tail.name.as_str()).collect();
    for found in surveyed {
        if !blocks.contains(&found.block.as_str()) {
            blocks.push(&found.block);
        }
    }
    blocks
}

/// The reasons that paths share.
#[derive(Clone, Copy)]
enum Unread {
    Denied,
    NoFolder,
    Folder,
    DanglingLink,
    NotRegular,
    Failed,
    Compressed,
    Empty,
    Excluded,
    Beside,
}

impl Unread {
    const ALL: [Unread; 10] = [
        Unread::Denied,
        Unread::NoFolder,
        Unread::Folder,
        Unread::DanglingLink,
        Unread::NotRegular,
        Unread::Failed,
        Unread::Compressed,
        Unread::Empty,
        Unread::Excluded,
        Unread::Beside,
    ];

    /// The path, if it is left alone for this reason.
    fn shows(self, found: &SurveyedPath) -> Option<&str> {
        let is_it = matches!(
            (self, found.reason.as_ref()?),
            (Unread::Denied, UnreadReason::Denied)
                | (Unread::NoFolder, UnreadReason::NoFolder)
                | (Unread::Folder, UnreadReason::Folder)
                | (Unread::DanglingLink, UnreadReason::DanglingLink)
                | (Unread::NotRegular, UnreadReason::NotRegular)
                | (Unread::Failed, UnreadReason::Failed(_))
                | (Unread::Compressed, UnreadReason::Compressed)
                | (Unread::Empty, UnreadReason::Empty)
                | (Unread::Excluded, UnreadReason::Excluded)
                | (Unread::Beside, UnreadReason::Beside)
        );
        is_it.then_some(&found.path)
    }

    fn result(self, block: &str, paths: &str) -> CheckResult {
        let warn = |found: String, advice: &str| CheckResult::warn(CHECK, found, advice);
        match self {
            Unread::Denied => CheckResult::fail(
                CHECK,
                format!("{block}: no permission for {paths}"),
                "add the user to the group of these files (usermod -aG adm daytable), or give the service CAP_DAC_READ_SEARCH; \
                 namei -l FILE shows the folder that is closed",
            ),
            Unread::NoFolder => warn(
                format!("{block}: no such folder: {paths}"),
                "correct `include`, or create the folder: daytable finds its files within ten seconds",
            ),
            Unread::Folder => warn(
                format!("{block}: a folder and no file: {paths}"),
                "name the files in it: FOLDER/*.log, or FOLDER/**/*.log for all folders below",
            ),
            Unread::DanglingLink => {
                warn(format!("{block}: a link that leads nowhere: {paths}"), "create its target, or remove the link")
            }
            Unread::NotRegular => {
                warn(format!("{block}: a pipe, socket or device: {paths}"), "leave it out with `exclude`")
            }
            Unread::Failed => warn(
                format!("{block}: cannot be read: {paths}"),
                "look at the disk (dmesg), or leave it out with `exclude`",
            ),
            // Rotated files are compressed as a rule; a source reads them where it had not read them before.
            Unread::Compressed => CheckResult::ok(
                CHECK,
                format!(
                    "{block}: compressed, read only where its lines are missing (`daytable import` reads it whole): {paths}"
                ),
            ),
            Unread::Empty => CheckResult::ok(CHECK, format!("{block}: empty, waits for a first line: {paths}")),
            Unread::Excluded => CheckResult::ok(CHECK, format!("{block}: left out by `exclude`: {paths}")),
            Unread::Beside => CheckResult::ok(
                CHECK,
                format!("{block}: in the folders of its files, and matched by no pattern: {paths}"),
            ),
        }
    }
}

/// Files whose records are older than any table keeps them.
fn expired(config: &Config, block: &str, read: &[&SurveyedPath], now: Ticks) -> Option<CheckResult> {
    let keep = config.tables.iter().map(|table| table.window.keep).max()?;
    let oldest = now.minus(keep).unix_seconds();
    let paths: Vec<&str> = read
        .iter()
        .filter(|found| found.modified.is_some_and(|at| at < oldest))
        .map(|found| found.path.as_str())
        .collect();
    (!paths.is_empty()).then(|| {
        CheckResult::warn(
            CHECK,
            format!("{block}: last written before `keep` ({}): {}", show_duration(keep), named(&paths)),
            "their records go to today's table: set `ignore_older`, a longer `keep`, or leave them out with `exclude`",
        )
    })
}

/// Some of the paths.
fn named(paths: &[&str]) -> String {
    let shown = paths.iter().take(NAMED_MAX).copied().collect::<Vec<_>>().join(", ");
    let more = paths.len().saturating_sub(NAMED_MAX);
    if more > 0 { format!("{shown}, and {more} more") } else { shown }
}

#[cfg(test)]
mod tests {
    use super::super::CheckStatus;
    use super::*;

    #[test]
    fn paths_of_one_reason_share_a_line() {
        let config = "[[tail]]\nname = \"app\"\ninclude = [\"/var/log/*.log\"]\n";
        let config = Config::parse(config, "f").expect("a configuration");
        let path = |path: &str, reason| SurveyedPath {
            block: "app".into(),
            path: path.into(),
            modified: Some(1_800_000_000),
            reason,
        };
        let found = [
            path("/var/log/a.log", None),
            path("/var/log/b.log", Some(UnreadReason::Denied)),
            path("/var/log/c.log", Some(UnreadReason::Denied)),
            path("/var/log/d.txt", Some(UnreadReason::Beside)),
            path("/var/log/*.out", Some(UnreadReason::NoMatch(vec!["a.log".into()]))),
        ];
        let now = Ticks::from_unix(1_900_000_000, 0).expect("a time");
        let results = files(&config, &found, true, now);
        let shown: Vec<(CheckStatus, &str)> =
            results.iter().map(|result| (result.verdict, result.found.as_str())).collect();
        assert_eq!(
            shown,
            [
                (CheckStatus::Ok, "[[tail]] \"app\": the daemon can read 1"),
                (CheckStatus::Fail, "[[tail]] \"app\": no permission for /var/log/b.log, /var/log/c.log"),
                (
                    CheckStatus::Ok,
                    "[[tail]] \"app\": in the folders of its files, and matched by no pattern: /var/log/d.txt"
                ),
                (CheckStatus::Warn, "[[tail]] \"app\": no file matches /var/log/*.out: there are a.log"),
                (CheckStatus::Warn, "[[tail]] \"app\": last written before `keep` (30d): /var/log/a.log"),
            ]
        );
    }
}
