//! Files that are imported again: shorter than before, as copies, or with other content. No line is stored twice or lost.

use crate::place::{Place, TAIL, append};
use std::fs;
use std::io::Write;

/// Lines with a time, of the first to the last second of a minute.
fn lines(seconds: std::ops::Range<usize>, what: &str) -> Vec<String> {
    let line = |n: usize| {
        format!(
            "2026-11-20T{:02}:{:02}:{:02}Z INFO {what} {n:05} {}",
            8 + n / 3600,
            n / 60 % 60,
            n % 60,
            "p".repeat(40)
        )
    };
    seconds.map(line).collect()
}

/// The messages of such lines.
fn messages(lines: &[String]) -> Vec<String> {
    lines.iter().map(|line| line.split_once("INFO ").expect("a level").1.to_owned()).collect()
}

fn text(lines: &[String]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

/// A configuration that follows files with this pattern, under the instance of an import, and keeps old days.
fn following(pattern: &str) -> String {
    let tail = TAIL.replace("*.log", pattern).replace("\"test\"", "\"{host}\"");
    format!("{tail}[[table]]\nname = \"Log\"\nkeep = \"4000d\"\n")
}

fn import(place: &Place, name: &str) -> String {
    let (config, path) = (place.path("daytable.toml"), place.log(name));
    let said = place.said("import", &["--config", &config.display().to_string(), &path.display().to_string()]);
    said.trim().to_owned()
}

/// An import of `name` adds so many records, and then these and no others are there.
fn assert_imports(place: &Place, name: &str, new: usize, expected: &[String], what: &str) {
    let said = import(place, name);
    let plural = if new == 1 { "" } else { "s" };
    assert!(said.starts_with(&format!("{new} new record{plural} from 1 file")), "{what}: {said}");
    place.wait_for_messages(expected);
    place.assert_no_key_twice();
    let verified = place.said("verify", &[]);
    assert!(verified.contains("whole"), "{what}: {verified}");
}

/// Another file with the name, as `mv`, `rsync` and a restored backup leave it.
fn save(place: &Place, name: &str, bytes: &[u8]) {
    fs::write(place.path("saved"), bytes).expect("written");
    fs::rename(place.path("saved"), place.log(name)).expect("renamed");
}

fn truncate(place: &Place, name: &str, size: usize) {
    let file = fs::File::options().write(true).open(place.log(name)).expect("opened");
    file.set_len(size as u64).expect("truncated");
}

/// A file without its newest lines, then with one more, then whole again: each line is stored once.
fn shorten_and_restore(place: &Place) {
    let mut expected = Vec::new();
    type Change = fn(&Place, &str, &[u8]);
    let changes: [(&str, Change, (usize, usize)); 6] = [
        ("renamed.log", save, (59, 0)),
        ("written.log", |place, name, bytes| fs::write(place.log(name), bytes).expect("written"), (57, 0)),
        ("truncated.log", |place, name, bytes| truncate(place, name, bytes.len()), (40, 0)),
        ("cut.log", |place, name, bytes| truncate(place, name, bytes.len()), (58, 20)),
        ("few.log", save, (3, 0)),
        ("one.gz", |place, name, bytes| save(place, name, &gzipped(bytes)), (1, 0)),
    ];
    for (name, change, (kept, cut)) in changes {
        let (word, _) = name.split_once('.').expect("an ending");
        let of_name = text(&lines(0..60, word));
        // So many lines, the last of them without its last bytes.
        let size = of_name.len() / 60 * kept - cut;
        let write = |bytes: &[u8]| match name.ends_with(".gz") {
            true => save(place, name, &gzipped(bytes)),
            false => fs::write(place.log(name), bytes).expect("written"),
        };
        write(of_name.as_bytes());
        expected.extend(messages(&lines(0..60, word)));
        assert_imports(place, name, 60, &expected, name);

        change(place, name, &of_name.as_bytes()[..size]);
        assert_imports(place, name, 0, &expected, &format!("{name} without lines"));
        assert_imports(place, name, 0, &expected, &format!("{name} without lines, again"));
        write(of_name.as_bytes());
        assert_imports(place, name, 0, &expected, &format!("{name} whole again"));

        let kept = &of_name.as_bytes()[..of_name[..size].rfind('\n').map_or(0, |newline| newline + 1)];
        let new = lines(300..302, &format!("new in {word}"));
        change(place, name, kept);
        write(&[kept, text(&new[..1]).as_bytes()].concat());
        expected.extend(messages(&new[..1]));
        assert_imports(place, name, 1, &expected, &format!("{name} with another line"));
        write(&[kept, text(&new[..1]).as_bytes(), new[1].as_bytes()].concat());
        expected.extend(messages(&new[1..]));
        assert_imports(place, name, 1, &expected, &format!("{name} with a line without an end"));
        if kept.len() > 1024 {
            write(of_name.as_bytes());
            assert_imports(place, name, 0, &expected, &format!("{name} whole at last"));
        }
    }
}

#[test]
fn a_file_without_its_newest_lines_has_nothing_new() {
    let place = Place::new();
    place.configure(&following("*.nothing"));
    shorten_and_restore(&place);
}

#[test]
fn nor_has_it_for_a_running_daemon() {
    let place = Place::new();
    let daemon = place.start_with(&following("*.nothing"));
    shorten_and_restore(&place);
    daemon.stop();
}

/// A file that was imported, lost lines, and is followed then goes on at the line that it still has.
#[test]
fn a_file_that_lost_lines_since_its_import_is_followed_from_there() {
    for is_imported_again in [false, true] {
        let place = Place::new();
        place.configure(&following("*.log"));
        let all = lines(0..60, "line");
        let mut expected = Vec::new();
        for name in ["renamed.log", "truncated.log"] {
            let all = text(&all).replace(" line ", &format!(" {name} "));
            fs::write(place.log(name), &all).expect("written");
            expected.extend(messages(&lines(0..60, name)));
            assert_imports(&place, name, 60, &expected, name);
            let size = all.len() / 60 * 50;
            match name {
                "renamed.log" => save(&place, name, &all.as_bytes()[..size]),
                _ => truncate(&place, name, size),
            }
            if is_imported_again {
                assert_imports(&place, name, 0, &expected, name);
            }
        }
        for name in ["renamed.log", "truncated.log"] {
            let new = lines(300..301, &format!("new in {name}"));
            append(&place.log(name), text(&new).as_bytes());
            expected.extend(messages(&new));
        }
        let daemon = place.start_with(&following("*.log"));
        place.wait_for_messages(&expected);
        for name in ["renamed.log", "truncated.log"] {
            let new = lines(400..401, &format!("newer in {name}"));
            append(&place.log(name), text(&new).as_bytes());
            expected.extend(messages(&new));
        }
        place.finish(daemon, &following("*.log"), &expected);
        assert!(place.said("verify", &[]).contains("whole"));
    }
}

/// Copies whose names a rotation makes, also of a file that has grown since.
#[test]
fn a_copy_of_the_beginning_of_a_file_has_nothing_new() {
    let place = Place::new();
    place.configure(&following("*.nothing"));
    let all = lines(0..3000, "line");
    let (whole, part) = (text(&all), text(&all[..2000]));
    let members = [gzipped(&part.as_bytes()[..50_000]), gzipped(&part.as_bytes()[50_000..])].concat();
    fs::write(place.log("a.log"), &whole).expect("written");
    assert_imports(&place, "a.log", 3000, &messages(&all), "the file");
    let zstd = |text: &str| zstd::encode_all(text.as_bytes(), 1).expect("memory");
    let copies = [
        ("a.log.1.gz", gzipped(whole.as_bytes())),
        ("a.log.2.gz", gzipped(part.as_bytes())),
        ("a.log.3.gz", members),
        ("a.log.zst", zstd(&whole)),
        ("a.log-20261120.zst", zstd(&part)),
        ("a-20261120.log", part.clone().into_bytes()),
        ("a.log~", part.as_bytes()[..part.len() - 9].to_vec()),
    ];
    for (name, bytes) in &copies {
        fs::write(place.log(name), bytes).expect("written");
        assert_imports(&place, name, 0, &messages(&all), name);
    }
    // The file itself is where it was.
    let (more, path) = (lines(3000..3001, "line"), place.log("a.log"));
    append(&path, text(&more).as_bytes());
    let expected = messages(&[all, more].concat());
    assert_imports(&place, "a.log", 1, &expected, "the file, with another line");
    fs::remove_file(path).expect("removed");
    for (name, _) in &copies {
        assert_imports(&place, name, 0, &expected, &format!("{name}, and the file is gone"));
    }
    fs::write(place.log("a.log"), text(&lines(0..3001, "line"))).expect("written");
    assert_imports(&place, "a.log", 0, &expected, "the file, which is back");
}

/// The same first lines prove little: records of the same times at the same places must not be replaced.
#[test]
fn other_content_behind_the_same_beginning_is_read_whole() {
    let place = Place::new();
    place.configure(&following("*.nothing"));
    let all = lines(0..60, "line");
    fs::write(place.log("a.log"), text(&all)).expect("written");
    let mut expected = messages(&all);
    assert_imports(&place, "a.log", 60, &expected, "the file");
    let other = [&all[..16], &lines(16..60, "else")].concat();
    assert!(text(&other[..16]).len() > 1024);
    save(&place, "a.log", text(&other).as_bytes());
    expected.extend(messages(&other));
    assert_imports(&place, "a.log", 60, &expected, "the other file");
    // A new file, in which the program wrote on later.
    let later = [&all[..16], &lines(600..630, "later")].concat();
    save(&place, "a.log", text(&later).as_bytes());
    expected.extend(messages(&later[16..]));
    assert_imports(&place, "a.log", 30, &expected, "the later file");
}

/// Files of two hosts may be equal from the first byte to the last, so only names of one rotation make a copy.
#[test]
fn equal_files_of_other_names_or_folders_are_others() {
    let place = Place::new();
    place.configure(&following("*.nothing"));
    let all = lines(0..40, "line");
    fs::create_dir(place.log("web-2")).expect("made");
    let mut expected = Vec::new();
    for name in ["app.log", "web-2/app.log", "copy.gz"] {
        let bytes = if name == "copy.gz" { gzipped(text(&all).as_bytes()) } else { text(&all).into_bytes() };
        fs::write(place.log(name), bytes).expect("written");
        expected.extend(messages(&all));
        assert_imports(&place, name, 40, &expected, name);
        assert_imports(&place, name, 0, &expected, name);
    }
}
