//! `/-/*`: the commands of an operator. Only the control socket has these routes, except for the reload, and for those that
//! change nothing, which the socket of readers has as well.

use super::api::{Api, ImportRequest, RestoreRequest};
use super::context::ServerContext;
use super::error::{ApiError, ApiResult};
use super::params;
use super::passed_files::PassedFiles;
use super::request_params::RequestParams;
use super::response::{ResponseFormat, ResponseWriter, stream_response};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Extension, State};
use axum::http::Uri;
use axum::response::Response;
use axum::routing::{MethodFilter, MethodRouter, on, post};
use daytable_intake::tail::ImportFile;
use daytable_model::path_text::PathText;
use std::sync::Arc;
use tokio::time::timeout;

pub(super) const DROP: &str = "/-/drop";
pub(super) const IMPORT: &str = "/-/import";
pub(super) const PLAN: &str = "/-/plan";
pub(super) const ARCHIVE: &str = "/-/archive";
pub(super) const RESTORE: &str = "/-/restore";
pub(super) const STATUS: &str = "/-/status";
pub(super) const RELOAD: &str = "/-/reload";
pub(super) const FILES: &str = "/-/files";
pub(super) const LEDGERS: &str = "/-/ledgers";
pub(super) const VERIFY: &str = "/-/verify";

/// The largest body of a request.
const BODY_BYTES_MAX: usize = 1 << 20;

/// The routes of the control socket.
pub(super) fn routes() -> Router<Arc<ServerContext>> {
    use ResponseFormat::{Document, Lines};
    read_routes()
        .route(
            DROP,
            command(MethodFilter::POST, Document, params::drop, |api, params, out| api.drop_table(params, out)),
        )
        .route(IMPORT, post(import))
        .route(ARCHIVE, command(MethodFilter::POST, Lines, params::table, |api, table, out| api.archive(table, out)))
        .route(RESTORE, post(restore))
}

/// The routes that change nothing.
pub(super) fn read_routes() -> Router<Arc<ServerContext>> {
    use ResponseFormat::{Document, Lines};
    Router::new()
        .route(PLAN, command(MethodFilter::POST, Lines, params::none, |api, (), out| api.plan(out)))
        .route(STATUS, command(MethodFilter::GET, Document, params::none, |api, (), out| api.status(out)))
        .route(FILES, command(MethodFilter::GET, Lines, params::none, |api, (), out| api.files(out)))
        .route(LEDGERS, command(MethodFilter::GET, Lines, params::none, |api, (), out| api.ledgers(out)))
        .route(VERIFY, post(verify))
}

/// The route that TCP has as well.
pub(super) fn reload_route() -> Router<Arc<ServerContext>> {
    let reload = |api: &dyn Api, (): &(), out: &mut ResponseWriter| api.reload(out);
    Router::new().route(RELOAD, command(MethodFilter::POST, ResponseFormat::Document, params::none, reload))
}

/// A route without a scan permit: a busy daemon answers, and a drop can end the scans of its table.
fn command<P: Send + 'static>(
    method: MethodFilter,
    format: ResponseFormat,
    read: fn(&RequestParams) -> Result<P, ApiError>,
    run: fn(&dyn Api, &P, &mut ResponseWriter) -> ApiResult,
) -> MethodRouter<Arc<ServerContext>> {
    on(method, async move |State(context): State<Arc<ServerContext>>, uri: Uri| {
        let params = read(&RequestParams::of_uri(&uri)?)?;
        stream_response(format, (), move |out| run(&*context.api, &params, out)).await
    })
}

/// Waits for the lifecycle's current step.
async fn restore(State(context): State<Arc<ServerContext>>, uri: Uri, body: Body) -> Result<Response, ApiError> {
    params::none(&RequestParams::of_uri(&uri)?)?;
    let request: RestoreRequest = read_json(&context, body).await?;
    stream_response(ResponseFormat::Lines, (), move |out| context.api.restore(&request, out)).await
}

/// The client passes the open files with its request.
async fn import(
    State(context): State<Arc<ServerContext>>,
    Extension(passed): Extension<PassedFiles>,
    uri: Uri,
    body: Body,
) -> Result<Response, ApiError> {
    params::none(&RequestParams::of_uri(&uri)?)?;
    let request: ImportRequest = read_json(&context, body).await?;
    if request.paths.is_empty() {
        return Err(ApiError::parameter("paths", "is empty"));
    }
    if let Some(path) = request.paths.iter().find(|path| !path.is_absolute()) {
        return Err(ApiError::parameter("paths", format!("{} is not absolute", path.escaped())));
    }
    let files = passed.take();
    if files.len() != request.paths.len() {
        let reason =
            format!("names {} files, and {} came: `daytable import` passes them", request.paths.len(), files.len());
        return Err(ApiError::parameter("paths", reason));
    }
    let named = request.paths.iter().cloned().zip(files);
    let files: Vec<ImportFile> = named.map(|(path, file)| ImportFile { path, file }).collect();
    let permit = context.import_permit()?;
    stream_response(ResponseFormat::Lines, permit, move |out| context.api.import(&request, files, out)).await
}

/// Reads the whole folder, so one client at a time.
async fn verify(State(context): State<Arc<ServerContext>>, uri: Uri) -> Result<Response, ApiError> {
    let reads_archives = params::verify(&RequestParams::of_uri(&uri)?)?;
    let permit = context.verify_permit()?;
    stream_response(ResponseFormat::Lines, permit, move |out| context.api.verify(reads_archives, out)).await
}

/// The body of a request.
pub(super) async fn read_json<T: serde::de::DeserializeOwned>(
    context: &ServerContext,
    body: Body,
) -> Result<T, ApiError> {
    let body = timeout(context.limits.header_read, to_bytes(body, BODY_BYTES_MAX)).await;
    let body = body.map_err(|_| ApiError::parameter("body", "did not arrive in time"))?;
    let body = body.map_err(|error| ApiError::parameter("body", error.to_string()))?;
    serde_json::from_slice(&body).map_err(|error| ApiError::parameter("body", error.to_string()))
}
