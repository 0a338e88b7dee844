//! `/api/*`: the routes that read, with parameters in the URL or, with POST, as a form. [`follow`] has the route that stays open.

use super::api::Api;
use super::context::ServerContext;
use super::error::{ApiError, ApiResult};
use super::params::ExportFormat;
use super::request_params::RequestParams;
use super::response::{PartStream, ResponseFormat, ResponseWriter, part_channel, write_parts};
use super::{follow, params};
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use axum::routing::{MethodRouter, get};
use std::sync::Arc;

pub(super) const QUERY: &str = "/api/query";
pub(super) const COUNT: &str = "/api/count";
pub(super) const STATS: &str = "/api/stats";
pub(super) const HITS: &str = "/api/hits";
pub(super) const FACETS: &str = "/api/facets";
pub(super) const FIELDS: &str = "/api/fields";
pub(super) const VALUES: &str = "/api/values";
pub(super) const PATTERNS: &str = "/api/patterns";
pub(super) const CONTEXT: &str = "/api/context";
pub(super) const EXPORT: &str = "/api/export";
pub(super) const TAIL: &str = "/api/tail";
pub(super) const TABLES: &str = "/api/tables";
pub(super) const SOURCES: &str = "/api/sources";
pub(super) const ALERTS: &str = "/api/alerts";
pub(super) const QUERIES: &str = "/api/queries";
pub(super) const STATUS: &str = "/api/status";

pub(super) fn routes() -> Router<Arc<ServerContext>> {
    use ResponseFormat::{Document, Lines};
    Router::new()
        .route(QUERY, scan(Lines, params::query, |api, params, out| api.query(params, out)))
        .route(COUNT, scan(Document, params::count, |api, params, out| api.count(params, out)))
        .route(STATS, scan(Document, params::summary, |api, params, out| api.summary(params, out)))
        .route(HITS, scan(Document, params::summary, |api, params, out| api.summary(params, out)))
        .route(FACETS, scan(Document, params::summary, |api, params, out| api.summary(params, out)))
        .route(FIELDS, scan(Document, params::summary, |api, params, out| api.summary(params, out)))
        .route(VALUES, scan(Document, params::summary, |api, params, out| api.summary(params, out)))
        .route(PATTERNS, scan(Document, params::tail, |api, params, out| api.patterns(params, out)))
        .route(CONTEXT, get(around).post(around))
        .route(TABLES, scan(Lines, params::none, |api, (), out| api.tables(out)))
        .route(SOURCES, scan(Lines, params::none, |api, (), out| api.sources(out)))
        .route(ALERTS, scan(Document, params::none, |api, (), out| api.alerts(out)))
        .route(QUERIES, scan(Document, params::none, |api, (), out| api.saved_queries(out)))
        .route(STATUS, scan(Document, params::none, |api, (), out| api.status(out)))
        .route(EXPORT, get(export).post(export))
        .route(TAIL, get(follow::tail).post(follow::tail))
}

/// A route that answers with the lines of one scan.
fn scan<P: Send + 'static>(
    format: ResponseFormat,
    read: fn(&RequestParams) -> Result<P, ApiError>,
    ask: fn(&dyn Api, &P, &mut ResponseWriter) -> ApiResult,
) -> MethodRouter<Arc<ServerContext>> {
    let answer = async move |State(context): State<Arc<ServerContext>>, given: RequestParams| {
        let params = read(&given)?;
        stream_scan(context, format, move |api, out| ask(api, &params, out)).await
    };
    get(answer).post(answer)
}

/// Answers with the lines of one scan, when it is its turn. A header tells how long it waited.
pub(super) async fn stream_scan(
    context: Arc<ServerContext>,
    format: ResponseFormat,
    scan: impl FnOnce(&dyn Api, &mut ResponseWriter) -> ApiResult + Send + 'static,
) -> Result<Response, ApiError> {
    let permit = context.scans.permit().await?;
    let waited = permit.waited;
    let (sender, parts) = part_channel();
    let scanner = context.clone();
    context.scans.spawn(move || {
        let _permit = permit;
        write_parts(format, sender, |out| scan(&*scanner.api, out));
    });
    let mut response = PartStream::of(parts).await?.response(format);
    if let Some(waited) = waited
        && let Ok(value) = HeaderValue::from_str(&format!("wait;dur={}", waited.as_millis()))
    {
        response.headers_mut().insert(HeaderName::from_static("server-timing"), value);
    }
    Ok(response)
}

async fn around(State(context): State<Arc<ServerContext>>, given: RequestParams) -> Result<Response, ApiError> {
    let params = params::context(&given)?;
    let format = if params.is_raw { ResponseFormat::File(ExportFormat::Raw) } else { ResponseFormat::Lines };
    stream_scan(context, format, move |api, out| api.context(&params, out)).await
}

async fn export(State(context): State<Arc<ServerContext>>, given: RequestParams) -> Result<Response, ApiError> {
    let params = params::export(&given)?;
    let format = match params.form {
        ExportFormat::Ndjson => ResponseFormat::Lines,
        form => ResponseFormat::File(form),
    };
    stream_scan(context, format, move |api, out| api.export(&params, out)).await
}
