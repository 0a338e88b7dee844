//! The snapshots that the scans of a thread hold.
//!
//! A question may have many scans in one thread, of which one is read for a long time, and a client that reads slowly
//! keeps all of them waiting. So a scan ends the snapshots of the others when these are due, and whoever waits for a
//! client ends all of them ([`release_snapshots`]). A scan whose snapshot was ended goes on by key in a new one.

use super::OpenDayFile;
use std::cell::RefCell;
use std::rc::{Rc, Weak};

thread_local! {
    static HELD: RefCell<Vec<Weak<OpenDayFile>>> = const { RefCell::new(Vec::new()) };
}

/// Adds the file of a scan of this thread.
pub(super) fn add(opened: &Rc<OpenDayFile>) {
    HELD.with_borrow_mut(|held| {
        held.retain(|opened| opened.strong_count() > 0);
        held.push(Rc::downgrade(opened));
    });
}

/// Ends the snapshots of other scans of this thread that are due.
pub(super) fn end_due(but: &Rc<OpenDayFile>) {
    each(|opened| {
        if !Rc::ptr_eq(opened, but) && opened.is_due() {
            super::end(&opened.connection);
        }
    });
}

/// Ends the snapshots of all scans of this thread, before it waits for something that may take long, such as a client. The
/// scans go on in new ones.
pub fn release_snapshots() {
    each(|opened| super::end(&opened.connection));
}

fn each(mut end: impl FnMut(&Rc<OpenDayFile>)) {
    HELD.with_borrow(|held| held.iter().filter_map(Weak::upgrade).for_each(|opened| end(&opened)));
}
