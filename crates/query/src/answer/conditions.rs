//! A query with the conditions that stand beside it, as a command line has them.
//!
//! The same texts give the same query in the process that was called, and in the daemon that is asked instead of it.

use super::AnswerOptions;
use crate::filter::Filter;
use daytable_logsql::{Expression, FieldName, ParsedQuery, Remarks, SyntaxError, Test};
use daytable_model::record::Level;
use daytable_model::time::Ticks;
use serde::{Deserialize, Serialize};

/// A query, and conditions beside it. The default asks for all records.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QueryConditions {
    /// The query: a filter, and pipes.
    pub query: String,
    /// Further filters.
    pub also: Vec<String>,
    /// Names of instances, of which a record has one; `*` stands for any text.
    pub instances: Vec<String>,
    /// Names of sources, as those of instances.
    pub sources: Vec<String>,
    /// Names of tables or day-tables, as those of instances.
    pub tables: Vec<String>,
    /// The first time.
    #[serde(with = "ticks")]
    pub since: Option<Ticks>,
    /// The end, exclusive.
    #[serde(with = "ticks")]
    pub until: Option<Ticks>,
    /// The lowest level.
    #[serde(with = "level")]
    pub level: Option<Level>,
    /// A text that the record contains.
    pub contains: Option<String>,
    /// The oldest records, as many; then the query has no pipes of its own.
    pub oldest: Option<u64>,
}

impl QueryConditions {
    /// The query with its conditions, what is to be said about their texts, and the options of an answer of at most `limit`
    /// records at `now`.
    ///
    /// # Errors
    ///
    /// A text is not a query.
    pub fn parse(
        self,
        now: Ticks,
        limit: Option<u64>,
    ) -> Result<(ParsedQuery, Vec<Remarks>, AnswerOptions), SyntaxError> {
        let (mut query, remarks) = ParsedQuery::parse_remarked(&self.query)?;
        let (mut conditions, mut remarks) = (Vec::new(), vec![remarks]);
        for filter in &self.also {
            let (condition, remarked) = Expression::parse_remarked(filter)?;
            conditions.push(condition);
            remarks.push(remarked);
        }
        let exact = self.instances.len() == 1 && !self.instances[0].contains('*');
        if !exact {
            conditions.extend(one_of("instance", &self.instances, Test::glob));
        }
        conditions.extend(one_of("source", &self.sources, Test::glob));
        conditions.extend(one_of("table", &self.tables, |name| {
            // A day-table ends in the digits of its day, and the name of a table in none.
            let is_name =
                name.bytes().all(|byte| byte.is_ascii_alphanumeric()) && !name.ends_with(|c: char| c.is_ascii_digit());
            if is_name { Test::Regexp(format!("^{name}[0-9]+$")) } else { Test::glob(name) }
        }));
        for condition in conditions {
            query.filter = match query.filter {
                Expression::All => condition,
                filter => Expression::And(vec![condition, filter]),
            };
        }
        if let Some(count) = self.oldest {
            query.pipes = ParsedQuery::parse(&format!("* | first {count} by (_time)"))?.pipes;
        }
        let filter = Filter {
            instance: self.instances.into_iter().next().filter(|_| exact),
            partitions: None,
            days: None,
            since: self.since,
            until: self.until,
            level: self.level,
            contains: self.contains,
            limit,
        };
        Ok((query, remarks, AnswerOptions { filter, ..AnswerOptions::at(now) }))
    }
}

/// The condition that a field has one of the values, in which `*` stands for any text; `None` without values.
fn one_of(field: &str, values: &[String], test: impl Fn(&str) -> Test) -> Option<Expression> {
    let test = |value: &String| Expression::Field(FieldName::new(field), test(value));
    let mut tests: Vec<Expression> = values.iter().map(test).collect();
    if tests.len() > 1 { Some(Expression::Or(tests)) } else { tests.pop() }
}

/// A time as its ticks.
mod ticks {
    use daytable_model::time::Ticks;
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::{Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(time: &Option<Ticks>, serializer: S) -> Result<S::Ok, S::Error> {
        time.map(Ticks::get).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Ticks>, D::Error> {
        let ticks = Option::<i64>::deserialize(deserializer)?;
        ticks.map(|ticks| Ticks::new(ticks).ok_or_else(|| D::Error::custom("no time has these ticks"))).transpose()
    }
}

/// A level as its name.
mod level {
    use daytable_model::level::unknown_level;
    use daytable_model::record::Level;
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::{Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(level: &Option<Level>, serializer: S) -> Result<S::Ok, S::Error> {
        level.map(Level::name).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Level>, D::Error> {
        let word = Option::<String>::deserialize(deserializer)?;
        word.map(|word| Level::from_word(&word).ok_or_else(|| D::Error::custom(unknown_level(&word)))).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_the_same_query_after_their_way_as_json() {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let conditions = QueryConditions {
            query: "user:=bob | fields user".into(),
            also: texts(&["status:>=500"]),
            instances: texts(&["web-*", "db"]),
            sources: texts(&["/var/log/a.log"]),
            tables: texts(&["Log", "Acme20261121"]),
            since: Ticks::from_date(2026, 11, 21),
            until: Ticks::from_date(2026, 11, 22),
            level: Some(Level::Warn),
            contains: Some("a \"b\"\n".into()),
            oldest: None,
        };
        let json = serde_json::to_string(&conditions).expect("plain data");
        let read: QueryConditions = serde_json::from_str(&json).expect("the same");
        assert_eq!(read, conditions);
        let now = Ticks::from_date(2026, 11, 23).expect("a date");
        let ((one, _, of_one), (other, _, of_other)) =
            (conditions.parse(now, Some(7)).expect("a query"), read.parse(now, Some(7)).expect("a query"));
        assert_eq!((&one, &of_one.filter), (&other, &of_other.filter));
        assert_eq!(of_one.filter.limit, Some(7));
        let filter = one.filter.to_string();
        for part in ["instance", "db", "^Log[0-9]+$", "Acme20261121", "status", "user"] {
            assert!(filter.contains(part), "{part}: {filter}");
        }
        for wrong in [r#"{"level":"errror"}"#, r#"{"since":-1}"#, r#"{"sinec":1}"#] {
            assert!(serde_json::from_str::<QueryConditions>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_oldest_records_are_a_pipe() {
        let conditions = QueryConditions { oldest: Some(3), ..QueryConditions::default() };
        let (query, ..) = conditions.parse(Ticks::UNIX_EPOCH, None).expect("a query");
        assert_eq!(query, ParsedQuery::parse("* | first 3 by (_time)").expect("a query"));
    }
}
