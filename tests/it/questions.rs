//! Questions of the query language: the examples of the pages give the answers that the pages show, and the routes answer
//! what the command does.

use crate::client::over_unix;
use crate::place::{DAYTABLE, Place};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Runs a block or an example with `daytable` on the path.
fn shell(place: &Place, script: &str) -> Output {
    let bin = Path::new(DAYTABLE).parent().expect("a folder");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    shell.args(["-euc", script]).current_dir(place.path("")).env("PATH", path);
    shell.output().expect("a shell")
}

/// In each `console` block, a line that begins with `$ ` is a command, and the lines below it are its output.
#[test]
fn the_examples_of_the_pages_give_the_answers_that_are_shown() {
    for page in ["docs/reference/query-language.md", "docs/guide/asking.md"] {
        let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(page)).expect("a page");
        let (place, mut examples, mut is_prepared) = (Place::new(), 0, false);
        for block in text.split("\n```").collect::<Vec<_>>() {
            if let Some(script) = block.strip_prefix("sh\n")
                && !is_prepared
                && script.contains("daytable import")
            {
                let prepared = shell(&place, script);
                assert!(prepared.status.success(), "{page}: {}", String::from_utf8_lossy(&prepared.stderr));
                is_prepared = true;
            }
            for example in block.strip_prefix("console\n").unwrap_or_default().split("$ ").filter(|e| !e.is_empty()) {
                let (command, shown) = example.split_once('\n').unwrap_or((example, ""));
                let output = shell(&place, command);
                let (answer, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
                assert_eq!(answer.trim_end(), shown.trim_end(), "{page}: {command}: {said}");
                examples += 1;
            }
        }
        assert!(examples > 10, "{page} has {examples} examples");
    }
}

/// A request whose parameters are encoded.
fn target(route: &str, parameters: &[(&str, &str)]) -> String {
    let encoded = |text: &str| text.bytes().map(|byte| format!("%{byte:02x}")).collect::<String>();
    let parameters: Vec<_> = parameters.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    format!("/api/{route}?{}", parameters.join("&"))
}

#[test]
fn the_routes_answer_questions() {
    let place = Place::new();
    let line = |n: u32| {
        let level = if n.is_multiple_of(4) { "error" } else { "info" };
        let time = format!("2026-11-21T08:{n:02}:00Z");
        json!({"time": time, "level": level, "msg": format!("step {n}"), "status": 200 + n, "kind": n % 2}).to_string()
    };
    let lines: Vec<String> = (0..40).map(line).collect();
    fs::write(place.path("a.ndjson"), lines.join("\n") + "\n").expect("written");
    let data = place.data();
    let imported = Command::new(DAYTABLE)
        .args(["import", "--instance", "web", "--data"])
        .args([data.as_path(), &place.path("a.ndjson")])
        .output()
        .expect("daytable");
    assert!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
    let daemon = place.start_with("[http]\nlisten = \"off\"\n");
    let ask = |route: &str, parameters: &[(&str, &str)]| {
        over_unix(daemon.socket(), "GET", &target(route, parameters), "").expect("an answer")
    };
    let document = |route: &str, parameters: &[(&str, &str)]| -> Value {
        let answer = ask(route, parameters);
        assert_eq!(answer.status, 200, "{route}: {}", answer.body);
        serde_json::from_str(&answer.body).unwrap_or_else(|error| panic!("{route}: {error}: {}", answer.body))
    };
    let rows = |route: &str, parameters: &[(&str, &str)]| -> Vec<Value> {
        let answer = ask(route, parameters);
        assert_eq!(answer.status, 200, "{route}: {}", answer.body);
        answer.body.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    };

    let query = "status:>=230 | stats by (kind) count() n";
    assert_eq!(rows("query", &[("q", query)]), [json!({"kind": 0, "n": 5}), json!({"kind": 1, "n": 5})]);
    assert_eq!(rows("query", &[("q", "step"), ("limit", "3")]).len(), 3);
    assert_eq!(rows("export", &[("q", "level:error")]).len(), 10);
    assert_eq!(document("count", &[("q", "level:error")]), json!([{"records": 10}]));
    let wanted_rows = [json!({"kind": 0, "n": 5}), json!({"kind": 1, "n": 5})];
    let answer = document("stats", &[("q", query)]);
    assert_eq!(answer["rows"], json!(wanted_rows));
    assert_eq!((&answer["columns"], &answer["groups"]), (&json!(["kind", "n"]), &json!(["kind"])));
    assert_eq!((&answer["step_seconds"], &answer["matched"]), (&json!(null), &json!(10)));
    let wanted_filters = json!([{"column": "kind", "field": "kind", "test": "value", "size": null}]);
    assert_eq!((&answer["source"], &answer["filters"]), (&json!("status:>=230"), &wanted_filters));
    let patterns = document("stats", &[("q", "* | top by (pattern(message))")]);
    assert_eq!(patterns["rows"], json!([{"pattern(message)": "step <_>", "hits": 40}]));
    let found = json!([{"column": "pattern(message)", "field": "message", "test": "pattern", "size": null}]);
    assert_eq!((&patterns["source"], &patterns["filters"]), (&json!("*"), &found));
    assert_eq!(document("count", &[("q", r#"message:pattern("step <_>")"#)]), json!([{"records": 40}]));
    let by_time = document("stats", &[("q", "* | stats by (_time:1d) count() n")]);
    assert_eq!((&by_time["groups"], &by_time["step_seconds"]), (&json!(["_time"]), &json!(86_400.0)));
    let hits = document("hits", &[("q", "level:error"), ("step", "30m"), ("by", "level")]);
    assert_eq!(hits["records"], 10);
    assert_eq!(
        hits["hits"],
        json!([
            {"time": "2026-11-21T08:00:00Z", "level": "error", "records": 8},
            {"time": "2026-11-21T08:30:00Z", "level": "error", "records": 2},
        ])
    );
    assert_eq!(document("hits", &[])["step_seconds"], 30.0);
    for (zone, midnight) in [
        ("UTC", "2026-11-21T00:00:00Z"),
        ("America/New_York", "2026-11-21T05:00:00Z"),
        ("+05:30", "2026-11-20T18:30:00Z"),
    ] {
        let wanted = json!([{"time": midnight, "records": 40}]);
        assert_eq!(document("hits", &[("step", "1d"), ("zone", zone)])["hits"], wanted, "{zone}");
        assert_eq!(document("count", &[("every", "1d"), ("zone", zone)]), wanted, "{zone}");
        assert_eq!(document("count", &[("q", "status:*"), ("every", "1d"), ("zone", zone)]), wanted, "{zone}");
    }
    assert_eq!(ask("hits", &[("step", "1d"), ("zone", "Paris")]).status, 400);
    let facets = document("facets", &[("q", "*"), ("limit", "1")]);
    let level = facets.as_array().expect("a list").iter().find(|facet| facet["field"] == "level");
    let wanted = json!({"field": "level", "records": 40, "distinct": 2, "values": [{"value": "info", "n": 30}]});
    assert_eq!(level, Some(&wanted));
    assert!(document("fields", &[]).as_array().expect("a list").contains(&json!({"name": "kind", "records": 40})));
    assert_eq!(
        document("values", &[("q", "status:<203"), ("field", "kind")]),
        json!([{"value": 0, "records": 2}, {"value": 1, "records": 1}])
    );

    let record = &rows("query", &[("q", "\"step 20\"")])[0];
    let key = ["table", "partition_key", "row_key"].map(|name| record[name].as_str().expect("a key")).join("/");
    let around = rows("context", &[("key", &key), ("before", "2"), ("after", "1")]);
    let messages: Vec<_> = around.iter().map(|record| record["message"].as_str().expect("a text")).collect();
    assert_eq!(messages, ["step 18", "step 19", "step 20", "step 21"]);

    let written = ask("context", &[("key", &key), ("before", "0"), ("after", "1"), ("format", "raw")]);
    assert_eq!(written.body, format!("{}\n{}\n", lines[20], lines[21]));
    assert_eq!(ask("context", &[("key", &key), ("format", "csv")]).status, 400);

    let wrong = ask("query", &[("q", "größe | stat by (a)")]);
    let body: Value = serde_json::from_str(&wrong.body).expect("JSON");
    assert_eq!((wrong.status, &body["at"]), (400, &json!({"from": 10, "to": 14})), "{body}");
    assert_eq!(ask("stats", &[("q", "level:error")]).status, 400);
    assert_eq!(ask("values", &[("q", "*")]).status, 400);
    assert_eq!(ask("tail", &[("q", "* | sort by (a)")]).status, 400);
    daemon.stop();
}

#[test]
fn nothing_found_is_never_silent() {
    let place = Place::new();
    let prepared = shell(
        &place,
        "echo '{\"time\":\"2026-11-21T08:00:00Z\",\"msg\":\"a\",\"path\":\"/x\"}' >a.ndjson
         daytable import --data data --instance web-17 a.ndjson",
    );
    assert!(prepared.status.success());
    for (arguments, said) in [
        ("'nowhere'", "nothing found in 1 day with 1 record"),
        ("--instance web-1", "nothing found in 1 day with 1 record: there is no instance web-1; did you mean web-17?"),
        (
            "'paht:x'",
            "warning: no record has a field paht; did you mean path?\n  paht:x\n  ^^^^\ndaytable: nothing found in 1 day with 1 record",
        ),
        (
            "--until 2026-11-20",
            "nothing found in 0 days with 0 records: the range ends before the first record, which is of 2026-11-21T08:00:00Z",
        ),
        (
            "--since 2026-11-22",
            "nothing found in 0 days with 0 records: the range begins after the last record, which is of 2026-11-21T08:00:00Z",
        ),
        (
            "--since 2026-11-22 --until 2026-11-21",
            "nothing found in 0 days with 0 records: the range of times is empty",
        ),
        ("--level info", "nothing found in 1 day with 1 record: the only record has no level"),
        ("'nowhere | stats count()'", "nothing found in 1 day with 1 record"),
        ("nowhere --quiet", ""),
        ("'path:*'", ""),
    ] {
        let output = shell(&place, &format!("daytable query --data data {arguments}"));
        assert!(output.status.success(), "{arguments}");
        let expected = if said.is_empty() { String::new() } else { format!("daytable: {said}\n") };
        assert_eq!(String::from_utf8_lossy(&output.stderr), expected, "{arguments}");
    }
    let wrong = shell(&place, "daytable query 'a | stat by (b)' --data data");
    assert_eq!(wrong.status.code(), Some(64));
    let said = String::from_utf8_lossy(&wrong.stderr);
    assert!(said.contains("did you mean stats?\n  a | stat by (b)\n      ^^^^\n  `daytable query --help`"), "{said}");
}
