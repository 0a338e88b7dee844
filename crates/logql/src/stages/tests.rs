//! What each stage does to the labels and the line of an entry.

use crate::ast::LogqlQuery;
use crate::labels::Labels;
use crate::source::LogEntry;
use std::sync::Arc;

/// The line and the labels of an entry after a pipeline, as text; `-` if the entry is left out.
fn after(line: &str, pipeline: &str) -> String {
    let pair = |(n, v): (&str, &str)| (n.to_owned(), v.to_owned());
    let entry = LogEntry {
        stream: Arc::new(Labels::new([("app", "shop"), ("pod", "web-1")].map(pair).into())),
        time: 1_795_168_800_123_456_789,
        line: line.to_owned(),
        metadata: Labels::new([("user", "ann")].map(pair).into()),
    };
    let query = match crate::parse(&format!("{{app=\"shop\"}} {pipeline}")) {
        Ok(LogqlQuery::Log(query)) => query,
        other => panic!("{pipeline}: {other:?}"),
    };
    let Ok(Some(shown)) = query.show(&entry, 0, &|| true) else { return "-".into() };
    let labels: Vec<String> = shown
        .labels()
        .iter()
        .filter(|pair| ![("app", "shop"), ("pod", "web-1"), ("user", "ann")].contains(pair))
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    if shown.line == line { labels.join(" ") } else { format!("{}|{}", shown.line, labels.join(" ")) }
}

#[test]
fn parsers_extract_labels() {
    for (line, pipeline, expected) in [
        (r#"{"a":1,"b":{"c-d":"x","e":[1]},"f":null,"g":true}"#, "| json", "a=1 b_c_d=x g=true"),
        (r#"{"user":"bob","a":"q\"é"}"#, "| json", "a=q\"é user_extracted=bob"),
        (r#"{"a":{"b":[{"c":7}]},"d e":"f"}"#, r#"| json x="a.b[0].c", y="[\"d e\"]", z="no""#, "x=7 y=f z="),
        (
            r#"{"a":"x""#,
            "| json",
            "__error__=JSONParserErr __error_details__=Value is array, but can't find closing ']' symbol a=x",
        ),
        (
            "{a:1}",
            "| json",
            "__error__=JSONParserErr __error_details__=Value looks like object, but can't find closing '}' symbol",
        ),
        (r#"{"a":1,}"#, "| json", "a=1"),
        // A path reads no further than its value.
        (r#"{"a":{"b":[1,"x"],"c":{"d"#, r#"| json x="a.b[1]", y="a.c""#, "x=x y="),
        (r#"{"a":{"b":[1,"x"],"c":{"d"#, r#"| json x="a.b[2]", y="a", z="b""#, "x= y= z="),
        (r#"["a",{"b":2}"#, r#"| json x="[1].b""#, "x=2"),
        ("v=1_000 w=_1 x=1_", "| logfmt | v = 1000", "v=1_000 w=_1 x=1_"),
        ("a=1 b=2", r#"| logfmt x="a", x="b""#, "x=2"),
        (r#"{"a":"\ud800","b":"x\q"}"#, "| json", "a= b="),
        ("plain", "| json a", "__error__=JSONParserErr"),
        (r#"{"a":"new","c":null,"d":["\u00e9"]}"#, "| json | json a, c, d", "a=new c= d=[\"é\"]"),
        (r#"{"b":"2"}"#, "| label_format a=`1` | json a=`b`", "a=2"),
        ("plain", "| unpack", "__error__=JSONParserErr __error_details__=expecting json object(6), but it is not"),
        (
            "plain",
            "| json",
            "__error__=JSONParserErr __error_details__=Value looks like object, but can't find closing '}' symbol",
        ),
        ("a=1 b=\"x y\" c= d e=\"q\\\"r\"", "| logfmt", "a=1 b=x y e=q\"r"),
        ("a=1 c= d", "| logfmt --keep-empty", "a=1 c= d="),
        ("a=1 =x b=2", "| logfmt", "a=1 b=2"),
        (
            "a=1 =x b=2",
            "| logfmt --strict",
            "__error__=LogfmtParserErr __error_details__=logfmt syntax error at pos 5 : unexpected '=' a=1",
        ),
        ("a=1 b=2", r#"| logfmt x="b", a, n"#, "a=1 n= x=2"),
        ("GET /x 200", "| pattern `<method> <path> <_>`", "method=GET path=/x"),
        ("GET /x 200", r#"| regexp "(?P<m>\\w+) (?P<p>\\S+)""#, "m=GET p=/x"),
        ("a=1 a=2", "| logfmt", "a=1"),
        ("a=1 a=2 b.c=3", r#"| logfmt x="a", y="b_c""#, "x=2 y=3"),
        (
            "a=\"x",
            "| logfmt --strict",
            "__error__=LogfmtParserErr __error_details__=logfmt syntax error at pos 5 : unterminated quoted value",
        ),
        (r#"{"a":"1","_entry":"the line"}"#, "| unpack", "the line|a=1"),
        (r#"{"a":"1"}"#, "| unpack", ""),
        ("\x1b[31mred\x1b[0m \x1b[1;32;4mx\x1b[K", "| decolorize", "red x|"),
        (
            "x=1m y=2",
            "| logfmt | x > 1 | y > 1s",
            "__error__=LabelFilterErr __error_details__=strconv.ParseFloat: parsing \"1m\": invalid syntax x=1m y=2",
        ),
    ] {
        assert_eq!(after(line, pipeline), expected, "{line} {pipeline}");
    }
}

#[test]
fn a_label_leads_back_to_its_member() {
    let line = r#"{"a.b":{"c":1,"d":[2]},"a":{"b":{"d":"x"}},"1st":null,"e":"\u00e9","z":3"#;
    for (label, path) in [
        ("a_b_c", Some(vec!["a.b", "c"])),
        ("a_b_d", Some(vec!["a", "b", "d"])),
        ("e", Some(vec!["e"])),
        ("z", Some(vec!["z"])),
        ("_1st", None),
        ("a", None),
    ] {
        let found = crate::json_path(line, label);
        assert_eq!(found, path.map(|path| path.into_iter().map(str::to_owned).collect::<Vec<_>>()), "{label}");
    }
    assert_eq!(crate::json_path("plain", "a"), None);
}

#[test]
fn filters_keep_and_leave_out() {
    let line = r#"status=500 took=1.5s size=2KB ip=10.0.0.7 word=x"#;
    for (pipeline, kept) in [
        (r#"|= "500" != "nowhere" |~ "took=\\d" !~ "^x""#, true),
        (r#"|= "nowhere" or "status""#, true),
        (r#"!= "nowhere" or "status""#, false),
        (r#"|= ip("10.0.0.0/24")"#, true),
        (r#"!= ip("10.0.0.0/24")"#, false),
        ("| logfmt | status >= 500", true),
        ("| logfmt | status > 500", false),
        ("| logfmt | took > 1s and size <= 2KB", true),
        ("| logfmt | took > 1m or (status = 500, size > 1KB)", true),
        ("| logfmt | ip = ip(\"10.0.0.1-10.0.0.9\")", true),
        ("| logfmt | missing > 1", false),
        // A label without a value is not a number; the missing label of a line that no parser reads leaves the line
        // out.
        ("| logfmt missing | missing > 1", true),
        ("| json | status > 1", false),
        ("| logfmt | word = ip(\"10.0.0.1\")", false),
        ("| logfmt | word != ip(\"10.0.0.1\")", true),
        // A label that a parser found decides, whatever is wrong with the rest of the line.
        ("| logfmt | word > 1 | ip = ip(\"10.0.0.1\")", false),
        ("| logfmt | word > 1 | app = ip(\"10.0.0.1\")", true),
        (r#"| logfmt | missing = """#, true),
        (r#"| logfmt | word =~ "x|y" | pod != "web-2""#, true),
        // What cannot be read stays, and is an error.
        ("| logfmt | word > 1", true),
        (r#"| logfmt | word > 1 | __error__ = """#, false),
        (r#"| user = "ann" | app =~ "sh""#, false),
    ] {
        assert_eq!(after(line, pipeline) != "-", kept, "{pipeline}");
    }
}

#[test]
fn labels_are_renamed_dropped_and_kept() {
    let line = "a=1 b=2";
    for (pipeline, expected) in [
        ("| logfmt | label_format c=a", "b=2 c=1"),
        ("| logfmt | label_format a=b, d=\"{{.a}}-{{.b}}\"", "a=2 d=2-"),
        ("| logfmt | label_format a=a", "b=2"),
        ("| logfmt | drop a", "b=2"),
        // What was extracted once is not extracted again.
        ("| logfmt | drop a | logfmt", "b=2"),
        ("| logfmt | label_format c=a | logfmt", "b=2 c=1"),
        ("| logfmt | drop a | logfmt a", "a=1 b=2"),
        (r#"| logfmt | drop a="2", b=~"2|3""#, "a=1"),
        ("| logfmt | keep b, app, pod, user", "b=2"),
        ("| logfmt | line_format \"{{.b}}{{.a}}\"", "21|a=1 b=2"),
        ("| json | drop __error__, __error_details__", ""),
    ] {
        assert_eq!(after(line, pipeline), expected, "{pipeline}");
    }
}
