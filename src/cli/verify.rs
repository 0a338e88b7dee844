//! `daytable verify`: checks whether any record was lost. The last line of the output is the verdict.
//!
//! The command changes no data, and runs beside a daemon or without one. It prints a line per finding, with advice below it, and at
//! the end one of
//!
//! ```text
//! whole: 5120 records in 3 tables, 2 sources, 1 archive
//! not whole: 2 findings; 5118 records in 3 tables, 2 sources, 1 archive
//! ```
//!
//! With a sequence field in the configuration, `; 3 numbers of sequences are missing, 1 come twice` may follow. A *doubt* is a check
//! without a result: the store of an archive does not answer, or a file changed and no `--config` says whether daytable still reads it.
//! Doubts are printed too, are not findings, and are counted at the end of the line: `; 2 could not be checked`.
//!
//! With `--fleet`, the hosts that forward to a daytable say which records they have, and these are compared with those that are
//! there: `whole: 12 hosts, 3104221 records`. A host that does not answer is exit code 75.
//!
//! With `--json`, each finding is an object (`finding`, `where`, `file`, `found`, `advice`; `doubt` for a doubt). The last object is
//! the verdict (`whole`, `records`, `rows`, `tables`, `sources`, `archives`, `bytes`, `missing`, `twice`, `findings`, `doubts`). The
//! exit code is 0 without findings, 65 with findings, and another code where the check is impossible (66: no data folder).

use super::args::{DataArgs, JsonArgs, is_denied};
use super::control::{Control, ControlError};
use super::exit::CliError;
use super::folder::StepBar;
use super::hint::hint;
use super::locate::{self, Located};
use super::output::{Output, counted};
use crate::http::{ComparedLine, HostLine};
use crate::verify::{Share, VerifyLine, VerifyProgress, VerifyReport, VerifyRequest, verify};
use daytable_lifecycle::progress::StepProgress;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    data: DataArgs,
    /// The configuration with the data folder, unless --data names it, the access to archives, the tailed files, and the field with a sequence of numbers. Without a file, /etc/daytable/daytable.toml; or the access comes from the environment, and the others are unknown
    #[arg(long, value_name = "FILE", env = "DAYTABLE_CONFIG")]
    config: Option<PathBuf>,
    /// Read archives to the last byte. Otherwise daytable only checks that they exist
    #[arg(long)]
    archives: bool,
    /// Compare with the hosts that forward to this daytable: numbers and checksums of the records of each host and day
    #[arg(long, conflicts_with = "archives")]
    fleet: bool,
    #[command(flatten)]
    output: JsonArgs,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let located = args.data.located(args.config.as_deref())?;
    if args.fleet {
        return verify_fleet(args, &located.data_dir);
    }
    let daemon = || locate::connect(&located.data_dir, located.named.as_ref()).ok().flatten();
    // A running daemon has the settings that a wrong file does not say.
    let report = match located.is_wrong.then(daemon).flatten() {
        Some(control) => verify_by_daemon(control, args.archives)?,
        None => match verify_folder(args, &located) {
            Err(error) if is_denied(&error) => verify_by_daemon(daemon().ok_or(error)?, args.archives)?,
            verified => verified?,
        },
    };
    print_report(&report, args.output.json)
}

/// Verifies a folder that this user can read.
fn verify_folder(args: &Args, located: &Located) -> Result<VerifyReport, CliError> {
    if located.is_wrong {
        hint("  which files are read, and which field has a sequence of numbers, is not known: this is not checked");
    }
    let (access, tails, sequence, is_routed) = match located.config() {
        Some(config) => {
            let is_routed = config.is_routed();
            (config.archives, Some(config.sources.tails), config.lifecycle.verify_sequence, is_routed)
        }
        None => Default::default(),
    };
    let request = VerifyRequest {
        data_dir: &located.data_dir,
        access: &access,
        reads_archives: args.archives,
        share: Share::ALL,
        bytes_per_second: None,
        tails: tails.as_deref(),
        sequence: sequence.as_deref(),
        is_routed,
    };
    let bar = StepBar::new();
    let report = verify(&request, &mut |progress| {
        show_progress(&bar, progress);
        ControlFlow::Continue(())
    })?;
    Ok(report)
}

/// Has the daemon verify its folder, for a member of the readers' group.
fn verify_by_daemon(control: Control, archives: bool) -> Result<VerifyReport, CliError> {
    let mut response = control.patient()?.post(&format!("/-/verify?archives={archives}"), "")?;
    let (bar, mut report) = (StepBar::new(), VerifyReport::default());
    while let Some(line) = response.next("a line is not part of a verification")? {
        match line {
            VerifyLine::Progress(progress) => show_progress(&bar, &progress),
            VerifyLine::Finding(finding) => report.findings.push(finding),
            VerifyLine::Verdict(verdict) => return Ok(VerifyReport { verdict, ..report }),
        }
    }
    Err(ControlError::Ended.into())
}

fn show_progress(bar: &StepBar, progress: &VerifyProgress) {
    let (done, total) = (progress.done, progress.total);
    bar.show(&StepProgress { table: progress.at.clone(), act: progress.at.clone().into(), done, total });
}

fn print_report(report: &VerifyReport, is_json: bool) -> Result<(), CliError> {
    let mut output = Output::new();
    for finding in &report.findings {
        if is_json {
            output.json(finding)?;
        } else {
            output.line(finding)?;
            output.line(format_args!("      {}", finding.advice))?;
        }
    }
    if is_json {
        output.json(&report.verdict)?
    } else {
        output.line(&report.verdict)?
    }
    output.flush()?;
    match report.verdict.findings {
        0 => Ok(()),
        found => Err(CliError::NotWhole(counted(found, "finding"))),
    }
}

/// Compares the records of hosts with those that they have.
fn verify_fleet(args: &Args, data_dir: &Path) -> Result<(), CliError> {
    let Some(control) = Control::connect(data_dir)? else {
        let reason = "no daemon runs on this folder, so no host can be asked: start it, and try again";
        return Err(CliError::Incomplete(reason.into()));
    };
    let listed: Vec<HostLine> = control.fetch("/-/hosts")?.all("it has no hosts")?;
    let revoked = listed.iter().filter(|host| host.revoked && host.records > 0).count();
    let Some(control) = Control::connect(data_dir)? else { return Err(ControlError::Ended.into()) };
    let hosts: Vec<ComparedLine> = control.post("/-/hosts/verify", "")?.all("it has no hosts")?;
    let mut output = Output::new();
    let (mut lacking, mut silent, mut records) = (0, 0, 0);
    for host in &hosts {
        records = u64::saturating_add(records, host.records);
        silent += usize::from(!host.answered);
        lacking += host.lacking.len();
        if args.output.json {
            output.json(host)?;
            continue;
        }
        if !host.answered {
            output.line(format_args!("{} did not answer: is its daemon running, and does it forward?", host.host))?;
        }
        for (table, there, here) in &host.lacking {
            output.line(format_args!(
                "{} has {} in {table}, and {here} of them are here as they are there",
                host.host,
                counted(*there, "record")
            ))?;
        }
        if host.later > 0 {
            output.line(format_args!(
                "{}: {} later records are on their way, and were not compared",
                host.host, host.later
            ))?;
        }
        if host.elsewhere > 0 {
            let what =
                "records of tables that have shorter periods here, or of days that are gone here, were not compared";
            output.line(format_args!("{}: {} {what}", host.host, host.elsewhere))?;
        }
    }
    let verdict = match (lacking, silent) {
        (0, 0) => "whole",
        (0, _) => "whole as far as hosts answered",
        _ => "not whole",
    };
    if revoked > 0 {
        // Nobody answers for such a host any more.
        let said = format!("the records of {} are not compared", counted(revoked as u64, "revoked host"));
        if args.output.json { hint(format_args!("daytable: {said}")) } else { output.line(said)? }
    }
    if !args.output.json {
        let all = counted(hosts.len() as u64, "host");
        let answered = if silent == 0 { all } else { format!("{} of {all}", hosts.len() - silent) };
        output.line(format_args!("{verdict}: {answered}, {}", counted(records, "record")))?;
    }
    output.flush()?;
    match (lacking, silent) {
        (0, 0) => Ok(()),
        (0, silent) => Err(CliError::Incomplete(format!("{} did not answer", counted(silent as u64, "host")))),
        (1, _) => Err(CliError::NotWhole("1 day-table lacks records".into())),
        (lacking, _) => Err(CliError::NotWhole(format!("{lacking} day-tables lack records"))),
    }
}
