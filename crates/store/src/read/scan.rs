//! Rows of one table, newest first.
//!
//! Usually a day has one live file. While it is sealed, or after late records of a sealed day, it has two. Then their
//! rows are merged by RowKey. Of equal keys, the row of the later generation wins.
//!
//! Files may be removed during a scan: the open ones when their day is sealed, all of them when it is dropped. So a
//! scan compares its files with the live ones: after opening them, as often as snapshots begin, and after an error. If
//! the live files changed, it opens the new ones and continues by key, so no row is lost or returned twice. If there
//! are none, the table was dropped.

use super::sealed_scan::SealedScan;
use crate::StoreError;
use crate::read::open_scan::{OpenScan, Resume};
use crate::read::{CHANGES_MAX, Range, Reader, Row};
use daytable_model::key::{DayTable, RowKey};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

/// Rows of one table, newest first. See [`Reader::scan`].
pub struct Scan<'r> {
    reader: &'r Reader,
    table: DayTable,
    range: Range,
    /// The names of the files, the oldest generation first.
    names: Vec<String>,
    parts: Vec<Part<'r>>,
    /// The next row of each part that has one.
    heads: Vec<Option<Row>>,
    /// Their keys; of equal keys, the later generation comes first.
    order: BinaryHeap<Reverse<(RowKey, Reverse<usize>)>>,
    /// Parts whose next row is not read yet.
    behind: Vec<usize>,
    resume: Resume,
    since: Instant,
    /// The snapshots of closed parts.
    snapshots: u64,
    done: bool,
}

/// The rows of one file.
enum Part<'r> {
    Open(Box<OpenScan<'r>>),
    Sealed(Box<SealedScan>),
}

impl Iterator for Part<'_> {
    type Item = Result<Row, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Part::Open(scan) => scan.next(),
            Part::Sealed(scan) => scan.next(),
        }
    }
}

impl Reader {
    /// The rows of `range` in one table, newest first by row key, equal keys once. Rows are read on demand. If the
    /// table is dropped meanwhile, the scan ends with [`StoreError::TableGone`].
    pub fn scan(&self, table: &DayTable, range: &Range) -> Result<Scan<'_>, StoreError> {
        Scan::begin(self, table, range)
    }
}

impl<'r> Scan<'r> {
    pub(crate) fn begin(reader: &'r Reader, table: &DayTable, range: &Range) -> Result<Scan<'r>, StoreError> {
        let mut scan = Scan {
            reader,
            table: table.clone(),
            range: range.clone(),
            names: Vec::new(),
            parts: Vec::new(),
            heads: Vec::new(),
            order: BinaryHeap::new(),
            behind: Vec::new(),
            resume: Resume::From(RowKey::range(range.from, range.to).0),
            since: Instant::now(),
            snapshots: 0,
            done: false,
        };
        scan.open()?;
        Ok(scan)
    }

    /// Opens the live files at `resume`.
    fn open(&mut self) -> Result<(), StoreError> {
        let (reader, range, resume) = (self.reader, &self.range, self.resume);
        let (names, parts) = reader.with_files(&self.table, |files| {
            let mut parts = Vec::with_capacity(files.len());
            for (number, file) in files.iter().enumerate() {
                // A skipped row must still hide an older row with the same key.
                let range = match number {
                    0 => range.clone(),
                    _ => Range { contains: None, level: None, chooser: None, ..range.clone() },
                };
                parts.push(match reader.sealed(file)? {
                    Some(sealed) => Part::Sealed(Box::new(SealedScan::new(&sealed, &range, resume))),
                    None => Part::Open(Box::new(OpenScan::begin(reader, reader.acquire(file)?, &range, resume)?)),
                });
            }
            Ok((files.iter().map(|file| file.name.clone()).collect(), parts))
        })?;
        self.snapshots = self.snapshots() + 1;
        self.names = names;
        self.heads = parts.iter().map(|_| None).collect();
        self.behind = (0..parts.len()).collect();
        self.parts = parts;
        self.order.clear();
        self.since = Instant::now();
        Ok(())
    }

    /// The number of snapshots of files that accept records. Rows that left a file before its last snapshot are no
    /// longer returned.
    pub fn snapshots(&self) -> u64 {
        let of = |part: &Part<'_>| if let Part::Open(scan) = part { scan.snapshots() } else { 0 };
        self.snapshots + self.parts.iter().map(of).sum::<u64>()
    }

    /// Whether the live files are no longer those of the scan.
    fn is_outdated(&self) -> Result<bool, StoreError> {
        let files = self.reader.files_of(&self.table)?;
        Ok(!files.iter().map(|file| &file.name).eq(&self.names))
    }

    fn next_row(&mut self) -> Result<Option<Row>, StoreError> {
        loop {
            while let Some(number) = self.behind.pop() {
                if let Some(row) = self.parts[number].next().transpose()? {
                    self.order.push(Reverse((row.key(), Reverse(number))));
                    self.heads[number] = Some(row);
                }
            }
            let Some(Reverse((key, Reverse(number)))) = self.order.pop() else { return Ok(None) };
            self.behind.push(number);
            if self.resume.wants(key) {
                self.resume = Resume::After(key);
                return Ok(self.heads[number].take());
            }
        }
    }

    fn step(&mut self) -> Result<Option<Row>, StoreError> {
        if self.since.elapsed() > self.reader.snapshot_times().usual {
            if self.is_outdated()? {
                self.open()?;
            }
            self.since = Instant::now();
        }
        for _ in 0..CHANGES_MAX {
            match self.next_row() {
                Ok(row) => return Ok(row),
                Err(error) if !self.is_outdated()? => return Err(error),
                Err(_) => self.open()?,
            }
        }
        Err(StoreError::Refused(format!("the files of {} do not stay the same", self.table)))
    }

    /// Sets whether snapshots begin as often as possible.
    #[cfg(test)]
    pub(crate) fn hurry(&mut self, is_hasty: bool) {
        for part in &mut self.parts {
            if let Part::Open(scan) = part {
                scan.hurry(is_hasty);
            }
        }
    }

    /// Lets its snapshots go; [`Scan::renew`] comes before the next row.
    #[cfg(test)]
    pub(crate) fn pause(&mut self) {
        for part in &mut self.parts {
            if let Part::Open(scan) = part {
                scan.pause();
            }
        }
    }

    /// Goes on in new snapshots, as it does after some time.
    #[cfg(test)]
    pub(crate) fn renew(&mut self) {
        if self.is_outdated().expect("a catalog") {
            return self.open().expect("a table");
        }
        for part in &mut self.parts {
            if let Part::Open(scan) = part {
                scan.renew();
            }
        }
    }
}

impl Iterator for Scan<'_> {
    type Item = Result<Row, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let row = self.step().transpose();
        self.done = !matches!(row, Some(Ok(_)));
        row
    }
}
