//! Queries, most of them about existing values.

use super::Dice;
use super::plain::{Plain, Read, wants};
use super::records::Written;
use daytable_model::entity::STRING_UNITS_MAX;
use daytable_model::record::Level;
use daytable_model::time::Ticks;
use daytable_query::{Filter, Grouping, Stores, count, find_record, select};
use std::ops::ControlFlow;
use std::time::Duration;

/// Queries per state.
const ASKED: usize = 8;

/// Runs queries, and compares every answer with that of the plain list.
pub(super) fn ask(dice: &mut Dice, state: &str, stores: &Stores<'_>, plain: &Plain) {
    let all: Vec<&Written> = plain.all().collect();
    for number in 0..ASKED {
        let filter = if number == 0 { Filter::default() } else { filter(dice, &all) };
        let mut found = Vec::new();
        let told = select(stores, &filter, |record| {
            found.push(Read::from(&record));
            ControlFlow::Continue(())
        });
        let told = told.unwrap_or_else(|error| panic!("{state}: {filter:?}: {error}"));
        assert_eq!(told.missing(), None, "{state}");
        compare(state, &filter, &found, &plain.select(&filter));
        let unlimited = Filter { limit: None, ..filter };
        let grouping = grouping(dice);
        let (counts, _) = count(stores, &unlimited, grouping).expect("counted");
        assert_eq!(counts, plain.count(&unlimited, grouping), "{state}: {unlimited:?} {grouping:?}");
    }
    let Some(written) = (!all.is_empty()).then(|| dice.pick(&all)) else { return };
    let found = find_record(stores, &super::records::table(), &written.partition, written.key).expect("read").0;
    let found: Vec<Read> = found.iter().map(Read::from).collect();
    compare(state, &Filter::default(), &found, &[Read::from(*written)]);
}

/// The records of a commit that a follower must return, in any order.
pub(super) fn followed(filter: &Filter, commit: &[Written]) -> Vec<Read> {
    let mut wanted: Vec<Read> = commit.iter().filter(|written| wants(filter, written)).map(Read::from).collect();
    wanted.sort();
    wanted
}

/// Panics if two answers differ. The message has the first different record only: a whole answer may be megabytes.
pub(super) fn compare(state: &str, filter: &Filter, found: &[Read], wanted: &[Read]) {
    let at = (0..found.len().max(wanted.len())).find(|at| found.get(*at) != wanted.get(*at));
    let Some(at) = at else { return };
    let short = |read: Option<&Read>| {
        let text = format!("{read:?}");
        text.chars().take(600).chain(format!(" … {} bytes", text.len()).chars()).collect::<String>()
    };
    panic!(
        "{state}: {filter:?}\n{} records instead of {}; record {at} is\n{}\ninstead of\n{}",
        found.len(),
        wanted.len(),
        short(found.get(at)),
        short(wanted.get(at)),
    );
}

/// A filter that some records are likely to pass.
pub(super) fn filter(dice: &mut Dice, all: &[&Written]) -> Filter {
    let mut filter = Filter::default();
    if !dice.is_one_in(4) {
        filter.contains = Some(needle(dice, all));
    }
    if dice.is_one_in(3) {
        filter.level = Some(*dice.pick(&Level::ALL));
    }
    if dice.is_one_in(3) {
        filter.instance = Some((*dice.pick(&["web", "db", "web-17", "größe/1", "nobody"])).to_owned());
    }
    if dice.is_one_in(3) {
        filter.since = time(dice, all);
    }
    if dice.is_one_in(3) {
        filter.until = time(dice, all);
    }
    if dice.is_one_in(3) {
        filter.limit = Some(1 + dice.below(8) as u64);
    }
    filter
}

/// A time near that of a record.
fn time(dice: &mut Dice, all: &[&Written]) -> Option<Ticks> {
    let near = i64::try_from(dice.below(3)).expect("small") - 1;
    Ticks::new(all.get(dice.below(all.len()))?.key.time().get() + near)
}

/// A part of a value: anywhere, at an end, or across the border of two entities. Or a text that few records have.
fn needle(dice: &mut Dice, all: &[&Written]) -> String {
    if all.is_empty() || dice.is_one_in(6) {
        let rare = ["502", "nowhere", "true", "e", "1.5", "\"b\"", "-5", "2026-11-20T", "NaN", "502; took", "12345-"];
        return (*dice.pick(&rare)).to_owned();
    }
    // Long texts are rare, and the queries prefer them.
    let long: Vec<&&Written> = all.iter().filter(|written| written.message.len() > STRING_UNITS_MAX).collect();
    let written = if long.is_empty() || dice.is_one_in(2) { *dice.pick(all) } else { **dice.pick(&long) };
    let line = written.line.as_ref().map(|line| &*line.text);
    let texts: Vec<&str> = written.printed.iter().chain([&written.message]).map(String::as_str).chain(line).collect();
    let text = if let Some(line) = line.filter(|line| !line.is_empty() && dice.is_one_in(2)) {
        line
    } else {
        *dice.pick(&texts)
    };
    let unit_of = |at: usize| {
        text.char_indices()
            .scan(0, |units, (byte, c)| {
                *units += c.len_utf16();
                Some((*units, byte))
            })
            .find(|(units, _)| *units >= at)
            .map_or(0, |(_, byte)| byte)
    };
    let start = match dice.below(5) {
        0 => 0,
        1 => text.len().saturating_sub(dice.below(8)),
        2 if text.contains('<') => text.rfind('<').unwrap_or(0),
        3 if text.len() > STRING_UNITS_MAX => {
            unit_of((1 + dice.below(text.len() / STRING_UNITS_MAX)) * STRING_UNITS_MAX - dice.below(8))
        }
        _ => dice.below(text.len()),
    };
    let start = text.floor_char_boundary(start);
    let end = text.ceil_char_boundary((start + 1 + dice.below(14)).min(text.len()));
    text[start..end].to_owned()
}

fn grouping(dice: &mut Dice) -> Grouping {
    let steps = [None, Some(Duration::from_secs(300)), Some(Duration::from_secs(3600)), Some(Duration::from_secs(90))];
    let every = *dice.pick(&steps);
    Grouping { level: dice.is_one_in(2), instance: dice.is_one_in(2), every, ..Grouping::default() }
}
