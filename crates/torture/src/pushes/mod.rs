//! Clients that push, and repeat a push without an answer. The connection is cut at every byte of the request and of
//! the response, and the daemon is killed now and then.
//!
//! This module plays some clients itself, byte by byte. Others are real programs with their own retries: curl, and the
//! libraries of OpenTelemetry and Elasticsearch. Their connections go through a proxy that cuts.
//!
//! A record repeated under an idempotency key is stored once. A record without a key is stored at least once, and at
//! most as often as its whole request can have arrived.

mod program;
mod protocol;
mod proxy;
mod recorded;

use crate::collector::Collector;
use crate::found::{Found, Tally};
use crate::line::Id;
use crate::run::{self, Place};
use crate::world::World;
use crate::{Options, in_rounds};
use daytable_crash::random::Random;
use daytable_model::time::now;
use program::Program;
use protocol::{Protocol, TURN};
use proxy::{Cut, Proxy};
pub(crate) use recorded::Recorded;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Pushes per folder.
const ROUND: u64 = 120;
/// Time limit for a client's retries.
const PATIENCE: Duration = Duration::from_secs(60);
/// The distance between the bytes of successive cuts: a prime, so that the cuts reach every byte.
const STEP: u64 = 7919;

/// Retries of curl.
const CURL_RETRIES: &str = "19";
/// Maximum length of a response.
const ANSWER_BYTES_MAX: usize = 250;

/// Pushes `options.count` times.
pub(crate) fn repeated(options: &Options) -> Found {
    if !options.collector.takes_pushes() {
        return Tally::begin().found(options, "pushes", "0 pushes, as it takes none", &[]);
    }
    let round = options.count.clamp(1, ROUND);
    let what = "pushes, each cut and repeated";
    in_rounds(options, "pushes", round, what, |place, seed, tally| play(options, place, seed, round, tally))
}

/// One client and one daemon.
struct Client<'a> {
    collector: &'a dyn Collector,
    place: &'a Place,
    daemon: Child,
    proxy: Proxy,
    /// The libraries already started.
    programs: BTreeMap<&'static str, Program>,
    random: Random,
    /// Minimum and maximum copies of each record.
    world: World,
    next: u64,
}

fn play(options: &Options, place: &Place, seed: u64, pushes: u64, tally: &Tally) -> Result<(), String> {
    let failed = |error: io::Error| error.to_string();
    let collector = &*options.collector;
    fs::write(place.home().join("more.toml"), "[[syslog]]\nname = \"relp\"\nlisten = \"relp://127.0.0.1:0\"\n")
        .map_err(failed)?;
    let world = World::new(&place.logs(), collector.abilities(), seed).map_err(failed)?;
    let daemon = run::start(collector, place).map_err(failed)?;
    let random = Random::new(seed ^ 0x7075_7368);
    let proxy = Proxy::start(socket(place)).map_err(failed)?;
    let programs = BTreeMap::new();
    let mut client = Client { collector, place, daemon, proxy, programs, random, world, next: 0 };
    let pushed = (0..pushes).try_for_each(|n| client.push(seed * ROUND + n));
    run::end(&mut client.daemon).and(pushed).map_err(failed)?;
    tally.played(&client.world);
    run::settle(collector, place, &mut client.world, tally)
}

impl Client<'_> {
    /// Makes one push: cuts the connection, then repeats the push until an answer comes.
    fn push(&mut self, number: u64) -> io::Result<()> {
        let (turn, protocol) = (number / TURN, Protocol::of_push(number));
        let key = (turn.is_multiple_of(2) && protocol.takes_keys()).then(|| format!("key-{}", self.next));
        let ids = [0, 1].map(|more| Id { stream: 6, seq: self.next + more });
        self.next += 2;
        let request = protocol.request(&ids.map(|id| (id, now())), key.as_deref());
        let at = (number * STEP % (request.len() + ANSWER_BYTES_MAX) as u64) as usize;
        let mut whole = 0;
        if protocol == Protocol::Curl {
            self.proxy.cut(Cut::Answered(at % ANSWER_BYTES_MAX));
            whole = self.counted(|client| client.by_curl(&request, key.as_deref()))?;
        } else if let Some(library) = protocol.library() {
            self.proxy.cut(match at.checked_sub(request.len()) {
                None => Cut::Asked(at),
                Some(at) => Cut::Answered(at),
            });
            whole = self.counted(|client| client.by_library(library, ids, key.as_deref()))?;
        } else {
            let cut = self.ask(protocol, &request[..at.min(request.len())], at.saturating_sub(request.len()));
            // The daemon accepts each RELP frame separately, whether or not the next frame is whole.
            whole += usize::from(at >= request.len() || protocol == Protocol::Relp);
            self.kill_now_and_then()?;
            let mut is_answered = cut.is_ok_and(|answer| protocol.is_taken(&answer));
            let deadline = Instant::now() + PATIENCE;
            while !is_answered {
                let answer = self.ask(protocol, &request, usize::MAX);
                whole += 1;
                match answer {
                    Ok(answer) if protocol.is_taken(&answer) => is_answered = true,
                    _ if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
                    Ok(answer) => return Err(io::Error::other(String::from_utf8_lossy(&answer).into_owned())),
                    Err(error) => return Err(error),
                }
            }
        }
        let most = if key.is_some() { 1 } else { whole.max(1) };
        self.world.written.records.extend(ids.map(|id| (id, (1, most))));
        Ok(())
    }

    fn kill_now_and_then(&mut self) -> io::Result<()> {
        if self.random.one_in(30) {
            run::end(&mut self.daemon)?;
            self.daemon = run::start(self.collector, self.place)?;
        }
        Ok(())
    }

    /// Has a program push through the proxy. Returns the maximum number of requests: each connection carries at most
    /// one, and one connection may have been open before.
    fn counted(&mut self, push: impl FnOnce(&mut Self) -> io::Result<()>) -> io::Result<usize> {
        let before = self.proxy.connections();
        push(self)?;
        Ok(self.proxy.connections() - before + 1)
    }

    /// Pushes through a library.
    fn by_library(&mut self, library: &'static str, ids: [Id; 2], key: Option<&str>) -> io::Result<()> {
        let program = match self.programs.entry(library) {
            Entry::Occupied(there) => there.into_mut(),
            Entry::Vacant(free) => free.insert(Program::start(library, &self.proxy.url())?),
        };
        program.ask(ids, key)?;
        self.kill_now_and_then()?;
        self.programs.get_mut(library).map_or(Ok(()), Program::hear)
    }

    /// Sends a request, and reads at most `answer_max` bytes of the response.
    fn ask(&self, protocol: Protocol, request: &[u8], answer_max: usize) -> io::Result<Vec<u8>> {
        if protocol == Protocol::Relp {
            let stream = TcpStream::connect(self.relp()?)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            return exchange(stream, protocol, request, answer_max);
        }
        ask(&self.socket(), protocol, request, answer_max)
    }

    fn socket(&self) -> PathBuf {
        socket(self.place)
    }

    /// The RELP address of the current daemon.
    fn relp(&self) -> io::Result<String> {
        let said = fs::read_to_string(self.place.home().join("said.log"))?;
        let line = said.lines().rfind(|line| line.contains("taking syslog"));
        let address = line.and_then(|line| Some(line.split_once("://")?.1.trim_end_matches('"').to_owned()));
        address.ok_or(io::Error::other("it does not say where it takes syslog"))
    }

    /// Sends a body through curl.
    fn by_curl(&self, body: &[u8], key: Option<&str>) -> io::Result<()> {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--fail", "--retry-all-errors", "--retry-delay", "1", "--data-binary", "@-"]);
        curl.args(["--retry", CURL_RETRIES]);
        curl.args(key.map(|key| ["--header".to_owned(), format!("Idempotency-Key: {key}")]).into_iter().flatten());
        curl.arg(self.proxy.url() + "/ingest").stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = curl.spawn()?;
        child.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(body))?;
        let status = child.wait()?;
        if status.success() { Ok(()) } else { Err(io::Error::other(format!("curl: {status}"))) }
    }
}

/// The socket at which a daemon accepts pushes.
pub(crate) fn socket(place: &Place) -> PathBuf {
    place.store().join("data/control.sock")
}

/// Sends a request to the daemon at `socket`, and reads at most `answer_max` bytes of the response.
fn ask(socket: &Path, protocol: Protocol, request: &[u8], answer_max: usize) -> io::Result<Vec<u8>> {
    let stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    exchange(stream, protocol, request, answer_max)
}

fn exchange<S: Read + Write>(
    mut stream: S,
    protocol: Protocol,
    request: &[u8],
    answer_max: usize,
) -> io::Result<Vec<u8>> {
    stream.write_all(request)?;
    let mut answer = Vec::new();
    let mut byte = [0];
    while answer.len() < answer_max && !protocol.is_taken(&answer) && stream.read(&mut byte)? > 0 {
        answer.push(byte[0]);
    }
    Ok(answer)
}
