//! The slips of a new user: each command, its exit code and its message, in one golden file.
//!
//! `DAYTABLE_WRITE_DOCS=1 cargo test --test it slips` writes the file anew. Whoever does so reads the difference: each
//! message names the place, the cause, and what to do next.

use crate::client::{over_tcp, over_unix};
use crate::place::{DAYTABLE, Place, append, numbered};
use daytable_parse::FormatChoice;
use std::fmt::Write;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/slips.txt");
/// A path that is longer than the address of a unix socket may be.
const LONG: &str =
    "long/long/long/long/long/long/long/long/long/long/long/long/long/long/long/long/long/long/long/long/long";

/// Configurations with one mistake each, by the name of their file.
const CONFIGURATIONS: [(&str, &str); 27] = [
    ("syntax", "data_dir = /var/lib/daytable\n"),
    ("key", "data_dri = \"/tmp\"\n"),
    ("section", "[lifecyle]\nmax_bytes = \"off\"\n"),
    ("escape", "redact = [{ name = \"password\", regex = \"password=(\\S+)\" }]\n"),
    ("top", "keep = \"7d\"\n"),
    ("kind", "drain_timeout = 25\n"),
    ("duration", "[[table]]\nname = \"Log\"\nkeep = \"30 days\"\n"),
    ("unit", "[[table]]\nname = \"Log\"\nkeep = \"30y\"\n"),
    ("size", "[lifecycle]\nmax_bytes = \"10 gigs\"\n"),
    ("small", "[lifecycle]\nmax_bytes = \"1\"\n"),
    ("table", "[[table]]\nname = \"my-logs\"\n"),
    ("regex", "[[tail]]\ninclude = [\"/var/log/*.log\"]\nformat = { regex = '(?P<time>\\S+' }\n"),
    ("grok", "[[tail]]\ninclude = [\"/var/log/*.log\"]\nformat = { grok = '%{TIMESTAMP:time}' }\n"),
    ("format", "[[tail]]\ninclude = [\"/var/log/*.log\"]\nformat = \"nginx-json\"\n"),
    ("relative", "[[tail]]\ninclude = [\"logs/*.log\"]\n"),
    ("glob", "[[tail]]\ninclude = [\"/var/log/[a.log\"]\n"),
    ("include", "[[tail]]\nname = \"app\"\n"),
    ("zone", "[[tail]]\ninclude = [\"/var/log/*.log\"]\nzone = \"CEST\"\n"),
    ("level", "[log]\nlevel = \"verbose\"\n"),
    ("listen", "[http]\nlisten = \"7878\"\n"),
    ("syslog", "[[syslog]]\nlisten = \"514\"\n"),
    ("beyond", "[http]\nlisten = \"0.0.0.0:0\"\n"),
    ("token", "[http]\nlisten = \"127.0.0.1:0\"\ntoken_file = \"ROOT/no-token\"\n"),
    ("archive", "[[table]]\nname = \"Log\"\narchive = \"s3:bucket\"\n"),
    ("azure", "[http]\nlisten = \"off\"\n[store]\nkind = \"azure\"\nconnection_string_file = \"ROOT/no-key\"\n"),
    ("azure-key", "[http]\nlisten = \"off\"\n[store]\nkind = \"azure\"\nconnection_string_file = \"ROOT/key\"\n"),
    ("unheard", "data_dir = \"ROOT/data\"\n[http]\nlisten = \"127.0.0.1:1\"\n"),
];

/// Groups of commands on an idle data folder. DATA is the folder with records, LOGS the folder with files.
const IDLE: [(&str, &[&str]); 43] = [
    ("a wrong command", &["querry", "help me"]),
    ("a command of another program", &["serch x", "stop", "restart", "version", "ls", "delete", "load a.log"]),
    (
        "a word that means something else",
        &["query Connected --data DATA", "query WARNING --data DATA", "query web --data DATA"],
    ),
    ("a wrong option", &["query --instanc web", "tables --jason", "run --configuration daytable.toml"]),
    ("an option without its value", &["query --since", "import --format"]),
    ("a missing argument", &["import", "parse", "drop", "backup"]),
    ("a wrong level", &["query --level loud", "--log loud tables"]),
    ("a wrong time", &["query --since sometime", "query --until 2026-13-01", "query --since 2026-11-21T25:00"]),
    (
        "a wrong duration",
        &["count --every 5", "count --every 5minutes", "drop --older-than month", "healthcheck --timeout 5"],
    ),
    (
        "a wrong day-table",
        &["drop --yes Log", "archive 2026-11-20", "restore nosuch", "restore Log20261340", "restore data"],
    ),
    (
        "an unknown day-table",
        &["drop --yes --data DATA Log19990101", "archive --data DATA Log19990101", "restore --data DATA Log19990101"],
    ),
    (
        "a wrong query",
        &["query --data DATA 'level:error AND'", "query --data DATA '(disk full'", "query --data DATA 'user:'"],
    ),
    (
        "a question without quotes",
        &[
            "query disk full",
            "count --data DATA --by level disk --json full today",
            "tail job 7 failed",
            "export disk full -n 1",
        ],
    ),
    (
        "a wrong pipe",
        &[
            "query --data DATA '* | statz count()'",
            "query --data DATA '* | stats avgg(size)'",
            "query --data DATA '* | limit ten'",
        ],
    ),
    ("a wrong pattern in a query", &["query --data DATA 'path:~\"(\"'"]),
    ("an option after the query", &["query --data DATA error --instanse web", "query --data DATA -- --error"]),
    (
        "a wrong column",
        &[
            "count --data DATA --by colour --every 1h",
            "count --by colour,level level:error --since 1h --data DATA",
            "count --by level --data DATA '* | stats count() n'",
            "query --data DATA --key Log20261121",
        ],
    ),
    (
        "a query that finds no record",
        &[
            "query --data DATA needle",
            "query --data DATA --instance webb",
            "query --data DATA --since 2020-01-01 --until 2020-01-02",
            "count --data DATA needle",
        ],
    ),
    (
        "a wrong folder",
        &[
            "query --data nowhere",
            "tables --data LOGS",
            "query --data LOGS/app.log",
            "import --data LOGS/app.log LOGS/app.log",
        ],
    ),
    (
        "a wrong folder to change",
        &[
            "repair --data nowhere",
            "drop --data nowhere --yes Log20261120",
            "verify --data nowhere",
            "backup --data nowhere copy",
        ],
    ),
    ("no daemon", &["status --data DATA", "reload --data DATA", "open --data DATA"]),
    ("no daemon to check", &["healthcheck --config unheard.toml", "healthcheck --address 127.0.0.1:1"]),
    ("no configuration", &["check nowhere.toml", "run --config nowhere.toml", "run --config LOGS"]),
    ("a configuration that is no TOML", &["check syntax.toml", "check escape.toml", "check LOGS/app.log.gz"]),
    ("a wrong key", &["check key.toml", "check section.toml", "check kind.toml", "check top.toml"]),
    ("a wrong value with a unit", &["check duration.toml", "check unit.toml", "check size.toml", "check small.toml"]),
    ("a wrong name", &["check table.toml", "check level.toml", "check format.toml"]),
    ("a wrong pattern for lines", &["check regex.toml", "check grok.toml"]),
    ("a wrong pattern for files", &["check relative.toml", "check glob.toml", "check include.toml"]),
    ("a wrong zone", &["check zone.toml"]),
    ("a wrong address", &["check listen.toml", "check syslog.toml", "run --listen here"]),
    ("a listener beyond this host", &["run --config beyond.toml --data new"]),
    ("a missing secret", &["run --config token.toml --data new", "run --config azure.toml --data new"]),
    ("a wrong key of Azure", &["run --config azure-key.toml --data new"]),
    ("a wrong archive", &["check archive.toml"]),
    (
        "a missing file",
        &["parse nowhere.log", "import --data DATA nowhere.log", "adopt --data new --promtail nowhere.yaml"],
    ),
    ("a folder given for a file", &["parse LOGS", "import --data DATA LOGS"]),
    ("a file that is no text", &["import --data DATA LOGS/old.log.xz", "import --data DATA LOGS/wide.log"]),
    (
        "an unknown source",
        &[
            "export --data DATA --raw --source nowhere.log",
            "export --data DATA --format xml",
            "query --data DATA --follow --format csv",
        ],
    ),
    ("a drop without a terminal", &["drop --data DATA DAYTABLE", "drop --data DATA --older-than 1ms"]),
    ("a place that exists", &["backup --data DATA LOGS", "man /proc/nothing"]),
    ("a path too long for a socket", &["run --data LONG --listen off"]),
    ("another store", &["copy --from nowhere --to new", "copy --from DATA --to azure:nowhere", "completions cmd"]),
];

/// Groups of commands of a user without rights.
const WITHOUT_RIGHTS: [(&str, &[&str]); 2] = [
    (
        "a file of another user",
        &["parse LOGS/secret.log", "import --data new LOGS/secret.log", "check LOGS/secret.log"],
    ),
    (
        "a data folder of another user",
        &["query --data closed", "status --data closed", "run --data closed --listen off"],
    ),
];

/// Groups of commands beside a running daemon.
const RUNNING: [(&str, &[&str]); 3] = [
    ("a second daemon", &["run --data DATA --listen off"]),
    ("a port in use", &["run --data new --listen PORT"]),
    ("a reload of a wrong configuration", &["reload --data DATA"]),
];

/// The words of a command line. Single quotes hold words together.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (at, part) in line.split('\'').enumerate() {
        match at % 2 {
            0 => words.extend(part.split(' ').filter(|word| !word.is_empty()).map(str::to_owned)),
            _ => words.push(part.to_owned()),
        }
    }
    words
}

struct Slips {
    place: Place,
    /// Words that stand for paths and names, and these.
    names: Vec<(&'static str, String)>,
    transcript: String,
    /// The words before the program.
    by: Vec<&'static str>,
}

impl Slips {
    fn new() -> Slips {
        let place = Place::new();
        let root = place.path("").display().to_string().trim_end_matches('/').to_owned();
        for (name, text) in CONFIGURATIONS {
            fs::write(place.path(&format!("{name}.toml")), text.replace("ROOT", &root)).expect("written");
        }
        place.write("app.log", &numbered("a line", 20));
        fs::write(place.log("app.log.gz"), b"\x1f\x8b\x08\0\0\0\0\0").expect("written");
        fs::write(place.log("secret.log"), "a secret\n").expect("written");
        fs::create_dir(place.path("closed")).expect("made");
        for (path, mode) in [(place.log("secret.log"), 0), (place.path("closed"), 0), (place.path(""), 0o755)] {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set");
        }
        fs::write(place.log("old.log.xz"), b"\xfd7zXZ\0\0\0").expect("written");
        fs::write(place.log("wide.log"), b"\xff\xfea\0b\0\n\0").expect("written");
        fs::write(place.path("key"), "AccountName=me;AccountKey=not base64!\n").expect("written");
        fs::set_permissions(place.path("key"), fs::Permissions::from_mode(0o600)).expect("set");
        let names = vec![("LOGS", place.path("logs").display().to_string()), ("LONG", LONG.into())];
        let mut slips = Slips { place, names, transcript: String::new(), by: Vec::new() };
        slips.place.said("import", &[&slips.place.log("app.log").display().to_string()]);
        let table = slips.place.json("tables", &[])[0]["table"].as_str().expect("a table").to_owned();
        let data = slips.place.data().display().to_string();
        slips.names.splice(0..0, [("DAYTABLE", table), ("DATA", data)]);
        slips
    }

    /// Runs the commands of a group in the folder of the test.
    fn group(&mut self, title: &str, lines: &[&str]) {
        writeln!(self.transcript, "# {title}").expect("text");
        for line in lines {
            let arguments = words(line)
                .into_iter()
                .map(|word| self.names.iter().fold(word, |word, (name, value)| word.replace(name, value)));
            let program: Vec<&str> =
                ["timeout", "60"].into_iter().chain(self.by.iter().copied()).chain([DAYTABLE]).collect();
            let mut daytable = Command::new(program[0]);
            daytable
                .args(&program[1..])
                .args(arguments)
                .current_dir(self.place.path(""))
                .stdin(Stdio::null())
                .env("TZ", "UTC");
            for variable in [
                "DAYTABLE_DATA",
                "DAYTABLE_CONFIG",
                "AZURE_STORAGE_CONNECTION_STRING",
                "JOURNAL_STREAM",
                "DAYTABLE_WRITE_DOCS",
            ] {
                daytable.env_remove(variable);
            }
            let output = daytable.output().expect("run");
            let code = output.status.code().map_or("killed".into(), |code| code.to_string());
            writeln!(self.transcript, "\n$ daytable {line}\n[{code}]").expect("text");
            for printed in [&output.stdout, &output.stderr] {
                let printed = self.portable(&String::from_utf8_lossy(printed));
                self.transcript.push_str(&printed);
            }
        }
        self.transcript.push('\n');
    }

    /// The text without what differs from run to run.
    fn portable(&self, text: &str) -> String {
        let root = self.place.path("").display().to_string().trim_end_matches('/').to_owned();
        let mut text = text.to_owned();
        for (name, value) in self.names.iter().filter(|(name, _)| matches!(*name, "PORT" | "DAYTABLE")) {
            text = text.replace(value, name);
        }
        text = text.replace(&root, "ROOT");
        let installed = "systemctl start daytable, or daytable run --config /etc/daytable/daytable.toml";
        text = text.replace(installed, "daytable run --config FILE");
        // A new format changes no message.
        let formats: Vec<String> = FormatChoice::all().map(|format| format!("{:?}", format.name())).collect();
        text = text.replace(&formats.join(", "), "FORMATS");
        let mut lines = String::new();
        for line in text.lines() {
            let (line, _) = line.split_once("; daemons run elsewhere").unwrap_or((line, ""));
            let is_time =
                |word: &&str| word.len() > 20 && word.starts_with("20") && word.trim_end_matches(',').ends_with('Z');
            let words: Vec<&str> = line.split(' ').map(|word| if is_time(&word) { "TIME" } else { word }).collect();
            let line = words.join(" ");
            match line.split_once("(process ") {
                Some((before, _)) => lines.push_str(&format!("{before}(process NUMBER)")),
                None => lines.push_str(line.trim_end()),
            }
            lines.push('\n');
        }
        lines
    }
}

#[test]
fn each_slip_is_answered_by_its_place_its_cause_and_what_to_do() {
    let mut slips = Slips::new();
    for (title, lines) in IDLE {
        slips.group(title, lines);
    }
    if rustix::process::geteuid().is_root() {
        slips.by = vec!["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    }
    for (title, lines) in WITHOUT_RIGHTS {
        slips.group(title, lines);
    }
    slips.by.clear();
    let token = slips.place.path("token");
    fs::write(&token, "a-token-that-is-long-enough-to-be-a-secret\n").expect("written");
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).expect("set");
    let taken = TcpListener::bind("127.0.0.1:0").expect("bound");
    slips.names.push(("PORT", taken.local_addr().expect("an address").to_string()));
    let config = format!("[http]\nlisten = \"127.0.0.1:0\"\ntoken_file = {token:?}\n");
    let daemon = slips.place.start_with(&config);
    append(&slips.place.path("daytable.toml"), b"nothing = 1\n");
    for (title, lines) in RUNNING {
        slips.group(title, lines);
    }
    writeln!(slips.transcript, "# a wrong request").expect("text");
    for (target, headers) in [
        ("/api/query", ""),
        ("/api/query", "Authorization: Bearer wrong\r\n"),
        ("/api/quary", "Authorization: Bearer wrong\r\n"),
        ("/-/drop?table=Log19990101", ""),
    ] {
        let answer = over_tcp(daemon.address(), "GET", target, headers).expect("an answer");
        writeln!(slips.transcript, "\n$ GET {target} {}\n[{}]\n{}", headers.trim(), answer.status, answer.body.trim())
            .expect("text");
    }
    for target in ["/api/query?lvel=error", "/api/query?q=a%20AND", "/api/query?since=sometime"] {
        let answer = over_unix(daemon.socket(), "GET", target, "").expect("an answer");
        writeln!(slips.transcript, "\n$ GET {target}\n[{}]\n{}", answer.status, answer.body.trim()).expect("text");
    }
    daemon.stop();
    if std::env::var_os("DAYTABLE_WRITE_DOCS").is_some() {
        fs::write(GOLDEN, &slips.transcript).expect("written");
    }
    let expected = fs::read_to_string(GOLDEN).unwrap_or_default();
    for (number, (line, expected)) in slips.transcript.lines().zip(expected.lines()).enumerate() {
        assert_eq!(line, expected, "{GOLDEN}:{}", number + 1);
    }
    assert_eq!(slips.transcript.lines().count(), expected.lines().count(), "{GOLDEN}: {}", slips.transcript);
    assert!(Path::new(GOLDEN).exists() && IDLE.len() + WITHOUT_RIGHTS.len() + RUNNING.len() >= 40);
}
