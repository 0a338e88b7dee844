//! The texts and the labels that a query looks for: each entry of the answer has them, so a source can leave others out.

use crate::ast::{LabelFilter, LineFilter, LineOp, LineTest, LogQuery, MatchOp, PipelineStage};
use crate::source::{EntrySelection, TimeSpan};
use regex_syntax::hir::{Hir, HirKind};

impl LogQuery {
    /// Which entries the pipeline may keep.
    pub fn wanted(&self, span: TimeSpan) -> EntrySelection<'_> {
        let (text, labels) = (needed_text(&self.stages), needed_labels(&self.stages));
        EntrySelection { text, labels, ..self.selector.within(span) }
    }
}

/// The values that labels need before a parser adds others.
fn needed_labels(stages: &[PipelineStage]) -> Vec<(&str, &str)> {
    let mut labels = Vec::new();
    for stage in stages {
        match stage {
            PipelineStage::Line(_) => {}
            PipelineStage::Labels(filter) => add_labels(filter, &mut labels),
            _ => break,
        }
    }
    labels
}

fn add_labels<'q>(filter: &'q LabelFilter, labels: &mut Vec<(&'q str, &'q str)>) {
    match filter {
        LabelFilter::And(left, right) => [left, right].into_iter().for_each(|side| add_labels(side, labels)),
        LabelFilter::Text(matcher) if matcher.op == MatchOp::Equal => labels.push((&matcher.name, &matcher.value)),
        _ => {}
    }
}

/// The longest text that each line needs; `None` if the filters name none.
fn needed_text(stages: &[PipelineStage]) -> Option<String> {
    // The stages after these see another line.
    let is_line_kept = |stage: &&PipelineStage| {
        !matches!(stage, PipelineStage::LineFormat(_) | PipelineStage::Decolorize | PipelineStage::Unpack)
    };
    let texts = stages.iter().take_while(is_line_kept).filter_map(|stage| match stage {
        PipelineStage::Line(filter) => text_of(filter),
        _ => None,
    });
    texts.filter(|text| !text.is_empty()).max_by_key(String::len)
}

fn text_of(filter: &LineFilter) -> Option<String> {
    match (filter.op, &*filter.tests) {
        (LineOp::Contains, [LineTest::Text(text)]) => Some(text.clone()),
        (LineOp::Regex, [LineTest::Regex(_, regex)]) => {
            let text = literal(&regex_syntax::parse(regex.as_str()).ok()?)?;
            String::from_utf8(text).ok()
        }
        _ => None,
    }
}

/// The longest text that each match contains.
fn literal(expression: &Hir) -> Option<Vec<u8>> {
    match expression.kind() {
        HirKind::Literal(text) => Some(text.0.to_vec()),
        HirKind::Capture(capture) => literal(&capture.sub),
        HirKind::Repetition(repetition) if repetition.min > 0 => literal(&repetition.sub),
        HirKind::Concat(parts) => parts.iter().filter_map(literal).max_by_key(Vec::len),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ast::LogqlQuery;

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
            let Ok(LogqlQuery::Log(query)) = crate::parse(&format!("{{a=\"b\"}} {stages}")) else { panic!("{stages}") };
            assert_eq!(needed_text(&query.stages).as_deref(), text, "{stages}");
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
            let Ok(LogqlQuery::Log(query)) = crate::parse(&format!("{{a=\"b\"}} {stages}")) else { panic!("{stages}") };
            assert_eq!(needed_labels(&query.stages), labels, "{stages}");
        }
    }
}
