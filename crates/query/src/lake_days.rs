//! The days of a lake that a query reads: those of all hosts at one address.
//!
//! Each day of each daytable is a part of its own, with its own keys: equal keys of two hosts are two records. Days are
//! chosen by what the address tells without opening a file: table, host, and the times of their records.
//!
//! **Opening.** The end of a file is one request or two, and a store answers late. So files that will probably be opened next are
//! opened with the one that is needed: none at first, because many questions end within the newest file, then twice as many
//! each time, up to [`REQUESTS_MAX`].

use crate::filter::Filter;
use daytable_archive::lake::{LakeListing, REQUESTS_MAX};
use daytable_archive::{Lake, LakeFile, LakeTraffic};
use daytable_model::time::Ticks;
use daytable_store::sealed::SealedFile;
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

/// Why an archive is not read.
const BESIDE: &str = "its archive is there, and the table does not have it: `table_format = \"delta\"` and `daytable archive` on \
                      its host put it in";

/// A file of a lake, and the times of its oldest and newest record.
pub(super) type LakeDay = (LakeFile, (Ticks, Ticks));

/// What a query read of a lake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LakeReport {
    /// Files at the address.
    pub files: u64,
    /// Files that were opened.
    pub opened: u64,
    /// What was asked of the store meanwhile.
    pub traffic: LakeTraffic,
}

/// Archives that a question is about and the tables do not have, and why that is so.
fn left_out(lake: &Lake, listing: &LakeListing, filter: &Filter, times: (Ticks, Ticks)) -> Vec<(String, String)> {
    let left = lake.left_out(listing, times).into_iter();
    let named = left.filter_map(|left| match left {
        Ok(archive) => filter.wants_day(archive.table(), archive.host()).then(|| (archive.shown(), BESIDE.to_owned())),
        Err((table, error)) => {
            Some((format!("archives beside the table {table}, if there are any"), error.to_string()))
        }
    });
    named.collect()
}

/// What a query reads of a lake.
pub(super) struct LakeSession {
    lake: Lake,
    before: LakeTraffic,
    files: Cell<u64>,
    opened: Cell<u64>,
    /// The days of the last question, the newest first.
    order: RefCell<Vec<LakeFile>>,
    /// Files that were opened ahead.
    ahead: RefCell<Vec<(LakeFile, Result<SealedFile, String>)>>,
    /// How many files the next one is opened with.
    together: Cell<usize>,
    /// Who looks for archives that the tables do not have, while others are read.
    beside: RefCell<Vec<Looking>>,
}

/// A look for archives that the tables do not have, and why each of them is not read.
enum Looking {
    OnThread(JoinHandle<Vec<(String, String)>>),
    Done(Vec<(String, String)>),
}

impl LakeSession {
    pub(super) fn new(lake: &Lake) -> LakeSession {
        LakeSession {
            before: lake.traffic(),
            lake: lake.clone(),
            files: Cell::new(0),
            opened: Cell::new(0),
            order: RefCell::default(),
            ahead: RefCell::default(),
            together: Cell::new(1),
            beside: RefCell::default(),
        }
    }

    /// The days that a filter may match, the newest first; and what cannot be read, with the reason.
    pub(super) fn days(&self, filter: &Filter) -> (Vec<LakeDay>, Vec<(String, String)>) {
        let listing = match self.lake.listing() {
            Ok(listing) => listing,
            Err(error) => return (Vec::new(), vec![(format!("all of {}", self.lake.url()), error.to_string())]),
        };
        self.files.set(listing.files.len() as u64);
        let mut unread: Vec<(String, String)> =
            listing.unread.iter().map(|(name, reason)| (name.clone(), reason.clone())).collect();
        let Some((from, to)) = filter.times() else { return (Vec::new(), unread) };
        let chosen: Vec<&LakeFile> =
            listing.files.iter().filter(|file| filter.wants_day(file.table(), file.host())).collect();
        let times = self.lake.times(chosen.clone());
        let mut days: Vec<LakeDay> = Vec::new();
        for (file, times) in chosen.into_iter().zip(times) {
            match times {
                Ok(Some((oldest, newest))) if oldest <= to && from <= newest => {
                    days.push((file.clone(), (oldest, newest)));
                }
                Ok(_) => {}
                Err(error) => unread.push((file.shown(), error.to_string())),
            }
        }
        days.sort_by_key(|(_, (_, newest))| Reverse(*newest));
        *self.order.borrow_mut() = days.iter().map(|(file, _)| file.clone()).collect();
        self.ahead.borrow_mut().clear();
        self.together.set(1);
        (days, unread)
    }

    /// Looks for archives that an answer lacks because no table has them. On a thread, because a list of objects takes longer than
    /// many answers.
    pub(super) fn look_beside(&self, filter: &Filter) {
        let (Some(times), Ok(listing)) = (filter.times(), self.lake.listing()) else { return };
        let (lake, filter) = (self.lake.clone(), filter.clone());
        let look = Arc::new(move || left_out(&lake, &listing, &filter, times));
        let on_thread = look.clone();
        let looking = match Builder::new().name("lake".into()).spawn(move || on_thread()) {
            Ok(thread) => Looking::OnThread(thread),
            Err(_) => Looking::Done(look()),
        };
        self.beside.borrow_mut().push(looking);
    }

    /// What was found beside the tables, and why it is not read.
    pub(super) fn beside(&self) -> Vec<(String, String)> {
        let found = self.beside.take().into_iter().flat_map(|looking| match looking {
            Looking::OnThread(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Looking::Done(found) => found,
        });
        found.collect()
    }

    /// Opens a file, and others that are probably next.
    pub(super) fn open(&self, file: &LakeFile) -> Result<SealedFile, String> {
        self.opened.set(self.opened.get() + 1);
        let mut ahead = self.ahead.borrow_mut();
        if let Some(at) = ahead.iter().position(|(of, _)| of == file) {
            return ahead.swap_remove(at).1;
        }
        let order = self.order.borrow();
        let at = order.iter().position(|of| of == file);
        let next = at.map_or(&[][..], |at| &order[at + 1..]).iter();
        let next = next.filter(|file| ahead.iter().all(|(of, _)| of != *file)).take(self.together.get() - 1);
        let files: Vec<&LakeFile> = [file].into_iter().chain(next).collect();
        self.together.set((2 * self.together.get()).min(REQUESTS_MAX));
        let mut opened = self.lake.open_files(files.clone()).into_iter();
        let first = opened.next().unwrap_or_else(|| Err("it was not opened".into()));
        ahead.extend(files.into_iter().skip(1).cloned().zip(opened));
        first
    }

    /// What was read. Of several questions at once, the traffic is that of all of them.
    pub(super) fn report(&self) -> LakeReport {
        LakeReport { files: self.files.get(), opened: self.opened.get(), traffic: self.lake.traffic() - self.before }
    }
}
