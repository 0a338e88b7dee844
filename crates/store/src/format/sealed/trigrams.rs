//! The trigrams of a column of texts in a row group: which parts of words the column surely lacks.
//!
//! A text that contains another one contains its trigrams, the adjacent three bytes. So a filter of the trigrams of each
//! column tells which columns need not be read for a part of a word. It has one bit for each trigram: identifiers in
//! hexadecimal have 4,096 different ones, and most other columns far fewer, however many rows they have.
//!
//! ```text
//! position := hash of the trigram mod positions; positions is a power of two
//! ```

/// Positions of a filter before it is halved.
const POSITIONS: usize = 1 << 13;
/// The fewest positions of a filter.
const POSITIONS_MIN: usize = 1 << 6;
/// A filter that would be filled less than this after halving is halved.
const FILL_MAX: f64 = 0.2;
/// Bits of all filters of a row group: this many for each two rows, and at least this many.
const BITS_PER_TWO_ROWS: usize = 3;
const GROUP_BITS_MIN: usize = 1 << 11;
/// Columns of a row group whose filters are kept until the section is written: 64 KiB.
const COLUMNS_MAX: usize = 64;

/// The trigrams of a column in a row group.
#[derive(Clone)]
pub(super) struct TrigramFilter(Vec<u64>);

impl Default for TrigramFilter {
    fn default() -> TrigramFilter {
        TrigramFilter(vec![0; POSITIONS / 64])
    }
}

impl TrigramFilter {
    /// Adds the trigrams of a text.
    pub(super) fn add(&mut self, text: &str) {
        for hash in hashes(text.as_bytes()) {
            let position = hash % POSITIONS;
            self.0[position / 64] |= 1 << (position % 64);
        }
    }

    /// Its bits.
    pub(super) fn bits(&self) -> &[u64] {
        &self.0
    }

    /// The share of its bits that are set after it was halved to this many positions.
    fn fill(&self, positions: usize) -> f64 {
        let mut halved = vec![0u64; positions / 64];
        self.0
            .chunks(positions / 64)
            .flat_map(|part| part.iter().enumerate())
            .for_each(|(at, word)| halved[at] |= word);
        let ones: u32 = halved.iter().map(|word| word.count_ones()).sum();
        f64::from(ones) / positions as f64
    }

    fn halve_to(&mut self, positions: usize) {
        while self.0.len() > positions / 64 {
            let half = self.0.len() / 2;
            let (low, high) = self.0.split_at_mut(half);
            low.iter_mut().zip(high).for_each(|(low, high)| *low |= *high);
            self.0.truncate(half);
        }
    }
}

/// Drops the filters of a row group that has too many columns of texts.
pub(super) fn bound(columns: &mut Vec<Option<TrigramFilter>>) {
    if columns.iter().flatten().count() > COLUMNS_MAX {
        *columns = Vec::new();
    }
}

/// Halves the filters of the row groups of a section, for `rows` rows, to equal sizes by column. Returns the positions of
/// each column: 0 for a column without texts. Empty if there are too many columns, or a row group has none.
pub(super) fn fit(groups: &mut [Vec<Option<TrigramFilter>>], rows: usize) -> Vec<usize> {
    if groups.iter().any(Vec::is_empty) {
        return Vec::new();
    }
    let columns = groups.iter().map(Vec::len).max().unwrap_or(0);
    let of_column = |groups: &[Vec<Option<TrigramFilter>>], column: usize| {
        let filters: Vec<&TrigramFilter> = groups.iter().filter_map(|group| group.get(column)?.as_ref()).collect();
        let fill = |positions| filters.iter().map(|filter| filter.fill(positions)).fold(0.0, f64::max);
        let mut positions = POSITIONS;
        while positions > POSITIONS_MIN && fill(positions / 2) <= FILL_MAX {
            positions /= 2;
        }
        if filters.is_empty() { 0 } else { positions }
    };
    let mut sizes: Vec<usize> = (0..columns).map(|column| of_column(groups, column)).collect();
    let room = (BITS_PER_TWO_ROWS * rows / 2 / groups.len().max(1)).max(GROUP_BITS_MIN);
    while sizes.iter().sum::<usize>() > room {
        let largest = sizes.iter().copied().max().unwrap_or(0);
        if largest <= POSITIONS_MIN {
            return Vec::new();
        }
        sizes.iter_mut().filter(|size| **size == largest).for_each(|size| *size /= 2);
    }
    for group in groups {
        for (filter, size) in group.iter_mut().zip(&sizes) {
            filter.iter_mut().for_each(|filter| filter.halve_to(*size));
        }
    }
    sizes
}

/// The positions of the trigrams of a text; `None` if they do not tell whether a value has the text.
pub(super) fn positions_of(text: &[u8], positions: usize) -> Option<impl Iterator<Item = usize>> {
    // In a line, these characters may stand for bytes that its values have in another form.
    let is_replaced = memchr::memmem::find(text, "\u{fffd}".as_bytes()).is_some();
    let is_plain = !is_replaced && !text.iter().any(|byte| matches!(byte, 0x1e | 0x1f));
    (text.len() >= 3 && is_plain && positions > 0).then(|| hashes(text).map(move |hash| hash % positions))
}

fn hashes(text: &[u8]) -> impl Iterator<Item = usize> {
    text.windows(3).map(|three| {
        let trigram = u32::from_le_bytes([three[0], three[1], three[2], 0]);
        let mixed = trigram.wrapping_mul(0x9e37_79b1);
        (mixed ^ mixed >> 15) as usize
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A halved filter has the positions of every part of every text.
        #[test]
        fn a_filter_has_the_parts_of_its_texts(texts in prop::collection::vec("[a-e0-3 é\"]{0,40}", 1..60), rows in 1usize..10_000) {
            let mut filter = TrigramFilter::default();
            texts.iter().for_each(|text| filter.add(text));
            let mut groups = vec![vec![None, Some(filter)], vec![Some(TrigramFilter::default()), None]];
            let sizes = fit(&mut groups, rows);
            let filter = groups[0][1].as_ref().expect("a filter");
            prop_assert_eq!(filter.bits().len(), sizes[1] / 64);
            for text in &texts {
                let bytes = text.as_bytes();
                for start in 0..bytes.len() {
                    for position in positions_of(&bytes[start..], sizes[1]).into_iter().flatten() {
                        prop_assert!(filter.bits()[position / 64] >> (position % 64) & 1 == 1);
                    }
                }
            }
        }
    }

    #[test]
    fn filters_of_too_many_columns_are_left_out() {
        let mut filter = TrigramFilter::default();
        filter.add("abc");
        let mut groups = vec![vec![Some(filter); 33]];
        assert_eq!(fit(&mut groups, 1), [0; 0]);
        let filter = groups[0][0].clone();
        groups[0].truncate(32);
        assert_eq!(fit(&mut groups, 1), [64; 32]);
        let mut many = vec![filter; 1 + COLUMNS_MAX];
        bound(&mut many);
        assert!(many.is_empty());
        assert_eq!(fit(&mut [groups.remove(0), many], 1_000_000), [0; 0]);
    }
}
