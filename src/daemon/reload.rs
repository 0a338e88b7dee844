//! Reloads of the configuration, on SIGHUP or by `POST /-/reload` (`daytable reload`).
//!
//! 1. The new configuration is read, checked and bound as a whole. If anything fails, the daemon keeps the
//!    configuration that it has, and the error names key, line and fix.
//! 2. The parts change one after the other, against the way of a record: tables and their lifecycle, then the
//!    listeners, then the sources. So no source reads by new rules into parts that still have old ones.
//! 3. Keys that a running daemon cannot change (the data folder, the store) keep their value, and the response names
//!    them.

use super::Daemon;
use super::error::DaemonError;
use super::life::settings;
use super::routing::routes;
use super::tcp_listener::PreparedServer;
use super::verify::Verifying;
use crate::config::{Changes, Config, ConfigError};
use daytable_intake::route::Router;
use daytable_lifecycle::archived_tables;
use daytable_net::inherited::Inherited;
use daytable_platform::lock;
use daytable_query::Archives;
use serde::{Deserialize, Serialize};
use std::sync::mpsc::{self, SyncSender};
use tokio::sync::mpsc::UnboundedSender;

/// The changes of a reload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reloaded {
    /// Keys and blocks that changed.
    pub changed: Vec<String>,
    /// Keys whose new value needs a restart.
    pub needs_restart: Vec<String>,
}

/// Why a configuration is not applied.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReloadError {
    /// The configuration is wrong.
    #[error("the configuration is wrong, the daemon keeps the previous one:\n{0}")]
    Config(#[from] ConfigError),
    /// The configuration cannot be used, for example because a port is in use.
    #[error("{0}; the daemon keeps the previous configuration")]
    Refused(#[from] DaemonError),
    /// A part of the configuration could not be applied.
    #[error("only a part of the configuration was applied, restart the daemon: {0}")]
    Halfway(DaemonError),
    /// The daemon stops.
    #[error("the daemon is stopping")]
    Stopping,
}

/// A request for a reload, whose sender waits for the result.
pub(super) struct ReloadRequest(SyncSender<Result<Reloaded, ReloadError>>);

impl ReloadRequest {
    /// Requests a reload and waits for its result. Blocks, so not for the runtime's thread.
    pub(super) fn send(requests: &UnboundedSender<ReloadRequest>) -> Result<Reloaded, ReloadError> {
        let (sender, result) = mpsc::sync_channel(1);
        requests.send(ReloadRequest(sender)).map_err(|_| ReloadError::Stopping)?;
        result.recv().unwrap_or(Err(ReloadError::Stopping))
    }

    /// Sends the result. The receiver may be dropped.
    pub(super) fn respond(self, result: Result<Reloaded, ReloadError>) {
        let _ = self.0.try_send(result);
    }
}

/// A configuration that is checked and bound. The sources keep their own prepared parts.
struct PreparedReload {
    router: Router,
    server: PreparedServer,
}

impl Daemon {
    /// Reads the configuration again and applies it.
    ///
    /// # Errors
    ///
    /// Why the configuration is unchanged, or, for [`ReloadError::Halfway`], changed in part.
    pub(super) async fn reload(&mut self) -> Result<Reloaded, ReloadError> {
        let result = self.try_reload().await;
        {
            let mut totals = lock(&self.metrics.reloads);
            match result {
                Ok(_) => totals.succeeded += 1,
                Err(_) => totals.failed += 1,
            }
        }
        match &result {
            Ok(Reloaded { changed, needs_restart }) if changed.is_empty() && needs_restart.is_empty() => {
                tracing::info!("the configuration was read again: nothing has changed");
            }
            Ok(Reloaded { changed, needs_restart }) => {
                tracing::info!(changed = changed.join("; "), "the configuration was read again");
                if !needs_restart.is_empty() {
                    tracing::warn!(keys = needs_restart.join("; "), "these keys take effect at a restart");
                }
            }
            Err(error) => {
                tracing::error!(%error, "failed to read the configuration again: the one before stays in effect")
            }
        }
        result
    }

    async fn try_reload(&mut self) -> Result<Reloaded, ReloadError> {
        let load = self.load.clone();
        let loaded = tokio::task::spawn_blocking(move || load()).await;
        let mut config = loaded.map_err(|_| ReloadError::Stopping)??;
        // Keys that need a restart keep their value, so that the next reload names them again.
        let mut changes = Changes::between(&self.config, &mut config);
        let prepared = self.prepare(&config)?;
        let tokens = self.server.changed_tokens(&prepared.server, &self.server_context.tenants.load());
        // A file of another name is named already.
        let is_new = |token: &String| !changes.live.iter().any(|change| token.starts_with(change.as_str()));
        let tokens: Vec<String> = tokens.into_iter().filter(is_new).collect();
        changes.live.extend(tokens);
        self.apply(config, prepared).await.map_err(ReloadError::Halfway)?;
        Ok(Reloaded { changed: changes.live, needs_restart: changes.at_restart })
    }

    fn prepare(&self, config: &Config) -> Result<PreparedReload, DaemonError> {
        let router = self.router.propose(routes(&config.tables));
        let server = self.server.prepare(&config.http, &config.tenants, &router)?;
        lock(&self.sources).prepare(config, &mut Inherited::default())?;
        Ok(PreparedReload { router, server })
    }

    async fn apply(&mut self, config: Config, prepared: PreparedReload) -> Result<(), DaemonError> {
        self.drain_timeout.store(config.drain_timeout);
        config.log.apply();
        if config.tables != self.config.tables {
            prepared.router.publish();
        }
        self.lifecycle.executor.reach(config.archives.clone());
        if !matches!(*self.archives.load(), Archives::Lake(_)) {
            self.archives.store(Archives::Read(config.archives.clone()));
        }
        if (&config.tables, &config.lifecycle) != (&self.config.tables, &self.config.lifecycle) {
            self.lifecycle.change(settings(&config));
            // The send fails only if the thread has ended.
            let _ = self.background.settings.send(settings(&config));
        }
        // Sent also where nothing of it changed: who reloads may have mended what it failed for.
        let _ = self.background.publish_orders.send(archived_tables(&settings(&config).rules));
        self.verifying.store(Verifying::of(&config));
        self.alerts.change(&config);
        self.reading.store(config.reading());
        self.tails.store(config.sources.tails.clone());
        self.saved_queries.store(config.saved_queries.clone());
        self.server.apply(&config.http, prepared.server, &self.server_context, &self.push, &mut self.servers);
        self.places.store(super::forwarding::places(&config.tables));
        self.forwarding_view.change(&config.hosts);
        self.server_context.silent_after.store(config.hosts.silent_after);
        let applied = self.apply_sources(&config).await;
        let (forwarding, forwarded) = (self.forwarding.clone(), config.clone());
        let forwarded = tokio::task::spawn_blocking(move || forwarding.apply(&forwarded)).await;
        self.config = config;
        applied?;
        forwarded.map_err(|_| DaemonError::Died)?.map_err(DaemonError::Store)
    }

    /// Starts the sources that waited for the bucket plan.
    pub(super) async fn start_waiting_sources(&mut self) -> Result<(), DaemonError> {
        let config = self.config.clone();
        lock(&self.sources).prepare(&config, &mut Inherited::default())?;
        self.apply_sources(&config).await
    }

    async fn apply_sources(&self, config: &Config) -> Result<(), DaemonError> {
        let (sources, config, context) = (self.sources.clone(), config.clone(), self.source_context.clone());
        let applied = tokio::task::spawn_blocking(move || lock(&sources).apply(&config, &context)).await;
        applied.unwrap_or(Err(DaemonError::Died))
    }
}
