//! The text that a query looks for: each line of the answer contains it, so a source can leave other entries out.

use crate::ast::{LineFilter, LineOp, LineTest, LogQuery, PipelineStage};
use crate::source::{EntrySelection, TimeSpan};
use regex_syntax::hir::{Hir, HirKind};

impl LogQuery {
    /// Which entries the pipeline may keep.
    pub fn wanted(&self, span: TimeSpan) -> EntrySelection<'_> {
        EntrySelection { text: needed_text(&self.stages), ..self.selector.within(span) }
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
}
