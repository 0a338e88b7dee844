//! What of a query's filter the stores can decide.
//!
//! A store excludes rows by time, instance, level and a text before the predicate sees them. Each condition here
//! follows from the predicate, so no matching record is excluded; the predicate decides about the rest.

use crate::filter::{DayChooser, Filter};
use daytable_logsql::{Column, FieldName, Predicate, PredicateNode};
use daytable_model::column_name::LOG_HOST;
use daytable_model::property::Property;
use daytable_model::record::Level;
use daytable_model::time::{MAX_TICKS, Ticks};

/// The filter that both `base` and the predicate imply.
pub fn pushed_down(predicate: &Predicate, base: &Filter) -> Filter {
    let mut filter = Filter { contains: None, ..base.clone() };
    add(predicate.root(), &mut filter);
    if let Some(days) = days_with(predicate) {
        filter.days = Some(match filter.days.take() {
            None => days,
            Some(before) => DayChooser::new(move |table, host| days.wants(table, host) && before.wants(table, host)),
        });
    }
    // The predicate does not know the text of `base`, so that text has to stay.
    Filter { contains: base.contains.clone().filter(|text| !text.is_empty()).or(filter.contains), ..filter }
}

/// Chooses the days of a lake that may have matching records; `None` if the place of a day tells nothing about it.
pub fn days_with(predicate: &Predicate) -> Option<DayChooser> {
    let root = has_day_test(predicate.root()).then(|| predicate.root().clone())?;
    Some(DayChooser::new(move |table, host| may_be_true(&root, &table.to_string(), host)))
}

fn add(node: &PredicateNode, filter: &mut Filter) {
    match node {
        PredicateNode::And(nodes) => nodes.iter().for_each(|node| add(node, filter)),
        PredicateNode::Time(from, to) => {
            let since = Ticks::new((*from).clamp(0, MAX_TICKS)).unwrap_or(Ticks::MIN);
            filter.since = Some(filter.since.map_or(since, |known| known.max(since)));
            // The last tick has no end that is a time; then nothing is excluded.
            if let Some(until) = Ticks::new(to.saturating_add(1).max(0)) {
                filter.until = Some(filter.until.map_or(until, |known| known.min(until)));
            }
        }
        PredicateNode::Field(name, matcher) => match name.column() {
            Column::Level => {
                let levels = matcher.levels().unwrap_or(u16::MAX);
                if levels & 1 == 0
                    && let Some(least) = Level::ALL.into_iter().find(|level| levels >> level.code() & 1 == 1)
                {
                    filter.level = filter.level.max(Some(least));
                }
            }
            Column::Instance => {
                if filter.instance.is_none()
                    && let Some(instance) = matcher.exact_text()
                {
                    filter.instance = Some(instance.to_owned());
                }
            }
            // Each record of a lake has the text, and no other its whole day.
            Column::Field if is_log_host(name) => {}
            Column::Message | Column::Field => add_text(matcher.needle(), filter),
            _ => {}
        },
        PredicateNode::Anywhere(matcher) => {
            // A value that is JSON has other texts with escapes instead.
            let is_plain = |text: &&str| !text.bytes().any(|byte| byte < 0x20 || matches!(byte, b'"' | b'\\'));
            add_text(matcher.needle().filter(is_plain), filter);
        }
        _ => {}
    }
}

/// Whether a predicate tests what the place of a day tells in a lake: its table and its host.
fn has_day_test(node: &PredicateNode) -> bool {
    match node {
        PredicateNode::And(nodes) | PredicateNode::Or(nodes) => nodes.iter().any(has_day_test),
        PredicateNode::Not(inner) => has_day_test(inner),
        PredicateNode::Field(name, _) => name.column() == Column::Table || is_log_host(name),
        _ => false,
    }
}

fn is_log_host(name: &FieldName) -> bool {
    name.column() == Column::Field && name.written() == LOG_HOST
}

/// Whether a record of a day of a host may match: each has the table and, as `log_host`, the host.
fn may_be_true(node: &PredicateNode, table: &str, host: &str) -> bool {
    can_be(node, table, host).0
}

/// Whether a node can be true of such a record, and whether it can be false.
fn can_be(node: &PredicateNode, table: &str, host: &str) -> (bool, bool) {
    let exactly = |holds: bool| (holds, !holds);
    match node {
        PredicateNode::Always(holds) => exactly(*holds),
        PredicateNode::And(nodes) => nodes
            .iter()
            .map(|node| can_be(node, table, host))
            .fold((true, false), |all, of| (all.0 && of.0, all.1 || of.1)),
        PredicateNode::Or(nodes) => nodes
            .iter()
            .map(|node| can_be(node, table, host))
            .fold((false, true), |any, of| (any.0 || of.0, any.1 && of.1)),
        PredicateNode::Not(inner) => {
            let (holds, fails) = can_be(inner, table, host);
            (fails, holds)
        }
        PredicateNode::Field(name, matcher) if name.column() == Column::Table => {
            exactly(matcher.matches(Some(Property::String(table))))
        }
        PredicateNode::Field(name, matcher) if is_log_host(name) => {
            exactly(matcher.matches(Some(Property::String(host))))
        }
        _ => (true, true),
    }
}

/// The longest of the texts excludes the most.
fn add_text(text: Option<&str>, filter: &mut Filter) {
    let Some(text) = text else { return };
    if filter.contains.as_ref().is_none_or(|known| known.len() < text.len()) {
        filter.contains = Some(text.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daytable_logsql::Expression;
    use daytable_model::key::DayTable;

    /// The days of two hosts that a filter wants.
    fn wanted(filter: &str) -> String {
        let expression = Expression::parse_remarked(filter).expect("a filter").0;
        let filter = pushed_down(&Predicate::new(&expression, Ticks::MAX), &Filter::default());
        let mut days = Vec::new();
        for day in ["Log20261120", "Log20261121"] {
            let table = DayTable::parse(day).expect("a table");
            let hosts = ["web-1", "db-1"].into_iter().filter(|host| filter.wants_day(&table, host));
            days.extend(hosts.map(|host| format!("{} {host}", &day[9..])));
        }
        days.join(", ")
    }

    #[test]
    fn days_of_a_lake_are_chosen_by_what_their_place_tells() {
        let all = "20 web-1, 20 db-1, 21 web-1, 21 db-1";
        for (filter, days) in [
            ("*", all),
            ("error", all),
            ("log_host:=web-1", "20 web-1, 21 web-1"),
            ("log_host:=web-* error", "20 web-1, 21 web-1"),
            ("!log_host:=web-1", "20 db-1, 21 db-1"),
            ("log_host:=db-1 table:=Log20261121", "21 db-1"),
            ("log_host:=db-1 or table:=Log20261121", "20 db-1, 21 web-1, 21 db-1"),
            ("log_host:=db-1 or error", all),
            ("!(log_host:=db-1 error)", all),
            ("!(log_host:=db-1 or error)", "20 web-1, 21 web-1"),
            ("log_host:=db-1 log_host:=web-1", ""),
            ("log_host:\"\"", ""),
            ("log_host:*", all),
            ("host:=db-1", all),
            ("log.host:=db-1", all),
            ("\"log_host#2\":=db-1", all),
        ] {
            assert_eq!(wanted(filter), days, "{filter}");
        }
    }
}
