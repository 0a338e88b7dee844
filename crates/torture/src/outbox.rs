//! An outbox with a service: the daemon is killed while it sends committed rows. Afterwards the service, the outbox and
//! the dead letters together must hold every record once.
//!
//! Beside the world, each start finds new lines for people that end in pairs and are larger than an entity. The service
//! holds their message whole, in several rows. Afterwards the exported file is compared with the file.
//!
//! The service is an Azurite per round, installed by `tests/setup`. Azurite keeps its data in memory and accepts some
//! hundred entities a second, so rounds are short.

use crate::found::{Found, Tally};
use crate::kills::{begin, under_way};
use crate::line::{self, Id, PAIRS};
use crate::run::{self, Place};
use crate::world::World;
use crate::{Options, in_rounds};
use daytable_crash::random::Random;
use daytable_model::time::Ticks;
use std::fs;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Kills per round.
const ROUND: u64 = 8;
/// Time limit for the start of Azurite.
const PATIENCE: Duration = Duration::from_secs(60);

/// Kills the daemon `options.count` times while it sends rows.
pub(crate) fn sending(options: &Options) -> Found {
    if options.collector.name() != "daytable" {
        return Tally::begin().found(options, "outbox", "0 kills, as it has none", &[]);
    }
    let what = "kills while rows were sent to Azurite";
    in_rounds(options, "outbox", ROUND, what, |place, seed, tally| play(options, place, seed, tally))
}

fn play(options: &Options, place: &Place, seed: u64, tally: &Tally) -> Result<(), String> {
    let failed = |error: io::Error| error.to_string();
    let azurite = Azurite::start().map_err(failed)?;
    let secret = place.home().join("azure");
    fs::write(&secret, azurite.connection_string()).map_err(failed)?;
    let store = format!("kind = \"azure\"\nconnection_string_file = \"{}\"\nfill = \"0s\"\n", secret.display());
    fs::write(place.home().join("store.toml"), store).map_err(failed)?;
    let mut random = Random::new(seed ^ 0x6f75_7462);
    let mut world = World::new(&place.logs(), options.collector.abilities(), seed).map_err(failed)?;
    begin(options, place, &mut world)?;
    let (start, mut large) = (world.start(), Vec::new());
    under_way(&mut world, seed, || {
        (0..ROUND).try_for_each(|_| {
            large.push(append_large(place, start, large.len() as u64, &mut random)?);
            let mut child = run::start(&*options.collector, place)?;
            std::thread::sleep(Duration::from_millis(random.below(400)));
            run::end(&mut child)
        })
    })
    .map_err(failed)?;
    large.into_iter().for_each(|id| world.written.add(id));
    tally.played(&world);
    run::settle(&*options.collector, place, &mut world, tally)
}

/// Characters of the long pair of a line: of one entity, and of several.
const LARGE: [u64; 2] = [20_000, 200_000];

/// Appends a line with pairs that takes several rows.
fn append_large(place: &Place, start: Ticks, seq: u64, random: &mut Random) -> io::Result<Id> {
    let id = Id { stream: PAIRS, seq };
    let time = start.plus(Duration::from_micros(1 + seq)).to_string();
    let length = LARGE[0] + random.below(LARGE[1] - LARGE[0]);
    let line = line::with_pairs(id, &time, usize::try_from(length).map_err(io::Error::other)?);
    let path = place.logs().join("only-pairs.log");
    fs::File::options().append(true).create(true).open(path)?.write_all(line.as_bytes())?;
    Ok(id)
}

/// A table server for one round, empty at its start.
struct Azurite {
    port: u16,
    child: Child,
}

impl Azurite {
    fn start() -> io::Result<Azurite> {
        let script =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/node/node_modules/azurite/dist/src/table/main.js");
        let mut node = Command::new("node");
        node.args([script, "--tableHost", "127.0.0.1", "--tablePort", "0", "--silent", "--inMemoryPersistence"]);
        node.arg("--disableTelemetry")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        let mut child = node.spawn()?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(port) = listening_port(child.id()) {
                return Ok(Azurite { port, child });
            }
            if child.try_wait()?.is_some() || Instant::now() >= deadline {
                run::end(&mut child)?;
                return Err(io::Error::other("Azurite does not start: sh tests/setup installs it"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn connection_string(&self) -> String {
        const ACCOUNT: &str = "devstoreaccount1";
        const KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
        let endpoint = format!("http://127.0.0.1:{}/{ACCOUNT}", self.port);
        format!("DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};TableEndpoint={endpoint};")
    }
}

impl Drop for Azurite {
    fn drop(&mut self) {
        let _ = run::end(&mut self.child);
    }
}

/// The port at which a process listens. Azurite prints only the configured port.
fn listening_port(process: u32) -> Option<u16> {
    const LISTENS: &str = "0A";
    let sockets: Vec<String> = fs::read_dir(format!("/proc/{process}/fd"))
        .ok()?
        .flatten()
        .filter_map(|entry| fs::read_link(entry.path()).ok()?.to_str()?.strip_prefix("socket:[").map(str::to_owned))
        .collect();
    let table = fs::read_to_string("/proc/net/tcp").ok()?;
    table.lines().find_map(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let is_its = sockets.iter().any(|socket| socket.trim_end_matches(']') == *words.get(9).unwrap_or(&""));
        let port = words.get(1)?.split_once(':')?.1;
        (is_its && words.get(3) == Some(&LISTENS)).then(|| u16::from_str_radix(port, 16).ok())?
    })
}
