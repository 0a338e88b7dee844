//! What each entry of an answer has: a source can leave other entries out before it makes them.

use crate::ast::{LabelFilter, LineFilter, LineOp, LineTest, LogQuery, MatchOp, PipelineStage};
use crate::source::{EntrySelection, LabelCondition, TimeSpan};
use crate::stages::label_value_may_pass;
use daytable_model::required_text::required_text;

impl LogQuery {
    /// Which entries the pipeline may keep.
    pub fn wanted(&self, span: TimeSpan) -> EntrySelection<'_> {
        let mut wanted = self.selector.within(span);
        let (mut is_line_kept, mut are_labels_kept, mut is_parsed) = (true, true, false);
        for stage in &self.stages {
            match stage {
                PipelineStage::Line(filter) if is_line_kept => wanted.lines.push(filter),
                PipelineStage::Labels(filter) if are_labels_kept => {
                    wanted.labels.push(LabelCondition { filter, is_parsed });
                }
                PipelineStage::Line(_) | PipelineStage::Labels(_) => {}
                PipelineStage::Json(_)
                | PipelineStage::Logfmt { .. }
                | PipelineStage::Pattern(_)
                | PipelineStage::Regexp { .. } => is_parsed = true,
                PipelineStage::Unpack => (is_line_kept, is_parsed) = (false, true),
                PipelineStage::LineFormat(_) | PipelineStage::Decolorize => is_line_kept = false,
                PipelineStage::LabelFormat(_) | PipelineStage::Drop(_) | PipelineStage::Keep(_) => {
                    are_labels_kept = false;
                }
            }
        }
        wanted
    }
}

impl<'q> EntrySelection<'q> {
    /// The longest text that each line needs; `None` if the filters name none.
    pub fn longest_text(&self) -> Option<String> {
        let texts = self.lines.iter().filter_map(|filter| text_of(filter));
        texts.filter(|text| !text.is_empty()).max_by_key(String::len)
    }

    /// Whether a line passes all filters.
    pub fn passes_lines(&self, line: &str) -> bool {
        self.lines.iter().all(|filter| filter.holds(line))
    }

    /// Labels with the value that each entry has, whatever parsers add.
    pub fn equal_labels(&self) -> Vec<(&'q str, &'q str)> {
        let mut labels = Vec::new();
        for condition in self.labels.iter().filter(|condition| !condition.is_parsed) {
            add_equal(condition.filter, &mut labels);
        }
        labels
    }
}

fn add_equal<'q>(filter: &'q LabelFilter, labels: &mut Vec<(&'q str, &'q str)>) {
    match filter {
        LabelFilter::And(left, right) => [left, right].into_iter().for_each(|side| add_equal(side, labels)),
        LabelFilter::Text(matcher) if matcher.op == MatchOp::Equal => labels.push((&matcher.name, &matcher.value)),
        _ => {}
    }
}

impl LineFilter {
    /// The texts of which each line that passes has one; `None` if the filter is of another kind.
    pub fn texts(&self) -> Option<Vec<&str>> {
        let texts =
            self.tests.iter().map(|test| if let LineTest::Text(text) = test { Some(text.as_str()) } else { None });
        texts.collect::<Option<Vec<&str>>>().filter(|_| self.op == LineOp::Contains)
    }

    /// Whether ends of line after the line may decide whether it passes.
    pub fn depends_on_end(&self) -> bool {
        self.tests.iter().any(|test| !matches!(test, LineTest::Text(text) if !text.contains(['\n', '\r'])))
    }
}

impl LabelFilter {
    /// The label that a condition on one label is about.
    pub fn label(&self) -> Option<&str> {
        match self {
            LabelFilter::And(..) | LabelFilter::Or(..) => None,
            LabelFilter::Text(matcher) => Some(&matcher.name),
            LabelFilter::Quantity { name, .. } | LabelFilter::Ip { name, .. } => Some(name),
        }
    }

    /// Whether an entry whose label has this value may pass a condition on one label. An entry that has an error may.
    pub fn may_pass(&self, value: Option<&str>) -> bool {
        label_value_may_pass(self, value)
    }
}

fn text_of(filter: &LineFilter) -> Option<String> {
    match (filter.op, &*filter.tests) {
        (LineOp::Contains, [LineTest::Text(text)]) => Some(text.clone()),
        (LineOp::Regex, [LineTest::Regex(_, regex)]) => required_text(regex.as_str()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ast::LogqlQuery;

    fn query(stages: &str) -> LogQuery {
        let Ok(LogqlQuery::Log(query)) = crate::parse(&format!("{{a=\"b\"}} {stages}")) else { panic!("{stages}") };
        query
    }

    const SPAN: TimeSpan = TimeSpan { from: 0, to: 1 };

    #[test]
    fn the_longest_text_that_each_line_needs_is_found() {
        for (stages, text) in [
            (r#"|= "a" |= "longer" |= "bc""#, Some("longer")),
            (r#"|~ "a+(timeout) after [0-9]+ s""#, Some(" after ")),
            (r#"|~ "(?:refused){1,3}""#, Some("refused")),
            (r#"| json |= "after a parser""#, Some("after a parser")),
            (r#"|= "before" | line_format "{{.x}} y" |= "of a new line""#, Some("before")),
            (r#"| decolorize |= "red""#, None),
            (r#"| unpack |= "packed""#, None),
            (r#"|~ "(?i)error""#, None),
            (r#"|~ "a|b""#, None),
            (r#"|~ "(error)?""#, None),
            (r#"|= "a" or "b""#, None),
            (r#"!= "absent" !~ "too" |= """#, None),
            (r#"|= ip("10.0.0.1")"#, None),
        ] {
            assert_eq!(query(stages).wanted(SPAN).longest_text().as_deref(), text, "{stages}");
        }
    }

    #[test]
    fn the_labels_that_each_entry_needs_are_found() {
        for (stages, labels) in [
            (r#"|= "x" | a="1", b="2" | c="3" or d="4" | e="5""#, &[("a", "1"), ("b", "2"), ("e", "5")][..]),
            (r#"| a="1" and (b="2" or c="3")"#, &[("a", "1")]),
            (r#"| a!="1" | b=~"2" | c=3"#, &[]),
            (r#"| a="1" | json | b="2""#, &[("a", "1")]),
            (r#"| label_format a=b | a="1""#, &[]),
        ] {
            assert_eq!(query(stages).wanted(SPAN).equal_labels(), labels, "{stages}");
        }
    }

    #[test]
    fn conditions_end_where_a_stage_changes_what_they_are_about() {
        for (stages, lines, labels) in [
            (r#"|= "x" != "y" |~ "z" | a=1"#, 3, &[false][..]),
            (r#"| a=1 | json | b=2 |= "x" | logfmt | c="3""#, 1, &[false, true, true]),
            (r#"| unpack | a=1 |= "x""#, 0, &[true]),
            (r#"| drop a | a=1 |= "x""#, 1, &[]),
            (r#"| keep a | a=1 | line_format "y" |= "x""#, 0, &[]),
        ] {
            let query = query(stages);
            let wanted = query.wanted(SPAN);
            let parsed: Vec<bool> = wanted.labels.iter().map(|condition| condition.is_parsed).collect();
            assert_eq!((wanted.lines.len(), &*parsed), (lines, labels), "{stages}");
        }
    }

    #[test]
    fn a_value_may_pass_as_its_entry_does() {
        let passes = |stage: &str, value| match &*query(stage).stages {
            [PipelineStage::Labels(filter)] => filter.may_pass(value),
            _ => panic!("{stage}"),
        };
        for (stage, value, may_pass) in [
            (r#"| a="1""#, Some("1"), true),
            (r#"| a="1""#, Some("2"), false),
            (r#"| a!="1""#, None, true),
            (r#"| a=~"1.*""#, Some("12"), true),
            ("| a > 5", Some("6"), true),
            ("| a > 5", Some("5"), false),
            // An error, which the answer shows.
            ("| a > 5", Some("six"), true),
            ("| a > 5", None, false),
            ("| a > 5ms", Some("6ms"), true),
            ("| a > 5KB", Some("5B"), false),
            (r#"| a=ip("10.0.0.0/8")"#, Some("none"), true),
        ] {
            assert_eq!(passes(stage, value), may_pass, "{stage} {value:?}");
        }
    }
}
