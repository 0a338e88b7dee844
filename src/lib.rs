//! daytable takes log records in, writes each day's records to a table of its own, and lets a day go with one drop.
//!
//! The modules, in the order a record meets them:
//!
//! * [`time`]: ticks of 100 ns, and the one place that reads the wall clock.
//! * [`record`]: what a line says, borrowed from the line.
//! * [`redact`]: secrets are replaced before anything is stored.
//! * [`parse`]: a line becomes a record. Cannot fail.
//! * [`tail`]: files are found, told apart, followed through rotation, and cut into lines.
//! * [`syslog`]: messages of other programs and hosts are taken from sockets.
//! * [`journal`]: the entries of systemd's journal.
//! * [`push`]: bodies of requests are taken apart, whatever protocol they are in.
//! * [`rows`]: records that came over a socket become rows.
//! * [`key`]: the table of the day, the partition of the instance, the row key of inverted time.
//! * [`property`]: the values of a row and the names they may have.
//! * [`needle`]: a text that is searched for, and which values contain it.
//! * [`batch`]: rows of one table and partition, the unit that is handed to the commit.
//! * [`entity`]: a record becomes one row of a batch, or a master row and its items.
//! * [`batcher`]: open batches, one a table and partition, until they are handed over.
//! * [`route`]: which configured table, and which of its days, takes a record.
//! * [`fair`]: what one sender may send.
//! * [`tls`]: certificates of listeners.
//! * [`live`]: a value that a reload replaces.
//! * `path_text`: the path of a file as text; `safe_text`: text of others, so that it commands no terminal.
//! * [`memory`]: how much there is, and what is made smaller where that is little.
//! * [`store`]: the embedded engine: pages, the commit, the catalogue, tidy, reading.
//! * [`outbox`]: with a remote store, what is committed is sent there and then goes from the folder.
//! * [`azure`]: the client of Azure Table storage, which knows nothing of the rest.
//! * [`tables`]: the table store: what the embedded engine and Azure Table storage have in common.
//! * [`stress`]: how much a remote store takes.
//! * [`archive`]: sealed days are copied elsewhere, with proof, and read back from there.
//! * [`lifecycle`]: the life of a day: created ahead, sealed, archived, dropped, restored: a pure plan, and what takes its steps.
//! * [`verify`]: whether all of it is whole: the ledger, the tables, the archives, the files that were read.
//! * [`query`]: rows become records again: newest first, counted, followed live.
//! * [`log`]: what the program says of itself, and that it does not read it again.
//! * [`metrics`]: everything that is counted, by its Prometheus name.
//! * [`http`]: the listeners: metrics, health, the reading API, the control socket.
//! * [`config`]: the file, its defaults, its errors.
//! * [`adopt`]: what other collectors noted of files.
//! * [`activation`]: sockets that the service manager bound.
//! * [`daemon`]: the parts put together, started, drained and stopped.
//! * [`cli`]: the commands.
//! * [`trial`]: what must hold of any bytes, for tests and fuzzers.
//!
//! What does not exist, on purpose: sources know nothing of stores and stores nothing of sources (they meet in
//! [`batch`] and in [`store::Intake`]); no position is kept anywhere but in the commit that holds its rows; no row is
//! ever deleted to expire; nothing but [`time`] asks for the time of day; no module but [`store`] opens the data folder.

pub mod time;
pub mod record;
pub mod redact;
pub mod parse;
pub mod tail;
pub mod syslog;
pub mod journal;
pub mod push;
pub mod rows;
pub mod key;
pub mod property;
pub mod needle;
pub mod batch;
pub mod entity;
pub mod batcher;
pub mod route;
pub mod fair;
mod watched;
pub mod live;
mod path_text;
mod safe_text;
pub mod memory;
pub mod log;
pub mod store;
pub mod remote_options;
pub mod outbox;
pub mod azure;
pub mod tables;
pub mod azure_tables;
pub mod stress;
pub mod archive;
pub mod lifecycle;
pub mod verify;
pub mod query;
pub mod metrics;
pub mod http;
pub mod config;
pub mod adopt;
pub mod daemon;
pub mod cli;
pub mod failpoint;
pub mod trial;
mod did_you_mean;
pub mod window;
pub mod units;
pub mod glob;
pub mod path_fields;
pub mod instance_template;
pub mod own_output;
pub mod bucket_plan;
pub mod host;
pub mod source;
pub mod net;
