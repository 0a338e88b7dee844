//! Codes and credentials: random words. The receiver stores their SHA-256.

use daytable_model::property::to_hex;
use daytable_store::catalog::hosts::SecretHash;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Read};

/// Letters and digits that are not mistaken for each other.
const ALPHABET: &[u8; 32] = b"abcdefghjkmnpqrstuvwxyz023456789";
/// Maximum bytes of a code or a credential.
const WORD_BYTES_MAX: usize = 128;

/// A code that somebody may have to type: 80 bits, in groups of four.
pub fn code() -> io::Result<String> {
    let letters = random::<16>()?.map(|byte| char::from(ALPHABET[usize::from(byte % 32)]));
    let groups: Vec<String> = letters.chunks(4).map(|group| group.iter().collect()).collect();
    Ok(groups.join("-"))
}

/// A credential: 256 bits.
pub fn credential() -> io::Result<String> {
    Ok(to_hex(&random::<32>()?))
}

/// The number of a process.
pub fn instance() -> io::Result<u64> {
    random::<8>().map(u64::from_le_bytes)
}

fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// The hash of a word; `None` if it cannot be one.
pub fn hash(word: &str) -> Option<SecretHash> {
    let word = word.trim();
    let is_word = (1..=WORD_BYTES_MAX).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_graphic());
    is_word.then(|| Sha256::digest(word.as_bytes()).into())
}

/// What stands for the certificate of a host. No word has this hash: a word has no zero byte.
pub fn certificate_hash(name: &str) -> SecretHash {
    Sha256::digest(format!("certificate\0{name}").as_bytes()).into()
}

/// A hash that was written as 64 hexadecimal digits.
pub fn hash_of_text(text: &str) -> Option<SecretHash> {
    let digits: Vec<u8> =
        text.chars().map(|digit| digit.to_digit(16)).map(|digit| digit?.try_into().ok()).collect::<Option<_>>()?;
    let bytes: Vec<u8> = digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect();
    (digits.len() == 64).then_some(())?;
    bytes.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_different_and_have_hashes() {
        let (a, b) = (code().expect("random"), code().expect("random"));
        assert_ne!(a, b);
        assert_eq!(a.len(), 19);
        assert!(hash(&a).is_some() && hash(&a) == hash(&format!(" {a}\n")) && hash(&a) != hash(&b));
        assert_eq!(credential().expect("random").len(), 64);
        assert_eq!(hash(&a).and_then(|hash| hash_of_text(&to_hex(&hash))), hash(&a));
        for wrong in ["", "ab", &"é".repeat(64), &"0".repeat(63), &"0".repeat(65), &"0".repeat(66)] {
            assert_eq!(hash_of_text(wrong), None, "{wrong:?}");
        }
        for wrong in ["", " ", "two words", "é", &"x".repeat(129)] {
            assert_eq!(hash(wrong), None, "{wrong:?}");
        }
    }
}
