//! Sources of records, up to the batches in the commit queue of the store.
//!
//! * [`source`]: the trait that all sources implement; its page tells how to add a source. [`counters`]: what sources
//!   count.
//! * [`tail`]: files are discovered, identified, followed through rotation, and read. [`adopt`]: positions of other
//!   collectors.
//! * [`syslog`]: messages of other programs and hosts, from sockets.
//! * [`journal`]: the entries of systemd's journal.
//! * [`push`]: bodies of HTTP requests, in several protocols. It does not know HTTP.
//! * [`route`]: chooses the configured table, and its day, for a record. [`glob`], [`path_fields`],
//!   [`instance_template`]: patterns in the options of sources.
//! * [`batcher`]: open batches, one for each table and partition. [`record_writer`]: records become rows in them.
//!   `delivery`: rows of sources that cannot read their records again, until their commit.
//! * [`rate_limit`]: limits on one sender. [`sender_clocks`]: senders whose clocks are off. [`own_output`]: this daemon's own output, which is not read again.

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
mod delivery;
pub mod rate_limit;
pub mod sender_clocks;
pub mod glob;
pub mod path_fields;
pub mod instance_template;
pub mod own_output;
