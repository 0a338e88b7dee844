//! The daemon: `Daemon::start`, `Daemon::run`, `Daemon::drain`.
//!
//! ```text
//! bind ─► open the store ─► start ─► run ──────────────────────► drain ─► close the store
//! ports,                    lifecycle,  signals, reloads,        listeners, sources,
//! sockets                   listeners,  faults of a thread       lifecycle, outbox,
//!                           sources                              loss report
//! ```
//!
//! 1. Ports and sockets are bound first. A port in use is an error of the start, and a client that connects while the
//!    store is opened waits in the kernel.
//! 2. The start goes against the way of a record: the store, the listeners, then the sources, so that no record is read
//!    that cannot be stored.
//! 3. The stop goes along the way of a record: listeners close, sources submit the rest, the store commits, the outbox
//!    sends. Each step has a time limit, and `drain_timeout` limits all of them.
//! 4. A stop that is cut short loses no record: a position moves only with the commit of its rows.
//!
//! The parts: `api` answers requests, by `queries`, `asked` and `log_entries` over the `reader_pool`, and by `life` for the lifecycle. `read_socket` is the socket of the readers' group. `tcp_listener`
//! is the HTTP server, `sources` are the sources. `reload` applies a changed configuration. `metrics_bridge` and
//! `loss_report` count, `verify` verifies daily, `alerts` evaluates the rules of alerts, and `watchdog` reports to the service manager. `status` sums up the state
//! for an operator. `budget` shares out memory.

mod alerts;
mod api;
mod asked;
mod budget;
mod error;
mod forwarding;
mod life;
mod log_entries;
mod loss_report;
mod metrics_bridge;
mod queries;
mod read_socket;
mod reader_pool;
mod reload;
mod routing;
mod sources;
mod start_files;
mod status;
mod stop_signal;
mod tcp_listener;
mod verify;
mod watchdog;

pub use alerts::ShownAlert;
pub use error::DaemonError;
pub use forwarding::ForwardStatus;
#[cfg(feature = "testing")]
pub(crate) use queries::filter;
pub use reload::Reloaded;
pub use routing::{router, router_of};
pub use start_files::{StartFile, StartFileState, start_files};
pub use status::{DaemonStatus, DiskStatus, Trouble, VerifyStatus};

use crate::config::{Config, ConfigError, SavedQuery};
use crate::http::{self, HttpLimits, Listener, ListenerKind, Readiness, ServerContext, Tenants};
use crate::metrics::{CounterRegistry, MetricSources, Metrics};
use crate::remote::{self, RemoteLifecycle, RemoteOutbox, RemoteSetup};
use alerts::{AlertInputs, Alerts};
use api::ApiContext;
use budget::Budget;
use daytable_alert::AlertBoard;
use daytable_archive::Lake;
use daytable_forward::intake::{ForwardIntake, Places};
use daytable_intake::push::Push;
use daytable_intake::rate_limit::ConnectionLimiter;
use daytable_intake::route::Router;
use daytable_intake::source::SourceContext;
use daytable_intake::tail::TailOptions;
use daytable_lifecycle::progress::LifecycleProgress;
use daytable_lifecycle::{ArchivedTables, Executor, Lifecycle, Publisher, RunSummary, Settings, archived_tables};
use daytable_model::path_text::PathText;
use daytable_model::time;
use daytable_model::units::ByteSize;
use daytable_net::inherited::Inherited;
use daytable_parse::{ParseOptions, Zone, host_zone_doubt};
use daytable_platform::budget::MemoryBudget;
use daytable_platform::reloadable::Reloadable;
use daytable_platform::scratch::ScratchSpace;
use daytable_platform::{lock, memory};
use daytable_query::Archives;
use daytable_store::{Forwarding, Store};
use forwarding::{ForwardingView, Senders};
use life::LifecycleApi;
use loss_report::LossReporter;
use reader_pool::ReaderPool;
use reload::ReloadRequest;
use sources::Sources;
use status::StatusContext;
use std::net::TcpListener;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError, TryLockError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tcp_listener::TcpServer;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use verify::{Verifier, Verifying};
use watchdog::{Watchdog, WatchdogContext};

/// How often the daemon checks that sources and outbox still run.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How often the daemon checks whether the bucket plan has been loaded.
const PLAN_CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// How often free memory is returned to the operating system.
const RELEASE_INTERVAL: Duration = Duration::from_secs(30);
/// How long a stop waits for the lifecycle's current step.
const LIFECYCLE_PATIENCE: Duration = Duration::from_secs(5);
/// How long a stop continues sending from the outbox. The rest stays there.
const SEND_GRACE: Duration = Duration::from_secs(5);

/// Loads the configuration again, with the same command line.
pub type LoadConfig = Box<dyn Fn() -> Result<Config, ConfigError> + Send + Sync>;

/// Runs the daemon until SIGTERM or SIGINT, then drains it. On SIGHUP `load` reloads the configuration. With a lake, questions are
/// answered from there, and the data folder stays empty.
///
/// # Errors
///
/// The reason why the daemon does not start, or why the store cannot be closed.
pub fn run(config: Config, load: LoadConfig, lake: Option<Lake>) -> Result<(), DaemonError> {
    let startup = Startup::prepare(&config)?;
    let store = startup.open_store(&config)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(async {
        let mut daemon = Daemon::start(config, load, startup, &store, lake)?;
        let ended = daemon.run().await;
        daemon.drain().await;
        ended
    });
    // Even if the start failed: accepted records are committed.
    let closed = store.close();
    runtime.shutdown_background();
    match (ended, closed) {
        // The daemon ended because the store ended, and the store's error has the reason.
        (Err(DaemonError::Died), Err(error)) => Err(error.into()),
        (ended, closed) => {
            ended?;
            Ok(closed?)
        }
    }
}

/// Everything that can be bound and checked before the data folder is opened. A configuration that fails here changes
/// no file.
struct Startup {
    port: Option<TcpListener>,
    server: TcpServer,
    sources: Sources,
    counters: Reloadable<CounterRegistry>,
    budget: Budget,
    router: Router,
    remote: Option<Box<dyn RemoteSetup>>,
    metrics: Arc<Metrics>,
    readiness: Arc<Readiness>,
}

impl Startup {
    fn prepare(config: &Config) -> Result<Startup, DaemonError> {
        let mut inherited = Inherited::from_env()?;
        let port = TcpServer::bind(&config.http, &mut inherited)?;
        let budget = Budget::within(config.memory_max.map(ByteSize::get).or_else(memory::limit));
        let counters = Reloadable::new(CounterRegistry::default());
        let mut sources = Sources::new(budget, counters.clone());
        sources.prepare(config, &mut inherited)?;
        inherited.finish()?;
        raise_descriptor_limit();
        let metrics = Arc::new(Metrics::default());
        let remote = remote::set_up(config)?;
        let router = match &remote {
            Some(remote) => router(&config.tables).with_bucket_plan(remote.bucket_plan().clone()),
            None => router(&config.tables),
        };
        let router = router.of_host(config.host_id());
        let limits = HttpLimits {
            connections: budget.connections,
            peers: ConnectionLimiter::new(config.http.per_sender),
            scans: budget.scans,
            followers: budget.followers,
            questions: MemoryBudget::within(
                budget.questions.0,
                budget.questions.1,
                memory::ProcessMemory::within(budget.resident),
            )
            .with_scratch(ScratchSpace::within(&config.data_dir)),
            frames: MemoryBudget::new(budget.frames, budget.frames),
            ..HttpLimits::default()
        };
        let server = TcpServer::new(&config.http, &router, metrics.http.clone(), limits)?;
        Ok(Startup { port, server, sources, counters, budget, router, remote, metrics, readiness: Arc::default() })
    }

    fn open_store(&self, config: &Config) -> Result<Store, DaemonError> {
        let mut options = metrics_bridge::store_options(config, &self.metrics, &self.readiness);
        if let Some(remote) = &self.remote {
            options.forwarding = Forwarding::To(remote.outbox_options()?);
        }
        options.known_entries = self.budget.known_entries;
        options.reserve = Some(self.server.limits().scheduler.reserve());
        let store = Store::open(&config.data_dir, options)?;
        if let Some(remote) = &self.remote {
            remote.load_bucket_plan();
        }
        store.commit_queue().bound(self.budget.waiting_bytes);
        // A store that waits for room opens later.
        if self.readiness.store_failure().is_none() {
            self.readiness.store_open(true);
        }
        Ok(store)
    }
}

/// The running daemon.
struct Daemon {
    config: Config,
    load: Arc<LoadConfig>,
    router: Router,
    reading: Reloadable<ParseOptions>,
    tails: Reloadable<Vec<TailOptions>>,
    saved_queries: Reloadable<Vec<SavedQuery>>,
    archives: Reloadable<Archives>,
    lifecycle: LifecycleApi,
    verifying: Reloadable<Verifying>,
    alerts: Alerts,
    server: TcpServer,
    server_context: Arc<ServerContext>,
    /// The servers of all listeners, also those that drain after a reload.
    servers: JoinSet<()>,
    push: Arc<Push>,
    /// A reload changes the sources on another thread.
    sources: Arc<Mutex<Sources>>,
    source_context: SourceContext,
    /// Whether replayable sources wait for the bucket plan.
    are_sources_waiting: bool,
    outbox: Option<Box<dyn RemoteOutbox>>,
    forwarding: Arc<Senders>,
    places: Reloadable<Places>,
    forwarding_view: ForwardingView,
    background: Background,
    watchdog: Watchdog,
    metrics: Arc<Metrics>,
    readiness: Arc<Readiness>,
    drain_timeout: Reloadable<Duration>,
    stop: watch::Receiver<bool>,
    hang_up: Signal,
    reloads: UnboundedReceiver<ReloadRequest>,
}

impl Daemon {
    /// Starts all parts over `store`. Within a runtime.
    fn start(
        config: Config,
        load: LoadConfig,
        startup: Startup,
        store: &Store,
        lake: Option<Lake>,
    ) -> Result<Daemon, DaemonError> {
        let Startup { port, mut server, mut sources, counters, budget, router, remote, metrics, readiness } = startup;
        let drain_timeout = Reloadable::new(config.drain_timeout);
        let stop = stop_signal::listen(drain_timeout.clone())?;
        let hang_up = signal(SignalKind::hangup())?;

        let readers = ReaderPool::new(config.data_dir.clone(), server.limits().questions, budget.idle_readers);
        let progress = Arc::new(LifecycleProgress::default());
        let executor = Executor::new(store.steps(), config.data_dir.clone(), config.archives.clone(), progress.clone());
        let executor = Arc::new(executor.named(config.host.as_deref()));
        let open = remote.as_ref().map(|remote| remote.open(&executor)).transpose()?;
        let (remote_store, remote_lifecycle) = open.map(|open| (open.store, open.lifecycle)).unzip();
        let lifecycle = LifecycleApi::new(&config, executor, readers.clone(), remote_lifecycle.clone());
        let outbox = remote.map(|remote| remote.start(store, &metrics, &readiness)).transpose()?;

        let host = config.host_name();
        let push_limits = budget.push(config.http.limits);
        let push = Push::new(
            router.clone(),
            config.reading(),
            push_limits,
            host.clone(),
            store.commit_queue(),
            readers.clone(),
        );
        let push = Arc::new(push);
        sources.add_push(push.clone(), budget);
        let places = Reloadable::new(forwarding::places(&config.tables));
        let hosts = ForwardIntake::new(
            store.commit_queue(),
            store.forwarding(),
            readers.clone(),
            places.clone(),
            config.hosts.rules.clone(),
        );
        let forwarding_view = ForwardingView::new(hosts.clone(), config.hosts.silent_after);
        let (sampled, board) = (lifecycle.clone(), AlertBoard::default());
        let forwarded = forwarding_view.clone();
        metrics.connect(MetricSources {
            counters: counters.clone(),
            push: push.clone(),
            queue: store.commit_queue(),
            lifecycle: Box::new(move || sampled.sample()),
            alerts: board.clone(),
            remote: outbox.as_ref().map(|outbox| outbox.sample()),
            forward: Box::new(move || forwarded.sample()),
        });

        let reading = Reloadable::new(config.reading());
        let tails = Reloadable::new(config.sources.tails.clone());
        let saved_queries = Reloadable::new(config.saved_queries.clone());
        let stores_records = lake.is_none();
        let archives = Reloadable::new(match lake {
            Some(lake) => Archives::Lake(lake),
            None => Archives::Read(config.archives.clone()),
        });
        let verifying = Reloadable::new(Verifying::of(&config));
        verify::restore_last(&config.data_dir, &mut lock(&metrics.verify));
        let (reload_requests, reloads) = unbounded_channel();
        let api = ApiContext {
            host: host.clone(),
            questions: server.limits().questions,
            readers: readers.clone(),
            lifecycle: lifecycle.clone(),
            queue: store.commit_queue(),
            router: router.clone(),
            reading: reading.clone(),
            tails: tails.clone(),
            saved_queries: saved_queries.clone(),
            archives: archives.clone(),
            counters: counters.clone(),
            remote: remote_store.clone(),
            outbox: outbox.as_ref().map(|outbox| outbox.status()),
            metrics: metrics.clone(),
            status: StatusContext {
                readers: readers.clone(),
                lifecycle: lifecycle.clone(),
                counters: counters.clone(),
                metrics: metrics.clone(),
                readiness: readiness.clone(),
                verifying: verifying.clone(),
                alerts: board.clone(),
                forwarding: forwarding_view.clone(),
                since: time::now(),
                config_file: config.file.clone(),
            },
            reloads: reload_requests,
        };
        let server_context = ServerContext::new(api, metrics.http.clone(), readiness.clone(), server.limits());
        server_context.tenants.store(Tenants::new(&config.tenants).map_err(DaemonError::TenantToken)?);
        server_context.silent_after.store(config.hosts.silent_after);
        if stores_records {
            // The context was made above, so it has no receiver yet.
            let _ = server_context.forward.set(hosts);
        }
        // Before a day is merged or sealed.
        let forwarding = Arc::new(Senders::new(&config, store, &forwarding_view)?);
        let mut servers = JoinSet::new();
        let control = Listener::unix(&daytable_store::control_socket(&config.data_dir))?;
        let routes = http::router(server_context.clone(), ListenerKind::Unix, Some(push.clone()));
        let draining = readiness.draining();
        servers.spawn(http::serve(control, routes, server.limits(), metrics.http.clone(), draining));
        if let Some(readers) = read_socket::bind(&config) {
            let routes = http::router(server_context.clone(), ListenerKind::Readers, None);
            let draining = readiness.draining();
            servers.spawn(http::serve(readers, routes, server.limits(), metrics.http.clone(), draining));
        }
        server.serve(port, &server_context, &push, &mut servers)?;

        let (queue, steps) = (store.commit_queue(), store.steps());
        let source_context = SourceContext { router: router.clone(), host, queue, steps };
        // Read before the sources start: the plan may be loaded in between. Starting the sources twice has no effect.
        let are_sources_waiting = !router.is_loaded();
        // If the start fails, a source must not wait for commits that may fail as well.
        sources.apply(&config, &source_context).inspect_err(|_| source_context.queue.drain())?;
        readiness.listeners_bound();
        forwarding.apply(&config)?;

        // Before the lifecycle seals a day: see `AlertEngine::open`.
        let of_hosts = forwarding_view.clone();
        let inputs = AlertInputs {
            archives: archives.clone(),
            remote: remote_store,
            counters: counters.clone(),
            conditions: Box::new(move || of_hosts.conditions()),
        };
        let alerts = Alerts::start(&config, inputs, board)?;
        let verifier = Verifier {
            data_dir: config.data_dir.clone(),
            archives: archives.clone(),
            verifying: verifying.clone(),
            metrics: metrics.clone(),
        };
        let losses = LossReporter {
            counters: counters.clone(),
            queue: store.commit_queue(),
            outbox: outbox.as_ref().map(|outbox| outbox.losses()),
        };
        let local = Lifecycle {
            executor: lifecycle.executor.clone(),
            data_dir: config.data_dir.clone(),
            settings: life::settings(&config),
            on_run: metrics_bridge::on_run(&metrics, readers.clone()),
        };
        let tables = archived_tables(&life::settings(&config).rules);
        let publisher = Publisher { executor: lifecycle.executor.clone(), data_dir: config.data_dir.clone(), tables };
        // The folder of a question over a lake has no days.
        let publisher = Some(publisher).filter(|_| stores_records);
        let on_remote_run = metrics_bridge::on_run(&metrics, readers);
        let remote_lifecycle = remote_lifecycle.map(|lifecycle| (lifecycle, on_remote_run));
        let background = Background::start((local, publisher), remote_lifecycle, verifier, losses)?;
        let watched = WatchdogContext { queue: store.commit_queue(), counters, metrics: metrics.clone(), progress };
        let watchdog = watchdog::start(watched)?;
        tracing::info!(data = %config.data_dir.escaped(), local_zone = Zone::Local.described(), "ready");
        if let Some(doubt) = host_zone_doubt() {
            tracing::warn!("{doubt}");
        }
        if are_sources_waiting {
            tracing::warn!("files and journals wait until the remote store has said how instances are spread");
        }
        Ok(Daemon {
            config,
            load: Arc::new(load),
            router,
            reading,
            tails,
            saved_queries,
            archives,
            lifecycle,
            verifying,
            alerts,
            server,
            server_context,
            servers,
            push,
            sources: Arc::new(Mutex::new(sources)),
            source_context,
            are_sources_waiting,
            outbox,
            forwarding,
            places,
            forwarding_view,
            background,
            watchdog,
            metrics,
            readiness,
            drain_timeout,
            stop,
            hang_up,
            reloads,
        })
    }

    /// Handles reloads until a signal stops the daemon.
    ///
    /// # Errors
    ///
    /// [`DaemonError::Died`] if a thread ended that the daemon needs.
    async fn run(&mut self) -> Result<(), DaemonError> {
        let mut stop = self.stop.clone();
        loop {
            let request = tokio::select! {
                _ = stop.wait_for(|stop| *stop) => return Ok(()),
                () = self.watchdog.died() => return Err(DaemonError::Died),
                () = part_ended(&self.sources, self.outbox.as_deref(), &self.forwarding) => return Err(DaemonError::Died),
                _ = self.hang_up.recv() => None,
                Some(request) = self.reloads.recv() => Some(request),
                () = plan_loaded(&self.router), if self.are_sources_waiting => {
                    self.are_sources_waiting = false;
                    if let Err(error) = self.start_waiting_sources().await {
                        tracing::error!(%error, "failed to start the sources of files and journals: the daemon stops");
                        return Err(DaemonError::Died);
                    }
                    continue;
                }
            };
            watchdog::reloading();
            let queue = self.source_context.queue.clone();
            let result = {
                let mut reload = pin!(self.reload());
                tokio::select! {
                    result = &mut reload => result,
                    _ = stop.wait_for(|stop| *stop) => {
                        // The reload may wait for a source that waits for room, and a full outbox has room only once it drains.
                        queue.drain();
                        reload.await
                    }
                }
            };
            watchdog::reloaded();
            if let Some(request) = request {
                request.respond(result);
            }
        }
    }

    /// Stops all parts, in the order of a record's way. The store still has to be closed.
    async fn drain(self) {
        tracing::info!("draining");
        let Daemon { mut server, mut servers, sources, source_context, outbox, background, lifecycle, alerts, .. } =
            self;
        let Background { lifecycle: lifecycle_thread, settings, publish_orders, remote_stop, verify_stop, loss_report } =
            background;
        self.watchdog.stop();
        self.readiness.drain();
        server.drain();
        source_context.queue.drain();
        // The lifecycle ends without its settings; a request for a reload is refused from now on.
        drop((self.reloads, settings, publish_orders, remote_stop, verify_stop));
        lifecycle.executor.stop();
        let alerts_thread = alerts.stop();
        if let Some(outbox) = &outbox {
            outbox.release_waiters();
        }
        let forwarding = self.forwarding;
        let stopped = tokio::task::spawn_blocking(move || {
            if let Some(sources) = Arc::into_inner(sources) {
                sources.into_inner().unwrap_or_else(PoisonError::into_inner).stop();
            }
            // The last rows of the sources may go in this moment; the rest goes after the next start.
            forwarding.stop();
            // A step ends soon, unless a request is under way. A step that is cut short is resumed as after a kill.
            let deadline = Instant::now() + LIFECYCLE_PATIENCE;
            let is_working = || !lifecycle_thread.is_finished() || !alerts_thread.is_finished();
            while is_working() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        let _ = stopped.await;
        // Each server has its own limit, `HttpLimits::drain`.
        while servers.join_next().await.is_some() {}
        let hosts = self.forwarding_view;
        let _ = tokio::task::spawn_blocking(move || hosts.note_hosts()).await;
        if let Some(outbox) = outbox {
            let sent = tokio::task::spawn_blocking(move || {
                // The last rows of the sources are committed first, so they can be sent.
                let _ = source_context.steps.committed();
                outbox.stop(SEND_GRACE);
            });
            let _ = sent.await;
        }
        // No part counts any longer, so the last report has all losses.
        drop(loss_report.stop);
        let _ = loss_report.task.await;
    }
}

/// Threads and tasks that work beside the listeners and sources. Each ends when its sender is dropped.
struct Background {
    lifecycle: JoinHandle<()>,
    settings: mpsc::Sender<Settings>,
    /// Takes the tables of a changed configuration.
    publish_orders: mpsc::Sender<ArchivedTables>,
    remote_stop: mpsc::Sender<()>,
    verify_stop: watch::Sender<()>,
    loss_report: LossReport,
}

/// The task that writes losses to the ledger, and what ends it.
struct LossReport {
    stop: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<()>,
}

/// The lifecycle of the remote store, and the function that is called after each of its runs.
type RemoteWork = (Arc<dyn RemoteLifecycle>, Box<dyn Fn(&RunSummary) + Send>);

impl Background {
    fn start(
        (lifecycle, publisher): (Lifecycle, Option<Publisher>),
        remote: Option<RemoteWork>,
        verifier: Verifier,
        losses: LossReporter,
    ) -> Result<Background, DaemonError> {
        let (settings, changed_settings) = mpsc::channel();
        let lifecycle = spawn("lifecycle", move || lifecycle.work(changed_settings))?;
        let (publish_orders, orders) = mpsc::channel();
        if let Some(publisher) = publisher {
            // It may wait long for a store, and what it leaves half done is as after a kill, so a stop does not wait for it.
            spawn("publish", move || publisher.work(orders))?;
        }
        let (remote_stop, stop) = mpsc::channel();
        if let Some((lifecycle, on_run)) = remote {
            // The thread may wait long for the service, and a stop does not wait for the thread.
            spawn("shared", move || lifecycle.work(on_run, stop))?;
        }
        let (verify_stop, stop) = watch::channel(());
        // A verification only reads, so a stop does not wait for its end.
        tokio::spawn(verifier.work(stop));
        let (loss_stop, stop) = oneshot::channel();
        let task = tokio::spawn(losses.work(stop));
        tokio::spawn(release_memory());
        let loss_report = LossReport { stop: loss_stop, task };
        Ok(Background { lifecycle, settings, publish_orders, remote_stop, verify_stop, loss_report })
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.into()).spawn(work)
}

/// Returns once the bucket plan is loaded.
async fn plan_loaded(router: &Router) {
    while !router.is_loaded() {
        tokio::time::sleep(PLAN_CHECK_INTERVAL).await;
    }
}

/// Returns memory that the start or a large response needed to the operating system.
async fn release_memory() {
    loop {
        tokio::time::sleep(RELEASE_INTERVAL).await;
        memory::release_free();
    }
}

/// Returns once a source or the outbox has ended, which they do by themselves only by a fault.
async fn part_ended(sources: &Mutex<Sources>, outbox: Option<&dyn RemoteOutbox>, forwarding: &Senders) {
    let sources_ended = || match sources.try_lock() {
        Ok(sources) => sources.have_ended(),
        // A reload is changing the sources.
        Err(TryLockError::WouldBlock) => false,
        // A reload panicked, so some sources may not run.
        Err(TryLockError::Poisoned(_)) => true,
    };
    while !sources_ended() && !outbox.is_some_and(|outbox| outbox.has_ended()) && !forwarding.have_ended() {
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
}

/// Allows as many file descriptors as the system permits, because the daemon may follow thousands of files.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::debug!(%error, "failed to raise the limit of open files");
    }
}
