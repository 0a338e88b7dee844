//! What is where.

use super::api::{Api, ApiError, Lines};
use super::counters::HttpCounters;
use super::push_auth::PushAuth;
use super::read_auth::ReadToken;
use super::readiness::Readiness;
use super::response::{ResponseFormat, answer, refusal};
use super::{HttpLimits, control, follow, params, push, read_auth};
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, Uri, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use daytable_intake::push::Push;
use daytable_platform::reloadable::Reloadable;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// The media type of Prometheus's text format.
const METRICS_MEDIA: &str = "text/plain; version=0.0.4; charset=utf-8";

const METRICS: &str = "/metrics";
const HEALTHZ: &str = "/healthz";
const READYZ: &str = "/readyz";
const QUERY: &str = "/api/query";
const COUNT: &str = "/api/count";
const TAIL: &str = "/api/tail";
const TABLES: &str = "/api/tables";
const SOURCES: &str = "/api/sources";
const DROP: &str = "/-/drop";
const IMPORT: &str = "/-/import";
const PLAN: &str = "/-/plan";
const ARCHIVE: &str = "/-/archive";
const RESTORE: &str = "/-/restore";
const RELOAD: &str = "/-/reload";

/// Paths that have a metric of their own; what clients make up has none.
const ROUTES: [&str; 19] = [
    METRICS,
    HEALTHZ,
    READYZ,
    QUERY,
    COUNT,
    TAIL,
    TABLES,
    SOURCES,
    DROP,
    IMPORT,
    PLAN,
    ARCHIVE,
    RESTORE,
    RELOAD,
    push::INGEST,
    push::OTLP,
    push::LOKI,
    push::BULK,
    push::UPLOAD,
];

/// Which door a client came through, and so what it may do.
#[derive(Clone)]
pub enum ListenerKind {
    /// TCP: reading asks for the token, without one nobody reads; pushing asks for what the gate does.
    Tcp {
        /// What reading asks for.
        reading: Reloadable<Option<ReadToken>>,
        /// What pushing asks for.
        pushing: Reloadable<PushAuth>,
    },
    /// The unix socket: whoever can open it may do everything.
    Unix,
}

/// What all listeners share.
pub struct ServerContext {
    pub(super) api: Api,
    pub(super) limits: HttpLimits,
    pub(super) imports: Arc<Semaphore>,
    pub(super) readiness: Arc<Readiness>,
    pub(super) followers: Arc<Semaphore>,
    counters: Arc<HttpCounters>,
    scans: Arc<Semaphore>,
}

impl ServerContext {
    /// Bounds that hold over all listeners are counted here.
    pub fn new(
        api: Api,
        counters: Arc<HttpCounters>,
        readiness: Arc<Readiness>,
        limits: HttpLimits,
    ) -> Arc<ServerContext> {
        Arc::new(ServerContext {
            scans: Arc::new(Semaphore::new(limits.scans)),
            followers: Arc::new(Semaphore::new(limits.followers)),
            imports: Arc::new(Semaphore::new(1)),
            api,
            limits,
            counters,
            readiness,
        })
    }

    /// Waits a moment for room to scan.
    pub(super) async fn scan_room(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        match timeout(self.limits.scan_wait, self.scans.clone().acquire_owned()).await {
            Ok(Ok(room)) => Ok(room),
            _ => Err(ApiError::Busy("too many scans are running".into())),
        }
    }
}

/// The name that requests to this path are counted under.
fn counted_as(path: &str) -> &'static str {
    match path.strip_prefix(push::ELASTIC) {
        Some(rest) if rest.ends_with("/_bulk") => push::BULK,
        Some(rest) if rest.is_empty() || rest.starts_with('/') => push::ELASTIC,
        _ => ROUTES.into_iter().find(|route| *route == path).unwrap_or("other"),
    }
}

/// The routes of a door; those of push where something takes it.
pub fn router(shared: Arc<ServerContext>, door: ListenerKind, push: Option<Arc<Push>>) -> Router {
    let reload = Router::new().route(RELOAD, post(control::reload)).route_layer(from_fn(read_auth::no_browser));
    let mut api = Router::new()
        .merge(reload)
        .route(QUERY, get(query))
        .route(COUNT, get(count))
        .route(TAIL, get(follow::tail))
        .route(TABLES, get(tables))
        .route(SOURCES, get(sources))
        .route_layer(from_fn_with_state(door.clone(), read_auth::may_read));
    if matches!(door, ListenerKind::Unix) {
        let control = Router::new().route(DROP, post(control::drop_table)).route(IMPORT, post(control::import));
        let control = control.route(PLAN, post(control::plan)).route(ARCHIVE, post(control::archive));
        let control = control.route(RESTORE, post(control::restore));
        api = api.merge(control.route_layer(from_fn(read_auth::no_browser)));
    }
    if let Some(push) = push {
        let pushes = push::PushContext { push, readiness: shared.readiness.clone() };
        api = api.merge(push::routes(pushes, door));
    }
    api.route(METRICS, get(metrics_text))
        .route(HEALTHZ, get(async || "ok\n"))
        .route(READYZ, get(readyz))
        .fallback(async || refusal(StatusCode::NOT_FOUND, "there is nothing here"))
        .method_not_allowed_fallback(async || refusal(StatusCode::METHOD_NOT_ALLOWED, "not with this method"))
        .layer(from_fn_with_state(shared.clone(), counted))
        .with_state(shared)
}

async fn counted(State(shared): State<Arc<ServerContext>>, request: Request, next: Next) -> Response {
    let route = counted_as(request.uri().path());
    let response = next.run(request).await;
    shared.counters.count_request(response.status().as_u16(), route);
    response
}

async fn metrics_text(State(shared): State<Arc<ServerContext>>) -> Result<Response, ApiError> {
    let rendered = tokio::task::spawn_blocking(move || (shared.api.metrics)()).await;
    let text = rendered.map_err(|error| ApiError::Failed(format!("rendering the metrics: {error}")))?;
    Ok(([(header::CONTENT_TYPE, METRICS_MEDIA)], text).into_response())
}

async fn readyz(State(shared): State<Arc<ServerContext>>) -> Response {
    match shared.readiness.check() {
        Ok(()) => "ok\n".into_response(),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")).into_response(),
    }
}

/// Answers with the lines of one scan.
async fn scan<P: Send + 'static>(
    shared: Arc<ServerContext>,
    frame: ResponseFormat,
    pick: fn(&Api) -> &Lines<P>,
    params: Result<P, ApiError>,
) -> Result<Response, ApiError> {
    let params = params?;
    let room = shared.scan_room().await?;
    answer(frame, room, move |out| pick(&shared.api)(&params, out)).await
}

async fn query(State(shared): State<Arc<ServerContext>>, uri: Uri) -> Result<Response, ApiError> {
    scan(shared, ResponseFormat::Lines, |api| &api.query, params::query(&uri)).await
}

async fn count(State(shared): State<Arc<ServerContext>>, uri: Uri) -> Result<Response, ApiError> {
    scan(shared, ResponseFormat::Document, |api| &api.count, params::count(&uri)).await
}

async fn tables(State(shared): State<Arc<ServerContext>>, uri: Uri) -> Result<Response, ApiError> {
    scan(shared, ResponseFormat::Lines, |api| &api.tables, params::none(&uri)).await
}

async fn sources(State(shared): State<Arc<ServerContext>>, uri: Uri) -> Result<Response, ApiError> {
    scan(shared, ResponseFormat::Lines, |api| &api.sources, params::none(&uri)).await
}
