//! The records of a page by level and minute, which `count --by level --every 5m` reads instead of pages.
//!
//! ```text
//! levels := minute signed              of the newest record, minutes since the Unix epoch; empty without records
//!           [group varint, count varint]*      group = minutes back from the group before << 4 | level, 0 without one
//!           extents                      which sources and positions the rows have (`extents`)
//!           15, 0                        if an entity has the note of a stream
//! ```
//!
//! The group 14 follows the group of its level and minute. It counts those of its records that are at the first tick of the
//! minute: ranges of LogQL end with that tick.

use super::PageError;
use super::bits::{ByteReader, put_signed, put_varint};
use super::value_counts::LEVELS;
use daytable_model::key::RowKey;
use daytable_model::record::Level;
use daytable_model::time::{TICKS_PER_MINUTE, Ticks, UNIX_EPOCH_TICKS};

/// The group of records at the first tick of a minute.
const AT_START: u64 = 14;
/// The group of counts that begins the extents. With a length of 0, it is the note of a stream.
pub(super) const EXTENTS: u64 = 15;
/// The end of counts where an entity has the note of a stream. No other count is 0, and extents do not end with it.
const HAS_STREAMS: [u8; 2] = [15, 0];

/// Whether an entity of the page with these counts may have the note of a stream.
pub fn has_streams(levels: &[u8]) -> bool {
    levels.ends_with(&HAS_STREAMS)
}

/// Notes that an entity of the page with these counts has the note of a stream.
pub(crate) fn add_streams(levels: &mut Vec<u8>) {
    levels.extend(HAS_STREAMS);
}

/// Counts the records among `rows`, newest first; items do not count.
pub(super) fn encode(rows: impl Iterator<Item = (RowKey, Option<Level>)>) -> Vec<u8> {
    let mut out = Vec::with_capacity(16);
    // Records, and those at the first tick.
    let mut counts = [(0u32, 0u32); 1 + Level::ALL.len()];
    // The current minute, its ticks, and the minute that was written last.
    let (mut minute, mut ticks, mut written) = (0, 0..0, None);
    for (key, level) in rows.filter(|(key, _)| key.item() == 0) {
        let time = key.time().get();
        if !ticks.contains(&time) {
            flush(&mut out, minute, &mut written, &mut counts);
            minute = minute_of(key.time());
            let start = minute * TICKS_PER_MINUTE + UNIX_EPOCH_TICKS;
            ticks = start..start + TICKS_PER_MINUTE;
        }
        let (records, at_start) = &mut counts[usize::from(level.map_or(0, Level::code))];
        *records += 1;
        *at_start += u32::from(time == ticks.start);
    }
    flush(&mut out, minute, &mut written, &mut counts);
    out
}

fn minute_of(time: Ticks) -> i64 {
    (time.get() - UNIX_EPOCH_TICKS).div_euclid(TICKS_PER_MINUTE)
}

fn flush(out: &mut Vec<u8>, minute: i64, written: &mut Option<i64>, counts: &mut [(u32, u32)]) {
    for (level, (records, at_start)) in (0u64..).zip(counts.iter_mut().map(std::mem::take)) {
        put_group(out, minute, written, level, records, at_start);
    }
}

/// Writes a count, if there is something to count. Minutes descend.
fn put_group(out: &mut Vec<u8>, minute: i64, written: &mut Option<i64>, level: u64, records: u32, at_start: u32) {
    if records == 0 {
        return;
    }
    if written.is_none() {
        put_signed(out, minute);
    }
    let back = written.unwrap_or(minute) - minute;
    put_varint(out, back.cast_unsigned() << 4 | level);
    put_varint(out, u64::from(records));
    if at_start > 0 {
        put_varint(out, AT_START);
        put_varint(out, u64::from(at_start));
    }
    *written = Some(minute);
}

/// Records of one level in one minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelMinute {
    /// The UTC minute, in minutes since the Unix epoch.
    pub minute: i64,
    /// The level; `None` for records without one.
    pub level: Option<Level>,
    /// Number of records.
    pub records: u32,
    /// Those of them at the first tick of the minute.
    pub at_start: u32,
}

/// Writes counts, newest minute first, in the form that [`level_minutes`] reads.
pub(crate) fn encode_minutes(counts: &[LevelMinute]) -> Vec<u8> {
    let (mut out, mut written) = (Vec::new(), None);
    for LevelMinute { minute, level, records, at_start } in counts {
        put_group(&mut out, *minute, &mut written, level.map_or(0, Level::code).into(), *records, *at_start);
    }
    out
}

/// The extents behind these counts; `None` if there are none.
pub(super) fn extents(levels: &[u8]) -> Option<&[u8]> {
    let mut reader = ByteReader::new(levels.strip_suffix(&HAS_STREAMS).unwrap_or(levels));
    reader.signed().ok()?;
    loop {
        let group = reader.varint().ok()?;
        let count = reader.varint().ok()?;
        if group == EXTENTS {
            return (usize::try_from(count) == Ok(reader.rest().len())).then(|| reader.rest());
        }
    }
}

/// Whether a record of each of two pages with these counts may have the same time.
pub(crate) fn share_minute(levels: &[u8], others: &[u8]) -> bool {
    let (mut minutes, mut others) = (level_minutes(levels), level_minutes(others));
    let (mut one, mut other) = (minutes.next(), others.next());
    loop {
        match (&one, &other) {
            (None, _) | (_, None) => return false,
            (Some(Err(_)), _) | (_, Some(Err(_))) => return true,
            (Some(Ok(a)), Some(Ok(b))) if a.minute == b.minute => return true,
            (Some(Ok(a)), Some(Ok(b))) if a.minute > b.minute => one = minutes.next(),
            _ => other = others.next(),
        }
    }
}

/// Whether a record of a page with these counts may be of this time.
pub(crate) fn may_have_minute(levels: &[u8], time: Ticks) -> bool {
    let minute = minute_of(time);
    level_minutes(levels).any(|of| of.map_or(true, |of| of.minute == minute))
}

/// The counts of [`super::PageHeader::levels`], newest minute first. Ends after an error.
pub fn level_minutes(levels: &[u8]) -> impl Iterator<Item = Result<LevelMinute, PageError>> {
    let mut reader = ByteReader::new(levels.strip_suffix(&HAS_STREAMS).unwrap_or(levels));
    let mut minute = None;
    let mut next = move |reader: &mut ByteReader<'_>| {
        let newest = match minute {
            Some(minute) => minute,
            None => reader.signed()?,
        };
        let group = reader.varint()?;
        if group == EXTENTS {
            let length = reader.varint()?;
            return match usize::try_from(length) == Ok(reader.rest().len()) {
                true => Ok(None),
                false => Err(PageError::Damaged("there is something behind its counts")),
            };
        }
        let now = newest.checked_sub((group >> 4).cast_signed());
        let now = now.ok_or(PageError::Damaged("a minute is out of range"))?;
        minute = Some(now);
        let level = match (group & 0xf) as u8 {
            0 => None,
            code => Some(Level::from_code(code).ok_or(PageError::Damaged("a level is not known"))?),
        };
        let count = |reader: &mut ByteReader<'_>| {
            u32::try_from(reader.varint()?).map_err(|_| PageError::Damaged("a count is too large"))
        };
        let records = count(reader)?;
        let mut at_start = 0;
        if reader.rest().first().is_some_and(|group| u64::from(*group) == AT_START) {
            reader.varint()?;
            at_start = count(reader)?;
        }
        Ok(Some(LevelMinute { minute: now, level, records, at_start }))
    };
    std::iter::from_fn(move || {
        if reader.rest().is_empty() {
            return None;
        }
        let result = next(&mut reader);
        if !matches!(result, Ok(Some(_))) {
            reader = ByteReader::new(&[]);
        }
        result.transpose()
    })
}

/// Records by the code of their level.
pub type LevelNumbers = [u64; LEVELS];

/// The counts of [`super::PageHeader::levels`] by level.
///
/// # Errors
///
/// Counts that cannot be read.
pub fn level_numbers(levels: &[u8]) -> Result<LevelNumbers, PageError> {
    let mut numbers = LevelNumbers::default();
    for of in level_minutes(levels) {
        let of = of?;
        numbers[usize::from(of.level.map_or(0, Level::code))] += u64::from(of.records);
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn level() -> impl Strategy<Value = Option<Level>> {
        (0u8..=9).prop_map(Level::from_code)
    }

    proptest! {
        /// The counts are those of the records, minute by minute and level by level; items are not counted.
        #[test]
        fn counts_are_the_records(
            mut rows in proptest::collection::vec(
                (0..3 * 3600i64, level(), prop_oneof![3 => Just(0u16), 1 => Just(1)]), 0..200),
            start in -100_000i64..100_000,
            streams: bool,
        ) {
            rows.sort_by_key(|row| std::cmp::Reverse(row.0));
            let rows: Vec<_> = rows.into_iter().map(|(second, level, item)| {
                let time = Ticks::from_unix(start * 1000 + second, 0).expect("in range");
                (RowKey::new(time, 1, 0).with_item(item), level)
            }).collect();
            let mut want = BTreeMap::new();
            for (key, level) in rows.iter().filter(|(key, _)| key.item() == 0) {
                let seconds = key.time().unix_seconds();
                let (records, at_start) = want.entry((seconds.div_euclid(60), *level)).or_insert((0u32, 0u32));
                *records += 1;
                *at_start += u32::from(seconds.rem_euclid(60) == 0);
            }
            let mut encoded = encode(rows.into_iter());
            prop_assert!(!has_streams(&encoded));
            if streams {
                add_streams(&mut encoded);
            }
            prop_assert_eq!(has_streams(&encoded), streams);
            let got = level_minutes(&encoded).collect::<Result<Vec<_>, _>>().expect("what was encoded");
            let again = encode_minutes(&got);
            prop_assert_eq!(Some(&*again), encoded.get(..again.len()));
            let got: Vec<_> = got.iter().map(|g| ((g.minute, g.level), (g.records, g.at_start))).collect();
            prop_assert_eq!(got.len(), want.len());
            prop_assert_eq!(got.into_iter().collect::<BTreeMap<_, _>>(), want);
        }

        /// Any bytes decode to counts or to an error, and decoding ends.
        #[test]
        fn any_bytes_are_read_to_an_end(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            prop_assert!(level_minutes(&bytes).count() <= bytes.len());
        }
    }
}
