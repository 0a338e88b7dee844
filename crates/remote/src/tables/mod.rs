//! Tables in Azure Table storage, Cosmos DB's Table API, and Azurite.
//!
//! Temporary read failures are retried until the patience of the store ends. Then the read returns the error, never a
//! shortened result. The service filters by conditions it evaluates exactly: keys, times and, for whole records, the
//! level.
//!
//! * **A partition, newest first**, is the native order of the service: a page and its continuation. Cosmos DB
//!   guarantees no order, so its partitions are read by time windows. Ranges with the oldest row first are read the
//!   same way.
//! * **Partitions**: the service has no list. The next partition is found by a query for one entity after the current
//!   name.
//! * **Items** have no level. A query with a level reads the items of each matching record by key.
//! * **A batch** larger than one transaction (as JSON) is sent as several, items before their master. Concurrent
//!   readers see no partial record.

pub mod connect;
pub mod identity;

use crate::entity;
use daytable_azure as azure;
use daytable_azure::{
    Backoff, Client, ClientOptions, DateTime, EdmValue, ErrorKind, Pauses, Pushed, Query, StorageAccount, Transaction,
    literal,
};
use daytable_model::batch::{Batch, RowRef};
use daytable_model::key::{DayTable, RowKey, partition_key};
use daytable_model::time::{self, Ticks};
use daytable_platform::scan_scheduler;
use daytable_query::tables::windows::{self, KeyRange, WINDOW_ROWS_MAX};
use daytable_query::tables::{
    ContinuationToken, OwnedRow, Projection, RESULT_ROWS_MAX, RangeQuery, ResultPage, RowOrder, ServiceToken,
    TableError, TableStore,
};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// A service as a table store. Threads may share the store.
pub struct AzureTables {
    client: Client,
    /// `None` only during the drop.
    runtime: Option<Runtime>,
    patience: Duration,
}

impl Drop for AzureTables {
    fn drop(&mut self) {
        // Shutdown in the background does not wait, so the store may be dropped in any thread.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Bytes of the bucket suffix of a partition name: `~3f`.
const BUCKET_BYTES: usize = 3;

/// Pauses between retries: short, because a caller waits.
const PAUSES: Pauses = Pauses {
    first: Duration::from_millis(100),
    longest: Duration::from_secs(5),
    named_longest: Duration::from_secs(30),
};

/// Creates a client of an account. Requests are dated by the clock of this host.
///
/// # Errors
///
/// If the system provides no sockets.
pub fn client_of(account: StorageAccount) -> Result<Client, TableError> {
    let clock = || DateTime::from_ticks(time::now().get());
    Client::new(account, ClientOptions::new(clock)).map_err(|error| TableError::Setup(error.into()))
}

impl AzureTables {
    /// The tables of an account. Sends no request yet.
    ///
    /// # Errors
    ///
    /// If the system provides no sockets or threads.
    pub fn new(account: StorageAccount, patience: Duration) -> Result<AzureTables, TableError> {
        AzureTables::over(client_of(account)?, patience)
    }

    /// The tables of `client`, which must have no other user: its connections end with this store.
    ///
    /// # Errors
    ///
    /// If the system provides no sockets or threads.
    pub fn over(client: Client, patience: Duration) -> Result<AzureTables, TableError> {
        // The runtime has its own thread, which also maintains idle connections.
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).thread_name("tables").enable_all().build();
        Ok(AzureTables { client, runtime: Some(runtime.map_err(TableError::Runtime)?), patience })
    }

    /// The client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Repeats a request until an answer arrives or the patience ends.
    pub(crate) fn ask<T>(&self, request: impl AsyncFn(&Client) -> Result<T, azure::Error>) -> Result<T, azure::Error> {
        let until = Instant::now() + self.patience;
        let mut backoff = Backoff::new(PAUSES, std::process::id().into());
        let asked = async {
            loop {
                let error = match request(&self.client).await {
                    Ok(answer) => return Ok(answer),
                    Err(error) => error,
                };
                let (ErrorKind::Retry { after } | ErrorKind::Throttled { after, .. }) = error.kind() else {
                    return Err(error);
                };
                let pause = backoff.failed(after);
                if Instant::now() + pause >= until {
                    return Err(error);
                }
                tracing::debug!(%error, ?pause, "is asked again");
                tokio::time::sleep(pause).await;
            }
        };
        scan_scheduler::pause(|| self.runtime().block_on(asked))
    }

    /// Drops a table with one request and no retry: checks made before the request soon become stale.
    ///
    /// # Errors
    ///
    /// As for [`TableStore::drop_table`], which retries.
    pub fn drop_once(&self, table: &DayTable) -> Result<bool, TableError> {
        let (name, runtime) = (table.to_string(), self.runtime());
        dropped(table, runtime.block_on(self.client.drop_table(&name)))
    }

    /// Whether rows can be written there. Nothing is changed.
    ///
    /// # Errors
    ///
    /// [`TableError::Denied`] if they cannot be; otherwise there is no telling.
    pub fn probe_write(&self) -> Result<(), TableError> {
        self.ask(Client::probe_write).map_err(service_error)
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("it is there until the store is dropped")
    }

    fn query(
        &self,
        table: &DayTable,
        query: &Query,
        next: Option<&azure::Continuation>,
    ) -> Result<azure::EntityPage, TableError> {
        let name = table.to_string();
        self.ask(async |client| client.query(&name, query, next).await).map_err(|error| error_of(table, error))
    }

    /// The rows of a page.
    fn rows(
        &self,
        table: &DayTable,
        partition: &Arc<str>,
        entities: Vec<azure::Entity>,
    ) -> Result<Vec<OwnedRow>, TableError> {
        let mut partition = partition.clone();
        let mut row = |entity| {
            let row = entity::row_of(entity, &partition)
                .map_err(|what| TableError::Foreign { table: table.clone(), what })?;
            partition = row.partition.clone();
            Ok(row)
        };
        entities.into_iter().map(&mut row).collect()
    }

    /// The query for rows between two times (both inclusive) with one of these keys.
    fn range(wanted: &RangeQuery, from: Ticks, to: Ticks, keys: KeyRange) -> Query {
        let mut query = Query::partition(&wanted.partition);
        if to < Ticks::MAX {
            query = query.rows_from(&format!("{:019}", to.inverted()));
        }
        if from > Ticks::MIN {
            query = query.rows_below(&format!("{:019}", from.inverted() + 1));
        }
        if let Some(first) = keys.from {
            query = query.rows_from(&first.to_string());
        }
        if let Some(below) = keys.below {
            query = query.rows_below(&below.to_string());
        }
        if let Some(level) = wanted.level {
            query = query.filter(&format!("Severity ge {}", level.severity()));
        }
        match wanted.columns {
            Projection::All => query,
            Projection::Keys => query.select(&["PartitionKey", "RowKey", "Level"]),
        }
    }

    /// All rows of a range in the order of the service. Stops if a window cannot hold the rows.
    fn window(
        &self,
        table: &DayTable,
        wanted: &RangeQuery,
        (from, to): (Ticks, Ticks),
        keys: KeyRange,
    ) -> Result<Vec<OwnedRow>, TableError> {
        let (query, mut rows, mut next) = (AzureTables::range(wanted, from, to, keys), Vec::new(), None);
        loop {
            let page = self.query(table, &query, next.as_ref())?;
            rows.extend(self.rows(table, &wanted.partition, page.entities)?);
            next = page.next;
            if next.is_none() || rows.len() > WINDOW_ROWS_MAX {
                return Ok(rows);
            }
        }
    }

    /// Adds the items of each record, which a filter by level leaves out.
    fn with_items(
        &self,
        table: &DayTable,
        wanted: &RangeQuery,
        rows: Vec<OwnedRow>,
    ) -> Result<Vec<OwnedRow>, TableError> {
        if wanted.level.is_none() || wanted.columns == Projection::Keys {
            return Ok(rows);
        }
        let mut all = Vec::with_capacity(rows.len());
        for row in rows {
            let (key, has_items) = (row.key, row.items() > 0);
            all.push(row);
            if has_items {
                // Keys that begin with `key_` lie below the key plus the next character.
                let query =
                    Query::partition(&wanted.partition).rows_from(&format!("{key}_")).rows_below(&format!("{key}`"));
                let mut items = self.all(table, wanted, &query)?;
                items.sort_by_key(|item| item.key);
                if wanted.order == RowOrder::OldestFirst {
                    items.reverse();
                }
                let at = if wanted.order == RowOrder::OldestFirst { all.len() - 1 } else { all.len() };
                all.splice(at..at, items);
            }
        }
        Ok(all)
    }

    fn all(&self, table: &DayTable, wanted: &RangeQuery, query: &Query) -> Result<Vec<OwnedRow>, TableError> {
        let (mut rows, mut next) = (Vec::new(), None);
        loop {
            let page = self.query(table, query, next.as_ref())?;
            rows.extend(self.rows(table, &wanted.partition, page.entities)?);
            next = page.next;
            if next.is_none() {
                return Ok(rows);
            }
        }
    }

    /// The partitions of an instance: `whole` (with or without rows) and its buckets.
    ///
    /// # Errors
    ///
    /// As for [`TableStore::partitions`].
    pub fn buckets_of(&self, table: &DayTable, whole: &str) -> Result<Vec<Arc<str>>, TableError> {
        let mut found: Vec<Arc<str>> = vec![whole.into()];
        // Only a bucket begins with the key and `~`. A later read shows whether the key itself has rows.
        let (mut above, below) = (format!("{whole}~"), format!("{whole}~g"));
        while let Some(partition) = self.next_partition(table, &above, Some(&below))? {
            above = partition.to_string();
            if partition.len() == whole.len() + BUCKET_BYTES {
                found.push(partition);
            }
        }
        Ok(found)
    }

    /// The first partition after `above`, and before `below` if given.
    fn next_partition(
        &self,
        table: &DayTable,
        above: &str,
        below: Option<&str>,
    ) -> Result<Option<Arc<str>>, TableError> {
        let is_sorted = self.client.account().flavour().is_sorted();
        let (mut found, mut below): (Option<Arc<str>>, _) = (None, below.map(str::to_owned));
        loop {
            let mut query = Query::default().filter(&format!("PartitionKey gt {}", literal(&EdmValue::from(above))));
            if let Some(below) = &below {
                query = query.partitions_below(below);
            }
            let query = query.select(&["PartitionKey", "RowKey"]).top(1);
            let (mut next, mut any) = (None, None);
            while any.is_none() {
                let page = self.query(table, &query, next.as_ref())?;
                any = page.entities.into_iter().next();
                next = page.next;
                if next.is_none() {
                    break;
                }
            }
            let Some(entity) = any else { return Ok(found) };
            found = Some(entity.partition_key.as_str().into());
            if is_sorted {
                return Ok(found);
            }
            // The service returned any later partition; earlier ones may exist.
            below = Some(entity.partition_key);
        }
    }

    fn send(&self, batch: &Batch, rows: &[RowRef<'_>]) -> Result<(), TableError> {
        debug_assert!(!batch.is_of_many(), "a transaction has one partition");
        let name = batch.table.to_string();
        let new = || Transaction::new(self.client.account(), &name, &batch.partition);
        let transact = |transaction: Transaction| {
            let sealed = transaction.seal();
            let sent = self.ask(async |client| client.transact(&sealed).await);
            sent.map(drop).map_err(|error| error_of(&batch.table, error))
        };
        let mut transaction = new();
        let push = |transaction: &mut Transaction, row: &RowRef<'_>| {
            transaction.push(&row.key.to_string(), entity::properties(batch, row))
        };
        if rows.iter().all(|row| push(&mut transaction, row) == Pushed::Added) {
            return transact(transaction);
        }
        let mut transaction = new();
        for row in rows.iter().rev() {
            let mut pushed = push(&mut transaction, row);
            if pushed == Pushed::Full {
                transact(std::mem::replace(&mut transaction, new()))?;
                pushed = push(&mut transaction, row);
            }
            if pushed != Pushed::Added {
                return Err(TableError::TooLarge { table: batch.table.clone(), key: row.key });
            }
        }
        transact(transaction)
    }
}

/// A table that is missing or being deleted counts as dropped.
fn dropped(table: &DayTable, answer: Result<(), azure::Error>) -> Result<bool, TableError> {
    match answer {
        Ok(()) => Ok(true),
        Err(error) if matches!(error.kind(), ErrorKind::TableNotFound | ErrorKind::TableBeingDeleted) => Ok(false),
        Err(error) => Err(error_of(table, error)),
    }
}

fn error_of(table: &DayTable, error: azure::Error) -> TableError {
    match error.kind() {
        ErrorKind::TableNotFound => TableError::NotThere(table.clone()),
        ErrorKind::TableBeingDeleted => TableError::BeingDropped(table.clone()),
        _ => service_error(error),
    }
}

/// Converts a client error to the error that tells the caller what to do.
pub fn service_error(error: azure::Error) -> TableError {
    match error.kind() {
        ErrorKind::Denied => TableError::Denied(error.into()),
        _ => TableError::Service(error.into()),
    }
}

fn token_of(next: azure::Continuation) -> ServiceToken {
    let (partition_key, row_key) = next.into_parts();
    ServiceToken { partition_key, row_key }
}

fn continuation_of(token: &ServiceToken) -> azure::Continuation {
    azure::Continuation::new(token.partition_key.clone(), token.row_key.clone())
}

impl TableStore for AzureTables {
    fn create_table(&self, table: &DayTable) -> Result<bool, TableError> {
        let name = table.to_string();
        match self.ask(async |client| client.create_table(&name).await) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::TableAlreadyExists => Ok(false),
            Err(error) => Err(error_of(table, error)),
        }
    }

    fn drop_table(&self, table: &DayTable) -> Result<bool, TableError> {
        let name = table.to_string();
        dropped(table, self.ask(async |client| client.drop_table(&name).await))
    }

    fn tables(&self) -> Result<Vec<DayTable>, TableError> {
        let names = self.ask(async |client| client.list_tables("").await).map_err(service_error)?;
        Ok(names.iter().filter_map(|name| DayTable::parse(name).ok()).collect())
    }

    fn write(&self, batch: Batch) -> Result<(), TableError> {
        let rows: Vec<RowRef<'_>> = batch.rows().collect();
        if rows.is_empty() { Ok(()) } else { self.send(&batch, &rows) }
    }

    fn partitions(&self, table: &DayTable, instance: Option<&str>) -> Result<Vec<Arc<str>>, TableError> {
        if let Some(instance) = instance {
            return self.buckets_of(table, &partition_key(instance, None));
        }
        let (mut found, mut above): (Vec<Arc<str>>, _) = (Vec::new(), String::new());
        while let Some(partition) = self.next_partition(table, &above, None)? {
            above = partition.to_string();
            found.push(partition);
        }
        Ok(found)
    }

    fn read_range(
        &self,
        table: &DayTable,
        wanted: &RangeQuery,
        at: Option<&ContinuationToken>,
    ) -> Result<ResultPage, TableError> {
        let is_sorted = self.client.account().flavour().is_sorted();
        if wanted.order == RowOrder::OldestFirst || !is_sorted {
            let window = match at {
                Some(ContinuationToken::Window(_, window)) => Some(*window),
                _ => None,
            };
            let mut page = windows::page(wanted, window, WINDOW_ROWS_MAX, |from, to, keys| {
                self.window(table, wanted, (from, to), keys)
            })?;
            page.rows = self.with_items(table, wanted, page.rows)?;
            return Ok(page);
        }
        let next = match at {
            Some(ContinuationToken::Service(_, token)) => Some(continuation_of(token)),
            _ => None,
        };
        let top = u16::try_from(wanted.rows.clamp(1, RESULT_ROWS_MAX)).unwrap_or(u16::MAX);
        let query = AzureTables::range(wanted, wanted.from, wanted.to, KeyRange::default()).top(top);
        let page = self.query(table, &query, next.as_ref())?;
        let rows = self.rows(table, &wanted.partition, page.entities)?;
        let rows = self.with_items(table, wanted, rows)?;
        Ok(ResultPage { rows, next: page.next.map(|token| ContinuationToken::Service(None, token_of(token))) })
    }

    fn read_table(&self, table: &DayTable, at: Option<&ContinuationToken>) -> Result<ResultPage, TableError> {
        if self.client.account().flavour().is_sorted() {
            let (start, next) = match at {
                Some(ContinuationToken::After(partition, key)) => (Some(Box::new((partition.clone(), *key))), None),
                Some(ContinuationToken::Service(start, token)) => (start.clone(), Some(continuation_of(token))),
                _ => (None, None),
            };
            let mut query = Query::default();
            if let Some((partition, key)) = start.as_deref() {
                let (partition, key) = (literal(&EdmValue::from(&**partition)), key.to_string());
                let key = literal(&EdmValue::from(key.as_str()));
                query = query.filter(&format!(
                    "PartitionKey gt {partition} or (PartitionKey eq {partition} and RowKey gt {key})"
                ));
            }
            let page = self.query(table, &query, next.as_ref())?;
            let rows = self.rows(table, &"".into(), page.entities)?;
            return Ok(ResultPage {
                rows,
                next: page.next.map(|token| ContinuationToken::Service(start, token_of(token))),
            });
        }
        let (partition, window, after) = match at {
            Some(ContinuationToken::Window(Some(partition), window)) => (Some(partition.clone()), Some(*window), None),
            Some(ContinuationToken::After(partition, key)) if *key == partition_end() => {
                (self.next_partition(table, partition, None)?, None, None)
            }
            Some(ContinuationToken::After(partition, key)) => (Some(partition.clone()), None, Some(*key)),
            _ => (self.next_partition(table, "", None)?, None, None),
        };
        let Some(partition) = partition else { return Ok(ResultPage::default()) };
        let to = after.map_or(Ticks::MAX, |key| key.time());
        let wanted = RangeQuery { to, ..RangeQuery::all_of(partition.clone()) };
        let page = windows::page(&wanted, window, WINDOW_ROWS_MAX, |from, to, keys| {
            self.window(table, &wanted, (from, to), keys)
        })?;
        let next = match page.next {
            Some(ContinuationToken::Window(_, window)) => ContinuationToken::Window(Some(partition), window),
            _ => ContinuationToken::After(partition, partition_end()),
        };
        let rows = page.rows.into_iter().filter(|row| after.is_none_or(|after| row.key > after)).collect();
        Ok(ResultPage { rows, next: Some(next) })
    }
}

/// A key after all rows of a partition.
fn partition_end() -> RowKey {
    RowKey::range(Ticks::MIN, Ticks::MIN).1
}
