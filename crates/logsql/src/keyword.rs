//! Words of the language, and the quotes of values that could be mistaken for them.

use std::fmt;

/// The names of pipes. Several names of one pipe stand together.
pub(crate) const PIPES: [&str; 40] = [
    "stats",
    "top",
    "uniq",
    "first",
    "last",
    "sort",
    "order",
    "limit",
    "head",
    "offset",
    "skip",
    "fields",
    "keep",
    "delete",
    "del",
    "rm",
    "drop",
    "copy",
    "cp",
    "rename",
    "mv",
    "filter",
    "where",
    "extract",
    "extract_regexp",
    "format",
    "replace",
    "replace_regexp",
    "math",
    "eval",
    "len",
    "facets",
    "field_names",
    "field_values",
    "sample",
    "join",
    "sessions",
    "gaps",
    "pivot",
    "pattern",
];

/// The functions of filters.
pub(crate) const FILTER_FUNCTIONS: [&str; 15] = [
    "contains_all",
    "contains_any",
    "eq_field",
    "exact",
    "i",
    "in",
    "ipv4_range",
    "le_field",
    "len_range",
    "lt_field",
    "pattern",
    "range",
    "re",
    "seq",
    "string_range",
];

/// Other words that mean something where a filter is expected.
const RESERVED: [&str; 12] =
    ["and", "or", "not", "now", "offset", "options", "day_range", "week_range", "if", "as", "by", "default"];

/// Whether a text needs quotes although it is a word. Names of pipes count, because a filter cannot begin with one.
pub(crate) fn is_reserved(text: &str) -> bool {
    let is = |word: &&str| word.eq_ignore_ascii_case(text);
    FILTER_FUNCTIONS.iter().chain(&RESERVED).chain(&PIPES).any(is)
}

/// Writes a name or value of a query, with quotes where the language needs them.
pub(crate) fn quoted(f: &mut impl fmt::Write, text: &str) -> fmt::Result {
    let is_word = |c: char| c == '_' || c == '.' || c.is_alphanumeric();
    if !text.is_empty() && text.chars().all(is_word) && !is_reserved(text) {
        return f.write_str(text);
    }
    f.write_char('"')?;
    for c in text.chars() {
        match c {
            '"' | '\\' => write!(f, "\\{c}")?,
            '\n' => f.write_str("\\n")?,
            '\t' => f.write_str("\\t")?,
            '\r' => f.write_str("\\r")?,
            c if c.is_control() => write!(f, "\\u{{{:x}}}", u32::from(c))?,
            c => f.write_char(c)?,
        }
    }
    f.write_char('"')
}
