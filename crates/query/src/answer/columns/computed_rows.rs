//! What pipes compute for the rows of a batch: an outcome for each combination of values, and its place for each row.

use super::value_numbers::{ABSENT, ValueNumbers};
use daytable_model::property::Property;
use daytable_model::row_set::RowSet;
use std::sync::Arc;

/// What became of the combinations that a thread remembers: for each of them the number of a value for each column that the pipes make.
#[derive(Default)]
pub(super) struct Outcomes {
    /// The values of each column.
    pub(super) columns: Vec<ValueNumbers>,
    /// The numbers of a combination, as many as there are columns, and one where there is none.
    numbers: Vec<u32>,
    /// How often combinations were forgotten: then numbers stand for other values.
    pub(super) round: u64,
}

/// Stands for a combination that was not computed yet, and for one whose records the pipes drop. No value has these numbers.
const UNKNOWN: u32 = u32::MAX;
const DROPPED: u32 = u32::MAX - 1;

impl Outcomes {
    /// No combinations yet, for this many columns.
    pub(super) fn new(columns: usize, round: u64) -> Outcomes {
        Outcomes { columns: (0..columns).map(|_| ValueNumbers::exact()).collect(), numbers: Vec::new(), round }
    }

    /// How many numbers a combination has.
    fn width(&self) -> usize {
        self.columns.len().max(1)
    }

    fn of(&self, combination: u32) -> &[u32] {
        let at = combination as usize * self.width();
        self.numbers.get(at..at + self.width()).unwrap_or(&[UNKNOWN])
    }

    pub(super) fn is_known(&self, combination: u32) -> bool {
        self.of(combination)[0] != UNKNOWN
    }

    fn is_dropped(&self, combination: u32) -> bool {
        self.of(combination)[0] == DROPPED
    }

    /// Keeps what the pipes made of a combination: a value for each column, or `None` if they drop the record. False if there are too
    /// many different values.
    pub(super) fn set<'v>(
        &mut self,
        combination: u32,
        values: Option<impl Iterator<Item = Option<Property<'v>>>>,
    ) -> bool {
        let (width, at) = (self.width(), combination as usize * self.width());
        if self.numbers.len() < at + width {
            self.numbers.resize(at + width, UNKNOWN);
        }
        let Some(values) = values else {
            self.numbers[at] = DROPPED;
            return true;
        };
        let numbers = &mut self.numbers[at..at + width];
        numbers[0] = ABSENT;
        for ((place, column), value) in numbers.iter_mut().zip(&mut self.columns).zip(values) {
            *place = value.map_or(ABSENT, |value| column.number(value));
            if *place >= DROPPED {
                *place = UNKNOWN;
                return false;
            }
        }
        true
    }

    /// An estimate of the memory.
    pub(super) fn bytes(&self) -> usize {
        4 * self.numbers.capacity() + self.columns.iter().map(ValueNumbers::bytes).sum::<usize>()
    }
}

/// What pipes compute for the rows of a batch.
pub(super) struct ComputedRows {
    /// The place of each row's combination.
    places: Vec<u32>,
    /// The different combinations of the batch.
    combinations: Vec<u32>,
    outcomes: Arc<Outcomes>,
}

impl ComputedRows {
    /// The combinations of a batch, the place of each row's one among them, and what became of each.
    pub(super) fn new(places: Vec<u32>, combinations: Vec<u32>, outcomes: Arc<Outcomes>) -> ComputedRows {
        ComputedRows { places, combinations, outcomes }
    }

    /// Removes the rows that the pipes drop.
    pub(super) fn drop_from(&self, rows: &mut RowSet) {
        let is_dropped: Vec<bool> =
            self.combinations.iter().map(|combination| self.outcomes.is_dropped(*combination)).collect();
        if is_dropped.contains(&true) {
            let dropped: Vec<usize> = rows.iter().filter(|row| is_dropped[self.places[*row] as usize]).collect();
            dropped.into_iter().for_each(|row| rows.remove(row));
        }
    }

    /// The number of a column's value in each combination of the batch; `None` of an absent one.
    fn numbers(&self, column: usize) -> impl Iterator<Item = Option<u32>> {
        self.combinations.iter().map(move |combination| {
            let number = self.outcomes.of(*combination)[column];
            (number != ABSENT && number < DROPPED).then_some(number)
        })
    }

    /// Applies `read` to the values of a column of some rows, once a combination, and passes the results on.
    pub(super) fn each<T: Copy>(
        &self,
        column: usize,
        rows: &RowSet,
        mut read: impl FnMut(Property<'_>) -> T,
        mut each: impl FnMut(usize, T),
    ) {
        let numbers: Vec<Option<u32>> = self.numbers(column).collect();
        let mut known: Vec<Option<T>> = vec![None; numbers.len()];
        let values = &self.outcomes.columns[column];
        rows.for_each(|row| {
            let place = self.places[row] as usize;
            let Some(number) = numbers[place] else { return };
            if known[place].is_none() {
                known[place] = values.value(number).map(|value| read(value.as_property()));
            }
            if let Some(value) = known[place] {
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
        let (values, round) = (&self.outcomes.columns[column], self.outcomes.round);
        let translated = self.numbers(column).map(|number| Some(numbers.translated(round, values, number?)));
        let translated: Vec<Option<u32>> = translated.collect();
        rows.for_each(|row| {
            if let Some(number) = translated[self.places[row] as usize] {
                each(row, number);
            }
        });
    }
}
