//! Self-tests: the torture must find faults made on purpose before its results count.

use crate::collector::named;
use crate::cuts::{self, Recording};
use crate::found::{Found, Tally};
use crate::line::{self, Id};
use crate::loads;
use crate::options::Options;
use crate::oracle::{Verdict, Written};
use crate::run;
use crate::world::World;
use daytable_crash::random::Random;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

/// A self-test. Returns an error if the torture misses the fault.
type Doubt = fn(&Options) -> Result<(), String>;

/// Runs every self-test.
pub(crate) fn tried(options: &Options) -> Found {
    let doubts: [(&str, Doubt); 6] = [
        ("the oracle", oracle),
        ("the seed", seed),
        ("the command that plays it again", again),
        ("the days after a load", |_| loads::doubted()),
        ("the power cuts", cuts),
        ("the pushes in power cuts", pushes_in_cuts),
    ];
    let faults = doubts.iter().filter_map(|(name, doubt)| doubt(options).err().map(|fault| format!("{name}: {fault}")));
    let faults: Vec<String> = faults.collect();
    faults.iter().for_each(|fault| println!("{fault}"));
    let report = format!("doubts: {} of {} were right", faults.len(), doubts.len());
    Found { report, failed: faults.len() }
}

/// The oracle finds lost, duplicate, damaged and foreign records.
fn oracle(_: &Options) -> Result<(), String> {
    let [one, two, three] = [0, 1, 2].map(|seq| Id { stream: 0, seq });
    let mut written = Written::default();
    [one, two, three, three].into_iter().for_each(|id| written.add(id));
    written.whole.insert([one, three]);
    let messages = |ids: &[Id]| ids.iter().map(|id| line::message(*id, 9)).collect::<Vec<_>>();
    let clean = Verdict::of(&written, messages(&[three, two, one, three]));
    let mut broken = messages(&[two, two, three]);
    broken.push(line::message(one, 9).replace("@0/0/9", "@0/0/8"));
    let found = Verdict::of(&written, broken);
    let (lost, twice) = (found.lost == [one, three], found.twice == [two]);
    let is_right = clean.is_clean() && lost && twice && found.wrong.len() == 2;
    is_right.then_some(()).ok_or(format!("{clean}\n{found}"))
}

/// The same seed writes the same records into the same files.
fn seed(options: &Options) -> Result<(), String> {
    let write = || -> Result<BTreeMap<String, usize>, String> {
        run::in_place(options, |place| {
            let failed = |error: io::Error| error.to_string();
            let mut world = World::new(&place.logs(), options.collector.abilities(), options.seed).map_err(failed)?;
            (0..100).try_for_each(|_| world.step()).map_err(failed)?;
            world.was_read();
            (0..100).try_for_each(|_| world.step()).and_then(|()| world.finish()).map_err(failed)?;
            lengths(&place.logs()).map_err(failed)
        })
    };
    let (one, other) = (write()?, write()?);
    (one == other && one.len() > 10).then_some(()).ok_or(format!("{one:?}\n{other:?}"))
}

/// The length of each file. The times differ between days, but not their length.
fn lengths(folder: &Path) -> io::Result<BTreeMap<String, usize>> {
    let entries = fs::read_dir(folder)?;
    entries
        .map(|entry| {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            // The compressed length depends on the digits of the times.
            let length = if name.ends_with(".gz") { 0 } else { fs::read(&path)?.len() };
            Ok((name, length))
        })
        .collect()
}

/// The command printed with a fault parses to the same run.
fn again(_: &Options) -> Result<(), String> {
    let rsyslog = named("rsyslog", Path::new("daytable")).ok_or("no rsyslog")?;
    let (_, mut options) = Options::parse(std::iter::empty(), None)?;
    options.collector = rsyslog;
    let command = options.again("cuts", "--count 24 --seed 17");
    let args = command.split(' ').skip_while(|word| *word != "--").skip(1).map(str::to_owned);
    let (modes, parsed) = Options::parse(args, None)?;
    let is_same = modes == ["cuts"] && (parsed.count, parsed.seed, parsed.collector.name()) == (24, 17, "rsyslog");
    is_same.then_some(()).ok_or(command)
}

/// A disk that only pretends to sync loses records. Either the torture or the program itself notices: the program
/// refuses to start on a damaged folder.
fn cuts(options: &Options) -> Result<(), String> {
    on_a_disk_that_lies(options, "\n  lost: [", |recording| vec![recording.disk.len()])
}

/// The same self-test with log files that can be read again, so that only pushed records can be lost.
fn pushes_in_cuts(options: &Options) -> Result<(), String> {
    if !options.collector.takes_pushes() {
        return Ok(());
    }
    on_a_disk_that_lies(options, "\n  lost: [Id { stream: 7,", |recording| {
        let heard = recording.client.heard().into_iter();
        heard.filter(|at| !recording.disk.is_forgotten(*at)).collect()
    })
}

/// Cuts the power at some `moments` of a recording until a fault contains `lost`. First checks that an honest disk has no
/// fault.
fn on_a_disk_that_lies(
    options: &Options,
    lost: &str,
    moments: impl Fn(&Recording) -> Vec<usize>,
) -> Result<(), String> {
    const CUTS_MAX: usize = 20;
    run::in_place(options, |place| {
        let (mut world, mut recording) = cuts::record(options, place, options.seed)?;
        let mut random = Random::new(options.seed);
        let moments = moments(&recording);
        let honest = *random.one_of(&moments).ok_or("there is no such moment")?;
        cuts::cut(options, place, &mut world, &recording, honest, &mut random, &Tally::begin())?;
        (recording.disk.is_lying, place.patience) = (true, Duration::from_secs(20));
        let mut tries = (0..CUTS_MAX).filter_map(|_| {
            let at = *random.one_of(&moments)?;
            cuts::cut(options, place, &mut world, &recording, at, &mut random, &Tally::begin()).err()
        });
        let is_seen = |fault: String| fault.contains(lost) || fault.contains("it ended by itself: exit status: 65");
        tries.any(is_seen).then_some(()).ok_or("a disk that lies is believed".into())
    })
}
