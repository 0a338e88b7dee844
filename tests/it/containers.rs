//! Logs of Docker's containers, by what Docker writes beside them: no socket, no configuration.

use crate::place::{DAYTABLE, PATIENCE, Place, append, wait_for};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// A container of a data root as Docker lays it out.
struct Container {
    folder: PathBuf,
    id: String,
}

impl Container {
    fn new(place: &Place, digit: char) -> Container {
        let id = digit.to_string().repeat(64);
        let folder = place.path("docker").join("containers").join(&id);
        fs::create_dir_all(&folder).expect("a folder");
        Container { folder, id }
    }

    /// Docker replaces the file as a whole at each change.
    fn describe(&self, name: &str, labels: &str) {
        let text = format!(
            r#"{{"StreamConfig":{{}},"State":{{"Running":true,"Pid":7}},"ID":"{}","Created":"2026-11-21T07:00:00Z","Path":"nginx",
            "Config":{{"Hostname":"x","Image":"nginx:1.27","Labels":{labels}}},"Image":"sha256:0a","LogPath":"/x","Name":"/{name}","Driver":"overlay2"}}"#,
            self.id
        );
        fs::write(self.folder.join("config.v2.json.tmp"), text).expect("written");
        fs::rename(self.folder.join("config.v2.json.tmp"), self.folder.join("config.v2.json")).expect("renamed");
    }

    fn log(&self, second: u32, text: &str) {
        let line = serde_json::json!({ "log": format!("{text}\n"), "stream": "stderr", "time": format!("2026-11-21T08:00:{second:02}.5Z") });
        append(&self.folder.join(format!("{}-json.log", self.id)), format!("{line}\n").as_bytes());
    }
}

fn fields(record: &Value) -> Vec<&str> {
    let names = ["container", "image", "compose_project", "compose_service", "team", "level"];
    names.iter().map(|name| record[*name].as_str().unwrap_or("-")).collect()
}

#[test]
fn a_container_is_known_by_its_name() {
    let place = Place::new();
    let (web, worker) = (Container::new(&place, '4'), Container::new(&place, 'b'));
    web.describe(
        "shop-web-1",
        r#"{"com.docker.compose.project":"shop","com.docker.compose.service":"web","team":"a"}"#,
    );
    worker.describe("worker", "null");
    // Formats within Docker's envelope are read as everywhere else, and a line cannot forge the container.
    web.log(1, r#"{"level":"error","msg":"card refused","container":"forged"}"#);
    worker.log(2, "WARN queue is long");
    let run = |place: &Place| {
        let mut command = Command::new(DAYTABLE);
        command.arg("run").arg("--config").arg(place.configure(""));
        command.arg(format!("--docker={}", place.path("docker").display()));
        let daemon = place.spawn_command(command);
        daemon.wait_ready();
        daemon
    };
    let by_message = |message: &str| {
        wait_for(message, PATIENCE, || {
            let records = place.try_records();
            records.into_iter().find(|record| record["message"].as_str().is_some_and(|said| said.contains(message)))
        })
    };
    let daemon = run(&place);
    let record = by_message("card refused");
    assert_eq!(fields(&record), ["shop-web-1", "nginx:1.27", "shop", "web", "-", "error"], "{record}");
    assert_eq!((&record["partition_key"], &record["container_id"]), (&"shop-web-1".into(), &"444444444444".into()));
    let record = by_message("queue is long");
    assert_eq!(fields(&record), ["worker", "nginx:1.27", "-", "-", "-", "warn"], "{record}");
    let found = place.said("query", &["container:shop-web-1 compose.service:=web", "--json"]);
    assert_eq!(found.lines().count(), 1, "{found}");

    // A new name is known after a while, and what was written before keeps the old one.
    worker.describe("mailer", "null");
    let mut second = 3;
    wait_for("the new name", PATIENCE, || {
        worker.log(second % 60, &format!("sent {second}"));
        second += 1;
        let records = place.try_records();
        records.iter().find(|record| record["container"] == "mailer").map(drop)
    });
    assert_eq!(by_message("queue is long")["container"], "worker");
    // A container that is removed takes its folder with it; what was read stays, and the daemon, too.
    fs::remove_dir_all(&worker.folder).expect("removed");
    web.log(59, "still here");
    by_message("still here");
    daemon.stop();
    let daemon = run(&place);
    web.log(58, "after a restart");
    assert_eq!(by_message("after a restart")["container"], "shop-web-1");
    daemon.stop();
    place.assert_no_key_twice();
}

#[test]
fn chosen_labels_and_pods_are_fields() {
    let place = Place::new();
    let web = Container::new(&place, '5');
    web.describe("web", r#"{"team":"a","other":"b"}"#);
    web.log(1, "hello");
    let pod = place.path("pods/shop_cart-7d9_0a1b/app");
    fs::create_dir_all(&pod).expect("a folder");
    append(&pod.join("0.log"), b"2026-11-21T08:00:01.5Z stdout F ready\n");
    let block = |include: PathBuf| {
        format!(
            "[[tail]]\ninclude = [\"{}\"]\ninstance = \"{{field:container}}\"\ncontainers = true\ncontainer_labels = [\"team\"]\n",
            include.display()
        )
    };
    let containers = block(place.path("docker/containers/*/*-json.log"));
    let pods = block(place.path("pods/*/*/*.log"));
    let daemon = place.start_with(&format!("{containers}{}", pods.replace("[[tail]]", "[[tail]]\nname = \"pods\"")));
    place.wait_for_messages(&["hello".to_owned(), "ready".to_owned()]);
    for record in place.records() {
        if record["message"] == "hello" {
            assert_eq!((&record["team"], &record["other"]), (&"a".into(), &Value::Null), "{record}");
        } else {
            let named = ["namespace", "pod", "container", "partition_key"].map(|name| record[name].as_str());
            assert_eq!(named, ["shop", "cart-7d9", "app", "app"].map(Some), "{record}");
        }
    }
    daemon.stop();
}
