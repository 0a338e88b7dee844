//! The configuration: one TOML file becomes one checked [`Config`], or the list of all its problems.
//!
//! ```text
//! file ──────> environment ──> section ──> the options of the parts ──> Config
//!  (text)      variables       a table       (types without wrong values)
//!              replace keys    key by key
//! ```
//!
//! 1. Every key is one row of a table (`key`). Reading, variables, changes, the reference and the sample follow from the rows.
//!    The module says how to add a key.
//! 2. The file is parsed, not validated: a [`Config`] has types without wrong values, such as
//!    [`TableName`](daytable_model::key::TableName) and [`Pattern`](daytable_intake::glob::Pattern).
//! 3. A [`Problem`] names the file, the line, the key and the fix. One run finds all problems.
//!
//! * `parts`: the list of all sections; `sources`: the list of the blocks of sources. `options`: the options of a section.
//! * `key`: rows, and what can be in a row. `section`: one table of the file, and its problems. `values`: shared readers.
//! * One file per section: [`http`], `tail`, `syslog`, `journal`, [`table`], `archives`, `alerts`, `lifecycle`, [`store`], `log`, [`tenants`], `forward`, `saved_queries`; and per
//!   inline table: `tls`, `allowance`, `reading`.
//! * `file`: the whole configuration. `load` reads it. [`credentials`]: the separate file of credentials.
//! * [`environment`]: a variable for each key. [`changes`]: what differs between two configurations.
//!   [`mod@reference`]: the generated documents.
//!
//! The configuration does not know the command line: commands set the fields that their options replace.

mod alerts;
mod allowance;
mod archives;
pub mod changes;
pub mod credentials;
pub mod environment;
pub mod error;
mod file;
mod forward;
pub mod http;
mod journal;
mod key;
mod lifecycle;
mod load;
mod log;
mod options;
mod parts;
mod reading;
pub mod reference;
pub mod remote;
mod saved_queries;
mod section;
mod sources;
pub mod store;
mod syslog;
pub mod table;
mod tail;
pub mod tenants;
mod tls;
mod values;

pub use changes::Changes;
pub use credentials::{CredentialConfig, CredentialSecret, load_credentials};
pub use environment::Variable;
pub use error::{ConfigError, Problem};
pub use file::Config;
pub(crate) use file::MEMORY_LEAST;
pub use forward::HostsConfig;
pub use http::{HttpConfig, Listen, PushAccess, PushAccessError};
pub use lifecycle::{FolderBound, LifecycleConfig};
pub use remote::{AccountConfig, CredentialKind, RemoteConfig, SendOrder, WhenFull};
pub use saved_queries::SavedQuery;
pub use sources::{BlockSummary, SourceBlocks};
pub use store::{StoreConfig, StoreKind};
pub use table::TableConfig;
pub use tenants::TenantConfig;

#[cfg(test)]
mod tests;
