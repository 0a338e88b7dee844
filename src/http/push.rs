//! The endpoints of [`daytable_intake::push`], from a request to its response.
//!
//! ```text
//! runtime                             blocking thread, a few at a time
//! head: limits, encoding, memory      decode, parse, submit ─► committer ─┐
//! body: collected ─► a permit ───────►                                    │
//! response ◄──────────────────────────────────────────────────────────────┘
//! ```
//!
//! 1. A body is decoded only after all of it has arrived, so a slow client holds its bytes and no thread. The upload of
//!    a journal is the exception: see `upload`.
//! 2. A refused client gets a moment to send the rest of its body, because many clients read no response before they
//!    have sent everything.

use super::connection_slots::WaitClock;
use super::context::ListenerKind;
use super::params;
use super::readiness::Readiness;
use super::request_params::RequestParams;
use super::response::retry_after;
use super::serve::PeerAddress;
use axum::Router;
use axum::body::{BodyDataStream, Bytes};
use axum::extract::{Path, Request as HttpRequest, State};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, post};
use daytable_intake::counters::SourceEvent;
use daytable_intake::push::{
    self, Encoding, Endpoint, MemoryReservation, Push, PushRequest, PushResponse, PushSender, Refusal, elastic,
};
use daytable_intake::rate_limit::Now;
use daytable_store::CommitOutcome;
use futures_core::Stream;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout, timeout_at};

pub(super) const INGEST: &str = "/ingest";
pub(super) const OTLP: &str = "/v1/logs";
pub(super) const LOKI: &str = "/loki/api/v1/push";
pub(super) const BULK: &str = "/elasticsearch/_bulk";
pub(super) const ELASTIC: &str = "/elasticsearch";
const ELASTIC_REST: &str = "/elasticsearch/{*rest}";
pub(super) const UPLOAD: &str = "/upload";

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Bytes of an idempotency key at most.
const KEY_BYTES_MAX: usize = 255;
/// Memory that is reserved for the first bytes of a body at least, unless the body is shorter. More follows as the body
/// arrives, so that a client cannot hold much memory by announcing a body.
const FIRST_BYTES: usize = 16 << 10;
/// How long, and how much, a refused client may continue sending.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES_MAX: usize = 64 << 20;
/// When a client should try again, if the daemon had no room for its push.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The state that all endpoints share.
#[derive(Clone)]
pub(super) struct PushContext {
    pub(super) push: Arc<Push>,
    pub(super) readiness: Arc<Readiness>,
}

/// The endpoints of a listener.
pub(super) fn routes<S: Clone + Send + Sync + 'static>(context: PushContext, kind: ListenerKind) -> Router<S> {
    let handler = |endpoint: Endpoint| {
        async move |State(context): State<PushContext>, request: HttpRequest| {
            context.answer(endpoint, None, request).await
        }
    };
    Router::new()
        .route(INGEST, post(handler(Endpoint::Ingest)))
        .route(OTLP, post(handler(Endpoint::Otlp)))
        .route(LOKI, post(handler(Endpoint::Loki)))
        .route(UPLOAD, post(handler(Endpoint::Journal)))
        .route(ELASTIC, any(async |request: HttpRequest| product_info(&request)))
        .route("/elasticsearch/", any(async |request: HttpRequest| product_info(&request)))
        .route(ELASTIC_REST, any(elasticsearch))
        .route_layer(from_fn_with_state(kind, may_push))
        .with_state(context)
}

/// Passes a request on if it may push, with its [`PushSender`] among its extensions. The endpoint
/// [charges](PushSender::charge) the sender later.
async fn may_push(State(kind): State<ListenerKind>, request: HttpRequest, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let sender = match &kind {
        // The socket of readers has no routes of pushes.
        ListenerKind::Unix | ListenerKind::Readers => PushSender::anonymous("unix"),
        ListenerKind::Tcp { pushing, .. } => {
            let auth = pushing.load();
            match auth.authenticate(&parts, Now::read()) {
                Ok(sender) => sender,
                Err(refusal) => {
                    linger(&parts, &mut body.into_data_stream()).await;
                    return auth.refuse(refusal);
                }
            }
        }
    };
    parts.extensions.insert(sender);
    next.run(HttpRequest::from_parts(parts, body)).await
}

/// A path below Elasticsearch's: `_bulk`, `_bulk` of an index, or a request that clients send first.
async fn elasticsearch(State(context): State<PushContext>, Path(rest): Path<String>, request: HttpRequest) -> Response {
    let is_push = matches!(*request.method(), Method::POST | Method::PUT);
    match rest.strip_suffix("_bulk").filter(|before| is_push && (before.is_empty() || before.ends_with('/'))) {
        None => product_info(&request),
        Some(before) => {
            // Clients before version 8 add a type after the index.
            let index = before.split('/').next().filter(|index| !index.is_empty()).map(str::to_owned);
            context.answer(Endpoint::Bulk, index, request).await
        }
    }
}

/// Answers the requests that clients of Elasticsearch send before they push.
fn product_info(request: &HttpRequest) -> Response {
    let path = request.uri().path().strip_prefix(ELASTIC).unwrap_or_default();
    let (status, json) = elastic::answer(request.method().as_str(), path)
        .unwrap_or_else(|| (404, elastic::error(404, "resource_not_found_exception", "no such route")));
    with_product(respond(PushResponse { status, media: Some("application/json"), body: json.into_bytes() }))
}

/// Names the product, because the clients refuse responses without its name.
fn with_product(mut response: Response) -> Response {
    response.headers_mut().insert("x-elastic-product", HeaderValue::from_static("Elasticsearch"));
    response
}

fn respond(answer: PushResponse) -> Response {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, answer.body).into_response();
    response.headers_mut().remove(header::CONTENT_TYPE);
    if let Some(media) = answer.media {
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    }
    response
}

impl PushContext {
    /// Accepts a push, and answers it once its records are on disk.
    async fn answer(self, endpoint: Endpoint, index: Option<String>, request: HttpRequest) -> Response {
        let since = std::time::Instant::now();
        let (parts, body) = request.into_parts();
        let media = text(&parts, header::CONTENT_TYPE).unwrap_or_default().to_owned();
        let mut body = body.into_data_stream();
        let result = match self.read_head(endpoint, index, &media, &parts) {
            Err(refusal) => Err(refusal),
            Ok(request) if endpoint == Endpoint::Journal => self.upload(request, &mut body).await,
            Ok(request) => self.accept(request, &parts, &mut body, since).await,
        };
        let response = match result {
            Ok(answer) => respond(answer),
            Err(refusal) => {
                let refused = SourceEvent::BodyRefused(refusal.reason());
                self.push.counters_of(endpoint).count(refused, 1);
                // Only the reason is logged, because the text of a refusal may quote the body.
                tracing::debug!(endpoint = endpoint.source(), reason = refusal.reason(), "refused a push");
                linger(&parts, &mut body).await;
                let mut response = respond(push::refused(endpoint, &media, &refusal));
                match refusal {
                    Refusal::Busy(_) => {
                        response.headers_mut().insert(header::RETRY_AFTER, retry_after(RETRY_AFTER));
                    }
                    Refusal::Encoding(_) => {
                        let known = HeaderValue::from_static("gzip, zstd, deflate, snappy, identity");
                        response.headers_mut().insert(header::ACCEPT_ENCODING, known);
                    }
                    _ => {}
                }
                response
            }
        };
        if endpoint == Endpoint::Bulk { with_product(response) } else { response }
    }

    /// Reads the head of a request.
    fn read_head(
        &self,
        endpoint: Endpoint,
        index: Option<String>,
        media: &str,
        parts: &Parts,
    ) -> Result<PushRequest, Refusal> {
        let sender = parts.extensions.get::<PushSender>();
        // The layer `may_push` gives every request a sender.
        let sender = sender.cloned().unwrap_or_else(|| PushSender::anonymous("nobody"));
        let instance = match endpoint {
            Endpoint::Ingest => RequestParams::of_uri(&parts.uri)
                .and_then(|given| params::instance(&given))
                .map_err(|error| Refusal::bad(error.to_string()))?,
            _ => None,
        };
        let key = match parts.headers.get(IDEMPOTENCY_KEY) {
            None => None,
            Some(key) => match key.to_str() {
                Ok(key) if (1..=KEY_BYTES_MAX).contains(&key.len()) => Some(key.to_owned()),
                _ => return Err(Refusal::bad("the idempotency-key is empty, longer than 255 bytes, or not of ASCII")),
            },
        };
        let peer = parts
            .extensions
            .get::<PeerAddress>()
            .map_or_else(|| self.push.host().to_owned(), |peer| peer.0.to_string());
        Ok(PushRequest {
            endpoint,
            media: media.to_owned(),
            encoding: Encoding::read(text(parts, header::CONTENT_ENCODING))?,
            instance,
            index,
            peer,
            sender,
            key,
        })
    }

    /// Accepts a push whose body is parsed as a whole.
    async fn accept(
        &self,
        request: PushRequest,
        parts: &Parts,
        body: &mut BodyDataStream,
        since: std::time::Instant,
    ) -> Result<PushResponse, Refusal> {
        self.is_open()?;
        let mut memory = self.push.memory().reservation();
        let body = self.read_body(parts, body, &mut memory, self.push.limits().body_bytes_max).await?;
        self.push.counters_of(request.endpoint).count(SourceEvent::BodyBytes, body.len() as u64);
        let permit = timeout(self.push.limits().turn_wait, self.push.parse_permits().clone().acquire_owned());
        let Ok(Ok(permit)) = permit.await else { return Err(Refusal::Busy("too many requests wait to be parsed")) };
        let (push, (sent, outcome)) = (self.push.clone(), oneshot::channel());
        let sender = request.sender.clone();
        let working = spawn_blocking(move || {
            let parsed = push.parse(&request, body, &mut memory, since)?;
            let is_large = memory.is_large();
            let (give_back, returned) = std::sync::mpsc::channel();
            push.clone().submit(parsed, move |pending, outcome| {
                push.count_outcome(&pending, outcome);
                if matches!(outcome, CommitOutcome::Committed | CommitOutcome::CommittedBefore(_)) {
                    sender.charge(pending.accepted(), pending.bytes());
                }
                // The memory is freed once the rows are on disk. The receivers may be dropped, because the client may
                // have disconnected.
                if is_large {
                    let _ = give_back.send(memory);
                } else {
                    drop(memory);
                }
                let _ = sent.send((pending, outcome));
            });
            drop(permit);
            // Memory of this thread that the committer frees is returned when this thread drops the reservation.
            if is_large {
                drop(returned.recv());
            }
            Ok(())
        });
        match working.await {
            Ok(done) => done?,
            Err(error) => {
                tracing::error!(%error, "a push ended by a fault of daytable, please report it");
                return Err(Refusal::Fault);
            }
        }
        let (pending, outcome) =
            outcome.await.map_err(|_| Refusal::Busy("the store accepts no records at the moment"))?;
        pending.answer(outcome)
    }

    pub(super) fn is_open(&self) -> Result<(), Refusal> {
        if self.readiness.accepts_pushes() {
            Ok(())
        } else {
            Err(Refusal::Busy("the store accepts no records at the moment"))
        }
    }

    /// Reads a body, without decoding it.
    pub(super) async fn read_body(
        &self,
        parts: &Parts,
        body: &mut BodyDataStream,
        memory: &mut MemoryReservation,
        bytes_max: usize,
    ) -> Result<Vec<u8>, Refusal> {
        let limits = self.push.limits();
        let too_large = || Refusal::TooLarge(format!("{bytes_max} bytes"));
        let announced = text(parts, header::CONTENT_LENGTH).and_then(|length| length.parse::<usize>().ok());
        if announced.is_some_and(|length| length > bytes_max) {
            return Err(too_large());
        }
        let mut whole = Vec::new();
        let mut deadline = Instant::now() + limits.body_timeout;
        loop {
            let piece = timeout_at(deadline, next(body)).await;
            match piece.map_err(|_| Refusal::Slow(limits.body_timeout.as_secs()))? {
                None => return Ok(whole),
                Some(Err(error)) => return Err(Refusal::bad(format!("the body cannot be read: {error}"))),
                Some(Ok(piece)) if whole.len() + piece.len() > bytes_max => return Err(too_large()),
                Some(Ok(piece)) => {
                    let length = whole.len() + piece.len();
                    if length > whole.capacity() {
                        // Twice the memory, up to the announced length. Both copies exist while the vector grows.
                        let room =
                            (2 * whole.capacity()).max(FIRST_BYTES).min(announced.unwrap_or(usize::MAX)).max(length);
                        let had = whole.capacity();
                        if !memory.grow_now(room)? {
                            // This wait is none of the client's.
                            let clock = parts.extensions.get::<Arc<WaitClock>>();
                            let since = Instant::now();
                            clock.inspect(|clock| clock.stop());
                            memory.grow_within(room, limits.turn_wait).await?;
                            clock.inspect(|clock| clock.restart());
                            deadline += since.elapsed();
                        }
                        whole.reserve_exact(room - whole.len());
                        memory.shrink_to(memory.bytes() - had);
                    }
                    whole.extend_from_slice(&piece);
                }
            }
        }
    }
}

/// Lets a refused client continue sending for a moment.
pub(super) async fn linger(parts: &Parts, body: &mut BodyDataStream) {
    // A client that waits for `100 Continue` has not begun to send its body.
    if parts.headers.contains_key(header::EXPECT) {
        return;
    }
    let rest = async {
        let mut passed = 0;
        while let Some(Ok(piece)) = next(body).await {
            passed += piece.len();
            if passed > LINGER_BYTES_MAX {
                break;
            }
        }
    };
    // A client that still sends after this is cut off.
    let _ = timeout(LINGER, rest).await;
}

pub(super) async fn next(body: &mut BodyDataStream) -> Option<Result<Bytes, axum::Error>> {
    poll_fn(|context| Pin::new(&mut *body).poll_next(context)).await
}

/// The text of a header.
fn text(parts: &Parts, name: HeaderName) -> Option<&str> {
    parts.headers.get(name)?.to_str().ok()
}
