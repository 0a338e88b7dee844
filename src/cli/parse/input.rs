//! Input: a file or standard input, plain or compressed. Its first bytes tell gzip and zstd.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// The largest window of zstd: 128 MiB, as for `import`.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;

/// Opens a file; `-` is standard input.
pub(super) fn open(path: &Path) -> io::Result<Box<dyn Read>> {
    if path == Path::new("-") { decoded(io::stdin().lock()) } else { decoded(BufReader::new(File::open(path)?)) }
}

fn decoded(mut input: impl BufRead + 'static) -> io::Result<Box<dyn Read>> {
    // A pipe may return fewer bytes at first. Then the input counts as plain.
    let magic = input.fill_buf()?;
    if magic.starts_with(&[0x1f, 0x8b]) {
        return Ok(Box::new(flate2::bufread::MultiGzDecoder::new(input)));
    }
    if magic.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        let mut decoder = zstd::stream::read::Decoder::with_buffer(input)?;
        decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
        return Ok(Box::new(decoder));
    }
    Ok(Box::new(input))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn compressed_input_reads_like_plain_input() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(b"a\nb\n").expect("memory");
        let zstd = zstd::encode_all(&b"a\nb\n"[..], 1).expect("memory");
        for bytes in [b"a\nb\n".to_vec(), gzip.finish().expect("memory"), zstd] {
            let mut text = String::new();
            decoded(io::Cursor::new(bytes)).and_then(|mut input| input.read_to_string(&mut text)).expect("read");
            assert_eq!(text, "a\nb\n");
        }
        let mut nothing = Vec::new();
        decoded(io::empty()).and_then(|mut input| input.read_to_end(&mut nothing)).expect("read");
        assert!(nothing.is_empty());
    }
}
