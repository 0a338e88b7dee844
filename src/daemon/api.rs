//! What the routes answer: the queries of [`daytable_query`], each over a reader from a pool.
//!
//! A reader keeps its connections and what SQLite has cached behind them, so the second query of a day is fast. A
//! few of them stay; after a burst of queries the others close, and all of them after a drop.

use super::life::Lives;
use super::reload::{ReloadError, ReloadRequest};
use crate::http::api::Lines;
use crate::http::{Api, ApiError, CountParams, FilterParams, QueryParams, ResponseWriter};
use crate::metrics::{CounterRegistry, Metrics};
use crate::remote::{RemoteStore, StatusReader};
use daytable_intake::counters::{SourceCounters, SourceEvent};
use daytable_intake::push::DocumentLookup;
use daytable_intake::route::Router;
use daytable_intake::tail::{self, ImportError, TailOptions};
use daytable_model::key::{DayTable, RowKey};
use daytable_model::record::Level;
use daytable_model::time::{self, Ticks};
use daytable_parse::Reading;
use daytable_platform::reloadable::Reloadable;
use daytable_query::tables::{TableError, TableStore};
use daytable_query::{
    Archives, Filter, Follower, Grouping, ShownListener, ShownSource, Stores, Told, count, select, when,
};
use daytable_store::{IdempotencyKey, Reader, Store, StoreError};
use serde::Serialize;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;

/// How often a follower looks for what was committed.
const FOLLOW_EVERY: Duration = Duration::from_millis(100);

/// What the api go by besides the folder.
#[derive(Clone)]
pub(super) struct ApiContext {
    /// How imports are read.
    pub(super) reading: Reloadable<Reading>,
    /// How archived days are reached.
    pub(super) archives: Reloadable<Archives>,
    /// What all sources count.
    pub(super) counters: Reloadable<CounterRegistry>,
    /// The remote store, where there is one.
    pub(super) remote: Option<Arc<dyn RemoteStore>>,
    /// What waits for it.
    pub(super) outbox: Option<StatusReader>,
    /// All metrics.
    pub(super) metrics: Arc<Metrics>,
}

/// What is behind the data folder.
struct ReadSources {
    archives: Reloadable<Archives>,
    remote: Option<Arc<dyn RemoteStore>>,
}

impl ReadSources {
    fn with<R>(&self, reader: &Reader, answer: impl FnOnce(&Stores<'_>) -> R) -> R {
        let archives = self.archives.load();
        let remote = self.remote.as_deref().map(|remote| remote as &dyn TableStore);
        answer(&Stores { reader, archives: &archives, remote })
    }
}

/// The api over the folder of `store`. `reload` is who reads the configuration again.
pub(super) fn api(
    readers: &Arc<ReaderPool>,
    lives: Lives,
    store: &Store,
    router: Router,
    ways: ApiContext,
    reload: mpsc::UnboundedSender<ReloadRequest>,
) -> Api {
    let ApiContext { reading, archives, counters, remote, outbox, metrics } = ways;
    let (intake, behind) = (store.commit_queue(), Arc::new(ReadSources { archives, remote }));
    Api {
        metrics: Box::new(move || metrics.render()),
        query: Box::new({
            let (readers, behind) = (readers.clone(), behind.clone());
            move |params, out| readers.with(|reader| behind.with(reader, |stores| answer_query(stores, params, out)))
        }),
        count: Box::new({
            let (readers, behind) = (readers.clone(), behind.clone());
            move |params, out| readers.with(|reader| behind.with(reader, |stores| answer_count(stores, params, out)))
        }),
        tail: Box::new({
            let readers = readers.clone();
            move |filters, out| readers.with(|reader| answer_tail(reader, filters, out))
        }),
        tables: Box::new({
            let (readers, lives) = (readers.clone(), lives.clone());
            move |(), out| readers.with(|reader| lives.tables(reader, out))
        }),
        sources: Box::new({
            let readers = readers.clone();
            move |(), out| {
                readers.with(|reader| {
                    let sources = reader.sources()?;
                    write_all(sources.iter().map(ShownSource::of), out)
                })?;
                write_all(counters.load().listeners.iter().map(|listener| shown_listener(listener)), out)?;
                write_all(outbox.iter().map(|shown| shown()), out)
            }
        }),
        drop_table: with_lives(&lives, |lives, name: &String, out| lives.drop_table(name, false, out)),
        drop_without_archive: with_lives(&lives, |lives, name: &String, out| lives.drop_table(name, true, out)),
        plan: with_lives(&lives, |lives, (), out| lives.plan(out)),
        archive: with_lives(&lives, |lives, name: &String, out| lives.archive(name, out)),
        restore: with_lives(&lives, |lives, restore, out| lives.restore(restore, out)),
        reload: Box::new(move |(), out| {
            let reloaded = ReloadRequest::give(&reload).map_err(|error| match error {
                ReloadError::Stopping => ApiError::Busy(error.to_string()),
                _ => ApiError::Refused(error.to_string()),
            })?;
            out.line(&reloaded);
            Ok(())
        }),
        import: Box::new(move |import, out| {
            let instance = import.instance.as_deref().unwrap_or("{host}").parse();
            let instance = instance.map_err(|e: daytable_intake::instance_template::TemplateError| {
                ApiError::parameter("instance", e.to_string())
            })?;
            let (mut reading, mut router) = (Reading::clone(&reading.load()), router.clone());
            router.refresh();
            if !router.is_loaded() {
                let what = "the remote store has not said how instances are spread: files wait";
                return Err(ApiError::Busy(what.into()));
            }
            if let Some(format) = &import.format {
                reading.set_format(format).map_err(|e| ApiError::parameter("format", e.to_string()))?;
            }
            let options = TailOptions { instance, reading, ..TailOptions::new("import", Vec::new()) };
            let progress = |progress| {
                out.line(&progress);
            };
            let imported =
                tail::import(&import.paths, &options, &router, &daytable_platform::host::name(), &intake, progress);
            let complete = imported.and_then(tail::ImportSummary::complete);
            complete.map(drop).map_err(|error| match error {
                ImportError::Refused(_) => ApiError::Busy(error.to_string()),
                ImportError::Read { .. } => ApiError::Refused(error.to_string()),
            })
        }),
    }
}

fn with_lives<P: 'static>(
    lives: &Lives,
    answer: fn(&Lives, &P, &mut ResponseWriter) -> Result<(), ApiError>,
) -> Lines<P> {
    let lives = lives.clone();
    Box::new(move |params, out| answer(&lives, params, out))
}

/// ReaderPool that wait for a query.
pub(super) struct ReaderPool {
    data_dir: PathBuf,
    idle: Mutex<Idle>,
    idle_max: usize,
}

#[derive(Default)]
struct Idle {
    readers: Vec<Reader>,
    /// Goes up when a table was dropped.
    drops: u64,
}

impl ReaderPool {
    /// None yet, over the data folder at `data_dir`. So many wait for a query at most; after a burst of clients the others
    /// close.
    pub(super) fn new(data_dir: PathBuf, idle_max: usize) -> Arc<ReaderPool> {
        Arc::new(ReaderPool { data_dir, idle: Mutex::default(), idle_max })
    }

    /// Lets every reader go: one that has a dropped day open keeps the space of its files taken.
    pub(super) fn let_go(&self) {
        let mut idle = self.idle();
        idle.readers.clear();
        idle.drops += 1;
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with(&self, answer: impl FnOnce(&Reader) -> Result<(), ApiError>) -> Result<(), ApiError> {
        self.look(answer)
    }

    fn look<T, E: From<StoreError>>(&self, answer: impl FnOnce(&Reader) -> Result<T, E>) -> Result<T, E> {
        let (kept, drops) = {
            let mut idle = self.idle();
            (idle.readers.pop(), idle.drops)
        };
        let reader = match kept {
            Some(reader) => reader,
            None => Reader::open(&self.data_dir)?,
        };
        let answered = answer(&reader);
        let mut idle = self.idle();
        if idle.drops == drops && idle.readers.len() < self.idle_max {
            idle.readers.push(reader);
        }
        answered
    }
}

impl DocumentLookup for ReaderPool {
    fn exist(&self, rows: &[(DayTable, Arc<str>, RowKey)]) -> Result<Vec<bool>, StoreError> {
        self.look(|reader| {
            let exists =
                |(table, partition, key): &(DayTable, Arc<str>, RowKey)| match reader.row(table, partition, *key) {
                    Ok(row) => Ok(row.is_some()),
                    Err(StoreError::TableGone(_)) => Ok(false),
                    Err(error) => Err(error),
                };
            rows.iter().map(exists).collect()
        })
    }

    fn is_committed(&self, once: &IdempotencyKey) -> Result<bool, StoreError> {
        self.look(|reader| reader.catalog().knows(once))
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> ApiError {
        match error {
            StoreError::TableGone(_) => ApiError::NotFound(error.to_string()),
            StoreError::Refused(_) => ApiError::Refused(error.to_string()),
            StoreError::Closed => ApiError::Busy(error.to_string()),
            _ => ApiError::Failed(error.to_string()),
        }
    }
}

impl From<TableError> for ApiError {
    fn from(error: TableError) -> ApiError {
        match error {
            TableError::Store(error) => error.into(),
            TableError::NotThere(_) => ApiError::NotFound(error.to_string()),
            _ => ApiError::Failed(error.to_string()),
        }
    }
}

pub(super) fn write_all(lines: impl Iterator<Item = impl Serialize>, out: &mut ResponseWriter) -> Result<(), ApiError> {
    for line in lines {
        if !out.line(&line) {
            break;
        }
    }
    Ok(())
}

/// A listener with its current counts.
fn shown_listener(counters: &SourceCounters) -> ShownListener {
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let events = counters.events().into_iter().filter_map(|(event, count)| match event {
        SourceEvent::KernelDrops => Some(("kernel", count)),
        SourceEvent::RecordsDropped(reason) | SourceEvent::ConnectionClosed(reason) => Some((reason, count)),
        _ => None,
    });
    let cut =
        [("truncated_records", read(&counters.truncated)), ("invalid_utf8_records", read(&counters.invalid_utf8))];
    let losses = events.chain(cut).filter(|(_, count)| *count > 0);
    ShownListener {
        block: counters.name.clone(),
        kind: counters.kind.into(),
        listen: counters.listen_address(),
        // In this order: a record that is committed was received.
        committed: read(&counters.committed),
        received: read(&counters.records),
        bytes: read(&counters.bytes),
        connections: read(&counters.connections),
        losses: losses.map(|(reason, count)| (reason.to_owned(), count)).collect(),
    }
}

/// What a request asks for.
pub(crate) fn filter(filters: &FilterParams, limit: Option<u64>) -> Result<Filter, ApiError> {
    let now = time::now();
    let time = |name: &str, text: &Option<String>| -> Result<Option<Ticks>, ApiError> {
        let parsed = text.as_deref().map(str::parse::<when::When>).transpose();
        Ok(parsed.map_err(|e| ApiError::parameter(name, e.to_string()))?.map(|when| when.at(now)))
    };
    let level =
        |word: &String| Level::from_word(word).ok_or_else(|| ApiError::parameter("level", "no level is called so"));
    Ok(Filter {
        instance: filters.instance.clone(),
        since: time("since", &filters.since)?,
        until: time("until", &filters.until)?,
        level: filters.level.as_ref().map(level).transpose()?,
        contains: filters.contains.clone(),
        limit,
    })
}

fn answer_query(stores: &Stores<'_>, params: &QueryParams, out: &mut ResponseWriter) -> Result<(), ApiError> {
    let filter = filter(&params.filters, Some(params.n as u64))?;
    let mut wrote = false;
    let told = select(stores, &filter, |record| {
        wrote = true;
        if out.line(&record) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    if wrote && told.missing().is_some() {
        // What there is comes all the same, the error behind it.
        out.begin();
    }
    complete(&told)
}

/// An answer that lacks archived days is not a good one: the error says which.
fn complete(told: &Told) -> Result<(), ApiError> {
    told.missing().map_or(Ok(()), |missing| Err(ApiError::Failed(missing)))
}

fn answer_count(stores: &Stores<'_>, params: &CountParams, out: &mut ResponseWriter) -> Result<(), ApiError> {
    let mut grouping = Grouping::default();
    for by in &params.by {
        match by.as_str() {
            "level" => grouping.level = true,
            "instance" => grouping.instance = true,
            _ => return Err(ApiError::parameter("by", "must be level, instance, or both with a comma between")),
        }
    }
    if let Some(every) = &params.every {
        let every =
            daytable_model::units::parse_duration(every).map_err(|e| ApiError::parameter("every", e.to_string()))?;
        if every.is_zero() {
            return Err(ApiError::parameter("every", "must be longer than nothing"));
        }
        grouping.every = Some(every);
    }
    let (counts, told) = count(stores, &filter(&params.filters, None)?, grouping)?;
    // Numbers that lack a day are wrong numbers.
    complete(&told)?;
    out.line(&counts);
    Ok(())
}

fn answer_tail(reader: &Reader, filters: &FilterParams, out: &mut ResponseWriter) -> Result<(), ApiError> {
    let mut follower = Follower::from_now(reader, filter(filters, None)?)?;
    if !out.begin() {
        return Ok(());
    }
    while out.wanted() {
        let flow = follower.step(reader, |record| {
            if out.line(&record) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        if flow.is_break() {
            break;
        }
        std::thread::sleep(FOLLOW_EVERY);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_tells_what_came_and_what_was_lost() {
        let counters = SourceCounters::new("syslog", "udp");
        counters.set_listener("udp://127.0.0.1:514", None);
        counters.records.store(9, Ordering::Relaxed);
        counters.committed.store(7, Ordering::Relaxed);
        counters.count(SourceEvent::KernelDrops, 2);
        counters.count(SourceEvent::ConnectionClosed("connections_max"), 1);
        let shown = shown_listener(&counters);
        assert_eq!(
            serde_json::to_string(&shown).expect("plain data"),
            concat!(
                r#"{"block":"udp","kind":"syslog","listen":"udp://127.0.0.1:514","received":9,"committed":7,"bytes":0,"#,
                r#""connections":0,"losses":{"connections_max":1,"kernel":2}}"#
            )
        );
        assert_eq!(shown.losses(), "connections_max=1 kernel=2");
    }
}
