//! Where a query looks.

use super::archived::Archives;
use crate::tables::TableStore;
use daytable_store::Reader;

/// The data folder, and what is behind it.
#[derive(Clone, Copy)]
pub struct Stores<'a> {
    /// The data folder: all there is, or what was not sent to the remote store yet.
    pub reader: &'a Reader,
    /// Days of which there is only an archive.
    pub archives: &'a Archives,
    /// The store behind the data folder, where there is one.
    pub remote: Option<&'a dyn TableStore>,
}

impl<'a> Stores<'a> {
    /// A data folder that is all there is.
    pub fn here(reader: &'a Reader, archives: &'a Archives) -> Stores<'a> {
        Stores { reader, archives, remote: None }
    }
}
