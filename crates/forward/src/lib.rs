//! Forwarding: a daytable is a source of another one, or of a backend of OpenTelemetry. [`daytable_store::forward`] has the pages and positions; here they
//! cross the network.
//!
//! ```text
//! host                                                    central
//! sender ── join: a code ─────────────────────────────►   intake ── a credential, once for each code
//!        ── renew: the next credential ────────────────►          ── both are good until it was used
//!        ── hello: which folder, how far it is ───────►          ── how far it was received
//!        ── rows: pages after that position ──────────►          ── stored with the position after them, then answered
//! ```
//!
//! * [`protocol`]: the messages. [`secret`]: codes and credentials. [`options`]: where a host sends.
//! * [`credentials`]: which credential a host has. `enrolment`: how it gets one by itself.
//! * [`client`]: requests of a host. [`sender`]: a thread for each receiver. `feed`: what it sends next. `request_size`: how much
//!   at once.
//! * [`otlp`]: records for a backend of OpenTelemetry, which is not a daytable, at least once.
//! * [`intake`]: the receiver, without its HTTP. [`activity`]: which host was heard of when, and two folders of one origin.
//!
//! The sender decides nothing by itself: before its first request, and after each answer that it did not expect, it asks how far
//! the receiver is. So a kill of either side, and a request that is repeated, delayed or lost, change nothing.

pub mod activity;
pub mod client;
pub mod credentials;
mod enrolment;
mod feed;
pub mod intake;
pub mod options;
pub mod otlp;
pub mod protocol;
mod request_size;
pub mod secret;
pub mod sender;
