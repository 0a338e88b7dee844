//! Labels, fields and patterns that entries have.

use super::params::LokiParams;
use super::volume::{OF_STREAM, selector};
use super::{Document, LokiResult, success};
use crate::http::question::LokiError;
use daytable_logql::ast::{LogQuery, LogqlQuery, Selector};
use daytable_logql::cluster::Clusters;
use daytable_logql::eval::{EntrySource, ShownEntry};
use daytable_logql::labels::{Labels, label_name};
use daytable_logql::level::DETECTED_LEVEL;
use daytable_logql::source::{CountedApart, Direction};
use daytable_logql::text;
use daytable_logql::{EvalError, json_path};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Fields and values of an answer, if the question does not say.
const FIELDS: usize = 1000;
const FIELDS_MAX: usize = 10_000;
/// Entries that fields are looked for in, if the question does not say.
const LINES: usize = 1000;
const LINES_MAX: usize = 50_000;
/// Entries that patterns are made of: the newest.
const PATTERN_LINES: usize = 50_000;
/// Streams of an answer, or values of labels.
const STREAMS_MAX: usize = 100_000;
/// Bytes of the labels of these streams, or of these values. They take some five times as much in memory.
const STREAM_BYTES_MAX: usize = 12 << 20;

/// Passes the labels of all streams that one of the selectors selects, some more than once. `apart` says which labels are
/// needed. `add` returns the bytes of what was new.
fn each_stream(
    params: &LokiParams,
    selectors: &[Selector],
    source: &dyn EntrySource,
    apart: CountedApart<'_>,
    mut add: impl FnMut(&Labels) -> Option<usize>,
) -> Result<(), LokiError> {
    let (budget, mut found, mut bytes) = (params.budget(), 0, 0);
    let mut last: Option<Arc<Labels>> = None;
    for selector in selectors {
        source.count(&selector.within(params.span()?), apart, &budget, &mut |stream, _, _| {
            // Most numbers follow one of the same stream.
            if last.as_ref().is_none_or(|last| !Arc::ptr_eq(last, stream)) {
                if let Some(new) = add(stream) {
                    (found, bytes) = (found + 1, bytes + new);
                }
                last = Some(stream.clone());
            }
            let is_over = found > STREAMS_MAX || bytes > STREAM_BYTES_MAX;
            if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
    }
    if found > STREAMS_MAX || bytes > STREAM_BYTES_MAX {
        return Err(LokiError::wrong(format!(
            "more than {STREAMS_MAX} streams or values, or {} MiB of them: select fewer, or a shorter time",
            STREAM_BYTES_MAX >> 20
        )));
    }
    Ok(())
}

/// Adds a text to a set; the length of a new one.
fn added(texts: &mut BTreeSet<String>, text: &str) -> Option<usize> {
    (!texts.contains(text) && texts.insert(text.to_owned())).then_some(text.len())
}

/// `labels`.
pub(super) fn labels(params: &LokiParams, source: &dyn EntrySource) -> LokiResult {
    let mut names = BTreeSet::new();
    each_stream(params, &[selector(params)?], source, OF_STREAM, |stream| {
        stream.iter().filter_map(|(name, _)| added(&mut names, name)).reduce(|a, b| a + b)
    })?;
    Ok(or_none(names))
}

/// `label/NAME/values`.
pub(super) fn label_values(params: &LokiParams, source: &dyn EntrySource) -> LokiResult {
    let mut values = BTreeSet::new();
    let name = std::slice::from_ref(&params.name);
    let apart = CountedApart { labels: Some(name), steps: None };
    each_stream(params, &[selector(params)?], source, apart, |stream| added(&mut values, stream.get(&params.name)?))?;
    Ok(or_none(values))
}

/// Loki leaves an empty list out.
fn or_none(texts: BTreeSet<String>) -> Document {
    if texts.is_empty() { json!({ "status": "success" }).into() } else { success(json!(texts)).into() }
}

/// `series`.
pub(super) fn series(params: &LokiParams, source: &dyn EntrySource) -> LokiResult {
    let given = params.all("match[]").chain(params.all("match")).chain(params.all("query"));
    let mut selectors = Vec::new();
    for text in given.filter(|text| !text.is_empty()) {
        selectors.push(daytable_logql::parse_selector(text)?);
    }
    if selectors.is_empty() {
        selectors.push(Selector(Vec::new()));
    }
    let mut streams: BTreeSet<Labels> = BTreeSet::new();
    each_stream(params, &selectors, source, OF_STREAM, |stream| {
        let bytes = || stream.iter().map(|(name, value)| name.len() + value.len()).sum();
        (!streams.contains(stream) && streams.insert(stream.clone())).then(bytes)
    })?;
    let mut answer = Document::within(params.budget());
    answer.push(r#"{"status":"success","data":"#);
    answer.push_array(&streams, |answer, stream| answer.push(&super::numbers::object(stream).to_string()));
    answer.push("}");
    answer.whole()
}

/// Labels that are shown even if their values are numbers.
const PLACES: [&str; 4] = ["cluster", "instance", "namespace", "pod"];

/// Whether all values of a label are numbers or UUIDs. As in Loki, such a label is no choice for people; 0 and 1 alone are one.
fn are_identifiers(values: &BTreeSet<String>) -> bool {
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_uuid = |text: &str| text.split('-').map(str::len).eq([8, 4, 4, 4, 12]) && text.split('-').all(is_hex);
    let is_switch = values.iter().all(|value| value == "0" || value == "1");
    !is_switch && values.iter().all(|value| text::go_float(value).is_ok() || is_uuid(value))
}

/// `detected_labels`: the labels of streams, and in how many values they come.
pub(super) fn detected_labels(params: &LokiParams, source: &dyn EntrySource) -> LokiResult {
    let mut values: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    each_stream(params, &[selector(params)?], source, OF_STREAM, |stream| {
        let mut add = |(name, value): (&str, &str)| match values.get_mut(name) {
            Some(values) => added(values, value),
            None => added(values.entry(name.to_owned()).or_default(), value),
        };
        stream.iter().filter_map(&mut add).reduce(|a, b| a + b)
    })?;
    let label = |(name, values): (String, BTreeSet<String>)| json!({ "label": name, "cardinality": values.len() });
    let shown = values.into_iter().filter(|(name, values)| PLACES.contains(&name.as_str()) || !are_identifiers(values));
    Ok(json!({ "detectedLabels": shown.map(label).collect::<Vec<_>>() }).into())
}

/// A field, as it was found.
#[derive(Default)]
struct DetectedField {
    values: BTreeSet<String>,
    /// The parsers that extract the field; none for structured metadata.
    parsers: BTreeSet<&'static str>,
    kind: Option<&'static str>,
    /// The names that lead to the field in a line that is an object.
    path: Option<Vec<String>>,
}

/// What a field or a value of it takes beside its text.
const FIELD_BYTES: usize = 96;

/// Finds fields in the newest entries: structured metadata, and what the parsers `json` and `logfmt` extract.
fn fields(params: &LokiParams, source: &dyn EntrySource) -> Result<BTreeMap<String, DetectedField>, LokiError> {
    let query = match params.get("query") {
        Some(text) => match daytable_logql::parse(text)? {
            LogqlQuery::Log(query) => query,
            LogqlQuery::Metric(_) => return Err(LokiError::wrong("fields are detected in entries, not in numbers")),
        },
        None => LogQuery { selector: Selector(Vec::new()), stages: Vec::new() },
    };
    let lines = params.count("line_limit", LINES, LINES_MAX)?;
    let parser = |text: &str| match daytable_logql::parse(&format!("{{a=\"b\"}} | {text}")) {
        Ok(LogqlQuery::Log(query)) => Some(query),
        _ => None,
    };
    let (Some(json), Some(logfmt)) = (parser("json"), parser("logfmt")) else {
        return Err(LokiError::failed("the parsers json and logfmt are missing"));
    };
    let (mut fields, mut left): (BTreeMap<String, DetectedField>, usize) = (BTreeMap::new(), lines);
    let (budget, mut refused) = (params.budget(), None);
    let go_on = || source.is_wanted();
    source.scan(&query.wanted(params.span()?), Direction::Backward, &mut |entry| {
        let shown = match query.show(&entry, params.now, &go_on) {
            Ok(Some(shown)) => shown,
            Ok(None) => return ControlFlow::Continue(()),
            Err(error) => {
                refused = Some(error);
                return ControlFlow::Break(());
            }
        };
        let mut charge = |bytes| {
            let charged = budget.charge(FIELD_BYTES + bytes, "fields");
            match charged {
                Ok(()) => true,
                Err(over) => {
                    refused.get_or_insert(EvalError::from(over));
                    false
                }
            }
        };
        let mut add = |labels: &Labels, parser: Option<&'static str>| {
            for (name, value) in labels.iter() {
                if name == DETECTED_LEVEL || name.starts_with("__") {
                    continue;
                }
                // A field of the line keeps the suffix beside a label of the stream, and joins metadata of its name.
                let bare = name.strip_suffix("_extracted");
                let name = bare.filter(|bare| entry.stream.get(bare).is_none()).unwrap_or(name);
                if !fields.contains_key(name) && !charge(name.len()) {
                    return;
                }
                let field = fields.entry(name.to_owned()).or_default();
                field.kind.get_or_insert_with(|| kind_of(value));
                field.parsers.extend(parser);
                if parser == Some("json") && field.path.is_none() {
                    field.path = json_path(&entry.line, bare.unwrap_or(name));
                }
                let is_new = field.values.len() < FIELDS_MAX && !value.is_empty() && !field.values.contains(value);
                if is_new && charge(value.len()) {
                    field.values.insert(value.to_owned());
                }
            }
        };
        add(&shown.metadata, None);
        let is_object = entry.line.trim_start().starts_with('{');
        let (parser, name) = if is_object { (&json, "json") } else { (&logfmt, "logfmt") };
        // What a parser refuses has no fields.
        let parsed: Option<ShownEntry> = parser.show(&entry, params.now, &go_on).ok().flatten();
        if let Some(mut parsed) = parsed.filter(|parsed| is_object || parsed.parsed.iter().len() > 0) {
            if !is_object {
                let names = names_of_pairs(&entry.line);
                parsed.parsed = parsed.parsed.filtered(|name| names.contains(name.trim_end_matches("_extracted")));
            }
            add(&parsed.parsed, Some(name));
        }
        left -= 1;
        if left == 0 || refused.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    refused.map_or(Ok(fields), |error: EvalError| Err(error.into()))
}

/// The labels of those pairs of a line whose names are names: of `GET /search?q=shoes`, logfmt makes the label `_search_q`, which is
/// no field of anybody.
fn names_of_pairs(line: &str) -> BTreeSet<String> {
    let is_name = |name: &str| {
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | '@');
        name.starts_with(|c: char| c.is_alphabetic() || matches!(c, '_' | '@')) && name.chars().all(is_part)
    };
    let names = line.split_whitespace().filter_map(|word| Some(word.split_once('=')?.0));
    names.filter(|name| is_name(name)).map(label_name).collect()
}

/// The type of a value, for the query builder.
fn kind_of(value: &str) -> &'static str {
    if value.parse::<i64>().is_ok() {
        "int"
    } else if text::parse_number(value).is_some() {
        "float"
    } else if matches!(value, "true" | "false") {
        "boolean"
    } else if text::duration(value, false).is_some() {
        "duration"
    } else if text::size(value).is_some() {
        "bytes"
    } else {
        "string"
    }
}

/// `detected_fields`.
pub(super) fn detected_fields(params: &LokiParams, source: &dyn EntrySource) -> LokiResult {
    let limit = params.count("limit", FIELDS, FIELDS_MAX)?;
    let field = |(name, field): (String, DetectedField)| {
        let parsers = if field.parsers.is_empty() { Value::Null } else { json!(field.parsers) };
        let path = field.path.map(|path| json!(path));
        let mut shown = json!({
            "label": name, "type": field.kind.unwrap_or("string"), "cardinality": field.values.len(), "parsers": parsers,
        });
        if let (Some(path), Some(shown)) = (path, shown.as_object_mut()) {
            shown.insert("jsonPath".into(), path);
        }
        shown
    };
    let fields: Vec<Value> = fields(params, source)?.into_iter().take(limit).map(field).collect();
    Ok(json!({ "fields": fields, "limit": limit }).into())
}

/// `detected_field/NAME/values`.
pub(super) fn field_values(params: &LokiParams, source: &dyn EntrySource) -> LokiResult {
    let limit = params.count("limit", FIELDS, FIELDS_MAX)?;
    let field = fields(params, source)?.remove(&params.name).unwrap_or_default();
    let values: Vec<String> = field.values.into_iter().take(limit).collect();
    Ok(json!({ "values": values, "limit": limit }).into())
}

/// `patterns`: what the newest lines look like, and how many there are a step.
pub(super) fn patterns(params: &LokiParams, source: &dyn EntrySource) -> LokiResult {
    let (selector, span) = (selector(params)?, params.span()?);
    let steps = params.steps(span)?;
    let step = (steps.time(1) - steps.time(0)).max(1);
    let (mut clusters, mut left) = (Clusters::default(), PATTERN_LINES);
    source.scan(&selector.within(span), Direction::Backward, &mut |entry| {
        let level = entry.metadata.get(DETECTED_LEVEL).unwrap_or("unknown");
        clusters.add(&entry.line, level, entry.time - entry.time.rem_euclid(step));
        left -= 1;
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    let shown: Vec<Value> = clusters
        .into_sorted()
        .iter()
        .map(|cluster| {
            let sample = |(time, count): (&i64, &u64)| json!([time / text::SECOND, count]);
            json!({
                "pattern": cluster.pattern(), "level": cluster.level,
                "samples": cluster.counts.iter().map(sample).collect::<Vec<_>>(),
            })
        })
        .collect();
    Ok(success(json!(shown)).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_numbers_are_identifiers() {
        for (values, are) in [
            (["1", "2"], true),
            (["0", "1"], false),
            (["7", "x"], false),
            (["3f2b8c1e-0000-4000-8000-0123456789ab", "5"], true),
        ] {
            assert_eq!(are_identifiers(&values.map(str::to_owned).into()), are, "{values:?}");
        }
    }

    #[test]
    fn an_address_is_no_pair() {
        let names = |line: &str| names_of_pairs(line).into_iter().collect::<Vec<_>>();
        assert!(names(r#"10.0.0.1 - - "GET /search?q=shoes&n=5 HTTP/1.1" 200 https://a.b/?x=1"#).is_empty());
        assert_eq!(
            names("level=info http.status=200 user-id=7 GET /a?b=c k="),
            ["http_status", "k", "level", "user_id"]
        );
    }
}
