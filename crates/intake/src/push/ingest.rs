//! `POST /ingest`: our own endpoint, which takes what people have.
//!
//! | content type | what it is |
//! |---|---|
//! | `application/json`, `…+json` | an array, an object, or objects one behind another. What is no JSON is refused as a whole |
//! | `application/x-ndjson`, `…jsonl`, `…jsonlines` | an object a line. Another line is refused alone |
//! | `text/plain` | lines, read as those of a file |
//! | any other, or none | by looking: an array where it begins with `[{`, objects where they are, else lines as those of a file |
//!
//! The instance is `?instance=`, else the field `instance` or `host` (under any of its names), else the sender's address.
//! Elements of an array are objects, or texts that are read as lines. Empty lines are none.

use super::taking::{Instance, RECORD_BYTES_MAX, Taking};
use super::{Refusal, essence};
use daytable_parse::{Assembler, Ending, Envelope, Format, RawRecord};
use memchr::memchr;
use serde::de::{DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// Fields that name the instance, the first of them first.
const INSTANCE: Instance<'static> = Instance::Named(&["instance", "host"]);
/// Why an element of JSON is refused alone.
const NO_OBJECT: &str = "is no JSON object";
/// Why a record is.
pub(super) const TOO_LONG: &str = "is longer than 1 MiB";

/// What a body is said to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Json,
    Objects,
    Lines,
    Unsaid,
}

impl Kind {
    fn read(media: &str) -> Kind {
        match &*essence(media) {
            "application/x-ndjson"
            | "application/ndjson"
            | "application/jsonl"
            | "application/x-jsonl"
            | "application/jsonlines"
            | "application/x-jsonlines"
            | "application/json-lines" => Kind::Objects,
            "application/json" | "text/json" => Kind::Json,
            "text/plain" => Kind::Lines,
            other if other.ends_with("+json") => Kind::Json,
            _ => Kind::Unsaid,
        }
    }

    /// What a body is by its looks, where it is not said.
    fn seen(self, body: &[u8]) -> Kind {
        let body = body.trim_ascii_start();
        let first = &body[..memchr(b'\n', body).unwrap_or(body.len())];
        match (self, first) {
            (Kind::Unsaid, [b'[', rest @ ..]) if matches!(rest.trim_ascii_start().first(), Some(b'{')) => Kind::Json,
            (Kind::Unsaid, [b'[', rest @ ..]) if rest.trim_ascii().is_empty() => Kind::Json,
            // An object over several lines; one line of it is none.
            (Kind::Unsaid, [b'{', ..]) if !first.trim_ascii_end().ends_with(b"}") => {
                let mut values = serde_json::Deserializer::from_slice(body).into_iter::<&RawValue>();
                if values.next().is_some_and(|value| value.is_ok()) { Kind::Json } else { Kind::Lines }
            }
            (Kind::Unsaid, _) => Kind::Lines,
            // Nearly all that is called JSON and is not an array has an object a line.
            (Kind::Json, [b'{', .., b'}'] | [b'{', .., b'}', b'\r']) if first.len() < body.len() => {
                if serde_json::from_slice::<&RawValue>(first).is_ok() {
                    Kind::Objects
                } else {
                    Kind::Json
                }
            }
            _ => self,
        }
    }
}

/// Takes a decoded body apart.
pub(super) fn take(body: &[u8], media: &str, taking: &mut Taking<'_>) -> Result<(), Refusal> {
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    let said = Kind::read(media);
    match said.seen(body) {
        Kind::Json => json(body, taking),
        Kind::Objects if said == Kind::Json => {
            let before = taking.index();
            lines(body, taking, true)?;
            // It is one document then, and a part of it is none.
            match taking.first_refused_from(before) {
                Some((index, reason)) => Err(Refusal::bad_at(index, reason)),
                None => Ok(()),
            }
        }
        Kind::Objects => lines(body, taking, true),
        Kind::Lines | Kind::Unsaid => lines(body, taking, false),
    }
}

/// Takes lines; `is_strict` where each of them has to be an object.
fn lines(body: &[u8], taking: &mut Taking<'_>, is_strict: bool) -> Result<(), Refusal> {
    let (any, objects) = taking.readings();
    let reading = if is_strict { objects } else { any };
    let mut assembler = Assembler::new(body, 0, RECORD_BYTES_MAX, reading, Ending::Closed).at_beginning(true);
    while let Some(raw) = assembler.next(taking.learned(), reading) {
        let index = taking.begin()?;
        let RawRecord { text, envelope, cut, is_invalid, .. } = &raw;
        // What a container runtime wrote around a line was an object; what was in it may be anything.
        let is_object = is_strict && *envelope == Envelope::default();
        let parsed = taking.parse(text, *envelope, if is_object { objects } else { any });
        if is_object && parsed.format != Format::Json {
            taking.refuse(index, if *cut > 0 { TOO_LONG } else { NO_OBJECT });
            continue;
        }
        let mut record = parsed.record;
        taking.note(parsed.format, *is_invalid, *cut, &mut record);
        taking.write(index, INSTANCE, record, None);
    }
    Ok(())
}

/// Takes an array, or objects one behind another.
fn json(body: &[u8], taking: &mut Taking<'_>) -> Result<(), Refusal> {
    let text = taking.text_of(body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body))?;
    let is_invalid = matches!(text, Cow::Owned(_));
    let mut refused = None;
    let read = if text.trim_ascii_start().starts_with('[') {
        let mut input = serde_json::Deserializer::from_str(&text);
        let elements = Elements { taking, is_invalid, refused: &mut refused };
        elements.deserialize(&mut input).and_then(|()| input.end())
    } else {
        let values = serde_json::Deserializer::from_str(&text).into_iter::<&RawValue>();
        let mut take = |value: serde_json::Result<&RawValue>| {
            element(value?.get(), is_invalid, taking).map_err(|refusal| {
                refused = Some(refusal);
                serde_json::Error::custom("refused")
            })
        };
        values.into_iter().try_for_each(&mut take)
    };
    match (refused, read) {
        (Some(refusal), _) => Err(refusal),
        (None, Err(error)) => Err(Refusal::bad_at(taking.index(), format!("the body is no JSON: {error}"))),
        (None, Ok(())) => Ok(()),
    }
}

/// Takes one value of a document.
fn element(written: &str, is_invalid: bool, taking: &mut Taking<'_>) -> Result<(), Refusal> {
    let index = taking.begin()?;
    let (any, objects) = taking.readings();
    let text: Cow<'_, str> = match written.as_bytes().first() {
        _ if written.len() > RECORD_BYTES_MAX => {
            taking.refuse(index, TOO_LONG);
            return Ok(());
        }
        Some(b'{') => written.into(),
        Some(b'"') => match serde_json::from_str::<String>(written) {
            Ok(text) => text.into(),
            // Half a surrogate pair: kept as it is written.
            Err(_) => written.into(),
        },
        _ => {
            taking.refuse(index, "is neither a JSON object nor a text");
            return Ok(());
        }
    };
    let reading = if written.starts_with('{') { objects } else { any };
    let parsed = taking.parse(&text, Envelope::default(), reading);
    let mut record = parsed.record;
    taking.note(parsed.format, is_invalid, 0, &mut record);
    taking.write(index, INSTANCE, record, None);
    Ok(())
}

/// The elements of an array, each cut out as it is written.
struct Elements<'t, 'p> {
    taking: &'t mut Taking<'p>,
    is_invalid: bool,
    /// Why the rest was not looked at, where it is not the JSON.
    refused: &'t mut Option<Refusal>,
}

impl<'de> DeserializeSeed<'de> for Elements<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<(), D::Error> {
        input.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Elements<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(written) = seq.next_element::<&'de RawValue>()? {
            if let Err(refusal) = element(written.get(), self.is_invalid, self.taking) {
                *self.refused = Some(refusal);
                return Err(A::Error::custom("refused"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Taken, taken};
    use super::*;
    use crate::push::Endpoint;
    use proptest::prelude::*;

    fn ingest(media: &str, body: &str) -> Result<Taken, Refusal> {
        taken(Endpoint::Ingest, |taking| take(body.as_bytes(), media, taking))
    }

    fn messages(media: &str, body: &str) -> Vec<String> {
        ingest(media, body).unwrap_or_else(|refusal| panic!("{body}: {refusal}")).messages()
    }

    const ANY: [&str; 4] = ["application/json", "application/x-ndjson; charset=utf-8", "", "text/plain"];

    #[test]
    fn what_people_have() {
        for media in ANY {
            assert_eq!(
                messages(media, "{\"message\":\"a\"}\n\n{\"message\":\"b\"}\r\n{\"message\":\"c\"}"),
                ["a", "b", "c"]
            );
        }
        for (media, body, expected) in [
            ("application/json", " [ {\"message\":\"a\"},\n{\"msg\":\"b\"}, \"c\" ] ", &["a", "b", "c"][..]),
            ("application/json", "{\n  \"message\": \"a\"\n}\n{\"message\":\"b\"}", &["a", "b"]),
            ("application/json", "[]", &[]),
            ("application/json", "", &[]),
            ("", "[{\"message\":\"a\"}]", &["a"]),
            ("", "[\n  {\"message\":\"a\"}]", &["a"]),
            ("", "{\n  \"message\": \"a\"\n}", &["a"]),
            ("application/x-www-form-urlencoded", "[2026-11-20 00:05:45] up", &["up"]),
            ("", "one\ntwo\n{\"message\":\"three\"}\n", &["one", "two", "three"]),
            ("text/plain", "[{\"message\":\"a\"}]", &["[{\"message\":\"a\"}]"]),
            (
                "text/plain; charset=utf-8",
                "2026-11-20 00:05:45 ERROR no\n\tat x\n2026-11-20 00:05:46 up",
                &["no\n\tat x", "up"],
            ),
        ] {
            assert_eq!(messages(media, body), expected, "{media:?} {body:?}");
        }
    }

    #[test]
    fn a_bad_record_is_refused_alone_where_lines_are_records() {
        let taken =
            ingest("application/x-ndjson", "{\"message\":\"a\"}\nnot json\n[1]\n{\"message\":\"b\"}\n{\"cut\":")
                .expect("taken");
        assert_eq!(taken.messages(), ["a", "b"]);
        assert_eq!(taken.refused(), [(1, NO_OBJECT), (2, NO_OBJECT), (4, NO_OBJECT)]);
        let taken = ingest("application/json", "[{\"message\":\"a\"}, 7, null, {\"message\":\"b\"}]").expect("taken");
        assert_eq!((taken.messages(), taken.refused().len()), (vec!["a".into(), "b".into()], 2));
    }

    #[test]
    fn a_document_that_is_none_is_refused_as_a_whole_and_says_where() {
        for (body, index) in [
            ("[{\"a\":1},{\"a\":2},", 2),
            ("[{\"a\":1}{\"a\":2}]", 1),
            ("[{\"a\":1}] x", 1),
            ("{\"a\":1}\n{\"a\":", 1),
            ("{\"a\":1}\nwords", 1),
            ("words", 0),
            ("{", 0),
        ] {
            match ingest("application/json", body) {
                Err(Refusal::Bad { index: at, .. }) => assert_eq!(at, Some(index), "{body}"),
                other => panic!("{body}: {:?}", other.map(|taken| taken.messages())),
            }
        }
    }

    #[test]
    fn who_wrote_it() {
        for (body, instance) in [
            ("{\"instance\":\"i\",\"host\":\"h\"}", "i"),
            ("{\"hostname\":\"h\"}", "h"),
            ("{\"host\":{\"name\":\"h\"}}", "h"),
            ("{\"host\":\"\"}", "192.0.2.7"),
            ("words", "192.0.2.7"),
        ] {
            assert_eq!(ingest("", body).expect("taken").instances(), [instance], "{body}");
        }
    }

    #[test]
    fn records_over_their_limit_and_too_many_of_them() {
        let long = "x".repeat(RECORD_BYTES_MAX + 1);
        let taken = ingest("text/plain", &format!("a\n{long}\nb")).expect("taken");
        assert_eq!(taken.messages().iter().map(String::len).collect::<Vec<_>>(), [1, RECORD_BYTES_MAX, 1]);
        let object = format!("{{\"message\":\"{long}\"}}");
        for (media, body) in
            [("application/x-ndjson", format!("{object}\n{{}}")), ("application/json", format!("[{object},{{}}]"))]
        {
            let taken = ingest(media, &body).expect("taken");
            assert_eq!((taken.refused(), taken.messages().len()), (vec![(0, TOO_LONG)], 1));
        }
        let many = "{}\n".repeat(super::super::tests::RECORDS_MAX + 1);
        assert!(matches!(ingest("", &many), Err(Refusal::TooLarge(_))));
    }

    proptest! {
        /// Any body of any type gives records or is refused; where nothing is strict, nothing is.
        #[test]
        fn any_body(media in prop::sample::select(ANY.to_vec()), body in "([\\[{}\\],:\"a1 \n\r\t\\\\]|\\PC|\"a\":1|\\{\"m\":\"x\"\\}){0,40}") {
            let taken = ingest(media, &body);
            if media == "text/plain" {
                prop_assert!(taken.is_ok_and(|taken| taken.refused().is_empty()));
            }
        }

        /// Objects come back in their order, however they are put together.
        #[test]
        fn objects_come_back(texts in prop::collection::vec("[a-z\"\\\\\n{}\\[]{1,9}", 1..9)) {
            let objects: Vec<String> = texts.iter().map(|text| serde_json::json!({"message": text, "n": 1}).to_string()).collect();
            for (media, body) in [
                ("application/json", format!("[{}]", objects.join(",\n"))),
                ("application/json", objects.join(" ")),
                ("application/x-ndjson", objects.join("\n")),
                ("", objects.join("\n")),
            ] {
                prop_assert_eq!(&messages(media, &body), &texts);
            }
        }
    }
}
