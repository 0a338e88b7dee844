//! The query language: a subset of LogsQL.
//!
//! ```text
//! text ──► tokens ──► ParsedQuery ──┬─► filter ──► Predicate ──► a record matches, or does not
//!          lexer      parser        └─► pipes      (predicate,
//!                                                   matcher)
//! ```
//!
//! * [`field_name`]: the name of a field as a query writes it, and the columns that every record has.
//! * [`mod@unit`], [`moment`], [`number`]: durations, sizes, times, numbers and addresses as a query writes them.
//! * `keyword`: words of the language.
//! * [`query`]: the tree of a query. `print` is its text: parsing the text gives the same tree.
//! * [`remark`]: text that is a query and looks like something else, and the fields that a query names. `foreign`: what
//!   users of other languages write. `scope`: the columns that each pipe has before it.
//! * [`error`]: a syntax error names the place in the query and the expected text.
//! * `lexer`, `parser`, `pipe_parser`: text becomes the tree.
//! * [`effect`]: what each pipe does to the rows that pass it. [`plan`]: the same answer with less work.
//! * `columns`: which columns of an answer are groups.
//! * [`template`]: the patterns of the pipes `extract` and `format`.
//! * [`line_pattern`]: a text without what changes. [`matcher`]: the test of one value. [`predicate`]: the test of a record, by the trait [`Fields`].
//!
//! The crate knows neither stores nor pipes at work: `crates/query` evaluates the pipes, and `crates/intake` routes
//! records by predicates. Every input is parsed or refused: no text makes the parser panic, and depth, length and
//! number of terms have limits.

mod keyword;
pub mod field_name;
pub mod unit;
pub mod moment;
pub mod number;
pub mod query;
pub mod error;
pub mod remark;
mod foreign;
pub mod effect;
mod scope;
pub mod plan;
pub mod template;
mod print;
mod lexer;
mod parser;
mod pipe_parser;
mod columns;
pub mod line_pattern;
pub mod matcher;
pub mod predicate;
#[cfg(test)]
mod remark_tests;
#[cfg(test)]
mod tests;

pub use columns::{GroupFilter, GroupTest};
pub use error::SyntaxError;
pub use field_name::{ARRIVED_COLUMN, Column, FieldName, other_name};
pub use matcher::Matcher;
pub use parser::{regexp, regexp_of_parts};
pub use predicate::{Fields, Predicate, PredicateNode, passes_as_read, passes_as_value};
pub use query::{Expression, ParsedQuery, Pipe, Test};
pub use remark::{FieldUse, Remarks};

/// Maximum length of a query.
pub const QUERY_BYTES_MAX: usize = 64 << 10;

/// Maximum depth of nested parentheses and negations.
pub const QUERY_DEPTH_MAX: usize = 64;

/// Maximum number of filters and values in a query.
pub const QUERY_TERMS_MAX: usize = 4096;

/// Maximum number of pipes of a query.
pub const QUERY_PIPES_MAX: usize = 64;
