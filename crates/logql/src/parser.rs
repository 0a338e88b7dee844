//! Reads a query: numbers here, entries in [`stages`].
//!
//! A recursive descent over tokens. Depth and size are bounded, so no query exhausts the stack.

mod stages;
#[cfg(test)]
mod tests;

use crate::ast::*;
use crate::error::QuerySyntaxError;
use crate::lexer::{Lexeme, Placed, tokens};
use crate::pattern_syntax::RegexBudget;
use regex::Regex;

/// Bytes of a query at most.
pub const QUERY_BYTES_MAX: usize = 128 << 10;
/// Levels of brackets and functions at most.
const DEPTH_MAX: usize = 64;
/// Operators, conditions and functions of a query at most.
const NODES_MAX: usize = 1000;

/// Reads a query.
///
/// # Errors
///
/// What is wrong, and where.
pub fn parse(query: &str) -> Result<LogqlQuery, QuerySyntaxError> {
    let mut parser = QueryParser::new(query)?;
    let parsed = parser.query()?;
    parser.end()?;
    Ok(parsed)
}

/// Reads a selector alone: `{app="shop"}`. Unlike a query's, it may be empty, and its conditions may hold for every stream.
///
/// # Errors
///
/// What is wrong, and where.
pub fn parse_selector(query: &str) -> Result<Selector, QuerySyntaxError> {
    let mut parser = QueryParser::new(query)?;
    let selector = parser.selector(false)?;
    parser.end()?;
    Ok(selector)
}

pub(crate) struct QueryParser<'q> {
    query: &'q str,
    tokens: Vec<Placed>,
    at: usize,
    depth: usize,
    nodes: usize,
    regexes: RegexBudget,
}

type Parsed<T> = Result<T, QuerySyntaxError>;

impl<'q> QueryParser<'q> {
    fn new(query: &'q str) -> Parsed<QueryParser<'q>> {
        if query.len() > QUERY_BYTES_MAX {
            return Err(QuerySyntaxError::new(
                query,
                QUERY_BYTES_MAX,
                format!("the query exceeds {QUERY_BYTES_MAX} bytes"),
            ));
        }
        Ok(QueryParser { query, tokens: tokens(query)?, at: 0, depth: 0, nodes: 0, regexes: RegexBudget::default() })
    }

    fn peek(&self) -> &Lexeme {
        self.tokens.get(self.at).map_or(&Lexeme::End, |placed| &placed.token)
    }

    fn peek_after(&self, more: usize) -> &Lexeme {
        self.tokens.get(self.at + more).map_or(&Lexeme::End, |placed| &placed.token)
    }

    fn offset(&self) -> usize {
        self.tokens.get(self.at).map_or(self.query.len(), |placed| placed.at)
    }

    fn next(&mut self) -> Lexeme {
        let token = self.peek().clone();
        self.at += usize::from(token != Lexeme::End);
        token
    }

    fn error<T>(&self, reason: impl Into<String>) -> Parsed<T> {
        Err(QuerySyntaxError::new(self.query, self.offset(), reason))
    }

    fn error_at<T>(&self, offset: usize, reason: impl Into<String>) -> Parsed<T> {
        Err(QuerySyntaxError::new(self.query, offset, reason))
    }

    /// Fails with what stands here, and what was expected.
    fn unexpected<T>(&self, expected: &str) -> Parsed<T> {
        let placed = &self.tokens[self.at.min(self.tokens.len() - 1)];
        match placed.token {
            Lexeme::End => self.error(format!("syntax error: unexpected end of the query, expected {expected}")),
            _ => {
                let text = &self.query[placed.at..placed.end];
                let short = &text[..text.floor_char_boundary(40)];
                self.error(format!("syntax error: unexpected {short}, expected {expected}"))
            }
        }
    }

    fn is_sign(&self, sign: &str) -> bool {
        matches!(self.peek(), Lexeme::Sign(found) if *found == sign)
    }

    fn skip(&mut self, sign: &str) -> bool {
        let found = self.is_sign(sign);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, sign: &str) -> Parsed<()> {
        if self.skip(sign) { Ok(()) } else { self.unexpected(sign) }
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Lexeme::Name(name) if name.eq_ignore_ascii_case(word))
    }

    fn skip_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        self.at += usize::from(found);
        found
    }

    fn name(&mut self, expected: &str) -> Parsed<String> {
        let Lexeme::Name(name) = self.peek() else { return self.unexpected(expected) };
        let name = name.clone();
        self.at += 1;
        Ok(name)
    }

    fn string(&mut self, expected: &str) -> Parsed<String> {
        let Lexeme::String(text) = self.peek() else { return self.unexpected(expected) };
        let text = text.clone();
        self.at += 1;
        Ok(text)
    }

    /// Counts a node of the tree, so that the tree has a bounded size.
    fn node(&mut self) -> Parsed<()> {
        self.nodes += 1;
        if self.nodes > NODES_MAX {
            return self.error(format!("the query has more than {NODES_MAX} operators, conditions and functions"));
        }
        Ok(())
    }

    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        self.node()?;
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return self.error(format!("the query is nested deeper than {DEPTH_MAX} levels"));
        }
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    fn end(&self) -> Parsed<()> {
        if *self.peek() == Lexeme::End { Ok(()) } else { self.unexpected("the end of the query") }
    }

    fn query(&mut self) -> Parsed<LogqlQuery> {
        // Brackets may stand around a query for entries.
        let mut brackets = 0;
        while matches!(self.peek_after(brackets), Lexeme::Sign("(")) {
            brackets += 1;
        }
        if matches!(self.peek_after(brackets), Lexeme::Sign("{")) {
            if brackets > DEPTH_MAX {
                return self.error(format!("the query is nested deeper than {DEPTH_MAX} levels"));
            }
            return self.bracketed_log_query(brackets).map(LogqlQuery::Log);
        }
        self.metric(0).map(LogqlQuery::Metric)
    }

    fn bracketed_log_query(&mut self, brackets: usize) -> Parsed<LogQuery> {
        self.at += brackets;
        let query = self.log_query()?;
        (0..brackets).try_for_each(|_| self.expect(")"))?;
        Ok(query)
    }

    fn metric(&mut self, weakest: u8) -> Parsed<MetricQuery> {
        let mut left = self.unary()?;
        while let Some(op) = self.binary_op().filter(|op| op.precedence() >= weakest) {
            let at = self.offset();
            self.at += 1;
            self.node()?;
            let (is_bool, matching, group) = self.modifiers(op)?;
            // A power binds to the right.
            let next = if op == BinaryOp::Power { op.precedence() } else { op.precedence() + 1 };
            let right = self.deeper(|parser| parser.metric(next))?;
            left = match (left, right) {
                (MetricQuery::Number(_), _) | (_, MetricQuery::Number(_)) if op.is_set() => {
                    return self.error_at(at, format!("the operator {} needs a vector on both sides", op.sign()));
                }
                (MetricQuery::Number(left), MetricQuery::Number(right)) => MetricQuery::Number(op.number(left, right)),
                (left, right) => MetricQuery::Binary(Box::new(Binary { op, left, right, is_bool, matching, group })),
            };
        }
        Ok(left)
    }

    fn binary_op(&self) -> Option<BinaryOp> {
        Some(match self.peek() {
            Lexeme::Sign("+") => BinaryOp::Add,
            Lexeme::Sign("-") => BinaryOp::Subtract,
            Lexeme::Sign("*") => BinaryOp::Multiply,
            Lexeme::Sign("/") => BinaryOp::Divide,
            Lexeme::Sign("%") => BinaryOp::Modulo,
            Lexeme::Sign("^") => BinaryOp::Power,
            Lexeme::Name(name) => match name.to_ascii_lowercase().as_str() {
                "or" => BinaryOp::Or,
                "and" => BinaryOp::And,
                "unless" => BinaryOp::Unless,
                _ => return None,
            },
            _ => BinaryOp::Compare(self.compare_op(false)?),
        })
    }

    /// The comparison that stands here. `=` is one between a label and a number only.
    fn compare_op(&self, with_equal: bool) -> Option<CompareOp> {
        Some(match self.peek() {
            Lexeme::Sign("==") => CompareOp::Equal,
            Lexeme::Sign("=") if with_equal => CompareOp::Equal,
            Lexeme::Sign("!=") => CompareOp::NotEqual,
            Lexeme::Sign(">") => CompareOp::Greater,
            Lexeme::Sign(">=") => CompareOp::GreaterOrEqual,
            Lexeme::Sign("<") => CompareOp::Less,
            Lexeme::Sign("<=") => CompareOp::LessOrEqual,
            _ => return None,
        })
    }

    #[allow(clippy::type_complexity)]
    fn modifiers(&mut self, op: BinaryOp) -> Parsed<(bool, Option<LabelGrouping>, Option<GroupSide>)> {
        let at = self.offset();
        let is_bool = self.skip_word("bool");
        if is_bool && !matches!(op, BinaryOp::Compare(_)) {
            return self.error_at(at, "bool is allowed only after a comparison");
        }
        let mut matching = None;
        if self.is_word("on") || self.is_word("ignoring") {
            let without = self.is_word("ignoring");
            self.at += 1;
            matching = Some(LabelGrouping { without, labels: self.names()? });
        }
        let mut group = None;
        if self.is_word("group_left") || self.is_word("group_right") {
            if op.is_set() {
                return self.error(format!("no grouping is allowed for the operator {}", op.sign()));
            }
            if matching.is_none() {
                return self.unexpected("on or ignoring before");
            }
            let right = self.is_word("group_right");
            self.at += 1;
            let include = if self.is_sign("(") { self.names()? } else { Vec::new() };
            group = Some(GroupSide { right, include });
        }
        Ok((is_bool, matching, group))
    }

    /// Names in brackets.
    fn names(&mut self) -> Parsed<Vec<String>> {
        self.expect("(")?;
        let mut names = Vec::new();
        while !self.skip(")") {
            if !names.is_empty() {
                self.expect(",")?;
            }
            self.node()?;
            names.push(self.name("a label")?);
        }
        Ok(names)
    }

    fn unary(&mut self) -> Parsed<MetricQuery> {
        if self.is_sign("-") || self.is_sign("+") {
            let is_negative = self.next() == Lexeme::Sign("-");
            let Lexeme::Number(number) = self.peek() else { return self.unexpected("a number") };
            let number = if is_negative { -*number } else { *number };
            self.at += 1;
            return Ok(MetricQuery::Number(number));
        }
        match self.peek().clone() {
            Lexeme::Number(number) => {
                self.at += 1;
                Ok(MetricQuery::Number(number))
            }
            Lexeme::Sign("(") => {
                self.at += 1;
                let inner = self.deeper(|parser| parser.metric(0))?;
                self.expect(")")?;
                Ok(inner)
            }
            Lexeme::Name(name) => self.function(&name.to_ascii_lowercase()),
            _ => self.unexpected("a selector, a function or a number"),
        }
    }

    fn function(&mut self, name: &str) -> Parsed<MetricQuery> {
        if let Some((_, op)) = RangeOp::ALL.into_iter().find(|(known, _)| *known == name) {
            self.at += 1;
            return self.deeper(|parser| parser.range_aggregation(op));
        }
        if let Some((_, op)) = AggregateOp::ALL.into_iter().find(|(known, _)| *known == name) {
            self.at += 1;
            return self.deeper(|parser| parser.aggregate(op));
        }
        match name {
            "vector" => {
                self.at += 1;
                self.expect("(")?;
                let number = self.number()?;
                self.expect(")")?;
                Ok(MetricQuery::Vector(number))
            }
            "label_replace" => {
                self.at += 1;
                self.deeper(QueryParser::label_replace)
            }
            _ => self.unexpected("a selector, a function or a number"),
        }
    }

    fn number(&mut self) -> Parsed<f64> {
        let Lexeme::Number(number) = self.peek() else { return self.unexpected("a number") };
        let number = *number;
        self.at += 1;
        Ok(number)
    }

    fn label_replace(&mut self) -> Parsed<MetricQuery> {
        self.expect("(")?;
        let inner = Box::new(self.metric(0)?);
        let mut texts: [String; 4] = Default::default();
        let mut at = 0;
        for (number, text) in texts.iter_mut().enumerate() {
            self.expect(",")?;
            if number == 3 {
                at = self.offset();
            }
            *text = self.string("a string")?;
        }
        self.expect(")")?;
        let [target, replacement, label, source] = texts;
        let regex = self.regex(at, |budget| budget.compile_anchored(&source))?;
        Ok(MetricQuery::LabelReplace { inner, target, replacement, label, source, regex })
    }

    fn compiled<T>(&self, at: usize, compiled: Result<T, String>) -> Parsed<T> {
        compiled.map_err(|reason| QuerySyntaxError::new(self.query, at, reason))
    }

    fn regex(&mut self, at: usize, compile: impl FnOnce(&mut RegexBudget) -> Result<Regex, String>) -> Parsed<Regex> {
        let compiled = compile(&mut self.regexes);
        self.compiled(at, compiled)
    }

    fn grouping(&mut self) -> Parsed<Option<LabelGrouping>> {
        if !self.is_word("by") && !self.is_word("without") {
            return Ok(None);
        }
        let without = self.is_word("without");
        self.at += 1;
        Ok(Some(LabelGrouping { without, labels: self.names()? }))
    }

    fn aggregate(&mut self, op: AggregateOp) -> Parsed<MetricQuery> {
        let at = self.offset();
        let mut grouping = self.grouping()?;
        self.expect("(")?;
        let mut parameter = 0.0;
        if op.has_parameter() {
            let at = self.offset();
            parameter = self.number()?;
            if parameter < 1.0 || parameter.fract() != 0.0 {
                return self.error_at(at, format!("invalid parameter (must be greater than 0) of {}", op.name()));
            }
            self.expect(",")?;
        }
        let inner = Box::new(self.metric(0)?);
        self.expect(")")?;
        if grouping.is_none() {
            grouping = self.grouping()?;
        }
        if matches!(*inner, MetricQuery::Number(_)) {
            return self.error_at(at, format!("{} needs a vector, not a number", op.name()));
        }
        let takes_no_groups = matches!(op, AggregateOp::Sort | AggregateOp::SortDesc | AggregateOp::ApproxTopk);
        if takes_no_groups && grouping.is_some() {
            return self.error_at(at, format!("grouping not allowed for {} aggregation", op.name()));
        }
        Ok(MetricQuery::Aggregate { op, parameter, grouping, inner })
    }

    fn range_aggregation(&mut self, op: RangeOp) -> Parsed<MetricQuery> {
        let at = self.offset();
        self.expect("(")?;
        let mut parameter = 0.0;
        if op == RangeOp::QuantileOverTime {
            parameter = self.number()?;
            self.expect(",")?;
        }
        let LogRange { query, unwrap, range, offset } = self.log_range()?;
        self.expect(")")?;
        let grouping = self.grouping()?;
        if grouping.is_some() && !op.groups() {
            return self.error_at(at, format!("grouping not allowed for {} aggregation", op.name()));
        }
        match (op.unwraps(), &unwrap) {
            ((_, true), None) => return self.error_at(at, format!("invalid aggregation {} without unwrap", op.name())),
            ((false, _), Some(_)) => {
                return self.error_at(at, format!("invalid aggregation {} with unwrap", op.name()));
            }
            _ => {}
        }
        let mut query = query;
        if !matches!(op, RangeOp::BytesOverTime | RangeOp::BytesRate) {
            query.leave_out_unread_formats();
        }
        let aggregation = RangeAggregation { op, parameter, query, unwrap, range, offset, grouping };
        Ok(MetricQuery::Range(Box::new(aggregation)))
    }

    /// Entries over a range: the range stands behind the selector or behind the pipeline.
    fn log_range(&mut self) -> Parsed<LogRange> {
        if self.skip("(") {
            let mut inner = self.deeper(QueryParser::log_range_parts)?;
            self.expect(")")?;
            if inner.range.is_none() && self.is_sign("[") {
                inner.range = Some(self.range()?);
            }
            inner.offset = inner.offset.or(self.offset_modifier()?);
            return self.whole_range(inner);
        }
        let parts = self.log_range_parts()?;
        self.whole_range(parts)
    }

    fn whole_range(&self, parts: RangeParts) -> Parsed<LogRange> {
        let RangeParts { query, unwrap, range: Some(range), offset } = parts else {
            return self.unexpected("a range, such as [5m]");
        };
        Ok(LogRange { query, unwrap, range, offset: offset.unwrap_or(0) })
    }

    fn log_range_parts(&mut self) -> Parsed<RangeParts> {
        let selector = self.selector(true)?;
        let mut parts =
            RangeParts { query: LogQuery { selector, stages: Vec::new() }, unwrap: None, range: None, offset: None };
        loop {
            if self.is_sign("[") && parts.range.is_none() {
                parts.range = Some(self.range()?);
                parts.offset = self.offset_modifier()?;
            } else if self.is_sign("|")
                && matches!(self.peek_after(1), Lexeme::Name(name) if name.eq_ignore_ascii_case("unwrap"))
            {
                if parts.unwrap.is_some() {
                    return self.error("a second unwrap");
                }
                parts.unwrap = Some(self.unwrap_stage()?);
            } else if let Some(unwrap) = &mut parts.unwrap {
                if !self.is_sign("|") {
                    return Ok(parts);
                }
                self.at += 1;
                let filter = self.label_filter(0)?;
                unwrap.filters.push(filter);
            } else if let Some(stage) = self.stage()? {
                parts.query.stages.push(stage);
            } else {
                return Ok(parts);
            }
        }
    }

    fn range(&mut self) -> Parsed<i64> {
        self.expect("[")?;
        let at = self.offset();
        let range = match self.next() {
            Lexeme::Duration(nanos) if nanos > 0 => nanos,
            _ => return self.error_at(at, "syntax error: expected a duration longer than zero, such as 5m"),
        };
        let end = self.offset();
        if !is_range(&self.query[at..end]) {
            return self.error_at(at, "not a valid duration: whole numbers, the largest unit first, such as 1h30m");
        }
        self.expect("]")?;
        Ok(range)
    }

    fn offset_modifier(&mut self) -> Parsed<Option<i64>> {
        if !self.skip_word("offset") {
            return Ok(None);
        }
        let sign = if self.skip("-") { -1 } else { 1 };
        match self.peek() {
            Lexeme::Duration(nanos) => {
                let nanos = *nanos;
                self.at += 1;
                Ok(Some(sign * nanos))
            }
            _ => self.unexpected("a duration"),
        }
    }

    fn unwrap_stage(&mut self) -> Parsed<Unwrap> {
        self.at += 2;
        self.node()?;
        let name = self.name("a label")?;
        let conversion = match name.to_ascii_lowercase().as_str() {
            "duration" => Conversion::Duration,
            "duration_seconds" => Conversion::DurationSeconds,
            "bytes" => Conversion::Bytes,
            _ => Conversion::Number,
        };
        if conversion == Conversion::Number || !self.is_sign("(") {
            return Ok(Unwrap { label: name, conversion: Conversion::Number, filters: Vec::new() });
        }
        self.at += 1;
        let label = self.name("a label")?;
        self.expect(")")?;
        Ok(Unwrap { label, conversion, filters: Vec::new() })
    }
}

/// Whether a text is a duration as Prometheus reads one.
fn is_range(text: &str) -> bool {
    let (mut rest, mut units) = (text, ["y", "w", "d", "h", "m", "s", "ms"].iter());
    while !rest.is_empty() {
        let behind = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let unit = &behind[..behind.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(behind.len())];
        if behind.len() == rest.len() || !units.any(|known| *known == unit) {
            return false;
        }
        rest = &behind[unit.len()..];
    }
    true
}

/// Entries over a range.
struct LogRange {
    query: LogQuery,
    unwrap: Option<Unwrap>,
    range: i64,
    offset: i64,
}

/// The same, as far as it was read.
struct RangeParts {
    query: LogQuery,
    unwrap: Option<Unwrap>,
    range: Option<i64>,
    offset: Option<i64>,
}
