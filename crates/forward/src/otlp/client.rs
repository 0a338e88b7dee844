//! Requests to a backend, and its answers.

use super::address::{backend, logs_url};
use super::headers;
use super::protobuf::{Read, next_field};
use crate::client::{ClientError, http_client};
use crate::options::{ForwardOptions, is_plain};
use daytable_platform::error_text::with_causes;
use flate2::Compression;
use flate2::write::GzEncoder;
use reqwest::StatusCode;
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const PROTOBUF: &str = "application/x-protobuf";
/// Bytes of an answer.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Characters of what a backend says.
const SAID_CHARS_MAX: usize = 300;

/// What a backend says to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackendAnswer {
    /// It has the records, except `rejected` of them.
    Accepted {
        /// Records that it rejected. It does not say which.
        rejected: u64,
        /// Why, or a warning.
        message: String,
    },
    /// It refuses what the request contains: to send it again is of no use.
    Refused(String),
    /// It may take the same request later.
    Busy {
        /// Why.
        reason: String,
        /// The pause that it asks for.
        after: Option<Duration>,
    },
    /// It takes no request until somebody does something about it: the address, the headers or the rights are wrong.
    Unusable(String),
}

/// A connection to a backend.
pub struct BackendClient {
    http: reqwest::Client,
    url: String,
    headers: HeaderMap,
    /// Whether requests are compressed, which some backend does not take.
    compresses: AtomicBool,
}

impl BackendClient {
    /// A client with the headers of their file.
    ///
    /// # Errors
    ///
    /// The files cannot be used, or the address has no TLS.
    pub fn new(options: &ForwardOptions) -> Result<BackendClient, ClientError> {
        let address = backend(&options.to).unwrap_or(&options.to);
        if is_plain(address) && !options.allow_plain {
            let reason = "records are not sent to another host without TLS: use otlp+https, or allow_plain = true";
            return Err(ClientError::Options(reason.into()));
        }
        let headers = options.headers_file.as_deref().map(headers::read).transpose().map_err(ClientError::Options)?;
        let (http, url) = (http_client(options)?, logs_url(address));
        Ok(BackendClient { http, url, headers: headers.unwrap_or_default(), compresses: AtomicBool::new(true) })
    }

    /// Whether the backend can be reached with these headers: a request without records.
    pub async fn probe(&self) -> BackendAnswer {
        self.send(&[]).await
    }

    /// Sends a request.
    pub async fn send(&self, request: &[u8]) -> BackendAnswer {
        let answer = self.send_once(request).await;
        // Compression is a must of the specification, and not of every backend.
        if answer.0 == Some(StatusCode::UNSUPPORTED_MEDIA_TYPE) && self.compresses.swap(false, Ordering::Relaxed) {
            return self.send_once(request).await.1;
        }
        answer.1
    }

    async fn send_once(&self, request: &[u8]) -> (Option<StatusCode>, BackendAnswer) {
        let busy = |reason: String| BackendAnswer::Busy { reason, after: None };
        let mut post = self.http.post(&self.url).headers(self.headers.clone()).header(CONTENT_TYPE, PROTOBUF);
        let body = if self.compresses.load(Ordering::Relaxed) {
            let mut encoder = GzEncoder::new(Vec::with_capacity(request.len() / 4 + 64), Compression::fast());
            match encoder.write_all(request).and_then(|()| encoder.finish()) {
                Ok(body) => body,
                Err(error) => return (None, busy(error.to_string())),
            }
        } else {
            request.to_vec()
        };
        if self.compresses.load(Ordering::Relaxed) {
            post = post.header(CONTENT_ENCODING, "gzip");
        }
        let mut response = match post.body(body).send().await {
            Ok(response) => response,
            Err(error) => return (None, busy(with_causes(&error.without_url()))),
        };
        let status = response.status();
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        let after = header(RETRY_AFTER).and_then(|seconds| seconds.trim().parse().ok()).map(Duration::from_secs);
        let media = header(CONTENT_TYPE).unwrap_or_default().to_ascii_lowercase();
        let mut body = Vec::new();
        loop {
            match response.chunk().await {
                Ok(Some(piece)) if body.len() + piece.len() <= ANSWER_BYTES_MAX => body.extend_from_slice(&piece),
                // What is longer is not an answer of OTLP. Its beginning says what it is.
                Ok(Some(_)) | Ok(None) => break,
                // The backend has the records, if its answer says so; without the answer, it may.
                Err(error) => return (Some(status), busy(with_causes(&error.without_url()))),
            }
        }
        (Some(status), answer_of(status, &media, &body, after))
    }
}

/// The meaning of an answer.
fn answer_of(status: StatusCode, media: &str, body: &[u8], after: Option<Duration>) -> BackendAnswer {
    if status.is_success() {
        let (rejected, message) = partial_success(media, body);
        return BackendAnswer::Accepted { rejected, message };
    }
    let said = said(media, body);
    let said = if said.is_empty() { status.canonical_reason().unwrap_or("no reason").to_owned() } else { said };
    let reason = format!("the backend answers {}: {said}", status.as_u16());
    match status.as_u16() {
        400 | 413 | 422 => BackendAnswer::Refused(reason),
        408 | 429 | 500..=599 => BackendAnswer::Busy { reason, after },
        _ => BackendAnswer::Unusable(reason),
    }
}

/// `ExportLogsServiceResponse`: the number of rejected records, and the message about them.
fn partial_success(media: &str, body: &[u8]) -> (u64, String) {
    if media.starts_with("application/json") {
        let Ok(answer) = serde_json::from_slice::<serde_json::Value>(body) else { return (0, String::new()) };
        let part = &answer["partialSuccess"];
        let rejected = &part["rejectedLogRecords"];
        let rejected = rejected.as_u64().or_else(|| rejected.as_str()?.parse().ok()).unwrap_or(0);
        return (rejected, shown(part["errorMessage"].as_str().unwrap_or_default()));
    }
    let (mut rejected, mut message, mut left) = (0, String::new(), body);
    while let Some((field, value)) = next_field(&mut left) {
        let (1, Read::Bytes(mut part)) = (field, value) else { continue };
        while let Some(field) = next_field(&mut part) {
            match field {
                // A negative number is none.
                (1, Read::Number(number)) => rejected = u64::try_from(number.cast_signed()).unwrap_or(0),
                (2, Read::Bytes(text)) => message = shown(&String::from_utf8_lossy(text)),
                _ => {}
            }
        }
    }
    (rejected, message)
}

/// The text of a refusal: `google.rpc.Status`, or what else the backend writes.
fn said(media: &str, body: &[u8]) -> String {
    if media.starts_with(PROTOBUF) {
        let mut left = body;
        while let Some(field) = next_field(&mut left) {
            if let (2, Read::Bytes(text)) = field {
                return shown(&String::from_utf8_lossy(text));
            }
        }
        return String::new();
    }
    let text = String::from_utf8_lossy(body);
    match serde_json::from_str::<serde_json::Value>(&text).ok().as_ref().and_then(|json| json["message"].as_str()) {
        Some(message) => shown(message),
        None => shown(&text),
    }
}

fn shown(text: &str) -> String {
    let printable = |c: char| if c.is_control() { ' ' } else { c };
    text.trim().chars().take(SAID_CHARS_MAX).map(printable).collect()
}

#[cfg(test)]
mod tests {
    use super::super::protobuf::{put_bytes, put_number};
    use super::*;

    fn message(number: u64, text: &str) -> Vec<u8> {
        let mut message = Vec::new();
        put_number(&mut message, 1, number);
        put_bytes(&mut message, 2, text.as_bytes());
        message
    }

    #[test]
    fn partial_successes_in_both_forms() {
        let mut body = Vec::new();
        put_bytes(&mut body, 1, &message(3, "too old\nfor us"));
        let expected = (3, "too old for us".to_owned());
        assert_eq!(partial_success(PROTOBUF, &body), expected);
        let json = br#"{"partialSuccess":{"rejectedLogRecords":"3","errorMessage":"too old\nfor us"}}"#;
        assert_eq!(partial_success("application/json; charset=utf-8", json), expected);
        for (media, body) in [(PROTOBUF, &b""[..]), ("application/json", b"{}"), ("", b"ok"), (PROTOBUF, b"\xff\xff")] {
            assert_eq!(partial_success(media, body), (0, String::new()), "{media} {body:?}");
        }
    }

    #[test]
    fn answers_by_what_is_done_about_them() {
        let after = Some(Duration::from_secs(7));
        let answer = |status| {
            let status = StatusCode::from_u16(status).expect("a status");
            answer_of(status, PROTOBUF, &message(3, "no"), after)
        };
        for status in [400, 413, 422] {
            assert_eq!(answer(status), BackendAnswer::Refused(format!("the backend answers {status}: no")));
        }
        for status in [408, 429, 500, 502, 503, 504, 599] {
            let reason = format!("the backend answers {status}: no");
            assert_eq!(answer(status), BackendAnswer::Busy { reason, after });
        }
        for status in [301, 401, 403, 404, 405, 415, 418] {
            assert_eq!(answer(status), BackendAnswer::Unusable(format!("the backend answers {status}: no")));
        }
        assert!(matches!(answer(204), BackendAnswer::Accepted { .. }));
        let page = answer_of(StatusCode::NOT_FOUND, "text/html", b"<html>\n404", None);
        assert_eq!(page, BackendAnswer::Unusable("the backend answers 404: <html> 404".into()));
        let json = answer_of(StatusCode::BAD_REQUEST, "application/json", br#"{"code":3,"message":"bad"}"#, None);
        assert_eq!(json, BackendAnswer::Refused("the backend answers 400: bad".into()));
    }
}
