//! Reads a template.

use super::functions;
use super::value::TemplateValue;
use super::{Command, Node, Operand, Pipeline};
use crate::text;

/// Blocks and brackets within each other at most.
const DEPTH_MAX: usize = 32;

/// What ends a list of nodes.
#[derive(Clone, Debug, PartialEq)]
enum Stop {
    End,
    Else(Option<String>),
    Eof,
}

pub(super) fn parse(source: &str) -> Result<Vec<Node>, String> {
    let mut reader = Reader { rest: source, trim: false, depth: 0 };
    match reader.nodes()? {
        (nodes, Stop::Eof) => Ok(nodes),
        (_, Stop::End) => Err("unexpected {{end}}".into()),
        (_, Stop::Else(_)) => Err("unexpected {{else}}".into()),
    }
}

struct Reader<'s> {
    rest: &'s str,
    /// Whether the action before ended in `-}}`.
    trim: bool,
    depth: usize,
}

impl<'s> Reader<'s> {
    /// The next action without its braces, and the text before it. `None` for the action at the end.
    fn next(&mut self) -> Result<(&'s str, Option<&'s str>), String> {
        let trim = std::mem::take(&mut self.trim);
        let start = if trim { self.rest.trim_start() } else { self.rest };
        let Some(open) = start.find("{{") else {
            self.rest = "";
            return Ok((start, None));
        };
        let (mut before, mut inner) = (&start[..open], &start[open + 2..]);
        let is_space = |c: char| matches!(c, ' ' | '\t' | '\r' | '\n');
        if let Some(behind) = inner.strip_prefix('-').filter(|behind| behind.starts_with(is_space)) {
            (before, inner) = (before.trim_end(), behind);
        }
        let end = if inner.trim_start().starts_with("/*") {
            inner.find("*/").map(|at| at + 2).ok_or("unclosed comment")?
        } else {
            0
        };
        let close = action_end(inner, end).ok_or("unclosed action")?;
        let mut action = &inner[..close];
        if let Some(shorter) = action.strip_suffix('-').filter(|shorter| shorter.ends_with(is_space)) {
            (action, self.trim) = (shorter, true);
        }
        self.rest = &inner[close + 2..];
        Ok((before, Some(action.trim())))
    }

    fn nodes(&mut self) -> Result<(Vec<Node>, Stop), String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err("the template is nested too deep".into());
        }
        let mut nodes = Vec::new();
        let stop = loop {
            let (text, action) = self.next()?;
            if !text.is_empty() {
                nodes.push(Node::Text(text.to_owned()));
            }
            let Some(action) = action else { break Stop::Eof };
            if action.starts_with("/*") {
                continue;
            }
            let word_end = action.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(action.len());
            let (word, behind) = action.split_at(word_end);
            match word {
                "end" if behind.is_empty() => break Stop::End,
                "else" => {
                    let behind = behind.trim();
                    break Stop::Else((!behind.is_empty()).then(|| behind.to_owned()));
                }
                "if" | "with" => {
                    let condition = pipeline(behind)?;
                    nodes.push(self.branch(condition, word == "with")?);
                }
                "range" => {
                    let list = pipeline(behind)?;
                    let (body, stop) = self.nodes()?;
                    let otherwise = match stop {
                        Stop::Else(None) => self.until_end()?,
                        Stop::End => Vec::new(),
                        _ => return Err("a range without {{end}}".into()),
                    };
                    nodes.push(Node::Range { list, body, otherwise });
                }
                "define" | "template" | "block" | "break" | "continue" if !behind.starts_with(['.', '(']) => {
                    return Err(format!("{{{{{word}}}}} is not supported"));
                }
                _ => nodes.push(Node::Action(pipeline(action)?)),
            }
        };
        self.depth -= 1;
        Ok((nodes, stop))
    }

    fn until_end(&mut self) -> Result<Vec<Node>, String> {
        match self.nodes()? {
            (nodes, Stop::End) => Ok(nodes),
            _ => Err("a block without {{end}}".into()),
        }
    }

    fn branch(&mut self, condition: Pipeline, with: bool) -> Result<Node, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err("the template is nested too deep".into());
        }
        let (then, stop) = self.nodes()?;
        let otherwise = match stop {
            Stop::End => Vec::new(),
            Stop::Else(None) => self.until_end()?,
            Stop::Else(Some(more)) => {
                let (word, behind) = more.split_once(char::is_whitespace).ok_or("an else without a condition")?;
                if word != "if" && word != "with" {
                    return Err(format!("unexpected {word} behind else"));
                }
                vec![self.branch(pipeline(behind)?, word == "with")?]
            }
            Stop::Eof => return Err("a condition without {{end}}".into()),
        };
        self.depth -= 1;
        Ok(Node::If { condition, then, otherwise, with })
    }
}

/// Where `}}` ends an action; quotes may contain it.
fn action_end(text: &str, from: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = from;
    while at < bytes.len() {
        match bytes[at] {
            b'"' | b'`' | b'\'' => at += text::unquoted(&text[at..]).ok()?.1,
            b'}' if bytes.get(at + 1) == Some(&b'}') => return Some(at),
            _ => at += 1,
        }
    }
    None
}

#[derive(Clone, Debug, PartialEq)]
enum Word {
    Literal(TemplateValue),
    /// `.a.b`
    Dot(Vec<String>),
    Variable(String, Vec<String>),
    Name(String),
    Sign(char),
    Declare,
}

fn pipeline(text: &str) -> Result<Pipeline, String> {
    let words = words(text)?;
    let mut at = 0;
    let parsed = read_pipeline(&words, &mut at, 0)?;
    if at < words.len() { Err(format!("unexpected {:?}", shown(&words[at]))) } else { Ok(parsed) }
}

fn shown(word: &(Word, bool)) -> String {
    match &word.0 {
        Word::Literal(value) => value.to_string(),
        Word::Dot(names) => format!(".{}", names.join(".")),
        Word::Variable(name, _) | Word::Name(name) => name.clone(),
        Word::Sign(sign) => sign.to_string(),
        Word::Declare => ":=".into(),
    }
}

fn read_pipeline(words: &[(Word, bool)], at: &mut usize, depth: usize) -> Result<Pipeline, String> {
    if depth > DEPTH_MAX {
        return Err("the template is nested too deep".into());
    }
    let word = |at: usize| words.get(at).map(|(word, _)| word);
    let mut parsed = Pipeline { variables: Vec::new(), declares: false, commands: Vec::new() };
    if let Some(Word::Variable(name, names)) = word(*at)
        && names.is_empty()
    {
        let (mut names, mut next) = (vec![name.clone()], *at + 1);
        if let (Some(Word::Sign(',')), Some(Word::Variable(second, _))) = (word(next), word(next + 1)) {
            names.push(second.clone());
            next += 2;
        }
        if let Some(sign @ (Word::Declare | Word::Sign('='))) = word(next) {
            parsed.declares = *sign == Word::Declare;
            parsed.variables = names;
            *at = next + 1;
        }
    }
    loop {
        let mut operands = Vec::new();
        while let Some((word, is_joined)) = words.get(*at) {
            *at += 1;
            // `(…).name` is a field of the value in brackets.
            if let (Word::Dot(fields), true, Some(Operand::Nested(_, names))) = (word, is_joined, operands.last_mut()) {
                names.extend(fields.iter().cloned());
                continue;
            }
            operands.push(match word {
                Word::Literal(value) => Operand::Literal(value.clone()),
                Word::Dot(names) => Operand::Dot(names.clone()),
                Word::Variable(name, names) => Operand::Variable(name.clone(), names.clone()),
                Word::Name(name) if functions::exists(name) => Operand::Function(name.clone()),
                Word::Name(name) => return Err(format!("function {name:?} not defined")),
                Word::Sign('(') => {
                    let inner = read_pipeline(words, at, depth + 1)?;
                    if words.get(*at).map(|(word, _)| word) != Some(&Word::Sign(')')) {
                        return Err("unclosed left paren".into());
                    }
                    *at += 1;
                    Operand::Nested(Box::new(inner), Vec::new())
                }
                _ => {
                    *at -= 1;
                    break;
                }
            });
        }
        if operands.is_empty() {
            return Err("missing value for command".into());
        }
        parsed.commands.push(Command(operands));
        if words.get(*at).map(|(word, _)| word) != Some(&Word::Sign('|')) {
            return Ok(parsed);
        }
        *at += 1;
    }
}

/// Where the number ends that begins at `at`.
fn number_end(text: &str, at: usize) -> usize {
    let bytes = text.as_bytes();
    let is_hexadecimal = text[at..].trim_start_matches(['-', '+']).starts_with("0x");
    let is_part = |end: usize| match bytes[end] {
        b'.' | b'_' => true,
        b'-' | b'+' => !is_hexadecimal && matches!(bytes[end - 1], b'e' | b'E'),
        byte => byte.is_ascii_alphanumeric(),
    };
    (at + 1..bytes.len()).find(|end| !is_part(*end)).unwrap_or(bytes.len())
}

/// The words of an action, and whether each follows the one before without a space.
fn words(text: &str) -> Result<Vec<(Word, bool)>, String> {
    let (mut words, mut at, mut is_joined) = (Vec::new(), 0, false);
    let name_end = |from: usize| {
        let rest = &text[from..];
        from + rest.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(rest.len())
    };
    let fields = |at: &mut usize| {
        let mut names = Vec::new();
        while text[*at..].starts_with('.') && name_end(*at + 1) > *at + 1 {
            let end = name_end(*at + 1);
            names.push(text[*at + 1..end].to_owned());
            *at = end;
        }
        names
    };
    while let Some(c) = text[at..].chars().next() {
        let start = at;
        if c.is_whitespace() {
            at += c.len_utf8();
            is_joined = false;
            continue;
        }
        let word = match c {
            '"' | '`' | '\'' => {
                let (value, length) = text::unquoted(&text[at..]).map_err(|_| "unterminated quoted string")?;
                at += length;
                match (c, value.chars().next()) {
                    ('\'', Some(only)) => Word::Literal(TemplateValue::Int(i64::from(u32::from(only)))),
                    _ => Word::Literal(TemplateValue::String(value.into())),
                }
            }
            '.' if !text[at + 1..].starts_with(|c: char| c.is_ascii_digit()) => {
                let names = fields(&mut at);
                if names.is_empty() {
                    at += 1;
                }
                Word::Dot(names)
            }
            '$' => {
                let end = name_end(at + 1);
                let name = text[at..end].to_owned();
                at = end;
                Word::Variable(name, fields(&mut at))
            }
            ':' if text[at..].starts_with(":=") => {
                at += 2;
                Word::Declare
            }
            '|' | '(' | ')' | ',' | '=' => {
                at += 1;
                Word::Sign(c)
            }
            c if c.is_ascii_digit() || matches!(c, '.' | '-' | '+') => {
                let digits = &text[at..number_end(text, at)];
                at += digits.len();
                let value = digits.replace('_', "").parse().map(TemplateValue::Int).ok().or_else(|| {
                    text::parse_number(digits).map(|n| {
                        if digits.contains("0x") { TemplateValue::Int(n as i64) } else { TemplateValue::Float(n) }
                    })
                });
                Word::Literal(value.ok_or_else(|| format!("bad number syntax: {digits:?}"))?)
            }
            c if c == '_' || c.is_alphabetic() => {
                at = name_end(at);
                match &text[start..at] {
                    "true" => Word::Literal(TemplateValue::Bool(true)),
                    "false" => Word::Literal(TemplateValue::Bool(false)),
                    "nil" => Word::Literal(TemplateValue::Nil),
                    name => Word::Name(name.to_owned()),
                }
            }
            c => return Err(format!("unexpected {c:?} in an action")),
        };
        words.push((word, is_joined));
        is_joined = true;
    }
    Ok(words)
}
