//! CSV as [RFC 4180](https://www.rfc-editor.org/rfc/rfc4180) has it, with newlines for ends of lines. An absent value is empty.

use super::spool::{RowSpool, SpoolError};
use std::io::Write;

/// Writes the header and the rows.
///
/// # Errors
///
/// The spool cannot be read, or `out` cannot be written.
pub fn write_csv(spool: &mut RowSpool, mut out: impl Write) -> Result<(), SpoolError> {
    let names: Vec<String> = spool.columns().iter().map(|column| quoted(column.name())).collect();
    if names.is_empty() {
        return Ok(());
    }
    writeln!(out, "{}", names.join(","))?;
    let mut cells = vec![String::new(); names.len()];
    spool.each(&mut |row| {
        cells.iter_mut().for_each(String::clear);
        for (column, value) in row {
            cells[column] = quoted(&value.as_property().text());
        }
        writeln!(out, "{}", cells.join(","))?;
        Ok(())
    })?;
    Ok(out.flush()?)
}

fn quoted(text: &str) -> String {
    let needs_quotes = text.contains(['"', ',', '\n', '\r']) || text.starts_with(' ') || text.ends_with(' ');
    if needs_quotes { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}
