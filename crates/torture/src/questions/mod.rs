//! Questions and followers that ask for more memory than there is, while records of odd shapes come.
//!
//! The daemon has a limit of memory, and is a process of a group with a little more: what it takes beyond, the kernel
//! answers with a kill. A round ends with every accepted record in the store, a folder that is whole, and the same
//! process that it began with.
//!
//! ```text
//! readers     8, with random programs of pipes and templates, small steps, exports: refused or answered, as it likes
//! followers   6 that do not read, or send a message without an end
//! clients     2, with records of many names, long texts and many fields
//! ```

mod asked;
mod followers;
mod group;
mod records;

use crate::Options;
use crate::collector::Daytable;
use crate::found::{Found, Tally};
use crate::loads::http::{self, Connection};
use crate::run::{self, Place};
use crate::{in_parallel, pushes};
use daytable_crash::random::Random;
use group::Group;
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Child;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

const READERS: u64 = 8;
const FOLLOWERS: u64 = 6;
const CLIENTS: u64 = 2;
/// The limit that the daemon is given.
const MEMORY_MAX: &str = "256MiB";
/// The limit of its group, and of its resident memory.
const GROUP_BYTES: u64 = 320_000_000;
/// Time between two requests of a client.
const PAUSE: Duration = Duration::from_millis(50);

/// The time of a round, or a fault of a part of it.
struct Ending {
    until: Instant,
    has_failed: AtomicBool,
}

impl Ending {
    fn is_over(&self) -> bool {
        Instant::now() >= self.until || self.has_failed.load(Ordering::Relaxed)
    }

    fn fail(&self, error: io::Error) -> io::Error {
        self.has_failed.store(true, Ordering::Relaxed);
        error
    }
}

/// The last question of each reader, for the report of a fault.
#[derive(Default)]
struct OpenQuestions(Mutex<BTreeMap<u64, String>>);

impl OpenQuestions {
    fn asks(&self, reader: u64, question: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(reader, question.to_owned());
    }
}

impl fmt::Display for OpenQuestions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.values().try_for_each(|question| writeln!(f, "  {question}"))
    }
}

/// Plays `options.rounds` rounds of `options.round_seconds`, each on an empty folder.
pub(crate) fn random(options: &Options) -> Found {
    let tally = Tally::begin();
    if options.collector.name() != "daytable" {
        return tally.found(options, "questions", "0 rounds, as it takes none", &[]);
    }
    // The memory of a round is that of the machine: one after the other.
    let faults = in_parallel(1, options.seed..options.seed + options.rounds, |seed| {
        let again = format!("--count 1 --seconds {} --seed {seed}", options.round_seconds);
        // Files in memory would be memory of the group.
        run::in_place_below(&std::env::temp_dir(), options, |place| play(options, place, seed, &tally))
            .map_err(|fault| format!("{}\n  {fault}", options.again("questions", &again)))
    });
    tally.found(options, "questions", &format!("{} rounds of {} s", options.rounds, options.round_seconds), &faults)
}

fn play(options: &Options, place: &Place, seed: u64, tally: &Tally) -> Result<(), String> {
    let failed = |error: io::Error| error.to_string();
    fs::create_dir_all(place.logs()).map_err(failed)?;
    let group = Group::make(&format!("daytable-torture-{}-{seed}", std::process::id()), GROUP_BYTES);
    let mut command = options.collector.command(&place.home(), &place.logs()).map_err(failed)?;
    command.env("DAYTABLE_MEMORY_MAX", MEMORY_MAX);
    let command = group.as_ref().map(|group| group.command(&command)).unwrap_or(command);
    let mut child = run::spawn(place, command).map_err(failed)?;
    let open = OpenQuestions::default();
    let played = under_questions(options, place, seed, &mut child, &open);
    let most = resident(&child);
    let ended = child.try_wait().map_err(failed)?;
    let kills = group.as_ref().map_or(Ok(0), Group::kills).map_err(failed)?;
    if let Some(status) = ended {
        return Err(format!("it ended by itself: {status}, killed {kills} times for its memory; it was asked\n{open}"));
    }
    run::terminate(&mut child).map_err(failed)?;
    let (accepted, asked) = played.map_err(failed)?;
    let most = most.map_err(failed)?;
    if kills > 0 || most > GROUP_BYTES {
        return Err(format!("it had {most} bytes of memory, and the kernel killed {kills} of the group"));
    }
    tally.counted(accepted);
    whole(options, &place.home(), accepted)?;
    let in_group = group.as_ref().map(|group| format!(", its group {} MB", group.most().unwrap_or(0) / 1_000_000));
    println!(
        "round {seed}: {accepted} records, {asked} questions, {} MB at most{}",
        most / 1_000_000,
        in_group.unwrap_or_else(|| ", without a group: this user makes none".into())
    );
    Ok(())
}

/// Asks, follows and pushes until the time is over. Returns how many records were accepted, and how many questions were
/// asked.
fn under_questions(
    options: &Options,
    place: &Place,
    seed: u64,
    child: &mut Child,
    open: &OpenQuestions,
) -> io::Result<(u64, u64)> {
    let socket = &pushes::socket(place);
    http::is_ready(socket, child)?;
    let until = Instant::now() + Duration::from_secs(options.round_seconds);
    let ending = &Ending { until, has_failed: AtomicBool::new(false) };
    let (accepted, asked) = (&AtomicU64::new(0), &AtomicU64::new(0));
    thread::scope(|scope| {
        let random = |part: u64| Random::new(seed ^ part << 40);
        let clients = (0..CLIENTS).map(|number| {
            let random = random(1 + number);
            scope.spawn(move || push(socket, random, ending, accepted).map_err(|error| ending.fail(error)))
        });
        let readers = (0..READERS).map(|number| {
            let random = random(100 + number);
            scope.spawn(move || ask(socket, (number, random), ending, asked, open).map_err(|error| ending.fail(error)))
        });
        let parts: Vec<_> = clients.chain(readers).collect();
        let followers: Vec<_> = (0..FOLLOWERS)
            .map(|number| random(200 + number))
            .map(|random| scope.spawn(move || followers::follow(socket, random, ending)))
            .collect();
        while !ending.is_over() {
            thread::sleep(PAUSE);
            if child.try_wait()?.is_some() {
                return Err(ending.fail(io::Error::other("it ended by itself")));
            }
        }
        let panicked = |_| io::Error::other("a part of the round panicked");
        for follower in followers {
            follower.join().map_err(panicked)?;
        }
        parts.into_iter().try_for_each(|part| part.join().map_err(panicked)?)
    })?;
    Ok((accepted.load(Ordering::Relaxed), asked.load(Ordering::Relaxed)))
}

/// Pushes one request after the other.
fn push(socket: &Path, mut random: Random, ending: &Ending, accepted: &AtomicU64) -> io::Result<()> {
    let mut connection = Connection::to(socket);
    while !ending.is_over() {
        let (request, count) = records::request(&mut random);
        loop {
            match connection.ask(&request)? {
                (200..=299, _) => {
                    accepted.fetch_add(count, Ordering::Relaxed);
                    break;
                }
                // No room now. Nothing of the request is stored.
                (429 | 503, _) if !ending.is_over() => thread::sleep(PAUSE),
                (429 | 503, _) => break,
                (status, body) => return Err(unexpected("a push", status, &body)),
            }
        }
        thread::sleep(PAUSE);
    }
    Ok(())
}

/// Asks one question after the other. An answer may break off where it is not whole.
fn ask(
    socket: &Path,
    (number, mut random): (u64, Random),
    ending: &Ending,
    asked: &AtomicU64,
    open: &OpenQuestions,
) -> io::Result<()> {
    while !ending.is_over() {
        let question = asked::question(&mut random);
        open.asks(number, &question);
        match Connection::to(socket).get(&question) {
            Ok((200 | 400 | 413 | 422 | 429 | 503, _)) | Err(_) => {}
            Ok((status, body)) => return Err(unexpected(&question, status, &body)),
        }
        asked.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

fn unexpected(what: &str, status: u16, body: &[u8]) -> io::Error {
    io::Error::other(format!("{what} got {status}: {}", String::from_utf8_lossy(body)))
}

/// The most bytes that a process had in memory.
fn resident(child: &Child) -> io::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id()))?;
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
    let most = most.and_then(|kb| kb.trim().parse::<u64>().ok()).map(|kb| kb * 1024);
    most.ok_or_else(|| io::Error::other("it ended by itself"))
}

/// Whether the folder is whole and has as many records as were accepted.
fn whole(options: &Options, home: &Path, accepted: u64) -> Result<(), String> {
    let daytable: Daytable = options.daytable();
    let failed = |error: io::Error| error.to_string();
    let counted = daytable.ask(home, "count", &[]).map_err(failed)?;
    let counted: u64 = counted.iter().filter_map(|count| count["records"].as_u64()).sum();
    if counted != accepted {
        return Err(format!("{accepted} records were accepted, and {counted} are there"));
    }
    let verify = daytable.command_on(home, "verify").output().map_err(failed)?;
    let said = String::from_utf8_lossy(&[verify.stdout, verify.stderr].concat()).into_owned();
    if !verify.status.success() {
        return Err(format!("verify says: {said}"));
    }
    Ok(())
}
