//! Compares pages of the same rows, of which one was made without its rows, for tests.

use super::value_counts::{ColumnCounts, LEVELS};
use super::{EncodedPage, Page, PageHeader};
use daytable_model::key::RowKey;
use daytable_model::property::Property;
use daytable_model::record::Level;
use std::collections::{BTreeMap, BTreeSet};

/// Asserts that a page which was made without its rows has what a builder wrote of the same rows: rows, header, words, and counts of
/// values, of which it may lack some.
pub(crate) fn assert_alike(copied: &EncodedPage, built: &EncodedPage) {
    assert_eq!(rows(copied), rows(built));
    let PageHeader { codec, raw_bytes, checksum, .. } = copied.header;
    assert_eq!(copied.header, PageHeader { codec, raw_bytes, checksum, ..built.header.clone() });
    if lacks_counts(copied, built) {
        return;
    }
    let (of_copied, of_built) = (counts(copied), counts(built));
    assert_eq!(of_copied.as_ref().map(BTreeMap::len), of_built.as_ref().map(BTreeMap::len));
    for (column, (filled, values)) in of_copied.into_iter().flatten() {
        let built = of_built.as_ref().and_then(|built| built.get(&column)).expect("the same columns");
        assert_eq!(filled, built.0, "{column}");
        assert!(values.is_none() || values == built.1, "{column}: {values:?} and {:?}", built.1);
    }
    assert_eq!(words(copied), words(built));
}

/// Whether a page is too small for counts, and the other one is not: a batch may have a layout for each row, and a page counts it as one.
pub(super) fn lacks_counts(copied: &EncodedPage, built: &EncodedPage) -> bool {
    copied.header.raw_bytes < built.header.raw_bytes && copied.counts.is_none() && copied.words.is_none()
}

type PlainRow = (RowKey, Option<Level>, BTreeMap<String, String>);

/// The rows of a page, with doubles by their bits.
fn rows(encoded: &EncodedPage) -> Vec<PlainRow> {
    let page = Page::decode(&encoded.header, &encoded.body).expect("a page");
    let plain = |(name, value): (&str, Property<'_>)| {
        let text = match value {
            Property::Double(number) => format!("{:x}", number.to_bits()),
            value => format!("{value:?}"),
        };
        (format!("{name} {:?}", value.kind()), text)
    };
    let row = |row| (page.key(row), page.level(row), page.properties(row).map(plain).collect());
    (0..page.len()).map(row).collect()
}

/// By column: records with a value, and those of each value by level.
pub(super) type PlainCounts = BTreeMap<String, (u32, Option<BTreeMap<String, [u32; LEVELS]>>)>;

/// The counts of values of a page.
pub(super) fn counts(encoded: &EncodedPage) -> Option<PlainCounts> {
    let of_column = |of: &ColumnCounts| {
        let values = of.values.as_ref().map(|values| {
            values.iter().map(|(value, counts)| (format!("{value:?}"), *counts)).collect::<BTreeMap<_, _>>()
        });
        (format!("{} {:?}", of.name, of.kind), (of.filled, values))
    };
    encoded.counts.as_ref().map(|counts| counts.columns.iter().map(of_column).collect())
}

/// The keys of words, the layouts, and whether there are bytes.
fn words(encoded: &EncodedPage) -> Option<(BTreeSet<u32>, BTreeSet<String>, bool)> {
    encoded.words.as_ref().map(|words| {
        let layouts = words.layouts.iter().map(|layout| layout.to_string()).collect();
        (words.keys.iter().copied().collect(), layouts, words.has_bytes)
    })
}
