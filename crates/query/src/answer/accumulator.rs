//! The functions of `stats`: values are added one by one, accumulators of the same function merge, and each gives one
//! value in the end.
//!
//! Absent and empty values count only for `count()` and `count_empty`, and NaN is no value. Sums and means take plain numbers;
//! quantiles take durations and sizes, too, and give a duration if all values are durations.

use super::item::{RecordPlace, value_bytes};
use super::order::{compare, compare_texts, compare_values};
use super::quantile::QuantileSketch;
use crate::entity::OwnedValue;
use crate::spilled::{Spilled, SpilledBytes};
use daytable_logsql::number::{Number, plain};
use daytable_logsql::query::{Aggregate, Function};
use daytable_logsql::unit::{duration_nanos, show_duration, size_bytes};
use daytable_logsql::{FieldName, Fields};
use daytable_model::key::RowKey;
use daytable_model::property::Property;
use foldhash::quality::FixedState;
use std::cmp::Ordering;
use std::collections::{BTreeSet, HashSet};
use std::hash::{BuildHasher, Hasher};
use std::sync::{Arc, LazyLock};

/// The state of one function in one group.
#[derive(Clone, Debug)]
pub enum Accumulator {
    /// A number of records or bytes.
    Count(u64),
    /// The hashes of different values.
    Uniq(UniqHashes),
    /// The number of different values, once all are counted.
    UniqCount(u64),
    /// A sum, and the number of its values.
    Sum(Sum),
    /// The least or the greatest value.
    Extreme(Option<OwnedValue>),
    /// Numbers whose quantile is asked; whether all were durations.
    Quantile(Box<QuantileSketch>, bool),
    /// Values in their order.
    Values(Vec<OwnedValue>),
    /// Different values by text.
    UniqValues(BTreeSet<NaturalText>),
    /// A value or a record as JSON, with what it was chosen by.
    Chosen(Option<ChosenValue>),
}

/// A value, or a record as JSON, that was chosen of several.
#[derive(Clone, Debug)]
pub struct ChosenValue {
    /// The value by which it was chosen.
    by: OwnedValue,
    /// The place of its record among all; `None` for a row of a pipe.
    place: Option<(RowKey, Arc<str>)>,
    value: OwnedValue,
}

impl ChosenValue {
    /// About its memory.
    fn bytes(&self) -> usize {
        64 + value_bytes(&self.by) + value_bytes(&self.value)
    }
}

/// Passes each field of a record to a function.
pub type EachField<'e> = &'e dyn Fn(&mut dyn FnMut(&str, Property<'_>));

/// A text in the order of [`compare_texts`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NaturalText(pub String);

impl Ord for NaturalText {
    fn cmp(&self, other: &NaturalText) -> std::cmp::Ordering {
        let by_value = compare(Property::String(&self.0), Property::String(&other.0));
        by_value.then_with(|| compare_texts(&self.0, &other.0)).then_with(|| self.0.cmp(&other.0))
    }
}

impl PartialOrd for NaturalText {
    fn partial_cmp(&self, other: &NaturalText) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// A sum that does not depend on the order of its values: whole numbers are exact, and fractions are compensated.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum {
    whole: i128,
    fraction: f64,
    compensation: f64,
    count: u64,
    has_fractions: bool,
}

impl Sum {
    /// The sum of so many whole numbers.
    pub(super) fn of_whole(sum: i64, count: u64) -> Sum {
        Sum { whole: sum.into(), count, ..Sum::default() }
    }

    /// Adds a number.
    pub fn add(&mut self, number: Number) {
        self.count += 1;
        match number {
            Number::Whole(n) => self.whole += i128::from(n),
            Number::Float(n) => {
                self.has_fractions = true;
                self.add_fraction(n);
            }
        }
    }

    /// Neumaier's variant of [Kahan's summation](https://en.wikipedia.org/wiki/Kahan_summation_algorithm).
    fn add_fraction(&mut self, n: f64) {
        let (sum, lost) = sum_and_lost(self.fraction, n);
        self.compensation += lost;
        self.fraction = sum;
    }

    /// Adds another sum.
    pub(super) fn merge(&mut self, other: &Sum) {
        self.whole += other.whole;
        self.add_fraction(other.fraction);
        self.compensation += other.compensation;
        self.count += other.count;
        self.has_fractions |= other.has_fractions;
    }

    /// The sum; `None` of nothing.
    fn total(&self) -> Option<f64> {
        let (sum, lost) = sum_and_lost(self.fraction, self.whole as f64);
        // What an infinite sum lost is not a number. All that was lost comes at once: each addition rounds.
        let lost = if sum.is_finite() { lost + self.compensation } else { 0.0 };
        (self.count > 0).then_some(sum + lost)
    }

    /// The sum, exact where all numbers are whole, and whole where it is.
    pub(super) fn value(&self) -> Option<OwnedValue> {
        self.whole_value(1).or_else(|| self.total().map(number_value))
    }

    /// The mean, exact where it is whole.
    fn mean(&self) -> Option<OwnedValue> {
        let mean = || self.total().map(|total| number_value(total / self.count as f64));
        self.whole_value(self.count.into()).or_else(mean)
    }

    /// A part of the sum, if it is a whole number of 64 bits.
    fn whole_value(&self, parts: i128) -> Option<OwnedValue> {
        let is_whole = self.count > 0 && !self.has_fractions && self.whole % parts == 0;
        is_whole.then(|| i64::try_from(self.whole / parts).ok().map(OwnedValue::Int64)).flatten()
    }
}

/// The sum of two numbers, and what it lost by rounding.
fn sum_and_lost(one: f64, other: f64) -> (f64, f64) {
    let sum = one + other;
    let lost = if one.abs() >= other.abs() { (one - sum) + other } else { (other - sum) + one };
    (sum, lost)
}

/// The plain number of a value, without units.
pub(super) fn plain_number(value: Property<'_>) -> Option<Number> {
    match value {
        Property::String(text) => plain(text),
        Property::DateTime(_) => None,
        value => Number::of(value),
    }
}

/// The number of a value, with its unit, and whether it is a duration.
pub(super) fn measured_number(value: Property<'_>) -> Option<(f64, bool)> {
    let Property::String(text) = value else { return plain_number(value).map(|number| (number.as_f64(), false)) };
    let with_unit = || {
        let duration = duration_nanos(text).map(|nanos| (nanos as f64, true));
        duration.or_else(|| size_bytes(text).map(|bytes| (bytes as f64, false)))
    };
    plain(text).map(|number| (number.as_f64(), false)).or_else(with_unit)
}

fn is_empty(value: Option<Property<'_>>) -> bool {
    matches!(value, None | Some(Property::String("")))
}

fn is_nan(value: Property<'_>) -> bool {
    matches!(value, Property::Double(number) if number.is_nan())
}

/// Takes a value if it is less, or greater, than the one so far. Of values that are equal as numbers, the text decides,
/// and then the type, so that the order in which values come does not matter.
pub(super) fn add_extreme(end: &mut Option<OwnedValue>, function: Function, value: Property<'_>) {
    if is_nan(value) {
        return;
    }
    let is_better = |end: &OwnedValue| {
        let (end, order) = (end.as_property(), compare(value, end.as_property()));
        let by_text = || value.text().cmp(&end.text()).then_with(|| (value.kind() as u8).cmp(&(end.kind() as u8)));
        let order = if order.is_eq() && value != end { by_text() } else { order };
        if function == Function::Min { order.is_lt() } else { order.is_gt() }
    };
    if end.as_ref().is_none_or(is_better) {
        *end = Some(value.into());
    }
}

/// The hashes of different values.
pub(super) type UniqHashes = HashSet<u128, foldhash::fast::FixedState>;

/// The memory of hashes: a table has 17 bytes a place, and at most seven of eight places are taken.
pub(super) fn uniq_bytes(hashes: &UniqHashes) -> usize {
    20 * hashes.capacity()
}

/// The hash by which `count_uniq` tells values of its fields apart. An absent value is an empty one.
pub(super) fn uniq_hash<'t>(texts: impl Iterator<Item = Option<&'t str>> + Clone) -> u128 {
    let half = |seed| {
        let mut hasher = FixedState::with_seed(seed).build_hasher();
        for text in texts.clone().map(Option::unwrap_or_default) {
            hasher.write_u64(text.len() as u64);
            hasher.write(text.as_bytes());
        }
        u128::from(hasher.finish())
    };
    half(1) << 64 | half(2)
}

impl Accumulator {
    /// The state of a function without values.
    pub fn new(function: Function) -> Accumulator {
        match function {
            Function::Count | Function::CountEmpty | Function::SumLength | Function::Rate => Accumulator::Count(0),
            Function::CountUniq => Accumulator::Uniq(UniqHashes::default()),
            Function::Sum | Function::Avg | Function::RateSum => Accumulator::Sum(Sum::default()),
            Function::Min | Function::Max => Accumulator::Extreme(None),
            Function::Quantile(_) => Accumulator::Quantile(Box::default(), true),
            Function::Values => Accumulator::Values(Vec::new()),
            Function::UniqValues => Accumulator::UniqValues(BTreeSet::new()),
            Function::Any | Function::First | Function::Last => Accumulator::Chosen(None),
            Function::RowAny | Function::RowMin | Function::RowMax => Accumulator::Chosen(None),
        }
    }

    /// Adds a record or a row to values in their order, to different values or to what is chosen, and returns the memory in bytes
    /// that this took. States of other functions are added up elsewhere, by group.
    pub(super) fn add(
        &mut self,
        aggregate: &Aggregate,
        row: &impl Fields,
        place: Option<RecordPlace<'_>>,
        each_field: EachField<'_>,
    ) -> usize {
        let values = || aggregate.fields.iter().filter_map(|field| row.field(field));
        let present = || values().filter(|value| !is_empty(Some(*value)));
        match self {
            Accumulator::Values(list) => {
                let limit = usize::try_from(aggregate.limit.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
                let before = list.len();
                list.extend(present().take(limit.saturating_sub(before)).map(OwnedValue::from));
                list[before..].iter().map(|value| 32 + value_bytes(value)).sum()
            }
            Accumulator::UniqValues(texts) => {
                let mut bytes = 0;
                for value in present() {
                    let text = NaturalText(value.text().into_owned());
                    let length = text.0.len();
                    if texts.insert(text) {
                        bytes += 64 + length;
                    }
                }
                bytes
            }
            Accumulator::Chosen(chosen) => choose(chosen, aggregate, row, place, each_field),
            _ => 0,
        }
    }

    /// Adds the state of another group of the same function, and returns the memory in bytes that further
    /// different values and numbers of a quantile took.
    pub fn merge(&mut self, other: Accumulator, function: Function) -> usize {
        match (self, other) {
            (Accumulator::Count(count), Accumulator::Count(more)) => *count += more,
            (Accumulator::Uniq(hashes), Accumulator::Uniq(mut more)) => {
                let before = uniq_bytes(hashes);
                if hashes.len() < more.len() {
                    std::mem::swap(hashes, &mut more);
                }
                hashes.extend(more);
                return uniq_bytes(hashes).saturating_sub(before);
            }
            (Accumulator::Sum(sum), Accumulator::Sum(more)) => sum.merge(&more),
            (Accumulator::Extreme(end), Accumulator::Extreme(Some(more))) => {
                let before = end.as_ref().map_or(0, value_bytes);
                add_extreme(end, function, more.as_property());
                return end.as_ref().map_or(0, value_bytes).saturating_sub(before);
            }
            (Accumulator::Quantile(sketch, are), Accumulator::Quantile(more, also)) => {
                let before = sketch.bytes();
                sketch.merge(&more);
                *are &= also;
                return sketch.bytes().saturating_sub(before);
            }
            (Accumulator::Values(list), Accumulator::Values(more)) => {
                let before = list.len();
                list.extend(more);
                return list[before..].iter().map(|value| 32 + value_bytes(value)).sum();
            }
            (Accumulator::UniqValues(texts), Accumulator::UniqValues(more)) => {
                let mut bytes = 0;
                for text in more {
                    let length = text.0.len();
                    bytes += if texts.insert(text) { 64 + length } else { 0 };
                }
                return bytes;
            }
            (Accumulator::Chosen(chosen), Accumulator::Chosen(Some(other))) => {
                let place = other.place.as_ref().map(|(key, partition)| (*key, partition));
                if is_better(chosen, function, other.by.as_property(), place) {
                    let before = chosen.as_ref().map_or(0, ChosenValue::bytes);
                    let bytes = other.bytes();
                    *chosen = Some(other);
                    return bytes.saturating_sub(before);
                }
            }
            _ => {}
        }
        0
    }

    /// Counts different values. Nothing more is added.
    pub(super) fn settle(&mut self) {
        if let Accumulator::Uniq(hashes) = self {
            *self = Accumulator::UniqCount(hashes.len() as u64);
        }
    }

    /// About the memory of what it keeps.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Accumulator::Count(_) | Accumulator::UniqCount(_) | Accumulator::Sum(_) => 0,
            Accumulator::Uniq(hashes) => uniq_bytes(hashes),
            Accumulator::Extreme(end) => end.as_ref().map_or(0, value_bytes),
            Accumulator::Quantile(sketch, _) => 128 + sketch.bytes(),
            Accumulator::Values(values) => values.iter().map(|value| 32 + value_bytes(value)).sum(),
            Accumulator::UniqValues(texts) => texts.iter().map(|text| 64 + text.0.len()).sum(),
            Accumulator::Chosen(chosen) => chosen.as_ref().map_or(0, ChosenValue::bytes),
        }
    }

    /// The bytes of the values that become one text at the end.
    pub(super) fn list_bytes(&self) -> usize {
        match self {
            Accumulator::Values(values) => values.iter().map(|value| 8 + value_bytes(value)).sum(),
            Accumulator::UniqValues(texts) => texts.iter().map(|text| 8 + text.0.len()).sum(),
            _ => 0,
        }
    }

    /// The value. `seconds` is the length of the group's time, for rates.
    pub fn finish(self, aggregate: &Aggregate, seconds: Option<f64>) -> Option<OwnedValue> {
        let seconds = seconds.filter(|seconds| *seconds > 0.0).unwrap_or(1.0);
        let limit = usize::try_from(aggregate.limit.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
        match (self, aggregate.function) {
            (Accumulator::Count(count), Function::Rate) => Some(number_value(count as f64 / seconds)),
            (Accumulator::Count(count), _) => Some(whole(count)),
            (Accumulator::Uniq(hashes), _) => Some(whole(hashes.len().min(limit) as u64)),
            (Accumulator::UniqCount(count), _) => Some(whole(count.min(limit as u64))),
            (Accumulator::Sum(sum), Function::Avg) => sum.mean(),
            (Accumulator::Sum(sum), Function::RateSum) => sum.total().map(|total| number_value(total / seconds)),
            (Accumulator::Sum(sum), _) => sum.value(),
            (Accumulator::Extreme(end), _) => end,
            (Accumulator::Quantile(sketch, are_durations), Function::Quantile(phi)) => {
                let value = sketch.quantile(phi)?;
                Some(if are_durations { OwnedValue::String(show_duration(value as i64)) } else { number_value(value) })
            }
            (Accumulator::Quantile(..), _) => None,
            (Accumulator::Values(values), _) => list(values.iter().take(limit).map(|value| value.as_property().text())),
            (Accumulator::UniqValues(texts), _) => list(texts.into_iter().map(|text| text.0).take(limit)),
            (Accumulator::Chosen(None), Function::RowAny | Function::RowMin | Function::RowMax) => {
                Some(OwnedValue::String("{}".into()))
            }
            (Accumulator::Chosen(chosen), _) => chosen.map(|chosen| chosen.value),
        }
    }
}

/// The order of two groups by their values. Values that are equal as numbers are in the order of their texts.
pub(super) fn compare_groups<'b, 'v, 'o>(
    by: impl Iterator<Item = &'b FieldName>,
    one: impl Iterator<Item = Option<Property<'v>>> + Clone,
    other: impl Iterator<Item = Option<Property<'o>>> + Clone,
) -> Ordering {
    let pairs = one.zip(other);
    let mut values = by.zip(pairs.clone()).map(|(name, (a, b))| compare_values(name, a, b));
    let by_text = || pairs.map(|(a, b)| a.map(Property::text).cmp(&b.map(Property::text))).find(|order| order.is_ne());
    values.find(|order| order.is_ne()).or_else(by_text).unwrap_or(Ordering::Equal)
}

/// A value of a group.
pub(super) fn cell(value: &Option<OwnedValue>) -> Option<Property<'_>> {
    value.as_ref().map(OwnedValue::as_property)
}

impl Spilled for Accumulator {
    fn write(&self, to: &mut Vec<u8>) {
        match self {
            Accumulator::Count(count) => (0u8, *count).write(to),
            // The hashes are written elsewhere: a state that is settled has none.
            Accumulator::Uniq(_) => 1u8.write(to),
            Accumulator::UniqCount(count) => (2u8, *count).write(to),
            Accumulator::Sum(Sum { whole, count, has_fractions: false, .. }) if i64::try_from(*whole).is_ok() => {
                9u8.write(to);
                to.extend_from_slice(&(*whole as i64).to_le_bytes());
                count.write(to);
            }
            Accumulator::Sum(Sum { whole, fraction, compensation, count, has_fractions }) => {
                (3u8, (*whole, (*fraction, *compensation))).write(to);
                (*count, *has_fractions).write(to);
            }
            Accumulator::Extreme(end) => {
                4u8.write(to);
                end.write(to);
            }
            Accumulator::Quantile(sketch, are_durations) => {
                (5u8, *are_durations).write(to);
                sketch.write(to);
            }
            Accumulator::Values(values) => {
                6u8.write(to);
                values.write(to);
            }
            Accumulator::UniqValues(texts) => {
                (7u8, texts.len() as u64).write(to);
                texts.iter().for_each(|text| text.0.write(to));
            }
            Accumulator::Chosen(chosen) => {
                8u8.write(to);
                let parts =
                    |ChosenValue { by, place, value }: &ChosenValue| ((by.clone(), value.clone()), place.clone());
                chosen.as_ref().map(parts).write(to);
            }
        }
    }

    fn read(from: &mut SpilledBytes<'_>) -> Option<Accumulator> {
        Some(match u8::read(from)? {
            0 => Accumulator::Count(u64::read(from)?),
            1 => Accumulator::Uniq(UniqHashes::default()),
            2 => Accumulator::UniqCount(u64::read(from)?),
            3 => {
                let (whole, (fraction, compensation)) = Spilled::read(from)?;
                let (count, has_fractions) = Spilled::read(from)?;
                Accumulator::Sum(Sum { whole, fraction, compensation, count, has_fractions })
            }
            4 => Accumulator::Extreme(Spilled::read(from)?),
            5 => {
                let are_durations = bool::read(from)?;
                Accumulator::Quantile(Box::new(QuantileSketch::read(from)?), are_durations)
            }
            6 => Accumulator::Values(Vec::read(from)?),
            7 => {
                let count = u64::read(from)?;
                let texts = (0..count).map(|_| String::read(from).map(NaturalText));
                Accumulator::UniqValues(texts.collect::<Option<_>>()?)
            }
            8 => {
                let parts = Option::<((OwnedValue, OwnedValue), Option<(RowKey, Arc<str>)>)>::read(from)?;
                Accumulator::Chosen(parts.map(|((by, value), place)| ChosenValue { by, place, value }))
            }
            9 => Accumulator::Sum(Sum::of_whole(i64::from_le_bytes(from.array()?), u64::read(from)?)),
            _ => return None,
        })
    }
}

/// A list of texts as one text.
fn list(texts: impl Iterator<Item = impl serde::Serialize>) -> Option<OwnedValue> {
    let mut json = Vec::new();
    serde::Serializer::collect_seq(&mut serde_json::Serializer::new(&mut json), texts).ok()?;
    String::from_utf8(json).ok().map(OwnedValue::String)
}

/// A number of records as a value.
pub fn whole(count: u64) -> OwnedValue {
    OwnedValue::Int64(i64::try_from(count).unwrap_or(i64::MAX))
}

/// A computed number as a value: whole where it is.
pub fn number_value(number: f64) -> OwnedValue {
    computed_number(number).as_property().into()
}

/// Up to here a float holds every whole number.
pub(super) const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

/// A computed number: whole where it is.
pub(super) fn computed_number(number: f64) -> Number {
    let whole = number as i64;
    if whole as f64 == number && number.abs() <= WHOLE_MAX { Number::Whole(whole) } else { Number::Float(number) }
}

/// Whether a value is chosen instead of the one so far. Of equal ones the newest record's is, and of the first ones the
/// oldest record's, whatever the order in which records come.
fn is_better(
    chosen: &Option<ChosenValue>,
    function: Function,
    by: Property<'_>,
    place: Option<RecordPlace<'_>>,
) -> bool {
    let Some(known) = chosen else { return true };
    let order = compare(by, known.by.as_property());
    let known_place = known.place.as_ref().map(|(key, partition)| (*key, partition));
    let is_newer = place.zip(known_place).is_some_and(|(place, known)| place < known);
    let is_older = place.zip(known_place).is_some_and(|(place, known)| place > known);
    match function {
        Function::First => order.is_lt() || order.is_eq() && is_older,
        Function::RowMin => order.is_lt() || order.is_eq() && is_newer,
        Function::Last | Function::RowMax => order.is_gt() || order.is_eq() && is_newer,
        _ => is_newer,
    }
}

/// Takes the value or the record of a row if it is better than the one so far.
fn choose(
    chosen: &mut Option<ChosenValue>,
    aggregate: &Aggregate,
    row: &impl Fields,
    place: Option<RecordPlace<'_>>,
    each_field: EachField<'_>,
) -> usize {
    static TIME: LazyLock<FieldName> = LazyLock::new(|| FieldName::new("time"));
    let Aggregate { fields, function, .. } = aggregate;
    let function = *function;
    let by = match function {
        Function::RowMin | Function::RowMax => fields.first(),
        Function::Any | Function::RowAny => None,
        _ => Some(&*TIME),
    };
    let by = match by {
        Some(by) => match row.field(by).filter(|value| !is_empty(Some(*value)) && !is_nan(*value)) {
            Some(by) => by,
            None => return 0,
        },
        None => Property::Boolean(true),
    };
    if !is_better(chosen, function, by, place) {
        return 0;
    }
    let value: OwnedValue = match function {
        Function::Any | Function::First | Function::Last => {
            match fields.iter().find_map(|field| row.field(field)).filter(|value| !is_empty(Some(*value))) {
                Some(value) => value.into(),
                None => return 0,
            }
        }
        _ => {
            let mut object = serde_json::Map::new();
            let mut put = |name: &str, value: Property<'_>| {
                object.insert(name.to_owned(), value.text().into());
            };
            let wanted = if function == Function::RowAny { &fields[..] } else { &fields[1..] };
            match wanted {
                [] => each_field(&mut put),
                wanted => wanted.iter().for_each(|name| {
                    if let Some(value) = row.field(name) {
                        put(name.written(), value);
                    }
                }),
            }
            OwnedValue::String(serde_json::Value::Object(object).to_string())
        }
    };
    let place = place.map(|(key, partition)| (key, partition.clone()));
    let better = ChosenValue { by: by.into(), place, value };
    let more = better.bytes().saturating_sub(chosen.as_ref().map_or(0, ChosenValue::bytes));
    *chosen = Some(better);
    more
}
