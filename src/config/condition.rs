//! `when`: the condition under which a table takes a record.
//!
//! ```toml
//! when = { level_at_most = "debug" }
//! when = { all = [{ instance = "web-*" }, { not = { field = "http.status", at_least = 500 } }] }
//! ```
//!
//! One table is one condition, so that nobody has to know which of several keys binds stronger: `all`, `any` and `not`
//! say it. What the conditions mean is said where they are kept, in [`daytable_intake::route::condition`].

use super::section::Section;
use daytable_intake::glob::Pattern;
use daytable_intake::route::condition::{
    BOUND_MAX, CONDITION_DEPTH_MAX, CONDITIONS_MAX, Condition, FieldTest, Literal,
};
use daytable_model::record::Level;

/// How conditions are called in messages.
const NAME: &str = "when";

/// The keys of which a condition has exactly one.
const KINDS: [&str; 9] =
    ["level_at_most", "level_at_least", "instance", "source", "tenant", "field", "all", "any", "not"];

/// The keys of which a condition on a field has exactly one more.
const TESTS: [&str; 5] = ["equals", "matches", "at_least", "at_most", "present"];

/// The condition that `section` says; none where it says nothing, or something wrong.
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
    // A key that is unknown is reported as such, and may be the one that was meant.
    if kinds != 1 && section.len().is_some_and(|keys| keys == kinds + tests) {
        section.problem("must have one condition, for example { level_at_most = \"debug\" }; `all` joins several");
    }
    section.finish();
    conditions.into_iter().flatten().next()
}

fn several(section: &mut Section<'_>, key: &'static str, depth: usize, left: &mut usize) -> Option<Vec<Condition>> {
    let sections = section.list_of_tables(key, NAME)?;
    // One that is wrong is reported; what is left of the others is not used.
    Some(sections.into_iter().filter_map(|inner| read_within(inner, depth + 1, left)).collect())
}

fn not(section: &mut Section<'_>, depth: usize, left: &mut usize) -> Option<Condition> {
    let inner = section.section("not", NAME);
    inner.len()?;
    read_within(inner, depth + 1, left).map(|condition| Condition::Not(condition.into()))
}

/// `{ field = NAME, TEST = … }`
fn field(section: &mut Section<'_>) -> Option<Condition> {
    let name =
        section.text("field", |name| if name.is_empty() { Err("must name a field") } else { Ok(name.to_owned()) });
    let range = -BOUND_MAX..=BOUND_MAX;
    let present = section.truth("present");
    let tests = [
        section.literal("equals").map(|text| FieldTest::Equals(Literal::new(&text))),
        section.text("matches", Pattern::instance).map(FieldTest::Matches),
        section.whole("at_least", range.clone()).map(FieldTest::AtLeast),
        section.whole("at_most", range).map(FieldTest::AtMost),
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
