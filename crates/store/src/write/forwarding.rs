//! Requests of forwarding to the committer, of a sender and of a receiver.

use crate::StoreError;
use crate::format::catalog::hosts::{HostNote, Invitation, JoinRefusal, OriginBinding, SecretHash};
use crate::format::catalog::table_bounds::TableBounds;
use crate::forward::position::{FolderOrigin, ForwardPosition};
use crate::write::commit::{CommitQueue, CommitStep};

/// Sends requests of forwarding to the committer. Cheap to clone.
#[derive(Clone)]
pub struct ForwardSteps {
    pub(crate) queue: CommitQueue,
}

impl ForwardSteps {
    /// Sets the receivers by their names. What one of them lacks stays in its pages from now on.
    pub fn set_targets(&self, names: Vec<String>) -> Result<(), StoreError> {
        self.queue.take(|answer| CommitStep::SetForwardTargets(names, answer))
    }

    /// Records how far a receiver has the commits.
    pub fn note_forwarded(&self, name: &str, position: ForwardPosition) -> Result<(), StoreError> {
        self.queue.take(|answer| CommitStep::NoteForwarded(name.to_owned(), position, answer))
    }

    /// Gives the folder another origin: it is a copy of one that goes on elsewhere.
    pub fn renew_origin(&self) -> Result<FolderOrigin, StoreError> {
        self.queue.take(CommitStep::RenewOrigin)
    }

    /// Adds an invitation.
    pub fn invite(&self, invitation: Invitation) -> Result<(), StoreError> {
        self.queue.take(|answer| CommitStep::Invite(invitation, answer))
    }

    /// Trades a code for a credential, and returns the name of the host.
    pub fn join(
        &self,
        code: SecretHash,
        name: Option<String>,
        credential: SecretHash,
    ) -> Result<Result<String, JoinRefusal>, StoreError> {
        self.queue.take(|answer| CommitStep::Join(code, name, credential, answer))
    }

    /// Binds a credential to the origin that shows it first. Returns whether it is bound to this one.
    pub fn bind_origin(
        &self,
        credential: SecretHash,
        origin: FolderOrigin,
        may_rename: bool,
    ) -> Result<OriginBinding, StoreError> {
        self.queue.take(|answer| CommitStep::BindOrigin(credential, origin, may_rename, answer))
    }

    /// Makes a credential the successor of `old`, which has to be bound to this origin. Returns whether it is.
    pub fn renew_credential(
        &self,
        (old, origin): (SecretHash, FolderOrigin),
        new: SecretHash,
    ) -> Result<bool, StoreError> {
        self.queue.take(|answer| CommitStep::RenewCredential(old, origin, new, answer))
    }

    /// A successor was used: the others of its origin end. Returns whether it is there.
    pub fn use_successor(&self, credential: SecretHash, origin: FolderOrigin) -> Result<bool, StoreError> {
        self.queue.take(|answer| CommitStep::UseSuccessor(credential, origin, answer))
    }

    /// Makes the credential of a host that shows a certificate, or changes its tables.
    pub fn admit_certificate(
        &self,
        name: String,
        tables: TableBounds,
        credential: SecretHash,
    ) -> Result<Result<(), JoinRefusal>, StoreError> {
        self.queue.take(|answer| CommitStep::AdmitCertificate((name, tables), credential, answer))
    }

    /// Records what is known of hosts that were heard of.
    pub fn note_hosts(&self, notes: Vec<HostNote>) -> Result<(), StoreError> {
        self.queue.take(|answer| CommitStep::NoteHosts(notes, answer))
    }

    /// Ends all credentials of a host. Returns whether there were any.
    pub fn revoke(&self, name: &str) -> Result<bool, StoreError> {
        self.queue.take(|answer| CommitStep::RevokeHost(name.to_owned(), answer))
    }

    /// Ends all credentials of a host, and forgets it. Returns whether there was one.
    pub fn forget(&self, name: &str) -> Result<bool, StoreError> {
        self.queue.take(|answer| CommitStep::ForgetHost(name.to_owned(), answer))
    }
}
