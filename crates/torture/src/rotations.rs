//! Rotation as it is done in earnest: by rename or by copy, with `gzip` at once or one rotation later, at every pace, with
//! rotated names that the collector follows and with others, and a first meeting under each name that a file has in its life.
//!
//! ```text
//! delayed    a.log.1 is compressed, the others move on by one, a.log becomes a.log.1   logrotate, delaycompress
//! moved      the others move on by one, a.log becomes a.log.1, a.log.2 is compressed   scripts
//! at once    the others move on by one, a.log becomes a.log.1, a.log.1 is compressed   logrotate, compress
//! copied     the others move on by one, a.log is copied to a.log.1 and truncated, a.log.1 is compressed
//! ```
//!
//! Nothing is killed here: the collector runs from the first record to the last, and what is tried are the moments at which it
//! looks. Every record has to be there once but those of files that were rotated before the collector began.

use crate::found::{Found, Tally};
use crate::line::{self, Id};
use crate::oracle::Written;
use crate::random::Random;
use crate::run::{self, Place};
use crate::{Options, in_rounds};
use daytable_model::time::now;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Rotations of a round.
const ROTATIONS: u64 = 6;
/// Records of a file.
const RECORDS: u64 = 40;
/// What the collector is left alone for at most between two rotations, in milliseconds; mostly it is much less.
const PACES: [u64; 8] = [0, 20, 100, 200, 400, 700, 1_200, 2_500];
/// At such paces a file is there for long enough to be met before it is compressed, in milliseconds.
const SEEN_WITHIN: u64 = 1_200;
/// Within this a collector that runs has read what is written.
const SEEN: Duration = Duration::from_millis(1_500);
/// The last rotated files have ended, and been looked at as copies once more.
const AFTER: Duration = Duration::from_secs(7);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Delayed,
    Moved,
    AtOnce,
    Copied,
}

/// Rotates `options.count` times, in rounds of a collector each.
pub(crate) fn gzipped(options: &Options) -> Found {
    in_rounds(options, "rotations", ROTATIONS, "rotations with gzip", |place, seed, tally| {
        play(options, place, seed, tally)
    })
}

/// A log and what became of it, the newest first.
struct Log {
    path: PathBuf,
    style: Style,
    written: Written,
    next: u64,
    has_gzip: bool,
}

fn play(options: &Options, place: &Place, seed: u64, tally: &Tally) -> Result<(), String> {
    let failed = |error: io::Error| error.to_string();
    let collector = &*options.collector;
    let mut random = Random::new(seed.rotate_left(32) ^ 0x726f_7461);
    let mut pick = |most: u64| random.below(most);
    let style = [Style::Delayed, Style::Moved, Style::AtOnce, Style::Copied][(seed % 4) as usize];
    // `app-0.log*` is followed under all names, `only-0.log` under this one.
    let name = ["app-0.log", "only-0.log"][(seed / 4 % 2) as usize];
    let met_as = seed / 8 % 3;
    let pace = PACES[(seed / 24 % 8) as usize];
    let is_met_first = pace < SEEN_WITHIN || matches!(style, Style::AtOnce | Style::Copied);
    fs::create_dir_all(place.logs()).map_err(failed)?;
    let has_gzip = Command::new("gzip").arg("--version").stdout(Stdio::null()).status().is_ok();
    let mut log = Log { path: place.logs().join(name), style, written: Written::default(), next: 0, has_gzip };
    // A file that the collector meets as `app-0.log.1`, or only when it is compressed.
    for _ in 0..met_as {
        log.write(false).map_err(failed)?;
        if pick(3) == 0 {
            log.grow_old().map_err(failed)?;
        }
        log.rotate().map_err(failed)?;
    }
    let mut child = run::start(collector, place).map_err(failed)?;
    let rotated = (|| {
        // The collector has to have read a file of the name before the first is compressed.
        if met_as > 0 {
            // Under the name that it has now, before there is one of the name that it had.
            std::thread::sleep(SEEN);
        }
        if is_met_first || pick(2) == 0 {
            log.write(true)?;
            let until = Instant::now() + place.patience;
            // What cannot be read now may be in the middle of something.
            while collector.messages(&place.home()).map_or(0, |messages| messages.len()) < log.written.least() {
                if Instant::now() > until {
                    return Err(io::Error::other("the first file is never read"));
                }
                std::thread::sleep(SEEN / 10);
            }
        }
        for _ in 0..ROTATIONS {
            log.write(true)?;
            std::thread::sleep(Duration::from_millis(pace / 2 + pick(pace + 1)));
            log.rotate()?;
        }
        log.write(true)?;
        std::thread::sleep(AFTER);
        Ok(())
    })();
    if let Err(error) = rotated {
        run::end(&mut child).map_err(failed)?;
        return Err(failed(error));
    }
    tally.wrote(&log.written);
    run::settled(collector, place, &log.written, tally, child)
        .map_err(|fault| format!("{style:?}, {name}, met {met_as} rotations late, every {pace} ms: {fault}"))
}

impl Log {
    /// Writes a file's worth of records. They have to be there if `is_due`; else they may be, once.
    fn write(&mut self, is_due: bool) -> io::Result<()> {
        let mut text = String::new();
        for _ in 0..RECORDS {
            let id = Id { stream: 0, seq: self.next };
            self.next += 1;
            text += &line::line(id, &now().to_string(), 60);
            self.written.records.insert(id, (usize::from(is_due), 1));
        }
        File::options().append(true).create(true).open(&self.path)?.write_all(text.as_bytes())
    }

    /// Gives the file the time of a day with less to do.
    fn grow_old(&self) -> io::Result<()> {
        let before = std::time::SystemTime::now() - Duration::from_secs(60);
        File::options().append(true).open(&self.path)?.set_modified(before)
    }

    fn old(&self, number: u32, end: &str) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push(format!(".{number}{end}"));
        name.into()
    }

    fn rotate(&self) -> io::Result<()> {
        if self.style == Style::Delayed {
            self.compress(&self.old(1, ""))?;
        }
        for number in (1..20).rev() {
            for end in ["", ".gz"] {
                let old = self.old(number, end);
                if old.exists() {
                    fs::rename(old, self.old(number + 1, end))?;
                }
            }
        }
        let first = self.old(1, "");
        if self.style == Style::Copied {
            fs::copy(&self.path, &first)?;
            File::options().write(true).open(&self.path)?.set_len(0)?;
        } else {
            fs::rename(&self.path, &first)?;
        }
        match self.style {
            Style::Delayed => Ok(()),
            Style::Moved => self.compress(&self.old(2, "")),
            Style::AtOnce | Style::Copied => self.compress(&first),
        }
    }

    /// As gzip(1) does: the compressed file is made, written, given the time of the other, and then that goes.
    fn compress(&self, path: &Path) -> io::Result<()> {
        if !path.exists() {
            return Ok(());
        }
        if self.has_gzip {
            let status = Command::new("gzip").arg(path).status()?;
            return if status.success() { Ok(()) } else { Err(io::Error::other(format!("gzip: {status}"))) };
        }
        let mut name = path.as_os_str().to_owned();
        name.push(".gz");
        let mut packed = File::create_new(PathBuf::from(name))?;
        let mut packer = GzEncoder::new(Vec::new(), Compression::default());
        packer.write_all(&fs::read(path)?)?;
        let bytes = packer.finish()?;
        bytes.chunks(bytes.len() / 3 + 1).try_for_each(|part| packed.write_all(part))?;
        packed.set_modified(fs::metadata(path)?.modified()?)?;
        fs::remove_file(path)
    }
}
