//! What the columns of an answer are, from its query alone.

use crate::field_name::{Column, FieldName};
use crate::query::{GroupField, ParsedQuery, Pipe, ValueStepSize};
use std::time::Duration;

/// Which records a group of an answer has.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupFilter {
    /// The column of the answer.
    pub column: String,
    /// The field that is tested.
    pub field: String,
    /// How a value of the column tests it.
    pub test: GroupTest,
}

/// How a value of a group tests a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GroupTest {
    /// It is the value.
    Value,
    /// It is the start of a step of this size.
    Step(f64),
    /// It is the network with this many bits.
    Network(u32),
    /// It is the pattern of the text.
    Pattern,
    /// It names the field, which is there.
    Name,
}

impl GroupFilter {
    fn of(by: &GroupField) -> GroupFilter {
        let test = match by.step.as_ref().map(|step| step.size) {
            Some(ValueStepSize::Number(size)) => GroupTest::Step(size),
            Some(ValueStepSize::AddressBits(bits)) => GroupTest::Network(bits),
            _ => GroupTest::Value,
        };
        let name = by.field.written().to_owned();
        GroupFilter { column: name.clone(), field: name, test }
    }

    fn whole(field: &FieldName) -> GroupFilter {
        let name = field.written().to_owned();
        GroupFilter { column: name.clone(), field: name, test: GroupTest::Value }
    }
}

impl ParsedQuery {
    /// The columns of the answer that tell its groups apart, and whose values no function made: a chart has no line of them.
    pub fn group_columns(&self) -> Vec<String> {
        let mut groups: Vec<String> = Vec::new();
        let names = |by: &[FieldName]| by.iter().map(|field| field.written().to_owned()).collect();
        for pipe in &self.pipes {
            match pipe {
                Pipe::Stats { by, .. } => groups = by.iter().map(|by| by.field.written().to_owned()).collect(),
                Pipe::Top { by, .. } | Pipe::Uniq { by, .. } => groups = names(by),
                Pipe::FieldValues { field, .. } => groups = vec![field.written().to_owned()],
                Pipe::FieldNames { name } => groups = vec![name.clone()],
                Pipe::Sessions { by, .. } | Pipe::Gaps { by, .. } => groups = names(by),
                Pipe::Pivot(pivot) => groups = names(&pivot.groups),
                Pipe::Facets { .. } => groups = vec!["field_name".into(), "field_value".into()],
                Pipe::Rename(pairs) => pairs.iter().for_each(|(from, to)| {
                    groups
                        .iter_mut()
                        .filter(|name| *name == from.written())
                        .for_each(|name| *name = to.written().into());
                }),
                Pipe::Copy(pairs) => pairs.iter().for_each(|(from, to)| {
                    if groups.iter().any(|name| name == from.written()) {
                        groups.push(to.written().to_owned());
                    }
                }),
                _ => {}
            }
            // A column may replace another one.
            let mut known = Vec::new();
            groups.retain(|name| !known.contains(name) && (known.push(name.clone()), true).1);
        }
        groups
    }

    /// The query whose rows the groups of the answer are made of, and how a value of each column chooses among them; `None`
    /// without groups.
    pub fn group_filters(&self) -> Option<(ParsedQuery, Vec<GroupFilter>)> {
        let filters_of = |pipe: &Pipe| -> Option<Vec<GroupFilter>> {
            Some(match pipe {
                Pipe::Stats { by, .. } => by.iter().map(GroupFilter::of).collect(),
                Pipe::Top { by, .. } | Pipe::Uniq { by, .. } | Pipe::Sessions { by, .. } | Pipe::Gaps { by, .. } => {
                    by.iter().map(GroupFilter::whole).collect()
                }
                Pipe::Pivot(pivot) => pivot.groups.iter().map(GroupFilter::whole).collect(),
                Pipe::FieldValues { field, .. } => vec![GroupFilter::whole(field)],
                Pipe::FieldNames { name } => {
                    vec![GroupFilter { column: name.clone(), field: name.clone(), test: GroupTest::Name }]
                }
                // Two columns together tell the records: none does alone.
                Pipe::Facets { .. } => Vec::new(),
                _ => return None,
            })
        };
        let (at, mut filters) = (0..self.pipes.len()).rev().find_map(|at| Some((at, filters_of(&self.pipes[at])?)))?;
        let mut before = self.pipes[..at].to_vec();
        // `by (pattern(message))` is a pipe of its own, for which the language has a filter.
        if let [Pipe::Pattern { of, name }] = &before[..] {
            for filter in filters.iter_mut().filter(|filter| filter.field == name.written()) {
                (filter.field, filter.test) = (of.written().to_owned(), GroupTest::Pattern);
            }
            before.clear();
        }
        for pipe in &self.pipes[at + 1..] {
            let (Pipe::Rename(pairs) | Pipe::Copy(pairs)) = pipe else { continue };
            for (from, to) in pairs {
                let renamed = filters.iter().filter(|filter| filter.column == from.written()).cloned();
                let renamed: Vec<_> =
                    renamed.map(|filter| GroupFilter { column: to.written().to_owned(), ..filter }).collect();
                filters.extend(renamed);
            }
        }
        Some((ParsedQuery { pipes: before, ..self.clone() }, filters))
    }

    /// The step of time by which the answer has groups; that of the longest month or year for steps of the calendar.
    pub fn time_step(&self) -> Option<Duration> {
        const DAY: Duration = Duration::from_secs(86_400);
        let by = self.pipes.iter().rev().find_map(|pipe| match pipe {
            Pipe::Stats { by, .. } => Some(by),
            _ => None,
        })?;
        let time = by.iter().find(|by| by.field.column() == Column::Time)?;
        match time.step.as_ref()?.size {
            ValueStepSize::Number(nanos) => Duration::try_from_secs_f64(nanos / 1e9).ok(),
            ValueStepSize::Week => Some(7 * DAY),
            ValueStepSize::Month => Some(31 * DAY),
            ValueStepSize::Year => Some(366 * DAY),
            ValueStepSize::AddressBits(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_found_again_among_the_rows_before_them() {
        type Case<'c> = (&'c str, &'c str, &'c [(&'c str, &'c str, GroupTest)]);
        let cases: [Case<'_>; 10] = [
            ("a | stats by (b) count() n", "a", &[("b", "b", GroupTest::Value)]),
            (
                "a | stats by (b:100, c:/24) count() n",
                "a",
                &[("b", "b", GroupTest::Step(100.0)), ("c", "c", GroupTest::Network(24))],
            ),
            ("a | top 3 by (pattern(message))", "a", &[("pattern(message)", "message", GroupTest::Pattern)]),
            (
                "a | extract \"<x>.\" from b | top 3 by (x)",
                "a | extract \"<x>.\" from b",
                &[("x", "x", GroupTest::Value)],
            ),
            (
                "a | stats by (b) count() n | rename b as d",
                "a",
                &[("b", "b", GroupTest::Value), ("d", "b", GroupTest::Value)],
            ),
            (
                "a | stats by (b) count() n | stats by (n) count() m",
                "a | stats by (b) count() n",
                &[("n", "n", GroupTest::Value)],
            ),
            ("a | filter b:1 | uniq by (c) | sort by (c) | limit 2", "a | filter b:1", &[("c", "c", GroupTest::Value)]),
            ("a | facets", "a", &[]),
            ("a | field_names", "a", &[("name", "name", GroupTest::Name)]),
            ("a | field_values b", "a", &[("b", "b", GroupTest::Value)]),
        ];
        for (query, source, filters) in cases {
            let (of, found) = ParsedQuery::parse(query).expect(query).group_filters().expect("groups");
            assert_eq!(of, ParsedQuery::parse(source).expect(source), "{query}");
            let found: Vec<_> = found.iter().map(|f| (&*f.column, &*f.field, f.test)).collect();
            assert_eq!(found, filters, "{query}");
        }
        assert_eq!(ParsedQuery::parse("a | fields b").expect("a query").group_filters(), None);
    }

    #[test]
    fn columns_of_by_are_told_from_those_of_functions() {
        let cases: [(&str, &[&str], Option<u64>); 11] = [
            ("error", &[], None),
            ("* | stats count() n, avg(took) a", &[], None),
            ("* | stats by (_time:1h, status) count() n, avg(took) a", &["_time", "status"], Some(3600)),
            ("* | stats by (time:1d) count() n | sort by (n) | filter n:>1", &["time"], Some(86_400)),
            ("* | stats by (_time:month, user.id) max(size) m", &["_time", "user.id"], Some(31 * 86_400)),
            ("* | stats by (_time, status:100) count() n", &["_time", "status"], None),
            ("* | stats by (status) count() n | rename status as code, n as m | math m*2 as x", &["code"], None),
            ("* | stats by (status) count() n | copy status as code, n as m", &["status", "code"], None),
            ("* | stats by (a, b) count() n | copy a as c, b as c | rename a as b", &["b", "c"], None),
            ("* | top 3 by (path)", &["path"], None),
            ("* | uniq by (a, b) with hits", &["a", "b"], None),
        ];
        for (query, groups, step) in cases {
            let parsed = ParsedQuery::parse(query).expect(query);
            assert_eq!(parsed.group_columns(), groups, "{query}");
            assert_eq!(parsed.time_step().map(|step| step.as_secs()), step, "{query}");
        }
    }
}
