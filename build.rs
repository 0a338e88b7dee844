//! Makes the files of the page (`src/http/page/bundle.rs`), compressed for browsers, and finds what `daytable --version`
//! shows: the commit, the features and the target.
//!
//! The commit is the first of: the variable `DAYTABLE_COMMIT` (for a build from an archive without its history), the commit
//! of this git checkout, the commit that `cargo package` recorded, or `unknown`. Only release builds look for a commit,
//! because other builds would run again after each commit. The program contains no time of the build, so two builds of one
//! commit are the same, with any `SOURCE_DATE_EPOCH`.

use std::env;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

#[path = "src/http/page/bundle.rs"]
#[allow(dead_code)]
mod bundle;
#[path = "src/http/page/compact.rs"]
#[allow(dead_code)]
mod compact;
#[path = "src/http/page/markdown.rs"]
#[allow(dead_code)]
mod markdown;

fn main() {
    for path in ["build.rs", "Cargo.toml", "Cargo.lock", "src", "docs/reference/query-language.md"] {
        println!("cargo::rerun-if-changed={path}");
    }
    println!("cargo::rerun-if-env-changed=DAYTABLE_COMMIT");
    // The names differ from the program's own variables, because cargo also passes these to tests.
    println!("cargo::rustc-env=BUILT_COMMIT={}", commit());
    println!("cargo::rustc-env=BUILT_FEATURES={}", features());
    println!("cargo::rustc-env=BUILT_TARGET={}", env::var("TARGET").unwrap_or_default());
    write_page(Path::new(&env::var_os("OUT_DIR").expect("cargo names the folder")));
    // Relocations as a bitmap take nearly a megabyte less than 24 bytes each, which every start would read. They need
    // glibc 2.36; a linker that does not know the option ignores it.
    if env::var("TARGET").is_ok_and(|target| target.ends_with("-linux-gnu")) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Writes each file of the page plain, and compressed as well as it can be.
fn write_page(folder: &Path) {
    for (name, text) in bundle::files() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        gzip.write_all(text.as_bytes()).expect("a vector takes every byte");
        let gzip = gzip.finish().expect("a vector takes every byte");
        let options = brotli::enc::BrotliEncoderParams { quality: 11, lgwin: 22, ..Default::default() };
        let mut br = Vec::new();
        brotli::BrotliCompress(&mut text.as_bytes(), &mut br, &options).expect("a vector takes every byte");
        for (ending, bytes) in [("", text.as_bytes()), (".gz", &gzip[..]), (".br", &br[..])] {
            fs::write(folder.join(format!("{name}{ending}")), bytes).expect("cargo's folder takes files");
        }
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

/// The commit of this git checkout; `None` for an archive that was unpacked inside another checkout.
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

/// The commit in `.cargo_vcs_info.json`, which `cargo package` writes.
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
