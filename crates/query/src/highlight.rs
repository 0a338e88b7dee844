//! What matched: the places of a record's text that a query looked for.
//!
//! A test that a record must not pass has no place. Only tests of texts have places within a value; a value that passed
//! another test of its field, such as `status:>=500`, is a place as a whole.

use crate::entity::OwnedValue;
use daytable_logsql::{Column, FieldName, Predicate, PredicateNode};
use memchr::memmem::Finder;
use std::ops::Range;

/// The places that a query looks for.
pub struct Highlights {
    predicate: Predicate,
    contains: Option<Finder<'static>>,
}

impl Highlights {
    /// The places of a filter and of a text beside it.
    pub fn new(predicate: Predicate, contains: Option<&str>) -> Highlights {
        let contains = contains.filter(|text| !text.is_empty()).map(|text| Finder::new(text).into_owned());
        Highlights { predicate, contains }
    }

    /// The places in a message, in their order and apart from each other.
    pub fn in_message(&self, text: &str) -> Vec<Range<usize>> {
        self.places(text, &|_| false, None)
    }

    /// The places in the shown value of a field, in their order and apart from each other.
    pub fn in_field(&self, name: &str, value: &OwnedValue, shown: &str) -> Vec<Range<usize>> {
        self.places(shown, &|field| field.column() == Column::Field && field.is_property(name), Some(value))
    }

    fn places(
        &self,
        text: &str,
        is_field: &dyn Fn(&FieldName) -> bool,
        value: Option<&OwnedValue>,
    ) -> Vec<Range<usize>> {
        let mut places = Vec::new();
        if let Some(contains) = &self.contains {
            places.extend(contains.find_iter(text.as_bytes()).map(|at| at..at + contains.needle().len()));
        }
        each_wanted(self.predicate.root(), &mut |node| match node {
            PredicateNode::Anywhere(matcher) => places.extend(matcher.spans(text)),
            PredicateNode::Field(name, matcher) if value.is_none() && name.column() == Column::Message => {
                places.extend(matcher.spans(text));
            }
            PredicateNode::Field(name, matcher) if is_field(name) => {
                let spans = matcher.spans(text);
                let is_whole = spans.is_empty() && matcher.matches(value.map(OwnedValue::as_property));
                places.extend(spans);
                places.extend(is_whole.then_some(0..text.len()));
            }
            _ => {}
        });
        places.sort_by_key(|place| place.start);
        places.dedup_by(|next, known| {
            let overlaps = next.start <= known.end;
            if overlaps {
                known.end = known.end.max(next.end);
            }
            overlaps
        });
        places
    }
}

/// Each test that a matching record may have passed.
fn each_wanted<'n>(node: &'n PredicateNode, each: &mut impl FnMut(&'n PredicateNode)) {
    match node {
        PredicateNode::And(nodes) | PredicateNode::Or(nodes) => nodes.iter().for_each(|node| each_wanted(node, each)),
        PredicateNode::Not(_) => {}
        node => each(node),
    }
}
