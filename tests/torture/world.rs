//! What happens to the files that are read: lines are appended, whole and in pieces, and the files are rotated in every
//! way that rotation knows.
//!
//! A world is a list of steps that a seed gives. It is taken step by step, by whoever plays the run, so that a step can
//! fall between any two system calls of the collector.

use crate::line::{self, Id};
use crate::random::Random;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Files at a time.
const STREAMS: u32 = 3;

/// The files of one run, and what was written to them.
pub(crate) struct World {
    folder: PathBuf,
    random: Random,
    streams: Vec<Stream>,
    /// Every record whose newline is written.
    pub(crate) written: BTreeSet<Id>,
    /// The day of its records.
    day: String,
    clock: u64,
}

struct Stream {
    number: u32,
    next: u64,
    /// The rest of a line that is not written yet, and its record.
    rest: Option<(String, Id)>,
    rotated: u32,
}

impl World {
    /// An empty folder; records will be of `day` (`2026-11-20`).
    pub(crate) fn new(folder: &Path, day: &str, seed: u64) -> io::Result<World> {
        fs::create_dir_all(folder)?;
        let stream = |number| Stream { number, next: 0, rest: None, rotated: 0 };
        Ok(World {
            folder: folder.to_path_buf(),
            random: Random::new(seed),
            streams: (0..STREAMS).map(stream).collect(),
            written: BTreeSet::new(),
            day: day.into(),
            clock: 0,
        })
    }

    /// Takes the next step: mostly lines, now and then a rotation.
    pub(crate) fn step(&mut self) -> io::Result<()> {
        let number = self.random.below(u64::from(STREAMS)) as usize;
        match self.random.below(16) {
            0 => self.rotate_by_rename(number, false),
            1 => self.rotate_by_rename(number, true),
            2 => self.rotate_by_copy(number),
            3 | 4 => self.write_piece(number),
            _ => {
                let lines = 1 + self.random.below(12);
                (0..lines).try_for_each(|_| self.write_line(number))
            }
        }
    }

    /// Ends lines that were begun.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        (0..self.streams.len()).try_for_each(|number| self.end_line(number))
    }

    fn path(&self, number: usize) -> PathBuf {
        self.folder.join(format!("app-{number}.log"))
    }

    fn append(&self, number: usize, bytes: &[u8]) -> io::Result<()> {
        File::options().append(true).create(true).open(self.path(number))?.write_all(bytes)
    }

    fn next_line(&mut self, number: usize) -> (String, Id) {
        let stream = &mut self.streams[number];
        let id = Id { stream: stream.number, seq: stream.next };
        stream.next += 1;
        self.clock += 1 + self.random.below(2_000);
        let (seconds, micros) = (self.clock / 1_000_000, self.clock % 1_000_000);
        let time = format!(
            "{}T{:02}:{:02}:{:02}.{micros:06}Z",
            self.day,
            seconds / 3600 % 24,
            seconds / 60 % 60,
            seconds % 60
        );
        // Most lines are short; one in two hundred is longer than a chunk that is read at once.
        let length = match self.random.below(200) {
            0 => 64 << 10,
            n if n < 20 => 1 + self.random.below(4_000) as usize,
            _ => 1 + self.random.below(120) as usize,
        };
        (line::line(id, &time, length), id)
    }

    fn write_line(&mut self, number: usize) -> io::Result<()> {
        self.end_line(number)?;
        let (line, id) = self.next_line(number);
        self.append(number, line.as_bytes())?;
        self.written.insert(id);
        Ok(())
    }

    /// Writes a line without its end.
    fn write_piece(&mut self, number: usize) -> io::Result<()> {
        self.end_line(number)?;
        let (line, id) = self.next_line(number);
        let (piece, rest) = line.split_at(1 + self.random.below(line.len() as u64 - 1) as usize);
        self.append(number, piece.as_bytes())?;
        self.streams[number].rest = Some((rest.into(), id));
        Ok(())
    }

    fn end_line(&mut self, number: usize) -> io::Result<()> {
        let Some((rest, id)) = self.streams[number].rest.take() else { return Ok(()) };
        self.append(number, rest.as_bytes())?;
        self.written.insert(id);
        Ok(())
    }

    fn rotated_path(&mut self, number: usize) -> PathBuf {
        self.streams[number].rotated += 1;
        let rotated = self.streams[number].rotated;
        self.folder.join(format!("app-{number}.log.{rotated}"))
    }

    /// As logrotate does by default; sometimes the program goes on writing to the old file for a while.
    fn rotate_by_rename(&mut self, number: usize, goes_on: bool) -> io::Result<()> {
        self.end_line(number)?;
        if !self.path(number).exists() {
            return self.write_line(number);
        }
        let rotated = self.rotated_path(number);
        fs::rename(self.path(number), &rotated)?;
        if goes_on {
            let (line, id) = self.next_line(number);
            File::options().append(true).open(&rotated)?.write_all(line.as_bytes())?;
            self.written.insert(id);
        }
        self.write_line(number)
    }

    /// A copy is made and the file truncated, as `copytruncate` does. Nothing is written in between.
    fn rotate_by_copy(&mut self, number: usize) -> io::Result<()> {
        self.end_line(number)?;
        if !self.path(number).exists() {
            return self.write_line(number);
        }
        let rotated = self.rotated_path(number);
        let temporary = self.folder.join(format!("copy-{number}.tmp"));
        fs::copy(self.path(number), &temporary)?;
        fs::rename(&temporary, &rotated)?;
        File::options().write(true).open(self.path(number))?.set_len(0)?;
        self.write_line(number)
    }
}
