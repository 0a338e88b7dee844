//! Protocol buffers, as far as a reader needs them: the fields of a message, borrowed from its bytes.
//!
//! Nothing is decoded before somebody asks for it, so nobody pays for what a message claims to hold: two bytes of an empty
//! record are two bytes here, and a couple of hundred in a struct. Unknown fields are passed over, groups (which nobody
//! sends) are refused.

use std::borrow::Cow;

/// A message that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum WireError {
    /// It ends within a field, or a length points behind its end.
    #[error("a message ends within a field")]
    Short,
    /// A field of a kind that is not known, or a number over 64 bits.
    #[error("a field has no kind that is known")]
    Kind,
    /// A field has another kind than the schema says.
    #[error("a field has another kind than its number says")]
    Mismatch,
    /// Messages lie too deep in one another.
    #[error("values are nested too deeply")]
    Depth,
}

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wire<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

impl<'a> Wire<'a> {
    pub(super) fn bytes(self) -> Result<&'a [u8], WireError> {
        if let Wire::Bytes(bytes) = self { Ok(bytes) } else { Err(WireError::Mismatch) }
    }

    /// A text; what is no UTF-8 in it is replaced.
    pub(super) fn text(self) -> Result<Cow<'a, str>, WireError> {
        self.bytes().map(String::from_utf8_lossy)
    }

    pub(super) fn varint(self) -> Result<u64, WireError> {
        if let Wire::Varint(number) = self { Ok(number) } else { Err(WireError::Mismatch) }
    }

    pub(super) fn fixed64(self) -> Result<u64, WireError> {
        if let Wire::Fixed64(number) = self { Ok(number) } else { Err(WireError::Mismatch) }
    }

    pub(super) fn fixed32(self) -> Result<u32, WireError> {
        if let Wire::Fixed32(number) = self { Ok(number) } else { Err(WireError::Mismatch) }
    }
}

/// The fields of a message in their order, by number; ends after an error.
pub(super) struct Fields<'a>(&'a [u8]);

/// The fields of a message.
pub(super) fn fields(message: &[u8]) -> Fields<'_> {
    Fields(message)
}

impl<'a> Fields<'a> {
    fn varint(&mut self) -> Result<u64, WireError> {
        let mut number = 0u64;
        for (at, byte) in self.0.iter().enumerate().take(10) {
            let bits = u64::from(byte & 0x7f);
            if at == 9 && bits > 1 {
                return Err(WireError::Kind);
            }
            number |= bits << (7 * at);
            if byte & 0x80 == 0 {
                self.0 = &self.0[at + 1..];
                return Ok(number);
            }
        }
        Err(if self.0.len() >= 10 { WireError::Kind } else { WireError::Short })
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], WireError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(WireError::Short)?;
        self.0 = rest;
        Ok(taken)
    }

    fn field(&mut self) -> Result<(u64, Wire<'a>), WireError> {
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Wire::Varint(self.varint()?),
            1 => Wire::Fixed64(self.take(8)?.iter().rfold(0, |number, byte| number << 8 | u64::from(*byte))),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| WireError::Short)?;
                Wire::Bytes(self.take(length)?)
            }
            5 => Wire::Fixed32(self.take(4)?.iter().rfold(0, |number, byte| number << 8 | u32::from(*byte))),
            _ => return Err(WireError::Kind),
        };
        Ok((tag >> 3, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Wire<'a>), WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

/// Writes a field of bytes.
pub(super) fn put_bytes(message: &mut Vec<u8>, number: u64, bytes: &[u8]) {
    put_varint(message, number << 3 | 2);
    put_varint(message, bytes.len() as u64);
    message.extend_from_slice(bytes);
}

/// Writes a field of a whole number.
pub(super) fn put_number(message: &mut Vec<u8>, number: u64, value: u64) {
    put_varint(message, number << 3);
    put_varint(message, value);
}

fn put_varint(message: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        message.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    message.push(number.to_le_bytes()[0]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use prost::Message;

    #[derive(Clone, PartialEq, Message)]
    struct Sample {
        #[prost(uint64, tag = "1")]
        varint: u64,
        #[prost(fixed64, tag = "2")]
        fixed64: u64,
        #[prost(fixed32, tag = "300")]
        fixed32: u32,
        #[prost(bytes = "vec", tag = "4")]
        bytes: Vec<u8>,
        #[prost(int64, tag = "5")]
        signed: i64,
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for (bytes, error) in [
            (&b"\x08"[..], WireError::Short),
            (b"\x08\xff", WireError::Short),
            (b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", WireError::Kind),
            (b"\x09\x00", WireError::Short),
            (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", WireError::Short),
            (b"\x0b\x0c", WireError::Kind),
            (b"\x0e", WireError::Kind),
        ] {
            let all: Vec<_> = fields(bytes).collect();
            assert_eq!(all, [Err(error)], "{bytes:?}");
        }
        assert_eq!(fields(b"").count(), 0);
    }

    proptest! {
        /// What another implementation wrote is read as it was meant, and what is written here is read by that.
        #[test]
        fn agrees_with_prost(varint: u64, fixed64: u64, fixed32: u32, bytes: Vec<u8>, signed: i64) {
            let sample = Sample { varint, fixed64, fixed32, bytes, signed };
            let encoded = sample.encode_to_vec();
            let mut read = Sample::default();
            for field in fields(&encoded) {
                match field.expect("a field") {
                    (1, value) => read.varint = value.varint().expect("a number"),
                    (2, value) => read.fixed64 = value.fixed64().expect("a number"),
                    (300, value) => read.fixed32 = value.fixed32().expect("a number"),
                    (4, value) => read.bytes = value.bytes().expect("bytes").to_vec(),
                    (5, value) => read.signed = value.varint().expect("a number").cast_signed(),
                    (other, _) => prop_assert!(false, "field {}", other),
                }
            }
            prop_assert_eq!(&read, &sample);
            let mut written = Vec::new();
            put_number(&mut written, 1, sample.varint);
            put_bytes(&mut written, 4, &sample.bytes);
            let back = Sample::decode(&*written).expect("a message");
            prop_assert_eq!((back.varint, back.bytes), (sample.varint, sample.bytes));
        }

        /// Any bytes end, in fields that are parts of them or in an error.
        #[test]
        fn any_bytes_end(bytes: Vec<u8>) {
            let total: usize = fields(&bytes).flatten().filter_map(|(_, value)| value.bytes().ok()).map(<[u8]>::len).sum();
            prop_assert!(total <= bytes.len());
        }
    }
}
