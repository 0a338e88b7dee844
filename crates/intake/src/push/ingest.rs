//! `POST /ingest`: daytable's own endpoint, for lines and JSON in common forms.
//!
//! | content type | what it is |
//! |---|---|
//! | `application/json`, `…+json` | an array, an object, or a sequence of objects. Malformed JSON refuses the whole body |
//! | `application/x-ndjson`, `…jsonl`, `…jsonlines` | an object per line ([NDJSON](https://github.com/ndjson/ndjson-spec)). Any other line is refused alone |
//! | `application/msgpack`, `…x-msgpack` | an array of records, or records one after another (`msgpack`) |
//! | `text/plain`, `text/csv` | lines, parsed like the lines of a file |
//! | `application/octet-stream`, `application/x-www-form-urlencoded` (from `curl --data`), or no type | an array if the body begins with `[{`, objects if it has objects, else lines like those of a file |
//! | any type with `charset=utf-16`, and a body that begins with the mark of UTF-16 | refused (415) |
//! | any type with another charset than UTF-8, and a body that is not UTF-8 | refused (415). Many clients name ISO 8859-1 and send ASCII |
//! | any other type | refused (415); so is a body of the row above that begins like an image, an archive or XML |
//!
//! The *instance* (whatever writes logs: a host, a service) is `?instance=`, else the field `instance` or `host` (under any of
//! its names), else the sender's address. Elements of an array are objects, or texts that are parsed as lines. Empty lines
//! are ignored.

use super::Refusal;
use super::msgpack;
use super::raw_json::ForEachElement;
use super::request::essence;
use super::request_writer::{INSTANCE, RECORD_BYTES_MAX, RequestWriter, TOO_LONG};
use daytable_parse::{Assembler, Ending, Envelope, Format, RawRecord};
use memchr::memchr;
use serde::de::{DeserializeSeed, Error};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Why a line is refused.
const NO_OBJECT: &str = "is not a JSON object";

/// The forms that are read, for senders of any other.
const READ: &str = "application/json, application/x-ndjson, application/msgpack and text/plain are";
/// How bodies begin that are neither lines nor JSON, and their content types.
const FOREIGN: [(&[u8], &str); 5] = [
    (b"\x89PNG", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"\x1f\x8b", "application/gzip"),
    (b"\x28\xb5\x2f\xfd", "application/zstd"),
    (b"<?xml", "application/xml"),
];

/// The form of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyForm {
    /// A JSON document or several.
    Json,
    /// An object per line.
    Objects,
    Lines,
    MessagePack,
    /// The content type does not tell.
    Unknown,
}

impl BodyForm {
    fn of_media(media: &str) -> Result<BodyForm, Refusal> {
        Ok(match &*essence(media) {
            "application/x-ndjson"
            | "application/ndjson"
            | "application/jsonl"
            | "application/x-jsonl"
            | "application/jsonlines"
            | "application/x-jsonlines"
            | "application/json-lines" => BodyForm::Objects,
            "application/json" | "text/json" => BodyForm::Json,
            "application/msgpack" | "application/x-msgpack" | "application/vnd.msgpack" => BodyForm::MessagePack,
            "text/plain" | "text/csv" => BodyForm::Lines,
            "" | "application/octet-stream" | "application/x-www-form-urlencoded" => BodyForm::Unknown,
            other if other.ends_with("+json") => BodyForm::Json,
            other => return Err(Refusal::Media(other.chars().take(64).collect(), READ)),
        })
    }

    /// The form, after an inspection of the body.
    fn refine(self, body: &[u8]) -> BodyForm {
        let body = body.trim_ascii_start();
        let first = &body[..memchr(b'\n', body).unwrap_or(body.len())];
        match (self, first) {
            (BodyForm::Unknown, [b'[', rest @ ..]) if matches!(rest.trim_ascii_start().first(), Some(b'{')) => {
                BodyForm::Json
            }
            (BodyForm::Unknown, [b'[', rest @ ..]) if rest.trim_ascii().is_empty() => BodyForm::Json,
            // An object over several lines. No single line is an object.
            (BodyForm::Unknown, [b'{', ..]) if !first.trim_ascii_end().ends_with(b"}") => {
                let mut values = serde_json::Deserializer::from_slice(body).into_iter::<&RawValue>();
                if values.next().is_some_and(|value| value.is_ok()) { BodyForm::Json } else { BodyForm::Lines }
            }
            (BodyForm::Unknown, _) => BodyForm::Lines,
            // A body of type JSON that is not an array nearly always has one object per line.
            (BodyForm::Json, [b'{', .., b'}'] | [b'{', .., b'}', b'\r']) if first.len() < body.len() => {
                if serde_json::from_slice::<&RawValue>(first).is_ok() {
                    BodyForm::Objects
                } else {
                    BodyForm::Json
                }
            }
            _ => self,
        }
    }
}

/// The charset of a body that is not UTF-8, by its content type or its first bytes.
fn foreign_charset(body: &[u8], media: &str) -> Option<String> {
    let charset = media.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches('"').to_ascii_lowercase())
    });
    let is_wide = |charset: &String| charset.starts_with("utf-16") || charset.starts_with("utf-32");
    let is_foreign =
        |charset: &String| is_wide(charset) || charset != "utf-8" && charset != "utf8" && str::from_utf8(body).is_err();
    let begins_wide = matches!(body, [0xff, 0xfe, _, 0, ..] | [0xfe, 0xff, 0, _, ..]);
    charset
        .filter(is_foreign)
        .map(|charset| charset.chars().take(64).collect())
        .or_else(|| begins_wide.then(|| "utf-16".to_owned()))
}

/// Writes the records of a body.
pub(super) fn write(body: &[u8], media: &str, writer: &mut RequestWriter<'_>) -> Result<(), Refusal> {
    if let Some(charset) = foreign_charset(body, media) {
        return Err(Refusal::Media(charset, "bodies in UTF-8 are"));
    }
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    let declared = BodyForm::of_media(media)?;
    if declared == BodyForm::Unknown
        && let Some((_, media)) = FOREIGN.iter().find(|(beginning, _)| body.starts_with(beginning))
    {
        return Err(Refusal::Media((*media).into(), READ));
    }
    match declared.refine(body) {
        BodyForm::Json => json(body, writer),
        BodyForm::Objects if declared == BodyForm::Json => {
            let before = writer.index();
            lines(body, writer, true)?;
            // The body is one document, so a malformed line refuses all of it.
            match writer.first_refused_from(before) {
                Some((index, reason)) => Err(Refusal::bad_at(index, reason)),
                None => Ok(()),
            }
        }
        BodyForm::Objects => lines(body, writer, true),
        BodyForm::Lines | BodyForm::Unknown => lines(body, writer, false),
        BodyForm::MessagePack => msgpack::write(body, writer.decoded_bytes_max(), writer),
    }
}

/// Writes lines. With `is_strict` each line must be an object.
fn lines(body: &[u8], writer: &mut RequestWriter<'_>, is_strict: bool) -> Result<(), Refusal> {
    let (any, objects) = writer.readings();
    let reading = if is_strict { objects } else { any };
    let mut assembler = Assembler::new(body, 0, RECORD_BYTES_MAX, reading, Ending::Closed).at_beginning(true);
    while let Some(raw) = assembler.next(writer.profile(), reading) {
        let index = writer.begin()?;
        let (envelope, is_invalid) = (&raw.envelope, raw.is_invalid);
        // The envelope of a container runtime is an object. The line in it can have any format.
        let is_object = is_strict && *envelope == Envelope::default();
        let parsed = writer.parse_raw(&raw, if is_object { objects } else { any });
        if is_object && parsed.format != Format::Json {
            writer.refuse(index, if raw.cut.is_some() { TOO_LONG } else { NO_OBJECT });
            continue;
        }
        let mut record = parsed.record;
        writer.count_record(parsed.format, is_invalid, raw.cut_bytes(), &mut record);
        writer.write(index, INSTANCE, record, None);
    }
    Ok(())
}

/// Writes the elements of an array, or a sequence of objects.
fn json(body: &[u8], writer: &mut RequestWriter<'_>) -> Result<(), Refusal> {
    let text = writer.text_of(body)?;
    let is_invalid = matches!(text, Cow::Owned(_));
    let mut refused = None;
    let mut write = |value: &RawValue| {
        element(value.get(), is_invalid, writer).map_err(|refusal| {
            refused = Some(refusal);
            "refused"
        })
    };
    let mut input = serde_json::Deserializer::from_str(&text);
    let read = if text.trim_ascii_start().starts_with('[') {
        ForEachElement(&mut write).deserialize(&mut input).and_then(|()| input.end())
    } else {
        input.into_iter().try_for_each(|value| write(value?).map_err(serde_json::Error::custom))
    };
    match (refused, read) {
        (Some(refusal), _) => Err(refusal),
        (None, Err(error)) => Err(Refusal::bad_at(writer.index(), format!("the body is not JSON: {error}"))),
        (None, Ok(())) => Ok(()),
    }
}

/// Writes one value of a document.
fn element(written: &str, is_invalid: bool, writer: &mut RequestWriter<'_>) -> Result<(), Refusal> {
    let index = writer.begin()?;
    let (any, objects) = writer.readings();
    let text: Cow<'_, str> = match written.as_bytes().first() {
        Some(b'{') => written.into(),
        Some(b'"') => match serde_json::from_str::<String>(written) {
            Ok(text) => text.into(),
            // Half a surrogate pair: the text stays unchanged.
            Err(_) => written.into(),
        },
        _ => {
            writer.refuse(index, "is neither a JSON object nor a text");
            return Ok(());
        }
    };
    let reading = if written.starts_with('{') { objects } else { any };
    let raw = RawRecord::of_long_message(&text, RECORD_BYTES_MAX, reading.redactor.as_ref());
    let parsed = writer.parse_raw(&raw, reading);
    if raw.cut.is_some() && written.starts_with('{') && parsed.format != Format::Json {
        writer.refuse(index, TOO_LONG);
        return Ok(());
    }
    let mut record = parsed.record;
    writer.count_record(parsed.format, is_invalid, raw.cut_bytes(), &mut record);
    writer.write(index, INSTANCE, record, None);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Taken, taken};
    use super::*;
    use crate::push::Endpoint;
    use proptest::prelude::*;

    fn ingest(media: &str, body: &str) -> Result<Taken, Refusal> {
        taken(Endpoint::Ingest, |writer| write(body.as_bytes(), media, writer))
    }

    fn messages(media: &str, body: &str) -> Vec<String> {
        ingest(media, body).unwrap_or_else(|refusal| panic!("{body}: {refusal}")).messages()
    }

    const ANY: [&str; 4] = ["application/json", "application/x-ndjson; charset=utf-8", "", "text/plain"];

    #[test]
    fn bodies_of_common_forms() {
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
    fn a_body_of_another_type_is_refused_with_415() {
        let status = |media, body: &[u8]| {
            taken(Endpoint::Ingest, |writer| write(body, media, writer)).err().map(|refusal| refusal.status())
        };
        for (media, body, expected) in [
            ("image/png", &b"\x89PNG\r\n"[..], Some(415)),
            ("application/xml", b"<a/>", Some(415)),
            ("text/xml; charset=utf-8", b"<a/>", Some(415)),
            ("text/html", b"<p>", Some(415)),
            ("", b"\x89PNG\r\n", Some(415)),
            ("application/octet-stream", b"\x1f\x8b\x08", Some(415)),
            ("application/x-www-form-urlencoded", b"<?xml version=\"1.0\"?>", Some(415)),
            ("text/plain", b"\xff\xfea\0\n\0", Some(415)),
            ("text/plain", b"\xff\xfe is no text\n", None),
            ("application/json", b"\xfe\xff\0{\0}", Some(415)),
            ("text/plain; charset=\"UTF-16LE\"", b"a\0\n\0", Some(415)),
            ("text/plain; charset=utf-8", b"a\n", None),
            ("text/plain; charset=ISO-8859-1", b"a\n", None),
            ("text/plain; charset=ISO-8859-1", b"caf\xe9\n", Some(415)),
            ("text/plain; charset=utf-8", b"caf\xe9\n", None),
            ("text/plain; charset=us-ascii", "caf\u{e9}\n".as_bytes(), None),
            ("text/plain", b"<?xml version=\"1.0\"?>", None),
            ("text/csv", b"time,level", None),
            ("application/octet-stream", b"<34>Oct 11 22:14:15 host su[7]: failed", None),
            ("application/msgpack", b"\x81\xa1a\x01", None),
            ("application/msgpack", b"\x81\xa1a", Some(400)),
        ] {
            assert_eq!(status(media, body), expected, "{media} {body:?}");
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
    fn a_malformed_document_is_refused_as_a_whole_with_its_place() {
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
            let lengths = taken.messages().iter().map(String::len).collect::<Vec<_>>();
            assert_eq!((taken.refused().len(), lengths), (0, vec![RECORD_BYTES_MAX - 12, 0]));
        }
        // A name that is longer than a record.
        let body = format!("{{\"{long}\":1}}\n{{}}");
        let taken = ingest("application/x-ndjson", &body).expect("taken");
        assert_eq!((taken.refused(), taken.messages().len()), (vec![(0, TOO_LONG)], 1));
        let many = "{}\n".repeat(super::super::tests::RECORDS_MAX + 1);
        assert!(matches!(ingest("", &many), Err(Refusal::TooLarge(_))));
    }

    #[test]
    fn an_object_over_the_limit_keeps_its_time_its_level_and_its_message() {
        let dump = "S".repeat(RECORD_BYTES_MAX + 1);
        let named = r#""time":"2026-11-26T08:00:00Z","level":"error","msg":"out of memory""#;
        for object in [format!("{{{named},\"dump\":\"{dump}\"}}"), format!("{{\"dump\":\"{dump}\",{named}}}")] {
            for media in ANY {
                for body in [object.clone(), format!("{object}\n{{\"message\":\"b\"}}")] {
                    let taken = ingest(media, &body).expect("taken");
                    let shown = taken.shown();
                    assert!(taken.refused().is_empty(), "{media}");
                    assert_eq!(taken.messages()[0], "out of memory", "{media}");
                    let row = &shown[0];
                    let is_whole = |part: &str| row.contains(part);
                    assert!(is_whole("2026-11-26T08:00:00") && is_whole("truncated=true"), "{media}");
                }
            }
        }
    }

    proptest! {
        /// A body of any type is parsed or refused. A refused body has no records.
        #[test]
        fn any_body(media in prop::sample::select(ANY.to_vec()), body in "([\\[{}\\],:\"a1 \n\r\t\\\\]|\\PC|\"a\":1|\\{\"m\":\"x\"\\}){0,40}") {
            let taken = ingest(media, &body);
            if media == "text/plain" {
                prop_assert!(taken.is_ok_and(|taken| taken.refused().is_empty()));
            }
        }

        /// Objects keep their order, with anything between them.
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
