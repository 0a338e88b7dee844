//! The parts put together: opened, started, watched, drained and closed.
//!
//! The order of the start is that of a record backwards: the store first, then the listeners, then the sources, so that
//! nothing is read that cannot be kept. The order of the stop is that of a record: sources stop after the submission
//! they are at, then the store commits what waits and closes. Nothing is lost by a stop that is cut short: a position
//! moves only with the commit that holds its rows.
//!
//! * `answers`: what the routes of [`crate::http`] answer, from a pool of readers.
//! * `observe`: what is counted elsewhere, brought to [`crate::metrics`].
//! * `watchdog`: whether the commit loop goes round, and what the service manager hears of it.

mod answers;
mod observe;
mod watchdog;

use crate::config::{Config, Listen, TableConfig, When};
use crate::fair::Present;
use crate::http::{self, BindError, Door, Gate, GateError, Limits, Listener, Readiness, Shared, Token, TokenError};
use crate::lifecycle::Lifecycle;
use crate::metrics::{Metrics, raise_to};
use crate::push::Push;
use crate::route::{Condition, Route, Router};
use crate::store::{Store, StoreError};
use crate::syslog::{self, ListenError, SyslogHandle};
use crate::tail::{TailCounters, TailHandle, TailOptions, Tailer};
use crate::tls::TlsError;
use answers::Readers;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// How often it is looked whether the sources are still there.
const LOOK: Duration = Duration::from_secs(1);

/// Why the daemon ended, or did not start.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The data folder cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A listener cannot be bound.
    #[error("failed to listen: {0}")]
    Bind(#[from] BindError),
    /// A listener for syslog cannot be bound.
    #[error("failed to take syslog: {0}")]
    Syslog(#[from] ListenError),
    /// The token that the configuration names cannot be read.
    #[error("failed to read http.token_file: {0}")]
    Token(#[from] TokenError),
    /// Nobody, or not the right ones, could be asked who they are that push.
    #[error("failed to say who may push: {0}")]
    Gate(#[from] GateError),
    /// The certificates of the listener cannot be used.
    #[error("failed to read http.tls: {0}")]
    Tls(#[from] TlsError),
    /// A thread cannot be started, or a signal not be caught.
    #[error("failed to start: {0}")]
    Start(#[from] std::io::Error),
    /// A thread ended that was needed still.
    #[error("the commit, the tail or a listener's thread ended by a fault: files are read again at the next start")]
    Died,
}

/// Runs until SIGTERM or SIGINT, then drains.
///
/// # Errors
///
/// Whatever keeps it from starting, or a store that is not whole at its end.
pub fn run(config: Config) -> Result<(), DaemonError> {
    raise_descriptor_limit();
    let token = config.http.token_file.as_deref().map(Token::read).transpose()?;
    let metrics = Arc::new(Metrics::new());
    let router = router(&config.tables);
    // Before the folder is touched: a configuration that cannot be run with changes nothing.
    let gate = Arc::new(Gate::new(&config.http, &router, metrics.clone())?);
    let readiness = Arc::new(Readiness::default());
    let store = Store::open(&config.data_dir, observe::store_options(&config, &metrics, &readiness))?;
    readiness.store_open(true);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(serve(
        config,
        router,
        Door::Tcp { reading: token, pushing: gate },
        metrics,
        readiness,
        &store,
    ));
    // Whatever kept it from serving, what was taken is committed.
    let closed = store.close();
    runtime.shutdown_background();
    ended?;
    Ok(closed?)
}

async fn serve(
    config: Config,
    router: Router,
    door: Door,
    metrics: Arc<Metrics>,
    readiness: Arc<Readiness>,
    store: &Store,
) -> Result<(), DaemonError> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let mut hang_up = signal(SignalKind::hangup())?;
    let tails: Vec<TailOptions> = config.tails.iter().map(TailOptions::from).collect();
    let counters = Arc::new(TailCounters::new(tails.iter().map(|tail| tail.name.as_str())));

    let connections = config.http.connections_max.get().into();
    let limits = Limits { connections, present: Present::new(config.http.per_sender), ..Limits::default() };
    let readers = Readers::new(config.data_dir.clone());
    let api = answers::api(&readers, store, router.clone(), config.reading());
    let shared = Shared::new(api, metrics.clone(), readiness.clone(), limits.clone());
    let mut listeners = vec![(Listener::unix(&config.data_dir.join("control.sock"))?, Door::Unix)];
    if let Listen::Tcp(address) = config.http.listen {
        let mut listener = Listener::tcp(&address.to_string()).await?;
        let address = listener.tcp_address().unwrap_or(address);
        if let Some(tls) = config.http.tls.clone() {
            listener = listener.with_tls(tls, metrics.clone())?;
        }
        tracing::info!(%address, tls = config.http.tls.is_some(), "listening");
        let present = limits.present.clone();
        metrics.on_scrape(Box::new(move |metrics| {
            raise_to(&metrics.connections_refused.with_label_values(&["http", "per_sender"]), present.refused());
        }));
        listeners.push((listener, door));
    }
    let push = Push::new(router.clone(), config.reading(), config.http.limits.clone(), host(), store.intake());
    let push = Arc::new(push);
    let mut servers = tokio::task::JoinSet::new();
    for (listener, door) in listeners {
        servers.spawn(http::serve(
            listener,
            http::router(shared.clone(), door, Some(push.clone())),
            limits.clone(),
            readiness.draining(),
        ));
    }

    let syslog = syslog::listen(&config.syslogs, &router, &host(), &store.intake())?;
    observe::fetch(&metrics, &counters, syslog.counters(), push.clone(), store.intake(), &config);
    let tailer = Tailer::spawn(tails, router, host(), store.intake(), counters.clone())?;
    readiness.listeners_bound();
    let (lifecycle_stop, stopped) = mpsc::channel::<()>();
    let lifecycle = Lifecycle {
        steps: store.steps(),
        rules: config.tables.iter().map(|table| table.rule(None)).collect(),
        schedule: config.lifecycle.schedule.clone(),
        limits: config.lifecycle.limits,
        on_run: observe::on_run(&metrics, readers),
    };
    let lifecycle = std::thread::Builder::new().name("lifecycle".into()).spawn(move || lifecycle.work(&stopped))?;
    let watchdog = watchdog::start(store.intake(), counters)?;
    tracing::info!(data = %config.data_dir.display(), "ready");

    let died = loop {
        tokio::select! {
            _ = terminate.recv() => break false,
            _ = interrupt.recv() => break false,
            _ = hang_up.recv() => tracing::warn!("SIGHUP: the configuration is read at start only"),
            () = watchdog.died() => break true,
            () = ended(&tailer, &syslog) => break true,
        }
    };
    tracing::info!("draining");
    watchdog.stop();
    readiness.drain();
    drop(lifecycle_stop);
    let drained = tokio::task::spawn_blocking(move || {
        SyslogHandle::stop(syslog);
        TailHandle::stop(tailer);
        // It ends within a step.
        let _ = lifecycle.join();
    });
    let _ = drained.await;
    while servers.join_next().await.is_some() {}
    if died { Err(DaemonError::Died) } else { Ok(()) }
}

/// Returns once the tailer or a listener has ended, which they do by themselves only by a fault of their own.
async fn ended(tailer: &TailHandle, syslog: &SyslogHandle) {
    while !tailer.is_finished() && !syslog.has_died() {
        tokio::time::sleep(LOOK).await;
    }
}

/// The tables of the configuration as routes.
pub fn router(tables: &[TableConfig]) -> Router {
    let route = |table: &TableConfig| Route {
        table: table.name.clone(),
        window: table.window,
        buckets: table.buckets,
        when: match &table.when {
            None => Condition::Always,
            Some(When::LevelAtMost(level)) => Condition::LevelAtMost(*level),
            Some(When::LevelAtLeast(level)) => Condition::LevelAtLeast(*level),
            Some(When::Instance(pattern)) => Condition::Instance(pattern.clone()),
            Some(When::Source(pattern)) => Condition::Source(pattern.clone()),
        },
    };
    // A configuration has one table at least; the last takes what is left.
    Router::new(tables.iter().map(route).collect())
}

/// This host's name, what `{host}` stands for.
pub fn host() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if name.is_empty() { "localhost".into() } else { name }
}

/// As many descriptors as the system lets us have: thousands of files may be followed.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::debug!(%error, "failed to raise the limit of open files");
    }
}

/// Where a daemon's control socket is.
pub fn control_socket(data_dir: &std::path::Path) -> PathBuf {
    data_dir.join("control.sock")
}
