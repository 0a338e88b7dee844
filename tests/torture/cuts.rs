//! Power cuts: a run is recorded, and the collector is started on what may be left of its folder at many moments of it.
//!
//! The files that are read are on another disk, so to say: they are whole. So whatever was lost with the power is read again,
//! and in the end every record is there once.

use crate::disk::Disk;
use crate::random::Random;
use crate::run::{self, Place};
use crate::world::World;
use crate::{DAY, Found, Options, in_parallel, sweep};
use std::fs;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// Cuts of one recording.
const CUTS: u64 = 25;

/// Cuts the power `options.count` times.
pub(crate) fn power(options: &Options) -> Found {
    let name = options.collector.name();
    let recordings = options.count.div_ceil(CUTS);
    let changes = AtomicU64::new(0);
    let faults = in_parallel(options.jobs, options.seed..options.seed + recordings, |seed| {
        let cut = run::in_place(options, |place| play(options, place, seed));
        cut.map(|count| _ = changes.fetch_add(count, Ordering::Relaxed)).map_err(|fault| format!("{seed}: {fault}"))
    });
    faults.iter().for_each(|fault| println!("{name}: cuts --count {CUTS} --seed {fault}"));
    let report = format!(
        "{name}: cuts, seed {}: {} power cuts in {recordings} recordings of {} changes, {} with a fault",
        options.seed,
        recordings * CUTS,
        changes.into_inner(),
        faults.len()
    );
    Found { report, failed: faults.len() }
}

fn play(options: &Options, place: &Place, seed: u64) -> Result<u64, String> {
    let failed = |error: io::Error| error.to_string();
    let mut world = World::new(&place.logs(), DAY, seed).map_err(failed)?;
    (0..4).try_for_each(|_| world.step()).map_err(failed)?;
    let store = place.store();
    let mut disk = Disk::new(&store);
    run::traced(&*options.collector, place, &mut world, sweep::STEPS, &mut disk).map_err(failed)?;
    let mut random = Random::new(seed ^ 0x706f_7765);
    for _ in 0..CUTS {
        let at = random.below(disk.len() as u64 + 1) as usize;
        fs::remove_dir_all(&store).and_then(|()| fs::create_dir_all(&store)).map_err(failed)?;
        disk.after_cut(at, &mut random).map_err(failed)?;
        run::settle(&*options.collector, place, &mut world)
            .map_err(|fault| format!("cut before change {at} of {}: {fault}", disk.len()))?;
    }
    Ok(disk.len() as u64)
}
