//! Offers a load and counts the results.

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

/// Prefix of the table name. A day-table's name ends in 6 to 10 digits; this name ends in letters.
const TABLE: &str = "DaytableStress";
/// Maximum wait for open requests at the end of a load.
const GRACE: Duration = Duration::from_secs(60);
/// Time limit for creating and dropping the table.
const TABLE_PATIENCE: Duration = Duration::from_secs(60);

/// The load.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Entities per second.
    pub peak: NonZeroU32,
    /// Partitions of the second load.
    pub partitions: NonZeroU16,
    /// Duration of each load.
    pub lasts: Duration,
    /// Maximum transactions in flight.
    pub in_flight: NonZeroU16,
    /// Bytes of the message of an entity.
    pub message_bytes: usize,
}

/// The result of a load.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Partitions used.
    pub partitions: u16,
    /// Entities written.
    pub entities: u64,
    /// Time from the first request to the last answer.
    pub took: Duration,
    /// Latencies of successful requests.
    pub latencies: LatencyHistogram,
    /// Throttled requests.
    pub throttled: u64,
    /// Requests that failed otherwise and were retried.
    pub failed: u64,
}

impl Measured {
    /// Entities per second.
    pub fn rate(&self) -> u64 {
        let nanos = self.took.as_nanos().max(1);
        u64::try_from(u128::from(self.entities) * 1_000_000_000 / nanos).unwrap_or(u64::MAX)
    }
}

/// Why the measurement failed.
#[derive(Debug, thiserror::Error)]
pub enum StressError {
    /// The service refused a request.
    #[error("failed to {0}")]
    Service(#[from] Error),
    /// No request succeeded within the time limit.
    #[error("nothing was written within {0:?} after the load had ended; the last error: {1}")]
    Stuck(Duration, Error),
    /// A stop was requested.
    #[error("stopped before its end")]
    Stopped,
    /// The table could not be dropped.
    #[error("the table {table} is left behind, as it could not be dropped: failed to {source}")]
    LeftBehind {
        /// Its name.
        table: String,
        /// The reason.
        source: Error,
    },
}

/// Offers the load to one partition, then to many. `tell` receives each new phase; `stop` ends the load early. The
/// table is always dropped.
pub async fn stress(
    client: &Client,
    load: Load,
    stop: impl Future<Output = ()>,
    mut tell: impl FnMut(&str, u16),
) -> Result<[Measured; 2], StressError> {
    let table = table_name();
    // The creation always completes: otherwise the table might appear after the drop.
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

/// Tables of killed or running stress tests, which cannot be distinguished.
///
/// # Errors
///
/// If the service cannot list tables.
pub async fn left_behind(client: &Client) -> Result<Vec<String>, StressError> {
    Ok(client.list_tables(TABLE).await?)
}

/// A unique name that ends in letters, so no day-table has the name.
fn table_name() -> String {
    let random = RandomState::new().build_hasher().finish();
    let letters = (0..12).map(|at| char::from(b'a' + u8::try_from(random >> (at * 4) & 15).unwrap_or_default()));
    TABLE.chars().chain(letters).collect()
}

/// Repeats a request until it succeeds, its effect exists, the error is permanent, or the time limit is reached.
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

/// Shared state of the workers of a load.
struct LoadState {
    client: Client,
    table: String,
    load: Load,
    partitions: u16,
    begun: Instant,
    /// Number of the next transaction. Transactions are due at equal intervals, starting at once.
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
        // The first failed worker ends the others, when the join set is dropped.
        if let Ok(result) = ended {
            result?;
        }
    }
    let measured = shared.counted().clone();
    Ok(measured)
}

/// Sends due transactions until the load ends.
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
        // Retries until the transaction is written, so the rate counts written entities only.
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

    /// The pause that the service requested, if the request may be retried.
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

/// The entities of a transaction: rows like log records, each with a unique key.
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
            // Messages above 40 kB leave fewer than 100 entities in a transaction.
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
