//! `when`: the condition of a table. A record goes to the first table whose condition it meets.
//!
//! ```toml
//! when = { level_at_most = "debug" }
//! when = { all = [{ instance = "web-*" }, { not = { field = "http.status", at_least = 500 } }] }
//! ```
//!
//! A table has one condition, so that no rule of precedence between keys is needed: `all`, `any` and `not` combine conditions.
//! [`daytable_intake::route::condition`] says what each condition means.

use super::key::{KeyDoc, SectionDoc, SectionPlace};
use super::section::Section;
use super::values::field_name;
use daytable_intake::glob::Pattern;
use daytable_intake::route::condition::{
    BOUND_MAX, CONDITION_DEPTH_MAX, CONDITIONS_MAX, Condition, FieldTest, Literal,
};
use daytable_model::record::Level;

/// The name of a condition in problems.
const NAME: &str = "when";

/// A condition has exactly one of these keys.
const KINDS: [&str; 9] =
    ["level_at_most", "level_at_least", "instance", "source", "tenant", "field", "all", "any", "not"];

/// A condition on a field also has exactly one of these keys.
const TESTS: [&str; 5] = ["equals", "matches", "at_least", "at_most", "present"];

/// The condition of `section`, or `None` where it is absent or wrong.
pub(super) fn read(section: Section<'_>) -> Option<Condition> {
    let mut left = CONDITIONS_MAX;
    read_within(section, 1, &mut left)
}

fn read_within(mut section: Section<'_>, depth: usize, left: &mut usize) -> Option<Condition> {
    if depth > CONDITION_DEPTH_MAX {
        section.problem(format_args!("lies more than {CONDITION_DEPTH_MAX} deep; give some of it a table of its own"));
        return None;
    }
    match left.checked_sub(1) {
        Some(fewer) => *left = fewer,
        None => {
            section.problem(format_args!(
                "has more than {CONDITIONS_MAX} conditions; a pattern such as \"{{a,b}}*\" takes many names"
            ));
            return None;
        }
    }
    let conditions = [
        section.text("level_at_most", level).map(Condition::LevelAtMost),
        section.text("level_at_least", level).map(Condition::LevelAtLeast),
        section.text("instance", Pattern::instance).map(Condition::Instance),
        section.text("source", Pattern::source).map(Condition::Source),
        section.text("tenant", Pattern::instance).map(Condition::Tenant),
        field(&mut section),
        several(&mut section, "all", depth, left).map(Condition::All),
        several(&mut section, "any", depth, left).map(Condition::Any),
        not(&mut section, depth, left),
    ];
    let given = |keys: &[&str]| keys.iter().filter(|key| section.has(key)).count();
    let (kinds, tests) = (given(&KINDS), given(&TESTS));
    // An unknown key is reported as such, and may be a misspelt condition.
    if kinds != 1 && section.len().is_some_and(|keys| keys == kinds + tests) {
        section.problem("must have one condition, for example { level_at_most = \"debug\" }; `all` joins several");
    }
    section.finish();
    conditions.into_iter().flatten().next()
}

fn several(section: &mut Section<'_>, key: &'static str, depth: usize, left: &mut usize) -> Option<Vec<Condition>> {
    let sections = section.list_of_tables(key, NAME)?;
    // A wrong condition is reported, and then the whole configuration is refused.
    Some(sections.into_iter().filter_map(|inner| read_within(inner, depth + 1, left)).collect())
}

fn not(section: &mut Section<'_>, depth: usize, left: &mut usize) -> Option<Condition> {
    let inner = section.section("not", NAME);
    inner.len()?;
    read_within(inner, depth + 1, left).map(|condition| Condition::Not(condition.into()))
}

/// `{ field = NAME, TEST = … }`
fn field(section: &mut Section<'_>) -> Option<Condition> {
    let name = section.text("field", field_name);
    let range = -BOUND_MAX..=BOUND_MAX;
    let present = section.truth("present");
    let tests = [
        section.literal("equals").map(|text| FieldTest::Equals(Literal::new(&text))),
        section.text("matches", Pattern::instance).map(FieldTest::Matches),
        section.whole("at_least", &range).map(FieldTest::AtLeast),
        section.whole("at_most", &range).map(FieldTest::AtMost),
        present.map(|_| FieldTest::Present),
    ];
    let given = TESTS.iter().filter(|key| section.has(key)).count();
    if section.has("field") && given != 1 {
        section.problem("`field` must have one of `equals`, `matches`, `at_least`, `at_most` and `present` beside it");
    }
    if !section.has("field") && given > 0 {
        section.problem("`field` is missing, for example { field = \"http.status\", equals = 500 }");
    }
    let test = tests.into_iter().flatten().next()?;
    let condition = Condition::Field(name?.into(), test);
    Some(if present == Some(false) { Condition::Not(condition.into()) } else { condition })
}

fn level(text: &str) -> Result<Level, String> {
    Level::ALL.into_iter().find(|level| level.name() == text).ok_or_else(|| {
        let names: Vec<&str> = Level::ALL.iter().map(|level| level.name()).collect();
        format!("must be one of {}", names.join(", "))
    })
}

pub(super) fn doc() -> SectionDoc {
    let level = "trace, debug, info, notice, warn, error, critical, alert or fatal";
    let number = "a whole number";
    let keys = vec![
        KeyDoc::new("level_at_most", level, "Records of this level or a less severe one."),
        KeyDoc::new("level_at_least", level, "Records of this level or a more severe one."),
        KeyDoc::new("instance", "a pattern", "Records of these instances, as in \"web-*\"."),
        KeyDoc::new("source", "a pattern", "Records of these sources: the path of a file, or a listener."),
        KeyDoc::new("tenant", "a pattern", "Records of senders whose credential belongs to these tenants."),
        KeyDoc::new("field", "the name of a field", "Records with this field, and one of the five keys below."),
        KeyDoc::new("equals", "a text, a whole number, true or false", "The field has this value."),
        KeyDoc::new("matches", "a pattern", "The field matches this pattern, as in \"admin-*\"."),
        KeyDoc::new("at_least", number, "The field is this number or a greater one."),
        KeyDoc::new("at_most", number, "The field is this number or a smaller one."),
        KeyDoc::new("present", "true or false", "The record has the field, or does not have it."),
        KeyDoc::new("all", "a list of conditions", "Records that meet all of these conditions."),
        KeyDoc::new("any", "a list of conditions", "Records that meet one of these conditions."),
        KeyDoc::new("not", "a condition", "Records that do not meet this condition."),
    ];
    SectionDoc {
        name: NAME,
        within: "`[[table]]`",
        about: "A record without a property does not meet a condition on that property. Conditions nest up to eight levels deep.",
        place: SectionPlace::Inline,
        before: "",
        after: "",
        keys,
    }
}
