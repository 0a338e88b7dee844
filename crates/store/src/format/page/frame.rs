//! Takes the sections of a body apart, checks them and decompresses their texts.

use super::bits::{ByteReader, PADDING};
use super::section_cursor::SectionRanges;
use super::sections::{APART_MAX, is_near};
use super::{CODEC_STORED, CODEC_ZSTD, PageError, PageHeader, RAW_BYTES_MAX, ROW_BYTES};
use std::borrow::Cow;
use std::cell::RefCell;
use xxhash_rust::xxh3::xxh3_64;

/// A section of its own, as the front knows it.
#[derive(Clone, Copy, Debug)]
struct ApartSection {
    length: usize,
    checksum: u64,
}

/// The sections beside a front, in their order, at the beginning of the front.
fn read_directory(reader: &mut ByteReader<'_>) -> Result<Vec<ApartSection>, PageError> {
    let count = reader.count(APART_MAX)?;
    let mut directory = Vec::with_capacity(count);
    for _ in 0..count {
        let length = reader.count(RAW_BYTES_MAX)?;
        directory.push(ApartSection { length, checksum: u64::from_le_bytes(reader.array()?) });
    }
    Ok(directory)
}

/// A body, taken apart.
pub(super) struct SplitBody<'a> {
    pub(super) front: &'a [u8],
    /// The sections beside the front, in their order, with the checksums that the front has.
    pub(super) apart: Vec<(u64, &'a [u8])>,
}

/// Takes a body apart. Any bytes have a front.
pub(super) fn split(body: &[u8]) -> SplitBody<'_> {
    let whole = SplitBody { front: body, apart: Vec::new() };
    let Ok(directory) = read_directory(&mut ByteReader::new(body)) else { return whole };
    let Some((front, mut rest)) = split_end(body, &directory, |_| true) else { return whole };
    let mut apart: Vec<(u64, &[u8])> = directory.iter().map(|section| (section.checksum, &body[..0])).collect();
    for takes_near in [true, false] {
        for ((_, bytes), section) in apart.iter_mut().zip(&directory) {
            if is_near(section.length) == takes_near {
                (*bytes, rest) = rest.split_at(section.length);
            }
        }
    }
    SplitBody { front, apart }
}

/// Takes some of the sections of a directory off the end of bytes.
fn split_end<'b>(
    bytes: &'b [u8],
    directory: &[ApartSection],
    is_taken: impl Fn(usize) -> bool,
) -> Option<(&'b [u8], &'b [u8])> {
    let lengths = directory.iter().map(|section| section.length).filter(|length| is_taken(*length));
    let length = lengths.fold(0usize, usize::saturating_add);
    bytes.len().checked_sub(length).and_then(|front| bytes.split_at_checked(front))
}

/// The row of a front, taken apart.
pub(super) struct SplitRow<'a> {
    pub(super) front: &'a [u8],
    /// For each section beside the front its bytes, if it is in the row.
    pub(super) near: Vec<Option<&'a [u8]>>,
}

/// Takes the row of a front apart. Any bytes have a front.
pub(super) fn split_row(row: &[u8]) -> SplitRow<'_> {
    let whole = SplitRow { front: row, near: Vec::new() };
    let Ok(directory) = read_directory(&mut ByteReader::new(row)) else { return whole };
    let Some((front, mut rest)) = split_end(row, &directory, is_near) else { return whole };
    let mut take = |length: usize| {
        let (section, behind) = rest.split_at(length);
        rest = behind;
        section
    };
    let near = directory.iter().map(|section| is_near(section.length).then(|| take(section.length))).collect();
    SplitRow { front, near }
}

/// Fails if a byte of the body is another one than when its header was made.
pub(super) fn check(header: &PageHeader, body: &[u8], expected: u64) -> Result<(), PageError> {
    let SplitBody { front, apart } = split(body);
    check_front(header, front, expected)?;
    apart.iter().try_for_each(|(expected, section)| compare(*expected, xxh3_64(section)))
}

/// The same of the front alone.
pub(super) fn check_front(header: &PageHeader, front: &[u8], expected: u64) -> Result<(), PageError> {
    compare(expected, header.checksum_of_front(front))
}

fn compare(expected: u64, found: u64) -> Result<(), PageError> {
    if found == expected { Ok(()) } else { Err(PageError::Checksum { expected, found }) }
}

/// The parts of sections before columns are read.
#[derive(Clone, Copy, Debug)]
pub struct PageSections<'p> {
    pub(super) packed: &'p [u8],
    pub(super) strings: &'p [u8],
    pub(super) meta: &'p [u8],
}

/// The sections of a page, of which some may not be read yet.
pub(super) struct PageFrame<'a> {
    pub(super) rows: usize,
    pub(super) raw_bytes: usize,
    /// The packed and the wide bytes of each section that was read, and [`PADDING`].
    pub(super) packed: Vec<u8>,
    pub(super) strings: Vec<u8>,
    pub(super) meta: Cow<'a, [u8]>,
    pub(super) front: SectionRanges,
    /// The sections beside it; `None` for one that was not read.
    pub(super) apart: Vec<Option<SectionRanges>>,
    directory: Vec<ApartSection>,
}

impl<'a> PageFrame<'a> {
    /// All sections of a body, whose checksums are right.
    pub(super) fn open(header: &PageHeader, body: &'a [u8]) -> Result<PageFrame<'a>, PageError> {
        let SplitBody { front, apart } = split(body);
        let mut frame = PageFrame::open_front(header, front)?;
        frame.packed.reserve(apart.iter().map(|(_, section)| section.len()).sum());
        for (number, (_, section)) in apart.iter().enumerate() {
            frame.add(number, section)?;
        }
        Ok(frame)
    }

    /// The sections of a front.
    pub(super) fn open_front(header: &PageHeader, front: &'a [u8]) -> Result<PageFrame<'a>, PageError> {
        let damaged = |what| Err(PageError::Damaged(what));
        let (Ok(rows), Ok(raw_bytes)) = (usize::try_from(header.entities), usize::try_from(header.raw_bytes)) else {
            return damaged("it is larger than memory can be");
        };
        if rows == 0 || raw_bytes > RAW_BYTES_MAX || rows > raw_bytes / ROW_BYTES {
            return damaged("it claims a size that no page has");
        }
        let mut reader = ByteReader::new(front);
        let directory = read_directory(&mut reader)?;
        let mut frame = PageFrame {
            rows,
            raw_bytes,
            packed: Vec::new(),
            strings: Vec::new(),
            meta: Cow::Borrowed(&[]),
            front: SectionRanges { packed: 0..0, wide: 0..0, strings: 0..0, meta: 0..0 },
            apart: vec![None; directory.len()],
            directory,
        };
        let SectionParts { packed, wide, frame: text, strings } = frame.parts(header.codec, reader)?;
        frame.front = frame.append((packed, wide), text, strings);
        Ok(frame)
    }

    /// Adds a section, if its bytes are those that the front knows.
    pub(super) fn read_apart(&mut self, number: usize, bytes: &[u8]) -> Result<(), PageError> {
        let known = self.directory.get(number).filter(|known| known.length == bytes.len());
        let known = known.ok_or(PageError::Damaged("a section has another length"))?;
        compare(known.checksum, xxh3_64(bytes))?;
        self.add(number, bytes)
    }

    fn add(&mut self, number: usize, bytes: &[u8]) -> Result<(), PageError> {
        let mut reader = ByteReader::new(bytes);
        let codec = reader.byte()?;
        let SectionParts { packed, wide, frame, strings } = self.parts(codec, reader)?;
        let ranges = self.append((packed, wide), Cow::Owned(frame.into_owned()), strings);
        if let Some(section) = self.apart.get_mut(number) {
            *section = Some(ranges);
        }
        Ok(())
    }

    /// The parts of a section.
    fn parts<'b>(&self, codec: u8, mut reader: ByteReader<'b>) -> Result<SectionParts<'b>, PageError> {
        let [packed, wide, strings, meta] = [
            reader.count(RAW_BYTES_MAX)?,
            reader.count(RAW_BYTES_MAX)?,
            reader.count(RAW_BYTES_MAX)?,
            reader.count(RAW_BYTES_MAX)?,
        ];
        let text = strings.saturating_add(meta);
        if text > self.raw_bytes.saturating_sub(self.strings.len() + self.meta.len()) {
            return Err(PageError::Damaged("it claims more text than it has"));
        }
        let (packed, wide) = (reader.take(packed)?, reader.take(wide)?);
        Ok(SectionParts { packed, wide, frame: decompress(codec, reader.rest(), text)?, strings })
    }

    /// Adds the parts of a section to those of the others, and returns where they are. `frame` has its strings, of this
    /// length, and its meta.
    fn append(&mut self, (packed, wide): (&[u8], &[u8]), frame: Cow<'a, [u8]>, strings: usize) -> SectionRanges {
        let numbers = self.packed.len().saturating_sub(PADDING);
        self.packed.truncate(numbers);
        self.packed.reserve(packed.len() + wide.len() + PADDING);
        self.packed.extend_from_slice(packed);
        self.packed.extend_from_slice(wide);
        self.packed.resize(self.packed.len() + PADDING, 0);
        let (text, meta) = (self.strings.len(), self.meta.len());
        let frame_meta = frame.len() - strings;
        match (frame, meta) {
            (Cow::Owned(mut frame), 0) if text == 0 => {
                self.meta = Cow::Owned(frame.split_off(strings));
                self.strings = frame;
            }
            (Cow::Borrowed(frame), 0) => {
                self.strings.extend_from_slice(&frame[..strings]);
                self.meta = Cow::Borrowed(&frame[strings..]);
            }
            (frame, _) => {
                self.strings.extend_from_slice(&frame[..strings]);
                self.meta.to_mut().extend_from_slice(&frame[strings..]);
            }
        }
        let packed_end = numbers + packed.len();
        SectionRanges {
            packed: numbers..packed_end,
            wide: packed_end..packed_end + wide.len(),
            strings: text..text + strings,
            meta: meta..meta + frame_meta,
        }
    }

    /// What the sections that were read have.
    pub(super) fn sections(&self) -> PageSections<'_> {
        PageSections { packed: &self.packed, strings: &self.strings, meta: &self.meta }
    }
}

/// The parts of a section.
struct SectionParts<'b> {
    packed: &'b [u8],
    wide: &'b [u8],
    /// The strings, as many bytes as `strings` says, and the meta.
    frame: Cow<'b, [u8]>,
    strings: usize,
}

/// Decompresses a frame of zstd to exactly `length` bytes, which the caller has bounded.
pub(crate) fn unpack(frame: &[u8], length: usize) -> Result<Cow<'_, [u8]>, PageError> {
    decompress(CODEC_ZSTD, frame, length)
}

/// Decompresses a frame to exactly `length` bytes, which the caller has bounded.
fn decompress(codec: u8, frame: &[u8], length: usize) -> Result<Cow<'_, [u8]>, PageError> {
    thread_local! {
        static DECOMPRESSOR: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
    }
    let damaged = |_| PageError::Damaged("its text cannot be decompressed");
    let bytes = match codec {
        CODEC_STORED => Cow::Borrowed(frame),
        CODEC_ZSTD => DECOMPRESSOR.with_borrow_mut(|kept| {
            if kept.is_none() {
                *kept = Some(zstd::bulk::Decompressor::new().map_err(damaged)?);
            }
            let decompressor = kept.as_mut().ok_or(PageError::Damaged("there is no memory to decompress it"))?;
            decompressor.decompress(frame, length).map(Cow::Owned).map_err(damaged)
        })?,
        _ => return Err(PageError::Codec(codec)),
    };
    if bytes.len() == length { Ok(bytes) } else { Err(PageError::Damaged("its text has another length")) }
}
