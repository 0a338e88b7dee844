//! The bytes of protocol buffers' messages: what OTLP's requests need to be written, and its answers to be read.

/// Appends a varint.
fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number as u8 & 0x7f) | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a whole number.
pub(super) fn put_number(out: &mut Vec<u8>, field: u32, number: u64) {
    put_varint(out, u64::from(field) << 3);
    put_varint(out, number);
}

/// Appends a number of 64 bits.
pub(super) fn put_fixed64(out: &mut Vec<u8>, field: u32, number: u64) {
    put_varint(out, u64::from(field) << 3 | 1);
    out.extend_from_slice(&number.to_le_bytes());
}

/// Appends a number of 32 bits.
pub(super) fn put_fixed32(out: &mut Vec<u8>, field: u32, number: u32) {
    put_varint(out, u64::from(field) << 3 | 5);
    out.extend_from_slice(&number.to_le_bytes());
}

/// Appends a text, bytes or a message.
pub(super) fn put_bytes(out: &mut Vec<u8>, field: u32, bytes: &[u8]) {
    put_varint(out, u64::from(field) << 3 | 2);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// A value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Read<'b> {
    Number(u64),
    Bytes(&'b [u8]),
}

/// Takes the next field off the front of a message: its number and value. `None` at the end, and where the message is
/// damaged.
pub(super) fn next_field<'b>(message: &mut &'b [u8]) -> Option<(u64, Read<'b>)> {
    let tag = varint(message)?;
    let value = match tag & 7 {
        0 => Read::Number(varint(message)?),
        1 => Read::Number(u64::from_le_bytes(take(message, 8)?.try_into().ok()?)),
        2 => {
            let length = usize::try_from(varint(message)?).ok()?;
            Read::Bytes(take(message, length)?)
        }
        5 => Read::Number(u32::from_le_bytes(take(message, 4)?.try_into().ok()?).into()),
        _ => return None,
    };
    Some((tag >> 3, value))
}

fn take<'b>(message: &mut &'b [u8], bytes: usize) -> Option<&'b [u8]> {
    let (taken, rest) = message.split_at_checked(bytes)?;
    *message = rest;
    Some(taken)
}

fn varint(message: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = take(message, 1)?[0];
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Fields are read as they were written, and any bytes come to an end.
        #[test]
        fn fields_come_back(number in any::<u64>(), field in 1u32..10_000, bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut out = Vec::new();
            put_number(&mut out, field, number);
            put_fixed64(&mut out, field, number);
            put_bytes(&mut out, field, &bytes);
            put_fixed32(&mut out, field, 7);
            let (field, mut left) = (u64::from(field), out.as_slice());
            prop_assert_eq!(next_field(&mut left), Some((field, Read::Number(number))));
            prop_assert_eq!(next_field(&mut left), Some((field, Read::Number(number))));
            prop_assert_eq!(next_field(&mut left), Some((field, Read::Bytes(&bytes))));
            prop_assert_eq!(next_field(&mut left), Some((field, Read::Number(7))));
            prop_assert_eq!(next_field(&mut left), None);
            let mut any = bytes.as_slice();
            while next_field(&mut any).is_some() {}
        }
    }
}
