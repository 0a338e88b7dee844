//! The row of a source in the catalog.

use super::values::from_sql;
use crate::source::Ledger;
use crate::source::MARKS_MAX;
use crate::source::Mark;
use crate::source::SourceKind;
use crate::source::SourceState;
use crate::source::SourceStatus;
use daytable_model::source_id::SourceId;
use daytable_model::time::Ticks;
use rusqlite::Connection;
use rusqlite::Row;
use rusqlite::params;
use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;

/// Generation and block of each source, by identity.
pub(super) type KnownSources = HashMap<SourceId, (u32, Arc<str>), foldhash::quality::RandomState>;

/// A mark is 20 bytes: position 8, length 4, hash 8, little-endian.
const MARK_BYTES: usize = 20;

fn mark_bytes(marks: &[Mark]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(marks.len() * MARK_BYTES);
    for mark in marks {
        bytes.extend_from_slice(&mark.position.to_le_bytes());
        bytes.extend_from_slice(&mark.length.to_le_bytes());
        bytes.extend_from_slice(&mark.hash.to_le_bytes());
    }
    bytes
}

fn marks_from(bytes: &[u8]) -> Vec<Mark> {
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |n, &b| n << 8 | u64::from(b));
    let mark = |b: &[u8]| Mark { position: number(&b[..8]), length: number(&b[8..12]) as u32, hash: number(&b[12..]) };
    bytes.chunks_exact(MARK_BYTES).map(mark).take(MARKS_MAX).collect()
}

/// Nearly every source is known and only advances: its fixed values stay as first written.
pub(super) fn is_known(known: &KnownSources, source: &SourceState) -> bool {
    known
        .get(&source.identity)
        .is_some_and(|(generation, block)| (*generation, &**block) == (source.generation, source.block.as_str()))
}

pub(super) fn read_known(connection: &Connection) -> rusqlite::Result<KnownSources> {
    let mut statement = connection.prepare_cached("SELECT identity, generation, block FROM source")?;
    let rows = statement.query_map([], |row| {
        let block: Arc<str> = row.get_ref(2)?.as_str()?.into();
        Ok((SourceId::from_bytes(row.get(0)?), (row.get(1)?, block)))
    })?;
    rows.collect()
}

/// Inserts the row of a source, with its fixed values and its state.
pub(super) fn insert_source(connection: &Connection, source: &SourceState) -> rusqlite::Result<()> {
    let insert = "INSERT OR REPLACE INTO source VALUES (?1, ?2, ?3, ?4, 0, 0, ?5, ?6, 0, x'', NULL, '', '', 0, '', '')";
    let (identity, kind, path) = (source.identity.to_bytes(), name_of(source.kind), source.path.as_os_str().as_bytes());
    let head = mark_bytes(&[source.head]);
    let known = params![identity, source.block, kind, path, source.generation, head];
    connection.prepare_cached(insert)?.execute(known)?;
    update_source(connection, source).map(drop)
}

/// Updates the state in the row of a source; returns the number of updated rows.
pub(super) fn update_source(connection: &Connection, source: &SourceState) -> rusqlite::Result<usize> {
    let update = "UPDATE source SET position = ?2, marks = ?3, last_time = ?4, status = ?5, ledger = ?6, seen = ?7,
                  device = ?8, inode = ?9, profile = ?10, cursor = ?11 WHERE identity = ?1";
    let values = params![
        source.identity.to_bytes(),
        source.position.cast_signed(),
        mark_bytes(&source.marks),
        source.last_time.map(Ticks::get),
        name_of(source.status),
        serde_json::to_string(&source.ledger).unwrap_or_default(),
        source.seen.get(),
        source.device.cast_signed(),
        source.inode.cast_signed(),
        source.profile,
        source.cursor
    ];
    connection.prepare_cached(update)?.execute(values)
}

pub(super) fn read_source(row: &Row<'_>) -> rusqlite::Result<SourceState> {
    let number = |column| row.get::<_, i64>(column).map(i64::cast_unsigned);
    let ledger: String = row.get(12)?;
    let ledger: Ledger = serde_json::from_str(&ledger).map_err(|e| from_sql(12, e))?;
    let (kind, status): (SourceKind, SourceStatus) = (by_name(row, 2)?, by_name(row, 11)?);
    Ok(SourceState {
        identity: SourceId::from_bytes(row.get(0)?),
        block: row.get(1)?,
        kind,
        path: std::ffi::OsString::from_vec(row.get(3)?).into(),
        device: number(4)?,
        inode: number(5)?,
        generation: row.get(6)?,
        head: marks_from(&row.get::<_, Vec<u8>>(7)?).first().copied().unwrap_or_default(),
        position: number(8)?,
        marks: marks_from(&row.get::<_, Vec<u8>>(9)?),
        last_time: row.get::<_, Option<i64>>(10)?.and_then(Ticks::new),
        status,
        ledger,
        seen: Ticks::new(row.get(13)?).unwrap_or_default(),
        profile: row.get(14)?,
        cursor: row.get(15)?,
    })
}

fn name_of(value: impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        _ => String::new(),
    }
}

pub(super) fn by_name<T: serde::de::DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let name: String = row.get(column)?;
    serde_json::from_value(serde_json::Value::String(name)).map_err(|e| from_sql(column, e))
}
