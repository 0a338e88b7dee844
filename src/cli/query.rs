//! `daytable query`: prints the answer of a query: records or rows; or one record by its three keys; or records with their
//! neighbours.
//!
//! On a terminal the newest record stands last, and an answer of records has a limit. In a pipe the newest record comes
//! first, without a limit.

use super::answer_output::{AnswerArgs, AnswerFormat, AnswerOutput};
use super::args::{
    DOUBTS_TIME_MAX, FilterArgs, LakeArgs, OpenSources, ReadSources, RecordStores, report_answer, report_archives,
    report_end, warn_of,
};
use super::asked::{AskedDaemon, AskedPart};
use super::exit::CliError;
use super::hint::hint;
use super::tail::{self, FIRST_RECORDS, FollowPlan};
use crate::http::QuestionForm;
use daytable_logsql::ParsedQuery;
use daytable_model::key::{DayTable, RowKey};
use daytable_model::time::now;
use daytable_query::answer::context::{CONTEXT_MAX, ContextScope, groups_around};
use daytable_query::answer::doubts::doubts;
use daytable_query::answer::{
    AnswerEnd, AnswerItem, AnswerOptions, FullRecord, QueryConditions, answer, is_newest_first,
};
use daytable_query::{StoredRecord, find_record};
use std::fmt;
use std::io::IsTerminal;
use std::ops::ControlFlow;

/// Records on a terminal without `-n`.
const TERMINAL_RECORDS: u64 = 1000;
/// Records whose neighbours are looked for.
const MATCHES_MAX: u64 = 10_000;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    filters: FilterArgs,
    #[command(flatten)]
    sources: ReadSources,
    #[command(flatten)]
    lake: LakeArgs,
    /// At most this many records or rows. Without it, 1000 records on a terminal, and all in a pipe
    #[arg(short, aliases = ["limit", "lines", "max", "head"], value_name = "N")]
    n: Option<u64>,
    /// The oldest N records, the oldest first: with --since, the first N after that time
    #[arg(long, value_name = "N", alias = "first", conflicts_with_all = ["n", "follow", "key", "reverse", "after_context", "before_context", "context"])]
    oldest: Option<u64>,
    /// The other order: newest first on a terminal, oldest first in a pipe
    #[arg(long)]
    reverse: bool,
    /// Also print N records of the same source after each record
    #[arg(short = 'A', long, value_name = "N", value_parser = clap::value_parser!(u16).range(..=CONTEXT_MAX as i64))]
    after_context: Option<u16>,
    /// Also print N records of the same source before each record
    #[arg(short = 'B', long, value_name = "N", value_parser = clap::value_parser!(u16).range(..=CONTEXT_MAX as i64))]
    before_context: Option<u16>,
    /// Also print N records of the same source before and after each record. A line -- stands between groups
    #[arg(short = 'C', long, value_name = "N", value_parser = clap::value_parser!(u16).range(..=CONTEXT_MAX as i64))]
    context: Option<u16>,
    /// What -A, -B and -C print: `source`, neighbours of the same source, or `instance`, those of the whole instance over
    /// all its sources, in the order of time
    #[arg(long, value_name = "SCOPE", default_value = "source", value_parser = scope_of)]
    context_of: ContextScope,
    /// Then print records as they are committed, after the newest 10 or those of -n
    #[arg(long, conflicts_with_all = ["reverse", "after_context", "before_context", "context"])]
    follow: bool,
    /// The record with these keys: TABLE/PARTITIONKEY/ROWKEY
    #[arg(long, value_parser = RecordKeys::parse, conflicts_with_all = ["query", "instance", "source", "table", "also", "since", "until", "level", "contains", "n", "follow"])]
    key: Option<RecordKeys>,
    #[command(flatten)]
    form: AnswerArgs,
    /// Do not use a pager, even if the answer is longer than the screen
    #[arg(long)]
    no_pager: bool,
}

/// The three keys of a record. A key cannot contain a `/`.
#[derive(Clone, Debug)]
struct RecordKeys {
    table: DayTable,
    partition: String,
    row: RowKey,
}

impl fmt::Display for RecordKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RecordKeys { table, partition, row } = self;
        write!(f, "{table}/{partition}/{row}")
    }
}

impl RecordKeys {
    fn parse(text: &str) -> Result<RecordKeys, String> {
        let [table, partition, row] = text.split('/').collect::<Vec<_>>()[..] else {
            return Err("must be three keys with / between them: TABLE/PARTITIONKEY/ROWKEY".into());
        };
        let table = DayTable::parse(table).map_err(|error| error.to_string())?;
        let row = RowKey::parse(row).map_err(|error| error.to_string())?;
        Ok(RecordKeys { table, partition: partition.into(), row })
    }
}

/// A scope by its name.
fn scope_of(name: &str) -> Result<ContextScope, String> {
    let found = ContextScope::ALL.into_iter().find(|scope| scope.name() == name);
    found.ok_or_else(|| "must be source or instance".into())
}

pub(super) fn run(args: Args) -> Result<(), CliError> {
    let zone = args.filters.zone();
    let now = now();
    let conditions = QueryConditions { oldest: args.oldest, ..args.filters.conditions(now, &zone) };
    let (query, remarks, mut options) = conditions.clone().parse(now, args.n)?;
    if let Some(count) = args.oldest
        && !ParsedQuery::parse(&conditions.query)?.pipes.is_empty()
    {
        let instead = format!("write `| first {count} by (_time)` where it is to stand");
        return Err(CliError::Usage(format!("--oldest chooses records, and a query with pipes gives rows: {instead}")));
    }
    let printer = args.form.printer(&zone, &query, &options);
    let sides = [args.before_context.or(args.context), args.after_context.or(args.context)];
    let has_context = sides.iter().any(Option::is_some);
    let [before, after] = sides.map(|side| usize::from(side.unwrap_or_default()));
    if args.follow {
        args.form.check_endless()?;
        if args.lake.lake.is_some() {
            return Err(CliError::Usage(
                "--follow shows records as they are committed, and the days of a lake are over: follow on the hosts, or on a \
                 central daytable"
                    .into(),
            ));
        }
        let plan = FollowPlan { first: args.n.unwrap_or(FIRST_RECORDS), limit: None, act: None };
        let sources = match args.sources.open_or_ask(&args.lake)? {
            RecordStores::Folder(sources) => sources,
            RecordStores::Daemon(daemon) => return tail::follow_daemon(daemon, conditions, plan, &printer),
        };
        if !sources.is_quiet() {
            warn_of(&doubts(&sources.stores(), &query, &remarks, &options, DOUBTS_TIME_MAX)?);
        }
        return tail::follow(&sources.data_dir, &sources.stores(), &query, &options, plan, &printer);
    }
    let is_terminal = printer.is_terminal();
    let is_newest_first = is_newest_first(&query);
    if has_context && !query.pipes.is_empty() {
        return Err(CliError::Usage(
            "-A, -B and -C print the neighbours of records, and a query with pipes gives rows: leave the pipes out"
                .into(),
        ));
    }
    let is_table = matches!(args.form.format(), AnswerFormat::Csv | AnswerFormat::Parquet);
    let limited = args.n.is_none() && is_newest_first && (has_context || is_terminal && !is_table);
    if limited {
        options.filter.limit = Some(if is_terminal { TERMINAL_RECORDS } else { MATCHES_MAX });
    }
    // Neighbours come in the order of their source.
    let is_reversed = is_newest_first && !has_context && is_terminal != args.reverse;
    let mut output = AnswerOutput::new(printer, is_reversed, !args.no_pager)?;
    let sources = match args.sources.open_or_ask(&args.lake)? {
        RecordStores::Folder(sources) => sources,
        RecordStores::Daemon(daemon) => {
            let is_quiet = daemon.is_quiet;
            let limit = options.filter.limit;
            let form = match (&args.key, has_context) {
                (None, false) => QuestionForm::Answer,
                (key, _) => QuestionForm::Groups {
                    before,
                    after,
                    of: args.context_of.name().into(),
                    key: key.as_ref().map(RecordKeys::to_string),
                },
            };
            let end = print_asked(daemon, conditions, limit, form, args.reverse, output)?;
            report_limit(limited, &options, end.given, is_quiet);
            return report_end(&end);
        }
    };
    if args.key.is_some() || has_context {
        let matches = match args.key {
            Some(keys) => vec![record_of(&sources, keys)?],
            None => Vec::new(),
        };
        let is_reversed = args.reverse;
        return match (has_context, matches.into_iter().next()) {
            (false, Some(record)) => {
                output.item(AnswerItem::Record(FullRecord::new(record).into()))?;
                output.finish()
            }
            (_, Some(record)) => {
                print_groups(&sources, vec![record], (before, after, args.context_of), is_reversed, output)
            }
            (_, None) => {
                let mut matches = Vec::new();
                let report = answer(&sources.stores(), &query, &options, &|| true, &mut |item| {
                    if let AnswerItem::Record(record) = item {
                        matches.push(record.into_record());
                    }
                    ControlFlow::Continue(())
                })?;
                print_groups(&sources, matches, (before, after, args.context_of), is_reversed, output)?;
                report_limit(limited, &options, report.given, sources.is_quiet());
                report_answer(&sources, &query, &remarks, &options, &report)
            }
        };
    }
    let mut written = Ok(());
    let report = answer(&sources.stores(), &query, &options, &|| true, &mut |item| {
        written = output.item(item);
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    written?;
    output.finish()?;
    report_limit(limited, &options, report.given, sources.is_quiet());
    report_answer(&sources, &query, &remarks, &options, &report)
}

/// Prints the answer of a daemon.
fn print_asked(
    daemon: AskedDaemon,
    conditions: QueryConditions,
    limit: Option<u64>,
    form: QuestionForm,
    is_reversed: bool,
    mut output: AnswerOutput,
) -> Result<AnswerEnd, CliError> {
    if form == QuestionForm::Answer {
        let end = daemon.ask(conditions, limit, form, &mut |part| {
            if let AskedPart::Item(item) = part {
                output.item(item)?;
            }
            Ok(true)
        })?;
        output.finish()?;
        return Ok(end.unwrap_or_default());
    }
    let (mut groups, mut group) = (Vec::new(), Vec::new());
    let end = daemon.ask(conditions, limit, form, &mut |part| {
        match part {
            AskedPart::Item(AnswerItem::Record(record)) => group.push(record.into_record()),
            AskedPart::GroupEnd => groups.push(std::mem::take(&mut group)),
            _ => {}
        }
        Ok(true)
    })?;
    write_groups(groups, is_reversed, output)?;
    Ok(end.unwrap_or_default())
}

/// The record with these keys.
fn record_of(sources: &OpenSources, keys: RecordKeys) -> Result<StoredRecord, CliError> {
    let RecordKeys { table, partition, row } = keys;
    let (record, report) = find_record(&sources.stores(), &table, &partition, row)?;
    if record.is_none() {
        report_archives(&report)?;
    }
    record.ok_or_else(|| CliError::NotFound(format!("{table}/{partition}/{row}")))
}

/// Prints records with their neighbours, and a line between groups that do not touch.
fn print_groups(
    sources: &OpenSources,
    matches: Vec<StoredRecord>,
    (before, after, scope): (usize, usize, ContextScope),
    is_reversed: bool,
    output: AnswerOutput,
) -> Result<(), CliError> {
    let (groups, report) = groups_around(&sources.stores(), matches, before, after, scope)?;
    write_groups(groups, is_reversed, output)?;
    report_archives(&report)
}

/// Writes groups of records, and a line between them.
fn write_groups(
    mut groups: Vec<Vec<StoredRecord>>,
    is_reversed: bool,
    mut output: AnswerOutput,
) -> Result<(), CliError> {
    if is_reversed {
        groups.reverse();
    }
    let has_separators = output.has_separators();
    for (number, group) in groups.into_iter().enumerate() {
        if number > 0 && has_separators {
            output.line("--")?;
        }
        for record in group {
            output.item(AnswerItem::Record(FullRecord::new(record).into()))?;
        }
    }
    output.finish()
}

/// Says that an answer has a limit which nobody asked for, if it was reached.
fn report_limit(limited: bool, options: &AnswerOptions, given: u64, is_quiet: bool) {
    if let Some(limit) = options.filter.limit.filter(|limit| limited && given >= *limit)
        && !is_quiet
    {
        let all = if std::io::stdout().is_terminal() { ", and a pipe all of them" } else { "" };
        hint(format_args!("daytable: these are the newest {limit} records; -n N prints more{all}"));
    }
}
