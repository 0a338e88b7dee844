//! The columns that a pipe has before it: those of records, or those that a pipe before it made.
//!
//! A name that no pipe made is a field of the records, which may have it. After `stats`, `top` and other pipes that make
//! rows of their own, the columns are known, and another name is a slip.

use crate::effect::{KeptColumns, PipeEffect, UsedName, is_column};
use crate::field_name::{Column, FieldName};
use crate::query::FieldPattern;
use daytable_model::did_you_mean::did_you_mean;

/// What a pipe may name.
pub(crate) enum ColumnScope {
    /// Any field of records, and these columns.
    Records(Vec<FieldName>),
    /// These columns alone.
    Columns(Vec<FieldName>),
    /// Any column, because its name depends on the records.
    Any,
}

/// What a name is in a scope.
pub(crate) enum NameMeaning {
    /// A column that a pipe made, or a column of every record.
    Column,
    /// A field that records may have.
    Field,
    /// No column: the warning.
    Nowhere(String),
}

impl ColumnScope {
    pub(crate) fn of(&self, (name, is_prefix): &UsedName) -> NameMeaning {
        let columns = match self {
            ColumnScope::Records(made) | ColumnScope::Columns(made) => made,
            ColumnScope::Any => return NameMeaning::Column,
        };
        let is_same = |column: &FieldName| match is_prefix {
            true => column.written().starts_with(name.written()) || column.property().starts_with(name.property()),
            false => is_column(column, name),
        };
        if columns.iter().any(is_same) || name.written().is_empty() {
            return NameMeaning::Column;
        }
        match self {
            ColumnScope::Records(_) if name.column() == Column::Field => match is_of_row(name) {
                true => NameMeaning::Column,
                false => NameMeaning::Field,
            },
            ColumnScope::Records(_) | ColumnScope::Any => NameMeaning::Column,
            ColumnScope::Columns(columns) => {
                let names: Vec<&str> = columns.iter().map(FieldName::written).collect();
                let hint = match did_you_mean(name.written(), &names) {
                    Some(known) => format!("did you mean {known}?"),
                    None if names.is_empty() => "no column is left".into(),
                    None => format!("the columns are {}", names.join(", ")),
                };
                NameMeaning::Nowhere(format!("there is no column {} here; {hint}", name.written()))
            }
        }
    }

    /// The columns, if they are known.
    pub(crate) fn columns(self) -> Option<Vec<FieldName>> {
        match self {
            ColumnScope::Columns(columns) => Some(columns),
            ColumnScope::Records(_) | ColumnScope::Any => None,
        }
    }

    /// The scope behind a pipe.
    pub(crate) fn behind(self, effect: PipeEffect) -> ColumnScope {
        if effect.is_open {
            return ColumnScope::Any;
        }
        let scope = match (self, &effect.kept) {
            (_, KeptColumns::None) => ColumnScope::Columns(Vec::new()),
            (ColumnScope::Records(_) | ColumnScope::Any, KeptColumns::Only(patterns))
                if !patterns.iter().any(|of| of.is_prefix) =>
            {
                ColumnScope::Columns(patterns.iter().map(|pattern| pattern.name.clone()).collect())
            }
            (ColumnScope::Columns(mut known), KeptColumns::Only(patterns)) => {
                known.retain(|column| patterns.iter().any(|pattern| covers(pattern, column)));
                ColumnScope::Columns(known)
            }
            (ColumnScope::Columns(mut known), KeptColumns::Without(patterns)) => {
                known.retain(|column| !patterns.iter().any(|pattern| covers(pattern, column)));
                ColumnScope::Columns(known)
            }
            (scope, _) => scope,
        };
        scope.with(effect.written.into_iter().map(|(name, _)| name))
    }

    fn with(self, names: impl IntoIterator<Item = FieldName>) -> ColumnScope {
        match self {
            ColumnScope::Records(mut made) => {
                made.extend(names);
                ColumnScope::Records(made)
            }
            ColumnScope::Columns(mut made) => {
                made.extend(names);
                ColumnScope::Columns(made)
            }
            ColumnScope::Any => ColumnScope::Any,
        }
    }
}

/// A column of rows that are records, beside the fields.
fn is_of_row(name: &FieldName) -> bool {
    matches!(name.written(), "partition_key" | "row_key" | "_stream_id")
}

fn covers(pattern: &FieldPattern, column: &FieldName) -> bool {
    pattern.matches(column.written()) || !pattern.is_prefix && is_column(column, &pattern.name)
}
