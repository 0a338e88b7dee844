//! Questions to columns as they are encoded, instead of to rows.
//!
//! A filter is decided for the rows of a batch at once. What columns cannot decide stays open, and is decided by the
//! record itself: a record of several rows, or a condition that only the whole line decides. So a filter has one
//! meaning, that of its predicate on records; columns only say which records need not be made.
//!
//! * `filter`: decides a filter for the rows of a batch. `matching`: makes the records that are needed for it.
//! * `records`: the matching records, newest first.
//! * `entries`: records as entries of the language of Loki, by what `entry_question` asks. `entry_columns`: by columns, once a
//!   combination of values (`entry_shapes`). `entry_lines`, `line_parts`: which parts of their lines matter.
//! * `groups`, `values`: groups and functions over columns. `fields`: the fields and their values. `aggregate`: both over all
//!   tables.
//! * `group_table`: groups and the states of their functions, for columns and for rows.
//! * `arrivals`: when records arrived.
//! * `value_numbers`: small numbers that stand for values (`small_numbers`: those of small whole numbers).
//! * `group_step`: groups by the groups of fewer fields. `group_states`: what functions keep of each group (`group_sums`,
//!   `group_extremes`, `group_quantiles`, `group_uniq`; `group_others`: functions without a form of their own).
//! * `computed`: columns that pipes compute in front of a pipe that groups, once a combination of values (`combinations`,
//!   `computed_rows`; `listed_values` where texts hardly come again), or of numbers all at once (`number_pipes`, which make
//!   `number_rows`).
//! * `fields_by_row`: the values of several fields, row by row.
//! * `sorted`: the first records of an order.
//! * `networks`: the addresses of a network, by the numbers of a pattern.
//! * `names`: the names of fields, by the headers of pages and files.
//! * `counted`: what a page's numbers of records by value tell, without its columns.
//! * `place`: a table in the data folder or in its archive.

mod arrivals;
mod combinations;
mod computed;
mod computed_rows;
mod counted;
mod entries;
mod entry_columns;
mod entry_lines;
mod entry_question;
mod entry_shapes;
mod fields;
mod fields_by_row;
mod filter;
mod aggregate;
mod group_extremes;
mod group_others;
mod group_quantiles;
mod group_states;
mod group_step;
mod group_sums;
mod group_table;
mod group_uniq;
mod groups;
mod kept;
mod line_parts;
mod listed_values;
mod matching;
mod names;
mod networks;
mod number_pipes;
mod number_rows;
mod place;
mod records;
mod small_numbers;
mod sorted;
#[cfg(test)]
mod tests;
mod value_numbers;
mod values;

pub(super) use aggregate::{
    Aggregated, AggregationReport, FoldedTables, GroupQuestion, aggregate_entries, aggregate_fields, aggregate_records,
    collect_sorted,
};
pub use entry_question::{
    AlikeLine, AlikeOutcome, EntryCell, EntryFold, EntryNeeds, EntryQuestion, EntryValue, InstanceTest, LineNeed,
    StreamNeeds, ValueNeed,
};
pub(super) use group_table::GroupTable;
pub use line_parts::{LineSyntax, MemberReader, MemberScan};
pub(super) use names::{FieldNames, gather_names};
pub(super) use records::{WantedRecords, select_matching};
pub(super) use sorted::SortQuestion;
