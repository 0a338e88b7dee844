//! `daytable tail`: prints records as they are committed.

use super::args::{DataArgs, FilterArgs, JsonArgs};
use super::exit::CliError;
use super::output::Output;
use daytable_model::time::now;
use daytable_query::answer::AnswerFollower;
use std::ops::ControlFlow;
use std::time::Duration;

/// Commits happen at most every 250 ms, unless a push waits for one.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    filters: FilterArgs,
    /// End after this many records
    #[arg(short, value_name = "N")]
    n: Option<u64>,
    #[command(flatten)]
    output: JsonArgs,
}

pub(super) fn run(args: Args) -> Result<(), CliError> {
    let reader = args.data.reader()?;
    let (query, options) = args.filters.parse(now(), args.n)?;
    let mut follower = AnswerFollower::from_now(&reader, &query, &options)?;
    let mut output = Output::new();
    loop {
        let mut written = Ok(());
        let flow = follower.step(&reader, &mut |item| {
            written = output.item(&item, args.output.json);
            if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        written?;
        output.flush()?;
        if flow.is_break() {
            return Ok(());
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}
