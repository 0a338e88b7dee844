//! Golden files with random changes, and nearly valid inputs.

use super::lines::{READINGS, any_bytes, any_pattern, any_time};
use super::wire::{any_answer, any_export, any_push, any_stream};
use proptest::prelude::*;
use std::path::Path;
use std::sync::LazyLock;

/// Every golden input.
fn corpus() -> Vec<Vec<u8>> {
    let golden = Path::new(crate::ROOT).join("tests/golden");
    let files = walkdir::WalkDir::new(golden).sort_by_file_name().into_iter().filter_map(Result::ok);
    let inputs = files.filter(|file| file.file_type().is_file());
    inputs
        .filter_map(|file| std::fs::read(file.path()).ok())
        .map(|bytes| bytes[..bytes.len().min(8192)].to_vec())
        .collect()
}

/// A change of some bytes: an overwrite, a removed piece, or a repeated piece.
fn change(bytes: &mut Vec<u8>, (at, length, with): (usize, usize, Vec<u8>)) {
    let at = at % (bytes.len() + 1);
    let end = (at + length).min(bytes.len());
    if with.is_empty() {
        let piece = bytes[at..end].to_vec();
        bytes.splice(at..at, piece);
    } else {
        bytes.splice(at..end, with);
    }
}

#[test]
fn golden_files_as_they_are() {
    let corpus = corpus();
    assert!(!corpus.is_empty());
    for bytes in corpus {
        for choice in 0..READINGS.len() {
            any_bytes(&[&[u8::try_from(choice).unwrap_or(0)], &bytes[..]].concat());
        }
    }
}

/// The queries of recorded sessions, and those of the corpus of the fuzzer.
fn logql_queries() -> Vec<String> {
    let session = Path::new(crate::ROOT).join("tests/it/loki/session.tsv");
    let session = std::fs::read_to_string(session).expect("read");
    let params = session.lines().filter_map(|line| line.split('\t').nth(2)).flat_map(|params| params.split('&'));
    let mut queries: Vec<String> = params.filter_map(|param| param.strip_prefix("query=")).map(str::to_owned).collect();
    let corpus = std::fs::read_dir(Path::new(crate::ROOT).join("fuzz/corpus/logql")).expect("a folder");
    queries.extend(corpus.map(|file| std::fs::read_to_string(file.expect("a file").path()).expect("text")));
    assert!(queries.len() > 30);
    queries
}

/// The property of queries of LogQL holds for queries whose words were exchanged, repeated and nested.
///
/// `DAYTABLE_LOGQL_CASES=3000000` tries more.
#[test]
fn logql_queries_of_other_words() {
    let mut queries = logql_queries();
    // Words, string literals, numbers with units, and signs.
    let words = all_words(&queries);
    let mut state = super::replay::from_environment("DAYTABLE_PROPERTIES_SEED", 7);
    let mut below = |end: usize| super::replay::below(&mut state, end);
    let (mut parsed, cases) = (0u64, super::replay::from_environment("DAYTABLE_LOGQL_CASES", 4000));
    for _ in 0..cases {
        let mut query = words_of(&queries[below(queries.len())]);
        for _ in 0..=below(4) {
            let (at, other) = (below(query.len() + 1), words[below(words.len())].clone());
            let end = (at + below(6)).min(query.len());
            match below(6) {
                0 if at < query.len() => query[at] = other,
                1 => query.insert(at, other),
                2 => drop(query.drain(at..end)),
                3 => query.splice(at..at, query[at..end].to_vec()).for_each(drop),
                4 => {
                    let donor = words_of(&queries[below(queries.len())]);
                    let from = below(donor.len() + 1);
                    let piece = donor[from..(from + below(9)).min(donor.len())].to_vec();
                    query.splice(at..end, piece).for_each(drop);
                }
                _ => {
                    let times = below(70);
                    query.splice(at..at, vec!["(".to_owned(); times]).for_each(drop);
                    query.extend(vec![")".to_owned(); times]);
                }
            }
        }
        let query = query.join(["", " "][below(2)]);
        super::text::any_logql(query.as_bytes());
        // New queries are the base of further ones.
        if daytable_logql::parse(&query).is_ok() {
            parsed += 1;
            if query.len() < 400 && queries.len() < 2000 {
                queries.push(query);
            }
        }
    }
    assert!(parsed * 50 > cases, "{parsed} of {cases} are queries: the others say less");
}

/// A query as long as queries may be is refused or read, whatever it repeats; a limit of each kind ends it.
#[test]
fn long_logql_queries_are_bounded() {
    let fill = |before: &str, piece: &str, after: &str| {
        let times = (daytable_logql::QUERY_BYTES_MAX - before.len() - after.len()) / piece.len();
        format!("{before}{}{after}", piece.repeat(times))
    };
    for query in [
        fill("", "(", ""),
        fill("", "((((", "{a=\"b\"}"),
        fill("{a=\"b\"}", "|~`\\pL{90}`", ""),
        fill("{a=\"b\"} | a=\"1\"", " or a=~`(\\w{30}){9}`", ""),
        fill("sum by (", "a,", "a) (rate({a=\"b\"}[1m]))"),
        fill("{a=\"b\"} | line_format `", "{{if .a}}", "`"),
        fill("{a=\"b\"} | line_format `{{", "(", "`"),
        fill("{a=\"b\"} | json a=`", "[0]", "`"),
        fill("{a=\"b\"} | pattern `", "<a>.", "`"),
        fill("{a=\"b\"} | label_format ", "a=b,", "c=d"),
        fill("vector(1)", "-vector(1)", ""),
        fill("", "-", "1"),
        fill("1", "^1", ""),
        fill("", "sum(", ""),
        fill("1", "e+1", ""),
        fill("{a=`", "x", "`}"),
        fill("{", "a=`b`,", "a=`b`}"),
    ] {
        super::text::any_logql(query.as_bytes());
        if let Err(error) = daytable_logql::parse(&query) {
            assert!(error.to_string().len() < 1000, "{}", &query[..40]);
        }
    }
}

/// The words of all queries, once each.
fn all_words(queries: &[String]) -> Vec<String> {
    let words: std::collections::BTreeSet<String> = queries.iter().flat_map(|query| words_of(query)).collect();
    words.into_iter().collect()
}

/// Cuts a query at the borders of words, literals and signs.
fn words_of(query: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut quote = None;
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    for c in query.chars() {
        let joins = quote.is_some()
            || words
                .last()
                .and_then(|word| word.chars().last())
                .is_some_and(|last| is_word(last) && is_word(c) || "|!=<>".contains(last) && "=~>".contains(c));
        match words.last_mut() {
            Some(word) if joins => word.push(c),
            _ => words.push(c.to_string()),
        }
        match quote {
            Some(open) if open == c => quote = None,
            None if "\"`".contains(c) => quote = Some(c),
            _ => {}
        }
    }
    words
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// The property of connections holds for whole and broken messages and frames.
    #[test]
    fn streams(choice in any::<u8>(), text in "([0-9]{1,3} (<[0-9]{1,3}>|open |syslog |close )|[a-z0-9 ]{0,9}|<[0-9]{1,3}>|\n|\x00){0,30}") {
        any_stream(&[&[choice], text.as_bytes()].concat());
    }

    /// The property of journal exports holds for nearly valid exports.
    #[test]
    fn exports(choice in any::<u8>(), text in "(__CURSOR=s=a;i=[0-9a-f]{1,3}\n|MESSAGE=[a-z{}\"]{0,9}\n|MESSAGE\n[\x00-\x0a]\x00{7}|PRIORITY=[0-9]\n|[A-Z_=]{0,5}|\n){0,30}") {
        any_export(&[&[choice], text.as_bytes()].concat());
    }

    /// The property of file lines holds for changed golden files.
    #[test]
    fn golden_files_changed(file in any::<prop::sample::Index>(), choice in any::<u8>(),
                            changes in prop::collection::vec((any::<usize>(), 0usize..40, prop::collection::vec(any::<u8>(), 0..6)), 0..6)) {
        static CORPUS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(corpus);
        let mut bytes = file.get(&CORPUS).clone();
        for one in changes {
            change(&mut bytes, one);
        }
        bytes.insert(0, choice);
        any_bytes(&bytes);
    }

    /// A nearly valid body of each protocol gives records or is refused.
    #[test]
    fn pushes(choice in any::<u8>(), text in "(\\[?\\{\"(resourceLogs|scopeLogs|logRecords|streams|values|create|index|message|body)\":(\\[|\\{|\"[a-z]{0,3}\"|7)?|\"(stringValue|kvlistValue|timeUnixNano)\":|[\\]}]{1,4},?|__CURSOR=[a-z]\n|M\n\x01\x00\x00\x00\x00\x00\x00\x00|[\n,a]){0,20}") {
        any_push(&[&[choice, 0], text.as_bytes()].concat());
    }

    /// A nearly valid answer of Azure Table storage is accepted or refused.
    #[test]
    fn answers(choice in any::<u8>(), text in "(--batchresponse_1(--)?\r?\n|Content-Type: (multipart/mixed; boundary=batchresponse_1|application/http)\r?\n|\r?\n|HTTP/1.1 (204|404|x)\r?\n|\\{\"(value|odata.error)\":|\\[|\\{\"(code|message|TableName|A|A@odata.type)\":(\"[0-9]:?\"|1e9|null|\"Edm.Guid\")|[\\]}]{1,3},?|<code>|</a>|[<&>a-z]){0,30}") {
        any_answer(&[&[choice], text.as_bytes()].concat());
    }

    /// The property of file lines holds for noise.
    #[test]
    fn noise(bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'\n'), Just(b' '), Just(b'"')], 0..300)) {
        any_bytes(&bytes);
        any_time(&bytes);
        any_pattern(&bytes);
        any_answer(&bytes);
        any_stream(&bytes);
        any_export(&bytes);
        any_push(&bytes);
    }

    /// Nearly valid patterns.
    #[test]
    fn near_patterns(text in "([a-z(){}?*+|^$.\\[\\]\\\\%:]|%\\{[A-Z0-9_]{1,9}(:[a-z]{1,4})?\\}|\\(\\?P<[a-z]{1,3}>|\n){0,30}") {
        any_pattern(text.as_bytes());
    }

    /// Nearly valid times.
    #[test]
    fn near_times(text in "(Europe/Paris\n|\\+05:30\n)?([0-9]{1,4}|[-/:., T]|Nov|Fri|Z|PM|\\+01:00|CET){0,14}") {
        any_time(text.as_bytes());
    }
}
