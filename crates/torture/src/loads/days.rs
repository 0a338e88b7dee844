//! The end of a load: each of its days is sealed, as an operator would seal it, and its rows and bytes are compared.

use crate::Options;
use crate::run::{self, Place};
use serde_json::Value;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// How many times larger an open day may be than the same day sealed, beyond [`SMALL_BYTES`]. Of twenty loads, those of few
/// instances had 1.0 to 1.7 times as many bytes, those of thousands 1.1 to 2.6: kills keep pages from being merged. Rows that are there
/// twice are found by `verify` and by the sealing; this finds a file that grows for another reason.
const TIMES_MAX: u64 = 4;
/// Bytes of an open day that have little to do with its records: the tables of an empty file, free pages, and names.
const SMALL_BYTES: u64 = 2 << 20;

/// The days of a load, open and sealed.
#[derive(Debug, Default)]
pub(super) struct Days {
    /// Rows and bytes of each open day.
    open: Vec<Size>,
    /// The same of the sealed ones, in the same order.
    sealed: Vec<Size>,
    /// Rows and records of the manifests.
    manifests: [u64; 2],
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Size {
    table: String,
    state: String,
    rows: u64,
    bytes: u64,
}

impl fmt::Display for Days {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows in manifests", self.manifests[0])?;
        for (open, sealed) in self.open.iter().zip(&self.sealed) {
            let times = open.bytes as f64 / sealed.bytes.max(1) as f64;
            write!(
                f,
                "; {} {} rows, {} bytes, sealed {} ({times:.2} times)",
                open.table, open.rows, open.bytes, sealed.bytes
            )?;
        }
        Ok(())
    }
}

impl Days {
    /// The first condition that does not hold.
    fn fault(&self) -> Option<String> {
        let rows: u64 = self.open.iter().map(|day| day.rows).sum();
        if self.manifests != [rows; 2] {
            return Some(format!("the manifests have {:?} rows and records of {rows}", self.manifests));
        }
        let names = |days: &[Size]| days.iter().map(|day| (day.table.clone(), day.rows)).collect::<Vec<_>>();
        if names(&self.open) != names(&self.sealed) {
            return Some(format!("the days are others: {:?} was {:?}", self.sealed, self.open));
        }
        let unsealed = self.sealed.iter().find(|day| day.state != "archived");
        let large = |(open, sealed): &(&Size, &Size)| open.bytes > TIMES_MAX * sealed.bytes + SMALL_BYTES;
        let large = self.open.iter().zip(&self.sealed).find(large);
        unsealed
            .map(|day| format!("{day:?} is not sealed"))
            .or_else(|| large.map(|(open, sealed)| format!("the open day is too large: {open:?}, then {sealed:?}")))
    }
}

/// Seals and archives each day, beside a running daemon or where none runs. An error if a day cannot be sealed, has
/// other rows than before, or was too large.
pub(super) fn seal(options: &Options, place: &Place, is_beside: bool) -> Result<Days, String> {
    let failed = |error: io::Error| error.to_string();
    let mut days = Days { open: sizes(options, place).map_err(failed)?, ..Days::default() };
    let mut child = if is_beside { Some(run::start(&*options.collector, place).map_err(failed)?) } else { None };
    if let Some(child) = &mut child {
        super::http::is_ready(&crate::pushes::socket(place), child).map_err(failed)?;
    }
    let archived = days.open.iter().try_for_each(|day| archive(options, place, &day.table));
    if let Some(mut child) = child {
        run::terminate(&mut child).map_err(failed)?;
    }
    archived?;
    days.sealed = sizes(options, place).map_err(failed)?;
    days.manifests = rows_of_manifests(&place.store().join("archive")).map_err(failed)?;
    days.fault().map_or(Ok(days), Err)
}

/// The days in the order of their names.
fn sizes(options: &Options, place: &Place) -> io::Result<Vec<Size>> {
    let tables = options.daytable().ask(&place.home(), "tables", &[])?;
    let text = |table: &Value, name: &str| table[name].as_str().unwrap_or_default().to_owned();
    let number = |table: &Value, name: &str| table[name].as_u64().unwrap_or_default();
    let mut sizes: Vec<Size> = tables
        .iter()
        .map(|table| Size {
            table: text(table, "table"),
            state: text(table, "state"),
            rows: number(table, "rows"),
            bytes: number(table, "bytes"),
        })
        .filter(|size| size.rows > 0)
        .collect();
    sizes.sort_by(|one, other| one.table.cmp(&other.table));
    Ok(sizes)
}

fn archive(options: &Options, place: &Place, table: &str) -> Result<(), String> {
    let mut archive = options.daytable().command_on(&place.home(), "archive");
    archive.arg("--config").arg(place.home().join("daytable.toml")).arg(table).stdout(Stdio::null());
    let output = archive.output().map_err(|error| error.to_string())?;
    let said = || format!("daytable archive {table}: {}", String::from_utf8_lossy(&output.stderr).trim());
    if output.status.success() { Ok(()) } else { Err(said()) }
}

/// Rows and records of all manifests in a folder.
fn rows_of_manifests(folder: &Path) -> io::Result<[u64; 2]> {
    let (mut sum, mut folders) = ([0; 2], vec![PathBuf::from(folder)]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_string_lossy().ends_with(".manifest.json") {
                let manifest: Value = serde_json::from_slice(&fs::read(&path)?)?;
                for (sum, name) in sum.iter_mut().zip(["rows", "records"]) {
                    *sum += manifest[name].as_u64().unwrap_or_default();
                }
            }
        }
    }
    Ok(sum)
}

/// A self-test: a day with rows twice, one that is not sealed, and one that is too large are found.
pub(crate) fn doubted() -> Result<(), String> {
    let size =
        |state: &str, rows, bytes| Size { table: "Log20261120".to_owned(), state: state.to_owned(), rows, bytes };
    let days = |open, sealed, manifests| Days { open: vec![open], sealed: vec![sealed], manifests };
    let large = 2 * TIMES_MAX * SMALL_BYTES;
    let right = days(size("open", 10, SMALL_BYTES), size("archived", 10, 9), [10, 10]);
    let wrong = [
        days(size("open", 20, 9), size("archived", 20, 9), [10, 10]),
        days(size("open", 10, 9), size("archived", 20, 9), [10, 10]),
        days(size("open", 10, 9), size("open", 10, 9), [10, 10]),
        days(size("open", 10, large), size("archived", 10, large / TIMES_MAX - SMALL_BYTES), [10, 10]),
    ];
    let missed: Vec<&Days> = wrong.iter().filter(|days| days.fault().is_none()).collect();
    if missed.is_empty() && right.fault().is_none() { Ok(()) } else { Err(format!("{missed:?}, {:?}", right.fault())) }
}
