//! LogQL, the query language of Loki: read, evaluated over any source of entries, and written in one form.
//!
//! ```text
//! text ─► lexer ─► parser ─► ast ─► eval ─► entries, numbers
//!                             │      ▲
//!                           print  EntrySource: entries of the selected streams
//! ```
//!
//! * [`parse`]: a query becomes a tree ([`ast`]); a mistake has its place.
//! * [`labels`], [`text`]: sets of labels; literals, durations, sizes and numbers.
//! * [`eval`]: the answer of a query.
//! * `stages`: what a pipeline does to an entry; `template`: the templates of `line_format` and `label_format`.
//! * [`source`]: entries, and which of them are wanted. [`eval::EntrySource`] gives them: this crate knows no store.
//! * [`level`]: the label `detected_level`, by the rules of Loki.
//! * [`cluster`]: patterns of lines that look alike.
//!
//! Written from the documentation of the language, and from answers of a running Loki. Depth, size and memory of a query are
//! bounded; no text panics.

pub mod ast;
pub mod cluster;
mod error;
pub mod eval;
mod ip;
pub mod labels;
pub mod level;
mod lexer;
mod line_pattern;
mod parser;
mod pattern_syntax;
mod print;
pub mod source;
mod stages;
mod template;
pub mod text;

pub use daytable_platform::budget::{MemoryBudget, QuestionBudget};
pub use error::{EvalError, QuerySyntaxError};
pub use parser::{QUERY_BYTES_MAX, parse, parse_selector};
pub use stages::json::path_of_label as json_path;
pub use stages::line_use;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
