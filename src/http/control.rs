//! `/-/*`: what the command line asks of a running daemon. Over the unix socket alone, but for the reload.

use super::api::{ApiError, ImportRequest, RestoreRequest};
use super::params;
use super::response::{ResponseFormat, answer};
use super::routes::ServerContext;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use daytable_model::path_text::PathText;
use std::sync::Arc;
use tokio::time::timeout;

/// The largest body of a request.
const BODY_BYTES_MAX: usize = 1 << 20;

/// Waits for no scan: what scans the table is what dropping it ends.
pub(super) async fn drop_table(State(shared): State<Arc<ServerContext>>, uri: Uri) -> Result<Response, ApiError> {
    let params::DropParams { table, without_archive } = params::drop(&uri)?;
    answer(ResponseFormat::Document, (), move |out| {
        let api = &shared.api;
        if without_archive { (api.drop_without_archive)(&table, out) } else { (api.drop_table)(&table, out) }
    })
    .await
}

/// Reads the configuration again.
pub(super) async fn reload(State(shared): State<Arc<ServerContext>>, uri: Uri) -> Result<Response, ApiError> {
    params::none(&uri)?;
    answer(ResponseFormat::Document, (), move |out| (shared.api.reload)(&(), out)).await
}

/// Looks and changes nothing.
pub(super) async fn plan(State(shared): State<Arc<ServerContext>>, uri: Uri) -> Result<Response, ApiError> {
    params::none(&uri)?;
    answer(ResponseFormat::Lines, (), move |out| (shared.api.plan)(&(), out)).await
}

/// Waits for the step of a day's life that is under way.
pub(super) async fn archive(State(shared): State<Arc<ServerContext>>, uri: Uri) -> Result<Response, ApiError> {
    let table = params::table(&uri)?;
    answer(ResponseFormat::Lines, (), move |out| (shared.api.archive)(&table, out)).await
}

/// Waits for the step of a day's life that is under way.
pub(super) async fn restore(
    State(shared): State<Arc<ServerContext>>,
    uri: Uri,
    body: Body,
) -> Result<Response, ApiError> {
    params::none(&uri)?;
    let restore: RestoreRequest = json_of(&shared, body).await?;
    answer(ResponseFormat::Lines, (), move |out| (shared.api.restore)(&restore, out)).await
}

async fn json_of<T: serde::de::DeserializeOwned>(shared: &ServerContext, body: Body) -> Result<T, ApiError> {
    let body = timeout(shared.limits.header_read, to_bytes(body, BODY_BYTES_MAX)).await;
    let body = body.map_err(|_| ApiError::parameter("body", "was too long in coming"))?;
    let body = body.map_err(|error| ApiError::parameter("body", error.to_string()))?;
    serde_json::from_slice(&body).map_err(|error| ApiError::parameter("body", error.to_string()))
}

/// One at a time: two would only share the one disk.
pub(super) async fn import(
    State(shared): State<Arc<ServerContext>>,
    uri: Uri,
    body: Body,
) -> Result<Response, ApiError> {
    params::none(&uri)?;
    let import: ImportRequest = json_of(&shared, body).await?;
    if import.paths.is_empty() {
        return Err(ApiError::parameter("paths", "is empty"));
    }
    if let Some(path) = import.paths.iter().find(|path| !path.is_absolute()) {
        return Err(ApiError::parameter("paths", format!("{} is not absolute", path.escaped())));
    }
    let room = shared.imports.clone().try_acquire_owned();
    let room = room.map_err(|_| ApiError::Busy("another import is running".into()))?;
    answer(ResponseFormat::Lines, room, move |out| (shared.api.import)(&import, out)).await
}
