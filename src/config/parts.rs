//! The list of all sections of the file. Reading, changes, variables, the reference and the sample follow from the list.

use super::changes::Changes;
use super::key::{self, SectionDoc, SectionPlace, bare};
use super::options::SectionOptions;
use super::section::Section;
use super::{Config, SourceBlocks, alerts, allowance, file, forward, reading, saved_queries, table, tenants, tls};

/// One section of the file, or blocks.
pub(super) trait ConfigPart {
    /// What the documents say about the section, or about each kind of blocks.
    fn docs(&self) -> Vec<SectionDoc>;

    /// Reads the section into `config`, which has the sections before this one in the list.
    fn read(&self, _file: &mut Section<'_>, _config: &mut Config) {}

    /// Adds the changes from `before` to `now`. `now` keeps the values of keys that need a restart. Borrows `before` mutably
    /// because a field has one accessor only, and leaves it unchanged.
    fn compare(&self, _before: &mut Config, _now: &mut Config, _changes: &mut Changes) {}
}

/// All of them, in the order of the documents.
pub(super) fn parts() -> Vec<Box<dyn ConfigPart>> {
    let mut parts: Vec<Box<dyn ConfigPart>> =
        vec![Box::new(TopKeys), section(|config| &mut config.http), inline(tls::doc), inline(allowance::doc)];
    parts.push(Box::new(SourceSections));
    parts.extend(reading::DOCS.map(inline));
    parts.push(Box::new(TableSections));
    parts.push(Box::new(TenantSections));
    parts.extend([section(|config| &mut config.archives), section(|config| &mut config.alerts)]);
    parts.push(Box::new(AlertSections));
    parts.push(Box::new(SavedQuerySections));
    parts.extend([section(|config| &mut config.lifecycle), section(|config| &mut config.store)]);
    parts.push(Box::new(ForwardSections));
    parts.extend([section(|config| &mut config.hosts), section(|config| &mut config.log)]);
    parts
}

/// What the documents say about all sections, in their order.
pub(super) fn sections() -> Vec<SectionDoc> {
    parts().iter().flat_map(|part| part.docs()).collect()
}

impl Changes {
    /// The changes from `before` to `now`. `now` keeps the values of keys that need a restart.
    pub fn between(before: &Config, now: &mut Config) -> Changes {
        let (mut changes, mut before) = (Changes::default(), before.clone());
        parts().iter().for_each(|part| part.compare(&mut before, now, &mut changes));
        changes
    }
}

/// The keys before the first section.
struct TopKeys;

impl ConfigPart for TopKeys {
    fn docs(&self) -> Vec<SectionDoc> {
        vec![SectionDoc::new("the file", SectionPlace::Top, file::keys(), &mut Config::default())]
    }

    fn read(&self, file: &mut Section<'_>, config: &mut Config) {
        *config = key::read(&file::keys(), file, Config::default());
    }

    fn compare(&self, before: &mut Config, now: &mut Config, changes: &mut Changes) {
        let keys = key::compare(&file::keys(), before, now);
        keys.into_iter().for_each(|(key, needs_restart)| changes.add(key.into(), needs_restart));
    }
}

/// The blocks of all sources.
struct SourceSections;

impl ConfigPart for SourceSections {
    fn docs(&self) -> Vec<SectionDoc> {
        SourceBlocks::docs()
    }

    fn read(&self, file: &mut Section<'_>, config: &mut Config) {
        config.sources = SourceBlocks::read(file, &config.redact);
    }

    fn compare(&self, before: &mut Config, now: &mut Config, changes: &mut Changes) {
        now.sources.compare(&before.sources, changes);
    }
}

/// The blocks `[[table]]`.
struct TableSections;

impl ConfigPart for TableSections {
    fn docs(&self) -> Vec<SectionDoc> {
        vec![table::doc()]
    }

    fn read(&self, file: &mut Section<'_>, config: &mut Config) {
        config.tables = table::read(file);
    }

    fn compare(&self, before: &mut Config, now: &mut Config, changes: &mut Changes) {
        table::compare(&before.tables, &mut now.tables, before.store.remote().is_some(), changes);
    }
}

/// The blocks `[[tenant]]`.
struct TenantSections;

impl ConfigPart for TenantSections {
    fn docs(&self) -> Vec<SectionDoc> {
        vec![tenants::doc()]
    }

    fn read(&self, file: &mut Section<'_>, config: &mut Config) {
        config.tenants = tenants::read(file, &config.tables);
    }

    fn compare(&self, before: &mut Config, now: &mut Config, changes: &mut Changes) {
        tenants::compare(&before.tenants, &mut now.tenants, changes);
    }
}

/// The blocks `[[forward]]`.
struct ForwardSections;

impl ConfigPart for ForwardSections {
    fn docs(&self) -> Vec<SectionDoc> {
        vec![forward::doc()]
    }

    fn read(&self, file: &mut Section<'_>, config: &mut Config) {
        config.forward = forward::read(file, config.store.remote().is_some());
    }

    fn compare(&self, before: &mut Config, now: &mut Config, changes: &mut Changes) {
        forward::compare(&before.forward, &mut now.forward, changes);
    }
}

/// The blocks `[[alert]]`.
struct AlertSections;

impl ConfigPart for AlertSections {
    fn docs(&self) -> Vec<SectionDoc> {
        vec![alerts::doc()]
    }

    fn read(&self, file: &mut Section<'_>, config: &mut Config) {
        config.alert_rules = alerts::read(file, &config.alerts);
    }

    fn compare(&self, before: &mut Config, now: &mut Config, changes: &mut Changes) {
        alerts::compare(&before.alert_rules, &mut now.alert_rules, changes);
    }
}

/// The blocks `[[query]]`.
struct SavedQuerySections;

impl ConfigPart for SavedQuerySections {
    fn docs(&self) -> Vec<SectionDoc> {
        vec![saved_queries::doc()]
    }

    fn read(&self, file: &mut Section<'_>, config: &mut Config) {
        config.saved_queries = saved_queries::read(file);
    }

    fn compare(&self, before: &mut Config, now: &mut Config, changes: &mut Changes) {
        saved_queries::compare(&before.saved_queries, &mut now.saved_queries, changes);
    }
}

/// A section, and the field with its options.
struct SectionPart<T>(fn(&mut Config) -> &mut T);

fn section<T: SectionOptions>(field: fn(&mut Config) -> &mut T) -> Box<dyn ConfigPart> {
    Box::new(SectionPart(field))
}

impl<T: SectionOptions> ConfigPart for SectionPart<T> {
    fn docs(&self) -> Vec<SectionDoc> {
        let doc = SectionDoc::new(T::HEADER, SectionPlace::Table, T::keys(), &mut T::default());
        vec![SectionDoc { about: T::ABOUT, ..doc }]
    }

    fn read(&self, file: &mut Section<'_>, config: &mut Config) {
        let mut section = file.section(bare(T::HEADER), T::HEADER);
        let mut options = key::read(&T::keys(), &mut section, T::default());
        options.complete(&section, &config.tables);
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
    fn docs(&self) -> Vec<SectionDoc> {
        vec![(self.0)()]
    }
}
