//! The HTTP listeners: metrics, health, the read API, pushes, and the control socket.
//!
//! | route | listeners | response |
//! |---|---|---|
//! | `GET /metrics` | both, without credentials | Prometheus text |
//! | `GET /healthz` | both, without credentials | 200 while the process answers |
//! | `GET /readyz` | both, without credentials | 200, or 503 with the reason |
//! | `POST /ingest`, `/v1/logs`, `/loki/api/v1/push`, `/elasticsearch/_bulk`, `/upload` | both | [`daytable_intake::push`] |
//! | `GET /api/query` | both | newest records first, NDJSON |
//! | `GET /api/count` | both | counts, JSON |
//! | `GET /api/tail` | both | records as they are committed, server-sent events |
//! | `GET /api/patterns` | both | lines without their changing parts, counted, JSON |
//! | `/loki/api/v1/*` | both | [`loki`]: what Grafana and `logcli` ask of Loki |
//! | `POST /forward/v1/*` | both | hosts that forward here: [`daytable_forward`] |
//! | `GET /api/hosts` | both | those hosts, NDJSON |
//! | `GET /api/tables`, `/api/sources` | both | day-tables, the ledger, NDJSON |
//! | `GET /`, `/page/*`, `/open/*` | both, without credentials | the page, and its sessions |
//! | `POST /-/open` | the unix sockets | a link for the page, for one use |
//! | `POST /-/ask` | the unix sockets | questions of the command line: `ask` |
//! | `GET /-/hosts`, `POST /-/hosts/*` | the unix sockets, the control socket | hosts that forward here: listed, invited, revoked, forgotten |
//! | `POST /-/reload` | both | reloads the configuration: the changes, or the error |
//! | `POST /-/drop?table=NAME` | the unix socket | drops a day-table; `&without_archive=true` even without an archive; `&archives=true` its archives as well |
//! | `GET /-/status`, `/-/files`, `/-/ledgers` | the unix sockets | the state of the daemon, its files and listeners |
//! | `POST /-/verify` | the unix sockets | verifies the data folder; `?archives=true` archives to the last byte; progress as NDJSON |
//! | `POST /-/plan` | the unix sockets | the steps of the lifecycle's next run, and the reasons |
//! | `POST /-/archive?table=NAME` | the unix socket | seals and archives a day-table; progress as NDJSON |
//! | `POST /-/restore` | the unix socket | restores an archived day; progress as NDJSON |
//! | `POST /-/import` | the unix socket | imports files; progress as NDJSON |
//!
//! **Authentication.** Over TCP, `/api/*`, `/loki/*` and `/-/reload` need a [`ReadToken`] (for `/api/*` and `/loki/*`, the cookie of
//! a browser's session serves as well), because on loopback every local user could
//! read root's logs otherwise. The unix socket has mode 0600 and needs no token: a user who can open it can also read the
//! data folder. The socket of readers, if one is configured, has mode 0660 and a group; it has the routes that change nothing,
//! and refuses all others. Responses have no CORS headers, and `/-/*` refuses requests of browsers.
//!
//! **Limits.** [`HttpLimits`] bounds everything, and so do constants for the head and the body of a request. The daemon
//! cuts a client that sends its head slowly or does not read its response. Scans beyond the limit wait for
//! their turn; too many of these, or a wait too long, get 503 with `Retry-After`. When a client disconnects, its scan stops.
//!
//! **Errors.** An error before the first byte of a response is a status with `{"error": "…"}`. An error in the middle of
//! NDJSON is the last line, in the same form. Where the format has no room for such a line, the connection is cut, so a
//! truncated response never looks complete.
//!
//! | part | modules |
//! |---|---|
//! | connections | [`listen`], [`mod@serve`], `connection_slots`, `write_timeout`, [`readiness`] |
//! | all routes | `routes`, `context`, `params`, `response`, `error`, `counters` |
//! | reading | `read`, `follow`, [`loki`], `question`, `ask`, `record_question`, [`read_auth`], `read_token`, `session`, `tenants` |
//! | the page | `page`, the files in `src/page` |
//! | hosts | `forward` |
//! | pushes | `push`, `upload`, [`push_auth`], `push_refusal`, `credential_store`, `usage` |
//! | operators | `control`, `health` |
//!
//! The code behind the routes implements [`api::Api`]; this module opens no store.

pub mod api;
pub mod listen;
pub mod push_auth;
pub mod read_auth;
pub mod readiness;
pub mod serve;
mod connection_slots;
mod ask;
mod context;
mod control;
mod counters;
mod credential_store;
mod error;
mod follow;
mod forward;
mod health;
mod long_head;
pub mod loki;
mod mcp;
mod page;
mod params;
mod passed_files;
mod push;
mod push_refusal;
mod question;
mod read;
mod read_token;
mod record_question;
mod request_params;
mod response;
mod routes;
mod scans;
mod session;
mod tenants;
mod upload;
mod usage;
mod write_timeout;

#[cfg(test)]
mod tests;

pub use api::{Api, ImportRequest, RestoreRequest, UnreadFile};
pub use context::{ListenerKind, ServerContext};
pub use counters::HttpCounters;
pub use error::{ApiError, ApiResult};
pub use forward::{ComparedLine, HostLine, InviteLine};
pub use listen::{BindError, Listener};
pub use params::{
    ContextParams, CountParams, DropParams, ExportFormat, ExportParams, FilterParams, QueryParams, Summary,
    SummaryParams,
};
pub use passed_files::PASSED_FILES_MAX;
pub use push_auth::PushAuth;
pub use push_refusal::PushAuthError;
pub use question::{LokiError, QuestionClock};
pub use read_token::{ReadToken, ReadTokenError, ReadTokenFile};
pub use readiness::Readiness;
pub use record_question::{AskedCount, AskedLine, QuestionForm, RecordQuestion};
pub use response::ResponseWriter;
pub use routes::router;
pub use serve::serve;
pub use session::Sessions;
pub use tenants::{TenantRecords, Tenants, Visibility};

use daytable_intake::rate_limit::{ConnectionLimiter, SenderLimits};
use daytable_platform::budget::MemoryBudget;
use daytable_platform::scan_scheduler::ScanScheduler;
use daytable_query::answer::ANSWER_BYTES_MAX;
use std::time::Duration;

/// Reads `text` as the parameters of each route that has some.
#[cfg(feature = "testing")]
pub(crate) fn filters_of_each_route(text: &str) -> Vec<FilterParams> {
    let Ok(uri) = format!("/api/query?{text}").parse::<axum::http::Uri>() else { return Vec::new() };
    let Ok(given) = request_params::RequestParams::of_uri(&uri) else { return Vec::new() };
    let _ = (params::instance(&given), params::none(&given), params::table(&given), params::drop(&given));
    let query = params::query(&given).map(|params| params.filters);
    let count = params::count(&given).map(|params| params.filters);
    [query, count, params::tail(&given)].into_iter().flatten().collect()
}

/// Bytes of frames that wait for followers, unless memory is limited.
const FRAMES_BYTES_MAX: usize = 32 << 20;

/// Limits of a listener and of the routes behind it.
#[derive(Clone, Debug)]
pub struct HttpLimits {
    /// Connections of one listener. Further connections wait, and cut a connection that has kept the daemon waiting long.
    pub connections: usize,
    /// Connections of one address. Further connections of the address are closed.
    pub peers: ConnectionLimiter,
    /// Concurrent scans, over all listeners.
    pub scans: usize,
    /// The CPU slots of these scans.
    pub scheduler: ScanScheduler,
    /// Scans that wait for their turn, over all listeners. Further ones are answered 503.
    pub scans_waiting: usize,
    /// How long a scan waits for its turn before it is answered 503.
    pub scan_wait: Duration,
    /// Concurrent followers, over all listeners.
    pub followers: usize,
    /// The memory of all questions.
    pub questions: MemoryBudget,
    /// The memory of frames that wait for followers.
    pub frames: MemoryBudget,
    /// How long a client may take for the head of a request, and how long a connection may be idle between two requests.
    pub header_read: Duration,
    /// How long a client may leave a response unread.
    pub write_timeout: Duration,
    /// How often a follower gets a heartbeat while there are no records.
    pub heartbeat: Duration,
    /// How long open requests may continue during the drain.
    pub drain: Duration,
}

impl Default for HttpLimits {
    fn default() -> HttpLimits {
        HttpLimits {
            connections: 2048,
            peers: ConnectionLimiter::new(SenderLimits::default()),
            scans: 8,
            scheduler: ScanScheduler::new(std::thread::available_parallelism().map_or(1, usize::from)),
            scans_waiting: 128,
            scan_wait: Duration::from_secs(30),
            followers: 32,
            questions: MemoryBudget::unshared(ANSWER_BYTES_MAX),
            frames: MemoryBudget::new(FRAMES_BYTES_MAX, FRAMES_BYTES_MAX),
            header_read: Duration::from_secs(10),
            write_timeout: Duration::from_secs(30),
            heartbeat: Duration::from_secs(15),
            drain: Duration::from_secs(5),
        }
    }
}
