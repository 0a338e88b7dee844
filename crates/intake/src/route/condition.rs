//! Which records a table takes: conditions on level, instance, source, tenant and fields, with and, or and not.
//!
//! What a record does not have meets nothing: a record without a level is neither at most nor at least of one, a field
//! that is not there equals nothing. `not` turns the answer around, whatever it was made of, so `not = { field = "x",
//! equals = 1 }` takes records without an `x`, too; and `not any` is `all not`, as De Morgan has it (a property below).
//!
//! Most of a condition is the same for all records of one instance and source but for their level. So it is
//! reduced by these three once, and what is left asks each record only for its tenant and fields:
//! nothing at all where the configuration has no such condition.

use crate::glob::Pattern;
use daytable_model::record::{Level, Record, Value};

/// How deep conditions lie within one another at most, the outermost being the first.
pub const CONDITION_DEPTH_MAX: usize = 8;
/// Conditions of one table at most, each `all`, `any` and `not` counted.
pub const CONDITIONS_MAX: usize = 256;
/// The largest number that a field is compared with, and the negative of the least: floats have all whole numbers up to it.
pub const BOUND_MAX: i64 = 1 << 53;

/// Which records a table takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Every record.
    Always,
    /// This level or a less severe one; not a record without a level.
    LevelAtMost(Level),
    /// This level or a more severe one; not a record without a level.
    LevelAtLeast(Level),
    /// An instance whose name matches.
    Instance(Pattern),
    /// A path or listener that matches.
    Source(Pattern),
    /// A tenant that matches; not a record that was sent without one.
    Tenant(Pattern),
    /// A field with this name, the first of that name, and what is asked of it.
    Field(Box<str>, Test),
    /// All of these hold.
    All(Vec<Condition>),
    /// One of these holds, or more.
    Any(Vec<Condition>),
    /// This does not hold.
    Not(Box<Condition>),
}

/// What is asked of a field that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    /// Nothing else.
    Present,
    /// Its value is written so.
    Equals(Literal),
    /// Its value, as text, matches.
    Matches(Pattern),
    /// It is a number and not less than this one, which is within [`BOUND_MAX`].
    AtLeast(i64),
    /// It is a number and not more than this one, which is within [`BOUND_MAX`].
    AtMost(i64),
}

/// A value as a configuration writes it. It equals a text that is the same, and a number or a truth that is shown so:
/// `500` and `"500"` are one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Literal {
    text: Box<str>,
    number: Option<i64>,
}

/// A record, and what it is routed by besides itself.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The instance that wrote it.
    pub instance: &'a str,
    /// The source's path, or the listener.
    pub source: &'a str,
    /// Whose it is, where it was sent with a tenant's credentials.
    pub tenant: Option<&'a str>,
    /// The record.
    pub record: &'a Record<'a>,
}

/// A condition of which level, instance and source are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reduced {
    /// Nothing is left to ask.
    Known(bool),
    /// This is left, and asks for tenants and fields only.
    Asks(Condition),
}

impl Condition {
    /// Whether a record meets it.
    pub fn holds(&self, of: &Subject<'_>) -> bool {
        match self {
            Condition::Always => true,
            Condition::LevelAtMost(most) => of.record.level.is_some_and(|level| level <= *most),
            Condition::LevelAtLeast(least) => of.record.level.is_some_and(|level| level >= *least),
            Condition::Instance(pattern) => pattern.matches(of.instance),
            Condition::Source(pattern) => pattern.matches(of.source),
            Condition::Tenant(pattern) => of.tenant.is_some_and(|tenant| pattern.matches(tenant)),
            Condition::Field(name, test) => {
                let field = of.record.fields.iter().find(|field| *field.name == **name);
                field.is_some_and(|field| test.holds(&field.value))
            }
            Condition::All(conditions) => conditions.iter().all(|condition| condition.holds(of)),
            Condition::Any(conditions) => conditions.iter().any(|condition| condition.holds(of)),
            Condition::Not(condition) => !condition.holds(of),
        }
    }

    /// What is left to ask of a record with this level, instance and source.
    pub(super) fn reduce(&self, level: Option<Level>, instance: &str, source: &str) -> Reduced {
        // `all` ends at the first that does not hold, `any` at the first that does.
        let several = |conditions: &[Condition], ends: bool, whole: fn(Vec<Condition>) -> Condition| {
            let mut left = Vec::new();
            for condition in conditions {
                match condition.reduce(level, instance, source) {
                    Reduced::Known(known) if known == ends => return Reduced::Known(ends),
                    Reduced::Known(_) => {}
                    Reduced::Asks(condition) => left.push(condition),
                }
            }
            match left.len() {
                0 => Reduced::Known(!ends),
                1 => Reduced::Asks(left.remove(0)),
                _ => Reduced::Asks(whole(left)),
            }
        };
        match self {
            Condition::Always => Reduced::Known(true),
            Condition::LevelAtMost(most) => Reduced::Known(level.is_some_and(|level| level <= *most)),
            Condition::LevelAtLeast(least) => Reduced::Known(level.is_some_and(|level| level >= *least)),
            Condition::Instance(pattern) => Reduced::Known(pattern.matches(instance)),
            Condition::Source(pattern) => Reduced::Known(pattern.matches(source)),
            Condition::Tenant(_) | Condition::Field(..) => Reduced::Asks(self.clone()),
            Condition::All(conditions) => several(conditions, false, Condition::All),
            Condition::Any(conditions) => several(conditions, true, Condition::Any),
            Condition::Not(condition) => match condition.reduce(level, instance, source) {
                Reduced::Known(known) => Reduced::Known(!known),
                Reduced::Asks(condition) => Reduced::Asks(Condition::Not(condition.into())),
            },
        }
    }
}

impl Test {
    fn holds(&self, value: &Value<'_>) -> bool {
        match self {
            Test::Present => true,
            Test::Equals(literal) => literal.equals(value),
            Test::Matches(pattern) => match value {
                Value::String(text) => pattern.matches(text.as_ref()),
                Value::Int64(n) => pattern.matches(n.to_string()),
                Value::Double(n) => pattern.matches(n.to_string()),
                Value::Boolean(b) => pattern.matches(if *b { "true" } else { "false" }),
                Value::Binary(_) => false,
            },
            // Within `BOUND_MAX` a float has the same value.
            Test::AtLeast(least) => match value {
                Value::Int64(n) => n >= least,
                Value::Double(n) => *n >= *least as f64,
                Value::String(_) | Value::Boolean(_) | Value::Binary(_) => false,
            },
            Test::AtMost(most) => match value {
                Value::Int64(n) => n <= most,
                Value::Double(n) => *n <= *most as f64,
                Value::String(_) | Value::Boolean(_) | Value::Binary(_) => false,
            },
        }
    }
}

impl Literal {
    /// What is shown as `text`.
    pub fn new(text: &str) -> Literal {
        // `007` is a text: no number is shown so.
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

    fn field(name: &str, test: Test) -> Condition {
        Condition::Field(name.into(), test)
    }

    fn equals(name: &str, text: &str) -> Condition {
        field(name, Test::Equals(Literal::new(text)))
    }

    fn record(level: Option<Level>, fields: &[(&'static str, Value<'static>)]) -> Record<'static> {
        let fields = fields.iter().map(|(name, value)| Field { name: (*name).into(), value: value.clone() }).collect();
        Record { level, fields, ..Record::default() }
    }

    #[test]
    fn conditions_and_the_records_that_meet_them() {
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
            (field("user", Test::Present), true),
            (field("users", Test::Present), false),
            (field("user", Test::Matches(pattern("admin-*"))), true),
            (field("status", Test::Matches(pattern("5??"))), true),
            (field("cached", Test::Matches(pattern("t*"))), true),
            (field("took", Test::Matches(pattern("1.*"))), true),
            (field("status", Test::AtLeast(500)), true),
            (field("status", Test::AtLeast(501)), false),
            (field("status", Test::AtMost(500)), true),
            (field("took", Test::AtMost(1)), false),
            (field("took", Test::AtMost(2)), true),
            (field("took", Test::AtLeast(2)), false),
            (field("code", Test::AtLeast(1)), false),
            (field("cached", Test::AtMost(1)), false),
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
    fn what_a_record_does_not_have_meets_nothing() {
        let record = record(None, &[]);
        let of = Subject { instance: "i", source: "s", tenant: None, record: &record };
        for condition in [
            Condition::LevelAtMost(Level::Fatal),
            Condition::LevelAtLeast(Level::Trace),
            Condition::Tenant(pattern("*")),
            field("x", Test::Matches(pattern("*"))),
            field("x", Test::AtLeast(-BOUND_MAX)),
            field("x", Test::AtMost(BOUND_MAX)),
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
                0 => Test::Present,
                1 => Test::Equals(Literal::new(&n.to_string())),
                2 => Test::AtLeast(n),
                _ => Test::AtMost(n),
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

    /// Records that such conditions tell apart.
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
        /// De Morgan: `not any` is `all not`, and `not all` is `any not`, of whatever records.
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

        /// What is left of a condition says of every record what the condition says, and asks for no level, instance
        /// or source.
        #[test]
        fn what_is_left_says_the_same(
            condition in any_condition(), record in any_record(),
            instance in "[ab]", source in "[ab]", tenant in proptest::option::of("[ab]"),
        ) {
            let of = Subject { instance: &instance, source: &source, tenant: tenant.as_deref(), record: &record };
            let said = match condition.reduce(record.level, &instance, &source) {
                Reduced::Known(known) => known,
                Reduced::Asks(left) => {
                    let nobody = Record { level: None, ..record.clone() };
                    left.holds(&Subject { instance: "", source: "", record: &nobody, ..of })
                }
            };
            prop_assert_eq!(said, condition.holds(&of));
        }
    }
}
