//! Which parts of a line matter to whoever reads it, by the layout of the line.
//!
//! Lines of one layout differ in the values of their holes. Who looks for the member `status` of a JSON line gets the same
//! from any two lines that differ in other values alone. So a line with *stand-ins* in place of those values tells the same:
//!
//! ```text
//! layout    {"msg":"%m","status":%(status),"took":%(took)}
//! reader    wants the member "status"
//! lines     {"msg":"disk full","status":500,"took":12}       {"msg":"no route","status":500,"took":7}
//! reduced   {"msg":"0","status":500,"took":0}                of both
//! ```
//!
//! To find out which holes matter, the reader reads a line that has a number of its own in each hole. A value must end where
//! its hole ends: [`HoleCheck`] says which values may not.

use daytable_model::line::{LayoutPart, LineLayout, LineSource, PIECE_END, TIGHT, VERBATIM};
use daytable_model::property::Property;
use daytable_model::record::Level;
use daytable_model::time::Ticks;
use std::time::Duration;

/// Passes the names and texts of the values of a line that matter. False if that is not known.
pub type MemberReader<'r> = dyn Fn(&str, &mut dyn FnMut(&str, &str)) -> bool + Sync + 'r;

/// What a line is read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineSyntax {
    /// An object of JSON.
    Json,
    /// Pairs.
    Logfmt,
    /// Both: an object has no pairs as long as it has no `=`, and what does not begin like JSON is not an object.
    Both,
}

/// How a line is read, of which some values matter.
#[derive(Clone, Copy)]
pub struct MemberScan<'r> {
    /// What it is read as.
    pub form: LineSyntax,
    /// Passes the values that matter.
    pub each: &'r MemberReader<'r>,
}

/// Which values of a hole end where the hole ends, so that another one can stand in for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HoleCheck {
    /// All.
    Any,
    /// Those without quotes and backslashes.
    Unquoted,
    /// Those without quotes, backslashes, spaces and `=`.
    Token,
    /// Those that are not texts.
    NoText,
}

/// What matters of the lines of a layout.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct LineNeeds {
    /// Whether all of such a line may matter.
    pub(super) is_whole: bool,
    /// The properties whose values matter, and the names that the reader gives to them.
    pub(super) needed: Vec<(Box<str>, Vec<Box<str>>)>,
    /// The other properties.
    pub(super) others: Vec<(Box<str>, HoleCheck)>,
    /// Pieces of verbatim text in a line.
    pub(super) pieces: usize,
    /// Whether no value may have `=`.
    pub(super) no_equals: bool,
    /// Whether words of the layout and of a value may be one word, or the layout has the name of a level before a value.
    pub(super) may_tell_level: bool,
}

/// This many pieces of verbatim text.
pub(super) fn pieces_of(text: &str, pieces: usize) -> String {
    vec![text; pieces].join(PIECE_END.encode_utf8(&mut [0; 4]))
}

/// Begins the numbers in the holes: they have the same number of digits.
const FIRST_NUMBER: i64 = 7_369_284_150_000_000;
const NUMBER_START: &str = "73692841500000";
/// Holes of a layout.
const HOLES_MAX: usize = 90;

/// A number in each hole.
struct Numbered<'n> {
    names: &'n [Box<str>],
    time: Ticks,
}

impl LineSource for Numbered<'_> {
    fn time(&self) -> Ticks {
        self.time
    }

    fn level(&self) -> Option<Level> {
        Some(Level::Info)
    }

    fn property(&self, name: &str) -> Option<Property<'_>> {
        let at = self.names.iter().position(|known| **known == *name)?;
        Some(Property::Int64(FIRST_NUMBER + i64::try_from(at).ok()?))
    }
}

impl LineNeeds {
    /// What matters of the lines of a layout to a reader; nothing without one. `names_level` says whether a text has the name
    /// of a field that may have the level.
    pub(super) fn of(text: &str, reader: Option<&MemberScan<'_>>, names_level: &dyn Fn(&str) -> bool) -> LineNeeds {
        let whole = || LineNeeds { is_whole: true, ..LineNeeds::default() };
        let layout = LineLayout::parse(text);
        let parts = layout.parts();
        let is_unknown = |part: &LayoutPart| match part {
            LayoutPart::Line(_) => true,
            LayoutPart::Literal(text) => text.contains(NUMBER_START),
            LayoutPart::Property(name, _) | LayoutPart::Decimals(name, _) => **name == *VERBATIM,
            _ => false,
        };
        if parts.iter().any(is_unknown) {
            return whole();
        }
        let mut names: Vec<Box<str>> = Vec::new();
        let pieces = parts.iter().filter(|part| **part == LayoutPart::Verbatim).count();
        names.extend((pieces > 0).then(|| VERBATIM.into()));
        for part in parts {
            if let LayoutPart::Property(name, _) | LayoutPart::Decimals(name, _) = part
                && !names.contains(name)
            {
                names.push(name.clone());
            }
        }
        if names.len() > HOLES_MAX {
            return whole();
        }
        let Some(found) = (match reader {
            Some(reader) => found(&layout, &names, pieces, reader),
            None => Some(Vec::new()),
        }) else {
            return whole();
        };
        let form = reader.map(|reader| reader.form);
        let is_object =
            matches!(parts.iter().find(|part| !is_mark(part)), Some(LayoutPart::Literal(text)) if is_object(text));
        let no_equals = form == Some(LineSyntax::Both) && is_object;
        let has_equals = |part: &LayoutPart| matches!(part, LayoutPart::Literal(text) if text.contains('='));
        if no_equals && parts.iter().any(has_equals) {
            return whole();
        }
        // Nothing is read of what is not an object, but its words may be.
        let is_read = form.is_some_and(|form| form != LineSyntax::Json || is_object);
        let checks = checks(parts, is_object && form != Some(LineSyntax::Logfmt));
        let mut line = LineNeeds {
            pieces,
            no_equals,
            may_tell_level: text.starts_with(TIGHT) || has_open_border(parts),
            ..LineNeeds::default()
        };
        let literals =
            parts.iter().filter_map(|part| if let LayoutPart::Literal(text) = part { Some(text) } else { None });
        line.may_tell_level |= { literals }.any(|text| names_level(text));
        for (at, name) in names.into_iter().enumerate() {
            let number = (FIRST_NUMBER + i64::try_from(at).unwrap_or(0)).to_string();
            let named: Vec<Box<str>> =
                found.iter().filter(|(_, text)| text.contains(&number)).map(|(name, _)| name.as_str().into()).collect();
            match named.is_empty() {
                true => {
                    let of_name = checks.iter().filter(|(of, _)| **of == *name).map(|(_, check)| *check);
                    let check = if is_read { strictest(of_name) } else { HoleCheck::Any };
                    line.others.push((name, check));
                }
                // Which piece is meant, only the text says.
                false if pieces > 0 && at == 0 => return whole(),
                false => line.needed.push((name, named)),
            }
        }
        line
    }
}

/// The names and the texts of the values that matter in lines with numbers; `None` if that depends on more than the values.
fn found(
    layout: &LineLayout,
    names: &[Box<str>],
    pieces: usize,
    reader: &MemberScan<'_>,
) -> Option<Vec<(String, String)>> {
    if reader.form != LineSyntax::Logfmt {
        let is_other = match layout.parts().iter().find(|part| !is_mark(part))? {
            LayoutPart::Literal(text) if is_object(text) => false,
            LayoutPart::Literal(text) => {
                let is_other = !text.trim_start().starts_with(['[', '"']) && !text.trim().is_empty();
                is_other.then_some(true)?
            }
            LayoutPart::Time(_) => true,
            _ => return None,
        };
        // No object begins so: who reads one looks no further.
        if is_other && reader.form == LineSyntax::Json {
            return Some(Vec::new());
        }
    }
    let read = |time: Ticks| {
        let (mut line, mut found) = (Vec::new(), Vec::new());
        // Those of verbatim text are the first.
        let verbatim = pieces_of(&FIRST_NUMBER.to_string(), pieces);
        layout.write_line(&Numbered { names, time }, &verbatim, &mut line);
        let line = String::from_utf8(line).ok()?;
        (reader.each)(&line, &mut |name, text| found.push((name.to_owned(), text.to_owned()))).then_some(found)
    };
    let found = read(Ticks::UNIX_EPOCH)?;
    // Another time has other digits everywhere.
    let later = read(Ticks::UNIX_EPOCH.plus(Duration::new(1_111_111_111, 987_654_321)))?;
    (found == later).then_some(found)
}

/// Whether nothing is written in the place of a part.
fn is_mark(part: &LayoutPart) -> bool {
    matches!(part, LayoutPart::MessageStart | LayoutPart::MessageEnd)
}

fn is_object(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

/// The check of each hole.
fn checks(parts: &[LayoutPart], is_json: bool) -> Vec<(&str, HoleCheck)> {
    let (mut checks, mut is_quoted) = (Vec::new(), false);
    for part in parts {
        match part {
            LayoutPart::Literal(text) => {
                let mut bytes = text.bytes();
                while let Some(byte) = bytes.next() {
                    match byte {
                        b'\\' if is_quoted => drop(bytes.next()),
                        b'"' => is_quoted = !is_quoted,
                        _ => {}
                    }
                }
            }
            LayoutPart::Property(name, is_escaped) => checks.push((
                &**name,
                match (is_quoted, is_escaped) {
                    (true, true) => HoleCheck::Any,
                    (true, false) => HoleCheck::Unquoted,
                    (false, _) if is_json => HoleCheck::NoText,
                    (false, _) => HoleCheck::Token,
                },
            )),
            LayoutPart::Decimals(name, _) => {
                checks.push((&**name, if is_json { HoleCheck::NoText } else { HoleCheck::Token }));
            }
            LayoutPart::Verbatim => checks.push((
                VERBATIM,
                match is_quoted {
                    true => HoleCheck::Unquoted,
                    false if is_json => HoleCheck::NoText,
                    false => HoleCheck::Token,
                },
            )),
            _ => {}
        }
    }
    checks
}

fn strictest(checks: impl Iterator<Item = HoleCheck>) -> HoleCheck {
    checks.fold(HoleCheck::Any, |one, other| match (one, other) {
        (HoleCheck::Any, check) | (check, HoleCheck::Any) => check,
        (HoleCheck::Unquoted, check) | (check, HoleCheck::Unquoted) => check,
        (HoleCheck::Token, HoleCheck::Token) => HoleCheck::Token,
        _ => HoleCheck::NoText,
    })
}

/// Whether a letter or a digit of the layout stands beside a hole.
fn has_open_border(parts: &[LayoutPart]) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let is_hole = |part: &LayoutPart| !matches!(part, LayoutPart::Literal(_));
    let parts: Vec<&LayoutPart> = parts.iter().filter(|part| !is_mark(part)).collect();
    parts.windows(2).any(|pair| match (pair[0], pair[1]) {
        (LayoutPart::Literal(text), hole) if is_hole(hole) => text.ends_with(is_word),
        (hole, LayoutPart::Literal(text)) if is_hole(hole) => text.starts_with(is_word),
        _ => true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads values of JSON whose names begin with `s`, by their first quote.
    fn parts(layout: &str, is_json: bool) -> LineNeeds {
        let each = |line: &str, each: &mut dyn FnMut(&str, &str)| {
            let value = serde_json::from_str::<serde_json::Value>(line);
            match value.ok().as_ref().and_then(serde_json::Value::as_object) {
                Some(object) => {
                    object.iter().filter(|(name, _)| name.starts_with('s')).for_each(|(n, v)| each(n, &v.to_string()));
                    true
                }
                None => !is_json,
            }
        };
        LineNeeds::of(
            layout,
            Some(&MemberScan { form: if is_json { LineSyntax::Json } else { LineSyntax::Logfmt }, each: &each }),
            &|text| text.contains("level"),
        )
    }

    #[test]
    fn holes_that_matter_are_found() {
        let line = parts(r#"{"m":"%m","s":%(status),"e":"%[e]","n":%.2(n),"t":"%T(0;Y-m-d)"}"#, true);
        assert!(!line.is_whole && !line.may_tell_level);
        assert_eq!(line.needed, [("status".into(), vec!["s".into()])]);
        let others: Vec<(&str, HoleCheck)> = line.others.iter().map(|(name, check)| (&**name, *check)).collect();
        assert_eq!(others, [("Message", HoleCheck::Unquoted), ("e", HoleCheck::Any), ("n", HoleCheck::NoText)]);
        let timed = parts(r#"{"t":"%v","s":%(s),"n":%v}"#, true);
        assert_eq!((timed.pieces, &timed.others[0]), (2, &(VERBATIM.into(), HoleCheck::NoText)));
        for whole in
            [r#"{"s":%v}"#, r#"{"s":"%T(0;Y-m-d)"}"#, r#"{"a":%(a)"#, "%m {}", r#"{"a":"7369284150000001","s":%(s)}"#]
        {
            assert!(parts(whole, true).is_whole, "{whole}");
        }
        let text = parts("%T(0;Y-m-d) GET %(path) a=\"%(b)\"", true);
        assert_eq!((text.is_whole, text.needed.len(), text.others.len()), (false, 0, 2));
        assert!(parts(r#"{"level":"%(a)"}"#, true).may_tell_level);
        assert!(parts(r#"{"m":"x%(a)"}"#, true).may_tell_level);
        let pairs = parts("a=%(a) b=\"%(b)\" c=\"%[c]\"", false);
        let checks: Vec<HoleCheck> = pairs.others.iter().map(|(_, check)| *check).collect();
        assert_eq!(checks, [HoleCheck::Token, HoleCheck::Unquoted, HoleCheck::Any]);
    }
}
