//! Tests of the claims in the module's head.

use super::*;
use daytable_model::batch::Batch;
use daytable_model::key::{DayTable, Period, TableName};
use daytable_model::needle::Needle;
use daytable_model::property::{OwnedValue, Property, PropertyKind};
use daytable_model::record::Level;
use daytable_model::row_set::RowSet;
use daytable_model::time::Ticks;
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
pub(super) enum Value {
    String(String),
    Int64(i64),
    Double(f64),
    Boolean(bool),
    Int32(i32),
    DateTime(Ticks),
    Guid([u8; 16]),
    Binary(Vec<u8>),
}

impl Value {
    fn borrow(&self) -> Property<'_> {
        match self {
            Value::String(text) => Property::String(text),
            Value::Int64(n) => Property::Int64(*n),
            Value::Double(n) => Property::Double(*n),
            Value::Boolean(b) => Property::Boolean(*b),
            Value::Int32(n) => Property::Int32(*n),
            Value::DateTime(time) => Property::DateTime(*time),
            Value::Guid(guid) => Property::Guid(*guid),
            Value::Binary(bytes) => Property::Binary(bytes),
        }
    }
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => prop_oneof!["", "[ab]", "é[0-9]{0,3}", "[0-9a-f]{8}", "id [0-9]{1,3}\\.[0-9]", ".{0,30}"].prop_map(Value::String),
        2 => prop_oneof![any::<i64>(), 0i64..5].prop_map(Value::Int64),
        1 => prop_oneof![any::<f64>(), (0i32..1000).prop_map(|n| f64::from(n) / 100.0), Just(-0.0)].prop_map(Value::Double),
        1 => any::<bool>().prop_map(Value::Boolean),
        1 => any::<i32>().prop_map(Value::Int32),
        1 => (0..=daytable_model::time::MAX_TICKS).prop_map(|t| Value::DateTime(Ticks::new(t).expect("in range"))),
        1 => any::<[u8; 16]>().prop_map(Value::Guid),
        1 => proptest::collection::vec(any::<u8>(), 0..20).prop_map(Value::Binary),
    ]
}

#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) key: RowKey,
    pub(super) level: Option<Level>,
    pub(super) values: BTreeMap<String, Value>,
}

fn row() -> impl Strategy<Value = Row> {
    // Few different keys, so that some come twice; a few hours, so that pages are cut.
    let tick = prop_oneof![0..20i64, (0..200i64).prop_map(|n| n * 1_000_000_000)];
    let key = (tick, 0..3u64, 0..4u64, prop_oneof![3 => Just(0u16), 1 => 1..4u16]).prop_map(
        |(tick, source, position, item)| {
            let time = Ticks::new(Ticks::from_date(2026, 11, 21).expect("a date").get() + tick).expect("in range");
            RowKey::new(time, source << 62, position * 1_000_000_000_000).with_item(item)
        },
    );
    let values = proptest::collection::btree_map("[a-zé]{1,2}", value(), 0..6);
    (key, (0u8..=9).prop_map(Level::from_code), values).prop_map(|(key, level, values)| Row { key, level, values })
}

pub(super) fn rows(most: usize) -> impl Strategy<Value = Vec<Row>> {
    proptest::collection::vec(row(), 1..most)
}

/// Rows that are alike, as in logs, and enough of them for every form of a column.
pub(super) fn like_rows() -> impl Strategy<Value = Vec<Row>> {
    let names = proptest::collection::btree_map("[a-z]", value(), 1..5);
    (names, 1usize..400, any::<u64>()).prop_map(|(names, count, seed)| {
        let row = |n: usize| {
            let random = xxh3_64(&[n.to_le_bytes(), seed.to_le_bytes().map(|b| b ^ 0x55)].concat());
            let time = Ticks::UNIX_EPOCH.plus(Duration::from_micros(n as u64 * 1000 + random % 1000));
            let vary = |value: &Value| match value {
                Value::String(text) => Value::String(match text.len() % 4 {
                    0 => format!("{random:016x}"),
                    1 => format!("{}.{}", random & 0xff, random >> 8 & 0xff),
                    2 => ["é", "get", "put"][random as usize % 3].into(),
                    _ => format!("{:x}{text}", random & 0xffff_ffff),
                }),
                Value::Int64(_) => Value::Int64((random & 0xfff).cast_signed()),
                Value::Double(_) => Value::Double((random & 0xfff) as f64 / 8.0),
                value => value.clone(),
            };
            let values =
                names.iter().filter(|_| !random.is_multiple_of(17)).map(|(name, value)| (name.clone(), vary(value)));
            Row {
                key: RowKey::new(time, 7, n as u64 * 300),
                level: Level::from_code((random & 3) as u8),
                values: values.collect(),
            }
        };
        (0..count).map(row).collect()
    })
}

pub(super) fn batches(rows: &[Row], size: usize) -> Vec<Batch> {
    let table = DayTable::at(&TableName::new("Log").expect("a name"), Period::Day, Ticks::UNIX_EPOCH);
    let batch = |rows: &[Row]| {
        let mut batch = Batch::new(table.clone(), "web".into());
        for row in rows {
            let mut writer = batch.begin(row.key, row.level);
            row.values.iter().for_each(|(name, value)| writer.add(name, value.borrow()));
            writer.finish();
        }
        batch
    };
    rows.chunks(size).map(batch).collect()
}

pub(super) fn build(batches: &[Batch]) -> BuiltPages {
    let mut builder = PageBuilder::new();
    batches.iter().for_each(|batch| builder.push_batch(batch));
    builder.build()
}

/// A row in the form that tests compare: doubles by their bits.
type Plain = (RowKey, Option<Level>, BTreeMap<(String, PropertyKind), String>);

fn plain<'a>(key: RowKey, level: Option<Level>, values: impl Iterator<Item = (&'a str, Property<'a>)>) -> Plain {
    let text = |value: Property<'_>| match value {
        Property::Double(n) => format!("{:x}", n.to_bits()),
        value => format!("{value:?}"),
    };
    (key, level, values.map(|(name, value)| ((name.into(), value.kind()), text(value))).collect())
}

fn decode_all(pages: &[EncodedPage]) -> Vec<Page> {
    pages.iter().map(|page| Page::decode(&page.header, &page.body).expect("what was encoded")).collect()
}

fn plain_rows(pages: &[Page]) -> Vec<Plain> {
    let rows = |page: &Page| -> Vec<Plain> {
        (0..page.len()).map(|row| plain(page.key(row), page.level(row), page.properties(row))).collect()
    };
    pages.iter().flat_map(rows).collect()
}

/// The expected rows of a store of `rows`: of equal keys the last, newest first.
fn want(rows: &[Row]) -> Vec<Plain> {
    let last: BTreeMap<RowKey, &Row> = rows.iter().map(|row| (row.key, row)).collect();
    let values = |row: &'_ Row| row.values.clone();
    let of = |row: &Row| {
        let values = values(row);
        plain(row.key, row.level, values.iter().map(|(name, value)| (name.as_str(), value.borrow())))
    };
    last.into_values().map(of).collect()
}

fn bytes_of(rows: &[Row]) -> usize {
    batches(rows, 1).iter().flat_map(|b| b.rows().map(|row| row.bytes() + ROW_BYTES).collect::<Vec<_>>()).sum()
}

proptest! {
    /// Decoding gives the rows that were pushed: keys, levels, properties and their kinds; of equal keys the last.
    #[test]
    fn rows_round_trip(rows in rows(60), size in 1usize..20) {
        let batches = batches(&rows, size);
        let built = build(&batches);
        let want = want(&rows);
        prop_assert_eq!(built.duplicates as usize, rows.len() - want.len());
        prop_assert_eq!(plain_rows(&decode_all(&built.pages)), want);
    }

    /// The same for rows that are alike, whose columns take every form.
    #[test]
    fn like_rows_round_trip(rows in like_rows()) {
        let batches = batches(&rows, 100);
        prop_assert_eq!(plain_rows(&decode_all(&build(&batches).pages)), want(&rows));
    }

    /// A page of one row is the same, however it is built.
    #[test]
    fn one_row_makes_one_page(rows in rows(3)) {
        let batches = batches(&rows, 2);
        let only = build_only(&batches[0]);
        prop_assert_eq!(only.is_some(), rows.len() == 1);
        if let Some(only) = only {
            let built = &build(&batches).pages[0];
            prop_assert_eq!((&only.header, &only.body), (&built.header, &built.body));
        }
    }

    /// Pages built from pages have the same rows as pages built from all rows. The page that is pushed later wins.
    #[test]
    fn merged_pages_hold_all_rows(older in rows(30), newer in rows(30), size in 1usize..20) {
        let (old_batches, new_batches) = (batches(&older, size), batches(&newer, size));
        let parts = [build(&old_batches).pages, build(&new_batches).pages].concat();
        let parts = decode_all(&parts);
        let mut builder = PageBuilder::new();
        parts.iter().for_each(|page| builder.push_page(page));
        let all = [older, newer].concat();
        prop_assert_eq!(plain_rows(&decode_all(&builder.build().pages)), want(&all));
    }

    /// Shared pages hold the rows of all partitions, of equal keys of a partition the last. Keys ascend in each page, also
    /// where partitions have the same ones. What is left of a page after some partitions went has the rows of the others.
    #[test]
    fn shared_pages_hold_the_rows_of_all_partitions(of in proptest::collection::vec(rows(20), 1..5), size in 1usize..8) {
        let with_name = |(number, rows): (usize, &Vec<Row>)| {
            let mut batches = batches(rows, size);
            batches.iter_mut().for_each(|batch| batch.partition = format!("p-{number}").into());
            batches
        };
        let batches: Vec<Batch> = of.iter().enumerate().flat_map(with_name).collect();
        let (mut found, mut rest): (Vec<Vec<Plain>>, Vec<Vec<Plain>>) = (vec![Vec::new(); of.len()], vec![Vec::new(); of.len()]);
        for BuiltSharedPage { page, partitions } in build_shared(&waiting_rows(&batches), 2) {
            let page = Page::decode(&page.header, &page.body).expect("what was encoded");
            prop_assert!(page.keys().is_sorted() && page.has_owners());
            let mut counts = vec![0; partitions.len()];
            let number = |owner: usize| partitions[owner].0[2..].parse::<usize>().expect("a number");
            let (mut left, mut owners) = (Vec::new(), Vec::new());
            for (row, plain) in plain_rows(std::slice::from_ref(&page)).into_iter().enumerate() {
                let owner = page.owner(row).expect("a partition");
                counts[owner] += 1;
                found[number(owner)].push(plain);
                if number(owner) % 2 == 1 {
                    left.push(u32::try_from(row).expect("few"));
                    owners.push(i64::try_from(owner).expect("few"));
                }
            }
            prop_assert!(partitions.iter().map(|(_, rows)| *rows).eq(counts));
            if !left.is_empty() {
                let built = build_rest(&page, &left, &owners);
                let page = Page::decode(&built.header, &built.body).expect("what was encoded");
                for (row, plain) in plain_rows(std::slice::from_ref(&page)).into_iter().enumerate() {
                    rest[number(page.owner(row).expect("a partition"))].push(plain);
                }
            }
        }
        for (number, rows) in of.iter().enumerate() {
            let sorted = |rows: &[Plain]| {
                let mut rows: Vec<String> = rows.iter().map(|row| format!("{row:?}")).collect();
                rows.sort();
                rows
            };
            prop_assert_eq!(sorted(&found[number]), sorted(&want(rows)));
            let left = if number % 2 == 1 { want(rows) } else { Vec::new() };
            prop_assert_eq!(sorted(&rest[number]), sorted(&left));
        }
    }

    /// Ranges of pages ascend and do not overlap. Headers describe their pages. No page exceeds the limits of time and
    /// size, except by one record. No record is split.
    #[test]
    fn pages_are_bounded_and_in_order(rows in rows(60)) {
        let batches = batches(&rows, 100);
        let pages = build(&batches).pages;
        for pair in pages.windows(2) {
            let (left, right) = (&pair[0].header, &pair[1].header);
            prop_assert!(left.last < right.first);
            prop_assert_ne!(left.last.with_item(0), right.first.with_item(0));
            // A page ends for a reason.
            let span = left.first.time().since(right.first.time());
            prop_assert!(span > PAGE_SPAN || left.raw_bytes + right.raw_bytes > PAGE_BYTES as u32);
        }
        for (EncodedPage { header, .. }, page) in pages.iter().zip(decode_all(&pages)) {
            prop_assert_eq!((header.first, header.last), (page.key(0), page.key(page.len() - 1)));
            prop_assert_eq!(header.entities as usize, page.len());
            prop_assert!(header.first.time().since(header.last.time()) <= PAGE_SPAN);
            let records = page.keys().iter().filter(|key| key.item() == 0).count();
            prop_assert_eq!(header.records as usize, records);
            let counted: u32 = level_minutes(&header.levels).map(|group| group.expect("a count").records).sum();
            prop_assert_eq!(counted as usize, records);
        }
    }

    /// Any changed byte of body or header, and any truncation of the body, is an error, never a wrong row.
    #[test]
    fn a_changed_byte_is_an_error(rows in rows(20), at: prop::sample::Index, flip in 1u8..) {
        let batches = batches(&rows, 100);
        let EncodedPage { header, mut body, .. } = build(&batches).pages.remove(0);
        let at = at.index(body.len());
        let is_refused = |header: &PageHeader, body: &[u8]| {
            matches!(Page::decode(header, body), Err(PageError::Checksum { .. }))
        };
        prop_assert!(is_refused(&header, &body[..at]));
        body[at] ^= flip;
        prop_assert!(is_refused(&header, &body));
        body[at] ^= flip;
        let more = PageHeader { entities: header.entities ^ u32::from(flip), ..header.clone() };
        let other = PageHeader { first: header.first.with_item(9), ..header.clone() };
        prop_assert!(is_refused(&more, &body) && is_refused(&other, &body));
        prop_assert!(Page::decode(&header, &body).is_ok());
    }

    /// Columns are read alone as they are with all others. Without what is apart, or with a changed byte of it, there is no page.
    #[test]
    fn columns_are_read_without_the_others(rows in prop_oneof![rows(20), like_rows()], at: prop::sample::Index, flip in 1u8..) {
        let batches = batches(&rows, 100);
        let address = || TableAddress::new(&batches[0].table).at("web");
        for encoded in build(&batches).pages {
            let EncodedPage { header, body, .. } = &encoded;
            let stored = PageHeader { checksum: address().stored_checksum(header, 7), ..header.clone() };
            let (row, apart) = encoded.rows();
            let apart: BTreeMap<usize, &[u8]> = apart.collect();
            let front_of = |row| PartialPage::decode_front(address(), 7, &stored, row, WantedColumns { keys: true, columns: &|_, _| true });
            let whole = Page::decode(header, body).expect("whole");
            let alone = |needs: &dyn Fn(&str, PropertyKind) -> bool| {
                let mut page = PartialPage::decode_front(address(), 7, &stored, row, WantedColumns { keys: false, columns: needs }).expect("a front");
                let others = page.read_near().expect("the sections of the row");
                others.into_iter().for_each(|section| page.read(section, apart[&section]).expect("a section"));
                page.finish().expect("a page")
            };
            for (number, column) in whole.columns().enumerate() {
                let found = alone(&|name, kind| (name, kind) == (column.name(), column.kind()));
                let of_front = found.column_at(number).expect("a column");
                prop_assert!(!of_front.is_missing());
                prop_assert_eq!((column.name(), column.kind()), (of_front.name(), of_front.kind()));
                for row in 0..whole.len() {
                    prop_assert_eq!(format!("{:?}", column.value(row)), format!("{:?}", of_front.value(row)));
                }
            }
            let page = alone(&|_, _| false);
            prop_assert_eq!(page.width(), whole.width());
            prop_assert!(page.is_front() || page.columns().all(|column| !column.is_missing()));
            prop_assert!(page.is_front() || page.keys() == whole.keys());
            let front = super::frame::split(body).front;
            if front.len() == body.len() {
                continue;
            }
            prop_assert!(Page::decode(header, front).is_err());
            let mut changed = body.clone();
            let place = front.len() + at.index(body.len() - front.len());
            changed[place] ^= flip;
            let is_refused = matches!(Page::decode(header, &changed), Err(PageError::Checksum { .. }));
            prop_assert!(is_refused);
            if place < row.len() {
                prop_assert!(front_of(&changed[..row.len()]).expect("a front").read_near().is_err());
            }
            prop_assert!(row.len() == front.len() || front_of(&row[..row.len() - 1]).is_err());
            let mut page = front_of(row).expect("a front");
            let others = page.read_near().expect("the sections of the row");
            prop_assert_eq!(&others, &apart.keys().copied().collect::<Vec<_>>());
            for section in &others {
                let (section, bytes) = (*section, apart[section]);
                prop_assert!(page.read(section, &bytes[1..]).is_err());
                let mut changed = bytes.to_vec();
                changed[at.index(bytes.len())] ^= flip;
                prop_assert!(page.read(section, &changed).is_err());
            }
            prop_assert!(others.is_empty() || page.finish().is_err());
        }
    }

    /// The times and levels of a page are passed without its keys.
    #[test]
    fn times_and_levels_are_those_of_the_rows(rows in like_rows(), among in any::<u64>()) {
        let batches = batches(&rows, 100);
        for page in decode_all(&build(&batches).pages) {
            let mut times = Vec::new();
            page.encoded_times(|row, time| times.push((row, time)));
            let wanted: Vec<_> = page.keys().iter().map(|key| key.time()).enumerate().collect();
            prop_assert_eq!(times, wanted);
            let among = RowSet::of(page.len(), |row| among >> (row % 64) & 1 == 1);
            let mut levels = Vec::new();
            page.each_level(&among, |row, code| levels.push((row, code)));
            let wanted: Vec<_> = among.iter().map(|row| (row, page.level(row).map_or(0, Level::code))).collect();
            prop_assert_eq!(levels, wanted);
        }
    }

    /// A page can be read only under its own address. A wrong codec is an error.
    #[test]
    fn a_page_of_another_home_is_an_error(rows in rows(5), others in ("[a-z]{3,9}", 1u64..400, "[ -~]{0,9}", any::<i64>()), seq: i64) {
        let batches = batches(&rows, 100);
        let EncodedPage { header, body, .. } = build(&batches).pages.remove(0);
        let table = |name: &str, day: u64| {
            let time = Ticks::UNIX_EPOCH.plus(Duration::from_secs(day * 86_400));
            DayTable::at(&TableName::new(name).expect("a name"), Period::Day, time)
        };
        let address = |name: &str, day, partition: &str| TableAddress::new(&table(name, day)).at(partition);
        let stored = PageHeader { checksum: address("Log", 0, "web").stored_checksum(&header, seq), ..header.clone() };
        prop_assert!(Page::decode_of(address("Log", 0, "web"), seq, &stored, &body).is_ok());
        prop_assert_eq!(address("Log", 0, "web").stored_checksum(&stored, seq), header.checksum);
        let is_refused = |address: PageAddress, seq, stored: &PageHeader| {
            matches!(Page::decode_of(address, seq, stored, &body), Err(PageError::Checksum { .. }))
        };
        let (name, day, partition, other) = others;
        prop_assert!(is_refused(address(&name, 0, "web"), seq, &stored));
        prop_assert!(is_refused(address("Log", day, "web"), seq, &stored));
        prop_assert!(partition == "web" || is_refused(address("Log", 0, &partition), seq, &stored));
        prop_assert!(seq == other || is_refused(address("Log", 0, "web"), other, &stored));
    }

    /// The prefilter excludes a page only if no row has the text, in any part of the row's text.
    #[test]
    fn no_page_is_passed_over_that_has_the_text(
        rows in prop_oneof![rows(20), like_rows()],
        which: prop::sample::Index,
        ends: (prop::sample::Index, prop::sample::Index),
    ) {
        let batches = batches(&rows, 100);
        let texts: Vec<String> = rows.iter().flat_map(|row| row.values.values()).map(|value| match value {
            Value::String(text) => text.clone(),
            Value::Int64(n) => n.to_string(),
            Value::Int32(n) => n.to_string(),
            Value::Double(n) => format!("{n:?}"),
            Value::DateTime(time) => time.to_string(),
            Value::Guid(guid) => format!("-{:02x}{:02x}", guid[4], guid[5]),
            other => format!("{other:?}"),
        }).collect();
        let text: Vec<char> = if texts.is_empty() { vec!['x'] } else { which.get(&texts).chars().collect() };
        let (a, b) = (ends.0.index(text.len() + 1), ends.1.index(text.len() + 1));
        let part: String = text[a.min(b)..a.max(b)].iter().collect();
        let prefilter = prefilter(&part);
        let address = || TableAddress::new(&batches[0].table).at("web");
        for EncodedPage { header, body, .. } in build(&batches).pages {
            let stored = PageHeader { checksum: address().stored_checksum(&header, 7), ..header.clone() };
            let has_it = Page::decode(&header, &body).expect("whole").any_value_contains(&Needle::new(&part)).count() > 0;
            let found = prefilter.decode_page(address(), 7, &stored, &body).expect("whole");
            prop_assert!(found.is_some() || !has_it, "{part:?}");
        }
    }

    /// Changed bytes with the right checksum never make reading panic.
    #[test]
    fn hostile_pages_do_not_panic(
        rows in prop_oneof![rows(20), like_rows()],
        flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        entities in prop::option::of(0u32..100_000),
        raw_bytes in prop::option::of(any::<u32>()),
    ) {
        let batches = batches(&rows, 100);
        let EncodedPage { mut header, mut body, .. } = build(&batches).pages.remove(0);
        for (at, byte) in flips {
            let at = at.index(body.len());
            body[at] = byte;
        }
        header.entities = entities.unwrap_or(header.entities);
        header.raw_bytes = raw_bytes.unwrap_or(header.raw_bytes);
        if let Ok(page) = Page::decode_unchecked(&header, &body) {
            page.any_value_contains(&Needle::new("a"));
            plain_rows(&[page]);
        }
    }

    /// Neither do random bytes.
    #[test]
    fn any_bytes_do_not_panic(body in proptest::collection::vec(any::<u8>(), 0..200), entities in 0u32..100, codec in 0u8..8) {
        let key = RowKey::new(Ticks::UNIX_EPOCH, 0, 0);
        let raw_bytes = 1 << 20;
        let header = PageHeader { first: key, last: key, entities, records: 0, levels: Vec::new(), codec, raw_bytes, commits: CommitRange::default(), checksum: 0 };
        if let Ok(page) = Page::decode_unchecked(&header, &body) {
            plain_rows(&[page]);
        }
    }

    /// A query on an encoded column gives the same result as a test of each value.
    #[test]
    fn encoded_columns_answer_as_their_values_do(
        rows in prop_oneof![rows(40), like_rows()],
        at in any::<prop::sample::Index>(),
        ends in any::<(prop::sample::Index, prop::sample::Index)>(),
        some in any::<u64>(),
    ) {
        let pages = build(&batches(&rows, 100)).pages;
        for (page, plain) in decode_all(&pages).iter().zip(decode_all(&pages)) {
            let among = RowSet::of(page.len(), |row| some >> (row % 61) & 1 == 1);
            let chosen = |holds: &dyn Fn(Property<'_>) -> bool, name: &str, kind| RowSet::of(page.len(), |row| {
                let value = plain.column(name, kind).and_then(|column| column.value(row));
                among.contains(row) && value.is_some_and(holds)
            });
            for column in page.columns() {
                let (name, kind) = (column.name(), column.kind());
                let values = plain.column(name, kind).expect("the same column");
                let hash = |value: Property<'_>| xxh3_64(format!("{value:?}").as_bytes());
                let mut mapped = Vec::new();
                column.map(&among, hash, |row, hash| mapped.push((row, hash)));
                let want: Vec<_> = among.iter().filter_map(|row| Some((row, hash(values.value(row)?)))).collect();
                prop_assert_eq!(mapped, want);
                prop_assert_eq!(column.present(), RowSet::of(page.len(), |row| values.value(row).is_some()));
                let text = values.value(at.index(page.len()));
                let Some(Property::String(text)) = text else { continue };
                let cuts: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
                let (a, b) = (ends.0.index(cuts.len()), ends.1.index(cuts.len()));
                let needle = Needle::new(&text[cuts[a.min(b)]..cuts[a.max(b)]]);
                let (mut equal, mut with) = (RowSet::none(page.len()), RowSet::none(page.len()));
                column.add_equal(text, &among, &mut equal);
                column.add_containing(&needle, &among, &mut with);
                prop_assert_eq!(with, chosen(&|value| needle.is_in(value), name, kind));
                prop_assert_eq!(equal, chosen(&|value| value == Property::String(text), name, kind));
            }
            for row in 0..page.len() {
                let mut alone = Vec::new();
                page.each_property(row, |name, value| alone.push((name.to_owned(), OwnedValue::from(value))));
                let together: Vec<_> = plain.properties(row).map(|(name, value)| (name.to_owned(), OwnedValue::from(value))).collect();
                prop_assert_eq!(format!("{alone:?}"), format!("{together:?}"));
            }
        }
    }

    /// A search finds exactly the rows with a value that contains the needle.
    #[test]
    fn needles_are_found_where_they_are(rows in prop_oneof![rows(40), like_rows()], text in "[0-9a-fé.-]{0,2}|GET|get|true") {
        let batches = batches(&rows, 100);
        let needle = Needle::new(&text);
        for page in decode_all(&build(&batches).pages) {
            let has = |row| page.properties(row).any(|(_, value)| needle.is_in(value));
            prop_assert_eq!(page.any_value_contains(&needle), RowSet::of(page.len(), has));
        }
    }
}

#[test]
fn digits_that_a_value_has_twice_mark_its_row_alone() {
    let digest = |n: u64| format!("{:032x}", u128::from(n).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c834));
    let mut rows: Vec<Row> = (1..40).map(|n| row_of(n, 0, digest(n))).collect();
    rows.push(row_of(0, 0, format!("{}aaaaaa{}", "b".repeat(13), "c".repeat(13))));
    let page = decode_all(&build(&batches(&rows, 100)).pages).remove(0);
    let needle = Needle::new("aaaa");
    let has = |row| page.properties(row).any(|(_, value)| needle.is_in(value));
    assert_eq!(page.any_value_contains(&needle), RowSet::of(page.len(), has));
}

fn row_of(second: u64, item: u16, text: String) -> Row {
    let key = RowKey::new(Ticks::UNIX_EPOCH.plus(Duration::from_secs(second)), 1, second).with_item(item);
    Row { key, level: Some(Level::Info), values: [("Message".to_owned(), Value::String(text))].into() }
}

#[test]
fn pages_are_cut_at_their_size() {
    let rows: Vec<Row> = (0..3000).map(|n| row_of(n, 0, "x".repeat(300 + n as usize % 7))).collect();
    let batches = batches(&rows, 100);
    let pages = build(&batches).pages;
    assert_eq!(pages.len(), bytes_of(&rows).div_ceil(PAGE_BYTES));
    assert!(pages.iter().all(|page| page.header.raw_bytes as usize <= PAGE_BYTES));
    assert_eq!(pages.iter().map(|page| page.header.raw_bytes as usize).sum::<usize>(), bytes_of(&rows));
}

#[test]
fn rows_within_the_span_of_a_page_are_one_page_and_a_tick_more_makes_two() {
    let span = PAGE_SPAN.as_secs();
    for (tick, pages) in [(0, 1), (1, 2)] {
        let mut rows = vec![row_of(0, 0, "a".into()), row_of(span, 0, "b".into())];
        let last = rows[1].key.time().plus(Duration::from_nanos(100 * tick));
        rows[1].key = RowKey::new(last, 1, 1);
        let batches = batches(&rows, 1);
        assert_eq!(build(&batches).pages.len(), pages);
    }
}

#[test]
fn a_master_and_its_items_share_a_page() {
    let rows: Vec<Row> = (0..40).flat_map(|n| (0..8).map(move |item| row_of(n, item, "y".repeat(20_000)))).collect();
    let batches = batches(&rows, 100);
    let pages = build(&batches).pages;
    assert!(pages.len() > 5);
    for page in &pages {
        assert_eq!(page.header.first.item(), 0);
        assert_eq!(page.header.last.item(), 7);
        assert_eq!(page.header.entities, 8 * page.header.records);
    }
    assert_eq!(plain_rows(&decode_all(&pages)), want(&rows));
}

#[test]
fn more_columns_than_a_search_reads() {
    let mut rows: Vec<Row> = (0..50).map(|n| row_of(n, 0, "z".into())).collect();
    for (n, row) in rows.iter_mut().enumerate() {
        row.values.extend((0..200).map(|c| (format!("c{}", c + n), Value::Int64(c as i64))));
    }
    let batches = batches(&rows, 7);
    assert_eq!(plain_rows(&decode_all(&build(&batches).pages)), want(&rows));
}

/// Each row has a name of its own, and one row in this many a name that others have: dense columns between listed ones.
#[test]
fn a_name_that_few_rows_have_takes_bytes_for_its_values() {
    let mut rows: Vec<Row> = (0..1500).map(|n| row_of(n, 0, "z".into())).collect();
    for (n, row) in rows.iter_mut().enumerate() {
        row.values.insert(format!("u{n:x}"), Value::Int64(n as i64));
        for share in [2, 31, 33, 700] {
            if n % share == 0 {
                row.values.insert(format!("share{share}"), Value::String(format!("v{n}")));
            }
        }
    }
    let batches = batches(&rows, 100);
    let raw: usize = batches.iter().flat_map(|batch| batch.rows()).map(|row| row.bytes() + ROW_BYTES).sum();
    let pages = build(&batches).pages;
    let claimed: usize = pages.iter().map(|page| page.header.raw_bytes as usize).sum();
    assert!(claimed < 2 * raw, "{claimed} bytes of {raw}");
    let pages = decode_all(&pages);
    assert_eq!(plain_rows(&pages), want(&rows));
    for page in &pages {
        let values: usize = page.columns().map(|column| column.count()).sum();
        assert!(page.presence_bytes() <= 8 * values, "{} for {values}", page.presence_bytes());
        for column in page.columns() {
            let present = RowSet::of(page.len(), |row| column.value(row).is_some());
            assert_eq!((column.present(), column.count()), (present.clone(), present.count()), "{}", column.name());
            let all = RowSet::all(page.len());
            let mut mapped = Vec::new();
            column.map(&all, |value| value == Property::String(""), |row, is_empty| mapped.push((row, is_empty)));
            assert_eq!(mapped, present.iter().map(|row| (row, false)).collect::<Vec<_>>(), "{}", column.name());
        }
    }
    // Pages are built of pages as of batches.
    let mut merged = PageBuilder::new();
    pages.iter().for_each(|page| merged.push_page(page));
    assert_eq!(plain_rows(&decode_all(&merged.build().pages)), want(&rows));
}

fn prefilter(text: &str) -> Prefilter {
    Prefilter::new(Some(text), None).expect("a text")
}

#[test]
fn a_page_without_the_text_is_passed_over() {
    let values = |n: u64| {
        BTreeMap::from([
            ("Message".to_owned(), Value::String(format!("took {n} ms of 10"))),
            ("trace".to_owned(), Value::String(format!("{:016x}", xxh3_64(&n.to_le_bytes())))),
        ])
    };
    let row = |n: u64| Row {
        key: RowKey::new(Ticks::UNIX_EPOCH.plus(Duration::from_secs(n)), 7, n),
        level: None,
        values: values(n),
    };
    let batches = batches(&(0..300).map(row).collect::<Vec<_>>(), 100);
    let EncodedPage { header, body, .. } = build(&batches).pages.remove(0);
    let address = || TableAddress::new(&batches[0].table).at("web");
    let stored = PageHeader { checksum: address().stored_checksum(&header, 7), ..header };
    for (text, is_read) in [
        ("took 7 ms", true),
        ("0 ms of 1", true),
        ("ms off", false),
        // Its words may be in several values of a line, so only words exclude a page.
        ("took 7 s", true),
        ("beef", true),
        ("beefs", false),
        ("", true),
        ("77", true),
        // The page is read although no string has it: numbers are not among the strings.
        ("true", true),
        ("1.5", true),
        ("truest", false),
        ("1.5 ", true),
    ] {
        let page = prefilter(text).decode_page(address(), 7, &stored, &body).expect("whole");
        assert_eq!(page.is_some(), is_read, "{text}");
    }
    let damaged = prefilter("nothing of it").decode_page(address(), 8, &stored, &body);
    assert!(matches!(damaged, Err(PageError::Checksum { .. })), "what is passed over is checked all the same");
}
