//! The listener for HTTP over TCP: who may come in, and what becomes of it when the configuration changes.
//!
//! What is asked of clients (the token, the gate) changes at once, for connections that stand as well. Another address,
//! certificate or number of connections takes a new server: it has the socket of the one before where the address is the
//! same, so nobody is refused in between, and that one api the requests that it has and ends.

use super::DaemonError;
use crate::config::{HttpConfig, Listen};
use crate::http::{
    self, BindError, HttpCounters, HttpLimits, Listener, ListenerKind, PushAuth, ReadToken, ServerContext,
};
use daytable_intake::push::Push;
use daytable_intake::route::Router;
use daytable_net::inherited::Inherited;
use daytable_platform::reloadable::Reloadable;
use std::net::TcpListener;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// What the server over TCP is made of.
pub(super) struct TcpServer {
    config: HttpConfig,
    reading: Reloadable<Option<ReadToken>>,
    pushing: Reloadable<PushAuth>,
    limits: HttpLimits,
    counters: Arc<HttpCounters>,
    /// Its socket once more, for the server after it.
    socket: Option<TcpListener>,
    /// Has the server that runs drain.
    drain: watch::Sender<bool>,
}

/// What a configuration asks for, read and bound.
pub(super) struct PreparedServer {
    token: Option<ReadToken>,
    gate: PushAuth,
    /// The listener of a server that is to come in place of the one that runs; `Some(None)` where none is to listen.
    listener: Option<Option<BoundListener>>,
}

struct BoundListener {
    listener: Listener,
    socket: Option<TcpListener>,
}

impl TcpServer {
    /// What `config` asks of clients. Nobody listens yet.
    pub(super) fn new(
        config: &HttpConfig,
        router: &Router,
        counters: Arc<HttpCounters>,
        limits: HttpLimits,
    ) -> Result<TcpServer, DaemonError> {
        let token = config.token_file.as_deref().map(ReadToken::read).transpose()?;
        let gate = PushAuth::new(config, router, counters.clone())?;
        Ok(TcpServer {
            config: config.clone(),
            reading: Reloadable::new(token),
            pushing: Reloadable::new(gate),
            limits,
            counters,
            socket: None,
            drain: watch::Sender::new(false),
        })
    }

    /// What bounds it.
    pub(super) fn limits(&self) -> HttpLimits {
        self.limits.clone()
    }

    /// Binds the port, before there is anybody to serve it.
    pub(super) fn bind(config: &HttpConfig, inherited: &mut Inherited) -> Result<Option<TcpListener>, BindError> {
        let Listen::Tcp(address) = config.listen else { return Ok(None) };
        let listener = inherited.claim_tcp(address).map_or_else(|| TcpListener::bind(address), Ok);
        listener.map(Some).map_err(|source| BindError::Io { at: address.to_string(), source })
    }

    /// Serves a port that was bound. Within a runtime.
    pub(super) fn serve(
        &mut self,
        port: Option<TcpListener>,
        shared: &Arc<ServerContext>,
        push: &Arc<Push>,
        servers: &mut JoinSet<()>,
    ) -> Result<(), DaemonError> {
        let bound = port.map(|port| self.secured(port, &self.config)).transpose()?;
        self.put(bound, shared, push, servers);
        Ok(())
    }

    /// Reads and binds what another configuration asks for; changes nothing. Within a runtime.
    pub(super) fn prepare(&self, config: &HttpConfig, router: &Router) -> Result<PreparedServer, DaemonError> {
        let token = config.token_file.as_deref().map(ReadToken::read).transpose()?;
        let gate = self.pushing.load().reload(config, router)?;
        let before = &self.config;
        let stays = (&before.listen, &before.tls, before.connections_max, before.per_sender.connections)
            == (&config.listen, &config.tls, config.connections_max, config.per_sender.connections);
        if stays {
            return Ok(PreparedServer { token, gate, listener: None });
        }
        let Listen::Tcp(address) = config.listen else {
            return Ok(PreparedServer { token, gate, listener: Some(None) });
        };
        let failed = |source| BindError::Io { at: address.to_string(), source };
        let port = match &self.socket {
            Some(socket) if before.listen == config.listen => socket.try_clone(),
            _ => TcpListener::bind(address),
        };
        let bound = self.secured(port.map_err(failed)?, config)?;
        Ok(PreparedServer { token, gate, listener: Some(Some(bound)) })
    }

    /// Does as another configuration asks from now on.
    pub(super) fn apply(
        &mut self,
        config: &HttpConfig,
        prepared: PreparedServer,
        shared: &Arc<ServerContext>,
        push: &Arc<Push>,
        servers: &mut JoinSet<()>,
    ) {
        self.reading.store(prepared.token);
        self.pushing.store(prepared.gate);
        self.config = config.clone();
        if let Some(bound) = prepared.listener {
            let peers = self.limits.peers.with_limits(config.per_sender);
            self.limits = HttpLimits { connections: config.connections_max.get().into(), peers, ..self.limits.clone() };
            self.drain();
            self.drain = watch::Sender::new(false);
            self.put(bound, shared, push, servers);
        }
    }

    /// Has the server close its listener, answer what is asked already, and end.
    pub(super) fn drain(&mut self) {
        self.socket = None;
        self.drain.send_replace(true);
    }

    fn secured(&self, port: TcpListener, config: &HttpConfig) -> Result<BoundListener, DaemonError> {
        // Without another descriptor it serves as well, and a change binds the port anew.
        let socket = port.try_clone().ok();
        let listener = Listener::from_std(port)?;
        let listener = match config.tls.clone() {
            Some(tls) => listener.with_tls(tls)?,
            None => listener,
        };
        Ok(BoundListener { listener, socket })
    }

    fn put(
        &mut self,
        bound: Option<BoundListener>,
        shared: &Arc<ServerContext>,
        push: &Arc<Push>,
        servers: &mut JoinSet<()>,
    ) {
        let Some(BoundListener { listener, socket }) = bound else { return };
        self.socket = socket;
        if let Some(address) = listener.tcp_address() {
            tracing::info!(%address, tls = self.config.tls.is_some(), "listening");
        }
        let door = ListenerKind::Tcp { reading: self.reading.clone(), pushing: self.pushing.clone() };
        let router = http::router(shared.clone(), door, Some(push.clone()));
        servers.spawn(http::serve(
            listener,
            router,
            self.limits.clone(),
            self.counters.clone(),
            self.drain.subscribe(),
        ));
    }
}
