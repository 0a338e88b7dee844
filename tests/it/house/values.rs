//! Values that a page tells and the code has: both stand here as each of them is written, so a change of one shows the other.

use super::ROOT;
use std::fs;
use std::path::Path;

/// What a page says, the file that has the value, and its text there.
type Value = (&'static str, &'static str, &'static str);

const SAMPLE: &str = "config/daytable.toml";
const HTTP: &str = "src/http/mod.rs";
const LIMITS: &[Value] = &[
    (
        "1 MiB (`line_bytes_max`, up to 2 MiB",
        "crates/intake/src/tail/file_reader.rs",
        "LINE_BYTES_LIMIT: u64 = 2 << 20;",
    ),
    ("whole members behind it, 64 KiB together", "crates/parse/src/json/rest.rs", "REST_BYTES_MAX: usize = 64 << 10;"),
    ("a record after 5 s of quiet (`unended_after`)", SAMPLE, "#unended_after = \"5s\""),
    ("7 within each other", "crates/parse/src/redact/views.rs", "VIEWS_MAX: usize = 8;"),
    ("1,000 secrets a pattern in a text", "crates/parse/src/redact/mod.rs", "MATCHES_MAX: usize = 1000;"),
    ("64 patterns of the file", "crates/parse/src/redact/mod.rs", "PATTERNS_MAX: usize = 64;"),
    ("32 Ki characters a text", "crates/model/src/entity.rs", "STRING_UNITS_MAX: usize = 32 << 10;"),
    ("from the 241st field on", "crates/model/src/entity.rs", "FIELDS_MAX: usize = 240;"),
    ("2,048 open at a time (`open_files_max`)", SAMPLE, "#open_files_max = 2048"),
    ("unfinished ones of all connections 32 MiB together", "src/daemon/budget.rs", "held_bytes: share(16, 32 << 20),"),
    ("1,024 a listener (`connections_max`", SAMPLE, "#connections_max = 1024"),
    ("16 MiB, then reading pauses", "crates/store/src/write/queue.rs", "WAITING_BYTES_MAX: usize = 16 << 20;"),
    ("a commit every 250 ms at the latest", SAMPLE, "#commit_interval = \"250ms\""),
    ("16,384 senders have an account each", "crates/intake/src/rate_limit.rs", "SENDERS_MAX: usize = 16_384;"),
    ("1,000,000 for 7 days", "crates/store/src/format/catalog/idempotency.rs", "KEYS_MAX: u64 = 1_000_000;"),
    ("1,000,000 for 7 days", "crates/store/src/format/catalog/idempotency.rs", "from_secs(7 * 86_400);"),
    ("16 MiB as it comes", SAMPLE, "#body_bytes_max = \"16MiB\""),
    ("64 MiB decoded", SAMPLE, "#decoded_bytes_max = \"64MiB\""),
    ("100,000 records, 60 s", SAMPLE, "#records_max = 100000"),
    ("100,000 records, 60 s", SAMPLE, "#body_timeout = \"1m\""),
    ("128 MiB for all at a time (`bodies_bytes_max`)", SAMPLE, "#bodies_bytes_max = \"128MiB\""),
    ("2,048 (`connections_max`)", SAMPLE, "#connections_max = 2048"),
    ("8 scans at a time", HTTP, "scans: 8,"),
    ("128 that wait up to 30 s", HTTP, "scans_waiting: 128,"),
    ("128 that wait up to 30 s", HTTP, "scan_wait: Duration::from_secs(30),"),
    ("32 followers at a time", HTTP, "followers: 32,"),
    ("1,000,000 records an answer", "src/http/params.rs", "N_MAX: usize = 1_000_000;"),
    ("16 KiB and 64 headers before the body", "src/http/long_head.rs", "HEAD_BYTES_MAX: usize = 16 << 10;"),
    ("16 KiB and 64 headers before the body", "src/http/long_head.rs", "HEADERS_MAX: usize = 64;"),
    ("a form of 256 KiB", "src/http/request_params.rs", "FORM_BYTES_MAX: usize = 256 << 10;"),
    ("16 MiB kept", "crates/store/src/sqlite.rs", "JOURNAL_BYTES_KEPT: i64 = 16 << 20;"),
    (
        "from 32 MiB on commits wait up to 1 s",
        "crates/store/src/format/day_file.rs",
        "JOURNAL_BYTES_MAX: u64 = 32 << 20;",
    ),
    (
        "from 32 MiB on commits wait up to 1 s",
        "crates/store/src/format/day_file.rs",
        "JOURNAL_WAIT: Duration = Duration::from_secs(1);",
    ),
    ("10 GiB and 7 days", SAMPLE, "#outbox_bytes_max = \"10GiB\""),
    ("10 GiB and 7 days", SAMPLE, "#outbox_age_max = \"7d\""),
    ("16 transactions at a time", SAMPLE, "#transactions_max = 16"),
    ("up to 512 that one record of 256 has", "crates/store/src/format/sealed/mod.rs", "COLUMNS_MAX: usize = 512;"),
    (
        "a page of more than 256 columns",
        "crates/store/src/format/page/columns_builder.rs",
        "COUNTED_COLUMNS_MAX: usize = 256;",
    ),
    ("`tail` begins with up to 100,000", "crates/query/src/answer/follow.rs", "NEWEST_MAX: u64 = 100_000;"),
    ("CSV and Parquet 10,000 columns", "crates/query/src/export/spool.rs", "COLUMNS_MAX: usize = 10_000;"),
    ("the headers of a day by 65,536 stretches", "crates/store/src/read/slices.rs", "STRETCHES_MAX: usize = 1 << 16;"),
    ("a million files", "crates/delta/src/log.rs", "files_max: 1_000_000,"),
    ("of which 256 stay open", "crates/archive/src/lake/mod.rs", "OPEN_FILES_MAX: usize = 256;"),
    ("64 MiB of their ends", "crates/archive/src/lake/mod.rs", "OPEN_BYTES_MAX: usize = 64 << 20;"),
    ("32 MiB of blocks in memory", "crates/archive/src/lake/blocks.rs", "BLOCKS_BYTES_MAX: usize = 32 << 20;"),
    ("1 GiB on disk (`--cache`)", "crates/archive/src/lake/cache.rs", "CACHE_BYTES_MAX: u64 = 1 << 30;"),
    ("16 requests at a time", "crates/archive/src/lake/mod.rs", "REQUESTS_MAX: usize = 16;"),
    ("lists it again after 5 s", "src/cli/run/lake.rs", "LISTED_FOR: Duration = Duration::from_secs(5);"),
    ("looked for in 16 days at most", "crates/query/src/answer/doubts.rs", "LAKE_DAYS_MAX: usize = 16;"),
    ("100 rules", "crates/alert/src/lib.rs", "RULES_MAX: usize = 100;"),
    ("1,000 groups a rule", "crates/alert/src/lib.rs", "GROUPS_MAX: usize = 1000;"),
    ("64 windows of a rule at a time", "crates/alert/src/engine.rs", "WINDOWS_PER_PASS_MAX: usize = 64;"),
    ("a question 20 s and 32 MiB", "crates/alert/src/question.rs", "QUESTION_BYTES_MAX: usize = 32 << 20;"),
    (
        "a question 20 s and 32 MiB",
        "crates/alert/src/question.rs",
        "QUESTION_TIME_MAX: Duration = Duration::from_secs(20);",
    ),
    ("25 s (`drain_timeout`)", SAMPLE, "#drain_timeout = \"25s\""),
    ("less than 768 MiB", SAMPLE, "Below 768MiB,"),
    ("all of them keep 192 MiB", "src/daemon/budget.rs", "QUESTIONS_BYTES_MAX: usize = 192 << 20;"),
    ("one of them 128 MiB", "src/daemon/budget.rs", "QUESTION_BYTES_MAX: usize = 128 << 20;"),
    ("384 MiB if nothing limits it", "src/daemon/budget.rs", "RESIDENT_BYTES_MAX: u64 = 384 << 20;"),
    ("4 GiB a question, 8 GiB all of them", "crates/platform/src/scratch.rs", "FILE_BYTES_MAX: u64 = 4 << 30;"),
    ("4 GiB a question, 8 GiB all of them", "crates/platform/src/scratch.rs", "BYTES_MAX: u64 = 8 << 30;"),
    ("2 MiB a value", "crates/platform/src/budget.rs", "VALUE_BYTES_MAX: usize = 2 << 20;"),
    ("4 MiB a record", "crates/platform/src/budget.rs", "RECORD_BYTES_MAX: usize = 4 << 20;"),
    ("of all followers 32 MiB", "src/daemon/budget.rs", "FRAMES_BYTES_MAX: usize = 32 << 20;"),
    ("50 messages of one kind", "src/log/burst_limit.rs", "BURST: u32 = 50;"),
];

/// Values of other pages, with the page before each.
const OTHERS: &[(&str, Value)] = &[
    (
        "docs/architecture/index.md",
        ("one program made of sixteen crates", "tests/it/house/arrows.rs", "CRATES: [&str; 16]"),
    ),
    ("docs/architecture/index.md", ("≤100 rows", "crates/model/src/batch.rs", "ROWS_MAX: usize = 100;")),
    ("docs/architecture/index.md", ("≤4 MiB", "crates/model/src/batch.rs", "BYTES_MAX: usize = 4 << 20;")),
    ("docs/architecture/index.md", ("Scans have 8 threads", HTTP, "scans: 8,")),
    (
        "docs/architecture/query.md",
        ("after 4 ms", "crates/platform/src/scan_scheduler.rs", "TIME_SLICE: Duration = Duration::from_millis(4);"),
    ),
    (
        "docs/architecture/query.md",
        (
            "less than 20 ms",
            "crates/platform/src/scan_scheduler.rs",
            "LONG_QUESTION: Duration = Duration::from_millis(20);",
        ),
    ),
    ("docs/operate/release.md", ("36 MB at most", "packaging/release", "bytes_max=36000000")),
];

fn text(path: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn the_pages_have_the_values_of_the_code() {
    let of_limits = LIMITS.iter().map(|value| ("docs/reference/limits.md", *value));
    let mut wrong = Vec::new();
    for (page, (said, file, written)) in of_limits.chain(OTHERS.iter().copied()) {
        if !text(page).contains(said) || !text(file).contains(written) {
            wrong.push(format!("{page} says \"{said}\", {file} has `{written}`"));
        }
    }
    super::assert_none("is so no longer: change the page, the code and this test together", wrong);
}

/// A new row of the page needs its values here.
#[test]
fn the_page_of_limits_is_compared_row_by_row() {
    const WITHOUT_VALUES: [&str; 3] =
        ["a partition at Azure", "a seal or an archive that kills interrupt", "a data folder"];
    let page = text("docs/reference/limits.md");
    let rows = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| |"));
    let is_compared = |row: &&str| LIMITS.iter().any(|(said, ..)| row.contains(said));
    let is_without = |row: &&str| WITHOUT_VALUES.iter().any(|cell| row.starts_with(&format!("| {cell} |")));
    let missing = rows.filter(|row| !is_compared(row) && !is_without(row)).map(str::to_owned);
    super::assert_none("has no value in tests/it/house/values.rs", missing.collect());
}
