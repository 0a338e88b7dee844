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

mod archive;
mod azure;
mod activation;
mod backup;
mod bombs;
mod administered;
mod adopt;
mod commands;
mod creates;
mod formats;
mod gate;
mod golden;
mod house;
mod http;
mod intruded;
mod journal;
mod kill;
mod life_of_a_day;
mod lifecycle;
mod moved;
mod multi_line;
mod names;
mod once;
mod outbox;
mod packaging;
mod path_fields;
mod prometheus;
mod own_log;
mod push;
mod readme;
mod reload;
mod rotation;
mod routing;
mod sealed;
mod search;
mod sequences;
mod spread;
mod senders;
mod service;
mod syslog;
mod tables;
mod terminal;
mod told;
mod trouble;
mod verify;
