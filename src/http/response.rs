//! From a blocking scan to the client: lines are collected into parts, and parts cross a short channel.
//!
//! ```text
//! blocking thread                                         runtime
//! ResponseWriter::line ─► up to 64 KiB ─► channel of 2 ─► body
//! ```
//!
//! 1. The channel is the back pressure: a client that does not read blocks its scan, until the connection's write
//!    timeout ends both. Such a scan soon holds no snapshot.
//! 2. A body that is dropped closes the channel, and the scan stops at its next line.
//! 3. A response that ends within its first part is sent as a whole, with its length.
//! 4. A scan that panics closes the channel without a [`ResponsePart::End`]. The body then breaks the connection, so a
//!    truncated response never looks complete.

use super::error::{ApiError, ApiResult};
use super::params::ExportFormat;
use axum::body::{Body, Bytes};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use daytable_logsql::SyntaxError;
use daytable_model::safe_text;
use daytable_platform::scan_scheduler;
use futures_core::Stream;
use serde::Serialize;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker, ready};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{self, error::TrySendError};

/// Bytes of a part: some hundred records.
const PART_BYTES: usize = 64 << 10;
/// Parts that wait between the scan and the connection.
const PARTS_WAITING: usize = 2;
/// Warnings of a response, and the bytes of each: a head is short.
const WARNINGS_MAX: usize = 8;
const WARNING_BYTES_MAX: usize = 400;
/// How long a scan waits for its client with its snapshots.
const SLOW_CLIENT: Duration = Duration::from_millis(100);
/// The value of `Retry-After`, in seconds.
const RETRY_AFTER: &str = "1";

/// The format of a response's lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResponseFormat {
    /// A JSON document of one line.
    Document,
    /// NDJSON.
    Lines,
    /// Server-sent events, sent as soon as the channel has room.
    Events,
    /// A file, which has no place for an error.
    File(ExportFormat),
}

/// Collects the lines of a response.
pub struct ResponseWriter {
    format: ResponseFormat,
    pending: Vec<u8>,
    parts: mpsc::Sender<ResponsePart>,
    has_begun: bool,
    warnings: Vec<ResponseWarning>,
    /// Whether a line could not be serialized, so that the response is incomplete.
    lacks_a_line: bool,
}

/// What looks wrong in a request that is answered.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ResponseWarning {
    message: String,
    /// The bytes of the query.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<WarningPlace>,
    /// The query that was probably meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    instead: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
struct WarningPlace {
    from: usize,
    to: usize,
}

/// A part of a response.
pub(super) enum ResponsePart {
    /// Before the first part.
    Warnings(Vec<ResponseWarning>),
    /// More may follow.
    Part(Bytes),
    /// The last part, or an error that the response's format cannot express.
    End(Result<Bytes, ApiError>),
}

impl ResponseWriter {
    fn new(format: ResponseFormat, parts: mpsc::Sender<ResponsePart>) -> ResponseWriter {
        ResponseWriter {
            format,
            pending: Vec::new(),
            parts,
            has_begun: false,
            warnings: Vec::new(),
            lacks_a_line: false,
        }
    }

    /// Says in the head of the response what looks wrong at a place of the query. After the first part it is too late.
    pub fn warn(&mut self, warning: &SyntaxError) {
        let place = WarningPlace { from: warning.at().start, to: warning.at().end };
        self.add_warning(warning.message(), Some(place), warning.instead());
    }

    /// Says in the head of the response what is to be known about all of the request, and the query that was probably meant.
    pub fn warn_of_all(&mut self, message: &str, instead: Option<&str>) {
        self.add_warning(message, None, instead);
    }

    fn add_warning(&mut self, message: &str, at: Option<WarningPlace>, instead: Option<&str>) {
        if self.warnings.len() < WARNINGS_MAX {
            let cut = message.floor_char_boundary(WARNING_BYTES_MAX);
            let instead = instead.filter(|query| query.len() <= WARNING_BYTES_MAX).map(str::to_owned);
            self.warnings.push(ResponseWarning { message: message[..cut].to_owned(), at, instead });
        }
    }

    /// The warnings go before the first part.
    fn send_warnings(&mut self) {
        let warnings = std::mem::take(&mut self.warnings);
        if !self.has_begun && !warnings.is_empty() {
            send(&self.parts, ResponsePart::Warnings(warnings));
        }
    }

    /// Adds a line, as JSON, and waits while the client is slow. Returns false when the client has disconnected. A line
    /// that cannot be serialized is left out, and the response ends with an error.
    pub fn line(&mut self, line: &impl Serialize) -> bool {
        let before = self.pending.len();
        if self.format == ResponseFormat::Events {
            self.pending.extend_from_slice(b"data: ");
        }
        if let Err(error) = safe_text::to_json(&mut self.pending, line) {
            tracing::error!(%error, "failed to write a line of a response");
            self.pending.truncate(before);
            self.lacks_a_line = true;
            return self.is_wanted();
        }
        self.pending.extend_from_slice(if self.format == ResponseFormat::Events { b"\n\n" } else { b"\n" });
        if self.pending.len() >= PART_BYTES { self.begin() } else { self.is_wanted() }
    }

    /// Adds bytes of a file, and waits while the client is slow. Returns false when the client is gone.
    pub fn bytes(&mut self, bytes: &[u8]) -> bool {
        self.pending.extend_from_slice(bytes);
        if self.pending.len() >= PART_BYTES { self.begin() } else { self.is_wanted() }
    }

    /// Adds lines until the client disconnects.
    pub fn lines(&mut self, lines: impl IntoIterator<Item = impl Serialize>) {
        let _ = lines.into_iter().all(|line| self.line(&line));
    }

    /// Whether the client is gone.
    pub fn is_gone(&self) -> bool {
        self.parts.is_closed()
    }

    /// Whether the client is still connected. For a follower, also sends pending lines if the channel has room.
    pub fn is_wanted(&mut self) -> bool {
        if self.format != ResponseFormat::Events || self.pending.is_empty() {
            return !self.parts.is_closed();
        }
        self.send_warnings();
        match self.parts.try_reserve() {
            Ok(permit) => {
                self.has_begun = true;
                permit.send(ResponsePart::Part(Bytes::from(std::mem::take(&mut self.pending))));
                true
            }
            Err(TrySendError::Full(())) => true,
            Err(TrySendError::Closed(())) => false,
        }
    }

    /// Sends the head of the response and the pending lines. An error after this call cannot become a status.
    pub fn begin(&mut self) -> bool {
        self.send_warnings();
        self.has_begun = true;
        let part = ResponsePart::Part(Bytes::from(std::mem::take(&mut self.pending)));
        send(&self.parts, part)
    }

    fn end(mut self, result: ApiResult) {
        // A request that is refused has its reason.
        if result.is_err() {
            self.warnings.clear();
        }
        let result = match result {
            Ok(()) if self.lacks_a_line => {
                Err(ApiError::Failed("a line of the response cannot be written: it is missing".into()))
            }
            other => other,
        };
        let end = match result {
            Ok(()) => Ok(std::mem::take(&mut self.pending)),
            Err(error)
                if !self.has_begun || matches!(self.format, ResponseFormat::Document | ResponseFormat::File(_)) =>
            {
                Err(error)
            }
            Err(error) => {
                log_fault(&error);
                if self.format == ResponseFormat::Events {
                    self.pending.extend_from_slice(b"event: error\n");
                }
                self.line(&error_json(&error.to_string()));
                Ok(std::mem::take(&mut self.pending))
            }
        };
        self.send_warnings();
        // The send fails only if the client has disconnected.
        send(&self.parts, ResponsePart::End(end.map(Bytes::from)));
    }
}

/// Waits while the client is slow, without a CPU slot. Returns false when the client has disconnected.
fn send(parts: &mpsc::Sender<ResponsePart>, part: ResponsePart) -> bool {
    match parts.try_send(part) {
        Ok(()) => true,
        Err(TrySendError::Full(part)) => scan_scheduler::pause(|| send_slowly(parts, part)),
        Err(TrySendError::Closed(_)) => false,
    }
}

/// Waits for a slow client, after a while without the snapshots of the scans, which would keep journals from beginning again.
fn send_slowly(parts: &mpsc::Sender<ResponsePart>, part: ResponsePart) -> bool {
    match wait_at_most(SLOW_CLIENT, parts.reserve()) {
        Some(Ok(room)) => {
            room.send(part);
            true
        }
        Some(Err(_)) => false,
        None => {
            daytable_store::release_snapshots();
            parts.blocking_send(part).is_ok()
        }
    }
}

/// Waits on this thread for a future, at most so long: the runtime of the scans has no timers.
fn wait_at_most<F: Future>(most: Duration, future: F) -> Option<F::Output> {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Unpark>) {
            self.0.unpark();
        }
    }
    let until = Instant::now() + most;
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(output);
        }
        thread::park_timeout(until.checked_duration_since(Instant::now())?);
    }
}

/// Runs `scan` on a blocking thread and responds with its lines. `permit` is dropped when the scan has ended.
pub(super) async fn stream_response<R, S>(format: ResponseFormat, permit: R, scan: S) -> Result<Response, ApiError>
where
    R: Send + 'static,
    S: FnOnce(&mut ResponseWriter) -> ApiResult + Send + 'static,
{
    Ok(start(format, permit, scan).await?.response(format))
}

/// Starts `scan` and waits for its first part.
pub(super) async fn start<R, S>(format: ResponseFormat, permit: R, scan: S) -> Result<PartStream, ApiError>
where
    R: Send + 'static,
    S: FnOnce(&mut ResponseWriter) -> ApiResult + Send + 'static,
{
    let (sender, parts) = part_channel();
    tokio::task::spawn_blocking(move || {
        let _permit = permit;
        write_parts(format, sender, scan);
    });
    PartStream::of(parts).await
}

/// The channel of a response.
pub(super) fn part_channel() -> (mpsc::Sender<ResponsePart>, mpsc::Receiver<ResponsePart>) {
    mpsc::channel(PARTS_WAITING)
}

/// Runs a scan, which writes the parts of a response.
pub(super) fn write_parts(
    format: ResponseFormat,
    sender: mpsc::Sender<ResponsePart>,
    scan: impl FnOnce(&mut ResponseWriter) -> ApiResult,
) {
    let mut out = ResponseWriter::new(format, sender);
    let result = scan(&mut out);
    out.end(result);
}

impl PartStream {
    /// Waits for the first part.
    pub(super) async fn of(mut parts: mpsc::Receiver<ResponsePart>) -> Result<PartStream, ApiError> {
        let mut warnings = Vec::new();
        let mut part = parts.recv().await;
        if let Some(ResponsePart::Warnings(before)) = part {
            warnings = before;
            part = parts.recv().await;
        }
        match part {
            Some(ResponsePart::Part(first)) => Ok(PartStream { first: Some(first), rest: Some(parts), warnings }),
            Some(ResponsePart::End(whole)) => Ok(PartStream { first: Some(whole?), rest: None, warnings }),
            Some(ResponsePart::Warnings(_)) | None => Err(ApiError::Failed("the scan ended without a response".into())),
        }
    }

    /// The response with these parts.
    pub(super) fn response(mut self, format: ResponseFormat) -> Response {
        let warnings = self.warnings();
        let body = match (self.rest.is_some(), self.first.take()) {
            (false, Some(whole)) => Body::from(whole),
            (_, first) => Body::from_stream(PartStream { first, ..self }),
        };
        with_warnings(with_format(format, body), warnings)
    }

    /// The value of the header with the warnings, once.
    pub(super) fn warnings(&mut self) -> Option<HeaderValue> {
        warnings_header(&std::mem::take(&mut self.warnings))
    }
}

/// A response of this format.
pub(super) fn with_format(format: ResponseFormat, body: Body) -> Response {
    let media = match format {
        ResponseFormat::Document => "application/json",
        ResponseFormat::Lines => "application/x-ndjson",
        ResponseFormat::Events => "text/event-stream",
        ResponseFormat::File(ExportFormat::Csv(_)) => "text/csv; charset=utf-8",
        ResponseFormat::File(ExportFormat::Parquet) => "application/vnd.apache.parquet",
        // Never a type that a browser shows.
        ResponseFormat::File(_) => "application/octet-stream",
    };
    ([fixed(header::CONTENT_TYPE, media), fixed(header::CACHE_CONTROL, "no-store")], body).into_response()
}

/// The header with what looks wrong in a request that is answered: a JSON array in ASCII.
pub(super) const WARNINGS: HeaderName = HeaderName::from_static("daytable-warnings");

/// A response with the header of its warnings.
pub(super) fn with_warnings(mut response: Response, warnings: Option<HeaderValue>) -> Response {
    if let Some(value) = warnings {
        response.headers_mut().insert(WARNINGS, value);
    }
    response
}

fn warnings_header(warnings: &[ResponseWarning]) -> Option<HeaderValue> {
    if warnings.is_empty() {
        return None;
    }
    let mut ascii = String::new();
    for c in serde_json::to_string(warnings).ok()?.chars() {
        match c {
            ' '..='~' => ascii.push(c),
            c => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| ascii.push_str(&format!("\\u{unit:04x}"))),
        }
    }
    HeaderValue::from_str(&ascii).ok()
}

fn fixed(name: HeaderName, value: &'static str) -> (HeaderName, HeaderValue) {
    (name, HeaderValue::from_static(value))
}

/// The body of a response.
pub(super) struct PartStream {
    first: Option<Bytes>,
    /// None once the last part has arrived.
    rest: Option<mpsc::Receiver<ResponsePart>>,
    warnings: Vec<ResponseWarning>,
}

/// Breaks the connection in the middle of a response.
#[derive(Debug, thiserror::Error)]
#[error("the response could not be completed")]
pub(super) struct TruncatedResponse;

impl Stream for PartStream {
    type Item = Result<Bytes, TruncatedResponse>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(first)));
        }
        let Some(rest) = &mut self.rest else { return Poll::Ready(None) };
        let part = ready!(rest.poll_recv(context));
        if !matches!(part, Some(ResponsePart::Part(_))) {
            self.rest = None;
        }
        Poll::Ready(Some(match part {
            Some(ResponsePart::Part(part) | ResponsePart::End(Ok(part))) => Ok(part),
            Some(ResponsePart::End(Err(error))) => {
                log_fault(&error);
                Err(TruncatedResponse)
            }
            // They stand before the first part only.
            Some(ResponsePart::Warnings(_)) | None => Err(TruncatedResponse),
        }))
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        log_fault(&self);
        let status = match &self {
            ApiError::Parameter { .. } | ApiError::Query { .. } => StatusCode::BAD_REQUEST,
            ApiError::NotFound(_) => StatusCode::NOT_FOUND,
            ApiError::Refused(_) => StatusCode::CONFLICT,
            ApiError::LongRequest(_) => StatusCode::PAYLOAD_TOO_LARGE,
            ApiError::TooLarge(_) => StatusCode::UNPROCESSABLE_ENTITY,
            ApiError::OutOfTime(_) => StatusCode::GATEWAY_TIMEOUT,
            ApiError::Busy(_) => StatusCode::SERVICE_UNAVAILABLE,
            ApiError::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let mut error = error_json(&self.to_string());
        if let ApiError::Query { from, to, .. } = self {
            error["at"] = serde_json::json!({ "from": from, "to": to });
        }
        let body = Body::from(format!("{error}\n"));
        let mut response = (status, with_format(ResponseFormat::Document, body)).into_response();
        if matches!(self, ApiError::Busy(_)) {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER));
        }
        response
    }
}

/// A response with a status and the JSON object `{"error": "…"}`.
pub(super) fn error_response(status: StatusCode, error: &str) -> Response {
    json_response(status, &error_json(error))
}

fn json_response(status: StatusCode, document: &serde_json::Value) -> Response {
    (status, with_format(ResponseFormat::Document, Body::from(format!("{document}\n")))).into_response()
}

/// The value of `Retry-After`: whole seconds, at least one.
pub(super) fn retry_after(wait: std::time::Duration) -> HeaderValue {
    HeaderValue::from(wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0)).max(1))
}

fn error_json(error: &str) -> serde_json::Value {
    serde_json::json!({ "error": error })
}

fn log_fault(error: &ApiError) {
    if let ApiError::Failed(error) = error {
        tracing::error!(error, "failed to answer a request");
    }
}
