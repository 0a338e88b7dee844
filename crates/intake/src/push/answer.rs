//! What is answered, in the words of each protocol.

use super::bulk::BulkAnswers;
use super::elastic;
use super::otlp::OtlpFormat;
use super::{Endpoint, Refusal};
use serde_json::json;
use std::borrow::Cow;
use std::time::Duration;

/// An answer, but for how it travels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The content type; none where there is no body.
    pub media: Option<&'static str>,
    /// The body.
    pub body: Vec<u8>,
}

/// What is known of the answer before the commit.
#[derive(Debug)]
pub(super) enum Reply {
    Ingest(Vec<(usize, Cow<'static, str>)>),
    Otlp(OtlpFormat, Vec<(usize, Cow<'static, str>)>),
    Loki,
    Bulk(BulkAnswers),
    Journal,
}

const JSON: Option<&str> = Some("application/json");

impl Reply {
    /// The answer once everything is on disk. `took`: since the request was there.
    pub(super) fn render(&self, taken: u32, refused: u32, took: Duration) -> Answer {
        match self {
            Reply::Ingest(reasons) => {
                let mut said = json!({ "accepted": taken, "refused": refused });
                if refused > 0 {
                    said["errors"] =
                        reasons.iter().map(|(index, reason)| json!({ "index": index, "reason": reason })).collect();
                }
                let is_nothing = taken == 0 && refused > 0;
                if is_nothing {
                    said["error"] = "no record of the body can be taken".into();
                }
                Answer { status: if is_nothing { 400 } else { 200 }, media: JSON, body: line(&said.to_string()) }
            }
            Reply::Otlp(form, reasons) => {
                let reason = reasons.first().map(|(index, reason)| format!("record {index}: {reason}"));
                let body = form.response(refused, &reason.unwrap_or_default());
                Answer { status: 200, media: Some(form.media()), body }
            }
            Reply::Loki => Answer { status: 204, media: None, body: Vec::new() },
            Reply::Bulk(items) => {
                let (took, errors, items) = (took.as_millis(), items.has_errors(), items.to_json());
                let body = format!("{{\"took\":{took},\"errors\":{errors},\"items\":[{items}]}}");
                Answer { status: 200, media: JSON, body: body.into_bytes() }
            }
            Reply::Journal => Answer { status: 200, media: Some("text/plain"), body: b"OK.\n".to_vec() },
        }
    }
}

/// The answer that a request gets which is not taken; `media` is its content type.
pub fn refused(endpoint: Endpoint, media: &str, refusal: &Refusal) -> Answer {
    let (status, reason) = (refusal.status(), refusal.to_string());
    let (media, body) = match endpoint {
        Endpoint::Otlp => {
            let form = OtlpFormat::read(media).unwrap_or(OtlpFormat::Json);
            // Of `google.rpc.Code`: UNAVAILABLE, or INVALID_ARGUMENT.
            let code = if status == 503 { 14 } else { 3 };
            (form.media(), form.status(code, &reason))
        }
        Endpoint::Bulk => {
            let kind = if status == 503 { "es_rejected_execution_exception" } else { "illegal_argument_exception" };
            ("application/json", elastic::error(status, kind, &reason).into_bytes())
        }
        Endpoint::Ingest | Endpoint::Loki | Endpoint::Journal => {
            let mut said = json!({ "error": reason });
            if let Refusal::Bad { index: Some(index), .. } = refusal {
                said["index"] = (*index).into();
            }
            ("application/json", line(&said.to_string()))
        }
    };
    Answer { status, media: Some(media), body }
}

fn line(text: &str) -> Vec<u8> {
    format!("{text}\n").into_bytes()
}
