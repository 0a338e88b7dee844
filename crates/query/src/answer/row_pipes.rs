//! Pipes that look at one row at a time: what each makes of a row.
//!
//! A [`RowPipe`] is prepared once, and any thread may apply it: to the rows of an answer, or once to what many records have
//! in common.

use super::accumulator::whole;
use super::item::{AnswerItem, AnswerRow};
use super::math::{MathExpression, NOT_A_NUMBER};
use super::pattern::{Extractor, FormatPattern};
use super::row_batch::RowBatch;
use crate::entity::OwnedValue;
use daytable_logsql::line_pattern::pattern_of;
use daytable_logsql::number::Number;
use daytable_logsql::query::{Expression, Extraction, FieldPattern};
use daytable_logsql::{FieldName, Fields, Pipe, Predicate};
use daytable_model::property::Property;
use daytable_model::time::Ticks;
use daytable_platform::budget::{
    BoundedText, GroupName, OverBudget, RECORD_BYTES_MAX, TextRefusal, TextResult, VALUE_BYTES_MAX,
};

/// A pipe that looks at one row at a time, prepared for many rows.
pub(super) struct RowPipe(RowChange);

enum RowChange {
    /// Changes columns.
    Columns(Box<ChangesColumns>),
    /// Computes numbers.
    Numbers(Vec<(MathExpression, FieldName)>),
    /// Chooses columns.
    Fields(Vec<FieldPattern>),
    /// Chooses rows.
    Rows(Predicate),
    /// A pipe of many rows, which leaves one as it is.
    None,
}

type ChangesColumns = dyn Fn(&mut AnswerRow, &MadeTexts<'_>) -> TextResult + Send + Sync;

impl RowPipe {
    /// Prepares a pipe.
    pub(super) fn new(pipe: &Pipe, now: Ticks) -> RowPipe {
        RowPipe(change(pipe, now))
    }

    /// Changes a row. False if the pipe does not pass it on.
    ///
    /// # Errors
    ///
    /// A value would be too long, or `go_on` says that the question is over.
    pub(super) fn apply(&self, row: &mut AnswerRow, go_on: &dyn Fn() -> bool) -> Result<bool, TextRefusal> {
        match &self.0 {
            RowChange::Columns(change) => change(row, &MadeTexts { go_on })?,
            RowChange::Numbers(columns) => columns.iter().for_each(|(expression, name)| {
                let number = |read| [row.field(read).and_then(Number::of).unwrap_or(NOT_A_NUMBER)];
                let numbers: Vec<[Number; 1]> = expression.reads().iter().map(number).collect();
                let numbers: Vec<&[Number]> = numbers.iter().map(|number| &number[..]).collect();
                let value = expression.values(1, &numbers).first().map(|number| number.as_property().into());
                row.set(name, value);
            }),
            RowChange::Fields(patterns) => {
                *row = with_fields(patterns, AnswerItem::Row(std::mem::take(row))).into_row();
            }
            RowChange::Rows(predicate) => return Ok(predicate.matches(row)),
            RowChange::None => {}
        }
        Ok(true)
    }

    /// Changes rows that come together. False, and nothing is changed, if the pipe takes them one by one.
    pub(super) fn apply_to_all(&self, rows: &mut RowBatch<'_>) -> bool {
        let RowChange::Numbers(columns) = &self.0 else { return false };
        columns.iter().for_each(|(expression, name)| rows.compute(expression, name));
        true
    }
}

/// Why an answer is cut where a text was refused; `None` if nobody waits for the answer any more.
pub(super) fn refused_text(refusal: TextRefusal) -> Option<OverBudget> {
    match refusal {
        TextRefusal::TooLong(_) => {
            Some(OverBudget::TooLarge(format!("a value that a pipe makes {refusal}; make less of it")))
        }
        TextRefusal::Stopped => None,
    }
}

/// An item with the columns of `fields` alone.
pub(super) fn with_fields(patterns: &[FieldPattern], item: AnswerItem) -> AnswerItem {
    let is_all = |pattern: &FieldPattern| pattern.is_prefix && pattern.name.written().is_empty();
    if patterns.iter().any(is_all) {
        return item;
    }
    let mut row = AnswerRow::at(&item);
    for pattern in patterns {
        if !pattern.is_prefix {
            let value = item.field(&pattern.name).map(OwnedValue::from);
            row.set_field(&pattern.name, value);
            continue;
        }
        item.each_field(&mut |name, value| {
            if pattern.matches(name) {
                row.set_field(&FieldName::new(name), Some(value.into()));
            }
        });
    }
    AnswerItem::Row(row)
}

fn changing(change: impl Fn(&mut AnswerRow, &MadeTexts<'_>) -> TextResult + Send + Sync + 'static) -> RowChange {
    RowChange::Columns(Box::new(change))
}

fn change(pipe: &Pipe, now: Ticks) -> RowChange {
    let condition = |filter: &Option<Expression>| filter.as_ref().map(|filter| Predicate::new(filter, now));
    match pipe {
        Pipe::Filter(filter) => RowChange::Rows(Predicate::new(filter, now)),
        Pipe::Fields(patterns) => RowChange::Fields(patterns.clone()),
        Pipe::Delete(patterns) => {
            let patterns = patterns.clone();
            changing(move |row, _| {
                for pattern in &patterns {
                    // Another column may have the name that a query may also call this one.
                    let written = pattern.name.written();
                    match !pattern.is_prefix && row.columns().iter().any(|(name, _)| **name == *written) {
                        true => row.retain(|name| name != written),
                        false => row.retain(|name| !is_column(pattern, name)),
                    }
                }
                Ok(())
            })
        }
        Pipe::Copy(pairs) => {
            let pairs = pairs.clone();
            changing(move |row, made| {
                for (from, to) in &pairs {
                    made.check(row, to, row.field(from).map_or(0, property_bytes))?;
                    let value = row.field(from).map(OwnedValue::from);
                    row.set(to, value);
                }
                Ok(())
            })
        }
        Pipe::Rename(pairs) => {
            let pairs = pairs.clone();
            changing(move |row, _| {
                pairs.iter().for_each(|(from, to)| row.rename(from, to));
                Ok(())
            })
        }
        Pipe::Extract(extraction) => extracting(extraction, Extractor::template(&extraction.pattern), now),
        Pipe::ExtractRegexp(extraction) => extracting(extraction, Extractor::regexp(&extraction.pattern), now),
        Pipe::Format { pattern, name, condition: only, keep_original, skip_empty } => {
            let pattern = FormatPattern::new(pattern);
            let (name, only, keep, skip) = (name.clone(), condition(only), *keep_original, *skip_empty);
            changing(move |row, made| {
                if only.as_ref().is_none_or(|only| only.matches(row)) {
                    let mut text = made.text(row, &name);
                    pattern.write(row, &mut text)?;
                    put_text(row, &name, text.finish(), keep, skip);
                }
                Ok(())
            })
        }
        Pipe::Replace { is_regexp, from, to, at, limit, condition: only } => {
            let (from, at, to, only) = (from.clone(), at.clone(), to.clone(), condition(only));
            let limit = usize::try_from(limit.unwrap_or(0)).unwrap_or(usize::MAX);
            // Zero is not a limit.
            let limit = if limit == 0 { usize::MAX } else { limit };
            let regex = is_regexp.then(|| Extractor::checked_regex(&from));
            changing(move |row, made| {
                if only.as_ref().is_some_and(|only| !only.matches(row)) {
                    return Ok(());
                }
                let mut replaced = made.text(row, &at);
                {
                    let present = row.field(&at).map(Property::text).filter(|text| !text.is_empty());
                    let Some(text) = present else { return Ok(()) };
                    match &regex {
                        Some(regex) => replace_matches(regex, &text, &to, limit, &mut replaced)?,
                        None => replaced.push_replaced(&text, &from, &to, limit)?,
                    }
                }
                row.set(&at, Some(OwnedValue::String(replaced.finish())));
                Ok(())
            })
        }
        Pipe::Math(columns) => {
            let prepared = |(expression, name): &(_, FieldName)| (MathExpression::new(expression, now), name.clone());
            RowChange::Numbers(columns.iter().map(prepared).collect())
        }
        Pipe::Length { of, name } => {
            let (of, name) = (of.clone(), name.clone());
            changing(move |row, _| {
                let length = row.field(&of).map_or(0, |value| value.text().len());
                row.set(&name, Some(whole(length as u64)));
                Ok(())
            })
        }
        Pipe::Pattern { of, name } => {
            let (of, name) = (of.clone(), name.clone());
            changing(move |row, made| {
                let pattern = row.field(&of).map(|value| pattern_of(&value.text())).unwrap_or_default();
                made.check(row, &name, pattern.len())?;
                put_text(row, &name, pattern, false, false);
                Ok(())
            })
        }
        Pipe::Stats { .. }
        | Pipe::Top { .. }
        | Pipe::Uniq { .. }
        | Pipe::Sort { .. }
        | Pipe::Limit(_)
        | Pipe::Offset(_)
        | Pipe::Sample(_)
        | Pipe::Facets { .. }
        | Pipe::FieldNames { .. }
        | Pipe::FieldValues { .. }
        | Pipe::Join(_)
        | Pipe::Sessions { .. }
        | Pipe::Gaps { .. }
        | Pipe::Pivot(_) => RowChange::None,
    }
}

fn extracting(extraction: &Extraction, extractor: Extractor, now: Ticks) -> RowChange {
    let Extraction { from, condition, keep_original, skip_empty, .. } = extraction.clone();
    let condition = condition.map(|filter| Predicate::new(&filter, now));
    let names = extractor.names();
    changing(move |row, made| {
        if condition.as_ref().is_some_and(|condition| !condition.matches(row)) {
            return Ok(());
        }
        // Groups within groups have the same text, each once.
        let mut room = made.text(row, &from);
        let text = row.field(&from).map(Property::text).unwrap_or_default();
        let values = extractor.extract(&text, &mut room)?;
        for (name, text) in names.iter().zip(values) {
            made.check(row, name, text.len())?;
            put_text(row, name, text, keep_original, skip_empty);
        }
        Ok(())
    })
}

/// Sets a column to a computed text; an empty text is not a value.
fn put_text(row: &mut AnswerRow, name: &FieldName, text: String, keep_original: bool, skip_empty: bool) {
    let is_present = row.field(name).is_some_and(|value| !matches!(value, Property::String("")));
    if keep_original && is_present || skip_empty && text.is_empty() {
        return;
    }
    row.set(name, (!text.is_empty()).then_some(OwnedValue::String(text)));
}

/// Whether a column belongs to a pattern: by its own name, or as a query calls it.
fn is_column(pattern: &FieldPattern, name: &str) -> bool {
    pattern.matches(name)
        || !pattern.is_prefix
            && (pattern.name.property() == name
                || pattern.name.column() != daytable_logsql::Column::Field
                    && FieldName::new(name).column() == pattern.name.column())
}

/// The texts that a stage makes: each, and all of a row together, have a bound.
struct MadeTexts<'q> {
    go_on: &'q dyn Fn() -> bool,
}

impl<'q> MadeTexts<'q> {
    /// The bytes that a value of a column may have.
    fn room(row: &AnswerRow, column: &FieldName) -> usize {
        let replaced = row.field(column).map_or(0, property_bytes);
        let others = row.text_bytes().saturating_sub(replaced);
        VALUE_BYTES_MAX.min(RECORD_BYTES_MAX.saturating_sub(others))
    }

    /// A text for a column of the row.
    fn text(&self, row: &AnswerRow, column: &FieldName) -> BoundedText<'q> {
        BoundedText::new(MadeTexts::room(row, column), self.go_on)
    }

    /// Checks a value of this many bytes before it is put into a column.
    fn check(&self, row: &AnswerRow, column: &FieldName, bytes: usize) -> TextResult {
        let room = MadeTexts::room(row, column);
        if bytes > room { Err(TextRefusal::TooLong(room)) } else { Ok(()) }
    }
}

/// The bytes of a value's text or blob.
pub(super) fn property_bytes(value: Property<'_>) -> usize {
    match value {
        Property::String(text) => text.len(),
        Property::Binary(bytes) => bytes.len(),
        _ => 0,
    }
}

/// Adds a text with what an expression matches replaced, at most `limit` times.
fn replace_matches(
    regex: &regex::Regex,
    text: &str,
    replacement: &str,
    limit: usize,
    to: &mut BoundedText<'_>,
) -> TextResult {
    let mut end = 0;
    let mut copy = |place: &regex::Match<'_>, to: &mut BoundedText<'_>| {
        // Behind each match the rest may be read once more.
        to.worked(text.len() >> 8)?;
        to.push_str(&text[end..place.start()])?;
        end = place.end();
        Ok(())
    };
    // Without groups, a match is found in less time.
    if !replacement.contains('$') {
        for found in regex.find_iter(text).take(limit) {
            copy(&found, to)?;
            to.push_str(replacement)?;
        }
        return to.push_str(&text[end..]);
    }
    for found in regex.captures_iter(text).take(limit) {
        copy(&found.get_match(), to)?;
        to.push_expanded(replacement, |group| match group {
            GroupName::Number(number) => found.get(number).map(|group| group.as_str()),
            GroupName::Name(name) => found.name(name).map(|group| group.as_str()),
        })?;
    }
    to.push_str(&text[end..])
}
