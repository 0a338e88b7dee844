//! The states of a day, one after the other.

use super::Dice;
use super::plain::{Plain, Read};
use super::questions::{ask, compare, filter, followed};
use super::records::{Written, batches, commit, table};
use daytable_archive::Access;
use daytable_lifecycle::{Executor, RestoreSpec};
use daytable_model::batch::Batch;
use daytable_model::key::DayTable;
use daytable_query::tables::{self, ContinuationToken, Embedded, ResultPage, TableError, TableStore, wanted_rows};
use daytable_query::{Archives, Filter, RecordFollower, Stores};
use daytable_store::{Ack, Reader, Store, StoreOptions, Submission, compact_file};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A data folder, and a plain list of its records.
struct Day {
    dir: tempfile::TempDir,
    store: Option<Store>,
    written: Vec<Written>,
    plain: Plain,
    is_wide: bool,
}

impl Day {
    fn new(is_wide: bool) -> Day {
        let shared = Path::new("/dev/shm");
        let dir = if shared.is_dir() { tempfile::tempdir_in(shared) } else { tempfile::tempdir() };
        let mut day =
            Day { dir: dir.expect("a folder"), store: None, written: Vec::new(), plain: Plain::default(), is_wide };
        day.open();
        day
    }

    fn open(&mut self) {
        let options = StoreOptions { commit_interval: Duration::from_millis(1), ..StoreOptions::default() };
        self.store = Some(Store::open(&self.data(), options).expect("opened"));
    }

    fn data(&self) -> std::path::PathBuf {
        self.dir.path().join("data")
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("it is open")
    }

    fn reader(&self) -> Reader {
        Reader::open(&self.data()).expect("opened")
    }

    fn executor(&self) -> Executor {
        Executor::new(self.store().steps(), self.data(), Access::default(), Arc::default())
    }

    fn put(&mut self, written: Vec<Written>) {
        submit(self.store(), batches(&written));
        self.plain.add(&written);
        self.written.extend(written);
    }

    /// Writes some commits, and asks a follower for the records of the last one.
    fn write(&mut self, dice: &mut Dice) {
        for _ in 0..1 + dice.below(4) {
            let written = commit(dice, &self.written, self.is_wide);
            self.put(written);
        }
        let written = commit(dice, &self.written, self.is_wide);
        let (reader, filter) = (self.reader(), filter(dice, &written.iter().collect::<Vec<_>>()));
        let filter = Filter { limit: None, ..filter };
        let mut follower = RecordFollower::from_now(&reader, filter.clone()).expect("followed");
        let wanted = followed(&filter, &written);
        self.put(written);
        let mut found = Vec::new();
        let step = follower.step(&reader, |record| {
            found.push(Read::from(&record));
            ControlFlow::Continue(())
        });
        assert!(step.is_ok_and(|flow| flow.is_continue()));
        found.sort();
        compare("followed", &filter, &found, &wanted);
    }

    fn ask(&self, dice: &mut Dice, state: &str) {
        let (reader, archives) = (self.reader(), Archives::Read(Access::default()));
        ask(dice, state, &Stores::local(&reader, &archives), &self.plain);
    }
}

pub(super) fn submit(store: &Store, batches: Vec<Batch>) {
    let (told, hears) = std::sync::mpsc::channel();
    let intake = store.commit_queue();
    let done = Ack::awaited(move |committed| told.send(committed).expect("heard"));
    let submission = Submission { batches, epoch: intake.epoch(), ack: done, ..Submission::default() };
    intake.submit(submission).expect("taken");
    assert!(hears.recv().expect("told"));
}

/// A day from its first record to its return from the archive.
pub(super) fn live_through(dice: &mut Dice) {
    let mut day = Day::new(dice.is_one_in(6));
    day.write(dice);
    day.ask(dice, "open");
    for _ in 0..3 {
        day.write(dice);
    }
    day.ask(dice, "open, with pages that overlap, and shared pages");
    day.store.take().expect("it is open").close().expect("closed");
    compact_file(&day.data().join("tables").join(format!("{}.1.db", table())), &table());
    day.open();
    day.ask(dice, "compacted");
    day.write(dice);
    day.ask(dice, "compacted, with later pages");

    let archive = format!("file://{}", day.dir.path().join("archive").display());
    let executor = day.executor();
    executor.archive_now(&table(), None, &mut |_| {}).expect("sealed");
    day.ask(dice, "sealed");
    day.write(dice);
    day.ask(dice, "sealed, with late rows");
    executor.archive_now(&table(), Some(&archive), &mut |_| {}).expect("sealed again, and archived");
    day.ask(dice, "sealed again");
    executor.steps().drop_table(&table()).expect("dropped");
    day.ask(dice, "archived and dropped");
    let (origin, keep) = (table(), Duration::from_secs(86_400));
    executor
        .restore(&RestoreSpec { origin, name: None, keep, host: None, places: Vec::new() }, &mut |_| {})
        .expect("restored");
    day.ask(dice, "restored");
    day.store.take().expect("it is open").close().expect("closed");
}

/// A day that was sent to a remote store in part. Some records lie in both stores.
pub(super) fn send(dice: &mut Dice) {
    let (mut here, afar) = (Day::new(false), Day::new(false));
    let mut all = Plain::default();
    for at in 0..4 {
        let written = commit(dice, &here.written, here.is_wide);
        all.add(&written);
        if at < 3 {
            submit(afar.store(), batches(&written));
        }
        if at >= 1 {
            here.put(written);
        } else {
            here.written.extend(written);
        }
    }
    let remote = Service(Embedded::open_to_read(&afar.data()).expect("opened"));
    let (reader, archives) = (here.reader(), Archives::Skip);
    ask(dice, "sent in part", &Stores { remote: Some(&remote), ..Stores::local(&reader, &archives) }, &all);
}

/// A folder that answers a range query like Azure's service: a query with a minimum level returns no lower level.
struct Service(Embedded);

impl TableStore for Service {
    fn create_table(&self, table: &DayTable) -> Result<bool, TableError> {
        self.0.create_table(table)
    }

    fn drop_table(&self, table: &DayTable) -> Result<bool, TableError> {
        self.0.drop_table(table)
    }

    fn tables(&self) -> Result<Vec<DayTable>, TableError> {
        self.0.tables()
    }

    fn write(&self, batch: Batch) -> Result<(), TableError> {
        self.0.write(batch)
    }

    fn partitions(&self, table: &DayTable, instance: Option<&str>) -> Result<Vec<Arc<str>>, TableError> {
        self.0.partitions(table, instance)
    }

    fn read_range(
        &self,
        table: &DayTable,
        wanted: &tables::RangeQuery,
        at: Option<&ContinuationToken>,
    ) -> Result<ResultPage, TableError> {
        if wanted.level.is_none() {
            return self.0.read_range(table, wanted, at);
        }
        let mut rows = wanted_rows(&self.0, table, wanted).collect::<Result<Vec<_>, _>>()?;
        let mut is_wanted = false;
        rows.retain(|row| {
            if row.key.item() == 0 {
                is_wanted = row.level >= wanted.level;
            }
            is_wanted
        });
        Ok(ResultPage { rows, next: None })
    }

    fn read_table(&self, table: &DayTable, at: Option<&ContinuationToken>) -> Result<ResultPage, TableError> {
        self.0.read_table(table, at)
    }
}
