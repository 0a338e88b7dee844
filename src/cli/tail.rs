//! `daytable tail`: prints the last records, and then records as they are committed.

use super::answer_output::{AnswerArgs, AnswerPrinter};
use super::args::{DOUBTS_TIME_MAX, DataArgs, FilterArgs, warn_of};
use super::control::Control;
use super::exit::CliError;
use super::locate;
use daytable_logsql::ParsedQuery;
use daytable_model::safe_text::SafeLines;
use daytable_model::time::now;
use daytable_query::answer::doubts::doubts;
use daytable_query::answer::{AnswerFollower, AnswerItem, AnswerOptions};
use daytable_query::{Archives, Stores};
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::Path;
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
    data: DataArgs,
    /// Records to begin with: the newest that are there
    #[arg(short, alias = "lines", value_name = "N", default_value_t = FIRST_RECORDS)]
    n: u64,
    /// End after this many records
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    #[command(flatten)]
    form: AnswerArgs,
}

pub(super) fn run(args: Args) -> Result<(), CliError> {
    args.form.check_endless()?;
    let zone = args.filters.zone();
    let (query, remarks, options) = args.filters.parse(now(), &zone, None)?;
    let printer = args.form.printer(&zone, &query, &options);
    let reader = args.data.reader()?;
    let plan = FollowPlan { first: args.n, limit: args.limit };
    let stores = Stores::local(&reader, &Archives::Skip);
    warn_of(&doubts(&stores, &query, &remarks, &options, DOUBTS_TIME_MAX)?);
    follow(&args.data.dir(), &stores, &query, &options, plan, &printer)
}

/// How many records are followed.
#[derive(Clone, Copy)]
pub(super) struct FollowPlan {
    /// Records that are there, to begin with.
    pub(super) first: u64,
    /// Records after which to end.
    pub(super) limit: Option<u64>,
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
        eprintln!(
            "daytable: {}. New records appear once a daemon commits them",
            SafeLines(locate::no_daemon(data_dir))
        );
    }
    let mut options = options.clone();
    options.filter.limit = plan.limit;
    let mut follower = AnswerFollower::from_now(stores.reader, query, &options)?;
    let (mut lines, mut written) = (Vec::new(), Ok(()));
    let mut each = |item: AnswerItem, lines: &mut Vec<u8>| {
        written = printer.item(&item, lines);
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    let mut flow = follower.newest(stores, query, &options, plan.first, &mut |item| each(item, &mut lines))?;
    loop {
        let mut out = io::stdout().lock();
        out.write_all(&lines).and_then(|()| out.flush()).map_err(CliError::output)?;
        drop(out);
        lines.clear();
        if flow.is_break() {
            return written;
        }
        std::thread::sleep(POLL_INTERVAL);
        flow = follower.step(stores.reader, &mut |item| each(item, &mut lines))?;
    }
}
