//! A host joins by itself: it has no credential that the receiver knows, and a file with a code of `daytable hosts enrol`.
//!
//! A code that was refused is not tried again until its file has another one, or ten minutes passed: many hosts with an old code
//! must not use up the wrong codes that a receiver takes in a minute.

use crate::client::{ClientError, ReceiverClient};
use crate::credentials::{ForwardCredential, read_word};
use crate::protocol::JoinRequest;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long a code that was refused is not tried again.
const REFUSED_FOR: Duration = Duration::from_secs(600);

/// The way of a host to a credential.
pub(crate) struct Enrolment {
    code_file: PathBuf,
    /// The name of this host.
    host: String,
    refused: Option<(ForwardCredential, ClientError, Instant)>,
}

impl Enrolment {
    pub(crate) fn new(code_file: PathBuf, host: String) -> Enrolment {
        Enrolment { code_file, host, refused: None }
    }

    /// Trades the code for a credential: this one, or one that a receiver of an earlier version made. A repeat gives no second one.
    pub(crate) async fn join(
        &mut self,
        client: &ReceiverClient,
        credential: &ForwardCredential,
    ) -> Result<ForwardCredential, ClientError> {
        let code = read_word(&self.code_file).map_err(ClientError::Options)?;
        if let Some((refused, error, at)) = &self.refused
            && *refused == code
            && at.elapsed() < REFUSED_FOR
        {
            return Err(error.clone());
        }
        let request = JoinRequest {
            code: code.word().to_owned(),
            name: Some(self.host.clone()),
            credential: Some(credential.hash()),
        };
        match client.join(&request).await {
            Ok(answer) => {
                self.refused = None;
                Ok(ForwardCredential::new(&answer.credential).unwrap_or_else(|| credential.clone()))
            }
            Err(error) => {
                if matches!(error, ClientError::Refused { status: 403, .. }) {
                    self.refused = Some((code, error.clone(), Instant::now()));
                }
                Err(error)
            }
        }
    }
}
