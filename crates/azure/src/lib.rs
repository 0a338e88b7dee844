//! A client of Azure Table storage, of Cosmos DB's Table API, and of Azurite, the emulator of Azure storage.
//!
//! The client sends each request once. The [`ErrorKind`] of an [`Error`] gives the action of the caller: retry, split,
//! create the table, give up. [`Backoff`] computes the pause before a retry.
//!
//! * [`StorageAccount`]: name, address and secret, read from a connection string.
//! * [`TokenSource`]: tokens of an identity, for an account without a key.
//! * [`Client`]: creates, lists and drops tables, reads, writes and deletes entities, sends transactions. It is async and
//!   runs in a tokio runtime of the caller.
//! * [`WriteMode`]: insert, replace, merge, and both upserts. [`IfMatch`]: only the version that was read ([`ETag`]).
//! * [`Transaction`]: up to 100 writes and deletes of one partition, serialized as they are pushed. The same writes give
//!   the same bytes, so a transaction can be sent again.
//! * [`Query`], [`EntityPage`], [`Entity`], [`EdmValue`]: entities are read a page at a time, with their types.
//!   `testing`: invariants of every answer, with the feature `testing`.
//!
//! # Example
//!
//! ```no_run
//! # async fn sent() -> Result<(), Box<dyn std::error::Error>> {
//! use daytable_azure::{Client, ClientOptions, DateTime, EdmValue, Pushed, StorageAccount, Transaction};
//! let account: StorageAccount = "UseDevelopmentStorage=true".parse()?;
//! // The caller's clock, in ticks of 100 ns since 0001-01-01.
//! let client = Client::new(account, ClientOptions::new(|| DateTime::from_ticks(638_993_664_000_000_000)))?;
//! client.create_table("Log20261121").await?;
//! let mut transaction = Transaction::new(client.account(), "Log20261121", "web-17");
//! let pushed = transaction.push("2516070815999999999", [("Message", EdmValue::from("started")), ("Severity", EdmValue::Int32(9))]);
//! assert_eq!(pushed, Pushed::Added);
//! client.transact(&transaction.seal()).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Protocol
//!
//! The client speaks version 2020-12-06 with JSON, and signs requests with
//! [SharedKey](https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key), a shared access
//! signature, or [tokens of Entra ID](https://learn.microsoft.com/rest/api/storageservices/authorize-with-azure-active-directory).
//! An upsert is a `PUT` or `PATCH` without `If-Match`: repeating it changes nothing, so an upsert with an unknown outcome
//! may be repeated. A failed transaction is answered with 202 and the error in its body. The
//! client reads errors in JSON and in XML, limits the size of every answer before reading it into memory, and panics
//! on no answer.
//!
//! Secrets appear in no error, no `Debug` output and no log. A shared access signature is part of the address, so
//! errors contain no addresses.
//!
//! # Not supported
//!
//! Automatic retries (the caller knows its other work), access policies, secondary endpoints, queries within a
//! transaction, asking an identity service for tokens (a [`TokenSource`] of the caller does).

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
mod token;
mod transaction;
mod value;
mod write;

pub use account::{AccountError, Flavour, StorageAccount};
pub use backoff::{Backoff, Pauses};
pub use client::{Client, ClientOptions, SetupError};
pub use datetime::DateTime;
pub use entity::Entity;
pub use error::{Error, ErrorKind, REFUSALS, ThrottleScope};
pub use query::{Continuation, EntityPage, PAGE_ENTITIES_MAX, Query, literal};
pub use token::{AccessToken, TokenError, TokenFuture, TokenSource};
pub use transaction::{ENTITIES_MAX, Pushed, SealedTransaction, Transaction};
pub use value::EdmValue;
pub use write::{ETag, IfMatch, WriteMode};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
