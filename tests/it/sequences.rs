//! Records with their own sequence numbers: `daytable verify` reports missing and duplicate numbers, across days, open
//! and sealed. It makes no claim about unknown numbers.

use crate::place::{PATIENCE, Place, wait_for};
use daytable_model::time::{Ticks, now};
use serde_json::Value;
use std::sync::LazyLock;
use std::time::Duration;

/// The configuration. `more` has further keys of `[lifecycle]`.
fn config(more: &str) -> String {
    let tail =
        |name: &str| format!("[[tail]]\ninclude = [\"LOGS/{name}.log\"]\nname = \"{name}\"\ninstance = \"{name}\"\n");
    format!(
        "[lifecycle]\nverify_sequence = \"seq\"\n{more}\n[[table]]\nname = \"Log\"\nkeep = \"3650d\"\n{}{}{}",
        tail("good"),
        tail("bad"),
        tail("none")
    )
}

/// One of three consecutive past days.
fn day(n: u64) -> Ticks {
    // Computed once: midnight may come during a test.
    static TODAY: LazyLock<i64> = LazyLock::new(|| now().unix_seconds() / 86_400);
    Ticks::from_unix((*TODAY - 6) * 86_400, 0).expect("a time").plus(Duration::from_secs(n * 86_400))
}

/// Ten numbers a day. The time follows the number. `text` distinguishes records with the same number.
fn line(number: u64, text: &str) -> String {
    let time = day((number - 1) / 10).plus(Duration::from_secs(600 * number));
    format!("{{\"time\":\"{time}\",\"seq\":{number},\"message\":\"{text} {number}\"}}")
}

/// The findings of `verify` under the present configuration.
fn findings(place: &Place) -> (Vec<String>, Value) {
    let config = place.path("daytable.toml").display().to_string();
    let said = place.ask("verify", &["--json", "--config", &config]).stdout;
    let said = String::from_utf8(said).expect("text");
    let mut lines: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    let verdict = lines.pop().expect("a verdict");
    let text = |line: &Value| {
        assert_eq!(line["finding"], "sequence", "{line}");
        assert!(line["file"].as_str().is_some_and(|file| file.ends_with(".log")), "{line}");
        let found = line["found"].as_str().expect("text");
        assert!(found.contains("20"), "where it is is told by times: {found}");
        found.split(", ").next().expect("a part").to_owned()
    };
    let mut findings: Vec<String> = lines.iter().map(text).collect();
    findings.sort();
    (findings, verdict)
}

fn wait_records(place: &Place, records: usize) {
    wait_for("the records are there", PATIENCE, || (place.try_records().len() == records).then_some(()));
}

#[test]
fn numbers_that_are_missing_or_come_twice_are_found_and_what_is_not_known_is_not() {
    let place = Place::new();
    let daemon = place.start_with(&config("seal_after = \"365d\""));
    // One sequence over three days, then a second run of the same numbers: the sender was restarted.
    let good: Vec<String> = (1..=30).map(|n| line(n, "good")).collect();
    let again = (1..=9).map(|n| line(30, "again").replace("\"seq\":30", &format!("\"seq\":{n}")));
    place.write("good.log", &good.into_iter().chain(again).collect::<Vec<_>>());
    // A record without a number, with the present time: it confirms the clock, so that days are sealed.
    place.write("none.log", &[format!("{{\"time\":\"{}\",\"message\":\"none\"}}", now())]);
    wait_records(&place, 40);
    assert_eq!(findings(&place).0, [""; 0]);

    let bad = (1..=30).filter(|n| ![4, 5, 11].contains(n)).map(|n| line(n, "bad"));
    place.write("bad.log", &bad.chain([line(28, "the other")]).collect::<Vec<_>>());
    wait_records(&place, 68);
    let expected = ["bad: seq 11 missing", "bad: seq 28 twice", "bad: seq 4 to 5 missing"];
    let (found, verdict) = findings(&place);
    assert_eq!(found, expected);
    assert_eq!((&verdict["missing"], &verdict["twice"], &verdict["whole"]), (&3.into(), &1.into(), &false.into()));
    daemon.stop();

    let daemon = place.start_with(&config("schedule = \"* * * * * *\"\nseal_after = \"0s\""));
    wait_for("the three days are sealed", PATIENCE, || {
        let tables = place.json("tables", &[]);
        (tables.iter().filter(|table| table["state"] == "sealed").count() >= 3).then_some(())
    });
    assert_eq!(findings(&place).0, expected, "in sealed days");
    daemon.stop();
    // Without the option `verify` reports no sequences.
    let said = place.said("verify", &[]);
    assert!(said.starts_with("whole: 68 records"), "{said}");
    let config = place.path("daytable.toml").display().to_string();
    let said = String::from_utf8(place.ask("verify", &["--config", &config]).stdout).expect("text");
    let last = said.lines().last().expect("a line");
    assert!(last.starts_with("not whole: 3 findings; 68 records in "), "{said}");
    assert!(last.ends_with("; 3 numbers of sequences are missing, 1 come twice"), "{said}");

    // The content of dropped days is unknown, in the middle and at the beginning.
    let table = |n| format!("Log{}", day(n).to_string()[..10].replace('-', ""));
    place.said("drop", &["-y", &table(1)]);
    assert_eq!(findings(&place).0, ["bad: seq 28 twice", "bad: seq 4 to 5 missing"]);
    place.said("drop", &["-y", &table(0)]);
    assert_eq!(findings(&place).0, ["bad: seq 28 twice"]);
}

/// The number of RFC 5424 is an ordinary field. The daemon counts its findings at night.
#[test]
fn the_daemon_follows_the_numbers_of_syslog_by_itself() {
    let place = Place::new();
    let lines = [1, 2, 5, 6].map(|n| {
        let time = day(n / 4).plus(Duration::from_secs(n));
        format!("<14>1 {time} web-1 app 7 - [meta sequenceId=\"{n}\"] message {n}")
    });
    place.write("bad.log", &lines);
    let config = config("verify = \"* * * * * *\"\nseal_after = \"365d\"");
    let daemon = place.start_with(&config.replace("= \"seq\"", "= \"meta.sequenceId\""));
    wait_for("the gap is counted", PATIENCE, || {
        daemon.metric("daytable_verify_findings{kind=\"sequence\"}").filter(|found| *found == 1.0)
    });
    daemon.wait_said("meta.sequenceId 3 to 4 missing");
    daemon.stop();
}

/// Each table has only some of the numbers, and together they have all.
#[test]
fn what_goes_to_several_tables_is_a_doubt_and_no_gap() {
    let place = Place::new();
    let tables = "[[table]]\nname = \"Low\"\nkeep = \"3650d\"\nwhen = \"seq:<=5\"\n[[table]]\nname = \"Log\"";
    let daemon = place.start_with(&config("seal_after = \"365d\"").replace("[[table]]\nname = \"Log\"", tables));
    let lines = (1..=10).map(|n| line(n, "good"));
    place.write("good.log", &lines.collect::<Vec<_>>());
    wait_for("the records are there", PATIENCE, || {
        let rows = place.json("tables", &[]).iter().filter_map(|table| table["rows"].as_u64()).sum::<u64>();
        (rows == 10).then_some(())
    });
    daemon.stop();
    let config = place.path("daytable.toml").display().to_string();
    let said = String::from_utf8(place.ask("verify", &["--json", "--config", &config]).stdout).expect("text");
    let lines: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    let [doubt, verdict] = &*lines else { panic!("{said}") };
    assert_eq!((&doubt["finding"], &doubt["doubt"]), (&"sequence".into(), &true.into()), "{said}");
    assert_eq!((&verdict["missing"], &verdict["whole"]), (&0.into(), &true.into()), "{said}");
}
