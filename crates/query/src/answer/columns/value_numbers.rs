//! Small numbers that stand for values.

use super::small_numbers::SmallNumbers;
use crate::answer::packed_text::{
    NUMBERS_BITS, PATTERNS_MAX, is_packed, number_bits, packed_key, pattern_of, print, split, with_pattern,
};
use crate::answer::spill::GroupCell;
use crate::answer::value_steps::{step_end, step_start};
use crate::entity::OwnedValue;
use daytable_logsql::query::ValueStep;
use daytable_model::property::Property;
use daytable_store::page::{BLOCK_ROWS, PatternBlock, ShortPattern, ValueReader};
use std::collections::HashMap;
use std::hash::BuildHasher;

/// The number of an absent or empty value.
pub(super) const ABSENT: u32 = 0;
/// Kinds of numbers: those of one kind have the same remainder.
pub(super) const VALUE_KINDS: u32 = 3;
/// The number of a value for which there is no memory.
pub(super) const NO_NUMBER: u32 = u32::MAX;

/// Values by number, told apart by their text, and by whether they are texts.
///
/// A number is 3 n + 1 of a text, 3 n + 2 of another value, and 3 n + 3 of a text that is packed as a pattern and numbers.
#[derive(Default)]
pub(super) struct ValueNumbers {
    texts: TextTable,
    packed: PackedTexts,
    /// The printed texts of the values that are neither texts nor whole numbers, and the number of each.
    printed: TextTable,
    of_printed: Vec<u32>,
    typed: Vec<OwnedValue>,
    /// The numbers of small whole numbers.
    small: SmallNumbers,
    whole: HashMap<i64, u32, foldhash::fast::RandomState>,
    times: HashMap<i64, u32, foldhash::fast::RandomState>,
    /// The numbers of the steps of small whole numbers.
    small_steps: SmallNumbers,
    /// The last step of time: its start, its end, and its number.
    last_step: Option<(i64, i64, u32)>,
    floats: HashMap<u64, u32, foldhash::fast::RandomState>,
    /// The numbers here of the numbers that computed values have, [`NO_NUMBER`] of one that was not asked for, and the round of those.
    translated: (u64, Vec<u32>),
    /// Whether there is no memory for further values.
    pub(super) is_frozen: bool,
    /// Whether an empty text is a value, and values of two types with one text are two.
    is_exact: bool,
    /// Where values are told apart by their texts alone: those of another type, by the numbers of their texts.
    shown: Option<HashMap<u32, OwnedValue, foldhash::fast::RandomState>>,
}

impl ValueNumbers {
    /// Numbers from which each value comes back as it was: an empty text is told from none, and types from each other.
    pub(super) fn exact() -> ValueNumbers {
        ValueNumbers { is_exact: true, ..ValueNumbers::default() }
    }

    /// Numbers by text alone: a text and a value of another type that is printed like it have the same, and are shown as the latter.
    pub(super) fn by_text() -> ValueNumbers {
        ValueNumbers { shown: Some(HashMap::default()), ..ValueNumbers::default() }
    }

    /// Forgets all values, and keeps the memory for others.
    pub(super) fn reset(&mut self) {
        self.texts.reset();
        self.shown = self.shown.as_ref().map(|_| HashMap::default());
        self.packed.reset();
        self.printed.reset();
        self.of_printed.clear();
        self.typed.clear();
        self.small.reset();
        self.small_steps.reset();
        self.whole.clear();
        self.times.clear();
        self.last_step = None;
        self.floats.clear();
        self.translated = (0, Vec::new());
    }

    /// The number of a value.
    pub(super) fn number(&mut self, value: Property<'_>) -> u32 {
        match value {
            Property::String("") if !self.is_exact => ABSENT,
            Property::String(text) => self.of_text(text),
            other if self.shown.is_some() => self.of_shown(other),
            Property::Int64(n) => self.of_whole(n, value),
            Property::Int32(n) if !self.is_exact => self.of_whole(n.into(), value),
            Property::DateTime(time) => {
                let number = match self.times.get(&time.get()) {
                    Some(number) => return *number,
                    None => self.of_typed(value),
                };
                if number != NO_NUMBER {
                    self.times.insert(time.get(), number);
                }
                number
            }
            Property::Double(n) => {
                let number = match self.floats.get(&n.to_bits()) {
                    Some(number) => return *number,
                    None => self.of_typed(value),
                };
                if number != NO_NUMBER {
                    self.floats.insert(n.to_bits(), number);
                }
                number
            }
            other => self.of_typed(other),
        }
    }

    /// The number of a value that has a number among others, in this round of their numbers.
    #[inline]
    pub(super) fn translated(&mut self, round: u64, others: &ValueNumbers, number: u32) -> u32 {
        let at = number as usize;
        if self.translated.0 != round {
            self.translated = (round, Vec::new());
        }
        if let Some(known) = self.translated.1.get(at).filter(|known| **known != NO_NUMBER) {
            return *known;
        }
        self.translate(others, number)
    }

    /// The same for a number that was not asked for in this round.
    fn translate(&mut self, others: &ValueNumbers, number: u32) -> u32 {
        let at = number as usize;
        let here = others.value(number).map_or(ABSENT, |value| self.number(value.as_property()));
        if self.translated.1.len() <= at {
            self.translated.1.resize(at + 1, NO_NUMBER);
        }
        self.translated.1[at] = here;
        here
    }

    /// The number of the step that a value is in.
    pub(super) fn step_number(&mut self, value: Property<'_>, step: Option<&ValueStep>) -> u32 {
        let Some(step) = step.filter(|_| value != Property::String("")) else { return self.number(value) };
        match (value, self.last_step) {
            (Property::DateTime(time), Some((start, end, number))) if (start..end).contains(&time.get()) => {
                return number;
            }
            (Property::Int64(whole), _) => {
                if let Some(number) = self.small_steps.get(whole) {
                    return number;
                }
            }
            _ => {}
        }
        let Some(start) = step_start(value, step) else { return self.number(value) };
        let number = self.number(start.as_property());
        if let Property::Int64(whole) = value
            && number != NO_NUMBER
        {
            self.small_steps.keep(whole, number);
        }
        if let OwnedValue::DateTime(start) = start
            && let Some(end) = step_end(start, step)
        {
            self.last_step = Some((start.get(), end.get(), number));
        }
        number
    }

    /// The number of the text of a value, which is shown as this value from now on.
    fn of_shown(&mut self, value: Property<'_>) -> u32 {
        let number = self.of_text(&value.text());
        if let Some(shown) = &mut self.shown
            && number != NO_NUMBER
        {
            shown.entry(number).or_insert_with(|| value.into());
        }
        number
    }

    /// The value that is shown instead of the text with this number, if there is one.
    fn shown(&self, number: u32) -> Option<Property<'_>> {
        self.shown.as_ref()?.get(&number).map(OwnedValue::as_property)
    }

    fn of_text(&mut self, text: &str) -> u32 {
        match self.packed_key(text) {
            Some(key) => self.of_key(key, None),
            None => self.of_unpacked(text),
        }
    }

    /// The number of a text that is not packed.
    fn of_unpacked(&mut self, text: &str) -> u32 {
        self.texts.number(text, !self.is_frozen).map_or(NO_NUMBER, |number| 3 * number + 1)
    }

    /// The key of a text that is packed.
    fn packed_key(&mut self, text: &str) -> Option<u64> {
        let short = split(text)?;
        packed_key(self.packed.pattern_of(&short, !self.is_frozen)?, short.numbers().iter().copied())
    }

    /// The number of a text that is packed, of which `likely` was found before.
    fn of_key(&mut self, key: u64, likely: Option<u32>) -> u32 {
        let number = likely.or_else(|| self.packed.number(key, !self.is_frozen));
        number.map_or(NO_NUMBER, |number| 3 * number + 3)
    }

    fn of_whole(&mut self, n: i64, value: Property<'_>) -> u32 {
        if let Some(number) = self.small.get(n).or_else(|| self.whole.get(&n).copied()) {
            return number;
        }
        let number = self.add_typed(value);
        if number == NO_NUMBER {
            return NO_NUMBER;
        }
        match SmallNumbers::is_small(n) {
            true => self.small.keep(n, number),
            false => drop(self.whole.insert(n, number)),
        }
        number
    }

    fn of_typed(&mut self, value: Property<'_>) -> u32 {
        let mut text = value.text();
        if self.is_exact {
            text = format!("{:?} {text}", value.kind()).into();
        } else if let Some(n) = printed_whole(&text) {
            return self.of_whole(n, value);
        }
        let Some(printed) = self.printed.number(&text, !self.is_frozen) else { return NO_NUMBER };
        if let Some(number) = self.of_printed.get(printed as usize) {
            return *number;
        }
        let number = self.add_typed(value);
        self.of_printed.push(number);
        number
    }

    /// The number of a value that is new and no text.
    fn add_typed(&mut self, value: Property<'_>) -> u32 {
        // Three numbers in a row stand for each.
        let number = u32::try_from(self.typed.len()).ok().filter(|number| *number < u32::MAX / 3 - 2);
        let Some(number) = number.filter(|_| !self.is_frozen) else { return NO_NUMBER };
        self.typed.push(value.into());
        3 * number + 2
    }

    /// Whether no text is also the text of another value.
    pub(super) fn are_alike(&self) -> bool {
        self.texts.len() + self.packed.keys.len() == 0 || self.typed.is_empty()
    }

    /// At least this many values have different texts.
    pub(super) fn distinct_min(&self) -> usize {
        (self.texts.len() + self.packed.keys.len()).max(self.typed.len())
    }

    /// An estimate of the memory.
    pub(super) fn bytes(&self) -> usize {
        self.texts.bytes()
            + self.packed.bytes()
            + self.printed.bytes()
            + 4 * self.of_printed.capacity()
            + 32 * self.typed.len()
            + 32 * (self.whole.len() + self.times.len() + self.floats.len())
            + 4 * self.translated.1.capacity()
            + self.small.bytes()
            + self.small_steps.bytes()
            + 48 * self.shown.as_ref().map_or(0, HashMap::len)
    }

    /// The patterns of the texts that are packed, by their numbers.
    pub(super) fn patterns(&self) -> impl Iterator<Item = &str> {
        (0..self.packed.patterns.len()).zip(0..).map(|(_, pattern)| self.packed.patterns.text(pattern))
    }

    /// The value of a number in the form in which it is kept.
    pub(super) fn cell(&self, number: u32) -> GroupCell<'_> {
        let Some(at) = number.checked_sub(1) else { return GroupCell::Value(None) };
        if let Some(shown) = self.shown(number) {
            return GroupCell::Value(Some(shown));
        }
        let at = at / VALUE_KINDS;
        match number % VALUE_KINDS {
            // As long as there is room for patterns, a text that could be packed is.
            1 if self.packed.patterns.len() < PATTERNS_MAX => GroupCell::Unpacked(self.texts.text(at)),
            1 => GroupCell::Value(Some(Property::String(self.texts.text(at)))),
            2 => GroupCell::Value(self.typed.get(at as usize).map(OwnedValue::as_property)),
            _ => {
                let key = self.packed.keys[at as usize];
                GroupCell::Packed(pattern_of(key), key)
            }
        }
    }

    /// The value of a number.
    pub(super) fn value(&self, number: u32) -> Option<OwnedValue> {
        self.value_in(number, &mut String::new()).map(OwnedValue::from)
    }

    /// The same; a text that is packed is printed to `room`.
    pub(super) fn value_in<'v>(&'v self, number: u32, room: &'v mut String) -> Option<Property<'v>> {
        let at = number.checked_sub(1)? / 3;
        if let Some(shown) = self.shown(number) {
            return Some(shown);
        }
        match number % 3 {
            1 => Some(Property::String(self.texts.text(at))),
            2 => self.typed.get(at as usize).map(OwnedValue::as_property),
            _ => {
                room.clear();
                self.packed.print(at, room);
                Some(Property::String(room))
            }
        }
    }

    /// The number here of each number of another.
    pub(super) fn merge(&mut self, other: &ValueNumbers) -> Vec<u32> {
        let most = other.texts.len().max(other.typed.len()).max(other.packed.keys.len());
        let mut numbers = vec![ABSENT; 3 * most + 4];
        for (at, number) in (0..other.texts.len()).zip(0..) {
            numbers[3 * at + 1] = self.number(Property::String(other.texts.text(number)));
        }
        for (at, value) in other.typed.iter().enumerate() {
            numbers[3 * at + 2] = self.number(value.as_property());
        }
        let patterns: Vec<Option<u32>> = (0..other.packed.patterns.len())
            .zip(0..)
            .map(|(_, pattern)| self.packed.pattern(other.packed.patterns.text(pattern), !self.is_frozen))
            .collect();
        let mut text = String::new();
        for (block, packed) in other.packed.keys.chunks(BLOCK_ROWS).enumerate() {
            let (mut keys, mut known) = ([0; BLOCK_ROWS], 0u64);
            for (at, key) in packed.iter().enumerate() {
                if let Some(pattern) = patterns.get(pattern_of(*key) as usize).copied().flatten() {
                    keys[at] = with_pattern(pattern, *key);
                    known |= 1 << at;
                }
            }
            let likely = self.packed.likely(&keys);
            for at in 0..packed.len() {
                let number = BLOCK_ROWS * block + at;
                numbers[3 * number + 3] = match known >> at & 1 == 1 {
                    true => self.of_key(keys[at], likely[at]),
                    false => {
                        text.clear();
                        // There are fewer than 2^32 keys.
                        other.packed.print(number as u32, &mut text);
                        self.number(Property::String(&text))
                    }
                };
            }
        }
        numbers
    }
}

/// Reads the values of a column as their numbers.
impl ValueReader<u32> for ValueNumbers {
    fn read(&mut self, value: Property<'_>) -> u32 {
        self.number(value)
    }

    fn read_texts<'t>(&mut self, mut texts: impl Iterator<Item = &'t str>) -> Vec<u32> {
        let mut found = Vec::with_capacity(texts.size_hint().0);
        loop {
            let start = found.len();
            let (mut keys, mut packed) = ([0; BLOCK_ROWS], Vec::with_capacity(BLOCK_ROWS));
            for (at, text) in texts.by_ref().take(BLOCK_ROWS).enumerate() {
                match self.packed_key(text) {
                    Some(key) => {
                        keys[at] = key;
                        packed.push(at);
                        found.push(NO_NUMBER);
                    }
                    None if text.is_empty() => found.push(self.number(Property::String(text))),
                    None => found.push(self.of_unpacked(text)),
                }
            }
            if found.len() == start {
                return found;
            }
            let likely = self.packed.likely(&keys);
            packed.into_iter().for_each(|at| found[start + at] = self.of_key(keys[at], likely[at]));
        }
    }

    fn pattern(&mut self, pattern: &str) -> Option<u32> {
        self.packed.pattern(pattern, !self.is_frozen)
    }

    fn read_block(&mut self, block: &PatternBlock, found: &mut [Option<u32>]) {
        let (mut keys, mut fit) = ([0; BLOCK_ROWS], block.wanted);
        match block.common_slots.map(usize::from) {
            Some(slots) => match number_bits(slots) {
                Some(bits) => fit &= PackedTexts::keys(block, slots, bits, &mut keys),
                None => fit = 0,
            },
            None => {
                for (at, key) in
                    keys[..found.len()].iter_mut().enumerate().filter(|(at, _)| block.wanted >> at & 1 == 1)
                {
                    let numbers = block.numbers.iter().take(block.slots[at].into()).map(|numbers| numbers[at]);
                    match block.patterns[at].and_then(|pattern| packed_key(pattern, numbers)) {
                        Some(of) => *key = of,
                        None => fit &= !(1 << at),
                    }
                }
            }
        }
        let likely = self.packed.likely(&keys);
        for (at, ((key, found), likely)) in keys.iter().zip(found).zip(likely).enumerate() {
            *found = (fit >> at & 1 == 1).then(|| self.of_key(*key, likely));
        }
    }
}

/// Places for patterns that were asked for lately, as a power of two.
const RECENT_PATTERNS_BITS: u32 = 6;

/// A slot without a key. It is not all zeros: memory that is zeroed is mapped when it is first read, and again when it is
/// first written to, and with several threads each time costs as much as many records.
const FREE: [u32; 3] = [u32::MAX; 3];

/// Texts that differ in few small numbers, as 64 bits each: the number of the pattern, and the numbers. Whether a text is
/// one of them follows from the text alone, as long as there is room for its pattern.
#[derive(Default)]
struct PackedTexts {
    patterns: TextTable,
    /// Patterns that were asked for lately, with their numbers: most texts have one of few.
    recent: Vec<(ShortPattern, u32)>,
    keys: Vec<u64>,
    /// A key and its number. The key stands here, too: with many keys, each place in memory that a record needs costs
    /// more than all else. A quarter of the slots or more is free; their number is a power of two.
    slots: Vec<[u32; 3]>,
}

impl PackedTexts {
    /// Forgets all texts, and keeps their patterns and the memory for others.
    fn reset(&mut self) {
        self.keys.clear();
        self.slots.fill(FREE);
    }

    /// The number of a pattern; `None` if its texts are not packed.
    fn pattern(&mut self, pattern: &str, adds: bool) -> Option<u32> {
        let adds = adds && self.patterns.len() < PATTERNS_MAX;
        if is_packed(pattern) { self.patterns.number(pattern, adds) } else { None }
    }

    /// The number of the pattern of a short text; `None` if its texts are not packed.
    #[inline]
    fn pattern_of(&mut self, short: &ShortPattern, adds: bool) -> Option<u32> {
        let at = (short.mixed() >> (u64::BITS - RECENT_PATTERNS_BITS)) as usize;
        if let Some((_, number)) = self.recent.get(at).filter(|(recent, _)| recent.is_like(short)) {
            return Some(*number);
        }
        let number = self.pattern(short.pattern(), adds)?;
        if self.recent.is_empty() {
            self.recent = vec![(*short, number); 1 << RECENT_PATTERNS_BITS];
        }
        self.recent[at] = (*short, number);
        Some(number)
    }

    /// The keys of texts with this many numbers each. Returns which texts have one, a bit a text.
    fn keys(block: &PatternBlock, slots: usize, bits: u32, keys: &mut [u64; BLOCK_ROWS]) -> u64 {
        let mut beyond = [0; BLOCK_ROWS];
        for numbers in &block.numbers[..slots] {
            for ((key, beyond), number) in keys.iter_mut().zip(&mut beyond).zip(numbers) {
                let number = number.cast_unsigned();
                *key = *key << bits | number;
                *beyond |= number >> bits;
            }
        }
        let mut have = 0;
        for (at, (key, pattern)) in keys.iter_mut().zip(&block.patterns).enumerate() {
            *key |= u64::from(pattern.unwrap_or_default()) << NUMBERS_BITS;
            have |= u64::from(pattern.is_some() && beyond[at] == 0) << at;
        }
        have
    }

    /// Appends the text of a number.
    fn print(&self, number: u32, to: &mut String) {
        let key = self.keys[number as usize];
        print(self.patterns.text(pattern_of(key)), key, to);
    }

    /// The number of a key; `None` if it is new and none is added.
    fn number(&mut self, key: u64, adds: bool) -> Option<u32> {
        if 4 * self.keys.len() >= 3 * self.slots.len() {
            self.grow();
        }
        let slot = match self.slot_of(key) {
            (_, Some(number)) => return Some(number),
            (slot, None) => slot,
        };
        // Three numbers in a row stand for each.
        let number = u32::try_from(self.keys.len()).ok().filter(|number| adds && *number < u32::MAX / 3 - 2)?;
        self.keys.push(key);
        self.slots[slot] = PackedTexts::taken(key, number);
        Some(number)
    }

    /// The numbers of keys that stand in their first slot. None waits for another one, so the memory is asked for many slots
    /// at once.
    fn likely(&self, keys: &[u64; BLOCK_ROWS]) -> [Option<u32>; BLOCK_ROWS] {
        let Some(mask) = self.slots.len().checked_sub(1) else { return [None; BLOCK_ROWS] };
        keys.map(|key| {
            let [low, high, number] = self.slots[PackedTexts::slot(key) & mask];
            (u64::from(high) << 32 | u64::from(low) == key && number != FREE[2]).then_some(number)
        })
    }

    /// A slot with its key and number.
    fn taken(key: u64, number: u32) -> [u32; 3] {
        [key as u32, (key >> 32) as u32, number]
    }

    /// The slot of a key and its number, or the slot where it has to stand.
    fn slot_of(&self, key: u64) -> (usize, Option<u32>) {
        let mask = self.slots.len() - 1;
        let mut slot = PackedTexts::slot(key) & mask;
        loop {
            let [low, high, number] = self.slots[slot];
            if number == FREE[2] {
                return (slot, None);
            }
            if u64::from(high) << 32 | u64::from(low) == key {
                return (slot, Some(number));
            }
            slot = (slot + 1) & mask;
        }
    }

    /// Both halves of a product, since neighbouring keys differ in few bits anywhere.
    fn slot(key: u64) -> usize {
        let product = u128::from(key ^ 0x243f_6a88_85a3_08d3) * 0x9e37_79b9_7f4a_7c15;
        ((product >> 64) as u64 ^ product as u64) as usize
    }

    fn grow(&mut self) {
        self.slots = vec![FREE; (2 * self.slots.len()).max(64)];
        for number in 0..self.keys.len() {
            let key = self.keys[number];
            let slot = self.slot_of(key).0;
            self.slots[slot] = PackedTexts::taken(key, number as u32);
        }
    }

    fn bytes(&self) -> usize {
        let recent = size_of::<(ShortPattern, u32)>() * self.recent.len();
        self.patterns.bytes() + recent + 8 * self.keys.capacity() + 12 * self.slots.len()
    }
}

/// The whole number that is printed as this text.
fn printed_whole(text: &str) -> Option<i64> {
    // `+7`, `007` and `-0` are read as numbers, too.
    text.parse().ok().filter(|n: &i64| n.to_string() == text)
}

/// Different texts, one after the other, found by their hash.
#[derive(Default)]
struct TextTable {
    text: String,
    ends: Vec<u32>,
    hashes: Vec<u32>,
    /// A text's number plus 1; 0 is free. At least twice as many slots as texts, a power of two.
    slots: Vec<u32>,
    state: foldhash::fast::RandomState,
}

impl TextTable {
    /// Forgets all texts, and keeps the memory for others.
    fn reset(&mut self) {
        self.text.clear();
        self.ends.clear();
        self.hashes.clear();
        self.slots.fill(0);
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    fn bytes(&self) -> usize {
        self.text.capacity() + 4 * (self.ends.capacity() + self.hashes.capacity() + self.slots.len())
    }

    fn text(&self, number: u32) -> &str {
        let at = number as usize;
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[start as usize..self.ends[at] as usize]
    }

    /// The number of a text; `None` if it is new and none is added.
    fn number(&mut self, text: &str, adds: bool) -> Option<u32> {
        let hash = self.state.hash_one(text) as u32;
        if 2 * self.len() >= self.slots.len() {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        loop {
            match self.slots[slot] {
                0 => break,
                taken if self.hashes[taken as usize - 1] == hash && self.text(taken - 1) == text => {
                    return Some(taken - 1);
                }
                _ => slot = (slot + 1) & mask,
            }
        }
        let (number, end) = (
            u32::try_from(self.len() + 2).ok().filter(|number| *number < u32::MAX / 3)?,
            u32::try_from(self.text.len() + text.len()).ok()?,
        );
        if !adds {
            return None;
        }
        self.text.push_str(text);
        self.ends.push(end);
        self.hashes.push(hash);
        self.slots[slot] = number - 1;
        Some(number - 2)
    }

    fn grow(&mut self) {
        let size = (4 * self.len()).next_power_of_two().max(64);
        self.slots = vec![0; size];
        for (number, hash) in (1..).zip(&self.hashes) {
            let mut slot = *hash as usize & (size - 1);
            while self.slots[slot] != 0 {
                slot = (slot + 1) & (size - 1);
            }
            self.slots[slot] = number;
        }
    }
}
