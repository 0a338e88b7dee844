//! The stages of a pipeline: what happens to an entry before it is shown or counted.

pub(crate) mod hints;
pub(crate) mod json;
pub mod line_use;
pub(crate) mod logfmt;
pub(crate) mod view;

use crate::ast::*;
use crate::error::EvalError;
use crate::template::{LineContext, NowNanos, RenderError};
use crate::text;
use memchr::memmem;
use regex::Regex;
use std::borrow::Cow;
use std::sync::LazyLock;
pub(crate) use view::EntryView;
use view::{Category, DETAILS, ERROR, PRESERVED};

/// What a stage may make of an entry. A test holds each stage to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StageGrowth {
    /// Nothing: the stage keeps or drops.
    Nothing,
    /// Copies of parts of the line, as often as the query says, or names that repeat. The view bounds their sum.
    Copies,
    /// Texts of any length. A template bounds each, the view their sum.
    Texts,
}

impl PipelineStage {
    /// What the stage may make. Whoever adds a stage declares it here.
    #[cfg_attr(not(test), expect(dead_code, reason = "a declaration, which a test compares with what the stage does"))]
    pub(crate) fn growth(&self) -> StageGrowth {
        match self {
            PipelineStage::Line(_)
            | PipelineStage::Labels(_)
            | PipelineStage::UnreadFormat(_)
            | PipelineStage::Drop(_)
            | PipelineStage::Keep(_) => StageGrowth::Nothing,
            // Colors are taken out of the line.
            PipelineStage::Decolorize => StageGrowth::Nothing,
            PipelineStage::Json(_)
            | PipelineStage::Logfmt { .. }
            | PipelineStage::Pattern(_)
            | PipelineStage::Regexp { .. }
            | PipelineStage::Unpack => StageGrowth::Copies,
            PipelineStage::LineFormat(_) | PipelineStage::LabelFormat(_) => StageGrowth::Texts,
        }
    }

    /// Whether what the stage does depends on the line.
    fn reads_line(&self) -> bool {
        match self {
            PipelineStage::Line(_)
            | PipelineStage::Json(_)
            | PipelineStage::Logfmt { .. }
            | PipelineStage::Pattern(_)
            | PipelineStage::Regexp { .. }
            | PipelineStage::Unpack => true,
            PipelineStage::LineFormat(template) => template.reads().line,
            PipelineStage::LabelFormat(formats) => formats
                .iter()
                .any(|(_, value)| matches!(value, LabelValue::Template(template) if template.reads().line)),
            // Without colors a line makes no other labels.
            PipelineStage::Labels(_)
            | PipelineStage::Decolorize
            | PipelineStage::UnreadFormat(_)
            | PipelineStage::Drop(_)
            | PipelineStage::Keep(_) => false,
        }
    }

    /// Applies stages one after the other. False if the entry is left out.
    ///
    /// # Errors
    ///
    /// What the stages make of the entry would be too long, or nobody waits for it.
    pub(crate) fn apply_all<'s>(
        stages: impl IntoIterator<Item = &'s PipelineStage>,
        view: &mut EntryView<'_>,
        now: NowNanos,
    ) -> Result<bool, EvalError> {
        for stage in stages {
            view.worked(view.line.len());
            let stays = stage.apply(view, now);
            if let Some(refusal) = view.refusal() {
                return Err(EvalError::of_text("what the query makes of an entry", refusal));
            }
            if !stays {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Applies the stage. False if the entry is left out.
    fn apply(&self, view: &mut EntryView<'_>, now: NowNanos) -> bool {
        match self {
            PipelineStage::Line(filter) => filter.holds(&view.line),
            PipelineStage::Labels(filter) => filter.holds(view),
            PipelineStage::Json(_)
            | PipelineStage::Logfmt { .. }
            | PipelineStage::Pattern(_)
            | PipelineStage::Unpack
                if view.is_complete() =>
            {
                true
            }
            PipelineStage::Json(paths) if paths.is_empty() => {
                let line = view.line.clone();
                json::flatten(&line, view);
                true
            }
            PipelineStage::Json(paths) => {
                let line = view.line.clone();
                json::extract(&line, paths, view);
                true
            }
            PipelineStage::Logfmt { strict, keep_empty, keys } => {
                let line = view.line.clone();
                match keys.is_empty() {
                    true => logfmt::extract(&line, *strict, *keep_empty, view),
                    false => logfmt::extract_keys(&line, *strict, keys, view),
                }
                true
            }
            PipelineStage::Pattern(pattern) => {
                let line = view.line.clone();
                for (name, value) in pattern.captures(&line) {
                    view.extracted(name, value.into());
                }
                true
            }
            PipelineStage::Regexp { regex, .. } => {
                let line = view.line.clone();
                if let Some(captures) = regex.captures(&line) {
                    for name in regex.capture_names().flatten() {
                        let value = captures.name(name).map_or("", |group| group.as_str());
                        view.extracted(&crate::labels::label_name(name), value.into());
                    }
                }
                true
            }
            PipelineStage::Unpack => {
                json::unpack(view);
                true
            }
            PipelineStage::Decolorize => {
                if view.line.contains(['\x1b', '\u{9b}']) {
                    view.line = Cow::Owned(COLORS.replace_all(&view.line, "").into_owned());
                }
                true
            }
            PipelineStage::LineFormat(template) => {
                let all = || view.all();
                let context =
                    LineContext { line: &view.line, time: view.time, now, labels: &all, go_on: view.patience() };
                let rendered = template.render(context, &|name| view.get(name));
                if let Some(line) = made(rendered, view) {
                    view.set_line(line);
                }
                true
            }
            PipelineStage::UnreadFormat(_) => true,
            PipelineStage::LabelFormat(formats) => {
                label_format(formats, view, now);
                true
            }
            PipelineStage::Drop(picks) => {
                view.retain(|name, value| !picks.iter().any(|pick| pick.picks(name, value)));
                true
            }
            PipelineStage::Keep(picks) => {
                let is_special = |name: &str| [ERROR, DETAILS, PRESERVED].contains(&name);
                view.retain(|name, value| is_special(name) || picks.iter().any(|pick| pick.picks(name, value)));
                true
            }
        }
    }
}

impl LogQuery {
    /// Marks what makes a line that no stage behind it reads.
    pub(crate) fn leave_out_unread_formats(&mut self) {
        let mut is_read = false;
        for stage in self.stages.iter_mut().rev() {
            match stage {
                PipelineStage::LineFormat(template) if !is_read => {
                    *stage = PipelineStage::UnreadFormat(template.clone());
                }
                stage => is_read |= stage.reads_line(),
            }
        }
    }
}

/// The text of a template; an error of the entry or the end of the question without one.
fn made(rendered: Result<String, RenderError>, view: &mut EntryView<'_>) -> Option<String> {
    match rendered {
        Ok(text) => return Some(text),
        Err(RenderError::Failed(reason)) => view.fail("TemplateFormatErr", &reason),
        Err(RenderError::Refused(refusal)) => view.refuse(refusal),
    }
    None
}

fn label_format(formats: &[(String, LabelValue)], view: &mut EntryView<'_>, now: NowNanos) {
    // Every template sees the labels as they were before the first one was set.
    let mut before = None;
    for (name, value) in formats {
        match value {
            LabelValue::Renamed(from) => {
                if let Some(value) = view.get(from).map(str::to_owned) {
                    view.set(name, value, Category::Parsed);
                    view.remove(from);
                }
            }
            LabelValue::Template(template) => {
                let labels = before.get_or_insert_with(|| view.all());
                let all = || labels.clone();
                let context =
                    LineContext { line: &view.line, time: view.time, now, labels: &all, go_on: view.patience() };
                let rendered = template.render(context, &|name| labels.get(name));
                if let Some(value) = made(rendered, view) {
                    view.set(name, value, Category::Parsed);
                }
            }
        }
    }
}

impl LineFilter {
    /// Whether a line passes.
    pub fn holds(&self, line: &str) -> bool {
        let found = self.tests.iter().any(|test| match test {
            LineTest::Text(text) => memmem::find(line.as_bytes(), text.as_bytes()).is_some(),
            LineTest::Regex(_, regex) => regex.is_match(line),
            LineTest::Pattern(pattern) => pattern.matches(line),
            LineTest::Ip(filter) => filter.is_in(line),
        });
        found != self.op.is_negative()
    }
}

impl LabelFilter {
    /// Whether the condition holds. A label that cannot be read as a number sets the error, and the entry stays.
    pub(crate) fn holds(&self, view: &mut EntryView<'_>) -> bool {
        match self {
            LabelFilter::And(left, right) => left.holds(view) && right.holds(view),
            LabelFilter::Or(left, right) => left.holds(view) || right.holds(view),
            LabelFilter::Text(matcher) => matcher.matches(view.get(&matcher.name).unwrap_or_default()),
            LabelFilter::Quantity { name, op, value, unit } => {
                let Some(text) = view.get(name) else { return false };
                match unit.number(text) {
                    Ok(number) => op.holds(number, *value),
                    Err(reason) => {
                        // The first error says more.
                        if !view.has_error() {
                            view.fail("LabelFilterErr", &reason);
                        }
                        true
                    }
                }
            }
            LabelFilter::Ip { name, negative, filter } => {
                // A parser's label decides, also where the line is malformed behind it.
                view.has_error() && !view.is_extracted(name)
                    || view.get(name).is_some_and(|text| filter.is_in(text) != *negative)
            }
        }
    }
}

impl Unit {
    fn number(self, text: &str) -> Result<f64, String> {
        match self {
            Unit::Number => text::go_float(text),
            Unit::Duration => text::go_duration(text).map(|nanos| nanos as f64),
            Unit::Size => text::go_size(text),
        }
    }
}

/// Whether an entry whose label has this value may pass a condition on that label.
pub(crate) fn label_value_may_pass(filter: &LabelFilter, value: Option<&str>) -> bool {
    match filter {
        LabelFilter::Text(matcher) => matcher.matches(value.unwrap_or_default()),
        LabelFilter::Quantity { op, value: wanted, unit, .. } => {
            value.is_some_and(|text| unit.number(text).map_or(true, |number| op.holds(number, *wanted)))
        }
        // An error of another condition lets it pass.
        LabelFilter::And(..) | LabelFilter::Or(..) | LabelFilter::Ip { .. } => true,
    }
}

/// The sequences that color a terminal, in the expression of the usual libraries that strip colors.
static COLORS: LazyLock<Regex> = LazyLock::new(|| {
    let sequence = r"[\x1b\x{9b}][\[\]()#;?]*(?:(?:(?:[a-zA-Z0-9]*(?:;[a-zA-Z0-9]*)*)?\x07)|(?:(?:[0-9]{1,4}(?:;[0-9]{0,4})*)?[0-9A-PRZcf-ntqry=><~]))";
    Regex::new(sequence).expect("the expression is constant")
});

#[cfg(test)]
mod tests;
