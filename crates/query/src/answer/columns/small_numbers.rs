//! Numbers that stand for small whole numbers, found by their place.

/// Whole numbers below it have a place.
const SMALL_NUMBERS: i64 = 1 << 16;

/// For each small whole number the number that stands for it, plus 1; 0 is none.
#[derive(Default)]
pub(super) struct SmallNumbers(Vec<u32>);

impl SmallNumbers {
    /// Whether a whole number has a place here.
    #[inline]
    pub(super) fn is_small(whole: i64) -> bool {
        (0..SMALL_NUMBERS).contains(&whole)
    }

    /// What stands for a whole number.
    #[inline]
    pub(super) fn get(&self, whole: i64) -> Option<u32> {
        usize::try_from(whole).ok().and_then(|at| self.0.get(at)).and_then(|number| number.checked_sub(1))
    }

    /// Keeps what stands for a small whole number; it is less than `u32::MAX`.
    pub(super) fn keep(&mut self, whole: i64, number: u32) {
        let Some(at) = usize::try_from(whole).ok().filter(|_| SmallNumbers::is_small(whole)) else { return };
        if self.0.len() <= at {
            self.0.resize((at + 1).next_power_of_two(), 0);
        }
        self.0[at] = number.wrapping_add(1);
    }

    /// Forgets all, and keeps the memory for others.
    pub(super) fn reset(&mut self) {
        self.0.fill(0);
    }

    /// An estimate of the memory.
    pub(super) fn bytes(&self) -> usize {
        size_of::<u32>() * self.0.capacity()
    }
}
