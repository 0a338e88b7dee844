//! Hosts that forward to a central daytable, and what may happen to either side and between them.
//!
//! ```text
//! world ─► files ─► host 0 ─► proxy ─┐
//! world ─► files ─► host 1 ─► proxy ─┼─► central      each `─►` is disturbed, but for the first one
//! ...                               ─┘
//! ```
//!
//! * Either side is killed, at random and at failpoints of forwarding; stopped, and held for a while; started with another clock.
//! * A proxy before each host cuts requests and answers at any byte, delays them, repeats them, delivers them after
//!   those that were sent later, and refuses them for their size.
//! * The central is away for so long that hosts send their newest records first, and the backlog beside them.
//! * The disks of the central and of a host are full for a while.
//! * The central is put back to an earlier backup of itself, and so are hosts.
//! * Meanwhile each side compacts, seals and archives its days as soon as it may.
//!
//! In the end all that is left alone until it is quiet. Then the central has each record of each host once and
//! unchanged, each file comes back from it byte for byte, `verify` finds each folder whole, and `verify --fleet` agrees.

mod judge;
mod member;
mod proxy;
mod small_disk;

use crate::found::{Found, Tally};
use crate::line::BARE;
use crate::run::{self, Place};
use crate::world::{Abilities, World};
use crate::{Options, in_parallel};
use daytable_crash::random::Random;
use member::{Central, Host, Member, Start};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Kills per folder, at most.
const ROUND: u64 = 100;

/// Kills the daytables of a fleet `options.fleet_kills` times.
pub(crate) fn tortured(options: &Options) -> Found {
    let (tally, heads, hosts) = (Tally::begin(), AtomicU64::new(0), options.hosts);
    if options.collector.name() != "daytable" {
        return tally.found(options, "fleet", "0 kills, as it forwards nothing", &[]);
    }
    let round = options.fleet_kills.clamp(1, ROUND);
    let rounds = options.fleet_kills.div_ceil(round);
    // A round is many processes already.
    let jobs = options.jobs.min(2);
    let faults = in_parallel(jobs, options.seed..options.seed + rounds, |seed| {
        let again = format!("--count {round} --hosts {hosts} --seed {seed}");
        run::in_place(options, |place| play(options, place, (seed, round), (&tally, &heads)))
            .map_err(|fault| format!("{}\n  {fault}", options.again("fleet", &again)))
    });
    let heads = heads.load(Ordering::Relaxed);
    let what = format!("{} kills of {hosts} hosts and their central, the newest first {heads} times", rounds * round);
    tally.found(options, "fleet", &what, &faults)
}

fn play(
    options: &Options,
    place: &Place,
    (seed, kills): (u64, u64),
    (tally, heads): (&Tally, &AtomicU64),
) -> Result<(), String> {
    let failed = |error: io::Error| error.to_string();
    let mut random = Random::new(seed.rotate_left(32) ^ 0x666c_6565);
    let mut central = Central::new(options, &place.home()).map_err(failed)?;
    central.member.start(Start::Usual).map_err(failed)?;
    let mut hosts = Vec::new();
    let mut worlds = Vec::new();
    for number in 0..options.hosts {
        let host = Host::joined(options, &place.home(), number, &central).map_err(failed)?;
        // What was compressed after a backup continues no file that the backup knows. Files are not copied and truncated: a file
        // that is renamed right after that is read again (known gaps), and this kind is about what follows reading.
        let abilities = Abilities { gzip: number >= PUT_BACK, copies: false, ..options.collector.abilities() };
        worlds.push(World::new(&host.member.logs(), abilities, seed * 1000 + number).map_err(failed)?);
        hosts.push(host);
    }
    let played = (|| {
        for host in &mut hosts {
            host.member.start(Start::Usual).map_err(failed)?;
            host.proxy.set_calm(false);
        }
        let disturbed = under_way(&mut worlds, seed, || disturb(&mut central, &mut hosts, kills, &mut random));
        disturbed.map_err(failed)?;
        worlds.iter_mut().try_for_each(World::finish).map_err(failed)?;
        for (host, world) in hosts.iter().zip(&mut worlds) {
            heads.fetch_add(host.proxy.heads(), Ordering::Relaxed);
            tally.played(world);
            if host.number < PUT_BACK {
                permit_again(world);
            }
        }
        judge::judge(&mut central, &mut hosts, &worlds, place.patience, tally)
    })();
    if played.is_err() {
        let mut members = hosts.iter_mut().map(|host| &mut host.member).chain([&mut central.member]);
        members.try_for_each(Member::keep).map_err(failed)?;
    }
    played
}

/// A line without a time is a record of the moment at which it was read. A host that was put back reads such lines again at another
/// moment, and the central has both records.
fn permit_again(world: &mut World) {
    let bare = world.written.records.iter_mut().filter(|(id, _)| id.stream == BARE);
    bare.for_each(|(_, (_, most))| *most = usize::MAX);
}

/// Runs `act` while all worlds go on.
fn under_way(worlds: &mut [World], seed: u64, act: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let (is_over, count) = (AtomicBool::new(false), worlds.len() as u64);
    std::thread::scope(|scope| {
        let mut writers = Vec::new();
        for (number, world) in (0..).zip(worlds) {
            let is_over = &is_over;
            writers.push(scope.spawn(move || {
                let mut pauses = Random::new(seed * 1000 + number);
                while !is_over.load(Ordering::Relaxed) {
                    world.step()?;
                    std::thread::sleep(Duration::from_millis(pauses.below(40 * count)));
                }
                Ok(())
            }));
        }
        let acted = act();
        is_over.store(true, Ordering::Relaxed);
        let panicked = || Err(io::Error::other("a writer panicked"));
        let written = writers.into_iter().map(|writer| writer.join().unwrap_or_else(|_| panicked()));
        acted.and(written.collect())
    })
}

/// How long the central is away.
const AWAY: Duration = Duration::from_secs(12);

/// The first hosts, which are put back. The others have the same folder all the time.
const PUT_BACK: u64 = 2;

/// What happens beside the kills, by the share of them that were before.
#[derive(Clone, Copy, Debug)]
enum Event {
    BackUpCentral,
    PutCentralBack,
    BackUpHost(usize),
    PutHostBack(usize),
    FillCentral,
    FreeCentral,
    /// Longer than a host waits before the newest records go first.
    CentralAway,
    FillHost(usize),
    FreeHost(usize),
}

/// In sixteenths of the kills. A host is put back before the central is and after it, and both at once; backups are older or newer
/// than those of the other side.
const EVENTS: [(u64, Event); 18] = [
    (1, Event::BackUpHost(0)),
    (2, Event::CentralAway),
    (3, Event::BackUpCentral),
    (3, Event::FillHost(2)),
    (4, Event::FreeHost(2)),
    (5, Event::PutCentralBack),
    (6, Event::BackUpHost(1)),
    (6, Event::FillCentral),
    (7, Event::FreeCentral),
    (7, Event::PutHostBack(0)),
    (8, Event::BackUpCentral),
    (9, Event::BackUpHost(0)),
    (10, Event::PutHostBack(1)),
    (11, Event::PutCentralBack),
    (12, Event::CentralAway),
    (13, Event::BackUpHost(1)),
    (14, Event::PutHostBack(0)),
    (14, Event::PutHostBack(1)),
];

fn disturb(central: &mut Central, hosts: &mut [Host], kills: u64, random: &mut Random) -> io::Result<()> {
    let mut events = EVENTS.iter().peekable();
    for kill in 0..kills {
        let most = if random.one_in(3) { 600 } else { 120 };
        std::thread::sleep(Duration::from_millis(random.below(most)));
        while let Some((_, event)) = events.next_if(|(at, _)| at * kills <= kill * 16) {
            happen(*event, central, hosts)?;
        }
        let member = match random.below(hosts.len() as u64 + 2) as usize {
            number if number < hosts.len() => &mut hosts[number].member,
            _ => &mut central.member,
        };
        disturb_one(member, random)?;
    }
    events.try_for_each(|(_, event)| happen(*event, central, hosts))
}

fn happen(event: Event, central: &mut Central, hosts: &mut [Host]) -> io::Result<()> {
    let count = hosts.len();
    match event {
        Event::BackUpCentral => central.member.back_up(),
        Event::PutCentralBack => central.member.put_back(),
        Event::BackUpHost(number) => hosts[number % count].member.back_up(),
        Event::PutHostBack(number) => hosts[number % count].member.put_back(),
        Event::FillCentral => central.member.fill(),
        Event::FreeCentral => central.member.free(),
        Event::CentralAway => {
            central.member.kill()?;
            std::thread::sleep(AWAY);
            hosts.iter().for_each(|host| host.proxy.narrow());
            central.member.start(Start::Usual)
        }
        Event::FillHost(number) => hosts[number % count].member.fill(),
        Event::FreeHost(number) => hosts[number % count].member.free(),
    }
}

/// Ends a daytable somehow, and starts it in another way.
fn disturb_one(member: &mut Member, random: &mut Random) -> io::Result<()> {
    match random.below(8) {
        0 => member.terminate()?,
        1 => {
            member.hold(Duration::from_millis(random.below(1500)))?;
            member.kill()?;
        }
        _ => member.kill()?,
    }
    member.start(match random.below(6) {
        0 | 1 => Start::Failing(random.below(u64::MAX)),
        2 => Start::AtAnotherTime(random.below(u64::MAX)),
        _ => Start::Usual,
    })
}
