//! Six files that grow, for the daemon to follow.

use super::{Ending, Load};
use crate::line::{self, Id};
use crate::oracle::Written;
use crate::run::Place;
use daytable_crash::random::Random;
use std::fs::File;
use std::io::{self, Write};
use std::thread;
use std::time::{Duration, Instant};

const FILES: u32 = 6;
/// Lines of all files per second.
const LINES_PER_S: u64 = 1_500 * FILES as u64;
/// The time between two writes to a file.
const PAUSE: Duration = Duration::from_millis(20);
/// Characters of a message beyond its number and checksum.
const PAYLOAD_MAX: u64 = 200;
/// The stream of the first file.
const STREAM: u32 = 20;

/// The configuration that follows the files.
pub(super) fn block(place: &Place) -> String {
    let logs = place.logs();
    let logs = logs.display();
    format!("[[tail]]\ninclude = [\"{logs}/load-*.log\"]\ninstance = \"{{stem}}\"\npoll = \"20ms\"\n")
}

/// Writes lines until the load is over. Returns the records.
pub(super) fn write(load: &Load, place: &Place, ending: &Ending) -> io::Result<Written> {
    let mut random = Random::new(load.seed ^ 0x6669_6c65);
    let append =
        |number| File::options().append(true).create(true).open(place.logs().join(format!("load-{number}.log")));
    let mut files: Vec<File> = (0..FILES).map(append).collect::<io::Result<_>>()?;
    let (began, mut written, mut count) = (Instant::now(), Written::default(), 0);
    while !ending.is_over() {
        let due = began.elapsed().as_millis() as u64 * LINES_PER_S / 1000;
        let mut lines = vec![String::new(); files.len()];
        while count < due {
            let number = random.below(u64::from(FILES));
            let id = Id { stream: STREAM + number as u32, seq: count };
            let time = if load.has_late && random.one_in(40) { load.clock.late(&mut random) } else { load.clock.now() };
            lines[number as usize] += &line::line(id, &time.to_string(), random.below(PAYLOAD_MAX) as usize);
            written.add(id);
            count += 1;
        }
        for (file, lines) in files.iter_mut().zip(lines) {
            file.write_all(lines.as_bytes())?;
        }
        thread::sleep(PAUSE);
    }
    Ok(written)
}
