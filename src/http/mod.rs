//! The listeners: metrics, health, the reading API, and the control socket.
//!
//! | route | over | what |
//! |---|---|---|
//! | `GET /metrics` | both, open | Prometheus text |
//! | `GET /healthz` | both, open | 200 while the process answers |
//! | `GET /readyz` | both, open | 200, or 503 with the reason |
//! | `POST /ingest`, `/v1/logs`, `/loki/api/v1/push`, `/elasticsearch/_bulk`, `/upload` | both | [`daytable_intake::push`] |
//! | `GET /api/query` | both | newest records first, NDJSON |
//! | `GET /api/count` | both | counts, JSON |
//! | `GET /api/tail` | both | records as they are committed, server-sent events |
//! | `GET /api/tables`, `/api/sources` | both | day-tables, the ledger, NDJSON |
//! | `POST /-/reload` | both | reads the configuration again; what changed, or what is wrong with it |
//! | `POST /-/drop?table=NAME` | the unix socket | drops a day-table; `&without_archive=true` whatever it holds |
//! | `POST /-/plan` | the unix socket | what the next run of the lifecycle would do, and why |
//! | `POST /-/archive?table=NAME` | the unix socket | seals and archives a day-table, its progress as NDJSON |
//! | `POST /-/restore` | the unix socket | brings an archived day back, its progress as NDJSON |
//! | `POST /-/import` | the unix socket | bulk load, its progress as NDJSON |
//!
//! **Who may read.** Over TCP `/api/*` and `/-/reload` need a [`ReadToken`]: on loopback every local user could read root's logs
//! otherwise. The unix socket has mode 0600 and asks for none: whoever can open it could read the data folder as well.
//! There are no CORS headers, and `/-/*` refuses what a browser sends.
//!
//! **What is bounded.** Everything in [`HttpLimits`], and the size of a request's head and body. A client that is slow to
//! send its head, or does not read what it asked for, is cut off. A scan that is too much at the moment is answered
//! 503 with `Retry-After`. A client that goes away stops its scan.
//!
//! **How an answer ends.** Whatever is known before its first byte is a status with `{"error": "…"}`. An error in the
//! middle of NDJSON is its last line, of the same form; where there is no room for one, the connection is cut so that
//! nothing half looks whole.
//!
//! The parts: [`listen`] binds, [`mod@serve`] accepts and drains, [`auth`] asks for the token, [`gate`] asks who pushes
//! (`known` are the credentials of a file), `account` is what a sender is charged to, `routes` says what is
//! where, `params` reads parameters, `answer` carries lines from a blocking scan to the client, `follow` keeps such
//! an answer open, `push` and `upload` read bodies for [`daytable_intake::push`], `control` is for the socket alone. What a route answers is behind the seam of [`api`]: this module
//! opens no store.

pub mod api;
pub mod listen;
pub mod push_auth;
pub mod read_auth;
pub mod readiness;
pub mod serve;
mod connection_slots;
mod context;
mod control;
mod counters;
mod credential_store;
mod follow;
mod health;
mod params;
mod push;
mod read;
mod response;
mod routes;
mod upload;
mod usage;
mod write_timeout;

#[cfg(test)]
mod tests;

pub use api::{Api, ApiError, ApiResult, CountParams, FilterParams, ImportRequest, QueryParams, RestoreRequest};
pub use context::{ListenerKind, ServerContext};
pub use counters::HttpCounters;
pub use listen::{BindError, Listener};
pub use push_auth::{PushAuth, PushAuthError};
pub use read_auth::{ReadToken, ReadTokenError};
pub use readiness::Readiness;
pub use response::ResponseWriter;
pub use routes::router;
pub use serve::serve;

use daytable_intake::rate_limit::{ConnectionLimiter, SenderLimits};
use std::time::Duration;

/// Reads `text` as the parameters of each route that has some.
#[cfg(feature = "testing")]
pub(crate) fn filters_of_each_route(text: &str) -> Vec<FilterParams> {
    let Ok(uri) = format!("/api/query?{text}").parse::<axum::http::Uri>() else { return Vec::new() };
    let _ = (params::instance(&uri), params::none(&uri), params::table(&uri), params::drop(&uri));
    let query = params::query(&uri).map(|params| params.filters);
    let count = params::count(&uri).map(|params| params.filters);
    [query, count, params::tail(&uri)].into_iter().flatten().collect()
}

/// Bounds of a listener and of what is behind it.
#[derive(Clone, Debug)]
pub struct HttpLimits {
    /// Connections of one listener; more wait, and have one cut that has kept the daemon waiting for long.
    pub connections: usize,
    /// What of them one address has; more than it may are closed.
    pub peers: ConnectionLimiter,
    /// Scans that run at a time, over all listeners.
    pub scans: usize,
    /// How long a request waits for its scan to begin before it is answered 503.
    pub scan_wait: Duration,
    /// Clients that follow at a time, over all listeners.
    pub followers: usize,
    /// How long a client may take for the head of a request, and how long a connection may be idle between two.
    pub header_read: Duration,
    /// How long a client may take to read nothing of what is sent to it.
    pub write_timeout: Duration,
    /// How often a follower hears that the connection stands, when there is nothing else to hear.
    pub heartbeat: Duration,
    /// How long open requests may go on once draining has begun.
    pub drain: Duration,
}

impl Default for HttpLimits {
    fn default() -> HttpLimits {
        HttpLimits {
            connections: 256,
            peers: ConnectionLimiter::new(SenderLimits::default()),
            scans: 8,
            scan_wait: Duration::from_millis(500),
            followers: 32,
            header_read: Duration::from_secs(10),
            write_timeout: Duration::from_secs(30),
            heartbeat: Duration::from_secs(15),
            drain: Duration::from_secs(5),
        }
    }
}
