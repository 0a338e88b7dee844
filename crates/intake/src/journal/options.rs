//! The options of a journal.

use crate::instance_template::InstanceTemplate;
use crate::source::ReadFrom;
use daytable_model::record::Level;
use daytable_model::units::ByteSize;
use daytable_parse::ParseOptions;
use std::path::PathBuf;

/// A journal, the entries to read, and how to read them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalOptions {
    /// The unique name in metrics.
    pub name: String,
    /// The folder of its files. `None` is the journal of this host.
    pub directory: Option<PathBuf>,
    /// The units to read, as for `journalctl --unit=`. An empty list reads all units.
    pub units: Vec<String>,
    /// The least severe level to read. `None` reads all entries, even without a priority.
    pub level_at_least: Option<Level>,
    /// The place of the first start.
    pub read_from: ReadFrom,
    /// The instance of a record.
    pub instance: InstanceTemplate,
    /// How to parse messages. Entries are never joined.
    pub reading: ParseOptions,
    /// A longer entry is cut and marked.
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
            reading: ParseOptions::default(),
            entry_bytes_max: ByteSize::new(1 << 20),
        }
    }
}
