//! The daemon's answers to the routes of [`crate::http`].

use super::alerts;
use super::asked;
use super::life::LifecycleApi;
use super::log_entries::StoredEntries;
use super::queries;
use super::reader_pool::ReaderPool;
use super::reload::{ReloadError, ReloadRequest};
use super::status::{StatusContext, status};
use crate::config::SavedQuery;
use crate::http::{
    Api, ApiError, ApiResult, ContextParams, CountParams, DropParams, ExportParams, FilterParams, ImportRequest,
    LokiError, QueryParams, QuestionClock, RecordQuestion, ResponseWriter, RestoreRequest, SummaryParams, UnreadFile,
    Visibility,
};
use crate::metrics::{CounterRegistry, Metrics};
use crate::remote::{RemoteStore, StatusReader};
use daytable_intake::counters::{SourceCounters, SourceEvent};
use daytable_intake::instance_template::TemplateError;
use daytable_intake::route::Router;
use daytable_intake::sender_clocks::ClockOff;
use daytable_intake::tail::{self, ImportError, ImportFile, TailOptions};
use daytable_logql::ast::Selector;
use daytable_logql::eval::EntrySource;
use daytable_logql::source::LogEntry;
use daytable_model::path_text::PathText;
use daytable_parse::ParseOptions;
use daytable_platform::budget::MemoryBudget;
use daytable_platform::reloadable::Reloadable;
use daytable_query::listing;
use daytable_query::tables::TableStore;
use daytable_query::{Archives, ShownClock, ShownListener, ShownSource, ShownUnended, Stores};
use daytable_store::{CommitQueue, Reader};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::mpsc::UnboundedSender;

/// The parts of the daemon that answer requests.
pub(super) struct ApiContext {
    /// The name of this host, which `{host}` stands for.
    pub(super) host: String,
    /// The memory of all questions.
    pub(super) questions: MemoryBudget,
    pub(super) readers: Arc<ReaderPool>,
    pub(super) lifecycle: LifecycleApi,
    pub(super) queue: CommitQueue,
    pub(super) router: Router,
    /// How imports are parsed.
    pub(super) reading: Reloadable<ParseOptions>,
    /// The blocks of files.
    pub(super) tails: Reloadable<Vec<TailOptions>>,
    /// The queries that the page offers.
    pub(super) saved_queries: Reloadable<Vec<SavedQuery>>,
    /// How archived days are read.
    pub(super) archives: Reloadable<Archives>,
    pub(super) counters: Reloadable<CounterRegistry>,
    /// The remote store, if the configuration has one.
    pub(super) remote: Option<Arc<dyn RemoteStore>>,
    /// The state of the outbox in front of the remote store.
    pub(super) outbox: Option<StatusReader>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) status: StatusContext,
    pub(super) reloads: UnboundedSender<ReloadRequest>,
}

impl ApiContext {
    /// Fails if a lake is read.
    fn check_writes(&self) -> ApiResult {
        self.stores_nothing().map_or(Ok(()), |reason| Err(ApiError::Refused(reason.into())))
    }

    /// Fails if nothing new can come.
    fn check_follows(&self) -> ApiResult {
        match *self.archives.load() {
            Archives::Lake(_) => Err(ApiError::Refused(
                "this daytable reads a lake, whose days are over: follow records on their hosts, or on a central daytable".into(),
            )),
            _ => Ok(()),
        }
    }

    /// Fails while the store cannot write. A step would wait until it can, which may be never.
    fn check_store(&self) -> ApiResult {
        self.check_writes()?;
        self.status.readiness.store_failure().map_or(Ok(()), |(since, reason)| {
            let next = "nothing was changed; make room where a disk is full, and try again";
            Err(ApiError::Busy(format!("the store cannot write since {since}: {reason}; {next}")))
        })
    }

    /// Calls `read` with the data folder, the archives and the remote store.
    fn with_stores(&self, read: impl FnOnce(&Stores<'_>) -> ApiResult) -> ApiResult {
        let archives = self.archives.load();
        let remote = self.remote.as_deref().map(|remote| remote as &dyn TableStore);
        self.readers.with(|reader| read(&Stores { reader, archives: &archives, remote }))
    }
}

impl Api for ApiContext {
    fn stores_nothing(&self) -> Option<&'static str> {
        match *self.archives.load() {
            Archives::Lake(_) => Some("no such route here: this daytable reads a lake, and stores nothing"),
            _ => None,
        }
    }

    fn metrics(&self) -> String {
        self.metrics.render()
    }

    fn query(&self, params: &QueryParams, out: &mut ResponseWriter) -> ApiResult {
        self.with_stores(|stores| queries::query(stores, params, &self.questions, out))
    }

    fn ask(&self, question: &RecordQuestion, out: &mut ResponseWriter) -> ApiResult {
        self.with_stores(|stores| asked::ask(stores, question, &self.questions, out))
    }

    fn ledgers(&self, out: &mut ResponseWriter) -> ApiResult {
        let ledgers = self.readers.with(|reader| reader.catalog().listeners())?;
        out.lines(ledgers);
        Ok(())
    }

    fn export(&self, params: &ExportParams, out: &mut ResponseWriter) -> ApiResult {
        self.with_stores(|stores| queries::export(stores, params, &self.questions, out))
    }

    fn summary(&self, params: &SummaryParams, out: &mut ResponseWriter) -> ApiResult {
        self.with_stores(|stores| queries::summary(stores, params, &self.questions, out))
    }

    fn context(&self, params: &ContextParams, out: &mut ResponseWriter) -> ApiResult {
        self.with_stores(|stores| queries::context(stores, params, out))
    }

    fn count(&self, params: &CountParams, out: &mut ResponseWriter) -> ApiResult {
        self.with_stores(|stores| queries::count(stores, params, &self.questions, out))
    }

    fn tail(&self, params: &FilterParams, out: &mut ResponseWriter) -> ApiResult {
        self.check_follows()?;
        self.readers.with(|reader| queries::follow(reader, params, &self.questions, out))
    }

    fn patterns(&self, params: &FilterParams, out: &mut ResponseWriter) -> ApiResult {
        self.with_stores(|stores| queries::patterns(stores, params, &self.questions, out))
    }

    fn log_entries(
        &self,
        clock: &QuestionClock,
        seen: &Visibility,
        read: &mut dyn FnMut(&dyn EntrySource),
    ) -> Result<(), LokiError> {
        let asked = self.with_stores(|stores| {
            read(&StoredEntries::new(stores, clock, seen.clone()));
            Ok(())
        });
        asked.map_err(|error| LokiError::failed(error.to_string()))
    }

    fn follow_log_entries(
        &self,
        selector: &Selector,
        seen: &Visibility,
        each: &mut dyn FnMut(Option<LogEntry>) -> ControlFlow<()>,
    ) -> ApiResult {
        self.check_follows()?;
        self.readers.with(|reader| queries::follow_log_entries(reader, selector, seen.clone(), each))
    }

    fn tables(&self, out: &mut ResponseWriter) -> ApiResult {
        if let Archives::Lake(lake) = &*self.archives.load() {
            let listed = listing::tables_of_lake(lake).map_err(ApiError::Failed)?;
            out.lines(&listed);
            return Ok(());
        }
        self.readers.with(|reader| self.lifecycle.tables(reader, out))
    }

    fn sources(&self, out: &mut ResponseWriter) -> ApiResult {
        let sources = self.readers.with(Reader::sources)?;
        out.lines(sources.iter().map(ShownSource::of));
        let counters = self.counters.load();
        out.lines(counters.sources.iter().flat_map(|block| shown_unended(block)));
        out.lines(counters.listeners.iter().map(|listener| shown_listener(listener)));
        out.lines(counters.listeners.iter().flat_map(|listener| shown_clocks(listener)));
        out.lines(self.outbox.iter().map(|status| status()));
        Ok(())
    }

    fn drop_table(&self, params: &DropParams, out: &mut ResponseWriter) -> ApiResult {
        // Also while the disk is full: a drop makes room.
        self.check_writes()?;
        self.lifecycle.drop_table(params, out)
    }

    fn alerts(&self, out: &mut ResponseWriter) -> ApiResult {
        out.line(&alerts::document(&self.status.alerts));
        Ok(())
    }

    fn saved_queries(&self, out: &mut ResponseWriter) -> ApiResult {
        out.line(&*self.saved_queries.load());
        Ok(())
    }

    fn status(&self, out: &mut ResponseWriter) -> ApiResult {
        out.line(&status(&self.status)?);
        Ok(())
    }

    fn files(&self, out: &mut ResponseWriter) -> ApiResult {
        for tail in self.tails.load().iter() {
            out.lines(tail::survey(tail).map_err(|error| ApiError::Failed(error.to_string()))?);
        }
        Ok(())
    }

    fn verify(&self, reads_archives: bool, out: &mut ResponseWriter) -> ApiResult {
        let (verifying, archives) = (self.status.verifying.load(), self.archives.load());
        verifying.answer(self.lifecycle.data_dir(), &archives, reads_archives, out)
    }

    fn plan(&self, out: &mut ResponseWriter) -> ApiResult {
        self.lifecycle.plan(out)
    }

    fn archive(&self, name: &str, out: &mut ResponseWriter) -> ApiResult {
        self.check_store()?;
        self.lifecycle.archive(name, out)
    }

    fn restore(&self, request: &RestoreRequest, out: &mut ResponseWriter) -> ApiResult {
        self.check_store()?;
        self.lifecycle.restore(request, out)
    }

    fn reload(&self, out: &mut ResponseWriter) -> ApiResult {
        let reloaded = ReloadRequest::send(&self.reloads).map_err(|error| match error {
            ReloadError::Stopping => ApiError::Busy(error.to_string()),
            _ => ApiError::Refused(error.to_string()),
        })?;
        out.line(&reloaded);
        Ok(())
    }

    fn import(&self, request: &ImportRequest, files: Vec<ImportFile>, out: &mut ResponseWriter) -> ApiResult {
        self.check_writes()?;
        let instance = request.instance.as_deref().unwrap_or("{host}").parse();
        let instance = instance.map_err(|e: TemplateError| ApiError::parameter("instance", e.to_string()))?;
        let (mut reading, mut router) = (ParseOptions::clone(&self.reading.load()), self.router.clone());
        router.refresh();
        if !router.is_loaded() {
            let reason = "the bucket plan of the remote store is not loaded yet: files wait";
            return Err(ApiError::Busy(reason.into()));
        }
        if request.keep_expired {
            let reason = "a remote store has no days that have expired";
            router = router.keeping_expired().ok_or_else(|| ApiError::parameter("keep_expired", reason))?;
        }
        if let Some(format) = &request.format {
            reading.set_format(format).map_err(|e| ApiError::parameter("format", e.to_string()))?;
        }
        let options = TailOptions { instance, reading, ..TailOptions::new("import", Vec::new()) };
        let progress = |progress| {
            out.line(&progress);
        };
        let imported = tail::import(files, &options, &router, &self.host, &self.queue, progress);
        let imported = imported.map_err(|error| match error {
            ImportError::Refused(_) => ApiError::Busy(error.to_string()),
            ImportError::Read { .. } => ApiError::Refused(error.to_string()),
        })?;
        for error in imported.errors() {
            out.line(&UnreadFile { unread: error.to_string() });
        }
        Ok(())
    }
}

/// The files of a block whose last line has no end.
fn shown_unended(counters: &SourceCounters) -> Vec<ShownUnended> {
    let shown = |(path, unended_bytes): (PathBuf, u64)| ShownUnended {
        block: counters.name.clone(),
        path: path.text().into_owned(),
        unended_bytes,
    };
    counters.unended().into_iter().map(shown).collect()
}

/// The senders of a listener whose clocks are off.
fn shown_clocks(counters: &SourceCounters) -> Vec<ShownClock> {
    let shown = |clock: ClockOff| {
        let seconds = i64::try_from(clock.by.as_secs()).unwrap_or(i64::MAX);
        ShownClock {
            block: counters.name.clone(),
            instance: clock.instance,
            clock_ahead_seconds: if clock.is_ahead { seconds } else { -seconds },
            records: clock.records,
            since: clock.since.to_string(),
            until: clock.until.to_string(),
        }
    };
    counters.clocks_off().into_iter().map(shown).collect()
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
        kind: counters.kind.name.into(),
        listen: counters.listen_address(),
        // In this order: a record that is committed was received.
        committed: read(&counters.committed),
        received: read(&counters.records),
        bytes: read(&counters.bytes),
        connections: read(&counters.connections),
        losses: losses.map(|(reason, count)| (reason.to_owned(), count)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daytable_intake::source::Source;
    use daytable_intake::syslog::Syslog;

    #[test]
    fn a_listener_is_shown_with_its_records_and_losses() {
        let counters = SourceCounters::new(Syslog::KIND, "udp");
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
