//! The data model: records, keys, rows, batches and day-tables. It has no I/O and no threads, and imports no other
//! crate of daytable.
//!
//! * [`time`]: ticks of 100 ns, and the only function that reads the wall clock.
//! * [`clock`]: what the clocks of a place show, and where days and hours begin by them.
//! * [`level`]: the level of a record.
//! * [`record`]: a parsed line, borrowed from the line.
//! * [`source_id`]: the identity of a source: when it began, its host, a hash.
//! * [`key`]: the table of the day, the partition of the instance, the row key with inverted time.
//! * [`sender_keys`]: the keys of records that another host sent.
//! * [`column_name`]: the names that properties have as columns of a Parquet file.
//! * [`property`]: the values of a row and the names that properties may have.
//! * [`field_properties`]: which property each field of a record has, also where names collide.
//! * [`batch`]: rows of one table and partition, the unit of a commit.
//! * [`entity`]: writes a record as one row, or as a master row and its items.
//! * [`window`]: which days accept records, and which days have expired.
//! * [`bucket_plan`]: over how many partitions an instance is spread, and from which record time on.
//! * [`stream`]: the stream that a record was pushed to. [`arrival`]: when it arrived, where its time does not tell.
//! * [`mod@line`]: the original text of a record, made again from its parts.
//! * [`words`]: the words of a text, for an index of words.
//! * [`needle`]: a search text, and the test whether a value contains it.
//! * [`required_text`]: the text that each match of a regular expression contains.
//! * [`row_set`]: some rows of a page or row group.
//! * [`digits`]: numbers at the front of a text, eight bytes at a time.
//! * [`path_text`], [`safe_text`]: paths and untrusted text in a form that is safe to show.
//! * [`decimal`]: whole numbers as text. [`units`]: durations and sizes as people write them. [`did_you_mean`]: suggestions for misspelt names.

pub mod time;
pub mod clock;
pub mod column_name;
pub mod digits;
pub mod level;
pub mod record;
pub mod source_id;
pub mod key;
pub mod sender_keys;
pub mod stream;
pub mod arrival;
pub mod line;
pub mod property;
pub mod field_properties;
pub mod batch;
pub mod entity;
pub mod window;
pub mod bucket_plan;
pub mod words;
pub mod needle;
pub mod required_text;
pub mod row_set;
pub mod path_text;
pub mod safe_text;
pub mod decimal;
pub mod units;
pub mod did_you_mean;
