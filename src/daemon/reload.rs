//! The configuration is read again, on SIGHUP or when somebody asks (`POST /-/reload`, `daytable reload`).
//!
//! First all of it is read, checked and bound: whatever is wrong is said, with key, line and fix, and the daemon goes on
//! by what it had. Then it is taken over, part by part, in the order in which a record meets them backwards: where records
//! go and how long they stay, what is pushed, then the sources. So no source reads by new rules what goes by old ones.
//!
//! What cannot be changed in a running daemon (the data folder, the store) stays as it is, and is named in the answer.

use super::life::{Lives, settings};
use super::sources::Sources;
use super::tcp_listener;
use super::verify::Verifying;
use super::{Again, DaemonError, routes};
use crate::config::{Changes, Config, ConfigError, StoreKind};
use crate::http::ServerContext;
use crate::metrics::Metrics;
use daytable_intake::push::Push;
use daytable_intake::route::Router;
use daytable_intake::source::SourceContext;
use daytable_lifecycle::Settings;
use daytable_net::inherited::Inherited;
use daytable_parse::Reading;
use daytable_platform::lock;
use daytable_platform::reloadable::Reloadable;
use daytable_query::Archives;
use serde::{Deserialize, Serialize};
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinSet;

/// What a reload did, as it is answered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reloaded {
    /// What has changed, by the names that the configuration has for it.
    pub changed: Vec<String>,
    /// What the next start takes over.
    pub needs_restart: Vec<String>,
}

/// Why a configuration is not taken over.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReloadError {
    /// It is wrong.
    #[error("the configuration is wrong, the daemon goes on by the one before:\n{0}")]
    Config(#[from] ConfigError),
    /// It cannot be run with as things are.
    #[error("{0}; the daemon goes on by the configuration before")]
    Refused(#[from] DaemonError),
    /// A part of it could not be taken over.
    #[error("only a part of the configuration is taken over, restart the daemon: {0}")]
    Halfway(DaemonError),
    /// The daemon stops.
    #[error("the daemon is stopping")]
    Stopping,
}

/// Somebody wants the configuration read again, and waits to hear what came of it.
pub(super) struct ReloadRequest(SyncSender<Result<Reloaded, ReloadError>>);

impl ReloadRequest {
    /// Has it read again, and waits. Not for the runtime's thread.
    pub(super) fn give(orders: &UnboundedSender<ReloadRequest>) -> Result<Reloaded, ReloadError> {
        let (told, hears) = mpsc::sync_channel(1);
        orders.send(ReloadRequest(told)).map_err(|_| ReloadError::Stopping)?;
        hears.recv().unwrap_or(Err(ReloadError::Stopping))
    }

    /// Tells what came of it, where somebody waits still.
    pub(super) fn tell(self, came: Result<Reloaded, ReloadError>) {
        let _ = self.0.try_send(came);
    }
}

/// Everything of a running daemon that goes by the configuration.
pub(super) struct Running {
    pub(super) config: Config,
    pub(super) router: Router,
    pub(super) reading: Reloadable<Reading>,
    pub(super) archives: Reloadable<Archives>,
    pub(super) lives: Lives,
    pub(super) lifecycle: mpsc::Sender<Settings>,
    /// What the verification goes by.
    pub(super) verifying: Reloadable<Verifying>,
    pub(super) front: tcp_listener::TcpServer,
    pub(super) shared: Arc<ServerContext>,
    pub(super) push: Arc<Push>,
    /// On other threads while it changes.
    pub(super) sources: Arc<Mutex<Sources>>,
    pub(super) source_context: SourceContext,
    pub(super) metrics: Arc<Metrics>,
    pub(super) drain_timeout: Reloadable<Duration>,
}

/// The sources; what a panic left behind is stopped as well as it goes.
pub(super) fn locked(sources: &Mutex<Sources>) -> MutexGuard<'_, Sources> {
    sources.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a configuration asks for, read and bound.
struct PreparedReload {
    router: Router,
    front: tcp_listener::PreparedServer,
}

impl Running {
    /// Reads the configuration again, and takes it over.
    ///
    /// # Errors
    ///
    /// Why nothing has changed, or, in the one case that says so, not all.
    pub(super) async fn reload(
        &mut self,
        again: &Arc<Again>,
        servers: &mut JoinSet<()>,
    ) -> Result<Reloaded, ReloadError> {
        let came = self.try_reload(again, servers).await;
        let succeeded = u64::from(came.is_ok());
        let mut reloads = lock(&self.metrics.reloads);
        (reloads.succeeded, reloads.failed) = (reloads.succeeded + succeeded, reloads.failed + 1 - succeeded);
        drop(reloads);
        match &came {
            Ok(Reloaded { changed, needs_restart }) if changed.is_empty() && needs_restart.is_empty() => {
                tracing::info!("the configuration was read again: nothing has changed");
            }
            Ok(Reloaded { changed, needs_restart }) => {
                tracing::info!(changed = changed.join("; "), "the configuration was read again");
                if !needs_restart.is_empty() {
                    tracing::warn!(keys = needs_restart.join("; "), "only a restart takes this over");
                }
            }
            Err(error) => tracing::error!(%error, "failed to read the configuration again"),
        }
        came
    }

    async fn try_reload(&mut self, again: &Arc<Again>, servers: &mut JoinSet<()>) -> Result<Reloaded, ReloadError> {
        let read = again.clone();
        let read = tokio::task::spawn_blocking(move || read()).await;
        let mut config = read.map_err(|_| ReloadError::Stopping)??;
        let changes = Changes::between(&self.config, &config);
        // What stays as it is is told again the next time.
        config.data_dir.clone_from(&self.config.data_dir);
        config.store = self.config.store.clone();
        config.memory_max = self.config.memory_max;
        if config.store.kind == StoreKind::Azure {
            config.tables.clone_from(&self.config.tables);
            config.lifecycle = self.config.lifecycle.clone();
        }
        let prepared = self.prepare(&config)?;
        self.take_over(config, prepared, servers).await.map_err(ReloadError::Halfway)?;
        Ok(Reloaded { changed: changes.live, needs_restart: changes.at_restart })
    }

    fn prepare(&self, config: &Config) -> Result<PreparedReload, DaemonError> {
        let router = self.router.propose(routes(&config.tables));
        let front = self.front.prepare(&config.http, &router)?;
        locked(&self.sources).prepare(config, &mut Inherited::default())?;
        Ok(PreparedReload { router, front })
    }

    async fn take_over(
        &mut self,
        config: Config,
        prepared: PreparedReload,
        servers: &mut JoinSet<()>,
    ) -> Result<(), DaemonError> {
        self.drain_timeout.store(config.drain_timeout);
        crate::log::set_level(config.log.level);
        crate::log::set_format(config.log.format);
        if config.tables != self.config.tables {
            prepared.router.publish();
        }
        self.lives.executor.reach(config.archives.clone());
        self.archives.store(Archives::Read(config.archives.clone()));
        if (&config.tables, &config.lifecycle) != (&self.config.tables, &self.config.lifecycle) {
            self.lives.change(settings(&config));
            // A thread that has ended is noticed elsewhere.
            let _ = self.lifecycle.send(settings(&config));
        }
        self.verifying.store(Verifying::of(&config));
        self.reading.store(config.reading());
        self.front.change(&config.http, prepared.front, &self.shared, &self.push, servers);
        let changed = self.change(&config).await;
        self.config = config;
        changed
    }

    /// Begins with the sources that waited until it was known where their records go.
    pub(super) async fn place_all(&mut self) -> Result<(), DaemonError> {
        let config = self.config.clone();
        locked(&self.sources).prepare(&config, &mut Inherited::default())?;
        self.change(&config).await
    }

    async fn change(&self, config: &Config) -> Result<(), DaemonError> {
        let (sources, config, context) = (self.sources.clone(), config.clone(), self.source_context.clone());
        let changed = tokio::task::spawn_blocking(move || locked(&sources).apply(&config, &context)).await;
        changed.unwrap_or(Err(DaemonError::Died))
    }
}
