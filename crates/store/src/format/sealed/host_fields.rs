//! The fields that name the host of a sealed day whose records do not name it.
//!
//! Archives of many hosts have the host in their path. A file that is read as that of a host ([`SealedFile::of_host`]) has the
//! fields that a central daytable gives to records of that host:
//!
//! | field | of a record |
//! |---|---|
//! | `log_host` | the host. A field `log_host` of the record itself is `log_host#2`, one that is called so `log_host#3`, and so on |
//! | `host` | the host, if the record has no field `host` |
//!
//! No byte of the file is read for them, and each search in the file knows them. Whether a record of several rows has a
//! `host` is known once it is joined: its first row has the property [`HOST_UNLESS_NAMED`] instead.

use super::block::{BlockColumn, BlockValues};
use super::columns::RestKeys;
use super::file::SealedFile;
use super::layout::{HostFields, PropertyColumn};
use daytable_model::column_name::{HOST, LOG_HOST};
use daytable_model::field_properties::{property_after, property_again};
use daytable_model::line::{LAYOUT, renamed_layout};
use daytable_model::needle::Needle;
use daytable_model::property::{Property, PropertyKind};
use daytable_model::row_set::RowSet;
use std::borrow::Cow;
use std::sync::Arc;

/// The property of a first row whose record has the field `host` with this value, unless it has one of its own. No record
/// has a property of this name.
pub const HOST_UNLESS_NAMED: &str = "?host";
/// Daytables that a record may have passed before, which value counts are asked about.
const PASSED_MAX: usize = 16;

/// The columns of some rows that name their host.
pub(crate) struct HostColumns {
    /// `log_host`.
    pub(crate) log_host: BlockColumn,
    /// `host`: the texts that records have, and the host for the others.
    pub(crate) host: BlockColumn,
    /// [`HOST_UNLESS_NAMED`], if a record may have several rows.
    pub(crate) unless_named: Option<BlockColumn>,
}

impl SealedFile {
    /// The same file, read as that of a host whose name its records do not have.
    pub fn of_host(self, host: &str) -> SealedFile {
        let renamed = |column: &PropertyColumn| PropertyColumn {
            property: name_beside(&column.property).into_owned(),
            ..column.clone()
        };
        let columns = self.opened.layout.columns.iter().map(renamed).collect();
        SealedFile { host: Some(Arc::new(HostFields { host: host.into(), columns })), ..self }
    }

    /// The columns of properties, as they are called.
    pub(crate) fn columns(&self) -> &[PropertyColumn] {
        self.host.as_ref().map_or(&self.opened.layout.columns, |host| &host.columns)
    }

    /// Whether each record has the text in the name of its host.
    pub(super) fn has_in_host(&self, needle: &Needle) -> bool {
        self.host.as_ref().is_some_and(|of| needle.is_in(Property::String(&of.host)))
    }

    /// Whether a question about these properties cannot be answered by what the file counted of them.
    pub(crate) fn is_about_host(&self, wants: &dyn Fn(&str, PropertyKind) -> bool) -> bool {
        let passed = || (2..=PASSED_MAX).map(|n| Cow::Owned(property_again(LOG_HOST, n)));
        let mut names = [HOST, LOG_HOST].into_iter().map(Cow::Borrowed).chain(passed());
        self.host.is_some() && names.any(|name| PropertyKind::ALL.into_iter().any(|kind| wants(&name, kind)))
    }

    /// The properties without a column, as they are called.
    pub(super) fn rest_beside_host(&self, mut keys: RestKeys) -> RestKeys {
        if self.host.is_some() {
            for (name, _) in &mut keys.names {
                if let Cow::Owned(beside) = name_beside(name) {
                    *name = beside.into();
                }
            }
        }
        keys
    }

    /// The texts of a column, of which those of layouts name fields as they are called.
    pub(super) fn values_beside_host(&self, property: &str, values: BlockValues) -> BlockValues {
        match (&self.host, values) {
            (Some(_), BlockValues::Strings(all, ends)) if property == LAYOUT && all.contains(LOG_HOST) => {
                let mut renamed = BlockValues::new(PropertyKind::String);
                let mut start = 0;
                for end in ends {
                    let layout = all.get(start..end as usize).unwrap_or_default();
                    let beside = renamed_layout(layout, |name| property_after(LOG_HOST, name));
                    // A layout is some bytes longer, so the texts of a block stay far below the limit.
                    renamed.push(Property::String(beside.as_deref().unwrap_or(layout)));
                    start = end as usize;
                }
                renamed
            }
            (_, values) => values,
        }
    }

    /// The columns that name the host of some rows, which a file without one has not. `hosts` are the columns of `host`, one a
    /// type; `spread` are records that may have a `host` in another row.
    pub(crate) fn host_columns(
        &self,
        rows: usize,
        records: &RowSet,
        hosts: &[&BlockColumn],
        spread: &RowSet,
    ) -> Option<HostColumns> {
        let host = &*self.host.as_ref()?.host;
        let mut nameless = records.clone();
        hosts.iter().for_each(|column| nameless.subtract(&column.present(rows)));
        let mut open = spread.clone();
        open.keep(&nameless);
        nameless.subtract(&open);
        let texts = hosts.iter().find(|column| column.name_and_kind().1 == PropertyKind::String);
        let none = || BlockColumn::constant(HOST, rows, &RowSet::none(rows), host);
        Some(HostColumns {
            log_host: BlockColumn::constant(LOG_HOST, rows, records, host),
            host: match texts {
                Some(texts) => texts.filled_with(rows, &nameless, host).unwrap_or_else(none),
                None => BlockColumn::constant(HOST, rows, &nameless, host),
            },
            unless_named: (!open.is_empty()).then(|| BlockColumn::constant(HOST_UNLESS_NAMED, rows, &open, host)),
        })
    }

    /// Adds the columns that name the host to those of a block.
    pub(super) fn add_host(&self, columns: &mut Vec<BlockColumn>, rows: usize, records: &RowSet) {
        let is_host = |column: &BlockColumn| column.name_and_kind().0 == HOST;
        let hosts: Vec<&BlockColumn> = columns.iter().filter(|column| is_host(column)).collect();
        let mut spread = RowSet::none(rows);
        columns.iter().filter(|column| column.is_of_many_rows()).for_each(|column| spread.add(&column.present(rows)));
        let Some(added) = self.host_columns(rows, records, &hosts, &spread) else { return };
        columns.retain(|column| column.name_and_kind() != (HOST, PropertyKind::String));
        columns.extend([added.host, added.log_host]);
        columns.extend(added.unless_named);
    }

    /// Whether the file is read as that of a host.
    pub(crate) fn has_host(&self) -> bool {
        self.host.is_some()
    }
}

/// The name of a property beside the host's own.
fn name_beside(property: &str) -> Cow<'_, str> {
    property_after(LOG_HOST, property).map_or(Cow::Borrowed(property), Cow::Owned)
}
