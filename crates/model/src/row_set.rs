//! A set of rows of a page or a row group: a bit a row.

/// Rows, numbered from 0, of a fixed number of rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowSet {
    words: Vec<u64>,
    length: usize,
}

impl RowSet {
    /// No row of `length`.
    pub fn none(length: usize) -> RowSet {
        RowSet { words: vec![0; length.div_ceil(64)], length }
    }

    /// Every row of `length`.
    pub fn all(length: usize) -> RowSet {
        let mut set = RowSet { words: vec![u64::MAX; length.div_ceil(64)], length };
        set.clear_rest();
        set
    }

    /// The rows for which `holds` returns true.
    pub fn of(length: usize, mut holds: impl FnMut(usize) -> bool) -> RowSet {
        let rows_of = |at: usize| 64 * at..length.min(64 * at + 64);
        let word = |at| rows_of(at).fold(0, |word, row| word | u64::from(holds(row)) << (row % 64));
        RowSet { words: (0..length.div_ceil(64)).map(word).collect(), length }
    }

    /// The rows of these words, whose lowest bits are the first rows. Missing words have no rows, and bits beyond the
    /// rows are ignored.
    pub fn of_words(length: usize, words: impl Iterator<Item = u64>) -> RowSet {
        let mut words: Vec<u64> = words.take(length.div_ceil(64)).collect();
        words.resize(length.div_ceil(64), 0);
        let mut set = RowSet { words, length };
        set.clear_rest();
        set
    }

    fn clear_rest(&mut self) {
        if let (Some(last), used @ 1..) = (self.words.last_mut(), self.length % 64) {
            *last &= (1 << used) - 1;
        }
    }

    /// The number of rows that it chooses from.
    pub fn length(&self) -> usize {
        self.length
    }

    /// The rows as words; the lowest bit is the first row.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Adds a row. Panics if the row does not exist.
    #[inline]
    pub fn insert(&mut self, row: usize) {
        self.words[row / 64] |= 1 << (row % 64);
    }

    /// Removes a row. Panics if the row does not exist.
    #[inline]
    pub fn remove(&mut self, row: usize) {
        self.words[row / 64] &= !(1 << (row % 64));
    }

    /// Whether a row is in it.
    #[inline]
    pub fn contains(&self, row: usize) -> bool {
        self.words.get(row / 64).is_some_and(|word| word >> (row % 64) & 1 == 1)
    }

    /// Number of rows in it.
    pub fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether no row is in it.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Whether every row is in it.
    pub fn is_all(&self) -> bool {
        self.count() == self.length
    }

    /// The rows in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(at, &word)| {
            let mut left = word;
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros() as usize;
                left &= left.wrapping_sub(1);
                (bit < 64).then_some(64 * at + bit)
            })
        })
    }

    /// Passes the rows in order. Faster than [`RowSet::iter`] where most rows are in the set.
    #[inline]
    pub fn for_each(&self, mut each: impl FnMut(usize)) {
        for (at, &word) in self.words.iter().enumerate() {
            let start = 64 * at;
            if word == u64::MAX {
                (start..start + 64).for_each(&mut each);
                continue;
            }
            let mut left = word;
            while left != 0 {
                each(start + left.trailing_zeros() as usize);
                left &= left - 1;
            }
        }
    }

    /// The first row from `row` on.
    pub fn next(&self, row: usize) -> Option<usize> {
        let mut at = row / 64;
        let mut word = self.words.get(at)? & (u64::MAX << (row % 64));
        while word == 0 {
            at += 1;
            word = *self.words.get(at)?;
        }
        Some(64 * at + word.trailing_zeros() as usize)
    }

    /// Keeps the rows that are in `other`, too.
    pub fn keep(&mut self, other: &RowSet) {
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word &= other);
    }

    /// Adds the rows of `other`.
    pub fn add(&mut self, other: &RowSet) {
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word |= other);
    }

    /// Removes the rows of `other`.
    pub fn subtract(&mut self, other: &RowSet) {
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word &= !other);
    }

    /// The rows that are not in it.
    pub fn inverse(mut self) -> RowSet {
        self.words.iter_mut().for_each(|word| *word = !*word);
        self.clear_rest();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A set equals a list of flags.
        #[test]
        fn a_set_is_a_list_of_flags(pairs in proptest::collection::vec(any::<(bool, bool)>(), 0..200), from in 0usize..220) {
            let (a, b): (Vec<bool>, Vec<bool>) = pairs.into_iter().unzip();
            let of = |flags: &[bool]| RowSet::of(flags.len(), |row| flags[row]);
            let flags = |set: &RowSet| (0..set.length()).map(|row| set.contains(row)).collect::<Vec<_>>();
            prop_assert_eq!(flags(&of(&a)), a.clone());
            prop_assert_eq!(of(&a).iter().collect::<Vec<_>>(), (0..a.len()).filter(|row| a[*row]).collect::<Vec<_>>());
            let mut passed = Vec::new();
            of(&a).for_each(|row| passed.push(row));
            prop_assert_eq!(passed, of(&a).iter().collect::<Vec<_>>());
            prop_assert_eq!(of(&a).next(from), (from..a.len()).find(|row| a[*row]));
            prop_assert_eq!(of(&a).count(), a.iter().filter(|flag| **flag).count());
            prop_assert_eq!(flags(&of(&a).inverse()), a.iter().map(|flag| !flag).collect::<Vec<_>>());
            prop_assert_eq!(RowSet::all(a.len()), RowSet::none(a.len()).inverse());
            prop_assert_eq!(RowSet::of_words(a.len(), of(&a).words().iter().copied()), of(&a));
            prop_assert_eq!(RowSet::of_words(a.len(), std::iter::repeat(u64::MAX)), RowSet::all(a.len()));
            prop_assert_eq!(RowSet::of_words(a.len(), std::iter::empty()), RowSet::none(a.len()));
            let (mut both, mut either, mut first) = (of(&a), of(&a), of(&a));
            both.keep(&of(&b));
            either.add(&of(&b));
            first.subtract(&of(&b));
            let zip = |f: fn(bool, bool) -> bool| a.iter().zip(&b).map(|(a, b)| f(*a, *b)).collect::<Vec<_>>();
            prop_assert_eq!(flags(&both), zip(|a, b| a && b));
            prop_assert_eq!(flags(&either), zip(|a, b| a || b));
            prop_assert_eq!(flags(&first), zip(|a, b| a && !b));
        }
    }
}
