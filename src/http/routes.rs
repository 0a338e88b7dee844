//! All routes of a listener.
//!
//! Each group of routes is a module with a function `routes`, which [`router`] merges. A new group (the queries
//! of Loki) is one more module, one more `merge`, and its paths in [`PATHS`].

use super::context::{ListenerKind, ServerContext};
use super::response::error_response;
use super::{ask, control, forward, health, loki, mcp, page, push, read, read_auth};
use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use daytable_intake::push::Push;
use std::sync::Arc;

/// The paths that requests are counted by. All other paths count as `other`, because clients invent paths.
const PATHS: [&str; 54] = [
    health::METRICS,
    health::HEALTHZ,
    health::READYZ,
    health::READY,
    read::QUERY,
    read::COUNT,
    read::STATS,
    read::HITS,
    read::FACETS,
    read::FIELDS,
    read::VALUES,
    read::CONTEXT,
    read::EXPORT,
    read::TAIL,
    read::PATTERNS,
    read::TABLES,
    read::SOURCES,
    read::ALERTS,
    read::QUERIES,
    read::STATUS,
    mcp::MCP,
    page::PAGE,
    page::FILES,
    page::LINK,
    page::SESSION,
    page::OPEN,
    control::DROP,
    control::IMPORT,
    control::PLAN,
    control::STATUS,
    control::ARCHIVE,
    control::RESTORE,
    control::RELOAD,
    control::FILES,
    control::LEDGERS,
    control::VERIFY,
    ask::ASK,
    push::INGEST,
    push::OTLP,
    push::LOKI,
    push::BULK,
    push::UPLOAD,
    forward::JOIN,
    forward::HELLO,
    forward::ROWS,
    forward::COUNTS,
    forward::RENEW,
    forward::HOSTS,
    forward::CONTROL_HOSTS,
    forward::INVITE,
    forward::REVOKE,
    forward::FORGET,
    forward::VERIFY,
    loki::COUNTED,
];

/// What the socket of readers says to everything else.
const READS_ONLY: &str = "this socket only reads; what changes something is for the daemon's user";

/// The path that a request for `path` is counted by.
fn counted_path(path: &str) -> &'static str {
    let is_of_loki = path.starts_with(loki::PREFIX) || path.starts_with("/prometheus/");
    if is_of_loki && path != push::LOKI {
        return loki::COUNTED;
    }
    match path.strip_prefix(push::ELASTIC) {
        Some(rest) if rest.ends_with("/_bulk") => push::BULK,
        Some(rest) if rest.is_empty() || rest.starts_with('/') => push::ELASTIC,
        _ => {
            let known = PATHS.into_iter().find(|counted| *counted == path);
            let below = || [page::FILES, page::LINK].into_iter().find(|folder| path.starts_with(folder));
            known.or_else(below).unwrap_or("other")
        }
    }
}

/// The routes of a listener; with the routes of pushes if `push` accepts them.
pub fn router(context: Arc<ServerContext>, kind: ListenerKind, push: Option<Arc<Push>>) -> Router {
    context.counters.begin(&PATHS);
    let may_read = from_fn_with_state((kind.clone(), context.clone()), read_auth::may_read);
    let may_ask = from_fn_with_state((kind.clone(), context.clone()), read_auth::may_ask);
    let tools = mcp::routes(&context).route_layer(from_fn(read_auth::no_browser));
    let read = read::routes().merge(forward::read_routes());
    let mut own = read.merge(tools);
    if !matches!(kind, ListenerKind::Readers) {
        own = own.merge(control::reload_route().route_layer(from_fn(read_auth::no_browser)));
    }
    let mut routes = own.route_layer(may_read).merge(loki::routes().route_layer(may_ask));
    routes = routes.merge(health::routes());
    routes = routes.merge(page::routes(kind.clone()));
    let control = match kind {
        ListenerKind::Unix => Some(control::routes().merge(forward::control_routes())),
        ListenerKind::Readers => Some(control::read_routes().merge(forward::control_read_routes())),
        ListenerKind::Tcp { .. } => None,
    };
    if let Some(control) = control {
        let control = control.merge(page::control_route()).merge(ask::routes());
        routes = routes.merge(control.route_layer(from_fn(read_auth::no_browser)));
    }
    let refused = context.api.stores_nothing();
    let reads_only = matches!(kind, ListenerKind::Readers);
    if let Some(push) = push.filter(|_| refused.is_none()) {
        let push = push::PushContext { push, readiness: context.readiness.clone() };
        if let Some(intake) = context.forward.get() {
            let hosts = forward::ForwardContext { intake: intake.clone(), push: push.clone() };
            routes = routes.merge(forward::routes(hosts));
        }
        routes = routes.merge(push::routes(push, kind));
    }
    routes
        .fallback(async move || match reads_only {
            true => error_response(StatusCode::FORBIDDEN, READS_ONLY),
            false => error_response(StatusCode::NOT_FOUND, refused.unwrap_or("no such route")),
        })
        .method_not_allowed_fallback(async || error_response(StatusCode::METHOD_NOT_ALLOWED, "method not allowed"))
        .layer(from_fn_with_state(context.clone(), count_request))
        .with_state(context)
}

async fn count_request(State(context): State<Arc<ServerContext>>, request: Request, next: Next) -> Response {
    let path = counted_path(request.uri().path());
    let response = next.run(request).await;
    context.counters.count_request(response.status().as_u16(), path);
    response
}

#[cfg(test)]
mod tests {
    use super::PATHS;
    use std::fs;
    use std::path::Path;

    /// A route that is not listed would be counted as `other`.
    #[test]
    fn the_path_of_every_route_is_counted() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/http");
        let mut found = 0;
        for file in fs::read_dir(folder).expect("the folder").filter_map(Result::ok) {
            let Ok(text) = fs::read_to_string(file.path()) else { continue };
            for route in text.split(".route(").skip(1) {
                let name = route.trim_start().split(',').next().unwrap_or_default();
                // The paths of Elasticsearch are counted by their beginning, and other modules have theirs.
                let value =
                    text.split(&format!("const {name}: &str = \"")).nth(1).filter(|_| !name.starts_with("ELASTIC"));
                let Some(path) = value.and_then(|value| value.split('"').next()) else { continue };
                found += 1;
                assert!(PATHS.contains(&path), "{name} of {}", file.path().display());
            }
        }
        assert!(found > 35, "{found}");
    }
}
