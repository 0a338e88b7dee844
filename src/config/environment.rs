//! The configuration from the environment: every key has a variable, so a container needs no file.
//!
//! | the file has | the variable is |
//! |---|---|
//! | `data_dir = "/data"` | `DAYTABLE_DATA_DIR=/data` |
//! | `[http] listen = "0.0.0.0:7878"` | `DAYTABLE_HTTP_LISTEN=0.0.0.0:7878` |
//! | the first `[[tail]]`: `include = ["/a", "/b"]` | `DAYTABLE_TAIL_0_INCLUDE=/a,/b`, or without `_0` |
//! | the second `[[table]]`: `keep = "2d"` | `DAYTABLE_TABLE_1_KEEP=2d` |
//! | `[[tail]] join = { wait = "5s" }` | `DAYTABLE_TAIL_JOIN_WAIT=5s` |
//! | `[[table]] when = "level:<=debug"` | `DAYTABLE_TABLE_0_WHEN=level:<=debug` |
//!
//! 1. The name of the variable is the path of the key in capitals. The sections of the reference are the known paths.
//! 2. A TOML value (`true`, `5`, `["a"]`, `{ a = 1 }`, `"a"`) stands for itself, every other value for a text. A list of texts may
//!    have commas instead; commas within braces belong to a pattern.
//! 3. A variable replaces the key of the file, or adds it. Blocks count from 0, those of the file first, without gaps.
//! 4. A variable that begins like a key, or nearly so, and is not a key is an error with a suggestion, as in the file. Every other
//!    variable (`DAYTABLE_VERSION` of an image) is [ignored](unknown_variables), with a warning of the daemon. There is no warning for `DAYTABLE_DATA` and
//!    `DAYTABLE_CONFIG`, which are options of the commands, nor for the variables that Kubernetes and Docker make for a
//!    service called `daytable` (`DAYTABLE_SERVICE_HOST`, `DAYTABLE_PORT_7878_TCP`, …).

use super::key::{SectionDoc, SectionPlace};
use super::parts::sections;
use daytable_model::did_you_mean::did_you_mean;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

const PREFIX: &str = "DAYTABLE_";
/// Makes a value a line of TOML.
const KEY: &str = "v=";
/// Variables of other programs, and of the commands.
const NOT_KEYS: [&str; 5] = ["DATA", "CONFIG", "COMMIT", "FAILPOINT", "STALLPOINT"];
/// Blocks of one kind. A greater number is a mistake.
const BLOCKS_MAX: usize = 1000;

/// The names that a variable can begin with, from the rows of all keys.
struct Names {
    /// Keys before the first section.
    top: Vec<&'static str>,
    /// `[name]`
    tables: Vec<&'static str>,
    /// `[[name]]`
    blocks: Vec<&'static str>,
    /// Tables within sections, each with its section.
    inline: Vec<(&'static str, &'static str)>,
}

static NAMES: LazyLock<Names> = LazyLock::new(|| {
    let (mut top, mut tables, mut blocks, mut inline) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let sections = sections();
    // `redact` is a list in the file: its variable is a value of TOML.
    let is_inline = |section: &SectionDoc| section.place == SectionPlace::Inline && section.name != "redact";
    let is_table = |key: &str| sections.iter().any(|section| is_inline(section) && section.name == key);
    for section in sections.iter().filter(|section| section.place != SectionPlace::Inline) {
        // Of two keys of one name, that of `[log]` is a word.
        let is_word = |key: &str| section.bare_name() == "log" && key == "format";
        let within = section.keys.iter().filter(|key| is_table(key.name) && !is_word(key.name));
        inline.extend(within.map(|key| (section.bare_name(), key.name)));
        match section.place {
            SectionPlace::Top => top.extend(section.keys.iter().map(|key| key.name)),
            SectionPlace::Table => tables.push(section.bare_name()),
            SectionPlace::Blocks { .. } => blocks.push(section.bare_name()),
            SectionPlace::Inline => {}
        }
    }
    Names { top, tables, blocks, inline }
});

/// A variable for a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    name: String,
    value: String,
}

/// The variables of the environment for keys, sorted by name. In their values, bytes that are not UTF-8 are replaced.
pub fn variables() -> Vec<Variable> {
    let all = std::env::vars_os();
    let mut variables: Vec<Variable> =
        all.filter_map(|(name, value)| Variable::new(name.to_str()?, &value.to_string_lossy())).collect();
    variables.sort_by(|a, b| a.name.cmp(&b.name));
    variables
}

impl Variable {
    /// The variable, where its name is that of a key, or nearly so.
    pub fn new(name: &str, value: &str) -> Option<Variable> {
        let rest = name.strip_prefix(PREFIX)?;
        let is_key =
            !NOT_KEYS.contains(&rest) && !is_service_variable(rest) && resembles_key(&rest.to_ascii_lowercase());
        is_key.then(|| Variable { name: name.into(), value: value.into() })
    }

    fn path(&self) -> Path {
        let rest = self.name[PREFIX.len()..].to_ascii_lowercase();
        if let Some((section, key)) = split(&rest, &NAMES.tables) {
            return Path { block: None, tables: vec![section], key: key.into() }.enter_inline(section);
        }
        if let Some((block, key)) = split(&rest, &NAMES.blocks) {
            let (number, key) = match key.split_once('_') {
                Some((number, key)) if number.bytes().all(|byte| byte.is_ascii_digit()) => (number.parse().ok(), key),
                _ => (Some(0), key),
            };
            let number = number.unwrap_or(usize::MAX);
            return Path { block: Some((block, number)), tables: Vec::new(), key: key.into() }.enter_inline(block);
        }
        Path { block: None, tables: Vec::new(), key: rest }
    }
}

/// Letters of a key up to which another name than its own is not taken for a slip.
const SHORT_KEY: usize = 4;

/// Whether a name is that of a key, or nearly so.
fn resembles_key(name: &str) -> bool {
    let first = name.split('_').next().unwrap_or_default();
    let sections = [&NAMES.tables[..], &NAMES.blocks].concat();
    // Too many words are near a short key, like `home` near `host`.
    let is_near = |key: &str| name == key || key.len() > SHORT_KEY;
    did_you_mean(name, &NAMES.top).is_some_and(is_near)
        || (first != name && (sections.contains(&first) || did_you_mean(first, &sections).is_some()))
}

/// The names of variables that begin like those of daytable and have no meaning for it.
pub fn unknown_variables() -> Vec<String> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let is_unknown = |name: &String| {
        let rest = name.strip_prefix(PREFIX).unwrap_or_default();
        !rest.is_empty() && !NOT_KEYS.contains(&rest) && !is_service_variable(rest) && Variable::new(name, "").is_none()
    };
    names.filter(is_unknown).collect()
}

/// Whether Kubernetes or Docker make such a variable for a service.
fn is_service_variable(name: &str) -> bool {
    let is_port = |rest: &str| {
        let mut words = rest.split('_');
        words.next().is_some_and(|port| port.parse::<u16>().is_ok()) && matches!(words.next(), Some("TCP" | "UDP"))
    };
    name.ends_with("SERVICE_HOST")
        || name.contains("SERVICE_PORT")
        || name == "PORT"
        || name.ends_with("_PORT")
        || name.match_indices("PORT_").any(|(at, word)| is_port(&name[at + word.len()..]))
}

/// The place of a key.
struct Path {
    block: Option<(&'static str, usize)>,
    tables: Vec<&'static str>,
    key: String,
}

impl Path {
    /// Enters the table within `section` that the key begins with, if any.
    fn enter_inline(mut self, section: &str) -> Path {
        let tables: Vec<_> = NAMES.inline.iter().filter(|(of, _)| *of == section).map(|(_, table)| *table).collect();
        if let Some((table, key)) = split(&self.key, &tables).map(|(table, key)| (table, key.to_owned())) {
            self.tables.push(table);
            self.key = key;
        }
        self
    }
}

/// The first of `names` that `key` begins with, and the rest of the key.
fn split<'k>(key: &'k str, names: &[&'static str]) -> Option<(&'static str, &'k str)> {
    names
        .iter()
        .find_map(|name| Some((*name, key.strip_prefix(name)?.strip_prefix('_')?)))
        .filter(|(_, key)| !key.is_empty())
}

/// Variables after the text of a file, so that every byte of either has a place of its own.
pub(super) struct AppendedVariables<'v> {
    /// The text of the file, and a line for each variable.
    pub(super) text: String,
    /// The place of each value in the text.
    places: Vec<(&'v Variable, Range<usize>)>,
    /// Each value again, at the same place, as a line of TOML after spaces.
    padded: Vec<String>,
}

impl<'v> AppendedVariables<'v> {
    pub(super) fn new(file: &str, variables: &'v [Variable]) -> AppendedVariables<'v> {
        let mut text = format!("{file}\n");
        let (mut places, mut padded) = (Vec::new(), Vec::new());
        for variable in variables {
            text.push_str(&variable.name);
            text.push('=');
            let begin = text.len();
            text.push_str(&variable.value);
            places.push((variable, begin..text.len()));
            padded.push(format!("{}{KEY}{}", " ".repeat(begin - KEY.len()), variable.value));
            text.push('\n');
        }
        AppendedVariables { text, places, padded }
    }

    /// The variable with this byte in its line.
    pub(super) fn at(&self, byte: usize) -> Option<(&'v str, usize)> {
        let line = |(variable, range): &(&'v Variable, Range<usize>)| {
            let begin = range.start - variable.name.len() - 1;
            (begin..=range.end).contains(&byte).then(|| (variable.name.as_str(), byte.saturating_sub(range.start)))
        };
        self.places.iter().find_map(line)
    }

    /// Replaces keys of the file by the variables. `problem` gets each problem with its byte.
    pub(super) fn apply<'t>(&'t self, file: &mut DeTable<'t>, mut problem: impl FnMut(usize, String)) {
        for ((variable, range), padded) in self.places.iter().zip(&self.padded) {
            let value = value_of(padded, range);
            let Path { block, tables, key } = variable.path();
            let mut table = &mut *file;
            if let Some((name, number)) = block {
                match block_of(table, name, number, range) {
                    Ok(block) => table = block,
                    Err(error) => {
                        problem(range.start, error);
                        continue;
                    }
                }
            }
            let entered = tables.into_iter().try_fold(table, |table, name| table_of(table, name, range));
            match entered {
                Ok(table) => put(table, key, value, range),
                Err(error) => problem(range.start, error),
            }
        }
    }
}

/// The value of a variable: a value of TOML, else a text.
fn value_of<'t>(padded: &'t str, range: &Range<usize>) -> Spanned<DeValue<'t>> {
    let text = &padded[range.start..];
    let is_toml =
        text.starts_with(['[', '{', '"', '\'']) || text.parse::<i64>().is_ok() || matches!(text, "true" | "false");
    let parsed = DeTable::parse(padded).ok().filter(|_| is_toml);
    match parsed.and_then(|mut line| line.get_mut().remove("v")) {
        Some(value) => value,
        None => Spanned::new(range.clone(), DeValue::String(Cow::Borrowed(text))),
    }
}

fn put<'t>(table: &mut DeTable<'t>, key: String, value: Spanned<DeValue<'t>>, range: &Range<usize>) {
    // The whole entry is replaced, so that a problem names the variable.
    table.remove(key.as_str());
    table.insert(Spanned::new(range.clone(), Cow::Owned(key)), value);
}

/// The table `name` of a table. An absent table is created.
fn table_of<'a, 't>(
    table: &'a mut DeTable<'t>,
    name: &'static str,
    range: &Range<usize>,
) -> Result<&'a mut DeTable<'t>, String> {
    let key = Spanned::new(range.clone(), Cow::Borrowed(name));
    let entry = table.entry(key).or_insert_with(|| Spanned::new(range.clone(), DeValue::Table(DeTable::new())));
    match entry.get_mut() {
        DeValue::Table(table) => Ok(table),
        _ => Err(format!("`{name}` is set to a value, so it cannot have keys below it as well")),
    }
}

/// The block with this number. The block after the last is created.
fn block_of<'a, 't>(
    table: &'a mut DeTable<'t>,
    name: &'static str,
    number: usize,
    range: &Range<usize>,
) -> Result<&'a mut DeTable<'t>, String> {
    let key = Spanned::new(range.clone(), Cow::Borrowed(name));
    let entry = table.entry(key).or_insert_with(|| Spanned::new(range.clone(), DeValue::Array(DeArray::new())));
    let DeValue::Array(blocks) = entry.get_mut() else {
        return Err(format!("[{name}] is written [[{name}]]: there can be several"));
    };
    if number > blocks.len() || number >= BLOCKS_MAX {
        return Err(format!(
            "there are {} blocks of [[{name}]] before it, counted from 0: the next is {0}",
            blocks.len()
        ));
    }
    if number == blocks.len() {
        blocks.push(Spanned::new(range.clone(), DeValue::Table(DeTable::new())));
    }
    match blocks.get_mut(number).map(Spanned::get_mut) {
        Some(DeValue::Table(block)) => Ok(block),
        _ => Err(format!("[[{name}]] {number} is not a table")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::key::KeyDoc;
    use super::super::{Config, ConfigError};
    use super::*;

    fn parse(file: &str, variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
        let mut variables: Vec<Variable> =
            variables.iter().filter_map(|(name, value)| Variable::new(&format!("DAYTABLE_{name}"), value)).collect();
        variables.sort_by(|a, b| a.name.cmp(&b.name));
        Config::parse_with(file, "f", &variables)
    }

    /// The variables of all keys: the variable, the key of the file, and an example.
    fn rows() -> Vec<(String, String, String)> {
        let sections = sections();
        let mut rows = Vec::new();
        for section in sections.iter().filter(|section| section.place != SectionPlace::Inline) {
            let prefix = match section.place {
                SectionPlace::Top => String::new(),
                SectionPlace::Blocks { .. } => format!("{}_0_", section.bare_name()),
                _ => format!("{}_", section.bare_name()),
            };
            let place = if section.place == SectionPlace::Top { "" } else { section.name };
            let mut add = |key: &str, doc: &KeyDoc| {
                let variable = format!("{PREFIX}{prefix}{}", key.replace('.', "_")).to_uppercase();
                let example = doc.default.as_deref().or(doc.example).unwrap_or_default();
                let text = example.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(example);
                rows.push((variable, format!("{place} {key}").trim().to_owned(), text.to_owned()));
            };
            for key in &section.keys {
                add(key.name, key);
                let is_inline = NAMES.inline.contains(&(section.bare_name(), key.name));
                let inline = sections.iter().find(|inline| is_inline && inline.name == key.name);
                for inner in inline.map_or(&[][..], |inline| &inline.keys) {
                    add(&format!("{}.{}", key.name, inner.name), inner);
                }
            }
        }
        rows
    }

    #[test]
    fn the_page_has_the_table() {
        let mut table = "| variable | key | default or example |\n|---|---|---|\n".to_owned();
        for (variable, key, example) in rows() {
            let example =
                if example.is_empty() { String::new() } else { format!("`{}` ", example.replace('|', "\\|")) };
            table.push_str(&format!("| `{variable}` | `{key}` | {example}|\n"));
        }
        crate::generated::compare_table("docs/reference/environment.md", &table);
    }

    #[test]
    fn every_variable_of_the_page_is_a_key() {
        for (name, ..) in rows() {
            let variable = Variable::new(&name, "1").unwrap_or_else(|| panic!("{name} is ignored"));
            if let Err(error) = Config::parse_with("", "f", &[variable]) {
                assert!(!error.to_string().contains("unknown key"), "{error}");
            }
        }
    }

    fn same(variables: &[(&str, &str)], file: &str) {
        let by_variables = parse("", variables).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(by_variables, Config::parse(file, "f").unwrap_or_else(|error| panic!("{error}")), "{variables:?}");
    }

    #[test]
    fn every_key_has_a_variable() {
        same(&[], "");
        same(&[("DATA_DIR", "/data"), ("DRAIN_TIMEOUT", "5s")], "data_dir = \"/data\"\ndrain_timeout = \"5s\"");
        same(&[("STORE_WHEN_FULL", "drop_oldest")], "[store]\nwhen_full = \"drop_oldest\"");
        same(
            &[("HTTP_LISTEN", "127.0.0.1:1"), ("HTTP_CONNECTIONS_MAX", "7"), ("HTTP_PER_SENDER_RECORDS_PER_S", "9")],
            "[http]\nlisten = \"127.0.0.1:1\"\nconnections_max = 7\nper_sender = { records_per_s = 9 }",
        );
        same(
            &[("TAIL_INCLUDE", "/a/{b,c}.log, /d"), ("TAIL_0_INSTANCE", "{host}"), ("TAIL_JOIN_WAIT", "5s")],
            "[[tail]]\ninclude = [\"/a/{b,c}.log\", \"/d\"]\ninstance = \"{host}\"\njoin = { wait = \"5s\" }",
        );
        same(
            &[
                ("TABLE_0_NAME", "Debug"),
                ("TABLE_0_WHEN", "level:<=debug"),
                ("TABLE_1_NAME", "Log"),
                ("TABLE_1_BUCKETS", "4"),
                ("ARCHIVES_ALLOW_HTTP", "true"),
                ("LIFECYCLE_SCHEDULE", "@hourly"),
                ("REDACT", "[\"email\", { regex = 'pin=(\\d+)' }]"),
            ],
            "redact = [\"email\", { regex = 'pin=(\\d+)' }]\n[[table]]\nname = \"Debug\"\nwhen = \"level:<=debug\"\n\
             [[table]]\nname = \"Log\"\nbuckets = 4\n[archives]\nallow_http = true\n[lifecycle]\nschedule = \"@hourly\"",
        );
        same(
            &[
                ("SYSLOG_LISTEN", "udp://127.0.0.1:514"),
                ("JOURNAL_UNITS", "a.service"),
                ("TAIL_INCLUDE", "/a"),
                ("TAIL_NAME", "17"),
            ],
            "[[syslog]]\nlisten = \"udp://127.0.0.1:514\"\n[[journal]]\nunits = [\"a.service\"]\n\
             [[tail]]\ninclude = [\"/a\"]\nname = \"17\"",
        );
    }

    #[test]
    fn a_variable_replaces_a_key_of_the_file() {
        let file = "[http]\nlisten = \"off\"\nconnections_max = 3\n[[tail]]\nname = \"one\"\ninclude = [\"/a\"]\n";
        let config = parse(file, &[("HTTP_LISTEN", "127.0.0.1:1"), ("TAIL_0_INCLUDE", "/b"), ("TAIL_1_INCLUDE", "/c")]);
        let config = config.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((config.http.connections_max.get(), config.http.listen), (3, "127.0.0.1:1".parse().expect("one")));
        assert_eq!(config.sources.tails.iter().map(|tail| &tail.include[0]).collect::<Vec<_>>(), ["/b", "/c"]);
        assert_eq!(config.sources.tails[0].name, "one");
    }

    #[test]
    fn a_problem_names_the_variable() {
        for (variables, expected) in [
            (
                &[("HTTP_LISTN", "off")][..],
                "DAYTABLE_HTTP_LISTN: unknown key \"listn\" in [http], did you mean \"listen\"?",
            ),
            (
                &[("DATA_DIR", "data")],
                "DAYTABLE_DATA_DIR: data_dir = data: must be an absolute path, beginning with \"/\"",
            ),
            (
                &[("DATA_DIRR", "/a")],
                "DAYTABLE_DATA_DIRR: unknown key \"data_dirr\" in the file, did you mean \"data_dir\"?",
            ),
            (&[("HTPP_LISTEN", "off")], "DAYTABLE_HTPP_LISTEN: unknown key \"htpp_listen\" in the file"),
            (
                &[("TAIL_2_INCLUDE", "/a")],
                "DAYTABLE_TAIL_2_INCLUDE: there are 0 blocks of [[tail]] before it, counted from 0: the next is 0",
            ),
            (
                &[("TAIL_INCLUDE", "/a,b")],
                "DAYTABLE_TAIL_INCLUDE: include = /a,b: must be an absolute path, like \"/var/log/**/*.log\"",
            ),
            (
                &[("HTTP_CONNECTIONS_MAX", "many")],
                "DAYTABLE_HTTP_CONNECTIONS_MAX: connections_max = many: must be a whole number from 1 to 65535",
            ),
        ] {
            assert_eq!(parse("", variables).expect_err("wrong").to_string(), expected);
        }
        let error =
            parse("[http]\nlisten = \"off\"\nnothing = 1\n", &[("LOG_LEVEL", "loud")]).expect_err("wrong").to_string();
        assert!(
            error.starts_with("f:3:1: unknown key \"nothing\"")
                && error.contains("\nDAYTABLE_LOG_LEVEL: level = loud: "),
            "{error}"
        );
    }

    #[test]
    fn variables_of_other_programs_are_ignored() {
        for name in [
            "DATA",
            "CONFIG",
            "SERVICE_HOST",
            "SERVICE_PORT",
            "SERVICE_PORT_HTTP",
            "PORT",
            "PORT_7878_TCP",
            "PORT_7878_TCP_ADDR",
            "SYSLOG_SERVICE_HOST",
            "SYSLOG_PORT",
            "SYSLOG_PORT_514_UDP_PROTO",
            "VERSION",
            "HOME",
            "BUILD_COMMIT",
        ] {
            assert_eq!(Variable::new(&format!("DAYTABLE_{name}"), "tcp://10.0.0.1:7878"), None, "{name}");
        }
        assert!(
            Variable::new("OTHER_HTTP_LISTEN", "off").is_none()
                && Variable::new("DAYTABLE_HTTP_LISTEN", "off").is_some()
        );
    }
}
