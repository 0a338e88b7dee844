//! Clients that push small requests, one after the other.

use super::http::Connection;
use super::{Ending, Kind, Load, PATIENCE};
use crate::line::{self, Id};
use crate::oracle::Written;
use daytable_crash::random::Random;
use daytable_model::time::Ticks;
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// How many clients push, how often each of them, and about how much. Compaction has other work with each: pages of many
/// commits at once, or a few of them that are worth several merges.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    pub(super) clients: u32,
    requests_per_s: u32,
    records: u64,
}

/// The paces, of which a load has one.
pub(super) const PACES: [Pace; 4] = [
    Pace { clients: 1, requests_per_s: 20, records: 300 },
    Pace { clients: 1, requests_per_s: 10, records: 100 },
    Pace { clients: 4, requests_per_s: 80, records: 20 },
    Pace { clients: 3, requests_per_s: 20, records: 60 },
];
/// Instances beside each other.
const FEW: u64 = 5;
const MANY: u64 = 4_000;
/// Characters of a message beyond its number and checksum.
const PAYLOAD_MAX: u64 = 200;
/// The stream of the first client.
const STREAM: u32 = 10;

/// Pushes until the load is over. Returns the records that were acknowledged.
pub(super) fn push(load: &Load, number: u32, socket: &Path, ending: &Ending) -> io::Result<Written> {
    let random = Random::new(load.seed.rotate_left(16) ^ u64::from(number));
    let connection = Connection::to(socket);
    let mut client = Client { load, number, random, connection, next: 0, keyed: None, written: Written::default() };
    while !ending.is_over() {
        let next = Instant::now() + Duration::from_secs(1) / load.pace.requests_per_s;
        client.push(ending)?;
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    Ok(client.written)
}

struct Client<'a> {
    load: &'a Load,
    number: u32,
    random: Random,
    connection: Connection,
    next: u64,
    /// The last request with a key.
    keyed: Option<Vec<u8>>,
    written: Written,
}

impl Client<'_> {
    /// Makes one request, and repeats it until it is acknowledged.
    fn push(&mut self, ending: &Ending) -> io::Result<()> {
        let records = self.load.pace.records;
        let count = records / 2 + 1 + self.random.below(records);
        let first = self.next;
        self.next += count;
        let has_key = self.random.one_in(3);
        let request = self.request(first..self.next, has_key);
        let asked = self.ask(&request, ending)?;
        let most = if has_key { 1 } else { asked };
        let stream = STREAM + self.number;
        self.written.records.extend((first..self.next).map(|seq| (Id { stream, seq }, (1, most))));
        if has_key {
            self.keyed = Some(request);
        }
        // As a client does that has lost the answer.
        match self.keyed.take_if(|_| self.random.one_in(30)) {
            Some(request) => self.ask(&request, ending).map(drop),
            None => Ok(()),
        }
    }

    /// Sends a request until it is acknowledged. Returns how often its records may have been stored.
    fn ask(&mut self, request: &[u8], ending: &Ending) -> io::Result<usize> {
        let deadline = Instant::now() + PATIENCE;
        let mut asked = 0;
        loop {
            asked += 1;
            let answer = self.connection.ask(request);
            match answer {
                Ok((200..=299, _)) => return Ok(asked),
                // The daemon is being started, or has no room.
                Ok((429 | 503, _)) | Err(_) if Instant::now() < deadline && !ending.has_failed() => {
                    thread::sleep(Duration::from_millis(5));
                }
                Ok((status, body)) => {
                    return Err(io::Error::other(format!("a push got {status}: {}", String::from_utf8_lossy(&body))));
                }
                Err(error) => return Err(io::Error::new(error.kind(), format!("a push: {error}"))),
            }
        }
    }

    fn request(&mut self, seqs: std::ops::Range<u64>, has_key: bool) -> Vec<u8> {
        let is_late = self.load.has_late && self.random.one_in(12);
        let key = if has_key {
            format!("Idempotency-Key: {}-{}-{}\r\n", self.load.seed, self.number, seqs.start)
        } else {
            String::new()
        };
        // Half of the clients have a record of many instances each, beside one instance that has many records.
        let is_spread = self.load.kind == Kind::ManyInstances && self.number.is_multiple_of(2);
        let target = match self.load.kind {
            Kind::FewInstances => format!("/ingest?instance=few-{}", self.random.below(FEW)),
            _ if is_spread => "/ingest".to_owned(),
            _ => "/ingest?instance=one".to_owned(),
        };
        let mut body = String::new();
        for seq in seqs {
            let time = if is_late { self.load.clock.late(&mut self.random) } else { self.load.clock.now() };
            let id = Id { stream: STREAM + self.number, seq };
            let instance = is_spread.then(|| format!("\"instance\":\"i{}\",", self.random.below(MANY)));
            body += &self.record(id, time, &instance.unwrap_or_default());
        }
        format!(
            "POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n{key}\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    }

    fn record(&mut self, id: Id, time: Ticks, instance: &str) -> String {
        const LEVELS: [&str; 4] = ["DEBUG", "INFO", "WARN", "ERROR"];
        let level = LEVELS[self.random.below(4) as usize];
        let message = line::message(id, self.random.below(PAYLOAD_MAX) as usize);
        let (status, took) = (200 + self.random.below(5) * 100, self.random.below(100_000));
        format!(
            "{{\"time\":\"{time}\",\"level\":\"{level}\",{instance}\"message\":\"{message}\",\"status\":{status},\
             \"took_us\":{took}}}\n"
        )
    }
}
