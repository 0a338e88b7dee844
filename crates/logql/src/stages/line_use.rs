//! What a pipeline looks at of a line, so that a source which has the parts of lines need not put each line together.
//!
//! A parser reads names and values, and a query needs few of them. Two lines that differ in other values alone give the same
//! labels, as long as those values end where they end ([`MemberUse::each`] tells the values that matter).

use super::hints::Hints;
use super::json::{self, Raw};
use super::logfmt::Pairs;
use crate::ast::{LabelExtraction, LabelValue, PathStep, PipelineStage, RangeAggregation, RangeOp};
use crate::labels::label_name;
use crate::template::Template;

/// What matters of an entry's line.
#[derive(Clone, Debug)]
pub enum LineUse<'q> {
    /// Nothing.
    Unused,
    /// Some of the values that a parser finds.
    Members(MemberUse<'q>),
    /// All of it.
    Whole,
    /// All of the entry, its time and labels that no stage names among them.
    Entry,
}

/// The values of a line that a parser finds, and that matter.
#[derive(Clone, Debug)]
pub struct MemberUse<'q> {
    hints: Option<&'q Hints>,
    form: ParserForm,
    /// What expressions name: `json a="b.c"`, `logfmt a="b"`.
    named: Vec<&'q LabelExtraction>,
    /// Says of the names of values whether they may be the level, where those matter, too.
    is_level: Option<fn(&str) -> bool>,
}

/// How a parser reads a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParserForm {
    /// As an object of JSON.
    Json,
    /// As pairs.
    Logfmt,
    /// As both, one after the other. What is an object has no pairs as long as it has no `=`.
    Both,
}

impl<'q> LineUse<'q> {
    pub(crate) fn of(range: &'q RangeAggregation, hints: &'q Hints) -> LineUse<'q> {
        let (mut members, mut is_derived, mut is_made): (Option<MemberUse<'q>>, bool, bool) = (None, false, false);
        let (mut is_whole, mut pairs_matter) = (false, false);
        let template = |template: &Template, is_whole: &mut bool| {
            let reads = template.reads();
            *is_whole |= reads.line;
            reads.entry
        };
        for stage in &range.query.stages {
            match stage {
                PipelineStage::Labels(_)
                | PipelineStage::UnreadFormat(_)
                | PipelineStage::Drop(_)
                | PipelineStage::Keep(_) => {}
                PipelineStage::LineFormat(text) => {
                    if template(text, &mut is_whole) {
                        return LineUse::Entry;
                    }
                    // From here on the line is made of labels.
                    is_made = true;
                }
                PipelineStage::LabelFormat(formats) => {
                    for (_, value) in formats {
                        if let LabelValue::Template(text) = value
                            && template(text, &mut is_whole)
                        {
                            return LineUse::Entry;
                        }
                    }
                }
                _ if is_made => {}
                // The source decides about a line as it was written.
                PipelineStage::Line(_) if !is_derived => {}
                PipelineStage::Json(_) | PipelineStage::Logfmt { .. } | PipelineStage::Pattern(_)
                    if hints.labels().is_some_and(<[String]>::is_empty) => {}
                PipelineStage::Decolorize => is_derived = true,
                PipelineStage::Unpack => {
                    is_derived = true;
                    is_whole |= !hints.labels().is_some_and(<[String]>::is_empty);
                }
                PipelineStage::Json(named) | PipelineStage::Logfmt { keys: named, .. }
                    if !is_derived && hints.labels().is_some() =>
                {
                    let form = match stage {
                        PipelineStage::Json(_) => ParserForm::Json,
                        _ => ParserForm::Logfmt,
                    };
                    let known = members.get_or_insert(MemberUse {
                        hints: Some(hints),
                        form,
                        named: Vec::new(),
                        is_level: None,
                    });
                    known.named.extend(named);
                    if known.form != form {
                        known.form = ParserForm::Both;
                    }
                    pairs_matter |= matches!(stage, PipelineStage::Logfmt { strict: true, .. })
                        || matches!(stage, PipelineStage::Logfmt { keep_empty, keys, .. } if *keep_empty || !keys.is_empty());
                }
                _ => is_whole = true,
            }
        }
        let has_length = !is_made && matches!(range.op, RangeOp::BytesOverTime | RangeOp::BytesRate);
        // Words alone, and mistakes, come in objects.
        let is_odd = members.as_ref().is_some_and(|members| members.form == ParserForm::Both) && pairs_matter;
        match members {
            _ if is_whole || has_length || is_odd => LineUse::Whole,
            Some(members) => LineUse::Members(members),
            None => LineUse::Unused,
        }
    }
}

impl<'q> MemberUse<'q> {
    /// The values that may be the level of a line of a form, by their names.
    pub fn of_level(form: ParserForm, is_level: fn(&str) -> bool) -> MemberUse<'q> {
        MemberUse { hints: None, form, named: Vec::new(), is_level: Some(is_level) }
    }

    /// The same, and those that may be the level, by their names.
    pub fn with_level(self, is_level: fn(&str) -> bool) -> MemberUse<'q> {
        MemberUse { is_level: Some(is_level), ..self }
    }

    /// How the line is read.
    pub fn form(&self) -> ParserForm {
        self.form
    }

    /// Passes the names and the texts of those values of a line that matter. False if the line is malformed, or its walk may
    /// depend on all of it.
    pub fn each(&self, line: &str, each: &mut dyn FnMut(&str, &str)) -> bool {
        let is_object = match self.form {
            ParserForm::Json => true,
            ParserForm::Logfmt => false,
            ParserForm::Both => line.trim_start().starts_with('{'),
        };
        match is_object {
            true => json::each_value(line, &mut |first, name, key, value| {
                let (Raw::String(text) | Raw::Object(text) | Raw::Array(text) | Raw::Plain(text)) = value else {
                    return;
                };
                let is_first = |step: &PathStep| *step == PathStep::Member(first.to_owned());
                let is_named =
                    |named: &&LabelExtraction| named.path.first().is_none_or(|step| is_first(step) || !is_member(step));
                // The members of an object come one by one.
                let is_value = !matches!(value, Raw::Object(_));
                let is_wanted = self.wants(name) || self.is_level.is_some_and(|is_level| is_level(key));
                if is_value && is_wanted || self.named.iter().any(is_named) {
                    each(name, text);
                }
            }),
            false => Pairs::of(line).all(|pair| {
                let Ok((key, value)) = pair else { return false };
                let name = label_name(key);
                let is_named = |named: &&LabelExtraction| named.source == name;
                if self.wants(&name)
                    || self.named.iter().any(is_named)
                    || self.is_level.is_some_and(|is_level| is_level(key))
                {
                    each(&name, &value.unwrap_or_default());
                }
                true
            }),
        }
    }

    fn wants(&self, name: &str) -> bool {
        self.hints.is_some_and(|hints| hints.wants_prefix(name))
    }
}

fn is_member(step: &PathStep) -> bool {
    matches!(step, PathStep::Member(_))
}

impl PipelineStage {
    /// Whether the stage may change the line.
    pub(crate) fn changes_line(&self) -> bool {
        matches!(self, PipelineStage::LineFormat(_) | PipelineStage::Unpack | PipelineStage::Decolorize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ast::{LabelGrouping, LogqlQuery, MetricQuery};

    fn uses(query: &str) -> String {
        let Ok(LogqlQuery::Metric(MetricQuery::Aggregate { inner, grouping, .. })) = crate::parse(query) else {
            panic!("{query}")
        };
        let MetricQuery::Range(range) = *inner else { panic!("{query}") };
        // A sum keeps no label unless it says so.
        let grouping = grouping.unwrap_or(LabelGrouping { without: false, labels: Vec::new() });
        let hints = Hints::new(&range, Some(&grouping));
        match LineUse::of(&range, &hints) {
            LineUse::Members(members) => {
                let mut found = Vec::new();
                let line = match members.form {
                    ParserForm::Json | ParserForm::Both => r#"{"a":1,"ab":{"c":"x","d":[2]},"b":"y","level":"info"}"#,
                    ParserForm::Logfmt => "a=1 ab=x b=y level=info",
                };
                assert!(members.each(line, &mut |name, text| found.push(format!("{name}={text}"))));
                found.join(" ")
            }
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn what_matters_of_a_line() {
        for (stages, by, found) in [
            ("", "a", "Unused"),
            (r#" |= "x" | a="1""#, "a", "Unused"),
            (" | json", "a", "a=1"),
            (" | json", "ab_c", "a=1 ab_c=x"),
            (" | json", "b", "b=y"),
            (r#" | json | b="y""#, "a", "a=1 b=y"),
            (r#" | json z="ab.d[0]""#, "z", r#"ab={"c":"x","d":[2]} ab_c=x ab_d=[2]"#),
            (" | logfmt", "b", "b=y"),
            (r#" | logfmt z="ab""#, "z", "ab=x"),
            (" | json | logfmt", "a", "a=1"),
            (" | json | logfmt --strict", "a", "Whole"),
            (r#" | json | logfmt z="a""#, "z", "Whole"),
            (" | decolorize", "a", "Unused"),
            (r#" | decolorize |= "x""#, "a", "Whole"),
            (r#" | line_format "{{.a}}" |= "x" | json"#, "b", "Unused"),
            (r#" | line_format "{{__line__}}" |= "x""#, "b", "Whole"),
            (r#" | label_format z="{{__timestamp__}}""#, "z", "Entry"),
            (r#" | label_format z="{{.}}""#, "z", "Entry"),
            (r#" | pattern "<z> x""#, "z", "Whole"),
            (" | unpack", "z", "Whole"),
        ] {
            let query = format!("sum by ({by}) (count_over_time({{x=\"y\"}}{stages}[1m]))");
            assert_eq!(uses(&query), found, "{query}");
        }
        assert_eq!(uses(r#"sum(count_over_time({x="y"} | json | pattern "<z>" [1m]))"#), "Unused");
        assert_eq!(uses(r#"sum(bytes_over_time({x="y"}[1m]))"#), "Whole");
        assert_eq!(uses(r#"sum without (a) (count_over_time({x="y"} | json [1m]))"#), "Whole");
    }

    #[test]
    fn values_that_may_be_the_level_matter_where_it_is_asked_for() {
        let found = |form, line: &str| {
            let mut found = Vec::new();
            let is_level = |name: &str| ["level", "lvl"].iter().any(|known| known.eq_ignore_ascii_case(name));
            let is_whole = MemberUse::of_level(form, is_level).each(line, &mut |_, text| found.push(text.to_owned()));
            (is_whole, found.join(" "))
        };
        assert_eq!(found(ParserForm::Json, r#"{"a":1,"b":{"level":"x"},"lvl":"y"}"#), (true, "x y".into()));
        assert_eq!(found(ParserForm::Json, r#"{"level":"x","#), (false, "x".into()));
        assert_eq!(found(ParserForm::Logfmt, "a=1 LEVEL=x"), (true, "x".into()));
        assert_eq!(found(ParserForm::Logfmt, "a=\"1"), (false, String::new()));
    }
}
