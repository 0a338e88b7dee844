//! `daytable count`: counts records, by time, level and instance.
//!
//! The table has a header, and a column for each property in the order in which they were asked for. A step of time without
//! records is a line, too.

use super::args::{FilterArgs, JsonArgs, LakeArgs, ReadSources, RecordStores, end_of, interval, report_end};
use super::asked::{AskedDaemon, AskedPart};
use super::exit::CliError;
use super::output::{Output, aligned, cell};
use super::zone::ReaderZone;
use crate::http::QuestionForm;
use daytable_model::record::Level;
use daytable_model::time::{Ticks, now};
use daytable_model::units::show_duration;
use daytable_query::answer::{AnswerEnd, QueryConditions, count_answer, lost_by_pipes};
use daytable_query::{Count, Grouping};
use std::convert::Infallible;
use std::io::{self, IsTerminal};
use std::time::Duration;

/// Steps without records that are shown.
const EMPTY_STEPS_MAX: u64 = 10_000;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    filters: FilterArgs,
    #[command(flatten)]
    sources: ReadSources,
    #[command(flatten)]
    lake: LakeArgs,
    /// Count separately by these properties, level and instance, in the order of the columns
    #[arg(long, value_parser = By::parse, value_delimiter = ',', value_name = "WHAT")]
    by: Vec<By>,
    /// Count separately for each interval of this length, such as 5m. Days begin at midnight in the zone of TZ, weeks on Monday
    #[arg(long, value_name = "DURATION", value_parser = interval)]
    every: Option<Duration>,
    #[command(flatten)]
    output: JsonArgs,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum By {
    Level,
    Instance,
    /// Another field, which only a query counts by.
    Field(String),
}

impl By {
    fn name(&self) -> &str {
        match self {
            By::Level => "level",
            By::Instance => "instance",
            By::Field(name) => name,
        }
    }

    fn parse(text: &str) -> Result<By, Infallible> {
        Ok(match text {
            "level" => By::Level,
            "instance" => By::Instance,
            other => By::Field(other.to_owned()),
        })
    }
}

/// The query that counts by any field: with the filter, the options and the interval of the command, as `words` of the command line
/// have them.
fn query_instead(
    by: &[By],
    every: Option<Duration>,
    query: Option<&str>,
    words: impl Iterator<Item = String>,
) -> String {
    let mut words = words.skip_while(|word| word != "count").skip(1);
    let (mut kept, mut is_query_left) = (String::new(), query.is_some());
    while let Some(word) = words.next() {
        match word.as_str() {
            "--by" | "--every" => drop(words.next()),
            "--json" => {}
            _ if word.starts_with("--by=") || word.starts_with("--every=") => {}
            _ if is_query_left && query == Some(&word) => is_query_left = false,
            _ => kept = format!("{kept} {}", quoted(&word)),
        }
    }
    let every = every.map(|every| format!("_time:{}", show_duration(every)));
    let by: Vec<String> = every.into_iter().chain(by.iter().map(|by| by.name().to_owned())).collect();
    let query = format!("{} | stats by ({}) count() n", query.unwrap_or("*"), by.join(", "));
    format!("daytable query {}{kept}", quoted(&query))
}

/// A word as a shell reads it.
pub(super) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

pub(super) fn run(args: Args) -> Result<(), CliError> {
    let mut by = args.by;
    by.dedup();
    if by.iter().any(|by| matches!(by, By::Field(_))) {
        let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
        let instead = query_instead(&by, args.every, args.filters.query(), words);
        return Err(CliError::Usage(format!(
            "records are counted by level and instance; by a field they are by: {instead}"
        )));
    }
    let is_terminal = io::stdout().is_terminal();
    let zone = args.filters.zone();
    let grouping = Grouping {
        level: by.contains(&By::Level),
        instance: by.contains(&By::Instance),
        every: args.every,
        clock: zone.clock(),
    };
    let now = now();
    let conditions = args.filters.conditions(now, &zone);
    let (query, remarks, options) = conditions.clone().parse(now, None)?;
    if let Some(lost) = lost_by_pipes(&query, grouping) {
        return Err(CliError::Usage(format!("{lost}: leave --by and --every out, or count in the query")));
    }
    let (counts, end) = match args.sources.open_or_ask(&args.lake)? {
        RecordStores::Folder(sources) => {
            let (counts, report) = count_answer(&sources.stores(), &query, &options, grouping, &|| true)?;
            (counts, end_of(&sources, &query, &remarks, &options, &report)?)
        }
        RecordStores::Daemon(daemon) => asked(daemon, conditions, &by, args.every, &zone)?,
    };
    let mut output = Output::new();
    let shown = if is_terminal { zone } else { ReaderZone::new(true) };
    output.rows(args.output, &counts, || match counts.as_slice() {
        // A script reads the one number.
        [one] if grouping.is_one_number() && !is_terminal => one.records.to_string(),
        counts => table(counts, &by, &grouping, &|time| shown.rfc3339(time)),
    })?;
    output.flush()?;
    report_end(&end)
}

/// The counts of a daemon.
fn asked(
    daemon: AskedDaemon,
    conditions: QueryConditions,
    by: &[By],
    every: Option<Duration>,
    zone: &ReaderZone,
) -> Result<(Vec<Count>, AnswerEnd), CliError> {
    let mut counts = Vec::new();
    let form = QuestionForm::Count {
        by: by.iter().map(|by| by.name().to_owned()).collect(),
        every: every.map(|every| (every.as_secs(), every.subsec_nanos())),
        zone: zone.name(),
    };
    let end = daemon.ask(conditions, None, form, &mut |part| {
        if let AskedPart::Count(count) = part {
            counts.push(count);
        }
        Ok(true)
    })?;
    Ok((counts, end.unwrap_or_default()))
}

/// A header, and a line per count and per step without records.
fn table(counts: &[Count], by: &[By], grouping: &Grouping, time: &dyn Fn(Ticks) -> String) -> String {
    let Grouping { every, clock, .. } = *grouping;
    let heads = every.map(|_| "time").into_iter().chain(by.iter().map(|by| by.name())).chain(["records"]);
    let mut rows = vec![heads.map(str::to_owned).collect::<Vec<_>>()];
    let step = every.unwrap_or_default();
    let mut empty_left = EMPTY_STEPS_MAX;
    for (at, count) in counts.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|before| counts[before].time);
        if let (Some(before), Some(this)) = (before, count.time) {
            let mut next = clock.step_after(before, step);
            while next < this && empty_left > 0 {
                empty_left -= 1;
                let blank = by.iter().map(|_| String::new());
                rows.push([time(next)].into_iter().chain(blank).chain(["0".into()]).collect());
                next = clock.step_after(next, step);
            }
            if next < this {
                rows.push(vec!["…".to_owned()]);
            }
        }
        let value = |by: &By| match by {
            By::Level => cell(count.level.flatten().map(Level::name)),
            By::Instance => cell(count.instance.as_deref()),
            By::Field(_) => String::new(),
        };
        rows.push(
            count.time.map(time).into_iter().chain(by.iter().map(value)).chain([count.records.to_string()]).collect(),
        );
    }
    let last = by.len() + usize::from(every.is_some());
    aligned(&rows, &|column| column == last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(time: Option<Ticks>, level: Option<Option<Level>>, instance: Option<&str>, records: u64) -> Count {
        Count { time, level, instance: instance.map(str::to_owned), records }
    }

    #[test]
    fn columns_stand_in_the_order_asked_and_empty_steps_are_shown() {
        let at = |minute: u64| {
            Ticks::from_date(2026, 11, 21).map(|midnight| midnight.plus(Duration::from_secs(60 * minute)))
        };
        let counts = [
            of(at(0), Some(Some(Level::Error)), Some("web-17"), 12),
            of(at(0), Some(None), Some("d\nb"), 1000),
            of(at(3), Some(None), Some("db"), 1),
        ];
        let every = |every| Grouping { every, ..Grouping::default() };
        let minutes = every(Some(Duration::from_secs(60)));
        let shown = table(&counts, &[By::Instance, By::Level], &minutes, &|time| time.to_string());
        let lines = [
            "time                  instance  level  records",
            "2026-11-21T00:00:00Z  web-17    error       12",
            "2026-11-21T00:00:00Z  d\\nb      -         1000",
            "2026-11-21T00:01:00Z                         0",
            "2026-11-21T00:02:00Z                         0",
            "2026-11-21T00:03:00Z  db        -            1",
        ];
        assert_eq!(shown, lines.join("\n"));
        let by_level = [of(None, Some(Some(Level::Critical)), None, 7)];
        assert_eq!(
            table(&by_level, &[By::Level], &every(None), &|time| time.to_string()),
            "level     records\ncritical        7"
        );
    }
}
