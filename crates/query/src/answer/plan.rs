//! What of a query's filter the stores can decide.
//!
//! A store excludes rows by time, instance, level and a text before the predicate sees them. Each condition here
//! follows from the predicate, so no matching record is excluded; the predicate decides about the rest.

use crate::filter::Filter;
use daytable_logsql::{Column, Predicate, PredicateNode};
use daytable_model::record::Level;
use daytable_model::time::{MAX_TICKS, Ticks};

/// The filter that both `base` and the predicate imply.
pub fn pushed_down(predicate: &Predicate, base: &Filter) -> Filter {
    let mut filter = Filter { contains: None, ..base.clone() };
    add(predicate.root(), &mut filter);
    // The predicate does not know the text of `base`, so that text has to stay.
    Filter { contains: base.contains.clone().filter(|text| !text.is_empty()).or(filter.contains), ..filter }
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

/// The longest of the texts excludes the most.
fn add_text(text: Option<&str>, filter: &mut Filter) {
    let Some(text) = text else { return };
    if filter.contains.as_ref().is_none_or(|known| known.len() < text.len()) {
        filter.contains = Some(text.to_owned());
    }
}
