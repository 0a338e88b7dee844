//! A lane: the rows of one partition of one day that wait, in the order in which they go.
//!
//! It knows pages by their heads, reads a page when its first row is wanted, and keeps at most [`UNITS_MAX`] heads: what is
//! behind them stays in the file, and `is_behind` says that there is more. Two rows of one key never are under way at the
//! same time, else the older could come to stand over the newer.

use super::flight::{Flight, RowAt};
use super::wire;
use daytable_azure::{Account, Backoff, Pauses, Pushed, Transaction};
use daytable_model::key::RowKey;
use daytable_store::outbox::{SentPage, WaitingPage};
use daytable_store::page::Page;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Pages of a lane that are known at a time.
pub(super) const UNITS_MAX: usize = 32;
/// Transactions of a lane that are under way at a time.
pub(super) const PARALLEL: usize = 4;
/// How soon a page that cannot be read now is read again.
const READ_AGAIN: Duration = Duration::from_secs(1);
/// Entities that fill a transaction.
const FULL: usize = daytable_azure::ENTITIES_MAX;

/// A lane's number.
pub(super) type LaneId = u64;
/// A page's number, for as long as it is known.
pub(super) type Serial = u64;

/// A page that waits.
pub(super) struct Unit {
    pub(super) serial: Serial,
    pub(super) head: WaitingPage,
    /// When it was found.
    pub(super) found: Instant,
    page: Option<Arc<Page>>,
    next: usize,
}

impl Unit {
    pub(super) fn new(serial: Serial, head: WaitingPage, found: Instant) -> Unit {
        Unit { serial, head, found, page: None, next: 0 }
    }

    fn rows_left(&self) -> usize {
        (self.head.entities() as usize).saturating_sub(self.next)
    }
}

/// When a lane wants to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    Now,
    At(Instant),
    Nothing,
}

/// What a page that is asked for turned out to be.
pub(super) enum Found {
    Page(Arc<Page>),
    /// It went, or was merged with others.
    Gone,
    /// It cannot be read now.
    Later,
    /// Its bytes are not those that were written.
    Damaged,
}

/// See the module's head.
pub(super) struct Lane {
    pub(super) file: Arc<str>,
    pub(super) partition_id: i64,
    pub(super) partition: Arc<str>,
    pub(super) units: VecDeque<Unit>,
    /// Pages that need not be looked for: those in `units`, those under way, those that were sent and stand still.
    pub(super) known: HashSet<SentPage>,
    /// Whether the file may have pages of it that are not known.
    pub(super) is_behind: bool,
    /// Transactions that are to be sent again.
    pub(super) parked: VecDeque<Flight>,
    pub(super) flights: usize,
    keys: HashSet<RowKey>,
    pub(super) backoff: Backoff,
    /// Until when nothing of it is sent.
    pub(super) resume: Option<Instant>,
    /// Whether rows wait for others of their key that are under way.
    is_blocked: bool,
    /// Its place among the lanes that are ready, where it is one.
    pub(super) queued: Option<i64>,
}

impl Lane {
    pub(super) fn new(file: Arc<str>, partition_id: i64, partition: Arc<str>, seed: u64) -> Lane {
        Lane {
            file,
            partition_id,
            partition,
            units: VecDeque::new(),
            known: HashSet::new(),
            is_behind: false,
            parked: VecDeque::new(),
            flights: 0,
            keys: HashSet::new(),
            backoff: Backoff::new(Pauses::default(), seed),
            resume: None,
            is_blocked: false,
            queued: None,
        }
    }

    /// Adds pages that were found, and keeps the order; a page that was begun stays first.
    pub(super) fn add(&mut self, units: impl IntoIterator<Item = Unit>, newest_first: bool) {
        let begun = self.units.pop_front_if(|unit| unit.next > 0);
        for unit in units {
            self.known.insert(unit.head.sent());
            self.units.push_back(unit);
        }
        let order = |unit: &Unit| if newest_first { -unit.head.seq() } else { unit.head.seq() };
        // Stable: pages of one commit stay as they came.
        self.units.make_contiguous().sort_by_key(order);
        if let Some(unit) = begun {
            self.units.push_front(unit);
        }
    }

    /// Whether nothing of it is known or to come.
    pub(super) fn is_over(&self) -> bool {
        self.known.is_empty() && !self.is_behind && self.units.is_empty() && self.parked.is_empty() && self.flights == 0
    }

    /// By what lanes are told which goes first: the commit of what goes next.
    pub(super) fn order(&self, newest_first: bool) -> i64 {
        let parked = self.parked.front().map(|_| i64::MIN);
        let seq = self.units.front().map(|unit| unit.head.seq());
        match parked.or(seq) {
            Some(i64::MIN) => i64::MIN,
            Some(seq) if newest_first => -seq,
            Some(seq) => seq,
            None => i64::MAX,
        }
    }

    /// When it wants to send. A full transaction goes at once, what is behind others as well; else it waits `fill` for more.
    pub(super) fn want(&self, now: Instant, fill: Duration) -> Want {
        // Where the last one failed, one looks how it is.
        let parallel = if self.backoff.failures() > 0 { 1 } else { PARALLEL };
        if self.flights >= parallel {
            return Want::Nothing;
        }
        let due = match (self.parked.front(), self.units.front()) {
            (Some(_), _) => now,
            (None, None) => return Want::Nothing,
            (None, Some(_)) if self.is_blocked => return Want::Nothing,
            (None, Some(first)) => {
                let mut rows = 0;
                let is_full = self.units.iter().any(|unit| {
                    rows += unit.rows_left();
                    rows >= FULL
                });
                if is_full || self.is_behind { now } else { first.found + fill }
            }
        };
        let due = self.resume.map_or(due, |resume| due.max(resume));
        if due <= now { Want::Now } else { Want::At(due) }
    }

    /// The next transaction of what waits, as full as it can be; none where nothing can go now. Also gives pages that went
    /// on their own, and rows that no transaction takes.
    pub(super) fn build(
        &mut self,
        id: LaneId,
        account: &Account,
        table: &str,
        mut read: impl FnMut(&WaitingPage) -> Found,
    ) -> Built {
        let mut transaction = Transaction::new(account, table, &self.partition);
        let (mut rows, mut built): (Vec<RowAt>, _) = (Vec::new(), Built::default());
        'units: while let Some(unit) = self.units.front_mut() {
            let page = match &unit.page {
                Some(page) => page.clone(),
                None => match read(&unit.head) {
                    Found::Page(page) => {
                        unit.page = Some(page.clone());
                        page
                    }
                    Found::Later => {
                        self.resume = Some(Instant::now() + READ_AGAIN);
                        break 'units;
                    }
                    found => {
                        let unit = self.units.pop_front();
                        let gone = unit.filter(|_| matches!(found, Found::Gone));
                        built.gone.extend(gone.map(|unit| (unit.serial, unit.head.sent())));
                        continue;
                    }
                },
            };
            while unit.next < page.len() {
                let row = RowAt { unit: unit.serial, page: page.clone(), index: unit.next };
                let key = row.key();
                if self.keys.contains(&key) {
                    // It goes when the other is there.
                    self.is_blocked = rows.is_empty();
                    break 'units;
                }
                // A record of several rows has a transaction of its own, where one takes it.
                let begins_large =
                    key.item() == 0 && page.keys().get(unit.next + 1).is_some_and(|next| next.item() > 0);
                if begins_large && !rows.is_empty() {
                    break 'units;
                }
                match wire::push(&mut transaction, &page, unit.next) {
                    Pushed::Added => {
                        self.keys.insert(key);
                        rows.push(row);
                    }
                    Pushed::Full => break 'units,
                    Pushed::TooLarge => built.too_large.push(row),
                }
                unit.next += 1;
            }
            self.units.pop_front();
        }
        if !rows.is_empty() {
            let sealed = transaction.seal();
            let flight = Flight { lane: id, rows, sealed, tries: 0, is_hinted: false, set_aside: None };
            built.flight = Some(flight);
        }
        built
    }

    /// Rows of it are under way no more.
    pub(super) fn landed(&mut self, rows: &[RowAt]) {
        for row in rows {
            self.keys.remove(&row.key());
        }
        self.is_blocked = false;
    }

    /// Forgets what waits in memory; it is found again in the file.
    pub(super) fn unload(&mut self) -> Vec<Serial> {
        let mut forgotten: Vec<Serial> = Vec::new();
        for unit in self.units.drain(..) {
            self.known.remove(&unit.head.sent());
            forgotten.push(unit.serial);
        }
        for flight in self.parked.drain(..) {
            for row in &flight.rows {
                self.keys.remove(&row.key());
                forgotten.push(row.unit);
            }
        }
        self.is_blocked = false;
        self.is_behind = true;
        forgotten.sort_unstable();
        forgotten.dedup();
        forgotten
    }
}

/// What [`Lane::build`] makes.
#[derive(Default)]
pub(super) struct Built {
    pub(super) flight: Option<Flight>,
    /// Pages that are not there any more.
    pub(super) gone: Vec<(Serial, SentPage)>,
    /// Rows that no transaction takes.
    pub(super) too_large: Vec<RowAt>,
}

#[cfg(test)]
mod tests {
    use super::super::flight::tests::account;
    use super::*;
    use daytable_model::batch::Batch;
    use daytable_model::key::{DayTable, Period, TableName};
    use daytable_model::record::Record;
    use daytable_model::time::Ticks;
    use daytable_store::outbox::{OutboxLevel, OutboxOptions, OutboxPosition, OutboxReader};
    use daytable_store::{Ack, Forwarding, Store, StoreOptions, Submission};
    use std::sync::mpsc;

    const FILL: Duration = Duration::from_secs(1);

    /// An outbox of one partition, and its lane.
    struct Outbox {
        _dir: tempfile::TempDir,
        store: Store,
        unsent: OutboxReader,
        seen: OutboxPosition,
        lane: Lane,
        serials: Serial,
    }

    impl Outbox {
        fn new() -> Outbox {
            let dir = tempfile::tempdir().expect("a folder");
            let onward = Forwarding::To(OutboxOptions {
                stays: TableName::new("DeadLetter").expect("a name"),
                bytes_max: u64::MAX,
                age_max: None,
                drops_oldest: false,
                level: Arc::new(OutboxLevel::default()),
                on_commit: Box::new(|| {}),
            });
            let store = Store::open(dir.path(), StoreOptions { forwarding: onward, ..StoreOptions::default() })
                .expect("opened");
            let unsent = OutboxReader::open(dir.path()).expect("opened");
            let lane = Lane::new("file".into(), 1, "web".into(), 1);
            Outbox { _dir: dir, store, unsent, seen: OutboxPosition::default(), lane, serials: 0 }
        }

        /// Commits rows at these positions, which the lane then knows.
        fn write(&mut self, positions: std::ops::Range<u64>, now: Instant) {
            let day = Ticks::from_date(2026, 11, 1).expect("a date");
            let table = DayTable::at(&TableName::new("Log").expect("a name"), Period::Day, day);
            let mut batch = Batch::new(table, "web".into());
            for position in positions {
                let record = Record { message: "text".into(), ..Record::default() };
                daytable_model::entity::append(&mut batch, RowKey::new(day, 7, position), "app.log", &record);
            }
            let (told, hears) = mpsc::channel();
            let done = Ack::awaited(move |committed| told.send(committed).expect("heard"));
            self.store
                .commit_queue()
                .submit(Submission { batches: vec![batch], ack: done, ..Submission::default() })
                .expect("taken");
            assert_eq!(hears.recv(), Ok(true));
            let file = self.unsent.files().expect("read").remove(0);
            let news = self.unsent.new_pages(&file, &mut self.seen).expect("read");
            let mut heads = news.pages;
            for partition in news.behind {
                heads.extend(self.unsent.pages_of(&file, partition, &self.lane.known, 100, false).expect("read").0);
            }
            let units: Vec<Unit> = heads
                .into_iter()
                .map(|head| {
                    self.serials += 1;
                    Unit::new(self.serials, head, now)
                })
                .collect();
            self.lane.add(units, false);
        }

        fn build(&mut self) -> Option<Flight> {
            let file = self.unsent.files().expect("read").remove(0);
            let unsent = &self.unsent;
            let read =
                |head: &WaitingPage| Found::Page(Arc::new(unsent.read(&file, head).expect("read").expect("there")));
            self.lane.build(1, &account(), "Log20261101", read).flight
        }
    }

    #[test]
    fn a_transaction_waits_to_be_full_and_takes_rows_of_several_pages() {
        let (mut outbox, now) = (Outbox::new(), Instant::now());
        outbox.write(0..30, now);
        assert_eq!(outbox.lane.want(now, FILL), Want::At(now + FILL));
        assert_eq!(outbox.lane.want(now + FILL, FILL), Want::Now);
        outbox.write(30..90, now);
        assert_eq!(outbox.lane.want(now, FILL), Want::At(now + FILL));
        outbox.write(90..130, now);
        assert_eq!(outbox.lane.want(now, FILL), Want::Now);
        let first = outbox.build().expect("a transaction");
        assert_eq!((first.rows.len(), first.sealed.len()), (100, 100));
        // The oldest commit first; what is left waits again.
        assert!(first.rows[..90].iter().all(|row| row.key().position() < 90));
        assert_eq!(outbox.lane.want(now, FILL), Want::At(now + FILL));
        assert_eq!(outbox.build().expect("the rest").rows.len(), 30);
        assert!(outbox.build().is_none());
        outbox.store.close().expect("closed");
    }

    #[test]
    fn a_row_waits_for_an_older_one_of_its_key_that_is_under_way() {
        let (mut outbox, now) = (Outbox::new(), Instant::now());
        outbox.write(0..2, now);
        let older = outbox.build().expect("a transaction");
        outbox.write(1..3, now);
        let newer = outbox.build().expect("what is not of that key");
        assert_eq!(newer.rows.iter().map(|row| row.key().position()).collect::<Vec<_>>(), [2]);
        assert!(outbox.build().is_none());
        assert_eq!(outbox.lane.want(now + FILL, FILL), Want::Nothing);
        outbox.lane.landed(&older.rows);
        assert_eq!(outbox.lane.want(now + FILL, FILL), Want::Now);
        assert_eq!(outbox.build().expect("the newer row").rows[0].key().position(), 1);
        outbox.store.close().expect("closed");
    }

    #[test]
    fn what_is_let_go_of_is_found_again() {
        let (mut outbox, now) = (Outbox::new(), Instant::now());
        outbox.write(0..150, now);
        let flight = outbox.build().expect("a transaction");
        outbox.lane.parked.push_back(flight);
        let forgotten = outbox.lane.unload();
        assert_eq!(forgotten.len() as u64, outbox.serials);
        assert!(outbox.lane.known.is_empty() && outbox.lane.is_behind && !outbox.lane.is_over());
        outbox.seen = OutboxPosition::default();
        outbox.write(150..160, now);
        let rows = std::iter::from_fn(|| outbox.build()).map(|flight| flight.rows.len()).sum::<usize>();
        assert_eq!(rows, 160);
        outbox.store.close().expect("closed");
    }
}
