//! The requests of every protocol, as clients send them.

use crate::line::{self, Id};
use daytable_model::time::Ticks;

/// A protocol, or a client that speaks a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Ndjson,
    Otlp,
    Bulk,
    Loki,
    Relp,
    /// The command, which has its own retries.
    Curl,
    /// Libraries, which also have their own retries.
    OpenTelemetry,
    Elasticsearch,
}

/// Pushes per cycle: each protocol four times, and curl once, because curl waits a second before a retry.
pub(super) const TURN: u64 = 4 * EACH.len() as u64 + 1;

const EACH: [Protocol; 7] = {
    use Protocol::*;
    [Ndjson, Otlp, Bulk, OpenTelemetry, Loki, Relp, Elasticsearch]
};

impl Protocol {
    /// The protocol of the push with this number.
    pub(super) fn of_push(number: u64) -> Protocol {
        match number % TURN {
            last if last + 1 == TURN => Protocol::Curl,
            nth => EACH[nth as usize % EACH.len()],
        }
    }

    /// Whether the protocol has a place for an idempotency key.
    pub(super) fn takes_keys(self) -> bool {
        self != Protocol::Relp
    }

    /// The name of the library in `program.py`.
    pub(super) fn library(self) -> Option<&'static str> {
        match self {
            Protocol::OpenTelemetry => Some("opentelemetry"),
            Protocol::Elasticsearch => Some("elasticsearch"),
            _ => None,
        }
    }

    /// The bytes that a client sends. For curl the body only. For a library a request of about the same length.
    pub(super) fn request(self, records: &[(Id, Ticks)], key: Option<&str>) -> Vec<u8> {
        let each = |one: &dyn Fn(&str, Ticks) -> String| {
            records.iter().map(|(id, time)| one(&line::message(*id, 20), *time)).collect::<Vec<_>>()
        };
        let nanos = Ticks::unix_nanos;
        let (target, kind, body) = match self {
            Protocol::Ndjson | Protocol::Curl => {
                let lines = records.iter().map(|(id, time)| line::line(*id, &time.to_string(), 20));
                ("/ingest", "application/x-ndjson", lines.collect())
            }
            Protocol::Otlp | Protocol::OpenTelemetry => {
                let records = each(&|text, time| {
                    let nanos = nanos(time);
                    format!(r#"{{"timeUnixNano":"{nanos}","body":{{"stringValue":"{text}"}}}}"#)
                });
                let body =
                    format!(r#"{{"resourceLogs":[{{"scopeLogs":[{{"logRecords":[{}]}}]}}]}}"#, records.join(","));
                ("/v1/logs", "application/json", body)
            }
            Protocol::Bulk | Protocol::Elasticsearch => {
                let items = each(&|text, time| {
                    format!("{{\"create\":{{}}}}\n{{\"@timestamp\":\"{time}\",\"message\":\"{text}\"}}\n")
                });
                ("/elasticsearch/_bulk", "application/x-ndjson", items.concat())
            }
            Protocol::Loki => {
                let values = each(&|text, time| format!(r#"["{}","{text}"]"#, nanos(time)));
                let body = format!(r#"{{"streams":[{{"stream":{{"job":"t"}},"values":[{}]}}]}}"#, values.join(","));
                ("/loki/api/v1/push", "application/json", body)
            }
            Protocol::Relp => return relp(records),
        };
        if self == Protocol::Curl {
            return body.into_bytes();
        }
        let key = key.map(|key| format!("Idempotency-Key: {key}\r\n")).unwrap_or_default();
        let length = body.len();
        format!(
            "POST {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: {kind}\r\n{key}\
             Content-Length: {length}\r\n\r\n{body}"
        )
        .into_bytes()
    }

    /// Whether the received part of the response acknowledges every record.
    pub(super) fn is_taken(self, answer: &[u8]) -> bool {
        let text = String::from_utf8_lossy(answer);
        if self == Protocol::Relp {
            // The answers to the opening and to two messages. Each ends with a newline.
            return ["2 rsp ", "3 rsp "].iter().all(|number| {
                let Some((_, rest)) = text.split_once(&format!("\n{number}")) else { return false };
                rest.split_once(' ').is_some_and(|(length, rest)| {
                    rest.starts_with("200 OK") && length.parse().is_ok_and(|length: usize| rest.len() > length)
                })
            });
        }
        let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
        let head = head.to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok());
        head.starts_with("http/1.1 2") && body.len() >= length.unwrap_or(0)
    }
}

fn relp(records: &[(Id, Ticks)]) -> Vec<u8> {
    let open = "relp_version=0\nrelp_software=torture\ncommands=syslog";
    let mut frames = format!("1 open {} {open}\n", open.len());
    for (number, (id, time)) in (2..).zip(records) {
        let message = format!("<134>1 {time} host app - - - {}", line::message(*id, 20));
        frames += &format!("{number} syslog {} {message}\n", message.len());
    }
    frames.into_bytes()
}
