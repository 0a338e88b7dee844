//! `daytable doctor`: looks for the usual mistakes, and says of each what to do.
//!
//! It changes nothing and needs no daemon. To see what the daemon would see it is run as its user:
//! `sudo -u daytable daytable doctor --config /etc/daytable/daytable.toml`. Each check says one of
//!
//! * `ok`: there is nothing to do,
//! * `warn`: it works, and may not always,
//! * `fail`: it does not work.
//!
//! It exits with 0 where nothing fails, else with 69; with a configuration that is wrong with 78.
//!
//! The checks are in [`checks`], each a function of what it looks at.

mod checks;

use super::args::configured;
use super::exit::CliError;
use super::output::Output;
use serde::Serialize;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The configuration that the daemon runs with
    #[arg(long, value_name = "FILE", env = "DAYTABLE_CONFIG")]
    config: Option<PathBuf>,
    /// The data folder, in place of the configured one
    #[arg(long = "data", value_name = "DIR", env = "DAYTABLE_DATA")]
    data_dir: Option<PathBuf>,
    /// An object a line
    #[arg(long)]
    json: bool,
}

/// How a check went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Ok,
    Warn,
    Fail,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Finding {
    check: &'static str,
    verdict: Verdict,
    /// What is so.
    found: String,
    /// What to do; none where there is nothing to.
    advice: Option<String>,
}

impl Finding {
    fn ok(check: &'static str, found: impl Into<String>) -> Finding {
        Finding { check, verdict: Verdict::Ok, found: found.into(), advice: None }
    }

    fn warn(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Finding {
        Finding { check, verdict: Verdict::Warn, found: found.into(), advice: Some(advice.into()) }
    }

    fn fail(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Finding {
        Finding { verdict: Verdict::Fail, ..Finding::warn(check, found, advice) }
    }
}

pub(super) fn run(args: Args) -> Result<(), CliError> {
    let mut config = configured(args.config.as_deref())?;
    if let Some(data_dir) = args.data_dir {
        config.data_dir = data_dir;
    }
    let findings = checks::all(&config);
    let mut output = Output::new();
    for finding in &findings {
        if args.json {
            output.json(finding)?;
            continue;
        }
        let word = match finding.verdict {
            Verdict::Ok => "ok  ",
            Verdict::Warn => "warn",
            Verdict::Fail => "FAIL",
        };
        output.line(format_args!("{word}  {}: {}", finding.check, finding.found))?;
        if let Some(advice) = &finding.advice {
            output.line(format_args!("      {advice}"))?;
        }
    }
    output.flush()?;
    let failed = findings.iter().filter(|finding| finding.verdict == Verdict::Fail).count();
    match failed {
        0 => Ok(()),
        1 => Err(CliError::Unavailable("1 check failed".into())),
        _ => Err(CliError::Unavailable(format!("{failed} checks failed"))),
    }
}
