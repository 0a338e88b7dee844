//! Places for scans. A limited number of scans is under way at a time; others wait for a place, the first come first.
//! Scans with a place take [CPU slots](daytable_platform::scan_scheduler) for some milliseconds, as many at a time as there
//! are cores. Their threads have a low priority, so that sources and commits get the CPU first.

use super::HttpLimits;
use super::error::ApiError;
use daytable_platform::scan_scheduler::ScanScheduler;
use daytable_platform::{lower_priority, memory};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Added to the niceness of the threads. With 10, other busy programs of a host let a scan wait for seconds.
const NICENESS: i32 = 5;

/// Time from which a scan may have used much memory.
const LONG_SCAN: Duration = Duration::from_millis(50);

/// The places for scans, over all listeners.
pub(super) struct Scans {
    running: Arc<Semaphore>,
    /// Places for running and waiting scans.
    all: Arc<Semaphore>,
    wait: Duration,
    /// Its threads have the low priority. None after the drop.
    threads: Option<Runtime>,
    scheduler: ScanScheduler,
}

/// The place of a scan, until it is dropped.
pub(super) struct ScanPermit {
    _running: OwnedSemaphorePermit,
    _place: OwnedSemaphorePermit,
    /// How long the scan waited for its turn, if it had to.
    pub(super) waited: Option<Duration>,
}

impl Scans {
    pub(super) fn new(limits: &HttpLimits) -> Scans {
        let mut threads = Builder::new_current_thread();
        threads.thread_name("scan").max_blocking_threads(limits.scans).on_thread_start(|| lower_priority(NICENESS));
        Scans {
            running: Arc::new(Semaphore::new(limits.scans)),
            all: Arc::new(Semaphore::new(limits.scans + limits.scans_waiting)),
            wait: limits.scan_wait,
            // Without threads of their own, scans run on those of the listeners.
            threads: threads.build().ok(),
            scheduler: limits.scheduler.clone(),
        }
    }

    /// Waits for a place.
    pub(super) async fn permit(&self) -> Result<ScanPermit, ApiError> {
        let since = Instant::now();
        let place = self.all.clone().try_acquire_owned();
        let place = place.map_err(|_| ApiError::Busy("too many scans are waiting".into()))?;
        if let Ok(running) = self.running.clone().try_acquire_owned() {
            return Ok(ScanPermit { _running: running, _place: place, waited: None });
        }
        match timeout(self.wait, self.running.clone().acquire_owned()).await {
            Ok(Ok(running)) => Ok(ScanPermit { _running: running, _place: place, waited: Some(since.elapsed()) }),
            _ => {
                let waited = since.elapsed().as_secs();
                Err(ApiError::Busy(format!("too many scans are running: this one waited {waited} s for its turn")))
            }
        }
    }

    /// Runs a scan on a thread. A long scan returns its free memory to the system.
    pub(super) fn spawn<T: Send + 'static>(&self, scan: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        let scheduler = self.scheduler.clone();
        let scan = move || {
            let since = Instant::now();
            let result = scheduler.enter(scan);
            if since.elapsed() >= LONG_SCAN {
                memory::release_free();
            }
            result
        };
        match &self.threads {
            Some(threads) => threads.spawn_blocking(scan),
            None => tokio::task::spawn_blocking(scan),
        }
    }
}

impl Drop for Scans {
    fn drop(&mut self) {
        // The last connection may drop this in the runtime of the listeners, where nothing may block.
        if let Some(threads) = self.threads.take() {
            threads.shutdown_background();
        }
    }
}
