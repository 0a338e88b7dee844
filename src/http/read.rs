//! `/api/*`: the routes that read. [`follow`] has the route that stays open.

use super::api::Api;
use super::context::ServerContext;
use super::error::{ApiError, ApiResult};
use super::params::ExportFormat;
use super::response::{ResponseFormat, ResponseWriter, stream_response};
use super::{follow, params};
use axum::Router;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use axum::routing::get;
use std::sync::Arc;

pub(super) const QUERY: &str = "/api/query";
pub(super) const COUNT: &str = "/api/count";
pub(super) const STATS: &str = "/api/stats";
pub(super) const HITS: &str = "/api/hits";
pub(super) const FACETS: &str = "/api/facets";
pub(super) const FIELDS: &str = "/api/fields";
pub(super) const VALUES: &str = "/api/values";
pub(super) const CONTEXT: &str = "/api/context";
pub(super) const EXPORT: &str = "/api/export";
pub(super) const TAIL: &str = "/api/tail";
pub(super) const TABLES: &str = "/api/tables";
pub(super) const SOURCES: &str = "/api/sources";
pub(super) const ALERTS: &str = "/api/alerts";
pub(super) const STATUS: &str = "/api/status";

pub(super) fn routes() -> Router<Arc<ServerContext>> {
    Router::new()
        .route(QUERY, get(query))
        .route(COUNT, get(count))
        .route(STATS, get(summary))
        .route(HITS, get(summary))
        .route(FACETS, get(summary))
        .route(FIELDS, get(summary))
        .route(VALUES, get(summary))
        .route(CONTEXT, get(neighbours))
        .route(EXPORT, get(export))
        .route(TAIL, get(follow::tail))
        .route(TABLES, get(tables))
        .route(SOURCES, get(sources))
        .route(ALERTS, get(alerts))
        .route(STATUS, get(status))
}

/// Answers with the lines of one scan.
async fn scan(
    context: Arc<ServerContext>,
    format: ResponseFormat,
    scan: impl FnOnce(&dyn Api, &mut ResponseWriter) -> ApiResult + Send + 'static,
) -> Result<Response, ApiError> {
    let permit = context.scan_permit().await?;
    stream_response(format, permit, move |out| scan(&*context.api, out)).await
}

async fn query(State(context): State<Arc<ServerContext>>, uri: Uri) -> Result<Response, ApiError> {
    let params = params::query(&uri)?;
    scan(context, ResponseFormat::Lines, move |api, out| api.query(&params, out)).await
}

async fn count(State(context): State<Arc<ServerContext>>, uri: Uri) -> Result<Response, ApiError> {
    let params = params::count(&uri)?;
    scan(context, ResponseFormat::Document, move |api, out| api.count(&params, out)).await
}

async fn export(State(context): State<Arc<ServerContext>>, uri: Uri) -> Result<Response, ApiError> {
    let params = params::export(&uri)?;
    let format = match params.form {
        ExportFormat::Ndjson => ResponseFormat::Lines,
        form => ResponseFormat::File(form),
    };
    scan(context, format, move |api, out| api.export(&params, out)).await
}

async fn summary(State(context): State<Arc<ServerContext>>, uri: Uri) -> Result<Response, ApiError> {
    let params = params::summary(&uri)?;
    scan(context, ResponseFormat::Document, move |api, out| api.summary(&params, out)).await
}

async fn neighbours(State(context): State<Arc<ServerContext>>, uri: Uri) -> Result<Response, ApiError> {
    let params = params::context(&uri)?;
    scan(context, ResponseFormat::Lines, move |api, out| api.context(&params, out)).await
}

async fn tables(State(context): State<Arc<ServerContext>>, uri: Uri) -> Result<Response, ApiError> {
    params::none(&uri)?;
    scan(context, ResponseFormat::Lines, |api, out| api.tables(out)).await
}

async fn sources(State(context): State<Arc<ServerContext>>, uri: Uri) -> Result<Response, ApiError> {
    params::none(&uri)?;
    scan(context, ResponseFormat::Lines, |api, out| api.sources(out)).await
}

async fn alerts(State(context): State<Arc<ServerContext>>, uri: Uri) -> Result<Response, ApiError> {
    params::none(&uri)?;
    scan(context, ResponseFormat::Document, |api, out| api.alerts(out)).await
}

async fn status(State(context): State<Arc<ServerContext>>, uri: Uri) -> Result<Response, ApiError> {
    params::none(&uri)?;
    scan(context, ResponseFormat::Document, |api, out| api.status(out)).await
}
