//! Fields from the path of a file: a node's container logs, in the layout of the kubelet.

use crate::place::{DAYTABLE, PATIENCE, Place, append, wait_for};
use std::fs;
use std::process::Command;

const NODE: &str = "[[tail]]\nname = \"pods\"\ninclude = [\"LOGS/*/*/*.log\"]\nformat = \"cri\"\ninstance = \"{field:pod}\"\n\
    fields_from_path = \"LOGS/{namespace}_{pod}_{uid}/{container}/*\"\nfields = { node = \"worker-3\" }\n\
    [[table]]\nname = \"Shop\"\nkeep = \"36500d\"\nwhen = \"namespace:=shop\"\n[[table]]\nname = \"Log\"\nkeep = \"36500d\"\n";

/// `check` warns where no file of a block can match its pattern, and says that the configuration is good.
#[test]
fn a_pattern_that_never_matches_is_a_warning() {
    let place = Place::new();
    for (pattern, is_warned) in [("/var/log/pods/{pod}/**", false), ("/var/log/{pod}/*.log", true)] {
        let config = place.configure(&format!(
            "[[tail]]\ninclude = [\"/var/log/pods/*/*/*.log\"]\nfields_from_path = \"{pattern}\"\n"
        ));
        let output =
            Command::new(DAYTABLE).args(["check", "--config"]).arg(config).output().expect("daytable can be run");
        let warning = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{warning}");
        assert_eq!(warning.contains("no file of include can match"), is_warned, "{pattern}: {warning}");
    }
}

/// Namespace, pod and container are fields of each record, name its instance and choose its table. A line that claims
/// another pod changes nothing. After a rotation and a restart the file is still the same source.
#[test]
fn the_path_of_a_container_log_says_whose_records_they_are() {
    let place = Place::new();
    let (cart, other) = ("shop_cart-7d9_0a1b/app", "kube-system_dns-x2_77/coredns");
    for folder in [cart, other] {
        fs::create_dir_all(place.log(folder)).expect("a folder");
    }
    let line = |second: u32, text: &str| format!("2026-11-21T08:00:{second:02}.123456789Z stdout F {text}\n");
    let file = place.log(&format!("{cart}/0.log"));
    append(&file, line(0, "card refused").as_bytes());
    append(
        &file,
        line(1, r#"{\"msg\":\"forged\",\"pod\":\"dns-x2\",\"node\":\"other\",\"namespace\":\"kube-system\"}"#)
            .replace('\\', "")
            .as_bytes(),
    );
    append(&place.log(&format!("{other}/3.log")), line(2, "a name was asked for").as_bytes());
    let daemon = place.start_with(NODE);
    place.wait_for_messages(&["card refused", "forged", "a name was asked for"].map(str::to_owned));
    daemon.stop();
    // The kubelet rotates while the daemon is stopped.
    fs::rename(&file, place.log(&format!("{cart}/0.log.20261121-080100"))).expect("renamed");
    append(&place.log(&format!("{cart}/0.log.20261121-080100")), line(3, "the last of the old").as_bytes());
    append(&file, line(4, "the first of the new").as_bytes());
    let daemon = place.start_with(NODE);
    let all = ["card refused", "forged", "a name was asked for", "the last of the old", "the first of the new"];
    place.wait_for_messages(&all.map(str::to_owned));
    for record in place.records() {
        let is_dns = record["message"] == "a name was asked for";
        let expected = if is_dns {
            ["worker-3", "kube-system", "dns-x2", "77", "coredns", "dns-x2", "Log20261121"]
        } else {
            ["worker-3", "shop", "cart-7d9", "0a1b", "app", "cart-7d9", "Shop20261121"]
        };
        let found =
            ["node", "namespace", "pod", "uid", "container", "partition_key", "table"].map(|key| record[key].clone());
        assert_eq!(found, expected, "{record}");
    }
    let found = place.json("query", &["--instance", "cart-7d9"]);
    assert_eq!(found.len(), 4);
    wait_for("the source is known by its block", PATIENCE, || {
        (daemon.metric("daytable_records_received_total{source=\"pods\"}")? >= 2.0).then_some(())
    });
    daemon.stop();
}
