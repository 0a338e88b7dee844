//! The records of a host are its own at the central, whatever other hosts have and send.

use super::tables::verdict;
use super::*;

/// A folder that was copied has the keys of the original. Under another name its records are there beside those of the original.
#[test]
fn a_copy_under_another_name_takes_no_record_of_the_original() {
    let (central, running, host, daemon) = fleet_of_one("first", 50);
    daemon.stop();
    let copy = Host::new("web-2");
    copy_folder(&host.place.data(), &copy.place.data());
    let joined = copy.join(&central.invite("web-2"), &["--new-origin"]);
    assert!(joined.status.success(), "{joined:?}");
    let [original, copied] = [&host, &copy].map(Host::start);
    wait_for_all(&central, &[&host, &copy], 100);
    assert_eq!(verdict(&central), (Some(0), "whole: 2 hosts, 100 records".into()));
    for daemon in [original, copied, running] {
        daemon.stop();
    }
}

/// What a host sent under its first name is not there again when its folder is put back, or lost, under its second one.
#[test]
fn a_renamed_host_sends_no_record_twice() {
    let (central, running, host, mut daemon) = fleet_of_one("first", 50);
    daemon.stop();
    let backup = host.place.path("backup");
    copy_folder(&host.place.data(), &backup);
    daemon = host.start();
    host.write("app.log", &lines("second", 0..50));
    wait_for_all(&central, &[&host], 100);
    // The machine's name for keys stays: only the central calls it by another name.
    assert!(host.join(&central.invite("web-1"), &[]).status.success());
    let renamed = fs::read_to_string(host.file()).expect("a configuration").replace("\"web-1\"", "\"web-2\"");
    fs::write(host.file(), renamed).expect("written");
    assert!(host.join(&central.invite("web-2"), &[]).status.success());
    host.place.said("reload", &[]);
    wait_for("the new name", 2 * PATIENCE, || central.host("web-2").filter(|host| !host["origin"].is_null()));
    daemon.stop();
    fs::remove_dir_all(host.place.data()).expect("lost");
    fs::rename(&backup, host.place.data()).expect("put back");
    daemon = host.start();
    host.write("app.log", &lines("third", 0..50));
    let messages = || {
        let mut found = BTreeMap::new();
        for record in central.place.records() {
            *found.entry(message_of(&record)).or_insert(0) += 1;
        }
        found
    };
    wait_for("the records of the third part", 2 * PATIENCE, || {
        (messages().keys().filter(|message| message.contains("third")).count() == 50).then_some(())
    });
    let found = messages();
    assert!(found.len() == 150 && found.values().all(|copies| *copies == 1), "{} {found:?}", found.len());
    daemon.stop();
    running.stop();
}
