//! What pipes compute for the rows of a batch: the number of a value for each row and each column that they make.

use super::listed_values::ListedValues;
use super::value_numbers::{ABSENT, ValueNumbers};
use daytable_model::property::Property;
use daytable_model::row_set::RowSet;
use std::collections::HashMap;
use std::sync::Arc;

/// The values that pipes made for a thread, by the numbers that stand for them.
#[derive(Default)]
pub(super) struct MadeValues {
    /// The values of each column.
    columns: Vec<MadeColumn>,
    /// How often values were forgotten: then numbers stand for other ones.
    pub(super) round: u64,
}

/// The values that pipes made of a column.
enum MadeColumn {
    /// Each once, for as long as there is memory.
    Different(Box<ValueNumbers>),
    /// Those of one batch, as they came. Their numbers are their places plus 1.
    Listed(ListedValues),
}

/// Stands for what was not computed yet, and for a record that the pipes drop. No value has these numbers.
pub(super) const UNKNOWN: u32 = u32::MAX;
const DROPPED: u32 = u32::MAX - 1;

impl MadeValues {
    /// No values yet, of this many columns.
    pub(super) fn new(columns: usize, round: u64) -> MadeValues {
        let different = |_| MadeColumn::Different(ValueNumbers::exact().into());
        MadeValues { columns: (0..columns).map(different).collect(), round }
    }

    /// The same, for a batch alone whose values hardly come again.
    pub(super) fn of_batch(columns: usize, round: u64) -> MadeValues {
        let listed = |_| MadeColumn::Listed(ListedValues::default());
        MadeValues { columns: (0..columns).map(listed).collect(), round }
    }

    /// Whether the values are those of one batch.
    pub(super) fn is_of_batch(&self) -> bool {
        self.columns.iter().any(|column| matches!(column, MadeColumn::Listed(_)))
    }

    /// How many numbers stand for what the pipes make of a record: one for each column, and one where there is none.
    pub(super) fn width(&self) -> usize {
        self.columns.len().max(1)
    }

    /// Puts what stands for values that the pipes made of a record, one for each column, or for `None` if they drop it, to `numbers`.
    /// False if there are too many different values.
    pub(super) fn keep<'v>(
        &mut self,
        values: Option<impl Iterator<Item = Option<Property<'v>>>>,
        numbers: &mut [u32],
    ) -> bool {
        let Some(values) = values else {
            numbers[0] = DROPPED;
            return true;
        };
        numbers[0] = ABSENT;
        for ((place, column), value) in numbers.iter_mut().zip(&mut self.columns).zip(values) {
            *place = value.map_or(ABSENT, |value| column.number(value));
            if *place >= DROPPED {
                return false;
            }
        }
        true
    }

    /// An estimate of the memory.
    pub(super) fn bytes(&self) -> usize {
        self.columns.iter().map(MadeColumn::bytes).sum()
    }
}

impl MadeColumn {
    fn number(&mut self, value: Property<'_>) -> u32 {
        match self {
            MadeColumn::Different(values) => values.number(value),
            MadeColumn::Listed(values) => u32::try_from(values.push(value) + 1).unwrap_or(UNKNOWN),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            MadeColumn::Different(values) => values.bytes(),
            MadeColumn::Listed(values) => values.bytes(),
        }
    }
}

/// What pipes compute for the rows of a batch.
pub(super) struct ComputedRows {
    /// For each row what stands for its values, [as many](MadeValues::width) numbers as there are columns.
    numbers: Vec<u32>,
    values: Arc<MadeValues>,
}

/// Places for values that were read lately, at least and at most; both are powers of two.
const RECENT_MIN: usize = 64;
const RECENT_MAX: usize = 1 << 12;

impl ComputedRows {
    /// What stands for the values of each row of a batch.
    pub(super) fn new(numbers: Vec<u32>, values: Arc<MadeValues>) -> ComputedRows {
        ComputedRows { numbers, values }
    }

    fn of(&self, row: usize) -> &[u32] {
        let width = self.values.width();
        &self.numbers[row * width..][..width]
    }

    /// Removes the rows that the pipes drop.
    pub(super) fn drop_from(&self, rows: &mut RowSet) {
        let dropped: Vec<usize> = rows.iter().filter(|row| self.of(*row)[0] == DROPPED).collect();
        dropped.into_iter().for_each(|row| rows.remove(row));
    }

    /// The number of a column's value in a row; `None` of an absent one.
    #[inline]
    fn number(&self, column: usize, row: usize) -> Option<u32> {
        let number = self.of(row)[column];
        (number != ABSENT && number < DROPPED).then_some(number)
    }

    /// Applies `read` to the values of a column of some rows, once a value, and passes the results on.
    pub(super) fn each<T: Copy>(
        &self,
        column: usize,
        rows: &RowSet,
        mut read: impl FnMut(Property<'_>) -> T,
        mut each: impl FnMut(usize, T),
    ) {
        let values = match &self.values.columns[column] {
            MadeColumn::Different(values) => values,
            MadeColumn::Listed(values) => {
                let mut known: Vec<Option<T>> = vec![None; values.len()];
                rows.for_each(|row| {
                    if let Some(number) = self.number(column, row) {
                        let at = number as usize - 1;
                        each(row, *known[at].get_or_insert_with(|| read(values.value(at))));
                    }
                });
                return;
            }
        };
        let mut room = String::new();
        let places = (rows.count() / 4).next_power_of_two().clamp(RECENT_MIN, RECENT_MAX);
        let mut recent: Vec<(u32, Option<T>)> = vec![(ABSENT, None); places];
        let mut known: HashMap<u32, Option<T>, foldhash::fast::RandomState> = HashMap::default();
        rows.for_each(|row| {
            let Some(number) = self.number(column, row) else { return };
            let place = &mut recent[number as usize & (places - 1)];
            if place.0 != number {
                let value = known.entry(number).or_insert_with(|| values.value_in(number, &mut room).map(&mut read));
                *place = (number, *value);
            }
            if let Some(value) = place.1 {
                each(row, value);
            }
        });
    }

    /// Passes on the numbers that the values of a column of some rows have among `numbers`.
    pub(super) fn each_number(
        &self,
        column: usize,
        rows: &RowSet,
        numbers: &mut ValueNumbers,
        mut each: impl FnMut(usize, u32),
    ) {
        let (values, round) = match &self.values.columns[column] {
            MadeColumn::Different(values) => (values, self.values.round),
            MadeColumn::Listed(values) => {
                let mut is_wanted = vec![false; values.len()];
                let places = |each: &mut dyn FnMut(usize, usize)| {
                    rows.for_each(|row| {
                        if let Some(number) = self.number(column, row) {
                            each(row, number as usize - 1);
                        }
                    });
                };
                places(&mut |_, at| is_wanted[at] = true);
                let of_values = values.numbers(&is_wanted, numbers);
                places(&mut |row, at| {
                    if let Some(number) = of_values[at] {
                        each(row, number);
                    }
                });
                return;
            }
        };
        // Each step waits for memory, and does so for many rows at once if nothing else is between them.
        let mut found: Vec<(usize, u32)> = Vec::with_capacity(rows.count());
        rows.for_each(|row| found.extend(self.number(column, row).map(|number| (row, number))));
        found.iter_mut().for_each(|(_, number)| *number = numbers.translated(round, values, *number));
        found.into_iter().for_each(|(row, number)| each(row, number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// More values than there are places for recent ones, each asked for again after another one took its place.
    #[test]
    fn each_row_has_the_value_of_its_combination() {
        const COMBINATIONS: u32 = 1000;
        let (mut made, mut of_combinations) = (MadeValues::new(2, 1), vec![UNKNOWN; 2 * COMBINATIONS as usize]);
        for combination in 0..COMBINATIONS {
            let text = format!("v{combination}");
            let number = (!combination.is_multiple_of(7)).then_some(Property::Int64(combination.into()));
            let values = [Some(Property::String(&text)), number];
            let numbers = &mut of_combinations[2 * combination as usize..][..2];
            assert!(made.keep((!combination.is_multiple_of(5)).then(|| values.into_iter()), numbers));
        }
        let combinations: Vec<u32> = (0..2 * COMBINATIONS).map(|row| row * 389 % COMBINATIONS).collect();
        let rows = RowSet::of(combinations.len(), |row| !row.is_multiple_of(3));
        let numbers = combinations.iter().flat_map(|combination| &of_combinations[2 * *combination as usize..][..2]);
        let computed = ComputedRows::new(numbers.copied().collect(), made.into());
        let mut kept = rows.clone();
        computed.drop_from(&mut kept);
        let is_kept = |row: &usize| !combinations[*row].is_multiple_of(5);
        assert_eq!(kept.iter().collect::<Vec<_>>(), rows.iter().filter(is_kept).collect::<Vec<_>>());

        let text_of = |row: usize| format!("v{}", combinations[row]);
        let expected: Vec<(usize, String)> = kept.iter().map(|row| (row, text_of(row))).collect();
        let (mut texts, mut found) = (vec![String::new()], Vec::new());
        let read = |value: Property<'_>| {
            texts.push(value.text().into_owned());
            texts.len() - 1
        };
        computed.each(0, &kept, read, |row, text| found.push((row, text)));
        let found: Vec<(usize, String)> = found.into_iter().map(|(row, text)| (row, texts[text].clone())).collect();
        assert_eq!(found, expected);
        let different: BTreeSet<&String> = expected.iter().map(|(_, text)| text).collect();
        assert_eq!(texts.len() - 1, different.len(), "each is read once");
        assert!((kept.count() / 4).next_power_of_two() < different.len(), "there are places for all");
        let (mut numbers, mut found) = (ValueNumbers::exact(), Vec::new());
        computed.each_number(0, &kept, &mut numbers, |row, number| found.push((row, number)));
        let text = |number| numbers.value(number).expect("a value").as_property().text().into_owned();
        assert_eq!(found.into_iter().map(|(row, number)| (row, text(number))).collect::<Vec<_>>(), expected);

        let mut found = Vec::new();
        computed.each(1, &kept, |value| value == Property::Int64(1), |row, is_one| found.push((row, is_one)));
        let with_number = kept.iter().filter(|row| !combinations[*row].is_multiple_of(7));
        assert_eq!(found, with_number.map(|row| (row, combinations[row] == 1)).collect::<Vec<_>>());
    }
}
