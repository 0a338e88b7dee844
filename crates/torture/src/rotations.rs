//! Real rotations: by rename or by copy, with `gzip` at once or one rotation later, and at every pace. The collector
//! follows some of the rotated names and ignores others. It first meets a file under each of the file's names.
//!
//! ```text
//! delayed    a.log.1 is compressed, the others move on by one, a.log becomes a.log.1   logrotate, delaycompress
//! moved      the others move on by one, a.log becomes a.log.1, a.log.2 is compressed   scripts
//! at once    the others move on by one, a.log becomes a.log.1, a.log.1 is compressed   logrotate, compress
//! copied     the others move on by one, a.log is copied to a.log.1 and truncated, a.log.1 is compressed
//! ```
//!
//! The collector is never killed: it runs from the first record to the last. The test varies the moments at which the
//! collector looks. Every record must be there once, except records of files that were rotated before the collector's
//! start, or compressed and removed within a look.

use crate::found::{Found, Tally};
use crate::line::{self, Id};
use crate::oracle::Written;
use crate::run::{self, Place};
use crate::{Options, in_rounds};
use daytable_crash::random::Random;
use daytable_model::time::now;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Rotations per round.
const ROTATIONS: u64 = 6;
/// Records per file.
const RECORDS: u64 = 40;
/// Maximum pauses between two rotations, in milliseconds. Most pauses are much shorter.
const PACES: [u64; 8] = [0, 20, 100, 200, 400, 700, 1_200, 2_500];
/// Minimum pace at which the collector surely meets a file before its compression, in milliseconds.
const SEEN_WITHIN: u64 = 1_200;
/// Time in which a running collector reads all written lines.
const SEEN: Duration = Duration::from_millis(1_500);
/// Time after which the last rotated files have ended and the collector has compared them as copies once more.
const AFTER: Duration = Duration::from_secs(7);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Delayed,
    Moved,
    AtOnce,
    Copied,
}

/// Rotates `options.count` times, in rounds with a new collector.
pub(crate) fn gzipped(options: &Options) -> Found {
    in_rounds(options, "rotations", ROTATIONS, "rotations with gzip", |place, seed, tally| {
        play(options, place, seed, tally)
    })
}

/// A log and its older files, newest first.
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
    // The collector follows `app-0.log*` under all names, and `only-0.log` under this name only.
    let name = ["app-0.log", "only-0.log"][(seed / 4 % 2) as usize];
    let met_as = seed / 8 % 3;
    let pace = PACES[(seed / 24 % 8) as usize];
    let is_met_first = pace < SEEN_WITHIN || matches!(style, Style::AtOnce | Style::Copied);
    fs::create_dir_all(place.logs()).map_err(failed)?;
    let has_gzip = Command::new("gzip").arg("--version").stdout(Stdio::null()).status().is_ok();
    let mut log = Log { path: place.logs().join(name), style, written: Written::default(), next: 0, has_gzip };
    // The collector meets this file as `app-0.log.1`, or only after its compression.
    for _ in 0..met_as {
        log.write(false).map_err(failed)?;
        if pick(3) == 0 {
            log.grow_old().map_err(failed)?;
        }
        log.rotate().map_err(failed)?;
    }
    let mut child = run::start(collector, place).map_err(failed)?;
    let rotated = (|| {
        // The collector must have read a file of the name before the first compression.
        if met_as > 0 {
            // The collector reads the file under its present name before a new file has the old name.
            std::thread::sleep(SEEN);
        }
        if is_met_first || pick(2) == 0 {
            log.write(true)?;
            let until = Instant::now() + place.patience;
            // A store that cannot be read now may be in the middle of a change.
            while collector.messages(&place.home()).map_or(0, |messages| messages.len()) < log.written.least() {
                if Instant::now() > until {
                    return Err(io::Error::other("the first file is never read"));
                }
                std::thread::sleep(SEEN / 10);
            }
        }
        // A file that was written, rotated, compressed and removed within a look was never seen, and its compressed copy
        // cannot be told from one of a file that was rotated before the start. Its records may be there, once.
        let is_seen = pace > 0 || !matches!(style, Style::AtOnce | Style::Copied);
        for _ in 0..ROTATIONS {
            log.write(is_seen)?;
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
    /// Writes one file of records. If `is_due`, the records must be there; otherwise they may be there once.
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

    /// Gives the file an older modification time, as on a quieter day.
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

    /// Compresses like gzip(1): creates and writes the compressed file, copies the time, then removes the original.
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
