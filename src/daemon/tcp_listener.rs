//! The HTTP server over TCP, and how a reload changes it.
//!
//! 1. The token and the push authentication change at once, also for open connections.
//! 2. Another address, certificate or number of connections needs a new server. If the address is the same, the new server
//!    gets the socket of the old one, so no client is refused in between. The old server answers its open requests and ends.

use super::DaemonError;
use crate::config::{HttpConfig, Listen, TenantConfig};
use crate::http::{
    self, BindError, HttpCounters, HttpLimits, Listener, ListenerKind, PushAuth, ReadToken, ReadTokenFile,
    ServerContext, Tenants,
};
use daytable_intake::push::Push;
use daytable_intake::route::Router;
use daytable_net::inherited::Inherited;
use daytable_platform::reloadable::Reloadable;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Connections that wait to be accepted. The kernel has a limit of its own, 4,096 by default.
const BACKLOG: i32 = 4096;

/// The HTTP server over TCP.
pub(super) struct TcpServer {
    config: HttpConfig,
    reading: Reloadable<Option<ReadTokenFile>>,
    /// The token when the configuration was read.
    token: Option<ReadToken>,
    pushing: Reloadable<PushAuth>,
    limits: HttpLimits,
    /// Connections that memory has room for, whatever is configured.
    connections_max: usize,
    counters: Arc<HttpCounters>,
    /// A copy of the socket, for the next server.
    socket: Option<TcpListener>,
    /// Drains the running server.
    drain: watch::Sender<bool>,
}

/// A configuration that is checked and bound.
pub(super) struct PreparedServer {
    token: Option<ReadTokenFile>,
    tenants: Tenants,
    auth: PushAuth,
    /// The listener of a new server; `Some(None)` if the configuration has no listener.
    listener: Option<Option<BoundListener>>,
}

struct BoundListener {
    listener: Listener,
    socket: Option<TcpListener>,
}

impl TcpServer {
    /// A server for `config` that does not run yet. It has at most as many connections as `limits`.
    pub(super) fn new(
        config: &HttpConfig,
        router: &Router,
        counters: Arc<HttpCounters>,
        limits: HttpLimits,
    ) -> Result<TcpServer, DaemonError> {
        let token = config.token_file.as_deref().map(ReadTokenFile::open).transpose()?;
        let auth = PushAuth::new(config, router, counters.clone())?;
        Ok(TcpServer {
            config: config.clone(),
            token: token.as_ref().map(ReadTokenFile::token),
            reading: Reloadable::new(token),
            pushing: Reloadable::new(auth),
            connections_max: limits.connections,
            limits: HttpLimits { connections: limits.connections.min(config.connections_max.get().into()), ..limits },
            counters,
            socket: None,
            drain: watch::Sender::new(false),
        })
    }

    /// The limits of the server.
    pub(super) fn limits(&self) -> HttpLimits {
        self.limits.clone()
    }

    /// Binds the port, before the server runs.
    pub(super) fn bind(config: &HttpConfig, inherited: &mut Inherited) -> Result<Option<TcpListener>, BindError> {
        let Listen::Tcp(address) = config.listen else { return Ok(None) };
        let listener = inherited.claim_tcp(address).map_or_else(|| listen_at(address), Ok);
        listener.map(Some).map_err(|source| BindError::Io { at: address.to_string(), source })
    }

    /// Serves a bound port. Within a runtime.
    pub(super) fn serve(
        &mut self,
        port: Option<TcpListener>,
        shared: &Arc<ServerContext>,
        push: &Arc<Push>,
        servers: &mut JoinSet<()>,
    ) -> Result<(), DaemonError> {
        let bound = port.map(|port| self.with_tls(port, &self.config)).transpose()?;
        self.spawn(bound, shared, push, servers);
        Ok(())
    }

    /// Checks and binds a changed configuration, without changing the server. Within a runtime.
    pub(super) fn prepare(
        &self,
        config: &HttpConfig,
        tenants: &[TenantConfig],
        router: &Router,
    ) -> Result<PreparedServer, DaemonError> {
        let tenants = Tenants::new(tenants).map_err(DaemonError::TenantToken)?;
        let token = config.token_file.as_deref().map(ReadTokenFile::open).transpose()?;
        let auth = self.pushing.load().reload(config, router)?;
        let before = &self.config;
        let stays = (&before.listen, &before.tls, before.connections_max, before.per_sender.connections)
            == (&config.listen, &config.tls, config.connections_max, config.per_sender.connections);
        if stays {
            return Ok(PreparedServer { token, tenants, auth, listener: None });
        }
        let Listen::Tcp(address) = config.listen else {
            return Ok(PreparedServer { token, tenants, auth, listener: Some(None) });
        };
        let failed = |source| BindError::Io { at: address.to_string(), source };
        let port = match &self.socket {
            Some(socket) if before.listen == config.listen => socket.try_clone(),
            _ => listen_at(address),
        };
        let bound = self.with_tls(port.map_err(failed)?, config)?;
        Ok(PreparedServer { token, tenants, auth, listener: Some(Some(bound)) })
    }

    /// The files of tokens that have another content than when the configuration was last read. `before` are the tenants at
    /// present.
    pub(super) fn changed_tokens(&self, prepared: &PreparedServer, before: &Tenants) -> Vec<String> {
        let now = prepared.token.as_ref().map(ReadTokenFile::token);
        let own = (self.token.is_some() && now.is_some() && self.token != now)
            .then(|| "http.token_file (its content)".into());
        let tenants = prepared.tenants.with_other_tokens(before).into_iter();
        own.into_iter().chain(tenants.map(|name| format!("tenant {name:?}: token_file (its content)"))).collect()
    }

    /// Applies a prepared configuration.
    pub(super) fn apply(
        &mut self,
        config: &HttpConfig,
        prepared: PreparedServer,
        shared: &Arc<ServerContext>,
        push: &Arc<Push>,
        servers: &mut JoinSet<()>,
    ) {
        self.token = prepared.token.as_ref().map(ReadTokenFile::token);
        self.reading.store(prepared.token);
        shared.tenants.store(prepared.tenants);
        self.pushing.store(prepared.auth);
        self.config = config.clone();
        if let Some(bound) = prepared.listener {
            let peers = self.limits.peers.with_limits(config.per_sender);
            let connections = self.connections_max.min(config.connections_max.get().into());
            self.limits = HttpLimits { connections, peers, ..self.limits.clone() };
            self.drain();
            self.drain = watch::Sender::new(false);
            self.spawn(bound, shared, push, servers);
        }
    }

    /// Makes the server close its listener, answer its open requests, and end.
    pub(super) fn drain(&mut self) {
        self.socket = None;
        self.drain.send_replace(true);
    }

    fn with_tls(&self, port: TcpListener, config: &HttpConfig) -> Result<BoundListener, DaemonError> {
        // Without the copy a reload binds the port again.
        let socket = port.try_clone().ok();
        let listener = Listener::from_std(port)?;
        let listener = match config.tls.clone() {
            Some(tls) => listener.with_tls(tls)?,
            None => listener,
        };
        Ok(BoundListener { listener, socket })
    }

    fn spawn(
        &mut self,
        bound: Option<BoundListener>,
        shared: &Arc<ServerContext>,
        push: &Arc<Push>,
        servers: &mut JoinSet<()>,
    ) {
        shared.sessions().set_page_url(None);
        let Some(BoundListener { listener, socket }) = bound else { return };
        self.socket = socket;
        if let Some(address) = listener.tcp_address() {
            let tls = self.config.tls.is_some();
            tracing::info!(%address, tls, "listening");
            shared.sessions().set_page_url(Some(page_url(address, tls)));
        }
        let kind = ListenerKind::Tcp { reading: self.reading.clone(), pushing: self.pushing.clone() };
        let router = http::router(shared.clone(), kind, Some(push.clone()));
        servers.spawn(http::serve(
            listener,
            router,
            self.limits.clone(),
            self.counters.clone(),
            self.drain.subscribe(),
        ));
    }
}

/// Binds a port where as many connections may wait to be accepted as are served at a time. When many clients connect at once,
/// the kernel resets those that find no room.
fn listen_at(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    rustix::net::listen(&listener, BACKLOG)?;
    Ok(listener)
}

/// Where a browser of this host finds the page. A certificate has a name, so a listener with TLS is found by name.
fn page_url(address: SocketAddr, tls: bool) -> String {
    let port = address.port();
    match (tls, address.ip()) {
        (true, ip) if ip.is_loopback() => format!("https://localhost:{port}"),
        (true, _) => format!("https://{}:{port}", daytable_platform::host::name()),
        (false, ip) if ip.is_unspecified() => format!("http://127.0.0.1:{port}"),
        (false, _) => format!("http://{address}"),
    }
}
