//! Properties of the store's bytes: pages, shared pages, sealed days and their manifests. A checksum protects each
//! decoder. Here the checksum is corrected, so that the bytes reach the decoder.

use super::{Draw, seen};
use daytable_model::batch::Batch;
use daytable_model::key::{DayTable, Period, RowKey, TableName};
use daytable_model::needle::Needle;
use daytable_model::property::Property;
use daytable_model::record::Level;
use daytable_model::time::Ticks;
use daytable_store as store;
use daytable_store::page::{EncodedPage, Page, PageBuilder, PageError, PageHeader, level_minutes};
use daytable_store::sealed::{self, Manifest, SealedFile};
use daytable_store::{CountBy, Range};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Any bytes are a readable page or an error. With a wrong checksum they are always an error.
pub(super) fn any_page(bytes: &[u8]) {
    let mut draw = Draw(bytes);
    let first = RowKey::new(seen(), draw.number(), draw.number());
    let header = PageHeader {
        first,
        last: if draw.byte() == 0 { first } else { RowKey::new(Ticks::UNIX_EPOCH, draw.number(), draw.number()) },
        entities: u32::from(draw.byte()),
        records: u32::from(draw.byte()),
        levels: draw.bytes().to_vec(),
        codec: draw.byte(),
        raw_bytes: u32::from(draw.byte()) << draw.byte().min(21),
        commits: Default::default(),
        checksum: draw.number(),
    };
    let body = draw.0;
    let right = header.clone().checked(body);
    if right.checksum != header.checksum {
        assert!(matches!(Page::decode(&header, body), Err(PageError::Checksum { .. })));
    }
    if let Ok(page) = Page::decode(&right, body) {
        let _ = rows_of(&page);
    }
    let minutes = level_minutes(&header.levels).take_while(Result::is_ok).count();
    assert!(minutes <= header.levels.len() * 64, "{minutes} minutes");
}

/// Any rows survive a page unchanged, and a flipped bit of the page is detected.
pub(super) fn any_rows(bytes: &[u8]) {
    let Ok(name) = TableName::new("Log") else { return };
    let table = DayTable::at(&name, Period::Day, seen());
    let mut draw = Draw(bytes);
    let (at, bit) = (draw.below(1 << 20), draw.byte() % 8);
    let mut batch = Batch::new(table, "web".into());
    let mut position = 0;
    while !draw.is_empty() && batch.len() < 200 {
        position += 1 + u64::from(draw.byte());
        let time = seen().plus(Duration::from_millis(u64::from(draw.byte()) * 1000));
        let key = RowKey::new(time, u64::from(draw.byte() % 4), position);
        let mut writer = batch.begin(key, Level::from_code(draw.byte() % 10));
        for _ in 0..draw.below(6) {
            let name = draw.text();
            match draw.byte() % 8 {
                0 => writer.add_field(&name, Property::String(&draw.text())),
                1 => writer.add_field(&name, Property::Int64(draw.number().cast_signed())),
                2 => writer.add_field(&name, Property::Int64(i64::from(draw.byte()))),
                3 => writer.add_field(&name, Property::Double(f64::from_bits(draw.number()))),
                4 => writer.add_field(&name, Property::Boolean(draw.byte() % 2 == 0)),
                5 => writer.add_field(&name, Property::DateTime(time)),
                6 => writer.add_field(&name, Property::Binary(draw.bytes())),
                _ => writer.add_field(&name, Property::Double(f64::from(draw.byte()) / 10.0)),
            };
        }
        writer.finish();
    }
    if batch.is_empty() {
        return;
    }
    let mut wanted: Vec<(RowKey, String)> = batch
        .rows()
        .map(|row| {
            let name = |number: u16| batch.names()[usize::from(number)].to_string();
            (row.key, shown(row.level, row.properties().map(|(number, value)| (name(number), value))))
        })
        .collect();
    wanted.sort_by_key(|(key, _)| *key);
    let mut builder = PageBuilder::new();
    builder.push_batch(&batch);
    let pages = builder.build().pages;
    let mut found = Vec::new();
    for EncodedPage { header, body, .. } in &pages {
        match Page::decode(header, body) {
            Ok(page) => found.extend(rows_of(&page)),
            Err(error) => panic!("a page that was just made: {error}"),
        }
        let mut wrong = body.clone();
        let at = at % wrong.len();
        wrong[at] ^= 1 << bit;
        assert!(matches!(Page::decode(header, &wrong), Err(PageError::Checksum { .. })), "byte {at} is wrong");
    }
    assert_eq!(found, wanted);
}

/// The rows of a page as text, after a look at each value.
fn rows_of(page: &Page) -> Vec<(RowKey, String)> {
    let row = |row| {
        let properties = page.properties(row).map(|(name, value)| (name.to_owned(), value));
        (page.key(row), shown(page.level(row), properties))
    };
    (0..page.len()).map(row).collect()
}

/// A row as text. Equal rows have equal texts, in any order of properties.
pub(super) fn shown<'a>(level: Option<Level>, properties: impl Iterator<Item = (String, Property<'a>)>) -> String {
    let of = |(name, value): (String, Property<'_>)| match value {
        // The bits tell one NaN from another.
        Property::Double(number) => format!("{name}=Double({:016x})", number.to_bits()),
        value => format!("{name}={value:?}"),
    };
    let mut all: Vec<String> = properties.map(of).collect();
    all.sort();
    format!("{level:?} {all:?}")
}

/// Any bytes are the partitions of a shared page, or an error.
pub(super) fn any_partitions(bytes: &[u8]) {
    store::assert_partitions(bytes);
}

/// Any bytes are a readable sealed day or an error that names the fault, even with correct checksums. No panic leaves
/// the reader.
pub(super) fn any_sealed(bytes: &[u8]) {
    read_sealed(bytes.to_vec());
    if let Some(mended) = sealed::with_sums(bytes) {
        read_sealed(mended);
    }
}

fn read_sealed(bytes: Vec<u8>) {
    let source = Arc::new(bytes::Bytes::from(bytes));
    let file = match SealedFile::open(source, Path::new("any.parquet")) {
        Ok(file) => file,
        Err(error) => return assert!(error.to_string().contains("any.parquet"), "{error}"),
    };
    let all = Range::all();
    let rows = file.scan(&all).take_while(Result::is_ok).count() as u64;
    assert!(rows <= file.rows(), "{rows} rows of {}", file.rows());
    let _ = file.counts(&all, CountBy::Partition, &mut |_| {});
    if file.rows() > 0 {
        for text in ["disk", "ache", "0123456789abcdef01234567"] {
            let _ = file.may_have(0, &Needle::new(text));
            let containing = Range { contains: Some(text.into()), ..Range::all() };
            assert!(file.scan(&containing).take_while(Result::is_ok).count() as u64 <= file.rows());
        }
    }
}

/// Any bytes are a manifest that survives a write and a read, or are refused with the reason. The manifest's name in an
/// archive also survives.
pub(super) fn any_manifest(bytes: &[u8]) {
    match Manifest::from_json(bytes) {
        Ok(manifest) => {
            let again = Manifest::from_json(manifest.to_json().as_bytes());
            assert_eq!(again.ok().as_ref(), Some(&manifest));
            daytable_archive::assert_name(&manifest);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
