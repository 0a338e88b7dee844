//! Parses answers: errors in JSON and XML, and transactions, whose failures are inside a 202.
//!
//! ```text
//! --batchresponse_1                                               HTTP 202, always
//! Content-Type: multipart/mixed; boundary=changesetresponse_2
//!
//! --changesetresponse_2                                           one part per entity; after a failure a single part
//! Content-Type: application/http
//! Content-Transfer-Encoding: binary
//!
//! HTTP/1.1 404 Not Found
//! Content-Type: application/json;odata=minimalmetadata
//!
//! {"odata.error":{"code":"TableNotFound","message":{"lang":"en-US","value":"0:The table specified does not exist.\n…"}}}
//! --changesetresponse_2--
//! --batchresponse_1--
//! ```
//!
//! Lines end in CRLF or LF. A transaction succeeded if the number of successful parts equals the number of entities,
//! with no other part.

use super::ETag;
use super::error::{ErrorDetail, RetryAfter};
use serde::Deserialize;
use std::time::Duration;

/// Maximum boundaries of an answer.
const BOUNDARIES_MAX: usize = 4;

/// The result of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TransactionOutcome {
    /// All operations were executed. The versions of their entities, in their order; a deleted entity has none.
    Done(Vec<Option<ETag>>),
    /// No operation was executed.
    Failed { status: u16, fault: ErrorDetail, after: Option<Duration> },
    /// The answer is unreadable.
    Garbled(&'static str),
}

/// Parses the answer to a transaction of `entities` entities.
pub(super) fn outcome(content_type: &str, body: &[u8], entities: usize) -> TransactionOutcome {
    let text = String::from_utf8_lossy(body);
    let mut reading = MultipartReader {
        text: &text,
        boundaries: Vec::new(),
        at: At::Outside,
        good: Vec::new(),
        good_max: entities + 1,
    };
    if let Some(boundary) = boundary_of(content_type) {
        reading.boundaries.push(boundary.to_owned());
    }
    match reading.read() {
        Some(mut failed) => {
            if let TransactionOutcome::Failed { fault, .. } = &mut failed {
                // In a transaction of one entity, the fault is always that entity's.
                fault.index = fault.index.filter(|index| *index < entities).or((entities == 1).then_some(0));
            }
            failed
        }
        None if reading.good.len() == entities => TransactionOutcome::Done(reading.good),
        None => TransactionOutcome::Garbled("the answer has not as many parts as the transaction has entities"),
    }
}

struct MultipartReader<'a> {
    text: &'a str,
    boundaries: Vec<String>,
    at: At,
    /// The versions that the successful parts name; one more at most than there are entities.
    good: Vec<Option<ETag>>,
    good_max: usize,
}

enum At {
    /// Before the first part, or in a part without an answer.
    Outside,
    /// In the headers of a part.
    Part { is_http: bool },
    /// Before the status line of the inner answer.
    Answer,
    /// In the headers of the inner answer.
    Headers { status: u16, after: RetryAfter, etag: Option<ETag> },
    /// In the body of the inner answer, which begins at `from`.
    Body { status: u16, after: RetryAfter, etag: Option<ETag>, from: usize },
}

impl MultipartReader<'_> {
    /// Reads up to the first failed part.
    fn read(&mut self) -> Option<TransactionOutcome> {
        let mut next = 0;
        for piece in self.text.split_inclusive('\n') {
            let (from, line) = (next, piece.trim_end_matches(['\r', '\n']));
            next += piece.len();
            if self.is_delimiter(line) {
                if let Some(failed) = self.finish(from) {
                    return Some(failed);
                }
                self.at = At::Part { is_http: false };
                continue;
            }
            self.at = match std::mem::replace(&mut self.at, At::Outside) {
                At::Part { is_http } if line.is_empty() => {
                    if is_http {
                        At::Answer
                    } else {
                        At::Outside
                    }
                }
                At::Part { is_http } => At::Part { is_http: self.part_header(line) || is_http },
                At::Answer => match status_of(line) {
                    Some(status) => At::Headers { status, after: RetryAfter::default(), etag: None },
                    None => At::Answer,
                },
                At::Headers { status, after, etag } if line.is_empty() => At::Body { status, after, etag, from: next },
                At::Headers { status, mut after, mut etag } => {
                    if let Some((name, value)) = line.split_once(':') {
                        after.note(name.trim(), value);
                        if name.trim().eq_ignore_ascii_case("etag") {
                            etag = ETag::new(value.trim());
                        }
                    }
                    At::Headers { status, after, etag }
                }
                body_or_outside => body_or_outside,
            };
        }
        self.finish(self.text.len())
    }

    /// Whether a line is a boundary. If no header names the boundary, the first line of that form defines it.
    fn is_delimiter(&mut self, line: &str) -> bool {
        let Some(name) = line.strip_prefix("--") else { return false };
        let name = name.trim_end();
        if self.boundaries.is_empty() && !name.is_empty() {
            self.boundaries.push(name.to_owned());
            return true;
        }
        let is = |boundary: &String| name.strip_prefix(boundary.as_str()).is_some_and(|rest| matches!(rest, "" | "--"));
        self.boundaries.iter().any(is)
    }

    /// Reads a header of a part. Returns whether the part contains an answer.
    fn part_header(&mut self, line: &str) -> bool {
        let Some((name, value)) = line.split_once(':') else { return false };
        if !name.trim().eq_ignore_ascii_case("content-type") {
            return false;
        }
        if let Some(boundary) = boundary_of(value).filter(|_| self.boundaries.len() < BOUNDARIES_MAX) {
            self.boundaries.push(boundary.to_owned());
        }
        value.trim().to_ascii_lowercase().starts_with("application/http")
    }

    /// Ends the current part at `end`.
    fn finish(&mut self, end: usize) -> Option<TransactionOutcome> {
        let (status, after, etag, body) = match &mut self.at {
            At::Headers { status, after, etag } => (*status, *after, etag.take(), ""),
            At::Body { status, after, etag, from } => {
                (*status, *after, etag.take(), self.text.get(*from..end).unwrap_or_default())
            }
            At::Outside | At::Part { .. } | At::Answer => return None,
        };
        if (200..300).contains(&status) {
            if self.good.len() < self.good_max {
                self.good.push(etag);
            }
            return None;
        }
        Some(TransactionOutcome::Failed { status, fault: fault(body), after: after.0 })
    }
}

fn boundary_of(content_type: &str) -> Option<&str> {
    let mut parameters = content_type.split(';').map(str::trim);
    if !parameters.next()?.to_ascii_lowercase().starts_with("multipart/") {
        return None;
    }
    let value = parameters.find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("boundary").then(|| value.trim().trim_matches('"'))
    })?;
    // RFC 2046 allows 70 characters.
    Some(value).filter(|value| !value.is_empty() && value.len() <= 100)
}

/// `HTTP/1.1 204 No Content`
fn status_of(line: &str) -> Option<u16> {
    let rest = line.strip_prefix("HTTP/1.")?;
    rest.split_ascii_whitespace().nth(1)?.parse().ok().filter(|status| (100..600).contains(status))
}

#[derive(Deserialize)]
struct ODataError {
    #[serde(rename = "odata.error")]
    error: ErrorBody,
}

#[derive(Deserialize)]
struct ErrorBody {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: ODataMessage,
}

#[derive(Default, Deserialize)]
struct ODataMessage {
    #[serde(default)]
    value: String,
}

/// Parses the body of an error, in JSON or XML. Any other body gives an empty detail.
pub(super) fn fault(body: &str) -> ErrorDetail {
    let body = body.trim_start_matches('\u{feff}').trim();
    let (code, message) = if let Ok(said) = serde_json::from_str::<ODataError>(body) {
        (said.error.code, said.error.message.value)
    } else {
        (element(body, "code").unwrap_or_default(), element(body, "message").unwrap_or_default())
    };
    // `3:The property value is larger than allowed.`
    let digits = message.bytes().take_while(u8::is_ascii_digit).count();
    let index =
        message.get(..digits).filter(|_| message[digits..].starts_with(':')).and_then(|index| index.parse().ok());
    let message = if index.is_some() { message[digits + 1..].to_owned() } else { message };
    ErrorDetail { code, message, index }
}

/// The text of the first XML element of this name, in any case.
fn element(xml: &str, name: &str) -> Option<String> {
    let is_name = |tag: &str| {
        tag.split(|c: char| c.is_whitespace() || c == '/')
            .next()
            .is_some_and(|tag| tag.rsplit(':').next().is_some_and(|tag| tag.eq_ignore_ascii_case(name)))
    };
    let mut rest = xml.starts_with('<').then_some(xml)?;
    while let Some((_, behind)) = rest.split_once('<') {
        let (tag, content) = behind.split_once('>')?;
        if is_name(tag) {
            let text = content.split('<').next()?;
            return Some(text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&"));
        }
        rest = content;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TYPE: &str = "multipart/mixed; boundary=batchresponse_1";

    /// A transaction's answer in the recorded form of the service.
    fn answer(parts: &[&str], line_end: &str) -> String {
        let mut text =
            String::from("--batchresponse_1\nContent-Type: multipart/mixed; boundary=changesetresponse_2\n\n");
        for part in parts {
            text.push_str(
                "--changesetresponse_2\nContent-Type: application/http\nContent-Transfer-Encoding: binary\n\n",
            );
            text.push_str(part);
        }
        text.push_str("--changesetresponse_2--\n--batchresponse_1--\n");
        text.replace('\n', line_end)
    }

    const GOOD: &str = "HTTP/1.1 204 No Content\nX-Content-Type-ClientOptions: nosniff\nCache-Control: no-cache\n\
        Preference-Applied: return-no-content\nDataServiceVersion: 3.0;\n\
        Location: https://acme.table.core.windows.net/T(PartitionKey='001',RowKey='x')\n\
        DataServiceId: https://acme.table.core.windows.net/T(PartitionKey='001',RowKey='x')\n\
        ETag: W/\"datetime'2021-09-21T00%3A51%3A47.2034398Z'\"\n\n\n";

    fn bad(status: &str, code: &str, message: &str) -> String {
        format!(
            "HTTP/1.1 {status}\nX-Content-Type-ClientOptions: nosniff\nDataServiceVersion: 3.0;\n\
             Content-Type: application/json;odata=minimalmetadata;streaming=true;charset=utf-8\n\n\
             {{\"odata.error\":{{\"code\":\"{code}\",\"message\":{{\"lang\":\"en-US\",\"value\":\"{message}\\nRequestId:a\\nTime:b\"}}}}}}\n"
        )
    }

    #[test]
    fn transactions_that_were_done() {
        for line_end in ["\n", "\r\n"] {
            let text = answer(&[GOOD, GOOD, GOOD], line_end);
            let etag = ETag::new("W/\"datetime'2021-09-21T00%3A51%3A47.2034398Z'\"");
            let done = TransactionOutcome::Done(vec![etag; 3]);
            assert_eq!(outcome(TYPE, text.as_bytes(), 3), done);
            // The boundary is found even if no header names it.
            assert_eq!(outcome("", text.as_bytes(), 3), done);
            assert_eq!(outcome("multipart/mixed; boundary=\"batchresponse_1\"", text.as_bytes(), 3), done);
            for entities in [1, 2, 4, 100] {
                assert!(
                    matches!(outcome(TYPE, text.as_bytes(), entities), TransactionOutcome::Garbled(_)),
                    "{entities}"
                );
            }
        }
    }

    #[test]
    fn transactions_that_failed() {
        for (status, code, message, index) in [
            ("404 Not Found", "TableNotFound", "0:The table specified does not exist.", Some(0)),
            (
                "400 Bad Request",
                "PropertyValueTooLarge",
                "42:The property value exceeds the maximum allowed size (64KB).",
                Some(42),
            ),
            (
                "400 Bad Request",
                "InvalidDuplicateRow",
                "1:The batch request contains multiple changes with same row key.",
                Some(1),
            ),
            (
                "412 Precondition Failed",
                "UpdateConditionNotSatisfied",
                "The update condition specified in the request was not satisfied.",
                None,
            ),
            ("400 Bad Request", "InvalidInput", "99999999999999999999:?", None),
            ("400 Bad Request", "InvalidInput", "100:The batch request operation exceeds the maximum.", None),
        ] {
            for line_end in ["\n", "\r\n"] {
                let text = answer(&[&bad(status, code, message)], line_end);
                let TransactionOutcome::Failed { status: is, fault, after } = outcome(TYPE, text.as_bytes(), 100)
                else {
                    panic!("{text}")
                };
                assert!(status.starts_with(&is.to_string()));
                assert_eq!((fault.code.as_str(), fault.index, after), (code, index, None));
            }
        }
    }

    #[test]
    fn a_transaction_of_one_says_itself_which_entity_it_was() {
        let text = answer(&[&bad("400 Bad Request", "InvalidInput", "Bad.")], "\r\n");
        let TransactionOutcome::Failed { fault, .. } = outcome(TYPE, text.as_bytes(), 1) else { panic!("{text}") };
        assert_eq!(fault.index, Some(0));
    }

    #[test]
    fn throttled_inside_of_the_answer() {
        let part = "HTTP/1.1 429 Too Many Requests\nRetry-After: 1\nx-ms-retry-after-ms: 350\nContent-Type: application/json\n\n\
            {\"odata.error\":{\"code\":\"TooManyRequests\",\"message\":{\"lang\":\"en-us\",\"value\":\"Request rate is large.\"}}}\n";
        let text = answer(&[part], "\r\n");
        let TransactionOutcome::Failed { status, after, .. } = outcome(TYPE, text.as_bytes(), 100) else {
            panic!("{text}")
        };
        assert_eq!((status, after), (429, Some(Duration::from_millis(350))));
    }

    /// The form of Azurite 3.35: no blank line after successful headers, and a general error after a line of its own.
    #[test]
    fn azurites_ways() {
        let good = "--batchresponse_1\r\nContent-Type: multipart/mixed; boundary=changesetresponse_2\r\n\r\n\
            --changesetresponse_2\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
            HTTP/1.1 204 No Content\r\nX-Content-Type-ClientOptions: nosniff\r\nETag: a\r\n\r\n\r\n\
            --changesetresponse_2--\r\n--batchresponse_1--\r\n";
        assert_eq!(outcome(TYPE, good.as_bytes(), 1), TransactionOutcome::Done(vec![ETag::new("a")]));
        let general = "--batchresponse_1\r\nContent-Type: multipart/mixed; boundary=changesetresponse_2\r\n\r\n\
            --changesetresponse_2\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
            changesetresponse_2\r\nHTTP/1.1 400 Bad HttpRequest\r\nContent-Type: application/json\r\n\r\n\
            {\"odata.error\":{\"code\":\"InvalidInput\",\"message\":{\"lang\":\"en-US\",\"value\":\"99:The batch request operation exceeds.\"}}}\r\n\
            --changesetresponse_2--\r\n--batchresponse_1--\r\n";
        assert!(matches!(outcome(TYPE, general.as_bytes(), 101), TransactionOutcome::Failed { status: 400, .. }));
    }

    #[test]
    fn what_is_no_answer_to_a_transaction() {
        for text in
            ["", "{}", "<html>", "--\n--\n", "--a\n\nHTTP/1.1 204 No Content\n\n--a--", "HTTP/1.1 204 No Content\n\n"]
        {
            assert!(matches!(outcome(TYPE, text.as_bytes(), 1), TransactionOutcome::Garbled(_)), "{text:?}");
            assert!(matches!(outcome("", text.as_bytes(), 1), TransactionOutcome::Garbled(_)), "{text:?}");
        }
    }

    #[test]
    fn errors_in_both_forms() {
        for (body, code, message) in [
            (
                "{\"odata.error\":{\"code\":\"TableAlreadyExists\",\"message\":{\"lang\":\"en-US\",\"value\":\"The table specified already exists.\\nRequestId:1\"}}}",
                "TableAlreadyExists",
                "The table specified already exists.\nRequestId:1",
            ),
            (
                "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?>\r\n<Error><Code>AuthenticationFailed</Code><Message>Server failed &amp; &lt;said&gt; so.\nRequestId:1</Message></Error>",
                "AuthenticationFailed",
                "Server failed & <said> so.\nRequestId:1",
            ),
            (
                "<?xml version=\"1.0\" encoding=\"utf-8\" standalone=\"yes\"?>\n<m:error xmlns:m=\"http://schemas.microsoft.com/ado/2007/08/dataservices/metadata\"><m:code>ServerBusy</m:code><m:message xml:lang=\"en-US\">Busy.</m:message></m:error>",
                "ServerBusy",
                "Busy.",
            ),
            ("{\"odata.error\":{\"code\":\"InvalidResourceName\"}}", "InvalidResourceName", ""),
            ("", "", ""),
            ("<html><body>no</body></html>", "", ""),
            ("{\"error\":1}", "", ""),
            ("<", "", ""),
        ] {
            let said = fault(body);
            assert_eq!((said.code.as_str(), said.message.as_str()), (code, message), "{body}");
        }
    }

    proptest! {
        /// No answer panics, and no cut or changed answer reports a success of more entities than it has parts.
        #[test]
        fn any_answer(text in "(--(batchresponse_1|a|)(--)?\r?\n|Content-Type: (multipart/mixed; boundary=a|application/http)\r?\n|\r?\n|HTTP/1.[01] [0-9]{0,4} x\r?\n|Retry-After: 9|\\PC){0,30}", entities in 0usize..4) {
            let _ = fault(&text);
            if let TransactionOutcome::Done(versions) = outcome(TYPE, text.as_bytes(), entities) {
                prop_assert_eq!(versions.len(), entities);
                prop_assert!(text.matches("HTTP/1.").count() >= entities);
            }
        }

        /// No bytes panic.
        #[test]
        fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = outcome(TYPE, &bytes, 1);
        }
    }
}
