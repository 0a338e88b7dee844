//! A client of Azure Table storage, of Cosmos DB's Table API, and of Azurite, the emulator of the first.
//!
//! It knows nothing of the rest of this program and could be a crate of its own. It decides nothing either: a request is
//! sent once, and an [`Error`] says by its [`ErrorKind`] what its caller can do about it. Whoever sends again waits as
//! [`Backoff`] says.
//!
//! * [`StorageAccount`]: who, where and with which secret, out of a connection string.
//! * [`Client`]: tables are created, listed and dropped, entities read, transactions sent. Async; its callers own the runtime.
//! * [`Transaction`]: up to 100 entities of one partition, written into the bytes that are sent as they are pushed. The same
//!   entities are the same bytes, so that what was sent may be sent again.
//! * [`Query`], [`Page`], [`Entity`], [`Value`]: what is read, a page at a time, its types kept.
//! * [`Error`], [`ErrorKind`], [`Backoff`].
//! * `testing`: what must hold of any answer, with the feature `testing`.
//!
//! ```no_run
//! # async fn sent() -> Result<(), Box<dyn std::error::Error>> {
//! use daytable_azure::{StorageAccount, Client, DateTime, ClientOptions, Pushed, Transaction, Value};
//! let account: StorageAccount = "UseDevelopmentStorage=true".parse()?;
//! // The caller's clock, in ticks of 100 ns since 0001-01-01.
//! let client = Client::new(account, ClientOptions::new(|| DateTime::from_ticks(638_993_664_000_000_000)))?;
//! client.create_table("Log20261121").await?;
//! let mut transaction = Transaction::new(client.account(), "Log20261121", "web-17");
//! let pushed = transaction.push("2516070815999999999", [("Message", Value::from("started")), ("Severity", Value::Int32(9))]);
//! assert_eq!(pushed, Pushed::Added);
//! client.transact(&transaction.seal()).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # What of the protocol is used
//!
//! Version 2020-12-06, JSON. Signatures are of SharedKey's kind for tables, or there is a shared access signature in the
//! query. An upsert is `PUT` without `If-Match` (*insert or replace*): sent again it changes nothing, so a request of which
//! nothing is known may be repeated. A transaction that fails is answered with 202, and what failed stands inside
//! (`answer`); both line ends are read, errors in JSON and in XML. What a server sends is bounded before it is read
//! into memory, and cannot panic.
//!
//! Secrets are in no error, no `Debug` and no log: a shared access signature stands in the address, so addresses are
//! never part of what is said.
//!
//! Not done on purpose: retries inside (who sends knows what else waits), merging and conditional updates, access policies,
//! secondary endpoints, tokens of Entra ID.

mod account;
mod response;
mod backoff;
mod client;
mod datetime;
mod entity;
mod error;
mod names;
mod query;
mod signature;
#[cfg(feature = "testing")]
pub mod testing;
mod transaction;
mod value;

pub use account::{AccountError, Flavour, StorageAccount};
pub use backoff::{Backoff, Pauses};
pub use client::{Client, ClientOptions, SetupError};
pub use datetime::DateTime;
pub use entity::Entity;
pub use error::{Error, ErrorKind, REFUSALS, ThrottleScope};
pub use query::{Continuation, PAGE_ENTITIES_MAX, Page, Query, literal};
pub use transaction::{ENTITIES_MAX, Pushed, SealedTransaction, Transaction};
pub use value::Value;
