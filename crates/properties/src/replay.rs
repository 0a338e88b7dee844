//! Runs each property on the stored inputs, then on random variations for about a second.
//!
//! `fuzz/corpus` has inputs that reach far into the code. `fuzz/found` has inputs that once violated a property. A seed
//! and a number determine each variation, so failures repeat: a failure prints both, and leaves the input in
//! `target/properties`.
//!
//! ```sh
//! DAYTABLE_PROPERTIES_SEED=7 DAYTABLE_PROPERTIES_SECONDS=600 cargo test -p daytable-properties --lib replay
//! ```

use super::{TARGETS, holds};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A test for each property.
macro_rules! replayed {
    ($($name:ident)*) => {
        const REPLAYED: &[&str] = &[$(stringify!($name)),*];
        $(#[test] fn $name() { replay(stringify!($name)) })*
    };
}

replayed! {
    accounts answers configs databases exports folders forwards keys logql manifests pages partitions patterns positions
    pushes queries records rows schedules sealed streams timestamps
}

fn fuzz() -> PathBuf {
    Path::new(crate::ROOT).join("fuzz")
}

/// The files of a folder, by name.
fn inputs(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let files = walkdir::WalkDir::new(folder).sort_by_file_name().into_iter().filter_map(Result::ok);
    let files = files.filter(|entry| entry.file_type().is_file()).map(|entry| entry.path().to_owned());
    files.map(|path| (path.clone(), std::fs::read(path).expect("read"))).collect()
}

pub(super) fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().expect(name))
}

/// The next number of splitmix64, by Sebastiano Vigna.
pub(super) fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

pub(super) fn below(state: &mut u64, end: usize) -> usize {
    usize::try_from(next(state) % end.max(1) as u64).expect("below a length")
}

/// A variation of an input in `kept`.
fn changed(kept: &[(PathBuf, Vec<u8>)], state: &mut u64) -> Vec<u8> {
    let mut bytes = kept[below(state, kept.len())].1.clone();
    for _ in 0..=below(state, 5) {
        let at = below(state, bytes.len() + 1);
        let end = (at + below(state, 16)).min(bytes.len());
        match below(state, 7) {
            0 if at < bytes.len() => bytes[at] ^= 1 << below(state, 8),
            1 if at < bytes.len() => bytes[at] = [0, 0xff, 0x7f, 0x80, b'\n', b'"', b'9'][below(state, 7)],
            2 => bytes.insert(at, next(state).to_le_bytes()[0]),
            3 => drop(bytes.drain(at..end)),
            4 => bytes.splice(at..at, bytes[at..end].to_vec()).for_each(drop),
            5 => bytes.truncate(at),
            _ => {
                let other = &kept[below(state, kept.len())].1;
                let from = below(state, other.len() + 1);
                bytes.splice(at..end, other[from..(from + 24).min(other.len())].to_vec());
            }
        }
    }
    bytes
}

fn replay(name: &str) {
    let kept = [inputs(&fuzz().join("corpus").join(name)), inputs(&fuzz().join("found").join(name))].concat();
    assert!(!kept.is_empty(), "fuzz/corpus/{name} has no inputs");
    for (path, bytes) in &kept {
        if catch_unwind(AssertUnwindSafe(|| holds(name, bytes))).is_err() {
            panic!("{} does not hold", path.display());
        }
    }
    let seed = from_environment("DAYTABLE_PROPERTIES_SEED", 1);
    let (since, time) = (Instant::now(), Duration::from_secs(from_environment("DAYTABLE_PROPERTIES_SECONDS", 1)));
    for number in 0.. {
        if since.elapsed() > time {
            break;
        }
        let mut state = seed.wrapping_mul(0x1000_0001).wrapping_add(number);
        let bytes = changed(&kept, &mut state);
        if catch_unwind(AssertUnwindSafe(|| holds(name, &bytes))).is_err() {
            let path = Path::new(crate::ROOT).join(format!("target/properties/{name}-{seed}-{number}"));
            let written = std::fs::create_dir_all(path.with_file_name("")).and_then(|()| std::fs::write(&path, bytes));
            panic!("{name}: input {number} of seed {seed} does not hold; it is in {} ({written:?})", path.display());
        }
    }
}

/// Each property has a fuzz target, inputs and a test here.
#[test]
fn every_property_has_a_target_and_is_replayed() {
    let names: BTreeSet<String> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
    assert_eq!(names.len(), TARGETS.len(), "no name comes twice");
    assert_eq!(REPLAYED.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>(), names);
    let manifest = std::fs::read_to_string(fuzz().join("Cargo.toml")).expect("read");
    for name in &names {
        let source = std::fs::read_to_string(fuzz().join(format!("fuzz_targets/{name}.rs"))).expect(name);
        assert!(source.contains(&format!("holds(\"{name}\", bytes)")), "{source}");
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name} is not in fuzz/Cargo.toml");
    }
    let folders = ["corpus", "found"].map(|folder| std::fs::read_dir(fuzz().join(folder)).expect("a folder"));
    for folder in folders.into_iter().flatten().flatten() {
        assert!(names.contains(&*folder.file_name().to_string_lossy()), "{folder:?} is of no property");
    }
}
