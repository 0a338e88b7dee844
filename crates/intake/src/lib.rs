//! Where records come from, and what becomes of them until their batches are in the commit queue of the store.
//!
//! * [`tail`]: files are found, identified, followed through rotation, and cut into lines. [`adopt`]: positions of other
//!   collectors.
//! * [`syslog`]: messages of other programs and hosts, from sockets.
//! * [`journal`]: the entries of systemd's journal.
//! * [`push`]: bodies of requests, whatever protocol they are in. It does not know HTTP.
//! * [`route`]: which configured table, and which of its days, takes a record. [`glob`], [`path_fields`],
//!   [`instance_template`]: the patterns that the options of a source are made of.
//! * [`batcher`]: open batches, one for each table and partition. [`record_writer`]: records become rows in them.
//! * [`rate_limit`]: limits on one sender. [`own_output`]: this daemon's own output, which is not read again.
//! * [`source`]: the trait that all sources implement. [`counters`]: what they count.

pub mod source;
pub mod counters;
pub mod tail;
pub mod syslog;
pub mod journal;
pub mod push;
pub mod adopt;
pub mod route;
pub mod batcher;
pub mod record_writer;
pub mod rate_limit;
pub mod glob;
pub mod path_fields;
pub mod instance_template;
pub mod own_output;
