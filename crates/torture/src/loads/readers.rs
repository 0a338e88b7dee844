//! Those who ask while others write.

use super::http::Connection;
use super::{Ending, Load};
use crate::Options;
use crate::pushes;
use crate::run::{self, Place};
use daytable_crash::random::Random;
use std::io;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

/// How long a reader waits before its next question at most.
const PAUSE_MS_MAX: u64 = 200;

const QUESTIONS: [&str; 6] = [
    "/api/query?limit=200",
    "/api/query?limit=1000&q=level:error",
    "/api/count?by=level,instance",
    "/api/hits?q=*&step=1m&by=level",
    "/api/query?limit=100&instance=one",
    "/api/stats?q=*%7Cstats%20by%20(level)%20count()%20n",
];

/// Asks one question after the other. An answer may break off, because the daemon is killed.
pub(super) fn read(options: &Options, place: &Place, load: &Load, number: u64, ending: &Ending) -> io::Result<()> {
    let mut random = Random::new(load.seed ^ number << 32 ^ 0x7265_6164);
    let daytable = options.daytable();
    let mut connection = Connection::to(&pushes::socket(place));
    while !ending.is_over() {
        thread::sleep(Duration::from_millis(random.below(PAUSE_MS_MAX)));
        match random.below(12) {
            0 if !load.is_killed => {
                // Between a kill and the next start a folder has to be repaired, which a verification may see.
                let verify = daytable.command_on(&place.home(), "verify").output()?;
                if !verify.status.success() {
                    let said = String::from_utf8_lossy(&[verify.stdout, verify.stderr].concat()).into_owned();
                    return Err(io::Error::other(format!("verify beside the daemon says: {said}")));
                }
            }
            0 | 1 => drop(daytable.command_on(&place.home(), "count").output()?),
            _ => {
                let question = QUESTIONS[random.below(QUESTIONS.len() as u64) as usize];
                match connection.get(question) {
                    Ok((200 | 429 | 503, _)) | Err(_) => {}
                    Ok((status, body)) => {
                        let said = String::from_utf8_lossy(&body).into_owned();
                        return Err(io::Error::other(format!("{question} got {status}: {said}")));
                    }
                }
            }
        }
    }
    Ok(())
}

/// Has `daytable tail` open, so that every commit is awaited.
pub(super) fn follow(options: &Options, place: &Place, ending: &Ending) -> io::Result<()> {
    let start = || -> io::Result<Child> {
        let mut tail = options.daytable().command_on(&place.home(), "tail");
        tail.stdout(Stdio::null()).stderr(Stdio::null()).spawn()
    };
    let mut tail = start()?;
    while !ending.is_over() {
        thread::sleep(Duration::from_millis(PAUSE_MS_MAX));
        // It may have met a folder without a daemon.
        if tail.try_wait()?.is_some() {
            tail = start()?;
        }
    }
    run::end(&mut tail)
}
