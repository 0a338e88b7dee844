//! The parts put together: opened, started, watched, drained and closed.
//!
//! Listeners are bound before anything else happens. From there the order of the start is that of a record backwards:
//! the store, then who serves the listeners, then the sources, so that nothing is read that cannot be kept. The order of
//! the stop is that of a record: the listeners close first, and what they accepted is committed; other sources stop after
//! the submission they are at, then the store commits what waits and closes. Nothing is lost by a stop that is cut short:
//! a position moves only with the commit that holds its rows.
//!
//! * `api`: what the routes of [`crate::http`] answer, from a pool of readers.
//! * `life`: what the lifecycle answers.
//! * `front`: the listener for HTTP. `sources`: what reads and listens.
//! * `reload`: the configuration is read again.
//! * `metrics_bridge`: what is counted elsewhere, brought to [`crate::metrics`].
//! * `watchdog`: whether the commit loop goes round, and what the service manager hears of it.

mod api;
mod budget;
mod tcp_listener;
mod life;
mod loss_report;
mod metrics_bridge;
mod reload;
mod sources;
mod verify;
mod watchdog;

#[cfg(feature = "testing")]
pub(crate) use api::filter;
pub use reload::Reloaded;

use crate::config::{Config, ConfigError, TableConfig};
use crate::http::{
    self, BindError, HttpLimits, Listener, ListenerKind, PushAuthError, ReadTokenError, Readiness, ServerContext,
};
use crate::metrics::{CounterRegistry, MetricSources, Metrics};
use crate::remote::{self, Outbox, RemoteError, RemoteSetup};
use api::{ApiContext, ReaderPool};
use budget::Budget;
use daytable_intake::push::Push;
use daytable_intake::rate_limit::ConnectionLimiter;
use daytable_intake::route::{Condition, Route, Router};
use daytable_intake::source::{SourceContext, SourceError};
use daytable_lifecycle::{Executor, Lifecycle, LifecycleProgress};
use daytable_model::bucket_plan::BucketPlan;
use daytable_model::path_text::PathText;
use daytable_model::units::ByteSize;
use daytable_model::units::show_duration;
use daytable_net::inherited::{ActivationError, Inherited};
use daytable_net::tls::TlsError;
use daytable_platform::memory;
use daytable_platform::reloadable::Reloadable;
use daytable_query::Archives;
use daytable_store::{Forwarding, Store, StoreError};
use life::Lives;
use reload::{ReloadRequest, Running};
use sources::Sources;
use std::net::TcpListener;
use std::pin::pin;
use std::sync::{Arc, Mutex, TryLockError, mpsc};
use std::time::{Duration, Instant};
use tcp_listener::TcpServer;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::{oneshot, watch};
use watchdog::WatchdogContext;

/// How often it is looked whether the sources are still there.
const LOOK: Duration = Duration::from_secs(1);
/// How often it is looked whether files may be read, where they wait for the remote store.
const LOOK_SETTLED: Duration = Duration::from_millis(100);
/// How often memory is given back.
const GIVE_BACK: Duration = Duration::from_secs(30);
/// What the process ends with where a stop is cut short: `EX_TEMPFAIL`.
const EXIT_CUT_SHORT: i32 = 75;
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
    /// A listener cannot be bound.
    #[error("failed to listen: {0}")]
    Bind(#[from] BindError),
    /// A source cannot be started.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The token that the configuration names cannot be read.
    #[error("failed to read http.token_file: {0}")]
    ReadToken(#[from] ReadTokenError),
    /// Nobody, or not the right ones, could be asked who they are that push.
    #[error("failed to say who may push: {0}")]
    PushAuth(#[from] PushAuthError),
    /// The certificates of the listener cannot be used.
    #[error("failed to read http.tls: {0}")]
    Tls(#[from] TlsError),
    /// There is no remote store to send to.
    #[error("failed to reach the remote store: {0}")]
    Remote(#[from] RemoteError),
    /// A thread cannot be started, or a signal not be caught.
    #[error("failed to start: {0}")]
    Start(#[from] std::io::Error),
    /// A thread ended that was needed still.
    #[error(
        "the commit, the tail, a journal's or a listener's thread ended by a fault: files are read again at the next start"
    )]
    Died,
}

/// Reads the configuration again, with all that was laid over it at the start.
pub type Again = Box<dyn Fn() -> Result<Config, ConfigError> + Send + Sync>;

/// Runs until SIGTERM or SIGINT, then drains. SIGHUP has `again` read the configuration anew.
///
/// # Errors
///
/// Whatever keeps it from starting, or a store that is not whole at its end.
pub fn run(config: Config, again: Again) -> Result<(), DaemonError> {
    let mut inherited = Inherited::from_env()?;
    let port = TcpServer::bind(&config.http, &mut inherited)?;
    let budget = Budget::within(config.memory_max.map(ByteSize::get).or_else(memory::limit));
    let counters = Reloadable::new(CounterRegistry::default());
    let mut sources = Sources::new(budget, counters.clone());
    sources.prepare(&config, &mut inherited)?;
    inherited.finish()?;
    raise_descriptor_limit();
    let metrics = Arc::new(Metrics::default());
    let remote = remote::set_up(&config)?;
    let router = match &remote {
        Some(remote) => router(&config.tables).with_bucket_plan(remote.bucket_plan().clone()),
        None => router(&config.tables),
    };
    // Before the folder is touched: a configuration that cannot be run with changes nothing.
    let peers = ConnectionLimiter::new(config.http.per_sender);
    let limits = HttpLimits { connections: config.http.connections_max.get().into(), peers, ..HttpLimits::default() };
    let front = TcpServer::new(&config.http, &router, metrics.http.clone(), limits)?;
    let readiness = Arc::new(Readiness::default());
    let mut options = metrics_bridge::store_options(&config, &metrics, &readiness);
    if let Some(remote) = &remote {
        options.forwarding = Forwarding::To(remote.outbox_options()?);
    }
    let store = Store::open(&config.data_dir, options)?;
    if let Some(remote) = &remote {
        remote.load_bucket_plan();
    }
    readiness.store_open(true);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let bound = Bound { port, sources, budget, counters, front, remote };
    let ended = runtime.block_on(serve(config, again, bound, router, metrics, readiness, &store));
    // Whatever kept it from serving, what was taken is committed.
    let closed = store.close();
    runtime.shutdown_background();
    match (ended, closed) {
        // It ended because the store did, which says why.
        (Err(DaemonError::Died), Err(error)) => Err(error.into()),
        (ended, closed) => {
            ended?;
            Ok(closed?)
        }
    }
}

/// What listens, bound before anything else happens: so a port that is taken is an error of the start, and whoever sends
/// while the store is opened (which may have a crash to clear up after) waits in the kernel instead of being refused.
struct Bound {
    port: Option<TcpListener>,
    sources: Sources,
    budget: Budget,
    /// What the sources count.
    counters: Reloadable<CounterRegistry>,
    front: TcpServer,
    /// Where rows are sent, if they are.
    remote: Option<Box<dyn RemoteSetup>>,
}

async fn serve(
    config: Config,
    again: Again,
    bound: Bound,
    router: Router,
    metrics: Arc<Metrics>,
    readiness: Arc<Readiness>,
    store: &Store,
) -> Result<(), DaemonError> {
    let signals = [signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?];
    let drain_timeout = Reloadable::new(config.drain_timeout);
    let mut stopping = stops(signals, drain_timeout.clone());
    let mut hang_up = signal(SignalKind::hangup())?;
    let (orders, mut ordered) = unbounded_channel::<ReloadRequest>();
    let Bound { port, mut sources, budget, counters, mut front, remote } = bound;
    store.commit_queue().bound(budget.waiting_bytes);

    let readers = ReaderPool::new(config.data_dir.clone(), budget.scans);
    let progress = Arc::new(LifecycleProgress::default());
    let executor = Executor::new(store.steps(), config.data_dir.clone(), config.archives.clone(), progress.clone());
    let executor = Arc::new(executor);
    let open = remote.as_ref().map(|remote| remote.open(&executor)).transpose()?;
    let (remote_store, remote_lifecycle) = open.map(|open| (open.store, open.lifecycle)).unzip();
    let lives = Lives::new(&config, executor.clone(), readers.clone(), remote_lifecycle.clone());
    let outbox = remote.map(|remote| remote.start(store, &metrics, &readiness)).transpose()?;
    let (reading, archives) =
        (Reloadable::new(config.reading()), Reloadable::new(Archives::Read(config.archives.clone())));
    let ways = ApiContext {
        reading: reading.clone(),
        archives: archives.clone(),
        counters: counters.clone(),
        remote: remote_store,
        outbox: outbox.as_ref().map(|outbox| outbox.status()),
        metrics: metrics.clone(),
    };
    let api = api::api(&readers, lives.clone(), store, router.clone(), ways, orders);
    let limits = HttpLimits { scans: budget.scans, ..front.limits() };
    let shared = ServerContext::new(api, metrics.http.clone(), readiness.clone(), limits.clone());
    let push_limits = budget.push(config.http.limits);
    let (intake, stored) = (store.commit_queue(), readers.clone());
    let push = Arc::new(Push::new(
        router.clone(),
        config.reading(),
        push_limits,
        daytable_platform::host::name(),
        intake,
        stored,
    ));

    let lifecycle_sample = lives.clone();
    metrics.connect(MetricSources {
        counters: counters.clone(),
        push: push.clone(),
        intake: store.commit_queue(),
        lifecycle: Box::new(move || lifecycle_sample.sample()),
        remote: outbox.as_ref().map(|outbox| outbox.sample()),
    });

    let mut servers = tokio::task::JoinSet::new();
    let control = Listener::unix(&daytable_store::control_socket(&config.data_dir))?;
    let routes = http::router(shared.clone(), ListenerKind::Unix, Some(push.clone()));
    servers.spawn(http::serve(control, routes, limits, metrics.http.clone(), readiness.draining()));
    front.serve(port, &shared, &push, &mut servers)?;

    let (host, intake, steps) = (daytable_platform::host::name(), store.commit_queue(), store.steps());
    let source_context = SourceContext { router: router.clone(), host, intake, steps };
    sources.add_push(push.clone(), budget);
    // Before it is decided which sources begin: the answer may come in between, and then they begin twice, which is once.
    let mut is_settled = router.is_loaded();
    // Where the start fails, a source must not wait for commits that may fail as well.
    sources.apply(&config, &source_context).inspect_err(|_| source_context.intake.drain())?;
    let sources = Arc::new(Mutex::new(sources));
    readiness.listeners_bound();
    let (lifecycle_orders, settings) = mpsc::channel();
    let lifecycle = Lifecycle {
        executor: executor.clone(),
        data_dir: config.data_dir.clone(),
        settings: life::settings(&config),
        on_run: metrics_bridge::on_run(&metrics, readers.clone()),
    };
    let lifecycle = std::thread::Builder::new().name("lifecycle".into()).spawn(move || lifecycle.work(settings))?;
    let (verify_stop, verify_stopped) = watch::channel(());
    let verifying = Reloadable::new(verify::Verifying::of(&config));
    let verifier = verify::Verifier {
        data_dir: config.data_dir.clone(),
        archives: archives.clone(),
        verifying: verifying.clone(),
        metrics: metrics.clone(),
    };
    // What it reads is only read: nobody waits for it at the stop.
    tokio::spawn(verifier.work(verify_stopped));
    let (losses_stop, losses_stopped) = oneshot::channel();
    let losses = loss_report::LossReporter {
        counters: counters.clone(),
        intake: store.commit_queue(),
        outbox: outbox.as_ref().map(|outbox| outbox.losses()),
    };
    let losses = tokio::spawn(losses.work(losses_stopped));
    let (remote_stop, remote_stopped) = mpsc::channel::<()>();
    if let Some(lifecycle) = remote_lifecycle {
        let on_run = metrics_bridge::on_run(&metrics, readers);
        // It may wait for the service for long, and what it leaves half done is what a kill would leave.
        std::thread::Builder::new().name("shared".into()).spawn(move || lifecycle.work(on_run, remote_stopped))?;
    }
    tokio::spawn(stay_small());
    let watched = WatchdogContext { intake: store.commit_queue(), counters, metrics: metrics.clone(), progress };
    let watchdog = watchdog::start(watched)?;
    tracing::info!(data = %config.data_dir.escaped(), "ready");

    if !is_settled {
        tracing::warn!("files and journals wait until the remote store has said how instances are spread");
    }
    let mut running = Running {
        config,
        router,
        reading,
        archives,
        lives,
        lifecycle: lifecycle_orders,
        verifying,
        front,
        shared,
        push,
        sources: sources.clone(),
        source_context,
        metrics,
        drain_timeout,
    };
    let again = Arc::new(again);
    let died = loop {
        let order = tokio::select! {
            _ = stopping.wait_for(|stops| *stops) => break false,
            () = watchdog.died() => break true,
            () = ended(&sources, outbox.as_deref()) => break true,
            _ = hang_up.recv() => None,
            Some(order) = ordered.recv() => Some(order),
            () = settled(&running.router), if !is_settled => {
                is_settled = true;
                if let Err(error) = running.place_all().await {
                    tracing::error!(%error, "failed to begin with files and journals");
                    break true;
                }
                continue;
            }
        };
        watchdog::reloading();
        let came = {
            let mut reload = pin!(running.reload(&again, &mut servers));
            let came = tokio::select! {
                came = &mut reload => Some(came),
                _ = stopping.wait_for(|stops| *stops) => None,
            };
            match came {
                Some(came) => came,
                None => {
                    // It may wait for a source that waits for room, of which a full outbox has none until it is drained.
                    store.drain();
                    reload.await
                }
            }
        };
        watchdog::reloaded();
        if let Some(order) = order {
            order.tell(came);
        }
    };
    tracing::info!("draining");
    watchdog.stop();
    readiness.drain();
    running.front.drain();
    store.drain();
    // With it goes what the lifecycle waits for, and all but one hold of the sources.
    drop((ordered, running, remote_stop, verify_stop));
    executor.stop();
    if let Some(outbox) = &outbox {
        outbox.release_waiters();
    }
    let drained = tokio::task::spawn_blocking(move || {
        if let Some(sources) = Arc::into_inner(sources) {
            sources.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).stop();
        }
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
    // Nobody counts any more: what was lost last is known.
    drop(losses_stop);
    let _ = losses.await;
    if died { Err(DaemonError::Died) } else { Ok(()) }
}

/// Turns true when a signal asks the daemon to stop. From then on it has `drain_timeout`: what is not committed when that is
/// over is not acknowledged, and is read or sent again, as after a kill.
fn stops([mut terminate, mut interrupt]: [Signal; 2], drain_timeout: Reloadable<Duration>) -> watch::Receiver<bool> {
    let (told, stops) = watch::channel(false);
    // A task of its own: the time runs also while a reload waits for the disk.
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        let patience = *drain_timeout.load();
        let waiting = std::thread::Builder::new().name("deadline".into()).spawn(move || {
            std::thread::sleep(patience);
            tracing::error!(
                drain_timeout = show_duration(patience),
                "the stop took too long and is cut short: what is not committed is read or sent again"
            );
            std::process::exit(EXIT_CUT_SHORT);
        });
        if let Err(error) = waiting {
            tracing::warn!(%error, "the stop has no time limit");
        }
        told.send_replace(true);
    });
    stops
}

/// Returns once it is known how instances are spread.
async fn settled(router: &Router) {
    while !router.is_loaded() {
        tokio::time::sleep(LOOK_SETTLED).await;
    }
}

/// Has this thread keep no memory that only its start or a large answer took.
async fn stay_small() {
    loop {
        tokio::time::sleep(GIVE_BACK).await;
        memory::release_free();
    }
}

/// Returns once a source, or what sends, has ended, which they do by themselves only by a fault of their own.
async fn ended(sources: &Mutex<Sources>, outbox: Option<&dyn Outbox>) {
    let have_died = || match sources.try_lock() {
        Ok(sources) => sources.have_ended(),
        // Not while they change.
        Err(TryLockError::WouldBlock) => false,
        // What changed them ended by a fault, and nobody knows what of them still runs.
        Err(TryLockError::Poisoned(_)) => true,
    };
    while !have_died() && !outbox.is_some_and(|outbox| outbox.has_ended()) {
        tokio::time::sleep(LOOK).await;
    }
}

/// The tables of the configuration as routes.
pub fn router(tables: &[TableConfig]) -> Router {
    Router::new(routes(tables))
}

/// The tables of the configuration as routes, into a data folder as the daemon has left it.
///
/// # Errors
///
/// Where it cannot be read how instances are spread.
pub fn router_of(tables: &[TableConfig], data_dir: &std::path::Path) -> Result<Router, StoreError> {
    let steps = daytable_store::outbox::bucket_plans::read(data_dir)?;
    let spread = steps.map(|steps| Arc::new(BucketPlan::new(Some(steps.planned))));
    Ok(match spread {
        Some(spread) => router(tables).with_bucket_plan(spread),
        None => router(tables),
    })
}

fn routes(tables: &[TableConfig]) -> Vec<Route> {
    let route = |table: &TableConfig| Route {
        table: table.name.clone(),
        window: table.window,
        buckets: table.buckets,
        when: table.when.clone().unwrap_or(Condition::Always),
    };
    // A configuration has one table at least; the last takes what is left.
    tables.iter().map(route).collect()
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
