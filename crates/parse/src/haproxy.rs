//! HAProxy's logs of requests and of connections (`option httplog`, `option tcplog`).
//!
//! ```text
//! 10.0.1.2:33317 [06/Feb/2009:12:14:14.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {1wt.eu} {} "GET / HTTP/1.1"
//! 10.0.1.2:33313 [06/Feb/2009:12:12:51.443] fnt bck/srv1 0/0/5007 212 -- 0/0/0/0/3 0/0
//! ```
//!
//! The message is the request, or the whole line where there is none. Usually the line stands in a syslog message. Then
//! the time is that of the message, and the time at which the connection was accepted is the field `accepted`.

use super::access::add_request;
use super::line_scanner::{LineScanner, text};
use super::pairs::typed;
use super::timestamp::{self, TimestampDefaults};
use daytable_model::record::{Field, Record};
use std::borrow::Cow;

/// The times of a request and of a connection, in milliseconds.
const REQUEST_TIMES: [&str; 5] = ["request_ms", "queue_ms", "connect_ms", "response_ms", "total_ms"];
const CONNECTION_TIMES: [&str; 3] = ["queue_ms", "connect_ms", "total_ms"];
const CONNECTIONS: [&str; 5] =
    ["connections", "frontend_connections", "backend_connections", "server_connections", "retries"];
const QUEUES: [&str; 2] = ["server_queue", "backend_queue"];

/// Parses a line; `None` for any other line.
pub(super) fn record<'a>(line: &'a str, defaults: &TimestampDefaults) -> Option<Record<'a>> {
    let (accepted, mut record) = message(line)?;
    let stamp = timestamp::at_start(accepted.as_bytes(), defaults)?;
    record.time = Some(stamp.time);
    record.fields.retain(|field| field.name != "accepted");
    Some(record)
}

/// Parses a message of syslog: the time at which the connection was accepted is a field. Returns that time, too.
pub(super) fn message(line: &str) -> Option<(&str, Record<'_>)> {
    let mut cut = LineScanner::new(line);
    let (client, port) = cut.until(b' ')?.rsplit_once(':')?;
    cut.byte(b'[')?;
    let accepted = cut.until(b']')?;
    let stamp = timestamp::at_start(accepted.as_bytes(), &TimestampDefaults::default())?;
    let is_whole = stamp.length == accepted.len() && !client.is_empty() && is_numbers(port);
    cut.byte(b' ').filter(|()| is_whole)?;
    let frontend = cut.until(b' ')?;
    let (backend, server) = cut.until(b' ')?.split_once('/')?;
    let mut fields = Vec::with_capacity(24);
    fields.extend([text("client", client), field("client_port", port), text("accepted", accepted)]);
    fields.extend([text("frontend", frontend), text("backend", backend), text("server", server)]);
    let times = cut.until(b' ')?;
    let is_request = times.split('/').count() == REQUEST_TIMES.len();
    numbers(if is_request { &REQUEST_TIMES } else { &CONNECTION_TIMES }, times, &mut fields)?;
    if is_request {
        fields.push(field("status", Some(cut.until(b' ')?).filter(|status| is_numbers(status))?));
    }
    fields.push(field("bytes", Some(cut.until(b' ')?).filter(|bytes| is_numbers(bytes))?));
    if is_request {
        for name in ["request_cookie", "response_cookie"] {
            fields.extend(Some(cut.until(b' ')?).filter(|cookie| *cookie != "-").map(|cookie| text(name, cookie)));
        }
    }
    fields.push(text("termination_state", cut.until(b' ')?));
    numbers(&CONNECTIONS, cut.until(b' ')?, &mut fields)?;
    numbers(&QUEUES, cut.word(), &mut fields)?;
    let mut message = line;
    if is_request {
        for name in ["request_headers", "response_headers"] {
            if cut.rest.starts_with(" {") {
                cut.text(" {")?;
                fields.extend(Some(cut.until(b'}')?).filter(|headers| !headers.is_empty()).map(|all| text(name, all)));
            }
        }
        cut.text(" \"")?;
        // A request that is too long, or malformed, has no quote at its end.
        message = cut.rest.strip_suffix('"').unwrap_or(cut.rest);
        add_request(message, &mut fields);
    } else if !cut.rest.is_empty() {
        fields.push(text("extra", cut.rest.trim_start()));
    }
    Some((accepted, Record { time: None, level: None, message: Cow::Borrowed(message), fields, ..Record::default() }))
}

/// Numbers between `/`, one for each name.
fn numbers<'a>(names: &'static [&'static str], word: &'a str, fields: &mut Vec<Field<'a>>) -> Option<()> {
    if word.split('/').count() != names.len() || !word.split('/').all(is_numbers) {
        return None;
    }
    fields.extend(names.iter().zip(word.split('/')).map(|(name, number)| field(name, number)));
    Some(())
}

/// Digits, with a sign: -1 for a time that did not come, `+` for a number that was not final.
fn is_numbers(word: &str) -> bool {
    let digits = word.trim_start_matches(['+', '-']);
    !digits.is_empty() && word.len() - digits.len() < 2 && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn field<'a>(name: &'static str, number: &'a str) -> Field<'a> {
    Field { name: Cow::Borrowed(name), value: typed(number) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daytable_model::record::Value;
    use proptest::prelude::*;

    const REQUEST: &str = r#"10.0.1.2:33317 [06/Feb/2009:12:14:14.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {1wt.eu} {} "GET /index.html HTTP/1.1""#;

    fn shown(line: &str) -> Option<String> {
        let record = record(line, &TimestampDefaults::default())?;
        let value = |field: &Field<'_>| match &field.value {
            Value::String(text) => format!("{}={text}", field.name),
            value => format!("{}={value:?}", field.name),
        };
        let fields: Vec<_> = record.fields.iter().map(value).collect();
        Some(format!("{} {} {}", record.time?, record.message, fields.join(" ")))
    }

    #[test]
    fn requests_and_connections() {
        assert_eq!(
            shown(REQUEST).as_deref(),
            Some(
                "2009-02-06T12:14:14.655Z GET /index.html HTTP/1.1 client=10.0.1.2 client_port=Int64(33317) \
                 frontend=http-in backend=static server=srv1 request_ms=Int64(10) queue_ms=Int64(0) \
                 connect_ms=Int64(30) response_ms=Int64(69) total_ms=Int64(109) status=Int64(200) bytes=Int64(2750) \
                 termination_state=---- connections=Int64(1) frontend_connections=Int64(1) \
                 backend_connections=Int64(1) server_connections=Int64(1) retries=Int64(0) server_queue=Int64(0) \
                 backend_queue=Int64(0) request_headers=1wt.eu method=GET path=/index.html protocol=HTTP/1.1"
            )
        );
        let line = "::1:33313 [06/Feb/2009:12:12:51.443] fnt~ bck/<NOSRV> 0/-1/+5007 212 SC 0/0/0/0/3 0/0";
        assert_eq!(
            shown(line),
            Some(format!(
                "2009-02-06T12:12:51.443Z {line} client=::1 client_port=Int64(33313) frontend=fnt~ backend=bck \
                 server=<NOSRV> queue_ms=Int64(0) connect_ms=Int64(-1) total_ms=+5007 bytes=Int64(212) \
                 termination_state=SC connections=Int64(0) frontend_connections=Int64(0) \
                 backend_connections=Int64(0) server_connections=Int64(0) retries=Int64(3) server_queue=Int64(0) \
                 backend_queue=Int64(0)"
            ))
        );
        let bad = REQUEST.replace("\"GET /index.html HTTP/1.1\"", "\"<BADREQ>\"").replace(" {1wt.eu} {}", "");
        assert!(shown(&bad).is_some_and(|shown| shown.contains(" <BADREQ> ")), "{bad}");
    }

    #[test]
    fn other_lines_are_not_read() {
        for line in [
            "",
            "10.0.1.2:33317 [06/Feb/2009:12:14:14.655] http-in/1: Connection error during SSL handshake",
            "10.0.1.2 [06/Feb/2009:12:14:14.655] fnt bck/srv1 0/0/5007 212 -- 0/0/0/0/3 0/0",
            "10.0.1.2:1 [noon] fnt bck/srv1 0/0/5007 212 -- 0/0/0/0/3 0/0",
            "10.0.1.2:1 [06/Feb/2009:12:14:14.655] fnt bck/srv1 0/0/x 212 -- 0/0/0/0/3 0/0",
            "10.0.1.2:1 [06/Feb/2009:12:14:14.655] fnt bck/srv1 0/0/5007 212 -- 0/0/0/3 0/0",
        ] {
            assert_eq!(shown(line), None, "{line}");
        }
    }

    proptest! {
        /// A cut or changed line is a record or none.
        #[test]
        fn any_change(at in 0..REQUEST.len(), change in "\\PC{0,3}") {
            let _ = shown(&REQUEST[..at]);
            let _ = shown(&format!("{}{change}{}", &REQUEST[..at], &REQUEST[at..]));
        }
    }
}
