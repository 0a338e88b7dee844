//! State that all listeners share, and the permissions of a connection by its listener.

use super::HttpLimits;
use super::api::Api;
use super::counters::HttpCounters;
use super::error::ApiError;
use super::push_auth::PushAuth;
use super::read_token::ReadTokenFile;
use super::readiness::Readiness;
use super::scans::Scans;
use super::session::Sessions;
use super::tenants::Tenants;
use crate::config::HostsConfig;
use daytable_forward::intake::ForwardIntake;
use daytable_platform::reloadable::Reloadable;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The listener of a client, and so the client's permissions.
#[derive(Clone)]
pub enum ListenerKind {
    /// TCP: a client needs the token to read, and passes the push authentication to push.
    Tcp {
        /// The token for reading; without a token reading is refused.
        reading: Reloadable<Option<ReadTokenFile>>,
        /// The authentication of pushes.
        pushing: Reloadable<PushAuth>,
    },
    /// The control socket: file permissions decide who can open it, and such a client has all permissions.
    Unix,
    /// The socket of the readers' group: file permissions decide who can open it, and such a client reads everything and
    /// changes nothing.
    Readers,
}

/// State that all listeners share.
pub struct ServerContext {
    pub(super) api: Box<dyn Api>,
    pub(super) limits: HttpLimits,
    pub(super) counters: Arc<HttpCounters>,
    pub(super) readiness: Arc<Readiness>,
    pub(super) sessions: Sessions,
    /// The tenants of the routes of Loki.
    pub tenants: Reloadable<Tenants>,
    /// After how long without a word a host is silent.
    pub silent_after: Reloadable<Duration>,
    /// The receiver of hosts, once the daemon has one.
    pub forward: OnceLock<Arc<ForwardIntake>>,
    pub(super) scans: Scans,
    followers: Arc<Semaphore>,
    imports: Arc<Semaphore>,
    verifications: Arc<Semaphore>,
}

impl ServerContext {
    /// The state for `api`. The limits hold over all listeners together.
    pub fn new(
        api: impl Api,
        counters: Arc<HttpCounters>,
        readiness: Arc<Readiness>,
        limits: HttpLimits,
    ) -> Arc<ServerContext> {
        Arc::new(ServerContext {
            sessions: Sessions::default(),
            tenants: Reloadable::new(Tenants::default()),
            silent_after: Reloadable::new(HostsConfig::default().silent_after),
            forward: OnceLock::new(),
            scans: Scans::new(&limits),
            followers: Arc::new(Semaphore::new(limits.followers)),
            imports: Arc::new(Semaphore::new(1)),
            verifications: Arc::new(Semaphore::new(1)),
            api: Box::new(api),
            limits,
            counters,
            readiness,
        })
    }

    /// The browsers that may read.
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// A permit to follow.
    pub(super) fn follow_permit(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        let permit = self.followers.clone().try_acquire_owned();
        permit.map_err(|_| ApiError::Busy("too many clients follow already".into()))
    }

    /// A permit to import. Imports run one at a time, because two would only share the disk.
    pub(super) fn import_permit(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        let permit = self.imports.clone().try_acquire_owned();
        permit.map_err(|_| ApiError::Busy("another import is running".into()))
    }

    /// A permit to verify. One at a time, because each reads the whole folder.
    pub(super) fn verify_permit(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        let permit = self.verifications.clone().try_acquire_owned();
        permit.map_err(|_| ApiError::Busy("somebody else verifies at present".into()))
    }
}
