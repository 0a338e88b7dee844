//! The endpoints of [`daytable_intake::push`]: what of a request is read by whom, and when it is answered.
//!
//! ```text
//! runtime                                    blocking thread, a few at a time
//! head: limits, encoding, room               decode, take apart, hand over ─► committer ─┐
//! body: gathered as it comes ─► its turn ───►                                            │
//! answer ◄───────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Nothing of a body is decoded before all of it is there, so a client that sends slowly holds its bytes and nothing
//! else. The journal's upload is the exception: see `upload`.
//!
//! What is refused is answered once the client had a moment to send the rest, because many do not look for an answer
//! before they have.

use super::context::ListenerKind;
use super::params;
use super::push_auth::may_push;
use super::readiness::Readiness;
use super::response::retry_after;
use super::serve::PeerAddress;
use axum::Router;
use axum::body::{BodyDataStream, Bytes};
use axum::extract::{Path, Request as HttpRequest, State};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{any, post};
use daytable_intake::counters::SourceEvent;
use daytable_intake::push::{
    self, Encoding, Endpoint, MemoryReservation, Push, PushRequest, PushResponse, PushSender, Refusal, elastic,
};
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
/// Bytes that room is made for when the first of a body are there.
const ROOM_BYTES: usize = 64 << 10;
/// How long, and how much, a client may go on sending after it was refused.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES_MAX: usize = 64 << 20;
/// When a client that was too much is to come again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// What pushes are taken with.
#[derive(Clone)]
pub(super) struct PushContext {
    pub(super) push: Arc<Push>,
    pub(super) readiness: Arc<Readiness>,
}

/// The endpoints behind a door.
pub(super) fn routes<S: Clone + Send + Sync + 'static>(pushes: PushContext, door: ListenerKind) -> Router<S> {
    let of = |endpoint: Endpoint| {
        async move |State(pushes): State<PushContext>, request: HttpRequest| {
            pushes.answer(endpoint, None, request).await
        }
    };
    Router::new()
        .route(INGEST, post(of(Endpoint::Ingest)))
        .route(OTLP, post(of(Endpoint::Otlp)))
        .route(LOKI, post(of(Endpoint::Loki)))
        .route(UPLOAD, post(of(Endpoint::Journal)))
        .route(ELASTIC, any(async |request: HttpRequest| asked(&request)))
        .route("/elasticsearch/", any(async |request: HttpRequest| asked(&request)))
        .route(ELASTIC_REST, any(elasticsearch))
        .route_layer(from_fn_with_state(door, may_push))
        .with_state(pushes)
}

/// What is below Elasticsearch's path: `_bulk`, that of an index, or what is asked before.
async fn elasticsearch(State(pushes): State<PushContext>, Path(rest): Path<String>, request: HttpRequest) -> Response {
    let is_push = matches!(*request.method(), Method::POST | Method::PUT);
    match rest.strip_suffix("_bulk").filter(|before| is_push && (before.is_empty() || before.ends_with('/'))) {
        None => asked(&request),
        Some(before) => {
            // Clients before version 8 have a type behind the index.
            let index = before.split('/').next().filter(|index| !index.is_empty()).map(str::to_owned);
            pushes.answer(Endpoint::Bulk, index, request).await
        }
    }
}

/// What clients of Elasticsearch ask before they send.
fn asked(request: &HttpRequest) -> Response {
    let path = request.uri().path().strip_prefix(ELASTIC).unwrap_or_default();
    let (status, json) = elastic::answer(request.method().as_str(), path)
        .unwrap_or_else(|| (404, elastic::error(404, "resource_not_found_exception", "there is nothing here")));
    of_product(respond(PushResponse { status, media: Some("application/json"), body: json.into_bytes() }))
}

/// Names the product: its clients take no answer for one that does not.
fn of_product(mut response: Response) -> Response {
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
    /// Takes a request, and answers it once it is on disk.
    async fn answer(self, endpoint: Endpoint, index: Option<String>, request: HttpRequest) -> Response {
        let since = std::time::Instant::now();
        let (parts, body) = request.into_parts();
        let media = text(&parts, header::CONTENT_TYPE).unwrap_or_default().to_owned();
        let mut body = body.into_data_stream();
        let taken = match self.read_head(endpoint, index, &media, &parts) {
            Err(refusal) => Err(refusal),
            Ok(request) if endpoint == Endpoint::Journal => self.upload(request, &mut body).await,
            Ok(request) => self.take(request, &parts, &mut body, since).await,
        };
        let response = match taken {
            Ok(answer) => respond(answer),
            Err(refusal) => {
                let refused = SourceEvent::BodyRefused(refusal.reason());
                self.push.counters_of(endpoint).count(refused, 1);
                // Its text may quote the body.
                tracing::debug!(endpoint = endpoint.source(), reason = refusal.reason(), "refused a push");
                linger(&parts, &mut body).await;
                let mut response = respond(push::refused(endpoint, &media, &refusal));
                match refusal {
                    Refusal::Busy(_) => {
                        response.headers_mut().insert(header::RETRY_AFTER, retry_after(AGAIN_AFTER));
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
        if endpoint == Endpoint::Bulk { of_product(response) } else { response }
    }

    /// What the head of a request says.
    fn read_head(
        &self,
        endpoint: Endpoint,
        index: Option<String>,
        media: &str,
        parts: &Parts,
    ) -> Result<PushRequest, Refusal> {
        let sender = parts.extensions.get::<PushSender>();
        // The layer around the routes gives every request one.
        let sender = sender.cloned().unwrap_or_else(|| PushSender::anonymous("nobody"));
        let instance = match endpoint {
            Endpoint::Ingest => params::instance(&parts.uri).map_err(|error| Refusal::bad(error.to_string()))?,
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

    /// A request with a body that is taken as a whole.
    async fn take(
        &self,
        request: PushRequest,
        parts: &Parts,
        body: &mut BodyDataStream,
        since: std::time::Instant,
    ) -> Result<PushResponse, Refusal> {
        self.is_open()?;
        let mut memory = self.push.memory().reservation();
        let body = self.gather(parts, body, &mut memory).await?;
        self.push.counters_of(request.endpoint).count(SourceEvent::BodyBytes, body.len() as u64);
        let turn = timeout(self.push.limits().turn_wait, self.push.parse_permits().clone().acquire_owned());
        let Ok(Ok(turn)) = turn.await else { return Err(Refusal::Busy("too many requests wait to be taken apart")) };
        let (push, (told, hears)) = (self.push.clone(), oneshot::channel());
        let sender = request.sender.clone();
        let working = spawn_blocking(move || {
            let taken = push.parse(&request, body, &mut memory, since)?;
            let is_large = memory.is_large();
            let (back, returned) = std::sync::mpsc::channel();
            push.clone().submit(taken, move |pending, outcome| {
                push.count_outcome(&pending, outcome);
                if outcome == CommitOutcome::Committed {
                    sender.charge(pending.accepted(), pending.bytes());
                }
                // Room for as much as it held is there when its rows are on disk. Nobody may hear it: the client is gone.
                if is_large {
                    let _ = back.send(memory);
                } else {
                    drop(memory);
                }
                let _ = told.send((pending, outcome));
            });
            drop(turn);
            // Memory of this thread that the committer frees goes back when this thread drops the reservation.
            if is_large {
                drop(returned.recv());
            }
            Ok(())
        });
        match working.await {
            Ok(done) => done?,
            Err(error) => {
                tracing::error!(%error, "a push failed by a fault of its own");
                return Err(Refusal::Fault);
            }
        }
        let (pending, outcome) = hears.await.map_err(|_| Refusal::Busy("the store takes nothing at the moment"))?;
        pending.answer(outcome)
    }

    pub(super) fn is_open(&self) -> Result<(), Refusal> {
        if self.readiness.takes_records() {
            Ok(())
        } else {
            Err(Refusal::Busy("the store takes nothing at the moment"))
        }
    }

    /// A body, as it came.
    async fn gather(
        &self,
        parts: &Parts,
        body: &mut BodyDataStream,
        memory: &mut MemoryReservation,
    ) -> Result<Vec<u8>, Refusal> {
        let limits = self.push.limits();
        let too_large = || Refusal::TooLarge(format!("{} bytes", limits.body_bytes_max));
        let said = text(parts, header::CONTENT_LENGTH).and_then(|length| length.parse::<usize>().ok());
        if said.is_some_and(|said| said > limits.body_bytes_max) {
            return Err(too_large());
        }
        let mut whole = Vec::new();
        let deadline = Instant::now() + limits.body_timeout;
        loop {
            let piece = timeout_at(deadline, next(body)).await;
            match piece.map_err(|_| Refusal::Slow(limits.body_timeout.as_secs()))? {
                None => return Ok(whole),
                Some(Err(error)) => return Err(Refusal::bad(format!("the body cannot be read: {error}"))),
                Some(Ok(piece)) if whole.len() + piece.len() > limits.body_bytes_max => return Err(too_large()),
                Some(Ok(piece)) => {
                    let length = whole.len() + piece.len();
                    if length > whole.capacity() {
                        // As much again, but no more than is said to come. While it grows it is there twice.
                        let room = (2 * whole.capacity()).max(ROOM_BYTES).min(said.unwrap_or(usize::MAX)).max(length);
                        let had = whole.capacity();
                        memory.grow(room)?;
                        whole.reserve_exact(room - whole.len());
                        memory.shrink_to(memory.bytes() - had);
                    }
                    whole.extend_from_slice(&piece);
                }
            }
        }
    }
}

/// Lets a client that was refused send on for a moment.
pub(super) async fn linger(parts: &Parts, body: &mut BodyDataStream) {
    // Who asked whether to send has not begun to.
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
    // It is over then, too.
    let _ = timeout(LINGER, rest).await;
}

pub(super) async fn next(body: &mut BodyDataStream) -> Option<Result<Bytes, axum::Error>> {
    poll_fn(|context| Pin::new(&mut *body).poll_next(context)).await
}

/// The text of a header.
fn text(parts: &Parts, name: HeaderName) -> Option<&str> {
    parts.headers.get(name)?.to_str().ok()
}
