//! JSON values that are cut out as they are written, so that a value is parsed only when its turn comes.

use super::refusal::DecodeError;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// The number of elements of an array, which is also the greatest `records_max`. An element of two bytes takes 16 bytes of
/// memory here.
const ELEMENTS_MAX: usize = 1_000_000;

/// The members of an object that a protocol defines, whose members are few.
const MEMBERS_MAX: usize = 1000;

impl From<serde_json::Error> for DecodeError {
    fn from(error: serde_json::Error) -> DecodeError {
        DecodeError::Malformed(error.to_string())
    }
}

/// Calls a function for each element of an array. An error of the function ends the array.
pub(super) struct ForEachElement<F>(pub(super) F);

impl<'de, F: FnMut(&'de RawValue) -> Result<(), &'static str>> DeserializeSeed<'de> for ForEachElement<F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<(), D::Error> {
        input.deserialize_seq(self)
    }
}

impl<'de, F: FnMut(&'de RawValue) -> Result<(), &'static str>> Visitor<'de> for ForEachElement<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<(), A::Error> {
        while let Some(element) = seq.next_element()? {
            (self.0)(element).map_err(A::Error::custom)?;
        }
        Ok(())
    }
}

/// The elements of an array.
#[derive(Default)]
pub(super) struct RawElements<'a>(pub(super) Vec<&'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for RawElements<'a> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<RawElements<'a>, D::Error> {
        let mut elements = Vec::new();
        let push = |element: &'de RawValue| {
            if elements.len() >= ELEMENTS_MAX {
                return Err("an array has more than 1000000 elements");
            }
            elements.push(element);
            Ok(())
        };
        ForEachElement(push).deserialize(input)?;
        Ok(RawElements(elements))
    }
}

/// The members of an object in their order.
#[derive(Default)]
pub(super) struct RawMembers<'a>(pub(super) Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for RawMembers<'a> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<RawMembers<'a>, D::Error> {
        struct MembersVisitor;
        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = RawMembers<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawMembers<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, &'de RawValue>()? {
                    if members.len() >= MEMBERS_MAX {
                        return Err(A::Error::custom("an object has more than 1000 members"));
                    }
                    members.push((Cow::Owned(name), value));
                }
                Ok(RawMembers(members))
            }
        }
        input.deserialize_map(MembersVisitor)
    }
}

/// The members of an object in their order, with their values as text. A value of another type stays as it is written.
#[derive(Default)]
pub(super) struct TextMembers<'a>(pub(super) Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'de: 'a, 'a> Deserialize<'de> for TextMembers<'a> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<TextMembers<'a>, D::Error> {
        struct MembersVisitor;
        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = TextMembers<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<TextMembers<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, &'de RawValue>()? {
                    let value = serde_json::from_str(value.get()).map_or(Cow::Borrowed(value.get()), Cow::Owned);
                    members.push((Cow::Owned(name), value));
                }
                Ok(TextMembers(members))
            }
        }
        input.deserialize_map(MembersVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_has_so_many_elements_and_not_one_more() {
        let array = |count: usize| format!("[{}1]", "1,".repeat(count - 1));
        let read = |json: &str| serde_json::from_str::<RawElements<'_>>(json).map(|elements| elements.0.len()).ok();
        assert_eq!(read(&array(ELEMENTS_MAX)), Some(ELEMENTS_MAX));
        assert_eq!(read(&array(ELEMENTS_MAX + 1)), None);
        assert_eq!((read("[]"), read("[{\"a\":[1]}, \"b\" ]"), read("{}")), (Some(0), Some(2), None));
    }
}
