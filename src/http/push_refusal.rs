//! Why a push is refused, and why pushes cannot be authenticated at all.

use crate::config::{ConfigError, PushAccessError};
use axum::http::StatusCode;
use daytable_intake::rate_limit::{LimitKind, Limited};
use daytable_model::path_text::PathText;
use std::path::PathBuf;

/// Why pushes cannot be authenticated.
#[derive(Debug, thiserror::Error)]
pub enum PushAuthError {
    /// The configuration has no credentials although it needs some.
    #[error("[http]: {0}")]
    Access(#[from] PushAccessError),
    /// The file of credentials cannot be used.
    #[error(transparent)]
    File(#[from] ConfigError),
    /// A credential is bound to a table that is not configured.
    #[error("{}: the credential {name:?} is bound to a table that is not configured", .path.escaped())]
    Table {
        /// The file.
        path: PathBuf,
        /// The credential.
        name: String,
    },
}

/// Why a push is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AuthRefusal {
    Off,
    Browser,
    Missing,
    Wrong,
    Limited(Limited),
}

impl AuthRefusal {
    /// All values of the label `reason` in metrics.
    pub(super) const LABELS: [&str; 6] =
        ["off", "browser", "no_credential", "wrong_credential", LimitKind::Rate.label(), LimitKind::Quota.label()];

    /// The value of the label `reason` in metrics.
    pub(super) fn label(self) -> &'static str {
        match self {
            AuthRefusal::Off => "off",
            AuthRefusal::Browser => "browser",
            AuthRefusal::Missing => "no_credential",
            AuthRefusal::Wrong => "wrong_credential",
            AuthRefusal::Limited(limited) => limited.kind.label(),
        }
    }

    /// The status of the response.
    pub(super) fn status(self) -> StatusCode {
        match self {
            AuthRefusal::Off | AuthRefusal::Browser => StatusCode::FORBIDDEN,
            AuthRefusal::Missing | AuthRefusal::Wrong => StatusCode::UNAUTHORIZED,
            AuthRefusal::Limited(_) => StatusCode::TOO_MANY_REQUESTS,
        }
    }
}

impl std::fmt::Display for AuthRefusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            AuthRefusal::Off => f.write_str("pushes over TCP are refused: http.push is \"off\""),
            AuthRefusal::Browser => f.write_str("requests from web pages are refused"),
            AuthRefusal::Missing => f.write_str("pushing needs a credential: the header Authorization is missing"),
            AuthRefusal::Wrong => f.write_str("the credential in the header Authorization is wrong"),
            AuthRefusal::Limited(Limited { kind: LimitKind::Rate, .. }) => {
                f.write_str("this sender exceeded its rate limit, http.per_sender")
            }
            AuthRefusal::Limited(_) => {
                f.write_str("this sender exceeded its bytes of the day, http.per_sender.bytes_per_day")
            }
        }
    }
}
