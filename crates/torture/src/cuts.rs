//! Power cuts: a run is recorded, then the collector starts on the possible remains of its folder at many moments.
//!
//! The log files lie on another disk and stay whole. Halfway through the recording, the files already read are removed.
//! After a cut before the removal, the collector reads lost records again. After a later cut, only the folder has them.
//! In the end every record is there once.
//!
//! A client pushes meanwhile, and only the folder has the pushed records. After a cut at any moment:
//!
//! * a push whose answer the client received before the cut is there once;
//! * a push sent before the cut, without an answer, is there once or not at all: both of its records or neither;
//! * a push repeated after the cut under the same key is there once, whether answered before or not;
//! * a push not sent before the cut is not there.

use crate::found::{Found, Tally};
use crate::pushes::{self, Recorded};
use crate::run::{self, Place};
use crate::world::{Abilities, World};
use crate::{Options, in_parallel};
use daytable_crash::disk::Disk;
use daytable_crash::random::Random;
use daytable_crash::tracer::{Call, Player, Verdict};
use nix::unistd::Pid;
use std::fs;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Cuts per recording.
const CUTS: u64 = 24;

/// Cuts the power `options.count` times.
pub(crate) fn power(options: &Options) -> Found {
    let (tally, changes) = (Tally::begin(), AtomicU64::new(0));
    let recordings = options.count.div_ceil(CUTS);
    let faults = in_parallel(options.jobs, options.seed..options.seed + recordings, |seed| {
        let again = format!("--count {CUTS} --seed {seed}");
        let cut = run::in_place(options, |place| play(options, place, seed, &tally));
        cut.map(|count| _ = changes.fetch_add(count, Ordering::Relaxed))
            .map_err(|fault| format!("{}\n  {fault}", options.again("cuts", &again)))
    });
    let cuts = recordings * CUTS;
    tally.found(
        options,
        "cuts",
        &format!("{cuts} power cuts in {recordings} recordings of {} changes", changes.into_inner()),
        &faults,
    )
}

fn play(options: &Options, place: &Place, seed: u64, tally: &Tally) -> Result<u64, String> {
    let (mut world, recording) = record(options, place, seed)?;
    let mut random = Random::new(seed ^ 0x706f_7765);
    let heard = recording.client.heard();
    for number in 0..CUTS {
        let anywhere = random.below(recording.disk.len() as u64 + 1) as usize;
        let at = if number.is_multiple_of(4) { random.one_of(&heard) } else { None };
        cut(options, place, &mut world, &recording, at.copied().unwrap_or(anywhere), &mut random, tally)?;
    }
    tally.played(&world);
    Ok(recording.disk.len() as u64)
}

/// The changes to the folder, and the concurrent pushes.
pub(crate) struct Recording {
    pub(crate) disk: Disk,
    pub(crate) client: Recorded,
}

impl Player for Recording {
    fn before(&mut self, call: &Call) -> io::Result<Verdict> {
        self.client.step(self.disk.len());
        self.disk.before(call)
    }

    fn after(&mut self, thread: Pid, result: i64) {
        self.disk.after(thread, result);
    }

    fn forgotten(&mut self) {
        self.disk.forgotten();
        self.client.begin_second_half();
    }
}

/// Records every change that a run makes to the folder.
pub(crate) fn record(options: &Options, place: &Place, seed: u64) -> Result<(World, Recording), String> {
    let failed = |error: io::Error| error.to_string();
    let collector = &*options.collector;
    // Files are newer than the folder, so a file compressed since then continues no file that the folder knows.
    let abilities = Abilities { gzip: false, ..collector.abilities() };
    let mut world = World::new(&place.logs(), abilities, seed).map_err(failed)?;
    (0..4).try_for_each(|_| world.step()).map_err(failed)?;
    world.set_aside(place.home().join("aside")).map_err(failed)?;
    let socket = collector.takes_pushes().then(|| pushes::socket(place));
    let client = Recorded::new(socket, world.start(), seed);
    let mut recording = Recording { disk: Disk::new(&place.store()), client };
    run::traced(collector, place, &mut world, &mut recording).map_err(failed)?;
    Ok((world, recording))
}

/// Starts the collector on a folder as a cut before change `at` may leave it.
pub(crate) fn cut(
    options: &Options,
    place: &Place,
    world: &mut World,
    Recording { disk, client }: &Recording,
    at: usize,
    random: &mut Random,
    tally: &Tally,
) -> Result<(), String> {
    let (store, failed) = (place.store(), |error: io::Error| error.to_string());
    fs::remove_dir_all(&store).and_then(|()| fs::create_dir_all(&store)).map_err(failed)?;
    // The collector cannot read removed files again: their records are in the folder or lost.
    world.bring_back(!disk.is_forgotten(at)).map_err(failed)?;
    disk.after_cut(at, random).map_err(failed)?;
    client.owe(at, &mut world.written);
    world.finish().map_err(failed)?;
    let collector = &*options.collector;
    let mut daemon = run::start(collector, place).map_err(failed)?;
    let repeated = client.repeat(at, &mut daemon, random, Instant::now() + place.patience).map_err(failed);
    let settled = run::settled(collector, place, &world.written, tally, daemon);
    if settled.is_ok() {
        world.was_read();
    }
    repeated.and(settled).map_err(|fault| format!("cut before change {at} of {}: {fault}", disk.len()))
}
