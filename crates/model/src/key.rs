//! The key of a record: the table of its day, the partition of its instance, and a row key that begins with the
//! inverted time.
//!
//! ```text
//! Log20261121                                             table: name + day (or hour, or month), UTC
//! web-17                                                  PartitionKey: the instance, encoded; a suffix `~xx` is its bucket
//! 2516070815999999999-b3d1f0a27c5507e11f3a9c2e77b0d4a6-fffffffe0a12       RowKey of a record: 65 characters
//! 2516070815999999999-b3d1f0a27c5507e11f3a9c2e77b0d4a6-fffffffe0a12_0001  RowKey of its first item, if one entity is too small
//! └ 19 digits: ─────┘ └ 12 hex ──┘└4 ┘└ 16 hex: ─────┘ └ 12 hex ─┘
//!   MAX_TICKS − ticks   start     host  hash             2^48 − 1 − position
//!                       └ the source: see `source_id` ┘
//! ```
//!
//! Claims, each a property test below: row keys sort the newest record first, within one tick that of the source that
//! began last, and within a source the latest position; every encoding decodes to its input; two instances never share
//! a partition.
//!
//! The limits are those of Azure Table: table names match `^[A-Za-z][A-Za-z0-9]{2,62}$`; keys have at most 512 UTF-16
//! units and neither `/ \ # ?` nor control characters.

use crate::property::to_hex;
use crate::source_id::SourceId;
use crate::time::{Date, Ticks};
use sha2::{Digest, Sha256};
use std::fmt;
use std::sync::Arc;

/// The largest position of a record in its source: 2^48 − 1 (256 TiB into a file).
pub const POSITION_MAX: u64 = (1 << 48) - 1;
/// Maximum UTF-16 units of a PartitionKey.
pub const PARTITION_UNITS_MAX: usize = 512;
/// Maximum number of items of one record: a transaction has 100 entities, and one of them is the master.
pub const ITEMS_MAX: u16 = 99;

/// Why a name or a key is invalid.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum KeyError {
    /// Not a valid name for a configured table.
    #[error("{0:?} is not a table name: 3 to 53 letters and digits, a letter first and no digit last")]
    TableName(String),
    /// Not a table name followed by a day, an hour or a month.
    #[error("{0:?} is not a day-table: a table name with yyyyMMdd, yyyyMMddHH or yyyyMM behind it")]
    DayTable(String),
    /// Not of the form that this module's head shows.
    #[error("{0:?} is not a row key")]
    RowKey(String),
}

/// The time span of a day-table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Period {
    /// A table an hour, `yyyyMMddHH`.
    Hour,
    /// A table a day, `yyyyMMdd`.
    #[default]
    Day,
    /// A table a month, `yyyyMM`.
    Month,
}

impl Period {
    /// The start of the period that contains `time`.
    pub fn start(self, time: Ticks) -> Ticks {
        let Date { year, month, day } = time.date();
        let day_start = |day| Ticks::from_date(year, month, day).unwrap_or(Ticks::MIN);
        match self {
            Period::Hour => day_start(day).plus(std::time::Duration::from_secs(3600 * u64::from(time.hour()))),
            Period::Day => day_start(day),
            Period::Month => day_start(1),
        }
    }

    /// The start of the period after the one that begins at `start`.
    pub fn next(self, start: Ticks) -> Ticks {
        let hours = match self {
            Period::Hour => 1,
            Period::Day => 24,
            Period::Month => {
                let Date { year, month, .. } = start.date();
                24 * u64::from(crate::time::days_in_month(year, month))
            }
        };
        start.plus(std::time::Duration::from_secs(3600 * hours))
    }
}

/// The name of a configured table: 3 to 53 letters and digits, with a letter first and no digit last, so that the
/// date that follows is unambiguous. Azure does not distinguish names by case: see [`TableName::same`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableName(Arc<str>);

impl TableName {
    /// Validates a name.
    pub fn new(name: &str) -> Result<TableName, KeyError> {
        let bytes = name.as_bytes();
        let fits = (3..=53).contains(&bytes.len())
            && bytes.iter().all(u8::is_ascii_alphanumeric)
            && bytes[0].is_ascii_alphabetic()
            && !bytes[bytes.len() - 1].is_ascii_digit()
            && !name.eq_ignore_ascii_case("tables");
        if fits { Ok(TableName(name.into())) } else { Err(KeyError::TableName(name.into())) }
    }

    /// The name as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the service treats both as the same name.
    pub fn same(&self, other: &TableName) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One day (or hour, or month) of a configured table: a *day-table*.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DayTable {
    table: TableName,
    start: Ticks,
    period: Period,
}

impl DayTable {
    /// The table of the period that contains `time`.
    pub fn at(table: &TableName, period: Period, time: Ticks) -> DayTable {
        DayTable { table: table.clone(), start: period.start(time), period }
    }

    /// The inverse of `Display`.
    pub fn parse(name: &str) -> Result<DayTable, KeyError> {
        let error = || KeyError::DayTable(name.into());
        let letters = name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let (table, digits) = name.split_at(letters);
        let number = |range: std::ops::Range<usize>| digits.get(range).and_then(|d| d.parse::<u32>().ok());
        let period = match digits.len() {
            6 => Period::Month,
            8 => Period::Day,
            10 => Period::Hour,
            _ => return Err(error()),
        };
        let year = number(0..4).and_then(|year| i32::try_from(year).ok()).ok_or_else(error)?;
        let month = number(4..6).ok_or_else(error)?;
        let day = if period == Period::Month { 1 } else { number(6..8).ok_or_else(error)? };
        let hour = if period == Period::Hour { number(8..10).ok_or_else(error)? } else { 0 };
        let date = Ticks::from_date(year, month, day).ok_or_else(error)?;
        if hour > 23 {
            return Err(error());
        }
        let start = date.plus(std::time::Duration::from_secs(3600 * u64::from(hour)));
        Ok(DayTable { table: TableName::new(table).map_err(|_| error())?, start, period })
    }

    /// The configured table it belongs to.
    pub fn table(&self) -> &TableName {
        &self.table
    }

    /// Its time span.
    pub fn period(&self) -> Period {
        self.period
    }

    /// The first tick of its period.
    pub fn start(&self) -> Ticks {
        self.start
    }

    /// The first tick after its period.
    pub fn end(&self) -> Ticks {
        self.period.next(self.start)
    }

    /// The table of the period after this one.
    pub fn next(&self) -> DayTable {
        DayTable { table: self.table.clone(), start: self.end(), period: self.period }
    }

    /// Whether `time` is in its period.
    pub fn holds(&self, time: Ticks) -> bool {
        self.start <= time && time < self.end()
    }
}

impl fmt::Display for DayTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Date { year, month, day } = self.start.date();
        write!(f, "{}{year:04}{month:02}", self.table)?;
        match self.period {
            Period::Month => Ok(()),
            Period::Day => write!(f, "{day:02}"),
            Period::Hour => write!(f, "{day:02}{:02}", self.start.hour()),
        }
    }
}

/// The PartitionKey of an instance, with its bucket if the instance is spread over several.
///
/// `%`, `~`, `/ \ # ?` and control characters become `%` and two hexadecimal digits a UTF-8 byte. A name that is too
/// long is cut and ends in `~` and 32 digits of its SHA-256. An encoded name contains no other `~`, so two instances
/// never share a partition, and none looks like a bucket of another.
pub fn partition_key(instance: &str, bucket: Option<u8>) -> String {
    use fmt::Write;
    let plain = |c: char| !matches!(c, '%' | '~' | '/' | '\\' | '#' | '?') && !c.is_control();
    let mut key = String::with_capacity(instance.len() + 3);
    if instance.chars().all(plain) {
        key.push_str(instance);
    } else {
        for c in instance.chars() {
            if plain(c) {
                key.push(c);
            } else {
                let mut utf8 = [0; 4];
                for byte in c.encode_utf8(&mut utf8).bytes() {
                    let _ = write!(key, "%{byte:02X}");
                }
            }
        }
    }
    const HASH_UNITS: usize = 1 + 32;
    const BUCKET_UNITS: usize = 3;
    let room = PARTITION_UNITS_MAX - BUCKET_UNITS;
    if key.len() > room && key.encode_utf16().count() > room {
        let mut units = 0;
        let mut cut = 0;
        for (at, c) in key.char_indices() {
            units += c.len_utf16();
            if units > room - HASH_UNITS {
                break;
            }
            cut = at + c.len_utf8();
        }
        key.truncate(cut);
        key.push('~');
        key.push_str(&to_hex(&Sha256::digest(instance.as_bytes())[..16]));
    }
    if let Some(bucket) = bucket {
        let _ = write!(key, "~{bucket:02x}");
    }
    key
}

/// Decodes a PartitionKey into the instance and the bucket. A name that was cut stays cut.
pub fn instance_of(partition: &str) -> (String, Option<u8>) {
    let (name, bucket) = match partition.rsplit_once('~') {
        Some((name, hex)) if hex.len() == 2 => (name, u8::from_str_radix(hex, 16).ok()),
        _ => (partition, None),
    };
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let escaped = (first == b'%')
            .then(|| tail.get(..2).and_then(|hex| std::str::from_utf8(hex).ok()))
            .flatten()
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match escaped {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    (String::from_utf8_lossy(&bytes).into_owned(), bucket)
}

/// The key of a row within its partition. `Ord` is the order of the text: newest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowKey {
    inverted_ticks: i64,
    source: SourceId,
    inverted_position: u64,
    item: u16,
}

impl RowKey {
    /// Bytes of [`RowKey::to_bytes`].
    pub const BYTES: usize = 32;
    /// Characters of the text of a record's key; those of an item's are five more.
    pub const CHARACTERS: usize = 65;

    /// The key of the record that begins at `position` of `source`. Positions beyond [`POSITION_MAX`] are equal.
    #[inline]
    pub fn new(time: Ticks, source: impl Into<SourceId>, position: u64) -> RowKey {
        let inverted_position = POSITION_MAX - position.min(POSITION_MAX);
        RowKey { inverted_ticks: time.inverted(), source: source.into(), inverted_position, item: 0 }
    }

    /// The key of item `item` of the record; 0 is the record itself.
    #[inline]
    pub fn with_item(self, item: u16) -> RowKey {
        RowKey { item, ..self }
    }

    /// The key with another source.
    #[inline]
    #[must_use]
    pub fn with_source(self, source: SourceId) -> RowKey {
        RowKey { source, ..self }
    }

    /// The record's time.
    pub fn time(&self) -> Ticks {
        // Every constructor checks that the ticks are in range.
        Ticks::new(crate::time::MAX_TICKS - self.inverted_ticks).unwrap_or(Ticks::MIN)
    }

    /// The identity of the source.
    pub fn source(&self) -> SourceId {
        self.source
    }

    /// The position in the source at which the record begins.
    pub fn position(&self) -> u64 {
        POSITION_MAX - self.inverted_position
    }

    /// 0 for a record, 1 and up for its items.
    pub fn item(&self) -> u16 {
        self.item
    }

    /// A fixed-size form that sorts as the keys do: 8 bytes of inverted ticks, 16 of the source, 6 of the inverted
    /// position, 2 of the item, each big-endian.
    pub fn to_bytes(&self) -> [u8; RowKey::BYTES] {
        let mut bytes = [0; RowKey::BYTES];
        bytes[..8].copy_from_slice(&self.inverted_ticks.to_be_bytes());
        bytes[8..24].copy_from_slice(&self.source.to_bytes());
        bytes[24..30].copy_from_slice(&self.inverted_position.to_be_bytes()[2..]);
        bytes[30..].copy_from_slice(&self.item.to_be_bytes());
        bytes
    }

    /// The inverse of [`RowKey::to_bytes`]; `None` for invalid bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<RowKey> {
        let bytes: &[u8; RowKey::BYTES] = bytes.try_into().ok()?;
        let source = SourceId::from_bytes(*bytes[8..].first_chunk()?);
        let word = |range: std::ops::Range<usize>| bytes[range].iter().fold(0u64, |n, &b| n << 8 | u64::from(b));
        let inverted_ticks = i64::try_from(word(0..8)).ok().filter(|&t| t <= crate::time::MAX_TICKS)?;
        let item = u16::try_from(word(30..32)).ok()?;
        Some(RowKey { inverted_ticks, source, inverted_position: word(24..30), item })
    }

    /// The inverse of `Display`.
    pub fn parse(text: &str) -> Result<RowKey, KeyError> {
        let error = || KeyError::RowKey(text.into());
        let (key, item) = match text.split_once('_') {
            Some((key, item)) if item.len() == 4 => (key, item.parse().map_err(|_| error())?),
            Some(_) => return Err(error()),
            None => (text, 0),
        };
        // Only digits: the parser of numbers would also accept a sign.
        let is_part = |(place, byte): (usize, u8)| match place {
            19 | 52 => byte == b'-',
            0..19 | 66.. => byte.is_ascii_digit(),
            65 => byte == b'_',
            _ => byte.is_ascii_hexdigit(),
        };
        if key.len() != RowKey::CHARACTERS || !text.bytes().enumerate().all(is_part) {
            return Err(error());
        }
        let inverted_ticks: i64 = key[..19].parse().map_err(|_| error())?;
        if inverted_ticks > crate::time::MAX_TICKS {
            return Err(error());
        }
        let source = SourceId::parse(&key[20..52]).ok_or_else(error)?;
        let inverted_position = u64::from_str_radix(&key[53..], 16).map_err(|_| error())?;
        Ok(RowKey { inverted_ticks, source, inverted_position, item })
    }

    /// The first and last possible keys of records with `from <= time <= to`; the newest is the first.
    pub fn range(from: Ticks, to: Ticks) -> (RowKey, RowKey) {
        let first = RowKey { inverted_ticks: to.inverted(), source: SourceId::FIRST, inverted_position: 0, item: 0 };
        let last = RowKey {
            inverted_ticks: from.inverted(),
            source: SourceId::LAST,
            inverted_position: POSITION_MAX,
            item: u16::MAX,
        };
        (first, last)
    }
}

impl fmt::Display for RowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:019}-{}-{:012x}", self.inverted_ticks, self.source, self.inverted_position)?;
        if self.item > 0 { write!(f, "_{:04}", self.item) } else { Ok(()) }
    }
}

impl fmt::Debug for RowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ticks() -> impl Strategy<Value = Ticks> {
        (0..=crate::time::MAX_TICKS).prop_map(|t| Ticks::new(t).expect("in range"))
    }

    fn row_key() -> impl Strategy<Value = RowKey> {
        (ticks(), any::<[u64; 2]>(), 0..=POSITION_MAX, 0u16..=9999)
            .prop_map(|(t, [head, hash], p, i)| RowKey::new(t, SourceId::from_parts(head, hash), p).with_item(i))
    }

    #[test]
    fn the_designs_example() {
        let midnight = Ticks::from_date(2026, 11, 21).expect("a date");
        let key = RowKey::new(midnight, SourceId::from_parts(0xb3d1_f0a2_7c55_07e1, 0x1f3a_9c2e_77b0_d4a6), 0x1f5ed);
        let text = "2516070815999999999-b3d1f0a27c5507e11f3a9c2e77b0d4a6-fffffffe0a12";
        assert_eq!(key.to_string(), text);
        assert_eq!(text.len(), RowKey::CHARACTERS);
        assert_eq!(key.with_item(1).to_string(), format!("{text}_0001"));
    }

    #[test]
    fn day_tables_by_period() {
        let log = TableName::new("Log").expect("a name");
        let time = Ticks::from_date(2024, 2, 29).expect("a date").plus(std::time::Duration::from_secs(3600 * 23));
        for (period, name, next) in [
            (Period::Hour, "Log2024022923", "Log2024030100"),
            (Period::Day, "Log20240229", "Log20240301"),
            (Period::Month, "Log202402", "Log202403"),
        ] {
            let table = DayTable::at(&log, period, time);
            assert_eq!(table.to_string(), name);
            assert_eq!(table.next().to_string(), next);
            assert_eq!(DayTable::parse(name), Ok(table.clone()));
            assert!(table.holds(time) && !table.next().holds(time) && !table.holds(table.end()));
        }
    }

    #[test]
    fn names_that_are_refused() {
        for name in ["", "Lo", "1Log", "Log_a", "Log1", "Läg", "tables", &"a".repeat(54)] {
            assert!(TableName::new(name).is_err(), "{name}");
        }
        for name in
            ["Log", "Log2026", "Log20261301", "Log20260230", "Log2026112124", "20261121", "Log2026112", "L20261121"]
        {
            assert!(DayTable::parse(name).is_err(), "{name}");
        }
        for key in [
            "",
            "2516070815999999999-b3d1f0a27c5507e11f3a9c2e77b0d4a6-fffffffe0a1",
            "+516070815999999999-b3d1f0a27c5507e11f3a9c2e77b0d4a6-fffffffe0a12",
            "2516070815999999999-1f3a9c2e77b0d4a6-fffffffe0a12",
            "2516070815999999999-+3d1f0a27c5507e11f3a9c2e77b0d4a6-fffffffe0a12",
            "-516070815999999999-b3d1f0a27c5507e11f3a9c2e77b0d4a6-fffffffe0a12",
            "2516070815999999999-b3d1f0a27c5507e11f3a9c2e77b0d4a6-fffffffe0a12_+001",
        ] {
            assert!(RowKey::parse(key).is_err(), "{key}");
        }
    }

    #[test]
    fn hostile_instances_stay_apart() {
        let long = "x".repeat(600);
        let look_alike = partition_key(&long, None);
        let names =
            ["a", "a~7e", "a~", "a%7E", "a/b", "a%2Fb", "a\\b", "a\u{1}", "", "é", &long, &look_alike, &long[..599]];
        let keys: std::collections::HashSet<_> = names.iter().map(|n| partition_key(n, None)).collect();
        assert_eq!(keys.len(), names.len());
    }

    proptest! {
        /// A later record, within one tick that of a later source, and within that a later position, sorts first; in text, bytes and `Ord` alike.
        #[test]
        fn order_is_newest_first(a in row_key(), b in row_key(), later in 0..=POSITION_MAX) {
            prop_assert_eq!(a.cmp(&b), a.to_string().cmp(&b.to_string()));
            prop_assert_eq!(a.cmp(&b), a.to_bytes().cmp(&b.to_bytes()));
            if a.time() > b.time() { prop_assert!(a < b); }
            if a.time() == b.time() && a.source().start() > b.source().start() { prop_assert!(a < b); }
            let other = RowKey::new(a.time(), a.source(), later);
            if other.position() > a.position() { prop_assert!(other < a); }
        }

        /// decode(encode(key)) is the key, as text and as bytes.
        #[test]
        fn keys_round_trip(key in row_key()) {
            prop_assert_eq!(RowKey::parse(&key.to_string()), Ok(key));
            prop_assert_eq!(RowKey::from_bytes(&key.to_bytes()), Some(key));
        }

        /// Items follow their master and nothing comes between them.
        #[test]
        fn items_follow_their_master(key in row_key(), item in 1u16..=9999, other in row_key()) {
            let master = key.with_item(0);
            let item = master.with_item(item);
            prop_assert!(master < item);
            let stranger = other.with_item(0);
            prop_assert!(stranger <= master || stranger > item);
        }

        /// Two instances never share a partition in any bucket, and the service accepts every key.
        #[test]
        fn partitions_are_apart(a in "\\PC{0,8}|[a~%/0-9A-F]{0,6}|.{500,600}", b in "\\PC{0,8}|[a~%/0-9A-F]{0,6}|.{500,600}",
                                x in proptest::option::of(any::<u8>()), y in proptest::option::of(any::<u8>())) {
            let (one, two) = (partition_key(&a, x), partition_key(&b, y));
            prop_assert_eq!(one == two, a == b && x == y);
            prop_assert!(one.encode_utf16().count() <= PARTITION_UNITS_MAX);
            prop_assert!(!one.contains(['/', '\\', '#', '?']) && !one.chars().any(char::is_control));
            if a.len() < 100 { prop_assert_eq!(instance_of(&one), (a, x)); }
        }

        /// A day-table's name parses back to the day-table, which contains the time it was made from.
        #[test]
        fn day_tables_round_trip(time in ticks(), period in prop_oneof![Just(Period::Hour), Just(Period::Day), Just(Period::Month)]) {
            let table = DayTable::at(&TableName::new("Log").expect("a name"), period, time);
            prop_assert_eq!(DayTable::parse(&table.to_string()), Ok(table.clone()));
            prop_assert!(table.start() <= time);
        }
    }
}
