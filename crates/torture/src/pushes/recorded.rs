//! A client that pushes during the recording of the disk. The client acts between the calls of the daemon, so it
//! receives an answer before the next change. The number of changes at that time is compared with the moment of a power
//! cut.
//!
//! Every push has two records, mostly of different days, which lie in different files. Some clients disconnect before
//! the answer. Of those with a key, some repeat the push during the recording.

use super::ask;
use super::protocol::Protocol;
use crate::line::Id;
use crate::oracle::Written;
use daytable_crash::random::Random;
use daytable_model::time::{Ticks, now};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};

/// Pushes before the files are removed, and as many after it. The maximum number of daemon calls between two pushes.
const PUSHES: usize = 24;
const CALLS_BETWEEN: u64 = 60;
/// Calls before a client disconnects.
const CALLS_WAITED: u64 = 120;
/// The stream of pushed records.
const STREAM: u32 = 7;

/// The protocols, in turn.
const PROTOCOLS: [Protocol; 4] = [Protocol::Ndjson, Protocol::Otlp, Protocol::Bulk, Protocol::Loki];

/// One push, possibly repeated.
struct Push {
    ids: [Id; 2],
    protocol: Protocol,
    request: Vec<u8>,
    has_key: bool,
    /// The number of changes at the first request, and at the acknowledgement.
    asked: usize,
    heard: Option<usize>,
}

/// A push that waits for its answer.
struct Open {
    /// The number of the push.
    number: usize,
    stream: UnixStream,
    answer: Vec<u8>,
    /// Calls until the client disconnects.
    calls_left: u64,
}

/// A client and all its pushes.
pub(crate) struct Recorded {
    socket: PathBuf,
    random: Random,
    /// The start of the records' times.
    first: Ticks,
    /// The number of pushes to make until [`begin_second_half`](Recorded::begin_second_half).
    most: usize,
    pushes: Vec<Push>,
    open: Option<Open>,
    /// The push to repeat.
    again: Option<usize>,
    calls_left: u64,
}

impl Recorded {
    /// A client of the daemon at `socket`. Without a socket the client does no work. Its records belong to the day that
    /// begins at `first`, to the next day, and to today.
    pub(crate) fn new(socket: Option<PathBuf>, first: Ticks, seed: u64) -> Recorded {
        let (most, socket) = (if socket.is_some() { PUSHES } else { 0 }, socket.unwrap_or_default());
        let random = Random::new(seed ^ 0x7265_636f);
        Recorded { socket, random, first, most, pushes: Vec::new(), open: None, again: None, calls_left: 0 }
    }

    /// Begins the second half of the pushes.
    pub(crate) fn begin_second_half(&mut self) {
        self.most *= 2;
    }

    /// Acts before a call of the daemon. `changes` is the number of changes so far.
    pub(crate) fn step(&mut self, changes: usize) {
        match self.open.take() {
            Some(open) => self.open = self.listen(open, changes),
            None if self.pushes.len() < self.most || self.again.is_some() => {
                self.calls_left = self.calls_left.saturating_sub(1);
                if self.calls_left == 0 {
                    self.calls_left = 1 + self.random.below(CALLS_BETWEEN);
                    self.open = self.begin(changes);
                }
            }
            None => {}
        }
    }

    fn begin(&mut self, changes: usize) -> Option<Open> {
        // The socket exists only while the daemon runs.
        let mut stream = UnixStream::connect(&self.socket).ok()?;
        stream.set_nonblocking(true).ok()?;
        let number = self.again.take().unwrap_or_else(|| self.next(changes));
        // A socket accepts a few hundred bytes at once.
        stream.write_all(&self.pushes[number].request).ok()?;
        let calls_left = if self.random.one_in(3) { 1 + self.random.below(CALLS_WAITED) } else { u64::MAX };
        Some(Open { number, stream, answer: Vec::new(), calls_left })
    }

    fn next(&mut self, changes: usize) -> usize {
        let number = self.pushes.len();
        let protocol = PROTOCOLS[number % PROTOCOLS.len()];
        let ids = [0, 1].map(|more| Id { stream: STREAM, seq: 2 * number as u64 + more });
        let key = self.random.one_in(2).then(|| format!("recorded-{number}"));
        let records = ids.map(|id| {
            const DAY_MS: u64 = 86_400_000;
            let later = Duration::from_millis(self.random.below(2 * DAY_MS));
            (id, if self.random.one_in(3) { now() } else { self.first.plus(later) })
        });
        let request = protocol.request(&records, key.as_deref());
        self.pushes.push(Push { ids, protocol, request, has_key: key.is_some(), asked: changes, heard: None });
        number
    }

    /// Reads the available part of an answer. Returns the push while its answer is incomplete.
    fn listen(&mut self, mut open: Open, changes: usize) -> Option<Open> {
        let push = &mut self.pushes[open.number];
        let mut bytes = [0; 1024];
        let is_over = match open.stream.read(&mut bytes) {
            Ok(length) => {
                open.answer.extend(&bytes[..length]);
                length == 0
            }
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        };
        if push.protocol.is_taken(&open.answer) {
            push.heard = Some(changes);
            return None;
        }
        open.calls_left -= 1;
        if !is_over && open.calls_left > 0 {
            return Some(open);
        }
        if push.has_key && self.random.one_in(2) {
            self.again = Some(open.number);
        }
        None
    }

    /// The number of changes at each answer: the moments at which a cut shows most.
    pub(crate) fn heard(&self) -> Vec<usize> {
        self.pushes.iter().filter_map(|push| push.heard).collect()
    }

    /// Adds the pushes that must be there after a cut before change `at`, once pushes with a key were repeated.
    pub(crate) fn owe(&self, at: usize, written: &mut Written) {
        for push in &self.pushes {
            let is_sure = push.heard.is_some_and(|heard| heard <= at) || push.has_key;
            for id in push.ids {
                match push.asked < at {
                    true => drop(written.records.insert(id, (usize::from(is_sure), 1))),
                    // The client would ask only after the cut, so never.
                    false => drop(written.records.remove(&id)),
                }
            }
            written.whole.insert(push.ids);
        }
    }

    /// Repeats pushes that have a key, after a cut before change `at`: all unanswered pushes, and some answered ones,
    /// as if the client had forgotten the answer. Tries until `deadline` or until the daemon ends.
    pub(crate) fn repeat(
        &self,
        at: usize,
        daemon: &mut Child,
        random: &mut Random,
        deadline: Instant,
    ) -> io::Result<()> {
        for push in self.pushes.iter().filter(|push| push.has_key && push.asked < at) {
            if push.heard.is_some_and(|heard| heard <= at) && random.one_in(2) {
                continue;
            }
            loop {
                match ask(&self.socket, push.protocol, &push.request, usize::MAX) {
                    Ok(answer) if push.protocol.is_taken(&answer) => break,
                    _ if daemon.try_wait()?.is_some() => return Ok(()),
                    _ if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
                    Ok(answer) => return Err(io::Error::other(String::from_utf8_lossy(&answer).into_owned())),
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }
}
