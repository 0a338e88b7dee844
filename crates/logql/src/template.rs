//! Templates as Go writes them: `{{.status | upper}} {{if eq .level "error"}}!{{end}}`.
//!
//! The language of `text/template` without definitions and methods, and the functions that Loki documents. The fields
//! are the labels of an entry; a label that does not exist is an empty text. Loops go over lists of the entry only, so
//! every template ends. Every value that a function makes is charged to [`made::MadeText`] before its bytes exist.

mod functions;
mod go_time;
mod made;
mod parse;
mod value;

use daytable_platform::budget::{BoundedText, TextRefusal};
use made::MadeText;
use std::fmt;
use value::TemplateValue;

/// The wall clock in nanoseconds since the epoch, for the function `now`.
pub(crate) type NowNanos = i64;

/// The work of a step, beside that of its function, as bytes that are read.
const STEP_BYTES: usize = 256;
/// Steps that one rendering takes at most.
const STEPS_MAX: usize = 100_000;

/// The names of all functions, for tests of all of them.
#[cfg(test)]
pub(crate) fn function_names() -> Vec<&'static str> {
    functions::names()
}

/// A template.
#[derive(Clone)]
pub struct Template {
    source: String,
    nodes: Vec<Node>,
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Template({:?})", self.source)
    }
}

/// What a template may ask about the entry besides its labels.
#[derive(Clone, Copy)]
pub(crate) struct LineContext<'l> {
    pub(crate) line: &'l str,
    pub(crate) time: i64,
    pub(crate) now: NowNanos,
    /// All labels of the entry.
    pub(crate) labels: &'l dyn Fn() -> crate::labels::Labels,
    /// Whether anybody still waits for the answer.
    pub(crate) go_on: &'l dyn Fn() -> bool,
}

/// Why a template gives no text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RenderError {
    /// The entry gets an error.
    Failed(String),
    /// The question ends: a text would be too long, or nobody waits.
    Refused(TextRefusal),
}

/// What a template reads of an entry beside the labels that it names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TemplateReads {
    /// Its line.
    pub(crate) line: bool,
    /// Its time, or all of its labels.
    pub(crate) entry: bool,
}

impl TemplateReads {
    fn add(&mut self, operand: &Operand) {
        match operand {
            Operand::Function(name) => {
                self.line |= name == "__line__";
                self.entry |= name == "__timestamp__";
            }
            Operand::Dot(names) => self.entry |= names.is_empty(),
            // A variable may stand for all labels.
            Operand::Variable(..) => self.entry = true,
            Operand::Nested(_, names) => self.entry |= !names.is_empty(),
            Operand::Literal(_) => {}
        }
    }
}

#[derive(Clone, Debug)]
enum Node {
    Text(String),
    /// A pipeline; its value is printed unless the pipeline only sets a variable.
    Action(Pipeline),
    If {
        condition: Pipeline,
        then: Vec<Node>,
        otherwise: Vec<Node>,
        with: bool,
    },
    Range {
        list: Pipeline,
        body: Vec<Node>,
        otherwise: Vec<Node>,
    },
}

#[derive(Clone, Debug)]
struct Pipeline {
    /// The variables that are set, and whether they are new.
    variables: Vec<String>,
    declares: bool,
    commands: Vec<Command>,
}

/// A function or a value, and its arguments.
#[derive(Clone, Debug)]
struct Command(Vec<Operand>);

#[derive(Clone, Debug)]
enum Operand {
    Literal(TemplateValue),
    /// `.a.b`; without names, the dot itself.
    Dot(Vec<String>),
    /// `$a.b`
    Variable(String, Vec<String>),
    Function(String),
    Nested(Box<Pipeline>, Vec<String>),
}

/// The labels of an entry.
type Labels<'f, 'l> = &'f dyn Fn(&str) -> Option<&'l str>;

impl Template {
    /// Reads a template. The error says what is wrong.
    pub(crate) fn new(source: &str) -> Result<Template, String> {
        let nodes = parse::parse(source).map_err(|reason| format!("invalid template: {reason}"))?;
        Ok(Template { source: source.to_owned(), nodes })
    }

    /// The template as written.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// Adds the names of the fields that the template shows.
    pub(crate) fn fields(&self, names: &mut Vec<String>) {
        self.nodes.iter().for_each(|node| node.fields(names));
    }

    /// What the template reads beside the labels that it names.
    pub(crate) fn reads(&self) -> TemplateReads {
        let mut reads = TemplateReads::default();
        self.nodes.iter().for_each(|node| node.each_operand(&mut |operand| reads.add(operand)));
        reads
    }

    /// Fills the template.
    pub(crate) fn render(&self, context: LineContext<'_>, labels: Labels<'_, '_>) -> Result<String, RenderError> {
        let made = MadeText::new(context.go_on);
        let (variables, out) = (vec![("$".into(), TemplateValue::Labels)], made.text());
        let mut run = Run { context, labels, variables, out, steps: 0, made: &made };
        match run.nodes(&self.nodes, &TemplateValue::Labels) {
            Ok(()) => Ok(run.out.finish()),
            Err(reason) => Err(made.refusal().map_or(RenderError::Failed(reason), RenderError::Refused)),
        }
    }
}

impl Node {
    fn fields(&self, names: &mut Vec<String>) {
        let (pipeline, lists): (_, [&[Node]; 2]) = match self {
            Node::Text(_) => return,
            Node::Action(pipeline) => (pipeline, [&[], &[]]),
            Node::If { condition, then, otherwise, .. } => (condition, [then, otherwise]),
            Node::Range { list, body, otherwise } => (list, [body, otherwise]),
        };
        pipeline.fields(names);
        lists.into_iter().flatten().for_each(|node| node.fields(names));
    }
}

impl Node {
    fn each_operand(&self, each: &mut dyn FnMut(&Operand)) {
        let (pipeline, lists): (_, [&[Node]; 2]) = match self {
            Node::Text(_) => return,
            Node::Action(pipeline) => (pipeline, [&[], &[]]),
            Node::If { condition, then, otherwise, .. } => (condition, [then, otherwise]),
            Node::Range { list, body, otherwise } => (list, [body, otherwise]),
        };
        pipeline.each_operand(each);
        lists.into_iter().flatten().for_each(|node| node.each_operand(each));
    }
}

impl Pipeline {
    fn each_operand(&self, each: &mut dyn FnMut(&Operand)) {
        for operand in self.commands.iter().flat_map(|Command(operands)| operands) {
            each(operand);
            if let Operand::Nested(pipeline, _) = operand {
                pipeline.each_operand(each);
            }
        }
    }

    fn fields(&self, names: &mut Vec<String>) {
        for operand in self.commands.iter().flat_map(|Command(operands)| operands) {
            match operand {
                Operand::Dot(fields) => names.extend(fields.iter().cloned()),
                Operand::Nested(pipeline, _) => pipeline.fields(names),
                _ => {}
            }
        }
    }
}

struct Run<'r, 'l> {
    context: LineContext<'r>,
    labels: Labels<'r, 'l>,
    variables: Vec<(String, TemplateValue)>,
    out: BoundedText<'r>,
    steps: usize,
    made: &'r MadeText<'r>,
}

impl Run<'_, '_> {
    fn step(&mut self) -> Result<(), String> {
        self.steps += 1;
        if self.steps > STEPS_MAX {
            return Err("the template takes too many steps".into());
        }
        self.made.worked(STEP_BYTES)
    }

    fn nodes(&mut self, nodes: &[Node], dot: &TemplateValue) -> Result<(), String> {
        for node in nodes {
            self.step()?;
            match node {
                Node::Text(text) => self.out.push_str(text).map_err(|refusal| self.made.refuse(refusal))?,
                Node::Action(pipeline) => {
                    let value = self.pipeline(pipeline, dot)?;
                    if pipeline.variables.is_empty() {
                        let value = self.shown(value)?;
                        self.out.push_shown(&value).map_err(|refusal| self.made.refuse(refusal))?;
                    }
                }
                Node::If { condition, then, otherwise, with } => {
                    let scope = self.variables.len();
                    let value = self.pipeline(condition, dot)?;
                    let dot = if *with && value.is_true() { &value } else { dot };
                    self.nodes(if value.is_true() { then } else { otherwise }, dot)?;
                    self.variables.truncate(scope);
                }
                Node::Range { list, body, otherwise } => {
                    let scope = self.variables.len();
                    let value = self.value_of(list, dot)?;
                    let value = self.shown(value)?;
                    let items = value.items()?;
                    if items.is_empty() {
                        self.nodes(otherwise, dot)?;
                    }
                    for (key, item) in items {
                        self.step()?;
                        match list.variables.as_slice() {
                            [] => {}
                            [one] => self.variables.push((one.clone(), item.clone())),
                            [index, one, ..] => {
                                self.variables.push((index.clone(), key));
                                self.variables.push((one.clone(), item.clone()));
                            }
                        }
                        self.nodes(body, &item)?;
                        self.variables.truncate(scope);
                    }
                }
            }
        }
        Ok(())
    }

    /// The value of a pipeline, which also becomes that of its variable.
    fn pipeline(&mut self, pipeline: &Pipeline, dot: &TemplateValue) -> Result<TemplateValue, String> {
        let value = self.value_of(pipeline, dot)?;
        if let Some(name) = pipeline.variables.first() {
            match self.variables.iter_mut().rev().find(|(known, _)| known == name).filter(|_| !pipeline.declares) {
                Some((_, known)) => *known = value.clone(),
                None if pipeline.declares => self.variables.push((name.clone(), value.clone())),
                None => return Err(format!("undefined variable {name:?}")),
            }
        }
        Ok(value)
    }

    fn value_of(&mut self, pipeline: &Pipeline, dot: &TemplateValue) -> Result<TemplateValue, String> {
        let mut piped = None;
        for command in &pipeline.commands {
            self.step()?;
            piped = Some(self.command(command, piped, dot)?);
        }
        Ok(piped.unwrap_or(TemplateValue::Nil))
    }

    fn command(
        &mut self,
        Command(operands): &Command,
        piped: Option<TemplateValue>,
        dot: &TemplateValue,
    ) -> Result<TemplateValue, String> {
        let Some((first, rest)) = operands.split_first() else { return Ok(TemplateValue::Nil) };
        let Operand::Function(name) = first else {
            if !rest.is_empty() || piped.is_some() {
                return Err("can't give argument to non-function".into());
            }
            return self.operand(first, dot);
        };
        // `and` and `or` stop at the first value that decides.
        let decides = |value: &TemplateValue| (name == "and" && !value.is_true()) || (name == "or" && value.is_true());
        let mut arguments = Vec::with_capacity(rest.len() + 1);
        for operand in rest {
            let value = self.operand(operand, dot)?;
            if decides(&value) {
                return Ok(value);
            }
            arguments.push(self.shown(value)?);
        }
        arguments.extend(piped.map(|value| self.shown(value)).transpose()?);
        functions::call(name, arguments, &self.context, self.made)
    }

    /// A value for a function, or to be printed: all labels become a map.
    fn shown(&self, value: TemplateValue) -> Result<TemplateValue, String> {
        if value != TemplateValue::Labels {
            return Ok(value);
        }
        let pairs = (self.context.labels)().into_pairs().into_iter();
        let map = TemplateValue::Map(pairs.map(|(name, value)| (name, TemplateValue::String(value.into()))).collect());
        self.made.charge(map.bytes())?;
        Ok(map)
    }

    fn operand(&mut self, operand: &Operand, dot: &TemplateValue) -> Result<TemplateValue, String> {
        let (value, names) = match operand {
            Operand::Literal(value) => return Ok(value.clone()),
            Operand::Function(name) => return functions::call(name, Vec::new(), &self.context, self.made),
            Operand::Dot(names) => (dot.clone(), names),
            Operand::Variable(name, names) => {
                let found = self.variables.iter().rev().find(|(known, _)| known == name);
                (found.ok_or_else(|| format!("undefined variable {name:?}"))?.1.clone(), names)
            }
            Operand::Nested(pipeline, names) => (self.value_of(pipeline, dot)?, names),
        };
        names.iter().try_fold(value, |value, name| match value {
            TemplateValue::Labels => {
                let text = (self.labels)(name).unwrap_or_default();
                self.made.charge(text.len())?;
                Ok(TemplateValue::String(text.into()))
            }
            TemplateValue::Map(map) => {
                Ok(map.iter().find(|(key, _)| key == name).map_or(TemplateValue::Nil, |(_, value)| value.clone()))
            }
            // What is not there has no fields, as a document that could not be read.
            TemplateValue::Nil => Ok(TemplateValue::Nil),
            _ => Err(format!("can't evaluate field {name} in a {}", value.kind())),
        })
    }
}

#[cfg(test)]
mod tests;
