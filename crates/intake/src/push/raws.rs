//! The elements of a JSON array, cut out as they are written: not more than a request may have records.
//!
//! An element is two bytes at least, and as many in memory as a pointer and a length: a body of nothing but `[1,1,1,…]` would
//! take eight times its size.

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// Elements of an array at most: what `records_max` may be at most.
const ELEMENTS_MAX: usize = 1_000_000;

/// The elements of an array.
#[derive(Default)]
pub(super) struct Raws<'a>(pub(super) Vec<&'a RawValue>);

impl<'a> IntoIterator for Raws<'a> {
    type Item = &'a RawValue;
    type IntoIter = std::vec::IntoIter<&'a RawValue>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Raws<'a> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Raws<'a>, D::Error> {
        input.deserialize_seq(Elements(Vec::new()))
    }
}

struct Elements<'a>(Vec<&'a RawValue>);

impl<'de: 'a, 'a> Visitor<'de> for Elements<'a> {
    type Value = Raws<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<Raws<'a>, A::Error> {
        while let Some(element) = seq.next_element::<&'de RawValue>()? {
            if self.0.len() >= ELEMENTS_MAX {
                return Err(A::Error::custom("an array has more than 1000000 elements"));
            }
            self.0.push(element);
        }
        Ok(Raws(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_has_so_many_elements_and_not_one_more() {
        let array = |count: usize| format!("[{}1]", "1,".repeat(count - 1));
        let read = |json: &str| serde_json::from_str::<Raws<'_>>(json).map(|raws| raws.0.len()).ok();
        assert_eq!(read(&array(ELEMENTS_MAX)), Some(ELEMENTS_MAX));
        assert_eq!(read(&array(ELEMENTS_MAX + 1)), None);
        assert_eq!((read("[]"), read("[{\"a\":[1]}, \"b\" ]"), read("{}")), (Some(0), Some(2), None));
    }
}
