//! The check of times: whether the newest records have the times at which they were written, which hosts are in the future,
//! which senders have a clock that is off, and which files have no times.

use super::super::control::Control;
use super::super::output::counted;
use super::CheckResult;
use daytable_intake::tail::SurveyedPath;
use daytable_logsql::{Expression, FieldName, ParsedQuery, Test};
use daytable_model::path_text::PathText;
use daytable_model::safe_text::SafeLine;
use daytable_model::time::{TICKS_PER_SECOND, Ticks};
use daytable_model::units::{show_duration, show_rounded};
use daytable_parse::SourceProfile;
use daytable_query::answer::{AnswerItem, AnswerOptions, answer};
use daytable_query::{Archives, Count, Filter, Grouping, ShownClock, Stores, count, select};
use daytable_store::{Reader, SourceKind, SourceState, SourceStatus};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

const CHECK: &str = "times";
/// Instances or files that are named.
const NAMED_MAX: usize = 5;
/// Files, last written first, whose newest records are compared with the clock.
const COMPARED_MAX: usize = 20;
/// Zones are at most 14 hours away from UTC.
const ZONE_MAX: Duration = Duration::from_secs(15 * 3600);
/// Offsets of zones are whole numbers of this many seconds.
const QUARTER: i64 = 900;
/// Seconds within which a difference is a whole number of quarter hours.
const NEAR: i64 = 30;
/// Seconds within which a clock is right.
const RIGHT: i64 = 600;

/// Whether the newest records have the times at which they were written.
pub(super) fn times(data_dir: &Path, surveyed: &[SurveyedPath], now: Ticks) -> Vec<CheckResult> {
    let Ok(reader) = Reader::open(data_dir) else { return Vec::new() };
    let archives = Archives::Skip;
    let stores = Stores::local(&reader, &archives);
    let written = |found: &SurveyedPath| Ticks::from_unix(found.modified?, 0).filter(|_| found.reason.is_none());
    let mut files: Vec<(Ticks, &str)> =
        surveyed.iter().filter_map(|found| Some((written(found)?, found.path.as_str()))).collect();
    files.sort_by_key(|(written, _)| std::cmp::Reverse(*written));
    let mut results = Vec::new();
    let mut compared = 0;
    for (written, path) in files.into_iter().take(COMPARED_MAX) {
        let newest = newest(&stores, path, written.minus(ZONE_MAX), written.plus(ZONE_MAX), now);
        let Some(time) = newest else { continue };
        compared += 1;
        if let Some(off) = zone_error(time, written) {
            results.push(CheckResult::warn(
                CHECK,
                format!("the newest record of {path} is of {time}, {off} the file was last written"),
                "set `zone` of its [[tail]] to the zone of its times: daytable parse --explain FILE shows how they are read",
            ));
        }
    }
    results.extend(ahead(&stores, now));
    results.extend(reader.sources().map(|sources| untimed(&sources)).unwrap_or_default());
    if results.is_empty() && compared > 0 {
        results.push(CheckResult::ok(
            CHECK,
            format!("the newest records of {} are of the right time", counted(compared, "file")),
        ));
    }
    results
}

/// The time of the newest record of a source in `since..until`.
fn newest(stores: &Stores<'_>, source: &str, since: Ticks, until: Ticks, now: Ticks) -> Option<Ticks> {
    let mut query = ParsedQuery::parse("").ok()?;
    query.filter = Expression::Field(FieldName::new("source"), Test::Exact(source.to_owned()));
    let filter = Filter { since: Some(since), until: Some(until), limit: Some(1), ..Filter::default() };
    let mut newest = None;
    let mut each = |item: AnswerItem| {
        if let AnswerItem::Record(record) = item {
            newest = Some(record.record().row_key.time());
        }
        ControlFlow::Break(())
    };
    let options = AnswerOptions { filter, ..AnswerOptions::at(now) };
    answer(stores, &query, &options, &|| true, &mut each).ok()?;
    newest
}

/// The instances with records in the future: how many, and how far the newest one is ahead. Their numbers come from
/// headers of pages, and a record an instance is read.
fn ahead(stores: &Stores<'_>, now: Ticks) -> Vec<CheckResult> {
    let since = Some(now.plus(Duration::from_secs(RIGHT.unsigned_abs())));
    let grouping = Grouping { instance: true, ..Grouping::default() };
    let Ok((mut counts, _)) = count(stores, &Filter { since, ..Filter::default() }, grouping) else {
        return Vec::new();
    };
    counts.sort_by_key(|count| std::cmp::Reverse(count.records));
    let more = counts.len().saturating_sub(NAMED_MAX);
    let mut results: Vec<CheckResult> = Vec::new();
    for Count { instance, records, .. } in counts.into_iter().take(NAMED_MAX) {
        let filter = Filter { since, instance: instance.clone(), limit: Some(1), ..Filter::default() };
        let mut newest = None;
        let selected = select(stores, &filter, |record| {
            newest = Some((record.time(), record.source));
            ControlFlow::Break(())
        });
        let (Ok(_), Some((time, source)), Some(instance)) = (selected, newest, instance) else { continue };
        let (instance, source) = (SafeLine(&instance), SafeLine(&source));
        let plural = if records == 1 { " is" } else { "s are" };
        let off = zone_error(time, now);
        let advice = match off {
            Some(_) => "a wrong zone: set `zone` of its block, or the zone of the sender",
            None => "set the clock of that host (timedatectl there), or the clock of this one if that is wrong",
        };
        let off = off.unwrap_or_else(|| format!("{} after", show_rounded(time.since(now))));
        let found = format!(
            "{instance}: {records} record{plural} in the future, the newest of {time}, {off} now, from {source}"
        );
        results.push(CheckResult::warn(CHECK, found, advice));
    }
    if more > 0 {
        let have = if more == 1 { "has" } else { "have" };
        let found = format!("{} {have} records in the future", counted(more as u64, "more instance"));
        let advice = "with so many at once, look at the clock of this host first: timedatectl";
        results.push(CheckResult::warn(CHECK, found, advice));
    }
    results
}

/// The senders whose clocks are behind, as the running daemon knows them. [`ahead`] finds the others, also when they are
/// silent.
pub(super) fn behind(control: Option<Control>) -> Vec<CheckResult> {
    let Some(Ok(mut lines)) = control.map(|control| control.fetch("/api/sources")) else { return Vec::new() };
    let mut clocks = Vec::new();
    while let Ok(Some(line)) = lines.next_line() {
        clocks.extend(serde_json::from_str::<ShownClock>(&line).ok().filter(|clock| clock.clock_ahead_seconds < 0));
    }
    clocks.sort_by_key(|clock| std::cmp::Reverse(clock.records));
    let more = clocks.len().saturating_sub(NAMED_MAX);
    let named = clocks.iter().take(NAMED_MAX).map(|clock| {
        let ShownClock { block, instance, records, until, .. } = clock;
        let (instance, off) = (SafeLine(instance), clock.off());
        CheckResult::warn(
            CHECK,
            format!("{instance}: its clock is {off}, by the last {} of {block}, until {until}", counted(*records, "record")),
            "set the clock of that host, or `zone` of its block if its times have another zone; a sender that keeps each \
             record back for so long looks the same; `sort by (_arrived)` shows what came when",
        )
    });
    let rest = (more > 0).then(|| {
        CheckResult::warn(
            CHECK,
            format!("{more} more senders have clocks that are behind"),
            "`daytable sources` names them",
        )
    });
    named.chain(rest).collect()
}

/// The files that are followed and of which no record has a time, although something looks like one.
fn untimed(sources: &[SourceState]) -> Vec<CheckResult> {
    let found = |state: &SourceState| {
        let is_followed = state.kind == SourceKind::Tail && state.status == SourceStatus::Live;
        let likely = SourceProfile::restore(&state.profile).likely_time().filter(|_| is_followed)?.to_owned();
        Some((state.path.text().into_owned(), likely))
    };
    let mut found: Vec<(String, String)> = sources.iter().filter_map(found).collect();
    found.sort();
    let more = found.len().saturating_sub(NAMED_MAX);
    let named = found.iter().take(NAMED_MAX).map(|(path, likely)| {
        let (path, likely) = (SafeLine(path), SafeLine(likely));
        CheckResult::warn(
            CHECK,
            format!("no record of {path} has a time, although {likely} looks like one: each has the time at which it was read"),
            "if that is its time, name it in its [[tail]]: format = { regex = '…(?<time>…)…' }, and try it first: \
             daytable parse --explain --format regex:PATTERN FILE",
        )
    });
    let rest = (more > 0).then(|| {
        CheckResult::warn(
            CHECK,
            format!("the same is true of {}", counted(more as u64, "more file")),
            "`daytable sources` names them",
        )
    });
    named.chain(rest).collect()
}

/// How a time differs from the time of writing, if a wrong zone explains the difference: "2h before".
fn zone_error(time: Ticks, written: Ticks) -> Option<String> {
    let off = (time.get() - written.get()) / TICKS_PER_SECOND;
    let beyond = (off.abs() + NEAR).rem_euclid(QUARTER);
    let (size, side) = (Duration::from_secs(((off.abs() + NEAR) / QUARTER * QUARTER).unsigned_abs()), off.signum());
    let word = if side < 0 { "before" } else { "after" };
    (off.abs() > RIGHT && beyond <= 2 * NEAR).then(|| format!("{} {word}", show_duration(size)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_zone_is_a_whole_number_of_quarter_hours() {
        let written = Ticks::from_unix(1_800_000_000, 0).expect("a time");
        let off = |seconds: i64| zone_error(Ticks::from_unix(1_800_000_000 + seconds, 0).expect("a time"), written);
        assert_eq!(off(-7200).as_deref(), Some("2h before"));
        assert_eq!(off(7190).as_deref(), Some("2h after"));
        assert_eq!(off(-20_703).as_deref(), Some("345m before"));
        for near in [0, 5, -599, 700, 7300, -7000] {
            assert_eq!(off(near), None, "{near}");
        }
    }

    #[test]
    fn files_without_times_are_named_up_to_a_number() {
        let file = |number: u64| {
            let (mut profile, line) = (SourceProfile::default(), r#"{"expires_at":"2026-11-21T08:00:00Z"}"#);
            profile.record(line, Default::default(), &Default::default(), Ticks::UNIX_EPOCH);
            let path = format!("/{number}.log").into();
            SourceState { path, profile: profile.save(), ..daytable_store::source::tests_state(number) }
        };
        let found: Vec<String> =
            untimed(&(0..7).map(file).collect::<Vec<_>>()).into_iter().map(|result| result.found).collect();
        assert_eq!(found.len(), 6);
        assert!(
            found[0].starts_with("no record of /0.log has a time, although expires_at looks like one"),
            "{found:?}"
        );
        assert_eq!(found[5], "the same is true of 2 more files");
        let ended = SourceState { status: SourceStatus::Ended, ..file(1) };
        assert!(untimed(&[ended]).is_empty());
    }
}
