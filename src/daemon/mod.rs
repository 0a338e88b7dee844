//! The parts put together: opened, started, watched, drained and closed.
//!
//! Listeners are bound before anything else happens. From there the order of the start is that of a record backwards:
//! the store, then who serves the listeners, then the sources, so that nothing is read that cannot be kept. The order of
//! the stop is that of a record: the listeners close first, and what they accepted is committed; other sources stop after
//! the submission they are at, then the store commits what waits and closes. Nothing is lost by a stop that is cut short:
//! a position moves only with the commit that holds its rows.
//!
//! * `afar`: reading a remote store, and the life of its tables.
//! * `answers`: what the routes of [`crate::http`] answer, from a pool of readers.
//! * `life`: what the lifecycle answers.
//! * `listeners`: what is bound.
//! * `observe`: what is counted elsewhere, brought to [`crate::metrics`].
//! * `remote`: who is sent to where there is a remote store.
//! * `watchdog`: whether the commit loop goes round, and what the service manager hears of it.

mod afar;
mod answers;
mod life;
mod listeners;
mod observe;
mod remote;
mod watchdog;

use crate::activation::ActivationError;
use crate::config::{Config, StoreKind, TableConfig};
use crate::fair::Present;
use crate::http::{self, BindError, Door, Gate, GateError, Limits, Listener, Readiness, Shared, Token, TokenError};
use crate::journal::{self, JournalHandle};
use crate::lifecycle::{Board, Hands, Lifecycle};
use crate::metrics::{Metrics, raise_to};
use crate::outbox::{Outbox, OutboxError};
use crate::push::Push;
use crate::query::Archives;
use crate::route::{Condition, Route, Router};
use crate::store::{Onward, Store, StoreError};
use crate::syslog::{ListenError, SyslogHandle};
use crate::tables::TableError;
use crate::tail::{TailCounters, TailHandle, TailOptions, Tailer};
use crate::tls::TlsError;
use afar::{Afar, configured};
use answers::{Behind, Readers};
use life::Lives;
use listeners::Listeners;
use remote::Remote;
pub use remote::{RemoteError, client};
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};

/// How often it is looked whether the sources are still there.
const LOOK: Duration = Duration::from_secs(1);
/// How long a stop waits for the step of a day's life that is under way.
const LIFECYCLE_PATIENCE: Duration = Duration::from_secs(5);

/// How long a stop goes on sending what is in the outbox; the rest stays there.
const SEND_GRACE: Duration = Duration::from_secs(5);

/// Why the daemon ended, or did not start.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The data folder cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The sockets of the service manager are not those of the configuration.
    #[error("failed to listen: {0}")]
    Activation(#[from] ActivationError),
    /// The remote store cannot be read.
    #[error("failed to reach the remote store: {0}")]
    Tables(#[from] TableError),
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
    /// There is no remote store to send to.
    #[error("failed to reach the remote store: {0}")]
    Remote(#[from] RemoteError),
    /// What is to be sent cannot be.
    #[error("failed to send: {0}")]
    Outbox(#[from] OutboxError),
    /// A thread cannot be started, or a signal not be caught.
    #[error("failed to start: {0}")]
    Start(#[from] std::io::Error),
    /// A thread ended that was needed still.
    #[error(
        "the commit, the tail, a journal's or a listener's thread ended by a fault: files are read again at the next start"
    )]
    Died,
}

/// Runs until SIGTERM or SIGINT, then drains.
///
/// # Errors
///
/// Whatever keeps it from starting, or a store that is not whole at its end.
pub fn run(config: Config) -> Result<(), DaemonError> {
    let listeners = Listeners::bind(&config)?;
    raise_descriptor_limit();
    let token = config.http.token_file.as_deref().map(Token::read).transpose()?;
    let metrics = Arc::new(Metrics::new());
    let router = router(&config.tables);
    // Before the folder is touched: a configuration that cannot be run with changes nothing.
    let gate = Arc::new(Gate::new(&config.http, &router, metrics.clone())?);
    let readiness = Arc::new(Readiness::default());
    let remote = Remote::new(&config)?;
    let mut options = observe::store_options(&config, &metrics, &readiness);
    if let Some(remote) = &remote {
        options.onward = Onward::To(remote.options(&config.store.azure)?);
    }
    let store = Store::open(&config.data_dir, options)?;
    readiness.store_open(true);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(serve(
        config,
        listeners,
        router,
        Door::Tcp { reading: token, pushing: gate },
        metrics,
        readiness,
        Destination { store: &store, remote },
    ));
    // Whatever kept it from serving, what was taken is committed.
    let closed = store.close();
    runtime.shutdown_background();
    ended?;
    Ok(closed?)
}

/// Where records go: the store, and what is behind it.
struct Destination<'s> {
    store: &'s Store,
    remote: Option<Remote>,
}

async fn serve(
    config: Config,
    bound: Listeners,
    router: Router,
    door: Door,
    metrics: Arc<Metrics>,
    readiness: Arc<Readiness>,
    Destination { store, remote }: Destination<'_>,
) -> Result<(), DaemonError> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let mut hang_up = signal(SignalKind::hangup())?;
    let tails: Vec<TailOptions> = config.tails.iter().map(TailOptions::from).collect();
    let counters = Arc::new(TailCounters::new(tails.iter().map(|tail| tail.name.as_str())));

    let connections = config.http.connections_max.get().into();
    let limits = Limits { connections, present: Present::new(config.http.per_sender), ..Limits::default() };
    let readers = Readers::new(config.data_dir.clone());
    let board = Arc::new(Board::default());
    let hands = Hands::new(store.steps(), config.data_dir.clone(), config.archives.clone(), board.clone());
    let hands = Arc::new(hands);
    let afar = remote.as_ref().map(|remote| Afar::new(&config, &remote.client, &hands)).transpose()?;
    let lives = Lives::new(&config, hands.clone(), readers.clone(), afar.as_ref().map(|afar| afar.hands.clone()));
    life::fetch(&metrics, &lives);
    let outbox = remote.map(|remote| remote.start(&config, store, &metrics, &readiness)).transpose()?;
    let shown_outbox = outbox.as_ref().map(Outbox::shown);
    let (archives, listeners) = (Archives::Read(config.archives.clone()), bound.syslog.counters());
    let behind = Behind { archives, remote: afar.as_ref().map(|afar| afar.tables.clone()) };
    let shown = answers::Shown { listeners, outbox: shown_outbox.map(|shown| Box::new(shown) as _) };
    let api = answers::api(&readers, lives, store, shown, router.clone(), config.reading(), behind);
    let shared = Shared::new(api, metrics.clone(), readiness.clone(), limits.clone());
    let mut listeners = vec![(Listener::unix(&config.data_dir.join("control.sock"))?, Door::Unix)];
    if let Some(listener) = bound.http {
        let mut listener = Listener::over(listener)?;
        if let Some(tls) = config.http.tls.clone() {
            listener = listener.with_tls(tls, metrics.clone())?;
        }
        if let Some(address) = listener.tcp_address() {
            tracing::info!(%address, tls = config.http.tls.is_some(), "listening");
        }
        let (present, cut) = (limits.present.clone(), limits.cut.clone());
        metrics.on_scrape(Box::new(move |metrics| {
            let refused = |reason| metrics.connections_refused.with_label_values(&["http", reason]);
            raise_to(&refused("per_sender"), present.refused());
            raise_to(&refused("slow"), cut.load(std::sync::atomic::Ordering::Relaxed));
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

    let syslog = bound.syslog.serve(&router, &host(), &store.intake())?;
    let journals = journal::follow(&config.journals, &router, &host(), &store.intake())?;
    let counted = observe::Counted {
        tails: counters.clone(),
        listeners: syslog.counters(),
        journals: journals.counters().to_vec(),
        push: push.clone(),
    };
    observe::fetch(&metrics, counted, store.intake(), &config);
    let tailer = Tailer::spawn(tails, router, host(), store.intake(), counters.clone())?;
    readiness.listeners_bound();
    let (lifecycle_stop, stopped) = mpsc::channel::<()>();
    let lifecycle = Lifecycle {
        hands: hands.clone(),
        data_dir: config.data_dir.clone(),
        rules: remote::local_rules(&config),
        schedule: config.lifecycle.schedule.clone(),
        limits: local_limits(&config),
        also: afar.as_ref().map(|_| configured(&config)).unwrap_or_default(),
        on_run: observe::on_run(&metrics, readers.clone()),
    };
    let (afar_stop, afar_stopped) = mpsc::channel::<()>();
    if let Some(afar) = afar {
        let run = afar.lifecycle(&config, &host(), observe::on_run(&metrics, readers));
        // It may wait for the service for long, and what it leaves half done is what a kill would leave.
        std::thread::Builder::new().name("shared".into()).spawn(move || run.work(afar_stopped))?;
    }
    let lifecycle = std::thread::Builder::new().name("lifecycle".into()).spawn(move || lifecycle.work(stopped))?;
    let watchdog = watchdog::start(store.intake(), counters)?;
    tracing::info!(data = %config.data_dir.display(), "ready");

    let died = loop {
        tokio::select! {
            _ = terminate.recv() => break false,
            _ = interrupt.recv() => break false,
            _ = hang_up.recv() => tracing::warn!("SIGHUP: the configuration is read at start only"),
            () = watchdog.died() => break true,
            () = ended(&tailer, &journals, &syslog, outbox.as_ref()) => break true,
        }
    };
    tracing::info!("draining");
    watchdog.stop();
    readiness.drain();
    store.drain();
    drop((lifecycle_stop, afar_stop));
    hands.stop();
    let drained = tokio::task::spawn_blocking(move || {
        SyslogHandle::stop(syslog);
        JournalHandle::stop(journals);
        TailHandle::stop(tailer);
        // It ends within a step, and a long one within a moment; but for a request that is under way. What a step left
        // half done is what a kill would leave.
        let patience = Instant::now() + LIFECYCLE_PATIENCE;
        while !lifecycle.is_finished() && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    let _ = drained.await;
    while servers.join_next().await.is_some() {}
    if let Some(outbox) = outbox {
        let steps = store.steps();
        let stopped = tokio::task::spawn_blocking(move || {
            // What sources gave last is committed by this, and so can be sent.
            let _ = steps.committed();
            outbox.stop(SEND_GRACE);
        });
        let _ = stopped.await;
    }
    if died { Err(DaemonError::Died) } else { Ok(()) }
}

/// Returns once the tailer, a journal's reader or a listener has ended, which they do by themselves only by a fault of
/// their own.
async fn ended(tailer: &TailHandle, journals: &JournalHandle, syslog: &SyslogHandle, outbox: Option<&Outbox>) {
    let has_ended = || tailer.is_finished() || journals.has_ended() || syslog.has_died();
    while !has_ended() && !outbox.is_some_and(Outbox::has_ended) {
        tokio::time::sleep(LOOK).await;
    }
}

/// What bounds the lifecycle of the data folder: an outbox has bounds of its own.
fn local_limits(config: &Config) -> crate::lifecycle::Limits {
    let limits = config.lifecycle.limits;
    match config.store.kind {
        StoreKind::Embedded => limits,
        StoreKind::Azure => crate::lifecycle::Limits { max_bytes: None, ..limits },
    }
}

/// The tables of the configuration as routes.
pub fn router(tables: &[TableConfig]) -> Router {
    let route = |table: &TableConfig| Route {
        table: table.name.clone(),
        window: table.window,
        buckets: table.buckets,
        when: table.when.clone().unwrap_or(Condition::Always),
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
