//! `daytable count`: counts records, by time, level and instance.

use super::args::{DataArgs, FilterArgs, JsonArgs, ReadSources, interval, report_answer};
use super::exit::CliError;
use super::output::Output;
use clap::ValueEnum;
use daytable_model::record::Level;
use daytable_model::safe_text::SafeLine;
use daytable_model::time::now;
use daytable_query::answer::count_answer;
use daytable_query::{Count, Grouping};
use std::fmt::Write;
use std::time::Duration;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    filters: FilterArgs,
    #[command(flatten)]
    sources: ReadSources,
    /// Count separately by these properties
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHAT")]
    by: Vec<By>,
    /// Count separately for each interval of this length, such as 5m
    #[arg(long, value_name = "DURATION", value_parser = interval)]
    every: Option<Duration>,
    #[command(flatten)]
    output: JsonArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum By {
    Level,
    Instance,
}

pub(super) fn run(args: Args) -> Result<(), CliError> {
    let grouping =
        Grouping { level: args.by.contains(&By::Level), instance: args.by.contains(&By::Instance), every: args.every };
    let sources = args.sources.open(&args.data)?;
    let (query, options) = args.filters.parse(now(), None)?;
    let (counts, report) = count_answer(&sources.stores(), &query, &options, grouping)?;
    let mut output = Output::new();
    output.rows(args.output, &counts, || table(&counts, grouping))?;
    output.flush()?;
    report_answer(&sources, &query, &options, &report)
}

/// One line per count, without columns that were not requested.
fn table(counts: &[Count], grouping: Grouping) -> String {
    let instance = |count: &Count| count.instance.as_deref().map(|instance| SafeLine(instance).to_string());
    let widest = counts.iter().filter_map(instance).map(|name| name.chars().count()).max().unwrap_or(0);
    let digits = counts.iter().map(|count| count.records.to_string().len()).max().unwrap_or(0);
    let mut table = String::new();
    for (number, count) in counts.iter().enumerate() {
        let mut line = String::from(if number == 0 { "" } else { "\n" });
        if let Some(time) = count.time {
            line.push_str(&format!("{time}  "));
        }
        if let Some(level) = count.level {
            line.push_str(&format!("{:<8}  ", level.map_or("-", Level::name)));
        }
        if let Some(name) = instance(count) {
            line.push_str(&format!("{name:<widest$}  "));
        }
        let digits = if grouping == Grouping::default() { 0 } else { digits };
        // Writing to a text cannot fail.
        let _ = write!(table, "{line}{:>digits$}", count.records);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use daytable_model::time::Ticks;

    fn of(time: Option<Ticks>, level: Option<Option<Level>>, instance: Option<&str>, records: u64) -> Count {
        Count { time, level, instance: instance.map(str::to_owned), records }
    }

    #[test]
    fn columns_line_up_and_only_requested_columns_are_printed() {
        let midnight = Ticks::from_date(2026, 11, 21);
        let counts =
            [of(midnight, Some(Some(Level::Error)), Some("web-17"), 12), of(midnight, Some(None), Some("d\nb"), 1000)];
        let grouping = Grouping { level: true, instance: true, every: Some(Duration::from_secs(60)) };
        assert_eq!(
            table(&counts, grouping),
            "2026-11-21T00:00:00Z  error     web-17    12\n2026-11-21T00:00:00Z  -         d\\nb    1000"
        );
        let by_level = [of(None, Some(Some(Level::Critical)), None, 7)];
        assert_eq!(table(&by_level, Grouping { level: true, ..Grouping::default() }), "critical  7");
        assert_eq!(table(&[of(None, None, None, 42)], Grouping::default()), "42");
    }
}
