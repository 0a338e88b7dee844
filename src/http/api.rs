//! The interface between the routes and the code that answers them.
//!
//! The daemon implements [`Api`] over its readers; tests implement it with fakes. Each method that writes to a
//! [`ResponseWriter`] is called on a blocking thread, several concurrently. The method must return soon after
//! [`ResponseWriter::line`] or [`ResponseWriter::is_wanted`] reports that the client disconnected. A method that reads
//! much between two lines calls `is_wanted` in between.

use super::loki::{LokiError, QuestionClock};
use super::response::ResponseWriter;
use daytable_intake::tail::ImportFile;
use daytable_logql::ast::Selector;
use daytable_logql::source::{EntrySource, LogEntry};
use daytable_model::path_text;
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;
use std::path::PathBuf;

/// The result of a route's code, after its lines.
pub type ApiResult = Result<(), ApiError>;

/// Answers the routes. Lines are JSON objects unless a method states otherwise.
pub trait Api: Send + Sync + 'static {
    /// `/metrics`: all metrics in Prometheus's text format.
    fn metrics(&self) -> String;

    /// `/api/query`: one line a record, newest first, or a row of the query's pipes; at most `n`.
    fn query(&self, params: &QueryParams, out: &mut ResponseWriter) -> ApiResult;

    /// `/api/export`: like `query` without limits, in the form that the client chose.
    fn export(&self, params: &ExportParams, out: &mut ResponseWriter) -> ApiResult;

    /// `/api/stats`, `/api/hits`, `/api/facets`, `/api/fields`, `/api/values`: one JSON document, as one line.
    fn summary(&self, params: &SummaryParams, out: &mut ResponseWriter) -> ApiResult;

    /// `/api/context`: one line a record, oldest first.
    fn context(&self, params: &ContextParams, out: &mut ResponseWriter) -> ApiResult;

    /// `/api/count`: one JSON document, as one line.
    fn count(&self, params: &CountParams, out: &mut ResponseWriter) -> ApiResult;

    /// `/api/tail`: one line a record, as records are committed. Calls [`ResponseWriter::begin`] once its position is
    /// fixed, so that a client with the head of the response misses no record. Returns when the client disconnects.
    fn tail(&self, params: &FilterParams, out: &mut ResponseWriter) -> ApiResult;

    /// `/api/patterns`: one JSON document, as one line.
    fn patterns(&self, params: &FilterParams, out: &mut ResponseWriter) -> ApiResult;

    /// `/loki/api/v1/*`: calls `read` once, with the entries of all stores. They end when `clock` expires.
    fn log_entries(&self, clock: &QuestionClock, read: &mut dyn FnMut(&dyn EntrySource)) -> Result<(), LokiError>;

    /// `/loki/api/v1/tail`: passes the selected entries to `each` as they are committed, and `None` when there are no
    /// more for now, until `each` breaks.
    fn follow_log_entries(
        &self,
        selector: &Selector,
        each: &mut dyn FnMut(Option<LogEntry>) -> ControlFlow<()>,
    ) -> ApiResult;

    /// `/api/tables`: one line a day-table.
    fn tables(&self, out: &mut ResponseWriter) -> ApiResult;

    /// `/api/sources`: one line a source.
    fn sources(&self, out: &mut ResponseWriter) -> ApiResult;

    /// `/api/alerts`: alerts that last, rules and receivers, as one JSON document.
    fn alerts(&self, out: &mut ResponseWriter) -> ApiResult;

    /// `/-/drop`: drops a day-table. With `without_archive` the table is dropped even if its archive is missing.
    fn drop_table(&self, name: &str, without_archive: bool, out: &mut ResponseWriter) -> ApiResult;

    /// `/api/status`, `/-/status`: the state of the daemon, as one JSON document.
    fn status(&self, out: &mut ResponseWriter) -> ApiResult;

    /// `/-/files`: one line for each file that a block reads, and each path that gives no records.
    fn files(&self, out: &mut ResponseWriter) -> ApiResult;

    /// `/-/plan`: one line for each step of the lifecycle's next run, and one for each day-table that stays.
    fn plan(&self, out: &mut ResponseWriter) -> ApiResult;

    /// `/-/archive`: seals and archives a day-table. Lines report the progress; the last line is the result.
    fn archive(&self, name: &str, out: &mut ResponseWriter) -> ApiResult;

    /// `/-/restore`: restores an archived day. Lines report the progress; the last line is the result.
    fn restore(&self, request: &RestoreRequest, out: &mut ResponseWriter) -> ApiResult;

    /// `/-/reload`: reloads the configuration. The line names the changes.
    fn reload(&self, out: &mut ResponseWriter) -> ApiResult;

    /// `/-/import`: imports files that the client opened. Lines report the progress.
    fn import(&self, request: &ImportRequest, files: Vec<ImportFile>, out: &mut ResponseWriter) -> ApiResult;
}

/// The body of `/-/import`, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImportRequest {
    /// The absolute paths of the files that the client passes, in their order. A byte that is not UTF-8 is written `\xFF`.
    #[serde(with = "path_text::list")]
    pub paths: Vec<PathBuf>,
    /// The template of the instance's name, like `instance` in the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// The format of the lines, like the option `--format`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
}

/// The body of `/-/restore`, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RestoreRequest {
    /// The day-table that was archived.
    pub table: String,
    /// The configured table to restore it to, if not its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How long the restored day-table stays, in seconds.
    pub keep_seconds: u64,
}

/// The filter of a request, as the client wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilterParams {
    /// The query.
    pub q: Option<String>,
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
    /// The filter.
    pub filters: FilterParams,
    /// The most records of the response: 1 to [`N_MAX`].
    pub n: u64,
}

/// Parameters of `/api/export`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportParams {
    /// Which records.
    pub filters: FilterParams,
    /// The most records of the response.
    pub n: u64,
    /// The form of the response.
    pub form: ExportFormat,
}

/// The form of an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExportFormat {
    /// A JSON object a line.
    #[default]
    Ndjson,
    /// A table with a header.
    Csv,
    /// A Parquet file.
    Parquet,
    /// The bytes of each record as its source wrote them, and a newline.
    Raw,
}

/// Parameters of the routes that summarise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SummaryParams {
    /// The filter.
    pub filters: FilterParams,
    /// The form of the summary.
    pub summary: Summary,
}

/// The form of a summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Summary {
    /// The rows of the query's pipes.
    Stats {
        /// The most rows.
        limit: u64,
    },
    /// Records by steps of time.
    Hits {
        /// The length of a step, as the client wrote it.
        step: Option<String>,
        /// `level`, `instance`, or both with a comma.
        by: Vec<String>,
    },
    /// The most frequent values of each field.
    Facets {
        /// The most values of a field.
        limit: u64,
    },
    /// The names of fields.
    Fields,
    /// The most frequent values of one field.
    Values {
        /// The field.
        field: String,
        /// The most values.
        limit: u64,
    },
}

/// Parameters of `/api/context`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextParams {
    /// The keys of the record: TABLE/PARTITIONKEY/ROWKEY.
    pub key: String,
    /// The most records before it.
    pub before: usize,
    /// The most records after it.
    pub after: usize,
}

/// Parameters of `/api/count`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountParams {
    /// The filter.
    pub filters: FilterParams,
    /// The keys to group by; the client separates them by commas.
    pub by: Vec<String>,
    /// The length of an interval, as the client wrote it.
    pub every: Option<String>,
}

/// The default of `n` of `/api/query`.
pub const N_DEFAULT: usize = 100;
/// The largest `n` of `/api/query`.
pub const N_MAX: usize = 1_000_000;

/// Why a request fails, by what the client can do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// 400: a parameter is wrong; the client must change it.
    #[error("parameter {name}: {reason}")]
    Parameter {
        /// Its name.
        name: String,
        /// The reason.
        reason: String,
    },
    /// 400: the query is wrong, at these bytes.
    #[error("{message}")]
    Query {
        /// The problem, and the expected form.
        message: String,
        /// The first wrong byte.
        from: usize,
        /// The end of the wrong bytes.
        to: usize,
    },
    /// 404: the object does not exist, or was dropped while it was read.
    #[error("{0}")]
    NotFound(String),
    /// 409: the object exists and cannot be used now; the reason says what must change first.
    #[error("{0}")]
    Refused(String),
    /// 503: the client should try again later.
    #[error("{0}")]
    Busy(String),
    /// 500: a fault of the daemon, which is logged.
    #[error("{0}")]
    Failed(String),
}

impl ApiError {
    /// A wrong parameter.
    pub fn parameter(name: impl Into<String>, reason: impl Into<String>) -> ApiError {
        ApiError::Parameter { name: name.into(), reason: reason.into() }
    }
}
