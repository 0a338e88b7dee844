//! The content encodings of bodies: plain, or compressed in one of four ways.
//!
//! The output is limited while it is decoded, so a decompression bomb costs its limit and no more. Two encodings have two forms,
//! which differ in their first bytes: `deflate` with the header of zlib
//! ([RFC 9110](https://www.rfc-editor.org/rfc/rfc9110#section-8.4.1.2)) or without that header, and
//! [snappy](https://github.com/google/snappy/blob/main/format_description.txt) as a block (clients of Loki) or as a
//! [framed stream](https://github.com/google/snappy/blob/main/framing_format.txt).

use super::{MemoryReservation, Refusal};
use flate2::bufread::GzDecoder;
use flate2::{Decompress, FlushDecompress, Status};
use std::io::{self, BufRead, Read};

/// The log2 of the largest window of zstd: 8 MiB, which every decoder must support by RFC 8878.
const ZSTD_WINDOW_LOG_MAX: u32 = 23;
/// The bytes that are decoded at once.
const PIECE_BYTES: usize = 64 << 10;
/// The bytes of a decoded body up to which its memory grows. A longer body is decoded twice: first to find its length, then into
/// memory of that length. Memory that grows exists twice while it is copied.
const GROWN_BYTES_MAX: usize = 4 << 20;
/// The beginning of a framed stream of snappy.
const SNAPPY_STREAM: &[u8] = b"\xff\x06\x00\x00sNaPpY";

/// The `Content-Encoding` of a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// No compression.
    #[default]
    Identity,
    /// RFC 1952, with one or more members.
    Gzip,
    /// RFC 1950, or RFC 1951.
    Deflate,
    /// RFC 8878.
    Zstd,
    /// A block, or a framed stream.
    Snappy,
}

impl Encoding {
    /// The memory of a decoder without its output, in bytes.
    pub const fn window_bytes(self) -> usize {
        match self {
            Encoding::Identity => 0,
            Encoding::Gzip | Encoding::Deflate => 128 << 10,
            Encoding::Zstd => (1 << ZSTD_WINDOW_LOG_MAX) + (1 << 20),
            Encoding::Snappy => 256 << 10,
        }
    }

    /// The encoding with this value of the header.
    ///
    /// # Errors
    ///
    /// [`Refusal::Encoding`] for any other value, and for several encodings.
    pub fn read(header: Option<&str>) -> Result<Encoding, Refusal> {
        let name = header.unwrap_or_default().trim().to_ascii_lowercase();
        Ok(match &*name {
            "" | "identity" => Encoding::Identity,
            "gzip" | "x-gzip" => Encoding::Gzip,
            "deflate" => Encoding::Deflate,
            "zstd" => Encoding::Zstd,
            "snappy" | "x-snappy-framed" => Encoding::Snappy,
            _ => return Err(Refusal::Encoding(name.chars().take(64).collect())),
        })
    }
}

/// Decodes a body of at most `bytes_max` decoded bytes, and reserves its memory.
///
/// # Errors
///
/// The body is malformed or too long, or too little memory is left.
pub fn decode(
    body: Vec<u8>,
    encoding: Encoding,
    bytes_max: usize,
    memory: &mut MemoryReservation,
) -> Result<Vec<u8>, Refusal> {
    match encoding {
        Encoding::Identity if body.len() > bytes_max => Err(too_large(bytes_max)),
        Encoding::Identity => Ok(body),
        Encoding::Snappy if !body.starts_with(SNAPPY_STREAM) => unblock(&body, bytes_max, |bytes| memory.grow(bytes)),
        _ => {
            let before = memory.bytes();
            // In a small pool, a window must not exclude small bodies.
            let window = encoding.window_bytes().min(memory.available_max() / 4);
            memory.grow(window)?;
            let decoded = unpack(&body, encoding, bytes_max, memory)?;
            // The decoder uses at most its output and the last block of its window.
            memory.release_unused(window.saturating_sub(decoded.len() + (256 << 10)));
            // The compressed body is no longer needed.
            let came = body.capacity();
            drop(body);
            memory.shrink_to(before.saturating_sub(came) + decoded.capacity());
            Ok(decoded)
        }
    }
}

/// Decodes a stream into reserved memory.
fn unpack(
    body: &[u8],
    encoding: Encoding,
    bytes_max: usize,
    memory: &mut MemoryReservation,
) -> Result<Vec<u8>, Refusal> {
    let mut decoded = Vec::new();
    let mut input = reader(body, encoding).map_err(undecodable)?;
    let mut piece = vec![0; PIECE_BYTES];
    let mut length = 0;
    loop {
        let read = match input.read(&mut piece) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read.map_err(undecodable)?,
        };
        length += read;
        if length > bytes_max {
            return Err(too_large(bytes_max));
        }
        if read == 0 && length <= GROWN_BYTES_MAX {
            return Ok(decoded);
        }
        if read == 0 {
            break;
        }
        if length > GROWN_BYTES_MAX {
            // From here on only the length counts.
            decoded = Vec::new();
            continue;
        }
        if length > decoded.capacity() {
            let (had, room) = (decoded.capacity(), length.next_power_of_two().min(GROWN_BYTES_MAX));
            memory.grow(room)?;
            decoded.reserve_exact(room - decoded.len());
            memory.shrink_to(memory.bytes() - had);
        }
        decoded.extend_from_slice(&piece[..read]);
    }
    drop(input);
    memory.grow(length)?;
    decoded.reserve_exact(length);
    // The second run decodes the same bytes.
    let input = reader(body, encoding).map_err(undecodable)?;
    input.take(length as u64).read_to_end(&mut decoded).map_err(undecodable)?;
    Ok(decoded)
}

/// Decodes a part of a body that is compressed by itself, to at most `bytes_max` bytes. `more` reserves memory.
pub(super) fn decode_part(
    part: &[u8],
    encoding: Encoding,
    bytes_max: usize,
    mut more: impl FnMut(usize) -> Result<(), Refusal>,
) -> Result<Vec<u8>, Refusal> {
    if encoding == Encoding::Snappy && !part.starts_with(SNAPPY_STREAM) {
        return unblock(part, bytes_max, more);
    }
    more(encoding.window_bytes())?;
    let mut input = reader(part, encoding).map_err(undecodable)?;
    let (mut decoded, mut piece) = (Vec::new(), vec![0; PIECE_BYTES]);
    loop {
        let read = match input.read(&mut piece) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read.map_err(undecodable)?,
        };
        if read == 0 {
            return Ok(decoded);
        }
        let length = decoded.len() + read;
        if length > bytes_max {
            return Err(too_large(bytes_max));
        }
        if length > decoded.capacity() {
            let room = length.next_power_of_two().min(bytes_max);
            more(room)?;
            decoded.reserve_exact(room - decoded.len());
        }
        decoded.extend_from_slice(&piece[..read]);
    }
}

/// A reader of the decoded bytes. It cannot read a block of snappy.
///
/// # Errors
///
/// The beginning of the body cannot be read, or the decoder cannot start.
pub fn reader<'a>(mut body: impl BufRead + 'a, encoding: Encoding) -> io::Result<Box<dyn Read + 'a>> {
    Ok(match encoding {
        Encoding::Identity => Box::new(body),
        Encoding::Gzip => Box::new(GzipMembers { member: Some(GzDecoder::new(body)) }),
        Encoding::Deflate => {
            // RFC 1950, 2.2: the method is 8, and the first two bytes are a multiple of 31.
            let is_zlib = match body.fill_buf()? {
                [first, second, ..] => first & 15 == 8 && u16::from_be_bytes([*first, *second]) % 31 == 0,
                [first] => first & 15 == 8,
                [] => true,
            };
            Box::new(Inflate { body, decompress: Decompress::new(is_zlib), is_over: false })
        }
        Encoding::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(body)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
            Box::new(decoder)
        }
        Encoding::Snappy => Box::new(snap::read::FrameDecoder::new(body)),
    })
}

/// The members of a gzip file. Zeros may follow the last member, as tapes and some programs pad files. gzip(1) accepts that, too.
struct GzipMembers<R> {
    /// `None` after the last member.
    member: Option<GzDecoder<R>>,
}

impl<R: BufRead> Read for GzipMembers<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let read = member.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            let Some(mut body) = self.member.take().map(GzDecoder::into_inner) else { break };
            let mut is_padded = false;
            loop {
                let input = body.fill_buf()?;
                let zeros = input.iter().take_while(|byte| **byte == 0).count();
                let (is_over, has_more) = (input.is_empty(), zeros < input.len());
                body.consume(zeros);
                is_padded |= zeros > 0;
                if is_over {
                    return Ok(0);
                }
                if has_more && is_padded {
                    return Err(io::Error::new(
                        io::ErrorKind::InvalidData,
                        "there is more behind the zeros behind a member",
                    ));
                }
                if has_more {
                    self.member = Some(GzDecoder::new(body));
                    break;
                }
            }
        }
        Ok(0)
    }
}

/// A reader that reports a truncated stream. The readers of flate2 accept such a stream as complete.
struct Inflate<R> {
    body: R,
    decompress: Decompress,
    is_over: bool,
}

impl<R: BufRead> Read for Inflate<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !self.is_over && !buffer.is_empty() {
            let input = self.body.fill_buf()?;
            let (read, written) = (self.decompress.total_in(), self.decompress.total_out());
            let status = self.decompress.decompress(input, buffer, FlushDecompress::None)?;
            let is_empty = input.is_empty();
            self.is_over = status == Status::StreamEnd;
            let consumed = usize::try_from(self.decompress.total_in() - read).unwrap_or(usize::MAX);
            self.body.consume(consumed);
            match usize::try_from(self.decompress.total_out() - written) {
                Ok(0) if is_empty && !self.is_over => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(0) => {}
                written => return Ok(written.unwrap_or(buffer.len())),
            }
        }
        if !buffer.is_empty() && !self.body.fill_buf()?.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "there is more behind the end of the stream"));
        }
        Ok(0)
    }
}

/// Decodes a block of snappy, which begins with its decoded length.
pub(super) fn unblock(
    body: &[u8],
    bytes_max: usize,
    more: impl FnOnce(usize) -> Result<(), Refusal>,
) -> Result<Vec<u8>, Refusal> {
    let failed = |error: snap::Error| Refusal::bad(format!("the body is not snappy: {error}"));
    let length = snap::raw::decompress_len(body).map_err(failed)?;
    if length > bytes_max {
        return Err(too_large(bytes_max));
    }
    // A copy element of two bytes produces at most 64 bytes, so a longer claim is false.
    if length / 64 > body.len() {
        return Err(Refusal::bad("the body is not snappy: it claims more bytes than it can contain"));
    }
    more(length)?;
    snap::raw::Decoder::new().decompress_vec(body).map_err(failed)
}

fn too_large(bytes_max: usize) -> Refusal {
    Refusal::TooLarge(format!("{bytes_max} bytes when decoded"))
}

fn undecodable(error: io::Error) -> Refusal {
    Refusal::bad(format!("the body cannot be decoded: {error}"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::push::MemoryPool;
    use proptest::prelude::*;
    use std::io::Write;

    pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory")
    }

    fn framed(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = snap::write::FrameEncoder::new(Vec::new());
        encoder.write_all(bytes).expect("memory");
        encoder.into_inner().expect("memory")
    }

    fn all(bytes: &[u8]) -> Vec<(Encoding, Vec<u8>)> {
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        let mut raw = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
        zlib.write_all(bytes).and_then(|()| raw.write_all(bytes)).expect("memory");
        vec![
            (Encoding::Identity, bytes.to_vec()),
            (Encoding::Gzip, gzip(bytes)),
            (Encoding::Gzip, [gzip(&bytes[..bytes.len() / 2]), gzip(&bytes[bytes.len() / 2..])].concat()),
            (Encoding::Deflate, zlib.finish().expect("memory")),
            (Encoding::Deflate, raw.finish().expect("memory")),
            (Encoding::Zstd, zstd::encode_all(bytes, 1).expect("memory")),
            (Encoding::Snappy, snap::raw::Encoder::new().compress_vec(bytes).expect("memory")),
            (Encoding::Snappy, framed(bytes)),
        ]
    }

    fn decoded(body: &[u8], encoding: Encoding, bytes_max: usize) -> Result<Vec<u8>, Refusal> {
        decode(body.to_vec(), encoding, bytes_max, &mut MemoryPool::new(1 << 30).reservation())
    }

    #[test]
    fn names_of_encodings() {
        for (name, encoding) in [
            (None, Encoding::Identity),
            (Some("identity"), Encoding::Identity),
            (Some(" GZIP "), Encoding::Gzip),
            (Some("zstd"), Encoding::Zstd),
        ] {
            assert_eq!(Encoding::read(name), Ok(encoding));
        }
        for name in ["br", "gzip, gzip", "lz4"] {
            assert_eq!(Encoding::read(Some(name)).expect_err(name).status(), 415);
        }
    }

    #[test]
    fn a_bomb_costs_its_limit() {
        let bomb = vec![b'a'; 8 << 20];
        for (encoding, body) in all(&bomb) {
            assert!(matches!(decoded(&body, encoding, 1 << 20), Err(Refusal::TooLarge(_))), "{encoding:?}");
            let mut memory = MemoryPool::new(1 << 20).reservation();
            let full = decode(body, encoding, usize::MAX, &mut memory);
            assert!(encoding == Encoding::Identity || matches!(full, Err(Refusal::TooLarge(_))), "{encoding:?}");
        }
        // It claims 4 GiB in five bytes.
        assert!(decoded(b"\xff\xff\xff\xff\x0f", Encoding::Snappy, usize::MAX).is_err());
    }

    #[test]
    fn zeros_behind_a_gzip_file_are_padding_and_nothing_else_is() {
        let two = [gzip(b"one "), gzip(b"two")].concat();
        for zeros in [1, 7, 512, 300_000] {
            let padded = [two.clone(), vec![0; zeros]].concat();
            assert_eq!(decoded(&padded, Encoding::Gzip, 100).as_deref(), Ok(&b"one two"[..]), "{zeros} zeros");
            assert!(decoded(&[padded, b"x".to_vec()].concat(), Encoding::Gzip, 100).is_err());
        }
        for other in [&[0; 20][..], b"", b"\0\0rubbish"] {
            assert!(decoded(other, Encoding::Gzip, 100).is_err(), "{other:?}");
        }
        assert!(decoded(&[two, b"rubbish".to_vec()].concat(), Encoding::Gzip, 100).is_err());
    }

    #[test]
    fn decoding_twice_gives_the_same_bytes_without_spare_capacity() {
        for length in [GROWN_BYTES_MAX - 1, GROWN_BYTES_MAX, GROWN_BYTES_MAX + 1, 3 * GROWN_BYTES_MAX] {
            let bytes: Vec<u8> = (0..length).map(|n| (n / 1000) as u8).collect();
            for (encoding, body) in all(&bytes).into_iter().filter(|(encoding, _)| *encoding != Encoding::Identity) {
                let pool = MemoryPool::new(1 << 30);
                let mut memory = pool.reservation();
                let whole = decode(body, encoding, length, &mut memory).expect("within its limit");
                assert!(whole == bytes, "{encoding:?} {length}");
                assert!(
                    (length..=GROWN_BYTES_MAX.max(length)).contains(&pool.reserved()),
                    "{encoding:?} {}",
                    pool.reserved()
                );
            }
        }
    }

    #[test]
    fn zstd_with_a_window_of_128_mib_is_refused() {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).expect("memory");
        encoder.window_log(27).expect("a window");
        encoder.include_contentsize(false).expect("without");
        encoder.write_all(&[7; 1000]).expect("memory");
        let body = encoder.finish().expect("memory");
        assert!(decoded(&body, Encoding::Zstd, 1 << 20).is_err());
    }

    proptest! {
        /// Decoding returns the original, and a truncated body never decodes to a complete one.
        #[test]
        fn bodies_come_back_whole_or_not_at_all(bytes in prop::collection::vec(any::<u8>(), 1..3000), cut in any::<prop::sample::Index>()) {
            for (encoding, body) in all(&bytes) {
                prop_assert_eq!(decoded(&body, encoding, 4000), Ok(bytes.clone()), "{:?}", encoding);
                let cut = cut.index(body.len());
                if encoding != Encoding::Identity {
                    let part = decoded(&body[..cut], encoding, 4000);
                    // A cut between two members, or two frames of snappy, leaves complete content.
                    let may_be_whole = matches!(encoding, Encoding::Gzip | Encoding::Snappy);
                    let is_part = part.as_ref().is_ok_and(|part| part.len() < bytes.len() && bytes.starts_with(part));
                    prop_assert!(part.is_err() || may_be_whole && is_part, "{:?} at {}", encoding, cut);
                }
            }
        }

        /// Any bytes decode to something within the limit or are refused.
        #[test]
        fn any_bytes_are_bounded(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            for encoding in [Encoding::Gzip, Encoding::Deflate, Encoding::Zstd, Encoding::Snappy] {
                prop_assert!(decoded(&bytes, encoding, 100).is_ok_and(|decoded| decoded.len() <= 100) || decoded(&bytes, encoding, 100).is_err());
            }
        }
    }
}
