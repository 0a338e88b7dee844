//! Kills at random: a world that goes on, and a collector that is killed and started again and again.

use crate::random::Random;
use crate::run::{self, Place};
use crate::world::World;
use crate::{DAY, Found, Options, in_parallel};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Kills between two looks at what is there.
const ROUND: u64 = 25;

/// Kills `options.count` times, in rounds that each begin with an empty folder.
pub(crate) fn random(options: &Options) -> Found {
    let name = options.collector.name();
    let rounds = options.count.div_ceil(ROUND);
    let records = AtomicU64::new(0);
    let faults = in_parallel(options.jobs, options.seed..options.seed + rounds, |seed| {
        let written = run::in_place(options, |place| play(options, place, seed));
        written
            .map(|written| _ = records.fetch_add(written, Ordering::Relaxed))
            .map_err(|fault| format!("{seed}: {fault}"))
    });
    faults.iter().for_each(|fault| println!("{name}: kills --count {ROUND} --seed {fault}"));
    let report = format!(
        "{name}: kills, seed {}: {} kills, {} records, {} rounds with a fault",
        options.seed,
        rounds * ROUND,
        records.into_inner(),
        faults.len()
    );
    Found { report, failed: faults.len() }
}

fn play(options: &Options, place: &Place, seed: u64) -> Result<u64, String> {
    let failed = |error: io::Error| error.to_string();
    let mut random = Random::new(seed.rotate_left(32) ^ 0x6b69_6c6c);
    let mut world = World::new(&place.logs(), DAY, seed).map_err(failed)?;
    let is_over = AtomicBool::new(false);
    let written = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut pauses = Random::new(seed);
            while !is_over.load(Ordering::Relaxed) {
                world.step()?;
                std::thread::sleep(Duration::from_millis(pauses.below(8)));
            }
            Ok(())
        });
        let killed = (0..ROUND).try_for_each(|_| {
            let mut child = run::start(&*options.collector, place)?;
            // From "not even open" to "in the middle of it".
            let pause = if random.one_in(4) { random.below(15) } else { random.below(250) };
            std::thread::sleep(Duration::from_millis(pause));
            child.kill()?;
            child.wait()?;
            Ok(())
        });
        is_over.store(true, Ordering::Relaxed);
        let written = writer.join().unwrap_or_else(|_| Err(io::Error::other("the writer panicked")));
        killed.and(written)
    });
    written.map_err(failed)?;
    run::settle(&*options.collector, place, &mut world)?;
    Ok(world.written.len() as u64)
}
