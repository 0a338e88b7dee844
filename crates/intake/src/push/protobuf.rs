//! The [wire format of protocol buffers](https://protobuf.dev/programming-guides/encoding/): the fields of a message, borrowed
//! from its bytes.
//!
//! Fields are decoded on demand, so memory follows the bytes of a message. A decoder into structs would need a hundred times
//! the memory for a body of many empty records: such a record has two bytes, and its struct some hundreds. Unknown fields
//! are skipped. Groups, which are deprecated, are refused.

use super::refusal::DecodeError;
use std::borrow::Cow;

/// The bytes are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ProtobufError {
    /// The message ends within a field, or a length exceeds it.
    #[error("a message ends within a field")]
    Short,
    /// The wire type is unknown, or a number has more than 64 bits.
    #[error("a field has no kind that is known")]
    Kind,
    /// The wire type is not the one of the schema.
    #[error("the kind of a field does not match its number")]
    Mismatch,
    /// Messages are nested too deeply.
    #[error("values are nested too deeply")]
    Depth,
}

impl From<ProtobufError> for DecodeError {
    fn from(error: ProtobufError) -> DecodeError {
        DecodeError::Malformed(error.to_string())
    }
}

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProtobufValue<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

impl<'a> ProtobufValue<'a> {
    pub(super) fn bytes(self) -> Result<&'a [u8], ProtobufError> {
        if let ProtobufValue::Bytes(bytes) = self { Ok(bytes) } else { Err(ProtobufError::Mismatch) }
    }

    /// A text. Invalid UTF-8 is replaced.
    pub(super) fn text(self) -> Result<Cow<'a, str>, ProtobufError> {
        self.bytes().map(String::from_utf8_lossy)
    }

    pub(super) fn varint(self) -> Result<u64, ProtobufError> {
        if let ProtobufValue::Varint(number) = self { Ok(number) } else { Err(ProtobufError::Mismatch) }
    }

    pub(super) fn fixed64(self) -> Result<u64, ProtobufError> {
        if let ProtobufValue::Fixed64(number) = self { Ok(number) } else { Err(ProtobufError::Mismatch) }
    }

    pub(super) fn fixed32(self) -> Result<u32, ProtobufError> {
        if let ProtobufValue::Fixed32(number) = self { Ok(number) } else { Err(ProtobufError::Mismatch) }
    }
}

/// The fields of a message in their order, with their numbers. Ends after an error.
pub(super) fn fields(message: &[u8]) -> MessageFields<'_> {
    MessageFields(message)
}

/// The nested messages of a message at one field number. Ends after an error.
pub(super) fn messages_at(message: &[u8], number: u64) -> impl Iterator<Item = Result<&[u8], ProtobufError>> {
    fields(message).filter_map(move |field| match field {
        Ok((found, value)) => (found == number).then(|| value.bytes()),
        Err(error) => Some(Err(error)),
    })
}

/// See [`fields`].
pub(super) struct MessageFields<'a>(&'a [u8]);

impl<'a> MessageFields<'a> {
    fn varint(&mut self) -> Result<u64, ProtobufError> {
        let mut number = 0u64;
        for (at, byte) in self.0.iter().enumerate().take(10) {
            let bits = u64::from(byte & 0x7f);
            if at == 9 && bits > 1 {
                return Err(ProtobufError::Kind);
            }
            number |= bits << (7 * at);
            if byte & 0x80 == 0 {
                self.0 = &self.0[at + 1..];
                return Ok(number);
            }
        }
        Err(if self.0.len() >= 10 { ProtobufError::Kind } else { ProtobufError::Short })
    }

    fn bytes(&mut self, length: usize) -> Result<&'a [u8], ProtobufError> {
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(ProtobufError::Short)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ProtobufError> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(ProtobufError::Short)?;
        self.0 = rest;
        Ok(*bytes)
    }

    fn field(&mut self) -> Result<(u64, ProtobufValue<'a>), ProtobufError> {
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => ProtobufValue::Varint(self.varint()?),
            1 => ProtobufValue::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| ProtobufError::Short)?;
                ProtobufValue::Bytes(self.bytes(length)?)
            }
            5 => ProtobufValue::Fixed32(u32::from_le_bytes(self.array()?)),
            _ => return Err(ProtobufError::Kind),
        };
        Ok((tag >> 3, value))
    }
}

impl<'a> Iterator for MessageFields<'a> {
    type Item = Result<(u64, ProtobufValue<'a>), ProtobufError>;

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
    fn malformed_messages_are_refused() {
        for (bytes, error) in [
            (&b"\x08"[..], ProtobufError::Short),
            (b"\x08\xff", ProtobufError::Short),
            (b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", ProtobufError::Kind),
            (b"\x09\x00", ProtobufError::Short),
            (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", ProtobufError::Short),
            (b"\x0b\x0c", ProtobufError::Kind),
            (b"\x0e", ProtobufError::Kind),
        ] {
            let all: Vec<_> = fields(bytes).collect();
            assert_eq!(all, [Err(error)], "{bytes:?}");
        }
        assert_eq!(fields(b"").count(), 0);
    }

    proptest! {
        /// Messages of another implementation are read correctly, and the other implementation reads ours.
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

        /// Any bytes end, in fields within them or in an error.
        #[test]
        fn any_bytes_end(bytes: Vec<u8>) {
            let total: usize = fields(&bytes).flatten().filter_map(|(_, value)| value.bytes().ok()).map(<[u8]>::len).sum();
            prop_assert!(total <= bytes.len());
        }
    }
}
