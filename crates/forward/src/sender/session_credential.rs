//! The credential of a session: the one that the receiver knows, a new one before that is old, or one by a code.
//!
//! ```text
//! host                                             receiver
//! credentials: the current one, …        ─ hello ─►  knows one of them, says whether it is old
//! keeps the next one                     ─ renew ─►  both are good
//! the next one becomes the current one   ─ hello ─►  the one before ends
//! ```
//!
//! Whatever fails on the way to a new credential is not a reason to stop forwarding with the one that is good: it is
//! tried again with a later hello.

use super::{SessionEnd, Work};
use crate::client::{ClientError, ReceiverClient};
use crate::credentials::{ForwardCredential, KeptCredentials};
use crate::protocol::{HelloAnswer, RenewRequest};
use daytable_store::forward::reader::ForwardReader;
use tokio::runtime::Runtime;

/// What a session shows.
pub(super) struct SessionCredential {
    pub(super) client: ReceiverClient,
    /// `None` of a host that shows a certificate.
    kept: Option<(ForwardCredential, KeptCredentials)>,
}

impl SessionCredential {
    /// Whether somebody put another credential into the file.
    pub(super) fn has_file_changed(&self) -> bool {
        self.kept.as_ref().is_some_and(|(_, kept)| kept.has_file_changed())
    }
}

impl Work {
    /// Says hello with each credential until the receiver knows one. A host with none joins by its code.
    pub(super) fn greet(
        &mut self,
        runtime: &Runtime,
        reader: &ForwardReader,
    ) -> Result<(SessionCredential, HelloAnswer), SessionEnd> {
        let stranger = ReceiverClient::without_credential(&self.options)?;
        if self.options.shows_certificate_alone() {
            let answer = self.hello(runtime, &stranger, reader)?;
            return Ok((SessionCredential { client: stranger, kept: None }, answer));
        }
        let mut kept = KeptCredentials::read(&self.options, &self.data_dir);
        let mut refusal = None;
        for credential in kept.candidates() {
            let client = stranger.with_credential(&credential)?;
            match self.hello(runtime, &client, reader) {
                Err(SessionEnd::Client(error)) if error.is_unknown_credential() => drop(refusal.get_or_insert(error)),
                answer => {
                    let answer = answer?;
                    if let Err(error) = kept.accept(&credential) {
                        tracing::warn!(to = self.options.to, %error, "failed to note which credential the receiver knows");
                    }
                    return Ok((SessionCredential { client, kept: Some((credential, kept)) }, answer));
                }
            }
        }
        let Some(mut enrolment) = self.enrolment.take() else {
            return Err(refusal.unwrap_or_else(|| ClientError::Options(kept.problem())).into());
        };
        let joined = match kept.prepare_next() {
            Ok(next) => self.request(runtime, enrolment.join(&stranger, &next)),
            Err(error) => Err(error.into()),
        };
        self.enrolment = Some(enrolment);
        let credential = joined?;
        daytable_platform::failpoint!("forward-enrolled");
        tracing::info!(to = self.options.to, "this host joined by its code");
        kept.replace(None, &credential)?;
        let client = stranger.with_credential(&credential)?;
        let answer = self.hello(runtime, &client, reader)?;
        Ok((SessionCredential { client, kept: Some((credential, kept)) }, answer))
    }

    /// Replaces the credential, if the receiver said that it is old.
    pub(super) fn renew(
        &mut self,
        runtime: &Runtime,
        shown: &mut SessionCredential,
        (reader, is_old): (&ForwardReader, bool),
    ) -> Result<(), SessionEnd> {
        let Some((credential, kept)) = shown.kept.as_mut().filter(|_| is_old) else { return Ok(()) };
        let failed = |error: &dyn std::fmt::Display| {
            tracing::warn!(to = self.options.to, %error, "failed to replace the credential, which is tried again; the one before stays good");
            Ok(())
        };
        let next = match kept.prepare_next() {
            Ok(next) => next,
            Err(error) => return failed(&error),
        };
        let (origin, instance, hash) = (self.origin, self.process.instance, next.hash());
        match self.request(runtime, shown.client.renew(&RenewRequest { origin, instance, credential: hash })) {
            Ok(_) => {}
            Err(SessionEnd::Client(error)) => return failed(&error),
            Err(end) => return Err(end),
        }
        daytable_platform::failpoint!("forward-renewal-answered");
        if let Err(error) = kept.replace(Some(credential), &next) {
            return failed(&error);
        }
        shown.client = shown.client.with_credential(&next)?;
        *credential = next;
        // From here on, the one before is of no use to whoever has it.
        self.hello(runtime, &shown.client, reader)?;
        tracing::info!(to = self.options.to, "the credential was replaced by a new one");
        Ok(())
    }
}
