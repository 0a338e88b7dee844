//! The stages of a pipeline: what happens to an entry before it is shown or counted.

pub(crate) mod json;
mod logfmt;
pub(crate) mod view;

use crate::ast::*;
use crate::template::{LineContext, NowNanos};
use crate::text;
use memchr::memmem;
use std::borrow::Cow;
pub(crate) use view::EntryView;
use view::{Category, DETAILS, ERROR};

impl PipelineStage {
    /// Applies the stage. False if the entry is left out.
    pub(crate) fn apply(&self, view: &mut EntryView<'_>, now: NowNanos) -> bool {
        match self {
            PipelineStage::Line(filter) => filter.holds(&view.line),
            PipelineStage::Labels(filter) => filter.holds(view),
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
                logfmt::extract(&line, *strict, *keep_empty, keys, view);
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
                if view.line.contains('\x1b') {
                    view.line = Cow::Owned(decolorized(&view.line));
                }
                true
            }
            PipelineStage::LineFormat(template) => {
                let context = LineContext { line: &view.line, time: view.time, now };
                match template.render(context, &|name| view.get(name).map(str::to_owned)) {
                    Ok(line) => view.line = Cow::Owned(line),
                    Err(reason) => view.fail("TemplateFormatErr", &reason),
                }
                true
            }
            PipelineStage::LabelFormat(formats) => {
                label_format(formats, view, now);
                true
            }
            PipelineStage::Drop(picks) => {
                view.retain(|name, value| !picks.iter().any(|pick| pick.picks(name, value)));
                true
            }
            PipelineStage::Keep(picks) => {
                let is_special = |name: &str| name == ERROR || name == DETAILS;
                view.retain(|name, value| is_special(name) || picks.iter().any(|pick| pick.picks(name, value)));
                true
            }
        }
    }
}

fn label_format(formats: &[(String, LabelValue)], view: &mut EntryView<'_>, now: NowNanos) {
    // Every template sees the labels as they were before the first one was set.
    let mut before = None;
    for (name, value) in formats {
        match value {
            LabelValue::Renamed(from) => {
                if let Some((value, category)) = view.with_category(from) {
                    let value = value.to_owned();
                    view.remove(from);
                    view.set(name, value, category);
                }
            }
            LabelValue::Template(template) => {
                let labels = before.get_or_insert_with(|| view.all());
                let context = LineContext { line: &view.line, time: view.time, now };
                match template.render(context, &|name| labels.get(name).map(str::to_owned)) {
                    Ok(value) => view.set(name, value, Category::Parsed),
                    Err(reason) => view.fail("TemplateFormatErr", &reason),
                }
            }
        }
    }
}

impl LineFilter {
    pub(crate) fn holds(&self, line: &str) -> bool {
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
                if view.has_error() {
                    return true;
                }
                let Some(text) = view.get(name).filter(|text| !text.is_empty()) else { return false };
                let number = match unit {
                    Unit::Number => text::parse_number(text),
                    Unit::Duration => text::duration(text, false).map(|nanos| nanos as f64),
                    Unit::Size => text::size(text),
                };
                match number {
                    Some(number) => op.holds(number, *value),
                    None => {
                        let kind = match unit {
                            Unit::Number => "number",
                            Unit::Duration => "duration",
                            Unit::Size => "size",
                        };
                        let reason = format!("{} is no {kind}", text::quoted(text));
                        view.fail("LabelFilterErr", &reason);
                        true
                    }
                }
            }
            LabelFilter::Ip { name, negative, filter } => {
                if view.has_error() {
                    return true;
                }
                let Some(text) = view.get(name) else { return false };
                match filter.is(text) {
                    Ok(found) => found != *negative,
                    Err(reason) => {
                        view.fail("LabelFilterErr", &reason);
                        true
                    }
                }
            }
        }
    }
}

/// The line without the sequences that color a terminal.
fn decolorized(line: &str) -> String {
    let (mut plain, mut rest) = (String::with_capacity(line.len()), line);
    while let Some(at) = rest.find('\x1b') {
        plain.push_str(&rest[..at]);
        let sequence = &rest[at + 1..];
        let parameters =
            sequence.strip_prefix('[').map(|s| s.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';'));
        match parameters.and_then(|end| end.strip_prefix(|c: char| c.is_ascii_alphabetic())) {
            Some(behind) => rest = behind,
            None => {
                plain.push('\x1b');
                rest = sequence;
            }
        }
    }
    plain + rest
}

#[cfg(test)]
mod tests;
