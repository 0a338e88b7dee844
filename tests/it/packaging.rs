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

/// The examples match the schemas of Kubernetes and compose, and daytable accepts the configurations in them.
#[test]
fn the_examples_for_kubernetes_and_compose_are_valid() {
    let examples = ["packaging/kubernetes/sidecar.yaml", "packaging/kubernetes/daemonset.yaml"];
    run(Command::new(installed("target/venv/bin/kubernetes-validate")).arg("--strict").args(examples));
    let checker = installed("target/venv/bin/check-jsonschema");
    run(Command::new(checker).args(["--builtin-schema", "vendor.compose-spec", "compose.yaml"]));
    let place = Place::new();
    for example in examples {
        let text = fs::read_to_string(Path::new(ROOT).join(example)).expect("an example");
        let (_, inside) = text.split_once("  daytable.toml: |\n").expect("a configuration");
        let lines = inside.lines().take_while(|line| line.is_empty() || line.starts_with("    "));
        let config: String = lines.map(|line| format!("{}\n", line.trim_start_matches("    "))).collect();
        fs::write(place.path("daytable.toml"), config).expect("written");
        run(Command::new(DAYTABLE).arg("check").arg("--config").arg(place.path("daytable.toml")));
    }
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
