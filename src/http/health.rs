//! The routes for monitoring. They need no credentials.

use super::context::ServerContext;
use super::error::ApiError;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::sync::Arc;

pub(super) const METRICS: &str = "/metrics";
pub(super) const HEALTHZ: &str = "/healthz";
pub(super) const READYZ: &str = "/readyz";
/// The name that Loki gives to the same route.
pub(super) const READY: &str = "/ready";
/// The media type of Prometheus's text format.
const METRICS_MEDIA: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(super) fn routes() -> Router<Arc<ServerContext>> {
    Router::new()
        .route(METRICS, get(metrics))
        .route(HEALTHZ, get(async || "ok\n"))
        .route(READYZ, get(readyz))
        .route(READY, get(readyz))
}

async fn metrics(State(context): State<Arc<ServerContext>>) -> Result<Response, ApiError> {
    let rendered = tokio::task::spawn_blocking(move || context.api.metrics()).await;
    let text = rendered.map_err(|error| ApiError::Failed(format!("rendering the metrics: {error}")))?;
    Ok(([(header::CONTENT_TYPE, METRICS_MEDIA)], text).into_response())
}

async fn readyz(State(context): State<Arc<ServerContext>>) -> Response {
    match context.readiness.check() {
        Ok(()) => "ok\n".into_response(),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")).into_response(),
    }
}
