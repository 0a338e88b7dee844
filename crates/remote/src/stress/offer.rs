//! A load is offered, and what came of it counted.

use super::LatencyHistogram;
use daytable_azure::{
    Backoff, Client, DateTime, ENTITIES_MAX, EdmValue, Error, ErrorKind, Pauses, Pushed, SealedTransaction, Transaction,
};
use daytable_model::time;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::num::{NonZeroU16, NonZeroU32};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// What the table is called before its number. A day-table's name ends in a date of 6 to 10 digits, this one in letters.
const TABLE: &str = "DaytableStress";
/// How long what is under way at the end is waited for.
const GRACE: Duration = Duration::from_secs(60);
/// How long the table is tried to be made, and to be dropped.
const TABLE_PATIENCE: Duration = Duration::from_secs(60);

/// What is offered.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Entities a second.
    pub peak: NonZeroU32,
    /// Partitions that the second load is spread over.
    pub partitions: NonZeroU16,
    /// How long each load lasts.
    pub lasts: Duration,
    /// Transactions that are under way at a time at most.
    pub in_flight: NonZeroU16,
    /// Bytes of an entity's message.
    pub message_bytes: usize,
}

/// What came of a load.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Partitions it was spread over.
    pub partitions: u16,
    /// Entities that were written.
    pub entities: u64,
    /// From the first request to the last answer.
    pub took: Duration,
    /// What each request took that was answered well.
    pub latencies: LatencyHistogram,
    /// Requests that were answered with too much.
    pub throttled: u64,
    /// Requests that failed otherwise, and were sent again.
    pub failed: u64,
}

impl Measured {
    /// Entities a second.
    pub fn rate(&self) -> u64 {
        let nanos = self.took.as_nanos().max(1);
        u64::try_from(u128::from(self.entities) * 1_000_000_000 / nanos).unwrap_or(u64::MAX)
    }
}

/// Why a store was not measured.
#[derive(Debug, thiserror::Error)]
pub enum StressError {
    /// The service does not do what it is asked for.
    #[error("failed to {0}")]
    Service(#[from] Error),
    /// Nothing was answered well for too long.
    #[error("nothing was written within {0:?} after the load had ended; the last error: {1}")]
    Stuck(Duration, Error),
    /// It was told to stop.
    #[error("stopped before its end")]
    Stopped,
    /// The table is still there.
    #[error("the table {table} is left behind, as it could not be dropped: failed to {source}")]
    LeftBehind {
        /// Its name.
        table: String,
        /// Why.
        source: Error,
    },
}

/// Offers the load to one partition, then to many. `tell` is told what begins; `stop` ends it before its time. The table
/// that is written to is dropped in any case.
pub async fn stress(
    client: &Client,
    load: Load,
    stop: impl Future<Output = ()>,
    mut tell: impl FnMut(&str, u16),
) -> Result<[Measured; 2], StressError> {
    let table = table_name();
    // To its end in any case: else the table might come after it was dropped.
    insist(|| client.create_table(&table), &[ErrorKind::TableAlreadyExists]).await?;
    let measured = tokio::select! {
        biased;
        () = stop => Err(StressError::Stopped),
        measured = async {
            tell(&table, 1);
            let one = offer(client, &table, load, 1).await?;
            tell(&table, load.partitions.get());
            Ok([one, offer(client, &table, load, load.partitions.get()).await?])
        } => measured,
    };
    let dropped = insist(|| client.drop_table(&table), &[ErrorKind::TableNotFound]).await;
    match (measured, dropped) {
        (Err(error), Ok(())) => Err(error),
        (_, Err(source)) => Err(StressError::LeftBehind { table, source }),
        (Ok(measured), Ok(())) => Ok(measured),
    }
}

/// The tables of runs that were killed, or are under way: nobody can tell which.
///
/// # Errors
///
/// Where the service does not list them.
pub async fn left_behind(client: &Client) -> Result<Vec<String>, StressError> {
    Ok(client.list_tables(TABLE).await?)
}

/// A name that no other run has, and no day-table: letters alone.
fn table_name() -> String {
    let random = RandomState::new().build_hasher().finish();
    let letters = (0..12).map(|at| char::from(b'a' + u8::try_from(random >> (at * 4) & 15).unwrap_or_default()));
    TABLE.chars().chain(letters).collect()
}

/// Asks until it is done, or is as good as done, or there is no use, or patience ends.
async fn insist<F: Future<Output = Result<(), Error>>>(
    mut ask: impl FnMut() -> F,
    good: &[ErrorKind],
) -> Result<(), Error> {
    let deadline = Instant::now() + TABLE_PATIENCE;
    let mut backoff = Backoff::new(Pauses::default(), 0);
    loop {
        let error = match ask().await {
            Err(error) if good.contains(&error.kind()) => return Ok(()),
            Err(error) => error,
            Ok(()) => return Ok(()),
        };
        let named = match error.kind() {
            ErrorKind::Retry { after } | ErrorKind::Throttled { after, .. } => after,
            _ => return Err(error),
        };
        let again = Instant::now() + backoff.failed(named);
        if again > deadline {
            return Err(error);
        }
        tokio::time::sleep_until(again).await;
    }
}

/// What the workers of a load share.
struct LoadState {
    client: Client,
    table: String,
    load: Load,
    partitions: u16,
    begun: Instant,
    /// The next transaction's number; the first is due at once, each other one its part of a second after the one before.
    next: AtomicU64,
    counted: Mutex<Measured>,
}

async fn offer(client: &Client, table: &str, load: Load, partitions: u16) -> Result<Measured, StressError> {
    let nothing = Measured {
        partitions,
        entities: 0,
        took: Duration::ZERO,
        latencies: LatencyHistogram::default(),
        throttled: 0,
        failed: 0,
    };
    let shared = Arc::new(LoadState {
        client: client.clone(),
        table: table.to_owned(),
        load,
        partitions,
        begun: Instant::now(),
        next: AtomicU64::new(0),
        counted: Mutex::new(nothing),
    });
    let mut workers = JoinSet::new();
    for worker in 0..load.in_flight.get() {
        workers.spawn(work(shared.clone(), worker));
    }
    while let Some(ended) = workers.join_next().await {
        // The first that fails ends the others: they end with their set.
        if let Ok(result) = ended {
            result?;
        }
    }
    let measured = shared.counted().clone();
    Ok(measured)
}

/// Sends transactions when they are due until the load ends.
async fn work(shared: Arc<LoadState>, worker: u16) -> Result<(), StressError> {
    let LoadState { client, load, begun, .. } = &*shared;
    let ends = *begun + load.lasts;
    let mut backoff = Backoff::new(Pauses::default(), u64::from(worker));
    let message = "x".repeat(load.message_bytes);
    loop {
        let number = shared.next.fetch_add(1, Ordering::Relaxed);
        let nanos = u128::from(number) * ENTITIES_MAX as u128 * 1_000_000_000 / u128::from(load.peak.get());
        let due = *begun + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        if due >= ends || Instant::now() >= ends {
            return Ok(());
        }
        tokio::time::sleep_until(due).await;
        let transaction = transaction(&shared, number, &message);
        // Until it is written: else the rate would be of what was tried.
        loop {
            let asked = Instant::now();
            let Err(error) = client.transact(&transaction).await else {
                shared.count_written(transaction.len() as u64, asked);
                backoff.succeeded();
                break;
            };
            let again = Instant::now() + backoff.failed(shared.count_failed(&error)?);
            if again >= ends + GRACE {
                return Err(StressError::Stuck(GRACE, error));
            }
            tokio::time::sleep_until(again).await;
        }
    }
}

impl LoadState {
    fn counted(&self) -> MutexGuard<'_, Measured> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count_written(&self, entities: u64, asked: Instant) {
        let now = Instant::now();
        let mut counted = self.counted();
        counted.entities += entities;
        counted.took = counted.took.max(now - self.begun);
        counted.latencies.add(now - asked);
    }

    /// The pause that the service named, where the same may be asked again.
    fn count_failed(&self, error: &Error) -> Result<Option<Duration>, Error> {
        let mut counted = self.counted();
        match error.kind() {
            ErrorKind::Throttled { after, .. } => {
                counted.throttled += 1;
                Ok(after)
            }
            ErrorKind::Retry { after } => {
                counted.failed += 1;
                Ok(after)
            }
            _ => Err(error.clone()),
        }
    }
}

/// The entities of a number: rows like those of a log, each with a key that no other one has.
fn transaction(shared: &LoadState, number: u64, message: &str) -> SealedTransaction {
    let partition = format!("stress-{}", number % u64::from(shared.partitions));
    let mut transaction = Transaction::new(shared.client.account(), &shared.table, &partition);
    let now = time::now();
    for entity in 0..ENTITIES_MAX {
        let row_key = format!("{:019}-{number:016x}-{entity:012x}", now.inverted());
        let properties = [
            ("Time", EdmValue::DateTime(DateTime::from_ticks(now.get()))),
            ("Level", EdmValue::from("info")),
            ("Severity", EdmValue::Int32(9)),
            ("Message", EdmValue::from(message)),
            ("Source", EdmValue::from("daytable stress")),
        ];
        if transaction.push(&row_key, properties) != Pushed::Added {
            // Messages of more than 40 kB make transactions of less than a hundred.
            break;
        }
    }
    transaction.seal()
}

#[cfg(test)]
mod tests {
    use super::*;
    use daytable_model::key::DayTable;

    #[test]
    fn its_table_is_no_day_table() {
        let (one, other) = (table_name(), table_name());
        assert_ne!(one, other);
        assert!(one.len() <= 63 && one.chars().all(|c| c.is_ascii_alphabetic()), "{one}");
        assert!(DayTable::parse(&one).is_err());
    }
}
