//! The habits of a source: facts that one line alone does not show.

/// Lines that are remembered.
const LOOK_BACK: u32 = 8;

/// How the last lines were written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Habits {
    /// A bit a line, the newest lowest: whether a name with a colon stood at the component's place.
    colons: u8,
    /// How many lines these bits describe, up to [`LOOK_BACK`].
    lines: u8,
    /// Whether the last record with a header had no time.
    is_untimed: bool,
    /// Whether times stand where no header has them.
    is_wide: bool,
    /// Whether the last record with a header had a time of day and no date.
    is_clock: bool,
}

/// The bit of `is_untimed` in the saved number.
const UNTIMED: u8 = 0x80;
/// The bit of `is_wide` in the saved number.
const WIDE: u8 = 0x40;
/// The bit of `is_clock` in the saved number.
const CLOCK: u8 = 0x20;

impl Habits {
    /// Whether a word before a colon is a component because nearly all lines have one there.
    pub(crate) fn has_colons(self) -> bool {
        u32::from(self.lines) >= LOOK_BACK / 2 && self.colons.count_ones() * 4 >= u32::from(self.lines) * 3
    }

    /// The habits of a source whose lines all have such a name.
    pub(super) fn of_colons() -> Habits {
        Habits { colons: u8::MAX, lines: 8, is_untimed: false, is_wide: false, is_clock: false }
    }

    pub(crate) fn note_colon(&mut self, colon: bool) {
        self.colons = self.colons << 1 | u8::from(colon);
        self.lines = self.lines.saturating_add(1).min(8);
    }

    /// Whether times stand where no header has them.
    pub(crate) fn is_wide(self) -> bool {
        self.is_wide
    }

    /// Whether the last record with a header had a time of day and no date.
    pub(super) fn is_clock(self) -> bool {
        self.is_clock
    }

    pub(super) fn note_clock(&mut self, is_clock: bool) {
        self.is_clock = is_clock;
    }

    pub(crate) fn note_wide(&mut self) {
        self.is_wide = true;
    }

    /// Whether records begin with a time, so that a line without a time continues a record.
    pub(crate) fn is_timed(self) -> bool {
        !self.is_untimed
    }

    pub(crate) fn note_time(&mut self, has_time: bool) {
        // Programs that write no date write lines without a time, too.
        self.is_untimed = !has_time || self.is_clock;
    }

    /// The number that [`Habits::from_number`] reads.
    pub(crate) fn number(self) -> u16 {
        let flags = if self.is_untimed { UNTIMED } else { 0 }
            | if self.is_wide { WIDE } else { 0 }
            | if self.is_clock { CLOCK } else { 0 };
        u16::from(self.lines | flags) << 8 | u16::from(self.colons)
    }

    pub(crate) fn from_number(number: u16) -> Habits {
        let [lines, colons] = number.to_be_bytes();
        Habits {
            colons,
            lines: (lines & !(UNTIMED | WIDE | CLOCK)).min(8),
            is_untimed: lines & UNTIMED != 0,
            is_wide: lines & WIDE != 0,
            is_clock: lines & CLOCK != 0,
        }
    }
}
