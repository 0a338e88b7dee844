//! The next version of a table, by one writer of many.
//!
//! ```text
//! snapshot ─► propose ─► write the next version if it is absent ─► read it back ─┬─ these bytes: committed
//!    ▲                        ▲                                                  ├─ not there: the same bytes again
//!    └── wait, load what came ┼──────────────────────────────────────────────────┴─ other bytes: another writer's
//!                             └ the same bytes until one of these is known
//! ```
//!
//! * No answer of the store is believed, neither success nor failure: the version is read back. The bytes contain a random
//!   number of this attempt, so another writer's commit is never taken for this one.
//! * Before the first commit the store is tried, because nothing else tells whether it would write over a version
//!   ([`DeltaLog::with_check`](crate::DeltaLog::with_check)).
//! * A version that may have been written is settled before the next version is tried. A write that arrives late finds
//!   its version taken, or is found there by whoever commits next: so a proposal should look for its own transaction or
//!   file in the snapshot first.

use crate::action::{AppTransaction, DeltaAction};
use crate::error::{CommitError, DeltaError};
use crate::line;
use crate::log::{DeltaLog, JitteredWait, random_id};
use crate::log_name::VERSION_MAX;
use crate::metadata::{KNOWN_VERSIONS, LogAction, TableMetadata};
use crate::schema;
use crate::snapshot::{ObjectMark, TableSnapshot};
use crate::uri;
use bytes::Bytes;
use daytable_platform::failpoint;
use object_store::path::Path;
use object_store::{Error as StoreError, PutMode};
use std::collections::{BTreeMap, BTreeSet};

/// What became of a commit.
#[derive(Debug)]
pub struct DeltaCommit {
    /// The table after the commit.
    pub snapshot: TableSnapshot,
    /// The version that was made; `None` if there was nothing to do.
    pub version: Option<u64>,
    /// Why the checkpoint that was due could not be written. The commit stands all the same.
    pub checkpoint_error: Option<DeltaError>,
}

/// Whose a version is.
enum Owner {
    /// This writer's, as this object.
    This(ObjectMark),
    Another,
}

impl DeltaLog {
    /// Commits what `propose` makes of the newest snapshot. `propose` is called again each time another writer was faster;
    /// if it has no actions, there is nothing to do. `now` is in milliseconds since 1970. With `known`, only what came
    /// later is read.
    ///
    /// The first commit of a table sets its schema, and gets the protocol by itself.
    pub async fn commit<E>(
        &self,
        now: i64,
        known: Option<&TableSnapshot>,
        mut propose: impl FnMut(&TableSnapshot) -> Result<Vec<DeltaAction>, E>,
    ) -> Result<DeltaCommit, CommitError<E>> {
        let id = random_id()?;
        let mut backoff = JitteredWait::new(&self.options, &id);
        let mut snapshot = self.snapshot(now, known).await?;
        for _ in 0..self.options.tries_max.get() {
            let proposed = propose(&snapshot).map_err(CommitError::Proposal)?;
            if proposed.is_empty() {
                if let Some(version) = snapshot.version {
                    self.settle(&self.commit_path(version)).await?;
                }
                return Ok(DeltaCommit { snapshot, version: None, checkpoint_error: None });
            }
            let version = snapshot.version.map_or(0, |version| version + 1);
            let object = self.commit_path(version);
            if version > VERSION_MAX {
                return Err(DeltaError::damaged(object, "no version follows it").into());
            }
            let actions = self.checked(&snapshot, proposed, now, &object)?;
            let body = self.body(&actions, &id, now, &object)?;
            // Applied before it is written: a commit that readers with the same limits refuse is not made.
            let mut after = snapshot.clone();
            after.apply(version, actions, self.state_limits(now), object.as_ref())?;
            self.ensure_fit().await?;
            failpoint!("delta-proposed");
            match self.write_version(&object, body, &mut backoff).await? {
                Owner::This(mark) => {
                    after.head = Some(mark);
                    failpoint!("delta-written");
                    self.settle(&object).await?;
                    let is_due = version > 0 && version % self.options.checkpoint_every == 0;
                    let checkpoint_error = match is_due {
                        true => self.write_checkpoint(&after, now).await.err(),
                        false => None,
                    };
                    return Ok(DeltaCommit { snapshot: after, version: Some(version), checkpoint_error });
                }
                Owner::Another => {
                    backoff.wait().await;
                    snapshot = self.snapshot(now, Some(&snapshot)).await?;
                }
            }
        }
        let next = snapshot.version.map_or(0, |version| version + 1);
        let object = self.commit_path(next).to_string();
        Err(CommitError::Contended { object, tries: self.options.tries_max.get() })
    }

    fn body(&self, actions: &[LogAction], id: &str, now: i64, object: &Path) -> Result<Bytes, DeltaError> {
        let lines = line::text(actions, id, now);
        let lines = lines.map_err(|error| DeltaError::Proposal(format!("{object} cannot be written: {error}")))?;
        let (bytes, bytes_max) = (lines.len() as u64, self.options.commit_bytes_max);
        match bytes <= bytes_max {
            true => Ok(lines.into()),
            false => Err(DeltaError::TooLarge { object: object.to_string(), bytes, bytes_max }),
        }
    }

    /// Writes a version, and finds out whose it is.
    async fn write_version(&self, object: &Path, body: Bytes, backoff: &mut JitteredWait) -> Result<Owner, DeltaError> {
        let mut cause = String::new();
        for asked in 0..self.options.questions_max.get() {
            if asked > 0 {
                backoff.wait().await;
            }
            match self.put(object, body.clone(), PutMode::Create).await? {
                Err(error) if asked == 0 && is_refusal(&error) => return Err(DeltaError::store(object, error)),
                Err(error) => cause = error.to_string(),
                Ok(()) => "the store says that it was written, and does not have it".clone_into(&mut cause),
            }
            match self.read_marked(object, self.options.commit_bytes_max).await {
                Ok(Some((found, mark))) if found == body => return Ok(Owner::This(mark)),
                Ok(Some(_)) | Err(DeltaError::TooLarge { .. }) => return Ok(Owner::Another),
                Ok(None) => {}
                Err(error) => cause = error.to_string(),
            }
        }
        Err(DeltaError::Uncertain { object: object.to_string(), cause })
    }

    /// The actions of a proposal, if it is a valid commit after `snapshot`.
    fn checked(
        &self,
        snapshot: &TableSnapshot,
        proposed: Vec<DeltaAction>,
        now: i64,
        object: &Path,
    ) -> Result<Vec<LogAction>, DeltaError> {
        let partitions = match &snapshot.metadata {
            Some(metadata) => &metadata.partition_columns,
            None => &self.options.partition_columns,
        };
        if *partitions != self.options.partition_columns {
            let what = format!("the partition columns {partitions:?}");
            return Err(DeltaError::unsupported(object, what));
        }
        if let Some(versions) = snapshot.protocol.filter(|versions| versions.writer > KNOWN_VERSIONS.writer) {
            let what = format!("version {} of the protocol for writers", versions.writer);
            return Err(DeltaError::unsupported(object, what));
        }
        let removes = proposed.iter().any(|action| matches!(action, DeltaAction::RemoveFile(_)));
        let refusal = snapshot.metadata.as_ref().and_then(|metadata| metadata.refusal_to_write(removes));
        if let Some(what) = refusal {
            return Err(DeltaError::unsupported(object, what));
        }
        let mut actions = Vec::with_capacity(proposed.len() + 1);
        if snapshot.version.is_none() {
            actions.push(LogAction::Protocol(KNOWN_VERSIONS));
        }
        let (mut paths, mut applications, mut has_schema) = (BTreeSet::new(), BTreeSet::new(), false);
        for action in proposed {
            let refused = |what: String| Err(DeltaError::Proposal(what));
            match action {
                DeltaAction::AddFile(file) => {
                    if !uri::is_below_table(&file.path) || uri::is_absolute(&file.path) {
                        return refused(format!("{:?} is not a path below the table", file.path));
                    }
                    if !file.partition_values.keys().eq(partitions.iter().collect::<BTreeSet<_>>()) {
                        return refused(format!("{:?} needs a value for each of {partitions:?}", file.path));
                    }
                    if i64::try_from(file.size).is_err() {
                        return refused(format!("{:?} is larger than a file can be", file.path));
                    }
                    if !paths.insert(file.path.clone()) {
                        return refused(format!("{:?} has two actions", file.path));
                    }
                    let partition_values = line::with_nulls(file.partition_values);
                    actions.push(LogAction::Add(crate::AddedFile { partition_values, ..file }));
                }
                DeltaAction::RemoveFile(file) => {
                    if !snapshot.files.contains_key(&file.path) {
                        return refused(format!("{:?} is to be removed, and is not in the table", file.path));
                    }
                    if !paths.insert(file.path.clone()) {
                        return refused(format!("{:?} has two actions", file.path));
                    }
                    actions.push(LogAction::Remove(file));
                }
                DeltaAction::Txn { app_id, version } => {
                    if !applications.insert(app_id.clone()) {
                        return refused(format!("the application {app_id:?} is moved twice"));
                    }
                    actions.push(LogAction::Txn(app_id, AppTransaction { version, last_updated: Some(now) }));
                }
                DeltaAction::SetSchema(columns) => {
                    if has_schema {
                        return refused("the schema is set twice".into());
                    }
                    has_schema = true;
                    schema::check_change(snapshot.columns(), &columns, partitions).map_err(DeltaError::Proposal)?;
                    let metadata = match snapshot.metadata.as_deref() {
                        Some(metadata) => TableMetadata { columns, ..metadata.clone() },
                        None => self.new_table(columns, now)?,
                    };
                    actions.push(LogAction::Metadata(metadata));
                }
            }
        }
        match has_schema || snapshot.metadata.is_some() {
            true => Ok(actions),
            false => Err(DeltaError::Proposal("the first commit of a table sets no schema".into())),
        }
    }

    fn new_table(&self, columns: Vec<schema::TableColumn>, now: i64) -> Result<TableMetadata, DeltaError> {
        Ok(TableMetadata {
            id: random_id()?,
            name: None,
            description: None,
            columns,
            partition_columns: self.options.partition_columns.clone(),
            configuration: BTreeMap::new(),
            created_time: Some(now),
        })
    }
}

/// Whether a store says that it did not even try.
fn is_refusal(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::NotFound { .. }
            | StoreError::InvalidPath { .. }
            | StoreError::NotSupported { .. }
            | StoreError::NotImplemented { .. }
            | StoreError::PermissionDenied { .. }
            | StoreError::Unauthenticated { .. }
            | StoreError::UnknownConfigurationKey { .. }
    )
}
