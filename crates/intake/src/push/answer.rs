//! The answers of each protocol.

use super::bulk::BulkAnswers;
use super::otlp::OtlpFormat;
use super::request_writer::RefusedRecord;
use super::unread_parts::UnreadParts;
use super::{Endpoint, Refusal, elastic};
use serde_json::json;
use std::time::Duration;

/// An answer, without its transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushResponse {
    /// The HTTP status.
    pub status: u16,
    /// The content type. `None` without a body.
    pub media: Option<&'static str>,
    /// The body.
    pub body: Vec<u8>,
}

/// The part of an answer that is known before the commit.
#[derive(Debug)]
pub(super) enum ResponseTemplate {
    Ingest,
    Otlp(OtlpFormat),
    Loki,
    Bulk(BulkAnswers),
    Journal,
}

/// Of `google.rpc.Code`.
const INVALID_ARGUMENT: u32 = 3;
const UNAVAILABLE: u32 = 14;

const JSON: Option<&str> = Some("application/json");

impl ResponseTemplate {
    /// The answer after the commit. `took` is the time since the request began.
    pub(super) fn render(
        &self,
        accepted: u32,
        refused: u32,
        reasons: &[RefusedRecord],
        unread: &UnreadParts,
        took: Duration,
    ) -> PushResponse {
        match self {
            ResponseTemplate::Ingest => {
                let mut answer = json!({ "accepted": accepted, "refused": refused });
                if refused > 0 {
                    answer["errors"] =
                        reasons.iter().map(|(index, reason)| json!({ "index": index, "reason": reason })).collect();
                }
                let is_empty = accepted == 0 && refused > 0;
                if is_empty {
                    answer["error"] = "no record of the body can be accepted".into();
                }
                PushResponse { status: if is_empty { 400 } else { 200 }, media: JSON, body: line(&answer) }
            }
            ResponseTemplate::Otlp(format) => {
                let refusal = reasons.first().map(|(index, reason)| format!("record {index}: {reason}"));
                let skipped = (unread.count > 0).then(|| {
                    format!("not stored, because it is not known here: {} (of {})", unread.first, unread.count)
                });
                let reason = refusal.or(skipped).unwrap_or_default();
                if accepted == 0 && refused > 0 {
                    let body = format.status(INVALID_ARGUMENT, &reason);
                    return PushResponse { status: 400, media: Some(format.media()), body };
                }
                PushResponse { status: 200, media: Some(format.media()), body: format.response(refused, &reason) }
            }
            ResponseTemplate::Loki => PushResponse { status: 204, media: None, body: Vec::new() },
            ResponseTemplate::Bulk(answers) => {
                let (took, errors, items) = (took.as_millis(), answers.has_errors(), answers.to_json());
                let body = format!("{{\"took\":{took},\"errors\":{errors},\"items\":[{items}]}}");
                PushResponse { status: 200, media: JSON, body: body.into_bytes() }
            }
            ResponseTemplate::Journal => {
                PushResponse { status: 200, media: Some("text/plain"), body: b"OK.\n".to_vec() }
            }
        }
    }
}

/// The answer to a refused request. `media` is the content type of the request.
pub fn refused(endpoint: Endpoint, media: &str, refusal: &Refusal) -> PushResponse {
    let (status, reason) = (refusal.status(), refusal.to_string());
    let (media, body) = match endpoint {
        Endpoint::Otlp => {
            let format = OtlpFormat::read(media).unwrap_or(OtlpFormat::Json);
            let code = if status == 503 { UNAVAILABLE } else { INVALID_ARGUMENT };
            (format.media(), format.status(code, &reason))
        }
        Endpoint::Bulk => {
            let kind = if status == 503 { "es_rejected_execution_exception" } else { "illegal_argument_exception" };
            ("application/json", elastic::error(status, kind, &reason).into_bytes())
        }
        Endpoint::Ingest | Endpoint::Loki | Endpoint::Journal => {
            let mut answer = json!({ "error": reason });
            if let Refusal::Bad { index: Some(index), .. } = refusal {
                answer["index"] = (*index).into();
            }
            ("application/json", line(&answer))
        }
    };
    PushResponse { status, media: Some(media), body }
}

fn line(answer: &serde_json::Value) -> Vec<u8> {
    format!("{answer}\n").into_bytes()
}
