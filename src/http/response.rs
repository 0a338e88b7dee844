//! From a blocking scan to the client: lines are gathered into parts, and parts cross a short channel.
//!
//! ```text
//! blocking thread                              runtime
//! ResponseWriter::line ─► up to 64 KiB ─► channel of 2 ─► body
//! ```
//!
//! The channel is the backpressure: a client that does not read holds its scan, until the connection's write stall
//! ends both. The other way, a body that is dropped closes the channel, and the scan sees it at its next line. An
//! answer that ends within its first part is sent whole, with its length. A scan that panics closes the channel
//! without an [`ResponsePart::End`], which the body turns into a broken connection, never into a short answer that looks whole.

use super::api::ApiError;
use axum::body::{Body, Bytes};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use daytable_model::safe_text;
use futures_core::Stream;
use serde::Serialize;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::sync::mpsc::{self, error::TrySendError};

/// Bytes that are gathered before they are sent: a hundred records of half a kilobyte are one part.
const PART_BYTES: usize = 64 << 10;
/// PartStream that wait between the scan and the connection.
const PARTS_WAITING: usize = 2;
/// What `Retry-After` says, in seconds.
const RETRY_AFTER: &str = "1";

/// How lines are framed, and so what kind of answer they make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResponseFormat {
    /// A JSON document; it has one line.
    Document,
    /// NDJSON.
    Lines,
    /// Server-sent events, sent as soon as there is room for them.
    Events,
}

/// Where a scan writes its lines to.
pub struct ResponseWriter {
    frame: ResponseFormat,
    gathered: Vec<u8>,
    parts: mpsc::Sender<ResponsePart>,
    begun: bool,
    /// Whether a line could not be written, so that the answer lacks it whatever else comes.
    lacks_a_line: bool,
}

enum ResponsePart {
    /// More may follow.
    Part(Bytes),
    /// The last one; an error where the answer cannot say it in its own form.
    End(Result<Bytes, ApiError>),
}

impl ResponseWriter {
    fn new(frame: ResponseFormat, parts: mpsc::Sender<ResponsePart>) -> ResponseWriter {
        ResponseWriter { frame, gathered: Vec::new(), parts, begun: false, lacks_a_line: false }
    }

    /// Adds a line, as JSON; waits while the client is behind. False when nobody listens. A line that has no JSON is left
    /// out, and the answer ends as one that failed.
    pub fn line(&mut self, line: &impl Serialize) -> bool {
        let before = self.gathered.len();
        if self.frame == ResponseFormat::Events {
            self.gathered.extend_from_slice(b"data: ");
        }
        if let Err(error) = safe_text::to_json(&mut self.gathered, line) {
            tracing::error!(%error, "failed to write a line of an answer");
            self.gathered.truncate(before);
            self.lacks_a_line = true;
            return self.wanted();
        }
        self.gathered.extend_from_slice(if self.frame == ResponseFormat::Events { b"\n\n" } else { b"\n" });
        if self.gathered.len() >= PART_BYTES { self.send() } else { self.wanted() }
    }

    /// Whether anybody listens still. For a follower, also sends what could not be sent before.
    pub fn wanted(&mut self) -> bool {
        if self.frame != ResponseFormat::Events || self.gathered.is_empty() {
            return !self.parts.is_closed();
        }
        match self.parts.try_reserve() {
            Ok(room) => {
                self.begun = true;
                room.send(ResponsePart::Part(Bytes::from(std::mem::take(&mut self.gathered))));
                true
            }
            Err(TrySendError::Full(())) => true,
            Err(TrySendError::Closed(())) => false,
        }
    }

    /// Sends the head of the answer and what was gathered so far; what fails from here on is no longer a status.
    pub fn begin(&mut self) -> bool {
        self.send()
    }

    fn send(&mut self) -> bool {
        self.begun = true;
        self.parts.blocking_send(ResponsePart::Part(Bytes::from(std::mem::take(&mut self.gathered)))).is_ok()
    }

    fn end(mut self, result: Result<(), ApiError>) {
        let result = match result {
            Ok(()) if self.lacks_a_line => {
                Err(ApiError::Failed("a line of the answer cannot be written: it is missing".into()))
            }
            other => other,
        };
        let end = match result {
            Ok(()) => Ok(self.gathered),
            Err(error) if !self.begun || self.frame == ResponseFormat::Document => Err(error),
            Err(error) => {
                log_fault(&error);
                if self.frame == ResponseFormat::Events {
                    self.gathered.extend_from_slice(b"event: error\n");
                }
                self.line(&error_of(&error.to_string()));
                Ok(self.gathered)
            }
        };
        // It fails only when nobody listens.
        let _ = self.parts.blocking_send(ResponsePart::End(end.map(Bytes::from)));
    }
}

/// Runs `scan` on a blocking thread and answers with what it writes. `room` is given back when the scan has ended.
pub(super) async fn answer<R, S>(frame: ResponseFormat, room: R, scan: S) -> Result<Response, ApiError>
where
    R: Send + 'static,
    S: FnOnce(&mut ResponseWriter) -> Result<(), ApiError> + Send + 'static,
{
    let mut parts = start(frame, room, scan).await?;
    let body = match (parts.rest.is_some(), parts.first.take()) {
        (false, Some(whole)) => Body::from(whole),
        (_, first) => Body::from_stream(PartStream { first, ..parts }),
    };
    Ok(of_frame(frame, body))
}

/// Starts `scan` and waits for its first piece.
pub(super) async fn start<R, S>(frame: ResponseFormat, room: R, scan: S) -> Result<PartStream, ApiError>
where
    R: Send + 'static,
    S: FnOnce(&mut ResponseWriter) -> Result<(), ApiError> + Send + 'static,
{
    let (parts, mut pieces) = mpsc::channel(PARTS_WAITING);
    tokio::task::spawn_blocking(move || {
        let _room = room;
        let mut out = ResponseWriter::new(frame, parts);
        let result = scan(&mut out);
        out.end(result);
    });
    match pieces.recv().await {
        Some(ResponsePart::Part(first)) => Ok(PartStream { first: Some(first), rest: Some(pieces) }),
        Some(ResponsePart::End(whole)) => Ok(PartStream { first: Some(whole?), rest: None }),
        None => Err(ApiError::Failed("the scan ended without an answer".into())),
    }
}

/// An answer of this kind.
pub(super) fn of_frame(frame: ResponseFormat, body: Body) -> Response {
    let media = match frame {
        ResponseFormat::Document => "application/json",
        ResponseFormat::Lines => "application/x-ndjson",
        ResponseFormat::Events => "text/event-stream",
    };
    ([fixed(header::CONTENT_TYPE, media), fixed(header::CACHE_CONTROL, "no-store")], body).into_response()
}

fn fixed(name: HeaderName, value: &'static str) -> (HeaderName, HeaderValue) {
    (name, HeaderValue::from_static(value))
}

/// The body of an answer.
pub(super) struct PartStream {
    first: Option<Bytes>,
    /// None once the last one was there.
    rest: Option<mpsc::Receiver<ResponsePart>>,
}

/// Ends the connection in the middle of an answer.
#[derive(Debug, thiserror::Error)]
#[error("the answer could not be completed")]
pub(super) struct TruncatedResponse;

impl Stream for PartStream {
    type Item = Result<Bytes, TruncatedResponse>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(first)));
        }
        let Some(rest) = &mut self.rest else { return Poll::Ready(None) };
        let piece = ready!(rest.poll_recv(context));
        if !matches!(piece, Some(ResponsePart::Part(_))) {
            self.rest = None;
        }
        Poll::Ready(Some(match piece {
            Some(ResponsePart::Part(part) | ResponsePart::End(Ok(part))) => Ok(part),
            Some(ResponsePart::End(Err(error))) => {
                log_fault(&error);
                Err(TruncatedResponse)
            }
            None => Err(TruncatedResponse),
        }))
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        log_fault(&self);
        let status = match &self {
            ApiError::Parameter { .. } => StatusCode::BAD_REQUEST,
            ApiError::NotFound(_) => StatusCode::NOT_FOUND,
            ApiError::Refused(_) => StatusCode::CONFLICT,
            ApiError::Busy(_) => StatusCode::SERVICE_UNAVAILABLE,
            ApiError::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let mut response = refusal(status, &self.to_string());
        if matches!(self, ApiError::Busy(_)) {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER));
        }
        response
    }
}

/// An answer that says why there is no other.
pub(super) fn refusal(status: StatusCode, error: &str) -> Response {
    (status, of_frame(ResponseFormat::Document, Body::from(format!("{}\n", error_of(error))))).into_response()
}

/// What `Retry-After` says: whole seconds, one at least.
pub(super) fn retry_after(wait: std::time::Duration) -> HeaderValue {
    HeaderValue::from(wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0)).max(1))
}

fn error_of(error: &str) -> serde_json::Value {
    serde_json::json!({ "error": error })
}

fn log_fault(error: &ApiError) {
    if let ApiError::Failed(error) = error {
        tracing::error!(error, "failed to answer a request");
    }
}
