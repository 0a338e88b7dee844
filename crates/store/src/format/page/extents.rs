//! The sources and positions of the rows of a page, at the end of its counts by level and minute.
//!
//! Pages of a partition overlap where a record came late: the page with it reaches back for hours, over all pages between.
//! Two rows have equal keys only if their sources and positions are equal as well as their times. A source is read once,
//! so pages that overlap in time mostly have other positions, and neither has to be read to know that they share no row.
//!
//! ```text
//! extents  := 15 | length of the rest varint | of | 1
//! of       := 0, positions                             all rows are of the source of the first key
//!             sources u8, [source, positions]*         of this many sources, at most 4
//!             254                                      not known: a part of a record is here without the record
//!             255, [source, position varint]*2         from the first to the last by source and then position
//! positions := least varint | most − least varint
//! source   := 16 bytes
//! ```
//!
//! Counts by minute count records, not their parts. So a page also says if it has a part whose record is elsewhere; if only
//! its first rows are such parts, its first key says so.
//!
//! The last byte is never 0, so that the note of a stream, which may follow, is told from it. Pages of one or two rows need
//! none: the header has their keys. Nor has a page of few rows and many sources any.

use super::bits::{ByteReader, put_varint};
use super::levels::EXTENTS;
use super::{PageError, PageHeader};
use daytable_model::key::RowKey;
use daytable_model::source_id::SourceId;

/// Sources that are listed one by one.
const SOURCES_MAX: usize = 4;
/// A part of a record is in the page without the record, and not among the first rows.
const PARTS: u8 = 254;
/// The extents are one range over all sources.
const RANGE: u8 = 255;
/// Rows of a page for each source that is listed: extents are to be a small part of a page.
const ROWS_OF_SOURCE: usize = 8;

/// A source, and a position in it.
type SourcePlace = (SourceId, u64);

/// The sources and positions that the rows of a page may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyExtents(Vec<(SourcePlace, SourcePlace)>);

impl KeyExtents {
    /// Those of the rows of a page; `None` if they are not known.
    pub(crate) fn of(header: &PageHeader) -> Option<KeyExtents> {
        if header.entities <= 2 {
            let point = |key: &RowKey| ((key.source(), key.position()), (key.source(), key.position()));
            return Some(KeyExtents(vec![point(&header.first), point(&header.last)]));
        }
        parse(super::levels::extents(&header.levels)?, header.first.source()).ok().map(KeyExtents)
    }

    /// Whether the counts by minute of a page have the minutes of all its rows.
    pub(crate) fn minutes_are_all(header: &PageHeader) -> bool {
        let has_parts = || super::levels::extents(&header.levels).is_some_and(|of| of.first() == Some(&PARTS));
        header.first.item() == 0 && !has_parts()
    }

    /// Whether a row of each may have the same source and position.
    pub(crate) fn meet(&self, other: &KeyExtents) -> bool {
        self.0
            .iter()
            .any(|(from, to)| other.0.iter().any(|(other_from, other_to)| from <= other_to && other_from <= to))
    }

    /// Whether a row may have the source and the position of `key`.
    pub(crate) fn may_have(&self, key: &RowKey) -> bool {
        let place = (key.source(), key.position());
        self.0.iter().any(|(from, to)| (from..=to).contains(&&place))
    }

    /// The ranges.
    pub(crate) fn ranges(&self) -> &[(SourcePlace, SourcePlace)] {
        &self.0
    }
}

/// Adds the extents of `keys` to counts.
pub(super) fn add(levels: &mut Vec<u8>, keys: &[RowKey]) {
    if levels.is_empty() {
        return;
    }
    let is_part = |two: &[RowKey]| two[1].item() > 0 && two[1].with_item(0) != two[0].with_item(0);
    if keys.windows(2).any(is_part) {
        put_varint(levels, EXTENTS);
        put_varint(levels, 2);
        levels.extend([PARTS, 1]);
        return;
    }
    if keys.len() <= 2 {
        return;
    }
    let mut sources: Vec<(SourceId, u64, u64)> = Vec::new();
    let mut range = ((keys[0].source(), keys[0].position()), (keys[0].source(), keys[0].position()));
    for key in keys {
        let (source, position) = (key.source(), key.position());
        range = (range.0.min((source, position)), range.1.max((source, position)));
        if let Some((_, least, most)) = sources.iter_mut().rev().find(|of| of.0 == source) {
            (*least, *most) = ((*least).min(position), (*most).max(position));
        } else if sources.len() <= SOURCES_MAX {
            // One more than are listed says that there are too many.
            sources.push((source, position, position));
        }
    }
    let mut of = Vec::new();
    let positions = |out: &mut Vec<u8>, least: u64, most: u64| {
        put_varint(out, least);
        put_varint(out, most - least);
    };
    match &*sources {
        [(_, least, most)] => {
            of.push(0);
            positions(&mut of, *least, *most);
        }
        some if some.len() <= SOURCES_MAX && keys.len() >= ROWS_OF_SOURCE * some.len() => {
            of.push(some.len() as u8);
            for (source, least, most) in some {
                of.extend_from_slice(&source.to_bytes());
                positions(&mut of, *least, *most);
            }
        }
        _ if keys.len() >= 2 * ROWS_OF_SOURCE => {
            of.push(RANGE);
            for (source, position) in [range.0, range.1] {
                of.extend_from_slice(&source.to_bytes());
                put_varint(&mut of, position);
            }
        }
        _ => return,
    }
    of.push(1);
    put_varint(levels, EXTENTS);
    put_varint(levels, of.len() as u64);
    levels.append(&mut of);
}

fn parse(bytes: &[u8], first: SourceId) -> Result<Vec<(SourcePlace, SourcePlace)>, PageError> {
    const WRONG: PageError = PageError::Damaged("the positions of its rows cannot be read");
    let mut reader = ByteReader::new(bytes);
    let positions = |reader: &mut ByteReader<'_>, source| {
        let least = reader.varint()?;
        let most = least.checked_add(reader.varint()?).ok_or(WRONG)?;
        Ok(((source, least), (source, most)))
    };
    let source = |reader: &mut ByteReader<'_>| reader.array().map(SourceId::from_bytes);
    Ok(match reader.byte()? {
        0 => vec![positions(&mut reader, first)?],
        RANGE => {
            let from = (source(&mut reader)?, reader.varint()?);
            vec![(from, (source(&mut reader)?, reader.varint()?))]
        }
        count if usize::from(count) <= SOURCES_MAX => {
            let each = (0..count).map(|_| {
                let source = source(&mut reader)?;
                positions(&mut reader, source)
            });
            each.collect::<Result<_, _>>()?
        }
        _ => return Err(WRONG),
    })
}

#[cfg(test)]
mod tests {
    use super::super::{has_streams, level_minutes, levels};
    use super::*;
    use crate::format::page_rows::PageRow;
    use daytable_model::time::Ticks;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn keys(most_sources: u64) -> impl Strategy<Value = Vec<RowKey>> {
        let key = (0i64..100, 0..most_sources, prop_oneof![0u64..50, any::<u64>()], 0u16..2);
        proptest::collection::btree_set(key, 1..60).prop_map(|keys| {
            let key = |(second, source, position, item): (i64, u64, u64, u16)| {
                RowKey::new(Ticks::from_unix(second, 0).expect("in range"), source, position).with_item(item)
            };
            keys.into_iter().map(key).collect::<BTreeSet<_>>().into_iter().collect()
        })
    }

    fn header(keys: &[RowKey], has_streams: bool) -> PageHeader {
        let mut levels = levels::encode(keys.iter().map(|key| (*key, None)));
        add(&mut levels, keys);
        if has_streams {
            levels::add_streams(&mut levels);
        }
        let (first, last) = (keys[0], keys[keys.len() - 1]);
        PageHeader { first, last, entities: keys.len() as u32, levels, ..PageRow::alone(1, 0).header }
    }

    proptest! {
        /// Pages with an equal key meet, a page may have each of its keys, and the counts beside are as they were.
        #[test]
        fn pages_with_an_equal_key_meet(
            keys in (1u64..7).prop_flat_map(keys), others in (1u64..7).prop_flat_map(keys), streams: bool,
        ) {
            let (page, other) = (header(&keys, streams), header(&others, !streams));
            prop_assert_eq!((has_streams(&page.levels), has_streams(&other.levels)), (streams, !streams));
            let counted: u32 = level_minutes(&page.levels).map(|of| of.expect("a count").records).sum();
            prop_assert_eq!(counted as usize, keys.iter().filter(|key| key.item() == 0).count());
            let extents = KeyExtents::of(&page);
            let sources: BTreeSet<SourceId> = keys.iter().map(RowKey::source).collect();
            let has_records = keys.iter().any(|key| key.item() == 0);
            let has_parts = keys.iter().any(|key| key.item() > 0 && !keys.contains(&key.with_item(0)));
            prop_assert!(extents.is_some() || sources.len() > 1 && keys.len() < 40 || !has_records || has_parts);
            prop_assert!(!has_parts || !KeyExtents::minutes_are_all(&page));
            if let (Some(extents), Some(other)) = (extents, KeyExtents::of(&other)) {
                prop_assert!(keys.iter().all(|key| extents.may_have(key)));
                prop_assert_eq!(extents.meet(&other), other.meet(&extents));
                prop_assert!(extents.meet(&other) || !keys.iter().any(|key| others.contains(key)));
            }
        }

        /// Any bytes are extents or none.
        #[test]
        fn any_bytes_are_read_to_an_end(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let header = PageHeader { entities: 9, levels: bytes, ..PageRow::alone(1, 0).header };
            let _ = KeyExtents::of(&header);
        }
    }

    #[test]
    fn pages_of_one_source_meet_where_their_positions_do() {
        let of = |positions: std::ops::Range<u64>, source: u64| {
            let key = |position| RowKey::new(Ticks::from_unix(5, 0).expect("in range"), source, position);
            let mut keys: Vec<RowKey> = positions.map(key).collect();
            keys.sort_unstable();
            KeyExtents::of(&header(&keys, true)).expect("known")
        };
        assert!(of(0..10, 1).meet(&of(9..20, 1)));
        assert!(!of(0..10, 1).meet(&of(10..20, 1)));
        assert!(!of(0..10, 1).meet(&of(0..10, 2)));
        assert!(of(0..2, 1).meet(&of(1..2, 1)), "of keys in the header");
    }
}
