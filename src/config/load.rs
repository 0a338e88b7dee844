//! Reads a configuration: the file, the variables that replace its keys, and the problems of both.

use super::Config;
use super::environment::{AppendedVariables, Variable};
use super::error::{ConfigError, Problem, line_and_column};
use super::file;
use super::key::{self, SectionDoc};
use super::parts::{parts, sections};
use super::section::{ProblemList, Section};
use daytable_model::did_you_mean::did_you_mean;
use daytable_model::path_text::PathText;
use daytable_platform::small_file;
use std::io::Read;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Bytes of a configuration file.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The message of the crate `toml` for a key or a section that stands twice.
const DUPLICATE: &str = "duplicate key";
/// The key of the data folder.
const DATA_DIR: &str = "data_dir";
/// The beginning of its message for a backslash before a letter that is not an escape.
const BAD_ESCAPE: &str = "missing escaped value";

impl Config {
    /// Reads a file, and the variables that replace its keys. Without a file, only the variables.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Read`] where the file cannot be read or is larger than 1 MiB; [`ConfigError::Invalid`] where the file or
    /// a variable has problems.
    pub fn load_with(path: Option<&Path>, variables: &[Variable]) -> Result<Config, ConfigError> {
        let text = path.map(read_file).transpose()?;
        let name = path.map_or_else(|| "the environment".into(), |path| path.text().into_owned());
        let config = Config::parse_with(text.as_deref().unwrap_or_default(), &name, variables)?;
        Ok(Config { file: path.and_then(|path| std::path::absolute(path).ok()), ..config })
    }

    /// Reads a file.
    ///
    /// # Errors
    ///
    /// As [`Config::load_with`].
    pub fn load(path: &Path) -> Result<Config, ConfigError> {
        Config::load_with(Some(path), &[])
    }

    /// Reads the text of a file. Problems have `file_name`.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Invalid`] with every problem. For a text that is not TOML, only the problems of the syntax.
    pub fn parse(text: &str, file_name: &str) -> Result<Config, ConfigError> {
        Config::parse_with(text, file_name, &[])
    }

    /// Reads the text of a file, and the variables that replace its keys.
    ///
    /// # Errors
    ///
    /// As [`Config::parse`].
    pub fn parse_with(text: &str, file_name: &str, variables: &[Variable]) -> Result<Config, ConfigError> {
        let appended = AppendedVariables::new(text, variables);
        let problems = ProblemList::with_variables(&appended.text, text.len());
        let (mut file, errors) = DeTable::parse_recoverable(text);
        for error in &errors {
            let span = error.span().unwrap_or_default();
            match text.get(span.clone()) {
                Some(name) if error.message() == DUPLICATE => {
                    let first = header_place(text, name, span.start);
                    let first = first.or_else(|| first_place(file.get_ref(), name, span.start));
                    problems.add(span.start, duplicate(text, name, first));
                }
                _ => problems.add(span.start, in_plain_words(error.message())),
            }
        }
        let config = if errors.is_empty() {
            appended.apply(file.get_mut(), |at, text| problems.add(at, text));
            Config::read(Section::root(file.get_ref(), &problems))
        } else {
            Config::default()
        };
        let mut problems = problems.into_problems(file_name);
        for (at, problem) in &mut problems {
            if let Some((variable, _)) = appended.at(*at) {
                (problem.file, problem.line, problem.column) = (variable.into(), 0, 0);
            }
        }
        let problems: Vec<Problem> = problems.into_iter().map(|(_, problem)| with_section(problem)).collect();
        if problems.is_empty() { Ok(config) } else { Err(ConfigError::Invalid(problems)) }
    }

    /// The data folder of a configuration that may have problems; `None` where they leave a doubt about the folder: the text is no
    /// TOML before the key ends, the key or its value is wrong, or another key looks like it.
    pub fn data_dir_despite_problems(path: Option<&Path>, variables: &[Variable]) -> Option<PathBuf> {
        let text = path.map(read_file).transpose().ok()?.unwrap_or_default();
        let appended = AppendedVariables::new(&text, variables);
        let problems = ProblemList::with_variables(&appended.text, text.len());
        let (mut file, errors) = DeTable::parse_recoverable(&text);
        // The problems of variables for other keys say nothing about this one.
        appended.apply(file.get_mut(), |_, _| ());
        let table = file.get_ref();
        let first_error = errors.iter().map(|error| error.span().unwrap_or_default().start).min();
        let is_twice = errors.iter().any(|error| text.get(error.span().unwrap_or_default()) == Some(DATA_DIR));
        let is_sure = match table.get(DATA_DIR) {
            Some(value) if value.span().start > text.len() => true,
            Some(value) => !is_twice && first_error.is_none_or(|at| value.span().end <= at),
            None => {
                first_error.is_none() && !table.keys().any(|key| did_you_mean(key.get_ref(), &[DATA_DIR]).is_some())
            }
        };
        let value = table.get(DATA_DIR).map(Spanned::span);
        let read = key::read(&file::keys(), &mut Section::root(table, &problems), Config::default());
        let is_wrong = |at: usize| value.as_ref().is_some_and(|value| (value.start..=value.end).contains(&at));
        let is_sure = is_sure && !problems.into_problems("").iter().any(|(at, _)| is_wrong(*at));
        is_sure.then_some(read.data_dir)
    }

    pub(super) fn read(mut file: Section<'_>) -> Config {
        let mut config = Config::default();
        parts().iter().for_each(|part| part.read(&mut file, &mut config));
        file.finish();
        config
    }
}

/// A problem of a key before the first section, with the sections that have such a key.
fn with_section(mut problem: Problem) -> Problem {
    let name = problem.text.strip_prefix("unknown key \"").and_then(|rest| rest.strip_suffix("\" in the file"));
    let Some(name) = name else { return problem };
    let sections = sections();
    let has_it = |section: &&SectionDoc| {
        let is_named = section.name.starts_with('[');
        is_named && section.keys.iter().any(|key| key.name == name)
    };
    let owners: Vec<&str> = sections.iter().filter(has_it).map(|section| section.name).collect();
    if !owners.is_empty() {
        problem.text = format!("{}: it is a key of {}, whose header stands before it", problem.text, owners.join(", "));
    }
    problem
}

/// What is wrong with the text of a file. A pattern in double quotes is the usual mistake of a backslash.
fn in_plain_words(message: &str) -> String {
    match message.starts_with(BAD_ESCAPE) {
        true => "a backslash within \"\u{2026}\" begins an escape, and this escape does not exist: write the text in single quotes, as in \
                 'password=(\\S+)'"
            .into(),
        false => message.into(),
    }
}

/// Where the first header of a section is, if one of this name stands at a place. The table of the file has the second.
fn header_place(text: &str, name: &str, at: usize) -> Option<usize> {
    let header = format!("[{name}]");
    let is_header = |line: &str| line.trim_start().starts_with(&header);
    let line_start = text[..at].rfind('\n').map_or(0, |end| end + 1);
    if !is_header(&text[line_start..]) {
        return None;
    }
    let mut start = 0;
    text[..line_start].split_inclusive('\n').find_map(|line| {
        let begun = start;
        start += line.len();
        is_header(line).then_some(begun)
    })
}

/// Where the last key of this name before a place is.
fn first_place(table: &DeTable<'_>, name: &str, before: usize) -> Option<usize> {
    let inside = |value: &DeValue<'_>| match value {
        DeValue::Table(table) => first_place(table, name, before),
        DeValue::Array(values) => {
            let tables = values.iter().filter_map(|value| value.get_ref().as_table());
            tables.filter_map(|table| first_place(table, name, before)).max()
        }
        _ => None,
    };
    let place = |(key, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
        let own = (*key.get_ref() == name && key.span().start < before).then_some(key.span().start);
        own.max(inside(value.get_ref()))
    };
    table.iter().filter_map(place).max()
}

/// What is wrong with a key or a section that stands twice.
fn duplicate(text: &str, name: &str, first: Option<usize>) -> String {
    let first = first.map_or_else(String::new, |at| format!(", first in line {}", line_and_column(text, at).0));
    format!("`{name}` is defined twice{first}: put its keys together")
}

/// The text of a file of at most 1 MiB.
pub(super) fn read_file(path: &Path) -> Result<String, ConfigError> {
    let failed = |source| ConfigError::Read { path: path.into(), source };
    let mut bytes = Vec::new();
    let file = small_file::open(path).map_err(failed)?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(failed(std::io::Error::new(std::io::ErrorKind::FileTooLarge, "is larger than 1 MiB")));
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = String::from_utf8_lossy(&error.as_bytes()[..error.utf8_error().valid_up_to()]);
        let (line, column) = line_and_column(&valid, valid.len());
        let (file, text) = (path.text().into_owned(), "is not UTF-8 from here on".into());
        ConfigError::Invalid(vec![Problem { file, line, column, text }])
    })
}
