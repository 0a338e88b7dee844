//! `daytable tail`: prints records as they are committed.

use super::args::{DataArgs, FilterArgs, JsonArgs};
use super::control::Control;
use super::exit::CliError;
use super::locate;
use super::output::Output;
use daytable_model::safe_text::SafeLines;
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
    let data_dir = args.data.dir();
    // A daemon that this user must not speak to runs.
    if matches!(Control::connect(&data_dir), Ok(None)) {
        eprintln!(
            "daytable: {}. New records appear once a daemon commits them",
            SafeLines(locate::no_daemon(&data_dir))
        );
    }
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
