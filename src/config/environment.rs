//! The configuration from the environment: every key has a variable, so a container needs no file.
//!
//! | the file has | the variable is |
//! |---|---|
//! | `data_dir = "/data"` | `DAYTABLE_DATA_DIR=/data` |
//! | `[http] listen = "0.0.0.0:7878"` | `DAYTABLE_HTTP_LISTEN=0.0.0.0:7878` |
//! | the first `[[tail]]`: `include = ["/a", "/b"]` | `DAYTABLE_TAIL_0_INCLUDE=/a,/b`, or without `_0` |
//! | the second `[[table]]`: `keep = "2d"` | `DAYTABLE_TABLE_1_KEEP=2d` |
//! | `[[tail]] join = { wait = "5s" }` | `DAYTABLE_TAIL_JOIN_WAIT=5s` |
//! | `[[table]] when = { level_at_most = "debug" }` | `DAYTABLE_TABLE_0_WHEN={ level_at_most = "debug" }` |
//!
//! So the name is the path of the key in capitals. A value that is one of TOML's (`true`, `5`, `["a"]`, `{ a = 1 }`, `"a"`) is
//! that; any other is a text as it stands, and where a list of texts is wanted, several with commas between (not within
//! braces, which belong to a pattern). A variable comes before the file: it replaces the key, or adds it; blocks are counted
//! from 0, those of the file first, and none may be left out.
//!
//! A variable that begins as a key, or nearly so, and is none is an error that names the nearest one, as in the file. Others
//! may be somebody's (`DAYTABLE_VERSION` of an image): they are [left alone](left_alone), and the daemon says so. Not even that
//! are `DAYTABLE_DATA` and `DAYTABLE_CONFIG`, which are options of the commands, and what Kubernetes and Docker make of a
//! service that is called `daytable` (`DAYTABLE_SERVICE_HOST`, `DAYTABLE_PORT_7878_TCP`, …).

use daytable_model::did_you_mean::did_you_mean;
use std::borrow::Cow;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

const PREFIX: &str = "DAYTABLE_";
/// What makes a value a line of TOML.
const KEY: &str = "v=";
/// Variables of others, or of the commands.
const NOT_KEYS: [&str; 5] = ["DATA", "CONFIG", "COMMIT", "FAILPOINT", "STALLPOINT"];
/// Sections of the file, and tables within sections: what follows them is a key of theirs.
const SECTIONS: [&str; 5] = ["http", "archives", "lifecycle", "store", "log"];
const BLOCKS: [&str; 4] = ["tail", "syslog", "journal", "table"];
/// Keys of no section.
const TOP: [&str; 4] = ["data_dir", "drain_timeout", "memory_max", "redact"];
const WITHIN: [&str; 5] = ["tls", "per_sender", "join", "format", "when"];
/// Blocks of one kind at most: a number beyond is a slip.
const BLOCKS_MAX: usize = 1000;

/// A variable that is a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    name: String,
    value: String,
}

/// The variables of the environment that are keys, by their names; of those that are no UTF-8 what is.
pub fn variables() -> Vec<Variable> {
    let all = std::env::vars_os();
    let mut found: Vec<Variable> =
        all.filter_map(|(name, value)| Variable::of(name.to_str()?, &value.to_string_lossy())).collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

impl Variable {
    /// A variable, if it is to be a key.
    pub fn of(name: &str, value: &str) -> Option<Variable> {
        let rest = name.strip_prefix(PREFIX)?;
        let is_key = !NOT_KEYS.contains(&rest) && !is_of_a_service(rest) && is_like_a_key(&rest.to_ascii_lowercase());
        is_key.then(|| Variable { name: name.into(), value: value.into() })
    }

    fn path(&self) -> Path {
        let rest = self.name[PREFIX.len()..].to_ascii_lowercase();
        if let Some((section, key)) = split(&rest, &SECTIONS) {
            return Path { block: None, tables: vec![section], key: key.into() }.within();
        }
        if let Some((block, key)) = split(&rest, &BLOCKS) {
            let (number, key) = match key.split_once('_') {
                Some((number, key)) if number.bytes().all(|byte| byte.is_ascii_digit()) => (number.parse().ok(), key),
                _ => (Some(0), key),
            };
            let number = number.unwrap_or(usize::MAX);
            return Path { block: Some((block, number)), tables: Vec::new(), key: key.into() }.within();
        }
        Path { block: None, tables: Vec::new(), key: rest }
    }
}

/// Whether it is a key, or was meant to be one.
fn is_like_a_key(name: &str) -> bool {
    let first = name.split('_').next().unwrap_or_default();
    let sections: Vec<&str> = SECTIONS.into_iter().chain(BLOCKS).collect();
    did_you_mean(name, &TOP).is_some()
        || (first != name && (sections.contains(&first) || did_you_mean(first, &sections).is_some()))
}

/// The names of variables that begin as the program's do and are nothing to it.
pub fn left_alone() -> Vec<String> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let is_nothing = |name: &String| {
        let rest = name.strip_prefix(PREFIX).unwrap_or_default();
        !rest.is_empty() && !NOT_KEYS.contains(&rest) && !is_of_a_service(rest) && Variable::of(name, "").is_none()
    };
    names.filter(is_nothing).collect()
}

/// Whether it is what Kubernetes or Docker make of a service.
fn is_of_a_service(name: &str) -> bool {
    let is_port = |rest: &str| {
        let mut words = rest.split('_');
        words.next().is_some_and(|port| port.parse::<u16>().is_ok()) && matches!(words.next(), Some("TCP" | "UDP"))
    };
    name.ends_with("SERVICE_HOST")
        || name.contains("SERVICE_PORT")
        || name == "PORT"
        || name.ends_with("_PORT")
        || name.match_indices("PORT_").any(|(at, found)| is_port(&name[at + found.len()..]))
}

/// Where a key is.
struct Path {
    block: Option<(&'static str, usize)>,
    tables: Vec<&'static str>,
    key: String,
}

impl Path {
    /// The key may be one of a table within.
    fn within(mut self) -> Path {
        if let Some((table, key)) = split(&self.key, &WITHIN).map(|(table, key)| (table, key.to_owned())) {
            self.tables.push(table);
            self.key = key;
        }
        self
    }
}

/// The first of `names` that is followed by something, and what follows it.
fn split<'k>(key: &'k str, names: &[&'static str]) -> Option<(&'static str, &'k str)> {
    names
        .iter()
        .find_map(|name| Some((*name, key.strip_prefix(name)?.strip_prefix('_')?)))
        .filter(|(_, key)| !key.is_empty())
}

/// Variables behind the text of a file, so that every byte of either has a place of its own.
pub(super) struct Appended<'v> {
    /// The file's text, and a line a variable.
    pub(super) text: String,
    /// Where each variable's value is in it.
    places: Vec<(&'v Variable, Range<usize>)>,
    /// The values once more, each at its place, as lines of TOML behind spaces.
    padded: Vec<String>,
}

impl<'v> Appended<'v> {
    pub(super) fn new(file: &str, variables: &'v [Variable]) -> Appended<'v> {
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
        Appended { text, places, padded }
    }

    /// The variable that has this byte in its line.
    pub(super) fn at(&self, byte: usize) -> Option<(&'v str, usize)> {
        let line = |(variable, range): &(&'v Variable, Range<usize>)| {
            let begin = range.start - variable.name.len() - 1;
            (begin..=range.end).contains(&byte).then(|| (variable.name.as_str(), byte.saturating_sub(range.start)))
        };
        self.places.iter().find_map(line)
    }

    /// Lays the variables over the file's table. What is wrong is told with its byte.
    pub(super) fn lay_over<'t>(&'t self, file: &mut DeTable<'t>, mut wrong: impl FnMut(usize, String)) {
        for ((variable, range), padded) in self.places.iter().zip(&self.padded) {
            let value = value_of(padded, range);
            let Path { block, tables, key } = variable.path();
            let mut table = &mut *file;
            if let Some((name, number)) = block {
                match block_of(table, name, number, range) {
                    Ok(block) => table = block,
                    Err(error) => {
                        wrong(range.start, error);
                        continue;
                    }
                }
            }
            let entered = tables.into_iter().try_fold(table, |table, name| table_of(table, name, range));
            match entered {
                Ok(table) => put(table, key, value, range),
                Err(error) => wrong(range.start, error),
            }
        }
    }
}

/// The value that a variable stands for: one of TOML's, else a text.
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
    // The key that the file has is replaced as a whole, so that a problem is that of the variable.
    table.remove(key.as_str());
    table.insert(Spanned::new(range.clone(), Cow::Owned(key)), value);
}

/// The table `name` of a table; made where there is none.
fn table_of<'a, 't>(
    table: &'a mut DeTable<'t>,
    name: &'static str,
    range: &Range<usize>,
) -> Result<&'a mut DeTable<'t>, String> {
    let key = Spanned::new(range.clone(), Cow::Borrowed(name));
    let entry = table.entry(key).or_insert_with(|| Spanned::new(range.clone(), DeValue::Table(DeTable::new())));
    match entry.get_mut() {
        DeValue::Table(table) => Ok(table),
        _ => Err(format!("`{name}` has a value already, so it has no keys")),
    }
}

/// The block of this number; the one behind the last is added.
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
        _ => Err(format!("[[{name}]] {number} is no table")),
    }
}

/// The texts of a list that a variable writes with commas between, those within braces and brackets apart.
pub(super) fn texts(list: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    let parts = list.split(move |c| {
        match c {
            '{' | '[' => depth += 1,
            '}' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    parts.map(str::trim).filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::{Config, ConfigError, TailConfig};
    use super::*;

    fn parse(file: &str, variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
        let mut variables: Vec<Variable> =
            variables.iter().filter_map(|(name, value)| Variable::of(&format!("DAYTABLE_{name}"), value)).collect();
        variables.sort_by(|a, b| a.name.cmp(&b.name));
        Config::parse_with(file, "f", &variables)
    }

    fn same(variables: &[(&str, &str)], file: &str) {
        let by_variables = parse("", variables).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(by_variables, Config::parse(file, "f").unwrap_or_else(|error| panic!("{error}")), "{variables:?}");
    }

    #[test]
    fn a_variable_is_a_key() {
        same(&[], "");
        same(&[("DATA_DIR", "/data"), ("DRAIN_TIMEOUT", "5s")], "data_dir = \"/data\"\ndrain_timeout = \"5s\"");
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
                ("TABLE_0_WHEN", "{ level_at_most = \"debug\" }"),
                ("TABLE_1_NAME", "Log"),
                ("TABLE_1_BUCKETS", "4"),
                ("ARCHIVES_ALLOW_HTTP", "true"),
                ("LIFECYCLE_SCHEDULE", "@hourly"),
                ("REDACT", "[\"email\", { regex = 'pin=(\\d+)' }]"),
            ],
            "redact = [\"email\", { regex = 'pin=(\\d+)' }]\n[[table]]\nname = \"Debug\"\nwhen.level_at_most = \"debug\"\n\
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
    fn a_variable_comes_before_the_file() {
        let file = "[http]\nlisten = \"off\"\nconnections_max = 3\n[[tail]]\nname = \"one\"\ninclude = [\"/a\"]\n";
        let config = parse(file, &[("HTTP_LISTEN", "127.0.0.1:1"), ("TAIL_0_INCLUDE", "/b"), ("TAIL_1_INCLUDE", "/c")]);
        let config = config.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((config.http.connections_max.get(), config.http.listen), (3, "127.0.0.1:1".parse().expect("one")));
        let include = |tail: &TailConfig| tail.include[0].as_str().to_owned();
        assert_eq!(config.tails.iter().map(include).collect::<Vec<_>>(), ["/b", "/c"]);
        assert_eq!(config.tails[0].name, "one");
    }

    #[test]
    fn what_is_wrong_names_the_variable() {
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
    fn what_others_make_is_left_alone() {
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
            assert_eq!(Variable::of(&format!("DAYTABLE_{name}"), "tcp://10.0.0.1:7878"), None, "{name}");
        }
        assert!(
            Variable::of("OTHER_HTTP_LISTEN", "off").is_none() && Variable::of("DAYTABLE_HTTP_LISTEN", "off").is_some()
        );
    }
}
