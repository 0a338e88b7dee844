//! Push: bodies of requests become records, in any of these protocols.
//!
//! | endpoint | protocol |
//! |---|---|
//! | `ingest` | lines, NDJSON, JSON, MessagePack |
//! | `otlp` | logs of OpenTelemetry, in protocol buffers or JSON |
//! | `loki` | Loki's push API, in protocol buffers or JSON |
//! | `bulk`, [`elastic`] | Elasticsearch's bulk API, and the requests that its clients send before |
//! | [`journal`] | systemd-journal-upload |
//!
//! **A request is one commit**, whole or not at all, and gets its answer after the commit. The exception are long uploads of a
//! journal: they are committed in pieces, and a repeated upload changes nothing. A malformed record is refused alone, with
//! its index, if the protocol can report that. A part of a body that no decoder knows is counted (`unread_parts`), and a
//! body of which nothing is known is refused: a 2xx means that the records are stored. With an idempotency key, row keys derive from that key and the index of the
//! record, and the store says whether it knows the key. Without an idempotency key, row keys have 64 random bits and the
//! index.
//!
//! **Limits** hold for the bytes of a body as it arrives and decoded, the memory of all requests ([`MemoryPool`]), the records
//! of a request, the bytes of a record, the depth of nested values, the requests that are parsed at one time, and the time
//! that a request waits for its turn. A request with a memory reservation waits for more only for a bounded time, and at most
//! one request waits. Any other request is refused, and its sender tries again.
//!
//! **After a failed commit** its requests are answered with 503, and no row of them is on disk. A repeated request therefore
//! sends no record twice.
//!
//! No decoder builds a whole document in memory first: protocol buffers are read field by field (`protobuf`), JSON and
//! MessagePack are cut into records first (`raw_json`, `msgpack`). Memory follows the bytes of a body, even if it holds many empty records.

mod answer;
mod bulk;
mod document_ids;
pub mod elastic;
mod encoding;
mod ingest;
pub mod journal;
mod known_layouts;
mod loki;
mod memory_pool;
mod msgpack;
mod otlp;
mod protobuf;
mod raw_json;
mod refusal;
mod request;
mod request_writer;
mod sender;
mod service;
mod source;
#[cfg(test)]
mod tests;
mod unread_parts;

pub use answer::{PushResponse, refused};
pub use document_ids::DocumentLookup;
pub use encoding::{Encoding, decode, reader};
pub use memory_pool::{MemoryPool, MemoryReservation};
pub use refusal::Refusal;
pub use request::{Endpoint, PushLimits, PushRequest, PushSettings};
pub use request_writer::RECORD_BYTES_MAX;
pub use sender::{Meter, PushSender};
#[cfg(feature = "testing")]
pub use service::count_records;
pub use service::{ParsedRequest, PendingResponse, Push};
pub use source::PushOptions;
