//! What crosses modules: every test here runs the real `daytable` on real files, in a folder of its own.
//!
//! One binary, a module per behaviour; [`place`] is the folder and the daemon in it, [`client`] speaks HTTP to it;
//! [`server`] is what else a test starts.
//!
//! Nothing sleeps to hope: a test [waits](place::wait_for) until what it expects is there, and fails with what was
//! missing at its deadline. That something does *not* happen is shown by something later that does: a record that was
//! written after it, a stop, a second start.

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
