//! OTLP out: records are sent on to a backend of OpenTelemetry, by
//! [OTLP/HTTP](https://opentelemetry.io/docs/specs/otlp/#otlphttp) in protocol buffers.
//!
//! ```text
//! pages after the position ──► records ──► batches ──► POST /v1/logs ──► accepted ──► position, in the catalog here
//!                                            ▲  │          │
//!                                            │  └─ halves ◄┤ 400, 413, 422
//!                                            └─ a pause ◄──┘ 429, 5xx, no answer, 401, …
//! ```
//!
//! A backend keeps no position, so that of the catalog counts, which is written after the answer: a record is sent at least once.
//! It is sent again if its answer was lost, or the position was not written any more. It then has the same `log.record.uid`, by which
//! a backend that can do so drops repeats.
//!
//! Nothing is dropped in silence. A batch that the backend refuses is halved until single records are refused; these are counted
//! and named, and the others arrive. A backend that refuses everything is one that is configured wrongly: then nothing is dropped,
//! and the records wait here.
//!
//! * [`address`]: the address of a backend. [`headers`]: the file with its headers.
//! * `record`: a record as OTLP has it. `batch`: records of one request. `protobuf`: the bytes of messages.
//! * [`client`]: requests and their answers. `delivery`: what is done about an answer. [`sender`]: the position.

pub mod address;
mod batch;
pub mod client;
mod delivery;
pub mod headers;
mod protobuf;
mod record;
pub mod sender;
