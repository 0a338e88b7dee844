//! The log in its store: its limits, and how its objects are read and written.

use crate::error::DeltaError;
use crate::log_name::LogName;
use crate::metadata::Fault;
use crate::snapshot::{ObjectMark, StateLimits, forgotten};
use bytes::Bytes;
use object_store::path::Path;
use object_store::{Error as StoreError, ObjectStore, ObjectStoreExt, PutMode, PutPayload};
use std::fs::File;
use std::future::poll_fn;
use std::io::{self, Read};
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OnceCell;

/// The folder of the log, below the table.
const LOG_FOLDER: &str = "_delta_log";

/// Limits of a log, and how long its writers are patient.
#[derive(Clone, Debug)]
pub struct DeltaOptions {
    /// Names of the partition columns that the table is made with, in their order.
    pub partition_columns: Vec<String>,
    /// Files and removed files of the table.
    pub files_max: usize,
    /// Applications with a transaction.
    pub transactions_max: usize,
    /// Bytes of files and removed files in memory.
    pub state_bytes_max: usize,
    /// Objects in the folder of the log.
    pub objects_max: usize,
    /// Bytes of a commit.
    pub commit_bytes_max: u64,
    /// Bytes of a checkpoint, as it is and when it is decompressed.
    pub checkpoint_bytes_max: u64,
    /// Versions from one checkpoint to the next.
    pub checkpoint_every: NonZeroU64,
    /// How often a commit is tried while others are faster.
    pub tries_max: NonZeroU32,
    /// How often a version is asked for while the store's answers say nothing.
    pub questions_max: NonZeroU32,
    /// The first wait between two tries. Later ones double.
    pub wait_min: Duration,
    /// The longest wait between two tries.
    pub wait_max: Duration,
}

impl Default for DeltaOptions {
    fn default() -> DeltaOptions {
        DeltaOptions {
            partition_columns: Vec::new(),
            files_max: 1_000_000,
            transactions_max: 100_000,
            state_bytes_max: 512 << 20,
            objects_max: 1_000_000,
            commit_bytes_max: 16 << 20,
            checkpoint_bytes_max: 256 << 20,
            checkpoint_every: NonZeroU64::new(100).expect("100 is not zero"),
            tries_max: NonZeroU32::new(100).expect("100 is not zero"),
            questions_max: NonZeroU32::new(8).expect("8 is not zero"),
            wait_min: Duration::from_millis(20),
            wait_max: Duration::from_secs(2),
        }
    }
}

/// Called with the path of an object in the store, for stores that are folders.
pub type WriteHook = Arc<dyn Fn(&Path) -> io::Result<()> + Send + Sync>;

/// The log of one table in a store. Any number of these may write to one table.
#[derive(Clone)]
pub struct DeltaLog {
    store: Arc<dyn ObjectStore>,
    folder: Path,
    pub(crate) options: DeltaOptions,
    before_write: Option<WriteHook>,
    after_write: Option<WriteHook>,
    check: Option<StoreCheck>,
}

/// Whether a store was found to write an object only if it is absent. A copy knows what the original does.
#[derive(Clone, Debug, Default)]
pub struct StoreCheck(Arc<OnceCell<()>>);

impl DeltaLog {
    /// The log of the table at `table` in `store`. Nothing is asked of the store yet.
    pub fn new(store: Arc<dyn ObjectStore>, table: &Path, options: DeltaOptions) -> DeltaLog {
        let folder = table.clone().join(LOG_FOLDER);
        DeltaLog { store, folder, options, before_write: None, after_write: None, check: None }
    }

    /// With a call before each write of an object, which may make its folder.
    pub fn with_before_write(mut self, hook: WriteHook) -> DeltaLog {
        self.before_write = Some(hook);
        self
    }

    /// With a call after each write of an object, which may restrict the file and sync it and its folder. A commit ends
    /// only after this call for its version. If nothing was to be committed, the call is made for the version that
    /// the proposal has seen: its writer may have been killed before its own call.
    ///
    /// A local store needs this only for what `LocalFileSystem::with_fsync` does not do.
    pub fn with_after_write(mut self, hook: WriteHook) -> DeltaLog {
        self.after_write = Some(hook);
        self
    }

    /// Tries the store before the first commit, unless `check` knows that it was found good. All logs in one store may share it.
    pub fn with_check(mut self, check: StoreCheck) -> DeltaLog {
        self.check = Some(check);
        self
    }

    /// Fails if the store is not known to be good, and is not.
    pub(crate) async fn ensure_fit(&self) -> Result<(), DeltaError> {
        let Some(StoreCheck(check)) = &self.check else { return Ok(()) };
        check.get_or_try_init(|| self.check_store()).await.map(drop)
    }

    /// Limits of the table's state at `now`.
    pub(crate) fn state_limits(&self, now: i64) -> StateLimits {
        StateLimits {
            files_max: self.options.files_max,
            transactions_max: self.options.transactions_max,
            bytes_max: self.options.state_bytes_max,
            forgotten: forgotten(now),
        }
    }

    pub(crate) fn commit_path(&self, version: u64) -> Path {
        self.path(&LogName::Commit(version).text())
    }

    pub(crate) fn path(&self, name: &str) -> Path {
        self.folder.clone().join(name)
    }

    /// The names in the log from `version` on, in no order, and which objects have them.
    pub(crate) async fn names_from(&self, version: u64) -> Result<Vec<(LogName, ObjectMark)>, DeltaError> {
        // A number alone sorts before all names that begin with it.
        let mut objects = self.store.list_with_offset(Some(&self.folder), &self.path(&format!("{version:020}")));
        let (mut names, mut seen) = (Vec::new(), 0_usize);
        while let Some(object) = poll_fn(|context| objects.as_mut().poll_next(context)).await {
            let object = object.map_err(|error| DeltaError::store(&self.folder, error))?;
            seen += 1;
            if seen > self.options.objects_max {
                let max = self.options.objects_max as u64;
                return Err(DeltaError::TooMany { object: self.folder.to_string(), what: "objects", max });
            }
            let mut below = object.location.prefix_match(&self.folder).into_iter().flatten();
            if let (Some(name), None) = (below.next(), below.next()) {
                names.extend(LogName::parse(name.as_ref()).map(|name| (name, ObjectMark::new(&object))));
            }
        }
        Ok(names)
    }

    /// The bytes of an object, if it exists and is not too large.
    pub(crate) async fn read(&self, object: &Path, bytes_max: u64) -> Result<Option<Bytes>, DeltaError> {
        Ok(self.read_marked(object, bytes_max).await?.map(|(body, _)| body))
    }

    /// The same, and which object it is.
    pub(crate) async fn read_marked(
        &self,
        object: &Path,
        bytes_max: u64,
    ) -> Result<Option<(Bytes, ObjectMark)>, DeltaError> {
        let found = match self.store.get(object).await {
            Err(StoreError::NotFound { .. }) => return Ok(None),
            found => found.map_err(|error| DeltaError::store(object, error))?,
        };
        let (bytes, mark) = (found.meta.size, ObjectMark::new(&found.meta));
        if bytes > bytes_max {
            return Err(DeltaError::TooLarge { object: object.to_string(), bytes, bytes_max });
        }
        let body = found.bytes().await.map_err(|error| DeltaError::store(object, error))?;
        if body.len() as u64 != bytes {
            let what = format!("the store says {bytes} bytes and gives {}", body.len());
            return Err(DeltaError::damaged(object, what));
        }
        Ok(Some((body, mark)))
    }

    /// One write of an object. The answer is the store's, and may be wrong.
    pub(crate) async fn put(
        &self,
        object: &Path,
        body: Bytes,
        mode: PutMode,
    ) -> Result<Result<(), StoreError>, DeltaError> {
        self.call(&self.before_write, object).await?;
        Ok(self.store.put_opts(object, PutPayload::from_bytes(body), mode.into()).await.map(drop))
    }

    /// Makes an object durable that is known to be there.
    pub(crate) async fn settle(&self, object: &Path) -> Result<(), DeltaError> {
        self.call(&self.after_write, object).await
    }

    async fn call(&self, hook: &Option<WriteHook>, object: &Path) -> Result<(), DeltaError> {
        let Some(hook) = hook.clone() else { return Ok(()) };
        let path = object.clone();
        let called = tokio::task::spawn_blocking(move || hook(&path)).await;
        let done = called.unwrap_or_else(|error| Err(io::Error::other(error)));
        done.map_err(|source| DeltaError::Hook { object: object.to_string(), source })
    }

    /// Tries whether the store refuses to write over an object that is to be written only if it is absent, as several
    /// writers of one table need ([`check_store`]).
    pub(crate) async fn check_store(&self) -> Result<(), DeltaError> {
        let object = self.path(&format!("_trial-{}", random_id()?));
        self.call(&self.before_write, &object).await?;
        check_store(&*self.store, &object).await
    }
}

/// Tries whether a store refuses to write over an object that is to be written only if it is absent. `object` is a name that
/// nobody else has and that readers ignore; it is written, and removed.
pub async fn check_store(store: &dyn ObjectStore, object: &Path) -> Result<(), DeltaError> {
    let write = || store.put_opts(object, PutPayload::from_static(b"trial"), PutMode::Create.into());
    let is_refused =
        |error: &StoreError| matches!(error, StoreError::AlreadyExists { .. } | StoreError::Precondition { .. });
    let second = match write().await {
        Ok(_) => write().await,
        // The client has asked twice by itself.
        Err(error) if is_refused(&error) => Err(error),
        Err(error) => return Err(DeltaError::store(object, error)),
    };
    store.delete(object).await.map_err(|error| DeltaError::store(object, error))?;
    match second {
        Err(error) if is_refused(&error) => Ok(()),
        Err(error) => Err(DeltaError::store(object, error)),
        Ok(_) => Err(DeltaError::NotConditional { object: object.to_string() }),
    }
}

impl Fault {
    pub(crate) fn in_object(self, object: &Path) -> DeltaError {
        match self {
            Fault::Damaged(what) => DeltaError::damaged(object, what),
            Fault::Unsupported(what) => DeltaError::unsupported(object, what),
        }
    }
}

/// 128 random bits as a UUID of version 4.
pub(crate) fn random_id() -> Result<String, DeltaError> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes)).map_err(DeltaError::Random)?;
    let bits = u128::from_be_bytes(bytes) & !(0xF << 76) & !(0b11 << 62) | 4 << 76 | 0b10 << 62;
    let digits = format!("{bits:032x}");
    let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    Ok(parts.join("-"))
}

/// Waits that double, each shortened at random so that writers come apart.
pub(crate) struct JitteredWait {
    wait: Duration,
    wait_max: Duration,
    state: u64,
}

impl JitteredWait {
    pub(crate) fn new(options: &DeltaOptions, seed: &str) -> JitteredWait {
        // FNV, of a seed that is random.
        let mix = |state: u64, byte: u8| (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let state = seed.bytes().fold(0xcbf2_9ce4_8422_2325, mix) | 1;
        JitteredWait { wait: options.wait_min, wait_max: options.wait_max, state }
    }

    pub(crate) async fn wait(&mut self) {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        let share = (self.state >> 40) as u32 % 1000;
        tokio::time::sleep(self.wait * share / 1000).await;
        self.wait = (self.wait * 2).min(self.wait_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_uuids_of_version_4() {
        let (a, b) = (random_id().expect("random"), random_id().expect("random"));
        assert_ne!(a, b);
        assert_eq!((a.len(), a.as_bytes()[14], a.matches('-').count()), (36, b'4', 4));
        assert!(b"89ab".contains(&a.as_bytes()[19]), "{a}");
    }
}
