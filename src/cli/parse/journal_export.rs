//! Entries in the journal's export format (`journalctl --output=export`), as a `[[journal]]` block reads them.

use super::super::exit::CliError;
use super::super::output::Output;
use super::parsed_record::ParsedRecord;
use super::summary::ParseSummary;
use daytable_intake::journal::export::JournalParser;
pub(super) use daytable_intake::journal::export::is_export;
use daytable_intake::journal::record::JournalReading;
use daytable_model::time::now;
use daytable_parse::ParseOptions;
use std::io::{self, Read};

/// Bytes of one read.
const READ_BYTES: usize = 64 << 10;

/// Prints the records of an export.
pub(super) fn read(
    mut input: impl Read,
    reading: ParseOptions,
    entry_bytes_max: usize,
    output: &mut Output,
    failed: impl Fn(io::Error) -> CliError,
) -> Result<ParseSummary, CliError> {
    let (reading, mut entries) = (JournalReading::new(reading), JournalParser::new(entry_bytes_max));
    let (mut summary, mut buffer) = (ParseSummary::default(), vec![0; READ_BYTES]);
    loop {
        let length = input.read(&mut buffer).map_err(&failed)?;
        let mut written = Ok(());
        let each = |entry: daytable_intake::journal::export::JournalEntry<'_>| {
            let record = reading.record(&entry, now());
            summary.add_entry(&record.record, record.format);
            if written.is_ok() {
                written = output.json(&ParsedRecord(&record.record));
            }
        };
        let fed = if length == 0 { entries.finish(each) } else { entries.feed(&buffer[..length], each) };
        written?;
        fed.map_err(|malformed| failed(io::Error::new(io::ErrorKind::InvalidData, malformed)))?;
        if length == 0 {
            return Ok(summary);
        }
    }
}
