//! `[[query]]`: queries that the page offers.

use super::changes::Changes;
use super::key::{self, ConfigKey, KeyDraft, SectionDoc, SectionPlace, optional_text, texts};
use super::section::Section;
use super::values::field_name;
use daytable_logsql::ParsedQuery;
use serde::Serialize;

/// Blocks of a file.
const QUERIES_MAX: usize = 500;
/// Characters of a name and of an explanation.
const TEXT_CHARS_MAX: usize = 200;

/// A query that the page offers, as `/api/queries` shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SavedQuery {
    /// The name that people choose it by.
    pub name: String,
    /// The query.
    pub query: String,
    /// An age, `today`, `yesterday` or `all`: the range of time. Without one, that of the page stays.
    pub since: Option<String>,
    /// The fields that become columns.
    pub columns: Vec<String>,
    /// What it is for.
    pub about: Option<String>,
}

/// What the documents say about `[[query]]`.
pub(super) fn doc() -> SectionDoc {
    SectionDoc {
        about: "Queries that the page offers to everyone who reads. Its dialog *Share* has the block of the query that is shown.",
        before: "#[[query]]\n#name = \"Failed requests\"\n#query = \"status:>=500\"\n#since = \"24h\"\n#columns = [\"path\", \"status\"]\n\n",
        ..SectionDoc::new("[[query]]", SectionPlace::Blocks { in_sample: false }, keys(), &mut SavedQuery::default())
    }
}

/// The blocks `[[query]]` of a file.
pub(super) fn read(file: &mut Section<'_>) -> Vec<SavedQuery> {
    let (keys, mut queries): (_, Vec<SavedQuery>) = (keys(), Vec::new());
    for mut section in file.sections("query", "[[query]]") {
        let name = section.text("name", title);
        section.require("name", "name = \"Slow requests\"");
        let query = section.source_text("query");
        section.require("query", "query = \"duration:>1s\"");
        let saved = key::read(&keys, &mut section, SavedQuery::default());
        if let (Some(name), Some(query)) = (name, query) {
            if let Err(error) = ParsedQuery::parse_strictly(query.text) {
                section.report_within(&query, error.at().start, error.message());
            }
            if queries.iter().any(|other| other.name == name) {
                section.problem(format_args!("two queries are called {name:?}"));
            }
            if queries.len() == QUERIES_MAX {
                section.problem(format_args!("is one too many: there can be {QUERIES_MAX}"));
            }
            queries.push(SavedQuery { name, query: query.text.into(), ..saved });
        }
        section.finish();
    }
    queries
}

/// Adds the changes of the queries.
pub(super) fn compare(before: &[SavedQuery], now: &mut [SavedQuery], changes: &mut Changes) {
    changes.add_blocks("query", &keys(), before, now, |query| &query.name);
}

/// A line for people.
fn title(text: &str) -> Result<String, String> {
    let chars = text.chars().count();
    if text.trim().is_empty() || chars > TEXT_CHARS_MAX || text.chars().any(char::is_control) {
        return Err(format!("must be a text of 1 to {TEXT_CHARS_MAX} characters in one line"));
    }
    Ok(text.into())
}

/// A range that is the same whenever the query is asked.
fn since(text: &str) -> Result<String, &'static str> {
    let is_age = {
        let parts: Vec<&str> = text.split_inclusive(|c: char| c.is_ascii_alphabetic()).collect();
        let is_part = |part: &&str| {
            let (number, unit) = part.split_at(part.len() - 1);
            matches!(unit, "s" | "m" | "h" | "d" | "w")
                && !number.is_empty()
                && number.bytes().all(|byte| byte.is_ascii_digit())
        };
        !text.is_empty() && text.is_ascii() && text.len() <= 32 && parts.iter().all(is_part)
    };
    if is_age || ["today", "yesterday", "all"].contains(&text) {
        Ok(text.into())
    } else {
        Err("must be an age like \"24h\" or \"1d12h\", \"today\", \"yesterday\" or \"all\"")
    }
}

fn keys() -> Vec<ConfigKey<SavedQuery>> {
    vec![
        // The name and the query are read apart from the others: a block without them is left out.
        KeyDraft::by_hand("name", "a text", |saved: &mut SavedQuery| &mut saved.name, |_, _| ())
            .required("\"Slow requests\"")
            .live("The name by which people choose the query."),
        KeyDraft::by_hand("query", "a query", |saved: &mut SavedQuery| &mut saved.query, |_, _| ())
            .required("\"duration:>1s\"")
            .live("The query, in the language of `daytable query`, with pipes or without."),
        optional_text(
            "since",
            "an age, \"today\", \"yesterday\", \"all\"",
            |saved: &mut SavedQuery| &mut saved.since,
            since,
        )
        .example("\"24h\"")
        .live(
            "The range of time that comes with the query, up to now. Without it, the range of the page stays as it is.",
        ),
        texts("columns", "a list of fields", 0, |saved: &mut SavedQuery| &mut saved.columns, field_name)
            .live("The fields that become columns of the list."),
        optional_text("about", "a text", |saved: &mut SavedQuery| &mut saved.about, title)
            .example("\"Requests that somebody waited for\"")
            .live("What the query is for, in a sentence."),
    ]
}
