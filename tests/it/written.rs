//! What was written comes back, byte for byte: the lines of records, and whole files, in every state of a day.

use crate::place::{PATIENCE, Place, wait_for};
use daytable_model::key::{DayTable, Period, TableName};
use daytable_model::time::now;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A file that the source with this path gives again.
fn exported(place: &Place, path: &Path, more: &[&str]) -> Vec<u8> {
    let path = path.display().to_string();
    let output = place.ask("export", &[&["--raw", "--source", &path], more].concat());
    assert!(output.status.success(), "{path}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

#[track_caller]
fn assert_same(found: &[u8], expected: &[u8], of: &str) {
    let at = found.iter().zip(expected).position(|(a, b)| a != b).unwrap_or(found.len().min(expected.len()));
    let near =
        |bytes: &[u8]| String::from_utf8_lossy(&bytes[at.saturating_sub(40)..bytes.len().min(at + 40)]).into_owned();
    assert!(found == expected, "{of}: at byte {at}, {:?} is not {:?}", near(found), near(expected));
}

/// Every golden file, and files with odd bytes around and in their lines.
#[test]
fn imported_files_are_written_again() {
    let place = Place::new();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let files =
        walkdir::WalkDir::new(golden).into_iter().map(|file| file.expect("golden files can be listed").into_path());
    let mut paths: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|extension| extension == "log")).collect();
    for (number, bytes) in [
        &b"\xef\xbb\xbfone\r\ntwo\r\n\r\n\r\nthree"[..],
        b"\n\n2026-11-20 08:00:00 a \xff\xfe\n\tat b\n\n\n",
        b"{\"a\": 1.50,\"b\":1e5, \"c\":-0,\"d\":123456789012345678901234567890,\"e\":\"\\u0041\\n\",\"a\":2}\n{\"a\":1}\n",
        b"2026-11-20T08:00:00.123456789+01:00 INFO n=007 \x00 x=\"\\x1b\"\n1763625600 x\n",
        b"2026-11-20T08:00:00Z stdout P a\n2026-11-20T08:00:01Z stderr F b\n2026-11-20T08:00:02Z stdout F c\n",
    ]
    .into_iter()
    .enumerate()
    {
        paths.push(place.log(&format!("odd-{number}.txt")));
        fs::write(&paths[paths.len() - 1], bytes).expect("a file");
    }
    let args: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    place.said("import", &args.iter().map(String::as_str).collect::<Vec<_>>());
    for path in &paths {
        assert_same(&exported(&place, path, &[]), &fs::read(path).expect("a file"), &path.display().to_string());
    }
    let raw = place.ask("query", &["--raw", "--contains", " x=\"\\x1b\""]).stdout;
    assert_same(&raw, b"2026-11-20T08:00:00.123456789+01:00 INFO n=007 \x00 x=\"\\x1b\"\n", "query --raw");
    let none = place.ask("export", &["--raw", "--source", "/none"]);
    assert_eq!((none.status.code(), none.stdout.len()), (Some(66), 0));
}

/// A day with lines of many forms, open, sealed, archived and restored; and a rotated file, its older part first.
#[test]
fn a_file_comes_back_from_every_state_of_its_day() {
    let place = Place::new();
    let start = Period::Hour.start(now().minus(Duration::from_secs(5 * 3600)));
    let line = |n: u64| {
        let time = start.plus(Duration::from_millis(n * 17));
        match n % 6 {
            0 => format!("{time} INFO request done path=/a/{n} status=200 took=0.25\n").into_bytes(),
            1 => format!("{{\"time\":\"{time}\",\"level\":\"warn\",\"msg\":\"slow \\\"{n}\\\"\",\"took\":{n}.50}}\n")
                .into_bytes(),
            2 => format!("{{\"ts\" : \"{time}\", \"n\": {n}, \"ok\": true, \"x\": null, \"n\": 1}}\r\n").into_bytes(),
            3 => [format!("{time} ERROR caf").as_bytes(), b"\xe9 is closed\n\tat a.b\n\n"].concat(),
            4 => format!("time={time} level=info msg=\"a b\" n=00{n}\n").into_bytes(),
            _ => format!("{time} DEBUG {n}\n").into_bytes(),
        }
    };
    let older: Vec<u8> = (0..600).flat_map(line).collect();
    let newer: Vec<u8> = (600..700).flat_map(line).collect();
    let whole = [older.as_slice(), &newer].concat();
    let archive = format!("file://{}", place.path("archive").display());
    let config = |keep: &str| {
        format!(
            "[lifecycle]\nschedule = \"* * * * * *\"\ngrace = \"0s\"\nseal_after = \"0s\"\nmin_tables = 0\n\
             [[table]]\nname = \"Log\"\nkeep = \"{keep}\"\nperiod = \"hour\"\narchive = \"{archive}\"\n\
             [[tail]]\ninclude = [\"LOGS/*.log\"]\ninstance = \"test\"\n"
        )
    };
    let (log, name) =
        (place.log("app.log"), DayTable::at(&TableName::new("Log").expect("a name"), Period::Hour, start));
    let name = name.to_string();
    fs::write(&log, &older).expect("a file");
    // A record with the present time confirms the clock.
    fs::write(place.log("young.log"), format!("{} INFO young\n", now())).expect("a file");
    let wait_state = |wanted: &str| {
        wait_for(&format!("{name} is {wanted}"), PATIENCE, || {
            let tables = place.json("tables", &[]);
            tables.iter().any(|table| table["table"] == *name && table["state"] == wanted).then_some(())
        });
    };
    let daemon = place.start_with(&config("30d"));
    wait_for("the older part is read", PATIENCE, || (exported_bytes(&place, &log) == older.len()).then_some(()));
    fs::rename(&log, place.log("app.log.1")).expect("renamed");
    fs::write(&log, &newer).expect("a file");
    wait_for("both parts are read", PATIENCE, || (exported_bytes(&place, &log) == whole.len()).then_some(()));
    assert_same(&exported(&place, &log, &[]), &whole, "two sources");

    let config_path = place.path("daytable.toml").display().to_string();
    let more = ["--config", &*config_path];
    assert_same(&exported(&place, &log, &more), &whole, "perhaps sealed, with late records");
    // The daemon may have sealed all by itself meanwhile.
    let asked = place.ask("archive", &[&name]);
    assert!(asked.status.success() || String::from_utf8_lossy(&asked.stderr).contains("nothing to seal"), "{asked:?}");
    wait_state("archived");
    assert_same(&exported(&place, &log, &more), &whole, "sealed");
    daemon.stop();
    let daemon = place.start_with(&config("1h"));
    wait_state("dropped");
    assert_same(&exported(&place, &log, &more), &whole, "archived only");
    for (text, records) in
        [("path=/a/6 status=200", 1), ("\"n\": 8, \"ok\": true", 1), ("caf\u{fffd} is", 117), ("WARN", 0)]
    {
        let counted = place.json("count", &["--contains", text, "--config", &config_path]);
        assert_eq!(counted.first().and_then(|count| count["records"].as_u64()).unwrap_or(0), records, "{text}");
    }
    place.said("restore", &["--keep", "1d", &name]);
    assert_same(&exported(&place, &log, &more), &whole, "restored");
    daemon.stop();
}

/// The number of bytes that an export gives so far.
fn exported_bytes(place: &Place, log: &Path) -> usize {
    place.ask("export", &["--raw", "--source", &log.display().to_string()]).stdout.len()
}
