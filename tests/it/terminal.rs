//! Commands print no terminal escapes, even if a log, a file name or an argument contains some.

use crate::client::over_unix;
use crate::place::{DAYTABLE, PATIENCE, Place, TAIL, append, wait_for};
use std::process::Command;

/// C0, DEL, C1, and characters that change the text direction.
const EVIL: &str = "a\u{1b}[2Jb\u{7f}c\u{9b}31md\u{85}e\u{202e}f\u{2066}g\u{200f}h\u{61c}i\u{7}";

fn commands(text: &[u8]) -> bool {
    let text = std::str::from_utf8(text).expect("UTF-8");
    let turns =
        |c| matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.contains(|c: char| c.is_control() && !matches!(c, '\t' | '\n') || turns(c))
}

#[test]
fn nothing_that_is_printed_commands_a_terminal() {
    let place = Place::new();
    let name = format!("{EVIL}.log");
    append(&place.log(&name), format!("{EVIL}\n{}\n", serde_json::json!({ "message": "json", EVIL: EVIL })).as_bytes());
    let daemon = place.start();
    wait_for("both records are there", PATIENCE, || (place.try_records().len() == 2).then_some(()));
    let config = place.configure(TAIL);
    let config = config.to_str().expect("a path");
    let path = place.log(&name);
    let path = path.to_str().expect("a path");
    let data = place.data().display().to_string();
    let gone = place.log(&format!("gone{EVIL}"));
    let gone = gone.to_str().expect("a path");
    let commands_run: [&[&str]; 17] = [
        &["query", "--data", &data],
        &["query", "--data", &data, "--json"],
        &["count", "--data", &data, "--by", "instance"],
        &["sources", "--data", &data],
        &["sources", "--data", &data, "--json"],
        &["tables", "--data", &data, "--json"],
        &["plan", "--data", &data],
        &["verify", "--data", &data, "--config", config],
        &["doctor", "--config", config],
        &["doctor", "--config", config, "--json"],
        &["parse", "--summary", path],
        &["parse", "--summary", "--explain", path],
        &["parse", gone],
        &["import", "--data", &data, gone],
        &["query", "--data", gone],
        &["query", "--data", &data, "--level", EVIL],
        &["check", "--config", gone],
    ];
    for args in commands_run {
        let output = Command::new(DAYTABLE).args(args).env_remove("DAYTABLE_DATA").output().expect("run");
        for said in [&output.stdout, &output.stderr] {
            assert!(!commands(said), "{args:?}: {:?}", String::from_utf8_lossy(said));
        }
    }
    for target in ["/api/query", "/api/sources"] {
        let answer = over_unix(daemon.socket(), "GET", target, "").expect("an answer");
        assert!(!commands(answer.body.as_bytes()), "{target}: {:?}", answer.body);
    }
    assert!(!commands(daemon.said().as_bytes()), "{:?}", daemon.said());
    // The stored value is unchanged.
    let records = place.records();
    let json = records.iter().find(|record| record["message"] == "json").expect("it is there");
    assert!(json.as_object().is_some_and(|fields| fields.values().any(|value| value == EVIL)), "{json}");
    daemon.stop();
}
