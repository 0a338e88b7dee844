//! Replaces the secrets of a record and of its line together, so that neither has what the other lost.
//!
//! The line is searched as a whole, and each part of the record by itself, because a pattern may need what is around a
//! value, or its beginning. Then each finds its place in the line, and each part of the record loses what its place
//! lost:
//!
//! * A part that was borrowed from the line has its place there.
//! * A part that was copied (it had escapes, it was a number) is looked for in all views of the line. Wherever one of
//!   them has the secret, it is replaced.
//! * If a secret of such a part is nowhere in the line, the line writes it in a way that is not known here (a message as
//!   a list of numbers, a number with an exponent). Such a line is not kept: a JSON object of the clean record takes its
//!   place, and is counted.
//!
//! In a line, a pattern of the configuration does not reach beyond the value in which the secret begins, where values
//! are quoted: `pin=(\S+)` would take the rest of an object without spaces.

use super::make::place_of;
use super::whole_message;
use crate::redact::{FoundSecret, Redactor, ReplacedText, Views, as_it_is, is_word, merged, written_value};
use crate::{Format, Parsed};
use daytable_model::line::escape_json;
use daytable_model::record::{Record, Value};
use memchr::{memchr2, memmem};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// Secrets of copied parts that are looked for in a line, each in a pass over the line.
const SEARCHED_MAX: usize = 100;
/// Comparisons of copied parts with secrets of the line.
const COMPARED_MAX: usize = 100_000;

/// A line without its secrets.
pub(crate) struct CleanLine {
    pub(super) text: String,
    /// The range of the whole message, if that is more than the message of the record.
    pub(super) message: Option<Range<usize>>,
}

/// A part of a record.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Part {
    Message,
    Name(usize),
    Value(usize),
}

/// Replaces the secrets in a record that was parsed from `text`, and in that text. `None` if there are none. The first
/// `added` fields are not of the text. Other fields may be of `rest`, which a limit cut off the text.
pub(crate) fn redact(
    redactor: &Redactor,
    parsed: &mut Parsed<'_>,
    text: &str,
    rest: Option<&str>,
    added: usize,
) -> Option<CleanLine> {
    let possible = redactor.possible_in(text) | rest.map_or(0, |rest| redactor.possible_in(rest));
    let is_json = parsed.format == Format::Json;
    let mut of_line = redactor.find(text, possible, is_json);
    // Strings in arrays and names of nulls are not parts of the record.
    if is_json && possible != 0 && is_rich(text) {
        for (token, _) in tokens(text) {
            let found = redactor.find(&text[token.clone()], possible, true);
            of_line.extend(found.into_iter().map(|secret| secret.moved(token.start)));
        }
    }
    let of_parts = secrets_of_parts(redactor, &parsed.record, possible, added);
    if of_line.is_empty() && of_parts.is_empty() {
        return None;
    }
    let message = whole_message(text, parsed);
    let Cleaned { text: clean, is_unknown } = Line::new(redactor, parsed, text, added).clean(of_line, of_parts);
    if is_unknown {
        return Some(CleanLine { text: rewritten(redactor, &parsed.record), message: None });
    }
    let message = message.map(|at| clean.place_after(at.start)..clean.place_after(at.end));
    Some(CleanLine { text: clean.text, message })
}

/// Whether bytes around a line may have a secret.
pub(crate) fn has_secret(redactor: &Redactor, bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    !redactor.find(&text, redactor.possible_in(&text), false).is_empty()
}

fn secrets_of_parts(
    redactor: &Redactor,
    record: &Record<'_>,
    possible: u64,
    added: usize,
) -> Vec<(Part, Vec<FoundSecret>)> {
    let mut found = Vec::new();
    let mut note = |part: Part, secrets: Vec<FoundSecret>| {
        if !secrets.is_empty() {
            found.push((part, secrets));
        }
    };
    // A borrowed part has nothing that the line lacks.
    let of = |text: &Cow<'_, str>, possible: u64| {
        redactor.find(text, if matches!(text, Cow::Borrowed(_)) { possible } else { u64::MAX }, false)
    };
    note(Part::Message, of(&record.message, possible));
    for (number, field) in record.fields.iter().enumerate() {
        let possible = if number < added { u64::MAX } else { possible };
        note(Part::Name(number), of(&field.name, possible));
        note(Part::Value(number), redactor.find_in_value(&field.name, &field.value, possible));
    }
    found
}

/// A line whose secrets are replaced.
struct Line<'l, 'a> {
    redactor: &'l Redactor,
    text: &'l str,
    parsed: &'l mut Parsed<'a>,
    added: usize,
    /// The places of the parts that were borrowed from the line.
    places: HashMap<Part, Range<usize>>,
}

/// The search for secrets of copied parts in a line.
struct SecretSearch<'l> {
    text: &'l str,
    views: Option<Views<'l>>,
    count: usize,
}

impl SecretSearch<'_> {
    /// Where the line has a secret; `None` if it is not found. `known` are secrets of the line, if this one is of a name:
    /// the name of a member of an inner object begins with the names around it.
    fn places_of(&mut self, secret: &FoundSecret, known: Option<&HashSet<String>>) -> Option<Vec<Range<usize>>> {
        self.count += 1;
        if self.count > SEARCHED_MAX {
            return None;
        }
        let is_of_name = |known: &String| !known.is_empty() && secret.decoded.contains(known.as_str());
        if known.is_some_and(|known| known.len() <= SEARCHED_MAX && known.iter().any(is_of_name)) {
            return Some(Vec::new());
        }
        let views = self.views.get_or_insert_with(|| Views::of(self.text));
        Some(views.places_of(&secret.decoded)).filter(|places| !places.is_empty())
    }
}

/// The line without its secrets, and whether some of them were not found in it.
struct Cleaned {
    text: ReplacedText,
    is_unknown: bool,
}

impl<'l, 'a> Line<'l, 'a> {
    fn new(redactor: &'l Redactor, parsed: &'l mut Parsed<'a>, text: &'l str, added: usize) -> Line<'l, 'a> {
        let parts = parts_of(&parsed.record);
        let place = |part: Part| {
            let borrowed = match part {
                Part::Message => &parsed.record.message,
                Part::Name(number) => &parsed.record.fields.get(number)?.name,
                Part::Value(number) => match &parsed.record.fields.get(number)?.value {
                    Value::String(value) => value,
                    _ => return None,
                },
            };
            Some((part, place_of(text, borrowed).filter(|at| !at.is_empty())?))
        };
        let places = parts.filter_map(place).collect();
        Line { redactor, text, parsed, added, places }
    }

    fn clean(mut self, mut of_line: Vec<FoundSecret>, of_parts: Vec<(Part, Vec<FoundSecret>)>) -> Cleaned {
        self.end_within_values(&mut of_line);
        let known: HashSet<String> = of_line.iter().map(|secret| secret.decoded.clone()).collect();
        let elsewhere = self.in_no_part(&of_line, &of_parts);
        let (mut lost, mut unknown) = (of_line, Vec::new());
        let mut search = SecretSearch { views: None, count: 0, text: self.text };
        for (part, secrets) in &of_parts {
            if self.is_added(*part) {
                self.redactor.count_all(secrets);
                continue;
            }
            if let Some(place) = self.places.get(part) {
                lost.extend(secrets.iter().cloned().map(|secret| secret.moved(place.start)));
                continue;
            }
            for secret in secrets.iter().filter(|secret| !known.contains(&secret.decoded)) {
                match search.places_of(secret, matches!(part, Part::Name(_)).then_some(&known)) {
                    Some(places) => {
                        lost.extend(places.into_iter().map(|bytes| FoundSecret { bytes, ..secret.clone() }))
                    }
                    None => unknown.push(secret.clone()),
                }
            }
        }
        self.redactor.count_all(&lost);
        unknown.iter().for_each(|secret| self.redactor.count_all(std::slice::from_ref(secret)));
        self.redactor.count_line(&unknown);
        let text = self.clean_text(&lost);
        self.clean_placed(&lost);
        for (part, secrets) in of_parts.iter().filter(|(part, _)| !self.places.contains_key(part)).collect::<Vec<_>>() {
            self.replace(*part, secrets);
        }
        self.clean_copied(&elsewhere);
        Cleaned { text, is_unknown: !unknown.is_empty() }
    }

    fn is_added(&self, part: Part) -> bool {
        matches!(part, Part::Name(number) | Part::Value(number) if number < self.added)
    }

    /// Ends secrets of the line where the value ends in which they begin, if values have quotes or separators. Their
    /// patterns need not know them.
    fn end_within_values(&self, secrets: &mut Vec<FoundSecret>) {
        let may_reach = |secret: &FoundSecret| !self.redactor.spans_values(secret.pattern, &secret.decoded);
        if !secrets.iter().any(may_reach) {
            return;
        }
        let is_quoted = |at: &Range<usize>| self.text[..at.start].ends_with('"');
        let is_json = self.parsed.format == Format::Json;
        let mut values: Vec<Range<usize>> = if is_json {
            tokens(self.text).map(|(at, _)| at).collect()
        } else {
            let is_csv = self.parsed.format == Format::Csv;
            self.places.values().filter(|at| is_csv || is_quoted(at)).cloned().collect()
        };
        // A message may be the whole line, which is not a value of it.
        values.retain(|at| at.len() < self.text.len());
        values.sort_by_key(|at| at.start);
        for secret in secrets.iter_mut().filter(|secret| may_reach(secret)) {
            let before = values.partition_point(|at| at.start <= secret.bytes.start);
            let around = before.checked_sub(1).and_then(|last| values.get(last));
            if let Some(around) = around.filter(|at| secret.bytes.start < at.end && at.end < secret.bytes.end) {
                secret.bytes.end = around.end;
                secret.decoded.clear();
            }
        }
        if is_json {
            secrets.retain(|secret| !["null", "true", "false"].contains(&&self.text[secret.bytes.clone()]));
        }
    }

    /// The secrets of the line that no borrowed part holds and no part has by itself, in each spelling.
    fn in_no_part(&self, of_line: &[FoundSecret], of_parts: &[(Part, Vec<FoundSecret>)]) -> Vec<(usize, Vec<String>)> {
        let of_parts: HashSet<&str> =
            of_parts.iter().flat_map(|(_, secrets)| secrets).map(|secret| &*secret.decoded).collect();
        let mut places: Vec<&Range<usize>> = self.places.values().collect();
        places.sort_by_key(|at| at.start);
        // The greatest end of the places that begin up to each.
        let ends: Vec<usize> = places
            .iter()
            .scan(0, |end, at| {
                *end = at.end.max(*end);
                Some(*end)
            })
            .collect();
        let is_placed = |bytes: &Range<usize>| {
            let before = places.partition_point(|at| at.start <= bytes.start);
            before > 0 && ends[before - 1] >= bytes.end
        };
        let is_elsewhere = |secret: &&FoundSecret| !is_placed(&secret.bytes) && !of_parts.contains(&*secret.decoded);
        let spellings = |secret: &FoundSecret| {
            let views = Views::of(&self.text[secret.bytes.clone()]).0;
            (secret.pattern, views.into_iter().map(|view| view.text.into_owned()).collect())
        };
        of_line.iter().filter(is_elsewhere).map(spellings).collect()
    }

    /// Replaces in borrowed parts what their places lose.
    fn clean_placed(&mut self, lost: &[FoundSecret]) {
        let lost = merged(lost);
        let of_place = |place: &Range<usize>| -> Vec<FoundSecret> {
            let first = lost.partition_point(|secret| secret.bytes.end <= place.start);
            let within = |secret: &FoundSecret| {
                let bytes =
                    secret.bytes.start.max(place.start) - place.start..secret.bytes.end.min(place.end) - place.start;
                FoundSecret { bytes, ..secret.clone() }
            };
            lost[first..].iter().take_while(|secret| secret.bytes.start < place.end).map(within).collect()
        };
        let changed: Vec<_> = self.places.iter().map(|(part, place)| (*part, of_place(place))).collect();
        for (part, secrets) in changed.iter().filter(|(_, secrets)| !secrets.is_empty()) {
            self.replace(*part, secrets);
        }
    }

    /// Replaces secrets of the line in parts that were copied from it.
    fn clean_copied(&mut self, secrets: &[(usize, Vec<String>)]) {
        if secrets.is_empty() {
            return;
        }
        let copied: Vec<Part> = parts_of(&self.parsed.record)
            .filter(|part| !self.is_added(*part) && !self.places.contains_key(part))
            .collect();
        let is_too_much = copied.len().saturating_mul(secrets.len()) > COMPARED_MAX;
        for part in copied {
            let Some(text) = self.written(part).filter(|text| !text.is_empty()) else { continue };
            let mut lost = Vec::new();
            for (pattern, spellings) in secrets {
                let whole = FoundSecret { bytes: 0..text.len(), pattern: *pattern, decoded: String::new() };
                for spelling in spellings {
                    let has = |(at, _)| FoundSecret { bytes: at..at + spelling.len(), ..whole.clone() };
                    lost.extend(text.match_indices(spelling.as_str()).map(has));
                    let is_of = |(at, _)| is_word(spelling, &(at..at + text.len()));
                    if is_too_much || spelling.match_indices(&*text).any(is_of) {
                        lost.push(whole.clone());
                    }
                }
                if is_too_much {
                    break;
                }
            }
            if !lost.is_empty() {
                self.replace(part, &lost);
            }
        }
    }

    fn written(&self, part: Part) -> Option<String> {
        let record = &self.parsed.record;
        match part {
            Part::Message => Some(record.message.clone().into_owned()),
            Part::Name(number) => record.fields.get(number).map(|field| field.name.clone().into_owned()),
            Part::Value(number) => written_value(&record.fields.get(number)?.value).map(Cow::into_owned),
        }
    }

    fn replace(&mut self, part: Part, secrets: &[FoundSecret]) {
        let record = &mut self.parsed.record;
        let in_text = |text: &mut Cow<'_, str>| {
            *text = Cow::Owned(self.redactor.replaced(text, secrets, as_it_is).text);
        };
        match part {
            Part::Message => in_text(&mut record.message),
            Part::Name(number) => record.fields.get_mut(number).into_iter().for_each(|field| in_text(&mut field.name)),
            Part::Value(number) => {
                if let Some(field) = record.fields.get_mut(number) {
                    self.redactor.replace_in_value(&mut field.value, secrets);
                }
            }
        }
    }

    /// The line with its secrets replaced. An object stays one, unless a secret has a border of its members.
    fn clean_text(&self, lost: &[FoundSecret]) -> ReplacedText {
        if self.parsed.format != Format::Json {
            return self.redactor.replaced(self.text, lost, as_it_is);
        }
        let strings: Vec<_> = tokens(self.text).filter(|(_, is_string)| *is_string).map(|(at, _)| at).collect();
        self.redactor.replaced(self.text, lost, |replacement, bytes| {
            let before = strings.partition_point(|at| at.end < bytes.end);
            let is_within = strings.get(before).is_some_and(|at| at.start <= bytes.start);
            let mut written = Vec::new();
            escape_json(replacement.as_bytes(), false, &mut written);
            let written = String::from_utf8(written).unwrap_or_default();
            let is_value = !is_within && !self.text[bytes.clone()].contains(['"', ',', ':', '[', ']', '{', '}']);
            if is_value { format!("\"{written}\"") } else { written }
        })
    }
}

/// The parts of a record.
fn parts_of(record: &Record<'_>) -> impl Iterator<Item = Part> + use<> {
    let fields = 0..record.fields.len();
    [Part::Message].into_iter().chain(fields.flat_map(|number| [Part::Name(number), Part::Value(number)]))
}

/// A record as an object: the line of a record whose own line is not kept.
fn rewritten(redactor: &Redactor, record: &Record<'_>) -> String {
    let mut json = String::from("{");
    let mut add = |name: &str, value: serde_json::Value| {
        let comma = if json.len() > 1 { "," } else { "" };
        json.push_str(&format!("{comma}{}:{value}", serde_json::Value::from(name)));
    };
    if let Some(time) = record.time {
        add("time", time.to_string().into());
    }
    if let Some(level) = record.level {
        add("level", level.name().into());
    }
    if !record.message.is_empty() {
        add("message", (&*record.message).into());
    }
    for field in &record.fields {
        let value = match &field.value {
            Value::String(text) => (&**text).into(),
            Value::Int64(number) => (*number).into(),
            Value::Double(number) => (*number).into(),
            Value::Boolean(is) => (*is).into(),
            Value::Binary(bytes) => String::from_utf8_lossy(bytes).into(),
        };
        add(&field.name, value);
    }
    json.push('}');
    let found = redactor.find(&json, redactor.possible_in(&json), true);
    redactor.replaced(&json, &found, as_it_is).text
}

/// Whether an object may have strings that become no part of its record, or that become a part as they are written.
fn is_rich(text: &str) -> bool {
    memchr2(b'[', b'\\', text.as_bytes()).is_some() || memmem::find(text.as_bytes(), b"null").is_some()
}

/// The strings of an object, without their quotes, and its other values; with whether they are strings.
fn tokens(text: &str) -> impl Iterator<Item = (Range<usize>, bool)> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        let is_bare = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.');
        at += bytes.get(at..)?.iter().position(|byte| *byte == b'"' || is_bare(byte))?;
        let start = at;
        if bytes[at] != b'"' {
            at += bytes[at..].iter().take_while(|byte| is_bare(byte)).count();
            return Some((start..at, false));
        }
        at += 1;
        loop {
            match bytes.get(at)? {
                b'"' => break,
                b'\\' => at += 2,
                _ => at += 1,
            }
        }
        at += 1;
        Some((start + 1..at - 1, true))
    })
}
