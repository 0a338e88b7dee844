//! A request before its body: where it goes, by whose leave, under which limits.

use super::{Encoding, PushSender};
use crate::route::Router;
use daytable_parse::{Format, FormatChoice, Join, Reading};
use daytable_store::IdempotencyKey;
use sha2::{Digest, Sha256};
use std::num::NonZeroU16;
use std::time::Duration;

/// Where something is pushed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// `/ingest`
    Ingest,
    /// `/v1/logs`
    Otlp,
    /// `/loki/api/v1/push`
    Loki,
    /// `/elasticsearch/_bulk`
    Bulk,
    /// `/upload`
    Journal,
}

impl Endpoint {
    /// Every endpoint, by its number.
    pub const ALL: [Endpoint; 5] =
        [Endpoint::Ingest, Endpoint::Otlp, Endpoint::Loki, Endpoint::Bulk, Endpoint::Journal];

    /// What its records name as their source, and its name among the metrics.
    pub const fn source(self) -> &'static str {
        match self {
            Endpoint::Ingest => "http/ingest",
            Endpoint::Otlp => "http/otlp",
            Endpoint::Loki => "http/loki",
            Endpoint::Bulk => "http/elasticsearch",
            Endpoint::Journal => "http/journal",
        }
    }
}

/// What bounds a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PushLimits {
    /// Bytes of a body as it comes.
    pub body_bytes_max: usize,
    /// Bytes of a body decoded.
    pub decoded_bytes_max: usize,
    /// Bytes of all bodies that are in memory.
    pub bodies_bytes_max: usize,
    /// Records of a request.
    pub records_max: usize,
    /// How long a body may be in coming; of the journal's long ones, each next 16 KiB.
    pub body_timeout: Duration,
    /// How long a body that is there waits until somebody takes it apart.
    pub turn_wait: Duration,
    /// Uploads of journals at one time; each has a thread.
    pub uploads_max: usize,
}

impl PushLimits {
    /// Bytes of the rows of a request. A few bytes of a body may stand for many in each of its rows: what a resource, a
    /// stream or the request itself says is a part of every record. Twice the decoded body is room for what is usual.
    pub const fn rows_bytes_max(&self) -> usize {
        self.decoded_bytes_max.saturating_mul(2)
    }
}

impl Default for PushLimits {
    fn default() -> PushLimits {
        PushLimits {
            body_bytes_max: 16 << 20,
            decoded_bytes_max: 64 << 20,
            bodies_bytes_max: 128 << 20,
            records_max: 100_000,
            body_timeout: Duration::from_secs(60),
            turn_wait: Duration::from_secs(5),
            uploads_max: 64,
        }
    }
}

/// What requests are read by.
#[derive(Clone)]
pub struct PushSettings {
    pub(crate) router: Router,
    /// Of lines that may be of any format.
    pub(crate) lines: Reading,
    /// Of records that have to be JSON objects.
    pub(crate) objects: Reading,
    pub(crate) limits: PushLimits,
}

impl PushSettings {
    /// The settings by which bodies are read: plain lines as `lines` says, objects likewise but for what is about lines.
    pub fn new(router: Router, lines: Reading, limits: PushLimits) -> PushSettings {
        let objects = Reading {
            format: FormatChoice::Only(Format::Json),
            explicit: None,
            join: Join { lines_max: NonZeroU16::MIN, ..lines.join },
            ..lines.clone()
        };
        PushSettings { router, lines, objects, limits }
    }
}

/// What a request says before its body.
#[derive(Clone, Debug)]
pub struct PushRequest {
    /// Where to.
    pub endpoint: Endpoint,
    /// The content type, as it came.
    pub media: String,
    /// How the body is compressed.
    pub encoding: Encoding,
    /// The instance of all its records.
    pub instance: Option<String>,
    /// Elasticsearch's index, as the path has it.
    pub index: Option<String>,
    /// Who sends: the instance of records that name none.
    pub peer: String,
    /// Who sends it, as the listener found out.
    pub sender: PushSender,
    /// `Idempotency-Key`
    pub key: Option<String>,
}

/// The key and the body of a request that is written once; what a repeat is told is not known yet.
pub(super) fn once(request: &PushRequest, key: &str, body: &[u8]) -> IdempotencyKey {
    let source = request.endpoint.source();
    let text = |text: &Option<String>| text.clone().unwrap_or_default().into_bytes();
    let (instance, index) = (text(&request.instance), text(&request.index));
    IdempotencyKey {
        key: hash(&[request.sender.name.as_bytes(), source.as_bytes(), key.as_bytes()]),
        // Where its records go is a part of what it says.
        body: hash(&[&instance, &index, body]),
        answer: daytable_store::StoredAnswer::default(),
    }
}

/// What the row keys of a request with an idempotency key are made of.
pub(super) fn identity_of(once: &IdempotencyKey) -> u64 {
    once.key[..8].iter().fold(0, |identity, byte| identity << 8 | u64::from(*byte))
}

/// A SHA-256 of parts, of which none can look like two others.
pub(super) fn hash(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

/// A content type without its parameters, in lower case.
pub(super) fn essence(media: &str) -> String {
    media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}
