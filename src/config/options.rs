//! What the options of a section `[name]` have in common.

use super::key::ConfigKey;
use super::section::Section;
use super::table::TableConfig;

/// The options of a section `[name]`. The default is that of an absent section.
pub(super) trait SectionOptions: Clone + Default + 'static {
    /// The name with its brackets.
    const HEADER: &'static str;
    const ABOUT: &'static str = "";
    /// Whether several daytables with one remote store share these options. Then a change needs a restart.
    const IS_SHARED: bool = false;

    fn keys() -> Vec<ConfigKey<Self>>;

    /// Checks the options as a whole, and against the tables of the file.
    fn complete(&mut self, _section: &Section<'_>, _tables: &[TableConfig]) {}
}
