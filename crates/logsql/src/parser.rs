//! The parser of filters, and what the parser of pipes shares with it.
//!
//! The grammar is that of LogsQL: `or` binds less than `and`, two filters side by side are joined by `and`, and `not`,
//! `-` and `!` negate the next filter. Neighbouring tokens without white space between them are one word, so `web-17`
//! and `/api/v1` need no quotes.

use crate::error::SyntaxError;
use crate::field_name::{Column, FieldName};
use crate::foreign;
use crate::keyword::{FILTER_FUNCTIONS, PIPES};
use crate::lexer::{QueryToken, TokenKind, tokens};
use crate::moment::Moment;
use crate::number::{Number, ipv4, ipv4_network};
use crate::query::{Expression, FieldOperator, Operator, Pipe, Span, Test, TimeTest, Times};
use crate::remark::{self, Doubt, bare_name, is_name};
use crate::unit::{duration_nanos, whole_number};
use crate::{QUERY_BYTES_MAX, QUERY_DEPTH_MAX, QUERY_TERMS_MAX};
use daytable_model::did_you_mean::did_you_mean;
use daytable_model::level::unknown_level;
use daytable_model::record::Level;
use std::ops::Range;

type Parsed<T> = Result<T, SyntaxError>;

/// Memory that one regular expression may use.
const REGEXP_BYTES_MAX: usize = 1 << 20;

/// The regular expression of a filter: `.` matches a newline, too.
///
/// # Errors
///
/// The pattern is wrong, or needs too much memory.
pub fn regexp(pattern: &str) -> Result<regex::Regex, String> {
    built(regex::RegexBuilder::new(pattern).dot_matches_new_line(true))
}

/// The regular expression of a pipe that takes parts of a text: `.` ends at a newline.
///
/// # Errors
///
/// The pattern is wrong, or needs too much memory.
pub fn regexp_of_parts(pattern: &str) -> Result<regex::Regex, String> {
    built(&mut regex::RegexBuilder::new(pattern))
}

fn built(builder: &mut regex::RegexBuilder) -> Result<regex::Regex, String> {
    builder.size_limit(REGEXP_BYTES_MAX).build().map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => "the regular expression is too large".into(),
        error => {
            let text = error.to_string();
            let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
            format!("the regular expression is wrong: {reason}")
        }
    })
}

/// The tokens of a query, and the place of the next one.
pub(crate) struct Parser<'q> {
    pub(crate) query: &'q str,
    tokens: Vec<QueryToken>,
    next: usize,
    depth: usize,
    terms: usize,
    /// Text that looks like something else.
    pub(crate) warnings: Vec<SyntaxError>,
    /// The names of fields, with their places.
    pub(crate) named: Vec<(String, Range<usize>)>,
    /// Pipes that make what the pipe names that is being parsed.
    pub(crate) made: Vec<Pipe>,
    /// The joins so far.
    pub(crate) joins: usize,
}

impl<'q> Parser<'q> {
    pub(crate) fn new(query: &'q str) -> Parsed<Parser<'q>> {
        if query.len() > QUERY_BYTES_MAX {
            let shown = &query[..query.floor_char_boundary(100)];
            return Err(SyntaxError::new(shown, 0..0, format!("a query has at most {QUERY_BYTES_MAX} bytes")));
        }
        let tokens = tokens(query)?;
        let warnings = foreign::whole_query(query, &tokens).into_iter().collect();
        Ok(Parser {
            query,
            tokens,
            next: 0,
            depth: 0,
            terms: 0,
            warnings,
            named: Vec::new(),
            made: Vec::new(),
            joins: 0,
        })
    }

    /// Warns of the text at a place.
    fn warn(&mut self, at: Range<usize>, doubt: Option<Doubt>) {
        // What a query of another language says about one of its words would only repeat it.
        let is_said = |warning: &SyntaxError| warning.at().start <= at.start && at.end <= warning.at().end;
        if let Some(Doubt { message, written }) = doubt
            && !self.warnings.iter().any(is_said)
        {
            self.warnings.push(SyntaxError::new(self.query, at, message).with_written(written.as_deref()));
        }
    }

    /// The end of what was parsed.
    fn parsed_to(&self) -> usize {
        self.next.checked_sub(1).map_or(0, |last| self.tokens[last].at.end)
    }

    /// Prefers what a query of another language is to what the parser expected of it.
    pub(crate) fn explained<T>(&self, parsed: Parsed<T>) -> Parsed<T> {
        let is_whole = |warning: &&SyntaxError| warning.at() == (0..self.query.len());
        parsed.map_err(|error| self.warnings.iter().find(is_whole).cloned().unwrap_or(error))
    }

    pub(crate) fn token(&self) -> &QueryToken {
        // The last token is `End`, and `next` never passes it.
        &self.tokens[self.next.min(self.tokens.len() - 1)]
    }

    pub(crate) fn advance(&mut self) {
        self.next = (self.next + 1).min(self.tokens.len() - 1);
    }

    pub(crate) fn error<T>(&self, at: Range<usize>, message: impl Into<String>) -> Parsed<T> {
        Err(SyntaxError::new(self.query, at, message))
    }

    /// The error that `expected` is missing at the next token.
    pub(crate) fn expected<T>(&self, expected: &str) -> Parsed<T> {
        let token = self.token();
        let found = match token.kind {
            TokenKind::End => "the query ends".to_owned(),
            _ => format!("found {}", &self.query[token.at.clone()]),
        };
        self.error(token.at.clone(), format!("expected {expected}, {found}"))
    }

    /// Whether the next token is this sign, or this word without quotes in any case.
    pub(crate) fn is(&self, text: &str) -> bool {
        let token = self.token();
        matches!(token.kind, TokenKind::Word | TokenKind::Sign) && token.text.eq_ignore_ascii_case(text)
    }

    pub(crate) fn is_end(&self) -> bool {
        self.token().kind == TokenKind::End
    }

    /// Passes the sign or word if it is next.
    pub(crate) fn accept(&mut self, text: &str) -> bool {
        let is_next = self.is(text);
        if is_next {
            self.advance();
        }
        is_next
    }

    pub(crate) fn require(&mut self, text: &str) -> Parsed<()> {
        if self.accept(text) { Ok(()) } else { self.expected(text) }
    }

    /// Counts a filter or a value.
    pub(crate) fn term(&mut self) -> Parsed<()> {
        self.terms += 1;
        if self.terms > QUERY_TERMS_MAX {
            let at = self.token().at.clone();
            return self.error(at, format!("a query has at most {QUERY_TERMS_MAX} filters and values"));
        }
        Ok(())
    }

    /// Goes one level deeper for `parse`.
    pub(crate) fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        self.depth += 1;
        if self.depth > QUERY_DEPTH_MAX {
            let at = self.token().at.clone();
            return self.error(at, format!("parentheses and negations nest at most {QUERY_DEPTH_MAX} deep"));
        }
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    /// A word of neighbouring tokens up to one of the signs in `stops`, white space or the end. A quoted text alone is
    /// its content.
    pub(crate) fn compound(&mut self, stops: &[&str], expected: &str) -> Parsed<(String, Range<usize>)> {
        let is_stop = |token: &QueryToken| {
            token.kind == TokenKind::End || (token.kind == TokenKind::Sign && stops.contains(&token.text.as_str()))
        };
        let first = self.token().clone();
        if is_stop(&first) {
            return self.expected(expected);
        }
        self.advance();
        let mut end = first.at.end;
        while !self.token().is_apart && !is_stop(self.token()) {
            end = self.token().at.end;
            self.advance();
        }
        let text = if end == first.at.end { first.text } else { self.query[first.at.start..end].to_owned() };
        Ok((text, first.at.start..end))
    }

    /// The name of a field.
    pub(crate) fn field_name(&mut self) -> Parsed<FieldName> {
        let (name, at) = self.compound(&["*", ",", "(", ")", "[", "]", "|", ":"], "the name of a field")?;
        self.named.push((name.clone(), at));
        Ok(FieldName::new(&name))
    }

    /// A name or a value of a pipe.
    pub(crate) fn name(&mut self, expected: &str) -> Parsed<String> {
        self.compound(&[",", "(", ")", "[", "]", "|"], expected).map(|(name, _)| name)
    }

    /// The whole filter of a query.
    pub(crate) fn filter(&mut self) -> Parsed<Expression> {
        let token = self.token();
        let name = token.text.to_ascii_lowercase();
        if token.kind == TokenKind::Word && PIPES.contains(&name.as_str()) {
            let follows = self.tokens.get(self.next + 1).is_some_and(|next| next.text == ":" && !next.is_apart);
            if !follows {
                let hint = format!("{name} is the name of a pipe: write * | {name} …, or \"{name}\" for the word");
                return self.error(token.at.clone(), hint);
            }
        }
        self.or(None)
    }

    pub(crate) fn or(&mut self, field: Option<&FieldName>) -> Parsed<Expression> {
        let mut any = vec![self.and(field)?];
        while self.accept("or") {
            any.push(self.and(field)?);
        }
        Ok(if any.len() == 1 { any.remove(0) } else { Expression::Or(any) })
    }

    fn and(&mut self, field: Option<&FieldName>) -> Parsed<Expression> {
        let mut all = Vec::new();
        loop {
            all.push(self.one(field)?);
            if self.accept("and") {
                continue;
            }
            if self.is_end() || self.is("|") || self.is(")") || self.is("or") {
                break;
            }
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Expression::And(all) })
    }

    /// One filter, with what stands before it.
    fn one(&mut self, field: Option<&FieldName>) -> Parsed<Expression> {
        self.term()?;
        if self.token().kind == TokenKind::Sign {
            if self.is("{") {
                let selector = self.stream()?;
                if let Some(logql) = foreign::line_filters(self.query, &self.tokens, self.next) {
                    return Err(logql);
                }
                return Ok(selector);
            }
            if self.accept("(") {
                let inner = self.deeper(|parser| parser.or(field))?;
                if self.is("|") {
                    return self.error(self.token().at.clone(), "alternatives are joined by or: (a or b)");
                }
                self.require(")")?;
                return Ok(inner);
            }
            if self.is("-") || self.is("!") {
                self.advance();
                return self.deeper(|parser| parser.one(field)).map(|inner| Expression::Not(inner.into()));
            }
        }
        if self.is("not") && !self.next_is(":") {
            self.advance();
            return self.deeper(|parser| parser.one(field)).map(|inner| Expression::Not(inner.into()));
        }
        if let Some(field) = field {
            return self.test(field);
        }
        // A word before a colon is the name of a field; any other filter is for the whole record.
        if matches!(self.token().kind, TokenKind::Word | TokenKind::Quoted) || self.is("/") || self.is("@") {
            let start = self.next;
            if let Some(compared) = self.spaced_comparison()? {
                return Ok(compared);
            }
            let (name, at) = self.compound(&["*", ",", "(", ")", "[", "]", "|", ":"], "a filter")?;
            if self.is(":") && !self.token().is_apart {
                self.advance();
                self.named.push((name.clone(), at));
                let field = FieldName::new(&name);
                if is_of_times(&field) {
                    return self.times(&field);
                }
                return match self.token().kind {
                    TokenKind::End => self.expected("a filter after the name of a field"),
                    _ if self.is("[") || self.is("{") => self.error(
                        self.token().at.clone(),
                        format!("a range is written {field}:range[1, 10), or {field}:>=1 {field}:<10"),
                    ),
                    _ => self.one(Some(&field)),
                };
            }
            if self.is(":") {
                return self.error(
                    self.token().at.clone(),
                    format!("a filter of a field has no white space before the colon: {name}:VALUE"),
                );
            }
            self.next = start;
            let pipe = foreign::pipe_without_sign(&self.tokens, start).filter(|_| start > 0);
            let until = self.tokens.get(start + 1).map_or(self.query.len(), |next| next.at.end);
            self.warn(self.tokens[start].at.start..until, pipe.map(Doubt::new));
        }
        if self.is("*") && !self.neighbour_is_text() {
            self.advance();
            return Ok(Expression::All);
        }
        self.test(&FieldName::anywhere())
    }

    /// `status >= 500`, with white space before the sign, after it, or both: a comparison of a field. Without white space it is a
    /// word. A `~` is one only with white space at both sides, because `error ~"a.*b"` is a word and a pattern for the line.
    fn spaced_comparison(&mut self) -> Parsed<Option<Expression>> {
        let start = self.next;
        let name = self.tokens[start].clone();
        let bare = bare_name(&name.text);
        if name.kind != TokenKind::Word || !is_name(bare) {
            return Ok(None);
        }
        // The name has one token, or several without white space.
        let mut at = start + 1;
        let is_sign = |token: &QueryToken| {
            token.kind == TokenKind::Sign && matches!(token.text.as_str(), "=" | "!=" | "=~" | "<" | ">" | "~" | "!~")
        };
        while !self.tokens[at].is_apart
            && (self.tokens[at].kind == TokenKind::Word || matches!(self.tokens[at].text.as_str(), "-" | "@" | "/"))
            && self.tokens[at].kind != TokenKind::End
        {
            at += 1;
        }
        if self.tokens[at].is_apart && self.tokens[at].kind == TokenKind::Word {
            return self.word_operator(start, at);
        }
        if !is_sign(&self.tokens[at]) {
            return Ok(None);
        }
        let signs = at;
        at += 1;
        while !self.tokens[at].is_apart && matches!(self.tokens[at].text.as_str(), "=" | ">") && at < signs + 3 {
            at += 1;
        }
        let value = &self.tokens[at];
        let is_value = matches!(value.kind, TokenKind::Word | TokenKind::Quoted)
            || matches!(value.text.as_str(), "-" | "/" | "*" | "@") && value.kind == TokenKind::Sign;
        let (is_before, is_after) = (self.tokens[signs].is_apart, value.is_apart);
        let sign: String = self.tokens[signs..at].iter().map(|token| token.text.as_str()).collect();
        let is_pattern = sign.contains('~') && sign != "=~";
        if !is_value || !(is_before || is_after) || is_pattern && !(is_before && is_after) {
            return Ok(None);
        }
        // A sign that no comparison has is left to be found wrong.
        let Some(skipped) = ["=", "!=", "=~", "~", "!~", "<", ">", "<=", ">=", "==", "===", "!==", "<>"]
            .iter()
            .find(|known| **known == sign)
            .map(|known| match *known {
                "==" => 1,
                "===" => 2,
                _ => 0,
            })
        else {
            return Ok(None);
        };
        let written = self.query[self.tokens[start].at.start..self.tokens[signs - 1].at.end].to_owned();
        let name = bare_name(&written);
        self.named.push((name.to_owned(), self.tokens[start].at.start..self.tokens[signs - 1].at.end));
        let field = FieldName::new(name);
        if matches!(sign.as_str(), "<>" | "!==") {
            self.next = at;
            let (value, is_prefix) = self.value_or_prefix()?;
            let test = if is_prefix { Test::ExactPrefix(value) } else { Test::Exact(value) };
            return Ok(Some(Expression::Not(Expression::Field(field, test).into())));
        }
        self.next = signs + skipped;
        if is_of_times(&field) { self.times(&field).map(Some) } else { self.test(&field).map(Some) }
    }

    /// `level in (a, b)`, which is a filter, and `path like "%a%"` and others, which are words with a warning.
    fn word_operator(&mut self, name: usize, word: usize) -> Parsed<Option<Expression>> {
        let (value, operator) = (&self.tokens[(word + 1).min(self.tokens.len() - 1)], &self.tokens[word]);
        let written = self.query[self.tokens[name].at.start..self.tokens[word - 1].at.end].to_owned();
        if operator.text.eq_ignore_ascii_case("in") && value.text == "(" && value.kind == TokenKind::Sign {
            let field = FieldName::new(bare_name(&written));
            self.named.push((bare_name(&written).to_owned(), self.tokens[name].at.start..self.tokens[word - 1].at.end));
            self.next = word;
            return self.test_as_function(&field).map(Some);
        }
        if value.kind != TokenKind::End {
            let at = self.tokens[name].at.start..value.at.end;
            let doubt = remark::of_word_operator(&written, &operator.text, &self.query[value.at.clone()]);
            self.warn(at, doubt);
        }
        Ok(None)
    }

    fn test_as_function(&mut self, field: &FieldName) -> Parsed<Expression> {
        let start = self.token().at.start;
        let parsed = self.function(field)?;
        self.check_level(&parsed, start).map(|()| parsed)
    }

    /// Whether the token after the next one is `sign`, without white space.
    fn next_is(&self, sign: &str) -> bool {
        self.tokens.get(self.next + 1).is_some_and(|token| !token.is_apart && token.text == sign)
    }

    /// Whether the token after the next one continues it with a word or a quoted text.
    fn neighbour_is_text(&self) -> bool {
        let neighbour = self.tokens.get(self.next + 1);
        neighbour.is_some_and(|t| !t.is_apart && matches!(t.kind, TokenKind::Word | TokenKind::Quoted))
    }

    /// The test of a field.
    fn test(&mut self, field: &FieldName) -> Parsed<Expression> {
        let start = self.token().at.start;
        let parsed = self.any_test(field)?;
        self.check_level(&parsed, start).map(|()| parsed)
    }

    /// Refuses a word that is not a level where a level is compared.
    fn check_level(&self, parsed: &Expression, start: usize) -> Parsed<()> {
        let test = match parsed {
            Expression::Field(field, test) if field.column() == Column::Level => test,
            Expression::Not(inner) => match &**inner {
                Expression::Field(field, test) if field.column() == Column::Level => test,
                _ => return Ok(()),
            },
            _ => return Ok(()),
        };
        let words: Vec<&String> = match test {
            Test::Phrase { text, .. } | Test::Exact(text) | Test::Order(_, text) => vec![text],
            Test::In(values) | Test::ContainsAny(values) | Test::ContainsAll(values) | Test::Sequence(values) => {
                values.iter().collect()
            }
            Test::Range { low, high, .. } => vec![low, high],
            Test::StringRange(low, high) => vec![low, high],
            _ => Vec::new(),
        };
        let Some(wrong) = words.into_iter().find(|word| !word.is_empty() && Level::from_word(word).is_none()) else {
            return Ok(());
        };
        let whole = start..self.parsed_to();
        let at = self.query[whole.clone()].find(wrong.as_str()).map(|at| whole.start + at);
        self.error(at.map_or(whole, |at| at..at + wrong.len()), unknown_level(wrong))
    }

    fn any_test(&mut self, field: &FieldName) -> Parsed<Expression> {
        let of = |test| Ok(Expression::Field(field.clone(), test));
        let not = |test| Ok(Expression::Not(Expression::Field(field.clone(), test).into()));
        if self.token().kind == TokenKind::Sign {
            if self.is("*") && !self.neighbour_is_text() {
                self.advance();
                return of(Test::Present);
            }
            if self.accept("*") {
                let (part, at) = self.compound(&["*", ",", "(", ")", "[", "]", "|"], "a text")?;
                if !self.is("*") || self.token().is_apart {
                    return self.error(at.end..at.end, "expected * after the part of a word, as in *part*");
                }
                self.advance();
                return of(Test::Part(part));
            }
            let is_not = self.is("!=");
            if is_not || self.is("=") {
                self.advance();
                let is_bare = self.token().kind != TokenKind::Quoted;
                let begin = self.token().at.start;
                let (value, is_prefix) = self.value_or_prefix()?;
                if is_prefix {
                    self.warn_of_inner_star(field, begin);
                } else if is_bare && field.column() != Column::Anywhere {
                    // Behind the sign of equality a range is a text.
                    let doubt = remark::of_value(field, &value, false).map(|doubt| Doubt::new(doubt.message));
                    self.warn(begin..self.parsed_to(), doubt);
                }
                let test = if is_prefix { Test::ExactPrefix(value) } else { Test::Exact(value) };
                return if is_not { not(test) } else { of(test) };
            }
            if self.is("~") || self.is("=~") || self.is("!~") {
                let is_not = self.is("!~");
                self.advance();
                let (pattern, at) = self.compound(&[",", "(", ")", "[", "]", "|"], "a regular expression in quotes")?;
                let test = self.regexp(pattern, at)?;
                return if is_not { not(test) } else { of(test) };
            }
            if self.is(">") || self.is("<") {
                let operator = self.operator();
                let is_bare = self.token().kind != TokenKind::Quoted;
                let (value, at) = self.compound(&[",", "(", ")", "[", "]", "|"], "a value")?;
                if is_bare {
                    self.warn(at, remark::of_value(field, &value, true));
                }
                return of(Test::Order(operator, value));
            }
        }
        if self.token().kind == TokenKind::Word && (self.next_is("(") || (self.is("range") && self.next_is("["))) {
            return self.function(field);
        }
        let expected = "a filter, for example error or status:>=500";
        let stops = match field.column() {
            // A colon after a bare word would make the word a name.
            Column::Anywhere => &["*", ",", "(", ")", "[", "]", "|", ":"][..],
            _ => &["*", ",", "(", ")", "[", "]", "|"][..],
        };
        if self.is(":") {
            return self.expected(expected);
        }
        if self.is(",") {
            let name = field.written();
            let name = if field.column() == Column::Anywhere { "name" } else { name };
            return self
                .error(self.token().at.clone(), format!("several values are written {name}:in(a, b), or a or b"));
        }
        let first = self.token().clone();
        let (text, at) = self.compound(stops, expected)?;
        let is_quoted = first.kind == TokenKind::Quoted && first.at == at;
        if !is_quoted {
            let doubt = match field.column() {
                Column::Anywhere => remark::of_word(&self.query[at.clone()]),
                _ => remark::of_value(field, &text, false),
            };
            self.warn(at.clone(), doubt);
        }
        if self.is("*") && !self.token().is_apart {
            self.advance();
            self.warn_of_inner_star(field, at.start);
            return of(Test::Prefix { text, any_case: false });
        }
        if self.is("(") && !self.token().is_apart {
            return self.error(at, "expected white space between a word and a parenthesis");
        }
        of(if is_quoted && text.is_empty() { Test::Empty } else { Test::Phrase { text, any_case: false } })
    }

    /// Warns of text behind the `*` that ended a value, which began at `begin`.
    fn warn_of_inner_star(&mut self, field: &FieldName, begin: usize) {
        let next = self.token();
        let is_text = matches!(next.kind, TokenKind::Word | TokenKind::Quoted)
            || next.kind == TokenKind::Sign && !matches!(next.text.as_str(), ")" | "]" | "," | "|" | "}");
        if next.is_apart || !is_text {
            return;
        }
        let rest = &self.query[begin..];
        let end = rest.find(|c: char| c.is_whitespace() || matches!(c, '|' | '(' | ')' | ',')).unwrap_or(rest.len());
        let field = Some(field).filter(|field| field.column() != Column::Anywhere);
        self.warn(begin..begin + end, Some(remark::of_inner_star(field, &rest[..end])));
    }

    fn operator(&mut self) -> Operator {
        let is_greater = self.is(">");
        self.advance();
        let or_equal = self.is("=") && !self.token().is_apart && self.accept("=");
        match (is_greater, or_equal) {
            (true, true) => Operator::GreaterOrEqual,
            (true, false) => Operator::Greater,
            (false, true) => Operator::LessOrEqual,
            (false, false) => Operator::Less,
        }
    }

    fn regexp(&self, pattern: String, at: Range<usize>) -> Parsed<Test> {
        match regexp(&pattern) {
            Ok(_) => Ok(Test::Regexp(pattern)),
            Err(problem) => self.error(at, problem),
        }
    }

    /// A value after `=`, and whether `*` follows.
    fn value_or_prefix(&mut self) -> Parsed<(String, bool)> {
        let (value, _) = match self.is("*") {
            true => (String::new(), 0..0),
            false => self.compound(&["*", ",", "(", ")", "|"], "a value")?,
        };
        let is_prefix = self.is("*") && !self.token().is_apart;
        if is_prefix {
            self.advance();
        }
        Ok((value, is_prefix))
    }

    /// A test that is written as a function.
    fn function(&mut self, field: &FieldName) -> Parsed<Expression> {
        let (name, at) = (self.token().text.to_ascii_lowercase(), self.token().at.clone());
        if !FILTER_FUNCTIONS.contains(&name.as_str()) {
            let hint = match (did_you_mean(&name, &FILTER_FUNCTIONS), foreign::function(&name)) {
                (_, Some(advice)) => format!("; {advice}"),
                (Some(known), None) => format!("; did you mean {known}?"),
                (None, None) => format!("; the functions of filters are {}", FILTER_FUNCTIONS.join(", ")),
            };
            return self.error(at, format!("unknown function {name}{hint}"));
        }
        self.advance();
        let of = |test| Ok(Expression::Field(field.clone(), test));
        if name == "range" {
            return of(self.range()?);
        }
        if matches!(name.as_str(), "i" | "exact") {
            self.require("(")?;
            let (text, is_prefix) = match self.is(")") {
                true => (String::new(), false),
                false => self.value_or_prefix()?,
            };
            self.require(")")?;
            return of(match (name.as_str(), is_prefix) {
                ("i", false) => Test::Phrase { text, any_case: true },
                ("i", true) => Test::Prefix { text, any_case: true },
                (_, false) => Test::Exact(text),
                (_, true) => Test::ExactPrefix(text),
            });
        }
        let (mut values, places) = self.arguments()?;
        let whole = at.start..places.last().map_or(at.end, |last| last.end);
        let wanted = match name.as_str() {
            "len_range" | "string_range" => 2..=2,
            "ipv4_range" => 1..=2,
            "eq_field" | "le_field" | "lt_field" | "pattern" | "re" => 1..=1,
            _ => 0..=usize::MAX,
        };
        if !wanted.contains(&values.len()) {
            let count = if *wanted.end() == 1 { "one value" } else { "two values" };
            return self.error(whole, format!("expected {count} in {name}(…)"));
        }
        if matches!(name.as_str(), "in" | "contains_any" | "contains_all")
            && places.len() == 1
            && self.query[places[0].clone()] == *"*"
        {
            return Ok(Expression::All);
        }
        let number = |parser: &Self, at: usize| match whole_number(&values[at]) {
            Some(number) => Ok(number),
            None if matches!(values[at].as_str(), "inf" | "Inf") => Ok(u64::MAX),
            None => parser.error(places[at].clone(), "expected a whole number"),
        };
        of(match name.as_str() {
            "contains_all" => Test::ContainsAll(values),
            "contains_any" => Test::ContainsAny(values),
            "in" => Test::In(values),
            "seq" => Test::Sequence(values),
            "re" => self.regexp(values.remove(0), places[0].clone())?,
            "eq_field" => Test::Other(FieldOperator::Equal, FieldName::new(&values[0])),
            "le_field" => Test::Other(FieldOperator::LessOrEqual, FieldName::new(&values[0])),
            "lt_field" => Test::Other(FieldOperator::Less, FieldName::new(&values[0])),
            "pattern" => Test::Pattern(values.remove(0)),
            "string_range" => Test::StringRange(values.remove(0), values.remove(0)),
            "len_range" => Test::LengthRange(number(self, 0)?, number(self, 1)?),
            _ => {
                let range = match &values[..] {
                    [network] => ipv4_network(network),
                    [low, high] => ipv4(low).zip(ipv4(high)),
                    _ => None,
                };
                let Some((low, high)) = range else {
                    return self.error(whole, "expected an IPv4 network such as 10.0.0.0/8, or two addresses");
                };
                Test::AddressRange(low, high)
            }
        })
    }

    /// Values in parentheses, each with its place.
    fn arguments(&mut self) -> Parsed<(Vec<String>, Vec<Range<usize>>)> {
        self.require("(")?;
        let (mut values, mut places) = (Vec::new(), Vec::new());
        while !self.is(")") {
            self.term()?;
            let (value, at) = match self.is("*") {
                true => {
                    let at = self.token().at.clone();
                    self.advance();
                    ("*".to_owned(), at)
                }
                false => self.compound(&["*", ",", "(", ")", "|"], "a value or )")?,
            };
            values.push(value);
            places.push(at);
            if !self.accept(",") {
                break;
            }
        }
        if self.is(")") {
            self.advance()
        } else {
            return self.expected(", or )");
        }
        Ok((values, places))
    }

    /// `[low, high)` after `range`.
    fn range(&mut self) -> Parsed<Test> {
        let low_included = self.is("[");
        self.advance();
        let (low, low_at) = self.compound(&[",", "(", ")", "[", "]", "|"], "the lower bound")?;
        self.require(",")?;
        let (high, high_at) = self.compound(&[",", "(", ")", "[", "]", "|"], "the upper bound")?;
        let high_included = self.is("]");
        if !high_included && !self.is(")") {
            return self.expected(") or ]");
        }
        self.advance();
        let is_bound = |text: &str| Number::parse(text).is_some() || Level::from_word(text).is_some();
        for (text, at) in [(&low, low_at), (&high, high_at)] {
            if !is_bound(text) {
                return self.error(at, "expected a number, a duration, a size, an address, a time or a level");
            }
        }
        Ok(Test::Range { low, low_included, high, high_included })
    }

    /// `{name="value", … or …}`: labels of a stream, each the value of a field.
    fn stream(&mut self) -> Parsed<Expression> {
        self.require("{")?;
        let mut any = vec![self.labels()?];
        while self.accept("or") {
            any.push(self.labels()?);
        }
        self.require("}")?;
        Ok(if any.len() == 1 { any.remove(0) } else { Expression::Or(any) })
    }

    /// `name="value", …`, which all hold.
    fn labels(&mut self) -> Parsed<Expression> {
        let mut all = Vec::new();
        while !self.is("}") {
            self.term()?;
            let (name, name_at) = self.compound(&["=", "!=", "=~", "!~", ",", "}", "|"], "the name of a field")?;
            self.named.push((name.clone(), name_at));
            let field = FieldName::new(&name);
            let sign = self.token().text.clone();
            if !["=", "!=", "=~", "!~"].contains(&sign.as_str()) {
                return self.expected("=, !=, =~ or !~");
            }
            self.advance();
            let (value, at) = self.compound(&[",", "}", "|"], "a value")?;
            let begin = at.start;
            let test = match sign.as_str() {
                "=" | "!=" => Test::Exact(value),
                _ => self.regexp(format!("^(?:{value})$"), at)?,
            };
            let one = Expression::Field(field, test);
            self.check_level(&one, begin)?;
            all.push(if sign.starts_with('!') { Expression::Not(one.into()) } else { one });
            if !self.accept(",") {
                break;
            }
        }
        Ok(match all.len() {
            0 => Expression::All,
            1 => all.remove(0),
            _ => Expression::And(all),
        })
    }

    /// A filter of times, after its colon.
    fn times(&mut self, field: &FieldName) -> Parsed<Expression> {
        let times = if self.is("offset") {
            Times::Any
        } else if self.is("day_range") || self.is("week_range") {
            self.repeated()?
        } else if self.is("[") || self.is("(") {
            let from_included = self.is("[");
            self.advance();
            let from = self.moment()?;
            self.require(",")?;
            let to = self.moment()?;
            let to_included = self.is("]");
            if !to_included && !self.is(")") {
                return self.expected(") or ]");
            }
            self.advance();
            Times::Between { from, from_included, to, to_included }
        } else if self.is(">") || self.is("<") {
            let operator = self.operator();
            let (text, at) = self.compound(&[",", "(", ")", "[", "]", "|"], "a time or a duration")?;
            match (Moment::parse(&text), duration_nanos(&text)) {
                (Some(moment), _) => Times::Order(operator, moment),
                (None, Some(nanos)) => Times::Age(operator, Span { text, nanos }),
                (None, None) => return self.no_time(at),
            }
        } else if self.is("*") {
            self.advance();
            return Ok(Expression::All);
        } else {
            self.accept("=");
            let (text, at) = self.compound(&[",", "(", ")", "[", "]", "|"], "a time or a duration")?;
            match (Moment::parse(&text), duration_nanos(&text)) {
                (Some(moment), _) => Times::Period(moment),
                (None, Some(nanos)) => Times::Last(Span { text, nanos: nanos.saturating_abs() }),
                (None, None) => return self.no_time(at),
            }
        };
        let offset = if self.accept("offset") { Some(self.span()?) } else { None };
        let test = TimeTest { times, offset };
        Ok(match field.column() {
            Column::Time => Expression::Time(test),
            _ => Expression::Field(field.clone(), Test::Times(test)),
        })
    }

    fn no_time<T>(&self, at: Range<usize>) -> Parsed<T> {
        self.error(at, "expected a time such as 2026-11-21T08:00Z, a duration such as 15m, or a range [from, to)")
    }

    fn moment(&mut self) -> Parsed<Moment> {
        let (text, at) = self.compound(&[",", "(", ")", "[", "]", "|"], "a time")?;
        match Moment::parse(&text) {
            Some(moment) => Ok(moment),
            None => self.no_time(at),
        }
    }

    /// A duration.
    pub(crate) fn span(&mut self) -> Parsed<Span> {
        let (text, at) = self.compound(&[",", "(", ")", "[", "]", "|"], "a duration")?;
        match duration_nanos(&text) {
            Some(nanos) => Ok(Span { text, nanos }),
            None => self.error(at, "expected a duration such as 30m"),
        }
    }

    /// `day_range[08:00, 18:00)` or `week_range[Mon, Fri]`.
    fn repeated(&mut self) -> Parsed<Times> {
        let is_daily = self.is("day_range");
        self.advance();
        let from_included = self.is("[");
        if !from_included && !self.is("(") {
            return self.expected("[ or (");
        }
        self.advance();
        let bound = |parser: &mut Self| {
            let (text, at) = parser.compound(&[",", "(", ")", "[", "]", "|"], "a time of the day, or a day")?;
            let value = if is_daily { minute_of_day(&text) } else { day_of_week(&text) };
            let expected = if is_daily { "expected a time such as 08:00" } else { "expected a day such as Mon" };
            value.map_or_else(|| parser.error(at, expected), Ok)
        };
        let from = bound(self)?;
        self.require(",")?;
        let to = bound(self)?;
        let to_included = self.is("]");
        if !to_included && !self.is(")") {
            return self.expected(") or ]");
        }
        self.advance();
        Ok(match is_daily {
            true => Times::Daily { from, from_included, to, to_included },
            false => Times::Weekly { from, from_included, to, to_included },
        })
    }
}

/// Whether filters of a field are filters of times.
fn is_of_times(field: &FieldName) -> bool {
    matches!(field.column(), Column::Time | Column::Arrived)
}

fn minute_of_day(text: &str) -> Option<u32> {
    let (hour, minute) = text.split_once(':')?;
    let (hour, minute): (u32, u32) = (hour.parse().ok()?, minute.parse().ok()?);
    (hour < 24 && minute < 60 || (hour, minute) == (24, 0)).then_some(hour * 60 + minute)
}

/// The days of the week, Sunday first.
pub(crate) const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];

fn day_of_week(text: &str) -> Option<u32> {
    let long = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];
    let is = |(short, long): (&&str, &&str)| short.eq_ignore_ascii_case(text) || long.eq_ignore_ascii_case(text);
    DAYS.iter().zip(&long).position(is).and_then(|at| u32::try_from(at).ok())
}
