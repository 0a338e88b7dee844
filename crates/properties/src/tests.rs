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
