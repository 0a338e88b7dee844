//! The seam between the routes and what answers them.
//!
//! The daemon fills an [`Api`] with functions over its readers; tests fill it with fakes. Each is called on a blocking
//! thread, several at a time, and writes lines of JSON to an [`ResponseWriter`]. Each must stop soon after [`ResponseWriter::line`] or
//! [`ResponseWriter::wanted`] says that nobody listens any more: ask `wanted` wherever much is read without a line to show for it.

use super::response::ResponseWriter;
use daytable_model::path_text;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What answers the routes.
pub struct Api {
    /// `/metrics`: all metrics in Prometheus's text format.
    pub metrics: Box<dyn Fn() -> String + Send + Sync>,
    /// `/api/query`: one object a record, newest first, at most `n`.
    pub query: Lines<QueryParams>,
    /// `/api/count`: one JSON document, as one line.
    pub count: Lines<CountParams>,
    /// `/api/tail`: one object a record, as they are committed. Calls [`ResponseWriter::begin`] once its place is taken, so that
    /// a client that has the head of the answer misses nothing; returns when nobody listens any more.
    pub tail: Lines<FilterParams>,
    /// `/api/tables`: one object a day-table.
    pub tables: Lines<()>,
    /// `/api/sources`: one object a source.
    pub sources: Lines<()>,
    /// `/-/drop`: drops the day-table of this name; a line says what became of it.
    pub drop_table: Lines<String>,
    /// `/-/drop` with `without_archive=true`: drops it also where its table asks for an archive and there is none.
    pub drop_without_archive: Lines<String>,
    /// `/-/plan`: what the next run of the lifecycle would do and why, an object a step and an object a day that stays.
    pub plan: Lines<()>,
    /// `/-/archive`: seals and archives the day-table of this name; lines say how far it is, the last what became of it.
    pub archive: Lines<String>,
    /// `/-/restore`: brings a day back; lines say how far it is, the last what became of it.
    pub restore: Lines<RestoreRequest>,
    /// `/-/reload`: reads the configuration again; a line says what changed.
    pub reload: Lines<()>,
    /// `/-/import`: loads files, by absolute paths; lines say how far it is.
    pub import: Lines<ImportRequest>,
}

/// What `/-/import` is to do: its body, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImportRequest {
    /// The files, by absolute paths. A byte that is no UTF-8 is written `\xFF`.
    #[serde(with = "path_text::list")]
    pub paths: Vec<PathBuf>,
    /// How their instance is named, as `instance` in the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// What their lines are, as `--format` has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
}

/// What `/-/restore` is to do: its body, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RestoreRequest {
    /// The day-table that was archived.
    pub table: String,
    /// The configured name that it comes back under, if not its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How long it stands, in seconds.
    pub keep_seconds: u64,
}

/// Answers in lines, each a JSON text without a newline in it.
pub type Lines<P> = Box<dyn Fn(&P, &mut ResponseWriter) -> Result<(), ApiError> + Send + Sync>;

/// Which records, as the client wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilterParams {
    /// The instance.
    pub instance: Option<String>,
    /// The oldest time.
    pub since: Option<String>,
    /// The newest time.
    pub until: Option<String>,
    /// The lowest level.
    pub level: Option<String>,
    /// Text that the record contains.
    pub contains: Option<String>,
}

/// Parameters of `/api/query`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryParams {
    /// Which records.
    pub filters: FilterParams,
    /// How many at most; 1 to [`N_MAX`].
    pub n: usize,
}

/// Parameters of `/api/count`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountParams {
    /// Which records.
    pub filters: FilterParams,
    /// What to count by; the client separates them with commas.
    pub by: Vec<String>,
    /// How long an interval is, as the client wrote it.
    pub every: Option<String>,
}

/// `n` of `/api/query` where none is given.
pub const N_DEFAULT: usize = 100;
/// The largest `n` of `/api/query`.
pub const N_MAX: usize = 1_000_000;

/// Why a request is not answered, by what the client can do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// 400: a parameter is wrong; write it otherwise.
    #[error("parameter {name}: {reason}")]
    Parameter {
        /// Its name.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// 404: it is not there, or was dropped while it was read.
    #[error("{0}")]
    NotFound(String),
    /// 409: it is there and is not to be had; the reason says what must change first.
    #[error("{0}")]
    Refused(String),
    /// 503: come again later.
    #[error("{0}")]
    Busy(String),
    /// 500: something of ours, which is logged.
    #[error("{0}")]
    Failed(String),
}

impl ApiError {
    /// A parameter that is wrong.
    pub fn parameter(name: impl Into<String>, reason: impl Into<String>) -> ApiError {
        ApiError::Parameter { name: name.into(), reason: reason.into() }
    }
}
