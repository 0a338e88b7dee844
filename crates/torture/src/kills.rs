//! Kills at random: the world goes on, and the collector is killed and started again and again.

use crate::found::{Found, Tally};
use crate::run::{self, Place};
use crate::world::World;
use crate::{Options, in_rounds};
use daytable_crash::random::Random;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Kills per folder. Halfway, the mode checks every record and removes the files already read.
const ROUND: u64 = 24;

/// Kills the collector `options.count` times, in rounds that each begin with an empty folder.
pub(crate) fn random(options: &Options) -> Found {
    in_rounds(options, "kills", ROUND, "kills", |place, seed, tally| play(options, place, seed, tally))
}

fn play(options: &Options, place: &Place, seed: u64, tally: &Tally) -> Result<(), String> {
    let failed = |error: io::Error| error.to_string();
    let mut random = Random::new(seed.rotate_left(32) ^ 0x6b69_6c6c);
    let mut world = World::new(&place.logs(), options.collector.abilities(), seed).map_err(failed)?;
    begin(options, place, &mut world)?;
    for _ in 0..2 {
        under_way(&mut world, seed, || {
            (0..ROUND / 2).try_for_each(|_| {
                let mut child = run::start(&*options.collector, place)?;
                // The moment of a kill ranges from "before the first open" to "in the middle of the work".
                let pause = if random.one_in(4) { random.below(15) } else { random.below(120) };
                std::thread::sleep(Duration::from_millis(pause));
                run::end(&mut child)
            })
        })
        .map_err(failed)?;
        run::settle(&*options.collector, place, &mut world, tally)?;
        world.forget().map_err(failed)?;
    }
    tally.played(&world);
    Ok(())
}

/// Waits until the collector has read the first line of each file.
pub(crate) fn begin(options: &Options, place: &Place, world: &mut World) -> Result<(), String> {
    world.forget().map_err(|error| error.to_string())?;
    run::settle(&*options.collector, place, world, &Tally::begin())
}

/// Runs `act` while the world goes on.
pub(crate) fn under_way(world: &mut World, seed: u64, act: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut pauses = Random::new(seed);
            while !is_over.load(Ordering::Relaxed) {
                world.step()?;
                std::thread::sleep(Duration::from_millis(pauses.below(8)));
            }
            Ok(())
        });
        let acted = act();
        is_over.store(true, Ordering::Relaxed);
        let written = writer.join().unwrap_or_else(|_| Err(io::Error::other("the writer panicked")));
        acted.and(written)
    })
}
