//! Requests of forwarding to the committer, of a sender and of a receiver.

use crate::StoreError;
use crate::format::catalog::hosts::{Invitation, JoinRefusal, SecretHash};
use crate::forward::position::{FolderOrigin, ForwardPosition};
use crate::write::commit::{CommitQueue, Committer};
use daytable_model::time;

/// Sends requests of forwarding to the committer. Cheap to clone.
#[derive(Clone)]
pub struct ForwardSteps {
    pub(crate) queue: CommitQueue,
}

impl ForwardSteps {
    /// Steps do not depend on waiting rows, so no commit comes before them.
    fn run<T: Send + 'static>(
        &self,
        step: impl FnOnce(&mut Committer) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (answer, answered) = std::sync::mpsc::sync_channel(1);
        let step = Box::new(move |committer: &mut Committer| drop(answer.send(step(committer))));
        self.queue.aside(step).map_err(|_| StoreError::Closed)?;
        answered.recv().unwrap_or(Err(StoreError::Closed))
    }

    /// Sets the receivers by their names. What one of them lacks stays in its pages from now on.
    pub fn set_targets(&self, names: Vec<String>) -> Result<(), StoreError> {
        self.run(move |committer| committer.set_forward_targets(&names))
    }

    /// Records how far a receiver has the commits.
    pub fn note_forwarded(&self, name: &str, position: ForwardPosition) -> Result<(), StoreError> {
        let name = name.to_owned();
        self.run(move |committer| committer.note_forwarded(&name, position))
    }

    /// Gives the folder another origin: it is a copy of one that goes on elsewhere.
    pub fn renew_origin(&self) -> Result<FolderOrigin, StoreError> {
        self.run(Committer::renew_origin)
    }

    /// Adds an invitation.
    pub fn invite(&self, invitation: Invitation) -> Result<(), StoreError> {
        self.run(move |committer| committer.invite(&invitation))
    }

    /// Trades a code for a credential, and returns the name of the host.
    pub fn join(
        &self,
        code: SecretHash,
        name: Option<String>,
        credential: SecretHash,
    ) -> Result<Result<String, JoinRefusal>, StoreError> {
        self.run(move |committer| committer.join_host(&code, name.as_deref(), &credential))
    }

    /// Binds a credential to the origin that shows it first. Returns whether it is bound to this one.
    pub fn bind_origin(&self, credential: SecretHash, origin: FolderOrigin) -> Result<bool, StoreError> {
        self.run(move |committer| committer.catalog().bind_origin(&credential, &origin, time::now()))
    }

    /// Records the report of a host.
    pub fn note_report(&self, origin: FolderOrigin, report: String) -> Result<(), StoreError> {
        self.run(move |committer| committer.catalog().note_report(&origin, &report, time::now()))
    }

    /// Ends all credentials of a host. Returns whether there were any.
    pub fn revoke(&self, name: &str) -> Result<bool, StoreError> {
        let name = name.to_owned();
        self.run(move |committer| committer.catalog().revoke_host(&name))
    }

    /// Ends all credentials of a host, and forgets it. Returns whether there was one.
    pub fn forget(&self, name: &str) -> Result<bool, StoreError> {
        let name = name.to_owned();
        self.run(move |committer| committer.catalog().forget_host(&name))
    }
}
