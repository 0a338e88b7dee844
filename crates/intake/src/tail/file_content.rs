//! The bytes of a file by offset, plain or compressed.
//!
//! A plain file is read at the offset. A compressed file is decoded from its start, and offsets are those of the
//! decoded bytes. Reading forward is cheap. Reading before the last read decodes from the start again.

use super::from_start::FromStart;
use super::gzip::Gzip;
use super::identity::{Fit, HEAD_BYTES_MAX, MARK_BYTES_MAX};
use daytable_model::source_id::SourceStart;
use daytable_model::time::Ticks;
use daytable_store::{Mark, SourceState};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use xxhash_rust::xxh3::xxh3_64;

/// The metadata of a file. While it is equal, the file need not be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FileStat {
    pub(super) device: u64,
    pub(super) inode: u64,
    /// Bytes on disk.
    pub(super) size: u64,
    /// Seconds since the Unix epoch and nanoseconds.
    pub(super) modified: (i64, i64),
    /// Number of names.
    pub(super) links: u64,
    /// When the file was made, [`SourceStart::NONE`] where its file system does not say.
    pub(super) born: SourceStart,
}

impl FileStat {
    /// The stat of the file to which a path leads, through symbolic links; none if that is not a regular file.
    pub(super) fn at(path: &Path) -> io::Result<Option<FileStat>> {
        Ok(FileStat::of(&std::fs::metadata(path)?))
    }

    fn of(metadata: &Metadata) -> Option<FileStat> {
        metadata.is_file().then(|| FileStat {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            links: metadata.nlink(),
            born: metadata.created().map_or(SourceStart::NONE, |born| SourceStart::at(Ticks::from(born))),
        })
    }

    /// Whether both are of one file with the same size and time: then its content need not be read. The number of names may
    /// be another one.
    pub(super) fn is_same_content(&self, other: &FileStat) -> bool {
        *self == FileStat { links: self.links, ..*other }
    }

    /// Whether the file has the device and inode of a source.
    pub(super) fn is_file_of(&self, state: &SourceState) -> bool {
        (self.device, self.inode) == (state.device, state.inode)
    }

    /// Whether both are of one file.
    pub(super) fn is_same_file(&self, other: &FileStat) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

/// A larger window than this is refused: 2^27 = 128 MiB, which `zstd --long` makes.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;

/// An open file.
pub(super) enum FileContent {
    /// A plain file.
    Plain(File),
    /// A compressed file.
    Compressed(Box<CompressedFile>),
}

/// A compressed file and its decoder.
pub(super) struct CompressedFile {
    file: File,
    decoder: Option<Box<dyn Read + Send>>,
    /// The bytes of the last read, and decoded bytes after them.
    window: Vec<u8>,
    /// Offset of the first byte in `window`.
    start: u64,
    /// Bytes of the file that were decoded.
    encoded: Arc<AtomicU64>,
    /// Bytes after the compressed content that cannot be decoded.
    garbage: Arc<AtomicU64>,
    /// Whether the file ended before its content did, when it was last read.
    is_cut: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compression {
    Gzip,
    Zstd,
}

impl FileContent {
    /// Opens a regular file.
    pub(super) fn open(path: &Path) -> io::Result<(FileContent, FileStat)> {
        FileContent::of(open_file(path)?)
    }

    /// The content of an open regular file. Its first bytes tell whether it is compressed. An empty file is not read: those
    /// of the kernel give bytes for all that, and some only once.
    pub(super) fn of(file: File) -> io::Result<(FileContent, FileStat)> {
        let stat = FileStat::of(&file.metadata()?).ok_or_else(not_regular)?;
        let is_compressed = stat.size > 0 && compression(&file)?.is_some();
        let content = if is_compressed { FileContent::compressed(file) } else { FileContent::Plain(file) };
        Ok((content, stat))
    }

    fn compressed(file: File) -> FileContent {
        FileContent::Compressed(Box::new(CompressedFile {
            file,
            decoder: None,
            window: Vec::new(),
            start: 0,
            encoded: Arc::default(),
            garbage: Arc::default(),
            is_cut: false,
        }))
    }

    /// Whether the file is compressed.
    pub(super) fn is_compressed(&self) -> bool {
        matches!(self, FileContent::Compressed(_))
    }

    /// Whether the file ended before its content did, when it was last read: it is still being compressed, or it was
    /// cut off. Its last line may be incomplete.
    pub(super) fn is_cut(&self) -> bool {
        matches!(self, FileContent::Compressed(stream) if stream.is_cut)
    }

    /// Bytes after the compressed content, once that was read to its end.
    pub(super) fn garbage_bytes(&self) -> u64 {
        match self {
            FileContent::Plain(_) => 0,
            FileContent::Compressed(stream) => stream.garbage.load(Ordering::Relaxed),
        }
    }

    /// Bytes on disk that were read for the content before `position`, approximately.
    pub(super) fn bytes_before(&self, position: u64) -> u64 {
        match self {
            FileContent::Plain(_) => position,
            FileContent::Compressed(stream) => stream.encoded.load(Ordering::Relaxed),
        }
    }

    /// The stat of the open file, whatever is at its path.
    pub(super) fn stat(&self) -> io::Result<FileStat> {
        let file = match self {
            FileContent::Plain(file) => file,
            FileContent::Compressed(stream) => &stream.file,
        };
        FileStat::of(&file.metadata()?).ok_or_else(not_regular)
    }

    /// Reads at `offset` until `buffer` is full or the file ends.
    pub(super) fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let file = match self {
            FileContent::Plain(file) => file,
            FileContent::Compressed(stream) => return stream.read_at(offset, buffer),
        };
        let mut filled = 0;
        while filled < buffer.len() {
            match file.read_at(&mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    /// An offset from `offset` on before which the file has zeros only. The file system knows where nothing was written.
    pub(super) fn next_data(&self, offset: u64) -> u64 {
        let FileContent::Plain(file) = self else { return offset };
        match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(offset)) {
            Ok(data) => data.max(offset),
            // Only a hole is left, up to the end.
            Err(rustix::io::Errno::NXIO) => file.metadata().map_or(offset, |metadata| metadata.len().max(offset)),
            Err(_) => offset,
        }
    }

    /// The first bytes, at most as many as a head has.
    ///
    /// The file may have been empty when it was opened. So this read also tells whether it is compressed.
    pub(super) fn beginning(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; HEAD_BYTES_MAX];
        let mut n = self.read_at(0, &mut bytes)?;
        if let FileContent::Plain(file) = self
            && compression_of(&bytes[..n])?.is_some()
        {
            *self = FileContent::compressed(file.try_clone()?);
            n = self.read_at(0, &mut bytes)?;
        }
        bytes.truncate(n);
        Ok(bytes)
    }

    /// How the bytes fit a head and marks, which are in the order of their positions.
    pub(super) fn fits(&mut self, head: Mark, marks: &[Mark]) -> io::Result<(Fit, Vec<Fit>)> {
        let head = self.fit(head)?;
        if head != Fit::Equal {
            return Ok((head, vec![head; marks.len()]));
        }
        let fits = marks.iter().map(|mark| self.fit(*mark)).collect::<io::Result<_>>()?;
        Ok((head, fits))
    }

    fn fit(&mut self, mark: Mark) -> io::Result<Fit> {
        let mut bytes = [0; MARK_BYTES_MAX];
        let length = mark.length as usize;
        let (Some(start), Some(bytes)) = (mark.position.checked_sub(u64::from(mark.length)), bytes.get_mut(..length))
        else {
            return Ok(Fit::Different);
        };
        if self.read_at(start, bytes)? < length {
            return Ok(Fit::Beyond);
        }
        Ok(if xxh3_64(bytes) == mark.hash { Fit::Equal } else { Fit::Different })
    }
}

/// Opens a file to read. A pipe without a writer does not block the thread.
pub(super) fn open_file(path: &Path) -> io::Result<File> {
    let not_blocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
    OpenOptions::new().read(true).custom_flags(not_blocking).open(path)
}

fn not_regular() -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, "it is not a regular file")
}

/// The first bytes of compressed files. A `?` matches any byte.
const MAGICS: [(&[u8], Result<Compression, &str>); 6] = [
    (b"\x1f\x8b", Ok(Compression::Gzip)),
    (b"\x28\xb5\x2f\xfd", Ok(Compression::Zstd)),
    (b"\xfd7zXZ\0", Err("xz")),
    (b"BZh?1AY&SY", Err("bzip2")),
    (b"\x04\x22\x4d\x18", Err("lz4")),
    (b"\x1f\x9d", Err("compress")),
];
/// The length of the longest.
const MAGIC_BYTES: usize = 10;

/// Whether a magic and the first bytes agree, up to the length of the shorter.
fn agree(magic: &[u8], bytes: &[u8]) -> bool {
    magic.iter().zip(bytes).all(|(magic, byte)| magic == byte || *magic == b'?')
}

fn compression(file: &File) -> io::Result<Option<Compression>> {
    let mut magic = [0; MAGIC_BYTES];
    let n = file.read_at(&mut magic, 0)?;
    compression_of(&magic[..n])
}

/// The compression of a file that begins with `bytes`. Fails if the compression is not supported.
fn compression_of(bytes: &[u8]) -> io::Result<Option<Compression>> {
    match MAGICS.iter().find(|(magic, _)| bytes.len() >= magic.len() && agree(magic, bytes)) {
        None => Ok(None),
        Some((_, Ok(compression))) => Ok(Some(*compression)),
        Some((_, Err(other))) => Err(io::Error::new(
            ErrorKind::Unsupported,
            format!(
                "it is compressed by {other}, and only gzip and zstd are read: decompress it and `daytable import` it"
            ),
        )),
    }
}

/// Whether a file that begins with `bytes` is UTF-16, whose lines cannot be read.
pub(super) fn is_utf16(bytes: &[u8]) -> bool {
    matches!(bytes, [0xff, 0xfe, ..] | [0xfe, 0xff, ..])
}

/// Whether a file with only these `bytes`, and the name of a compressed file, may become a compressed file.
pub(super) fn may_become_compressed(path: &Path, bytes: &[u8]) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    let is_named = matches!(extension, Some("gz" | "zst" | "xz" | "bz2" | "lz4" | "Z"));
    is_named && MAGICS.iter().any(|(magic, _)| bytes.len() < magic.len() && agree(magic, bytes))
}

impl CompressedFile {
    fn restart(&mut self) -> io::Result<()> {
        self.encoded = Arc::default();
        self.garbage = Arc::default();
        self.decoder = Some(match compression(&self.file)? {
            Some(Compression::Zstd) => {
                let encoded = FromStart { file: self.file.try_clone()?, at: self.encoded.clone() };
                let encoded = io::BufReader::with_capacity(64 << 10, encoded);
                let mut decoder = zstd::stream::read::Decoder::with_buffer(encoded)?;
                decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
                Box::new(decoder)
            }
            _ => Box::new(Gzip::new(self.file.try_clone()?, self.encoded.clone(), self.garbage.clone())?),
        });
        self.window.clear();
        self.start = 0;
        Ok(())
    }

    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        if self.decoder.is_none() || offset < self.start {
            self.restart()?;
        }
        // The window may begin before the offset, or end before it.
        let before = usize::try_from(offset - self.start).unwrap_or(usize::MAX).min(self.window.len());
        self.window.drain(..before);
        self.start += before as u64;
        while self.start < offset {
            let wanted = usize::try_from(offset - self.start).unwrap_or(usize::MAX).min(buffer.len().max(4096));
            let n = self.decode(wanted)?;
            self.window.clear();
            self.start += n as u64;
            if n == 0 {
                return Ok(0);
            }
        }
        while self.window.len() < buffer.len() {
            match self.decode(buffer.len() - self.window.len()) {
                Ok(0) => break,
                Ok(_) => {}
                // A file that is still being compressed: the bytes so far come first.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof && !self.window.is_empty() => break,
                Err(error) => return Err(error),
            }
        }
        let n = self.window.len().min(buffer.len());
        buffer[..n].copy_from_slice(&self.window[..n]);
        Ok(n)
    }

    /// Decodes up to `wanted` more bytes to the window.
    fn decode(&mut self, wanted: usize) -> io::Result<usize> {
        let Some(decoder) = &mut self.decoder else { return Ok(0) };
        let filled = self.window.len();
        self.window.resize(filled + wanted, 0);
        let result = loop {
            match decoder.read(&mut self.window[filled..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        self.window.truncate(filled + result.as_ref().map_or(0, |n| *n));
        self.is_cut = matches!(&result, Err(error) if error.kind() == ErrorKind::UnexpectedEof);
        if result.is_err() {
            // The decoder is unusable now. The next read begins at the start.
            self.decoder = None;
        }
        result
    }
}

/// Whether nothing can be opened for now, in this process or on this machine.
pub(super) fn is_out_of_descriptors(error: &io::Error) -> bool {
    let code = error.raw_os_error().map(rustix::io::Errno::from_raw_os_error);
    matches!(code, Some(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tail::identity::mark_at;
    use std::io::Write;

    fn text() -> Vec<u8> {
        (0..100_000).flat_map(|n| format!("line {n}\n").into_bytes()).collect()
    }

    pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).expect("memory");
        encoder.finish().expect("memory")
    }

    #[test]
    fn a_compressed_file_reads_like_the_plain_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let text = text();
        let (first, second) = text.split_at(text.len() / 3);
        for (name, bytes) in [
            ("plain", text.clone()),
            ("gz", gzip(&text)),
            ("members.gz", [gzip(first), gzip(second)].concat()),
            ("zst", zstd::encode_all(&text[..], 1).expect("memory")),
        ] {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).expect("written");
            let (mut content, _) = FileContent::open(&path).expect("opened");
            assert_eq!(content.is_compressed(), name != "plain");
            for (offset, length) in
                [(0, 10), (5, 1000), (500_000, 70_000), (499_000, 5000), (text.len() - 3, 10), (1, 1)]
            {
                let mut buffer = vec![0; length];
                let n = content.read_at(offset as u64, &mut buffer).expect("read");
                let end = (offset + length).min(text.len());
                assert_eq!(&buffer[..n], &text[offset..end], "{name} at {offset}");
            }
            assert_eq!(content.read_at(text.len() as u64 + 9, &mut [0; 4]).expect("read"), 0, "{name}");
            let marks = [mark_at(9000, &text[..9000]), mark_at(800_000, &text[..800_000])];
            let (head, fits) = content.fits(mark_at(7, &text[..7]), &marks).expect("read");
            assert_eq!((head, fits), (Fit::Equal, vec![Fit::Equal; 2]), "{name}");
        }
    }

    #[test]
    fn a_file_that_is_still_being_compressed_is_read_up_to_its_end_and_then_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("gz");
        let whole = gzip(&text());
        std::fs::write(&path, &whole[..whole.len() / 2]).expect("written");
        let (mut content, _) = FileContent::open(&path).expect("opened");
        let mut buffer = vec![0; text().len()];
        let n = content.read_at(0, &mut buffer).expect("some of it");
        assert!(n > 0 && n < buffer.len());
        assert!(content.is_cut());
        let error = content.read_at(n as u64, &mut buffer).expect_err("no more of it");
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_file_that_was_empty_when_opened_may_be_compressed() {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, whole) in [("gz", gzip(&text())), ("zst", zstd::encode_all(&text()[..], 1).expect("memory"))] {
            // Only the bytes that exist when it is opened.
            for begun in 0..6 {
                let path = folder.path().join(format!("{begun}.{name}"));
                std::fs::write(&path, &whole[..begun]).expect("written");
                let (mut content, _) = FileContent::open(&path).expect("opened");
                std::fs::write(&path, &whole).expect("written");
                let beginning = content.beginning().expect("read");
                assert!(content.is_compressed(), "{name} with {begun} bytes");
                assert_eq!(beginning, text()[..HEAD_BYTES_MAX], "{name} with {begun} bytes");
            }
        }
    }

    #[test]
    fn bytes_after_a_gzip_stream() {
        let folder = tempfile::tempdir().expect("a folder");
        let text = text();
        let garbage = [&[0; 700][..], b"garbage"].concat();
        for (name, behind, unread) in [
            ("nothing", &[][..], 0),
            ("zeros", &[0; 100_000][..], 0),
            ("one zero", &[0], 0),
            ("garbage", b"garbage behind it", 17),
            ("zeros and garbage", &garbage, 7),
        ] {
            let path = folder.path().join(name);
            std::fs::write(&path, [&gzip(&text)[..], behind].concat()).expect("written");
            let (mut content, _) = FileContent::open(&path).expect("opened");
            let mut buffer = vec![0; text.len() + 10];
            let n = content.read_at(0, &mut buffer).expect(name);
            assert_eq!(&buffer[..n], &text[..], "{name}");
            assert_eq!(content.read_at(text.len() as u64, &mut buffer).expect(name), 0, "{name}");
            assert!(!content.is_cut(), "{name}");
            assert_eq!(content.garbage_bytes(), unread, "{name}");
        }
        let path = folder.path().join("members");
        std::fs::write(&path, [gzip(b"one\n"), vec![0; 70_000], gzip(b"two\n")].concat()).expect("written");
        let (mut content, _) = FileContent::open(&path).expect("opened");
        let mut buffer = [0; 10];
        let n = content.read_at(0, &mut buffer).expect("read");
        assert_eq!(&buffer[..n], b"one\ntwo\n");
        for begun in 1..3 {
            std::fs::write(&path, [&gzip(b"one\n")[..], &gzip(b"two\n")[..begun]].concat()).expect("written");
            let (mut content, _) = FileContent::open(&path).expect("opened");
            let n = content.read_at(0, &mut buffer).expect("read");
            assert_eq!((&buffer[..n], content.is_cut()), (&b"one\n"[..], true), "{begun}");
        }
    }

    #[test]
    fn other_compressions_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, begin) in [
            ("bzip2", &b"BZh91AY&SY\x01\x02"[..]),
            ("xz", b"\xfd7zXZ\0\0\x04"),
            ("lz4", b"\x04\x22\x4d\x18\x64"),
            ("compress", b"\x1f\x9d\x90\n"),
        ] {
            let path = folder.path().join(name);
            std::fs::write(&path, begin).expect("written");
            let error = FileContent::open(&path).err().expect(name);
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{name}");
            assert!(error.to_string().contains(name), "{error}");
        }
        let path = folder.path().join("text");
        std::fs::write(&path, "BZh is how bzip2 begins\n").expect("written");
        assert!(FileContent::open(&path).is_ok());
    }
}
