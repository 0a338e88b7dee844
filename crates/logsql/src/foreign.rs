//! What users of SQL, Splunk, Loki, Kusto, jq and grep write, and what it is called here.

use crate::error::SyntaxError;
use crate::keyword::PIPES;
use crate::lexer::{QueryToken, TokenKind};

/// Pipes of other languages, and what to write here, or after a `!` what to know.
const PIPES_ELSEWHERE: [(&[&str], &str); 25] = [
    (&["table", "project", "select", "project-keep", "display"], "fields a, b"),
    (&["project-away", "remove"], "delete a, b"),
    (&["project-rename"], "rename a as b"),
    (&["take", "top10"], "limit N"),
    (&["tail"], "!records come newest first: | limit N has the newest"),
    (
        &["summarize", "summarise", "aggregate", "count_by", "group", "groupby", "group_by", "chart"],
        "stats by (a) count() n",
    ),
    (&["timechart", "bin", "bucket", "timeslice"], "stats by (_time:1h, a) count() n"),
    (&["distinct", "dedup", "unique", "nub"], "uniq by (a)"),
    (&["rare"], "stats by (a) count() n | sort by (n) limit 10"),
    (&["rex", "regex", "regexp", "parse", "pattern", "grok"], "extract_regexp \"(?P<name>…)\" from message"),
    (&["extend", "line_format", "label_format", "strcat"], "format \"<a> of <b>\" as c, or math a + b as c"),
    (&["search", "grep", "egrep", "find", "having"], "filter Q"),
    (
        &["json", "logfmt", "unpack", "unpack_json", "unpack_logfmt", "spath", "jq", "parse_json"],
        "!it is not needed: fields are parsed when a record is stored",
    ),
    (&["orderby", "order_by", "arrange"], "sort by (a desc)"),
    (&["wc"], "stats count() n"),
    (&["sum_by", "total"], "stats by (a) sum(b) s"),
    (&["lookup"], "join by (FIELD) (a query)"),
    (&["union", "append"], "!this language has no unions; `daytable sql` asks in SQL"),
    (&["transaction"], "sessions by (FIELD) pause 30m"),
    (&["eventstats", "streamstats"], "!there are no pipes of running totals; stats by (a) count() n is one of groups"),
    (&["reverse"], "sort by (time)"),
    (&["fillnull"], "format \"…\" as a keep_original_fields"),
    (&["unwrap"], "!it is not needed: stats by (a) sum(b) s adds up the numbers of a field"),
    (&["decolorize", "drop_labels"], "delete a, b"),
    (
        &["awk", "cut", "sed", "less", "more", "tr", "xargs"],
        "!the query stands in quotes, '…', so that the shell has its own |",
    ),
];

/// Functions of other languages where a filter is expected, and what to write here.
const FUNCTIONS_ELSEWHERE: [(&[&str], &str); 8] = [
    (&["select", "map"], "a filter of jq is written name:=value, as in level:=error"),
    (
        &["count", "sum", "avg", "min", "max", "p95", "p99", "percentile", "quantile", "median"],
        "functions of numbers stand behind a pipe: * | stats count() n",
    ),
    (
        &[
            "rate",
            "count_over_time",
            "bytes_over_time",
            "bytes_rate",
            "sum_over_time",
            "topk",
            "bottomk",
            "quantile_over_time",
            "avg_over_time",
            "max_over_time",
            "min_over_time",
            "absent_over_time",
            "stddev",
            "increase",
        ],
        METRICS,
    ),
    (
        &["contains", "like", "has", "match", "matches", "includes", "test"],
        "a text within a value is written name:*text*",
    ),
    (&["startswith", "starts_with", "hasprefix"], "the beginning of a value is written name:=text*"),
    (&["endswith", "ends_with"], "the end of a value is written name:~\"text$\""),
    (
        &["lower", "upper", "tolower", "toupper", "lcase", "ucase", "icontains"],
        "a word whatever its case is written name:i(word)",
    ),
    (
        &["isnull", "isempty", "isnotnull", "isnotempty", "exists"],
        "a field that is there is written name:*, one that is absent -name:*",
    ),
];

/// Functions of `stats` in other languages, and what they are called here.
const AGGREGATES_ELSEWHERE: [(&[&str], &str); 4] = [
    (&["mean", "average"], "avg"),
    (
        &[
            "dc",
            "count_distinct",
            "distinct_count",
            "countdistinct",
            "dcount",
            "nunique",
            "cardinality",
            "approx_count_distinct",
        ],
        "count_uniq",
    ),
    (&["percentile", "perc", "pct"], "quantile"),
    (&["list", "collect", "array_agg", "make_list"], "values"),
];

const METRICS: &str =
    "this is LogQL, which /loki/api/v1 answers; here it is written FILTER | stats by (_time:5m, a) count() n";

fn advice_of(all: &[(&[&str], &'static str)], name: &str) -> Option<&'static str> {
    all.iter().find(|(names, _)| names.contains(&name)).map(|(_, advice)| *advice)
}

/// What to write for a pipe of another language.
pub(crate) fn pipe(name: &str) -> Option<String> {
    let advice = advice_of(&PIPES_ELSEWHERE, name)?;
    Some(advice.strip_prefix('!').map_or_else(|| format!("here it is written {advice}"), str::to_owned))
}

/// What to write for a function of another language.
pub(crate) fn function(name: &str) -> Option<&'static str> {
    advice_of(&FUNCTIONS_ELSEWHERE, name)
}

/// What a function of `stats` in another language is called here.
pub(crate) fn aggregate(name: &str) -> Option<&'static str> {
    advice_of(&AGGREGATES_ELSEWHERE, name)
}

/// Three words that are a comparison elsewhere: here each of them is looked for.
fn comparison(tokens: &[QueryToken]) -> Option<String> {
    let [field, verb, value, _] = tokens else { return None };
    let are_words =
        [field, verb, value].iter().all(|token| token.kind == TokenKind::Word) && verb.is_apart && value.is_apart;
    let (field, value) = (&field.text, &value.text);
    let written = match verb.text.to_ascii_lowercase().as_str() {
        "contains" | "like" | "matches" | "includes" => format!("{field}:*{value}*"),
        "startswith" | "starts_with" => format!("{field}:={value}*"),
        _ => return None,
    };
    are_words.then(|| format!("{} is a word that is looked for; a comparison is written {written}", verb.text))
}

/// The options of grep, and what to write here.
fn grep_option(letters: &str) -> Option<&'static str> {
    let known = letters.trim_end_matches(|c: char| c.is_ascii_digit());
    let is_grep = known.len() <= 3 && !known.is_empty() && known.chars().all(|c| "ivEFPewnrRlcohHxsqABCm".contains(c));
    if !is_grep || known.len() > 1 && !known.chars().all(|c| "ivEFPnrRhHc".contains(c)) {
        return None;
    }
    Some(match known {
        "i" => "a word whatever its case is written i(word)",
        "v" => "records without a word are written -word",
        "E" | "P" | "e" => "a regular expression is written ~\"…\"",
        "c" => "records are counted by | count(), or by `daytable count`",
        "F" | "w" => "a word is looked for as it is, a phrase in quotes",
        "A" | "B" | "C" => "it is an option of the command, behind the query: `daytable query error -C 3`",
        "n" | "m" => "the number of records is an option of the command, behind the query: -n 5",
        _ if known.contains('i') => "a word whatever its case is written i(word)",
        _ => "options of grep are not needed",
    })
}

/// The language of a whole query that is not this one: its place in the query, and what to write.
pub(crate) fn whole_query(query: &str, tokens: &[QueryToken]) -> Option<SyntaxError> {
    let word = |at: usize| match tokens.get(at) {
        Some(token) if token.kind == TokenKind::Word => token.text.to_ascii_lowercase(),
        _ => String::new(),
    };
    let has = |wanted: &str| (0..tokens.len()).any(|at| word(at) == wanted);
    let whole = 0..query.len();
    let is_sql = match word(0).as_str() {
        "select" => has("from"),
        "delete" | "truncate" | "insert" | "update" | "alter" | "create" => {
            matches!(word(1).as_str(), "from" | "into" | "table") || has("set") && has("where")
        }
        "show" => matches!(word(1).as_str(), "tables" | "databases" | "columns" | "fields"),
        "describe" | "desc" => tokens.len() == 3 && !word(1).is_empty(),
        "with" => word(2) == "as" && has("select"),
        "from" => tokens[0].text == "FROM" && tokens.iter().any(|token| token.text == "|"),
        _ => false,
    };
    if is_sql {
        return Some(SyntaxError::new(
            query,
            whole,
            "this looks like SQL: `daytable sql 'select … from logs'` asks in SQL; here a filter is written status:>=500, \
             and what follows it | fields a, b | sort by (a) | limit 10",
        ));
    }
    if let Some(said) = comparison(tokens) {
        return Some(SyntaxError::new(query, whole, said));
    }
    if tokens.first().is_some_and(|token| token.text == "-" && token.kind == TokenKind::Sign)
        && let Some(token) = tokens.get(1).filter(|token| token.kind == TokenKind::Word && !token.is_apart)
        && tokens.len() > 3
        && let Some(advice) = grep_option(&token.text)
        && tokens[2].is_apart
    {
        let at = 0..token.at.end;
        let option = &query[at.clone()];
        return Some(SyntaxError::new(
            query,
            at,
            format!("{option} leaves out records with the word {}: {advice}", token.text),
        ));
    }
    None
}

/// LogQL's filters of lines behind a selector of a stream: the place, and the same query here. `next` is the number of the token
/// behind the selector.
pub(crate) fn line_filters(query: &str, tokens: &[QueryToken], next: usize) -> Option<SyntaxError> {
    let mut at = next;
    let mut translated = query[..tokens.get(next)?.at.start].trim_end().to_owned();
    let begin = tokens[next].at.start;
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text.as_str());
    let mut has_filters = false;
    loop {
        let (sign, length) = match (text(at), text(at + 1)) {
            ("|", "=") => ("|=", 2),
            ("|", "~") => ("|~", 2),
            ("!=", _) => ("!=", 1),
            ("!~", _) if has_filters => ("!~", 1),
            _ => break,
        };
        if length == 2 && tokens[at + 1].is_apart {
            break;
        }
        let value = tokens.get(at + length).filter(|token| token.kind == TokenKind::Quoted)?;
        let raw = &query[value.at.clone()];
        let filter = match sign {
            "|=" => format!(" *{raw}*"),
            "!=" => format!(" -*{raw}*"),
            "|~" => format!(" ~{raw}"),
            _ => format!(" !~{raw}"),
        };
        translated.push_str(&filter);
        has_filters = true;
        at += length + 1;
    }
    if !has_filters {
        return None;
    }
    let end = tokens.get(at).map_or(query.len(), |token| token.at.start);
    let rest = query[end..].trim();
    let sort = match rest {
        "" => format!("here it is written {translated}"),
        _ => format!("here its filters are written {translated}"),
    };
    Some(SyntaxError::new(query, begin..end, format!("this is LogQL, which /loki/api/v1 answers: {sort}")))
}

/// A pipe that is written among the words of a filter: its name, and why it looks like one.
pub(crate) fn pipe_without_sign(tokens: &[QueryToken], at: usize) -> Option<String> {
    let token = tokens.get(at).filter(|token| token.kind == TokenKind::Word && token.is_apart)?;
    let name = token.text.to_ascii_lowercase();
    let next = tokens.get(at + 1).filter(|next| next.kind != TokenKind::End && next.is_apart)?;
    let next_text = next.text.to_ascii_lowercase();
    let is_number = next.kind == TokenKind::Word && next.text.bytes().all(|byte| byte.is_ascii_digit());
    let advice = match (name.as_str(), next_text.as_str()) {
        ("sort" | "order" | "group" | "stats" | "top" | "uniq", "by") => match name.as_str() {
            "group" => "| stats by (a) count() n".to_owned(),
            "order" => "| sort by (a)".to_owned(),
            _ => format!("| {name} by (a)"),
        },
        ("limit" | "head" | "skip" | "offset" | "take" | "tail", _) if is_number => match name.as_str() {
            "take" | "tail" => format!("| limit {next_text}"),
            _ => format!("| {name} {next_text}"),
        },
        ("stats", _) if PIPES.contains(&next_text.as_str()) || next_text == "count" => "| stats count() n".to_owned(),
        _ => return None,
    };
    Some(format!("{name} {next_text} is taken for words: a pipe stands behind |, as in {advice}"))
}
