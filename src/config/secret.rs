//! Text that must not be shown.

use std::fmt;
use std::io::{self, Read};
use std::path::Path;
use subtle::ConstantTimeEq;

/// Bytes of a secret at most; a file that has more is not one.
const BYTES_MAX: usize = 4096;

/// A token or a password. Neither `Debug` nor an error shows it, and it has no `Display`.
#[derive(Clone)]
pub struct Secret(Box<str>);

impl Secret {
    /// A secret of at least one character, none of them white space or outside visible ASCII: it is sent in a header.
    pub fn new(text: &str) -> Option<Secret> {
        (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())).then(|| Secret(text.into()))
    }

    /// What a file holds, without the white space at its ends.
    pub fn read(path: &Path) -> io::Result<Secret> {
        let mut bytes = Vec::new();
        let limit = BYTES_MAX as u64 + 1;
        std::fs::File::open(path)?.take(limit).read_to_end(&mut bytes)?;
        let text = std::str::from_utf8(&bytes).ok().filter(|text| text.len() <= BYTES_MAX);
        let invalid = "must hold one word of visible ASCII characters, 4096 at most";
        text.and_then(|text| Secret::new(text.trim()))
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, invalid))
    }

    /// Whether `given` is the secret, in a time that does not tell how much of it is right.
    pub fn matches(&self, given: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(given).into()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_gives_its_one_word() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("token");
        std::fs::write(&path, "s3cret\n").expect("written");
        let secret = Secret::read(&path).expect("a secret");
        assert!(secret.matches(b"s3cret") && !secret.matches(b"s3cres") && !secret.matches(b"s3cret\n"));
        assert_eq!(format!("{secret:?}"), "Secret(…)");
        for wrong in ["\n", "two words", "caf\u{e9}", &"x".repeat(BYTES_MAX + 1)] {
            std::fs::write(&path, wrong).expect("written");
            let error = Secret::read(&path).expect_err("no secret");
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            assert!(!error.to_string().contains(wrong), "an error shows what the file holds");
        }
    }
}
