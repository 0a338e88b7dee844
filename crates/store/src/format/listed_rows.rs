//! The values of rare properties, by row.
//!
//! A column that most rows lack lists the rows that have a value, so it takes memory for its values alone. Whoever asks
//! for the properties of a row would have to look into each such column, though, and a page or a row group may have
//! thousands of them. So their values are sorted by row here, once they are asked for.

/// The values of columns that list their rows, by row, and the numbers of all other columns.
#[derive(Debug, Default)]
pub(crate) struct ListedRows {
    /// Columns that do not list their rows, in order.
    dense: Vec<u32>,
    /// Sorted by row, and by column within a row.
    values: Vec<ListedValue>,
}

/// A value of a column that lists its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ListedValue {
    row: u32,
    column: u32,
    /// The number of the value in its column.
    index: u32,
}

/// Rows, columns and values of a page or a row group fit 32 bits.
fn short(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

impl ListedRows {
    /// Of columns in their order, each with its rows if it lists them.
    pub(crate) fn of<'c>(columns: impl Iterator<Item = Option<&'c [u32]>>) -> ListedRows {
        let mut of = ListedRows::default();
        for (column, rows) in columns.enumerate() {
            let column = short(column);
            match rows {
                None => of.dense.push(column),
                Some(rows) => {
                    of.values.extend(rows.iter().zip(0..).map(|(row, index)| ListedValue { row: *row, column, index }));
                }
            }
        }
        of.values.sort_unstable();
        of
    }

    /// The columns that may have a value of a row, in their order, with the number of the value where that is known.
    #[inline]
    pub(crate) fn columns(&self, row: usize) -> RowColumns<'_> {
        let row = short(row);
        let start = self.values.partition_point(|value| value.row < row);
        let of_row = &self.values[start..];
        let count = of_row.iter().take_while(|value| value.row == row).count();
        RowColumns { dense: &self.dense, listed: &of_row[..count] }
    }
}

/// The columns that may have a value of a row.
pub(crate) struct RowColumns<'l> {
    dense: &'l [u32],
    listed: &'l [ListedValue],
}

impl Iterator for RowColumns<'_> {
    type Item = (usize, Option<usize>);

    #[inline]
    fn next(&mut self) -> Option<(usize, Option<usize>)> {
        match (self.dense.split_first(), self.listed.split_first()) {
            (Some((column, dense)), listed) if listed.is_none_or(|(value, _)| *column < value.column) => {
                self.dense = dense;
                Some((*column as usize, None))
            }
            (_, Some((value, listed))) => {
                self.listed = listed;
                Some((value.column as usize, Some(value.index as usize)))
            }
            (_, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Each row has its values in the order of the columns, and every column that lists no rows.
        #[test]
        fn values_are_found_by_their_row(
            columns in prop::collection::vec(prop::option::of(prop::collection::btree_set(0u32..20, 1..6)), 0..30),
        ) {
            let columns: Vec<Option<Vec<u32>>> =
                columns.into_iter().map(|rows| Some(rows?.into_iter().collect())).collect();
            let listed = ListedRows::of(columns.iter().map(Option::as_deref));
            for row in 0..22u32 {
                let of_row = |(number, rows): (usize, &Option<Vec<u32>>)| match rows {
                    None => Some((number, None)),
                    Some(rows) => rows.binary_search(&row).ok().map(|index| (number, Some(index))),
                };
                let wanted: Vec<_> = columns.iter().enumerate().filter_map(of_row).collect();
                prop_assert_eq!(listed.columns(row as usize).collect::<Vec<_>>(), wanted);
            }
        }
    }
}
