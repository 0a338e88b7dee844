//! Nodes of the chart: what its DaemonSet gives a pod is enough to join, without a hand on it.

use super::credentials::{code_of, hosts};
use super::*;
use crate::place::installed;

/// The variables and files of a rendered pod, with its folders in this place.
#[test]
fn a_new_node_joins_by_the_secret_that_the_chart_mounts() {
    let central = Central::new();
    let running = central.start();
    let (url, code) = code_of(&hosts(&central, &["enrol", "worker-*", "--expires", "90d"]));
    let rendered = Command::new(installed("target/kubernetes/helm/helm"))
        .args(["template", "daytable", "packaging/kubernetes/chart", "--set"])
        .arg(format!("forward.to={url},forward.existingSecret=enrolment"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("it runs");
    assert!(rendered.status.success(), "{rendered:?}");
    let rendered = String::from_utf8(rendered.stdout).expect("text");
    let nodes = ["worker-1", "worker-2"].map(Host::new);
    let daemons: Vec<Daemon> = nodes
        .iter()
        .map(|node| {
            let folder = |path: &str| match path.strip_prefix("/run/secrets") {
                Some(rest) => node.place.path("secrets").display().to_string() + rest,
                None => path.replacen("/data", &node.place.data().display().to_string(), 1),
            };
            // As the kubelet does it: a link into a folder that is replaced as a whole.
            let secret = node.place.path("secrets/daytable/forward");
            fs::create_dir_all(secret.join("..data")).expect("a folder");
            fs::write(secret.join("..data/code"), &code).expect("a code");
            std::os::unix::fs::symlink("..data/code", secret.join("code")).expect("a link");
            // The name of the host comes from the variable alone.
            fs::write(node.file(), node.base().replace(&format!("host = \"{}\"\n", node.name), "")).expect("written");
            let mut command = Command::new(DAYTABLE);
            command.arg("run").arg("--config").arg(node.file());
            let variables = rendered.lines().filter_map(|line| {
                let rest = line.trim_start().strip_prefix("- { name: ")?.strip_suffix(" }")?;
                rest.split_once(", value: ")
                    .filter(|(name, _)| name.starts_with("DAYTABLE_") && *name != "DAYTABLE_DATA")
            });
            let mut names = Vec::new();
            for (name, value) in variables {
                command.env(name, folder(&value.trim_matches('"').replace("$(NODE_NAME)", node.name)));
                names.push(name);
            }
            for wanted in ["DAYTABLE_HOST", "DAYTABLE_FORWARD_TO", "DAYTABLE_FORWARD_CODE_FILE"] {
                assert!(names.contains(&wanted), "{wanted}: {names:?}");
            }
            node.write("app.log", &lines("request", 0..10));
            let daemon = node.place.spawn_command(command);
            daemon.wait_ready();
            daemon
        })
        .collect();
    wait_for_all(&central, &[&nodes[0], &nodes[1]], 20);
    for node in &nodes {
        assert!(node.place.data().join("forward").exists(), "the credential stays with the records of the node");
        assert_eq!(central.host(node.name).expect("listed")["revoked"], false);
    }
    for daemon in daemons {
        daemon.stop();
    }
    running.stop();
}
