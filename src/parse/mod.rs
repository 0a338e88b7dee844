//! (to be written)

/// How the lines of a source are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FormatChoice {
    /// Recognised line by line.
    #[default]
    Auto,
    /// A JSON object a line.
    Json,
    /// `key=value` pairs.
    Logfmt,
    /// `TIMESTAMP LEVEL text`.
    Text,
    /// The whole line is the message, its time that of arrival.
    Plain,
}
