//! `daytable tail`: records as they are committed.

use super::args::{Data, Filters};
use super::exit::CliError;
use super::output::Output;
use daytable_model::time::now;
use daytable_query::RecordFollower;
use std::ops::ControlFlow;
use std::time::Duration;

/// How often it looks: a commit comes every 250 ms at most, unless a push waits for it.
const LOOK_EVERY: Duration = Duration::from_millis(200);

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    data: Data,
    #[command(flatten)]
    filters: Filters,
    /// End after so many records
    #[arg(short, value_name = "N")]
    n: Option<u64>,
    /// An object a line, with all keys and fields
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Result<(), CliError> {
    let reader = args.data.open()?;
    let mut follower = RecordFollower::from_now(&reader, args.filters.at(now(), args.n))?;
    let mut output = Output::new();
    loop {
        let mut written = Ok(());
        let flow = follower.step(&reader, |record| {
            written = output.record(&record, args.json);
            if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        written?;
        output.flush()?;
        if flow.is_break() {
            return Ok(());
        }
        std::thread::sleep(LOOK_EVERY);
    }
}
