//! A filter that is prepared for many records.

use crate::field_name::{Column, FieldName};
use crate::matcher::Matcher;
use crate::number::Number;
use crate::query::{Expression, FieldOperator, Operator, TimeTest, Times};
use daytable_model::line::{json_without_escapes, without_escapes};
use daytable_model::property::Property;
use daytable_model::time::{MAX_TICKS, TICKS_PER_DAY, TICKS_PER_SECOND, Ticks, UNIX_EPOCH_TICKS};
use std::cmp::Ordering;
use std::sync::{Arc, LazyLock};

static TIME: LazyLock<FieldName> = LazyLock::new(|| FieldName::new("time"));

/// The fields of a record, or of a row of an answer.
pub trait Fields {
    /// The value of a field; `None` if it is absent. [`Column::Time`] and [`Column::Arrived`] have a time, or a text that is one.
    fn field(&self, name: &FieldName) -> Option<Property<'_>>;

    /// Whether a value of a field satisfies `test`: of a name that comes several times in a record, any of the values.
    fn any_value(&self, name: &FieldName, test: &mut dyn FnMut(Option<Property<'_>>) -> bool) -> bool {
        test(self.field(name))
    }

    /// Whether a text that a bare word is looked for in satisfies `test`: the message, the value of a field, or the line
    /// ([`passes_as_read`]).
    fn any_part(&self, test: &mut dyn FnMut(Property<'_>) -> bool) -> bool;
}

/// Whether a line satisfies `test` as it was written, and also once its escapes are undone: a piece of an escape is no
/// word of the line.
pub fn passes_as_read(line: &str, test: &mut dyn FnMut(Property<'_>) -> bool) -> bool {
    test(Property::String(line)) && without_escapes(line).is_none_or(|read| test(Property::String(&read)))
}

/// Whether a value satisfies `test`. A value that is JSON is tested as it is meant, too.
pub fn passes_as_value(value: Property<'_>, test: &mut dyn FnMut(Property<'_>) -> bool) -> bool {
    let read = if let Property::String(text) = value { json_without_escapes(text) } else { None };
    test(read.as_deref().map_or(value, Property::String))
}

/// A prepared filter. Times relative to now are resolved.
#[derive(Debug)]
pub struct Predicate {
    root: PredicateNode,
}

/// A part of a [`Predicate`]. A copy shares the prepared tests.
#[derive(Clone, Debug)]
pub enum PredicateNode {
    /// Every record, or none.
    Always(bool),
    /// All parts.
    And(Vec<PredicateNode>),
    /// One of the parts.
    Or(Vec<PredicateNode>),
    /// Not the part.
    Not(Box<PredicateNode>),
    /// The time in ticks is between these, both included.
    Time(i64, i64),
    /// The ticks since midnight are between the first two, both included, after the third is added to the time. The second may be
    /// of the day after.
    Daily(i64, i64, i64),
    /// The day of the week has its bit set (bit 0 is Sunday), after the second is added to the time.
    Weekly(u8, i64),
    /// The value of the field matches.
    Field(FieldName, Arc<Matcher>),
    /// The message, the value of a field, or the line matches: the test of a bare word.
    Anywhere(Arc<Matcher>),
    /// The first field compares with the second.
    Fields(FieldName, FieldOperator, FieldName),
}

impl From<PredicateNode> for Predicate {
    fn from(root: PredicateNode) -> Predicate {
        Predicate { root }
    }
}

impl Predicate {
    /// Prepares a filter. `now` is the end of `_time:5m`.
    pub fn new(filter: &Expression, now: Ticks) -> Predicate {
        Predicate { root: PredicateNode::new(filter, now) }
    }

    /// Its parts.
    pub fn root(&self) -> &PredicateNode {
        &self.root
    }

    /// Its parts, owned.
    pub fn into_root(self) -> PredicateNode {
        self.root
    }

    /// Whether a record matches.
    pub fn matches(&self, fields: &(impl Fields + ?Sized)) -> bool {
        self.root.matches(fields)
    }
}

impl PredicateNode {
    fn new(filter: &Expression, now: Ticks) -> PredicateNode {
        let nodes = |parts: &[Expression]| parts.iter().map(|part| PredicateNode::new(part, now)).collect();
        match filter {
            Expression::All => PredicateNode::Always(true),
            Expression::And(parts) => PredicateNode::And(nodes(parts)),
            Expression::Or(parts) => PredicateNode::Or(nodes(parts)),
            Expression::Not(inner) => PredicateNode::Not(PredicateNode::new(inner, now).into()),
            Expression::Time(test) => time_node(test, now),
            Expression::Field(field, crate::query::Test::Times(test)) => {
                let times = time_node(test, now);
                let is_in =
                    move |value: Option<Property<'_>>| ticks_of(value).is_some_and(|time| times.matches_time(time));
                PredicateNode::Field(field.clone(), Matcher::accepting(is_in).into())
            }
            Expression::Field(field, crate::query::Test::Other(operator, other)) => {
                PredicateNode::Fields(field.clone(), *operator, other.clone())
            }
            Expression::Field(field, test) => match field.column() {
                Column::Anywhere => PredicateNode::Anywhere(Matcher::new(field, test).into()),
                _ => PredicateNode::Field(field.clone(), Matcher::new(field, test).into()),
            },
        }
    }

    /// The same part, where `decide` knows the answer of some tests.
    #[must_use]
    pub fn reduced(&self, decide: &dyn Fn(&PredicateNode) -> Option<bool>) -> PredicateNode {
        // The first `decisive` answer decides: a false one of "and", a true one of "or".
        let joined = |nodes: &[PredicateNode], decisive: bool, join: fn(Vec<PredicateNode>) -> PredicateNode| {
            let mut left = Vec::new();
            for node in nodes {
                match node.reduced(decide) {
                    PredicateNode::Always(answer) if answer == decisive => return PredicateNode::Always(decisive),
                    PredicateNode::Always(_) => {}
                    node => left.push(node),
                }
            }
            match left.len() {
                0 => PredicateNode::Always(!decisive),
                1 => left.remove(0),
                _ => join(left),
            }
        };
        match self {
            PredicateNode::And(nodes) => joined(nodes, false, PredicateNode::And),
            PredicateNode::Or(nodes) => joined(nodes, true, PredicateNode::Or),
            PredicateNode::Not(node) => match node.reduced(decide) {
                PredicateNode::Always(answer) => PredicateNode::Always(!answer),
                node => PredicateNode::Not(node.into()),
            },
            leaf => decide(leaf).map_or_else(|| leaf.clone(), PredicateNode::Always),
        }
    }

    /// Whether a record matches this part.
    pub fn matches(&self, fields: &(impl Fields + ?Sized)) -> bool {
        match self {
            PredicateNode::Always(always) => *always,
            PredicateNode::And(nodes) => nodes.iter().all(|node| node.matches(fields)),
            PredicateNode::Or(nodes) => nodes.iter().any(|node| node.matches(fields)),
            PredicateNode::Not(node) => !node.matches(fields),
            PredicateNode::Time(..) | PredicateNode::Daily(..) | PredicateNode::Weekly(..) => {
                ticks_of(fields.field(&TIME)).is_some_and(|time| self.matches_time(time))
            }
            PredicateNode::Field(name, matcher) => fields.any_value(name, &mut |value| matcher.matches(value)),
            PredicateNode::Anywhere(matcher) => fields.any_part(&mut |part| matcher.matches(Some(part))),
            PredicateNode::Fields(one, operator, other) => {
                // An empty value is like an absent one, with which nothing compares.
                let value = |name| fields.field(name).filter(|value| *value != Property::String(""));
                let (Some(one), Some(other)) = (value(one), value(other)) else { return false };
                let are_texts = matches!((one, other), (Property::String(_), Property::String(_)));
                let order = match (Number::of(one), Number::of(other)) {
                    // As with `=`, a text equals itself alone.
                    _ if are_texts && *operator == FieldOperator::Equal => Some(one.text().cmp(&other.text())),
                    (Some(one), Some(other)) => one.partial_cmp(&other),
                    _ => Some(one.text().cmp(&other.text())),
                };
                match operator {
                    FieldOperator::Equal => order == Some(Ordering::Equal),
                    FieldOperator::LessOrEqual => order.is_some_and(Ordering::is_le),
                    FieldOperator::Less => order.is_some_and(Ordering::is_lt),
                }
            }
        }
    }

    /// Whether a time in ticks matches a part about times; false for the other parts.
    pub fn matches_time(&self, time: i64) -> bool {
        match self {
            PredicateNode::Time(from, to) => (*from..=*to).contains(&time),
            PredicateNode::Daily(from, to, ahead) => {
                let of_day = (time + ahead - UNIX_EPOCH_TICKS).rem_euclid(TICKS_PER_DAY);
                // A range over midnight ends on the day after.
                (*from..=*to).contains(&of_day) || (*from..=*to).contains(&(of_day + TICKS_PER_DAY))
            }
            PredicateNode::Weekly(days, ahead) => {
                // The Unix epoch was a Thursday.
                let day = ((time + ahead - UNIX_EPOCH_TICKS).div_euclid(TICKS_PER_DAY) + 4).rem_euclid(7);
                days >> day & 1 == 1
            }
            _ => false,
        }
    }
}

/// The ticks of a time, or of a text that is one.
fn ticks_of(value: Option<Property<'_>>) -> Option<i64> {
    match value? {
        Property::DateTime(time) => Some(time.get()),
        Property::String(text) => crate::moment::absolute(text).map(|(start, _)| start),
        _ => None,
    }
}

fn time_node(test: &TimeTest, now: Ticks) -> PredicateNode {
    let late = test.offset.as_ref().map_or(0, |offset| offset.nanos / 100);
    let between = |from: i64, to: i64| PredicateNode::Time(from.saturating_sub(late), to.saturating_sub(late));
    let now_ticks = now.get();
    match &test.times {
        Times::Any => between(0, now_ticks),
        Times::Last(span) => between(now_ticks.saturating_sub(span.nanos / 100), now_ticks),
        Times::Age(operator, span) => {
            let at = now_ticks.saturating_sub(span.nanos.saturating_abs() / 100);
            match operator {
                Operator::Greater => between(0, at - 1),
                Operator::GreaterOrEqual => between(0, at),
                Operator::Less => between(at + 1, now_ticks),
                Operator::LessOrEqual => between(at, now_ticks),
            }
        }
        Times::Period(moment) => {
            let (start, end) = moment.period(now);
            between(start, end - 1)
        }
        Times::Order(operator, moment) => {
            // As in LogsQL: later than the first moment of the period that is named, as `_time:(T,…)` is.
            let (start, end) = moment.period(now);
            match operator {
                Operator::Greater => between(start + 1, MAX_TICKS),
                Operator::GreaterOrEqual => between(start, MAX_TICKS),
                Operator::Less => between(0, start - 1),
                Operator::LessOrEqual => between(0, end - 1),
            }
        }
        Times::Between { from, from_included, to, to_included } => {
            let (start, (until, end)) = (from.period(now).0, to.period(now));
            between(start + i64::from(!from_included), if *to_included { end - 1 } else { until - 1 })
        }
        Times::Daily { from, from_included, to, to_included } => {
            let ticks = |minute: u32| i64::from(minute) * 60 * TICKS_PER_SECOND;
            let over_midnight = if from > to { TICKS_PER_DAY } else { 0 };
            // 24:00 is the end of the day, and no time of the next one.
            let until = (ticks(*to) - i64::from(!to_included)).min(TICKS_PER_DAY - 1) + over_midnight;
            PredicateNode::Daily(ticks(*from) + i64::from(!from_included), until, late)
        }
        Times::Weekly { from, from_included, to, to_included } => {
            let over_the_end = if from > to { 7 } else { 0 };
            let (from, to) = (from + u32::from(!from_included), *to + over_the_end + 1 - u32::from(!to_included));
            let days = (from..to).fold(0, |days, day| days | 1 << (day % 7));
            PredicateNode::Weekly(days, late)
        }
    }
}
