//! A question of the routes of [`loki`](super::loki): its time, and why it has no answer.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use daytable_logql::EvalError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a question may take.
const TIME_MAX: Duration = Duration::from_secs(60);

/// A running question: when it has to end.
#[derive(Debug)]
pub struct QuestionClock {
    end: Instant,
    is_unwanted: AtomicBool,
}

impl QuestionClock {
    /// Starts a question.
    pub(crate) fn start() -> Arc<QuestionClock> {
        Arc::new(QuestionClock { end: Instant::now() + TIME_MAX, is_unwanted: AtomicBool::new(false) })
    }

    /// A question whose time is over.
    #[cfg(test)]
    pub(crate) fn ended() -> QuestionClock {
        QuestionClock { end: Instant::now() - Duration::from_millis(1), is_unwanted: AtomicBool::new(false) }
    }

    /// Whether the client is gone.
    pub(super) fn is_unwanted(&self) -> bool {
        self.is_unwanted.load(Ordering::Relaxed)
    }

    /// Why the question must end now; `None` if it may go on.
    pub fn stop_reason(&self) -> Option<&'static str> {
        if self.is_unwanted() {
            return Some("the client is gone");
        }
        (Instant::now() > self.end).then_some("the query takes too long: select fewer streams, or a shorter time")
    }
}

/// Ends the question when its request is dropped.
pub(super) struct EndOnDrop(pub(super) Arc<QuestionClock>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.is_unwanted.store(true, Ordering::Relaxed);
    }
}

/// Why a question has no answer: the status, and the text that the client shows.
#[derive(Debug)]
pub struct LokiError(pub(super) StatusCode, pub(super) String);

impl LokiError {
    pub(super) fn wrong(reason: impl Into<String>) -> LokiError {
        LokiError(StatusCode::BAD_REQUEST, reason.into())
    }

    /// The store cannot answer.
    pub fn failed(reason: impl Into<String>) -> LokiError {
        LokiError(StatusCode::INTERNAL_SERVER_ERROR, reason.into())
    }
}

impl From<EvalError> for LokiError {
    fn from(error: EvalError) -> LokiError {
        match error {
            EvalError::Source(reason) => LokiError::failed(reason),
            EvalError::Stopped(reason) => LokiError(StatusCode::GATEWAY_TIMEOUT, reason),
            EvalError::Busy(reason) => LokiError(StatusCode::SERVICE_UNAVAILABLE, reason),
            other => LokiError::wrong(other.to_string()),
        }
    }
}

impl From<daytable_logql::QuerySyntaxError> for LokiError {
    fn from(error: daytable_logql::QuerySyntaxError) -> LokiError {
        LokiError::wrong(error.to_string())
    }
}

impl IntoResponse for LokiError {
    fn into_response(self) -> Response {
        let LokiError(status, text) = self;
        // The others are no faults of the daemon.
        if status == StatusCode::INTERNAL_SERVER_ERROR {
            tracing::error!(error = text, "failed to answer a request");
        }
        (status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text + "\n").into_response()
    }
}
