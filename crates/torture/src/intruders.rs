//! Mistakes of people with access to the data folder. A person removes `lock` under a daemon and starts a second
//! daemon, again and again, while a client pushes. A person removes the catalog's journal while no daemon runs.
//!
//! Whatever happens to the daemons, each acknowledged record is there once. A folder that lost its journal is refused,
//! `verify` reports the damage, and `repair` brings every record back.

use crate::found::{Found, Tally};
use crate::line::{self, Id};
use crate::pushes::socket;
use crate::run::{self, Place};
use crate::world::World;
use crate::{Options, in_rounds};
use daytable_crash::random::Random;
use daytable_model::time::now;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Removals per round.
const ROUND: u64 = 6;
/// Records in a folder that loses its journal: so few that the journal holds everything the catalog knows of them.
const RECORDS: u64 = 20;
/// The stream of pushed records.
const STREAM: u32 = 8;
/// Time limit for operations that take about a second.
const PATIENCE: Duration = Duration::from_secs(60);
/// Permitted exit codes of a daemon: the folder is in use, or is not what it was.
const ENDS: [i32; 2] = [IN_USE, NOT_WHAT_IT_WAS];
const IN_USE: i32 = 75;
const NOT_WHAT_IT_WAS: i32 = 65;

/// Removes `lock` `options.count` times.
pub(crate) fn random(options: &Options) -> Found {
    if options.collector.name() != "daytable" {
        return Tally::begin().found(options, "intruders", "0 removals, as it has no lock", &[]);
    }
    in_rounds(options, "intruders", ROUND, "removals of a lock", |place, seed, tally| play(options, place, seed, tally))
}

fn play(options: &Options, place: &Place, seed: u64, tally: &Tally) -> Result<(), String> {
    let failed = |error: io::Error| error.to_string();
    let collector = &*options.collector;
    let mut world = World::new(&place.logs(), collector.abilities(), seed).map_err(failed)?;
    lose_the_journal(options, place, &mut world)?;
    let mut random = Random::new(seed ^ 0x696e_7472);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let pushing = scope.spawn(|| {
            for seq in RECORDS.. {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                if !push(&socket(place), &mut world, seq) {
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
        });
        let removed = (0..ROUND).try_for_each(|_| remove(options, place, &mut random));
        is_over.store(true, Ordering::Relaxed);
        let _ = pushing.join();
        removed
    })
    .map_err(failed)?;
    tally.played(&world);
    run::settle(collector, place, &mut world, tally)
}

/// Pushes a record and returns whether the push was acknowledged. An acknowledged record is there once, any other at
/// most once.
fn push(socket: &Path, world: &mut World, seq: u64) -> bool {
    let id = Id { stream: STREAM, seq };
    world.written.records.insert(id, (0, 1));
    let is_taken = ask(socket, &line::line(id, &now().to_string(), 20)).is_ok_and(|is_taken| is_taken);
    if is_taken {
        world.written.records.insert(id, (1, 1));
    }
    is_taken
}

fn ask(socket: &Path, body: &str) -> io::Result<bool> {
    let mut daemon = UnixStream::connect(socket)?;
    daemon.set_read_timeout(Some(PATIENCE))?;
    let length = body.len();
    write!(
        daemon,
        "POST /ingest?instance=pushed HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: application/x-ndjson\r\nContent-Length: {length}\r\n\r\n{body}"
    )?;
    let mut answer = Vec::new();
    daemon.read_to_end(&mut answer)?;
    Ok(answer.starts_with(b"HTTP/1.1 200 "))
}

/// Starts two daemons and removes the first one's lock, before or during the start of the second.
fn remove(options: &Options, place: &Place, random: &mut Random) -> io::Result<()> {
    let start = || run::start(&*options.collector, place);
    let lock = place.store().join("data/lock");
    let pause = |random: &mut Random, most| std::thread::sleep(Duration::from_millis(random.below(most)));
    let mut daemons = vec![start()?];
    pause(random, 300);
    for _ in 0..2 {
        let _ = fs::remove_file(&lock);
        pause(random, 20);
        daemons.push(start()?);
        pause(random, 150);
        let _ = fs::remove_file(&lock);
    }
    pause(random, 1500);
    let mut fault = None;
    for daemon in &mut daemons {
        match daemon.try_wait()? {
            Some(status) if !status.code().is_some_and(|code| ENDS.contains(&code)) => fault = Some(status),
            Some(_) => {}
            None if random.one_in(2) => run::end(daemon)?,
            // The first daemon may notice only now.
            None => drop(run::terminate(daemon)),
        }
    }
    fault.map_or(Ok(()), |status| Err(io::Error::other(format!("a daemon ended: {status}"))))
}

/// Kills a daemon after a few commits, removes the journal of its catalog, and repairs the folder.
fn lose_the_journal(options: &Options, place: &Place, world: &mut World) -> Result<(), String> {
    let failed = |error: io::Error| error.to_string();
    let mut daemon = run::start(&*options.collector, place).map_err(failed)?;
    let deadline = Instant::now() + PATIENCE;
    while UnixStream::connect(socket(place)).is_err() {
        if Instant::now() >= deadline {
            run::end(&mut daemon).map_err(failed)?;
            return Err("it does not begin".into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let is_taken = (0..RECORDS).all(|seq| push(&socket(place), world, seq));
    run::end(&mut daemon).map_err(failed)?;
    if !is_taken {
        return Err("a push was not acknowledged".into());
    }
    fs::remove_file(place.store().join("data/catalog.db-wal")).map_err(failed)?;
    let run = options.collector.command(&place.home(), &place.logs()).map_err(failed)?;
    let program = run.get_program().to_owned();
    let on_data = |command: &str| {
        let mut on_data = Command::new(&program);
        on_data.args([command, "--data"]).arg(place.store().join("data"));
        ended(on_data)
    };
    if on_data("verify").map_err(failed)?.success() {
        return Err("verify says that a folder which lost its journal is whole".into());
    }
    let started = ended(run).map_err(failed)?;
    if started.code() != Some(NOT_WHAT_IT_WAS) {
        return Err(format!("it starts on a folder that lost its journal: {started}"));
    }
    let repaired = on_data("repair").map_err(failed)?;
    if !repaired.success() {
        return Err(format!("repair: {repaired}"));
    }
    run::settle(&*options.collector, place, world, &Tally::begin())
}

/// Runs a command to its end. Kills the command if it does not end in time.
fn ended(mut command: Command) -> io::Result<ExitStatus> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if Instant::now() >= deadline {
            run::end(&mut child)?;
            return child.wait();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
