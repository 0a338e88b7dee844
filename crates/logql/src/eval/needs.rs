//! What each entry of an answer has: a source can leave other entries out before it makes them.

use crate::ast::{
    LabelFilter, LabelMatcher, LabelPick, LabelValue, LineFilter, LineOp, LineTest, LogQuery, MatchOp, PipelineStage,
};
use crate::source::{EntrySelection, LabelCondition, LabelOrigin, TimeSpan};
use crate::stages::label_value_may_pass;
use daytable_model::required_text::required_text;

impl LogQuery {
    /// Which entries the pipeline may keep.
    pub fn wanted(&self, span: TimeSpan) -> EntrySelection<'_> {
        let mut wanted = self.selector.within(span);
        let (mut is_line_kept, mut origin) = (true, LabelOrigin::Nowhere);
        let mut changed = ChangedLabels::default();
        for stage in &self.stages {
            match stage {
                PipelineStage::Line(filter) if is_line_kept => wanted.lines.push(filter),
                PipelineStage::Labels(filter) if filter.labels().iter().all(|label| !changed.has(label)) => {
                    wanted.labels.push(LabelCondition { filter, origin });
                }
                PipelineStage::Line(_) | PipelineStage::Labels(_) | PipelineStage::UnreadFormat(_) => {}
                PipelineStage::Json(paths) => origin = origin.parsed(paths.is_empty(), is_line_kept),
                PipelineStage::Logfmt { keys, .. } => origin = origin.parsed(keys.is_empty(), is_line_kept),
                PipelineStage::Pattern(_) | PipelineStage::Regexp { .. } => {
                    origin = origin.parsed(false, is_line_kept);
                }
                PipelineStage::Unpack => {
                    origin = origin.parsed(true, is_line_kept);
                    is_line_kept = false;
                }
                PipelineStage::LineFormat(_) | PipelineStage::Decolorize => is_line_kept = false,
                PipelineStage::LabelFormat(formats) => changed.format(formats),
                PipelineStage::Drop(picks) => changed.drop(picks),
                PipelineStage::Keep(picks) => changed.keep(picks),
            }
        }
        wanted
    }
}

impl LabelOrigin {
    /// The origin behind one more parser.
    fn parsed(self, takes_names: bool, is_line_kept: bool) -> LabelOrigin {
        match self {
            _ if !is_line_kept => LabelOrigin::MadeLine,
            LabelOrigin::Nowhere => LabelOrigin::Line { is_named: takes_names },
            LabelOrigin::Line { is_named } => LabelOrigin::Line { is_named: is_named && takes_names },
            LabelOrigin::MadeLine => LabelOrigin::MadeLine,
        }
    }
}

/// Labels that stages may have changed.
#[derive(Default)]
struct ChangedLabels<'q> {
    names: Vec<&'q str>,
    /// All others but these; `None` if no others.
    kept: Option<Vec<&'q str>>,
}

impl<'q> ChangedLabels<'q> {
    fn has(&self, label: &str) -> bool {
        self.names.contains(&label) || self.kept.as_ref().is_some_and(|kept| !kept.contains(&label))
    }

    fn format(&mut self, formats: &'q [(String, LabelValue)]) {
        for (name, value) in formats {
            self.names.push(name);
            if let LabelValue::Renamed(from) = value {
                self.names.push(from);
            }
        }
    }

    fn drop(&mut self, picks: &'q [LabelPick]) {
        self.names.extend(picks.iter().map(|pick| match pick {
            LabelPick::Name(name) => name.as_str(),
            LabelPick::If(matcher) => &matcher.name,
        }));
    }

    fn keep(&mut self, picks: &'q [LabelPick]) {
        // One that is kept with some values may be gone.
        let always = picks.iter().filter_map(|pick| match pick {
            LabelPick::Name(name) => Some(name.as_str()),
            LabelPick::If(_) => None,
        });
        let kept = always.filter(|name| self.kept.as_ref().is_none_or(|kept| kept.contains(name))).collect();
        self.kept = Some(kept);
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
        for condition in self.labels.iter().filter(|condition| condition.origin == LabelOrigin::Nowhere) {
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

    /// The labels that the condition is about.
    fn labels(&self) -> Vec<&str> {
        match self {
            LabelFilter::And(left, right) | LabelFilter::Or(left, right) => {
                [left, right].into_iter().flat_map(|side| side.labels()).collect()
            }
            filter => filter.label().into_iter().collect(),
        }
    }

    /// Texts of a line from which parsers read the label of this condition on one label, if the entry passes: the longest part of
    /// the name, and that of the value. A line with escapes may write them otherwise.
    pub fn texts_in_line(&self, is_named: bool) -> Vec<&str> {
        // Of a name, other characters became `_`.
        let name = self.label().filter(|_| is_named).and_then(|name| longest_run(name, |c| c.is_ascii_alphanumeric()));
        let value = match self {
            LabelFilter::Text(LabelMatcher { op: MatchOp::Equal, value, .. }) => {
                longest_run(value, |c| c.is_ascii_graphic())
            }
            _ => None,
        };
        name.into_iter().chain(value).collect()
    }

    /// Whether an entry whose label has this value may pass a condition on one label. An entry that has an error may.
    pub fn may_pass(&self, value: Option<&str>) -> bool {
        label_value_may_pass(self, value)
    }
}

/// The longest part of a text whose characters all satisfy a condition, if one does.
fn longest_run(text: &str, is_of_run: fn(char) -> bool) -> Option<&str> {
    text.split(|c| !is_of_run(c)).max_by_key(|run| run.len()).filter(|run| !run.is_empty())
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
        let (line, named) = (LabelOrigin::Line { is_named: false }, LabelOrigin::Line { is_named: true });
        let (nowhere, made) = (LabelOrigin::Nowhere, LabelOrigin::MadeLine);
        for (stages, lines, origins) in [
            (r#"|= "x" != "y" |~ "z" | a=1"#, 3, &[nowhere][..]),
            (r#"| a=1 | json | b=2 |= "x" | logfmt | c="3""#, 1, &[nowhere, named, named]),
            (r#"| json x="a.b" | b=2 | logfmt | c="3""#, 0, &[line, line]),
            (r#"| logfmt | b=2 | pattern "<c> <_>" | c="3""#, 0, &[named, line]),
            (r#"| unpack | a=1 |= "x" | json | b=1"#, 0, &[named, made]),
            (r#"| decolorize | a=1 | logfmt | b=1 | json | c=1"#, 0, &[nowhere, made, made]),
            (r#"| drop a | a=1 |= "x""#, 1, &[]),
            (r#"| drop a, c="x" | b=1 | b=1 or c=2"#, 0, &[nowhere]),
            (r#"| keep a | a=1 | line_format "y" |= "x" | b=1"#, 0, &[nowhere]),
            (r#"| keep a, b="x" | b=1 | keep b | a=1"#, 0, &[]),
            (r#"| label_format a=b, c="{{.d}}" | a=1 | b=1 | c=1 | d=1"#, 0, &[nowhere]),
        ] {
            let query = query(stages);
            let wanted = query.wanted(SPAN);
            let found: Vec<LabelOrigin> = wanted.labels.iter().map(|condition| condition.origin).collect();
            assert_eq!((wanted.lines.len(), &*found), (lines, origins), "{stages}");
        }
    }

    #[test]
    fn a_label_of_the_line_has_its_name_and_its_value_there() {
        let texts = |stage: &str, is_named| match &*query(stage).stages {
            [PipelineStage::Labels(filter)] => filter.texts_in_line(is_named).join(" "),
            _ => panic!("{stage}"),
        };
        for (stage, named, unnamed) in [
            (r#"| user="user-777""#, "user user-777", "user-777"),
            (r#"| trace_id="of two words""#, "trace words", "words"),
            (r#"| user=~"user.*""#, "user", ""),
            ("| duration_ms > 5ms", "duration", ""),
            (r#"| a="""#, "a", ""),
        ] {
            assert_eq!((texts(stage, true), texts(stage, false)), (named.to_owned(), unnamed.to_owned()), "{stage}");
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
