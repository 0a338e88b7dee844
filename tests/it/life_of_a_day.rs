//! The life of a day-table (the table of one day's records): sealed, archived with proof, dropped, restored. After any
//! kill, every record is in the table or in exactly one verified archive.

use crate::place::{DAYTABLE, Daemon, PATIENCE, Place, message_of, numbered, wait_for};
use crate::trouble::{SmallDisk, lines_of_noise};
use daytable_archive::{Access, Archive, ArchiveUrl, RetryPolicy};
use daytable_model::key::{DayTable, Period, TableName};
use daytable_model::time::now;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

/// The lifecycle runs every second, and seals each hour as soon as the hour is over.
fn config(place: &Place, keep: &str, more: &str) -> String {
    format!(
        "[lifecycle]\nschedule = \"* * * * * *\"\ngrace = \"0s\"\nseal_after = \"0s\"\nmin_tables = 0\n\
         [[table]]\nname = \"Log\"\nkeep = \"{keep}\"\nperiod = \"hour\"\narchive = \"{}\"\n{more}\
         [[tail]]\ninclude = [\"LOGS/*.log\"]\ninstance = \"test\"\n",
        url(place)
    )
}

fn url(place: &Place) -> String {
    format!("file://{}", place.path("archive").display())
}

/// Lines of an hour some hours ago, and their table.
fn old_lines(prefix: &str, count: usize) -> (Vec<String>, Vec<String>, DayTable) {
    let start = Period::Hour.start(now().minus(5 * HOUR));
    let messages = numbered(prefix, count);
    let line = |(at, message): (u64, &String)| format!("{} INFO {message}", start.plus(Duration::from_millis(at * 7)));
    let lines = (0..).zip(&messages).map(line).collect();
    (lines, messages, DayTable::at(&TableName::new("Log").expect("a name"), Period::Hour, start))
}

/// A record with the present time, which confirms the clock.
fn young(message: &str) -> String {
    format!("{} INFO {message}", now())
}

/// The entry of a table in `tables`.
fn table(place: &Place, name: &str) -> Option<Value> {
    place.json("tables", &[]).into_iter().find(|table| table["table"] == name)
}

fn state(place: &Place, name: &str) -> Option<String> {
    Some(table(place, name)?["state"].as_str()?.to_owned())
}

fn wait_state(place: &Place, name: &str, wanted: &str) {
    let mut last = None;
    wait_for(&format!("{name} is {wanted}"), PATIENCE, || {
        last = state(place, name);
        (last.as_deref() == Some(wanted)).then_some(())
    });
}

/// The whole archives of a day, each read to its last byte, with generation and rows.
fn archives(place: &Place, day: &DayTable) -> Vec<(i64, u64)> {
    if !place.path("archive").exists() {
        return Vec::new();
    }
    let url: ArchiveUrl = url(place).parse().expect("an address");
    let archive = Archive::open(&url, &Access::default(), &RetryPolicy::QUERY).expect("opened");
    let listing = archive.list(std::slice::from_ref(day.table()), &|_, _| true).expect("listed");
    let of_day = listing.archives.iter().filter(|archived| archived.table() == day);
    let proven = of_day.filter(|a| archive.prove(a, &mut |_| std::ops::ControlFlow::Continue(())).is_ok());
    proven.map(|archived| (archived.generation(), archived.manifest().rows)).collect()
}

/// The messages in an existing table. Empty if the table does not exist.
fn messages_in(place: &Place, name: &str) -> Vec<String> {
    match state(place, name).as_deref() {
        None | Some("dropped") => Vec::new(),
        _ => place.records().iter().filter(|record| record["table"] == name).map(message_of).collect(),
    }
}

/// Every message of `messages` is in the table once, or the latest archive has all of them.
fn assert_kept(place: &Place, day: &DayTable, messages: &[String], when: &str) {
    let found = messages_in(place, &day.to_string());
    let once: BTreeSet<&String> = found.iter().collect();
    assert_eq!(once.len(), found.len(), "{when}: a record is there twice");
    if messages.iter().all(|message| once.contains(message)) {
        return;
    }
    assert!(found.is_empty(), "{when}: the table has {} of {} records", found.len(), messages.len());
    let latest = archives(place, day).into_iter().max();
    assert_eq!(latest.map(|(_, rows)| rows), Some(messages.len() as u64), "{when}: neither table nor archive has all");
}

/// From open to dropped and back: the state at each step, without a loss.
#[test]
fn a_day_is_sealed_archived_dropped_and_restored() {
    let place = Place::new();
    let (lines, messages, day) = old_lines("old", 500);
    let name = day.to_string();
    place.write("app.log", &[lines, vec![young("young")]].concat());
    let daemon = place.start_with(&config(&place, "30d", ""));
    wait_state(&place, &name, "archived");
    assert_kept(&place, &day, &messages, "archived");
    let shown = table(&place, &name).expect("it stands");
    assert_eq!((shown["rows"].as_u64(), shown["next"].as_str()), (Some(500), Some("drop")), "{shown}");
    assert_eq!(shown["archive"], url(&place));
    assert_eq!(archives(&place, &day).len(), 1);
    assert_eq!(daemon.metric("daytable_tables{state=\"archived\"}"), Some(1.0));
    assert!(daemon.metric("daytable_lifecycle_bytes_total{step=\"verify\"}").is_some_and(|bytes| bytes > 1000.0));
    daemon.stop();

    let daemon = place.start_with(&config(&place, "1h", ""));
    wait_state(&place, &name, "dropped");
    assert_eq!(archives(&place, &day), [(2, 500)]);
    assert!(messages_in(&place, &name).is_empty());
    let said = place.said("restore", &["--keep", "1d", &name]);
    assert!(said.contains("restored") && said.contains("500 rows"), "{said}");
    assert_kept(&place, &day, &messages, "restored");
    assert_eq!(state(&place, &name).as_deref(), Some("restored"));
    let again = place.said("restore", &["--keep", "1d", &name]);
    assert!(again.contains("exists already"), "{again}");
    assert_kept(&place, &day, &messages, "restored twice");
    let said = place.said("restore", &["--keep", "2s", "--as", "Incident", &name]);
    let copy = format!("Incident{}", &name[3..]);
    assert!(said.contains(&format!("twice, as {name} and as {copy}: write table:={copy}")), "{said}");
    assert_eq!(messages_in(&place, &copy).len(), 500);
    // A late record for the restored day goes to today's table.
    let (late, ..) = old_lines("late", 1);
    place.write("app.log", &late);
    wait_for("the late record", PATIENCE, || {
        let found = place.json("query", &["--contains", "late 0"]);
        found.first().filter(|record| record["table"] != name.as_str()).map(drop)
    });
    place.assert_no_key_twice();
    wait_for("the copy goes", PATIENCE, || (state(&place, &copy).is_none()).then_some(()));
    place.said("drop", &["-y", &name]);
    assert_eq!(state(&place, &name).as_deref(), Some("dropped"));
    daemon.stop();
    // The same without a daemon.
    place.said("restore", &[&name]);
    assert_kept(&place, &day, &messages, "restored without a daemon");
}

/// A manual drop also refuses a day before its archiving, unless a flag says otherwise.
#[test]
fn a_drop_by_hand_asks_for_the_archive() {
    let place = Place::new();
    let today = DayTable::at(&TableName::new("Log").expect("a name"), Period::Hour, now()).to_string();
    let daemon = place.start_with(&config(&place, "30d", ""));
    place.write("app.log", &[young("first")]);
    place.wait_for_messages(&["first".into()]);
    let table = place.records()[0]["table"].as_str().expect("a table").to_owned();
    assert!(table >= today);
    let refused = place.ask("drop", &["-y", &table]);
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(69), "{error}");
    assert!(error.contains("in no archive"), "{error}");
    place.wait_for_messages(&["first".into()]);
    let said = place.said("archive", &[&table]);
    assert!(said.contains("1 row,"), "{said}");
    place.said("drop", &["-y", &table]);
    assert_eq!(state(&place, &table).as_deref(), Some("dropped"));
    daemon.stop();
}

/// Late records of an archived day become a new archive generation. The old archive is removed afterwards.
#[test]
fn late_records_are_archived_as_a_new_generation() {
    let place = Place::new();
    let (lines, messages, day) = old_lines("old", 50);
    let name = day.to_string();
    place.write("app.log", &[lines, vec![young("young")]].concat());
    let daemon = place.start_with(&config(&place, "30d", ""));
    wait_state(&place, &name, "archived");
    let (late, late_messages, _) = old_lines("late", 3);
    place.write("late.log", &late);
    let all = [messages, late_messages].concat();
    wait_for("the late ones", PATIENCE, || (messages_in(&place, &name).len() == 53).then_some(()));
    assert_kept(&place, &day, &all, "late");
    // The scheduler archives at most once a day, but a command archives at once.
    assert_eq!(archives(&place, &day), [(2, 50)]);
    place.said("archive", &[&name]);
    assert_kept(&place, &day, &all, "archived again");
    wait_for("the old archive goes", PATIENCE, || {
        (archives(&place, &day).iter().map(|(_, rows)| *rows).collect::<Vec<_>>() == [53]).then_some(())
    });
    daemon.stop();
    let daemon = place.start_with(&config(&place, "1h", ""));
    wait_state(&place, &name, "dropped");
    place.said("restore", &[&name]);
    assert_kept(&place, &day, &all, "restored");
    daemon.stop();
}

/// Readers see every record once while a day is sealed, and commits continue.
#[test]
fn sealing_disturbs_nobody() {
    let place = Place::new();
    let (lines, messages, day) = old_lines("old", 60_000);
    let name = day.to_string();
    place.write("app.log", &[lines, vec![young("young")]].concat());
    let config = config(&place, "30d", "").replace("\"0s\"\nmin", "\"365d\"\nmin");
    let daemon = place.start_with(&config);
    wait_for("all is read", 2 * PATIENCE, || {
        (daemon.metric("daytable_records_committed_total") == Some(60_001.0)).then_some(())
    });
    let mut sealing = place.command("archive").arg(&name).spawn().expect("run");
    let mut looks = 0;
    while sealing.try_wait().expect("a child").is_none() || looks < 3 {
        let counted = place.json("count", &[])[0]["records"].as_u64();
        assert_eq!(counted, Some(60_001), "look {looks}");
        let newest = place.json("query", &["--contains", "old 59999", "-n", "5"]);
        assert_eq!(newest.len(), 1, "look {looks}");
        looks += 1;
    }
    assert!(sealing.wait().expect("ended").success());
    place.write("app.log", &[young("during")]);
    wait_for("a commit", PATIENCE, || (place.json("query", &["--contains", "during"]).len() == 1).then_some(()));
    assert_kept(&place, &day, &messages, "sealed");
    daemon.stop();
}

/// The hour that began so many hours ago, and lines of it: of `count` records whose numbers compress badly.
fn lines_of_numbers(hours: u32, count: u64) -> (Vec<String>, String) {
    let start = Period::Hour.start(now().minus(hours * HOUR));
    let line = |at: u64| {
        let random = (at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let [a, b, c, d, ..] = random.to_le_bytes();
        let (number, share) = (random >> 44, (random >> 24 & 0xfffff) as f64 / 1e6);
        let time = start.plus(Duration::from_millis(at * 3_600_000 / count));
        format!("{time} INFO request {number} took {} ms share={share} client={a}.{b}.{c}.{d} of={at}", random >> 50)
    };
    let table = DayTable::at(&TableName::new("Log").expect("a name"), Period::Hour, start);
    ((0..count).map(line).collect(), table.to_string())
}

/// Sealing makes no day larger: where the file would be, the day stays in its pages, until late records ask again.
#[test]
fn sealing_makes_no_day_larger() {
    let place = Place::new();
    let days: Vec<(Vec<String>, String)> = [(9, 20_000), (8, 1), (7, 100), (6, 1000), (5, 5000), (4, 3)]
        .map(|(hours, count)| lines_of_numbers(hours, count))
        .into();
    let lines: Vec<String> = days.iter().flat_map(|(lines, _)| lines).cloned().chain([young("young")]).collect();
    place.write("app.log", &lines);
    let asked = config(&place, "30d", "");
    let config = asked.lines().filter(|line| !line.starts_with("archive")).collect::<Vec<_>>().join("\n");
    let daemon = place.start_with(&config.replace("seal_after = \"0s\"", "seal_after = \"365d\""));
    wait_for("all is read", 2 * PATIENCE, || {
        (daemon.metric("daytable_records_committed_total") == Some(lines.len() as f64)).then_some(())
    });
    daemon.stop();
    let bytes = |name: &str| table(&place, name).and_then(|table| table["bytes"].as_u64()).expect("bytes");
    let before: Vec<u64> = days.iter().map(|(_, name)| bytes(name)).collect();
    let daemon = place.start_with(&config);
    wait_state(&place, &days[5].1, "sealed");
    let states: Vec<String> = days.iter().filter_map(|(_, name)| state(&place, name)).collect();
    assert_eq!((&*states[0], &*states[1], &*states[3]), ("open", "sealed", "sealed"));
    for ((_, name), before) in days.iter().zip(&before) {
        assert!(bytes(name) <= *before, "{name} has {} bytes, and had {before}", bytes(name));
    }
    let is_planned = || place.said("plan", &[]).contains(&format!("seal {}", days[0].1));
    assert!(!is_planned(), "{}", place.said("plan", &[]));
    let all = || place.json("count", &[])[0]["records"].as_u64();
    assert_eq!(all(), Some(lines.len() as u64));
    place.write("late.log", &[days[0].0[7].replace(" of=7", " late=1")]);
    wait_for("the late record", PATIENCE, || (all() == Some(lines.len() as u64 + 1)).then_some(()));
    daemon.stop();
    // A table that requires an archive has each day sealed.
    let daemon = place.start_with(&asked);
    wait_state(&place, &days[0].1, "archived");
    assert_eq!(all(), Some(lines.len() as u64 + 1));
    place.assert_no_key_twice();
    daemon.stop();
}

/// A table above its own limit gives its oldest hours, and no more of them than it has to.
#[test]
fn a_table_above_its_limit_gives_its_oldest_hours() {
    const BYTES_MAX: u64 = 1 << 20;
    let place = Place::new();
    let hours: Vec<(Vec<String>, String)> = [9, 8, 7, 6].map(|hours| lines_of_numbers(hours, 20_000)).into();
    let lines: Vec<String> = hours.iter().flat_map(|(lines, _)| lines).cloned().chain([young("young")]).collect();
    place.write("app.log", &lines);
    let open = config(&place, "30d", "").replace("seal_after = \"0s\"", "seal_after = \"365d\"");
    let open = open.lines().filter(|line| !line.starts_with("archive")).collect::<Vec<_>>().join("\n");
    let daemon = place.start_with(&open);
    wait_for("all is read", 2 * PATIENCE, || {
        (daemon.metric("daytable_records_committed_total") == Some(lines.len() as f64)).then_some(())
    });
    daemon.stop();
    let bytes = || -> u64 { place.json("tables", &[]).iter().filter_map(|table| table["bytes"].as_u64()).sum() };
    assert!(bytes() > BYTES_MAX, "{} bytes are below the limit", bytes());
    let daemon = place.start_with(&open.replace("keep = ", "max_bytes = \"1MiB\"\nkeep = "));
    wait_for("the table is within its limit", PATIENCE, || (bytes() <= BYTES_MAX).then_some(()));
    let rows =
        |name: &str| table(&place, name).filter(|table| table["state"] != "dropped").map(|table| table["rows"].clone());
    let left: Vec<_> = hours.iter().map(|(_, name)| rows(name)).collect();
    let gone = left.iter().take_while(|rows| rows.is_none()).count();
    assert!(gone > 0 && gone < hours.len(), "{left:?}");
    assert!(left[gone..].iter().all(|rows| *rows == Some(20_000.into())), "{left:?}");
    let records = place.json("count", &[])[0]["records"].as_u64();
    assert_eq!(records, Some((hours.len() - gone) as u64 * 20_000 + 1));
    daemon.stop();
}

/// Old hours come in, are sealed, archived and dropped. Despite kills at any moment, each of their records is there
/// once.
#[test]
fn a_kill_at_any_time_loses_nothing_of_a_day() {
    let place = Place::new();
    let (lines, messages, day) = old_lines("old", 4000);
    place.write("young.log", &[young("young")]);
    place.write("app.log", &lines);
    let config = config(&place, "1h", "");
    // The table exists before the rule that drops it.
    let daemon = place.start_with(&config.replace("\"1h\"", "\"30d\"").replace("\"0s\"\nmin", "\"365d\"\nmin"));
    wait_for("all is read", PATIENCE, || (messages_in(&place, &day.to_string()).len() == 4000).then_some(()));
    daemon.stop();
    for kill in 0..25_u64 {
        let daemon = place.spawn(&config);
        std::thread::sleep(Duration::from_millis(kill * 37 % 400));
        daemon.kill();
        assert_kept(&place, &day, &messages, &format!("after kill {kill}"));
    }
    let daemon = place.start_with(&config);
    // A step that two kills interrupted is left to whoever asks for it. If the day is gone already, this is refused.
    place.ask("archive", &[&day.to_string()]);
    wait_state(&place, &day.to_string(), "dropped");
    place.said("restore", &[&day.to_string()]);
    assert_kept(&place, &day, &messages, "restored");
    assert_eq!(archives(&place, &day).len(), 1);
    daemon.stop();
}

/// The archive folder is read-only or no folder: the reason is shown, and no table is dropped.
#[test]
fn an_archive_that_cannot_be_written_keeps_the_day_and_says_why() {
    let place = Place::new();
    let (lines, messages, day) = old_lines("old", 20);
    let name = day.to_string();
    fs::write(place.path("archive"), "a file, not a folder").expect("written");
    place.write("app.log", &[lines, vec![young("young")]].concat());
    let daemon = place.start_with(&config(&place, "30d", ""));
    wait_state(&place, &name, "sealed");
    daemon.stop();
    let daemon = place.start_with(&config(&place, "1h", ""));
    let failed = || daemon.metric("daytable_lifecycle_failures_total{step=\"archive\"}");
    wait_for("it fails", PATIENCE, || failed().filter(|count| *count >= 1.0));
    let shown = crate::client::over_unix(daemon.socket(), "GET", "/api/tables", "").expect("answered").body;
    let shown = shown.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let shown = shown.into_iter().find(|table| table["table"] == name.as_str()).expect("it stands");
    assert!(shown["error"].as_str().is_some_and(|error| error.contains("failed to archive")), "{shown}");
    assert!(shown["retry_at"].is_string() && shown["stays"].is_string(), "{shown}");
    let planned = place.json("plan", &[]);
    let of_day = |step: &str| planned.iter().any(|told| told["step"] == step && told["table"] == name.as_str());
    assert!(of_day("archive"), "{planned:?}");
    assert_kept(&place, &day, &messages, "while it fails");
    fs::remove_file(place.path("archive")).expect("removed");
    wait_state(&place, &name, "dropped");
    assert_eq!(archives(&place, &day), [(2, 20)]);
    daemon.stop();
}

/// Some megabytes of incompressible lines of an old hour.
fn old_noise(count: usize) -> (Vec<String>, Vec<String>, DayTable) {
    let (_, _, day) = old_lines("noise", 1);
    let messages: Vec<String> = lines_of_noise().into_iter().take(count).collect();
    let line = |message: &String| format!("{} INFO {message}", day.start());
    (messages.iter().map(line).collect(), messages, day)
}

/// The archive disk is read-only, and then full: the reason is shown, no table is dropped, and a partial file does not
/// count as an archive.
#[test]
fn an_archive_on_a_read_only_or_full_disk_keeps_the_day() {
    let place = Place::new();
    let Some(disk) = SmallDisk::mount(&place.path("archive"), "300k") else { return };
    disk.remount("ro");
    let (lines, messages, day) = old_noise(20_000);
    let name = day.to_string();
    place.write("app.log", &[lines, vec![young("young")]].concat());
    let daemon = place.start_with(&config(&place, "30d", ""));
    wait_state(&place, &name, "sealed");
    let failed = || daemon.metric("daytable_lifecycle_failures_total{step=\"archive\"}").unwrap_or(0.0);
    wait_for("read-only", PATIENCE, || (failed() >= 1.0).then_some(()));
    let refused = place.ask("drop", &["-y", &name]);
    assert_eq!(refused.status.code(), Some(69), "{}", String::from_utf8_lossy(&refused.stderr));
    disk.remount("rw,size=300k");
    let before = failed();
    wait_for("full", PATIENCE, || (failed() > before).then_some(()));
    assert_eq!(archives(&place, &day), []);
    assert_kept(&place, &day, &messages, "full");
    disk.grow("64m");
    wait_state(&place, &name, "archived");
    daemon.stop();
    let daemon = place.start_with(&config(&place, "1h", ""));
    wait_state(&place, &name, "dropped");
    assert_eq!(archives(&place, &day), [(2, 20_000)]);
    daemon.stop();
}

/// A data folder without room for the sealed day: the day stays whole and readable until there is room.
#[test]
fn a_full_data_folder_keeps_the_day_as_it_is() {
    let place = Place::new();
    let Some(disk) = SmallDisk::mount(&place.data(), "64m") else { return };
    let (lines, messages, day) = old_noise(20_000);
    let name = day.to_string();
    place.write("app.log", &[lines, vec![young("young")]].concat());
    let waiting = config(&place, "30d", "").replace("\"0s\"\nmin", "\"365d\"\nmin");
    let daemon = place.start_with(&waiting);
    wait_for("all is read", PATIENCE, || (messages_in(&place, &name).len() == 20_000).then_some(()));
    daemon.stop();
    let used = rustix::fs::statvfs(place.data()).expect("a disk");
    let room = (used.f_bavail * used.f_frsize).saturating_sub(512 << 10);
    fs::write(place.data().join("ballast"), vec![1; usize::try_from(room).expect("small")]).expect("written");
    let refused = place.ask("archive", &[&name]);
    assert!(!refused.status.success(), "there was room");
    assert_kept(&place, &day, &messages, "full");
    assert_eq!(state(&place, &name).as_deref(), Some("open"));
    fs::remove_file(place.data().join("ballast")).expect("removed");
    place.said("archive", &[&name]);
    assert_eq!(state(&place, &name).as_deref(), Some("archived"));
    assert_kept(&place, &day, &messages, "with room");
    drop(disk);
}

/// A damaged archive is refused with its fault, and other files stay untouched.
#[test]
fn a_damaged_archive_is_refused() {
    let place = Place::new();
    let (lines, _, day) = old_lines("old", 200);
    let name = day.to_string();
    place.write("app.log", &[lines, vec![young("young")]].concat());
    let daemon = place.start_with(&config(&place, "30d", ""));
    wait_state(&place, &name, "archived");
    daemon.stop();
    let daemon = place.start_with(&config(&place, "1h", ""));
    wait_state(&place, &name, "dropped");
    let files = || walkdir::WalkDir::new(place.path("archive")).into_iter().flatten();
    let file = files().find(|entry| entry.path().extension().is_some_and(|e| e == "parquet")).expect("an archive");
    fs::set_permissions(file.path(), fs::Permissions::from_mode(0o600)).expect("set");
    let whole = fs::read(file.path()).expect("read");
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    for (bytes, says) in [(&flipped[..], "SHA-256"), (&whole[..whole.len() - 9], "bytes"), (&[], "bytes")] {
        fs::write(file.path(), bytes).expect("written");
        let refused = place.ask("restore", &[&name]);
        let error = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && error.contains(says), "{error}");
        assert_eq!(state(&place, &name).as_deref(), Some("dropped"));
        let left = fs::read_dir(place.data().join("tables")).expect("a folder").flatten();
        let left: Vec<_> = left.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        assert!(left.iter().all(|file| !file.starts_with(&name)), "{left:?}");
    }
    fs::remove_file(file.path()).expect("removed");
    assert_eq!(place.ask("restore", &[&name]).status.code(), Some(69), "the daemon refuses");
    fs::write(file.path(), &whole).expect("written");
    place.said("restore", &[&name]);
    daemon.stop();
}

/// `plan` shows planned steps and their reasons, with or without a daemon, and changes nothing.
#[test]
fn a_plan_changes_nothing() {
    let place = Place::new();
    let (lines, messages, day) = old_lines("old", 20);
    place.write("app.log", &[lines, vec![young("young")]].concat());
    let kept = config(&place, "30d", "").replace("\"0s\"\nmin", "\"365d\"\nmin");
    let daemon = place.start_with(&kept);
    wait_for("all is read", PATIENCE, || (place.records().len() == 21).then_some(()));
    let steps = |args: &[&str]| -> Vec<(String, String)> {
        let told = place.json("plan", args).into_iter();
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        let of_day = told.filter(|told| told["table"] == day.to_string().as_str());
        of_day.map(|told| (text(&told["step"]), text(&told["table"]))).collect()
    };
    assert_eq!(steps(&[]), []);
    // The plan of another configuration than the daemon's.
    let path = place.configure(&config(&place, "1h", ""));
    let path = path.to_str().expect("text");
    let name = day.to_string();
    let expected: Vec<_> = ["seal", "archive", "drop"].iter().map(|step| (step.to_string(), name.clone())).collect();
    assert_eq!(steps(&["--config", path]), expected);
    daemon.stop();
    assert_eq!(steps(&["--config", path]), expected);
    assert_eq!(steps(&[]), []);
    assert_kept(&place, &day, &messages, "planned");
    assert_eq!(state(&place, &name).as_deref(), Some("open"));
    assert!(place.said("plan", &["--config", path]).contains("it expired at"));
}

/// Starts a daemon with a clock `offset` seconds ahead (`+315360000`) or behind. Needs Debian's package faketime.
fn start_at(place: &Place, offset: &str, config: &str) -> Daemon {
    let library = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib"]
        .map(|folder| format!("{folder}/faketime/libfaketime.so.1"));
    let library = library.iter().find(|path| fs::exists(path).is_ok_and(|there| there)).expect("faketime is installed");
    let mut command = Command::new(DAYTABLE);
    command.arg("run").arg("--config").arg(place.configure(config));
    command.env("LD_PRELOAD", library).env("FAKETIME", offset);
    command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("NO_FAKE_STAT", "1");
    let daemon = place.spawn_command(command);
    daemon.wait_ready();
    daemon
}

/// A clock ten years ahead drops no table, removes no archive, and moves no record that has a time. With the right
/// clock again, every record is there and the daemon continues.
#[test]
fn a_clock_ten_years_ahead_drops_nothing() {
    let place = Place::new();
    let (lines, messages, day) = old_lines("old", 20);
    place.write("app.log", &[lines, vec![young("young")]].concat());
    let config = config(&place, "1d", "");
    let daemon = place.start_with(&config);
    wait_state(&place, &day.to_string(), "archived");
    daemon.stop();
    let daemon = start_at(&place, "+315576000", &config);
    let runs = || daemon.metric("daytable_lifecycle_runs_total");
    // Records with their own time contradict the clock. Records without a time get the time of arrival.
    place.write("app.log", &[young("meanwhile")]);
    place.write("bare.log", &["a line without a time".into()]);
    wait_for("some runs", PATIENCE, || runs().filter(|runs| *runs >= 4.0));
    wait_for("all is read", PATIENCE, || (place.records().len() == 23).then_some(()));
    assert_kept(&place, &day, &messages, "ten years ahead");
    assert!(daemon.metric("daytable_tables_held_back{reason=\"clock_ahead\"}").is_some_and(|days| days >= 1.0));
    assert_eq!(daemon.metric("daytable_tables_dropped_total"), Some(0.0));
    let planned = place.json("plan", &[]);
    assert!(planned.iter().any(|told| told["step"] == "stay" && told["table"] == day.to_string().as_str()));
    daemon.stop();
    let daemon = place.start_with(&config);
    place.write("app.log", &[young("after")]);
    wait_for("all is there", PATIENCE, || (place.records().len() == 24).then_some(()));
    assert_kept(&place, &day, &messages, "set right");
    daemon.stop();
}

/// A clock set back loses no record, and a record dated 2099 does not move today.
#[test]
fn a_clock_set_back_and_a_record_of_2099_lose_nothing() {
    let place = Place::new();
    let config = config(&place, "2h", "").replace(&format!("archive = \"{}\"\n", url(&place)), "");
    let daemon = place.start_with(&config);
    place.write("app.log", &[young("now"), "2099-01-01T00:00:00Z INFO far ahead".into()]);
    place.wait_for_messages(&["now".into(), "far ahead".into()]);
    let of = |message: &str| place.json("query", &["--contains", message])[0]["table"].clone();
    assert_eq!(of("far ahead"), of("now"), "it lies in today's table");
    daemon.stop();
    let daemon = start_at(&place, "-864000", &config);
    place.write("app.log", &["2099-01-01T00:00:00Z INFO farther".into()]);
    let bare = place.log("bare.log");
    fs::write(&bare, "without a time\n").expect("written");
    wait_for("all is read", PATIENCE, || (place.records().len() == 4).then_some(()));
    let runs = || daemon.metric("daytable_lifecycle_runs_total");
    let before = runs().expect("runs");
    wait_for("some runs", PATIENCE, || runs().filter(|runs| *runs >= before + 2.0));
    assert_eq!(place.records().len(), 4);
    daemon.stop();
    // The right clock makes the records from meanwhile look ten days old. They are not.
    let daemon = place.start_with(&config);
    place.write("app.log", &[young("after")]);
    wait_for("all is there", PATIENCE, || (place.records().len() == 5).then_some(()));
    let runs = || daemon.metric("daytable_lifecycle_runs_total");
    let before = runs().expect("runs");
    wait_for("some runs", PATIENCE, || runs().filter(|runs| *runs >= before + 2.0));
    assert_eq!(place.records().len(), 5);
    assert!(daemon.metric("daytable_tables_held_back{reason=\"clock_was_behind\"}").is_some_and(|days| days >= 1.0));
    daemon.stop();
}

/// Kills at the most dangerous places, one by one. Needs a build with failpoints.
#[cfg(feature = "failpoints")]
mod failpoints {
    use super::*;

    /// Starts a daemon that kills itself at `point`, and waits for its end.
    fn killed_at(place: &Place, config: &str, point: &str) {
        let mut command = Command::new(DAYTABLE);
        command.arg("run").arg("--config").arg(place.configure(config)).env("DAYTABLE_FAILPOINT", point);
        let mut daemon = place.spawn_command(command);
        assert!(!daemon.ended().success(), "{point} was not reached");
    }

    const TO_THE_ARCHIVE: [&str; 12] = [
        "seal-begun",
        "seal-written",
        "seal-manifest",
        "seal-renamed",
        "seal-before-live",
        "seal-live",
        "archive-before",
        "archive-uploaded",
        "archive-read-back",
        "archive-manifest",
        "archive-proven",
        "archive-noted",
    ];

    #[test]
    fn a_kill_between_and_inside_the_steps_to_the_drop() {
        for point in TO_THE_ARCHIVE.into_iter().chain(["drop-before", "drop-after"]) {
            let place = Place::new();
            let (lines, messages, day) = old_lines("old", 300);
            place.write("young.log", &[young("young")]);
            place.write("app.log", &lines);
            let config = config(&place, "1h", "");
            let waiting = config.replace("\"1h\"", "\"30d\"").replace("\"0s\"\nmin", "\"365d\"\nmin");
            let daemon = place.start_with(&waiting);
            wait_for("all is read", PATIENCE, || (place.records().len() == 301).then_some(()));
            daemon.stop();
            killed_at(&place, &config, point);
            assert_kept(&place, &day, &messages, point);
            let daemon = place.start_with(&config);
            wait_state(&place, &day.to_string(), "dropped");
            assert_eq!(archives(&place, &day).len(), 1, "{point}");
            daemon.stop();
            assert_kept(&place, &day, &messages, point);
            place.said("restore", &[&day.to_string()]);
            assert_kept(&place, &day, &messages, point);
            place.assert_no_key_twice();
            let files = fs::read_dir(place.data().join("tables")).expect("a folder").flatten();
            let files: Vec<_> = files.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
            assert!(files.iter().all(|name| !name.ends_with(".partial")), "{point}: {files:?}");
        }
    }

    #[test]
    fn a_kill_where_a_day_stays_in_its_pages() {
        let place = Place::new();
        let (lines, name) = lines_of_numbers(5, 20_000);
        place.write("app.log", &[lines, vec![young("young")]].concat());
        let config = config(&place, "30d", "");
        let config = config.lines().filter(|line| !line.starts_with("archive")).collect::<Vec<_>>().join("\n");
        let daemon = place.start_with(&config.replace("seal_after = \"0s\"", "seal_after = \"365d\""));
        wait_for("all is read", 2 * PATIENCE, || {
            (daemon.metric("daytable_records_committed_total") == Some(20_001.0)).then_some(())
        });
        daemon.stop();
        killed_at(&place, &config, "seal-kept-open");
        let daemon = place.start_with(&config);
        assert_eq!(place.json("count", &[])[0]["records"].as_u64(), Some(20_001));
        assert_eq!(state(&place, &name).as_deref(), Some("open"));
        daemon.stop();
        let files = fs::read_dir(place.data().join("tables")).expect("a folder").flatten();
        let files: Vec<_> = files.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        assert!(files.iter().all(|name| !name.contains("parquet")), "{files:?}");
    }

    /// A step that kills the daemon does not kill it at each start.
    #[test]
    fn a_step_that_was_killed_twice_is_left_until_a_command_takes_it() {
        for (point, step) in [("seal-written", "seal"), ("archive-uploaded", "archive")] {
            let place = Place::new();
            let (lines, messages, day) = old_lines("old", 300);
            let name = day.to_string();
            place.write("app.log", &[lines, vec![young("young")]].concat());
            let config = config(&place, "30d", "");
            let waiting = config.replace("seal_after = \"0s\"", "seal_after = \"365d\"");
            let daemon = place.start_with(&waiting);
            wait_for("all is read", PATIENCE, || (place.records().len() == 301).then_some(()));
            daemon.stop();
            killed_at(&place, &config, point);
            killed_at(&place, &config, point);
            let daemon = place.start_with(&config);
            wait_for("its day is named", PATIENCE, || {
                (daemon.metric("daytable_tables_held_back{reason=\"interrupted\"}") == Some(1.0)).then_some(())
            });
            let shown = table(&place, &name).expect("it stands");
            let error = shown["error"].as_str().unwrap_or_default();
            assert!(error.contains(&format!("killed 2 times during `{step}`")), "{shown}");
            let status = place.said("status", &[]);
            assert!(status.contains(&name) && status.contains("killed 2 times"), "{status}");
            assert_kept(&place, &day, &messages, point);
            daemon.stop();

            // A stop in order does not count, and the next daemon leaves the step as well.
            let daemon = place.start_with(&config);
            wait_for("its day is still named", PATIENCE, || {
                (daemon.metric("daytable_tables_held_back{reason=\"interrupted\"}") == Some(1.0)).then_some(())
            });
            place.said("archive", &[&name]);
            wait_state(&place, &name, "archived");
            assert_eq!(archives(&place, &day).len(), 1, "{point}");
            wait_for("nothing is left", PATIENCE, || {
                table(&place, &name).filter(|shown| shown["error"].is_null()).map(drop)
            });
            daemon.stop();
        }
    }

    #[test]
    fn a_kill_while_a_day_is_restored() {
        let points = ["restore-begun", "fetch-written", "restore-fetched", "restore-before-live", "restore-live"];
        for point in points {
            let place = Place::new();
            let (lines, messages, day) = old_lines("old", 300);
            place.write("app.log", &[lines, vec![young("young")]].concat());
            let daemon = place.start_with(&config(&place, "30d", ""));
            wait_state(&place, &day.to_string(), "archived");
            daemon.stop();
            let daemon = place.start_with(&config(&place, "1h", ""));
            wait_state(&place, &day.to_string(), "dropped");
            daemon.stop();
            let mut restore = place.command("restore");
            restore.arg(day.to_string()).env("DAYTABLE_FAILPOINT", point);
            assert!(!restore.output().expect("run").status.success(), "{point} was not reached");
            assert_kept(&place, &day, &messages, point);
            place.said("restore", &[&day.to_string()]);
            assert_kept(&place, &day, &messages, point);
            assert_eq!(messages_in(&place, &day.to_string()).len(), 300, "{point}");
        }
    }

    #[test]
    fn a_kill_while_a_new_generation_takes_the_place_of_the_old() {
        let points = TO_THE_ARCHIVE.into_iter().chain(["archive-dropping", "archive-dropping:2", "archive-removed"]);
        for point in points {
            let place = Place::new();
            let (lines, messages, day) = old_lines("old", 100);
            let name = day.to_string();
            place.write("app.log", &[lines, vec![young("young")]].concat());
            let config = config(&place, "30d", "");
            let daemon = place.start_with(&config);
            wait_state(&place, &name, "archived");
            let (late, late_messages, _) = old_lines("late", 3);
            place.write("late.log", &late);
            let all = [messages, late_messages].concat();
            wait_for("the late ones", PATIENCE, || (messages_in(&place, &name).len() == 103).then_some(()));
            daemon.stop();
            if point.starts_with("archive-dropping") || point == "archive-removed" {
                place.said("archive", &[&name]);
                killed_at(&place, &config, point);
            } else {
                let mut archive = place.command("archive");
                archive.arg(&name).env("DAYTABLE_FAILPOINT", point);
                assert!(!archive.output().expect("run").status.success(), "{point} was not reached");
            }
            assert_kept(&place, &day, &all, point);
            let before = archives(&place, &day);
            assert!(!before.is_empty(), "{point}: there is no archive");
            place.said("archive", &[&name]);
            let daemon = place.start_with(&config);
            wait_for("one archive", PATIENCE, || {
                let rows: Vec<u64> = archives(&place, &day).iter().map(|(_, rows)| *rows).collect();
                (rows == [103]).then_some(())
            });
            assert_kept(&place, &day, &all, point);
            daemon.stop();
        }
    }
}
