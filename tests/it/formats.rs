//! Configured formats, redacted secrets, and the view of both in `parse`.

use crate::place::{DAYTABLE, PATIENCE, Place, wait_for};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn daytable(args: &[&str]) -> Output {
    Command::new(DAYTABLE).args(args).env_remove("DAYTABLE_DATA").output().expect("daytable can be run")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn objects(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect()
}

/// `check` and `run` name the key, the place in the file, the place in the pattern, and the likely intention.
#[test]
fn a_wrong_pattern_is_shown_with_its_place() {
    let place = Place::new();
    let config = place.configure(
        "[[tail]]\ninclude = [\"/a\"]\nformat = { grok = '%{TIMESTAMP_ISO8601:time} %{LOGLVEL:level} %{GREEDYDATA:message}' }\n\
         [[tail]]\nname = \"b\"\ninclude = [\"/b\"]\nformat = { regex = '(?P<level>\\w+' }\n",
    );
    let config = config.to_str().expect("text");
    let expected = format!(
        "daytable: the configuration is wrong:\n\
         {config}:8:46: grok: unknown pattern LOGLVEL, did you mean LOGLEVEL?\n    \
         %{{TIMESTAMP_ISO8601:time}} %{{LOGLVEL:level}} %{{GREEDYDATA:message}}\n    \
         {}^\n\
         {config}:12:21: regex: unclosed group\n    (?P<level>\\w+\n    ^\n  `daytable config` prints every key with its values\n",
        " ".repeat(26)
    );
    for command in ["check", "run"] {
        let output = daytable(&[command, "--config", config]);
        assert_eq!(output.status.code(), Some(78), "{command}");
        assert_eq!(text(&output.stderr), expected, "{command}");
    }
}

/// A block's pattern parses its lines. A line that does not match continues the record before.
#[test]
fn lines_are_read_by_a_pattern() {
    let place = Place::new();
    let tail = "[[tail]]\ninclude = [\"LOGS/*.log\"]\ninstance = \"test\"\n\
                format = { grok = '%{JOB:job} <%{LOGLEVEL:level}> %{NUMBER:seconds:float} %{GREEDYDATA:message}', \
                patterns = { JOB = '[a-z]+#%{INT}' } }\n";
    let lines = ["copy#7 <warn> 1.5 slow", "  because of the disk", "and the net", "copy#8 <info> 2 done"];
    place.write("app.log", &lines.map(str::to_owned));
    let daemon = place.start_with(tail);
    let mut records = wait_for("both are read", PATIENCE, || Some(place.records()).filter(|all| all.len() == 2));
    daemon.stop();
    records.sort_by_key(|record| record["job"].to_string());
    assert_eq!(records[0]["message"], "slow\n  because of the disk\nand the net");
    let parts = |record: &Value| [&record["job"], &record["level"], &record["seconds"]].map(Value::clone);
    assert_eq!(parts(&records[0]), [json!("copy#7"), json!("warn"), json!(1.5)]);
    assert_eq!(parts(&records[1]), [json!("copy#8"), json!("info"), json!(2.0)]);
    assert_eq!(records[1]["message"], "done");
}

/// The bytes of every file below a folder.
fn all_bytes(folder: &Path) -> Vec<u8> {
    let files = walkdir::WalkDir::new(folder).into_iter().filter_map(Result::ok);
    let files = files.filter(|file| file.file_type().is_file());
    files.flat_map(|file| fs::read(file.path()).expect("it can be read")).collect()
}

fn holds(bytes: &[u8], text: &str) -> bool {
    memchr::memmem::find(bytes, text.as_bytes()).is_some()
}

/// A redacted secret is in no file of the data folder and in no log line of the daemon. The secret may stand in the
/// first line of a file, in a field, in a name, in escaped JSON, across lines, in an import.
#[test]
fn a_secret_is_nowhere() {
    let place = Place::new();
    let redact = "redact = [\"credit-card\", \"email\", { name = \"pin\", regex = 'pin=(\\d+)' }]\n";
    let config = place.configure(
        "[[tail]]\ninclude = [\"LOGS/*.log\"]\ninstance = \"test\"\nredact = [\"bearer-token\", \"private-key\"]\n",
    );
    let rest = fs::read_to_string(&config).expect("a configuration");
    fs::write(&config, format!("{redact}{rest}")).expect("written");
    let lines = [
        "first,ann@secret.example",
        "marker-plain 4111 1111 1111 1111 pin=987123",
        r#"{"msg":"marker-json","card":4111111111111111,"mail":"b\u006fb@secret.example","headers":{"authorization":"c2VjcmV0LXRva2Vu"}}"#,
        r#"{"msg":"marker-name","carl@secret.example":1}"#,
        r#"{"kind":"marker-bare","frank@secret.example":1}"#,
        r#"{"kind":"marker-escaped","gina\u0040\u0073ecret.example":1}"#,
        "2026-11-21T08:00:00Z WARN marker-pem -----BEGIN RSA PRIVATE KEY-----",
        "MIIEpAIBAAKCAQEAsecretkeyline1",
        "secretkeyline2==",
        "-----END RSA PRIVATE KEY-----",
        "2026-11-21T08:00:01Z INFO marker-bearer Bearer c2VjcmV0LXRva2Vu",
        "-----BEGIN PRIVATE KEY-----",
        "secretkeyline3",
    ];
    place.write("app.log", &lines.map(str::to_owned));
    fs::write(place.log("table.log"), "secret,dora@secret.example,name\n").expect("written");
    let mut run = Command::new(DAYTABLE);
    run.arg("run").arg("--config").arg(&config);
    let daemon = place.spawn_command(run);
    daemon.wait_ready();
    let markers =
        ["marker-plain", "marker-json", "marker-name", "marker-bare", "marker-escaped", "marker-pem", "marker-bearer"];
    let secrets = ["secret.example", "ecret.example", "4111", "987123", "c2VjcmV0", "secretkeyline"];
    let has_all = |place: &Place| {
        let shown = place.said("query", &["--json", "-n", "1000"]);
        markers.iter().all(|marker| shown.contains(marker)).then_some(shown)
    };
    wait_for("all is read", PATIENCE, || has_all(&place));
    let imported = place.path("old.txt");
    fs::write(&imported, "marker-import eve@secret.example\n").expect("written");
    place.said("import", &["--instance", "old", imported.to_str().expect("text")]);
    assert!(daemon.metric("daytable_redactions_total{pattern=\"credit-card\"}").is_some_and(|count| count >= 2.0));
    assert!(daemon.metric("daytable_redactions_total{pattern=\"pin\"}").is_some_and(|count| count >= 1.0));
    daemon.stop();
    let shown = has_all(&place).expect("all of it");
    let stored = all_bytes(&place.data());
    for secret in secrets {
        assert!(!shown.contains(secret), "{secret} is shown:\n{shown}");
        assert!(!holds(&stored, secret), "{secret} is in the data folder");
    }
    // The search finds texts that are not secret, so the search works.
    assert!(holds(&stored, "marker-plain") || holds(&stored, "marker-pem"), "nothing of the records is found");
    let log = fs::read_to_string(place.path("daemon-0.log")).expect("the daemon's own log");
    for secret in secrets {
        assert!(!log.contains(secret), "{secret} is in what the daemon says:\n{log}");
    }
}

/// `parse` reads plain and compressed files as the configured block does that includes them.
#[test]
fn parse_reads_as_the_configuration_says() {
    let place = Place::new();
    let config = place.configure(
        "[[tail]]\ninclude = [\"LOGS/*\"]\nredact = [\"email\"]\nformat = { regex = '(?P<level>\\w+)/(?P<component>\\w+): (?P<message>.*)' }\n",
    );
    let lines = "WARN/disk: ann@example.com is full\n  of mail\nINFO/net: up\n";
    fs::write(place.log("plain"), lines).expect("written");
    fs::write(place.log("packed.zst"), zstd::encode_all(lines.as_bytes(), 1).expect("memory")).expect("written");
    let config = config.to_str().expect("text");
    for name in ["plain", "packed.zst"] {
        let output = daytable(&["parse", "--config", config, place.log(name).to_str().expect("text")]);
        let expected = [
            json!({"level": "warn", "message": "[redacted email] is full\n  of mail", "component": "disk"}),
            json!({"level": "info", "message": "up", "component": "net"}),
        ];
        assert_eq!(objects(&output), expected, "{name}");
    }
    // A file outside every block gets the defaults.
    fs::write(place.path("other"), lines).expect("written");
    let output = daytable(&["parse", "--config", config, place.path("other").to_str().expect("text")]);
    assert!(text(&output.stderr).contains("no [[tail]] block includes this file"), "{}", text(&output.stderr));
    let other = place.path("other");
    let format = ["parse", "--format", r"regex:(?P<what>\w+)/.*", other.to_str().expect("text")];
    assert_eq!(objects(&daytable(&format))[0]["what"], "WARN");
    let wrong = daytable(&["parse", "--format", "grok:%{WORDS:w}", other.to_str().expect("text")]);
    assert_eq!(wrong.status.code(), Some(64));
    assert!(text(&wrong.stderr).contains("unknown pattern WORDS, did you mean WORD?"), "{}", text(&wrong.stderr));
}

/// `--explain` shows the meaning of each byte. `--summary` shows recognised formats and lines that did not fit.
#[test]
fn parse_explains_and_sums_up() {
    let place = Place::new();
    let file = place.path("app.log");
    let line = "2026-11-21T08:00:00Z WARN disk full free=0\n";
    fs::write(&file, format!("{}odd \u{1b}[31mline\n", line.repeat(4))).expect("written");
    let path = file.to_str().expect("text");
    let output = daytable(&["parse", "--summary", "--explain", path]);
    assert!(output.status.success());
    let explained = text(&output.stdout);
    let first = format!(
        "{path}, byte 0: text\n  | {line}  0..20   time     2026-11-21T08:00:00Z\n  21..25  level    warn\n  26..35  message  disk full\n  41..42  free     0\n"
    );
    assert!(explained.starts_with(&first), "{explained}");
    assert!(explained.contains("odd \\x1b[31mline") && !explained.contains('\u{1b}'));
    let summary = text(&output.stderr);
    assert!(summary.starts_with(&format!("{path}: text, ")), "{summary}");
    assert!(summary.contains(" with a time, 4 with a level"), "{summary}");
}

/// The reference and the shipped configuration name every format, so that no new one is left out.
#[test]
fn every_format_is_documented() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/reference/log-formats.md")).expect("a page");
    let config = fs::read_to_string(root.join("config/daytable.toml")).expect("a configuration");
    for choice in daytable_parse::FormatChoice::all().map(|choice| choice.name()).filter(|name| *name != "auto") {
        assert!(page.contains(&format!("`{choice}`")), "{choice} is not in the reference");
        assert!(config.contains(&format!("{choice:?}")), "{choice} is not in the configuration");
    }
}
