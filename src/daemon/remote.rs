//! The remote store's part of the daemon: who is sent to, what the store is told of it, and what is shown.

use super::DaemonError;
use crate::config::{Config, StoreKind, TableConfig};
use crate::http::Readiness;
use crate::metrics::{Metrics, raise_to};
use daytable_azure::{Account, Client, DateTime, Options};
use daytable_lifecycle::{Archive, TableRule};
use daytable_model::bucket_plan::BucketPlan;
use daytable_model::key::Period;
use daytable_model::time;
use daytable_model::window::Window;
use daytable_remote::outbox::{self, Bell, Counters, Inbox, Outbox, SetAside, Setup, dead};
use daytable_remote::outbox::{RemoteOptions, TableOptions, WhenFull};
use daytable_remote::tables::connect::{ConnectError, connection_string};
use daytable_store::outbox::steps::{self, Steps};
use daytable_store::outbox::{Dropped, Level};
use daytable_store::{OutboxOptions, Store};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Why there is no remote store to send to. Never has anything of the secret.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// There is no connection string, or its file cannot be read.
    #[error(transparent)]
    ConnectionString(#[from] ConnectError),
    /// It is no connection string.
    #[error("the connection string: {0}")]
    Account(#[from] daytable_azure::AccountError),
    /// There is no client.
    #[error(transparent)]
    Client(#[from] daytable_azure::SetupError),
    /// The name of the dead letters' table is none.
    #[error(transparent)]
    Name(#[from] daytable_model::key::KeyError),
}

/// A client of the account that the configuration names.
pub fn client(config: &RemoteOptions) -> Result<Client, RemoteError> {
    let account: Account = connection_string(config.connection_string_file.as_deref())?.parse()?;
    Ok(Client::new(account, Options::new(|| DateTime::from_ticks(time::now().get())))?)
}

/// What there is of the remote store before its outbox is opened.
pub(super) struct Remote {
    pub(super) client: Client,
    pub(super) spread: Arc<BucketPlan>,
    level: Arc<Level>,
    bell: Bell,
    inbox: Inbox,
}

impl Remote {
    /// None where rows stay here.
    pub(super) fn new(config: &Config) -> Result<Option<Remote>, RemoteError> {
        if config.store.kind == StoreKind::Embedded {
            return Ok(None);
        }
        let (bell, inbox) = outbox::bell();
        let (client, spread) = (client(&config.store.azure)?, Arc::new(BucketPlan::new(None)));
        Ok(Some(Remote { client, spread, level: Arc::default(), bell, inbox }))
    }

    /// What makes the store its outbox.
    pub(super) fn options(&self, config: &RemoteOptions) -> Result<OutboxOptions, RemoteError> {
        let bell = self.bell.clone();
        Ok(OutboxOptions {
            stays: dead::table()?,
            bytes_max: config.outbox_bytes_max.get(),
            age_max: config.outbox_age_max,
            drops_oldest: config.when_full == WhenFull::DropOldest,
            level: self.level.clone(),
            on_commit: Box::new(move || bell.ring()),
        })
    }

    /// Has instances spread as they were when the daemon ran last. Where nothing is written down of that, as in a new folder,
    /// the service has to be asked first, unless instances never are.
    pub(super) fn recall(&self, config: &Config) {
        let mut steps = match steps::read(&config.data_dir) {
            Ok(Some(steps)) => steps,
            // It is asked all the same, but nobody waits for the answer.
            Ok(None) if config.store.azure.buckets_max == NonZeroU16::MIN => Steps::default(),
            Ok(None) => return,
            Err(error) => {
                return tracing::error!(%error, "how instances are spread is not known here: the remote store is asked");
            }
        };
        let (host, endpoint) =
            (super::afar::id(config, &daytable_platform::host::name()), self.client.account().endpoint());
        if (steps.host.as_str(), steps.endpoint.as_str()) != (host.as_str(), endpoint) {
            // Under this name, this service knows of none.
            steps.planned.iter_mut().flat_map(|planned| &mut planned.steps).for_each(|step| step.is_remote = false);
        }
        self.spread.load(steps.planned);
    }

    /// Begins to send.
    pub(super) fn start(
        self,
        config: &Config,
        store: &Store,
        metrics: &Arc<Metrics>,
        readiness: &Readiness,
    ) -> Result<Outbox, DaemonError> {
        let Remote { client, spread, level, inbox, .. } = self;
        let landed = metrics.remote.transaction_entities.clone();
        let setup = Setup {
            data_dir: &config.data_dir,
            config: &config.store.azure,
            tables: config.tables.iter().map(TableOptions::from).collect(),
            client,
            departures: store.departures(),
            level: level.clone(),
            spread: spread.clone(),
            host: super::afar::id(config, &daytable_platform::host::name()),
            on_landed: Box::new(move |entities| landed.observe(entities as f64)),
        };
        let outbox = Outbox::start(setup, inbox)?;
        fetch(metrics, outbox.counters(), level.clone(), spread.clone());
        readiness.settled_by(move || spread.is_loaded());
        readiness.bounded_by(move || level.is_full());
        Ok(outbox)
    }
}

fn fetch(metrics: &Metrics, counters: Arc<Counters>, level: Arc<Level>, spread: Arc<BucketPlan>) {
    // Series that stand at zero are there before the first event.
    for why in SetAside::ALL {
        metrics.remote.dead_letters.with_label_values(&[why.label()]);
    }
    let of_outbox = metrics.source("outbox");
    metrics.on_scrape(Box::new(move |metrics| {
        let remote = &metrics.remote;
        let waiting = outbox::waiting(&counters, &level);
        remote.outbox_entities.set(whole(waiting));
        remote.outbox_bytes.set(whole(level.bytes()));
        let age = if waiting == 0 { 0.0 } else { level.age(time::now()).as_secs_f64() };
        remote.outbox_age_seconds.set(age);
        remote.outbox_full.set(i64::from(level.is_full()));
        for (code, requests) in counters.codes() {
            let code = if code == 0 { "none".to_owned() } else { code.to_string() };
            raise_to(&remote.requests.with_label_values(&[&code]), requests);
        }
        raise_to(&remote.retries, counters.retries.load(Ordering::Relaxed));
        raise_to(&remote.throttled, counters.throttled.load(Ordering::Relaxed));
        raise_to(&remote.entities_sent, counters.sent.load(Ordering::Relaxed));
        remote.spread_pending.set(i64::from(!spread.is_loaded()));
        let planned = spread.planned();
        remote.spread_instances.set(i64::try_from(planned.len()).unwrap_or(i64::MAX));
        let most = planned.iter().flat_map(|planned| &planned.steps).map(|step| step.buckets.get()).max();
        remote.spread_buckets_max.set(most.unwrap_or(0).into());
        raise_to(&remote.spread_steps, counters.spread_steps.load(Ordering::Relaxed));
        remote.denied.set(i64::from(counters.is_denied.load(Ordering::Relaxed)));
        for why in SetAside::ALL {
            raise_to(&remote.dead_letters.with_label_values(&[why.label()]), counters.set_aside(why));
        }
        for why in Dropped::ALL {
            raise_to(&of_outbox.records_dropped(why.label(), true), level.dropped(why));
        }
    }));
}

/// As a gauge shows it.
fn whole(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// What the lifecycle of the data folder goes by: with a remote store, only dead letters live there.
pub(super) fn local_rules(config: &Config) -> Vec<TableRule> {
    if config.store.kind == StoreKind::Embedded {
        return config.tables.iter().map(TableConfig::rule).collect();
    }
    let window = Window { keep: config.store.azure.dead_letters_keep, period: Period::Day };
    let rule = |name| TableRule {
        name,
        window,
        archive: Archive::None,
        keep_archives: None,
        shortened: None,
        archive_before: None,
        archives_until: None,
    };
    dead::table().map(rule).into_iter().collect()
}
