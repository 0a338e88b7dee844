//! What each pipe does to the rows that pass it.
//!
//! Whoever adds a pipe describes it here, in one place: whether it needs all rows, which columns it reads, keeps and sets.
//! What follows from that (whether an answer can be followed, when the reading of records ends, what the [plan](crate::plan)
//! may move) is derived.

use crate::field_name::{Column, FieldName};
use crate::parser::regexp_of_parts;
use crate::query::{Aggregate, Arithmetic, Expression, Extraction, FieldPattern, Function, JoinPipe, Pipe, Pivot};
use crate::template::parse_template;

/// A name that a step of a query uses, and whether all names that begin so are meant.
pub(crate) type UsedName = (FieldName, bool);

/// How a pipe passes rows on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowFlow {
    /// A row for each row, made of nothing but that row.
    Each,
    /// Some of the rows, each by what it has.
    Chosen,
    /// Some of the rows, by their number.
    Numbered,
    /// The rows in another order. All rows are needed.
    Sorted {
        /// Whether all of them are passed on.
        is_whole: bool,
    },
    /// Any number of rows for each row, made of that row and of what is known before the first one.
    Joined,
    /// Rows of its own. All rows are needed.
    Replaced {
        /// Whether the order of the rows before it matters.
        is_ordered: bool,
    },
}

/// The columns before a pipe that are there behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeptColumns {
    /// All.
    All,
    /// These.
    Only(Vec<FieldPattern>),
    /// All but these.
    Without(Vec<FieldPattern>),
    /// None.
    None,
}

/// What a pipe does to the rows that pass it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipeEffect {
    /// How it passes rows on.
    pub flow: RowFlow,
    /// The columns that it names before it, and whether all columns are meant whose names begin so.
    pub named: Vec<(FieldName, bool)>,
    /// The fields that its filters and conditions test.
    pub tested: Vec<FieldName>,
    /// Whether it reads columns that it does not name.
    pub reads_all: bool,
    /// The columns that stay.
    pub kept: KeptColumns,
    /// The columns that it sets, and whether it sets them in each row.
    pub written: Vec<(FieldName, bool)>,
    /// Whether it sets columns that its text does not name, too.
    pub is_open: bool,
}

/// The fields of records that some pipes look at. `None` if these are not all that matters of a record: its line or its message
/// are shown or looked at, or fields that are not named.
pub fn fields_of_records(pipes: &[Pipe]) -> Option<Vec<FieldName>> {
    let mut fields = Vec::new();
    for pipe in pipes {
        let effect = pipe.effect();
        let is_open = effect.reads_all || effect.named.iter().any(|(_, is_prefix)| *is_prefix);
        fields.extend(effect.named.into_iter().map(|(field, _)| field).chain(effect.tested));
        let is_whole = |field: &FieldName| {
            matches!(field.column(), Column::Message | Column::Line | Column::Anywhere | Column::Stream)
        };
        if is_open || fields.iter().any(is_whole) {
            return None;
        }
        if matches!(effect.kept, KeptColumns::Only(_) | KeptColumns::None) {
            return Some(fields);
        }
    }
    None
}

impl Pipe {
    /// What the pipe does to the rows that pass it.
    pub fn effect(&self) -> PipeEffect {
        let new = |name: &str| FieldName::new(name);
        let one = |name: &FieldName| (name.clone(), false);
        let always = |name: &FieldName| (name.clone(), true);
        let exactly = |name: &FieldName| FieldPattern { name: name.clone(), is_prefix: false };
        let effect = PipeEffect {
            flow: RowFlow::Each,
            named: Vec::new(),
            tested: Vec::new(),
            reads_all: false,
            kept: KeptColumns::All,
            written: Vec::new(),
            is_open: false,
        };
        let groups = |by: &[FieldName], made: &[Option<&str>], is_ordered| PipeEffect {
            flow: RowFlow::Replaced { is_ordered },
            named: by.iter().map(one).collect(),
            kept: KeptColumns::None,
            written: by.iter().map(always).chain(made.iter().flatten().map(|name| (new(name), true))).collect(),
            ..effect.clone()
        };
        match self {
            Pipe::Stats { by, aggregates } => {
                let mut named: Vec<UsedName> = by.iter().map(|by| one(&by.field)).collect();
                for Aggregate { fields, condition, .. } in aggregates {
                    named.extend(fields.iter().map(one));
                    named.extend(condition.iter().flat_map(used_by_filter));
                }
                if aggregates.iter().any(|of| matches!(of.function, Function::First | Function::Last)) {
                    // They choose by the time that a row shows.
                    named.push((new("time"), false));
                }
                let columns = aggregates.iter().map(|aggregate| new(&aggregate.name));
                PipeEffect {
                    flow: RowFlow::Replaced { is_ordered: aggregates.iter().any(|of| is_ordered(of.function)) },
                    named,
                    tested: aggregates.iter().flat_map(|of| tested_by(&of.condition)).collect(),
                    reads_all: aggregates.iter().any(reads_all),
                    kept: KeptColumns::None,
                    written: by.iter().map(|by| always(&by.field)).chain(columns.map(|name| (name, true))).collect(),
                    is_open: false,
                }
            }
            Pipe::Top { by, hits, rank, .. } => groups(by, &[Some(hits), rank.as_deref()], false),
            Pipe::Uniq { by, hits, .. } => groups(by, &[hits.as_deref()], false),
            Pipe::FieldValues { field, .. } => groups(std::slice::from_ref(field), &[Some("hits")], false),
            Pipe::Facets { .. } => {
                let made = [Some("field_name"), Some("field_value"), Some("hits")];
                PipeEffect { reads_all: true, ..groups(&[], &made, false) }
            }
            Pipe::FieldNames { name } => {
                PipeEffect { reads_all: true, ..groups(&[], &[Some(name), Some("hits")], false) }
            }
            Pipe::Sort { by, rank, limit, offset } => PipeEffect {
                flow: RowFlow::Sorted { is_whole: limit.is_none() && *offset == 0 },
                named: by.iter().map(|key| one(&key.field)).collect(),
                reads_all: by.is_empty(),
                written: rank.iter().map(|rank| (new(rank), true)).collect(),
                ..effect
            },
            Pipe::Limit(_) | Pipe::Offset(_) | Pipe::Sample(_) => PipeEffect { flow: RowFlow::Numbered, ..effect },
            Pipe::Filter(filter) => {
                PipeEffect { flow: RowFlow::Chosen, named: used_by_filter(filter), tested: fields_of(filter), ..effect }
            }
            Pipe::Fields(patterns) => PipeEffect {
                named: patterns.iter().map(|pattern| (pattern.name.clone(), pattern.is_prefix)).collect(),
                kept: KeptColumns::Only(patterns.clone()),
                ..effect
            },
            Pipe::Delete(patterns) => PipeEffect {
                named: patterns.iter().map(|pattern| (pattern.name.clone(), pattern.is_prefix)).collect(),
                kept: KeptColumns::Without(patterns.clone()),
                ..effect
            },
            Pipe::Copy(pairs) => PipeEffect {
                named: named_by_pairs(pairs),
                written: pairs.iter().map(|(_, to)| always(to)).collect(),
                ..effect
            },
            Pipe::Rename(pairs) => PipeEffect {
                named: named_by_pairs(pairs),
                kept: KeptColumns::Without(pairs.iter().map(|(from, _)| exactly(from)).collect()),
                written: pairs.iter().map(|(_, to)| always(to)).collect(),
                ..effect
            },
            Pipe::Extract(extraction) => {
                let parts = parse_template(&extraction.pattern, true).unwrap_or_default();
                let names = parts.into_iter().filter_map(|part| part.name).map(|name| new(&name)).collect();
                extracts(extraction, names, effect)
            }
            Pipe::ExtractRegexp(extraction) => {
                let regex = regexp_of_parts(&extraction.pattern).ok();
                let names = regex.iter().flat_map(|regex| regex.capture_names().flatten()).map(new).collect();
                extracts(extraction, names, effect)
            }
            Pipe::Format { pattern, name, condition, keep_original, skip_empty } => {
                let parts = parse_template(pattern, false).unwrap_or_default();
                let names = parts.into_iter().filter_map(|part| part.name).map(|name| (new(&name), false));
                let is_always = condition.is_none() && !keep_original && !skip_empty;
                PipeEffect {
                    named: names.chain(condition.iter().flat_map(used_by_filter)).collect(),
                    tested: tested_by(condition),
                    written: vec![(name.clone(), is_always)],
                    ..effect
                }
            }
            Pipe::Replace { at, condition, .. } => PipeEffect {
                named: [one(at)].into_iter().chain(condition.iter().flat_map(used_by_filter)).collect(),
                tested: tested_by(condition),
                written: vec![(at.clone(), false)],
                ..effect
            },
            Pipe::Math(columns) => {
                let mut named = Vec::new();
                for (at, (value, _)) in columns.iter().enumerate() {
                    let mut of_value = Vec::new();
                    used_by_arithmetic(value, &mut of_value);
                    of_value.retain(|(name, _)| !columns[..at].iter().any(|(_, made)| made == name));
                    named.extend(of_value);
                }
                PipeEffect { named, written: columns.iter().map(|(_, name)| always(name)).collect(), ..effect }
            }
            Pipe::Length { of, name } | Pipe::Pattern { of, name } => {
                PipeEffect { named: vec![one(of)], written: vec![always(name)], ..effect }
            }
            Pipe::Join(join) => PipeEffect {
                flow: RowFlow::Joined,
                named: join.by.iter().map(one).collect(),
                written: join.columns.iter().flatten().map(|name| (join.column(name), false)).collect(),
                is_open: join.columns.is_none(),
                ..effect
            },
            Pipe::Sessions { by, .. } => with_time(groups(by, &[Some("begin"), Some("end"), Some("records")], false)),
            Pipe::Gaps { by, .. } => with_time(groups(by, &[Some("from"), Some("to"), Some("duration")], false)),
            Pipe::Pivot(Pivot { field, groups: others }) => PipeEffect {
                named: others.iter().chain([field]).map(one).collect(),
                reads_all: true,
                is_open: true,
                ..groups(others, &[Some("total")], true)
            },
        }
    }

    /// Whether the pipe has to see all rows before it gives the first one: then it cannot be followed.
    pub fn needs_all(&self) -> bool {
        matches!(self.effect().flow, RowFlow::Sorted { .. } | RowFlow::Replaced { .. })
    }
}

impl PipeEffect {
    /// Whether a record becomes a row of columns, which has no line.
    pub fn makes_rows(&self) -> bool {
        let is_everything = |pattern: &FieldPattern| pattern.is_prefix && pattern.name.written().is_empty();
        match (&self.flow, &self.kept) {
            (RowFlow::Chosen | RowFlow::Numbered, _) => false,
            (RowFlow::Sorted { .. }, _) => !self.written.is_empty(),
            (_, KeptColumns::Only(patterns)) => !patterns.iter().any(is_everything),
            (RowFlow::Each | RowFlow::Joined | RowFlow::Replaced { .. }, _) => true,
        }
    }

    /// Whether only the first of several values of a name stays.
    pub fn drops_again(&self) -> bool {
        self.makes_rows() && matches!(self.kept, KeptColumns::Only(_))
    }

    /// The columns whose values it looks at, beside those that it passes on or removes.
    pub fn reads(&self) -> impl Iterator<Item = &FieldName> {
        let moves_only = self.written.is_empty() && matches!(self.kept, KeptColumns::Only(_) | KeptColumns::Without(_));
        let named = self.named.iter().filter(move |_| !moves_only).map(|(name, _)| name);
        named.chain(&self.tested)
    }

    /// Whether a column may have another value behind the pipe than before it, or be missing.
    pub fn may_change(&self, name: &FieldName) -> bool {
        let is_kept = match &self.kept {
            KeptColumns::All => true,
            KeptColumns::Only(patterns) => patterns.iter().any(|pattern| keeps(pattern, name)),
            KeptColumns::Without(patterns) => !patterns.iter().any(|pattern| may_cover(pattern, name)),
            KeptColumns::None => false,
        };
        !is_kept || self.is_open || self.written.iter().any(|(written, _)| may_be_same(written, name))
    }
}

/// The effect of a pipe that looks at the times of rows, too.
fn with_time(effect: PipeEffect) -> PipeEffect {
    let mut effect = effect;
    effect.named.push((FieldName::new("time"), false));
    effect
}

impl JoinPipe {
    /// The name behind the pipe of a column of the other query.
    pub fn column(&self, name: &FieldName) -> FieldName {
        FieldName::new(&format!("{}{}", self.prefix, name.written()))
    }
}

/// Whether a pattern of `fields` surely keeps a column as it is.
fn keeps(pattern: &FieldPattern, name: &FieldName) -> bool {
    match pattern.is_prefix {
        true => pattern.name.written().is_empty(),
        false => pattern.name == *name,
    }
}

/// Whether a pattern may mean a column.
fn may_cover(pattern: &FieldPattern, name: &FieldName) -> bool {
    if !pattern.is_prefix {
        return may_be_same(&pattern.name, name);
    }
    let begins = |name: &FieldName| {
        name.written().starts_with(pattern.name.written()) || name.property().starts_with(pattern.name.property())
    };
    begins(name) || name.column().name().is_some_and(|column| begins(&FieldName::new(column)))
}

/// Whether two names may mean one column.
pub fn may_be_same(one: &FieldName, other: &FieldName) -> bool {
    is_column(one, other) || is_column(other, one)
}

/// Whether a name means a column: as written, as stored, or by another name of the same column.
pub(crate) fn is_column(column: &FieldName, name: &FieldName) -> bool {
    let is_same = name.column() != Column::Field && name.column() == column.column();
    is_same || name.is_property(column.written()) || name.is_property(column.property())
}

fn extracts(extraction: &Extraction, names: Vec<FieldName>, effect: PipeEffect) -> PipeEffect {
    let Extraction { from, condition, keep_original, skip_empty, .. } = extraction;
    let is_always = condition.is_none() && !keep_original && !skip_empty;
    PipeEffect {
        named: [(from.clone(), false)].into_iter().chain(condition.iter().flat_map(used_by_filter)).collect(),
        tested: tested_by(condition),
        written: names.into_iter().map(|name| (name, is_always)).collect(),
        ..effect
    }
}

/// The names of pairs that no pair before makes.
fn named_by_pairs(pairs: &[(FieldName, FieldName)]) -> Vec<UsedName> {
    let is_made = |at: usize, name: &FieldName| pairs[..at].iter().any(|(_, made)| made == name);
    let from = pairs.iter().enumerate().filter(|(at, (from, _))| !is_made(*at, from));
    from.map(|(_, (from, _))| (from.clone(), false)).collect()
}

/// Whether the value of a function depends on the order of the rows. Rows of records tell which one is newer, others do
/// not.
fn is_ordered(function: Function) -> bool {
    match function {
        Function::Values
        | Function::Any
        | Function::First
        | Function::Last
        | Function::RowAny
        | Function::RowMin
        | Function::RowMax => true,
        Function::Count
        | Function::CountEmpty
        | Function::CountUniq
        | Function::Sum
        | Function::Avg
        | Function::Min
        | Function::Max
        | Function::Quantile(_)
        | Function::Rate
        | Function::RateSum
        | Function::UniqValues
        | Function::SumLength => false,
    }
}

/// Whether a function shows all fields of a record.
fn reads_all(aggregate: &Aggregate) -> bool {
    match aggregate.function {
        Function::RowAny => aggregate.fields.is_empty(),
        Function::RowMin | Function::RowMax => aggregate.fields.len() <= 1,
        _ => false,
    }
}

/// The fields that a filter names.
pub(crate) fn used_by_filter(filter: &Expression) -> Vec<UsedName> {
    let mut used = Vec::new();
    filter.visit_fields(&mut |field| used.push((field.clone(), false)));
    used
}

/// The columns that a filter looks at.
pub fn fields_of(filter: &Expression) -> Vec<FieldName> {
    let time = has_time(filter).then(|| FieldName::new("time"));
    used_by_filter(filter).into_iter().map(|(name, _)| name).chain(time).collect()
}

fn tested_by(condition: &Option<Expression>) -> Vec<FieldName> {
    condition.as_ref().map(fields_of).unwrap_or_default()
}

fn has_time(filter: &Expression) -> bool {
    match filter {
        Expression::All | Expression::Field(..) => false,
        Expression::And(parts) | Expression::Or(parts) => parts.iter().any(has_time),
        Expression::Not(inner) => has_time(inner),
        Expression::Time(_) => true,
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::ParsedQuery;

    #[test]
    fn only_fields_that_pipes_name_matter_where_no_other_is_shown() {
        for (pipes, fields) in [
            ("fields path, client | limit 10", Some("path client path client")),
            ("math a / b as x | sort by (c) | fields x", Some("a b c x x")),
            ("filter d:>3 | stats by (_time:1h) sum(e) s", Some("d d _time e")),
            ("limit 5 | fields time, level, instance", Some("time level instance time level instance")),
            ("rename a as b", None),
            ("fields a*", None),
            ("fields a, message", None),
            ("extract \"x=<x>\" | fields x", None),
            ("filter word | fields a", None),
            ("facets", None),
            ("limit 10", None),
        ] {
            let query = ParsedQuery::parse(&format!("* | {pipes}")).expect("a query");
            let found = fields_of_records(&query.pipes);
            let found = found.map(|fields| fields.iter().map(|of| of.written().to_owned()).collect::<Vec<_>>());
            let expected = fields.map(|fields| fields.split(' ').map(str::to_owned).collect::<Vec<_>>());
            let sorted = |mut names: Vec<String>| {
                names.sort();
                names.dedup();
                names
            };
            assert_eq!(found.map(sorted), expected.map(sorted), "{pipes}");
        }
    }
}
