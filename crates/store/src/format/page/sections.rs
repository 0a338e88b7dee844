//! The sections of a page while it is built: that of its front, and those of columns that have one of their own.

use super::bits::put_varint;
use super::words::WordGatherer;
use super::{CODEC_STORED, CODEC_ZSTD};
use xxhash_rust::xxh3::xxh3_64;

/// Text of fewer bytes is stored uncompressed: zstd would gain little, and cost more than everything else.
const FRAME_COMPRESSED_MIN: usize = 512;
/// A column with as many bytes of text has a section of its own: to decompress them is most of what a question for other columns
/// would cost. A frame of less would cost more than it saves, and whoever reads whole pages pays for each.
const OWN_TEXT_MIN: usize = 4 << 10;
/// So has a column with as many bytes, if they are not text: a question for other columns does not read them, because such a section
/// is a row of its own. A smaller section is behind the front, since a row leaves some hundred bytes of SQLite's pages unused.
const ROW_BYTES_MIN: usize = 8 << 10;
/// Sections that a page has beside its front at most.
pub(crate) const APART_MAX: usize = 1024;

/// Whether a section of its own, of this many bytes, is behind the front, in its row.
pub(super) fn is_near(length: usize) -> bool {
    length < ROW_BYTES_MIN
}

/// The sections of a page while it is built.
#[derive(Default)]
pub(super) struct Sections {
    /// Numbers at their exact width: compression gains nothing on them.
    pub(super) packed: Vec<u8>,
    /// Random bytes: compression gains nothing on them either.
    pub(super) wide: Vec<u8>,
    /// Names, dictionaries and texts, one after the other.
    pub(super) strings: Vec<u8>,
    /// The layout of the columns, and everything that is neither number nor text.
    pub(super) meta: Vec<u8>,
    /// The words of the texts that are written.
    pub(super) words: WordGatherer,
    /// Sections of columns, one after the other.
    apart: Vec<u8>,
    /// The length and the checksum of each.
    directory: Vec<(usize, u64)>,
    /// Bytes of their strings and meta.
    apart_text: usize,
    frames: FrameCompressor,
}

/// Where sections ended.
pub(super) struct SectionsMark {
    packed: usize,
    wide: usize,
    strings: usize,
    meta: usize,
}

/// Columns as a page has them.
pub(super) struct CopiedColumns<'a> {
    pub(super) packed: &'a [u8],
    pub(super) wide: &'a [u8],
    pub(super) strings: &'a [u8],
    pub(super) meta: &'a [u8],
    /// Their sections that are apart, each with its checksum.
    pub(super) apart: &'a [(u64, &'a [u8])],
    /// Bytes of the strings and the meta of these.
    pub(super) apart_text: usize,
}

/// The body of a page, and what its header says of it.
pub(super) struct ClosedBody {
    pub(super) body: Vec<u8>,
    /// The length of its front.
    pub(super) front: usize,
    /// The codec of its front.
    pub(super) codec: u8,
    /// Bytes of all strings and meta.
    pub(super) text_bytes: usize,
}

impl Sections {
    /// Begins a page.
    pub(super) fn clear(&mut self) {
        let start = SectionsMark { packed: 0, wide: 0, strings: 0, meta: 0 };
        self.truncate(&start);
        self.apart.clear();
        self.directory.clear();
        self.apart_text = 0;
    }

    /// Where the sections end now.
    pub(super) fn mark(&self) -> SectionsMark {
        let (packed, wide) = (self.packed.len(), self.wide.len());
        SectionsMark { packed, wide, strings: self.strings.len(), meta: self.meta.len() }
    }

    fn truncate(&mut self, to: &SectionsMark) {
        self.packed.truncate(to.packed);
        self.wide.truncate(to.wide);
        self.strings.truncate(to.strings);
        self.meta.truncate(to.meta);
    }

    /// Makes a section of its own of what was written since `from`, if that is worthwhile. Returns whether it did.
    pub(super) fn close_apart(&mut self, from: &SectionsMark) -> bool {
        let numbers = self.packed.len() - from.packed + self.wide.len() - from.wide;
        let (strings, meta) = (self.strings.len() - from.strings, self.meta.len() - from.meta);
        let has_text = strings + meta >= OWN_TEXT_MIN;
        if !has_text && numbers + strings + meta < ROW_BYTES_MIN || self.directory.len() == APART_MAX {
            return false;
        }
        self.strings.extend_from_slice(&self.meta[from.meta..]);
        let text = &self.strings[from.strings..];
        let codec = self.frames.compress(text);
        let frame = if codec == CODEC_ZSTD { &self.frames.frame } else { text };
        let is_apart = has_text || numbers + frame.len() >= ROW_BYTES_MIN;
        if is_apart {
            let (packed, wide) = (&self.packed[from.packed..], &self.wide[from.wide..]);
            let start = self.apart.len();
            self.apart.push(codec);
            put_section(&mut self.apart, (packed, wide), (strings, meta), frame);
            let section = &self.apart[start..];
            self.directory.push((section.len(), xxh3_64(section)));
            self.apart_text += strings + meta;
            self.truncate(from);
        } else {
            self.strings.truncate(from.strings + strings);
        }
        is_apart
    }

    /// Adds columns of another page as they are stored there, with their sections that are apart and the checksums of these. False,
    /// and nothing is added, if these are too many.
    pub(super) fn copy(&mut self, columns: &CopiedColumns<'_>) -> bool {
        if self.directory.len() + columns.apart.len() > APART_MAX {
            return false;
        }
        self.packed.extend_from_slice(columns.packed);
        self.wide.extend_from_slice(columns.wide);
        self.strings.extend_from_slice(columns.strings);
        self.meta.extend_from_slice(columns.meta);
        for (checksum, section) in columns.apart {
            self.apart.extend_from_slice(section);
            self.directory.push((section.len(), *checksum));
        }
        self.apart_text += columns.apart_text;
        true
    }

    /// Makes the body of what was written since [`Sections::clear`].
    pub(super) fn close(&mut self) -> ClosedBody {
        let (strings, meta) = (self.strings.len(), self.meta.len());
        self.strings.append(&mut self.meta);
        let codec = self.frames.compress(&self.strings);
        let frame = if codec == CODEC_ZSTD { &self.frames.frame } else { &self.strings };
        let known = self.packed.len() + self.wide.len() + frame.len() + self.apart.len();
        let mut body = Vec::with_capacity(known + 24 + 12 * self.directory.len());
        put_varint(&mut body, self.directory.len() as u64);
        for (length, checksum) in &self.directory {
            put_varint(&mut body, *length as u64);
            body.extend_from_slice(&checksum.to_le_bytes());
        }
        put_section(&mut body, (&self.packed, &self.wide), (strings, meta), frame);
        let front = body.len();
        for puts_near in [true, false] {
            let mut start = 0;
            for (length, _) in &self.directory {
                if is_near(*length) == puts_near {
                    body.extend_from_slice(&self.apart[start..start + length]);
                }
                start += length;
            }
        }
        ClosedBody { body, front, codec, text_bytes: strings + meta + self.apart_text }
    }
}

/// Writes a section. `frame` has its strings and its meta, of these lengths.
fn put_section(out: &mut Vec<u8>, (packed, wide): (&[u8], &[u8]), (strings, meta): (usize, usize), frame: &[u8]) {
    for length in [packed.len(), wide.len(), strings, meta] {
        put_varint(out, length as u64);
    }
    out.extend_from_slice(packed);
    out.extend_from_slice(wide);
    out.extend_from_slice(frame);
}

/// Compresses frames. Creating a context costs more than using it.
#[derive(Default)]
struct FrameCompressor {
    compressor: Option<zstd::bulk::Compressor<'static>>,
    frame: Vec<u8>,
}

impl FrameCompressor {
    /// Compresses a text into `frame` if that saves space. Returns the codec.
    fn compress(&mut self, text: &[u8]) -> u8 {
        if text.len() < FRAME_COMPRESSED_MIN {
            return CODEC_STORED;
        }
        if self.compressor.is_none() {
            self.compressor = zstd::bulk::Compressor::new(1).ok();
        }
        // Without memory for a context or the output, the text is stored uncompressed.
        let Some(compressor) = &mut self.compressor else { return CODEC_STORED };
        self.frame.clear();
        self.frame.reserve(zstd::zstd_safe::compress_bound(text.len()));
        match compressor.compress_to_buffer(text, &mut self.frame) {
            Ok(length) if length < text.len() => CODEC_ZSTD,
            _ => CODEC_STORED,
        }
    }
}
