//! The pages of `docs/` about configuring: every configuration in them is read by the program.

use crate::place::{DAYTABLE, Place};
use std::fs;
use std::process::{Command, Stdio};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The blocks of a page that are fenced as `kind`.
fn blocks(page: &str, kind: &str) -> Vec<String> {
    let text = fs::read_to_string(format!("{ROOT}/docs/{page}")).unwrap_or_else(|error| panic!("{page}: {error}"));
    let open = format!("```{kind}\n");
    text.split(&open).skip(1).filter_map(|rest| Some(rest.split_once("\n```")?.0.to_owned())).collect()
}

fn check() -> Command {
    let mut check = Command::new(DAYTABLE);
    check.arg("check").env_remove("DAYTABLE_CONFIG").stdin(Stdio::null());
    check
}

#[test]
fn every_configuration_of_the_pages_is_a_good_one() {
    let place = Place::new();
    let path = place.path("daytable.toml");
    let mut read = 0;
    for page in ["guide/adopt.md", "reference/environment.md", "operate/reload.md", "reference/configuration.md"] {
        for block in blocks(page, "toml") {
            fs::write(&path, &block).expect("written");
            let output = check().arg("--config").arg(&path).output().expect("run");
            assert!(output.status.success(), "{page}:\n{block}\n{}", String::from_utf8_lossy(&output.stderr));
            read += 1;
        }
        for block in blocks(page, "env") {
            let variables = block.lines().filter_map(|line| line.split_once('='));
            let output = check().envs(variables).output().expect("run");
            assert!(output.status.success(), "{page}:\n{block}\n{}", String::from_utf8_lossy(&output.stderr));
            read += 1;
        }
    }
    assert!(read >= 2, "{read} configurations");
}

/// What the page shows of an error is what is said.
#[test]
fn the_error_of_a_variable_is_the_one_that_is_shown() {
    let shown = blocks("reference/environment.md", "text")
        .into_iter()
        .find(|block| block.contains("HTTP_LISTN"))
        .expect("an error");
    let output = check().env("DAYTABLE_HTTP_LISTN", "off").output().expect("run");
    assert_eq!(String::from_utf8_lossy(&output.stderr).trim_end(), shown);
}
