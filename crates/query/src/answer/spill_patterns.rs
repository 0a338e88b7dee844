//! The patterns of the texts in the temporary file of a question.

use super::packed_text::{PATTERNS_MAX, is_packed, packed_key, split, with_pattern};
use daytable_platform::lock;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// The patterns of the texts in the file, by number.
#[derive(Debug, Default)]
pub(super) struct SpillPatterns(Mutex<NumberedPatterns>);

#[derive(Debug, Default)]
struct NumberedPatterns {
    names: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, u32>,
}

impl SpillPatterns {
    /// The number of a pattern. One for which there is no room never gets one: its texts have one form.
    pub(super) fn number(&self, pattern: &str) -> Option<u32> {
        let NumberedPatterns { names, numbers } = &mut *lock(&self.0);
        if let Some(number) = numbers.get(pattern) {
            return Some(*number);
        }
        let number = u32::try_from(names.len()).ok().filter(|_| names.len() < PATTERNS_MAX && is_packed(pattern))?;
        let pattern: Arc<str> = pattern.into();
        names.push(pattern.clone());
        numbers.insert(pattern, number);
        Some(number)
    }

    /// The key of a text, if it is packed.
    pub(super) fn key(&self, text: &str) -> Option<u64> {
        let short = split(text)?;
        // Numbers decide before room is taken.
        let packed = packed_key(0, short.numbers().iter().copied())?;
        Some(with_pattern(self.number(short.pattern())?, packed))
    }

    /// The patterns so far.
    pub(super) fn names(&self) -> PatternNames {
        lock(&self.0).names.as_slice().into()
    }
}

/// Patterns by number.
pub(super) type PatternNames = Arc<[Arc<str>]>;
