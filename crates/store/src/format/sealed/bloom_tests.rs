//! The Bloom index never excludes a row group with a matching row, and excludes most others.

use super::tests::{Given, Place, start};
use super::*;
use crate::format::page_bloom::PageBloom;
use crate::format::page_rows::PageRow;
use crate::format::page_rows::{HEADER_COLUMNS, read_header};
use daytable_model::key::RowKey;
use daytable_model::line::{LAYOUT, LineLayout, LineSource, VERBATIM};
use daytable_model::needle::Needle;
use daytable_model::property::{Property, PropertyKind};
use daytable_model::record::Level;
use daytable_model::time::Ticks;
use daytable_model::words::is_word_character;
use proptest::prelude::*;
use rusqlite::Connection;
use std::collections::BTreeMap;
use std::path::Path;

const LAYOUTS: [&str; 7] = [
    "{\"a\":\"%[Message]\",\"n\":%(n)}",
    "%T(0;Y-m-d H:M:S) %L %m key=%(key)",
    "%v %<%m key=%v%>",
    "%~%(key)%m",
    "%v",
    "%&2+3;%v%m%v",
    "",
];

/// A value of each kind that a line prints.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-e0-3_]{1,12}",
        "[a-e]{3,6}[ \"\\\\\n\t.-][a-e1-3]{3,8}",
        "1[0-2]\\.1\\.[0-9]{1,3}\\.7[.a:]?",
        "[éß“”a-c ]{0,8}",
        "[a-f0-9]{20,40}[ .-]?[a-f0-9]{0,30}",
        "(\u{1e}1f|\u{1e}ff|\u{1f}|abc|12345| ){0,5}",
    ]
}

fn row() -> impl Strategy<Value = (Option<Level>, BTreeMap<String, (PropertyKind, String)>)> {
    let fields = prop::collection::btree_map(
        prop::sample::select(&["Message", "key", VERBATIM, "other"][..]).prop_map(str::to_owned),
        text().prop_map(|text| (PropertyKind::String, text)),
        0..4,
    );
    let numbers = prop::option::of(-99_999i64..99_999);
    let (layout, level) = (prop::sample::select(&LAYOUTS[..]), (0..6u8).prop_map(Level::from_code));
    (fields, numbers, layout, level, prop::bool::weighted(0.02)).prop_map(
        |(mut fields, number, layout, level, is_spread)| {
            fields.extend(number.map(|n| ("n".to_owned(), (PropertyKind::Int64, n.to_string()))));
            if !layout.is_empty() {
                fields.insert(LAYOUT.into(), (PropertyKind::String, layout.into()));
            }
            if is_spread {
                fields.insert("Items".into(), (PropertyKind::Int32, "2".into()));
            }
            (level, fields)
        },
    )
}

impl LineSource for Given {
    fn time(&self) -> Ticks {
        self.key.time()
    }

    fn level(&self) -> Option<Level> {
        self.level
    }

    fn property(&self, name: &str) -> Option<Property<'_>> {
        let (kind, text) = self.values.get(name)?;
        match kind {
            PropertyKind::String => Some(Property::String(text)),
            _ => text.parse().ok().map(Property::Int64),
        }
    }
}

/// A part of a text, and whether no word goes on at its ends.
fn part(text: &str, ends: (prop::sample::Index, prop::sample::Index)) -> (&str, (bool, bool)) {
    let places: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    let (a, b) = (places[ends.0.index(places.len())], places[ends.1.index(places.len())]);
    let (start, end) = (a.min(b), a.max(b));
    let starts = !text[..start].chars().next_back().is_some_and(is_word_character);
    (&text[start..end], (starts, !text[end..].chars().next().is_some_and(is_word_character)))
}

/// The pages of an open day.
fn pages_of(day: &Path) -> (Connection, Vec<PageRow>) {
    let connection = Connection::open(day).expect("opened");
    let select = format!("SELECT {HEADER_COLUMNS} FROM page");
    let pages = connection.prepare(&select).and_then(|mut select| select.query_map([], read_header)?.collect());
    (connection, pages.expect("headers"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Any part of any value or line is found in the row group and in the page of its row.
    #[test]
    fn a_place_with_a_text_is_never_excluded(
        rows in prop::collection::vec(row(), 1..300), parts in prop::collection::vec(any::<(prop::sample::Index, prop::sample::Index)>(), 8),
    ) {
        let given: Vec<Given> = rows
            .into_iter()
            .zip(0u64..)
            .map(|((level, values), n)| Given { partition: 0, key: RowKey::new(start(), 1, n), level, values })
            .collect();
        let place = Place::new();
        let commits: Vec<Vec<Given>> = given.chunks(100).map(<[Given]>::to_vec).collect();
        let day = place.open_day("Log20261120.1.db", &commits);
        let (sealed, _) = place.seal(1, std::slice::from_ref(&day)).expect("sealed");
        let (connection, pages) = pages_of(&day);
        let mut newest_first: Vec<&Given> = given.iter().collect();
        newest_first.sort_by_key(|given| given.key);
        for (row, given) in newest_first.into_iter().enumerate() {
            let group = row / SealedSizes::SMALL.group_rows;
            // The text of a layout itself is never searched for.
            let values = given.values.iter().filter(|(name, _)| *name != LAYOUT);
            let mut texts: Vec<String> = values.map(|(_, (_, text))| text.clone()).collect();
            if let Some((_, layout)) = given.values.get(LAYOUT) {
                let verbatim = given.values.get(VERBATIM).map_or("", |(_, text)| text);
                let mut line = Vec::new();
                LineLayout::parse(layout).write_line(given, verbatim, &mut line);
                texts.push(String::from_utf8_lossy(&line).into_owned());
            }
            let page: Vec<PageRow> =
                pages.iter().filter(|page| page.header.first <= given.key && given.key <= page.header.last).cloned().collect();
            let mut needles = Vec::new();
            for text in &texts {
                for ends in &parts {
                    let (part, borders) = part(text, *ends);
                    let needle = Needle::with_borders(part, borders);
                    let may_have = sealed.may_have(group, &needle).expect("read");
                    prop_assert!(may_have, "{:?} with {:?} of {:?}", part, borders, text);
                    for (number, column) in sealed.columns().iter().enumerate() {
                        let value = given.values.get(&column.property).filter(|_| column.property != LAYOUT);
                        if value.is_some_and(|(kind, text)| *kind == PropertyKind::String && text.contains(part)) {
                            prop_assert!(sealed.column_may_have(group, number, &needle).expect("read"));
                        }
                    }
                    needles.push(needle);
                }
            }
            let bloom = PageBloom::ask(&connection, &page, &needles.iter().collect::<Vec<_>>()).expect("read");
            for (at, needle) in needles.iter().enumerate() {
                let is_lacking = page.iter().any(|page| bloom.is_lacking(page, at));
                prop_assert!(!is_lacking, "{:?} of {:?}, open", needle.words(), texts);
            }
        }
    }
}

#[test]
fn absent_words_exclude_most_places() {
    let value = |n: u64| {
        let identifier = xxhash_rust::xxh3::xxh3_64(&n.to_le_bytes());
        let fields = [
            ("Message", format!("request number {identifier:016x} handled")),
            (LAYOUT, "{\"m\":\"%m\",\"client\":\"%(client)\"}".to_owned()),
            ("client", format!("10.{}.{}.7", n % 250, n / 250)),
        ];
        fields.into_iter().map(|(name, text)| (name.to_owned(), (PropertyKind::String, text))).collect()
    };
    let row = |n| Given { partition: 0, key: RowKey::new(start(), 1, n), level: None, values: value(n) };
    let commits: Vec<Vec<Given>> =
        (0..32).map(|commit| (128 * commit..128 * (commit + 1)).map(row).collect()).collect();
    let place = Place::new();
    let day = place.open_day("Log20261120.1.db", &commits);
    let (sealed, _) = place.seal(1, std::slice::from_ref(&day)).expect("sealed");
    let (connection, pages) = pages_of(&day);
    assert_eq!(pages.len(), 32);
    let groups = sealed.index().groups.len();
    assert_eq!(groups, 32);
    let found = |text: &str, borders| {
        let needle = Needle::with_borders(text, borders);
        let bloom = PageBloom::ask(&connection, &pages, &[&needle]).expect("read");
        let in_pages = pages.iter().filter(|page| !bloom.is_lacking(page, 0)).count();
        let in_groups: usize = (0..groups).filter(|group| sealed.may_have(*group, &needle).expect("read")).count();
        // The row groups have as many rows as the pages.
        assert!(in_pages <= in_groups + 8, "{text}: {in_pages} pages, {in_groups} row groups");
        assert_eq!(in_pages == 32, in_groups == 32, "{text}");
        in_groups
    };
    let whole = (true, true);
    assert_eq!((found("handled", whole), found("m", whole), found("handl", (true, false))), (32, 32, 32));
    assert_eq!((found("absent", whole), found("not handle it", (false, false))), (0, 0));
    let identifiers: usize = (0..100).map(|n| found(&format!("a{n:015x}"), whole)).sum();
    let addresses: usize = (0..100).map(|n| found(&format!("10.251.{n}.1"), whole)).sum();
    assert!(identifiers < 400 && addresses < 400, "{identifiers} and {addresses} of 3200");
    let identifier = format!("{:016x}", xxhash_rust::xxh3::xxh3_64(&7u64.to_le_bytes()));
    assert!((1..8).contains(&found(&identifier, whole)));
    let bytes: usize =
        sealed.index().bloom.iter().map(|section| section.layouts + section.positions * groups / 8).sum();
    assert!(bytes <= 4096 * 3 / 2 + 100, "{bytes}");
}

/// Its text may be in rows of another file.
#[test]
fn a_record_of_several_rows_is_found_where_no_row_has_a_text() {
    let values = [("Items".to_owned(), (PropertyKind::Int32, "306".to_owned()))];
    let row = Given { partition: 0, key: RowKey::new(start(), 1, 0), level: None, values: values.into() };
    let place = Place::new();
    let day = place.open_day("Log20261120.1.db", &[vec![row]]);
    let (sealed, _) = place.seal(1, std::slice::from_ref(&day)).expect("sealed");
    assert!(sealed.may_have(0, &Needle::new("elsewhere")).expect("read"));
}

/// A sealed day of 32 row groups, whose records have the message of their number and maybe an identifier.
fn sealed_with(message: &str, identifier: Option<&dyn Fn(u64) -> String>) -> (Place, SealedFile) {
    let value = |n: u64| {
        let mut values = vec![("Message", message.to_owned())];
        values.push((LAYOUT, "{\"m\":\"%m\",\"trace\":\"%(trace)\"}".to_owned()));
        values.extend(identifier.map(|of| ("trace", of(n))));
        values.into_iter().map(|(name, text)| (name.to_owned(), (PropertyKind::String, text))).collect()
    };
    let row = |n| Given { partition: 0, key: RowKey::new(start(), 1, n), level: None, values: value(n) };
    let commits: Vec<Vec<Given>> =
        (0..32).map(|commit| (128 * commit..128 * (commit + 1)).map(row).collect()).collect();
    let place = Place::new();
    let day = place.open_day("Log20261120.1.db", &commits);
    let (sealed, _) = place.seal(1, std::slice::from_ref(&day)).expect("sealed");
    (place, sealed)
}

#[test]
fn absent_parts_exclude_most_row_groups_and_columns() {
    let groups_with = |sealed: &SealedFile, part: &str| {
        let needle = Needle::new(part);
        (0..32).filter(|group| sealed.may_have(*group, &needle).expect("read")).count()
    };
    let (_place, sealed) = sealed_with("request handled", None);
    let found = |part: &str| groups_with(&sealed, part);
    assert_eq!((found("uest han"), found("uest xan"), found("ach"), found("e")), (32, 0, 0, 32));

    let identifier = |n: u64| {
        let half = |seed| xxhash_rust::xxh3::xxh3_64_with_seed(&n.to_le_bytes(), seed);
        format!("{:016x}{:016x}", half(1), half(2))
    };
    let (_place, sealed) = sealed_with("request handled", Some(&identifier));
    let found = |part: &str| groups_with(&sealed, part);
    let absent: usize = (5000..5100).map(|n| found(&identifier(n)[3..29])).sum();
    assert!(absent < 640, "{absent} of 3200");
    let present: usize = (0..100).map(|n| found(&identifier(n)[3..29])).sum();
    assert!((100..740).contains(&present), "{present} of 3200");
    let number = |name: &str| sealed.columns().iter().position(|column| column.property == name).expect("a column");
    let may_have = |name: &str, part: &str| sealed.column_may_have(0, number(name), &Needle::new(part)).expect("read");
    let part = &identifier(4095)[3..29];
    assert_eq!((may_have("Message", "handled"), may_have("Message", "handles")), (true, false));
    assert_eq!((may_have("Message", part), may_have("trace", part)), (false, true));
}
