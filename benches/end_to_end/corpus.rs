//! The records under measurement: one day (2026-11-20 UTC) in time order, from 64 instances with different rates. 1 %
//! of the records are errors with a longer text. The same arguments give the same bytes.
//!
//! A record has 200 bytes as text and 292 as NDJSON. About 27 bytes are random (16 of the trace id, the rest of
//! address, size and time), so the corpus compresses worse than most logs.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// The number of instances.
pub(crate) const INSTANCES: usize = 64;
/// The day of all records, as in a table name.
pub(crate) const DAY: &str = "20261120";
/// The seed of [`Corpus::new`] for the standard corpus.
pub(crate) const SEED: u64 = 20_261_120;

const DAY_MICROS: u64 = 86_399_000_000;
const COMPONENTS: [(&str, &str); 9] = [
    ("http.server", "request handled"),
    ("db.pool", "query finished"),
    ("cache.redis", "cache lookup done"),
    ("auth.session", "session validated"),
    ("queue.consumer", "message consumed"),
    ("billing.invoice", "invoice line written"),
    ("scheduler", "job tick completed"),
    ("http.client", "upstream call returned"),
    ("storage.blob", "blob chunk stored"),
];
const RESOURCES: [&str; 8] = ["items", "users", "orders", "carts", "invoices", "sessions", "products", "search"];
const RARE_STATUSES: [u64; 6] = [201, 204, 304, 400, 404, 429];

/// Sebastiano Vigna's SplitMix64: incompressible enough, and portable.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// The next number below `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.next() as usize % of.len()]
    }
}

/// A record, independent of its format.
pub(crate) struct Sample {
    /// The instance, below [`INSTANCES`].
    pub(crate) instance: usize,
    micros: u64,
    level: &'static str,
    component: &'static str,
    message: &'static str,
    method: &'static str,
    path: String,
    status: u64,
    took_ms: u64,
    size: u64,
    client: String,
    trace: [u64; 2],
    error: Option<String>,
}

/// The records, in order.
pub(crate) struct Corpus {
    random: Random,
    /// Average microseconds between two records.
    step: u64,
    number: u64,
    records: u64,
}

impl Corpus {
    /// A day with `records` records.
    pub(crate) fn new(seed: u64, records: u64) -> Corpus {
        Corpus { random: Random(seed), step: (DAY_MICROS / records.max(1)).max(1), number: 0, records }
    }

    /// A record of `instance`, `micros` microseconds after midnight.
    pub(crate) fn sample(&mut self, micros: u64, instance: usize) -> Sample {
        let random = &mut self.random;
        let level = match random.below(1024) {
            0..10 => "ERROR",
            10..51 => "WARN",
            51..256 => "DEBUG",
            _ => "INFO",
        };
        // The web server writes half of all records.
        let (component, message) = if random.below(2) == 0 { COMPONENTS[0] } else { *random.pick(&COMPONENTS) };
        let method = match random.below(16) {
            0..10 => "GET",
            10..14 => "POST",
            14 => "PUT",
            _ => "DELETE",
        };
        let path = format!("/api/v1/{}/{}", random.pick(&RESOURCES), random.below(4096));
        let mut took_ms = random.below(128) + 1;
        if random.below(16) == 0 {
            took_ms *= 23;
        }
        let status = if random.below(32) < 26 { 200 } else { *random.pick(&RARE_STATUSES) };
        let r = random.next();
        let mut sample = Sample {
            instance,
            micros,
            level,
            component,
            message,
            method,
            path,
            status,
            took_ms,
            size: r >> 48 & 0x7fff,
            client: format!("10.{}.{}.{}", r & 7, r >> 3 & 255, r >> 11 & 255),
            trace: [random.next(), random.next()],
            error: None,
        };
        if level == "ERROR" {
            sample.status = 500 + (r >> 19 & 3);
            sample.message = "request failed";
            sample.error = Some(error(r >> 21));
        }
        sample
    }
}

impl Iterator for Corpus {
    type Item = Sample;

    fn next(&mut self) -> Option<Sample> {
        if self.number == self.records {
            return None;
        }
        let micros = self.number * self.step + self.random.below(self.step);
        self.number += 1;
        // The first sixteen instances write three times as much as the others.
        let instance = match self.random.below(128) as usize {
            one if one < INSTANCES => one,
            more => (more - INSTANCES) % 16,
        };
        Some(self.sample(micros, instance))
    }
}

fn error(r: u64) -> String {
    let (a, b, c) = (r >> 2 & 255, r >> 10 & 255, (r >> 18 & 3) + 1);
    match r & 3 {
        0 => format!(
            "connection reset by peer while reading response header from upstream 10.3.{a}.{b}:8443, attempt {c} of 5, giving up after backoff"
        ),
        1 => format!(
            "deadlock detected while updating row in table orders_2026 shard 10.{a}.{b}, transaction aborted and will be retried (try {c})"
        ),
        2 => format!(
            "timeout of 30000ms exceeded waiting for lock held by session 10.{a}/{b}, queue depth {c}, request rejected with overload status"
        ),
        _ => format!(
            "failed to decode payload: invalid utf-8 sequence of 1 bytes from index {a} near field customer.{b}.address, schema version {c}"
        ),
    }
}

impl Sample {
    fn write_time(&self, line: &mut String) {
        let (s, micros) = (self.micros / 1_000_000, self.micros % 1_000_000);
        let (hour, minute, second) = (s / 3600, s / 60 % 60, s % 60);
        append(line, format_args!("2026-11-20T{hour:02}:{minute:02}:{second:02}.{micros:06}Z"));
    }

    /// `TIME LEVEL component message key=value…`, with a newline.
    pub(crate) fn write_text(&self, line: &mut String) {
        self.write_time(line);
        let Sample { level, component, message, method, path, status, took_ms, size, client, trace: [a, b], .. } = self;
        append(
            line,
            format_args!(
                " {level} {component} {message} method={method} path={path} status={status} duration_ms={took_ms} \
                 bytes={size} client={client} trace_id={a:016x}{b:016x}"
            ),
        );
        if let Some(error) = &self.error {
            append(line, format_args!(" error=\"{error}\""));
        }
        line.push('\n');
    }

    /// One JSON object, with a newline.
    pub(crate) fn write_json(&self, line: &mut String) {
        line.push_str("{\"time\":\"");
        self.write_time(line);
        let Sample { instance, level, component, message, method, path, status, took_ms, size, .. } = self;
        let Sample { client, trace: [a, b], .. } = self;
        append(
            line,
            format_args!(
                r#"","level":"{level}","instance":"worker-{instance:02}","component":"{component}","message":"{message}","method":"{method}","path":"{path}","status":{status},"duration_ms":{took_ms},"bytes":{size},"client":"{client}","trace_id":"{a:016x}{b:016x}""#
            ),
        );
        if let Some(error) = &self.error {
            append(line, format_args!(r#","error":"{error}""#));
        }
        line.push_str("}\n");
    }
}

fn append(line: &mut String, text: std::fmt::Arguments<'_>) {
    line.write_fmt(text).expect("a string takes whatever is written to it");
}

/// Writes `records` as one NDJSON file.
pub(crate) fn write_ndjson(path: &Path, records: u64) -> io::Result<()> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut line = String::new();
    for sample in Corpus::new(SEED, records) {
        line.clear();
        sample.write_json(&mut line);
        file.write_all(line.as_bytes())?;
    }
    file.into_inner()?.sync_all()
}

/// Writes `records` as text, a file per instance: `worker-NN.log` in `folder`.
pub(crate) fn write_text(folder: &Path, records: u64) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let path = |instance: usize| -> PathBuf { folder.join(format!("worker-{instance:02}.log")) };
    let open = |instance| File::create(path(instance)).map(|file| BufWriter::with_capacity(1 << 16, file));
    let mut files = (0..INSTANCES).map(open).collect::<io::Result<Vec<_>>>()?;
    let mut line = String::new();
    for sample in Corpus::new(SEED, records) {
        line.clear();
        sample.write_text(&mut line);
        files[sample.instance].write_all(line.as_bytes())?;
    }
    files.into_iter().try_for_each(|file| file.into_inner()?.sync_all())
}
