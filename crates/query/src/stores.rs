//! The places where a query reads.

use super::archived::Archives;
use crate::tables::TableStore;
use daytable_store::Reader;

/// The data folder, and the stores behind it.
#[derive(Clone, Copy)]
pub struct Stores<'a> {
    /// The data folder: everything, or the rows that are not sent to the remote store yet.
    pub reader: &'a Reader,
    /// Access to days that exist only as archives.
    pub archives: &'a Archives,
    /// The remote store, if there is one.
    pub remote: Option<&'a dyn TableStore>,
}

impl<'a> Stores<'a> {
    /// A data folder without a remote store.
    pub fn local(reader: &'a Reader, archives: &'a Archives) -> Stores<'a> {
        Stores { reader, archives, remote: None }
    }
}
