//! What a newcomer may type: each row of the tables of `docs/guide/slips.md`, against the program; the same over HTTP; and
//! where nobody would see a warning.

use crate::client::{encoded, follow, over_tcp, over_unix};
use crate::place::{DAYTABLE, Place, append, wait_for};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// A row: what is typed, what is said, and what to type.
struct Row {
    typed: String,
    said: String,
    right: String,
}

/// The rows of the table below a heading.
fn rows(heading: &str) -> Vec<Row> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/guide/slips.md");
    let text = fs::read_to_string(page).expect("a page");
    let section = text.split(&format!("\n## {heading}\n")).nth(1).expect("a heading");
    let table = section.split("\n## ").next().unwrap_or_default();
    let lines = table.lines().filter(|line| line.starts_with("| `"));
    let cell = |text: &str| text.trim().trim_matches('`').replace('\u{1}', "|");
    lines
        .map(|line| {
            let line = line.replace("\\|", "\u{1}");
            let cells: Vec<&str> = line.trim_matches('|').split(" | ").collect();
            let [typed, said, right] = cells[..] else { panic!("{line}") };
            Row { typed: cell(typed), said: cell(said), right: cell(right) }
        })
        .collect()
}

/// A folder with the records of the page, and files that are none.
fn shop() -> Place {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/guide/slips.md");
    let text = fs::read_to_string(page).expect("a page");
    let records = text.split("<<'END'\n").nth(1).and_then(|rest| rest.split("END\n").next()).expect("records");
    let place = Place::new();
    fs::write(place.path("shop.ndjson"), records).expect("written");
    let mut parquet = b"PAR1\x15\x04\x15\x90\x01".to_vec();
    parquet.extend((0..400u32).map(|n| (n * 7 % 251) as u8));
    fs::write(place.path("archive.parquet"), parquet).expect("written");
    let noise: Vec<u8> = (0..4096u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    fs::write(place.path("noise.bin"), noise).expect("written");
    place.said("import", &["--instance", "web-1", &place.path("shop.ndjson").display().to_string()]);
    place
}

fn error_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The command without a data folder.
fn bare(place: &Place, words: &[&str]) -> Output {
    let mut daytable = Command::new(DAYTABLE);
    daytable.args(words).current_dir(place.path("")).env_remove("DAYTABLE_DATA").stdin(Stdio::null());
    daytable.output().expect("run")
}

/// Runs both sides of a row: the first says what the page says, the second is right and says nothing of the kind.
fn check(row: &Row, ask: impl Fn(&str) -> Output) {
    let (typed, right) = (ask(&row.typed), ask(&row.right));
    let (said, right_said) = (error_of(&typed), error_of(&right));
    assert!(right.status.success() && !right_said.contains("warning"), "{}: {right_said}", row.right);
    if row.said == "*the same*" {
        assert!(!said.contains("warning"), "{}: {said}", row.typed);
        assert_eq!((typed.status.code(), &typed.stdout), (Some(0), &right.stdout), "{}: {said}", row.typed);
    } else {
        assert!(said.contains(&row.said), "{}: {said}", row.typed);
    }
}

#[test]
fn each_query_of_the_page_is_answered_as_the_page_says() {
    let (place, rows) = (shop(), rows("Queries"));
    assert!(rows.len() >= 50, "{} rows", rows.len());
    for row in &rows {
        check(row, |query| place.ask("query", &["--json", "--", query]));
    }
}

#[test]
fn each_command_of_the_page_is_answered_as_the_page_says() {
    let (place, rows) = (shop(), rows("Commands"));
    assert!(rows.len() >= 15, "{} rows", rows.len());
    for row in &rows {
        check(row, |line| {
            let mut words = line.split(' ');
            let command = words.next().expect("a command");
            let mut asked = place.command(command);
            asked.current_dir(place.path("")).args(words).output().expect("run")
        });
    }
}

#[test]
fn a_warning_has_its_place_and_leaves_the_answer_as_it_is() {
    let place = shop();
    let asked = place.ask("query", &["--json", "error or status>=500"]);
    assert_eq!(
        error_of(&asked).lines().take(3).collect::<Vec<_>>(),
        [
            "daytable: warning: status>=500 is taken for a word: a comparison is written status:>=500",
            "  error or status>=500",
            "           ^^^^^^^^^^^",
        ]
    );
    // A line of pairs has such a word.
    fs::write(place.path("pairs.log"), "2026-11-21 10:00:00 upstream said status=502 twice\n").expect("written");
    place.said("import", &[&place.path("pairs.log").display().to_string()]);
    let asked = place.ask("query", &["--json", "status=502"]);
    assert!(asked.status.success() && error_of(&asked).contains("status:=502"), "{}", error_of(&asked));
    assert_eq!(asked.stdout.iter().filter(|byte| **byte == b'\n').count(), 1);
    assert_eq!(error_of(&place.ask("query", &["--json", "\"status=502\""])), "");
    assert_eq!(error_of(&place.ask("query", &["--quiet", "--json", "status=502"])), "");
    // The conditions beside the query, and what is counted.
    for arguments in [&["--where", "status>=500"][..], &["* | stats count() n | sort by (m)"]] {
        assert!(error_of(&place.ask("count", arguments)).contains("warning: "), "{arguments:?}");
    }
}

#[test]
fn an_alert_and_a_table_refuse_what_a_query_warns_of() {
    let place = Place::new();
    for (query, said) in [
        ("status>=500", "status:>=500"),
        ("level>=error", "level:>=error"),
        ("status:5xx", "status:range[500, 600)"),
        ("level:>=warnning", "did you mean warning?"),
        ("select * from logs", "daytable sql"),
        ("{a=\"b\"} |= \"x\"", "LogQL"),
        ("path:/a/*/b", "path:~"),
    ] {
        let alert = format!("[[alert]]\nname = \"A\"\nabove = 5\nquery = '{query}'\n");
        let table = format!("[[table]]\nname = \"Some\"\nwhen = '{query}'\n[[table]]\nname = \"Log\"\n");
        for (name, text, line) in [("alert", alert, ":4:"), ("table", table, ":3:")] {
            let file = place.path(&format!("{name}.toml"));
            fs::write(&file, text).expect("written");
            let checked = bare(&place, &["check", &file.display().to_string()]);
            let error = error_of(&checked);
            assert_eq!(checked.status.code(), Some(78), "{name} {query}: {error}");
            assert!(error.contains(said) && error.contains(line), "{name} {query}: {error}");
        }
    }
    let column =
        "[[alert]]\nname = \"A\"\nabove = 5\nvalue = \"n\"\nquery = '* | stats by (path) count() n | filter hits:>3'\n";
    fs::write(place.path("column.toml"), column).expect("written");
    let checked = bare(&place, &["check", "column.toml"]);
    assert!(error_of(&checked).contains("there is no column hits here"), "{}", error_of(&checked));
}

/// The warnings in the head of an answer.
fn warnings(head: &str) -> Vec<Value> {
    let header = head.lines().find_map(|line| line.strip_prefix("daytable-warnings: "));
    header.map(|json| serde_json::from_str(json).expect("JSON")).unwrap_or_default()
}

#[test]
fn the_routes_answer_and_warn_in_their_head() {
    let place = shop();
    let daemon = place.start_with("[http]\nlisten = \"off\"\n");
    let ask = |route: &str, q: &str| {
        over_unix(daemon.socket(), "GET", &format!("/api/{route}?q={}", encoded(q)), "").expect("an answer")
    };
    let answer = ask("query", "ü or status>=500");
    let said = warnings(&answer.head);
    assert_eq!(answer.status, 200);
    assert!(said[0]["message"].as_str().expect("a text").contains("status:>=500"), "{said:?}");
    // Bytes of the query, of which the first letter has two.
    assert_eq!((&said[0]["at"]["from"], &said[0]["at"]["to"]), (&6.into(), &17.into()));
    for (route, q, text) in [
        ("query", "* | sort by (nosuch)", "no record has a field nosuch"),
        ("query", "staus:500", "did you mean status?"),
        ("query", "nowhere", "nothing found in 1 day with 4 records"),
        ("query", "instance:web-9", "there is no instance web-9"),
        ("stats", "* | stats sum(statu) s", "did you mean status?"),
        ("count", "status:5xx", "range[500, 600)"),
        ("hits", "status>=500", "status:>=500"),
        ("facets", "status>=500", "status:>=500"),
        ("export", "status=500", "status:=500"),
    ] {
        let answer = ask(route, q);
        let said = warnings(&answer.head);
        assert_eq!(answer.status, 200, "{route} {q}: {}", answer.body);
        let is_said = |warning: &Value| warning["message"].as_str().is_some_and(|message| message.contains(text));
        assert!(said.iter().any(is_said), "{route} {q}: {said:?}");
        assert!(answer.body.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{route} {q}");
    }
    for q in ["status:>=500", "\"status=500\" or error", "* | stats by (path) count() n | sort by (n)"] {
        assert_eq!(warnings(&ask("query", q).head), Vec::<Value>::new(), "{q}");
    }
    let (head, _) = follow(daemon.socket(), &format!("/api/tail?q={}", encoded("status>=500"))).expect("a follower");
    assert!(head.to_lowercase().contains("status:>=500"), "{head}");
    let refused = ask("query", "level:>=warnning");
    assert!(refused.status == 400 && refused.body.contains("did you mean warning?"), "{}", refused.body);
    let target = "/api/query?level=errror";
    let refused = over_unix(daemon.socket(), "GET", target, "").expect("an answer");
    assert!(refused.status == 400 && refused.body.contains("did you mean error?"), "{}", refused.body);
    daemon.stop();
}

#[test]
fn a_field_of_one_old_record_is_none_that_is_missing() {
    let place = Place::new();
    let time = |n: usize| format!("2026-11-21T08:{:02}:{:02}Z", n / 60 % 60, n % 60);
    let lines: Vec<String> = (0..3000)
        .map(|n| match n {
            0 => format!("{{\"time\":\"{}\",\"msg\":\"a\",\"rare\":1,\"user\":{{\"id\":7}}}}", time(n)),
            n => format!("{{\"time\":\"{}\",\"msg\":\"a\",\"usual\":{n}}}", time(n)),
        })
        .collect();
    place.write("app.log", &lines);
    place.said("import", &[&place.log("app.log").display().to_string()]);
    for query in [
        "rare:2",
        "user.id:8",
        "* | sort by (rare) | limit 1",
        "* | stats sum(rare) s, avg(\"user.id\") a",
        "usual:x -user_id:*",
    ] {
        assert!(!error_of(&place.ask("query", &["--json", query])).contains("warning"), "{query}");
    }
    for query in ["rrare:2", "* | sort by (rares)", "* | stats sum(rar) s", "* | fields rara", "-rarre:1 | limit 1"] {
        let said = error_of(&place.ask("query", &["--json", query]));
        assert!(said.contains("did you mean rare?"), "{query}: {said}");
    }
}

#[test]
fn a_configuration_that_is_named_names_its_data_folder() {
    let place = shop();
    let config = place.path("own.toml");
    fs::write(&config, format!("data_dir = {:?}\n", place.data())).expect("written");
    let config = config.display().to_string();
    let asked =
        |command: &str, arguments: &[&str]| bare(&place, &[&[command][..], arguments, &["--config", &config]].concat());
    for (command, arguments, said) in [
        ("query", &["refused", "--json"][..], "payment refused"),
        ("count", &[], "4"),
        ("tables", &[], "Log20261121"),
        ("verify", &[], "whole"),
        ("plan", &[], "records may come for it"),
        ("export", &["refused"], "payment refused"),
    ] {
        let output = asked(command, arguments);
        let out = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(out.contains(said), "{command}: {out}{}", error_of(&output));
    }
    let more = place.path("more.ndjson");
    fs::write(&more, "{\"time\":\"2026-11-21T10:00:00Z\",\"msg\":\"one more\"}\n").expect("written");
    let output = asked("import", &[&more.display().to_string()]);
    assert!(output.status.success(), "{}", error_of(&output));
    assert_eq!(place.records().len(), 5);
}

#[test]
fn a_token_for_reading_is_read_again_when_its_file_changes_and_a_reload_says_so() {
    let place = Place::new();
    let token = place.path("token");
    fs::write(&token, "the-first-token\n").expect("written");
    let tenant = place.path("tenant-token");
    fs::write(&tenant, "a-token-of-acme\n").expect("written");
    let daemon = place.start_with(&format!(
        "[http]\nlisten = \"127.0.0.1:0\"\ntoken_file = {token:?}\n[[tenant]]\nname = \"acme\"\ninstances = [\"web-*\"]\ntoken_file = {tenant:?}\n"
    ));
    let status = |target: &str, token: &str| {
        let header = format!("Authorization: Bearer {token}\r\n");
        over_tcp(daemon.address(), "GET", target, &header).expect("an answer").status
    };
    let labels = "/loki/api/v1/labels";
    assert_eq!((status("/api/query", "the-first-token"), status("/api/query", "the-second-token")), (200, 401));
    assert_eq!(status(labels, "a-token-of-acme"), 200);
    fs::write(&token, "the-second-token\n").expect("written");
    fs::write(&tenant, "another-token-of-acme\n").expect("written");
    let is_read = |target: &str, token: &str| (status(target, token) == 200).then_some(());
    wait_for("the second token", Duration::from_secs(60), || is_read("/api/query", "the-second-token"));
    wait_for("the other token of the tenant", Duration::from_secs(60), || is_read(labels, "another-token-of-acme"));
    assert_eq!((status("/api/query", "the-first-token"), status(labels, "a-token-of-acme")), (401, 401));
    let reloaded = place.said("reload", &[]);
    assert!(reloaded.contains("http.token_file") && reloaded.contains("acme"), "{reloaded}");
    let again = place.said("reload", &[]);
    assert!(again.contains("nothing has changed"), "{again}");
    // A file that cannot be used leaves the token as it is.
    fs::write(&token, "").expect("written");
    wait_for("the daemon looks at the empty file", Duration::from_secs(60), || {
        assert_eq!(status("/api/query", "the-second-token"), 200);
        daemon.said().contains("the token before stays").then_some(())
    });
    append(&token, b"the-third-token\n");
    wait_for("the third token", Duration::from_secs(60), || is_read("/api/query", "the-third-token"));
    daemon.stop();
}

#[test]
fn a_pattern_of_the_command_line_that_follows_nothing_is_told_at_the_start_and_by_the_doctor() {
    let place = Place::new();
    let logs = place.path("logs");
    fs::write(logs.join("app.log"), "2026-11-21T10:00:00Z INFO here\n").expect("written");
    let folder = logs.display().to_string();
    for (pattern, said, found) in [
        (folder.clone(), format!("--tail {folder} is a folder and no file"), "a folder and no file"),
        (
            format!("{folder}/nope*.log"),
            format!("--tail {folder}/nope*.log matches no file, but there are app.log"),
            "no file matches",
        ),
    ] {
        let mut run = place.command("run");
        run.args(["--listen", "off", "--tail", &pattern]);
        let daemon = place.spawn_command(run);
        daemon.wait_ready();
        daemon.wait_said(&said);
        let doctor = String::from_utf8(place.ask("doctor", &[]).stdout).expect("text");
        let warned: Vec<&str> =
            doctor.lines().filter(|line| line.starts_with("warn  files: --tail of the command line")).collect();
        assert!(warned.iter().any(|line| line.contains("finds no file to read")), "{doctor}");
        assert!(warned.iter().any(|line| line.contains(found)), "{doctor}");
        daemon.stop();
    }
    let mut run = place.command("run");
    run.args(["--listen", "off", "--tail", &format!("{folder}/*.log")]);
    let daemon = place.spawn_command(run);
    daemon.wait_ready();
    place.wait_until_messages(&["here"]);
    assert!(!daemon.said().contains("--tail"), "{}", daemon.said());
    let doctor = String::from_utf8(place.ask("doctor", &[]).stdout).expect("text");
    assert!(doctor.contains("ok    files: --tail of the command line: the daemon can read 1"), "{doctor}");
    daemon.stop();
}

#[test]
fn a_duration_asked_of_numbers_without_a_unit_is_told() {
    let place = Place::new();
    let lines: Vec<String> = ["\"rt\":1.5", "\"rt\":0.2", "\"duration_ms\":2500", "\"took\":\"0.7s\""]
        .iter()
        .map(|member| format!(r#"{{"time":"2026-11-21T10:00:00Z","msg":"done",{member}}}"#))
        .collect();
    fs::write(place.path("times.ndjson"), lines.join("\n") + "\n").expect("written");
    place.said("import", &[&place.path("times.ndjson").display().to_string()]);
    for (query, said) in [
        ("rt:>1s", "the numbers of rt have no unit: 1 record has rt:>1 (if rt is in seconds)"),
        ("done rt:>=100ms", "the numbers of rt have no unit: 2 records have rt:>=0.1 (if rt is in seconds)"),
        (
            "duration_ms:>2s",
            "the numbers of duration_ms have no unit: 1 record has duration_ms:>2000 (if duration_ms is in milliseconds)",
        ),
        // A duration that was written as one is less.
        ("took:>1s", "nothing found in 1 day with 4 records\n"),
        ("rt:>2s", "nothing found in 1 day with 4 records\n"),
    ] {
        let output = place.ask("query", &[query]);
        assert!(error_of(&output).contains(said), "{query}: {}", error_of(&output));
    }
}

#[test]
fn a_source_without_its_folder_is_told_with_the_whole_path() {
    let place = shop();
    let (whole, root) = (place.path("shop.ndjson").display().to_string(), place.path("").display().to_string());
    for option in ["--source", "--file"] {
        let said = error_of(&place.ask("query", &[option, "shop.ndjson"]));
        let expected = format!("there is no source shop.ndjson: a source has the whole path; did you mean {whole}?");
        assert!(said.contains(&expected), "{said}");
    }
    fs::create_dir(place.path("old")).expect("made");
    fs::write(place.path("old/shop.ndjson"), "{\"time\":\"2026-11-21T10:00:00Z\",\"msg\":\"another\"}\n")
        .expect("written");
    place.said("import", &[&format!("{root}old/shop.ndjson")]);
    let said = error_of(&place.ask("count", &["--source", "./shop.ndjson"]));
    assert!(said.contains("did you mean */shop.ndjson?"), "{said}");
    assert_eq!(place.json("query", &["--source", "*/shop.ndjson"]).len(), 5);
    let said = error_of(&place.ask("query", &["--source", "nowhere.log"]));
    assert!(!said.contains("did you mean"), "{said}");
}

#[test]
fn a_word_that_is_a_part_of_words_is_told_with_the_number_that_its_pattern_finds() {
    let place = Place::new();
    let lines: Vec<String> = ["IllegalStateException", "ValueError", "IOException", "Connected", "ValueError again"]
        .iter()
        .map(|word| format!(r#"{{"time":"2026-11-21T10:00:00Z","msg":"it was {word}"}}"#))
        .collect();
    fs::write(place.path("words.ndjson"), lines.join("\n") + "\n").expect("written");
    place.said("import", &[&place.path("words.ndjson").display().to_string()]);
    for (query, said, instead) in [
        ("Exception", "2 records have Exception as a part of a word: *Exception*", Some(("*Exception*", 2))),
        (
            "it Error",
            "records of a level are level:=error; 2 records have Error as a part of a word: *Error*",
            Some(("it *Error*", 2)),
        ),
        ("again Error", "1 record has Error as a part of a word: *Error*", Some(("again *Error*", 1))),
        (
            "CONNECTED",
            "words are compared with their case: 1 record has i(CONNECTED), the word in any case",
            Some(("i(CONNECTED)", 1)),
        ),
        (
            "exception",
            "2 records have it as a part of a word in another case: ~\"(?i)exception\"",
            Some(("~\"(?i)exception\"", 2)),
        ),
        ("Nowhere", "nothing found in 1 day with 5 records\n", None),
    ] {
        let output = place.ask("query", &[query]);
        assert!(error_of(&output).contains(said), "{query}: {}", error_of(&output));
        if let Some((instead, records)) = instead {
            assert_eq!(place.json("query", &[instead]).len(), records, "{instead}");
        }
    }
    // The page asks the route.
    let daemon = place.start();
    let answer = over_unix(daemon.socket(), "GET", "/api/query?q=Exception", "").expect("an answer");
    assert!(answer.head.contains("2 records have exception as a part of a word"), "{}", answer.head);
    daemon.stop();
}

#[test]
fn a_hint_to_a_reader_that_is_gone_is_no_fault() {
    let place = shop();
    for words in [
        &["query", "nowhere"][..],
        &["query", "staus:500"],
        &["count", "nowhere"],
        &["drop", "--nothing"],
        &["query", "a AND"],
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = place.command(words[0]);
        command.args(&words[1..]).stdout(Stdio::null());
        let piped = command.stderr(writer).status().expect("run").code();
        assert_eq!(piped, place.ask(words[0], &words[1..]).status.code(), "{words:?}");
    }
}

#[test]
fn the_variable_names_the_configuration_of_each_command() {
    let place = shop();
    let config = place.path("own.toml");
    fs::write(&config, format!("data_dir = {:?}\n[http]\nlisten = \"off\"\n", place.data())).expect("written");
    let asked = |words: &[&str]| {
        let mut daytable = Command::new(DAYTABLE);
        daytable.args(words).current_dir(place.path("")).env_remove("DAYTABLE_DATA").env("DAYTABLE_CONFIG", &config);
        daytable.stdin(Stdio::null()).output().expect("run")
    };
    let mut run = Command::new(DAYTABLE);
    run.arg("run").env("DAYTABLE_CONFIG", &config);
    let daemon = place.spawn_command(run);
    daemon.wait_ready();
    for words in [
        &["query", "refused"][..],
        &["count"],
        &["tables"],
        &["sources"],
        &["status"],
        &["hosts"],
        &["hosts", "invite", "web-2", "--url", "http://127.0.0.1:1"],
        &["plan"],
        &["export"],
        &["verify"],
        &["doctor"],
        &["healthcheck"],
        &["reload"],
        &["check"],
    ] {
        let output = asked(words);
        assert!(output.status.success(), "{words:?}: {}", error_of(&output));
    }
    daemon.stop();
    assert_eq!(String::from_utf8_lossy(&asked(&["count"]).stdout), "4\n");
}

/// A slip in the file of a daemon that runs well.
#[test]
fn a_wrong_configuration_stops_no_command_that_can_do_without_its_settings() {
    let place = shop();
    let daemon = place.start_with("[http]\nlisten = \"off\"\n");
    let text = fs::read_to_string(place.path("daytable.toml")).expect("the configuration");
    fs::write(place.path("daytable.toml"), format!("nosuch = 1\n{text}")).expect("written");
    // One that does not say which folder is its own.
    fs::write(place.path("other.toml"), "data_dri = \"/srv\"\n").expect("written");
    let data = place.data().display().to_string();
    let asked = |words: &[&str], config: &str| {
        let mut daytable = Command::new(DAYTABLE);
        daytable.args(words).current_dir(place.path("")).env_remove("DAYTABLE_DATA").env("DAYTABLE_CONFIG", config);
        daytable.stdin(Stdio::null()).output().expect("run")
    };
    let reading: [(&[&str], &str); 9] = [
        (&["query", "refused", "--json"], "payment refused"),
        (&["count"], "4"),
        (&["export", "refused"], "payment refused"),
        (&["tail", "refused", "--limit", "1"], "payment refused"),
        (&["tables"], "Log20261121"),
        (&["sources"], "shop.ndjson"),
        (&["verify"], "whole"),
        (&["plan"], ""),
        (&["hosts"], ""),
    ];
    let of_daemon: [(&[&str], &str); 3] =
        [(&["status"], "ready"), (&["healthcheck"], ""), (&["archive", "Log20261121"], "sealed Log20261121")];
    let check = |words: &[&str], said: &str| {
        for (config, more) in [("daytable.toml", None), ("other.toml", Some(["--data", &data]))] {
            let output = asked(&[words, more.as_ref().map_or(&[], |more| &more[..])].concat(), config);
            let (out, error) = (String::from_utf8_lossy(&output.stdout), error_of(&output));
            assert!(output.status.success() && out.contains(said), "{words:?}: {out}{error}");
            let warnings = error.matches("warning: the configuration is wrong").count();
            assert!(error.contains(&format!("{config}:1:1: unknown key")) && warnings == 1, "{words:?}: {error}");
        }
    };
    reading.iter().chain(&of_daemon).for_each(|(words, said)| check(words, said));
    for words in [&["open"][..], &["doctor"]] {
        for (config, more) in [("daytable.toml", &[][..]), ("other.toml", &["--data", &data])] {
            let output = asked(&[words, more].concat(), config);
            let said = String::from_utf8_lossy(&output.stdout).into_owned() + &error_of(&output);
            // The daemon answers: it has no listener for a browser.
            assert!(said.contains("there is no TCP listener") || said.contains("it runs and is ready"), "{said}");
            assert!(said.contains(&format!("{config}:1:1: unknown key")), "{said}");
        }
    }
    // What needs the settings refuses, and so does a command whose folder is in doubt.
    for (words, config) in
        [(&["check"][..], "daytable.toml"), (&["reload"], "daytable.toml"), (&["tables"], "other.toml")]
    {
        let output = asked(words, config);
        assert_eq!(output.status.code(), Some(78), "{words:?}: {}", error_of(&output));
    }
    assert!(error_of(&asked(&["tables"], "other.toml")).contains("name the data folder by --data"));
    daemon.stop();
    reading.iter().for_each(|(words, said)| check(words, said));
    for words in [&["import", "shop.ndjson"][..], &["archive", "Log20261121"], &["restore", "Log20261121"]] {
        let output = asked(words, "daytable.toml");
        assert_eq!(output.status.code(), Some(78), "{words:?}: {}", error_of(&output));
    }
    assert_eq!(asked(&["status"], "daytable.toml").status.code(), Some(69));
    let verified = error_of(&asked(&["verify"], "daytable.toml"));
    assert!(verified.contains("which files are read"), "{verified}");
    assert!(error_of(&asked(&["plan"], "daytable.toml")).contains("by the rules of the last daemon"));
}
