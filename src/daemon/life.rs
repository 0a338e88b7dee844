//! The lifecycle API: the list of day-tables, the plan, and an operator's requests for a day.

use super::reader_pool::ReaderPool;
use crate::config::{Config, StoreKind};
use crate::http::{ApiError, DropParams, ResponseWriter, RestoreRequest};
use crate::metrics::LifecycleSample;
use crate::remote::{RemoteLifecycle, configured_rules, local_limits, local_rules};
use daytable_lifecycle::listing;
use daytable_lifecycle::progress::StepProgress;
use daytable_lifecycle::{
    ArchiveRequirement, Executor, RemovedArchives, RestoreSpec, Settings, StepError, TableRule, View, forecast,
};
use daytable_model::key::{DayTable, TableName};
use daytable_model::time;
use daytable_platform::reloadable::Reloadable;
use daytable_query::ShownTable;
use daytable_store::{LifecycleState, Reader, StoreError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// Interval of progress reports to a client.
const TELL_EVERY: Duration = Duration::from_millis(100);
/// Interval of repeated reports while a step reports no progress.
const TELL_AGAIN: Duration = Duration::from_secs(15);

/// Answers requests about the lifecycle of day-tables.
#[derive(Clone)]
pub(super) struct LifecycleApi {
    pub(super) executor: Arc<Executor>,
    readers: Arc<ReaderPool>,
    data_dir: PathBuf,
    settings: Reloadable<Settings>,
    /// The lifecycle of the tables in a remote store.
    remote: Option<Arc<dyn RemoteLifecycle>>,
}

impl LifecycleApi {
    pub(super) fn new(
        config: &Config,
        executor: Arc<Executor>,
        readers: Arc<ReaderPool>,
        remote: Option<Arc<dyn RemoteLifecycle>>,
    ) -> LifecycleApi {
        LifecycleApi {
            executor,
            readers,
            data_dir: config.data_dir.clone(),
            settings: Reloadable::new(settings(config)),
            remote,
        }
    }

    /// Replaces the settings.
    pub(super) fn change(&self, settings: Settings) {
        self.settings.store(settings);
    }

    /// The remote store, if `table` is not a table of the data folder.
    fn remote_of(&self, table: &DayTable) -> Option<&dyn RemoteLifecycle> {
        let stays = self.settings.load().rules.iter().any(|rule| rule.name == *table.table());
        self.remote.as_deref().filter(|_| !stays)
    }

    fn view(&self, state: LifecycleState) -> View {
        let settings = self.settings.load();
        View::of(&self.data_dir, state, &settings.rules, settings.limits, time::now())
    }

    /// The day-tables of the data folder, and the view of the lifecycle.
    pub(super) fn listing(&self, reader: &Reader) -> Result<(Vec<ShownTable>, View), StoreError> {
        let view = self.view(LifecycleState::of(reader.catalog())?);
        let tables = listing::table_list(reader, &view, &self.executor.progress().read())?;
        Ok((tables, view))
    }

    /// The data folder.
    pub(super) fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// Bytes that are free on the disk of the data folder.
    pub(super) fn free_bytes(&self) -> Option<u64> {
        let disk = rustix::fs::statvfs(&self.data_dir).ok()?;
        Some(disk.f_bavail.saturating_mul(disk.f_frsize))
    }

    pub(super) fn tables(&self, reader: &Reader, out: &mut ResponseWriter) -> Result<(), ApiError> {
        let (mut tables, _) = self.listing(reader)?;
        if let Some(remote) = &self.remote {
            tables = remote.list_tables(tables, self.settings.load().limits)?;
        }
        out.lines(&tables);
        Ok(())
    }

    /// The state that a scrape of the metrics shows.
    pub(super) fn sample(&self) -> LifecycleSample {
        let progress = self.executor.progress();
        let shown = progress.read();
        let state = self.readers.with(|reader| LifecycleState::of(reader.catalog()));
        LifecycleSample {
            tables: state.ok().map(|state| self.view(state)).map(|view| (view.count_states(), view.bytes)),
            bytes_max: self.settings.load().limits.max_bytes.unwrap_or(0),
            free_bytes: self.free_bytes(),
            held_back: shown.held_back.values().map(|reason| reason.name()).collect(),
            names: self.settings.load().rules.iter().map(|rule| rule.name.to_string()).collect(),
            waiting: shown.failed.values().map(|failed| failed.step).collect(),
            bytes: progress.bytes.read().into(),
            published: progress.publishing.counts(),
            unpublished: shown.unpublished.keys().cloned().collect(),
        }
    }

    pub(super) fn plan(&self, out: &mut ResponseWriter) -> Result<(), ApiError> {
        let view = self.view(self.executor.steps().lifecycle_state()?);
        let mut lines = forecast(&view).lines();
        if let Some(remote) = &self.remote {
            lines.extend(remote.plan(self.settings.load().limits)?);
        }
        out.lines(&lines);
        Ok(())
    }

    pub(super) fn drop_table(&self, params: &DropParams, out: &mut ResponseWriter) -> Result<(), ApiError> {
        let DropParams { table: name, without_archive, archives } = params;
        let (table, steps) = (day_table(name)?, self.executor.steps());
        let remote = self.remote_of(&table);
        if *archives && remote.is_some() {
            let reason =
                "archives of a shared store go by `keep_archives` alone, because other daytables write them, too";
            return Err(ApiError::Refused(reason.into()));
        }
        // Of a day whose archives a kill left, nothing else is here.
        let has_archives_alone = *archives && steps.lifecycle_state()?.has_archives_alone(&table);
        match (remote, without_archive) {
            _ if has_archives_alone => {}
            (Some(remote), _) => remote.drop_table(&table, self.settings.load().limits, *without_archive)?,
            (None, true) => steps.drop_without_archive(&table)?,
            (None, false) => steps.drop_table(&table)?,
        }
        self.readers.clear();
        tracing::info!(%table, without_archive, archives, "dropped, as asked for");
        let removed = if *archives { Some(self.remove_archives(&table)?) } else { None };
        out.line(&Dropped { dropped: name, removed });
        Ok(())
    }

    /// Removes the archives of a day, on a separate thread because an archive blocks on its store.
    fn remove_archives(&self, table: &DayTable) -> Result<RemovedArchives, ApiError> {
        let removed = std::thread::scope(|scope| {
            let worker = std::thread::Builder::new().name("by-hand".into());
            let worker = worker.spawn_scoped(scope, || self.executor.remove_archives(table));
            worker.map(std::thread::ScopedJoinHandle::join)
        });
        let removed = removed.map_err(|error| ApiError::Failed(error.to_string()))?;
        self.readers.clear();
        Ok(removed.map_err(|_| ApiError::Failed("the step ended by a fault".into()))??)
    }

    pub(super) fn archive(&self, name: &str, out: &mut ResponseWriter) -> Result<(), ApiError> {
        let table = day_table(name)?;
        let (settings, remote) = (self.settings.load(), self.remote_of(&table));
        let rules = remote.map_or(&settings.rules[..], |remote| remote.rules());
        let rule = rules.iter().find(|rule| rule.name == *table.table());
        let place = rule.and_then(|rule| match &rule.archive {
            ArchiveRequirement::At(place) => Some(place.clone()),
            ArchiveRequirement::None => None,
        });
        let done = worked(&table, out, |on| match (remote, place.as_deref()) {
            (Some(remote), Some(place)) => remote.archive(&table, place, on),
            (Some(_), None) => Err(StoreError::Refused(format!("the table of {table} asks for no archive")).into()),
            (None, place) => self.executor.archive_now(&table, place, on),
        })?;
        self.readers.clear();
        out.line(&done);
        Ok(())
    }

    pub(super) fn restore(&self, restore: &RestoreRequest, out: &mut ResponseWriter) -> Result<(), ApiError> {
        let name = restore.name.as_deref().map(TableName::new).transpose();
        let wanted = RestoreSpec {
            origin: day_table(&restore.table)?,
            name: name.map_err(|error| ApiError::parameter("name", error.to_string()))?,
            keep: Duration::from_secs(restore.keep_seconds),
            host: restore.host.clone(),
            places: match &self.remote {
                Some(remote) => places(remote.rules()),
                None => places(&self.settings.load().rules),
            },
        };
        let restored = worked(&wanted.origin, out, |on| match self.remote_of(&wanted.origin) {
            Some(remote) => remote.restore(&wanted, on),
            None => self.executor.restore(&wanted, on),
        })?;
        out.line(&restored);
        Ok(())
    }
}

/// What `/-/drop` answers.
#[derive(serde::Serialize)]
struct Dropped<'d> {
    dropped: &'d str,
    #[serde(flatten)]
    removed: Option<RemovedArchives>,
}

/// The lifecycle settings of a configuration.
pub(super) fn settings(config: &Config) -> Settings {
    Settings {
        rules: local_rules(config),
        also: match config.store.kind {
            StoreKind::Embedded => Vec::new(),
            StoreKind::Azure => configured_rules(config),
        },
        schedule: config.lifecycle.schedule.clone(),
        limits: local_limits(config),
    }
}

/// Places to search for archives that the catalog does not list.
fn places(rules: &[TableRule]) -> Vec<String> {
    let mut places: Vec<String> = rules
        .iter()
        .filter_map(|rule| match &rule.archive {
            ArchiveRequirement::At(place) => Some(place.to_string()),
            ArchiveRequirement::None => None,
        })
        .collect();
    places.sort();
    places.dedup();
    places
}

fn day_table(name: &str) -> Result<DayTable, ApiError> {
    DayTable::parse(name).map_err(|e| ApiError::parameter("table", e.to_string()))
}

/// Runs `work` on a separate thread, because an archive blocks on its store. Reports progress to the client, and
/// repeats the last report while `work` is silent.
fn worked<T: Send>(
    table: &DayTable,
    out: &mut ResponseWriter,
    work: impl FnOnce(&mut dyn FnMut(&StepProgress)) -> Result<T, StepError> + Send,
) -> Result<T, ApiError> {
    let (tell, lines) = mpsc::sync_channel::<StepProgress>(1);
    std::thread::scope(|scope| {
        let worker = std::thread::Builder::new().name("by-hand".into()).spawn_scoped(scope, move || {
            // A report is skipped if the previous report was not yet read.
            work(&mut |working| drop(tell.try_send(working.clone())))
        });
        let worker = worker.map_err(|error| ApiError::Failed(error.to_string()))?;
        // Another step may hold the lock.
        let mut last = StepProgress { table: table.to_string(), act: "wait".into(), done: 0, total: 0 };
        loop {
            match lines.recv_timeout(TELL_AGAIN) {
                Ok(working) => last = working,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            // The step continues if the client disconnects.
            let _ = out.line(&last) && out.begin();
            std::thread::sleep(TELL_EVERY);
        }
        let done = worker.join().map_err(|_| ApiError::Failed("the step ended by a fault".into()))?;
        Ok(done?)
    })
}

impl From<StepError> for ApiError {
    fn from(error: StepError) -> ApiError {
        match error {
            StepError::Store(error) => error.into(),
            StepError::Tables(error) => error.into(),
            StepError::NoArchive(..) => ApiError::NotFound(error.to_string()),
            StepError::Stopped => ApiError::Busy(error.to_string()),
            _ => ApiError::Refused(error.to_string()),
        }
    }
}
