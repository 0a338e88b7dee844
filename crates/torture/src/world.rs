//! The changes to the log files: lines are appended, whole and in pieces, and the files are rotated in every usual way.
//!
//! ```text
//! app-0.log, app-1.log      objects of JSON; renamed, copied and truncated, compressed, removed and made anew
//! app-2.log                 a symbolic link to app-2.log.N, which is swapped for one to the next
//! cri-3.log                 as a container's runtime writes: long lines come in pieces (P, P, F)
//! bare-4.log                lines of one byte, most of which are there many times; renamed
//! ```
//!
//! A world is a list of steps from a seed. The player of the run takes the steps, so that a step can fall between any
//! two system calls of the collector. The times begin shortly before midnight and cross it.

use crate::line::{self, BARE, BARE_FILE, Id};
use crate::oracle::Written;
use crate::stream::Stream;
use daytable_crash::random::Random;
use daytable_model::time::{Ticks, now};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Formats that a collector can read besides plain lines. Other formats are replaced by plain lines in unrotated files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Abilities {
    /// Lines that a container runtime split.
    pub(crate) cri: bool,
    /// Files compressed after their rotation.
    pub(crate) gzip: bool,
    /// Files copied and truncated at their rotation.
    pub(crate) copies: bool,
}

/// The files of one run, and the written records.
pub(crate) struct World {
    random: Random,
    streams: Vec<Stream>,
    /// Every record whose newline is written.
    pub(crate) written: Written,
    abilities: Abilities,
    start: Ticks,
    clock: Duration,
    /// The number of records with the present time.
    present: u64,
    aside: Option<PathBuf>,
    folder: PathBuf,
}

/// The stream of records with the present time, which convince a collector that the clock is right.
const PRESENT: u32 = 5;

/// The age of the records in days: enough for their days to be over.
const DAYS_AGO: u64 = 3;
const DAY: Duration = Duration::from_secs(86_400);

impl World {
    /// An empty folder.
    pub(crate) fn new(folder: &Path, abilities: Abilities, seed: u64) -> io::Result<World> {
        fs::create_dir_all(folder)?;
        let midnight = now().get() / daytable_model::time::TICKS_PER_DAY * daytable_model::time::TICKS_PER_DAY;
        let midnight = Ticks::new(midnight).ok_or(io::Error::other("no such day"))?;
        let names = ["app-0", "app-1", "app-2", "cri-3", BARE_FILE];
        let names = (0..).zip(names);
        Ok(World {
            random: Random::new(seed),
            streams: names.map(|(number, name)| Stream::new(folder.join(format!("{name}.log")), number)).collect(),
            written: Written::default(),
            abilities,
            start: midnight.minus(DAY * DAYS_AGO as u32 + Duration::from_millis(50)),
            clock: Duration::ZERO,
            present: 0,
            aside: None,
            folder: folder.into(),
        })
    }

    /// The days of the records in table names, such as `20261121`.
    pub(crate) fn days(&self) -> [String; 2] {
        [Duration::ZERO, DAY].map(|later| self.start.plus(later).to_string()[..10].replace('-', ""))
    }

    /// The time of the first record.
    pub(crate) fn start(&self) -> Ticks {
        self.start
    }

    /// Takes the next step: mostly lines, sometimes a rotation.
    pub(crate) fn step(&mut self) -> io::Result<()> {
        let stream = self.random.below(self.streams.len() as u64) as usize;
        let (kind, number) = (self.random.below(18), self.streams[stream].number);
        match kind {
            0 => self.rotate(stream, false),
            1 => self.rotate(stream, true),
            2 if number < 2 && self.abilities.copies => self.copy_and_truncate(stream),
            3 if number < 2 && self.abilities.gzip && self.streams[stream].has_packable() => {
                self.streams[stream].compress()
            }
            4 | 5 if number != BARE => self.write_piece(stream),
            6 if number < 2 => self.write_again(stream),
            _ => {
                let lines = 1 + self.random.below(12);
                (0..lines).try_for_each(|_| self.write_line(stream))
            }
        }
    }

    /// Rotates each file twice, as happens while no collector runs.
    pub(crate) fn rotate_twice(&mut self) -> io::Result<()> {
        (0..self.streams.len() * 2).try_for_each(|n| self.rotate(n / 2, false))
    }

    /// Notes that the collector has read every line.
    pub(crate) fn was_read(&mut self) {
        self.streams.iter_mut().for_each(Stream::was_read);
    }

    /// Completes unfinished lines and compressions.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        (0..self.streams.len()).try_for_each(|stream| {
            self.end_line(stream)?;
            self.streams[stream].compress_on()
        })
    }

    /// Removes the files already read. New files of the same names replace the present ones and often get their inodes.
    pub(crate) fn forget(&mut self) -> io::Result<()> {
        self.finish()?;
        for stream in 0..self.streams.len() {
            for file in self.streams[stream].forget()? {
                match &self.aside {
                    None => fs::remove_file(file)?,
                    Some(aside) => fs::rename(&file, aside.join(file.file_name().unwrap_or_default()))?,
                }
            }
        }
        (0..self.streams.len()).try_for_each(|stream| self.write_line(stream))
    }

    /// Sets removed files aside instead, so that the time before can be played again.
    pub(crate) fn set_aside(&mut self, aside: PathBuf) -> io::Result<()> {
        fs::create_dir_all(&aside)?;
        self.aside = Some(aside);
        Ok(())
    }

    /// Restores the files set aside, under unused names that a rotation may make, or removes them again.
    pub(crate) fn bring_back(&self, is_back: bool) -> io::Result<()> {
        let Some(aside) = &self.aside else { return Ok(()) };
        for entry in fs::read_dir(aside)?.chain(fs::read_dir(&self.folder)?) {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            match (path.parent() == Some(aside), name.strip_suffix(".back")) {
                (true, _) if is_back => fs::rename(&path, self.folder.join(format!("{name}.back")))?,
                (false, Some(name)) if !is_back => fs::rename(&path, aside.join(name))?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Writes a record with the present time.
    pub(crate) fn write_present(&mut self) -> io::Result<()> {
        let id = Id { stream: PRESENT, seq: self.present };
        self.present += 1;
        self.streams[0].append(line::line(id, &now().to_string(), 20).as_bytes())?;
        self.written.add(id);
        Ok(())
    }

    fn next_line(&mut self, stream: usize) -> (String, Id) {
        let Stream { number, next, path, .. } = &mut self.streams[stream];
        let number = *number;
        // Neighbouring files with the same bytes look like copies, so each file gets one line of its own.
        let is_first = !path.exists();
        if number == BARE && !is_first {
            let letter = b'a' + self.random.below(26) as u8;
            return (format!("{}\n", char::from(letter)), Id { stream: number, seq: u64::from(letter) });
        }
        let id = Id { stream: number, seq: *next };
        *next += 1;
        if number == BARE {
            return (format!("{}\n", line::message(id, 1)), id);
        }
        self.clock += Duration::from_micros(1 + self.random.below(2_000));
        let time = self.start.plus(self.clock).to_string();
        // Most lines are short. Some are longer than a read buffer, and a few reach the maximum.
        let length = match self.random.below(400) {
            0 => (1 << 20) - 200,
            1 | 2 => 64 << 10,
            n if n < 40 => 1 + self.random.below(4_000) as usize,
            _ => 1 + self.random.below(120) as usize,
        };
        let mut line = line::line(id, &time, length);
        if self.abilities.cri && number == 3 {
            let mut cuts: Vec<usize> = match self.random.below(3) {
                0 => (0..1 + self.random.below(3)).map(|_| self.random.below(line.len() as u64) as usize).collect(),
                _ => Vec::new(),
            };
            // A container runtime cuts lines longer than 16 KiB.
            cuts.extend((16 << 10..line.len() - 1).step_by(16 << 10));
            cuts.sort_unstable();
            line = line::in_pieces(&line, &time, &cuts);
        }
        (line, id)
    }

    fn write_line(&mut self, stream: usize) -> io::Result<()> {
        self.end_line(stream)?;
        let (line, id) = self.next_line(stream);
        self.streams[stream].append(line.as_bytes())?;
        self.written.add(id);
        Ok(())
    }

    /// Writes one line several times, with the same bytes.
    fn write_again(&mut self, stream: usize) -> io::Result<()> {
        self.end_line(stream)?;
        let (line, id) = self.next_line(stream);
        (0..2 + self.random.below(4)).try_for_each(|_| {
            self.streams[stream].append(line.as_bytes())?;
            self.written.add(id);
            Ok(())
        })
    }

    /// Writes a line without its end.
    fn write_piece(&mut self, stream: usize) -> io::Result<()> {
        self.end_line(stream)?;
        let (line, id) = self.next_line(stream);
        // A runtime writes the pieces at once, so a collector need not wait for them for ever.
        let end = line.find('\n').unwrap_or(line.len() - 1).max(2);
        let (piece, rest) = line.split_at(1 + self.random.below(end as u64 - 1) as usize);
        self.streams[stream].append(piece.as_bytes())?;
        self.streams[stream].rest = Some((rest.into(), id));
        Ok(())
    }

    fn end_line(&mut self, stream: usize) -> io::Result<()> {
        let Some((rest, id)) = self.streams[stream].rest.take() else { return Ok(()) };
        self.streams[stream].append(rest.as_bytes())?;
        self.written.add(id);
        Ok(())
    }

    /// Renames the old file, or moves the link. Sometimes the program continues to write to the old file.
    fn rotate(&mut self, stream: usize, goes_on: bool) -> io::Result<()> {
        self.end_line(stream)?;
        if !self.streams[stream].path.exists() {
            return self.write_line(stream);
        }
        let old: PathBuf = self.streams[stream].rename()?;
        if goes_on {
            let (line, id) = self.next_line(stream);
            io::Write::write_all(&mut fs::File::options().append(true).open(old)?, line.as_bytes())?;
            self.written.add(id);
        }
        self.write_line(stream)
    }

    /// Copies and truncates the file, without a write in between.
    fn copy_and_truncate(&mut self, stream: usize) -> io::Result<()> {
        self.end_line(stream)?;
        if self.streams[stream].path.exists() {
            self.streams[stream].copy_and_truncate()?;
        }
        self.write_line(stream)
    }
}
