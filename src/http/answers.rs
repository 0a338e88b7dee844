//! `/api/answer`: what a query of the language asks for, with its pipes; followed; and the records around one.

use super::api::{ApiError, N_MAX};
use super::context::ServerContext;
use super::follow;
use super::params::QueryString;
use super::response::{ResponseFormat, stream_response};
use axum::Router;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use axum::routing::get;
use std::sync::Arc;

pub(super) const ANSWER: &str = "/api/answer";
pub(super) const FOLLOW: &str = "/api/answer/follow";
pub(super) const AROUND: &str = "/api/answer/around";

/// Records around one, on each side.
const AROUND_MAX: usize = 1000;

/// Parameters of `/api/answer`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnswerParams {
    /// The query; nothing asks for all records.
    pub q: Option<String>,
    /// The oldest time.
    pub since: Option<String>,
    /// The newest time.
    pub until: Option<String>,
    /// The most records or rows.
    pub limit: Option<usize>,
}

/// Parameters of `/api/answer/around`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AroundParams {
    /// The record: TABLE/PARTITIONKEY/ROWKEY.
    pub key: String,
    /// Records before and after it.
    pub count: usize,
}

pub(super) fn routes() -> Router<Arc<ServerContext>> {
    Router::new().route(ANSWER, get(answer)).route(FOLLOW, get(follow_answer)).route(AROUND, get(around))
}

/// The parameters of an answer.
pub(super) fn params(uri: &Uri) -> Result<AnswerParams, ApiError> {
    let mut given = QueryString::read(uri, &["q", "since", "until", "limit"])?;
    let limit = given.number("limit", N_MAX)?;
    Ok(AnswerParams { q: given.remove("q"), since: given.remove("since"), until: given.remove("until"), limit })
}

async fn answer(State(context): State<Arc<ServerContext>>, uri: Uri) -> Result<Response, ApiError> {
    let params = params(&uri)?;
    let permit = context.scan_permit().await?;
    stream_response(ResponseFormat::Lines, permit, move |out| context.api.answer(&params, out)).await
}

async fn follow_answer(State(context): State<Arc<ServerContext>>, uri: Uri) -> Result<Response, ApiError> {
    let q = QueryString::read(&uri, &["q"])?.remove("q");
    follow::stream(context, move |api, out| api.follow(q.as_deref(), out)).await
}

async fn around(State(context): State<Arc<ServerContext>>, uri: Uri) -> Result<Response, ApiError> {
    let mut given = QueryString::read(&uri, &["key", "count"])?;
    let count = given.number("count", AROUND_MAX)?.unwrap_or(0);
    let key = given.remove("key").ok_or_else(|| ApiError::parameter("key", "is missing"))?;
    let (params, permit) = (AroundParams { key, count }, context.scan_permit().await?);
    stream_response(ResponseFormat::Lines, permit, move |out| context.api.around(&params, out)).await
}
