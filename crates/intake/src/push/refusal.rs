//! Why a request is not taken, as a whole. A record that is refused alone is none of these.

use std::borrow::Cow;

/// Why nothing of a request was kept. Text reads well as the answer to its sender.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// 400: the body is not what it is said to be.
    #[error("{reason}{}", at(.index))]
    Bad {
        /// What is wrong with it.
        reason: Cow<'static, str>,
        /// The record where that shows, counted from 0.
        index: Option<usize>,
    },
    /// 408: the body was too long in coming.
    #[error("the body did not come within {0} s")]
    Slow(u64),
    /// 413: it is over a limit, which it names.
    #[error("more than {0}")]
    TooLarge(String),
    /// 415: an encoding that is not known here.
    #[error("content-encoding {0:?} is not known here: gzip, zstd, deflate, snappy and identity are")]
    Encoding(String),
    /// 415: a content type that the endpoint does not take.
    #[error("content-type {0:?} is not taken here: {1}")]
    Media(String, &'static str),
    /// 422: the idempotency key came before, with another body.
    #[error("the idempotency key was used before, with another body")]
    OtherBody,
    /// 500: a fault of ours, which is logged.
    #[error("failed by a fault of its own, see the log")]
    Fault,
    /// 503: come again later.
    #[error("{0}")]
    Busy(&'static str),
}

fn at(index: &Option<usize>) -> String {
    index.map(|index| format!(", at record {index}")).unwrap_or_default()
}

impl Refusal {
    /// What is wrong with a body, before any record of it.
    pub fn bad(reason: impl Into<Cow<'static, str>>) -> Refusal {
        Refusal::Bad { reason: reason.into(), index: None }
    }

    /// What is wrong with a body, seen at a record.
    pub fn bad_at(index: usize, reason: impl Into<Cow<'static, str>>) -> Refusal {
        Refusal::Bad { reason: reason.into(), index: Some(index) }
    }

    /// The status that says so.
    pub const fn status(&self) -> u16 {
        match self {
            Refusal::Bad { .. } => 400,
            Refusal::Slow(_) => 408,
            Refusal::TooLarge(_) => 413,
            Refusal::Encoding(_) | Refusal::Media(..) => 415,
            Refusal::OtherBody => 422,
            Refusal::Fault => 500,
            Refusal::Busy(_) => 503,
        }
    }

    /// The label of the metric that counts it.
    pub const fn reason(&self) -> &'static str {
        Refusal::REASONS[self.number()]
    }

    /// Every [`Refusal::reason`].
    pub const REASONS: [&'static str; 7] = ["bad", "slow", "too_large", "media", "other_body", "busy", "fault"];

    pub(super) const fn number(&self) -> usize {
        match self {
            Refusal::Bad { .. } => 0,
            Refusal::Slow(_) => 1,
            Refusal::TooLarge(_) => 2,
            Refusal::Encoding(_) | Refusal::Media(..) => 3,
            Refusal::OtherBody => 4,
            Refusal::Busy(_) => 5,
            Refusal::Fault => 6,
        }
    }
}
