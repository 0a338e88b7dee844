//! The list of all sections of the file. Reading, changes, variables, the reference and the sample follow from the list.

use super::changes::Changes;
use super::key::{self, ConfigKey, SectionDoc, SectionPlace};
use super::section::Section;
use super::{Config, alerts, allowance, file, reading, sources, table, tls};

/// One section of the file, or one kind of blocks.
pub(super) trait ConfigPart {
    /// What the documents say about the section.
    fn doc(&self) -> SectionDoc;

    /// Reads the section into `config`, which has the sections before this one in the list.
    fn read(&self, _file: &mut Section<'_>, _config: &mut Config) {}

    /// Adds the changes from `before` to `now`. `now` keeps the values of keys that need a restart. Borrows `before` mutably
    /// because a field has one accessor only, and leaves it unchanged.
    fn compare(&self, _before: &mut Config, _now: &mut Config, _changes: &mut Changes) {}
}

/// All of them, in the order of the documents.
pub(super) fn parts() -> Vec<Box<dyn ConfigPart>> {
    let mut parts: Vec<Box<dyn ConfigPart>> =
        vec![Box::new(file::TopKeys), section(|config| &mut config.http), inline(tls::doc), inline(allowance::doc)];
    parts.extend(sources::parts());
    parts.extend(reading::DOCS.map(inline));
    parts.push(Box::new(table::TableBlocks));
    parts.extend([section(|config| &mut config.archives), section(|config| &mut config.alerts)]);
    parts.push(Box::new(alerts::AlertBlocks));
    parts.extend([
        section(|config| &mut config.lifecycle),
        section(|config| &mut config.store),
        section(|config| &mut config.log),
    ]);
    parts
}

/// The options of a section `[name]`. The default is that of an absent section.
pub(super) trait SectionOptions: Clone + Default + 'static {
    /// The name with its brackets.
    const HEADER: &'static str;
    const ABOUT: &'static str = "";
    /// Whether several daytables with one remote store share these options. Then a change needs a restart.
    const IS_SHARED: bool = false;

    fn keys() -> Vec<ConfigKey<Self>>;

    /// Checks the options as a whole. `config` has the sections before this one.
    fn complete(&mut self, _section: &Section<'_>, _config: &Config) {}
}

/// A section, and the field with its options.
struct SectionPart<T>(fn(&mut Config) -> &mut T);

fn section<T: SectionOptions>(field: fn(&mut Config) -> &mut T) -> Box<dyn ConfigPart> {
    Box::new(SectionPart(field))
}

impl<T: SectionOptions> ConfigPart for SectionPart<T> {
    fn doc(&self) -> SectionDoc {
        SectionDoc { about: T::ABOUT, ..SectionDoc::new(T::HEADER, SectionPlace::Table, T::keys(), &mut T::default()) }
    }

    fn read(&self, file: &mut Section<'_>, config: &mut Config) {
        let mut section = file.section(bare(T::HEADER), T::HEADER);
        let mut options = key::read(&T::keys(), &mut section, T::default());
        options.complete(&section, config);
        section.finish();
        *self.0(config) = options;
    }

    fn compare(&self, before: &mut Config, now: &mut Config, changes: &mut Changes) {
        let is_shared = T::IS_SHARED && before.store.remote().is_some();
        let (before, now) = (self.0(before), self.0(now));
        for (key, needs_restart) in key::compare(&T::keys(), before, now) {
            changes.add(format!("{}.{key}", bare(T::HEADER)), needs_restart || is_shared);
        }
        if is_shared {
            now.clone_from(before);
        }
    }
}

/// A table within other sections, which those read and compare.
struct InlinePart(fn() -> SectionDoc);

fn inline(doc: fn() -> SectionDoc) -> Box<dyn ConfigPart> {
    Box::new(InlinePart(doc))
}

impl ConfigPart for InlinePart {
    fn doc(&self) -> SectionDoc {
        (self.0)()
    }
}

/// A name without its brackets.
pub(super) fn bare(header: &'static str) -> &'static str {
    header.trim_matches(['[', ']'])
}
