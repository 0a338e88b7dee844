//! Rows of the table `page`: headers, read and written.

use super::page::PageHeader;
use super::small_pages::{PageLocation, PageRow};
use daytable_model::key::RowKey;
use rusqlite::{Connection, Row, params};

/// The columns for [`read_header`], in its order.
pub(crate) const HEADER_COLUMNS: &str =
    "page.id, page.partition, page.first, page.last, page.seq, page.entities, page.records, page.codec, page.raw_bytes,
     page.checksum, page.levels";

/// Writes the header of a page, with its stored checksum.
pub(crate) fn put_header(
    connection: &Connection,
    id: i64,
    partition: i64,
    seq: i64,
    header: &PageHeader,
    checksum: u64,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO page(id, partition, first, last, seq, entities, records, codec, raw_bytes, checksum, levels)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        )?
        .execute(params![
            id,
            partition,
            header.first.to_bytes(),
            header.last.to_bytes(),
            seq,
            header.entities,
            header.records,
            header.codec,
            header.raw_bytes,
            checksum.cast_signed(),
            header.levels,
        ])
        .map(drop)
}

/// Reads a header from the columns of [`HEADER_COLUMNS`].
pub(crate) fn read_header(row: &Row<'_>) -> rusqlite::Result<PageRow> {
    let key = |column| {
        let bytes = row.get_ref(column)?.as_blob()?;
        let damaged =
            || rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Blob, "no row key".into());
        RowKey::from_bytes(bytes).ok_or_else(damaged)
    };
    let header = PageHeader {
        first: key(2)?,
        last: key(3)?,
        entities: row.get(5)?,
        records: row.get(6)?,
        codec: row.get(7)?,
        raw_bytes: row.get(8)?,
        checksum: row.get::<_, i64>(9)?.cast_unsigned(),
        levels: row.get(10)?,
    };
    Ok(PageRow { place: PageLocation::Row(row.get(0)?), partition: row.get(1)?, seq: row.get(4)?, header })
}
