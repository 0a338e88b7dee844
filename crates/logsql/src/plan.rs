//! The plan of a query: the same answer with less work.
//!
//! ```text
//! * | math a / b as x | sort by (c) | filter level:error | limit 5
//!                            │                filters move in front of what does not change their fields
//!                            ▼
//! level:error | math a / b as x | sort by (c) limit 5
//! ```
//!
//! The rules work on the tree alone, and follow from the [effect](crate::effect) of each pipe. A filter that stands behind pipes
//! excludes records before they are read; `sort` and `limit` keep few rows; columns that nobody sees are not computed.
//!
//! A record that passes a pipe of columns becomes a row, which has no line, and in which a bare word is looked for in columns
//! alone. So a filter of these never moves across such a pipe, and such a pipe stays where one of these is read behind it.

use crate::effect::{KeptColumns, PipeEffect, RowFlow, fields_of, may_be_same};
use crate::field_name::{Column, FieldName};
use crate::query::{Arithmetic, Expression, ParsedQuery, Pipe};

impl ParsedQuery {
    /// A query with the same answer, and less work.
    #[must_use]
    pub fn planned(&self) -> ParsedQuery {
        let mut query = self.clone();
        lower_filters(&mut query);
        drop_unused(&mut query.pipes);
        merge_limits(&mut query.pipes);
        drop_order_of_records(&mut query.pipes);
        query
    }
}

/// Moves the conditions of each filter as far to the front as nothing changes what they look at.
fn lower_filters(query: &mut ParsedQuery) {
    let mut lowered: Vec<(Pipe, PipeEffect)> = Vec::with_capacity(query.pipes.len());
    for pipe in query.pipes.drain(..) {
        let Pipe::Filter(filter) = pipe else {
            let effect = pipe.effect();
            lowered.push((pipe, effect));
            continue;
        };
        for condition in conditions(filter) {
            let fields = fields_of(&condition);
            let behind = lowered.iter().rposition(|(_, effect)| !passes(&fields, effect));
            match behind {
                None => add_condition(&mut query.filter, condition),
                Some(at) => match lowered.get_mut(at + 1) {
                    // Conditions side by side are one filter.
                    Some((Pipe::Filter(filter), effect)) => {
                        add_condition(filter, condition);
                        *effect = Pipe::Filter(filter.clone()).effect();
                    }
                    _ => {
                        let filter = Pipe::Filter(condition);
                        let effect = filter.effect();
                        lowered.insert(at + 1, (filter, effect));
                    }
                },
            }
        }
    }
    query.pipes = lowered.into_iter().map(|(pipe, _)| pipe).collect();
}

/// The conditions that a filter joins by `and`.
fn conditions(filter: Expression) -> Vec<Expression> {
    match filter {
        Expression::And(parts) => parts,
        one => vec![one],
    }
}

fn add_condition(filter: &mut Expression, condition: Expression) {
    *filter = match (std::mem::replace(filter, Expression::All), condition) {
        (filter, Expression::All) => filter,
        (Expression::All, condition) => condition,
        (Expression::And(mut parts), condition) => {
            parts.push(condition);
            Expression::And(parts)
        }
        (filter, condition) => Expression::And(vec![filter, condition]),
    };
}

/// Whether a filter of these fields chooses the same rows in front of a pipe as behind it.
fn passes(fields: &[FieldName], effect: &PipeEffect) -> bool {
    let is_whole = match effect.flow {
        RowFlow::Each | RowFlow::Chosen => true,
        // The numbers of `rank` are of all rows.
        RowFlow::Sorted { is_whole } => is_whole && effect.written.is_empty(),
        RowFlow::Numbered | RowFlow::Joined | RowFlow::Replaced { .. } => false,
    };
    if !is_whole || !effect.makes_rows() {
        return is_whole;
    }
    // Of a name that comes again in its record, `fields` keeps the first value, and a filter finds each.
    let may_come_again = |name: &FieldName| effect.drops_again() && name.column() == Column::Field;
    fields.iter().all(|name| name.is_alike_in_rows() && !effect.may_change(name) && !may_come_again(name))
}

/// Removes what makes columns that nobody looks at, and orders that do not matter.
fn drop_unused(pipes: &mut Vec<Pipe>) {
    let mut live = LiveColumns { names: None, is_ordered: true, reads_record: false, tests_fields: false };
    for at in (0..pipes.len()).rev() {
        if let (Pipe::Math(columns), Some(names)) = (&mut pipes[at], &live.names) {
            drop_unused_columns(columns, names);
        }
        let effect = pipes[at].effect();
        match live.is_unused(&effect) {
            true => drop(pipes.remove(at)),
            false => live = live.before(&effect),
        }
    }
}

/// Removes all but one of the columns that neither a later pipe nor a later column looks at.
fn drop_unused_columns(columns: &mut Vec<(Arithmetic, FieldName)>, names: &[FieldName]) {
    let mut live = names.to_vec();
    for at in (0..columns.len()).rev() {
        let (value, name) = &columns[at];
        if columns.len() > 1 && !live.iter().any(|live| may_be_same(live, name)) {
            columns.remove(at);
            continue;
        }
        let reads = Pipe::Math(vec![(value.clone(), name.clone())]).effect();
        live.extend(reads.reads().cloned());
    }
}

/// What of the rows behind a place is looked at.
struct LiveColumns {
    /// The columns; `None` for all.
    names: Option<Vec<FieldName>>,
    /// Whether the order of the rows matters.
    is_ordered: bool,
    /// Whether a name that means something else of a row is read before records become rows.
    reads_record: bool,
    /// Whether a filter tests a field, of which a record may have several, before other rows replace these.
    tests_fields: bool,
}

impl LiveColumns {
    /// Whether the answer is the same without a pipe.
    fn is_unused(&self, effect: &PipeEffect) -> bool {
        let Some(names) = &self.names else { return false };
        let is_free = match effect.flow {
            RowFlow::Each => true,
            RowFlow::Sorted { is_whole } => is_whole && !self.is_ordered,
            RowFlow::Chosen | RowFlow::Numbered | RowFlow::Joined | RowFlow::Replaced { .. } => false,
        };
        let makes_difference = effect.makes_rows() && self.reads_record || effect.drops_again() && self.tests_fields;
        is_free && !makes_difference && !names.iter().any(|name| effect.may_change(name))
    }

    /// What is looked at in front of a pipe.
    fn before(self, effect: &PipeEffect) -> LiveColumns {
        let reads_all = effect.reads_all || effect.reads().any(|name| name.column() == Column::Anywhere);
        let names = match (self.names, &effect.kept) {
            _ if reads_all => None,
            (_, KeptColumns::None) => Some(Vec::new()),
            (None, KeptColumns::Only(patterns)) if patterns.iter().all(|pattern| !pattern.is_prefix) => {
                Some(patterns.iter().map(|pattern| pattern.name.clone()).collect())
            }
            (names, _) => names,
        };
        let names = names.map(|mut names| {
            names.retain(|name| !effect.written.iter().any(|(written, is_always)| *is_always && written == name));
            names.extend(effect.reads().cloned());
            names
        });
        let reads_record = reads_all || effect.named.iter().any(|(name, _)| !name.is_alike_in_rows());
        let tests_fields = effect.tested.iter().any(|name| name.column() == Column::Field);
        let replaces = matches!(effect.flow, RowFlow::Replaced { .. });
        LiveColumns {
            names,
            is_ordered: match effect.flow {
                RowFlow::Replaced { is_ordered } => is_ordered,
                RowFlow::Sorted { .. } | RowFlow::Numbered => true,
                RowFlow::Each | RowFlow::Chosen | RowFlow::Joined => self.is_ordered,
            },
            reads_record: reads_record || self.reads_record && !effect.makes_rows(),
            tests_fields: tests_fields || self.tests_fields && !replaces,
        }
    }
}

/// Moves `limit` and `offset` in front of pipes that give a row for each row, and makes them part of a `sort`.
fn merge_limits(pipes: &mut Vec<Pipe>) {
    let mut merged: Vec<Pipe> = Vec::with_capacity(pipes.len());
    for pipe in pipes.drain(..) {
        if !matches!(pipe, Pipe::Limit(_) | Pipe::Offset(_)) {
            merged.push(pipe);
            continue;
        }
        let at = merged.iter().rposition(|pipe| pipe.effect().flow != RowFlow::Each);
        match (at.map(|at| &mut merged[at]), &pipe) {
            (Some(Pipe::Sort { limit, .. }), Pipe::Limit(most)) => {
                *limit = Some(limit.map_or(*most, |limit| limit.min(*most)));
            }
            (Some(Pipe::Sort { limit: None, offset, .. }), Pipe::Offset(more)) => {
                *offset = offset.saturating_add(*more);
            }
            (Some(Pipe::Limit(limit)), Pipe::Limit(most)) => *limit = (*limit).min(*most),
            _ => merged.insert(at.map_or(0, |at| at + 1), pipe),
        }
    }
    *pipes = merged;
}

/// Replaces the first `sort` if it asks for the order in which records come anyway, the newest first.
fn drop_order_of_records(pipes: &mut Vec<Pipe>) {
    let time = FieldName::new("time");
    let keeps = |pipe: &Pipe| {
        let effect = pipe.effect();
        matches!(effect.flow, RowFlow::Each | RowFlow::Chosen) && !effect.may_change(&time)
    };
    let Some(at) = pipes.iter().position(|pipe| !keeps(pipe)) else { return };
    let Pipe::Sort { by, offset, limit, rank: None } = &pipes[at] else { return };
    let is_of_records = matches!(&**by, [key] if key.is_descending && key.field.column() == Column::Time);
    if is_of_records {
        let (offset, limit) = (Some(*offset).filter(|offset| *offset > 0).map(Pipe::Offset), limit.map(Pipe::Limit));
        pipes.splice(at..=at, offset.into_iter().chain(limit));
        merge_limits(pipes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(query: &str) -> String {
        ParsedQuery::parse(query).unwrap_or_else(|error| panic!("{query}: {error}")).planned().to_string()
    }

    fn assert_plans(cases: &[(&str, &str)]) {
        for (query, wanted) in cases {
            let wanted_text =
                ParsedQuery::parse(wanted).unwrap_or_else(|error| panic!("{wanted}: {error}")).to_string();
            assert_eq!(planned(query), wanted_text, "{query}");
        }
    }

    #[test]
    fn filters_move_in_front_of_what_does_not_change_their_fields() {
        assert_plans(&[
            ("* | filter level:error | stats by (path) avg(ms) a", "level:error | stats by (path) avg(ms) a"),
            ("a:=1 | math b + 1 as x | filter c:>2 x:>3", "a:=1 c:>2 | math b + 1 as x | filter x:>3"),
            ("* | format \"<a>\" as b | filter b:=1 | filter c:=2", "c:=2 | format \"<a>\" as b | filter b:=1"),
            ("* | sort by (a) | filter timeout", "timeout | sort by (a)"),
            ("* | extract \"x<n>\" from message | filter level:error", "level:error | extract \"x<n>\" from message"),
            ("* | copy a as b | filter a:=1", "a:=1 | copy a as b"),
            ("* | fields level, path | filter level:error", "level:error | fields level, path"),
            (
                "* | stats by (a) count() n | math n * 2 as m | filter n:>1",
                "* | stats by (a) count() n | filter n:>1 | math n * 2 as m",
            ),
            ("* | filter a:=1 or b:=2 | filter c:=3", "(a:=1 or b:=2) c:=3"),
            ("* | math now() as x | filter _time:>=2026-11-21", "_time:>=2026-11-21 | math now() as x"),
        ]);
    }

    #[test]
    fn filters_stay_behind_what_they_look_at() {
        for query in [
            "* | math a + 1 as a | filter a:>2",
            "* | math a + 1 as a.b | filter a_b:>2",
            "* | limit 3 | filter a:=1",
            "* | offset 3 | filter a:=1",
            "* | sample 3 | filter a:=1",
            "* | sort by (a) limit 3 | filter a:=1",
            "* | sort by (a) rank as r | filter a:=1",
            "* | stats by (a) count() n | filter a:=1",
            "* | rename a as b | filter a:=1",
            "* | delete a* | filter a:=1",
            "* | delete mess* | filter _msg:=1",
            "* | fields a | filter b:=1",
            "* | fields a | filter level:error",
            "* | fields a | filter a:=1",
            "* | math 1 as x | filter timeout",
            "* | math 1 as x | filter line:timeout",
            "* | math 1 as x | filter partition_key:=a",
            "* | math 1 as time | filter _time:>=2026-11-21",
        ] {
            assert_plans(&[(query, query)]);
        }
    }

    #[test]
    fn columns_and_orders_that_nobody_looks_at_are_not_made() {
        assert_plans(&[
            ("* | math ms + 1 as x | stats by (level) count() n", "* | stats by (level) count() n"),
            ("* | math a as x, x + 1 as y, b as z | stats sum(y) s", "* | math a as x, x + 1 as y | stats sum(y) s"),
            ("* | fields level | stats by (level) count() n", "* | stats by (level) count() n"),
            ("* | fields level | stats by (path) count() n", "* | fields level | stats by (path) count() n"),
            ("* | fields a | stats count() if (a:=1) n", "* | fields a | stats count() if (a:=1) n"),
            ("* | sort by (a) | stats by (b) count() n", "* | stats by (b) count() n"),
            ("* | sort by (a) | stats by (b) values(c) v", "* | sort by (a) | stats by (b) values(c) v"),
            ("* | sort by (a) limit 3 | stats by (b) count() n", "* | sort by (a) limit 3 | stats by (b) count() n"),
            ("* | sort by (a) | uniq by (b) limit 3", "* | uniq by (b) limit 3"),
            ("* | extract \"x<n>\" from m | format \"<n>\" as k | fields n", "* | extract \"x<n>\" from m | fields n"),
            ("* | math a as x | format \"<x>\" as y | top by (z)", "* | top by (z)"),
            ("* | copy a as b | stats by (a) count() n", "* | stats by (a) count() n"),
            ("* | rename time as t | stats first(a) f", "* | rename time as t | stats first(a) f"),
            ("* | rename time as t | stats any(a) f", "* | stats any(a) f"),
            ("* | math 1 as x | stats by (line) count() n", "* | math 1 as x | stats by (line) count() n"),
            ("* | math 1 as x | facets", "* | math 1 as x | facets"),
            ("* | math 1 as x | stats row_any() r", "* | math 1 as x | stats row_any() r"),
            ("* | math 1 as x | fields line", "* | math 1 as x | fields line"),
            ("* | math 1 as x", "* | math 1 as x"),
            (
                "* | stats by (a) count() n, sum(b) s | math s / n as m | stats sum(n) t",
                "* | stats by (a) count() n, sum(b) s | stats sum(n) t",
            ),
        ]);
    }

    #[test]
    fn limits_become_part_of_a_sort() {
        assert_plans(&[
            ("* | sort by (a) | limit 10", "* | sort by (a) limit 10"),
            ("* | sort by (a) | head 10", "* | sort by (a) limit 10"),
            ("* | sort by (a) | fields a, b | limit 10", "* | sort by (a) limit 10 | fields a, b"),
            ("* | sort by (a) | offset 5 | limit 10", "* | sort by (a) offset 5 limit 10"),
            ("* | sort by (a) limit 3 | limit 10", "* | sort by (a) limit 3"),
            ("* | sort by (a) | limit 10 | offset 5", "* | sort by (a) limit 10 | offset 5"),
            ("* | sort by (a) | filter b:=1 | limit 10", "b:=1 | sort by (a) limit 10"),
            (
                "* | sort by (a) rank as r | filter r:>1 | limit 10",
                "* | sort by (a) rank as r | filter r:>1 | limit 10",
            ),
            ("* | format \"<a>\" as b | limit 5 | limit 7", "* | limit 5 | format \"<a>\" as b"),
            ("* | offset 2 | limit 5 | offset 1", "* | offset 2 | limit 5 | offset 1"),
            ("* | top 5 by (a) | limit 2", "* | top 5 by (a) | limit 2"),
        ]);
    }

    #[test]
    fn the_order_of_records_is_not_made_again() {
        assert_plans(&[
            ("* | sort by (_time desc) | limit 10", "* | limit 10"),
            (
                "* | math a + 1 as b | sort by (time desc) offset 3 limit 10",
                "* | offset 3 | limit 10 | math a + 1 as b",
            ),
            ("* | last 5 by (time)", "* | limit 5"),
            ("* | sort by (time desc)", "*"),
            ("* | sort by (time)", "* | sort by (time)"),
            ("* | sort by (time desc, a)", "* | sort by (time desc, a)"),
            ("* | sort by (time desc) rank as r", "* | sort by (time desc) rank as r"),
            ("* | math 1 as time | sort by (time desc)", "* | math 1 as time | sort by (time desc)"),
            (
                "* | stats by (time) count() n | sort by (time desc)",
                "* | stats by (time) count() n | sort by (time desc)",
            ),
            ("* | sort by (a) | sort by (time desc)", "* | sort by (a) | sort by (time desc)"),
        ]);
    }

    #[test]
    fn a_plan_is_its_own_plan() {
        for query in [
            "* | math a as x | sort by (x) | filter b:=1 | limit 5 | fields a",
            "* | sort by (a) | offset 5 | limit 3 | offset 1",
        ] {
            let once = ParsedQuery::parse(query).expect(query).planned();
            assert_eq!(once.planned(), once, "{query}");
        }
    }
}
