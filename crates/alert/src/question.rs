//! The query of a rule, prepared to be asked for any window.

use crate::rule::{AlertRule, RuleError, label_name};
use crate::template::placeholders;
use crate::{GROUPS_MAX, LABEL_BYTES_MAX};
use daytable_logsql::number::Number;
use daytable_logsql::query::{Aggregate, Function, GroupField, Test, Times};
use daytable_logsql::{Column, Expression, FieldName, Fields, ParsedQuery, Pipe};
use daytable_model::time::Ticks;
use daytable_query::answer::{AnswerOptions, answer};
use daytable_query::tables::TableError;
use daytable_query::{Filter, Stores};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;

/// The column of the number of a filter's records.
const COUNT: &str = "records";
/// Memory of one question.
const QUESTION_BYTES_MAX: usize = 32 << 20;
/// Time of one question.
const QUESTION_TIME_MAX: Duration = Duration::from_secs(20);
/// Rows of an answer that are read. A rule does not remember that many groups.
const ROWS_MAX: usize = 10 * GROUPS_MAX;

/// The values of one window, by the fields of the group.
pub(crate) type GroupValues = BTreeMap<Vec<String>, f64>;

/// A prepared query.
#[derive(Debug)]
pub(crate) struct Question {
    query: ParsedQuery,
    /// The fields of a group.
    pub(crate) by: Vec<FieldName>,
    value: FieldName,
    /// Whether the value is a number of records, which is zero for a group without records.
    pub(crate) is_count: bool,
}

/// Why a window has no values.
#[derive(Debug, thiserror::Error)]
pub(crate) enum QuestionError {
    /// The data folder or the remote store cannot be read.
    #[error(transparent)]
    Store(#[from] TableError),
    /// The answer was cut.
    #[error("{0}")]
    Incomplete(String),
}

impl AlertRule {
    /// Checks the rule as a whole.
    ///
    /// # Errors
    ///
    /// The first problem, with its key and, in the query, its place.
    pub fn check(&self) -> Result<(), RuleError> {
        self.question().map(drop)
    }

    pub(crate) fn question(&self) -> Result<Question, RuleError> {
        let question = Question::new(self)?;
        if self.above.is_none() && self.below.is_none() {
            return Err(RuleError::new("above", "is missing, for example above = 5; or below = 1"));
        }
        if self.every > self.period {
            return Err(RuleError::new(
                "every",
                "must be at most `period`, so that no record lies between two windows",
            ));
        }
        let names: Vec<String> = question.by.iter().map(label_name).collect();
        let is_taken = |name: &String| *name == "alertname" || self.labels.contains_key(name);
        for (at, name) in names.iter().enumerate() {
            if is_taken(name) || names[..at].contains(name) {
                return Err(RuleError::new("labels", format!("two labels are called {name:?}")));
            }
        }
        if let Some(name) =
            self.labels.keys().find(|name| label_name(&FieldName::new(name)) != **name || *name == "alertname")
        {
            return Err(RuleError::new(
                "labels",
                format!("{name:?} is not the name of a label: letters, digits and \"_\", and not \"alertname\""),
            ));
        }
        for text in self.annotations.values() {
            let unknown = |name: &str| name != "value" && !question.by.iter().any(|field| field.written() == name);
            if let Some(name) = placeholders(text).find(|name| unknown(name)) {
                return Err(RuleError::new(
                    "annotations",
                    format!("{{{name}}} is neither {{value}} nor a field of `by`"),
                ));
            }
        }
        self.actions.check(self, &question.by)?;
        Ok(question)
    }
}

/// All of these conditions.
fn joined(parts: Vec<Expression>) -> Expression {
    let of_part = |part| match part {
        Expression::All => Vec::new(),
        Expression::And(parts) => parts,
        part => vec![part],
    };
    let mut parts: Vec<Expression> = parts.into_iter().flat_map(of_part).collect();
    match parts.pop() {
        None => Expression::All,
        Some(only) if parts.is_empty() => only,
        Some(last) => Expression::And(parts.into_iter().chain([last]).collect()),
    }
}

impl Question {
    /// Prepares the query of a rule.
    pub(crate) fn new(rule: &AlertRule) -> Result<Question, RuleError> {
        let wrong = |message: String| RuleError::new("query", message);
        // Nobody reads the answers, so a query that looks wrong is refused.
        let mut query = ParsedQuery::parse_strictly(&rule.query).map_err(|error| RuleError {
            key: "query",
            at: Some(error.at()),
            message: error.message().to_owned(),
        })?;
        if has_time(&query.filter) {
            return Err(wrong("`period` gives the time: write no `_time:`, except day_range and week_range".into()));
        }
        let is_stats = |pipe: &&Pipe| matches!(pipe, Pipe::Stats { .. });
        match query.pipes.iter().filter(is_stats).count() {
            0 if query.pipes.is_empty() => {}
            0 => {
                return Err(wrong(
                    "needs no pipes, or one pipe `stats`, for example | stats by (path) count() n".into(),
                ));
            }
            1 => return Question::of_stats(rule, query),
            _ => return Err(wrong("may have one pipe `stats` only".into())),
        }
        if rule.value.is_some() {
            return Err(RuleError::new(
                "value",
                "belongs to a query with a pipe `stats`: a filter's records are counted",
            ));
        }
        let by: Vec<FieldName> = rule.by.iter().map(|name| FieldName::new(name)).collect();
        if let Some(field) = by.iter().find(|field| is_endless(field)) {
            return Err(RuleError::new("by", format!("{field} has another value in nearly every record")));
        }
        // A field may have the name.
        let mut name = COUNT.to_owned();
        while by.iter().any(|field| field.written() == name) {
            name.push('s');
        }
        let value = FieldName::new(&name);
        let count = Aggregate { function: Function::Count, fields: Vec::new(), limit: None, condition: None, name };
        let groups = by.iter().map(|field| GroupField { field: field.clone(), step: None }).collect();
        query.pipes.push(Pipe::Stats { by: groups, aggregates: vec![count] });
        Ok(Question { query, by, value, is_count: true })
    }

    fn of_stats(rule: &AlertRule, query: ParsedQuery) -> Result<Question, RuleError> {
        let wrong = |message: &str| RuleError::new("query", message);
        if !rule.by.is_empty() {
            return Err(RuleError::new("by", "belongs to a query without pipes: write `stats by (…)`"));
        }
        let (mut groups, mut columns): (&[GroupField], Vec<&str>) = (&[], Vec::new());
        for pipe in &query.pipes {
            match pipe {
                Pipe::Stats { by, aggregates } => {
                    groups = by;
                    columns = aggregates.iter().map(|aggregate| aggregate.name.as_str()).collect();
                }
                Pipe::Math(results) => columns.extend(results.iter().map(|(_, name)| name.written())),
                Pipe::Filter(_) | Pipe::Extract(_) | Pipe::ExtractRegexp(_) | Pipe::Format { .. } => {}
                Pipe::Replace { .. } | Pipe::Length { .. } | Pipe::Copy(_) => {}
                _ => {
                    return Err(wrong(
                        "has a pipe beside `stats` that an alert cannot use: only filter, math, extract, format, replace, len and copy",
                    ));
                }
            }
        }
        if groups.iter().any(|group| is_endless(&group.field)) {
            return Err(wrong("groups by time or line, which have another value in nearly every window"));
        }
        let value = match (&rule.value, &columns[..]) {
            (Some(value), _) if columns.contains(&value.as_str()) => value.as_str(),
            (Some(_), _) => {
                return Err(RuleError::new("value", format!("must be a column of the query: {}", columns.join(", "))));
            }
            (None, [only]) => only,
            (None, _) => return Err(wrong("has several columns: name the one to compare by `value`")),
        };
        let (by, value) = (groups.iter().map(|group| group.field.clone()).collect(), FieldName::new(value));
        Ok(Question { query, by, value, is_count: false })
    }

    /// The query of the records of a group: its filter and its pipes before `stats`, and the values of the group.
    pub(crate) fn records_of(&self, group: &[String]) -> String {
        let of_value = |(field, value): (&FieldName, &String)| {
            let test = if value.is_empty() { Test::Empty } else { Test::Exact(value.clone()) };
            Expression::Field(field.clone(), test)
        };
        let mut values: Vec<Expression> = self.by.iter().zip(group).map(of_value).collect();
        let mut pipes: Vec<Pipe> =
            self.query.pipes.iter().take_while(|pipe| !matches!(pipe, Pipe::Stats { .. })).cloned().collect();
        // A pipe may have made the field.
        let mut filter = vec![self.query.filter.clone()];
        match values.pop() {
            Some(last) if !pipes.is_empty() => {
                values.push(last);
                pipes.push(Pipe::Filter(joined(values)));
            }
            last => filter.extend(values.into_iter().chain(last)),
        }
        ParsedQuery { filter: joined(filter), pipes }.to_string()
    }

    /// The filter of the records.
    pub(crate) fn filter(&self) -> &Expression {
        &self.query.filter
    }

    /// The values of the window from `from` to before `to`.
    pub(crate) fn ask(
        &self,
        stores: &Stores<'_>,
        from: Ticks,
        to: Ticks,
        is_wanted: &dyn Fn() -> bool,
    ) -> Result<GroupValues, QuestionError> {
        let filter = Filter { since: Some(from), until: Some(to), ..Filter::default() };
        let options = AnswerOptions {
            filter,
            bytes_max: QUESTION_BYTES_MAX,
            time_limit: Some(QUESTION_TIME_MAX),
            ..AnswerOptions::at(to)
        };
        let (mut values, mut is_cut) = (GroupValues::new(), false);
        let report = answer(stores, &self.query, &options, is_wanted, &mut |item| {
            let group =
                self.by.iter().map(|field| item.field(field).map(|value| cut(&value.text())).unwrap_or_default());
            let value = item.field(&self.value).and_then(Number::of);
            if let Some(value) = value.map(Number::as_f64).filter(|value| value.is_finite()) {
                values.insert(group.collect(), value);
            }
            is_cut = values.len() >= ROWS_MAX;
            if is_cut { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if !is_wanted() {
            return Err(QuestionError::Incomplete("the daemon stops".into()));
        }
        if is_cut {
            return Err(QuestionError::Incomplete(format!(
                "the answer has more than {ROWS_MAX} groups: group by fewer fields"
            )));
        }
        // A count of no records is a number of a group without fields.
        if self.is_count && self.by.is_empty() {
            values.entry(Vec::new()).or_insert(0.0);
        }
        report.incomplete().map_or(Ok(values), |missing| Err(QuestionError::Incomplete(missing)))
    }
}

/// Whether nearly every record, or every window, has another value.
fn is_endless(field: &FieldName) -> bool {
    matches!(field.column(), Column::Time | Column::Arrived | Column::Line | Column::Anywhere | Column::Message)
}

/// Whether the filter has times of its own, except those of a day or a week.
fn has_time(filter: &Expression) -> bool {
    match filter {
        Expression::Time(test) | Expression::Field(_, Test::Times(test)) => {
            !matches!(test.times, Times::Daily { .. } | Times::Weekly { .. })
        }
        Expression::And(parts) | Expression::Or(parts) => parts.iter().any(has_time),
        Expression::Not(inner) => has_time(inner),
        Expression::All | Expression::Field(..) => false,
    }
}

/// A value of a label, cut at its limit.
fn cut(text: &str) -> String {
    text[..text.floor_char_boundary(LABEL_BYTES_MAX)].to_owned()
}
