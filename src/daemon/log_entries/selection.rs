//! What the stores can decide about the entries that a query of Loki's language wants.
//!
//! The labels of a record that was pushed to a stream are in its note, and those of any other record are its columns. So the
//! conditions on labels are asked of both:
//!
//! ```text
//! lines ∧ (no stream ∧ columns  ∨  the note ∧ lines)
//! ```
//!
//! A label that parsers found in the line is asked of the line, where the record itself has no such label: the line has parts of
//! the name and of the value, unless it has escapes.

use super::{
    DETECTED_LEVEL, KnownStream, LOG_HOST, NO_FIELDS, OWN_LABELS, SELECTED, SERVICE_FIELDS, shown, shown_level,
    table_name,
};
use crate::http::{TenantRecords, Visibility};
use daytable_logql::ast::{LabelFilter, LabelMatcher, LineFilter, MatchOp};
use daytable_logql::labels::label_name;
use daytable_logql::source::{EntrySelection, LabelCondition, LabelOrigin};
use daytable_logsql::query::Test;
use daytable_logsql::{Column, FieldName, Matcher, Predicate, PredicateNode};
use daytable_model::property::{OwnedValue, Property};
use daytable_model::record::Level;
use std::sync::Arc;

/// The conditions of a selection, as a predicate that each wanted record satisfies. It decides about lines alone.
pub(super) fn predicate_of(wanted: &EntrySelection<'_>, seen: &Visibility) -> Predicate {
    let mut nodes: Vec<PredicateNode> = wanted.lines.iter().flat_map(|filter| of_line(filter)).collect();
    nodes.extend(seen.by_host().map(of_tenants));
    let restricting: Vec<&LabelMatcher> = wanted.selector.0.iter().filter(|matcher| restricts(matcher)).collect();
    if !restricting.is_empty() || !wanted.labels.is_empty() {
        let is_own = of_stream(|note| note.is_none_or(|note| KnownStream::parse(note).is_none()));
        let of_selector = restricting
            .into_iter()
            .filter_map(|matcher| of_label(&LabelFilter::Text(matcher.clone()), LabelOrigin::Nowhere));
        let of_each = |of_one: fn(&LabelFilter, LabelOrigin) -> Option<PredicateNode>| {
            let of_condition = move |LabelCondition { filter, origin }: &LabelCondition<'_>| {
                of_condition(filter, &|one| of_one(one, *origin))
            };
            wanted.labels.iter().filter_map(of_condition)
        };
        let own = PredicateNode::And([is_own].into_iter().chain(of_selector).chain(of_each(of_label)).collect());
        let of_host = wanted.selector.0.iter().filter(|matcher| matcher.name == LOG_HOST);
        let of_host = of_host.map(|matcher| of_pushed_host(LabelFilter::Text(matcher.clone())));
        let pushed = [of_note(wanted)].into_iter().chain(of_host).chain(of_each(of_pushed_line));
        let pushed = PredicateNode::And(pushed.collect());
        nodes.push(PredicateNode::Or(vec![own, pushed]));
    }
    PredicateNode::And(nodes).reduced(&|_| None).into()
}

/// What the records of these tenants satisfy.
fn of_tenants(tenants: &[Arc<TenantRecords>]) -> PredicateNode {
    let of_one = |tenant: &Arc<TenantRecords>| {
        let of_text = |name: &str, test: fn(&TenantRecords, &str) -> bool| {
            let tenant = tenant.clone();
            let passes = move |value: Option<Property<'_>>| {
                test(&tenant, &value.map(|value| value.text().into_owned()).unwrap_or_default())
            };
            PredicateNode::Field(FieldName::new(name), Matcher::accepting(passes).into())
        };
        let table = of_text("table", |tenant, table| tenant.has_table(&table_name(table)));
        let instance = of_text("instance", TenantRecords::has_instance);
        let tenant = tenant.clone();
        PredicateNode::And(vec![table, instance, host_is(move |host| tenant.has_host(host))])
    };
    PredicateNode::Or(tenants.iter().map(of_one).collect())
}

/// Whether a matcher excludes records of a partition that is selected. A matcher of the instance does not, as an instance is a
/// whole partition, nor does one that every entry passes, as each has a service.
fn restricts(matcher: &LabelMatcher) -> bool {
    !matches!(
        (&*matcher.name, matcher.op, &*matcher.value),
        ("instance", MatchOp::Equal, _)
            | ("service_name", MatchOp::NotEqual, "")
            | ("service_name", MatchOp::Regex, ".+")
            | (_, MatchOp::Regex, ".*")
    )
}

/// A test of the note of a stream; `None` stands for no stream.
fn of_stream(test: impl Fn(Option<&str>) -> bool + Send + Sync + 'static) -> PredicateNode {
    let test = move |note: Option<Property<'_>>| match note {
        Some(Property::String(note)) => test(Some(note)),
        _ => test(None),
    };
    PredicateNode::Field(FieldName::of_stream(), Matcher::accepting(test).into())
}

/// What each line satisfies.
fn of_line(filter: &LineFilter) -> Option<PredicateNode> {
    let texts = filter.texts().filter(|texts| texts.iter().all(|text| super::is_of_record(text) && !text.is_empty()));
    if let Some(texts) = texts {
        let mut parts: Vec<PredicateNode> = texts.into_iter().map(line_with).collect();
        return if parts.len() == 1 { parts.pop() } else { Some(PredicateNode::Or(parts)) };
    }
    let of_text = filter.clone();
    let passes = move |value: Option<Property<'_>>| match value {
        None => of_text.holds(""),
        Some(Property::String(line)) => of_text.holds(line),
        Some(other) => of_text.holds(&other.text()),
    };
    let passes = PredicateNode::Field(FieldName::new("line"), Matcher::accepting(passes).into());
    if !filter.depends_on_end() {
        return Some(passes);
    }
    // The end of a pushed line is in the note.
    let has_end = of_stream(|note| note.and_then(KnownStream::parse).is_some_and(|known| !known.end.is_empty()));
    Some(PredicateNode::Or(vec![has_end, passes]))
}

/// A test of the line: whether it has a text.
fn line_with(text: &str) -> PredicateNode {
    let line = FieldName::new("line");
    let matcher = Matcher::new(&line, &Test::Part(text.to_owned()));
    PredicateNode::Field(line, matcher.into())
}

/// What a line satisfies from which parsers read the label of a condition on one label; `None` if any line may have it, or none.
fn of_found_label(filter: &LabelFilter, origin: LabelOrigin) -> Option<PredicateNode> {
    let LabelOrigin::Line { is_named } = origin else { return None };
    let texts = filter.texts_in_line(is_named);
    if texts.is_empty() {
        return None;
    }
    let has_texts = PredicateNode::And(texts.into_iter().map(line_with).collect());
    Some(PredicateNode::Or(vec![has_texts, line_with("\\")]))
}

/// What satisfies a condition, by what satisfies its conditions on one label; `None` if that cannot be decided.
fn of_condition(
    condition: &LabelFilter,
    of_one: &dyn Fn(&LabelFilter) -> Option<PredicateNode>,
) -> Option<PredicateNode> {
    match condition {
        LabelFilter::And(left, right) => {
            let parts = [left, right].into_iter().filter_map(|side| of_condition(side, of_one));
            Some(PredicateNode::And(parts.collect()))
        }
        LabelFilter::Or(left, right) => {
            Some(PredicateNode::Or(vec![of_condition(left, of_one)?, of_condition(right, of_one)?]))
        }
        one => of_one(one),
    }
}

/// A test of the name of the host that a record came from, if it has one.
fn host_is(test: impl Fn(Option<&str>) -> bool + Send + Sync + 'static) -> PredicateNode {
    let test = move |value: Option<Property<'_>>| {
        let host = value.map(|value| value.text().into_owned()).filter(|host| !host.is_empty());
        test(host.as_deref())
    };
    PredicateNode::Field(FieldName::new(LOG_HOST), Matcher::accepting(test).into())
}

/// What the host of a record that was pushed to a stream satisfies, also where metadata have its name: they are the same field.
fn of_pushed_host(filter: LabelFilter) -> PredicateNode {
    host_is(move |host| host.is_none_or(|host| filter.may_pass(Some(host))))
}

/// What the line of a record that was pushed to a stream satisfies; `None` if any does.
fn of_pushed_line(filter: &LabelFilter, origin: LabelOrigin) -> Option<PredicateNode> {
    if filter.label() == Some(LOG_HOST) {
        return Some(of_pushed_host(filter.clone()));
    }
    let is_asked = |name: &&str| is_decidable(name) && !filter.may_pass(None) && *name != DETECTED_LEVEL;
    let name = filter.label().filter(is_asked)?.to_owned();
    let found = of_found_label(filter, origin)?;
    let is_pushed = of_stream(move |note| {
        let known = note.and_then(KnownStream::parse);
        known.is_some_and(|known| known.labels.get(&name).is_some() || known.is_of_record(&name))
    });
    Some(PredicateNode::Or(vec![is_pushed, found]))
}

/// What the labels of a record that was pushed to no stream satisfy; `None` if columns cannot decide it.
fn of_label(filter: &LabelFilter, origin: LabelOrigin) -> Option<PredicateNode> {
    let name = filter.label()?;
    if !is_decidable(name) {
        return None;
    }
    let (of_value, of_column) =
        (filter.clone(), |name: &str, matcher: Matcher| PredicateNode::Field(FieldName::new(name), matcher.into()));
    let level = |shown: fn(Level) -> &'static str| {
        // A record without a level may have such a field, or the line tells it.
        let passes = |level: Option<Level>| level.is_none_or(|level| filter.may_pass(Some(shown(level))));
        Some(of_column("level", Matcher::of_levels(passes)))
    };
    match name {
        "level" => level(Level::name),
        DETECTED_LEVEL => level(shown_level),
        // An empty label is none, and a field of that name may be there.
        "instance" | "source" => {
            let passes = move |value: Option<Property<'_>>| {
                let text = value.map(|value| value.text().into_owned()).unwrap_or_default();
                text.is_empty() || of_value.may_pass(Some(&text))
            };
            Some(of_column(name, Matcher::accepting(passes)))
        }
        "table" => {
            let passes = move |value: Option<Property<'_>>| {
                value.is_none_or(|value| of_value.may_pass(Some(&table_name(&value.text()))))
            };
            Some(of_column(name, Matcher::accepting(passes)))
        }
        // One of these names the service, or the instance does; whether another one has priority, the entry says.
        "service_name" => {
            let one = |name: &&'static str| {
                let (of_value, is_instance) = (of_value.clone(), *name == "instance");
                let passes = move |value: Option<Property<'_>>| {
                    let text = value.map(|value| value.text().into_owned()).unwrap_or_default();
                    if text.is_empty() { is_instance } else { of_value.may_pass(Some(&text)) }
                };
                of_column(name, Matcher::accepting(passes))
            };
            Some(PredicateNode::Or(SERVICE_FIELDS.iter().chain(&["instance"]).map(one).collect()))
        }
        // Only a record without it has such a label of another field, or of its line.
        LOG_HOST => {
            let others = FieldName::others_that_become(name, label_name);
            let is_there = PredicateNode::Field(others, Matcher::accepting(|value| value.is_some()).into());
            let mut lacks = vec![host_is(|host| host.is_none())];
            if origin != LabelOrigin::MadeLine && !filter.may_pass(None) {
                lacks.push(match (of_found_label(filter, origin), origin) {
                    (Some(of_line), _) => PredicateNode::Or(vec![is_there, of_line]),
                    (None, LabelOrigin::Nowhere) => is_there,
                    (None, _) => PredicateNode::Always(true),
                });
            }
            let of_host = host_is(move |host| host.is_some_and(|host| of_value.may_pass(Some(host))));
            Some(PredicateNode::Or(vec![of_host, PredicateNode::And(lacks)]))
        }
        name => {
            // The second of two fields of one label gets a number.
            let may_lack = super::may_be_numbered(name) || origin == LabelOrigin::MadeLine || filter.may_pass(None);
            let of_line = if may_lack { None } else { of_found_label(filter, origin) };
            let may_lack = may_lack || origin != LabelOrigin::Nowhere && of_line.is_none();
            let passes = move |value: Option<Property<'_>>| match value {
                None => may_lack,
                Some(value) => of_value.may_pass(Some(&shown(&OwnedValue::from(value)))),
            };
            let mut either = vec![of_column(name, Matcher::accepting(passes))];
            if let Some(of_line) = of_line {
                let lacks = of_column(name, Matcher::accepting(|value| value.is_none()));
                either.push(PredicateNode::And(vec![lacks, of_line]));
            }
            // Another field may have a name that becomes this label.
            if name.contains('_') && !may_lack {
                let others = FieldName::others_that_become(name, label_name);
                let is_there = Matcher::accepting(|value| value.is_some());
                either.push(PredicateNode::Field(others, is_there.into()));
            }
            Some(if either.len() == 1 { either.remove(0) } else { PredicateNode::Or(either) })
        }
    }
}

/// Whether a label of this name is the field of this name, or one of the record's own labels.
fn is_decidable(name: &str) -> bool {
    let field = FieldName::new(name);
    let is_plain = field.column() == Column::Field && field.property() == name && !NO_FIELDS.contains(&name);
    let is_own = OWN_LABELS.contains(&name) || name == DETECTED_LEVEL;
    // A label of the entry that a label of the stream displaces gets the suffix.
    (is_plain || is_own) && !name.ends_with('_') && !name.starts_with("__") && !name.ends_with("_extracted")
}

/// What the stream of a pushed record satisfies.
fn of_note(wanted: &EntrySelection<'_>) -> PredicateNode {
    let selector = wanted.selector.clone();
    let condition =
        |condition: &LabelCondition<'_>| (condition.filter.clone(), condition.origin != LabelOrigin::Nowhere);
    let conditions: Vec<(LabelFilter, bool)> = wanted.labels.iter().map(condition).collect();
    of_stream(move |note| {
        let Some(known) = note.and_then(KnownStream::parse) else { return false };
        let may_match = |matcher: &LabelMatcher| {
            // Only the record has the name of its host, and the labels that a stream may lack.
            let is_of_record = SELECTED.contains(&&*matcher.name) && known.labels.get(&matcher.name).is_none();
            matcher.name == LOG_HOST && known.takes_host
                || is_of_record
                || matcher.matches(known.labels.get(&matcher.name).unwrap_or_default())
        };
        selector.0.iter().all(may_match)
            && conditions.iter().all(|(filter, is_parsed)| may_pass(filter, &known, *is_parsed))
    })
}

/// Whether an entry of a stream may pass.
fn may_pass(filter: &LabelFilter, known: &KnownStream, is_parsed: bool) -> bool {
    match filter {
        LabelFilter::And(left, right) => may_pass(left, known, is_parsed) && may_pass(right, known, is_parsed),
        LabelFilter::Or(left, right) => may_pass(left, known, is_parsed) || may_pass(right, known, is_parsed),
        filter => {
            let name = filter.label().unwrap_or_default();
            if !is_decidable(name) || name == DETECTED_LEVEL {
                return true;
            }
            match known.labels.get(name) {
                _ if known.is_of_record(name) => true,
                Some(value) => filter.may_pass(Some(value)),
                None => is_parsed || filter.may_pass(None),
            }
        }
    }
}
