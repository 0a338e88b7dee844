//! Elements of DER, as far as certificates need them.

pub(super) const SEQUENCE: u8 = 0x30;
/// The version of a certificate, before its other fields.
const VERSION: u8 = 0xa0;

/// The first element: its tag, its content, and the bytes after it.
pub(super) fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, length], rest) = bytes.split_first_chunk()?;
    let (length, rest) = match length {
        // 0x80 is BER's indefinite length, which DER forbids.
        0..=0x7f => (usize::from(length), rest),
        // The length itself has one to four bytes.
        0x81..=0x84 => {
            let (length, rest) = rest.split_at_checked(usize::from(length - 0x80))?;
            (length.iter().fold(0, |sum, &byte| sum << 8 | usize::from(byte)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// The content of the first element, if it has this tag, and the bytes after it.
pub(super) fn inside(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    element(bytes).filter(|found| found.0 == tag).map(|(_, content, rest)| (content, rest))
}

/// What a certificate has that is signed, after its version and this many further fields.
pub(super) fn fields_after(certificate: &[u8], count: usize) -> Option<&[u8]> {
    let (certificate, _) = inside(certificate, SEQUENCE)?;
    let (mut signed, _) = inside(certificate, SEQUENCE)?;
    if signed.first() == Some(&VERSION) {
        signed = element(signed)?.2;
    }
    for _ in 0..count {
        signed = element(signed)?.2;
    }
    Some(signed)
}
