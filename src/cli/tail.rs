//! `daytable tail`: prints the last records, and then records as they are committed.

use super::answer_output::{AnswerArgs, AnswerFormat, AnswerPrinter};
use super::args::{DOUBTS_TIME_MAX, FilterArgs, FolderArgs, is_denied, report_end, warn_of};
use super::asked::{AskedDaemon, AskedPart};
use super::control::Control;
use super::exit::CliError;
use super::hint::hint;
use super::locate::{self, Located};
use crate::http::QuestionForm;
use daytable_logsql::ParsedQuery;
use daytable_model::safe_text::{SafeLine, SafeLines};
use daytable_model::time::now;
use daytable_query::answer::doubts::doubts;
use daytable_query::answer::{AnswerFollower, AnswerItem, AnswerOptions, QueryConditions};
use daytable_query::{Archives, Stores};
use daytable_store::Reader;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

/// Commits happen at most every 250 ms, unless a push waits for one.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Records to begin with, without `-n`.
pub(super) const FIRST_RECORDS: u64 = 10;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    filters: FilterArgs,
    #[command(flatten)]
    folder: FolderArgs,
    /// Records to begin with, the newest that are there: 10, or none with --exec
    #[arg(short, alias = "lines", value_name = "N")]
    n: Option<u64>,
    /// End after this many records
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Run this program for each record as well, with the record as JSON on its standard input: one after the other, without
    /// a shell
    #[arg(long, value_name = "PROGRAM")]
    exec: Option<PathBuf>,
    #[command(flatten)]
    form: AnswerArgs,
}

pub(super) fn run(args: Args) -> Result<(), CliError> {
    args.form.check_endless()?;
    let zone = args.filters.zone();
    let now = now();
    let conditions = args.filters.conditions(now, &zone);
    let (query, remarks, options) = conditions.clone().parse(now, None)?;
    let printer = args.form.printer(&zone, &query, &options);
    let Located { data_dir, named, .. } = args.folder.located()?;
    let first = args.n.unwrap_or(if args.exec.is_some() { 0 } else { FIRST_RECORDS });
    let act = args.exec.map(|program| (program, AnswerArgs::of(AnswerFormat::Json).printer(&zone, &query, &options)));
    let plan = FollowPlan { first, limit: args.limit, act };
    let reader = match Reader::open(&data_dir).map_err(CliError::from) {
        Err(error) if is_denied(&error) => {
            let Ok(Some(control)) = locate::connect(&data_dir, named.as_ref()) else { return Err(error) };
            let daemon = AskedDaemon { control, has_archives: false, has_remote: false, is_quiet: false };
            return follow_daemon(daemon, conditions, plan, &printer);
        }
        reader => reader?,
    };
    let stores = Stores::local(&reader, &Archives::Skip);
    warn_of(&doubts(&stores, &query, &remarks, &options, DOUBTS_TIME_MAX)?);
    follow(&data_dir, &stores, &query, &options, plan, &printer)
}

/// How many records are followed, and what is done with them.
pub(super) struct FollowPlan {
    /// Records that are there, to begin with.
    pub(super) first: u64,
    /// Records after which to end.
    pub(super) limit: Option<u64>,
    /// A program that is run for each record, and the printer of its standard input.
    pub(super) act: Option<(PathBuf, AnswerPrinter)>,
}

impl FollowPlan {
    /// Writes the lines of records, and runs the program for each.
    fn give(&self, lines: &mut Vec<u8>, inputs: &mut Vec<Vec<u8>>) -> Result<(), CliError> {
        let mut out = io::stdout().lock();
        out.write_all(lines).and_then(|()| out.flush()).map_err(CliError::output)?;
        drop(out);
        lines.clear();
        for input in inputs.drain(..) {
            let Some((program, _)) = &self.act else { continue };
            let shown = || SafeLine(&program.to_string_lossy()).to_string();
            match act(program, &input) {
                Ok(status) if status.success() => {}
                Ok(status) => hint(format_args!("daytable: {} ended with {status}", shown())),
                Err(source) => return Err(CliError::Input { path: program.clone(), source }),
            }
        }
        Ok(())
    }

    /// Adds the lines of a record.
    fn add(
        &self,
        printer: &AnswerPrinter,
        item: &AnswerItem,
        lines: &mut Vec<u8>,
        inputs: &mut Vec<Vec<u8>>,
    ) -> Result<(), CliError> {
        printer.item(item, lines)?;
        let Some((_, json)) = &self.act else { return Ok(()) };
        let mut input = Vec::new();
        json.item(item, &mut input)?;
        inputs.push(input);
        Ok(())
    }
}

/// As [`follow`], for a user who cannot read the data folder: the daemon gives the records.
pub(super) fn follow_daemon(
    daemon: AskedDaemon,
    conditions: QueryConditions,
    plan: FollowPlan,
    printer: &AnswerPrinter,
) -> Result<(), CliError> {
    let (mut lines, mut inputs) = (Vec::new(), Vec::new());
    let end = daemon.ask(conditions, plan.limit, QuestionForm::Follow { first: plan.first }, &mut |part| {
        match part {
            AskedPart::Item(item) => plan.add(printer, &item, &mut lines, &mut inputs)?,
            AskedPart::Warnings(warnings) => warn_of(&warnings),
            AskedPart::GroupEnd | AskedPart::Count(_) => {}
        }
        plan.give(&mut lines, &mut inputs)?;
        Ok(true)
    })?;
    end.map_or(Ok(()), |end| report_end(&end))
}

/// Runs a program with a record on its standard input, and waits for its end.
fn act(program: &Path, record: &[u8]) -> io::Result<ExitStatus> {
    let mut child = Command::new(program).stdin(Stdio::piped()).spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that does not read its input is not an error.
        let _ = stdin.write_all(record);
    }
    child.wait()
}

/// Prints the newest records in the order of their times, and then records as they are committed.
pub(super) fn follow(
    data_dir: &Path,
    stores: &Stores<'_>,
    query: &ParsedQuery,
    options: &AnswerOptions,
    plan: FollowPlan,
    printer: &AnswerPrinter,
) -> Result<(), CliError> {
    // A daemon that this user must not speak to runs.
    if matches!(Control::connect(data_dir), Ok(None)) {
        hint(format_args!(
            "daytable: {}. New records appear once a daemon commits them",
            SafeLines(locate::no_daemon(data_dir))
        ));
    }
    let mut options = options.clone();
    options.filter.limit = plan.limit;
    let mut follower = AnswerFollower::from_now(stores.reader, query, &options)?;
    let (mut lines, mut inputs, mut written) = (Vec::new(), Vec::new(), Ok(()));
    let mut each = |item: AnswerItem, lines: &mut Vec<u8>, inputs: &mut Vec<Vec<u8>>| {
        written = plan.add(printer, &item, lines, inputs);
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    let mut flow =
        follower.newest(stores, query, &options, plan.first, &mut |item| each(item, &mut lines, &mut inputs))?;
    loop {
        plan.give(&mut lines, &mut inputs)?;
        if flow.is_break() {
            return written;
        }
        std::thread::sleep(POLL_INTERVAL);
        flow = follower.step(stores.reader, &mut |item| each(item, &mut lines, &mut inputs))?;
    }
}
