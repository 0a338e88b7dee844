//! Why a request was not done, by what its caller can do about it.
//!
//! What is told apart here, and why:
//!
//! | kind | answers | what a writer does |
//! |---|---|---|
//! | [`ErrorKind::Retry`] | no answer, 408, 500, 502, 503, 504 | sends the same bytes again, after a pause |
//! | [`ErrorKind::Throttled`] | 429; 503 `ServerBusy` | the same, and spreads its load |
//! | [`ErrorKind::TableNotFound`] | 404 `TableNotFound` | creates the table, if it is still wanted |
//! | [`ErrorKind::TableBeingDeleted`] | 409 | waits: 40 s at least, says the service |
//! | [`ErrorKind::TableAlreadyExists`] | 409 | is content |
//! | [`ErrorKind::Refused`] | 400 with one of [`REFUSALS`], or any 4xx within a transaction | sets the entity aside, after asking for it alone |
//! | [`ErrorKind::TooLarge`] | 413, `RequestBodyTooLarge`; an answer beyond its bound | halves |
//! | [`ErrorKind::Denied`] | 401, 403 | stops, and says so |
//! | [`ErrorKind::Unknown`] | all else | waits long, and says so; nothing is set aside for it |

use std::fmt;
use std::time::Duration;

/// Codes that an entity is refused with. A refusal of a whole request that is none of them (`InvalidHeaderValue`, say)
/// is no entity's fault: it would empty an outbox into the dead letters.
pub const REFUSALS: [&str; 14] = [
    "DuplicatePropertiesSpecified",
    "EntityTooLarge",
    "InvalidDuplicateRow",
    "InvalidInput",
    "InvalidValueType",
    "KeyValueTooLarge",
    "OutOfRangeInput",
    "PropertiesNeedValue",
    "PropertyNameInvalid",
    "PropertyNameTooLong",
    "PropertyValueTooLarge",
    "CommandsInBatchActOnDifferentPartitions",
    "TooManyProperties",
    "UpdateConditionNotSatisfied",
];

/// Characters of a message that are kept at most.
const MESSAGE_CHARS_MAX: usize = 300;

/// Why a request was not done. Has nothing secret in it.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<ErrorInner>);

#[derive(Clone, PartialEq, Eq)]
struct ErrorInner {
    kind: ErrorKind,
    doing: String,
    status: Option<u16>,
    code: String,
    message: String,
    request_id: String,
    service_request_id: Option<String>,
    may_have_happened: bool,
}

/// What the caller can do about an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// Send the same again, after a pause. It may have been done.
    Retry {
        /// The least pause, where the service named one.
        after: Option<Duration>,
    },
    /// As [`ErrorKind::Retry`], because there is too much.
    Throttled {
        /// Of what there is too much.
        scope: ThrottleScope,
        /// The least pause, where the service named one.
        after: Option<Duration>,
    },
    /// The table is not there.
    TableNotFound,
    /// A table of this name is being dropped; it can be created again when it is gone.
    TableBeingDeleted,
    /// The table is there already.
    TableAlreadyExists,
    /// What was to be removed is not there.
    NotFound,
    /// What was to be inserted is there already, perhaps by an earlier try.
    EntityAlreadyExists {
        /// Which entity of the transaction, where the answer says so.
        index: Option<usize>,
    },
    /// The service will never take it as it is.
    Refused {
        /// Which entity of the transaction, where the answer says so. The service is known to say 0 for what is no
        /// entity's fault: who sets an entity aside asks for it alone first.
        index: Option<usize>,
    },
    /// The request, or the answer to it, is too large: half of it may not be.
    TooLarge,
    /// Key, signature, clock, address or rights are not in order, or the account is closed.
    Denied,
    /// No answer of this protocol, or none that this client knows. It may have been done.
    Unknown,
}

/// Of what there is too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThrottleScope {
    /// Of the partition.
    Partition,
    /// Of the whole account.
    Account,
}

/// What an answer says of a failure, whatever its form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ServiceError {
    pub(super) code: String,
    pub(super) message: String,
    /// Which operation, counted from 0.
    pub(super) index: Option<usize>,
}

/// The least pause that the headers of an answer name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RetryAfter(pub(super) Option<Duration>);

impl RetryAfter {
    /// Takes note of a header. Milliseconds win over seconds, being Cosmos's own; dates are not used by either service.
    pub(super) fn note(&mut self, name: &str, value: &str) {
        let number = || value.trim().parse::<u64>().ok();
        if name.eq_ignore_ascii_case("x-ms-retry-after-ms") {
            // Cosmos gives fractions of milliseconds as well.
            let whole = value.trim().split('.').next().and_then(|whole| whole.parse().ok());
            self.0 = whole.map(Duration::from_millis).or(self.0);
        } else if name.eq_ignore_ascii_case("retry-after") && self.0.is_none() {
            self.0 = number().map(Duration::from_secs);
        }
    }
}

/// The kind of what was answered with `status`. `within` is whether it stood in a transaction's answer.
pub(super) fn kind_of(status: u16, fault: &ServiceError, after: Option<Duration>, within: bool) -> ErrorKind {
    let index = fault.index;
    match fault.code.as_str() {
        "TableNotFound" => return ErrorKind::TableNotFound,
        "TableBeingDeleted" => return ErrorKind::TableBeingDeleted,
        "TableAlreadyExists" => return ErrorKind::TableAlreadyExists,
        "EntityAlreadyExists" => return ErrorKind::EntityAlreadyExists { index },
        "RequestBodyTooLarge" | "ContentLengthExceeded" => return ErrorKind::TooLarge,
        code if REFUSALS.contains(&code) && (400..500).contains(&status) => return ErrorKind::Refused { index },
        _ => {}
    }
    let scope = if fault.message.contains("account limit") { ThrottleScope::Account } else { ThrottleScope::Partition };
    match status {
        429 => ErrorKind::Throttled { scope, after },
        503 if fault.code == "ServerBusy" => ErrorKind::Throttled { scope, after },
        408 | 500 | 502 | 503 | 504 => ErrorKind::Retry { after },
        401 | 403 => ErrorKind::Denied,
        413 => ErrorKind::TooLarge,
        404 if fault.code == "ResourceNotFound" || fault.code == "EntityNotFound" => ErrorKind::NotFound,
        400..500 if within => ErrorKind::Refused { index },
        _ => ErrorKind::Unknown,
    }
}

/// What a request was, for the errors that come of it.
#[derive(Clone, Debug)]
pub(super) struct RequestInfo {
    /// What reads well after "failed to".
    pub(super) doing: String,
    pub(super) request_id: String,
    pub(super) service_request_id: Option<String>,
}

impl RequestInfo {
    /// An error that was answered.
    pub(super) fn refused(&self, status: u16, fault: ServiceError, kind: ErrorKind) -> Error {
        // What a gateway says is not what the service did, and a 503 may be one's.
        let is_unclear =
            matches!(kind, ErrorKind::Retry { .. } | ErrorKind::Unknown | ErrorKind::EntityAlreadyExists { .. });
        let may_have_happened = is_unclear || status == 503;
        self.error(kind, Some(status), fault.code, &fault.message, may_have_happened)
    }

    /// An error without an answer that could be read.
    pub(super) fn unanswered(
        &self,
        kind: ErrorKind,
        status: Option<u16>,
        message: &str,
        may_have_happened: bool,
    ) -> Error {
        self.error(kind, status, String::new(), message, may_have_happened)
    }

    fn error(
        &self,
        kind: ErrorKind,
        status: Option<u16>,
        code: String,
        message: &str,
        may_have_happened: bool,
    ) -> Error {
        // The service repeats its request's number and the time on lines of their own.
        let line = message.lines().next().unwrap_or_default();
        let printable = |c: char| if c.is_control() { ' ' } else { c };
        Error(Box::new(ErrorInner {
            kind,
            doing: self.doing.clone(),
            status,
            code: code.chars().take(64).map(printable).collect(),
            message: line.chars().take(MESSAGE_CHARS_MAX).map(printable).collect(),
            request_id: self.request_id.clone(),
            service_request_id: self.service_request_id.clone(),
            may_have_happened,
        }))
    }
}

impl Error {
    /// What can be done about it.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The service's code, `TableNotFound` for one; empty where there is none.
    pub fn code(&self) -> &str {
        &self.0.code
    }

    /// The HTTP status, of the part of a transaction's answer that failed where there is one. None without an answer.
    pub fn status(&self) -> Option<u16> {
        self.0.status
    }

    /// What the service says, in its first line.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// What the request was called by this client.
    pub fn request_id(&self) -> &str {
        &self.0.request_id
    }

    /// What the request was called by the service: what its support asks for.
    pub fn service_request_id(&self) -> Option<&str> {
        self.0.service_request_id.as_deref()
    }

    /// The same error as another kind.
    pub(super) fn of_kind(mut self, kind: ErrorKind) -> Error {
        self.0.kind = kind;
        self
    }

    /// Whether what was asked may have been done, or may still be. Else it was not, and will not be.
    pub fn may_have_happened(&self) -> bool {
        self.0.may_have_happened
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ErrorInner { doing, status, code, message, request_id, service_request_id, .. } = &*self.0;
        write!(f, "{doing}: ")?;
        let parts = [status.map(|status| status.to_string()), Some(code.clone()), Some(message.clone())];
        let parts: Vec<String> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
        write!(f, "{} (request {request_id}", parts.join(" "))?;
        match service_request_id {
            Some(id) => write!(f, ", the service's {id})"),
            None => f.write_str(")"),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(code: &str, message: &str) -> ServiceError {
        ServiceError { code: code.into(), message: message.into(), index: None }
    }

    #[test]
    fn kinds() {
        let after = Some(Duration::from_secs(7));
        for (status, code, message, within, kind) in [
            (
                503,
                "ServerBusy",
                "The server is busy.",
                false,
                ErrorKind::Throttled { scope: ThrottleScope::Partition, after },
            ),
            (
                503,
                "ServerBusy",
                "Operations per second is over the account limit.",
                true,
                ErrorKind::Throttled { scope: ThrottleScope::Account, after },
            ),
            (503, "", "", false, ErrorKind::Retry { after }),
            (429, "TooManyRequests", "", false, ErrorKind::Throttled { scope: ThrottleScope::Partition, after }),
            (500, "OperationTimedOut", "", true, ErrorKind::Retry { after }),
            (500, "InternalError", "", false, ErrorKind::Retry { after }),
            (404, "TableNotFound", "", true, ErrorKind::TableNotFound),
            (404, "ResourceNotFound", "", false, ErrorKind::NotFound),
            (404, "", "<html>", false, ErrorKind::Unknown),
            (409, "TableBeingDeleted", "", false, ErrorKind::TableBeingDeleted),
            (409, "TableAlreadyExists", "", false, ErrorKind::TableAlreadyExists),
            (409, "EntityAlreadyExists", "", true, ErrorKind::EntityAlreadyExists { index: None }),
            (400, "PropertyValueTooLarge", "", true, ErrorKind::Refused { index: None }),
            (400, "NewCodeOfNextYear", "", true, ErrorKind::Refused { index: None }),
            (400, "InvalidHeaderValue", "", false, ErrorKind::Unknown),
            (415, "AtomFormatNotSupported", "", false, ErrorKind::Unknown),
            (413, "RequestBodyTooLarge", "", false, ErrorKind::TooLarge),
            (413, "", "", true, ErrorKind::TooLarge),
            (403, "AuthenticationFailed", "", false, ErrorKind::Denied),
            (403, "", "", false, ErrorKind::Denied),
            (302, "", "", false, ErrorKind::Unknown),
        ] {
            assert_eq!(kind_of(status, &fault(code, message), after, within), kind, "{status} {code}");
        }
    }

    #[test]
    fn pauses_that_are_named() {
        let mut after = RetryAfter::default();
        after.note("Retry-After", "3");
        after.note("x-ms-retry-after-ms", "250.5");
        after.note("retry-after", "9");
        assert_eq!(after.0, Some(Duration::from_millis(250)));
        let mut after = RetryAfter::default();
        after.note("retry-after", "Sat, 21 Nov 2026 15:00:00 GMT");
        assert_eq!(after.0, None);
    }

    #[test]
    fn what_is_said() {
        let asked = RequestInfo {
            doing: "create the table Log".into(),
            request_id: "a-1".into(),
            service_request_id: Some("b".into()),
        };
        let said = fault("ServerBusy", "The server is busy.\nRequestId:b\nTime:2026-11-21T00:00:00Z");
        let error = asked.refused(503, said, ErrorKind::Retry { after: None });
        assert_eq!(
            error.to_string(),
            "create the table Log: 503 ServerBusy The server is busy. (request a-1, the service's b)"
        );
        assert!(error.may_have_happened());
        let long = fault("", &"\u{1b}".repeat(1000));
        assert!(asked.refused(400, long, ErrorKind::Unknown).to_string().chars().all(|c| !c.is_control()));
    }
}
