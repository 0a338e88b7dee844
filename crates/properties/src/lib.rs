//! Properties that must hold for any bytes, as functions that panic on a violation.
//!
//! A **property** builds its subject from bytes (a body, a page, a folder with a wrong byte) and asserts its claim.
//! `fuzz/` has a target of the same name for each property, which calls it with the fuzzer's inputs. `cargo test` calls
//! it with the stored inputs of `fuzz/corpus` and `fuzz/found`, and with random variations of them.
//!
//! | module | subject |
//! |---|---|
//! | `lines` | lines of files: records, times, patterns |
//! | `wire` | bytes from a socket: syslog, RELP, journals, pushed bodies, rows of other daytables, answers of Azure |
//! | `text` | text by people and other programs: configuration, queries, schedules, keys, other collectors' positions |
//! | `stored` | bytes by the store: pages, shared pages, sealed days, manifests |
//! | `folder` | a damaged data folder: each returned row was written before |
//! | `days` | a day in every state of its life: each query has the answer of a plain list of the day's records |
//!
//! The program does not depend on this crate. It is a library because the fuzz targets are programs of their own.

#[cfg(test)]
mod days;
mod folder;
mod lines;
#[cfg(test)]
mod making;
#[cfg(test)]
mod replay;
mod stored;
#[cfg(test)]
mod tests;
mod text;
mod wire;

use daytable_model::time::Ticks;

/// The folder of the workspace, with the inputs and the golden files.
pub(crate) const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// A property and its name.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name of the target in `fuzz/fuzz_targets`, and of the folders of inputs.
    pub name: &'static str,
    /// Panics if the property does not hold for these bytes.
    pub holds: fn(&[u8]),
}

/// Every property, by name.
pub const TARGETS: [Target; 22] = [
    Target { name: "accounts", holds: text::any_account },
    Target { name: "answers", holds: wire::any_answer },
    Target { name: "configs", holds: text::any_config },
    Target { name: "databases", holds: text::any_database },
    Target { name: "exports", holds: wire::any_export },
    Target { name: "folders", holds: folder::any_folder },
    Target { name: "forwards", holds: wire::any_forward },
    Target { name: "keys", holds: text::any_key },
    Target { name: "logql", holds: text::any_logql },
    Target { name: "manifests", holds: stored::any_manifest },
    Target { name: "pages", holds: stored::any_page },
    Target { name: "partitions", holds: stored::any_partitions },
    Target { name: "patterns", holds: lines::any_pattern },
    Target { name: "positions", holds: text::any_positions },
    Target { name: "pushes", holds: wire::any_push },
    Target { name: "queries", holds: text::any_query },
    Target { name: "records", holds: lines::any_bytes },
    Target { name: "rows", holds: stored::any_rows },
    Target { name: "schedules", holds: text::any_schedule },
    Target { name: "sealed", holds: stored::any_sealed },
    Target { name: "streams", holds: wire::any_stream },
    Target { name: "timestamps", holds: lines::any_time },
];

/// Checks `bytes` with the named property. Panics if the property does not hold, or does not exist.
pub fn holds(name: &str, bytes: &[u8]) {
    match TARGETS.iter().find(|target| target.name == name) {
        Some(target) => (target.holds)(bytes),
        None => panic!("no property is called {name:?}"),
    }
}

/// The time of arrival of every record.
fn seen() -> Ticks {
    Ticks::from_date(2026, 11, 21).unwrap_or_default()
}

/// Draws values from the front of the bytes. After their end every drawn byte is zero. Similar bytes therefore give
/// similar values, which guides a fuzzer.
struct Draw<'a>(&'a [u8]);

impl<'a> Draw<'a> {
    /// The next byte.
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// A number of 64 bits.
    fn number(&mut self) -> u64 {
        (0..8).fold(0, |number, _| number << 8 | u64::from(self.byte()))
    }

    /// A number below `end`, which must not be 0.
    fn below(&mut self, end: usize) -> usize {
        let number = (0..3).fold(0, |number, _| number << 8 | usize::from(self.byte()));
        number % end
    }

    /// Bytes, with their number in the first byte.
    fn bytes(&mut self) -> &'a [u8] {
        let length = usize::from(self.byte()).min(self.0.len());
        let (piece, rest) = self.0.split_at(length);
        self.0 = rest;
        piece
    }

    /// Bytes like those of [`Draw::bytes`], as text.
    fn text(&mut self) -> String {
        String::from_utf8_lossy(self.bytes()).into_owned()
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The program in the README of the parser.
#[cfg(doctest)]
#[doc = include_str!("../../parse/README.md")]
mod parse_readme {}
