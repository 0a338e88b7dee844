//! What a record, a key, a row, a batch and a day-table are. No I/O, no threads, and nothing else of ours below it.
//!
//! * [`time`]: ticks of 100 ns, and the one function that reads the wall clock.
//! * [`record`]: what a line says, borrowed from the line.
//! * [`key`]: the table of the day, the partition of the instance, the row key of inverted time.
//! * [`property`]: the values of a row and the names that properties may have.
//! * [`entity`]: a record becomes one row of a batch, or a master row and its items.
//! * [`batch`]: rows of one table and partition: the unit that is handed to the commit.
//! * [`window`]: which days take records, and which have expired.
//! * [`bucket_plan`]: over how many partitions an instance is spread, and from which record time on.
//! * [`needle`]: a text that is searched for, and which values contain it.
//! * [`path_text`], [`safe_text`]: paths and foreign text, as they are shown.
//! * [`units`]: durations and sizes as people write them. [`did_you_mean`]: the nearest known name.

pub mod time;
pub mod record;
pub mod key;
pub mod property;
pub mod batch;
pub mod entity;
pub mod window;
pub mod bucket_plan;
pub mod needle;
pub mod path_text;
pub mod safe_text;
pub mod units;
pub mod did_you_mean;
