//! Answers as tables: CSV and Parquet.
//!
//! ```text
//! rows ──► RowSpool ──► write_csv, write_parquet
//!          a file, and the names and types of its columns
//! ```
//!
//! A table has its header first, and the columns of an answer are known when its last row was seen. So the rows go to a
//! temporary file without a name, and the table is written from there: memory holds one row group, whatever the answer's
//! size.

mod csv;
mod parquet_file;
mod spool;

pub use csv::{CsvReader, write_csv};
pub use parquet_file::write_parquet;
pub use spool::{RowSpool, SpoolError};
