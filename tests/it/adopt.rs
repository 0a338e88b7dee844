//! Adoption of other collectors' positions, in their own formats: lines already read come no more, the others come
//! once.

use crate::place::{PATIENCE, Place, append, numbered, wait_for};
use rusqlite::Connection;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const CONFIG: &str = "[[tail]]\ninclude = [\"LOGS/*.log\"]\ninstance = \"test\"\n";

/// `daytable adopt` with the configuration of the place.
fn adopt(place: &Place, args: &[&str]) -> std::process::Output {
    let config = place.configure(CONFIG).display().to_string();
    place.ask("adopt", &[&["--config", &config][..], args].concat())
}

fn adopted(place: &Place, args: &[&str]) -> Vec<(String, Value, String)> {
    let output = adopt(place, &[args, &["--json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    let shown = |line: &str| {
        let shown: Value = serde_json::from_str(line).expect("an object");
        let path = shown["path"].as_str().unwrap_or_default();
        let name = path.rsplit('/').next().unwrap_or_default().to_owned();
        (name, shown["position"].clone(), shown["result"].as_str().expect("words").to_owned())
    };
    text.lines().map(shown).collect()
}

/// Three files of 100 lines, of which the first 60 were read. Returns their inodes, device and offsets, too.
fn place_with_files() -> (Place, Vec<String>, u64) {
    let place = Place::new();
    let mut rest = Vec::new();
    let mut offset = 0;
    for name in ["a", "b", "c"] {
        let lines = numbered(&format!("{name} line"), 100);
        place.write(&format!("{name}.log"), &lines);
        offset = lines[..60].iter().map(|line| line.len() as u64 + 1).sum();
        rest.extend_from_slice(&lines[60..]);
    }
    (place, rest, offset)
}

fn inode(path: &Path) -> (u64, u64) {
    let file = fs::metadata(path).expect("there");
    (file.dev(), file.ino())
}

/// The adopted files continue, without a duplicate. A second adoption changes no position.
fn finish(place: &Place, mut rest: Vec<String>, args: &[&str]) {
    assert!(adopted(place, args).iter().all(|(.., what)| what == "began there already"), "again");
    let daemon = place.start_with(CONFIG);
    place.wait_for_messages(&rest);
    append(&place.log("a.log"), b"a line of later\n");
    rest.push("a line of later".into());
    place.wait_for_messages(&rest);
    // A daemon uses the folder.
    assert_eq!(adopt(place, args).status.code(), Some(75));
    daemon.stop();
    let refused = adopt(place, args);
    let error = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(69) && error.contains("--keep-known"), "{error}");
    assert!(adopt(place, &[args, &["--keep-known"]].concat()).status.success());
    let daemon = place.start_with(CONFIG);
    place.finish(daemon, CONFIG, &rest);
}

#[test]
fn promtail_s_positions() {
    let (place, rest, offset) = place_with_files();
    let logs = place.path("logs");
    let path = |name: &str| logs.join(name).display().to_string();
    // Inside a line: the line is read. Beyond the end: the file was truncated. Not included. Missing.
    fs::write(place.path("other.txt"), "other\n").expect("written");
    let positions = format!(
        "positions:\n  {}: \"{offset}\"\n  {}: \"{}\"\n  {}: \"{offset}\"\n  /nowhere/d.log: \"5\"\n  {}: \"0\"\n  cursor-j: s=1\n",
        path("a.log"),
        path("b.log"),
        offset + 3,
        path("c.log"),
        place.path("other.txt").display()
    );
    let file = place.path("positions.yaml");
    fs::write(&file, positions).expect("written");
    let args = ["--promtail", &file.display().to_string()];
    let shown = adopted(&place, &[&args[..], &["--dry-run"]].concat());
    let what = |name: &str| shown.iter().find(|(path, ..)| path == name).expect("told of").clone();
    assert_eq!(what("b.log"), ("b.log".into(), offset.into(), "begins there".into()));
    assert!(what("d.log").2.contains("not there") && what("other.txt").2.contains("no [[tail]] block"));
    assert!(!place.data().exists(), "a dry run makes nothing");
    append(&place.log("short.log"), b"one line\n");
    let more = fs::read_to_string(&file).expect("read") + &format!("  {}: \"500\"\n", path("short.log"));
    fs::write(&file, more).expect("written");
    let shown = adopted(&place, &args);
    let short = shown.iter().find(|(name, ..)| name == "short.log").expect("told of");
    assert!(short.2.contains("shorter than that"), "{short:?}");
    let again = adopted(&place, &args);
    assert_eq!(again.iter().filter(|(.., what)| what == "began there already").count(), 3, "{again:?}");
    let daemon = place.start_with(CONFIG);
    let all = [rest, vec!["one line".into()]].concat();
    place.finish(daemon, CONFIG, &all);
}

/// Promtail's positions with one file at `offset`.
fn position_of(place: &Place, name: &str, offset: u64) -> [String; 2] {
    let file = place.path("one.yaml");
    let text = format!("positions:\n  {}: \"{offset}\"\n", place.log(name).display());
    fs::write(&file, text).expect("written");
    ["--promtail".into(), file.display().to_string()]
}

/// Adopts one file. Returns its position and the reported action.
fn adopt_at(place: &Place, name: &str, offset: u64) -> (Value, String) {
    let [kind, file] = position_of(place, name, offset);
    let mut shown = adopted(place, &[&kind, &file]);
    let (path, position, what) = shown.pop().expect("told of");
    assert!(shown.is_empty() && path == name, "{shown:?} {path}");
    (position, what)
}

/// The other collector continued meanwhile, or its positions were wrong: the last adoption counts.
#[test]
fn what_was_not_read_yet_begins_elsewhere() {
    let (place, rest, offset) = place_with_files();
    for later in [offset / 2, offset, offset / 3, offset] {
        let (position, what) = adopt_at(&place, "a.log", later);
        assert!(position.as_u64().is_some_and(|position| position <= later), "{position} {later}");
        assert_eq!(what, "begins there");
    }
    assert_eq!(adopt_at(&place, "a.log", offset), (offset.into(), "began there already".into()));
    // The middle of the next line is the same place.
    assert_eq!(adopt_at(&place, "a.log", offset + 3), (offset.into(), "began there already".into()));
    // Another file with the same inode has not begun.
    let inode_before = inode(&place.log("b.log"));
    adopt_at(&place, "b.log", offset);
    let others = numbered("another line of another file", 100);
    fs::write(place.log("b.log"), others.join("\n") + "\n").expect("written");
    assert_eq!(inode(&place.log("b.log")), inode_before);
    let begins = others[..10].iter().map(|line| line.len() as u64 + 1).sum::<u64>();
    assert_eq!(adopt_at(&place, "b.log", begins), (begins.into(), "begins there".into()));
    fs::remove_file(place.log("c.log")).expect("removed");
    let daemon = place.start_with(CONFIG);
    place.finish(daemon, CONFIG, &[&rest[..40], &others[10..]].concat());
}

/// A daemon that began at the end had skipped lines that the other collector had not sent.
#[test]
fn what_was_passed_over_is_read_all_the_same() {
    let (place, rest, offset) = place_with_files();
    let config = format!("{CONFIG}read_from = \"end\"\n");
    fs::remove_file(place.log("b.log")).expect("removed");
    fs::remove_file(place.log("c.log")).expect("removed");
    let daemon = place.start_with(&config);
    let size = fs::metadata(place.log("a.log")).expect("there").len();
    wait_for("it began", PATIENCE, || {
        let sources = place.json("sources", &[]);
        sources.iter().any(|source| source["position"] == size).then_some(())
    });
    daemon.stop();
    assert_eq!(adopt_at(&place, "a.log", offset), (offset.into(), "begins there".into()));
    let daemon = place.start_with(&config);
    place.finish(daemon, &config, &rest[..40]);
}

#[test]
fn filebeat_s_registry() {
    let (place, rest, offset) = place_with_files();
    let registry = place.path("registry/filebeat");
    fs::create_dir_all(&registry).expect("made");
    let logs = place.path("logs");
    // One file was renamed, and another file has its path.
    fs::rename(logs.join("b.log"), logs.join("b.log.1")).expect("renamed");
    place.write("b.log", &["b line of a new file".into()]);
    let key = |name: &str| {
        let (device, inode) = inode(&logs.join(name));
        format!("filestream::all::native::{inode}-{device}")
    };
    let state = |source: &str, offset: u64| {
        format!(
            "{{\"cursor\":{{\"offset\":{offset}}},\"meta\":{{\"source\":\"{}\",\"identifier_name\":\"native\"}},\"ttl\":-1,\"updated\":[1,2]}}",
            logs.join(source).display()
        )
    };
    fs::write(registry.join("active.dat"), "/var/lib/filebeat/registry/filebeat/9.json").expect("written");
    let checkpoint = state("a.log", offset).replacen('{', &format!("{{\"_key\":\"{}\",", key("a.log")), 1);
    fs::write(registry.join("9.json"), format!("[{checkpoint}]")).expect("written");
    let log = [
        format!("{{\"op\":\"set\",\"id\":10}}\n{{\"k\":\"{}\",\"v\":{}}}\n", key("b.log.1"), state("b.log", offset)),
        format!("{{\"op\":\"set\",\"id\":11}}\n{{\"k\":\"{}\",\"v\":{}}}\n", key("c.log"), state("c.log", 5)),
        format!("{{\"op\":\"set\",\"id\":12}}\n{{\"k\":\"{}\",\"v\":{}}}\n", key("c.log"), state("c.log", offset)),
    ];
    fs::write(registry.join("log.json"), log.concat()).expect("written");
    let args = ["--filebeat", &place.path("registry").display().to_string()];
    let shown = adopted(&place, &args);
    assert_eq!(shown.len(), 3, "{shown:?}");
    assert!(shown.iter().all(|(_, position, what)| *position == offset && what == "begins there"), "{shown:?}");
    finish(&place, [rest, vec!["b line of a new file".into()]].concat(), &args);
}

#[test]
fn vector_s_checkpoints() {
    let (place, rest, offset) = place_with_files();
    let logs = place.path("logs");
    let (device, number) = inode(&logs.join("a.log"));
    // Like the catalog's CRC of the names, for "b line 0\n" and "c line 0\n".
    let crc = |bytes: &[u8]| {
        bytes.iter().fold(0_u64, |crc, byte| {
            (0..8).fold(crc ^ u64::from(*byte) << 56, |crc, _| {
                if crc >> 63 == 0 { crc << 1 } else { crc << 1 ^ 0x42f0_e1eb_a9ea_3693 }
            })
        })
    };
    let text = format!(
        "{{\"version\":\"1\",\"checkpoints\":[{{\"fingerprint\":{{\"dev_inode\":[{device},{number}]}},\"position\":{offset},\
         \"modified\":\"2026-11-21T08:00:00Z\"}},{{\"fingerprint\":{{\"first_lines_checksum\":{}}},\"position\":{offset}}},\
         {{\"fingerprint\":{{\"first_lines_checksum\":{}}},\"position\":{offset}}},\
         {{\"fingerprint\":{{\"first_lines_checksum\":4711}},\"position\":7}}]}}",
        crc(b"b line 0\n"),
        crc(b"c line 0\n")
    );
    fs::write(place.path("checkpoints.json"), text).expect("written");
    let args = ["--vector", &place.path("checkpoints.json").display().to_string()];
    let shown = adopted(&place, &args);
    assert_eq!(shown.iter().filter(|(_, position, _)| *position == offset).count(), 3, "{shown:?}");
    assert!(shown.iter().any(|(.., what)| what.contains("no file that is followed has this fingerprint")), "{shown:?}");
    let daemon = place.start_with(CONFIG);
    place.finish(daemon, CONFIG, &rest);
}

#[test]
fn fluent_bit_s_database() {
    let (place, rest, offset) = place_with_files();
    let logs = place.path("logs");
    let database = place.path("flb.db");
    let connection = Connection::open(&database).expect("opened");
    connection
        .execute_batch(
            "PRAGMA journal_mode=WAL; CREATE TABLE in_tail_files (id INTEGER PRIMARY KEY, name TEXT NOT NULL, offset INTEGER, \
             inode INTEGER, created INTEGER, rotated INTEGER DEFAULT 0);",
        )
        .expect("made");
    fs::rename(logs.join("c.log"), logs.join("c.log.1")).expect("renamed");
    for (name, was) in [("a.log", "a.log"), ("b.log", "b.log"), ("c.log.1", "c.log")] {
        let insert = "INSERT INTO in_tail_files (name, offset, inode, created) VALUES (?1, ?2, ?3, 1)";
        let number = i64::try_from(inode(&logs.join(name)).1).expect("it fits");
        let was = logs.join(was).display().to_string();
        connection.execute(insert, (was, i64::try_from(offset).expect("it fits"), number)).expect("inserted");
    }
    let args = ["--fluent-bit", &database.display().to_string()];
    let shown = adopted(&place, &args);
    assert!(shown.len() == 3 && shown.iter().all(|(_, position, _)| *position == offset), "{shown:?}");
    drop(connection);
    finish(&place, rest, &args);
}
