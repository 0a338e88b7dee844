//! Answers as files: `export`, `/api/export`, `sql`; and what shells complete.

use crate::client::over_unix;
use crate::place::{DAYTABLE, Place, installed};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

/// A place with six records of two instances, of two days.
fn imported() -> Place {
    let place = Place::new();
    let line = |n: u32| {
        let value = if n == 3 { json!("slow") } else { json!(n) };
        json!({"time": format!("2026-11-{}T08:{n:02}:00Z", 20 + n / 3), "level": if n == 5 { "error" } else { "info" },
               "host": format!("web-{}", n % 2), "msg": format!("step {n}"), "took": value, "ratio": f64::from(n) / 2.0})
        .to_string()
            + "\n"
    };
    fs::write(place.path("a.ndjson"), (0..6).map(line).collect::<String>()).expect("written");
    let path = place.path("a.ndjson");
    place.said("import", &["--instance", "{field:host}", path.to_str().expect("a path")]);
    place
}

/// The rows of a Parquet file, as another tool reads them.
fn rows_of(path: &Path) -> Value {
    const READ: &str = "import json, pyarrow.parquet, sys\n\
        print(json.dumps(pyarrow.parquet.read_table(sys.argv[1]).to_pylist(), default=str))";
    let output = Command::new(installed("target/venv/bin/python")).args(["-c", READ]).arg(path).output();
    let output = output.expect("python");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The bytes of a response.
fn fetched(socket: &Path, target: &str) -> Vec<u8> {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--fail", "--unix-socket"]).arg(socket).arg(format!("http://localhost{target}"));
    let output = curl.output().expect("curl");
    assert!(output.status.success(), "{target}: {}", output.status);
    output.stdout
}

#[test]
fn an_answer_is_exported_in_every_form() {
    let place = imported();
    let file = |name: &str| place.path(name).display().to_string();
    let said = place.said("export", &["level:info", "--output", &file("info.ndjson")]);
    let kibibytes = fs::metadata(place.path("info.ndjson")).expect("there").len() as f64 / 1024.0;
    assert_eq!(said, format!("5 records in {}, {kibibytes:.1} KiB\n", file("info.ndjson")));
    let lines: Vec<Value> = fs::read_to_string(place.path("info.ndjson"))
        .expect("written")
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(lines, place.json("query", &["level:info"]));
    let mode = fs::metadata(place.path("info.ndjson")).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let parquet = ["* | fields time, message, took, ratio", "--format", "parquet", "--output"];
    place.said("export", &[&parquet[..], &[&file("all.parquet")]].concat());
    let rows = rows_of(&place.path("all.parquet"));
    assert_eq!(rows.as_array().map(Vec::len), Some(6));
    // Values of two types are texts, and numbers are numbers.
    assert_eq!(
        (&rows[0]["message"], &rows[0]["took"], &rows[0]["ratio"]),
        (&json!("step 5"), &json!("5"), &json!(2.5))
    );
    assert!(rows[0]["time"].as_str().is_some_and(|time| time.starts_with("2026-11-21 08:05:00")), "{rows}");
    let stats = ["* | stats by (level) count() n | sort by (n)", "--format", "parquet", "--output"];
    let said = place.said("export", &[&stats[..], &[&file("stats.parquet")]].concat());
    assert!(said.starts_with("2 rows in "), "{said}");
    assert_eq!(rows_of(&place.path("stats.parquet")), json!([{"level": "error", "n": 1}, {"level": "info", "n": 5}]));
    let piped = place.ask("query", &["* | fields message", "--format", "parquet"]).stdout;
    fs::write(place.path("piped.parquet"), piped).expect("written");
    assert_eq!(rows_of(&place.path("piped.parquet"))[5], json!({"message": "step 0"}));

    let csv = place.said("export", &["took:>=4 | fields message, took", "--format", "csv"]);
    assert_eq!(csv, "message,took\nstep 5,5\nstep 4,4\n");
    let raw = place.said("export", &["\"step 1\"", "--format", "raw"]);
    assert!(raw.starts_with("{\"time\":\"2026-11-20T08:01:00Z\"") && raw.ends_with("}\n"), "{raw}");

    let daemon = place.start_with("[http]\nlisten = \"off\"\n");
    let asked = |format: &str| {
        let target = format!("/api/export?format={format}&q=took:%3E%3D4%20%7C%20fields%20message,%20took");
        fetched(daemon.socket(), &target)
    };
    assert_eq!(asked("csv"), b"message,took\nstep 5,5\nstep 4,4\n");
    assert_eq!(asked("spreadsheet"), asked("csv"), "nothing looks like a formula");
    fs::write(place.path("api.parquet"), asked("parquet")).expect("written");
    assert_eq!(
        rows_of(&place.path("api.parquet")),
        json!([{"message": "step 5", "took": 5}, {"message": "step 4", "took": 4}])
    );
    let raw = fetched(daemon.socket(), "/api/export?format=raw&q=%22step%201%22");
    assert_eq!(raw, place.said("export", &["\"step 1\"", "--raw"]).into_bytes());
    let wrong = over_unix(daemon.socket(), "GET", "/api/export?format=xml", "").expect("an answer");
    assert_eq!(wrong.status, 400, "{}", wrong.body);
    let wrong = over_unix(daemon.socket(), "GET", "/api/export?format=csv&q=(", "").expect("an answer");
    assert_eq!(wrong.status, 400, "{}", wrong.body);
    daemon.stop();
}

/// A file gets its name once it is whole: whatever stops an export leaves the file of before.
#[cfg(feature = "failpoints")]
#[test]
fn an_export_that_is_killed_leaves_the_file_of_before() {
    let place = imported();
    let path = place.path("out.csv");
    fs::write(&path, "before").expect("written");
    let mut export = place.command("export");
    export.args(["--format", "csv", "--output"]).arg(&path).env("DAYTABLE_FAILPOINT", "export-written");
    assert!(!export.output().expect("run").status.success());
    assert_eq!(fs::read_to_string(&path).expect("there"), "before");
    assert!(place.path(".out.csv.partial").exists());
    let wrong = place.ask("export", &["a | stat", "--output", path.to_str().expect("a path")]);
    assert_eq!(wrong.status.code(), Some(64));
    assert_eq!(fs::read_to_string(&path).expect("there"), "before");
    place.said("export", &["* | fields message", "--format", "csv", "--output", path.to_str().expect("a path")]);
    assert_eq!(fs::read_to_string(&path).expect("there").lines().count(), 7);
    assert!(!place.path(".out.csv.partial").exists());
}

#[test]
fn an_export_asks_before_it_replaces_a_file() {
    let place = imported();
    let path = place.path("out.ndjson");
    let command = format!("export --data {} --output {}", place.data().display(), path.display());
    let (code, shown) = place.on_terminal(&command, "");
    assert!(code == Some(0) && shown.contains("6 records in"), "{shown}");
    fs::write(&path, "before").expect("written");
    let (code, shown) = place.on_terminal(&command, "n\n");
    assert!(code == Some(64) && shown.contains("is there, 6 B. Replace it? [y/N]"), "{code:?} {shown}");
    assert_eq!(fs::read_to_string(&path).expect("there"), "before");
    let (code, shown) = place.on_terminal(&command, "y\n");
    assert!(code == Some(0) && shown.contains("6 records in"), "{code:?} {shown}");
    let (code, shown) = place.on_terminal(&format!("{command} --yes --raw"), "");
    assert!(code == Some(0) && !shown.contains("Replace") && shown.contains("6 records in"), "{code:?} {shown}");
    // Nobody can be asked.
    place.said("export", &["level:error", "--output", &path.display().to_string()]);
    assert_eq!(fs::read_to_string(&path).expect("there").lines().count(), 1);
}

/// A file of a day that is replaced is a lost day, so no command writes a file into a data folder.
#[test]
fn no_output_replaces_a_file_of_the_data_folder() {
    let place = imported();
    let day = fs::read_dir(place.data().join("tables")).expect("days").find_map(|entry| {
        let path = entry.expect("an entry").path();
        path.extension().is_some_and(|end| end == "db").then_some(path)
    });
    let day = day.expect("an open day");
    std::os::unix::fs::symlink(place.data().join("tables"), place.path("days")).expect("linked");
    let linked = place.path("days").join(day.file_name().expect("a name"));
    let dotted = place.path("logs/../days").join("new.csv");
    let whole = fs::read(&day).expect("read");
    let text = |path: &Path| path.to_str().expect("a path").to_owned();
    for path in [&day, &linked, &dotted, &place.data().join("catalog.db")] {
        for more in [&["--format", "csv", "--yes"][..], &["--raw"]] {
            let output = place.ask("export", &[&["* | limit 1", "--output", &text(path)], more].concat());
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(
                output.status.code() == Some(69) && error.contains("is in the data folder"),
                "{path:?}: {output:?}"
            );
        }
    }
    let inside = place.data().join("tables/pages");
    let output = Command::new(DAYTABLE).arg("man").arg(&inside).output().expect("run");
    assert!(String::from_utf8_lossy(&output.stderr).contains("is in the data folder"), "{output:?}");
    assert!(fs::read(&day).expect("read") == whole && !inside.exists());
    assert_eq!(place.json("query", &[]).len(), 6);
    place.said("export", &["--output", &text(&place.path("out.ndjson"))]);
}

#[test]
fn sql_reads_sealed_days_and_open_ones() {
    let place = imported();
    let sql = |statement: &str| -> Output {
        let bin = installed("target/venv/bin/duckdb");
        let path = format!("{}:/usr/bin:/bin", bin.parent().expect("a folder").display());
        place.command("sql").args(["--json", statement]).env("PATH", path).output().expect("run")
    };
    let rows = |statement: &str| -> Value {
        let output = sql(statement);
        assert!(output.status.success(), "{statement}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    let all = || rows("select instance, level, message, ratio, count(*) over () as n from logs order by time");
    let open = all();
    assert_eq!(open.as_array().map(Vec::len), Some(6));
    assert_eq!(open[5], json!({"instance": "web-1", "level": "error", "message": "step 5", "ratio": 2.5, "n": 6}));
    let tables = place.json("tables", &[]);
    assert!(tables.len() > 1, "{tables:?}");
    let sealed = tables.iter().map(|table| table["table"].as_str().expect("a name")).next().expect("a table");
    place.said("archive", &[sealed]);
    assert_eq!(all(), open, "after {sealed} was sealed");
    let wrong = sql("select nothing from nowhere");
    assert!(!wrong.status.success());
    let missing = place.command("sql").arg("select 1").env("PATH", "/nowhere").output().expect("run");
    let said = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert_eq!(missing.status.code(), Some(69));
    assert!(said.contains("duckdb is not installed") && said.contains("daytable query"), "{said}");
}

/// Shells offer tables, instances, levels and fields of the folder, and run nothing that was logged.
#[test]
fn shells_complete_what_the_folder_has() {
    let place = imported();
    fs::write(place.path("evil.ndjson"), "{\"msg\":\"a\",\"host\":\"web-$(touch pwned)\",\"ke y\":1}\n")
        .expect("written");
    let path = place.path("evil.ndjson");
    place.said("import", &["--instance", "{field:host}", path.to_str().expect("a path")]);
    let shell = |shell: &str, flag: &str, script: &str, words: &[&str]| -> Vec<String> {
        let bin = Path::new(DAYTABLE).parent().expect("a folder").display().to_string();
        let mut command = Command::new(shell);
        command.args([flag, "-c", script]).args(words).current_dir(place.path(""));
        command.env("PATH", format!("{bin}:/usr/bin:/bin")).env("DAYTABLE_DATA", place.data());
        let output = command.output().unwrap_or_else(|error| panic!("{shell} (sh tests/setup installs it): {error}"));
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
    };
    let complete = |words: &[&str]| -> Vec<String> {
        let script = "eval \"$(daytable completions bash)\"; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); \
                      _daytable_dynamic daytable \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD-1]}\"; printf '%s\\n' \"${COMPREPLY[@]}\"";
        shell("bash", "--norc", script, &[&["bash", "daytable"], words].concat())
    };
    assert_eq!(complete(&["query", "--instance", "web-"]), ["web-\\$\\(touch\\ pwned\\)", "web-0", "web-1"]);
    assert!(!place.path("pwned").exists(), "a logged name was run");
    assert_eq!(complete(&["tail", "--level", "e"]), ["error"]);
    assert_eq!(complete(&["count", "--table", "Log20261120"]), ["Log20261120"]);
    assert_eq!(complete(&["query", "ra"]), ["ratio:"]);
    assert_eq!(complete(&["query", "--no-pa"]), ["--no-pager"]);
    // Without a terminal zsh completes nothing, so the script's function is called as zsh calls it.
    let complete = |words: &[&str]| -> Vec<String> {
        let script = "compdef() { }; compadd() { print -rl -- $found }; source <(daytable completions zsh); \
                      words=(daytable \"$@\"); CURRENT=$#words; _daytable_dynamic";
        let mut found = shell("zsh", "-f", script, &[&["zsh"], words].concat());
        found.retain(|value| value.starts_with(words[words.len() - 1]));
        found
    };
    assert_eq!(complete(&["query", "--instance", "web-"]), ["web-$(touch pwned)", "web-0", "web-1"]);
    for command in ["archive", "drop"] {
        assert_eq!(complete(&[command, "Log20261120"]), ["Log20261120"], "{command}");
    }
    let complete = |line: &str| {
        let script = "daytable completions fish | source; complete --do-complete $argv[1]";
        shell("fish", "--no-config", script, &[line])
    };
    assert_eq!(complete("daytable query --instance web-"), ["web-$(touch pwned)", "web-0", "web-1"]);
    for command in ["archive", "drop"] {
        assert_eq!(complete(&format!("daytable {command} Log20261120")), ["Log20261120"], "{command}");
    }
    assert!(!place.path("pwned").exists(), "a logged name was run");
}
