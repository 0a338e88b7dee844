//! Errors, classified by what the caller can do:
//!
//! | kind | answers | action of a writer |
//! |---|---|---|
//! | [`ErrorKind::Retry`] | no answer, 408, 500, 502, 503, 504 | sends the same bytes again, after a pause |
//! | [`ErrorKind::Throttled`] | 429; 503 `ServerBusy` | the same, and spreads its load |
//! | [`ErrorKind::TableNotFound`] | 404 `TableNotFound` | creates the table, if it is still needed |
//! | [`ErrorKind::TableBeingDeleted`] | 409 | waits at least 40 s, by the documentation of the service |
//! | [`ErrorKind::TableAlreadyExists`] | 409 | continues |
//! | [`ErrorKind::Refused`] | 400 with one of [`REFUSALS`], or any 4xx within a transaction | sets the entity aside, after sending it alone |
//! | [`ErrorKind::EntityAlreadyExists`], [`ErrorKind::NotFound`] | 409, 404 | reads the entity, and decides anew |
//! | [`ErrorKind::PreconditionFailed`] | 412 | reads the entity, and decides anew |
//! | [`ErrorKind::TooLarge`] | 413, `RequestBodyTooLarge`; an answer beyond its bound | sends two halves |
//! | [`ErrorKind::Denied`] | 401, 403 | stops |
//! | [`ErrorKind::Unknown`] | any other answer | waits long |

use std::fmt;
use std::time::Duration;

/// Codes that blame an entity. Other refusals of a request (`InvalidHeaderValue`, for example) are not the fault of an
/// entity. To set entities aside for such a refusal would lose good entities.
pub const REFUSALS: [&str; 13] = [
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
];

/// Maximum characters of a message.
const MESSAGE_CHARS_MAX: usize = 300;

/// Why a request failed. Contains no secret.
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
    /// Send the same request again, after a pause. The request may have been executed.
    Retry {
        /// The minimum pause, if the service requested one.
        after: Option<Duration>,
    },
    /// As [`ErrorKind::Retry`], because of too many requests.
    Throttled {
        /// What is throttled.
        scope: ThrottleScope,
        /// The minimum pause, if the service requested one.
        after: Option<Duration>,
    },
    /// The table does not exist.
    TableNotFound,
    /// A table of this name is being deleted. Create the table again later.
    TableBeingDeleted,
    /// The table exists already.
    TableAlreadyExists,
    /// The entity does not exist.
    NotFound,
    /// The entity to insert exists already, perhaps from an earlier try.
    EntityAlreadyExists {
        /// Index of the entity in the transaction, if the answer has one.
        index: Option<usize>,
    },
    /// The entity has another version than [`super::IfMatch`] names: somebody wrote it since, perhaps an earlier try.
    PreconditionFailed {
        /// Index of the entity in the transaction, if the answer has one.
        index: Option<usize>,
    },
    /// The service rejects the entity permanently.
    Refused {
        /// Which entity of the transaction, where the answer names one. The service may name 0 where no entity is at
        /// fault: send the entity alone before you set it aside.
        index: Option<usize>,
    },
    /// The request or its answer is too large. Half of it may fit.
    TooLarge,
    /// Access is denied: key, signature, clock, address or rights are wrong, or the account is closed.
    Denied,
    /// An unknown answer. The request may have been executed.
    Unknown,
}

/// What is throttled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThrottleScope {
    /// The partition.
    Partition,
    /// The whole account.
    Account,
}

/// The content of a failure answer, in either form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ErrorDetail {
    pub(super) code: String,
    pub(super) message: String,
    /// The failed operation, counted from 0.
    pub(super) index: Option<usize>,
}

/// The minimum pause in the headers of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RetryAfter(pub(super) Option<Duration>);

impl RetryAfter {
    /// Reads a header. Milliseconds, the header of Cosmos DB, take precedence over seconds. Dates do not occur.
    pub(super) fn note(&mut self, name: &str, value: &str) {
        let number = || value.trim().parse::<u64>().ok();
        if name.eq_ignore_ascii_case("x-ms-retry-after-ms") {
            // Cosmos DB sends fractions of milliseconds.
            let whole = value.trim().split('.').next().and_then(|whole| whole.parse().ok());
            self.0 = whole.map(Duration::from_millis).or(self.0);
        } else if name.eq_ignore_ascii_case("retry-after") && self.0.is_none() {
            self.0 = number().map(Duration::from_secs);
        }
    }
}

/// The kind of an answer with `status`. `within`: the status is inside a transaction's answer.
pub(super) fn kind_of(status: u16, fault: &ErrorDetail, after: Option<Duration>, within: bool) -> ErrorKind {
    let index = fault.index;
    match fault.code.as_str() {
        "TableNotFound" => return ErrorKind::TableNotFound,
        "TableBeingDeleted" => return ErrorKind::TableBeingDeleted,
        "TableAlreadyExists" => return ErrorKind::TableAlreadyExists,
        "EntityAlreadyExists" => return ErrorKind::EntityAlreadyExists { index },
        "UpdateConditionNotSatisfied" | "ConditionNotMet" => return ErrorKind::PreconditionFailed { index },
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
        412 => ErrorKind::PreconditionFailed { index },
        413 => ErrorKind::TooLarge,
        404 if fault.code == "ResourceNotFound" || fault.code == "EntityNotFound" => ErrorKind::NotFound,
        400..500 if within => ErrorKind::Refused { index },
        _ => ErrorKind::Unknown,
    }
}

/// The request, for its errors.
#[derive(Clone, Debug)]
pub(super) struct RequestInfo {
    /// The operation, as text after "failed to".
    pub(super) doing: String,
    pub(super) request_id: String,
    pub(super) service_request_id: Option<String>,
}

impl RequestInfo {
    /// The error of an answer that reports a failure.
    pub(super) fn refused(&self, status: u16, fault: ErrorDetail, kind: ErrorKind) -> Error {
        // A gateway's answer does not tell what the service did, and a 503 may come from a gateway.
        let is_unclear =
            matches!(kind, ErrorKind::Retry { .. } | ErrorKind::Unknown | ErrorKind::EntityAlreadyExists { .. });
        let may_have_happened = is_unclear || status == 503;
        self.error(kind, Some(status), fault.code, &fault.message, may_have_happened)
    }

    /// The error of a missing or unreadable answer.
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
        // The service appends the request id and the time on separate lines.
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
    /// What the caller can do.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The code of the service, such as `TableNotFound`; empty without one.
    pub fn code(&self) -> &str {
        &self.0.code
    }

    /// The HTTP status; for a transaction, that of the failed operation. `None` without an answer.
    pub fn status(&self) -> Option<u16> {
        self.0.status
    }

    /// The first line of the message of the service.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The id that this client gave the request.
    pub fn request_id(&self) -> &str {
        &self.0.request_id
    }

    /// The id that the service gave the request, for Microsoft's support.
    pub fn service_request_id(&self) -> Option<&str> {
        self.0.service_request_id.as_deref()
    }

    /// The same error with another kind.
    pub(super) fn of_kind(mut self, kind: ErrorKind) -> Error {
        self.0.kind = kind;
        self
    }

    /// Whether the request may have been executed or may still be executed.
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

    fn fault(code: &str, message: &str) -> ErrorDetail {
        ErrorDetail { code: code.into(), message: message.into(), index: None }
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
            (412, "UpdateConditionNotSatisfied", "", true, ErrorKind::PreconditionFailed { index: None }),
            (412, "", "", false, ErrorKind::PreconditionFailed { index: None }),
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
