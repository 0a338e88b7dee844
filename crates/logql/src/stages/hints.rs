//! Which labels a query for numbers needs.
//!
//! A parser extracts those labels only, and stops at the last of them: so a line whose mistake stands behind is not an
//! error, and a count of all lines parses none. Answers depend on these rules, so they are those of Loki.

use crate::ast::{LabelFilter, LabelGrouping, LabelValue, MatchOp, PipelineStage, RangeAggregation};

/// What parsers have to extract.
#[derive(Debug, Default)]
pub(crate) struct Hints {
    /// Whether no label is needed.
    no_labels: bool,
    /// The labels that are needed; every label if empty.
    required: Vec<String>,
}

/// For queries for entries, which show all labels.
pub(crate) static ALL: Hints = Hints { no_labels: false, required: Vec::new() };

impl Hints {
    /// The labels that a function over ranges needs if its series keep the labels of `grouping`.
    pub(crate) fn new(range: &RangeAggregation, grouping: Option<&LabelGrouping>) -> Hints {
        let groups = grouping.map_or(&[][..], |grouping| &grouping.labels);
        let without = grouping.is_some_and(|grouping| grouping.without);
        let no_labels = grouping.is_some() && groups.is_empty() && !without;
        if !no_labels && (groups.is_empty() || without) {
            return Hints::default();
        }
        let mut required = Vec::new();
        for stage in &range.query.stages {
            match stage {
                PipelineStage::Labels(filter) => filter.names(&mut required),
                PipelineStage::LineFormat(template) => template.fields(&mut required),
                PipelineStage::LabelFormat(formats) => {
                    for (_, value) in formats {
                        match value {
                            LabelValue::Renamed(from) => required.push(from.clone()),
                            LabelValue::Template(template) => template.fields(&mut required),
                        }
                    }
                }
                _ => {}
            }
        }
        required.extend(groups.iter().cloned());
        if let Some(unwrap) = &range.unwrap {
            unwrap.filters.iter().for_each(|filter| filter.names(&mut required));
            required.push(unwrap.label.clone());
        }
        // A parser does not know yet that a name will get the suffix.
        let bare: Vec<String> =
            required.iter().filter_map(|name| name.strip_suffix("_extracted")).map(str::to_owned).collect();
        required.extend(bare);
        Hints { no_labels: required.is_empty(), required }
    }

    /// The labels that are needed; `None` if all are.
    pub(crate) fn labels(&self) -> Option<&[String]> {
        (self.no_labels || !self.required.is_empty()).then_some(&*self.required)
    }

    pub(super) fn wants(&self, name: &str) -> bool {
        self.required.is_empty() || self.names(name)
    }

    /// Whether a label that begins with `prefix` is needed.
    pub(super) fn wants_prefix(&self, prefix: &str) -> bool {
        self.required.is_empty() || self.required.iter().any(|required| required.starts_with(prefix))
    }

    /// Whether nothing is left to extract, if `has` says which labels were extracted.
    pub(super) fn are_met(&self, has: impl Fn(&str) -> bool) -> bool {
        self.no_labels || !self.required.is_empty() && self.required.iter().all(|required| has(required))
    }

    /// Whether the query names this label.
    pub(super) fn names(&self, name: &str) -> bool {
        self.required.iter().any(|required| required == name)
    }
}

impl LabelFilter {
    /// Whether the condition depends on the value of a label, and not only on whether it is empty.
    pub(crate) fn depends_on_value(&self, label: &str) -> bool {
        match self {
            LabelFilter::And(left, right) | LabelFilter::Or(left, right) => {
                left.depends_on_value(label) || right.depends_on_value(label)
            }
            LabelFilter::Text(matcher) if matcher.value.is_empty() => {
                matcher.name == label && !matches!(matcher.op, MatchOp::Equal | MatchOp::NotEqual)
            }
            LabelFilter::Text(matcher) => matcher.name == label,
            LabelFilter::Quantity { name, .. } | LabelFilter::Ip { name, .. } => name == label,
        }
    }

    fn names(&self, names: &mut Vec<String>) {
        match self {
            LabelFilter::And(left, right) | LabelFilter::Or(left, right) => {
                left.names(names);
                right.names(names);
            }
            LabelFilter::Text(matcher) => names.push(matcher.name.clone()),
            LabelFilter::Quantity { name, .. } | LabelFilter::Ip { name, .. } => names.push(name.clone()),
        }
    }
}
