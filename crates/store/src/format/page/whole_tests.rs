//! Tests of the claims in the head of `whole`.

use super::alike::{assert_alike, counts, lacks_counts};
use super::frame::split;
use super::tests::{Row, Value, batches, build, like_rows, rows};
use super::*;
use daytable_model::key::DayTable;
use daytable_model::line::LAYOUT;
use daytable_model::property::Property;
use daytable_model::source_id::SourceId;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const SEQ: i64 = 7;
const SAME: [(&str, &str); 2] = [("host", "web-1"), ("log_host", "web-1")];

/// The key of a row in a page that is made of another one: of another source.
fn other_key(key: RowKey) -> RowKey {
    key.with_source(SourceId::from_parts(key.source().head(), key.source().hash() ^ 0x5555))
}

/// The header of a page with the checksum under which it is stored.
fn stored(header: PageHeader, body: &[u8], address: PageAddress) -> PageHeader {
    let header = header.checked(body);
    PageHeader { checksum: address.stored_checksum(&header, SEQ), ..header }
}

fn address() -> PageAddress {
    TableAddress::new(&DayTable::parse("Log20261121").expect("a day-table")).at("web")
}

/// What is made of a page without its rows, and what a builder writes of its rows. `None` where the rows have to be written, or the page
/// cannot be read, or has a name twice.
fn both_ways(header: &PageHeader, body: &[u8]) -> Option<(EncodedPage, EncodedPage)> {
    let header = stored(header.clone(), body, address());
    let whole = WholePage::decode_of(address(), SEQ, &header, body).ok()?;
    let page = whole.page();
    let keys: Vec<RowKey> = page.keys().iter().map(|key| other_key(*key)).collect();
    let copied = whole.with_keys(&keys, &SAME, 0)?;
    let names: BTreeSet<&str> = page.columns().map(|column| column.name()).collect();
    if names.len() < page.width() || SAME.iter().any(|(name, _)| names.contains(name)) {
        return None;
    }
    let mut builder = PageBuilder::new();
    let table = DayTable::parse("Log20261121").expect("a day-table");
    let mut batch = daytable_model::batch::Batch::new(table, "web".into());
    for (row, key) in keys.iter().enumerate() {
        let mut writer = batch.begin(*key, page.level(row));
        page.properties(row).for_each(|(name, value)| writer.add(name, value));
        SAME.iter().for_each(|(name, text)| writer.add(name, Property::String(text)));
        writer.finish();
    }
    builder.push_batch(&batch);
    let mut built = builder.build().pages;
    assert_eq!(built.len(), 1);
    Some((copied, built.remove(0)))
}

/// A property of a layout, of a stream, and one with few texts in few rows.
fn with_known_names(mut rows: Vec<Row>) -> Vec<Row> {
    let text = |text: &str| Value::String(text.into());
    for (n, row) in rows.iter_mut().enumerate() {
        let layout = if n % 7 == 0 { "%a \"x\" %v" } else { "%(rare): %a" };
        let values = [("Layout", text(layout)), ("Message", text(&format!("took {n} ms \"or\" 10.0.0.{n}")))];
        row.values.extend(values.map(|(name, value)| (name.to_owned(), value)));
        if n % 5 == 0 {
            row.values.insert("rare".to_owned(), text(["", "0x0a", "GET 7"][n % 3]));
            row.values.insert("Stream".to_owned(), text("app"));
        }
    }
    rows
}

proptest! {
    /// A page that is made without its rows is the one that a builder writes of them, with all counts. Rows are written one by one
    /// only where they have to be.
    #[test]
    fn a_copied_page_is_that_of_a_builder(
        rows in prop_oneof![rows(20), like_rows(), like_rows().prop_map(with_known_names)],
    ) {
        for page in build(&batches(&rows, 100)).pages {
            let decoded = Page::decode(&page.header, &page.body).expect("a page");
            let others: Vec<RowKey> = decoded.keys().iter().map(|key| other_key(*key)).collect();
            let names: BTreeSet<&str> = decoded.columns().map(|column| column.name()).collect();
            let is_one_by_one = !others.is_sorted() || others.iter().any(|key| key.item() > 0);
            let found = both_ways(&page.header, &page.body);
            prop_assert_eq!(found.is_none(), is_one_by_one || names.len() < decoded.width());
            if let Some((copied, built)) = found {
                assert_alike(&copied, &built);
                if !lacks_counts(&copied, &built) {
                    prop_assert_eq!(counts(&copied), counts(&built));
                }
                // A batch of a builder may have a layout for each row.
                let has_layout = rows.iter().any(|row| row.values.contains_key(LAYOUT));
                prop_assert!(has_layout || copied.header.raw_bytes == built.header.raw_bytes);
            }
        }
    }

    /// Whatever bytes a page has, what is made of it without its rows is what a builder writes of them.
    #[test]
    fn any_page_is_copied_as_its_rows_are_or_not_at_all(
        rows in prop_oneof![rows(9), like_rows(), like_rows().prop_map(with_known_names)], most in 1usize..60,
        flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let rows = &rows[..rows.len().min(most)];
        let EncodedPage { header, mut body, .. } = build(&batches(rows, 100)).pages.remove(0);
        for (at, byte) in flips {
            let at = at.index(body.len());
            body[at] = byte;
        }
        if let Some((copied, built)) = both_ways(&header, &body) {
            assert_alike(&copied, &built);
        }
    }
}

/// Large columns are apart, and their sections are copied with their checksums. So are keys, which are written anew.
#[test]
fn sections_that_are_apart_are_copied() {
    let row = |n: u64| {
        let random = xxh3_64(&n.to_le_bytes());
        let text = |text: String| Value::String(text);
        let values = BTreeMap::from([
            ("trace".to_owned(), text(format!("{random:016x}{random:016x}"))),
            ("text".to_owned(), text(format!("{random:x} and {:x}", random.rotate_left(9)))),
            ("Message".to_owned(), text(format!("took {n} ms"))),
        ]);
        let source = if random.is_multiple_of(2) { u64::from(u32::MAX) } else { 1 << 40 };
        Row {
            key: RowKey::new(Ticks::UNIX_EPOCH.plus(Duration::from_millis(n)), source, random >> 20),
            level: None,
            values,
        }
    };
    let rows: Vec<Row> = (0..3000).map(row).collect();
    let pages = build(&batches(&rows, 100)).pages;
    let mut apart = 0;
    for page in &pages {
        apart += split(&page.body).apart.len();
        let (copied, built) = both_ways(&page.header, &page.body).expect("copied");
        assert_alike(&copied, &built);
        assert_eq!(split(&copied.body).apart.len(), split(&built.body).apart.len());
    }
    assert!(apart > 2 * pages.len(), "{apart} sections of {} pages", pages.len());
}
