//! What the program says of itself: `daytable --version` names the commit, the features and the target.
//!
//! The commit is `DAYTABLE_COMMIT` where that is set (a build from an archive without its history), else what git says of
//! this folder, else what `cargo package` noted, else it is unknown; none of them is needed to build. It is asked for in
//! release builds alone: in others every commit would be a build of everything. No time goes into the program, so two
//! builds of one commit are the same, whatever `SOURCE_DATE_EPOCH` says.

use std::env;
use std::process::Command;

fn main() {
    for path in ["build.rs", "Cargo.toml", "Cargo.lock", "src"] {
        println!("cargo::rerun-if-changed={path}");
    }
    println!("cargo::rerun-if-env-changed=DAYTABLE_COMMIT");
    // Not named as the program's own variables are: cargo hands them to tests, too.
    println!("cargo::rustc-env=BUILT_COMMIT={}", commit());
    println!("cargo::rustc-env=BUILT_FEATURES={}", features());
    println!("cargo::rustc-env=BUILT_TARGET={}", env::var("TARGET").unwrap_or_default());
    // Relocations as a bitmap, not 24 bytes each: nearly a megabyte that every start would read. The C library has to know
    // them (glibc 2.36), and a linker that does not passes over the option.
    if env::var("TARGET").is_ok_and(|target| target.ends_with("-linux-gnu")) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

fn commit() -> String {
    let given = env::var("DAYTABLE_COMMIT").ok().filter(|commit| !commit.trim().is_empty());
    if let Some(commit) = given {
        return commit.trim().to_owned();
    }
    if env::var("PROFILE").is_ok_and(|profile| profile != "release") {
        return "unknown, a development build".into();
    }
    by_git().or_else(by_cargo).unwrap_or_else(|| "unknown".into())
}

/// What git says; none where this is no checkout of its own (an archive that was unpacked within another's).
fn by_git() -> Option<String> {
    let is_ours = std::path::Path::new(".git").exists();
    let commit = is_ours.then(|| git(&["rev-parse", "--short=12", "HEAD"]))??;
    for name in ["HEAD", "logs/HEAD"] {
        println!("cargo::rerun-if-changed={}", git(&["rev-parse", "--git-path", name])?);
    }
    let changed = git(&["status", "--porcelain", "--untracked-files=no"])?;
    Some(if changed.is_empty() { commit } else { format!("{commit} with changes") })
}

fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

/// The commit in `.cargo_vcs_info.json`, which is in what `cargo package` made.
fn by_cargo() -> Option<String> {
    let noted = std::fs::read_to_string(".cargo_vcs_info.json").ok()?;
    let (_, rest) = noted.split_once("\"sha1\"")?;
    let sha1 = rest.split('"').nth(1)?;
    sha1.get(..12).map(str::to_owned)
}

fn features() -> String {
    let names = env::vars().filter_map(|(name, _)| name.strip_prefix("CARGO_FEATURE_").map(str::to_lowercase));
    let mut names: Vec<String> = names.collect();
    names.sort();
    if names.is_empty() { "none".into() } else { names.join(", ") }
}
