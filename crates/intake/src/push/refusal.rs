//! Why a whole request is refused. A single record that is refused is counted and reported, and is no [`Refusal`].

use std::borrow::Cow;

/// Why no record of a request was kept. The text is an answer to the sender.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// 400: the body is malformed.
    #[error("{reason}{}", at(.index))]
    Bad {
        /// The reason.
        reason: Cow<'static, str>,
        /// The index of the record at fault, from 0.
        index: Option<usize>,
    },
    /// 408: the body did not arrive in time.
    #[error("the body did not come within {0} s")]
    Slow(u64),
    /// 413: the request exceeds the limit that the text names.
    #[error("more than {0}")]
    TooLarge(String),
    /// 415: the encoding is unknown.
    #[error("content-encoding {0:?} is not known here: gzip, zstd, deflate, snappy and identity are")]
    Encoding(String),
    /// 415: the endpoint does not accept the content type.
    #[error("content-type {0:?} is not accepted here: {1}")]
    Media(String, &'static str),
    /// 422: the idempotency key was used with another body.
    #[error("the idempotency key was used before, with another body")]
    OtherBody,
    /// 500: daytable has a fault, which is logged.
    #[error("failed with an internal error, see the log")]
    Fault,
    /// 503: the sender must try again later.
    #[error("{0}")]
    Busy(&'static str),
}

fn at(index: &Option<usize>) -> String {
    index.map(|index| format!(", at record {index}")).unwrap_or_default()
}

impl Refusal {
    /// A malformed body, without a record at fault.
    pub fn bad(reason: impl Into<Cow<'static, str>>) -> Refusal {
        Refusal::Bad { reason: reason.into(), index: None }
    }

    /// A malformed body, with the index of the record at fault.
    pub fn bad_at(index: usize, reason: impl Into<Cow<'static, str>>) -> Refusal {
        Refusal::Bad { reason: reason.into(), index: Some(index) }
    }

    /// The HTTP status, and the index in [`Refusal::REASONS`].
    const fn status_and_number(&self) -> (u16, usize) {
        match self {
            Refusal::Bad { .. } => (400, 0),
            Refusal::Slow(_) => (408, 1),
            Refusal::TooLarge(_) => (413, 2),
            Refusal::Encoding(_) | Refusal::Media(..) => (415, 3),
            Refusal::OtherBody => (422, 4),
            Refusal::Busy(_) => (503, 5),
            Refusal::Fault => (500, 6),
        }
    }

    /// The HTTP status.
    pub const fn status(&self) -> u16 {
        self.status_and_number().0
    }

    /// The value of the label `reason` in metrics.
    pub const fn reason(&self) -> &'static str {
        Refusal::REASONS[self.number()]
    }

    /// Every [`Refusal::reason`].
    pub const REASONS: [&'static str; 7] = ["bad", "slow", "too_large", "media", "other_body", "busy", "fault"];

    pub(super) const fn number(&self) -> usize {
        self.status_and_number().1
    }
}

/// Why a decoder stopped.
#[derive(Debug)]
pub(super) enum DecodeError {
    /// The request exceeds a limit.
    Refused(Refusal),
    /// The body is malformed.
    Malformed(String),
}

impl From<Refusal> for DecodeError {
    fn from(refusal: Refusal) -> DecodeError {
        DecodeError::Refused(refusal)
    }
}

impl DecodeError {
    /// The refusal of a body that should be `expected`, at the record with this index.
    pub(super) fn refusal(self, expected: &str, index: usize) -> Refusal {
        match self {
            DecodeError::Refused(refusal) => refusal,
            DecodeError::Malformed(error) => Refusal::bad_at(index, format!("the body is not {expected}: {error}")),
        }
    }
}
