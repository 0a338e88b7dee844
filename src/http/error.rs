//! Why a request fails.

/// The result of a route's code, after its lines.
pub type ApiResult = Result<(), ApiError>;

/// Why a request fails, by what the client can do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// 400: a parameter is wrong; the client must change it.
    #[error("parameter {name}: {reason}")]
    Parameter {
        /// Its name.
        name: String,
        /// The reason.
        reason: String,
    },
    /// 400: the query is wrong, at these bytes.
    #[error("{message}")]
    Query {
        /// The problem, and the expected form.
        message: String,
        /// The first wrong byte.
        from: usize,
        /// The end of the wrong bytes.
        to: usize,
    },
    /// 404: the object does not exist, or was dropped while it was read.
    #[error("{0}")]
    NotFound(String),
    /// 409: the object exists and cannot be used now; the reason says what must change first.
    #[error("{0}")]
    Refused(String),
    /// 413: the request is longer than the limit that the text names.
    #[error("{0}")]
    LongRequest(String),
    /// 422: the answer needs more than its share of memory; the client must ask for less.
    #[error("{0}")]
    TooLarge(String),
    /// 504: the answer takes too long; the client must ask for less.
    #[error("{0}")]
    OutOfTime(String),
    /// 503: the client should try again later.
    #[error("{0}")]
    Busy(String),
    /// 500: a fault of the daemon, which is logged.
    #[error("{0}")]
    Failed(String),
}

impl ApiError {
    /// A wrong parameter.
    pub fn parameter(name: impl Into<String>, reason: impl Into<String>) -> ApiError {
        ApiError::Parameter { name: name.into(), reason: reason.into() }
    }
}
