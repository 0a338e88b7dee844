//! Which records a table takes: conditions on level, instance, source, tenant and fields, with and, or and not.
//!
//! A condition on something that a record lacks does not hold: a record without a level is neither at most nor at least of a
//! level, and a missing field equals no value. `not` inverts any condition, so `not = { field = "x", equals = 1 }` takes
//! records without an `x`, too. De Morgan's laws hold (a property below).
//!
//! The instance, the source and the level are the same for most records of a file. `specialize` evaluates these parts once
//! ([partial evaluation](https://en.wikipedia.org/wiki/Partial_evaluation)). Only the residual condition, on tenant and
//! fields, is evaluated for each record.

use crate::glob::Pattern;
use daytable_model::record::{Level, Record, Value};
use std::cmp::Ordering;

/// The depth of nested conditions. The outermost condition has depth 1.
pub const CONDITION_DEPTH_MAX: usize = 8;
/// The number of conditions of one table. Each `all`, `any` and `not` counts.
pub const CONDITIONS_MAX: usize = 256;
/// The largest absolute value of a bound. A float represents every whole number up to this one.
pub const BOUND_MAX: i64 = 1 << 53;

/// The records that a table takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Every record.
    Always,
    /// Records of this level or a less severe level.
    LevelAtMost(Level),
    /// Records of this level or a more severe level.
    LevelAtLeast(Level),
    /// Records of a matching instance.
    Instance(Pattern),
    /// Records of a matching path or listener.
    Source(Pattern),
    /// Records of a matching tenant.
    Tenant(Pattern),
    /// Records whose first field of this name passes the test.
    Field(Box<str>, FieldTest),
    /// Records for which all conditions hold.
    All(Vec<Condition>),
    /// Records for which at least one condition holds.
    Any(Vec<Condition>),
    /// Records for which the condition does not hold.
    Not(Box<Condition>),
}

/// A test of a present field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldTest {
    /// The field is present.
    Present,
    /// The value equals the literal.
    Equals(Literal),
    /// The value, as text, matches.
    Matches(Pattern),
    /// The value is a number and not less than this bound, which is within [`BOUND_MAX`].
    AtLeast(i64),
    /// The value is a number and not more than this bound, which is within [`BOUND_MAX`].
    AtMost(i64),
}

/// A value in the configuration. It equals a text with the same characters, and a number or boolean that is displayed with
/// the same characters: `500` and `"500"` are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Literal {
    text: Box<str>,
    number: Option<i64>,
}

/// A record, and its properties that conditions ask for.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The instance that wrote the record.
    pub instance: &'a str,
    /// The path of the file, or the listener.
    pub source: &'a str,
    /// The tenant whose credentials sent the record.
    pub tenant: Option<&'a str>,
    /// The record.
    pub record: &'a Record<'a>,
}

/// A condition after its parts on level, instance and source were evaluated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Residual {
    /// The same answer for every tenant and all fields.
    Constant(bool),
    /// A condition on tenant and fields only.
    Condition(Condition),
}

impl Condition {
    /// Whether the condition holds.
    pub fn holds(&self, subject: &Subject<'_>) -> bool {
        let Subject { instance, source, tenant, record } = subject;
        match self {
            Condition::Always => true,
            Condition::LevelAtMost(most) => record.level.is_some_and(|level| level <= *most),
            Condition::LevelAtLeast(least) => record.level.is_some_and(|level| level >= *least),
            Condition::Instance(pattern) => pattern.matches(instance),
            Condition::Source(pattern) => pattern.matches(source),
            Condition::Tenant(pattern) => tenant.is_some_and(|tenant| pattern.matches(tenant)),
            Condition::Field(name, test) => {
                let field = record.fields.iter().find(|field| *field.name == **name);
                field.is_some_and(|field| test.holds(&field.value))
            }
            Condition::All(conditions) => conditions.iter().all(|condition| condition.holds(subject)),
            Condition::Any(conditions) => conditions.iter().any(|condition| condition.holds(subject)),
            Condition::Not(condition) => !condition.holds(subject),
        }
    }

    /// Evaluates the parts on level, instance and source. The tenant and the fields of `known` are ignored.
    pub(super) fn specialize(&self, known: &Subject<'_>) -> Residual {
        // The first `decisive` answer decides: a false one for `all`, a true one for `any`.
        let combine = |conditions: &[Condition], decisive: bool, whole: fn(Vec<Condition>) -> Condition| {
            let mut left = Vec::new();
            for condition in conditions {
                match condition.specialize(known) {
                    Residual::Constant(holds) if holds == decisive => return Residual::Constant(decisive),
                    Residual::Constant(_) => {}
                    Residual::Condition(condition) => left.push(condition),
                }
            }
            match left.len() {
                0 => Residual::Constant(!decisive),
                1 => Residual::Condition(left.remove(0)),
                _ => Residual::Condition(whole(left)),
            }
        };
        match self {
            Condition::Tenant(_) | Condition::Field(..) => Residual::Condition(self.clone()),
            Condition::All(conditions) => combine(conditions, false, Condition::All),
            Condition::Any(conditions) => combine(conditions, true, Condition::Any),
            Condition::Not(condition) => match condition.specialize(known) {
                Residual::Constant(holds) => Residual::Constant(!holds),
                Residual::Condition(condition) => Residual::Condition(Condition::Not(condition.into())),
            },
            leaf => Residual::Constant(leaf.holds(known)),
        }
    }
}

impl FieldTest {
    fn holds(&self, value: &Value<'_>) -> bool {
        // Within `BOUND_MAX` a float has the same value.
        let order = |bound: &i64| match value {
            Value::Int64(n) => Some(n.cmp(bound)),
            Value::Double(n) => n.partial_cmp(&(*bound as f64)),
            Value::String(_) | Value::Boolean(_) | Value::Binary(_) => None,
        };
        match self {
            FieldTest::Present => true,
            FieldTest::Equals(literal) => literal.equals(value),
            FieldTest::Matches(pattern) => match value {
                Value::String(text) => pattern.matches(text.as_ref()),
                Value::Int64(n) => pattern.matches(n.to_string()),
                Value::Double(n) => pattern.matches(n.to_string()),
                Value::Boolean(b) => pattern.matches(if *b { "true" } else { "false" }),
                Value::Binary(_) => false,
            },
            FieldTest::AtLeast(least) => order(least).is_some_and(Ordering::is_ge),
            FieldTest::AtMost(most) => order(most).is_some_and(Ordering::is_le),
        }
    }
}

impl Literal {
    /// A literal with these characters.
    pub fn new(text: &str) -> Literal {
        // `007` is a text, because no number is displayed so.
        let number = text.parse().ok().filter(|number: &i64| number.to_string() == text);
        Literal { text: text.into(), number }
    }

    fn equals(&self, value: &Value<'_>) -> bool {
        match value {
            Value::String(text) => **text == *self.text,
            Value::Int64(n) => self.number == Some(*n),
            Value::Double(n) => *n.to_string() == *self.text,
            Value::Boolean(b) => &*self.text == if *b { "true" } else { "false" },
            Value::Binary(_) => false,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use daytable_model::record::Field;
    use proptest::prelude::*;

    fn pattern(text: &str) -> Pattern {
        Pattern::instance(text).expect("a pattern")
    }

    fn field(name: &str, test: FieldTest) -> Condition {
        Condition::Field(name.into(), test)
    }

    fn equals(name: &str, text: &str) -> Condition {
        field(name, FieldTest::Equals(Literal::new(text)))
    }

    fn record(level: Option<Level>, fields: &[(&'static str, Value<'static>)]) -> Record<'static> {
        let fields = fields.iter().map(|(name, value)| Field { name: (*name).into(), value: value.clone() }).collect();
        Record { level, fields, ..Record::default() }
    }

    #[test]
    fn conditions_and_the_records_that_they_take() {
        let text = |text: &'static str| Value::String(text.into());
        let fields = [
            ("status", Value::Int64(500)),
            ("status", Value::Int64(200)),
            ("took", Value::Double(1.5)),
            ("whole", Value::Double(500.0)),
            ("cached", Value::Boolean(true)),
            ("user", text("admin-7")),
            ("code", text("500")),
            ("serial", text("007")),
        ];
        let record = record(Some(Level::Warn), &fields);
        let of = Subject { instance: "web-1", source: "/srv/a/b", tenant: Some("acme"), record: &record };
        for (condition, holds) in [
            (Condition::Always, true),
            (Condition::LevelAtMost(Level::Warn), true),
            (Condition::LevelAtMost(Level::Info), false),
            (Condition::LevelAtLeast(Level::Warn), true),
            (Condition::LevelAtLeast(Level::Error), false),
            (Condition::Instance(pattern("web-*")), true),
            (Condition::Instance(pattern("/srv/*")), false),
            (Condition::Source(Pattern::source("/srv/**").expect("a pattern")), true),
            (Condition::Source(pattern("web-*")), false),
            (Condition::Tenant(pattern("ac*")), true),
            (Condition::Tenant(pattern("beta")), false),
            (equals("status", "500"), true),
            (equals("status", "200"), false),
            (equals("code", "500"), true),
            (equals("whole", "500"), true),
            (equals("took", "1.5"), true),
            (equals("took", "1.50"), false),
            (equals("serial", "007"), true),
            (equals("serial", "7"), false),
            (equals("cached", "true"), true),
            (equals("cached", "false"), false),
            (equals("absent", ""), false),
            (field("user", FieldTest::Present), true),
            (field("users", FieldTest::Present), false),
            (field("user", FieldTest::Matches(pattern("admin-*"))), true),
            (field("status", FieldTest::Matches(pattern("5??"))), true),
            (field("cached", FieldTest::Matches(pattern("t*"))), true),
            (field("took", FieldTest::Matches(pattern("1.*"))), true),
            (field("status", FieldTest::AtLeast(500)), true),
            (field("status", FieldTest::AtLeast(501)), false),
            (field("status", FieldTest::AtMost(500)), true),
            (field("took", FieldTest::AtMost(1)), false),
            (field("took", FieldTest::AtMost(2)), true),
            (field("took", FieldTest::AtLeast(2)), false),
            (field("code", FieldTest::AtLeast(1)), false),
            (field("cached", FieldTest::AtMost(1)), false),
            (Condition::All(vec![]), true),
            (Condition::Any(vec![]), false),
            (Condition::All(vec![equals("status", "500"), Condition::LevelAtMost(Level::Info)]), false),
            (Condition::Any(vec![equals("status", "500"), Condition::LevelAtMost(Level::Info)]), true),
            (Condition::Not(equals("absent", "1").into()), true),
        ] {
            assert_eq!(condition.holds(&of), holds, "{condition:?}");
        }
    }

    #[test]
    fn a_missing_part_meets_no_condition() {
        let record = record(None, &[]);
        let of = Subject { instance: "i", source: "s", tenant: None, record: &record };
        for condition in [
            Condition::LevelAtMost(Level::Fatal),
            Condition::LevelAtLeast(Level::Trace),
            Condition::Tenant(pattern("*")),
            field("x", FieldTest::Matches(pattern("*"))),
            field("x", FieldTest::AtLeast(-BOUND_MAX)),
            field("x", FieldTest::AtMost(BOUND_MAX)),
        ] {
            assert!(!condition.holds(&of) && Condition::Not(condition.clone().into()).holds(&of), "{condition:?}");
        }
    }

    /// Conditions of every kind over few enough values that they are met about as often as not.
    pub(in crate::route) fn any_condition() -> impl Strategy<Value = Condition> {
        let level = || proptest::sample::select(Level::ALL.to_vec());
        let name = || proptest::sample::select(vec!["a", "b"]);
        let of_field = (name(), 0i64..3, 0..4).prop_map(|(name, n, test)| {
            let test = match test {
                0 => FieldTest::Present,
                1 => FieldTest::Equals(Literal::new(&n.to_string())),
                2 => FieldTest::AtLeast(n),
                _ => FieldTest::AtMost(n),
            };
            field(name, test)
        });
        let leaf = prop_oneof![
            Just(Condition::Always),
            level().prop_map(Condition::LevelAtMost),
            level().prop_map(Condition::LevelAtLeast),
            name().prop_map(|name| Condition::Instance(pattern(name))),
            name().prop_map(|name| Condition::Source(pattern(name))),
            name().prop_map(|name| Condition::Tenant(pattern(name))),
            of_field,
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Condition::All),
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Condition::Any),
                inner.prop_map(|condition| Condition::Not(condition.into())),
            ]
        })
    }

    /// Records that differ in every part of a condition.
    pub(in crate::route) fn any_record() -> impl Strategy<Value = Record<'static>> {
        let value = prop_oneof![
            (0i64..3).prop_map(Value::Int64),
            (0i64..3).prop_map(|n| Value::String(n.to_string().into())),
            (0i32..6).prop_map(|n| Value::Double(f64::from(n) / 2.0)),
        ];
        let fields = proptest::collection::vec((proptest::sample::select(vec!["a", "b", "c"]), value), 0..3);
        (0u8..10, fields).prop_map(|(level, fields)| record(Level::from_code(level), &fields))
    }

    proptest! {
        /// De Morgan: `not any` is `all not`, and `not all` is `any not`.
        #[test]
        fn not_any_is_all_not(
            conditions in proptest::collection::vec(any_condition(), 0..4), record in any_record(),
            instance in "[ab]", source in "[ab]", tenant in proptest::option::of("[ab]"),
        ) {
            let of = Subject { instance: &instance, source: &source, tenant: tenant.as_deref(), record: &record };
            let not = |condition: Condition| Condition::Not(condition.into());
            let nots: Vec<Condition> = conditions.iter().cloned().map(not).collect();
            let any = not(Condition::Any(conditions.clone()));
            prop_assert_eq!(any.holds(&of), Condition::All(nots.clone()).holds(&of));
            prop_assert_eq!(not(Condition::All(conditions)).holds(&of), Condition::Any(nots).holds(&of));
        }

        /// A residual condition gives the same answer as the whole, without level, instance and source.
        #[test]
        fn a_residual_condition_is_equivalent(
            condition in any_condition(), record in any_record(),
            instance in "[ab]", source in "[ab]", tenant in proptest::option::of("[ab]"),
        ) {
            let of = Subject { instance: &instance, source: &source, tenant: tenant.as_deref(), record: &record };
            let specialized = match condition.specialize(&of) {
                Residual::Constant(holds) => holds,
                Residual::Condition(left) => {
                    let bare = Record { level: None, ..record.clone() };
                    left.holds(&Subject { instance: "", source: "", record: &bare, ..of })
                }
            };
            prop_assert_eq!(specialized, condition.holds(&of));
        }
    }
}
