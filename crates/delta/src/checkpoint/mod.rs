//! A snapshot as a Parquet file, so that readers need not read all commits.
//!
//! Each row is one action; the other columns of the row are null. Columns and types are those that Spark writes. Removed
//! files stay for seven days. Before a checkpoint is written, its bytes are read back and compared with the snapshot.

mod rows;
mod shredded;

use crate::error::DeltaError;
use crate::log::{DeltaLog, DeltaOptions};
use crate::log_name::{LAST_CHECKPOINT, LAST_CHECKPOINT_BYTES_MAX, LastCheckpoint, LogName};
use crate::metadata::{Fault, LogAction};
use crate::snapshot::TableSnapshot;
use bytes::Bytes;
use object_store::path::Path;
use object_store::{Error as StoreError, PutMode};
use rows::RowLimits;
use serde_json::json;

/// For bytes that were made here.
const UNLIMITED: RowLimits = RowLimits { rows_max: u64::MAX, bytes_max: u64::MAX, state_bytes_max: u64::MAX };

/// The actions in a checkpoint.
pub(crate) async fn read(bytes: Bytes, object: &Path, options: &DeltaOptions) -> Result<Vec<LogAction>, DeltaError> {
    let limits = RowLimits {
        rows_max: (options.files_max as u64).saturating_add(options.transactions_max as u64).saturating_add(2),
        bytes_max: options.checkpoint_bytes_max,
        state_bytes_max: options.state_bytes_max as u64,
    };
    let read = tokio::task::spawn_blocking(move || rows::read(bytes, limits)).await;
    let read = read.unwrap_or_else(|error| Err(Fault::Damaged(error.to_string())));
    read.map_err(|fault| fault.in_object(object))
}

impl DeltaLog {
    /// Writes a checkpoint of a snapshot, and points readers to it. `now` is in milliseconds since 1970.
    ///
    /// Commits do so by themselves every hundred versions.
    pub async fn write_checkpoint(&self, snapshot: &TableSnapshot, now: i64) -> Result<(), DeltaError> {
        let Some(version) = snapshot.version() else { return Ok(()) };
        let object = self.path(&LogName::Checkpoint(version).text());
        let failed = |what: String| DeltaError::Checkpoint { object: object.to_string(), what };
        let actions = snapshot.actions(now);
        let files = snapshot.files.len();
        let (rows, made) = (
            actions.len(),
            tokio::task::spawn_blocking(move || {
                let bytes = shredded::write(&actions)?;
                let back = rows::read(bytes.clone(), UNLIMITED).map_err(|fault| format!("{fault:?}"))?;
                match back == actions {
                    true => Ok(bytes),
                    false => Err("what was written is not what is read back".to_owned()),
                }
            }),
        );
        let bytes = made.await.unwrap_or_else(|error| Err(error.to_string())).map_err(failed)?;
        let size = bytes.len() as u64;
        if size > self.options.checkpoint_bytes_max {
            let bytes_max = self.options.checkpoint_bytes_max;
            return Err(DeltaError::TooLarge { object: object.to_string(), bytes: size, bytes_max });
        }
        match self.put(&object, bytes, PutMode::Create).await? {
            // Another writer's checkpoint of this version has the same state.
            Ok(()) | Err(StoreError::AlreadyExists { .. } | StoreError::Precondition { .. }) => {}
            Err(error) => return Err(DeltaError::store(&object, error)),
        }
        self.settle(&object).await?;
        daytable_platform::failpoint!("delta-checkpointed");
        self.point_to(version, json!({"version": version, "size": rows, "sizeInBytes": size, "numOfAddFiles": files}))
            .await
    }

    /// Writes the hint for readers, unless it points to a later version.
    async fn point_to(&self, version: u64, hint: serde_json::Value) -> Result<(), DeltaError> {
        let object = self.path(LAST_CHECKPOINT);
        let old = self.read(&object, LAST_CHECKPOINT_BYTES_MAX).await.ok().flatten();
        let old = old.and_then(|old| serde_json::from_slice::<LastCheckpoint>(&old).ok());
        if old.is_some_and(|old| old.version >= version) {
            return Ok(());
        }
        let written = self.put(&object, hint.to_string().into(), PutMode::Overwrite).await?;
        written.map_err(|error| DeltaError::store(&object, error))?;
        self.settle(&object).await
    }
}

/// The bytes of a checkpoint.
#[cfg(test)]
pub(crate) fn encode(snapshot: &TableSnapshot, now: i64) -> Bytes {
    shredded::write(&snapshot.actions(now)).expect("a checkpoint")
}

/// What a checkpoint with these actions is read as.
#[cfg(test)]
pub(crate) fn round_trip(actions: &[LogAction]) -> Result<Vec<LogAction>, Fault> {
    rows::read(shredded::write(actions).expect("a checkpoint"), UNLIMITED)
}

/// The bytes of a checkpoint in two parts.
#[cfg(test)]
pub(crate) fn multi_part(snapshot: &TableSnapshot, now: i64) -> (Bytes, Bytes) {
    let actions = snapshot.actions(now);
    let (first, second) = actions.split_at(actions.len() / 2);
    (shredded::write(first).expect("a part"), shredded::write(second).expect("a part"))
}
