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
    order_functions();
}

/// The functions that a quiet daemon has called, see there.
const ORDER: &str = "packaging/order/functions";

/// Puts the functions that a start and a quiet daemon need beside each other. The kernel maps a program 64 KiB at a time
/// around each page that is touched: in any other order those three megabytes bring seven more with them.
///
/// Only lld takes such a list. It passes over names that it does not find, as with another compiler or other features, so a
/// list that is out of date costs memory and nothing else.
fn order_functions() {
    println!("cargo::rerun-if-changed={ORDER}");
    // By its path in there: cargo keeps what is printed here, also where the checkout has moved since.
    let Ok(list) = env::var("OUT_DIR").map(|out| std::path::Path::new(&out).join("functions")) else { return };
    if std::fs::copy(ORDER, &list).is_err() {
        return;
    }
    let argument = format!("-Wl,--symbol-ordering-file={}", list.display());
    if env::var("PROFILE").is_ok_and(|profile| profile == "release") && links_with(&argument) {
        println!("cargo::rustc-link-arg-bins={argument}");
        println!("cargo::rustc-link-arg-bins=-Wl,--no-warn-symbol-ordering");
    }
}

/// Whether a program can be linked with an argument, by the linker that this build has.
fn links_with(argument: &str) -> bool {
    let (Ok(rustc), Ok(out), Ok(target)) = (env::var("RUSTC"), env::var("OUT_DIR"), env::var("TARGET")) else {
        return false;
    };
    let source = std::path::Path::new(&out).join("links.rs");
    if std::fs::write(&source, "fn main() {}").is_err() {
        return false;
    }
    let mut command = Command::new(rustc);
    command.arg(&source).args(["--target", &target, "--out-dir", &out, "-C", &format!("link-arg={argument}")]);
    command.args(env::var("RUSTC_LINKER").map(|linker| format!("-Clinker={linker}")));
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    command.args(flags.split('\x1f').filter(|flag| !flag.is_empty()));
    command.output().is_ok_and(|output| output.status.success())
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
