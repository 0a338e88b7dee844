//! The golden list of traces: which lines of a failing program are one record (`golden/traces.txt`, whose head says how an
//! entry is written). The test prints each entry that is read otherwise, and holds the score.

use crate::join::{Assembler, Ending};
use crate::{ParseOptions, SourceProfile};
use daytable_model::time::Ticks;
use std::fmt::Write;

/// Of 100 traces, this many are whole, as they are and in an envelope.
const TRACES_WHOLE_MIN: usize = 96;

/// The name of an entry, and its records.
fn entries(list: &str) -> Vec<(&str, Vec<String>)> {
    let mut entries: Vec<(&str, Vec<String>)> = Vec::new();
    let mut lines: Vec<&str> = Vec::new();
    for line in list.lines() {
        match (line.strip_prefix("== "), entries.last_mut()) {
            (Some(name), _) => {
                lines.clear();
                entries.push((name, Vec::new()));
            }
            (None, Some((_, records))) if line == ">" => records.push(std::mem::take(&mut lines).join("\n")),
            (None, Some(_)) => lines.push(line),
            (None, None) => {}
        }
    }
    entries
}

/// The records of a source, as a reader of files makes them.
fn records(text: &str) -> Vec<String> {
    let (mut profile, options) = (SourceProfile::default(), ParseOptions::default());
    let mut assembler = Assembler::new(text.as_bytes(), 0, 1 << 20, &options, Ending::Closed);
    let mut found = Vec::new();
    while let Some(record) = assembler.next(&profile, &options) {
        profile.record(&record.text, record.envelope.clone(), &options, Ticks::UNIX_EPOCH);
        found.push(record.text.trim_end().to_owned());
    }
    found
}

/// The lines of a text in the envelope of a container runtime.
fn enveloped(text: &str) -> String {
    let mut enveloped = String::new();
    for (number, line) in text.lines().enumerate() {
        writeln!(enveloped, "2025-11-21T08:00:03.{number:09}Z stderr F {line}")
            .expect("writing to a string cannot fail");
    }
    enveloped
}

#[test]
fn traces_of_runtimes_are_whole() {
    let (mut right, mut total) = (0, 0);
    for (name, expected) in entries(include_str!("../golden/traces.txt")) {
        let text = expected.iter().map(|record| format!("{record}\n")).collect::<String>();
        let expected: Vec<&str> = expected.iter().map(|record| record.trim_end()).collect();
        for (form, text) in [("as it is", text.clone()), ("in an envelope", enveloped(&text))] {
            let found = records(&text);
            total += 1;
            if found == expected {
                right += 1;
            } else {
                println!("traces: {name}, {form}: {found:#?}");
            }
        }
    }
    println!("traces: {right} of {total} are whole");
    assert!(total >= 120, "{total} forms");
    assert!(right * 100 >= total * TRACES_WHOLE_MIN);
}
