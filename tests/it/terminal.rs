//! Answers on a terminal and in a pipe; and commands print no terminal escapes, even if a log, a file name or an argument
//! contains some.

use crate::client::over_unix;
use crate::place::{DAYTABLE, PATIENCE, Place, TAIL, append, installed, wait_for};
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

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

/// Runs a command on a terminal of 24 rows and 80 columns, and prints its output. `PRESS` is typed once the output has a
/// page.
const ON_A_TERMINAL: &str = r#"
import fcntl, os, pty, struct, sys, termios
child, terminal = pty.fork()
if child == 0:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    os.execv(sys.argv[1], sys.argv[1:])
press, seen = os.environ.get("PRESS", "").encode(), b""
while True:
    try:
        part = os.read(terminal, 65536)
    except OSError:
        break
    if not part:
        break
    seen += part
    if press and seen.count(b"\n") >= 22:
        os.write(terminal, press)
        press = b""
sys.stdout.buffer.write(seen.replace(b"\r\n", b"\n"))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"#;

/// The output of `daytable` on a terminal.
fn on_a_terminal(place: &Place, args: &[&str], variables: &[(&str, &str)]) -> String {
    let mut command = Command::new(installed("target/venv/bin/python"));
    command.args(["-c", ON_A_TERMINAL, DAYTABLE, args[0], "--data"]).arg(place.data()).args(&args[1..]);
    command.env_remove("DAYTABLE_DATA").env_remove("NO_COLOR").env("TERM", "xterm").env("TZ", "Europe/Berlin");
    let output = command.envs(variables.iter().copied()).output().expect("python");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{args:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// A place with records of two sources: 40 of one, 3 of another, among them a trace, 2026-11-21T08:00:00Z and later.
fn imported() -> Place {
    let place = Place::new();
    let minutes = |n: u32| format!("2026-11-21T08:{n:02}:00Z");
    let line = |n: u32| format!("{} INFO step {n} status={}\n", minutes(n), 200 + n);
    fs::write(place.path("steps.log"), (0..40).map(line).collect::<String>()).expect("written");
    let trace = format!("{} ERROR failed\n  at one(1)\n  at \u{1b}[2Jtwo(2)\n", minutes(50));
    fs::write(place.path("app.log"), format!("{trace}{0} WARN odd\n{0} INFO even\n", minutes(51))).expect("written");
    for name in ["steps.log", "app.log"] {
        let path = place.path(name);
        place.said("import", &["--instance", &name.replace(".log", ""), path.to_str().expect("a path")]);
    }
    place
}

/// The messages of `step N` lines.
fn steps(text: &str) -> Vec<u32> {
    let number = |line: &str| line.split("step ").nth(1)?.split([' ', '\u{1b}']).next()?.parse().ok();
    text.lines().filter_map(number).collect()
}

#[test]
fn the_newest_record_is_the_last_on_a_terminal_and_the_first_in_a_pipe() {
    let place = imported();
    let asked = ["query", "--instance", "steps", "-n", "3", "--color", "never"];
    let shown = on_a_terminal(&place, &asked, &[]);
    assert_eq!(steps(&shown), [37, 38, 39], "{shown}");
    assert!(shown.starts_with("2026-11-21T09:37:00+01:00 INFO  steps step 37 status=237\n"), "{shown}");
    let reversed = on_a_terminal(&place, &[&asked[..], &["--reverse", "--utc"]].concat(), &[]);
    assert_eq!(steps(&reversed), [39, 38, 37], "{reversed}");
    assert!(reversed.starts_with("2026-11-21T08:39:00Z "), "{reversed}");
    let formatted = on_a_terminal(&place, &[&asked[..], &["--time-format", "%H.%M"]].concat(), &[]);
    assert!(formatted.starts_with("09.37 INFO "), "{formatted}");

    let piped = place.said("query", &asked[1..]);
    assert_eq!(steps(&piped), [39, 38, 37]);
    assert!(piped.starts_with("2026-11-21T08:39:00Z INFO  steps step 39"), "{piped}");
    assert_eq!(steps(&place.said("query", &["--instance", "steps", "--reverse"])), (0..40).collect::<Vec<_>>());
    // Times without a zone are those of the reader's clocks.
    let mut since = place.command("query");
    since.args(["--since", "2026-11-21 09:38", "--instance", "steps"]).env("TZ", "Europe/Berlin");
    assert_eq!(steps(&String::from_utf8_lossy(&since.output().expect("run").stdout)), [39, 38]);
    since.arg("--utc");
    assert!(steps(&String::from_utf8_lossy(&since.output().expect("run").stdout)).is_empty());
}

#[test]
fn an_answer_longer_than_the_screen_goes_through_the_pager() {
    let place = imported();
    let steps_of = |args: &[&str], variables: &[(&str, &str)]| {
        steps(&on_a_terminal(&place, &[&["query", "--instance", "steps"], args].concat(), variables))
    };
    let paged = ("PAGER", "sed 's/step /step 9/'");
    assert_eq!(steps_of(&[], &[paged]).first(), Some(&90));
    assert_eq!(steps_of(&[], &[paged]).len(), 40);
    assert_eq!(steps_of(&["--no-pager"], &[paged]), (0..40).collect::<Vec<_>>());
    assert_eq!(steps_of(&["-n", "22"], &[paged]), (18..40).collect::<Vec<_>>(), "it fits the screen");
    let with_less = steps_of(&["--color", "never"], &[("PRESS", "q"), ("PAGER", "less -FRX")]);
    assert_eq!(with_less.first(), Some(&0), "{with_less:?}");
    assert!(with_less.len() < 40, "the reader left the pager: {with_less:?}");
}

#[test]
fn what_matched_is_highlighted_and_a_trace_has_lines() {
    let place = imported();
    let shown = on_a_terminal(&place, &["query", "two or level:error", "--utc"], &[]);
    let plain = shown.replace("\u{1b}[7m", "<").replace("\u{1b}[27m", ">");
    assert!(plain.contains("failed\n      at one(1)\n      at <two>(2)"), "{plain:?}");
    let shown = on_a_terminal(&place, &["query", "i(FAILED) *wo*"], &[]);
    let plain = shown.replace("\u{1b}[7m", "<").replace("\u{1b}[27m", ">");
    assert!(plain.contains("<failed>") && plain.contains("t<wo>(2)"), "{plain:?}");
    for (args, variables) in [(&["--color", "never"][..], &[][..]), (&[], &[("NO_COLOR", "1")])] {
        let shown = on_a_terminal(&place, &[&["query", "failed"], args].concat(), variables);
        assert!(shown.contains("failed") && !shown.contains('\u{1b}'), "{shown:?}");
    }
    assert!(place.said("query", &["failed", "--color", "always"]).contains("\u{1b}[7mfailed\u{1b}[27m"));
    let raw = on_a_terminal(&place, &["query", "--raw", "failed"], &[]);
    assert!(raw.contains("ERROR failed\n  at one(1)\n  at \\x1b[2Jtwo(2)\n") && !raw.contains('\u{1b}'), "{raw:?}");
    assert!(place.said("query", &["--format", "raw", "failed"]).contains("at \u{1b}[2Jtwo(2)"));
}

#[test]
fn neighbours_are_shown_in_groups_of_their_source() {
    let place = imported();
    let groups = |args: &[&str]| -> Vec<Vec<u32>> { place.said("query", args).split("--\n").map(steps).collect() };
    assert_eq!(groups(&["\"step 7\"", "-C", "1"]), [[6, 7, 8]]);
    assert_eq!(groups(&["\"step 7\" or \"step 20\"", "-B", "2"]), [[5, 6, 7], [18, 19, 20]]);
    assert_eq!(groups(&["\"step 7\" or \"step 20\"", "-B", "2", "--reverse"]), [[18, 19, 20], [5, 6, 7]]);
    assert_eq!(groups(&["\"step 7\" or \"step 9\"", "-A", "1"]), [[7, 8, 9, 10]], "groups that touch are one");
    assert_eq!(groups(&["\"step 39\"", "-A", "3"]), [[39]], "another source is no neighbour");
    let json = place.json("query", &["\"step 7\" or \"step 20\"", "-A", "1"]);
    assert_eq!(json.len(), 4);
    let key = ["table", "partition_key", "row_key"].map(|name| json[0][name].as_str().expect("a key")).join("/");
    assert_eq!(groups(&["--key", &key, "-B", "1"]), [[6, 7]]);
    // Another file of the same instance: its records stand between those of the first, and with one time beside them.
    let between = |n: u32| format!("2026-11-21T08:{n:02}:00Z INFO step {}\n", 100 + n);
    fs::write(place.path("more.log"), (0..40).step_by(2).map(between).collect::<String>()).expect("written");
    place.said("import", &["--instance", "steps", place.path("more.log").to_str().expect("a path")]);
    assert_eq!(groups(&["\"step 7\"", "-C", "1"]), [[6, 7, 8]], "of the source");
    let of_instance = groups(&["\"step 7\"", "-C", "2", "--context-of", "instance"]);
    assert_eq!(of_instance.len(), 1);
    assert_eq!(of_instance[0].iter().copied().collect::<std::collections::BTreeSet<_>>(), [6, 7, 8, 106, 108].into());
    assert_eq!(of_instance[0][2], 7);
    let all = groups(&["\"step 6\" or \"step 7\" or \"step 8\"", "-C", "3", "--context-of", "instance"]).concat();
    assert_eq!(all.len(), all.iter().collect::<std::collections::BTreeSet<_>>().len(), "no record twice: {all:?}");
    assert_eq!(place.ask("query", &["x", "-C", "1", "--context-of", "host"]).status.code(), Some(64));
    let refused = place.ask("query", &["* | stats count() n", "-C", "1"]);
    assert_eq!(refused.status.code(), Some(64));
}

#[test]
fn an_answer_has_the_form_that_was_asked_for() {
    let place = imported();
    let csv = place.said("query", &["status:>=238 | fields time, message, status", "--format", "csv"]);
    let line = "2026-11-21T08:39:00Z,step 39 status=239,239\n2026-11-21T08:38:00Z,step 38 status=238,238\n";
    assert_eq!(csv, format!("time,message,status\n{line}"));
    let counted = place.said("query", &["* | stats by (level) count() n | sort by (n)", "--format", "csv"]);
    assert_eq!(counted, "level,n\nwarn,1\nerror,1\ninfo,41\n");
    let counts = place.said("count", &["--by", "instance,level", "--every", "30m"]);
    let table = "time                  instance  level  records\n\
                 2026-11-21T08:00:00Z  steps     info        30\n\
                 2026-11-21T08:30:00Z  app       error        1\n\
                 2026-11-21T08:30:00Z  app       info         1\n\
                 2026-11-21T08:30:00Z  app       warn         1\n\
                 2026-11-21T08:30:00Z  steps     info        10\n";
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines[1..].sort();
        lines
    };
    assert_eq!(sorted(&counts), sorted(table));
    assert_eq!(place.said("count", &[]), "43\n");
    assert_eq!(on_a_terminal(&place, &["count"], &[]), "records\n     43\n");
    for args in [&["query", "--format", "parquet"][..], &["tail", "--format", "csv"]] {
        let output = place.ask(args[0], &args[1..]);
        let is_table = output.stdout.starts_with(b"PAR1") && output.stdout.ends_with(b"PAR1");
        assert!(is_table || output.status.code() == Some(64), "{args:?}");
    }
}

/// `tail` begins with the newest records, in the order of their times, follows several instances, and says that no daemon
/// runs and how to start one.
#[test]
fn tail_begins_with_the_last_records_and_follows_several_instances() {
    let place = Place::new();
    let blocks = ["one", "two", "three"].map(|name| {
        format!("[[tail]]\nname = \"{name}\"\ninclude = [\"LOGS/{name}.log\"]\ninstance = \"web-{name}\"\n")
    });
    let config = blocks.concat();
    let lines = |from: u32, to: u32| -> Vec<String> { (from..to).map(|n| format!("step {n}")).collect() };
    let daemon = place.start_with(&config);
    for n in 0..6 {
        place.write("one.log", &lines(2 * n, 2 * n + 1));
        place.write("two.log", &lines(2 * n + 1, 2 * n + 2));
        place.write("three.log", &["ignored".into()]);
        wait_for("both are there", PATIENCE, || (place.records().len() == 3 * (n as usize + 1)).then_some(()));
    }
    let mut tail = place.command("tail");
    tail.args(["--instance", "web-one", "--instance", "web-tw*", "--limit", "12"]).stdout(Stdio::piped());
    let mut child = tail.spawn().expect("run");
    let mut shown = BufReader::new(child.stdout.take().expect("piped")).lines().map_while(Result::ok);
    let mut first: Vec<u32> = shown.by_ref().take(10).flat_map(|line| steps(&line)).collect();
    // The two lines of a turn may be read in either order.
    first.chunks_mut(2).for_each(<[u32]>::sort_unstable);
    assert_eq!(first, (2..12).collect::<Vec<_>>());
    place.write("three.log", &["ignored".into()]);
    place.write("one.log", &lines(20, 21));
    place.write("two.log", &lines(21, 22));
    let mut followed: Vec<u32> = shown.by_ref().take(2).flat_map(|line| steps(&line)).collect();
    followed.sort_unstable();
    assert_eq!(followed, [20, 21]);
    assert!(child.wait().expect("ended").success());
    daemon.stop();

    let quiet = place.ask("tail", &["--limit", "3", "-n", "3", "--json"]);
    assert_eq!(quiet.stdout.iter().filter(|byte| **byte == b'\n').count(), 3);
    let said = String::from_utf8_lossy(&quiet.stderr).into_owned();
    assert!(said.contains("no daemon runs on") && said.contains("daytable run"), "{said}");
}
