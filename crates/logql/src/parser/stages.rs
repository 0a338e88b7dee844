//! Reads what selects entries: selectors, line filters and the stages of a pipeline.

use super::{Parsed, QueryParser};
use crate::ast::*;
use crate::ip::IpFilter;
use crate::labels::label_name;
use crate::lexer::Lexeme;
use crate::line_pattern::CapturePattern;
use crate::stages::json::parse_path;
use crate::template::Template;

/// Bytes of a line filter's text at most.
const NEEDLE_BYTES_MAX: usize = 64 << 10;

impl QueryParser<'_> {
    pub(super) fn log_query(&mut self) -> Parsed<LogQuery> {
        let selector = self.selector(true)?;
        Ok(LogQuery { selector, stages: self.pipeline()? })
    }

    /// A selector. A query must have a condition that not every stream satisfies.
    pub(super) fn selector(&mut self, of_query: bool) -> Parsed<Selector> {
        let at = self.offset();
        self.expect("{")?;
        let mut matchers = Vec::new();
        while !self.skip("}") {
            if !matchers.is_empty() {
                self.expect(",")?;
            }
            self.node()?;
            let name = self.name("a label or }")?;
            matchers.push(self.matcher(name)?);
        }
        let is_bound = matchers.iter().any(|matcher: &LabelMatcher| !matcher.matches(""));
        if of_query && !is_bound {
            return self.error_at(
                at,
                "queries require at least one regexp or equality matcher that does not have an empty-compatible value. \
                 For instance, app=~\".*\" does not meet this requirement, but app=~\".+\" will",
            );
        }
        Ok(Selector(matchers))
    }

    fn match_op(&self) -> Option<MatchOp> {
        Some(match self.peek() {
            Lexeme::Sign("=") => MatchOp::Equal,
            Lexeme::Sign("!=") => MatchOp::NotEqual,
            Lexeme::Sign("=~") => MatchOp::Regex,
            Lexeme::Sign("!~") => MatchOp::NotRegex,
            _ => return None,
        })
    }

    /// The comparison and the value behind a label's name.
    fn matcher(&mut self, name: String) -> Parsed<LabelMatcher> {
        let Some(op) = self.match_op() else { return self.unexpected("one of = != =~ !~") };
        self.at += 1;
        let at = self.offset();
        let value = self.string("a string")?;
        let regex = match op {
            MatchOp::Equal | MatchOp::NotEqual => None,
            MatchOp::Regex | MatchOp::NotRegex => Some(self.regex(at, |budget| budget.compile_anchored(&value))?),
        };
        Ok(LabelMatcher { name, op, value, regex })
    }

    pub(super) fn pipeline(&mut self) -> Parsed<Vec<PipelineStage>> {
        let mut stages = Vec::new();
        while let Some(stage) = self.stage()? {
            stages.push(stage);
        }
        Ok(stages)
    }

    /// The next stage; `None` if no stage stands here.
    pub(super) fn stage(&mut self) -> Parsed<Option<PipelineStage>> {
        let op = match self.peek() {
            Lexeme::Sign("|=") => LineOp::Contains,
            Lexeme::Sign("!=") => LineOp::NotContains,
            Lexeme::Sign("|~") => LineOp::Regex,
            Lexeme::Sign("!~") => LineOp::NotRegex,
            Lexeme::Sign("|>") => LineOp::Pattern,
            Lexeme::Sign("!>") => LineOp::NotPattern,
            Lexeme::Sign("|") => {
                self.at += 1;
                self.node()?;
                return self.piped().map(Some);
            }
            _ => return Ok(None),
        };
        self.at += 1;
        self.node()?;
        let mut tests = vec![self.line_test(op)?];
        while self.skip_word("or") {
            self.node()?;
            tests.push(self.line_test(op)?);
        }
        Ok(Some(PipelineStage::Line(LineFilter { op, tests })))
    }

    fn line_test(&mut self, op: LineOp) -> Parsed<LineTest> {
        let at = self.offset();
        if self.is_word("ip") && matches!(self.peek_after(1), Lexeme::Sign("(")) {
            if !matches!(op, LineOp::Contains | LineOp::NotContains) {
                return self.error("ip() is allowed only after |= and !=");
            }
            return self.ip().map(LineTest::Ip);
        }
        let text = self.string("a string or ip()")?;
        if text.len() > NEEDLE_BYTES_MAX {
            return self.error_at(at, format!("the text exceeds {NEEDLE_BYTES_MAX} bytes"));
        }
        Ok(match op {
            LineOp::Contains | LineOp::NotContains => LineTest::Text(text),
            LineOp::Regex | LineOp::NotRegex => {
                let regex = self.regex(at, |budget| budget.compile(&text))?;
                LineTest::Regex(text, regex)
            }
            LineOp::Pattern | LineOp::NotPattern => {
                LineTest::Pattern(self.compiled(at, CapturePattern::without_names(&text))?)
            }
        })
    }

    fn ip(&mut self) -> Parsed<IpFilter> {
        self.at += 1;
        self.expect("(")?;
        let at = self.offset();
        let text = self.string("an address, a range or a network")?;
        self.expect(")")?;
        self.compiled(at, IpFilter::new(&text))
    }

    /// A stage behind `|`.
    fn piped(&mut self) -> Parsed<PipelineStage> {
        let word = match self.peek() {
            Lexeme::Name(name) => name.clone(),
            Lexeme::Sign("(") => return self.label_filter(0).map(PipelineStage::Labels),
            _ => return self.unexpected("a parser, a format, or a label"),
        };
        // A label may have the name of a stage.
        let is_label =
            matches!(self.peek_after(1), Lexeme::Sign("=" | "==" | "!=" | "=~" | "!~" | ">" | ">=" | "<" | "<="));
        if is_label && !["json", "logfmt"].contains(&word.to_ascii_lowercase().as_str()) {
            return self.label_filter(0).map(PipelineStage::Labels);
        }
        let at = self.offset();
        self.at += 1;
        let stage = match word.to_ascii_lowercase().as_str() {
            "json" => PipelineStage::Json(self.extractions(true)?),
            "logfmt" => {
                let (mut strict, mut keep_empty) = (false, false);
                while let Lexeme::Flag(flag) = self.peek() {
                    match flag.as_str() {
                        "strict" => strict = true,
                        "keep-empty" => keep_empty = true,
                        _ => return self.unexpected("--strict or --keep-empty"),
                    }
                    self.at += 1;
                }
                PipelineStage::Logfmt { strict, keep_empty, keys: self.extractions(false)? }
            }
            "pattern" => {
                let at = self.offset();
                let text = self.string("a pattern")?;
                PipelineStage::Pattern(self.compiled(at, CapturePattern::with_names(&text))?)
            }
            "regexp" => {
                let at = self.offset();
                let source = self.string("a regular expression")?;
                let regex = self.regex(at, |budget| budget.compile(&source))?;
                if regex.capture_names().flatten().next().is_none() {
                    return self.error_at(at, "at least one named capture must be supplied");
                }
                PipelineStage::Regexp { source, regex }
            }
            "unpack" => PipelineStage::Unpack,
            "decolorize" => PipelineStage::Decolorize,
            "line_format" => PipelineStage::LineFormat(self.template()?),
            "label_format" => PipelineStage::LabelFormat(self.label_formats()?),
            "drop" => PipelineStage::Drop(self.picks()?),
            "keep" => PipelineStage::Keep(self.picks()?),
            "unwrap" => return self.error_at(at, "unwrap stands in a range aggregation only"),
            _ => {
                self.at -= 1;
                return self.label_filter(0).map(PipelineStage::Labels);
            }
        };
        Ok(stage)
    }

    fn template(&mut self) -> Parsed<Template> {
        let at = self.offset();
        let text = self.string("a template")?;
        self.compiled(at, Template::new(&text))
    }

    fn label_formats(&mut self) -> Parsed<Vec<(String, LabelValue)>> {
        let mut formats: Vec<(String, LabelValue)> = Vec::new();
        loop {
            let at = self.offset();
            self.node()?;
            let name = self.name("a label")?;
            if name == "__error__" {
                return self.error_at(at, "__error__ cannot be formatted");
            }
            if formats.iter().any(|(known, _)| *known == name) {
                return self.error_at(at, format!("multiple label name {name:?}: a label can be formatted only once"));
            }
            self.expect("=")?;
            let value = match self.peek() {
                Lexeme::Name(_) => LabelValue::Renamed(self.name("a label")?),
                _ => LabelValue::Template(self.template()?),
            };
            formats.push((name, value));
            if !self.skip(",") {
                return Ok(formats);
            }
        }
    }

    fn picks(&mut self) -> Parsed<Vec<LabelPick>> {
        let mut picks = Vec::new();
        loop {
            self.node()?;
            let name = self.name("a label")?;
            picks.push(if self.match_op().is_some() {
                LabelPick::If(self.matcher(name)?)
            } else {
                LabelPick::Name(name)
            });
            if !self.skip(",") {
                return Ok(picks);
            }
        }
    }

    /// The labels that `json` and `logfmt` extract.
    fn extractions(&mut self, is_json: bool) -> Parsed<Vec<LabelExtraction>> {
        let mut extractions = Vec::new();
        while matches!(self.peek(), Lexeme::Name(name) if !matches!(name.to_ascii_lowercase().as_str(), "or" | "and" | "unless" | "offset"))
        {
            self.node()?;
            let label = self.name("a label")?;
            let at = self.offset() + 1;
            let source = if self.skip("=") { self.string("a path in quotes")? } else { label.clone() };
            let path = if is_json {
                self.compiled(at, parse_path(&source))?
            } else if label_name(&source) != source || source.is_empty() {
                return self.error_at(at, format!("{source:?} is not a key of logfmt"));
            } else {
                vec![PathStep::Member(source.clone())]
            };
            // Of two keys for one label, logfmt takes the last.
            extractions.retain(|known: &LabelExtraction| is_json || known.label != label);
            extractions.push(LabelExtraction { label, source, path });
            if !self.skip(",") {
                break;
            }
        }
        Ok(extractions)
    }

    /// A condition on labels. `and` binds stronger than `or`. What stands behind a comma, or behind a condition without a
    /// word between, belongs together: `a, b or c` is `a and (b or c)`.
    pub(super) fn label_filter(&mut self, weakest: u8) -> Parsed<LabelFilter> {
        let mut left = self.deeper(QueryParser::label_condition)?;
        loop {
            // How strongly it binds, the words to pass over, and what binds stronger to the right.
            let (precedence, words, right) = match self.peek() {
                Lexeme::Name(name) if name.eq_ignore_ascii_case("or") => (0, 1, 1),
                Lexeme::Name(name) if name.eq_ignore_ascii_case("and") => (1, 1, 2),
                Lexeme::Sign(",") => (u8::MAX, 1, 0),
                Lexeme::Name(_)
                    if matches!(
                        self.peek_after(1),
                        Lexeme::Sign("=" | "==" | "!=" | "=~" | "!~" | ">" | ">=" | "<" | "<=")
                    ) =>
                {
                    (u8::MAX, 0, 0)
                }
                _ => return Ok(left),
            };
            if precedence < weakest {
                return Ok(left);
            }
            self.at += words;
            self.node()?;
            let right = self.deeper(|parser| parser.label_filter(right))?;
            left = match precedence {
                0 => LabelFilter::Or(Box::new(left), Box::new(right)),
                _ => LabelFilter::And(Box::new(left), Box::new(right)),
            };
        }
    }

    fn label_condition(&mut self) -> Parsed<LabelFilter> {
        if self.skip("(") {
            let inner = self.label_filter(0)?;
            self.expect(")")?;
            return Ok(inner);
        }
        let name = self.name("a label")?;
        if self.match_op().is_some() && matches!(self.peek_after(1), Lexeme::String(_)) {
            return self.matcher(name).map(LabelFilter::Text);
        }
        let Some(op) = self.compare_op(true) else {
            return self.unexpected("a comparison, such as = != =~ !~ > >= < <=");
        };
        self.at += 1;
        if self.is_word("ip") {
            let negative = match op {
                CompareOp::Equal => false,
                CompareOp::NotEqual => true,
                _ => return self.error("ip() is allowed only after = and !="),
            };
            return Ok(LabelFilter::Ip { name, negative, filter: self.ip()? });
        }
        let sign = if self.skip("-") { -1.0 } else { 1.0 };
        let (value, unit) = match self.peek() {
            Lexeme::Number(number) => (sign * number, Unit::Number),
            Lexeme::Duration(nanos) => (sign * *nanos as f64, Unit::Duration),
            Lexeme::Size(bytes) => (sign * bytes, Unit::Size),
            _ => return self.unexpected("a string, a number, a duration or a size"),
        };
        self.at += 1;
        Ok(LabelFilter::Quantity { name, op, value, unit })
    }
}
