//! The columns that a pipe has before it: those of records, or those that a pipe before it made.
//!
//! A name that no pipe made is a field of the records, which may have it. After `stats`, `top` and other pipes that make
//! rows of their own, the columns are known, and another name is a slip.

use crate::field_name::{Column, FieldName};
use crate::parser::regexp;
use crate::query::{Aggregate, Arithmetic, Expression, FieldPattern, Pipe};
use crate::template::parse_template;
use daytable_model::did_you_mean::did_you_mean;

/// What a pipe may name.
pub(crate) enum ColumnScope {
    /// Any field of records, and these columns.
    Records(Vec<FieldName>),
    /// These columns alone.
    Columns(Vec<FieldName>),
}

/// A name that a step of a query uses, and whether all names that begin so are meant.
pub(crate) type UsedName = (FieldName, bool);

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
            ColumnScope::Records(_) => NameMeaning::Column,
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

    /// The scope behind a pipe.
    pub(crate) fn behind(self, pipe: &Pipe) -> ColumnScope {
        let new = |name: &str| FieldName::new(name);
        let columns = |by: &mut dyn Iterator<Item = &FieldName>, more: &[Option<&str>]| {
            ColumnScope::Columns(by.cloned().chain(more.iter().flatten().map(|name| new(name))).collect())
        };
        match pipe {
            Pipe::Stats { by, aggregates } => {
                let made = aggregates.iter().map(|aggregate| new(&aggregate.name));
                ColumnScope::Columns(by.iter().map(|by| by.field.clone()).chain(made).collect())
            }
            Pipe::Top { by, hits, rank, .. } => columns(&mut by.iter(), &[Some(hits), rank.as_deref()]),
            Pipe::Uniq { by, hits, .. } => columns(&mut by.iter(), &[hits.as_deref()]),
            Pipe::Facets { .. } => columns(&mut [].iter(), &[Some("field_name"), Some("field_value"), Some("hits")]),
            Pipe::FieldNames { name } => columns(&mut [].iter(), &[Some(name), Some("hits")]),
            Pipe::FieldValues { field, .. } => columns(&mut [field].into_iter(), &[Some("hits")]),
            Pipe::Fields(patterns) => match self {
                ColumnScope::Records(made) if patterns.iter().any(|pattern| pattern.is_prefix) => {
                    ColumnScope::Records(made)
                }
                ColumnScope::Records(_) => {
                    ColumnScope::Columns(patterns.iter().map(|pattern| pattern.name.clone()).collect())
                }
                ColumnScope::Columns(mut known) => {
                    known.retain(|column| patterns.iter().any(|pattern| covers(pattern, column)));
                    ColumnScope::Columns(known)
                }
            },
            Pipe::Delete(patterns) => match self {
                ColumnScope::Columns(mut known) => {
                    known.retain(|column| !patterns.iter().any(|pattern| covers(pattern, column)));
                    ColumnScope::Columns(known)
                }
                records => records,
            },
            Pipe::Rename(pairs) => {
                let scope = match self {
                    ColumnScope::Columns(mut known) => {
                        known.retain(|column| !pairs.iter().any(|(from, _)| is_column(column, from)));
                        ColumnScope::Columns(known)
                    }
                    records => records,
                };
                scope.with(pairs.iter().map(|(_, to)| to.clone()))
            }
            Pipe::Copy(pairs) => self.with(pairs.iter().map(|(_, to)| to.clone())),
            Pipe::Math(columns) => self.with(columns.iter().map(|(_, name)| name.clone())),
            Pipe::Length { name, .. } | Pipe::Format { name, .. } => self.with([name.clone()]),
            Pipe::Replace { at, .. } => self.with([at.clone()]),
            Pipe::Sort { rank, .. } => self.with(rank.as_deref().map(new)),
            Pipe::Extract(extraction) => {
                let parts = parse_template(&extraction.pattern, true).unwrap_or_default();
                self.with(parts.into_iter().filter_map(|part| part.name).map(|name| new(&name)))
            }
            Pipe::ExtractRegexp(extraction) => {
                let regex = regexp(&extraction.pattern).ok();
                let names = regex.iter().flat_map(|regex| regex.capture_names().flatten()).map(new);
                self.with(names)
            }
            Pipe::Filter(_) | Pipe::Limit(_) | Pipe::Offset(_) | Pipe::Sample(_) => self,
        }
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
        }
    }
}

/// A column of rows that are records, beside the fields.
fn is_of_row(name: &FieldName) -> bool {
    matches!(name.written(), "partition_key" | "row_key" | "_stream_id")
}

/// Whether a name means a column: as written, as stored, or by another name of the same column.
fn is_column(column: &FieldName, name: &FieldName) -> bool {
    let is_same = name.column() != Column::Field && name.column() == column.column();
    is_same || name.is_property(column.written()) || name.is_property(column.property())
}

fn covers(pattern: &FieldPattern, column: &FieldName) -> bool {
    pattern.matches(column.written()) || !pattern.is_prefix && is_column(column, &pattern.name)
}

/// The fields that a filter names.
pub(crate) fn used_by_filter(filter: &Expression) -> Vec<UsedName> {
    let mut used = Vec::new();
    filter.visit_fields(&mut |field| used.push((field.clone(), false)));
    used
}

/// The columns that a pipe names before it.
pub(crate) fn used_by_pipe(pipe: &Pipe) -> Vec<UsedName> {
    let mut used: Vec<UsedName> = Vec::new();
    let mut condition = None;
    let one = |name: &FieldName| (name.clone(), false);
    let pattern = |pattern: &FieldPattern| (pattern.name.clone(), pattern.is_prefix);
    match pipe {
        Pipe::Stats { by, aggregates } => {
            used.extend(by.iter().map(|by| one(&by.field)));
            for Aggregate { fields, condition, .. } in aggregates {
                used.extend(fields.iter().map(one));
                used.extend(condition.iter().flat_map(used_by_filter));
            }
        }
        Pipe::Top { by, .. } | Pipe::Uniq { by, .. } => used.extend(by.iter().map(one)),
        Pipe::Sort { by, .. } => used.extend(by.iter().map(|key| one(&key.field))),
        Pipe::Fields(patterns) | Pipe::Delete(patterns) => used.extend(patterns.iter().map(pattern)),
        Pipe::Copy(pairs) | Pipe::Rename(pairs) => {
            let is_made = |at: usize, name: &FieldName| pairs[..at].iter().any(|(_, made)| made == name);
            let from = pairs.iter().enumerate().filter(|(at, (from, _))| !is_made(*at, from));
            used.extend(from.map(|(_, (from, _))| one(from)));
        }
        Pipe::Filter(filter) => used.extend(used_by_filter(filter)),
        Pipe::Extract(extraction) | Pipe::ExtractRegexp(extraction) => {
            used.push(one(&extraction.from));
            condition = extraction.condition.as_ref();
        }
        Pipe::Format { pattern, condition: only, .. } => {
            let parts = parse_template(pattern, false).unwrap_or_default();
            used.extend(parts.into_iter().filter_map(|part| part.name).map(|name| (FieldName::new(&name), false)));
            condition = only.as_ref();
        }
        Pipe::Replace { at, condition: only, .. } => {
            used.push(one(at));
            condition = only.as_ref();
        }
        Pipe::Math(columns) => {
            for (at, (value, _)) in columns.iter().enumerate() {
                let mut names = Vec::new();
                used_by_arithmetic(value, &mut names);
                names.retain(|(name, _)| !columns[..at].iter().any(|(_, made)| made == name));
                used.extend(names);
            }
        }
        Pipe::Length { of, .. } => used.push(one(of)),
        Pipe::FieldValues { field, .. } => used.push(one(field)),
        Pipe::Limit(_) | Pipe::Offset(_) | Pipe::Facets { .. } | Pipe::FieldNames { .. } | Pipe::Sample(_) => {}
    }
    used.extend(condition.into_iter().flat_map(used_by_filter));
    used
}

fn used_by_arithmetic(value: &Arithmetic, used: &mut Vec<UsedName>) {
    match value {
        Arithmetic::Number(..) => {}
        Arithmetic::Field(name) => used.push((name.clone(), false)),
        Arithmetic::Negate(inner) => used_by_arithmetic(inner, used),
        Arithmetic::Binary(_, left, right) => {
            used_by_arithmetic(left, used);
            used_by_arithmetic(right, used);
        }
        Arithmetic::Call(_, arguments) => arguments.iter().for_each(|value| used_by_arithmetic(value, used)),
    }
}
