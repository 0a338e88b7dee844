//! The shipped parts around the program: packages, the image, examples for Kubernetes and compose, licences, the bill
//! of materials.
//!
//! The scripts of `packaging/` do the work and report their needs. The tests pass the binary under test to them.
//! Without root there is neither a chroot nor a service manager. The tests report that instead of passing silently.

use crate::place::{DAYTABLE, Place, installed};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn run(command: &mut Command) {
    let output = command.current_dir(ROOT).env_remove("DAYTABLE_DATA").output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}: sh tests/setup installs it"));
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
}

fn as_root(what: &str, command: &mut Command) {
    if rustix::process::geteuid().is_root() {
        run(command);
    } else {
        eprintln!("NOT SHOWN: {what}. It takes chroot and mounts; run the tests as root.");
    }
}

/// Install, run under the unit's hardening with the main job done, reload, upgrade, remove, purge.
#[test]
fn the_packages_are_installed_upgraded_and_removed_under_systemd() {
    as_root("packages", Command::new("sh").args(["packaging/check", DAYTABLE]));
}

/// From the package to an alert, Grafana, a fleet, an agent and away again, by what the pages and the package say. The binary
/// under test is packed: a release build takes longer than all of the rest.
#[test]
fn the_first_hour_of_a_new_user_succeeds() {
    as_root("the first hour", Command::new("sh").args(["packaging/check", DAYTABLE, "packaging/first-hour"]));
}

#[test]
fn the_image_is_built_and_does_its_job() {
    as_root("the image", Command::new("sh").args(["packaging/image/check", DAYTABLE]));
}

#[test]
fn the_scripts_are_clean() {
    let folders = ["packaging", "packaging/deb", "packaging/image", "packaging/rpm"];
    let files = folders.iter().flat_map(|folder| fs::read_dir(Path::new(ROOT).join(folder)).expect("a folder"));
    let paths = files.map(|file| file.expect("an entry").path());
    let is_script = |path: &PathBuf| fs::read(path).is_ok_and(|bytes| bytes.starts_with(b"#!/bin/sh\n"));
    let scripts: Vec<PathBuf> = paths.filter(is_script).collect();
    assert!(scripts.len() >= 10, "{scripts:?}");
    run(Command::new("shellcheck").args(scripts));
}

/// All files of a release around the binary under test, its checksums, and the script that installs it. The binary is not
/// built as that of a release is: that takes longer than all of the rest.
#[test]
fn a_release_is_whole_and_its_script_installs_only_what_its_checksums_say() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("NOT SHOWN: a release. Its image takes root; run the tests as root.");
    }
    let place = Place::new();
    let (dist, to) = (place.path("dist"), place.path("bin"));
    let target = format!("{}-unknown-linux-gnu={DAYTABLE}", std::env::consts::ARCH);
    let mut release = Command::new("sh");
    release.arg("packaging/release").arg(&dist).arg(target);
    release.env("COMPRESSION", "-Zgzip -z1").env("PAYLOAD", "w1.gzdio");
    release.env("RELEASE_URL", format!("file://{}", dist.display()));
    run(&mut release);
    run(Command::new("sh").arg("-c").arg("cd \"$0\" && sha256sum --check --quiet SHA256SUMS").arg(&dist));
    let version = env!("CARGO_PKG_VERSION");
    let chart = dist.join(format!("daytable-chart-{version}.tgz"));
    run(Command::new(installed("target/kubernetes/helm/helm")).args(["template", "daytable"]).arg(chart));
    let notes = fs::read_to_string(dist.join("RELEASE_NOTES.md")).expect("notes");
    assert!(notes.contains("sha256sum --check") && !notes.contains("]("), "{notes}");

    let install = || {
        let mut install = Command::new("sh");
        install.arg(dist.join("install.sh")).arg("--to").arg(&to).output().expect("it runs")
    };
    let installed_bytes = || fs::read(to.join("daytable")).expect("a binary").len();
    let said = install();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let bytes = installed_bytes();
    // Another binary, and sums without its line, are refused. What was installed stays.
    let sums = fs::read_to_string(dist.join("SHA256SUMS")).expect("sums");
    let name = format!("daytable-{version}-{}", std::env::consts::ARCH);
    fs::write(dist.join(&name), "#!/bin/sh\n").expect("written");
    for (changed, reason) in
        [(sums.clone(), "another checksum"), (sums.replace(&format!("  {name}\n"), "  x\n"), "no line for")]
    {
        fs::write(dist.join("SHA256SUMS"), changed).expect("written");
        let said = install();
        let error = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(!said.status.success() && error.contains(reason), "{error}");
        assert_eq!((installed_bytes(), fs::read_dir(&to).expect("a folder").count()), (bytes, 1), "{reason}");
    }
}

/// The workflow has the form that the forge reads, and its scripts are those of a shell.
#[test]
fn the_workflow_of_a_release_is_valid() {
    const WORKFLOW: &str = ".github/workflows/release.yml";
    let place = Place::new();
    let checker = installed("target/venv/bin/check-jsonschema");
    run(Command::new(checker).args(["--builtin-schema", "vendor.github-workflows", WORKFLOW]));
    let list = "import sys, yaml\n\
        steps = [step for job in yaml.safe_load(open(sys.argv[1]))['jobs'].values() for step in job['steps']]\n\
        print('set -eu\\n' + '\\n'.join(step['run'] for step in steps if 'run' in step))";
    let list =
        Command::new(installed("target/venv/bin/python")).args(["-c", list, WORKFLOW]).current_dir(ROOT).output();
    let script = place.path("steps.sh");
    let list = list.expect("it runs").stdout;
    assert!(list.len() > 200, "{}", String::from_utf8_lossy(&list));
    fs::write(&script, list).expect("written");
    run(Command::new("shellcheck").arg("--shell=sh").arg(script));
}

/// What Kustomize and Helm render matches the schemas of Kubernetes, and daytable accepts each configuration in it, with
/// the variables of the pod.
#[test]
fn the_manifests_for_kubernetes_and_compose_are_valid() {
    let place = Place::new();
    let folder = Path::new(ROOT).join("packaging/kubernetes");
    let base = fs::read(folder.join("base/daytable.toml")).expect("a configuration");
    assert!(base == fs::read(folder.join("chart/daytable.toml")).expect("a copy"), "the chart's daytable.toml differs");
    let rendered = |name: &str, tool: &str, args: &[&str]| {
        let output = Command::new(installed(tool)).args(args).current_dir(&folder).output().expect("it runs");
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        let path = place.path(name);
        fs::write(&path, &output.stdout).expect("written");
        (path, String::from_utf8(output.stdout).expect("UTF-8"))
    };
    let kustomize =
        |name: &str, overlay: &str| rendered(name, "target/kubernetes/kubectl/kubectl", &["kustomize", overlay]);
    let helm = |name: &str, args: &[&str]| {
        let args = [&["template", "daytable", "chart", "--namespace", "logging"], args].concat();
        rendered(name, "target/kubernetes/helm/helm", &args)
    };
    run(Command::new(installed("target/kubernetes/helm/helm")).args([
        "lint",
        "--strict",
        "packaging/kubernetes/chart",
    ]));
    let of_kubernetes = [
        kustomize("base.yaml", "base"),
        kustomize("annotations.yaml", "overlays/annotations"),
        kustomize("sidecar.yaml", "overlays/sidecar"),
        helm("chart.yaml", &[]),
        helm("plain.yaml", &["--set", "metrics.annotations=false,nodeField=,env.DAYTABLE_LIFECYCLE_MAX_BYTES=5GiB"]),
        helm(
            "forwarding.yaml",
            &[
                "--set",
                "nodeField=,forward.to=https://logs-daytable:7878,forward.existingSecret=enrolment,forward.key=word,\
                 forward.ca.existingSecret=authority",
            ],
        ),
        helm("guarded.yaml", &["--set", "token.existingSecret=readers,token.key=word,tls.existingSecret=certificate"]),
        helm("central.yaml", &["--set", "kind=StatefulSet,token.value=s3cret,service.type=LoadBalancer"]),
    ];
    let [.., (_, forwarding), (_, guarded), (_, central)] = &of_kubernetes;
    for said in [
        "fieldPath: spec.nodeName",
        "DAYTABLE_HOST, value: $(NODE_NAME) }",
        "DAYTABLE_FORWARD_CODE_FILE, value: /run/secrets/daytable/forward/code }",
        "secret: { secretName: enrolment, defaultMode: 0400, items: [{ key: word, path: code }] }",
        "secret: { secretName: authority, defaultMode: 0400, items: [{ key: ca.crt, path: ca.crt }] }",
    ] {
        assert!(forwarding.contains(said), "{said}: {forwarding}");
    }
    assert!(!guarded.contains("FORWARD") && !guarded.contains("DAYTABLE_HOST,"), "{guarded}");
    for said in [
        "secret: { secretName: readers, defaultMode: 0400, items: [{ key: word, path: token }] }",
        "DAYTABLE_HTTP_TOKEN_FILE, value: /run/secrets/daytable/token/token }",
        "DAYTABLE_HTTP_TLS_KEY_FILE, value: /run/secrets/daytable/tls/tls.key }",
        "httpGet: { path: /readyz, port: metrics, scheme: HTTPS }",
        "clusterIP: None",
    ] {
        assert!(guarded.contains(said), "{said}: {guarded}");
    }
    assert!(!guarded.contains("kind: Secret"), "{guarded}");
    for said in
        ["kind: StatefulSet", "token: \"s3cret\"", "type: LoadBalancer", "volumeClaimTemplates", "scheme: HTTP }"]
    {
        assert!(central.contains(said), "{said}: {central}");
    }
    assert!(!central.contains("hostPath") && !central.contains("DaemonSet"), "{central}");
    let files = of_kubernetes.iter().map(|(path, _)| path);
    run(Command::new(installed("target/venv/bin/kubernetes-validate")).arg("--strict").args(files));
    // The schema of a PodMonitor is that of the operator.
    let monitored = [
        kustomize("podmonitor.yaml", "overlays/podmonitor"),
        helm("monitored.yaml", &["--set", "metrics.podMonitor.enabled=true"]),
    ];
    for (_, text) in &monitored {
        assert!(text.contains("kind: PodMonitor") && text.contains("port: metrics"), "{text}");
    }
    for (_, text) in of_kubernetes.iter().chain(&monitored) {
        // A Service called daytable gives its pods variables that are no keys.
        assert!(text.contains("enableServiceLinks: false"), "{text}");
        let (_, inside) = text.split_once("  daytable.toml: |\n").expect("a configuration");
        let lines = inside.lines().take_while(|line| line.is_empty() || line.starts_with("    "));
        let config: String = lines.map(|line| format!("{}\n", line.trim_start_matches("    "))).collect();
        fs::write(place.path("daytable.toml"), config).expect("written");
        let mut check = Command::new(DAYTABLE);
        check.arg("check").arg("--config").arg(place.path("daytable.toml"));
        if text.contains("DAYTABLE_TAIL_0_FIELDS") {
            check.env("DAYTABLE_TAIL_0_FIELDS", "{ \"node\" = \"worker-3\" }");
        }
        for line in text.lines() {
            let variable = line.trim_start().strip_prefix("- { name: DAYTABLE_FORWARD_");
            if let Some((name, value)) = variable.and_then(|rest| rest.strip_suffix(" }")?.split_once(", value: ")) {
                check.env(format!("DAYTABLE_FORWARD_{name}"), value.trim_matches('"'));
            }
        }
        run(&mut check);
    }
    let refused = Command::new(installed("target/kubernetes/helm/helm"))
        .args(["template", "chart", "--set", "metrics.podmonitor.enabled=true"])
        .current_dir(&folder)
        .output();
    assert!(!refused.expect("it runs").status.success(), "a value that the chart does not know is accepted");
    let checker = installed("target/venv/bin/check-jsonschema");
    run(Command::new(checker).args(["--builtin-schema", "vendor.compose-spec", "compose.yaml"]));
}

/// Every licence is allowed by deny.toml, every source is the registry, and the bill of materials is CycloneDX.
#[test]
fn the_parts_may_be_used_and_are_listed() {
    let place = Place::new();
    let list = place.path("sbom.json");
    let python = installed("target/venv/bin/python");
    run(Command::new(&python).arg("packaging/parts").arg("--deny").arg("deny.toml").arg("--sbom").arg(&list));
    let valid = "import sys\nfrom cyclonedx.schema import SchemaVersion\nfrom cyclonedx.validation.json import JsonStrictValidator\n\
                 sys.exit(JsonStrictValidator(SchemaVersion.V1_6).validate_str(open(sys.argv[1]).read()))";
    run(Command::new(&python).args(["-c", valid]).arg(&list));
    let text = fs::read_to_string(&list).expect("a list");
    let list: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let parts = list["components"].as_array().expect("components");
    assert!(parts.len() > 100 && parts.iter().any(|part| part["name"] == "rusqlite"));
}
