//! Tests across modules. Every test runs the real `daytable` on real files, in its own folder.
//!
//! One binary, a module per behaviour. [`place`] is the folder and its daemon, [`client`] an HTTP client, and
//! [`server`] starts other servers.
//!
//! Tests do not sleep and hope. A test [waits](place::wait_for) for its expectation, and reports the difference at the
//! deadline. To show that an event does *not* happen, a test waits for a later event: a later record, a stop, a
//! restart.

mod client;
mod place;
mod server;

mod agents;
mod alerts;
mod archive;
mod arrivals;
mod authority;
mod azure;
mod activation;
mod backup;
mod decompression;
mod export;
mod followers;
mod administration;
mod adopt;
mod commands;
mod containers;
mod bulk_create;
mod formats;
mod forward;
#[cfg(feature = "failpoints")]
mod full_disk;
mod push_auth;
mod golden;
mod house;
mod imported_again;
mod imported_files;
mod http;
mod foreign_changes;
mod journal;
mod keys;
mod kill;
mod lake;
mod lake_changes;
mod lake_faults;
mod lake_reading;
mod lake_writers;
mod life_of_a_day;
mod lifecycle;
mod loki;
mod source_log;
mod multi_line;
mod names;
mod newcomer;
mod idempotency;
mod open_days;
mod otlp_out;
mod outbox;
mod packaging;
mod page;
mod path_fields;
mod prometheus;
mod own_log;
mod push;
mod questions;
mod readers;
mod readme;
mod redaction;
mod reload;
mod repeats;
mod rotation;
mod routing;
mod sealed;
mod search;
mod sequences;
mod slips;
mod buckets;
mod senders;
mod service;
mod syslog;
mod tables;
mod terminal;
mod reports;
mod status;
mod trouble;
mod verify;
mod written;
mod zones;
