//! A text is found in any part of a record, in every state of a day: in records too large for one entity, across the
//! border of two entities, and in numbers.

use crate::place::Place;
use daytable_model::key::{DayTable, Period, TableName};
use daytable_model::time::{Ticks, now};
use serde_json::Value;
use std::time::Duration;

/// Records. About every second one has the number 502.
const REQUESTS: u64 = 4000;
const WITH_502: u64 = 1904;

/// A past hour, and the lines of an instance in it, oldest first.
fn hour() -> (DayTable, Vec<String>) {
    let start = Period::Hour.start(now().minus(Duration::from_secs(5 * 3600)));
    let at = |millis: u64| -> Ticks { start.plus(Duration::from_millis(millis)) };
    let line = |millis: u64, message: &str| format!(r#"{{"time":"{}","level":"info","msg":"{message}"}}"#, at(millis));
    let mut lines = vec![line(0, "a needle of one row")];
    lines.extend(large().iter().zip(1..).map(|(message, millis)| line(millis, message)));
    lines.extend((0..REQUESTS).map(|n| {
        let (status, time) = (if n < WITH_502 { 502 } else { 200 }, at(10 + n));
        format!(r#"{{"time":"{time}","level":"info","msg":"GET /","status":{status},"took":0.25,"cached":{}}}"#, n == 0)
    }));
    (DayTable::at(&TableName::new("Log").expect("a name"), Period::Hour, start), lines)
}

/// Messages that need several rows, oldest first.
fn large() -> [String; 3] {
    [
        format!("needle {} END OF STACK", "x".repeat(100_000)),
        // An entity holds 32,768 units of a text: the border is inside the word.
        format!("{}needle", "w".repeat(32_765)),
        format!("mid {0} mid-needle {0}", "z".repeat(50_000)),
    ]
}

/// A day for queries.
struct Asked<'a> {
    place: &'a Place,
    config: &'a str,
    /// The state of the day.
    state: &'a str,
}

impl Asked<'_> {
    fn messages(&self, args: &[&str]) -> Vec<String> {
        let text = |record: &Value| record["message"].as_str().expect("a message").to_owned();
        self.place.json("query", &[&["--config", self.config], args].concat()).iter().map(text).collect()
    }

    fn assert_counts(&self, counts: &[(&str, u64)]) {
        for (text, records) in counts {
            let counted = self.place.json("count", &["--config", self.config, "--contains", text]);
            assert_eq!(counted[0]["records"], *records, "{}: {text}", self.state);
        }
    }
}

fn long_records_are_found(asked: &Asked<'_>) {
    let state = asked.state;
    let [first, second, third] = large();
    let all = [third.clone(), second.clone(), first.clone(), "a needle of one row".into()];
    let short =
        |messages: &[String]| messages.iter().map(|text| (text.len(), text[..9].to_owned())).collect::<Vec<_>>();
    for (args, wanted) in [
        (&["--contains", "needle"][..], &all[..]),
        (&["--contains", "needle", "-n", "1"], &all[..1]),
        (&["--contains", "needle", "--level", "info", "-n", "3"], &all[..3]),
        (&["--contains", "needle", "--level", "error"], &[]),
        (&["--contains", "wneedle"], &all[1..2]),
        (&["--contains", "xx END OF"], &all[2..3]),
        (&["--contains", "a needle of"], &all[3..]),
        (&["--contains", "needles"], &[]),
    ] {
        let found = asked.messages(args);
        assert!(found == wanted, "{state}: {args:?}: {:?} instead of {:?}", short(&found), short(wanted));
    }
    asked.assert_counts(&[("needle", 4), ("END OF STACK", 1), ("GET /", REQUESTS)]);
}

fn numbers_are_found(asked: &Asked<'_>) {
    // Times are a part of the line: two more have the milliseconds 502, and four have 503.
    let with_502 = WITH_502 + 2;
    let counts = [("502", with_502), ("0.25", REQUESTS), ("true", 1), ("false", REQUESTS - 1), ("503", 4), ("504x", 0)];
    asked.assert_counts(&counts);
    assert_eq!(asked.messages(&["--contains", "502", "-n", "100"]), vec!["GET /"; 100], "{}", asked.state);
}

#[test]
fn a_text_is_found_in_every_part_of_a_long_record_in_every_state_of_a_day() {
    in_every_state(long_records_are_found);
}

#[test]
fn a_text_is_found_in_numbers_in_every_state_of_a_day() {
    in_every_state(numbers_are_found);
}

/// Queries an open, an archived, a dropped and a restored day.
fn in_every_state(ask: impl Fn(&Asked<'_>)) {
    let place = Place::new();
    let (table, lines) = hour();
    place.write("app.log", &lines);
    let archive = place.path("archive");
    let config = place.configure(&format!(
        "[lifecycle]\nmin_tables = 0\n[[table]]\nname = \"Log\"\nperiod = \"hour\"\nkeep = \"30d\"\narchive = \"file://{}\"\n",
        archive.display()
    ));
    let (config, log) = (config.display().to_string(), place.log("app.log").display().to_string());
    place.said("import", &["--config", &config, "--instance", "web", &log]);
    let state = |name: &str| {
        let shown = place.json("tables", &["--config", &config]);
        let shown = shown.iter().find(|shown| shown["table"] == table.to_string().as_str());
        assert_eq!(shown.map_or("", |shown| shown["state"].as_str().unwrap_or_default()), name);
        ask(&Asked { place: &place, config: &config, state: name });
    };
    let name = table.to_string();
    state("open");
    place.said("archive", &["--config", &config, &name]);
    state("archived");
    place.said("drop", &["-y", &name]);
    state("dropped");
    place.said("restore", &["--config", &config, "--keep", "1d", &name]);
    state("restored");
}
