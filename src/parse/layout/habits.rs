//! What the lines of a source are used to, where one line alone cannot tell.

/// Lines that are looked back at.
const LOOK_BACK: u32 = 8;

/// How the last lines were written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::parse) struct Habits {
    /// A bit a line, the newest lowest: whether a name with a colon stood where a component stands.
    colons: u8,
    /// How many lines these bits tell of, up to [`LOOK_BACK`].
    lines: u8,
}

impl Habits {
    /// Whether a word before a colon is a component because nearly all lines have one there.
    pub(super) fn has_colons(self) -> bool {
        u32::from(self.lines) >= LOOK_BACK / 2 && self.colons.count_ones() * 4 >= u32::from(self.lines) * 3
    }

    pub(in crate::parse) fn note_colon(&mut self, colon: bool) {
        self.colons = self.colons << 1 | u8::from(colon);
        self.lines = self.lines.saturating_add(1).min(8);
    }

    /// As [`Habits::from_number`] reads it.
    pub(in crate::parse) fn number(self) -> u16 {
        u16::from(self.lines) << 8 | u16::from(self.colons)
    }

    pub(in crate::parse) fn from_number(number: u16) -> Habits {
        let [lines, colons] = number.to_be_bytes();
        Habits { colons, lines: lines.min(8) }
    }
}
