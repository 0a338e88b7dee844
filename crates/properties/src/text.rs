//! Properties of text by people and other programs: a configuration, a query, a schedule, keys and names, a connection
//! string, and other collectors' positions.

use super::{Draw, seen};
use daytable::config::{Changes, Config, ConfigError, Variable};
use daytable::testing;
use daytable_archive::ArchiveUrl;
use daytable_azure::StorageAccount;
use daytable_intake::adopt::{self, Collector};
use daytable_intake::glob::Pattern;
use daytable_intake::instance_template::InstanceTemplate;
use daytable_intake::path_fields::PathFields;
use daytable_lifecycle::Schedule;
use daytable_model::key::{DayTable, RowKey, instance_of, partition_key};
use daytable_model::property::property_name;
use daytable_model::time::Ticks;
use daytable_model::units::ByteSize;
use daytable_model::units::{parse_duration, show_duration};
use daytable_query::when::When;

/// Maximum UTF-16 units of a PartitionKey.
const KEY_UNITS_MAX: usize = 512;

/// Any text is a configuration, alone and with any variables, or is refused. Each problem has a place in the text and a
/// message. A configuration equals itself. The text ends at the first NUL, and the variables follow.
pub(super) fn any_config(bytes: &[u8]) {
    let all = String::from_utf8_lossy(bytes);
    let mut parts = all.split('\0');
    let text = parts.next().unwrap_or_default();
    let variables: Vec<Variable> = parts.filter_map(|pair| pair.split_once('=')).filter_map(variable).collect();
    for variables in [&[][..], &variables] {
        match Config::parse_with(text, "any.toml", variables) {
            Ok(config) => assert_eq!(Changes::between(&config, &mut config.clone()), Changes::default()),
            Err(error) => assert_places(&error, text),
        }
    }
    if let Err(error) = testing::credentials(text) {
        assert_places(&error, text);
    }
    // The patterns that a file names, each by itself.
    for made in [Pattern::include(text), Pattern::exclude(text), Pattern::source(text), Pattern::instance(text)] {
        let Ok(pattern) = made else { continue };
        let _ = pattern.matches(text);
        assert_eq!(pattern.as_str(), text);
    }
    if let Ok(template) = text.parse::<InstanceTemplate>() {
        let _ = template.render("host", text, |_| None);
    }
    if let Ok(fields) = text.parse::<PathFields>() {
        for (_, value) in fields.of(text) {
            assert!(text.contains(value), "{value:?} is no part of {text:?}");
        }
    }
    if let Ok(url) = text.parse::<ArchiveUrl>() {
        assert_eq!(url.to_string().parse(), Ok(url), "{text:?}");
    }
}

fn variable((name, value): (&str, &str)) -> Option<Variable> {
    Variable::new(name, value)
}

fn assert_places(error: &ConfigError, text: &str) {
    let ConfigError::Invalid(problems) = error else { panic!("{error} is nothing that a text can be the reason of") };
    assert!(!problems.is_empty(), "nothing is wrong");
    let lines = text.split('\n').count();
    for problem in problems {
        assert!(problem.line <= lines && !problem.text.is_empty(), "{problem:?} of {lines} lines");
    }
}

/// Any text is the parameters of a read request, or is refused. A time, a duration or a size survives printing and
/// reading.
pub(super) fn any_query(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for filter in testing::query_filters(&text) {
        assert!(filter.times().is_none_or(|(from, to)| from <= to));
        if let Some(instance) = &filter.instance {
            assert!(filter.is_of_instance(&partition_key(instance, None)), "{instance:?} wants itself");
            assert!(filter.is_of_instance(&partition_key(instance, Some(0xa7))), "{instance:?} wants its buckets");
        }
    }
    if let Ok(When::At(time)) = text.parse() {
        assert_eq!(time.to_string().parse(), Ok(When::At(time)), "{text:?}");
    }
    if let Ok(duration) = parse_duration(&text) {
        assert_eq!(parse_duration(&show_duration(duration)), Ok(duration), "{text:?}");
    }
    if let Ok(size) = text.parse::<ByteSize>() {
        assert_eq!(size.to_string().parse(), Ok(size), "{text:?}");
    }
}

/// Any text is a query of LogQL that is written in one form and read again, or is refused with a place in the text.
pub(super) fn any_logql(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match daytable_logql::parse(&text) {
        Ok(query) => {
            let form = query.to_string();
            let again = daytable_logql::parse(&form).map(|again| again.to_string());
            assert_eq!(again, Ok(form), "{text:?}");
        }
        Err(error) => assert!(text.is_char_boundary(error.offset), "{text:?}: {error}"),
    }
}

/// Any text is a schedule with ascending times, or is refused with a reason. A schedule survives printing and reading.
pub(super) fn any_schedule(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match Schedule::parse(&text) {
        Ok(schedule) => {
            let mut now = seen();
            for _ in 0..3 {
                let Some(next) = schedule.next_after(now) else { break };
                assert!(next > now, "{text:?}: {next} is not after {now}");
                now = next;
            }
            assert_eq!(Schedule::parse(&schedule.to_string()).as_ref(), Ok(&schedule));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Any instance has a PartitionKey that the service accepts. The instance is read back from the key, unless it was too
/// long, and no other instance's bucket has that key. Any row key keeps its value and its order as text and as bytes.
/// Any text is a name of a day-table, and any field name becomes a property name.
pub(super) fn any_key(bytes: &[u8]) {
    let mut draw = Draw(bytes);
    let (time, source, position) = (draw.number(), draw.number(), draw.number());
    let item = u16::from_be_bytes([draw.byte(), draw.byte()]) % 10_000;
    let bucket = draw.byte();
    let text = &String::from_utf8_lossy(draw.0);

    for bucket in [None, Some(bucket)] {
        let partition = partition_key(text, bucket);
        assert!(partition.encode_utf16().count() <= KEY_UNITS_MAX, "{partition:?} is too long");
        let is_legal = |c: char| !matches!(c, '/' | '\\' | '#' | '?') && !c.is_control();
        assert!(partition.chars().all(is_legal), "{partition:?} has what no key may have");
        let (instance, found) = instance_of(&partition);
        let is_whole = partition.matches('~').count() == usize::from(bucket.is_some());
        assert!(!is_whole || (instance == **text && found == bucket), "{partition:?} is {instance:?}, {found:?}");
    }
    let _ = instance_of(text);

    let time = Ticks::new((time >> 1).cast_signed() % (daytable_model::time::MAX_TICKS + 1)).unwrap_or_default();
    let key = RowKey::new(time, source, position).with_item(item);
    assert_eq!(RowKey::from_bytes(&key.to_bytes()), Some(key));
    assert_eq!(RowKey::parse(&key.to_string()).as_ref(), Ok(&key));
    for other in bytes.get(..RowKey::BYTES).and_then(RowKey::from_bytes).into_iter().chain(RowKey::parse(text)) {
        assert_eq!(key.cmp(&other), key.to_bytes().cmp(&other.to_bytes()), "{key} {other}");
        if other.item() < 10_000 {
            assert_eq!(key.cmp(&other), key.to_string().cmp(&other.to_string()), "{key} {other}");
        }
    }
    if let Ok(day) = DayTable::parse(text) {
        assert_eq!(day.to_string(), **text);
        assert!(day.start() < day.end() && day.holds(day.start()) && !day.holds(day.end()));
    }
    let name = property_name(text);
    let is_start = |c: char| c == '_' || c.is_alphabetic();
    let is_rest = |c: char| is_start(c) || c.is_ascii_digit();
    assert!(name.starts_with(is_start) && name.chars().all(is_rest), "{name:?} is no identifier");
    assert!(name.encode_utf16().count() <= daytable_model::property::PROPERTY_NAME_UNITS_MAX, "{name:?} is too long");
}

/// Any text is a connection string or is refused. Neither result shows a secret. The address can be extended by a path.
pub(super) fn any_account(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let shown = match text.parse::<StorageAccount>() {
        Ok(account) => {
            let endpoint = account.endpoint();
            let is_http = ["http://", "https://"].iter().any(|scheme| endpoint.starts_with(scheme));
            assert!(is_http && !endpoint.ends_with('/') && endpoint.is_ascii(), "{endpoint:?}");
            let host = endpoint.split('/').nth(2).unwrap_or_default();
            assert!(!endpoint.contains(['?', '#']) && !host.contains('@'), "{endpoint:?}");
            // Name and address are public, even where a secret repeats them.
            let open = [account.name(), endpoint].map(|open| format!("{open:?}"));
            open.iter().fold(format!("{account:?}"), |shown, open| shown.replace(open, ""))
        }
        Err(error) => error.to_string(),
    };
    let secrets = text.split(';').filter_map(|pair| pair.trim().split_once('='));
    let secrets = secrets.filter(|(name, _)| ["AccountKey", "SharedAccessSignature"].contains(&name.trim()));
    // The message about an empty text contains no secret.
    let said = "".parse::<StorageAccount>().err().map_or_else(String::new, |error| error.to_string());
    for (_, secret) in secrets.filter(|(_, secret)| secret.trim().len() > 40 && !said.contains(secret.trim())) {
        assert!(!shown.contains(secret.trim()), "{shown} says {secret}");
    }
}

/// Any text is another collector's positions, or is refused with the unknown part. The first byte selects the
/// collector.
pub(super) fn any_positions(bytes: &[u8]) {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let peer = [Collector::Promtail, Collector::Filebeat, Collector::Vector][usize::from(*choice % 3)];
    let text = String::from_utf8_lossy(bytes);
    match adopt::parse_positions(peer, &text) {
        Ok(positions) => assert!(positions.len() <= text.len(), "more positions than bytes"),
        Err(what) => assert!(!what.is_empty()),
    }
}

/// Any bytes are a database of Fluent Bit, or are refused with their path.
pub(super) fn any_database(bytes: &[u8]) {
    let name = format!(
        "daytable-property-{}-{:016x}.db",
        std::process::id(),
        daytable_intake::record_writer::random_identity()
    );
    let path = std::env::temp_dir().join(name);
    if std::fs::write(&path, bytes).is_err() {
        return;
    }
    let read = Collector::FluentBit.positions(&path);
    let _ = std::fs::remove_file(&path);
    match read {
        Ok(positions) => assert!(positions.len() <= bytes.len()),
        Err(error) => assert!(error.to_string().contains("daytable-property"), "{error}"),
    }
}
