//! CSV as [RFC 4180](https://www.rfc-editor.org/rfc/rfc4180) has it, with newlines for ends of lines. An absent value is empty.
//!
//! Senders of records choose their text. A spreadsheet runs text that begins like a formula, so CSV for spreadsheets has an
//! apostrophe before such text; CSV for programs has every value as it is.

use super::spool::{RowSpool, SpoolError};
use daytable_model::property::TypedValue;
use std::borrow::Cow;
use std::io::Write;

/// Who reads the CSV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CsvReader {
    /// A program, which takes text for text.
    Program,
    /// A spreadsheet, which takes some text for formulas.
    Spreadsheet,
}

/// Writes the header and the rows.
///
/// # Errors
///
/// The spool cannot be read, or `out` cannot be written.
pub fn write_csv(spool: &mut RowSpool, reader: CsvReader, mut out: impl Write) -> Result<(), SpoolError> {
    let names: Vec<String> = spool.columns().iter().map(|column| quoted(&reader.cell(column.name()))).collect();
    if names.is_empty() {
        return Ok(());
    }
    writeln!(out, "{}", names.join(","))?;
    let mut cells = vec![String::new(); names.len()];
    spool.each(&mut |row| {
        cells.iter_mut().for_each(String::clear);
        for (column, value) in row {
            cells[column] = quoted(&match value.as_property() {
                TypedValue::String(text) => reader.cell(text),
                number => number.text(),
            });
        }
        writeln!(out, "{}", cells.join(","))?;
        Ok(())
    })?;
    Ok(out.flush()?)
}

impl CsvReader {
    fn cell(self, text: &str) -> Cow<'_, str> {
        let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']) && text.parse::<f64>().is_err();
        if self == CsvReader::Spreadsheet && is_formula { format!("'{text}").into() } else { text.into() }
    }
}

fn quoted(text: &str) -> String {
    let needs_quotes = text.contains(['"', ',', '\n', '\r']) || text.starts_with(' ') || text.ends_with(' ');
    if needs_quotes { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::CsvReader::{self, Program, Spreadsheet};

    #[test]
    fn text_is_no_formula_of_a_spreadsheet() {
        let cells = |reader: CsvReader| {
            ["=cmd|' /c calc'!A1", "+1", "-0.5", "- item", "@SUM(A1)", "\t=1", "a=b", ""].map(|text| reader.cell(text))
        };
        assert_eq!(cells(Program), ["=cmd|' /c calc'!A1", "+1", "-0.5", "- item", "@SUM(A1)", "\t=1", "a=b", ""]);
        assert_eq!(
            cells(Spreadsheet),
            ["'=cmd|' /c calc'!A1", "+1", "-0.5", "'- item", "'@SUM(A1)", "'\t=1", "a=b", ""]
        );
    }
}
