//! Random questions in both languages, as targets of requests.

use daytable_crash::random::Random;
use daytable_model::safe_text::percent_encoded;

const FIELDS: [&str; 8] = ["message", "level", "instance", "user", "status", "name7", "time", "nosuch"];
const TEXTS: [&str; 6] = ["x", "<message><message>", "<q:message><user>", "$0$0", "${g}", ""];
const FUNCTIONS: [&str; 14] = [
    "count()",
    "count_uniq(F)",
    "values(F)",
    "uniq_values(F)",
    "row_any()",
    "row_max(F)",
    "min(F)",
    "max(F)",
    "sum(F)",
    "avg(F)",
    "median(F)",
    "quantile(0.9, F)",
    "any(F)",
    "count_empty(F)",
];
/// Functions of templates that make more than they get, or read it in another way.
const TEMPLATES: [&str; 14] = [
    "repeat N `ab`",
    "repeat N __line__",
    "replace `a` (repeat N `c`) __line__",
    "regexReplaceAll `.` __line__ `$0$0$0$0`",
    "regexReplaceAllLiteral `` __line__ `abcdefgh`",
    "printf `%Nd` 1",
    "printf `%-Ns%Ns` __line__ __line__",
    "print __line__ __line__ __line__",
    "indent N __line__",
    "nindent N __line__",
    "urlencode __line__ | urlencode",
    "b64enc __line__ | b64enc",
    "alignLeft N __line__",
    "alignRight N __line__",
];
const STAGES: [&str; 7] = [
    "| json",
    "| logfmt",
    "| pattern `<a> <b>`",
    "| regexp `(?P<g>.*)`",
    "| line_format `{{ T }}`",
    "| label_format made=`{{ T }}`",
    "| label_format a=`{{ T }}`, b=`{{ T }}`",
];
/// What else asks for much.
const ROUTES: [&str; 10] = [
    "/api/hits?q=*&step=1ms",
    "/api/count?every=1ms&by=level,instance",
    "/api/values?field=message&limit=1000000",
    "/api/values?field=user&limit=1000000",
    "/api/export?form=parquet",
    "/api/export?form=ndjson",
    "/api/query?n=1000000",
    "/api/fields",
    "/loki/api/v1/labels",
    "/loki/api/v1/series?match[]=%7Binstance%3D~%22.%2B%22%7D",
];

/// A question.
pub(super) fn question(random: &mut Random) -> String {
    match random.below(8) {
        0 => one(random, &ROUTES).to_owned(),
        1..=4 => {
            let count = 1 + random.below(6);
            let pipes: String = (0..count).map(|_| format!(" | {}", pipe(random))).collect();
            let filter = one(random, &["*", "level:error", "x", "-level:info", "user:*"]);
            let way = one(random, &["query", "stats", "export"]);
            format!("/api/{way}?q={}", percent_encoded(&format!("{filter}{pipes}")))
        }
        _ => {
            let count = random.below(4);
            let stages: String = (0..count).map(|_| stage(random) + " ").collect();
            let query = format!("{{instance=~\".+\"}} {stages}");
            let query = match random.below(3) {
                0 => format!("sum by (made, user, level) (count_over_time({query}[1h]))"),
                1 => {
                    format!("label_replace(count_over_time({query}[1m]), \"made\", \"$1$1$1$1\", \"level\", \"(.*)\")")
                }
                _ => query,
            };
            format!(
                "/loki/api/v1/query_range?start=0&end=4102444800&step=3600&limit=50000&query={}",
                percent_encoded(&query)
            )
        }
    }
}

fn pipe(random: &mut Random) -> String {
    let (field, other) = (one(random, &FIELDS), one(random, &FIELDS));
    let texts = one(random, &TEXTS).repeat(1 + random.below(40) as usize);
    match random.below(13) {
        0 | 1 => {
            let functions: Vec<String> = (0..1 + random.below(3))
                .map(|number| format!("{} f{number}", one(random, &FUNCTIONS).replace('F', one(random, &FIELDS))))
                .collect();
            let by = if random.one_in(3) { String::new() } else { format!("by ({field}) ") };
            format!("stats {by}{}", functions.join(", "))
        }
        2 => format!("sort by ({field})"),
        3 => format!("sort by ({field}) limit {}", 1 + random.below(100_000)),
        4 => format!("format \"<message>{texts}\" as {field}"),
        5 => format!("replace (\"e\", \"{texts}\") at {field}"),
        6 => format!("replace_regexp (\"(?P<g>.)\", \"{texts}\") at {field}"),
        7 => format!("copy {field} as {other}"),
        8 => format!("extract \"<a> <b>\" from {field}"),
        9 => format!("uniq by ({field}, {other})"),
        10 => format!("top {} by ({field})", 1 + random.below(100_000)),
        11 => one(random, &["facets", "field_names", "field_values user", "len(message) as n"]).to_owned(),
        _ => format!("fields {field}, message"),
    }
}

fn stage(random: &mut Random) -> String {
    let number = 10_u64.pow(random.below(10) as u32);
    let mut stage = one(random, &STAGES).to_owned();
    while stage.contains("{{ T }}") {
        let template = one(random, &TEMPLATES).replace('N', &number.to_string()).replace('`', "\"");
        stage = stage.replacen("{{ T }}", &format!("{{{{ {template} }}}}"), 1);
    }
    stage
}

fn one<'a>(random: &mut Random, all: &[&'a str]) -> &'a str {
    random.one_of(all).copied().unwrap_or_default()
}
