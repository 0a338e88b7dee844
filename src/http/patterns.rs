//! `/api/patterns`: lines without their changing parts, counted.

use super::context::ServerContext;
use super::error::ApiError;
use super::params;
use super::response::{ResponseFormat, stream_response};
use axum::Router;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use axum::routing::get;
use std::sync::Arc;

pub(super) const PATTERNS: &str = "/api/patterns";

pub(super) fn routes() -> Router<Arc<ServerContext>> {
    Router::new().route(PATTERNS, get(patterns))
}

async fn patterns(State(context): State<Arc<ServerContext>>, uri: Uri) -> Result<Response, ApiError> {
    let params = params::tail(&uri)?;
    let permit = context.scan_permit().await?;
    stream_response(ResponseFormat::Document, permit, move |out| context.api.patterns(&params, out)).await
}
