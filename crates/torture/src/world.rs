//! What happens to the files that are read: lines are appended, whole and in pieces, and the files are rotated in every
//! way that rotation knows.
//!
//! ```text
//! app-0.log, app-1.log      objects of JSON; renamed, copied and truncated, compressed, removed and made anew
//! app-2.log                 a symbolic link to app-2.log.N, which is swapped for one to the next
//! cri-3.log                 as a container's runtime writes: long lines come in pieces (P, P, F)
//! bare-4.log                lines of one byte, most of which are there many times; renamed
//! ```
//!
//! A world is a list of steps that a seed gives. It is taken step by step, by whoever plays the run, so that a step can
//! fall between any two system calls of the collector. Times begin shortly before a midnight and cross it.

use crate::line::{self, BARE, Id};
use crate::oracle::Written;
use crate::random::Random;
use crate::stream::Stream;
use daytable_model::time::{Ticks, now};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a collector can read, besides plain lines. What it cannot is written as plain lines in files that stay as they are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Abilities {
    /// Lines that a container's runtime split.
    pub(crate) cri: bool,
    /// Files that were compressed after their rotation.
    pub(crate) gzip: bool,
}

/// The files of one run, and what was written to them.
pub(crate) struct World {
    random: Random,
    streams: Vec<Stream>,
    /// Every record whose newline is written.
    pub(crate) written: Written,
    abilities: Abilities,
    start: Ticks,
    clock: Duration,
    /// How many records of the present there are.
    present: u64,
    aside: Option<PathBuf>,
    folder: PathBuf,
}

/// The stream of records that are of the present, by which a collector believes the clock.
const PRESENT: u32 = 5;

/// How many days ago the records are: long enough for their days to be over.
const DAYS_AGO: u64 = 3;
const DAY: Duration = Duration::from_secs(86_400);

impl World {
    /// An empty folder.
    pub(crate) fn new(folder: &Path, abilities: Abilities, seed: u64) -> io::Result<World> {
        fs::create_dir_all(folder)?;
        let midnight = now().get() / daytable_model::time::TICKS_PER_DAY * daytable_model::time::TICKS_PER_DAY;
        let midnight = Ticks::new(midnight).ok_or(io::Error::other("no such day"))?;
        let names = ["app-0", "app-1", "app-2", "cri-3", "bare-4"];
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

    /// The tables' days of its records, as in `20261121`.
    pub(crate) fn days(&self) -> [String; 2] {
        [Duration::ZERO, DAY].map(|later| self.start.plus(later).to_string()[..10].replace('-', ""))
    }

    /// When its records begin.
    pub(crate) fn start(&self) -> Ticks {
        self.start
    }

    /// Takes the next step: mostly lines, now and then a rotation.
    pub(crate) fn step(&mut self) -> io::Result<()> {
        let stream = self.random.below(self.streams.len() as u64) as usize;
        let (kind, number) = (self.random.below(18), self.streams[stream].number);
        match kind {
            0 => self.rotate(stream, false),
            1 => self.rotate(stream, true),
            2 if number < 2 => self.copy_and_truncate(stream),
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

    /// Two rotations of each file, as they come while nobody reads.
    pub(crate) fn rotate_twice(&mut self) -> io::Result<()> {
        (0..self.streams.len() * 2).try_for_each(|n| self.rotate(n / 2, false))
    }

    /// The collector has read all that was written.
    pub(crate) fn was_read(&mut self) {
        self.streams.iter_mut().for_each(Stream::was_read);
    }

    /// Ends what was begun: lines, and files that are being compressed.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        (0..self.streams.len()).try_for_each(|stream| {
            self.end_line(stream)?;
            self.streams[stream].compress_on()
        })
    }

    /// Removes what has been read: the old files go, and the present ones make way for new ones of the same names, which
    /// often get their inodes.
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

    /// Has files that are removed set aside instead, so that the time before can be played again.
    pub(crate) fn set_aside(&mut self, aside: PathBuf) -> io::Result<()> {
        fs::create_dir_all(&aside)?;
        self.aside = Some(aside);
        Ok(())
    }

    /// Brings the files that were set aside back, under names that a rotation may make and that nothing else has, or takes
    /// them away again.
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

    /// Writes a record of this moment.
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
        // Files that stand beside each other with the same bytes cannot be told from copies, so one line is its own.
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
        // Most lines are short; some are longer than a chunk that is read at once, and a few as long as a line may be.
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
            // A runtime cuts what is longer than 16 KiB.
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

    /// Writes one line several times, the same in each byte.
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
        // The pieces of a runtime come at once: a collector need not wait for them for ever.
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

    /// The old file gets another name, or the link another file; sometimes the program goes on writing to the old one.
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

    /// A copy is made and the file truncated. Nothing is written in between.
    fn copy_and_truncate(&mut self, stream: usize) -> io::Result<()> {
        self.end_line(stream)?;
        if self.streams[stream].path.exists() {
            self.streams[stream].copy_and_truncate()?;
        }
        self.write_line(stream)
    }
}
