//! Combinations of the values that matter of entries, and what becomes of each.

use super::entry_question::{AlikeLine, AlikeOutcome, EntryNeeds, EntrySink, LineNeed};
use super::group_step::GroupStep;
use super::line_parts::{LineNeeds, pieces_of};
use super::value_numbers::{ABSENT, ValueNumbers};
use crate::entity::{OwnedRow, OwnedValue};
use crate::record::StoredRecord;
use daytable_model::key::RowKey;
use daytable_model::line::{LAYOUT, VERBATIM};
use daytable_model::record::Level;
use daytable_model::stream::STREAM;
use daytable_model::time::Ticks;
use std::collections::HashMap;
use std::sync::Arc;

/// Memory of a combination beside its values.
const COMBINATION_BYTES: usize = 48;
/// What stands in for a name or a text that does not matter. Each record has an instance.
pub(super) const STAND_IN: &str = "0";
/// Stands in for a value that is added up; the next ones for those of other columns.
const FIRST_VALUE: u32 = 73_692_841;

/// Combinations of values of batches that have the same columns.
pub(super) struct EntryShape {
    pub(super) inputs: Vec<EntryInput>,
    pub(super) steps: Vec<GroupStep>,
    outcomes: Vec<Option<CombinationOutcome>>,
}

/// What becomes of a combination.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum CombinationOutcome {
    Dropped,
    Open,
    Group(u32, f64),
    /// The value is in the column of the input with this number.
    Valued(u32, usize),
}

/// A value that tells combinations apart.
pub(super) struct EntryInput {
    pub(super) kind: InputKind,
    pub(super) numbers: ValueNumbers,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum InputKind {
    /// The code of the level.
    Level,
    Partition,
    Stream,
    /// Whether the line is read, and whether a value that it does not show may tell a level.
    Line,
    /// A property by its name.
    Property(Box<str>),
    /// Whether there is a value to add up, and whether it is empty.
    Valued(Box<str>),
}

/// The number of a line that is read, and of one with values that may tell a level.
pub(super) const LINE: u32 = 1;
pub(super) const LINE_TELLS: u32 = 2;
/// The number of an empty value, and of another one, that is added up.
pub(super) const EMPTY: u32 = 1;
pub(super) const VALUED: u32 = 2;

impl EntryShape {
    /// No combination yet of values of these kinds.
    pub(super) fn new(kinds: &[InputKind]) -> EntryShape {
        let input = |kind: &InputKind| EntryInput { kind: kind.clone(), numbers: ValueNumbers::exact() };
        EntryShape {
            inputs: kinds.iter().map(input).collect(),
            steps: kinds.iter().map(|_| GroupStep::default()).collect(),
            outcomes: Vec::new(),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let inputs = self.inputs.iter().map(|input| input.numbers.bytes()).sum::<usize>();
        inputs + self.steps.iter().map(GroupStep::bytes).sum::<usize>() + COMBINATION_BYTES * self.outcomes.len()
    }

    /// What becomes of a combination, in a table; `None` if the question ends.
    pub(super) fn outcome(
        &mut self,
        of: (&EntryNeeds<'_>, &Arc<str>),
        sink: &mut dyn EntrySink,
        layouts: &HashMap<Box<str>, Arc<LineNeeds>>,
        combination: usize,
    ) -> Option<CombinationOutcome> {
        if let Some(Some(known)) = self.outcomes.get(combination) {
            return Some(*known);
        }
        let outcome = self.new_outcome(of, sink, layouts, combination)?;
        if self.outcomes.len() <= combination {
            self.outcomes.resize(combination + 1, None);
        }
        self.outcomes[combination] = Some(outcome);
        Some(outcome)
    }

    fn new_outcome(
        &self,
        (needs, table): (&EntryNeeds<'_>, &Arc<str>),
        sink: &mut dyn EntrySink,
        layouts: &HashMap<Box<str>, Arc<LineNeeds>>,
        combination: usize,
    ) -> Option<CombinationOutcome> {
        let mut numbers = vec![ABSENT; self.inputs.len()];
        let mut group = combination;
        for (step, number) in self.steps.iter().zip(&mut numbers).rev() {
            let (parent, value) = step.parts(group);
            (group, *number) = (parent as usize, value);
        }
        let mut row = OwnedRow {
            partition: STAND_IN.into(),
            key: RowKey::new(Ticks::UNIX_EPOCH, 0, 0),
            level: None,
            properties: Vec::with_capacity(self.inputs.len()),
        };
        let (mut line, mut valued, mut layout, mut has_message) = (ABSENT, None, None, false);
        for (at, (input, number)) in self.inputs.iter().zip(numbers).enumerate() {
            let value = || input.numbers.value(number);
            match &input.kind {
                InputKind::Level => row.level = u8::try_from(number).ok().and_then(Level::from_code),
                InputKind::Line => line = number,
                _ if number == ABSENT => {}
                InputKind::Partition => {
                    if let Some(OwnedValue::String(partition)) = value() {
                        row.partition = partition.into();
                    }
                }
                InputKind::Stream => row.properties.extend(value().map(|value| (STREAM.to_owned(), value))),
                InputKind::Property(name) => {
                    let value = value();
                    if let (LAYOUT, Some(OwnedValue::String(text))) = (&**name, &value) {
                        layout = layouts.get(text.as_str());
                    }
                    has_message |= **name == *"Message";
                    row.properties.extend(value.map(|value| (name.to_string(), value)));
                }
                InputKind::Valued(name) => {
                    let mut text = String::new();
                    if number == VALUED {
                        let number = FIRST_VALUE + u32::try_from(at).unwrap_or(0);
                        text = format!("{number}{}", needs.value.as_ref().map_or("", |value| value.suffix));
                        // Of two values, only the record says which one is meant.
                        if valued.replace((at, f64::from(number))).is_some() {
                            return Some(CombinationOutcome::Open);
                        }
                    }
                    row.properties.push((name.to_string(), OwnedValue::String(text)));
                }
            }
        }
        let is_read = |name: &str| {
            self.inputs.iter().any(|input| match &input.kind {
                InputKind::Property(known) | InputKind::Valued(known) => **known == *name,
                _ => false,
            })
        };
        let alike = match (line, layout) {
            (ABSENT, _) => AlikeLine::None,
            (tells, Some(parts)) => {
                let mut is_real = true;
                for (name, _) in parts.others.iter().filter(|(name, _)| !is_read(name)) {
                    is_real = false;
                    let value = match &**name {
                        "Message" => OwnedValue::String(STAND_IN.into()),
                        VERBATIM => OwnedValue::String(pieces_of(STAND_IN, parts.pieces)),
                        _ => OwnedValue::Int64(0),
                    };
                    row.properties.push((name.to_string(), value));
                }
                match is_real {
                    true => AlikeLine::Real,
                    false => AlikeLine::Reduced(tells == LINE_TELLS || parts.may_tell_level),
                }
            }
            // A message that tells no level was not read.
            (_, None) if matches!(needs.line, LineNeed::Unused) && !has_message => AlikeLine::Reduced(false),
            (_, None) => AlikeLine::Real,
        };
        let record = StoredRecord::new(table.clone(), row);
        Some(match (sink.outcome(&record, alike), valued) {
            (AlikeOutcome::Ended, _) => return None,
            (AlikeOutcome::Dropped, _) => CombinationOutcome::Dropped,
            (AlikeOutcome::Open, _) => CombinationOutcome::Open,
            (AlikeOutcome::Group(group, value), None) => CombinationOutcome::Group(group, value),
            (AlikeOutcome::Group(group, value), Some((input, known))) if value == known => {
                CombinationOutcome::Valued(group, input)
            }
            (AlikeOutcome::Group(..), Some(_)) => CombinationOutcome::Open,
        })
    }
}
