//! The remote store with the feature `azure`: Azure Table storage through [`daytable_remote`].

use super::{
    BucketStatus, LossReader, OpenRemote, QUERY_PATIENCE, RemoteError, RemoteLifecycle, RemoteSetup, RemoteStore,
    SampleReader, StatusReader, WORK_PATIENCE, configured_rules,
};
use crate::config::{AccountConfig, Config, CredentialKind, SendOrder, TableConfig, WhenFull};
use crate::http::Readiness;
use crate::metrics::{Metrics, RemoteSample};
use crate::remote::OutboxStatus;
use daytable_lifecycle::executor::{ArchiveOutcome, OnStepProgress};
use daytable_lifecycle::{
    Executor, LifecycleLimits, PlanLine, RestoreOutcome, RestoreSpec, RunSummary, StepError, TableRule,
};
use daytable_model::bucket_plan::BucketPlan;
use daytable_model::key::{DayTable, TableName};
use daytable_model::time;
use daytable_platform::lock;
use daytable_query::ShownTable;
use daytable_query::tables::TableError;
use daytable_remote::outbox;
use daytable_remote::outbox::{
    CommitSignal, DeadLetterReason, OutboxCounters, OutboxError, OutboxSetup, SenderInbox, TableOptions, commit_signal,
    waiting,
};
use daytable_remote::shared::listing::remote_table_list;
use daytable_remote::shared::{self, SharedExecutor, SharedLifecycle};
use daytable_remote::tables::connect::{AccountOptions, ConnectError, account};
use daytable_remote::tables::identity::{Credentials, IdentityOptions};
use daytable_remote::tables::{AzureTables, client_of};
use daytable_store::outbox::bucket_plans::{self, BucketPlans};
use daytable_store::outbox::{DEAD_LETTERS, DropReason, OutboxLevel};
use daytable_store::{LifecycleState, OutboxOptions, Store};
use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::Duration;

impl From<ConnectError> for RemoteError {
    fn from(error: ConnectError) -> RemoteError {
        match error {
            ConnectError::File { path, source } => RemoteError::File { path, source },
            ConnectError::Nothing => RemoteError::NoConnectionString,
            ConnectError::Client(error) => RemoteError::Tables(error),
            error @ (ConnectError::ConnectionString { .. } | ConnectError::Endpoint | ConnectError::Identity(_)) => {
                RemoteError::ConnectionString(error.to_string())
            }
        }
    }
}

impl From<OutboxError> for RemoteError {
    fn from(error: OutboxError) -> RemoteError {
        match error {
            OutboxError::Store(error) => RemoteError::Store(error),
            OutboxError::Tables(error) => RemoteError::Tables(error),
            OutboxError::Start(error) => RemoteError::Start(error),
        }
    }
}

pub(super) fn connect(account: &AccountConfig, patience: Duration) -> Result<AzureTables, ConnectError> {
    Ok(AzureTables::new(daytable_remote::tables::connect::account(&account_options(account))?, patience)?)
}

/// The options of the Azure client for the account of the configuration.
pub(crate) fn account_options(config: &AccountConfig) -> AccountOptions {
    let AccountConfig { credentials, connection_string_file, endpoint, .. } = config.clone();
    let AccountConfig { tenant_id, client_id, client_secret_file, federated_token_file, .. } = config.clone();
    let credentials = match credentials {
        CredentialKind::ConnectionString => Credentials::ConnectionString,
        CredentialKind::ManagedIdentity => Credentials::ManagedIdentity,
        CredentialKind::WorkloadIdentity => Credentials::WorkloadIdentity,
        CredentialKind::ClientSecret => Credentials::ClientSecret,
    };
    let identity = IdentityOptions { tenant_id, client_id, client_secret_file, federated_token_file };
    AccountOptions { credentials, connection_string_file, endpoint, identity }
}

impl RemoteStore for AzureTables {
    fn endpoint(&self) -> &str {
        self.client().account().endpoint()
    }

    fn identity(&self) -> &str {
        self.client().account().identity()
    }

    fn probe_write(&self) -> Result<(), TableError> {
        AzureTables::probe_write(self)
    }

    fn list_tables(
        &self,
        local: Vec<ShownTable>,
        state: LifecycleState,
        rules: &[TableRule],
        limits: LifecycleLimits,
    ) -> Result<Vec<ShownTable>, TableError> {
        Ok(remote_table_list(local, &shared::SharedView::read(self, state, rules, limits)?))
    }
}

/// The name of this daemon among the daemons that share a store.
fn host_id(config: &Config) -> String {
    // Two daemons on one host have different folders.
    let folder = config.data_dir.canonicalize().unwrap_or_else(|_| config.data_dir.clone());
    let hash = xxhash_rust::xxh3::xxh3_64(folder.as_os_str().as_encoded_bytes());
    format!("{}-{hash:016x}", daytable_platform::host::name())
}

pub(super) struct AzureSetup {
    config: Config,
    client: outbox::Client,
    plan: Arc<BucketPlan>,
    level: Arc<OutboxLevel>,
    signal: CommitSignal,
    inbox: SenderInbox,
}

impl AzureSetup {
    pub(super) fn new(config: &Config) -> Result<AzureSetup, RemoteError> {
        let (signal, inbox) = commit_signal();
        let client = client_of(account(&account_options(&config.store.azure.account))?)?;
        let plan = Arc::new(BucketPlan::new(None));
        Ok(AzureSetup { config: config.clone(), client, plan, level: Arc::default(), signal, inbox })
    }
}

impl RemoteSetup for AzureSetup {
    fn bucket_plan(&self) -> &Arc<BucketPlan> {
        &self.plan
    }

    fn outbox_options(&self) -> Result<OutboxOptions, RemoteError> {
        let (signal, azure) = (self.signal.clone(), &self.config.store.azure);
        Ok(OutboxOptions {
            stays: TableName::new(DEAD_LETTERS)?,
            bytes_max: azure.outbox_bytes_max.get(),
            age_max: azure.outbox_age_max,
            drops_oldest: azure.when_full == WhenFull::DropOldest,
            level: self.level.clone(),
            on_commit: Box::new(move || signal.notify()),
        })
    }

    fn load_bucket_plan(&self) {
        let mut steps = match bucket_plans::read(&self.config.data_dir) {
            Ok(Some(steps)) => steps,
            // The service is asked for plans too, but files and journals do not wait for the answer.
            Ok(None) if self.config.store.azure.buckets_max == NonZeroU16::MIN => BucketPlans::default(),
            Ok(None) => return,
            Err(error) => {
                return tracing::error!(%error, "failed to read how instances are spread: files and journals wait for the answer of the remote store");
            }
        };
        let (host, endpoint) = (host_id(&self.config), self.client.account().endpoint());
        if (steps.host.as_str(), steps.endpoint.as_str()) != (host.as_str(), endpoint) {
            // The service has no plan under this name.
            steps.planned.iter_mut().flat_map(|planned| &mut planned.steps).for_each(|step| step.is_remote = false);
        }
        self.plan.load(steps.planned);
    }

    fn open(&self, local: &Arc<Executor>) -> Result<OpenRemote, RemoteError> {
        let (account, config) = (self.client.account(), &self.config);
        let is_owner = config.store.azure.owner;
        let patient = Arc::new(AzureTables::new(account.clone(), WORK_PATIENCE)?);
        let executor =
            Arc::new(SharedExecutor::new(patient, account, local.clone(), config.data_dir.clone(), is_owner));
        let rules = configured_rules(config);
        Ok(OpenRemote {
            store: Arc::new(AzureTables::new(account.clone(), QUERY_PATIENCE)?),
            lifecycle: Arc::new(AzureLifecycle { executor, rules, config: config.clone() }),
        })
    }

    fn start(
        self: Box<Self>,
        store: &Store,
        metrics: &Arc<Metrics>,
        readiness: &Readiness,
    ) -> Result<Box<dyn super::RemoteOutbox>, RemoteError> {
        let AzureSetup { config, client, plan, level, inbox, .. } = *self;
        let (metrics, azure) = (metrics.clone(), &config.store.azure);
        let endpoint = client.account().endpoint().to_owned();
        let table = |table: &TableConfig| TableOptions {
            name: table.name.clone(),
            window: table.window,
            buckets: table.buckets,
        };
        let setup = OutboxSetup {
            data_dir: &config.data_dir,
            fill: azure.fill,
            transactions_max: azure.transactions_max,
            buckets_max: azure.buckets_max,
            grow_after: azure.grow_after,
            is_newest_first: azure.send_order == SendOrder::NewestFirst,
            tables: config.tables.iter().map(table).collect(),
            client,
            remover: store.outbox_remover(),
            bucket_plan: plan.clone(),
            host: host_id(&config),
            on_landed: Box::new(move |entities| lock(&metrics.transactions).entities.observe(entities as f64)),
        };
        let outbox = outbox::Outbox::start(setup, inbox)?;
        let state =
            Arc::new(OutboxState { counters: outbox.counters(), level: level.clone(), plan: plan.clone(), endpoint });
        readiness.settled_by(move || plan.is_loaded());
        readiness.bounded_by(move || level.is_full());
        Ok(Box::new(AzureOutbox { outbox, state }))
    }
}

/// The lifecycle of the tables in the remote store.
struct AzureLifecycle {
    executor: Arc<SharedExecutor>,
    rules: Vec<TableRule>,
    config: Config,
}

impl AzureLifecycle {
    fn view(&self, limits: LifecycleLimits) -> Result<shared::SharedView, StepError> {
        self.executor.view(&self.rules, limits)
    }
}

impl RemoteLifecycle for AzureLifecycle {
    fn rules(&self) -> &[TableRule] {
        &self.rules
    }

    fn list_tables(&self, local: Vec<ShownTable>, limits: LifecycleLimits) -> Result<Vec<ShownTable>, StepError> {
        Ok(remote_table_list(local, &self.view(limits)?))
    }

    fn plan(&self, limits: LifecycleLimits) -> Result<Vec<PlanLine>, StepError> {
        Ok(shared::plan(&self.view(limits)?).lines())
    }

    fn drop_table(&self, table: &DayTable, limits: LifecycleLimits, without_archive: bool) -> Result<(), StepError> {
        self.executor.drop_now(table, self.view(limits)?, without_archive)
    }

    fn archive(&self, table: &DayTable, place: &str, on: &mut OnStepProgress<'_>) -> Result<ArchiveOutcome, StepError> {
        self.executor.archive_now(table, place, on)
    }

    fn restore(&self, wanted: &RestoreSpec, on: &mut OnStepProgress<'_>) -> Result<RestoreOutcome, StepError> {
        self.executor.restore(wanted, on)
    }

    fn work(&self, on_run: Box<dyn Fn(&RunSummary) + Send>, stop: Receiver<()>) {
        let config = &self.config;
        let shared = SharedLifecycle {
            executor: self.executor.clone(),
            data_dir: config.data_dir.clone(),
            id: host_id(config),
            is_owner: config.store.azure.owner,
            rules: self.rules.clone(),
            schedule: config.lifecycle.schedule.clone(),
            limits: config.lifecycle.limits,
            on_run,
        };
        shared.work(stop);
    }
}

struct AzureOutbox {
    outbox: outbox::Outbox,
    state: Arc<OutboxState>,
}

impl super::RemoteOutbox for AzureOutbox {
    fn has_ended(&self) -> bool {
        self.outbox.has_ended()
    }

    fn release_waiters(&self) {
        self.outbox.release_waiters();
    }

    fn status(&self) -> StatusReader {
        let state = self.state.clone();
        Arc::new(move || state.status())
    }

    fn sample(&self) -> SampleReader {
        let state = self.state.clone();
        Box::new(move || state.sample())
    }

    fn losses(&self) -> LossReader {
        let state = self.state.clone();
        Box::new(move || state.losses())
    }

    fn stop(self: Box<Self>, grace: Duration) {
        self.outbox.stop(grace);
    }
}

/// Counters of the sender, and the backlog.
struct OutboxState {
    counters: Arc<OutboxCounters>,
    level: Arc<OutboxLevel>,
    plan: Arc<BucketPlan>,
    endpoint: String,
}

impl OutboxState {
    fn waiting(&self) -> u64 {
        waiting(&self.counters, &self.level)
    }

    fn age(&self) -> Duration {
        if self.waiting() == 0 { Duration::ZERO } else { self.level.age(time::now()) }
    }

    fn status(&self) -> OutboxStatus {
        let OutboxState { counters, level, plan, endpoint } = self;
        let state = if counters.is_denied.load(Ordering::Relaxed) {
            "denied"
        } else if level.is_full() {
            "full"
        } else if !plan.is_loaded() {
            "asking"
        } else if counters.failures.load(Ordering::Relaxed) > 0 {
            "failing"
        } else if self.waiting() > 0 {
            "sending"
        } else {
            "idle"
        };
        OutboxStatus {
            block: "outbox".into(),
            kind: "azure".into(),
            endpoint: endpoint.clone(),
            state: state.into(),
            entities: self.waiting(),
            bytes: level.bytes(),
            age_seconds: self.age().as_secs(),
            sent: counters.sent.load(Ordering::Relaxed),
            losses: self.losses(),
            last_error: counters.last_error(),
            spread: plan.planned().iter().map(BucketStatus::new).collect(),
        }
    }

    fn losses(&self) -> BTreeMap<String, u64> {
        let aside =
            DeadLetterReason::ALL.map(|why| (format!("dead_letter_{}", why.label()), self.counters.dead_letters(why)));
        let dropped = DropReason::ALL.map(|why| (why.label().to_owned(), self.level.dropped(why)));
        aside.into_iter().chain(dropped).filter(|(_, count)| *count > 0).collect()
    }

    fn sample(&self) -> RemoteSample {
        let OutboxState { counters, level, plan, .. } = self;
        let code = |code: u16| if code == 0 { "none".to_owned() } else { code.to_string() };
        let planned = plan.planned();
        let buckets = planned.iter().flat_map(|planned| &planned.steps).map(|step| step.buckets.get());
        RemoteSample {
            entities: self.waiting(),
            bytes: level.bytes(),
            oldest_age_seconds: self.age().as_secs_f64(),
            is_full: level.is_full(),
            requests: counters.codes().into_iter().map(|(status, requests)| (code(status), requests)).collect(),
            retries: counters.retries.load(Ordering::Relaxed),
            throttled: counters.throttled.load(Ordering::Relaxed),
            sent: counters.sent.load(Ordering::Relaxed),
            spread_instances: planned.len() as u64,
            spread_buckets_max: buckets.max().unwrap_or(0).into(),
            spread_steps: counters.bucket_steps.load(Ordering::Relaxed),
            is_spread_pending: !plan.is_loaded(),
            is_denied: counters.is_denied.load(Ordering::Relaxed),
            dead_letters: DeadLetterReason::ALL.map(|why| (why.label(), counters.dead_letters(why))).into(),
            dropped: DropReason::ALL.map(|why| (why.label(), level.dropped(why))).into(),
        }
    }
}
