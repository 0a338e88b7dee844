//! Rows of an answer in a temporary file, with the names and types of their columns.
//!
//! ```text
//! row    = number of values (u32), then each value
//! value  = column (u32), type (u8), content: 8 bytes, or a length (u32) and bytes
//! ```
//!
//! All numbers are little-endian. The file has no name, so it goes with the process.

use crate::answer::AnswerRow;
use daytable_model::property::{OwnedValue, PropertyKind};
use daytable_model::time::{Ticks, UNIX_EPOCH_TICKS};
use daytable_platform::budget::OverBudget;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::sync::Arc;

/// Columns of a table.
const COLUMNS_MAX: usize = 10_000;
/// The largest whole number that every smaller one is a float, too.
const EXACT_MAX: u64 = 1 << 53;

/// Rows cannot be kept or written.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// The temporary file or the output failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The rows need more room than the caller grants.
    #[error("the answer has more than {0} bytes: ask for fewer records, or for NDJSON, which needs no temporary file")]
    TooLarge(u64),
    /// The rows have too many names.
    #[error("the answer has more than {COLUMNS_MAX} columns: choose some with | fields a, b")]
    TooManyColumns,
    /// The rows need more memory than there is.
    #[error("{0}")]
    NoMemory(OverBudget),
    /// Parquet could not be written.
    #[error("failed to write Parquet: {0}")]
    Parquet(String),
}

impl From<OverBudget> for SpoolError {
    fn from(over: OverBudget) -> SpoolError {
        SpoolError::NoMemory(over)
    }
}

/// The type of the values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ColumnType {
    Integer,
    Float,
    Boolean,
    Time,
    Bytes,
    /// Text, or values of several types as text.
    Text,
}

impl ColumnType {
    /// The type that a property of such values has.
    pub(super) fn kind(self) -> PropertyKind {
        match self {
            ColumnType::Integer => PropertyKind::Int64,
            ColumnType::Float => PropertyKind::Double,
            ColumnType::Boolean => PropertyKind::Boolean,
            ColumnType::Time => PropertyKind::DateTime,
            ColumnType::Bytes => PropertyKind::Binary,
            ColumnType::Text => PropertyKind::String,
        }
    }
}

/// A column of the rows.
pub struct SpoolColumn {
    name: Arc<str>,
    /// A bit for each type of a value that was seen.
    types: u8,
    has_large_integer: bool,
    has_far_time: bool,
    /// The last row with this column, to find a name that comes twice.
    row: u64,
}

impl SpoolColumn {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The type that holds all values without a change.
    pub(super) fn column_type(&self) -> ColumnType {
        match self.types {
            INTEGER => ColumnType::Integer,
            FLOAT => ColumnType::Float,
            types if types == INTEGER | FLOAT && !self.has_large_integer => ColumnType::Float,
            BOOLEAN => ColumnType::Boolean,
            TIME if !self.has_far_time => ColumnType::Time,
            BYTES => ColumnType::Bytes,
            _ => ColumnType::Text,
        }
    }
}

const INTEGER: u8 = 1;
const FLOAT: u8 = 2;
const BOOLEAN: u8 = 4;
const TIME: u8 = 8;
const TEXT: u8 = 16;
const BYTES: u8 = 32;

/// Rows of an answer in a file.
pub struct RowSpool {
    file: BufWriter<File>,
    columns: Vec<SpoolColumn>,
    numbers: HashMap<Arc<str>, usize>,
    rows: u64,
    bytes: u64,
    bytes_max: u64,
    row: Vec<u8>,
}

/// The values of a row, each with the number of its column.
pub(super) type SpooledRow = Vec<(usize, OwnedValue)>;

impl RowSpool {
    /// An empty spool in `file`, for at most `bytes_max` bytes.
    pub fn new(file: File, bytes_max: u64) -> RowSpool {
        let file = BufWriter::with_capacity(64 << 10, file);
        RowSpool { file, columns: Vec::new(), numbers: HashMap::new(), rows: 0, bytes: 0, bytes_max, row: Vec::new() }
    }

    /// The columns of all rows, in the order in which they came.
    pub fn columns(&self) -> &[SpoolColumn] {
        &self.columns
    }

    /// Adds a row.
    ///
    /// # Errors
    ///
    /// The file cannot be written, or a limit is reached.
    pub fn push(&mut self, row: &AnswerRow) -> Result<(), SpoolError> {
        self.rows += 1;
        self.row.clear();
        self.row.extend_from_slice(&[0; 4]);
        let mut values = 0u32;
        for (name, value) in row.columns() {
            let column = self.column(name)?;
            if let Some(value) = value {
                values += 1;
                self.value(column, value);
            }
        }
        self.row[..4].copy_from_slice(&values.to_le_bytes());
        self.bytes += self.row.len() as u64;
        if self.bytes > self.bytes_max {
            return Err(SpoolError::TooLarge(self.bytes_max));
        }
        Ok(self.file.write_all(&self.row)?)
    }

    /// The number of the column with this name. A name that comes twice in a row gets a `_`.
    fn column(&mut self, name: &Arc<str>) -> Result<usize, SpoolError> {
        let number = match self.numbers.get(name) {
            Some(number) => *number,
            None if self.columns.len() >= COLUMNS_MAX => return Err(SpoolError::TooManyColumns),
            None => {
                self.numbers.insert(name.clone(), self.columns.len());
                self.columns.push(SpoolColumn {
                    name: name.clone(),
                    types: 0,
                    has_large_integer: false,
                    has_far_time: false,
                    row: 0,
                });
                self.columns.len() - 1
            }
        };
        let column = &mut self.columns[number];
        if column.row == self.rows {
            return self.column(&format!("{name}_").into());
        }
        column.row = self.rows;
        Ok(number)
    }

    fn value(&mut self, number: usize, value: &OwnedValue) {
        let text;
        let (kind, fixed, bytes): (u8, i64, &[u8]) = match value {
            OwnedValue::Int64(n) => (INTEGER, *n, &[]),
            OwnedValue::Int32(n) => (INTEGER, i64::from(*n), &[]),
            OwnedValue::Double(n) => (FLOAT, n.to_bits().cast_signed(), &[]),
            OwnedValue::Boolean(is_true) => (BOOLEAN, i64::from(*is_true), &[]),
            OwnedValue::DateTime(time) => (TIME, time.get(), &[]),
            OwnedValue::String(text) => (TEXT, 0, text.as_bytes()),
            OwnedValue::Binary(bytes) => (BYTES, 0, bytes),
            other => {
                text = other.to_string();
                (TEXT, 0, text.as_bytes())
            }
        };
        let column = &mut self.columns[number];
        column.types |= kind;
        column.has_far_time |= kind == TIME && (fixed - UNIX_EPOCH_TICKS).checked_mul(100).is_none();
        column.has_large_integer |= kind == INTEGER && fixed.unsigned_abs() > EXACT_MAX;
        // A record has at most some megabytes.
        self.row.extend_from_slice(&(number as u32).to_le_bytes());
        self.row.push(kind);
        if matches!(kind, TEXT | BYTES) {
            self.row.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
            self.row.extend_from_slice(bytes);
        } else {
            self.row.extend_from_slice(&fixed.to_le_bytes());
        }
    }

    /// Gives each row to `each`, in the order in which they came.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or an error of `each`.
    pub(super) fn each(
        &mut self,
        each: &mut dyn FnMut(SpooledRow) -> Result<(), SpoolError>,
    ) -> Result<(), SpoolError> {
        self.file.flush()?;
        self.file.get_ref().seek(SeekFrom::Start(0))?;
        let mut input = BufReader::with_capacity(64 << 10, self.file.get_ref());
        for _ in 0..self.rows {
            let values = u32::from_le_bytes(read(&mut input)?);
            let mut row = Vec::with_capacity(values as usize);
            for _ in 0..values {
                let column = u32::from_le_bytes(read(&mut input)?) as usize;
                let [kind] = read(&mut input)?;
                row.push((column, read_value(&mut input, kind)?));
            }
            each(row)?;
        }
        Ok(())
    }
}

fn read<const N: usize>(input: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    input.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn read_value(input: &mut impl Read, kind: u8) -> io::Result<OwnedValue> {
    if matches!(kind, TEXT | BYTES) {
        let mut bytes = vec![0; u32::from_le_bytes(read(input)?) as usize];
        input.read_exact(&mut bytes)?;
        let text =
            || String::from_utf8(bytes.clone()).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error));
        return if kind == TEXT { text().map(OwnedValue::String) } else { Ok(OwnedValue::Binary(bytes)) };
    }
    let fixed = i64::from_le_bytes(read(input)?);
    Ok(match kind {
        INTEGER => OwnedValue::Int64(fixed),
        FLOAT => OwnedValue::Double(f64::from_bits(fixed.cast_unsigned())),
        BOOLEAN => OwnedValue::Boolean(fixed != 0),
        _ => OwnedValue::DateTime(Ticks::new(fixed).unwrap_or(Ticks::MIN)),
    })
}
