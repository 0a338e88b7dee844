//! The steps of the lifecycle, each run by the committer between two commits.
//!
//! Each is the same taken twice, or says why it cannot be taken again. What takes long (sealing a day, copying it) lies
//! between two of them, on the caller's thread: commits and readers never wait for it.

use crate::StoreError;
use crate::format::catalog::{Archived, Committed, Day, DayState, FileRole, Permit, Rule, Seal, WatchedTime};
use crate::write::commit::{CommitQueue, Committer, RestoreTarget, SealTarget};
use daytable_model::key::DayTable;
use daytable_model::time::Ticks;
use std::time::Duration;

/// What of the catalog the lifecycle's plan is made from.
#[derive(Clone, Debug, Default)]
pub struct LifecycleState {
    /// Every day-table there is or was, the oldest first.
    pub days: Vec<Day>,
    /// Archives that were read back.
    pub archives: Vec<Archived>,
    /// The newest time that a record gave by itself.
    pub newest: Option<Ticks>,
    /// How long was watched, by a clock that cannot be set.
    pub watch: WatchedTime,
    /// The rules of the last daemon.
    pub rules: Vec<Rule>,
    /// The bound of the folder as the last daemon knew it, and since when.
    pub pressure: Option<(u64, Ticks)>,
    /// When the lifecycle last ran to its end.
    pub last_run: Option<Ticks>,
}

impl LifecycleState {
    /// What `catalog` says.
    pub fn of(catalog: &crate::format::catalog::Catalog) -> Result<LifecycleState, StoreError> {
        // What is on its way to a remote store has its life there.
        let mut days = catalog.days()?;
        let lives_here =
            |day: &Day| day.state != DayState::Open || day.files.iter().any(|file| file.role != FileRole::Outbox);
        days.retain(lives_here);
        Ok(LifecycleState {
            days,
            archives: catalog.archives()?,
            newest: catalog.newest()?,
            watch: catalog.watch()?,
            rules: catalog.rules()?,
            pressure: catalog.pressure()?,
            last_run: catalog.last_run()?,
        })
    }
}

/// The steps that change what is live. Cheap to clone.
#[derive(Clone)]
pub struct LifecycleSteps {
    pub(crate) queue: CommitQueue,
}

impl LifecycleSteps {
    fn run<T: Send + 'static>(
        &self,
        step: impl FnOnce(&mut Committer) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (answer, answered) = std::sync::mpsc::sync_channel(1);
        let step = Box::new(move |committer: &mut Committer| drop(answer.send(step(committer))));
        self.queue.step(step).map_err(|_| StoreError::Closed)?;
        answered.recv().unwrap_or(Err(StoreError::Closed))
    }

    /// Creates `table`, unless it is there or was dropped. Says whether it did.
    pub fn create_table(&self, table: &DayTable) -> Result<bool, StoreError> {
        let table = table.clone();
        self.run(move |committer| committer.create_table(&table))
    }

    /// Drops `table`: gone for every reader when this returns. Refused where its table asks for an archive, and there
    /// is none, read back, of all that it holds.
    pub fn drop_table(&self, table: &DayTable) -> Result<(), StoreError> {
        let table = table.clone();
        self.run(move |committer| committer.drop_table(&table, Permit::Proven))
    }

    /// Drops `table` whether it is archived or not, because somebody said so in as many words.
    pub fn drop_without_archive(&self, table: &DayTable) -> Result<(), StoreError> {
        let table = table.clone();
        self.run(move |committer| committer.drop_table(&table, Permit::WithoutArchive))
    }

    /// Closes what is open of `table`, and says what there is to seal.
    pub fn begin_seal(&self, table: &DayTable) -> Result<SealTarget, StoreError> {
        let table = table.clone();
        self.run(move |committer| committer.begin_seal(&table))
    }

    /// Which commits happened.
    pub fn committed(&self) -> Result<Committed, StoreError> {
        self.run(|committer| committer.catalog().committed())
    }

    /// Makes the sealed file, which stands whole and synced at its path, the table.
    pub fn end_seal(&self, sealing: &SealTarget, seal: &Seal) -> Result<(), StoreError> {
        let (sealing, seal) = (sealing.clone(), seal.clone());
        self.run(move |committer| committer.end_seal(&sealing, &seal))
    }

    /// Removes what was written of a file that is not live.
    pub fn abandon(&self, output: &str) -> Result<(), StoreError> {
        let output = output.to_owned();
        self.run(move |committer| committer.abandon(&output))
    }

    /// Notes an archive that was read back.
    pub fn put_archive(&self, archived: Archived) -> Result<(), StoreError> {
        self.run(move |committer| committer.put_archive(&archived))
    }

    /// Forgets an archive that was removed.
    pub fn forget_archive(&self, archived: &Archived) -> Result<(), StoreError> {
        let Archived { table, generation, url, .. } = archived.clone();
        self.run(move |committer| committer.catalog().forget_archive(&table, generation, &url))
    }

    /// Names the file that `origin` is brought back as, as `table`.
    pub fn begin_restore(&self, table: &DayTable, origin: &DayTable) -> Result<RestoreTarget, StoreError> {
        let (table, origin) = (table.clone(), origin.clone());
        self.run(move |committer| committer.begin_restore(&table, &origin))
    }

    /// Makes the file that was brought back, which stands whole and synced at its path, the table.
    pub fn end_restore(&self, restoring: &RestoreTarget, seal: &Seal, expires: Ticks) -> Result<(), StoreError> {
        let (restoring, seal) = (restoring.clone(), seal.clone());
        self.run(move |committer| committer.end_restore(&restoring, &seal, expires))
    }

    /// Has a restored table go at `expires`, unless it goes later anyway.
    pub fn extend_restore(&self, table: &DayTable, expires: Ticks) -> Result<(), StoreError> {
        let table = table.clone();
        self.run(move |committer| committer.catalog().extend_restore(&table, expires))
    }

    /// What a plan is made from.
    pub fn lifecycle_state(&self) -> Result<LifecycleState, StoreError> {
        self.run(|committer| LifecycleState::of(committer.catalog()))
    }

    /// Notes the rules of this daemon, and the bound of its folder.
    pub fn set_rules(&self, rules: Vec<Rule>) -> Result<(), StoreError> {
        self.run(move |committer| committer.catalog().set_rules(&rules))
    }

    /// Notes the bound of the folder, and since when it is.
    pub fn set_pressure(&self, pressure: Option<(u64, Ticks)>) -> Result<(), StoreError> {
        self.run(move |committer| committer.catalog().set_pressure(pressure))
    }

    /// Notes that `more` was watched since the last time.
    pub fn note_watch(&self, more: Duration) -> Result<(), StoreError> {
        self.run(move |committer| committer.catalog().note_watch(more))
    }

    /// Notes that the lifecycle ran to its end, and forgets sources that ended before `forget_before`.
    pub fn record_run(&self, at: Ticks, forget_before: Ticks) -> Result<(), StoreError> {
        self.run(move |committer| committer.record_run(at, forget_before))
    }
}
