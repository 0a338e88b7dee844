//! `daytable doctor`: checks for usual mistakes, and says what to do about each.
//!
//! The command changes no data and needs no daemon. A running daemon says itself which files it can read; the other checks are
//! those of this user: `sudo -u daytable daytable doctor --config /etc/daytable/daytable.toml`. Each check has one status:
//!
//! * `ok`: there is nothing to do.
//! * `warn`: daytable works, but may not always.
//! * `fail`: daytable does not work.
//!
//! A wrong configuration is a check that fails, and the checks that need no settings go on. The exit code is 0 where no check fails,
//! else 69. Each of the [`checks`] is a function of what it examines.

mod checks;
mod files;
mod identities;
mod receivers;
mod times;

use super::args::{DaemonArgs, JsonArgs};
use super::exit::CliError;
use super::locate;
use super::output::Output;
use serde::Serialize;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    daemon: DaemonArgs,
    #[command(flatten)]
    output: JsonArgs,
}

/// The status of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum CheckStatus {
    Ok,
    Warn,
    Fail,
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct CheckResult {
    check: &'static str,
    verdict: CheckStatus,
    /// The facts.
    found: String,
    /// What to do, if anything.
    advice: Option<String>,
}

impl CheckResult {
    fn ok(check: &'static str, found: impl Into<String>) -> CheckResult {
        CheckResult { check, verdict: CheckStatus::Ok, found: found.into(), advice: None }
    }

    fn warn(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> CheckResult {
        CheckResult { check, verdict: CheckStatus::Warn, found: found.into(), advice: Some(advice.into()) }
    }

    fn fail(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> CheckResult {
        CheckResult { verdict: CheckStatus::Fail, ..CheckResult::warn(check, found, advice) }
    }
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let results = match args.daemon.config() {
        Ok(config) => checks::all(&config),
        Err(error) => {
            let folder = locate::folder_despite(args.daemon.data_dir.as_deref(), args.daemon.named_file());
            checks::without_settings(folder.as_deref(), &error)
        }
    };
    let mut output = Output::new();
    for result in &results {
        if args.output.json {
            output.json(result)?;
            continue;
        }
        let word = match result.verdict {
            CheckStatus::Ok => "ok  ",
            CheckStatus::Warn => "warn",
            CheckStatus::Fail => "FAIL",
        };
        output.line(format_args!("{word}  {}: {}", result.check, result.found))?;
        if let Some(advice) = &result.advice {
            output.line(format_args!("      {advice}"))?;
        }
    }
    output.flush()?;
    let failed = results.iter().filter(|result| result.verdict == CheckStatus::Fail).count();
    match failed {
        0 => Ok(()),
        1 => Err(CliError::Unavailable("1 check failed".into())),
        _ => Err(CliError::Unavailable(format!("{failed} checks failed"))),
    }
}
