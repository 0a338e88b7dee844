//! The parser of whole queries and of pipes.

use crate::QUERY_PIPES_MAX;
use crate::effect::{PipeEffect, RowFlow, UsedName, used_by_filter};
use crate::error::SyntaxError;
use crate::field_name::{Column, FieldName};
use crate::foreign;
use crate::keyword::PIPES;
use crate::lexer::TokenKind;
use crate::number::{Number, plain};
use crate::parser::{Parser, regexp_of_parts};
use crate::query::{
    Aggregate, Arithmetic, ArithmeticOperator, Expression, Extraction, FUNCTIONS, FieldPattern, Function, GroupField,
    JoinPipe, MathFunction, ParsedQuery, Pipe, Pivot, SortKey, Span, ValueStep, ValueStepSize,
};
use crate::remark::{FieldUse, Remarks};
use crate::scope::{ColumnScope, NameMeaning};
use crate::template::parse_template;
use crate::unit::{duration_nanos, size_bytes, whole_number};
use daytable_model::did_you_mean::did_you_mean;
use std::ops::Range;

type Parsed<T> = Result<T, SyntaxError>;

/// The error of a name in [`PIPES`] that has no pipe here.
pub(crate) const NO_PIPE: &str = "no pipe has the name ";
/// Rows of `top`, `first` and `last` without a number.
const TOP_DEFAULT: u64 = 10;

impl ParsedQuery {
    /// Parses a query. An empty text asks for every record.
    ///
    /// # Errors
    ///
    /// The place in the query that is wrong, and the expected text.
    pub fn parse(query: &str) -> Result<ParsedQuery, SyntaxError> {
        ParsedQuery::parse_remarked(query).map(|(parsed, _)| parsed)
    }

    /// Parses a query, with what is to be said about it.
    ///
    /// # Errors
    ///
    /// The place in the query that is wrong, and the expected text.
    pub fn parse_remarked(query: &str) -> Result<(ParsedQuery, Remarks), SyntaxError> {
        let mut parser = Parser::new(query)?;
        let mut fields = Vec::new();
        let parsed = match parser.steps(&mut fields) {
            Ok(_) if !parser.is_end() => parser.expected("| and a pipe, or the end of the query"),
            parsed => parsed,
        };
        let (parsed, _) = parser.explained(parsed)?;
        let remarks = Remarks::new(query, &parsed.filter, parser.warnings, fields);
        Ok((parsed, remarks))
    }
}

impl Expression {
    /// Parses a filter without pipes.
    ///
    /// # Errors
    ///
    /// The place in the filter that is wrong, and the expected text.
    pub fn parse(filter: &str) -> Result<Expression, SyntaxError> {
        Expression::parse_remarked(filter).map(|(parsed, _)| parsed)
    }

    /// Parses a filter without pipes, with what is to be said about it.
    ///
    /// # Errors
    ///
    /// The place in the filter that is wrong, and the expected text.
    pub fn parse_remarked(filter: &str) -> Result<(Expression, Remarks), SyntaxError> {
        let mut parser = Parser::new(filter)?;
        let parsed = match parser.filter() {
            Ok(_) if !parser.is_end() => parser.expected("the end of the filter"),
            parsed => parsed,
        };
        let parsed = parser.explained(parsed)?;
        let mut fields = Vec::new();
        parser.resolve(0, &ColumnScope::Records(Vec::new()), &used_by_filter(&parsed), &mut fields);
        let remarks = Remarks::new(filter, &parsed, parser.warnings, fields);
        Ok((parsed, remarks))
    }
}

impl Parser<'_> {
    /// The filter and the pipes, and the columns behind them. Adds the fields of records that they name.
    fn steps(&mut self, fields: &mut Vec<FieldUse>) -> Parsed<(ParsedQuery, ColumnScope)> {
        let named = self.named.len();
        // Without a filter, all records are meant.
        let filter = match self.is_end() || self.is("|") {
            true => Expression::All,
            false => self.filter()?,
        };
        let (mut pipes, mut scope) = (Vec::new(), ColumnScope::Records(Vec::new()));
        self.resolve(named, &scope, &used_by_filter(&filter), fields);
        while self.accept("|") {
            if pipes.len() == QUERY_PIPES_MAX {
                let at = self.token().at.clone();
                return self.error(at, format!("a query has at most {QUERY_PIPES_MAX} pipes"));
            }
            let (named, at) = (self.named.len(), self.token().at.clone());
            let mut pipe = self.pipe(fields)?;
            if let Pipe::Pivot(pivot) = &mut pipe {
                self.find_groups(pivot, &pipes, at.clone())?;
            }
            let made = std::mem::take(&mut self.made);
            for pipe in made.into_iter().chain([pipe]) {
                let effect = pipe.effect();
                self.check_names(&effect, &at)?;
                self.resolve(named, &scope, &effect.named, fields);
                scope = scope.behind(effect);
                pipes.push(pipe);
            }
        }
        Ok((ParsedQuery { filter, pipes }, scope))
    }

    /// Refuses a pipe whose rows would have two columns of one name: a pipe behind it could name only the first.
    fn check_names(&self, effect: &PipeEffect, at: &Range<usize>) -> Parsed<()> {
        // The columns of `pivot` are known when its rows are, and get free names then.
        if !matches!(effect.flow, RowFlow::Replaced { .. }) || effect.is_open {
            return Ok(());
        }
        let made: Vec<&str> = effect.written.iter().map(|(name, _)| name.written()).collect();
        match made.iter().enumerate().find(|(number, name)| made[..*number].contains(name)) {
            Some((_, name)) => self.error(at.clone(), same_name(name)),
            None => Ok(()),
        }
    }

    /// The groups of the pipes before a `pivot`, of which its field is one.
    fn find_groups(&self, pivot: &mut Pivot, pipes: &[Pipe], at: Range<usize>) -> Parsed<()> {
        let before = ParsedQuery { filter: Expression::All, pipes: pipes.to_vec() };
        let field = pivot.field.written();
        let mut groups = before.group_columns();
        if !groups.iter().any(|group| group == field) {
            let example = format!("stats by (path, {field}) count() n | pivot {field}");
            return self.error(at, format!("pivot makes columns of a group of the pipes before it: {example}"));
        }
        groups.retain(|group| group != field);
        pivot.groups = groups.iter().map(|group| FieldName::new(group)).collect();
        Ok(())
    }

    /// Adds the fields of records among the names that a step uses, and warns of columns that are not there. The names of the
    /// step were parsed from the number `named` on.
    fn resolve(&mut self, named: usize, scope: &ColumnScope, used: &[UsedName], fields: &mut Vec<FieldUse>) {
        for (name, is_prefix) in used.iter().cloned() {
            let place = self.named[named.min(self.named.len())..].iter().find(|(written, _)| written == name.written());
            let at = place.map_or_else(|| self.place_of(name.written()), |(_, at)| at.clone());
            match scope.of(&(name.clone(), is_prefix)) {
                NameMeaning::Column => {}
                NameMeaning::Field => {
                    if !fields.iter().any(|field| field.name == name && field.is_prefix == is_prefix) {
                        fields.push(FieldUse { name, is_prefix, at });
                    }
                }
                NameMeaning::Nowhere(message) => self.warnings.push(SyntaxError::new(self.query, at, message)),
            }
        }
    }

    /// The place of a name that stands in a pattern.
    fn place_of(&self, name: &str) -> Range<usize> {
        self.query.rfind(name).map_or(0..0, |start| start..start + name.len())
    }

    fn is_pipe_end(&self) -> bool {
        self.is_end() || self.is("|") || self.is(")")
    }

    fn pipe(&mut self, fields: &mut Vec<FieldUse>) -> Parsed<Pipe> {
        let (name, at) = (self.token().text.to_ascii_lowercase(), self.token().at.clone());
        if self.is("|") {
            return self.error(at, "alternatives are joined by or: a or b; a pipe stands behind one |");
        }
        if self.is("=") || self.is("~") {
            return self.error(
                at,
                "a text in the line is a filter of its own, before the first |: \"a text\", *part*, ~\"a.*b\"",
            );
        }
        if self.token().kind != TokenKind::Word {
            return self.expected("the name of a pipe");
        }
        let is_function = FUNCTIONS.iter().any(|(known, ..)| *known == name);
        // `first` and `last` are pipes as well as functions; only a function has a parenthesis next to it.
        let pipe_too = PIPES.contains(&name.as_str());
        let next_is_parenthesis = self.query[at.end..].starts_with('(');
        if name == "by" || is_function && (!pipe_too || next_is_parenthesis) {
            return self.stats();
        }
        if !pipe_too {
            let names: Vec<&str> = PIPES.iter().copied().chain(FUNCTIONS.iter().map(|(name, ..)| *name)).collect();
            let is_compared = |sign: &str| self.query[at.end..].trim_start().starts_with(sign);
            let hint = match (foreign::pipe(&name), did_you_mean(&name, &names)) {
                (Some(advice), _) => format!("unknown pipe {name}; {advice}"),
                (None, _) if ["=", "!", ">", "<", ":"].into_iter().any(is_compared) => {
                    format!("unknown pipe {name}; a filter behind | is written | filter {name}:=VALUE")
                }
                (None, Some(known)) => format!("unknown pipe {name}; did you mean {known}?"),
                (None, None) if !self.token().is_apart => {
                    format!("unknown pipe {name}; alternatives are joined by or: a or {name}")
                }
                (None, None) => format!("unknown pipe {name}; the pipes are {}", PIPES.join(", ")),
            };
            return self.error(at, hint);
        }
        self.advance();
        Ok(match name.as_str() {
            "stats" => self.stats()?,
            "top" => self.top()?,
            "uniq" => self.uniq()?,
            "sort" | "order" => self.sort()?,
            "first" | "last" => self.first(name == "last")?,
            "limit" | "head" => Pipe::Limit(if self.is_pipe_end() { TOP_DEFAULT } else { self.whole_number()? }),
            "offset" | "skip" => Pipe::Offset(self.whole_number()?),
            "fields" | "keep" => Pipe::Fields(self.patterns()?),
            "delete" | "del" | "rm" | "drop" => Pipe::Delete(self.patterns()?),
            "copy" | "cp" => Pipe::Copy(self.pairs()?),
            "rename" | "mv" => Pipe::Rename(self.pairs()?),
            "filter" | "where" => Pipe::Filter(self.or(None)?),
            "extract" | "extract_regexp" => self.extract(name == "extract_regexp")?,
            "format" => self.format()?,
            "replace" | "replace_regexp" => self.replace(name == "replace_regexp")?,
            "math" | "eval" => self.math()?,
            "len" => self.length()?,
            "facets" => self.facets()?,
            "join" => self.join(fields)?,
            "sessions" => self.sessions()?,
            "gaps" => self.gaps()?,
            "pivot" => Pipe::Pivot(Pivot { field: self.field_name()?, groups: Vec::new() }),
            "pattern" => self.pattern()?,
            "field_names" => {
                let is_named = self.accept("as") || !self.is_pipe_end();
                let name = if is_named { self.name("a name")? } else { "name".into() };
                Pipe::FieldNames { name }
            }
            "field_values" => {
                let field = match self.accept("(") {
                    true => {
                        let field = self.field_name()?;
                        self.close()?;
                        field
                    }
                    false => self.field_name()?,
                };
                let limit = if self.accept("limit") { Some(self.whole_number()?) } else { None };
                Pipe::FieldValues { field, limit }
            }
            "sample" => {
                let at = self.token().at.clone();
                match self.whole_number()? {
                    0 => return self.error(at, "expected a number of at least 1"),
                    n => Pipe::Sample(n),
                }
            }
            // A test says that each name has a pipe.
            _ => return self.error(at, format!("{NO_PIPE}{name}")),
        })
    }

    fn whole_number(&mut self) -> Parsed<u64> {
        let (text, at) = self.compound(&[",", "(", ")", "[", "]", "|"], "a whole number")?;
        whole_number(&text).map_or_else(|| self.error(at, "expected a whole number"), Ok)
    }

    /// `(a, b)`, or `a, b` without parentheses.
    fn names(&mut self) -> Parsed<Vec<FieldName>> {
        let has_parentheses = self.accept("(");
        let mut names = Vec::new();
        while !(has_parentheses && self.is(")")) {
            self.term()?;
            names.push(self.by_name()?);
            if !self.accept(",") {
                break;
            }
        }
        if has_parentheses {
            self.close()?;
        }
        Ok(names)
    }

    /// A field, or `pattern(field)`, which a pipe in front of this one computes.
    fn by_name(&mut self) -> Parsed<FieldName> {
        let is_pattern = self.is("pattern") && self.query[self.token().at.end..].starts_with('(');
        if !is_pattern {
            return self.field_name();
        }
        let start = self.token().at.start;
        self.advance();
        self.require("(")?;
        let of = self.field_name()?;
        let end = self.token().at.end;
        self.close()?;
        let name = format!("pattern({})", of.written());
        self.named.push((name.clone(), start..end));
        let name = FieldName::new(&name);
        if !self.made.iter().any(|pipe| matches!(pipe, Pipe::Pattern { name: known, .. } if *known == name)) {
            self.made.push(Pipe::Pattern { of, name: name.clone() });
        }
        Ok(name)
    }

    /// The closing parenthesis of a list.
    fn close(&mut self) -> Parsed<()> {
        if self.accept(")") { Ok(()) } else { self.expected(", or )") }
    }

    /// The fields after an optional `by`.
    fn by_names(&mut self) -> Parsed<Vec<FieldName>> {
        self.accept("by");
        let at = self.token().at.clone();
        let names = self.names()?;
        if names.is_empty() { self.error(at, "expected fields, as in by (path)") } else { Ok(names) }
    }

    fn stats(&mut self) -> Parsed<Pipe> {
        let mut by = Vec::new();
        if self.accept("by") || self.is("(") {
            if !self.is("(") {
                let at = self.token().at.clone();
                return self.error(at, "the fields of a group stand in parentheses: stats by (path) count() n");
            }
            self.advance();
            while !self.is(")") {
                self.term()?;
                by.push(self.group_field()?);
                if !self.accept(",") {
                    break;
                }
            }
            self.close()?;
        }
        let mut aggregates: Vec<Aggregate> = Vec::new();
        loop {
            let at = self.token().at.clone();
            let aggregate = self.aggregate()?;
            let is_known = aggregates.iter().any(|known| known.name == aggregate.name)
                || by.iter().any(|field| field.field.written() == aggregate.name);
            if is_known {
                return self.error(at, same_name(&aggregate.name));
            }
            aggregates.push(aggregate);
            if !self.accept(",") {
                return Ok(Pipe::Stats { by, aggregates });
            }
        }
    }

    fn group_field(&mut self) -> Parsed<GroupField> {
        let field = self.by_name()?;
        if !self.accept(":") {
            return Ok(GroupField { field, step: None });
        }
        let (text, at) = self.compound(&[",", "(", ")", "|"], "a step, for example 5m or 100")?;
        let number = |n: i64| ValueStepSize::Number(n as f64);
        let size = match text.as_str() {
            "nanosecond" => Some(ValueStepSize::Number(1.0)),
            "microsecond" => Some(ValueStepSize::Number(1e3)),
            "millisecond" => Some(ValueStepSize::Number(1e6)),
            "second" => Some(ValueStepSize::Number(1e9)),
            "minute" => Some(ValueStepSize::Number(60e9)),
            "hour" => Some(ValueStepSize::Number(3600e9)),
            "day" => Some(ValueStepSize::Number(86_400e9)),
            "week" => Some(ValueStepSize::Week),
            "month" => Some(ValueStepSize::Month),
            "year" => Some(ValueStepSize::Year),
            text => match text.strip_prefix('/') {
                Some(bits) => bits.parse().ok().filter(|bits| *bits <= 32).map(ValueStepSize::AddressBits),
                None => plain(text)
                    .map(|n| ValueStepSize::Number(n.as_f64()))
                    .or_else(|| duration_nanos(text).map(number))
                    .or_else(|| size_bytes(text).map(number)),
            },
        };
        let is_good = |size: &ValueStepSize| !matches!(size, ValueStepSize::Number(n) if !n.is_finite() || *n <= 0.0);
        let Some(size) = size.filter(is_good) else {
            return self
                .error(at, "expected a step greater than zero: a number, a duration, a size, /24, week, month, year");
        };
        let offset = if self.accept("offset") { Some(self.span_or_number()?) } else { None };
        Ok(GroupField { field, step: Some(ValueStep { text, size, offset, clock: None }) })
    }

    fn span_or_number(&mut self) -> Parsed<Span> {
        let (text, at) = self.compound(&[",", "(", ")", "|"], "an offset, for example 30m")?;
        let number = match plain(&text) {
            Some(Number::Whole(number)) => Some(number),
            Some(Number::Float(_)) => None,
            None => duration_nanos(&text).or_else(|| size_bytes(&text)),
        };
        match number {
            // A duration of more than 292 years is cut there, which would move each step by a part of itself.
            Some(i64::MIN | i64::MAX) => self.error(at, "expected an offset of less than 292 years"),
            Some(nanos) => Ok(Span { text, nanos }),
            None => self.error(at, "expected a whole number, a duration or a size"),
        }
    }

    fn aggregate(&mut self) -> Parsed<Aggregate> {
        let token = self.token().clone();
        if token.kind != TokenKind::Word {
            return self.expected("a function, for example count()");
        }
        let name = token.text.to_ascii_lowercase();
        let Some((_, function, fields_min)) = FUNCTIONS.iter().find(|(known, ..)| *known == name) else {
            let names = FUNCTIONS.map(|(name, ..)| name);
            let hint = match (foreign::aggregate(&name), did_you_mean(&name, &names)) {
                (Some(here), _) => format!("here it is written {here}(…)"),
                (None, Some(known)) => format!("did you mean {known}?"),
                (None, None) => format!("the functions are {}", names.join(", ")),
            };
            return self.error(token.at, format!("unknown function {name}; {hint}"));
        };
        self.advance();
        if !self.is("(") {
            let at = self.token().at.clone();
            let found =
                if self.is_end() { "the query ends".into() } else { format!("found {}", &self.query[at.clone()]) };
            return self.error(
                at,
                format!("expected (, {found}; it is written {name}() or, by groups, stats by (path) {name}() n"),
            );
        }
        self.advance();
        let mut function = *function;
        if matches!(function, Function::Quantile(phi) if phi < 0.0) {
            let (text, at) = self.compound(&[",", "(", ")", "|"], "a number from 0 to 1")?;
            match text.parse::<f64>() {
                Ok(phi) if (0.0..=1.0).contains(&phi) => function = Function::Quantile(phi),
                _ => return self.error(at, "expected a number from 0 to 1, as in quantile(0.95, duration)"),
            }
            if !self.accept(",") {
                return self.expected(", and the name of a field");
            }
        }
        let mut fields = Vec::new();
        while !self.is(")") {
            self.term()?;
            // `count(*)` counts records, as `count()` does.
            if self.accept("*") {
                continue;
            }
            fields.push(self.field_name()?);
            if !self.accept(",") {
                break;
            }
        }
        if fields.len() < *fields_min {
            return self.expected("the name of a field");
        }
        self.close()?;
        let limit = if self.accept("limit") { Some(self.whole_number()?) } else { None };
        let condition = self.condition()?;
        if self.is("by") {
            let at = self.token().at.clone();
            return self.error(at, "the groups stand before the functions: stats by (path) count() n");
        }
        let mut aggregate = Aggregate { function, fields, limit, condition, name: String::new() };
        let is_named = self.accept("as") || !(self.is_pipe_end() || self.is(","));
        aggregate.name = match is_named {
            true => self.name("the name of a column")?,
            // A median is the quantile of 0.5, and its column has the name that the query gave it.
            false if name == "quantile" => aggregate.default_name().replacen("median(", "quantile(0.5, ", 1),
            false => aggregate.default_name(),
        };
        Ok(aggregate)
    }

    /// `if (filter)`
    fn condition(&mut self) -> Parsed<Option<Expression>> {
        if !self.accept("if") {
            return Ok(None);
        }
        self.require("(")?;
        if self.accept(")") {
            return Ok(None);
        }
        let condition = self.deeper(|parser| parser.or(None))?;
        self.require(")")?;
        Ok(Some(condition))
    }

    fn top(&mut self) -> Parsed<Pipe> {
        let limit = if self.token().text.starts_with(|c: char| c.is_ascii_digit()) {
            self.whole_number()?
        } else {
            TOP_DEFAULT
        };
        let by = self.by_names()?;
        let (mut hits, mut rank) = (free_name("hits", &by), None);
        loop {
            if self.accept("hits") {
                self.accept("as");
                hits = self.name("the name of a column")?;
            } else if self.accept("rank") {
                rank = Some(self.rank(&by)?);
            } else {
                return Ok(Pipe::Top { limit, by, hits, rank });
            }
        }
    }

    fn rank(&mut self, by: &[FieldName]) -> Parsed<String> {
        if self.accept("as") {
            return self.name("the name of a column");
        }
        let is_keyword = ["hits", "rank", "limit", "offset"].iter().any(|word| self.is(word));
        if self.is_pipe_end() || is_keyword { Ok(free_name("rank", by)) } else { self.name("the name of a column") }
    }

    fn uniq(&mut self) -> Parsed<Pipe> {
        let by = self.by_names()?;
        let with = self.accept("with");
        let hits = self.accept("hits").then(|| free_name("hits", &by));
        if with && hits.is_none() {
            return self.expected("hits");
        }
        let limit = if self.accept("limit") { Some(self.whole_number()?) } else { None };
        Ok(Pipe::Uniq { by, hits, limit })
    }

    fn sort_keys(&mut self) -> Parsed<Vec<SortKey>> {
        let mut keys = Vec::new();
        if !self.accept("by") && !self.is("(") {
            return Ok(keys);
        }
        if !self.is("(") {
            let at = self.token().at.clone();
            return self.error(at, "the fields to sort by stand in parentheses: sort by (path desc)");
        }
        self.advance();
        while !self.is(")") {
            self.term()?;
            let field = self.by_name()?;
            keys.push(SortKey { field, is_descending: self.direction() });
            if !self.accept(",") {
                break;
            }
        }
        self.close()?;
        Ok(keys)
    }

    /// Whether `desc` follows.
    fn direction(&mut self) -> bool {
        !self.accept("asc") && self.accept("desc")
    }

    fn sort(&mut self) -> Parsed<Pipe> {
        let (mut by, at) = (self.sort_keys()?, self.token().at.clone());
        if self.direction() {
            if by.is_empty() {
                return self.error(at, "desc needs the fields to sort by: sort by (path desc)");
            }
            by.iter_mut().for_each(|key| key.is_descending = !key.is_descending);
        }
        let (mut offset, mut limit, mut rank) = (0, None, None);
        loop {
            if self.accept("offset") {
                offset = self.whole_number()?;
            } else if self.accept("limit") {
                limit = Some(self.whole_number()?);
            } else if self.accept("rank") {
                rank = Some(self.rank(&[])?);
            } else {
                return Ok(Pipe::Sort { by, offset, limit, rank });
            }
        }
    }

    /// `first 5 by (a)` is a sort with a limit; `last` turns its order.
    fn first(&mut self, is_last: bool) -> Parsed<Pipe> {
        let is_number = self.token().text.starts_with(|c: char| c.is_ascii_digit());
        let limit = Some(if is_number { self.whole_number()? } else { 1 });
        let mut by = self.sort_keys()?;
        if by.is_empty() {
            return self.expected("the fields to sort by, as in by (duration)");
        }
        if is_last {
            by.iter_mut().for_each(|key| key.is_descending = !key.is_descending);
        }
        let rank = if self.accept("rank") { Some(self.rank(&[])?) } else { None };
        Ok(Pipe::Sort { by, offset: 0, limit, rank })
    }

    fn patterns(&mut self) -> Parsed<Vec<FieldPattern>> {
        let mut patterns = Vec::new();
        loop {
            self.term()?;
            let name = match self.is("*") {
                true => FieldName::new(""),
                false => self.field_name()?,
            };
            let is_prefix = self.is("*") && (name.written().is_empty() || !self.token().is_apart) && self.accept("*");
            patterns.push(FieldPattern { name, is_prefix });
            if !self.accept(",") {
                return Ok(patterns);
            }
        }
    }

    fn pairs(&mut self) -> Parsed<Vec<(FieldName, FieldName)>> {
        let mut pairs = Vec::new();
        loop {
            self.term()?;
            let from = self.field_name()?;
            self.accept("as");
            pairs.push((from, self.field_name()?));
            if !self.accept(",") {
                return Ok(pairs);
            }
        }
    }

    /// `keep_original_fields` and `skip_empty_results`, in any order.
    fn keeping(&mut self) -> (bool, bool) {
        let (mut keep, mut skip) = (false, false);
        loop {
            if self.accept("keep_original_fields") {
                keep = true;
            } else if self.accept("skip_empty_results") {
                skip = true;
            } else {
                return (keep, skip);
            }
        }
    }

    fn extract(&mut self, is_regexp: bool) -> Parsed<Pipe> {
        let condition = self.condition()?;
        let (pattern, at) = self.compound(&[",", "(", ")", "[", "]", "|"], "a pattern in quotes")?;
        let problem = match is_regexp {
            true => match regexp_of_parts(&pattern) {
                Ok(regex) if regex.capture_names().flatten().next().is_none() => {
                    Some("expected a named group, as in (?P<name>[0-9]+)".into())
                }
                Ok(_) => None,
                Err(problem) => Some(problem),
            },
            false => match parse_template(&pattern, true) {
                Ok(parts) if parts.iter().all(|part| part.name.is_none()) => {
                    Some("expected a place, as in \"user=<user> \"".into())
                }
                Ok(_) => None,
                Err(problem) => Some(problem),
            },
        };
        if let Some(problem) = problem {
            return self.error(at, problem);
        }
        let from = if self.accept("from") { self.field_name()? } else { FieldName::new("message") };
        let (keep_original, skip_empty) = self.keeping();
        let extraction = Extraction { pattern, from, condition, keep_original, skip_empty };
        Ok(if is_regexp { Pipe::ExtractRegexp(extraction) } else { Pipe::Extract(extraction) })
    }

    fn format(&mut self) -> Parsed<Pipe> {
        let condition = self.condition()?;
        let (pattern, at) = self.compound(&[",", "(", ")", "[", "]", "|"], "a pattern in quotes")?;
        if let Err(problem) = parse_template(&pattern, false) {
            return self.error(at, problem);
        }
        let name = if self.accept("as") { self.field_name()? } else { FieldName::new("message") };
        let (keep_original, skip_empty) = self.keeping();
        Ok(Pipe::Format { pattern, name, condition, keep_original, skip_empty })
    }

    fn replace(&mut self, is_regexp: bool) -> Parsed<Pipe> {
        let condition = self.condition()?;
        self.require("(")?;
        let (from, at) = self.compound(&[",", "(", ")", "|"], "the replaced text")?;
        if is_regexp && let Err(problem) = regexp_of_parts(&from) {
            return self.error(at, problem);
        }
        if !is_regexp && from.is_empty() {
            return self.error(at, "expected a text");
        }
        self.require(",")?;
        let (to, _) = self.compound(&[",", "(", ")", "|"], "the text in its place")?;
        self.require(")")?;
        let at = if self.accept("at") { self.field_name()? } else { FieldName::new("message") };
        let limit = if self.accept("limit") { Some(self.whole_number()?) } else { None };
        Ok(Pipe::Replace { is_regexp, from, to, at, limit, condition })
    }

    fn length(&mut self) -> Parsed<Pipe> {
        let has_parentheses = self.accept("(");
        let of = self.field_name()?;
        if has_parentheses {
            self.require(")")?;
        }
        self.accept("as");
        let name = if self.is_pipe_end() { FieldName::new("length") } else { self.field_name()? };
        Ok(Pipe::Length { of, name })
    }

    /// `join by (a) (query) inner prefix x`
    fn join(&mut self, fields: &mut Vec<FieldUse>) -> Parsed<Pipe> {
        /// Each join reads its records once.
        const JOINS_MAX: usize = 8;
        let at = self.token().at.clone();
        self.joins += 1;
        if self.joins > JOINS_MAX {
            return self.error(at, format!("a query has at most {JOINS_MAX} joins"));
        }
        let by = self.by_names()?;
        self.require("(")?;
        // What this pipe names is made in front of it, and not in the other query.
        let made = std::mem::take(&mut self.made);
        let (query, scope) = self.deeper(|parser| parser.steps(fields))?;
        self.made = made;
        if !self.accept(")") {
            return self.expected("| and a pipe, or )");
        }
        let (mut is_inner, mut prefix) = (false, String::new());
        loop {
            if self.accept("inner") {
                is_inner = true;
            } else if self.accept("prefix") {
                prefix = self.name("the beginning of names")?;
            } else {
                break;
            }
        }
        let columns = scope.columns().map(|mut columns| {
            columns.retain(|column| !by.contains(column));
            columns
        });
        Ok(Pipe::Join(Box::new(JoinPipe { by, query, is_inner, prefix, columns })))
    }

    /// `sessions by (user) pause 30m`
    fn sessions(&mut self) -> Parsed<Pipe> {
        let by = if self.is("by") || self.is("(") { self.by_names()? } else { Vec::new() };
        if !self.accept("pause") {
            return self.expected("pause and a duration, as in sessions by (user) pause 30m");
        }
        Ok(Pipe::Sessions { by, pause: self.longer_than_nothing()? })
    }

    /// `gaps over 10m by (instance)`
    fn gaps(&mut self) -> Parsed<Pipe> {
        if !self.accept("over") {
            return self.expected("over and a duration, as in gaps over 10m by (instance)");
        }
        let over = self.longer_than_nothing()?;
        let by = if self.is("by") || self.is("(") { self.by_names()? } else { Vec::new() };
        Ok(Pipe::Gaps { by, over })
    }

    fn longer_than_nothing(&mut self) -> Parsed<Span> {
        let at = self.token().at.clone();
        let span = self.span()?;
        if span.nanos > 0 { Ok(span) } else { self.error(at, "expected a duration longer than zero") }
    }

    /// `pattern(message) as p`
    fn pattern(&mut self) -> Parsed<Pipe> {
        if !self.accept("(") {
            let advice = foreign::pipe("pattern").unwrap_or_default();
            let at = self.token().at.clone();
            return self.error(at, format!("expected a field in parentheses, as in pattern(message); {advice}"));
        }
        let of = self.field_name()?;
        self.close()?;
        let is_named = self.accept("as") || !self.is_pipe_end();
        let name = if is_named { self.field_name()? } else { FieldName::new(&format!("pattern({})", of.written())) };
        Ok(Pipe::Pattern { of, name })
    }

    fn facets(&mut self) -> Parsed<Pipe> {
        let is_number = self.token().text.starts_with(|c: char| c.is_ascii_digit());
        let limit = if is_number { self.whole_number()? } else { TOP_DEFAULT };
        let (mut values_max, mut length_max, mut keep_constant) = (1000, 128, false);
        loop {
            if self.accept("max_values_per_field") {
                values_max = self.whole_number()?;
            } else if self.accept("max_value_len") {
                length_max = self.whole_number()?;
            } else if self.accept("keep_const_fields") {
                keep_constant = true;
            } else {
                return Ok(Pipe::Facets { limit, values_max, length_max, keep_constant });
            }
        }
    }

    fn math(&mut self) -> Parsed<Pipe> {
        let mut columns = Vec::new();
        loop {
            let expression = self.arithmetic(0)?;
            let is_named = self.accept("as") || !(self.is_pipe_end() || self.is(","));
            let name = if is_named { self.field_name()? } else { FieldName::new(&expression.to_string()) };
            columns.push((expression, name));
            if !self.accept(",") {
                return Ok(Pipe::Math(columns));
            }
        }
    }

    /// An expression of operators that bind more strongly than `strength`.
    fn arithmetic(&mut self, strength: u8) -> Parsed<Arithmetic> {
        let mut left = self.deeper(Parser::operand)?;
        loop {
            let next = ArithmeticOperator::ALL.iter().find(|(_, text, _)| self.is(text));
            let Some((operator, _, binds)) = next.filter(|(.., binds)| *binds > strength) else { return Ok(left) };
            self.term()?;
            self.advance();
            // `^` is the only operator that groups from the right.
            let right_strength = if *operator == ArithmeticOperator::Power { binds - 1 } else { *binds };
            let right = self.deeper(|parser| parser.arithmetic(right_strength))?;
            left = Arithmetic::Binary(*operator, left.into(), right.into());
        }
    }

    fn operand(&mut self) -> Parsed<Arithmetic> {
        if self.accept("(") {
            let inner = self.deeper(|parser| parser.arithmetic(0))?;
            self.require(")")?;
            return Ok(inner);
        }
        if self.accept("-") {
            return self.deeper(Parser::operand).map(|inner| Arithmetic::Negate(inner.into()));
        }
        let token = self.token().clone();
        match token.kind {
            TokenKind::Quoted => {
                self.advance();
                self.named.push((token.text.clone(), token.at.clone()));
                Ok(Arithmetic::Field(FieldName::new(&token.text)))
            }
            TokenKind::Word => {
                self.advance();
                if token.text.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
                    let number = plain(&token.text).map(|n| n.as_f64());
                    let unit = || duration_nanos(&token.text).or_else(|| size_bytes(&token.text)).map(|n| n as f64);
                    return match number.or_else(unit) {
                        Some(number) => Ok(Arithmetic::Number(token.text, number)),
                        None => self.error(token.at, "expected a number, a duration or a size"),
                    };
                }
                let name = token.text.to_ascii_lowercase();
                if !self.is("(") {
                    self.named.push((token.text.clone(), token.at.clone()));
                    return Ok(Arithmetic::Field(FieldName::new(&token.text)));
                }
                let Some((function, _, least, most)) = MathFunction::ALL.iter().find(|(_, known, ..)| *known == name)
                else {
                    let names = MathFunction::ALL.map(|(_, name, ..)| name).join(", ");
                    return self.error(token.at, format!("unknown function {name}; the functions are {names}"));
                };
                self.advance();
                let mut arguments = Vec::new();
                while !self.is(")") {
                    arguments.push(self.deeper(|parser| parser.arithmetic(0))?);
                    if !self.accept(",") {
                        break;
                    }
                }
                self.close()?;
                if !(*least..=*most).contains(&arguments.len()) {
                    return self.error(token.at, format!("expected {least} to {most} values in {name}(…)"));
                }
                Ok(Arithmetic::Call(*function, arguments))
            }
            _ => self.expected("a number, the name of a field, or a function"),
        }
    }
}

/// Why two columns of one name are refused, and what to write.
fn same_name(name: &str) -> String {
    let (field, other) = (FieldName::new(name), FieldName::new(&format!("{name}2")));
    format!(
        "two columns are named {field}: name it once, or give one of them another name, a field by a pipe before this one: \
         | copy {field} as {other}"
    )
}

/// A name of a column that no group has.
fn free_name(name: &str, by: &[FieldName]) -> String {
    let mut name = name.to_owned();
    while by.iter().any(|field| field.written() == name) {
        name.push('s');
    }
    name
}

/// Whether the answer of a query has records, not rows of other columns.
impl ParsedQuery {
    /// The fields that the filter and the pipes name, each once.
    pub fn fields(&self) -> Vec<FieldName> {
        let mut fields = Vec::new();
        self.filter.visit_fields(&mut |field| {
            if !fields.contains(field) && !matches!(field.column(), Column::Line | Column::Anywhere) {
                fields.push(field.clone());
            }
        });
        fields
    }
}

impl Expression {
    /// Passes each field that the expression names to `each`.
    pub fn visit_fields(&self, each: &mut impl FnMut(&FieldName)) {
        match self {
            Expression::All | Expression::Time(_) => {}
            Expression::And(parts) | Expression::Or(parts) => parts.iter().for_each(|part| part.visit_fields(each)),
            Expression::Not(inner) => inner.visit_fields(each),
            Expression::Field(field, test) => {
                each(field);
                if let crate::query::Test::Other(_, other) = test {
                    each(other);
                }
            }
        }
    }
}
