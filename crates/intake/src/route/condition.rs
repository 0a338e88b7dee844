//! Which records a table takes: a filter of the query language, as `query` has it.
//!
//! A condition means what the same filter means in a query, because both are the same [`Predicate`]: a record that a table
//! took is a record that the filter finds there. Two names are unlike a query's. `tenant` is the tenant of the sender's
//! credential alone, so no record chooses the table of another tenant by a field of its own. Times and tables are refused: the
//! time of a record chooses its day, and its table is what the condition decides.
//!
//! The instance, the source and the level are the same for most records of a file. `Condition::reduced` evaluates these
//! parts once ([partial evaluation](https://en.wikipedia.org/wiki/Partial_evaluation)). Only the rest, on tenant, line and
//! fields, is evaluated for each record.

use daytable_logsql::{
    Column, Expression, FieldName, Fields, Predicate, PredicateNode, SyntaxError, Test, passes_as_read, passes_as_value,
};
use daytable_model::field_properties::name_again;
use daytable_model::property::{Property, property_name};
use daytable_model::record::{Level, Record, Value};
use daytable_model::time::Ticks;
use std::fmt;

/// The name of the tenant in a condition.
const TENANT: &str = "tenant";

/// The records that a table takes.
#[derive(Clone, Debug)]
pub struct Condition {
    filter: Expression,
    root: PredicateNode,
}

impl Condition {
    /// The condition that every record meets.
    pub const ALWAYS: Condition = Condition { filter: Expression::All, root: PredicateNode::Always(true) };

    /// Parses a filter of the query language.
    ///
    /// # Errors
    ///
    /// The place in the filter that is wrong, and what was expected.
    pub fn parse(text: &str) -> Result<Condition, SyntaxError> {
        if text.trim().is_empty() {
            return Err(SyntaxError::new(text, 0..0, "the filter is empty; for all records, write *"));
        }
        // Nobody sees which records a wrong condition takes.
        let filter = Expression::parse_strictly(text)?;
        if let Some(name) = unknown_before_routing(&filter) {
            let name = if text.contains(name) { name } else { name.trim_start_matches('_') };
            let at = text.find(name).map_or(0..text.len(), |start| start..start + name.len());
            let reason = format!("a table is chosen by what a record says, not by its {name}: leave this test out");
            return Err(SyntaxError::new(text, at, reason));
        }
        // Without times, the present is not asked for.
        let root = Predicate::new(&filter, Ticks::UNIX_EPOCH).into_root();
        Ok(Condition { filter, root })
    }

    /// Whether the condition holds.
    pub fn holds(&self, subject: &Subject<'_>) -> bool {
        self.root.matches(subject)
    }

    /// The condition with its parts on level, instance and source evaluated.
    pub(super) fn reduced(&self, instance: &str, source: &str, level: Option<Level>) -> PredicateNode {
        self.root.reduced(&|node| {
            let PredicateNode::Field(name, matcher) = node else { return None };
            match name.column() {
                Column::Level => Some(matcher.matches(level.map(|level| Property::String(level.name())))),
                Column::Instance => Some(matcher.matches(Some(Property::String(instance)))),
                Column::Source => Some(matcher.matches(Some(Property::String(source)))),
                _ => None,
            }
        })
    }
}

/// Two conditions are equal if their filters are.
impl PartialEq for Condition {
    fn eq(&self, other: &Condition) -> bool {
        self.filter == other.filter
    }
}

impl Eq for Condition {}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.filter.fmt(f)
    }
}

/// The first name of a filter that a record has only once it is routed.
fn unknown_before_routing(filter: &Expression) -> Option<&str> {
    let is_unknown = |name: &FieldName| matches!(name.column(), Column::Time | Column::Arrived | Column::Table);
    match filter {
        Expression::All => None,
        Expression::And(parts) | Expression::Or(parts) => parts.iter().find_map(unknown_before_routing),
        Expression::Not(inner) => unknown_before_routing(inner),
        Expression::Time(_) => Some("_time"),
        Expression::Field(name, Test::Other(_, other)) if is_unknown(other) => Some(other.written()),
        Expression::Field(name, _) => is_unknown(name).then(|| name.written()),
    }
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

impl Subject<'_> {
    /// The fields of the record that a filter would find by this name once they are stored: those of this very name, or of
    /// the first name that the store writes alike.
    fn values(&self, written: &str, property: &str) -> impl Iterator<Item = Property<'_>> {
        // Only a name of the same length can become this property; most names are properties already.
        let is_plain = |name: &str| name.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphabetic());
        let fits = |name: &str| !name.is_ascii() || matches!(property.len().checked_sub(name.len()), Some(0 | 1));
        let is_same = |name: &str| {
            let becomes_same = || fits(name) && !is_plain(name) && *property_name(name) == *property;
            name == property || becomes_same()
        };
        let fields = &self.record.fields;
        let found = |is_it: &dyn Fn(&str) -> bool| fields.iter().map(|field| &*field.name).find(|name| is_it(name));
        let mut name = found(&|name| name == written).or_else(|| found(&|name| name == property));
        let mut least = 1;
        if let Some((again, n)) = name_again(written).filter(|_| name.is_none()) {
            name = found(&|name| name == again);
            least = n;
        }
        let name = name.or_else(|| found(&is_same));
        let named = fields.iter().filter(move |field| Some(&*field.name) == name);
        named.skip(least - 1).map(|field| property_of(&field.value))
    }
}

fn property_of<'v>(value: &'v Value<'_>) -> Property<'v> {
    match value {
        Value::String(text) => Property::String(text),
        Value::Int64(n) => Property::Int64(*n),
        Value::Double(n) => Property::Double(*n),
        Value::Boolean(is_true) => Property::Boolean(*is_true),
        Value::Binary(bytes) => Property::Binary(bytes),
    }
}

impl Fields for Subject<'_> {
    fn field(&self, name: &FieldName) -> Option<Property<'_>> {
        match name.column() {
            Column::Time | Column::Arrived | Column::Table | Column::Stream => None,
            Column::Level => self.record.level.map(|level| Property::String(level.name())),
            Column::Instance => Some(Property::String(self.instance)),
            Column::Source => Some(Property::String(self.source)),
            Column::Message => Some(Property::String(self.record.whole_message())),
            Column::Line | Column::Anywhere => Some(Property::String(line(self.record))),
            Column::Field if name.written() == TENANT => self.tenant.map(Property::String),
            Column::Field => self.values(name.written(), name.property()).next().or_else(|| {
                // A field that has the name of a column is asked for with a `_`.
                let column = name.written().strip_suffix('_')?.trim_end_matches('_');
                if FieldName::new(column).column() == Column::Field { None } else { self.values(column, column).next() }
            }),
        }
    }

    fn any_value(&self, name: &FieldName, test: &mut dyn FnMut(Option<Property<'_>>) -> bool) -> bool {
        let is_own = name.column() == Column::Field && name.written() != TENANT;
        test(self.field(name))
            || is_own && self.values(name.written(), name.property()).skip(1).any(|value| test(Some(value)))
    }

    fn any_part(&self, test: &mut dyn FnMut(Property<'_>) -> bool) -> bool {
        let message = self.record.whole_message();
        !message.is_empty() && passes_as_value(Property::String(message), test)
            || self.record.fields.iter().any(|field| passes_as_value(property_of(&field.value), test))
            || passes_as_read(line(self.record), test)
    }
}

/// The text of a record as its source wrote it.
fn line<'r>(record: &'r Record<'_>) -> &'r str {
    record.line.as_ref().map_or(&*record.message, |line| line.text.trim_end_matches(['\r', '\n']))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use daytable_model::record::Field;
    use proptest::prelude::*;

    pub(in crate::route) fn condition(text: &str) -> Condition {
        Condition::parse(text).expect(text)
    }

    fn record(level: Option<Level>, fields: &[(&'static str, Value<'static>)]) -> Record<'static> {
        let fields = fields.iter().map(|(name, value)| Field { name: (*name).into(), value: value.clone() }).collect();
        Record { level, fields, message: "disk full".into(), ..Record::default() }
    }

    #[test]
    fn conditions_and_the_records_that_they_take() {
        let text = |text: &'static str| Value::String(text.into());
        let fields = [
            ("http.status", Value::Int64(500)),
            ("http.status", Value::Int64(200)),
            ("took", Value::Double(1.5)),
            ("cached", Value::Boolean(true)),
            ("user", text("admin-7")),
            ("code", text("500")),
            ("tenant", text("beta")),
            ("level", text("own")),
        ];
        let record = record(Some(Level::Warn), &fields);
        let of = Subject { instance: "web-1", source: "/srv/a/b", tenant: Some("acme"), record: &record };
        for (filter, holds) in [
            ("*", true),
            ("level:<=warn", true),
            ("level:<=info", false),
            ("level:>=error", false),
            ("instance:=web-*", true),
            ("instance:=db", false),
            ("source:=/srv/*", true),
            ("tenant:=acme", true),
            ("tenant:=beta", false),
            ("http.status:>=500", true),
            ("http_status:500", true),
            ("http.status:200", true),
            ("\"http.status#2\":200", true),
            ("\"http.status#2\":500", false),
            ("took:<2", true),
            ("code:>=500", true),
            ("user:=admin-*", true),
            ("cached:true", true),
            ("users:*", false),
            ("-users:*", true),
            ("level_:own", true),
            ("full", true),
            ("\"disk full\"", true),
            ("beta", true),
            ("message:disk", true),
            ("line:disk", true),
            ("nowhere", false),
            ("http.status:500 -(user:=root or instance:=test-*)", true),
        ] {
            assert_eq!(condition(filter).holds(&of), holds, "{filter}");
        }
        let bare = Record::default();
        let of = Subject { tenant: None, record: &bare, ..of };
        for filter in ["level:<=fatal", "level:>=trace", "tenant:*", "x:>=-5", "x:<=5"] {
            assert!(!condition(filter).holds(&of), "{filter}: a record does not meet a condition on what it lacks");
        }
    }

    #[test]
    fn what_a_record_has_only_after_routing_is_refused_with_its_place() {
        for (filter, at) in [("a _time:5m", 2..7), ("table:=Log", 0..5), ("-(b or time:>2026)", 7..11), ("a:(", 3..3)] {
            let error = Condition::parse(filter).expect_err(filter);
            assert_eq!(error.at().start, at.start, "{filter}: {error}");
        }
        assert!(Condition::parse("a | stats count() n").is_err());
    }

    /// Conditions of every kind over few enough values that they are met about as often as not.
    pub(in crate::route) fn any_condition() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            Just("*".to_owned()),
            ("level:(<=|>=|=)(debug|info|warn|fatal)").prop_map(|text: String| text),
            "(instance|source|tenant):=[ab]",
            "(a|b|c):(=|>=|<=)[0-2]",
            "(a|b):\\*",
            "[ab012]",
            "message:[ab]",
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            let join = |parts: Vec<String>, by: &str| format!("({})", parts.join(by));
            prop_oneof![
                proptest::collection::vec(inner.clone(), 1..4).prop_map(move |parts| join(parts, " ")),
                proptest::collection::vec(inner.clone(), 1..4).prop_map(move |parts| join(parts, " or ")),
                inner.prop_map(|part| format!("!{part}")),
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
        (0u8..10, fields, "[ab]?").prop_map(|(level, fields, message)| Record {
            message: message.into(),
            ..record(Level::from_code(level), &fields)
        })
    }

    proptest! {
        /// A reduced condition gives the same answer without level, instance and source.
        #[test]
        fn a_reduced_condition_is_equivalent(
            text in any_condition(), record in any_record(),
            instance in "[ab]", source in "[ab]", tenant in proptest::option::of("[ab]"),
        ) {
            let (condition, tenant) = (condition(&text), tenant.as_deref());
            let of = Subject { instance: &instance, source: &source, tenant, record: &record };
            let reduced = condition.reduced(&instance, &source, record.level);
            let bare = Record { level: None, ..record.clone() };
            let holds = reduced.matches(&Subject { instance: "", source: "", record: &bare, ..of });
            prop_assert_eq!(holds, condition.holds(&of), "{}", text);
        }
    }
}
