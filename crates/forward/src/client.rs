//! Requests of a host to its receiver.

use crate::credentials::ForwardCredential;
use crate::options::{ForwardOptions, is_plain};
use crate::protocol::{
    COUNTS, CountsAnswer, CountsMessage, ErrorAnswer, HELLO, HelloAnswer, HelloRequest, JOIN, JoinAnswer, JoinRequest,
    MESSAGE_BYTES_MAX, RENEW, ROWS, RenewAnswer, RenewRequest, RowsAnswer,
};
use daytable_net::http_client;
use daytable_platform::error_text::with_causes;
use daytable_store::forward::wire::BodyPieces;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use reqwest::StatusCode;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// Time limits of a connection and of a request.
const CONNECT_MAX: Duration = Duration::from_secs(5);
const REQUEST_MAX: Duration = Duration::from_secs(60);
/// For how long a connection is used again after a request: a receiver ends an idle one after ten seconds.
const IDLE_MAX: Duration = Duration::from_secs(9);
/// Bytes of a file with a certificate.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Bytes of a refusal that is shown.
const REASON_BYTES_MAX: usize = 1000;

/// Why a request has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// The files cannot be used.
    #[error("{0}")]
    Options(String),
    /// The receiver cannot be reached, or did not answer.
    #[error("{0}")]
    Network(String),
    /// The receiver refused.
    #[error("the receiver answers {status}: {reason}")]
    Refused {
        /// The status.
        status: u16,
        /// Its reason.
        reason: String,
        /// When to try again.
        after: Option<Duration>,
    },
    /// The receiver refused a request with records for a table that the credential may not write.
    #[error("the receiver answers 403: {reason}")]
    ForbiddenTable {
        /// The table there.
        table: String,
        /// Its reason.
        reason: String,
    },
}

impl ClientError {
    /// Whether the request does not begin where the receiver is, so the host asks again how far that is.
    pub fn is_misplaced(&self) -> bool {
        matches!(self, ClientError::Refused { status: 409, .. })
    }

    /// Whether the request has more bytes than the receiver takes at once.
    pub fn is_too_large(&self) -> bool {
        matches!(self, ClientError::Refused { status: 413, .. })
    }

    /// Whether the receiver does not know the credential.
    pub fn is_unknown_credential(&self) -> bool {
        matches!(self, ClientError::Refused { status: 401, .. })
    }

    /// Whether a repetition fails, too, until somebody changes something here or at the receiver.
    pub fn is_lasting(&self) -> bool {
        match self {
            ClientError::Refused { status, .. } => matches!(status, 401 | 403 | 404 | 413 | 422 | 426),
            ClientError::ForbiddenTable { .. } | ClientError::Options(_) => true,
            ClientError::Network(_) => false,
        }
    }
}

/// A connection to a receiver.
pub struct ReceiverClient {
    http: reqwest::Client,
    to: String,
    credential: Option<HeaderValue>,
}

impl ReceiverClient {
    /// A client that has no credential yet, or a certificate.
    ///
    /// # Errors
    ///
    /// The files cannot be used, or the address has no TLS.
    pub fn without_credential(options: &ForwardOptions) -> Result<ReceiverClient, ClientError> {
        if is_plain(&options.to) && !options.allow_plain {
            let reason = "records are not sent to another host without TLS: use https, or allow_plain = true";
            return Err(ClientError::Options(reason.into()));
        }
        let http = http_client(options)?;
        Ok(ReceiverClient { http, to: options.to.clone(), credential: None })
    }

    /// The same connections, with a credential.
    ///
    /// # Errors
    ///
    /// The credential has characters that a header cannot contain.
    pub fn with_credential(&self, credential: &ForwardCredential) -> Result<ReceiverClient, ClientError> {
        let value = HeaderValue::from_str(&format!("Bearer {}", credential.word()));
        let mut value = value
            .map_err(|_| ClientError::Options("the credential has characters that a header cannot contain".into()))?;
        value.set_sensitive(true);
        Ok(ReceiverClient { http: self.http.clone(), to: self.to.clone(), credential: Some(value) })
    }

    /// Trades a code for a credential.
    ///
    /// # Errors
    ///
    /// The receiver cannot be reached, or refuses.
    pub async fn join(&self, request: &JoinRequest) -> Result<JoinAnswer, ClientError> {
        self.post(JOIN, "application/json", json(request)).await
    }

    /// Says which folder this is.
    ///
    /// # Errors
    ///
    /// The receiver cannot be reached, or refuses.
    pub async fn hello(&self, request: &HelloRequest) -> Result<HelloAnswer, ClientError> {
        self.post(HELLO, "application/json", json(request)).await
    }

    /// Makes a credential known that is to take the place of the one that this client shows.
    ///
    /// # Errors
    ///
    /// The receiver cannot be reached, or refuses.
    pub async fn renew(&self, request: &RenewRequest) -> Result<RenewAnswer, ClientError> {
        self.post(RENEW, "application/json", json(request)).await
    }

    /// Sends a body with rows.
    ///
    /// # Errors
    ///
    /// The receiver cannot be reached, or refuses.
    pub async fn rows(&self, body: BodyPieces) -> Result<RowsAnswer, ClientError> {
        self.post(ROWS, "application/vnd.daytable.rows", reqwest::Body::wrap(RowsBody(body))).await
    }

    /// Whether the receiver is there and knows the credential. Changes nothing.
    ///
    /// # Errors
    ///
    /// The receiver cannot be reached, or does not know the credential.
    pub async fn probe(&self) -> Result<(), ClientError> {
        // A message without an origin is read only after the credential was found.
        match self.post::<serde_json::Value>(HELLO, "application/json", b"{}".to_vec()).await {
            Ok(_) | Err(ClientError::Refused { status: 422, .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Says which records this host has.
    ///
    /// # Errors
    ///
    /// The receiver cannot be reached, or refuses.
    pub async fn counts(&self, message: &CountsMessage) -> Result<CountsAnswer, ClientError> {
        self.post(COUNTS, "application/json", json(message)).await
    }

    async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        media: &'static str,
        body: impl Into<reqwest::Body>,
    ) -> Result<T, ClientError> {
        let network = |error: &reqwest::Error| ClientError::Network(with_causes(error));
        let mut request = self.http.post(format!("{}{path}", self.to)).header(CONTENT_TYPE, media);
        if let Some(credential) = &self.credential {
            request = request.header(AUTHORIZATION, credential.clone());
        }
        let mut response = request.body(body).send().await.map_err(|error| network(&error))?;
        let status = response.status();
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        let after = header(RETRY_AFTER).and_then(|seconds| seconds.parse().ok()).map(Duration::from_secs);
        let mut answer = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| network(&error))? {
            answer.extend_from_slice(&chunk);
            if answer.len() > MESSAGE_BYTES_MAX {
                return Err(ClientError::Network("the answer is too long to be one of daytable".into()));
            }
        }
        if status.is_success() {
            let unreadable = |error| ClientError::Network(format!("the answer does not come from a daytable: {error}"));
            return serde_json::from_slice(&answer).map_err(unreadable);
        }
        let answered = serde_json::from_slice::<ErrorAnswer>(&answer);
        let table = answered.as_ref().ok().and_then(|answer| answer.table.clone());
        let hint = match status {
            StatusCode::NOT_FOUND => "is the address that of a daytable, and is it as new as this one?",
            _ => status.canonical_reason().unwrap_or("no reason"),
        };
        let mut reason = answered.map_or_else(|_| hint.to_owned(), |answer| answer.error);
        reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX));
        if let Some(table) = table.filter(|_| status == StatusCode::FORBIDDEN) {
            return Err(ClientError::ForbiddenTable { table, reason });
        }
        Err(ClientError::Refused { status: status.as_u16(), reason, after })
    }
}

/// A body that is sent in its pieces.
struct RowsBody(BodyPieces);

impl Body for RowsBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.next().map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.bytes() == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.bytes())
    }
}

/// A client that trusts the authorities of a receiver beside those of the system, and shows the certificate for it.
pub(crate) fn http_client(options: &ForwardOptions) -> Result<reqwest::Client, ClientError> {
    let mut builder = http_client::client(CONNECT_MAX, REQUEST_MAX).pool_idle_timeout(IDLE_MAX);
    if let Some(file) = &options.ca_file {
        builder = http_client::trust(builder, file, FILE_BYTES_MAX).map_err(ClientError::Options)?;
    }
    if let (Some(cert_file), Some(key_file)) = (&options.cert_file, &options.key_file) {
        builder = http_client::show(builder, cert_file, key_file, FILE_BYTES_MAX).map_err(ClientError::Options)?;
    }
    builder.build().map_err(|error| ClientError::Options(with_causes(&error)))
}

fn json(message: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(message).unwrap_or_default()
}
