//! Which journal is read, and how.

use crate::instance_template::InstanceTemplate;
use crate::source::ReadFrom;
use daytable_model::record::Level;
use daytable_model::units::ByteSize;
use daytable_parse::Reading;
use std::path::PathBuf;

/// A journal, which of its entries are read, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalOptions {
    /// Its name among the metrics; no other block has it.
    pub name: String,
    /// The folder of its files; none is this host's journal.
    pub directory: Option<PathBuf>,
    /// The units whose entries are read, as `journalctl --unit=` takes them; none reads all.
    pub units: Vec<String>,
    /// The least severe level that is read; none reads all, entries without a priority as well.
    pub level_at_least: Option<Level>,
    /// Where to begin at the first start.
    pub read_from: ReadFrom,
    /// How the instance of a record is named.
    pub instance: InstanceTemplate,
    /// How messages are read. EntryParser are never joined.
    pub reading: Reading,
    /// A longer entry is kept up to here and marked.
    pub entry_bytes_max: ByteSize,
}

impl Default for JournalOptions {
    fn default() -> JournalOptions {
        JournalOptions {
            name: "journal".into(),
            directory: None,
            units: Vec::new(),
            level_at_least: None,
            read_from: ReadFrom::Beginning,
            instance: InstanceTemplate::of_field("host"),
            reading: Reading::default(),
            entry_bytes_max: ByteSize::new(1 << 20),
        }
    }
}
