//! A Parquet file of rows: a column for each name, typed where all of its values have one type, and text otherwise. A name
//! that differs from an earlier column's only by case is `name:type`, as in sealed days: many tools do not distinguish them.
//!
//! Rows are written group by group. Memory holds one group, and of each column of each group what the end of the file
//! says of it.

use super::spool::{ColumnType, RowSpool, SpoolError, SpooledRow};
use daytable_model::column_name::ColumnNames;
use daytable_model::property::OwnedValue;
use daytable_platform::budget::QuestionBudget;
use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;
use std::io::Write;
use std::sync::Arc;

/// Rows of a group.
const GROUP_ROWS_MAX: usize = 100_000;
/// Bytes of texts in a group.
const GROUP_BYTES_MAX: usize = 16 << 20;
/// Values of a group: what each column needs for a row is in memory.
const GROUP_VALUES_MAX: usize = 4 << 20;
/// What a value of a group takes beside its text: itself, its level, and the copy of the column that is encoded.
const VALUE_BYTES: usize = 64;
/// What the end of the file has of a column of a group, in memory: its place, sizes, least and greatest value.
const CHUNK_BYTES: usize = 1 << 10;

impl From<ParquetError> for SpoolError {
    fn from(error: ParquetError) -> SpoolError {
        match error {
            ParquetError::External(source) => match source.downcast::<std::io::Error>() {
                Ok(error) => SpoolError::Io(*error),
                Err(error) => SpoolError::Parquet(error.to_string()),
            },
            error => SpoolError::Parquet(error.to_string()),
        }
    }
}

/// Writes the rows as a Parquet file.
///
/// # Errors
///
/// The spool cannot be read, `out` cannot be written, or `budget` has too little memory.
pub fn write_parquet<W: Write + Send>(spool: &mut RowSpool, out: W, budget: &QuestionBudget) -> Result<(), SpoolError> {
    let mut names = ColumnNames::default();
    let columns: Vec<(String, ColumnType)> = spool
        .columns()
        .iter()
        .map(|column| (names.add(column.name(), column.column_type().kind()), column.column_type()))
        .collect();
    let fields = columns.iter().map(|(name, kind)| field(name, *kind).map(Arc::new)).collect::<Result<_, _>>()?;
    let schema = Type::group_type_builder("answer").with_fields(fields).build()?;
    let properties = WriterProperties::builder()
        .set_created_by(concat!("daytable ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
        .set_max_row_group_row_count(None)
        .build();
    let mut file = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))?;
    let kinds: Vec<ColumnType> = columns.into_iter().map(|(_, kind)| kind).collect();
    let mut group = Group::new(&kinds);
    let mut end = |group: Group| {
        budget.charge(kinds.len() * CHUNK_BYTES, "columns")?;
        budget.release(group.charged);
        group.write(&mut file)
    };
    spool.each(&mut |row| {
        budget.charge(group.push(row), "rows")?;
        if group.is_full() { end(std::mem::replace(&mut group, Group::new(&kinds))) } else { Ok(()) }
    })?;
    if group.rows > 0 {
        end(group)?;
    }
    file.finish()?;
    Ok(file.inner_mut().flush()?)
}

fn field(name: &str, kind: ColumnType) -> Result<Type, ParquetError> {
    let (physical, logical) = match kind {
        ColumnType::Integer => (Physical::INT64, None),
        ColumnType::Float => (Physical::DOUBLE, None),
        ColumnType::Boolean => (Physical::BOOLEAN, None),
        ColumnType::Time => (Physical::INT64, Some(LogicalType::timestamp(true, TimeUnit::NANOS))),
        ColumnType::Bytes => (Physical::BYTE_ARRAY, None),
        ColumnType::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
    };
    Type::primitive_type_builder(name, physical)
        .with_repetition(Repetition::OPTIONAL)
        .with_logical_type(logical)
        .build()
}

/// The values of a column in a group, and for each row whether there is one.
struct GroupColumn {
    levels: Vec<i16>,
    values: ColumnValues,
}

enum ColumnValues {
    Integers(Vec<i64>),
    Floats(Vec<f64>),
    Booleans(Vec<bool>),
    Bytes(Vec<ByteArray>),
}

/// The rows of a row group, by column.
struct Group {
    columns: Vec<GroupColumn>,
    is_text: Vec<bool>,
    rows: usize,
    bytes: usize,
    /// About the bytes that it has in memory.
    charged: usize,
}

impl Group {
    fn new(kinds: &[ColumnType]) -> Group {
        let values = |kind: &ColumnType| match kind {
            ColumnType::Integer | ColumnType::Time => ColumnValues::Integers(Vec::new()),
            ColumnType::Float => ColumnValues::Floats(Vec::new()),
            ColumnType::Boolean => ColumnValues::Booleans(Vec::new()),
            ColumnType::Bytes | ColumnType::Text => ColumnValues::Bytes(Vec::new()),
        };
        let columns = kinds.iter().map(|kind| GroupColumn { levels: Vec::new(), values: values(kind) }).collect();
        let is_text = kinds.iter().map(|kind| *kind == ColumnType::Text).collect();
        Group { columns, is_text, rows: 0, bytes: 0, charged: 0 }
    }

    fn is_full(&self) -> bool {
        self.rows >= GROUP_ROWS_MAX
            || self.bytes >= GROUP_BYTES_MAX
            || self.rows * self.columns.len() >= GROUP_VALUES_MAX
    }

    /// Adds a row, and returns about how much memory that took.
    fn push(&mut self, row: SpooledRow) -> usize {
        let (values, before) = (row.len(), self.bytes);
        for (at, value) in row {
            let GroupColumn { levels, values } = &mut self.columns[at];
            levels.resize(self.rows, 0);
            levels.push(1);
            match (values, value) {
                (ColumnValues::Integers(integers), OwnedValue::Int64(n)) => integers.push(n),
                (ColumnValues::Integers(integers), OwnedValue::DateTime(time)) => {
                    // A column with a time before 1677 or after 2262 is a text.
                    integers.push(time.unix_nanos());
                }
                (ColumnValues::Floats(floats), OwnedValue::Double(n)) => floats.push(n),
                // A column of floats has no whole number that a float does not express.
                (ColumnValues::Floats(floats), OwnedValue::Int64(n)) => floats.push(n as f64),
                (ColumnValues::Booleans(booleans), OwnedValue::Boolean(is_true)) => booleans.push(is_true),
                (ColumnValues::Bytes(bytes), value) => {
                    let value = match value {
                        OwnedValue::Binary(value) if !self.is_text[at] => value,
                        OwnedValue::String(text) => text.into_bytes(),
                        value => value.as_property().text().into_owned().into_bytes(),
                    };
                    self.bytes += value.len();
                    bytes.push(value.into());
                }
                // The type of a column follows from its values.
                (_, _) => {
                    levels.pop();
                }
            }
        }
        self.rows += 1;
        let bytes = 2 * (self.bytes - before) + values * VALUE_BYTES + self.columns.len() * size_of::<i16>();
        self.charged += bytes;
        bytes
    }

    fn write<W: Write + Send>(self, file: &mut SerializedFileWriter<W>) -> Result<(), SpoolError> {
        let mut group = file.next_row_group()?;
        for GroupColumn { mut levels, values } in self.columns {
            levels.resize(self.rows, 0);
            match values {
                ColumnValues::Integers(values) => write_column::<Int64Type, _>(&mut group, &values, &levels)?,
                ColumnValues::Floats(values) => write_column::<DoubleType, _>(&mut group, &values, &levels)?,
                ColumnValues::Booleans(values) => write_column::<BoolType, _>(&mut group, &values, &levels)?,
                ColumnValues::Bytes(values) => write_column::<ByteArrayType, _>(&mut group, &values, &levels)?,
            }
        }
        group.close()?;
        Ok(())
    }
}

fn write_column<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[T::T],
    levels: &[i16],
) -> Result<(), SpoolError> {
    let Some(mut column) = group.next_column()? else { return Ok(()) };
    column.typed::<T>().write_batch(values, Some(levels), None)?;
    Ok(column.close()?)
}

#[cfg(test)]
mod tests {
    use super::super::{CsvReader, write_csv};
    use super::*;
    use crate::answer::AnswerRow;
    use daytable_model::time::Ticks;
    use daytable_platform::budget::MemoryBudget;
    use daytable_platform::scratch::create_unnamed;
    use parquet::file::reader::{FileReader, SerializedFileReader};

    /// Rows whose columns appear late, disappear, and change their type.
    fn spool() -> RowSpool {
        let folder = tempfile::tempdir().expect("a folder");
        let mut spool = RowSpool::new(create_unnamed(folder.path()).expect("a file"), u64::MAX);
        for n in 0..5_i64 {
            let mut row = AnswerRow::default();
            row.push("time".into(), Some(OwnedValue::DateTime(Ticks::from_unix(n, 0).expect("a time"))));
            row.push("n".into(), (n != 2).then_some(OwnedValue::Int64(n)));
            if n % 2 == 1 {
                row.push("ratio".into(), Some(OwnedValue::Double(n as f64 / 2.0)));
                row.push("n".into(), Some(OwnedValue::String("two, \"again\"".into())));
            } else {
                row.push("ratio".into(), Some(OwnedValue::Int64(n)));
            }
            let mixed = if n == 0 { OwnedValue::Int64(i64::MAX) } else { OwnedValue::Boolean(true) };
            row.push("mixed".into(), Some(mixed));
            spool.push(&row).expect("pushed");
        }
        spool
    }

    #[test]
    fn a_table_has_the_columns_of_all_rows() {
        let mut csv = Vec::new();
        write_csv(&mut spool(), CsvReader::Program, &mut csv).expect("written");
        let csv = String::from_utf8(csv).expect("text");
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(lines[0], "time,n,ratio,mixed,n_");
        assert_eq!(lines[1], "1970-01-01T00:00:00Z,0,0,9223372036854775807,");
        assert_eq!(lines[2], "1970-01-01T00:00:01Z,1,0.5,true,\"two, \"\"again\"\"\"");
        assert_eq!(lines[3], "1970-01-01T00:00:02Z,,2,true,");
    }

    #[test]
    fn a_parquet_file_keeps_types_and_absent_values() {
        let mut file = Vec::new();
        write_parquet(&mut spool(), &mut file, &QuestionBudget::unlimited()).expect("written");
        let reader = SerializedFileReader::new(bytes::Bytes::from(file)).expect("a Parquet file");
        let rows: Vec<String> =
            reader.get_row_iter(None).expect("rows").map(|row| row.expect("a row").to_string()).collect();
        assert_eq!(rows.len(), 5);
        for part in ["n: 1,", "ratio: 0.5", "mixed: \"true\"", "n_: \"two, \"again\"\""] {
            assert!(rows[1].contains(part), "{part}: {}", rows[1]);
        }
        assert!(rows[2].contains("n: null") && rows[2].contains("ratio: 2.0"), "{}", rows[2]);
        assert!(rows[0].contains("mixed: \"9223372036854775807\""), "{}", rows[0]);
    }

    #[test]
    fn columns_of_a_parquet_file_differ_by_more_than_case() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut spool = RowSpool::new(create_unnamed(folder.path()).expect("a file"), u64::MAX);
        for (n, name) in (0..).zip(["userId", "userid", "UserID", "USERID_Int64", "größe", "GRÖSSE", "GRÖßE"]) {
            let mut row = AnswerRow::default();
            row.push(name.into(), Some(OwnedValue::Int64(n)));
            spool.push(&row).expect("pushed");
        }
        let mut file = Vec::new();
        write_parquet(&mut spool, &mut file, &QuestionBudget::unlimited()).expect("written");
        let reader = SerializedFileReader::new(bytes::Bytes::from(file)).expect("a Parquet file");
        let names: Vec<&str> =
            reader.metadata().file_metadata().schema_descr().columns().iter().map(|column| column.name()).collect();
        let distinct =
            ["userId", "userid_int64", "UserID_int64_2", "USERID_Int64_int64", "größe", "GRÖSSE", "GRÖßE_int64"];
        assert_eq!(names, distinct);
    }

    #[test]
    fn a_spool_has_limits() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut spool = RowSpool::new(create_unnamed(folder.path()).expect("a file"), 40);
        let mut row = AnswerRow::default();
        row.push("text".into(), Some(OwnedValue::String("x".repeat(20))));
        spool.push(&row).expect("it fits");
        assert!(matches!(spool.push(&row), Err(SpoolError::TooLarge(40))));
    }

    #[test]
    fn many_groups_of_many_columns_are_refused_before_their_description_fills_the_memory() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut spool = RowSpool::new(create_unnamed(folder.path()).expect("a file"), u64::MAX);
        for n in 0..2_000_i64 {
            let mut row = AnswerRow::default();
            for more in 0..5 {
                row.push(format!("name{}", 5 * n + more).as_str().into(), Some(OwnedValue::Int64(n)));
            }
            spool.push(&row).expect("kept");
        }
        let memory = MemoryBudget::unshared(20 << 20);
        let mut file = Vec::new();
        let refused = write_parquet(&mut spool, &mut file, &memory.question());
        assert!(matches!(refused, Err(SpoolError::NoMemory(_))), "{refused:?}");
        let question = MemoryBudget::unshared(128 << 20).question();
        write_parquet(&mut spool, Vec::new(), &question).expect("written");
        assert_eq!(question.charged(), 5 * 10_000 * CHUNK_BYTES, "the rows were given back");
    }
}
