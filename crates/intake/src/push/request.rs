//! A request without its body: its endpoint, its sender, and its limits.

use super::known_layouts::KnownLayouts;
use super::{Encoding, PushSender};
use crate::route::Router;
use daytable_model::source_id::{HostId, SourceId, SourceStart};
use daytable_parse::{Format, FormatChoice, Join, ParseOptions};
use daytable_store::IdempotencyKey;
use sha2::{Digest, Sha256};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

/// Makes [`Endpoint`] of one list. Counters are found by the number of an endpoint, so the list of all must not lack one.
macro_rules! endpoints {
    ($($(#[$doc:meta])* $endpoint:ident: $source:literal,)*) => {
        /// The endpoint of a request.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Endpoint {
            $($(#[$doc])* $endpoint,)*
        }

        impl Endpoint {
            /// Every endpoint, in the order of their numbers.
            pub const ALL: [Endpoint; [$($source),*].len()] = [$(Endpoint::$endpoint),*];

            /// The source of its records, and its name in metrics.
            pub const fn source(self) -> &'static str {
                match self {
                    $(Endpoint::$endpoint => $source,)*
                }
            }
        }
    };
}

endpoints! {
    /// `/ingest`
    Ingest: "http/ingest",
    /// `/v1/logs`
    Otlp: "http/otlp",
    /// `/loki/api/v1/push`
    Loki: "http/loki",
    /// `/elasticsearch/_bulk`
    Bulk: "http/elasticsearch",
    /// `/upload`
    Journal: "http/journal",
}

/// The limits of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PushLimits {
    /// Maximum bytes of a body as it arrives.
    pub body_bytes_max: usize,
    /// Maximum bytes of a decoded body.
    pub decoded_bytes_max: usize,
    /// Maximum memory of all requests together, in bytes.
    pub bodies_bytes_max: usize,
    /// Maximum records of a request.
    pub records_max: usize,
    /// How long a body may take to arrive. For an upload of a journal: how long each further 16 KiB may take.
    pub body_timeout: Duration,
    /// How long a body waits at most for its turn to be parsed.
    pub turn_wait: Duration,
    /// The largest number of concurrent uploads of journals. Each upload has a thread.
    pub uploads_max: usize,
}

impl PushLimits {
    /// The largest number of bytes of the rows of a request. Few bytes of a body can become many bytes of rows, because
    /// the attributes of a resource, a stream or the request itself are part of every record. Twice the decoded body is
    /// enough for usual requests.
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

/// The settings of all requests.
#[derive(Clone)]
pub struct PushSettings {
    pub(crate) router: Router,
    /// For lines of any format.
    pub(crate) lines: ParseOptions,
    /// For records that must be JSON objects.
    pub(crate) objects: ParseOptions,
    pub(crate) limits: PushLimits,
    pub(super) known_layouts: Arc<KnownLayouts>,
}

impl PushSettings {
    /// Lines are parsed with `lines`; objects with the same options, except those for lines.
    pub fn new(router: Router, lines: ParseOptions, limits: PushLimits) -> PushSettings {
        let objects = ParseOptions {
            format: FormatChoice::Only(Format::Json),
            explicit: None,
            join: Join { lines_max: NonZeroU16::MIN, ..lines.join },
            ..lines.clone()
        };
        PushSettings { router, lines, objects, limits, known_layouts: Arc::default() }
    }
}

/// A request without its body.
#[derive(Clone, Debug)]
pub struct PushRequest {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// The content type, as it was sent.
    pub media: String,
    /// The compression of the body.
    pub encoding: Encoding,
    /// The instance of all its records.
    pub instance: Option<String>,
    /// The index in a path of Elasticsearch.
    pub index: Option<String>,
    /// The address of the sender, which is the instance of records without another one.
    pub peer: String,
    /// The sender, as the listener authenticated it.
    pub sender: PushSender,
    /// `Idempotency-Key`
    pub key: Option<String>,
}

/// The idempotency key of a request. The answer for repeats is not known yet.
pub(super) fn once(request: &PushRequest, key: &str, body: &[u8]) -> IdempotencyKey {
    let source = request.endpoint.source();
    let text = |text: &Option<String>| text.clone().unwrap_or_default().into_bytes();
    let (instance, index) = (text(&request.instance), text(&request.index));
    IdempotencyKey {
        key: hash(&[request.sender.name.as_bytes(), source.as_bytes(), key.as_bytes()]),
        // The destination of the records is part of the body.
        body: hash(&[&instance, &index, body]),
        answer: daytable_store::StoredAnswer::default(),
    }
}

/// The identity in the row keys of a request with an idempotency key. It has no start, because each repetition must have
/// the same keys.
pub(super) fn identity_of(once: &IdempotencyKey, host: HostId) -> SourceId {
    let name = once.key[..8].iter().fold(0, |name, byte| name << 8 | u64::from(*byte));
    SourceId::new(SourceStart::NONE, host, name)
}

/// A SHA-256 of the parts. Their lengths are hashed, too, so no two lists of parts have the same input.
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

#[cfg(test)]
mod tests {
    use super::Endpoint;

    /// [`Push::counters_of`](super::super::Push::counters_of) finds counters by these numbers.
    #[test]
    fn each_endpoint_has_its_number_and_its_source() {
        for (number, endpoint) in Endpoint::ALL.into_iter().enumerate() {
            assert_eq!(endpoint as usize, number);
            let same = Endpoint::ALL.into_iter().filter(|other| other.source() == endpoint.source());
            assert_eq!(same.count(), 1, "{}", endpoint.source());
        }
    }
}
