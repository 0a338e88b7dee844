//! The golden lists: what software writes by default, and what devices send by syslog (`golden/*.txt`, whose heads say how
//! an entry is written). The tests print each entry that is read otherwise, and hold the score.

use crate::names::{Role, role_of};
use crate::{ParseOptions, RawRecord, Records, SourceProfile, Zone};
use daytable_model::record::Record;
use daytable_model::time::Ticks;

/// Of 100 outputs of software, this many have the right time and the right level in each record.
const OUTPUTS_RIGHT_MIN: usize = 97;
/// Of 100 datagrams, this many have the right host, time, severity and text.
const DATAGRAMS_RIGHT_MIN: usize = 95;

/// An entry of a list: a source, and what its records mean.
struct GoldenEntry<'a> {
    name: &'a str,
    zone: Zone,
    /// When the file was written last, or when the datagram came.
    seen: Ticks,
    /// The lines of each record, and what they mean.
    records: Vec<(String, &'a str)>,
}

fn entries<'a>(list: &'a str, seen: &str) -> Vec<GoldenEntry<'a>> {
    let time = |text: &str| crate::rfc3339(text).expect("a time");
    let mut entries: Vec<GoldenEntry<'a>> = Vec::new();
    let mut lines = String::new();
    for line in list.lines() {
        if let Some(head) = line.strip_prefix("== ") {
            assert!(lines.is_empty(), "before {head}: lines without what they mean");
            let (name, settings) = head.split_once(" | ").unwrap_or((head, ""));
            let setting = |name: &str| settings.split(' ').find_map(|setting| setting.strip_prefix(name));
            entries.push(GoldenEntry {
                name,
                zone: setting("zone=").map_or(Zone::Utc, |zone| zone.parse().expect("a zone")),
                seen: time(setting("file=").unwrap_or(seen)),
                records: Vec::new(),
            });
            continue;
        }
        let Some(entry) = entries.last_mut() else { continue };
        match line.strip_prefix("> ") {
            Some(meaning) => entry.records.push((std::mem::take(&mut lines), meaning)),
            None if line.is_empty() || line.starts_with("# ") && lines.is_empty() && !entry.name.contains("MySQL") => {}
            None => {
                lines.push_str(line);
                lines.push('\n');
            }
        }
    }
    entries
}

/// Whether a value is one of those between `|`; `\|` is the character.
fn is_one_of(value: &str, expected: &str) -> bool {
    let expected = expected.replace("\\|", "\u{1}");
    expected.split('|').any(|one| one.replace('\u{1}', "|") == value)
}

fn shown_time(record: &Record<'_>) -> String {
    record.time.map_or("none".into(), |time| time.to_string())
}

fn is_time(record: &Record<'_>, expected: &str) -> bool {
    expected.split('|').any(|one| match one {
        "none" => record.time.is_none(),
        // Finer digits than a tick are cut.
        _ => record.time == crate::rfc3339(one),
    })
}

fn level(record: &Record<'_>) -> &'static str {
    record.level.map_or("none", |level| level.name())
}

/// What is wrong in the record of an output, if anything is.
fn wrong_output(record: &Record<'_>, expected: &str) -> Option<String> {
    let (time, expected_level) = expected.split_once(' ').expect("a time and a level");
    let mut wrong = Vec::new();
    if !is_time(record, time) {
        wrong.push(format!("time {} instead of {time}", shown_time(record)));
    }
    if expected_level != "-" && !is_one_of(level(record), expected_level) {
        wrong.push(format!("level {} instead of {expected_level}", level(record)));
    }
    (!wrong.is_empty()).then(|| wrong.join(", "))
}

/// What is wrong in the record of a datagram, if anything is.
fn wrong_datagram(record: &Record<'_>, expected: &str) -> Option<String> {
    let parts: Vec<_> = expected.splitn(4, " | ").collect();
    let [host, time, severity, text] = <[&str; 4]>::try_from(parts).expect("HOST | TIME | LEVEL | TEXT");
    let mut wrong = Vec::new();
    let named = record.text("host");
    if !is_one_of(named.as_deref().unwrap_or("-"), host) {
        wrong.push(format!("host {named:?} instead of {host}"));
    }
    if !is_time(record, time) {
        wrong.push(format!("time {} instead of {time}", shown_time(record)));
    }
    if !is_one_of(level(record), severity) {
        wrong.push(format!("level {} instead of {severity}", level(record)));
    }
    let message: &str = &record.message;
    let without_mark = message.split_once(": ").filter(|(mark, _)| !mark.contains(' ')).map(|(_, text)| text);
    let is_text = |expected: &str| is_one_of(message, expected) || without_mark.is_some_and(|m| is_one_of(m, expected));
    if !(text.split('|').any(|one| one == "*") || is_text(text)) {
        wrong.push(format!("text {message:?}"));
    }
    (!wrong.is_empty()).then(|| wrong.join(", "))
}

/// Prints each entry that is read otherwise, and returns how many of 100 are right.
fn score(list: &str, results: &[(&str, Vec<String>)]) -> usize {
    let right = results.iter().filter(|(_, wrong)| wrong.is_empty()).count();
    for (name, wrong) in results.iter().filter(|(_, wrong)| !wrong.is_empty()) {
        println!("{list}: {name}: {}", wrong.join("; "));
    }
    println!("{list}: {right} of {} are right", results.len());
    right * 100 / results.len()
}

/// The entries of the first list, each with what is wrong.
fn outputs() -> Vec<(&'static str, Vec<String>)> {
    let read = |entry: &GoldenEntry<'static>| {
        let text: String = entry.records.iter().map(|(lines, _)| lines.as_str()).collect();
        let options = ParseOptions { zone: entry.zone, ..ParseOptions::default() };
        let mut records = Records::new(text.as_bytes(), options, 1 << 20);
        let (mut wrong, mut number) = (Vec::new(), 0);
        // A head of a table is a record of its own: the last records are those of the list.
        let mut found = Vec::new();
        while records
            .turn(entry.seen, |_, _, parsed| {
                found.push(Record { line: None, ..owned(parsed.record) });
            })
            .expect("a text has no errors")
        {}
        let first = found.len().saturating_sub(entry.records.len());
        for (_, expected) in &entry.records {
            match found.get(first + number) {
                Some(record) => wrong.extend(wrong_output(record, expected)),
                None => wrong.push("records are missing".into()),
            }
            number += 1;
        }
        (entry.name, wrong)
    };
    entries(include_str!("../golden/outputs.txt"), "2025-11-21T12:00:00Z").iter().map(read).collect()
}

/// A record that outlives its text, with what the lists ask for.
fn owned(record: Record<'_>) -> Record<'static> {
    Record { time: record.time, level: record.level, message: record.message.into_owned().into(), ..Record::default() }
}

/// The entries of the second list, each with what is wrong.
fn datagrams() -> Vec<(&'static str, Vec<String>)> {
    let read = |entry: &GoldenEntry<'static>| {
        let options = ParseOptions { zone: entry.zone, ..ParseOptions::default() };
        let mut profile = SourceProfile::default();
        let wrong = entry.records.iter().filter_map(|(lines, expected)| {
            let text = lines.trim_end_matches('\n');
            let raw = RawRecord::of_message(text.into(), text.as_bytes());
            wrong_datagram(&profile.raw_record(&raw, &options, entry.seen).record, expected)
        });
        (entry.name, wrong.collect())
    };
    entries(include_str!("../golden/datagrams.txt"), "2025-11-21T08:00:05Z").iter().map(read).collect()
}

/// How a relay writes datagrams into a file.
#[derive(Clone, Copy, PartialEq)]
enum RelayFile {
    /// As they came, with their priority.
    Raw,
    /// Behind time and host, without a priority: rsyslog's own form. Where a datagram has no header, those of its arrival.
    Headed,
}

/// The datagrams in one file of a relay, each with what is wrong. Behind another header the text is not compared, the host
/// and the time may be those of the header, and a severity is known only where the text has one.
fn relayed(form: RelayFile) -> Vec<(&'static str, Vec<String>)> {
    let list = entries(include_str!("../golden/datagrams.txt"), "2025-11-21T08:00:05Z");
    let (mut profile, options) = (SourceProfile::default(), ParseOptions::default());
    let in_utc = list.iter().filter(|entry| entry.zone == Zone::Utc);
    let results = in_utc.map(|entry| {
        let wrong = entry.records.iter().flat_map(|(lines, expected)| {
            let line = match form {
                RelayFile::Raw => lines.trim_end().to_owned(),
                RelayFile::Headed => headed(lines.trim_end()),
            };
            let begins = profile.begins(&line, &options);
            let parsed = profile.record(&line, Default::default(), &options, entry.seen);
            let found = wrong_datagram(&parsed.record, expected);
            let is_wrong = |part: &str| match form {
                RelayFile::Raw => true,
                RelayFile::Headed => {
                    let is_arrival = part.starts_with("time 2025-11-21T08:00:05Z ");
                    part.starts_with("time ") && !is_arrival || part.starts_with("host None")
                }
            };
            let parts = found.iter().flat_map(|found| found.split(", ")).filter(|part| is_wrong(part));
            parts.map(str::to_owned).chain((!begins).then(|| "joined".into())).collect::<Vec<_>>()
        });
        (entry.name, wrong.collect())
    });
    results.collect()
}

/// A datagram as rsyslog writes it: `Nov 21 08:00:01 host tag: text`.
fn headed(datagram: &str) -> String {
    let text = datagram.split_once('>').filter(|_| datagram.starts_with('<')).map_or(datagram, |(_, rest)| rest);
    if let Some(rest) = text.strip_prefix("1 ") {
        let mut parts = rest.splitn(5, ' ');
        let mut next = || parts.next().unwrap_or_default();
        let (time, host, program, process, rest) = (next(), next(), next(), next(), next());
        // The message identifier and the structured data are not written.
        let text = rest.split_once(' ').map_or("", |(_, rest)| rest);
        let text = text.strip_prefix("- ").or_else(|| text.split_once("] ").map(|(_, text)| text)).unwrap_or_default();
        let process = if process == "-" { String::new() } else { format!("[{process}]") };
        return format!("{time} {host} {program}{process}: {text}");
    }
    let mut words = text.split_ascii_whitespace();
    let is_clock = |word: &str| word.len() == 8 && word.as_bytes()[2] == b':';
    let has_time = text.starts_with("Nov ") && words.nth(2).is_some_and(is_clock);
    let has_host = has_time && words.next().is_some_and(|host| !host.contains([':', '[']));
    if has_host { text.to_owned() } else { format!("Nov 21 08:00:05 192.0.2.9 {text}") }
}

#[test]
fn outputs_of_software_have_their_time_and_level() {
    let results = outputs();
    assert!(results.len() >= 250, "{} entries", results.len());
    assert!(score("outputs", &results) >= OUTPUTS_RIGHT_MIN);
}

#[test]
fn datagrams_of_devices_have_their_host_time_severity_and_text() {
    let results = datagrams();
    assert!(results.len() >= 100, "{} entries", results.len());
    assert!(score("datagrams", &results) >= DATAGRAMS_RIGHT_MIN);
}

#[test]
fn files_of_relays_have_the_hosts_times_and_severities_of_the_datagrams() {
    assert!(score("files of datagrams", &relayed(RelayFile::Raw)) >= DATAGRAMS_RIGHT_MIN);
    assert!(score("files with headers", &relayed(RelayFile::Headed)) >= DATAGRAMS_RIGHT_MIN);
}

/// The page of times names the fields in the order in which they are looked for.
#[test]
fn the_page_of_times_has_the_names_of_fields_in_their_order() {
    let page = include_str!("../../../docs/guide/times.md");
    let names = page.split("inner object: ").nth(1).and_then(|rest| rest.split("\n\n").next()).expect("the names");
    let rank = |name| role_of(name).filter(|(role, _)| matches!(role, Role::Time)).map(|(_, rank)| rank);
    let ranks: Vec<(&str, Option<u8>)> = names.split('`').skip(1).step_by(2).map(|name| (name, rank(name))).collect();
    assert!(ranks.len() > 20, "{names}");
    assert!(ranks.iter().all(|(_, rank)| rank.is_some()), "{ranks:?}");
    assert!(ranks.is_sorted_by_key(|(_, rank)| *rank), "{ranks:?}");
}

/// The page of the guide with the names of the lists.
#[test]
fn the_page_has_the_table() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/recognised.md");
    let expected = recognised();
    if std::env::var_os("DAYTABLE_WRITE_DOCS").is_some() {
        std::fs::write(page, &expected).expect("the page can be written");
    }
    assert_eq!(std::fs::read_to_string(page).expect("the page is there"), expected);
}

fn recognised() -> String {
    let (software, devices) = (outputs(), datagrams());
    let count = |list: &[(&str, Vec<String>)]| list.iter().filter(|(_, wrong)| wrong.is_empty()).count();
    let names = |list: &[(&str, Vec<String>)], is_right: bool| {
        let chosen = list.iter().filter(|(_, wrong)| wrong.is_empty() == is_right).map(|(name, _)| *name);
        wrapped(&chosen.collect::<Vec<_>>().join(" · "))
    };
    let missing = |list: &[(&str, Vec<String>)]| {
        let rows = list.iter().filter(|(_, wrong)| !wrong.is_empty());
        rows.map(|(name, wrong)| format!("* {name}: {}\n", parts_of(wrong))).collect::<String>()
    };
    format!(
        "{HEAD}## What software writes by default\n\nTime and level of {} of {} are right:\n\n{}\n\nNot, or not whole:\n\n{}\n\
         ## What devices send by syslog\n\nHost, time, severity and text of {} of {} are right:\n\n{}\n\nNot, or not whole:\n\n{}",
        count(&software),
        software.len(),
        names(&software, true),
        missing(&software),
        count(&devices),
        devices.len(),
        names(&devices, true),
        missing(&devices)
    )
}

const HEAD: &str = "# What daytable recognises\n\n\
    daytable reads the lines below without a setting: by general rules, not by a parser for each program. The lists are\n\
    [outputs](../../crates/parse/golden/outputs.txt) and [datagrams](../../crates/parse/golden/datagrams.txt), one readable\n\
    entry for each name, and a test compares each entry. A test writes this page from them. Is a program missing? Add an\n\
    entry to a list. [When was this?](times.md) has the rules of times, and [log formats](../reference/log-formats.md) what\n\
    to do where a line is not recognised. Of the first 1,046 outputs lnav 0.11.1 has\n\
    456 (`crates/parse/golden/lnav-score`). Of the last four [lists written before they were\n\
    tried](../lab/2026-11-30-parse.md) 91 of 100 outputs were right at first, and 91 of 100 in [five lists by\n\
    others](../lab/2026-11-30-recognition.md), which are mostly of software that stands here.\n\n";

/// What is wrong, without the values: `time`, `level`.
fn parts_of(wrong: &[String]) -> String {
    let parts = ["time", "level", "host", "text", "records"];
    let is_wrong = |part: &&&str| wrong.iter().any(|text| text.split(", ").any(|one| one.starts_with(**part)));
    parts.iter().filter(is_wrong).copied().collect::<Vec<_>>().join(", ")
}

/// Lines of at most 118 letters.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last_mut().expect("a line");
        if last.chars().count() + word.chars().count() + 1 > 118 {
            lines.push(word.to_owned());
        } else {
            if !last.is_empty() {
                last.push(' ');
            }
            last.push_str(word);
        }
    }
    lines.join("\n")
}
