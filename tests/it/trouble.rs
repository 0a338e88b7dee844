//! Problems around the daemon: each gets a clear message, and loses no record.

use crate::place::{DAYTABLE, Daemon, Lines, PATIENCE, Place, TAIL, numbered, wait_for};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A day whose records do not expire during the tests, for lines with a time of their own.
fn today() -> String {
    daytable_model::time::now().to_string()
}

fn error_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// An error in the configuration names the line and the correction. The exit code is `EX_CONFIG`.
#[test]
fn a_bad_configuration_names_key_line_and_fix() {
    let place = Place::new();
    for (text, says) in [
        ("[[tail]]\nincludes = [\"/x\"]\n", vec![":5:", "includes", "include"]),
        ("[[tail]]\ninclude = [\"/x\"]\nline_bytes_max = 1024\n", vec![":6:", "line_bytes_max", "KiB"]),
        ("[lifecycle]\nschedule = \"every day\"\n", vec![":5:", "schedule"]),
        ("[[table]]\nname = \"Log_1\"\n", vec![":5:", "name"]),
        ("[[table]]\nname = \"Log\"\nkeep = \"30\"\n", vec![":6:", "keep"]),
        ("[store]\nkind = \"postgres\"\n", vec![":5:", "kind", "embedded"]),
        ("[store\n", vec![":4:"]),
    ] {
        // `data_dir`, `[http]` and `listen` come first.
        let path = place.path("daytable.toml");
        let data = place.data();
        fs::write(&path, format!("data_dir = \"{}\"\n[http]\nlisten = \"off\"\n{text}", data.display()))
            .expect("written");
        for command in ["check", "run"] {
            let output = Command::new(DAYTABLE).arg(command).arg("--config").arg(&path).output().expect("run");
            let error = error_of(&output);
            assert_eq!(output.status.code(), Some(78), "{command} {text}: {error}");
            assert!(error.contains("daytable.toml"), "{error}");
            for word in &says {
                assert!(error.contains(word), "{command} {text:?} does not say {word}: {error}");
            }
        }
        assert!(!data.exists(), "a daemon that cannot run makes no data folder");
    }
}

/// A missing configuration, and a missing token.
#[test]
fn what_the_configuration_names_and_is_not_there_is_named() {
    let place = Place::new();
    let missing = place.path("missing.toml");
    let output = Command::new(DAYTABLE).arg("run").arg("--config").arg(&missing).output().expect("run");
    assert_eq!(output.status.code(), Some(78));
    assert!(error_of(&output).contains("missing.toml"), "{}", error_of(&output));
    let config = place.configure("[http]\nlisten = \"127.0.0.1:0\"\ntoken_file = \"LOGS/no-token\"\n");
    let output = Command::new(DAYTABLE).arg("run").arg("--config").arg(config).output().expect("run");
    assert!(!output.status.success());
    assert!(error_of(&output).contains("no-token"), "{}", error_of(&output));
}

/// Folders, sockets without a writer and broken links are reported where they hide a file, and never block the daemon.
#[test]
fn what_cannot_be_read_does_not_keep_the_rest_from_being_read() {
    let place = Place::new();
    fs::create_dir(place.log("folder.log")).expect("a folder");
    symlink(place.log("nowhere"), place.log("dangling.log")).expect("a link");
    symlink(place.log("loop.log"), place.log("loop.log")).expect("a link");
    let fifo = place.log("fifo.log");
    let made = Command::new("mkfifo").arg(&fifo).status().expect("mkfifo");
    assert!(made.success());
    place.write("good.log", &["the good one".into()]);
    let daemon = place.start();
    place.wait_for_messages(&["the good one".into()]);
    place.write("nowhere", &["no longer dangling".into()]);
    place.finish(daemon, TAIL, &["the good one".into(), "no longer dangling".into()]);
}

/// An unreadable file is named, and read as soon as permissions allow. Root can read every file. In tests under root,
/// the daemon therefore runs as `nobody`.
#[test]
fn a_file_that_may_not_be_read_is_named_and_read_once_it_may() {
    let place = Place::new();
    place.write("secret.log", &["behind the door".into()]);
    place.write("good.log", &["the good one".into()]);
    let secret = place.log("secret.log");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o000)).expect("set");
    let daemon = start_unprivileged(&place, TAIL);
    place.wait_for_messages(&["the good one".into()]);
    daemon.wait_said("secret.log");
    assert!(daemon.metric("daytable_read_errors_total").is_some_and(|errors| errors >= 1.0), "it is counted");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o644)).expect("set");
    place.wait_for_messages(&["the good one".into(), "behind the door".into()]);
    daemon.stop();
}

/// Starts the daemon as a user that is not root.
fn start_unprivileged(place: &Place, config: &str) -> Daemon {
    let config = place.configure(config);
    let run = ["run".into(), "--config".into(), config.into_os_string()];
    let daemon = if rustix::process::geteuid().is_root() {
        const NOBODY: u32 = 65_534;
        fs::create_dir(place.data()).expect("a data folder");
        std::os::unix::fs::chown(place.data(), Some(NOBODY), Some(NOBODY)).expect("given away");
        // A copy: the binary under test may lie where only root has access.
        let binary = place.path("daytable");
        fs::copy(DAYTABLE, &binary).expect("copied");
        for path in [place.path(""), place.path("logs"), binary.clone()] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("set");
        }
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]).arg(binary).args(run);
        place.spawn_command(command)
    } else {
        let mut command = Command::new(DAYTABLE);
        command.args(run);
        place.spawn_command(command)
    };
    daemon.wait_ready();
    daemon
}

/// A small in-memory file system, mounted on a folder. Dropping the value unmounts it.
pub(crate) struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None` if this process may not mount, which the test's output says.
    pub(crate) fn mount(at: &Path, size: &str) -> Option<SmallDisk> {
        fs::create_dir_all(at).expect("a folder");
        let options = format!("size={size},mode=0700");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(at).output();
        let disk = mounted.is_ok_and(|output| output.status.success()).then(|| SmallDisk(at.into()));
        if disk.is_none() {
            eprintln!(
                "NOT SHOWN: a small disk. This process may not mount a tmpfs (CAP_SYS_ADMIN); run the tests as root."
            );
        }
        disk
    }

    pub(crate) fn grow(&self, size: &str) {
        self.remount(&format!("size={size}"));
    }

    /// Remounts with other options, such as `ro`.
    pub(crate) fn remount(&self, options: &str) {
        let options = format!("remount,{options}");
        let mounted = Command::new("mount").args(["-o", &options]).arg(&self.0).status().expect("mount");
        assert!(mounted.success(), "the disk cannot be mounted with {options}");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // A lazy unmount: only a failed test still has files open.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Incompressible lines, larger than a small disk.
pub(crate) fn lines_of_noise() -> Vec<String> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut noise = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..100_000)
        .map(|number| format!("line {number} {:016x}{:016x}{:016x}{:016x}", noise(), noise(), noise(), noise()))
        .collect()
}

/// The user has no watches left for some folders and files: they are polled, and nothing is lost.
#[test]
fn what_the_kernel_does_not_watch_is_read_all_the_same() {
    let place = Place::new();
    let config = "[[tail]]\ninclude = [\"LOGS/**/*.log\"]\ninstance = \"test\"\n";
    let limited = |config: PathBuf| {
        let mut command = Command::new("unshare");
        let script = "echo 3 >/proc/sys/user/max_inotify_watches && exec \"$@\"";
        command.args(["--user", "--map-root-user", "sh", "-c", script, "sh", DAYTABLE, "run", "--config"]).arg(config);
        command
    };
    let folders: Vec<String> = (0..6).map(|number| format!("folder-{number}")).collect();
    let mut lines = Vec::new();
    let mut write = |name: &str| {
        let line = format!("line {} of {name}", lines.len());
        place.write(name, std::slice::from_ref(&line));
        lines.push(line);
    };
    for folder in &folders {
        fs::create_dir_all(place.log(folder)).expect("made");
        write(&format!("{folder}/app.log"));
    }
    let daemon = place.spawn_command(limited(place.configure(config)));
    if !wait_for("it is ready, or may not run", PATIENCE, || {
        (daemon.socket().exists() || !daemon.said().is_empty()).then(|| !daemon.said().starts_with("unshare:"))
    }) {
        eprintln!("NOT SHOWN: the limit of watches. This process may not make a user namespace.");
        return;
    }
    daemon.wait_ready();
    daemon.wait_said("the limit of watched folders is reached");
    for folder in &folders {
        write(&format!("{folder}/app.log"));
        fs::rename(place.log(&format!("{folder}/app.log")), place.log(&format!("{folder}/app.1.log")))
            .expect("renamed");
        write(&format!("{folder}/app.log"));
    }
    fs::create_dir_all(place.log("new/below")).expect("made");
    write("new/below/app.log");
    place.finish(daemon, config, &lines);
}

/// On a full disk the daemon reports the problem, runs on, and resumes once there is room.
#[test]
fn a_full_disk_is_reported_and_loses_nothing() {
    let place = Place::new();
    let Some(disk) = SmallDisk::mount(&place.data(), "3m") else { return };
    let daemon = place.start();
    let lines = lines_of_noise();
    place.write("app.log", &lines);
    wait_for("the failure is counted", PATIENCE, || {
        daemon.metric("daytable_commit_failures_total").filter(|failures| *failures >= 1.0)
    });
    daemon.wait_said("is full");
    let before = daemon.metric("daytable_records_committed_total");
    assert!(before < Some(100_000.0), "the disk was large enough: {before:?}");
    // The daemon still answers, and accepted records can be read.
    let said = place.ask("query", &["-n", "1"]);
    assert!(said.status.success(), "{}", error_of(&said));
    let status = String::from_utf8(place.ask("status", &[]).stdout).expect("text");
    assert!(status.contains("store cannot write since") && status.contains("is full"), "{status}");
    // What cannot be done until there is room is refused at once.
    let table = place.json("tables", &[])[0]["table"].as_str().expect("a name").to_owned();
    for command in ["archive", "restore"] {
        let refused = place.ask(command, &[&*table]);
        let error = error_of(&refused);
        assert_eq!(refused.status.code(), Some(75), "{command}: {error}");
        assert!(error.contains("the store cannot write since") && error.contains("nothing was changed"), "{error}");
    }
    disk.grow("64m");
    place.finish(daemon, TAIL, &lines);
}

/// Ends a thread that looks at it, when its test fails as well.
struct EndsOnDrop<'a>(&'a AtomicBool);

impl Drop for EndsOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Another program takes each block that becomes free, so that not even the shared memory of a journal could be made.
#[test]
fn records_are_read_on_a_disk_that_has_no_block_left() {
    let place = Place::new();
    let Some(disk) = SmallDisk::mount(&place.data(), "3m") else { return };
    let daemon = place.start();
    let lines = lines_of_noise();
    place.write("app.log", &lines[..2_000]);
    wait_for("the first are committed", PATIENCE, || {
        (daemon.metric("daytable_records_committed_total") == Some(2_000.0)).then_some(())
    });
    let filler = place.data().join("of-another-program");
    let mut file = File::create(&filler).expect("created");
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                while file.write_all(&[7; 4096]).is_ok() {}
                std::thread::yield_now();
            }
        });
        let _ends = EndsOnDrop(&ends);
        place.write("app.log", &lines[2_000..4_000]);
        wait_for("the failure is counted", PATIENCE, || {
            daemon.metric("daytable_commit_failures_total").filter(|failures| *failures >= 1.0)
        });
        // The store tries to open its folder every half a second.
        let until = Instant::now() + Duration::from_secs(2);
        while Instant::now() < until {
            let said = place.ask("query", &["-n", "1"]);
            assert!(said.status.success(), "{}", error_of(&said));
            let said = place.ask("count", &[]);
            assert!(said.status.success(), "{}", error_of(&said));
            assert_eq!(String::from_utf8_lossy(&said.stdout).trim(), "2000");
        }
    });
    fs::remove_file(&filler).expect("removed");
    disk.grow("64m");
    place.finish(daemon, TAIL, &lines[..4_000]);
}

/// Records from a socket, which cannot be read again, are not lost either.
#[test]
fn a_full_disk_holds_senders_back_and_loses_nothing_of_theirs() {
    let place = Place::new();
    let Some(disk) = SmallDisk::mount(&place.data(), "3m") else { return };
    let socket = place.path("log");
    let config = format!("[[syslog]]\nlisten = \"unix-stream://{}\"\n", socket.display());
    let daemon = place.start_with(&config);
    let lines = lines_of_noise();
    let sending = std::thread::spawn({
        let (lines, mut stream) = (lines.clone(), UnixStream::connect(&socket).expect("connected"));
        move || lines.iter().for_each(|line| stream.write_all(format!("<13>app: {line}\n").as_bytes()).expect("sent"))
    });
    wait_for("the failure is counted", PATIENCE, || {
        daemon.metric("daytable_commit_failures_total").filter(|failures| *failures >= 1.0)
    });
    disk.grow("64m");
    sending.join().expect("sent");
    place.wait_for_messages(&lines);
    daemon.stop();
    place.wait_for_messages(&lines);
}

/// One daemon per folder: a second daemon names the first, and the first runs on.
#[test]
fn a_second_daemon_is_told_who_is_there() {
    let place = Place::new();
    let daemon = place.start();
    let config = place.configure(TAIL);
    let output = Command::new(DAYTABLE).arg("run").arg("--config").arg(config).output().expect("run");
    let error = error_of(&output);
    assert_eq!(output.status.code(), Some(75), "{error}");
    assert!(error.contains("in use") && error.contains(&daemon.pid().to_string()), "{error}");
    assert!(error.contains(&place.data().display().to_string()), "{error}");
    let lines = numbered("line", 10);
    place.write("app.log", &lines);
    place.finish(daemon, TAIL, &lines);
}

/// The day-table files of a data folder.
fn tables_with_rows(place: &Place) -> Vec<PathBuf> {
    let tables = place.json("tables", &[]);
    let has_rows = |name: &str| {
        tables.iter().any(|table| name.starts_with(table["table"].as_str().unwrap_or("-")) && table["rows"] != 0)
    };
    let files = fs::read_dir(place.data().join("tables")).expect("a folder");
    let files = files.map(|file| file.expect("a file").path());
    files
        .filter(|path| {
            path.extension().is_some_and(|end| end == "db")
                && has_rows(&path.file_name().expect("a name").to_string_lossy())
        })
        .collect()
}

/// A wrong byte is an error that names the page and the file, never a wrong row. Other days stay unaffected.
#[test]
fn a_damaged_page_is_named() {
    let place = Place::new();
    let daemon = place.start();
    let mark = "a text that can be found in the file again because it is short and not compressed";
    place.write("app.log", &[mark.into()]);
    place.wait_for_messages(&[mark.into()]);
    daemon.stop();
    let files = tables_with_rows(&place);
    let [file] = &files[..] else { panic!("one day has rows: {files:?}") };
    damage_a_body(file);
    let output = place.ask("query", &["--json"]);
    let error = error_of(&output);
    assert!(matches!(output.status.code(), Some(65 | 74)), "{}: {error}", output.status);
    let name = file.file_name().expect("a name").to_string_lossy();
    assert!(error.contains("page 1 of") && error.contains(&*name) && error.contains("damaged"), "{error}");
    assert!(output.stdout.is_empty(), "a wrong row: {}", String::from_utf8_lossy(&output.stdout));
    // Commands that skip the page still work, and the daemon accepts more records.
    place.said("tables", &[]);
    let daemon = place.start();
    place.write("app.log", &["more".into()]);
    wait_for("more is committed", PATIENCE, || {
        (daemon.metric("daytable_records_committed_total") == Some(1.0)).then_some(())
    });
    daemon.stop();
}

/// Flips one bit of a page's body, unseen by SQLite.
fn damage_a_body(file: &Path) {
    let connection = rusqlite::Connection::open(file).expect("a database");
    let body: Vec<u8> = connection.query_row("SELECT bytes FROM body", [], |row| row.get(0)).expect("a body");
    drop(connection);
    let bytes = fs::read(file).expect("read");
    let places: Vec<usize> = (0..=bytes.len() - body.len()).filter(|at| bytes[*at..].starts_with(&body)).collect();
    let [place] = places[..] else { panic!("the body is there {} times", places.len()) };
    let at = place + body.len() / 2;
    let disk = File::options().write(true).open(file).expect("there");
    disk.write_all_at(&[bytes[at] ^ 0x10], at as u64).expect("written");
}

/// Foreign files in the data folder are left alone, and reported.
#[test]
fn a_file_of_someone_else_s_is_left_alone() {
    let place = Place::new();
    let lines = numbered("line", 5);
    place.write("app.log", &lines);
    let daemon = place.start();
    place.wait_for_messages(&lines);
    daemon.stop();
    let foreign = [
        (place.data().join("tables/notes.txt"), "remember the milk"),
        (place.data().join("tables/Log20200101.1.db"), "not a database at all"),
        (place.data().join("README"), "mine"),
    ];
    for (path, text) in &foreign {
        fs::write(path, text).expect("written");
    }
    let daemon = place.start();
    daemon.wait_said("notes.txt");
    daemon.wait_said("Log20200101.1.db");
    place.finish(daemon, TAIL, &lines);
    for (path, text) in &foreign {
        assert_eq!(fs::read_to_string(path).expect("still there"), *text, "{}", path.display());
    }
}

/// Yesterday's catalog beside today's files is refused, with the file and the remedy, and nothing changes. `repair`
/// then makes them agree again, and every row is there.
#[test]
fn an_older_catalog_is_refused_until_it_is_repaired() {
    let place = Place::new();
    // Lines with their own times get the same keys when read again.
    let time = today();
    let line = |message: &String| format!("{time} INFO {message}");
    let lines = numbered("line", 30);
    let write = |lines: &[String]| place.write("app.log", &lines.iter().map(line).collect::<Vec<_>>());
    write(&lines[..10]);
    let daemon = place.start();
    place.wait_for_messages(&lines[..10]);
    daemon.stop();
    let (catalog, older) = (place.data().join("catalog.db"), place.path("older.db"));
    fs::copy(&catalog, &older).expect("copied");
    let daemon = place.start();
    write(&lines[10..]);
    place.wait_for_messages(&lines);
    daemon.stop();
    for suffix in ["-wal", "-shm"] {
        // Usually missing after a clean stop.
        let _ = fs::remove_file(place.data().join(format!("catalog.db{suffix}")));
    }
    fs::copy(&older, &catalog).expect("copied");

    let config = place.configure(TAIL);
    let output = Command::new(DAYTABLE).arg("run").arg("--config").arg(config).output().expect("run");
    let error = error_of(&output);
    assert_eq!(output.status.code(), Some(65), "{error}");
    for word in ["tables/Log", "does not belong", "daytable repair --data"] {
        assert!(error.contains(word), "does not say {word}: {error}");
    }
    let said = place.said("repair", &[]);
    assert!(said.contains("20 entities more than the catalog recorded"), "{said}");
    assert!(place.said("repair", &[]).contains("agree"), "the second time there is nothing to repair");
    let daemon = place.start();
    place.finish(daemon, TAIL, &lines);
}

/// A data folder of a later version is refused with both versions, and stays unchanged. So is one of before the first
/// release.
#[test]
fn another_format_is_refused() {
    let place = Place::new();
    place.start().stop();
    let path = place.data().join("catalog.db");
    let connection = rusqlite::Connection::open(&path).expect("a database");
    for (format, advice) in
        [(99, "newer daytable"), (1, "import them into another folder"), (2, "import them into another folder")]
    {
        connection.pragma_update(None, "user_version", format).expect("there is a format");
        for output in [
            place.ask("query", &[]),
            Command::new(DAYTABLE).arg("run").arg("--config").arg(place.configure(TAIL)).output().expect("run"),
        ] {
            let error = error_of(&output);
            assert_eq!(output.status.code(), Some(69), "{error}");
            assert!(error.contains(&format!("format {format}")) && error.contains(advice), "{error}");
        }
    }
}

/// A push without room is refused, and repeats under its key until it is stored, once.
#[test]
fn a_full_disk_refuses_pushes_and_a_repeat_is_there_once() {
    let place = Place::new();
    let Some(disk) = SmallDisk::mount(&place.data(), "3m") else { return };
    let daemon = place.start_with("[[table]]\nname = \"Log\"\n");
    let to = daemon.address();
    let lines = lines_of_noise();
    let push = |number: usize, lines: &[String]| {
        let stream = std::net::TcpStream::connect(to).expect("connected");
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        let key = format!("Idempotency-Key: body-{number}\r\nContent-Type: text/plain\r\n");
        crate::client::over(stream, "POST", "/ingest", &key, lines.concat_lines().as_bytes()).expect("an answer")
    };
    let mut refused = 0;
    for (number, lines) in lines.chunks(1000).enumerate() {
        wait_for("the body is taken", PATIENCE, || {
            let answer = push(number, lines);
            if answer.status == 503 {
                assert!(answer.head.contains("retry-after:"), "{answer:?}");
                refused += 1;
                if refused == 3 {
                    disk.grow("64m");
                }
                return None;
            }
            assert_eq!(answer.status, 200, "{answer:?}");
            Some(())
        });
    }
    assert!(refused >= 3, "the disk was large enough");
    daemon.stop();
    place.wait_for_messages(&lines);
    place.assert_no_key_twice();
}
