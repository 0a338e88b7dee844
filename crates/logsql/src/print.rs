//! A tree as text. Parsing the text gives the same tree.

use crate::field_name::{Column, FieldName};
use crate::keyword::quoted;
use crate::parser::DAYS;
use crate::query::{
    Aggregate, Arithmetic, ArithmeticOperator, Expression, Extraction, FieldOperator, FieldPattern, Function,
    GroupField, JoinPipe, MathFunction, ParsedQuery, Pipe, SortKey, Test, TimeTest, Times,
};
use std::fmt::{self, Display, Formatter};

/// A text with quotes where needed.
struct Quoted<'t>(&'t str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        quoted(f, self.0)
    }
}

/// Items with commas between them.
struct List<'t, T>(&'t [T]);

impl<T: Display> Display for List<'_, T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.iter().enumerate().try_for_each(|(at, item)| write!(f, "{}{item}", if at == 0 { "" } else { ", " }))
    }
}

fn texts(values: &[String]) -> String {
    List(&values.iter().map(|value| Quoted(value)).collect::<Vec<_>>()).to_string()
}

impl Display for ParsedQuery {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.filter.fmt(f)?;
        self.pipes.iter().try_for_each(|pipe| write!(f, " | {pipe}"))
    }
}

/// A part of `and`, `or` or `not`: joined conditions get parentheses.
struct Nested<'e>(&'e Expression);

impl Display for Nested<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Expression::And(_) | Expression::Or(_) => write!(f, "({})", self.0),
            simple => simple.fmt(f),
        }
    }
}

impl Display for Expression {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let joined = |f: &mut Formatter<'_>, parts: &[Expression], sign: &str| {
            let part = |(at, part)| write!(f, "{}{}", if at == 0 { "" } else { sign }, Nested(part));
            parts.iter().enumerate().try_for_each(part)
        };
        // A word before a sign would be the name of what the sign compares.
        let all = |f: &mut Formatter<'_>, parts: &[Expression]| {
            let texts: Vec<String> = parts.iter().map(|part| Nested(part).to_string()).collect();
            for (at, text) in texts.iter().enumerate() {
                let is_before_sign = texts.get(at + 1).is_some_and(|next| next.starts_with(['=', '!', '<', '>', '~']));
                let (open, close) = if is_before_sign { ("(", ")") } else { ("", "") };
                write!(f, "{}{open}{text}{close}", if at == 0 { "" } else { " " })?;
            }
            Ok(())
        };
        match self {
            Expression::All => f.write_str("*"),
            Expression::And(parts) => all(f, parts),
            Expression::Or(parts) => joined(f, parts, " or "),
            Expression::Not(inner) => write!(f, "!{}", Nested(inner)),
            Expression::Time(test) => write!(f, "_time:{test}"),
            Expression::Field(field, test) => {
                if field.column() != Column::Anywhere {
                    write!(f, "{field}:")?;
                }
                test.fmt(f)
            }
        }
    }
}

impl Display for Test {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let bracket = |included: bool, open: &'static str, closed: &'static str| if included { closed } else { open };
        match self {
            Test::Present => f.write_str("*"),
            Test::Empty => f.write_str("\"\""),
            Test::Phrase { text, any_case: false } => quoted(f, text),
            Test::Phrase { text, any_case: true } => write!(f, "i({})", Quoted(text)),
            Test::Prefix { text, any_case: false } => write!(f, "{}*", Quoted(text)),
            Test::Prefix { text, any_case: true } => write!(f, "i({}*)", Quoted(text)),
            Test::Part(text) => write!(f, "*{}*", Quoted(text)),
            Test::Exact(text) => write!(f, "={}", Quoted(text)),
            Test::ExactPrefix(text) => write!(f, "={}*", Quoted(text)),
            Test::In(values) => write!(f, "in({})", texts(values)),
            Test::ContainsAll(values) => write!(f, "contains_all({})", texts(values)),
            Test::ContainsAny(values) => write!(f, "contains_any({})", texts(values)),
            Test::Sequence(values) => write!(f, "seq({})", texts(values)),
            Test::Regexp(pattern) => write!(f, "~{}", Quoted(pattern)),
            Test::Order(operator, value) => write!(f, "{}{}", operator.text(), Quoted(value)),
            Test::Range { low, low_included, high, high_included } => {
                let (open, close) = (bracket(*low_included, "(", "["), bracket(*high_included, ")", "]"));
                write!(f, "range{open}{}, {}{close}", Quoted(low), Quoted(high))
            }
            Test::StringRange(low, high) => write!(f, "string_range({}, {})", Quoted(low), Quoted(high)),
            Test::Pattern(pattern) => write!(f, "pattern({})", Quoted(pattern)),
            Test::LengthRange(low, high) => write!(f, "len_range({low}, {high})"),
            Test::Times(test) => test.fmt(f),
            Test::AddressRange(low, high) => {
                let [low, high] = [low, high].map(|address| std::net::Ipv4Addr::from(*address));
                write!(f, "ipv4_range({low}, {high})")
            }
            Test::Other(operator, other) => {
                let name = match operator {
                    FieldOperator::Equal => "eq_field",
                    FieldOperator::LessOrEqual => "le_field",
                    FieldOperator::Less => "lt_field",
                };
                write!(f, "{name}({other})")
            }
        }
    }
}

impl Display for TimeTest {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let ends = |from: bool, to: bool| (if from { "[" } else { "(" }, if to { "]" } else { ")" });
        let minute = |minute: u32| format!("{:02}:{:02}", minute / 60, minute % 60);
        let day = |day: u32| DAYS[day as usize % DAYS.len()];
        match &self.times {
            Times::Any => {}
            Times::Last(span) => f.write_str(&span.text)?,
            Times::Age(operator, span) => write!(f, "{}{}", operator.text(), span.text)?,
            Times::Period(moment) => f.write_str(&Timely(&moment.text).to_string())?,
            Times::Order(operator, moment) => write!(f, "{}{}", operator.text(), Timely(&moment.text))?,
            Times::Between { from, from_included, to, to_included } => {
                let (open, close) = ends(*from_included, *to_included);
                write!(f, "{open}{},{}{close}", Timely(&from.text), Timely(&to.text))?;
            }
            Times::Daily { from, from_included, to, to_included } => {
                let (open, close) = ends(*from_included, *to_included);
                write!(f, "day_range{open}{}, {}{close}", minute(*from), minute(*to))?;
            }
            Times::Weekly { from, from_included, to, to_included } => {
                let (open, close) = ends(*from_included, *to_included);
                write!(f, "week_range{open}{}, {}{close}", day(*from), day(*to))?;
            }
        }
        let Some(offset) = &self.offset else { return Ok(()) };
        let space = if self.times == Times::Any { "" } else { " " };
        write!(f, "{space}offset {}", offset.text)
    }
}

/// A time as written. Only a time with a space needs quotes.
struct Timely<'t>(&'t str);

impl Display for Timely<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0.contains(' ') { write!(f, "\"{}\"", self.0) } else { f.write_str(self.0) }
    }
}

impl Display for FieldPattern {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match (self.name.written(), self.is_prefix) {
            ("", true) => f.write_str("*"),
            (_, true) => write!(f, "{}*", self.name),
            (_, false) => self.name.fmt(f),
        }
    }
}

impl Display for SortKey {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.field, if self.is_descending { " desc" } else { "" })
    }
}

impl Display for GroupField {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.field.fmt(f)?;
        let Some(step) = &self.step else { return Ok(()) };
        write!(f, ":{}", step.text)?;
        step.offset.as_ref().map_or(Ok(()), |offset| write!(f, " offset {}", offset.text))
    }
}

impl Aggregate {
    /// The name of the column if the query gives none: the function as written.
    pub(crate) fn default_name(&self) -> String {
        let mut name = format!("{}(", self.function.name());
        match self.function {
            Function::Quantile(phi) if phi != 0.5 => name.push_str(&format!("{phi}, ")),
            Function::Count | Function::Rate | Function::RowAny if self.fields.is_empty() => name.push('*'),
            _ => {}
        }
        name.push_str(&format!("{})", List(&self.fields)));
        if let Some(limit) = self.limit {
            name.push_str(&format!(" limit {limit}"));
        }
        if let Some(condition) = &self.condition {
            name.push_str(&format!(" if ({condition})"));
        }
        name
    }
}

impl Display for Aggregate {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} as {}", self.default_name(), Quoted(&self.name))
    }
}

impl Display for Extraction {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        condition(f, &self.condition)?;
        write!(f, "{} from {}", Quoted(&self.pattern), self.from)?;
        kept(f, self.keep_original, self.skip_empty)
    }
}

fn condition(f: &mut Formatter<'_>, condition: &Option<Expression>) -> fmt::Result {
    condition.as_ref().map_or(Ok(()), |condition| write!(f, "if ({condition}) "))
}

fn kept(f: &mut Formatter<'_>, keep_original: bool, skip_empty: bool) -> fmt::Result {
    f.write_str(if keep_original { " keep_original_fields" } else { "" })?;
    f.write_str(if skip_empty { " skip_empty_results" } else { "" })
}

fn pairs(f: &mut Formatter<'_>, pairs: &[(FieldName, FieldName)]) -> fmt::Result {
    let pairs: Vec<String> = pairs.iter().map(|(from, to)| format!("{from} as {to}")).collect();
    f.write_str(&pairs.join(", "))
}

impl Display for Pipe {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let limited =
            |f: &mut Formatter<'_>, limit: &Option<u64>| limit.map_or(Ok(()), |limit| write!(f, " limit {limit}"));
        let ranked = |f: &mut Formatter<'_>, rank: &Option<String>| {
            rank.as_ref().map_or(Ok(()), |rank| write!(f, " rank as {}", Quoted(rank)))
        };
        match self {
            Pipe::Stats { by, aggregates } => {
                f.write_str("stats ")?;
                if !by.is_empty() {
                    write!(f, "by ({}) ", List(by))?;
                }
                List(aggregates).fmt(f)
            }
            Pipe::Top { limit, by, hits, rank } => {
                write!(f, "top {limit} by ({}) hits as {}", List(by), Quoted(hits))?;
                ranked(f, rank)
            }
            Pipe::Uniq { by, hits, limit } => {
                write!(f, "uniq by ({}){}", List(by), if hits.is_some() { " with hits" } else { "" })?;
                limited(f, limit)
            }
            Pipe::Sort { by, offset, limit, rank } => {
                write!(f, "sort by ({})", List(by))?;
                if *offset > 0 {
                    write!(f, " offset {offset}")?;
                }
                limited(f, limit)?;
                ranked(f, rank)
            }
            Pipe::Limit(limit) => write!(f, "limit {limit}"),
            Pipe::Offset(offset) => write!(f, "offset {offset}"),
            Pipe::Fields(fields) => write!(f, "fields {}", List(fields)),
            Pipe::Delete(fields) => write!(f, "delete {}", List(fields)),
            Pipe::Copy(names) => f.write_str("copy ").and_then(|()| pairs(f, names)),
            Pipe::Rename(names) => f.write_str("rename ").and_then(|()| pairs(f, names)),
            Pipe::Filter(filter) => write!(f, "filter {filter}"),
            Pipe::Extract(extraction) => write!(f, "extract {extraction}"),
            Pipe::ExtractRegexp(extraction) => write!(f, "extract_regexp {extraction}"),
            Pipe::Format { pattern, name, condition: only, keep_original, skip_empty } => {
                f.write_str("format ")?;
                condition(f, only)?;
                write!(f, "{} as {name}", Quoted(pattern))?;
                kept(f, *keep_original, *skip_empty)
            }
            Pipe::Replace { is_regexp, from, to, at, limit, condition: only } => {
                f.write_str(if *is_regexp { "replace_regexp " } else { "replace " })?;
                condition(f, only)?;
                write!(f, "({}, {}) at {at}", Quoted(from), Quoted(to))?;
                limited(f, limit)
            }
            Pipe::Math(columns) => {
                let columns: Vec<String> = columns.iter().map(|(math, name)| format!("{math} as {name}")).collect();
                write!(f, "math {}", columns.join(", "))
            }
            Pipe::Length { of, name } => write!(f, "len({of}) as {name}"),
            Pipe::Facets { limit, values_max, length_max, keep_constant } => {
                write!(f, "facets {limit} max_values_per_field {values_max} max_value_len {length_max}")?;
                f.write_str(if *keep_constant { " keep_const_fields" } else { "" })
            }
            Pipe::FieldNames { name } => write!(f, "field_names as {}", Quoted(name)),
            Pipe::FieldValues { field, limit } => {
                write!(f, "field_values {field}")?;
                limited(f, limit)
            }
            Pipe::Sample(n) => write!(f, "sample {n}"),
            Pipe::Join(join) => {
                let JoinPipe { by, query, is_inner, prefix, .. } = &**join;
                write!(f, "join by ({}) ({query})", List(by))?;
                f.write_str(if *is_inner { " inner" } else { "" })?;
                if prefix.is_empty() { Ok(()) } else { write!(f, " prefix {}", Quoted(prefix)) }
            }
            Pipe::Sessions { by, pause } => {
                f.write_str("sessions ")?;
                if !by.is_empty() {
                    write!(f, "by ({}) ", List(by))?;
                }
                write!(f, "pause {}", pause.text)
            }
            Pipe::Gaps { by, over } => {
                write!(f, "gaps over {}", over.text)?;
                if by.is_empty() { Ok(()) } else { write!(f, " by ({})", List(by)) }
            }
            Pipe::Pivot(pivot) => write!(f, "pivot {}", pivot.field),
            Pipe::Pattern { of, name } => write!(f, "pattern({of}) as {name}"),
        }
    }
}

impl Display for Arithmetic {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Arithmetic::Number(text, _) => f.write_str(text),
            Arithmetic::Field(name) if MathFunction::ALL.iter().any(|(_, known, ..)| *known == name.written()) => {
                write!(f, "\"{}\"", name.written())
            }
            Arithmetic::Field(name) if name.written().starts_with(|c: char| c.is_ascii_digit() || c == '.') => {
                // A name with other characters has quotes anyway.
                let shown = name.to_string();
                if shown.starts_with('"') { f.write_str(&shown) } else { write!(f, "\"{shown}\"") }
            }
            Arithmetic::Field(name) => name.fmt(f),
            Arithmetic::Negate(inner) => write!(f, "-({inner})"),
            Arithmetic::Binary(operator, left, right) => {
                let (text, binds) = sign(*operator);
                // `^` is the only operator that groups from the right.
                let is_right = *operator == ArithmeticOperator::Power;
                write_operand(f, left, binds + u8::from(is_right))?;
                write!(f, " {text} ")?;
                write_operand(f, right, binds + u8::from(!is_right))
            }
            Arithmetic::Call(function, arguments) => {
                let name = MathFunction::ALL.iter().find(|(known, ..)| known == function);
                write!(f, "{}({})", name.map_or("abs", |(_, name, ..)| name), List(arguments))
            }
        }
    }
}

/// The sign of an operator, and how strongly the operator binds.
fn sign(operator: ArithmeticOperator) -> (&'static str, u8) {
    let known = ArithmeticOperator::ALL.iter().find(|(known, ..)| *known == operator);
    known.map_or(("+", 0), |(_, text, binds)| (*text, *binds))
}

/// An operand, in parentheses if its operator binds less than `least`.
fn write_operand(f: &mut Formatter<'_>, operand: &Arithmetic, least: u8) -> fmt::Result {
    match operand {
        Arithmetic::Binary(operator, ..) if sign(*operator).1 < least => write!(f, "({operand})"),
        _ => operand.fmt(f),
    }
}
