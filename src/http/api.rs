//! The interface between the routes and the code that answers them.
//!
//! The daemon implements [`Api`] over its readers; tests implement it with fakes. Each method that writes to a
//! [`ResponseWriter`] is called on a blocking thread, several concurrently. The method must return soon after
//! [`ResponseWriter::line`] or [`ResponseWriter::is_wanted`] reports that the client disconnected. A method that reads
//! much between two lines calls `is_wanted` in between.

use super::error::ApiResult;
use super::params::{ContextParams, CountParams, DropParams, ExportParams, FilterParams, QueryParams, SummaryParams};
use super::question::{LokiError, QuestionClock};
use super::record_question::RecordQuestion;
use super::response::ResponseWriter;
use super::tenants::Visibility;
use daytable_intake::tail::ImportFile;
use daytable_logql::ast::Selector;
use daytable_logql::eval::EntrySource;
use daytable_logql::source::LogEntry;
use daytable_model::path_text;
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;
use std::path::PathBuf;

/// Answers the routes. Lines are JSON objects unless a method states otherwise.
pub trait Api: Send + Sync + 'static {
    /// Why nothing can be stored, if nothing can.
    fn stores_nothing(&self) -> Option<&'static str> {
        None
    }

    /// `/metrics`: all metrics in Prometheus's text format.
    fn metrics(&self) -> String;

    /// `/api/query`: one line a record, newest first, or a row of the query's pipes; at most `n`.
    fn query(&self, params: &QueryParams, out: &mut ResponseWriter) -> ApiResult;

    /// `/-/ask`: a question of the command line, as [`AskedLine`](super::AskedLine)s.
    fn ask(&self, question: &RecordQuestion, out: &mut ResponseWriter) -> ApiResult;

    /// `/-/ledgers`: one line a listener that ever was, with what it received.
    fn ledgers(&self, out: &mut ResponseWriter) -> ApiResult;

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
    /// The client gets only what it sees.
    fn log_entries(
        &self,
        clock: &QuestionClock,
        seen: &Visibility,
        read: &mut dyn FnMut(&dyn EntrySource),
    ) -> Result<(), LokiError>;

    /// `/loki/api/v1/tail`: passes the selected entries to `each` as they are committed, and `None` when there are no
    /// more for now, until `each` breaks.
    fn follow_log_entries(
        &self,
        selector: &Selector,
        seen: &Visibility,
        each: &mut dyn FnMut(Option<LogEntry>) -> ControlFlow<()>,
    ) -> ApiResult;

    /// `/api/tables`: one line a day-table.
    fn tables(&self, out: &mut ResponseWriter) -> ApiResult;

    /// `/api/sources`: one line a source.
    fn sources(&self, out: &mut ResponseWriter) -> ApiResult;

    /// `/api/alerts`: alerts that last, rules and receivers, as one JSON document.
    fn alerts(&self, out: &mut ResponseWriter) -> ApiResult;

    /// `/api/queries`: the queries of the configuration, as one JSON document.
    fn saved_queries(&self, out: &mut ResponseWriter) -> ApiResult;

    /// `/-/drop`: drops a day-table, or its archives as well.
    fn drop_table(&self, params: &DropParams, out: &mut ResponseWriter) -> ApiResult;

    /// `/api/status`, `/-/status`: the state of the daemon, as one JSON document.
    fn status(&self, out: &mut ResponseWriter) -> ApiResult;

    /// `/-/files`: one line for each file that a block reads, and each path that gives no records.
    fn files(&self, out: &mut ResponseWriter) -> ApiResult;

    /// `/-/verify`: verifies the data folder. Lines report the progress and the findings; the last line is the verdict.
    fn verify(&self, reads_archives: bool, out: &mut ResponseWriter) -> ApiResult;

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
    /// Whether records of expired days go to their own day, like the option `--keep-expired`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep_expired: bool,
}

/// A line of the answer of `/-/import` behind those of the progress: a file that could not be read to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnreadFile {
    /// Which file, and why.
    pub unread: String,
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
    /// The host whose day it is, if not this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// How long the restored day-table stays, in seconds.
    pub keep_seconds: u64,
}
