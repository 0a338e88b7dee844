//! Whether a file has binary data instead of lines, and what to do with it.
//!
//! Text in any encoding has few control characters; a stretch of zero bytes is a hole that a program left in its log, and
//! tells nothing. Files of known formats are named, because each has another way to become text.

use memchr::{memchr, memmem};

/// Zero bytes at a stretch that are a hole.
const HOLE_BYTES: usize = 64;
/// Fewer bytes tell nothing.
const SAMPLE_BYTES_MIN: usize = 8;
/// Of this many bytes, at most one is a control character of a text.
const TEXT_BYTES_PER_CONTROL: usize = 20;

/// The first bytes of formats, their names, and what to do. A `?` matches any byte.
const FORMATS: [(&[u8], &str, &str); 20] = [
    (
        b"PAR1",
        "a Parquet file",
        "make lines of it: duckdb -c \"COPY (FROM 'FILE') TO 'FILE.ndjson' (FORMAT json)\"; an archived day comes back by `daytable restore`",
    ),
    (b"PARE", "an encrypted Parquet file", "decrypt it, and make lines of it"),
    (
        b"SQLite format 3\0",
        "an SQLite database",
        "make lines of it: sqlite3 FILE .dump, or name the data folder by --data if it is one of daytable",
    ),
    (b"LPKSHHRH", "a file of the journal", "make entries of it: journalctl --file FILE --output=export >FILE.export"),
    (b"ElfFile\0", "an event log of Windows", "make lines of it: evtx_dump -o jsonl FILE"),
    (b"ARROW1", "an Arrow file", "make lines of it: NDJSON or CSV"),
    (b"Obj\x01", "an Avro file", "make lines of it: avro tojson FILE"),
    (b"ORC", "an ORC file", "make lines of it: NDJSON or CSV"),
    (b"PK\x03\x04", "a zip archive", "unpack it, and import the files in it"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "unpack it, and import the files in it"),
    (b"Rar!\x1a", "a rar archive", "unpack it, and import the files in it"),
    (b"!<arch>\n", "an archive of ar", "unpack it, and import the files in it"),
    (b"\x7fELF", "a program", "name a log file"),
    (b"%PDF-", "a PDF document", "name a log file"),
    (b"\x89PNG", "a picture", "name a log file"),
    (b"\xff\xd8\xff", "a picture", "name a log file"),
    (b"\xd4\xc3\xb2\xa1", "a capture of packets", "make lines of it: tcpdump -r FILE"),
    (b"\xa1\xb2\xc3\xd4", "a capture of packets", "make lines of it: tcpdump -r FILE"),
    (b"\x0a\x0d\x0d\x0a", "a capture of packets", "make lines of it: tshark -r FILE -T ek"),
    (b"\xff\x06\0\0sNaPpY", "compressed by snappy", "decompress it, and import it"),
];

/// Why a file that begins with `bytes` has no lines, and what to do; `None` if it may have lines.
pub(super) fn binary_reason(bytes: &[u8]) -> Option<String> {
    let is_tar = bytes.get(257..262) == Some(b"ustar");
    if is_tar {
        return Some("it is a tar archive, and has no lines: unpack it, and import the files in it".into());
    }
    // A text may begin with three letters of a format, but has no control characters behind them.
    let is_binary = is_binary(bytes);
    if let Some((magic, name, advice)) = FORMATS.iter().find(|(magic, ..)| bytes.starts_with(magic))
        && (is_binary || magic.len() > 4 || *magic == b"PAR1")
    {
        return Some(format!("it is {name}, and has no lines: {advice}"));
    }
    if is_array(bytes) {
        return Some("it is one array of JSON: make lines of it: jq --compact-output '.[]' FILE >FILE.ndjson".into());
    }
    if is_wide(bytes) {
        return Some("it is UTF-16 or UTF-32, which is not read: convert it with `iconv -f UTF-16LE -t UTF-8`".into());
    }
    is_binary.then(|| {
        "it is binary data, and has no lines: make text of it first, NDJSON for example; `file` says what it is".into()
    })
}

/// Whether there are too many control characters for a text. Those that separate fields and records in texts do not count.
fn is_binary(bytes: &[u8]) -> bool {
    let without_zeros = without_holes(bytes);
    let is_control = |byte: &&u8| matches!(byte, 0 | 2..=6 | 14..=26 | 127);
    let controls = without_zeros.iter().filter(is_control).count();
    without_zeros.len() >= SAMPLE_BYTES_MIN && controls > 1 && controls * TEXT_BYTES_PER_CONTROL > without_zeros.len()
}

/// Whether the bytes begin an array of objects that has not each of them in a line of its own.
fn is_array(bytes: &[u8]) -> bool {
    let Some(rest) = bytes.trim_ascii_start().strip_prefix(b"[") else { return false };
    let is_line_left = rest.trim_ascii_start().len() < rest.len()
        && memchr(b'\n', rest).is_some_and(|at| rest[..at].trim_ascii().is_empty());
    let Some(members) = rest.trim_ascii_start().strip_prefix(b"{") else { return false };
    let first = members.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii_end();
    let is_name = members.trim_ascii_start().starts_with(b"\"");
    is_name && !(is_line_left && (first.ends_with(b"}") || first.ends_with(b"},")))
}

/// Whether each second byte of letters is zero.
fn is_wide(bytes: &[u8]) -> bool {
    let zeros = |from: usize| bytes.iter().skip(from).step_by(2).filter(|byte| **byte == 0).count();
    let half = bytes.len() / 2;
    half >= SAMPLE_BYTES_MIN / 2 && memmem::find(bytes, b"\0\0\0\0").is_none() && zeros(0).max(zeros(1)) * 10 > half * 9
}

/// The bytes without long stretches of zeros.
fn without_holes(bytes: &[u8]) -> Vec<u8> {
    let mut without_zeros = Vec::with_capacity(bytes.len());
    for run in bytes.chunk_by(|a, b| (*a == 0) == (*b == 0)) {
        if run[0] != 0 || run.len() < HOLE_BYTES {
            without_zeros.extend_from_slice(run);
        }
    }
    without_zeros
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(length: usize) -> Vec<u8> {
        let mut state = 7u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state.to_be_bytes()[0]
        };
        (0..length).map(|_| next()).collect()
    }

    #[test]
    fn binary_data_is_refused_with_what_to_do() {
        let mut tar = vec![b'a'; 512];
        tar[257..262].copy_from_slice(b"ustar");
        let wide: Vec<u8> = "a line of text\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        for (bytes, said) in [
            (b"PAR1\x15\x04\x15\x90\x01".to_vec(), "duckdb"),
            (b"SQLite format 3\0\x10\0\x01\x01".to_vec(), "SQLite"),
            (b"LPKSHHRH\0\0\0\0".to_vec(), "journalctl"),
            (b"PK\x03\x04\x14\0\0\0\x08\0".to_vec(), "zip"),
            (tar, "tar"),
            (wide, "iconv"),
            (b"[{\"time\":\"2026-11-21T08:00:00Z\"},{\"time\"".to_vec(), "jq"),
            (b"[\n  {\n    \"time\": 1\n  }\n]\n".to_vec(), "jq"),
            (noise(1024), "binary data"),
            (noise(64), "binary data"),
            (vec![200, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 1], "binary data"),
        ] {
            let reason = binary_reason(&bytes).unwrap_or_else(|| panic!("{said}"));
            assert!(reason.contains(said), "{reason}");
        }
    }

    #[test]
    fn text_is_read_in_any_encoding() {
        let latin: Vec<u8> = b"gr\xfc\xdfe aus K\xf6ln, \xe4\xf6\xfc\xc4\xd6\xdc\n".to_vec();
        let japanese: Vec<u8> = b"\x93\xfa\x96{\x8c\xea\x82\xcc\x83\x8d\x83O\n".to_vec();
        let mut hole = vec![0; 900];
        hole.extend_from_slice(b"2026-11-27 a line\n");
        for bytes in [
            b"".to_vec(),
            b"a\n".to_vec(),
            b"\0".to_vec(),
            vec![0; 1024],
            hole,
            latin,
            japanese,
            "日本語のログ\n".into(),
            b"\x1b[31mred\x1b[0m and \x1b[1mbold\x1b[0m\tand a bell\x07\n".to_vec(),
            b"ORCHESTRATOR started\nORC\n".to_vec(),
            b"PARENT process 12 ended\n".to_vec(),
            b"a line with one \x01 control character and more text\n".to_vec(),
            b"8=FIX.4.4\x019=12\x0135=D\x0149=A\x0156=B\x0110=128\x01\n".to_vec(),
            b"[\n{\"a\": 1},\n{\"a\": 2}\n]\n".to_vec(),
            b"[{pid 1}] started\n[{pid 1}] ended\n".to_vec(),
            b"\x1e{\"a\":1}\n\x1e{\"a\":2}\n\x1e{\"a\":3}\n".to_vec(),
        ] {
            assert_eq!(binary_reason(&bytes), None, "{:?}", String::from_utf8_lossy(&bytes));
        }
    }
}
