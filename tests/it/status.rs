//! The state of the daemon on one screen, and commands that say what is not so.

use crate::place::{DAYTABLE, PATIENCE, Place, numbered, wait_for};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// `status` shows the daemon's records, disk, next step, troubles and losses. Without a daemon, it fails and names the next step.
#[test]
fn one_screen_shows_the_running_daemon() {
    let place = Place::new();
    place.write("app.log", &numbered("line", 50));
    let daemon = place.start_with(
        "[[tail]]\nname = \"app\"\ninclude = [\"LOGS/*.log\"]\n[[tail]]\nname = \"none\"\ninclude = [\"LOGS/*.none\"]\n\
         [lifecycle]\nmax_bytes = \"1GiB\"\n",
    );
    let status = wait_for("the records are counted", PATIENCE, || {
        place.json("status", &[]).pop().filter(|status| status["records"] == 50)
    });
    assert_eq!(status["troubles"][0]["place"], "none", "{status:#}");
    assert!(status["not_ready"].is_null() && status["next"].as_str().is_some_and(|next| next.contains("Log")));
    let disk = &status["disk"];
    assert!(disk["bytes_max"] == 1 << 30 && disk["bytes"].as_u64() > Some(0) && disk["free_bytes"].as_u64() > Some(0));
    // Everything that is in the folder counts, also what waits in journals.
    let folders = [place.data(), place.data().join("tables")];
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(folder).expect("a folder"));
    let sizes = files.filter_map(|entry| {
        let entry = entry.ok()?;
        let is_counted = !entry.file_name().to_string_lossy().ends_with("-shm");
        entry.metadata().ok().filter(|file| file.is_file() && is_counted).map(|file| file.len())
    });
    let (in_folder, shown) = (sizes.sum::<u64>(), disk["bytes"].as_u64().expect("bytes"));
    assert!(shown + (64 << 10) > in_folder, "{shown} of {in_folder}");
    let screen = place.said("status", &[]);
    let heads: Vec<&str> =
        screen.lines().filter_map(|line| line.split(' ').next()).filter(|head| !head.is_empty()).collect();
    assert_eq!(heads, ["daemon", "records", "disk", "next", "verified", "troubles", "losses"], "{screen}");
    wait_for("the table of tomorrow", PATIENCE, || place.said("tables", &[]).contains("ready").then_some(()));
    std::fs::remove_file(place.log("app.log")).expect("removed");
    daemon.stop();
    let gone = place.said("sources", &[]);
    assert!(!gone.contains(" live "), "{gone}");
    let output = place.ask("status", &[]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(69), "{error}");
    assert!(error.contains("no daemon runs on") && error.contains("start it: "), "{error}");
}

/// `check FILE` checks this file, whatever the environment names.
#[test]
fn check_takes_the_file_as_its_argument() {
    let place = Place::new();
    let config = place.configure("");
    let check = |args: &[&str]| Command::new(DAYTABLE).arg("check").args(args).output().expect("run");
    let config = config.display().to_string();
    let output = check(&[&config]);
    assert!(output.status.success() && String::from_utf8_lossy(&output.stdout).starts_with(&config), "{output:?}");
    std::fs::write(place.path("wrong.toml"), "nothing = 1\n").expect("written");
    let wrong = place.path("wrong.toml").display().to_string();
    let output = Command::new(DAYTABLE).args(["check", &wrong]).env("DAYTABLE_CONFIG", &config).output().expect("run");
    assert_eq!(output.status.code(), Some(78), "{output:?}");
}

/// What the start refuses, `check` and `doctor` refuse with the same words.
#[test]
fn check_refuses_the_files_that_the_start_refuses() {
    let place = Place::new();
    let file = |name: &str, text: &str| {
        let path = place.path(name);
        std::fs::write(&path, text).expect("written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("set");
        path.display().to_string()
    };
    let short = file("short.toml", "[[credential]]\nname = \"web\"\ntoken = \"short\"\n");
    let good = file("good.toml", "[[credential]]\nname = \"web\"\ntoken = \"0123456789abcdef\"\n");
    let elsewhere =
        file("table.toml", "[[credential]]\nname = \"web\"\ntoken = \"0123456789abcdef\"\ntables = [\"Nowhere\"]\n");
    let words = file("words", "two words\n");
    let absent = place.path("absent").display().to_string();
    let tls = format!("tls = {{ cert_file = \"{words}\", key_file = \"{words}\" }}\n");
    let run = |arguments: &[&str]| Command::new(DAYTABLE).args(arguments).output().expect("run");
    for (http, also, said) in [
        (format!("credentials_file = \"{short}\"\n"), "", "short.toml:3:9: token: must have 16 characters at least"),
        (format!("credentials_file = \"{absent}\"\n"), "", "absent"),
        (format!("credentials_file = \"{elsewhere}\"\n"), "", "is bound to a table that is not configured"),
        (format!("token_file = \"{words}\"\n"), "", "must be one word of printable ASCII"),
        (format!("token_file = \"{absent}\"\n"), "", "absent"),
        (tls.clone(), "", "http.tls"),
        (String::new(), "[[tenant]]\nname = \"acme\"\ninstances = [\"a-*\"]\ntoken_file = \"ABSENT\"\n", "absent"),
    ] {
        let text = format!("[http]\nlisten = \"127.0.0.1:0\"\n{http}{}", also.replace("ABSENT", &absent));
        let config = place.configure(&text).display().to_string();
        let [checked, started] = ["check", "run"].map(|command| run(&[command, "--config", &config]));
        for output in [&checked, &started] {
            assert_eq!(output.status.code(), Some(78), "{text}{output:?}");
        }
        let error = String::from_utf8(checked.stderr).expect("text");
        assert!(error.contains(said), "{text}{error}");
        assert!(String::from_utf8_lossy(&started.stderr).contains(error.lines().next().expect("a line")), "{error}");
        let doctor = String::from_utf8(run(&["doctor", "--config", &config]).stdout).expect("text");
        assert!(
            doctor.lines().any(|line| line.starts_with("FAIL  secrets: ") && line.contains(said)),
            "{text}{doctor}"
        );
    }
    let http = format!("[http]\nlisten = \"127.0.0.1:0\"\ncredentials_file = \"{good}\"\n");
    let config = place.configure(&http).display().to_string();
    assert!(run(&["check", &config]).status.success());
    // A file where the data folder is to be.
    let config = file("of_file.toml", &format!("data_dir = \"{words}\"\n[http]\nlisten = \"off\"\n"));
    for command in ["check", "run"] {
        let output = run(&[command, "--config", &config]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("words: it is not a folder"), "{command}: {output:?}");
    }
    // A credential of systemd is there for the daemon alone.
    let of_unit = http.replace(&good, "%d/credentials.toml");
    let config = place.configure(&of_unit).display().to_string();
    let output = run(&["check", &config]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && said.contains("cannot look whether the daemon starts with it"), "{output:?}");
}
