//! Queries in their one form, and the places of mistakes.

use super::*;
use proptest::prelude::*;

#[test]
fn queries_are_written_in_one_form() {
    for (query, form) in [
        (r#"{app="shop",pod=~"web-.*"}|="a"!="b""#, r#"{app="shop", pod=~"web-.*"} |= "a" != "b""#),
        ("{a=\"b\"} | json | status >= 500 # a comment", r#"{a="b"} | json | status>=500"#),
        ("{a=\"b\"} | logfmt --strict x=\"y\", z", r#"{a="b"} | logfmt --strict x="y", z"#),
        ("{a=\"b\"} | a=\"1\" or b=\"2\" and c=\"3\"", r#"{a="b"} | (a="1" or (b="2" and c="3"))"#),
        ("sum(rate({a=\"b\"}[5m])) by (x)", r#"sum by (x) (rate({a="b"} [5m]))"#),
        ("1 + 2 * 3 ^ 2", "19"),
        ("2 ^ 3 ^ 2", "512"),
        ("vector(1) - -1", "(vector(1) - -1)"),
        ("1 > bool 2", "0"),
        (
            "avg_over_time({a=\"b\"} | json | unwrap duration(took) | __error__=\"\" [1m] offset 1h) by (x)",
            r#"avg_over_time({a="b"} | json | unwrap duration(took) | __error__="" [1m] offset 1h) by (x)"#,
        ),
        ("count_over_time({a=\"b\"}[1m] |= \"x\")", r#"count_over_time({a="b"} |= "x" [1m])"#),
        ("vector(1) / on(a) group_left(b) vector(2)", "(vector(1) / on (a) group_left (b) vector(2))"),
        ("topk(3, vector(1))", "topk(3, vector(1))"),
        (
            "{a=\"b\"} |> `<_> \"GET <_>\"` |~ \"(?i)x\" or \"y\"",
            "{a=\"b\"} |> `<_> \"GET <_>\"` |~ \"(?i)x\" or \"y\"",
        ),
        ("({a=\"b\"} |= \"x\")", r#"{a="b"} |= "x""#),
        ("({a=\"b\"}) |= \"x\"", "-"),
        (
            "SUM BY (x) (Rate({a=\"b\"} | JSON | x=\"1\" OR y=\"2\" [1h30m] OFFSET 1m))",
            r#"sum by (x) (rate({a="b"} | json | (x="1" or y="2") [1h30m] offset 1m))"#,
        ),
        ("{a=\"b\"} | x=\"1\", y=\"2\" or z=\"3\"", r#"{a="b"} | (x="1" and (y="2" or z="3"))"#),
        ("{a=\"b\"} | x=\"1\" or y=\"2\" z=\"3\" or w>1", r#"{a="b"} | (x="1" or (y="2" and (z="3" or w>1)))"#),
        ("{a=\"b\"} | x=\"1\" and y=\"2\" or z=\"3\"", r#"{a="b"} | ((x="1" and y="2") or z="3")"#),
        ("{a!=\"\"}", r#"{a!=""}"#),
        ("{a=\"b\"} | json=\"x\"", "-"),
        (
            "{a=\"b\"} | level=\"x\" | drop level, msg=~\"a.\" | keep b",
            "{a=\"b\"} | level=\"x\" | drop level, msg=~\"a.\" | keep b",
        ),
    ] {
        match parse(query) {
            Ok(parsed) => {
                assert_eq!(parsed.to_string(), form, "{query}");
                assert_eq!(parse(form).map(|again| again.to_string()), Ok(form.to_owned()));
            }
            Err(error) => assert_eq!(form, "-", "{query}: {error}"),
        }
    }
}

#[test]
fn a_mistake_has_its_place() {
    for (query, column, reason) in [
        ("", 1, "unexpected end of the query"),
        ("{job=\"legacy\"", 14, "unexpected end of the query, expected ,"),
        ("{}", 1, "at least one regexp or equality matcher"),
        ("{a!=\"b\"}", 1, "at least one regexp or equality matcher"),
        ("{a=~\".*\"}", 1, "at least one regexp or equality matcher"),
        ("count_over_time({a=\"b\"})", 24, "expected a range"),
        ("{a=\"b\"} | json | status >", 26, "unexpected end of the query"),
        ("{a=\"b\"} |~ \"(\"", 12, "invalid regular expression"),
        ("{a=\"b\"} | line_format \"{{nope}}\"", 23, "function \"nope\" not defined"),
        ("{a=\"b\"} nope", 9, "unexpected nope"),
        ("sum_over_time({a=\"b\"}[1m])", 14, "invalid aggregation sum_over_time without unwrap"),
        ("count_over_time({a=\"b\"} | unwrap x [1m])", 16, "invalid aggregation count_over_time with unwrap"),
        ("sum_over_time({a=\"b\"} | unwrap x [1m]) by (y)", 14, "grouping not allowed"),
        ("topk(0, vector(1))", 6, "invalid parameter"),
        ("1 or 2", 3, "needs a vector on both sides"),
        ("{a=\"b\"} | pattern \"<_>\"", 19, "at least one capture"),
        ("{a=\"b\"} | label_format a=b,a=c", 28, "multiple label name"),
        ("rate({a=\"b\"}[5x])", 14, "is not a number, duration or size"),
        ("{a=\"b\"} |= 'x'", 12, "unexpected character"),
        ("{a=\"b\"} |= \"x", 14, "string literal"),
        ("{a=\"b\",}", 8, "expected a label"),
        ("rate({a=\"b\"}[1.5h])", 14, "not a valid duration"),
        ("rate({a=\"b\"}[1m2h])", 14, "not a valid duration"),
        ("vector(1) / group_left vector(2)", 13, "on or ignoring"),
        ("vector(-1)", 8, "expected a number"),
        ("{a=\"b\"} | label_format __error__=b", 24, "cannot be formatted"),
        ("{a=\"b\"} | unwrap x", 11, "unwrap stands in a range aggregation only"),
        ("{a=\"b\"}\n|= x", 4, "unexpected x"),
    ] {
        let error = parse(query).err().unwrap_or_else(|| panic!("{query} is read"));
        assert_eq!(error.column, column, "{query}: {error}");
        assert!(
            error.to_string().starts_with("parse error at line ") && error.reason.contains(reason),
            "{query}: {error}"
        );
    }
    assert_eq!(parse("{a=\"b\"}\n|= x").err().map(|error| error.line), Some(2));
}

#[test]
fn a_query_has_a_bounded_size() {
    let brackets = "(".repeat(100_000);
    for query in [
        brackets.clone() + "1",
        format!("{brackets}{{a=\"b\"}}"),
        "1+".repeat(5000) + "1",
        format!("{{a=\"b\"}} | {brackets}a=\"b\""),
        format!("{{a=\"b\"}}{}", " | a=\"b\"".repeat(5000)),
        format!("{{a=\"b\"}} | a=\"b\"{}", " or a=\"b\"".repeat(5000)),
        "x".repeat(QUERY_BYTES_MAX + 1),
        "sum(".repeat(3000),
    ] {
        assert!(parse(&query).is_err(), "{}", &query[..40]);
    }
}

proptest! {
    /// No text panics, and the form of a query that is read is read again as the same.
    #[test]
    fn any_query(words in proptest::collection::vec(
        "\\{a=\"b\"\\}|\\{|\\}|a|b|=|=~|!=|\\|=|\\|~|\\|>|\\| |json|logfmt|unwrap|by|on|or|and|\\(|\\)|\\[5m\\]|\\[|\\]|sum|topk|rate|\
         count_over_time|quantile_over_time|,|\"x\"|`<_>y`|5|1\\.5s|2KB|\\+|-|\\^|/|bool|offset|ip|#|--strict|drop|keep|line_format|\
         label_replace|vector|\n|\\PC", 0..20)) {
        let query = words.join(" ");
        if let Ok(parsed) = parse(&query) {
            let form = parsed.to_string();
            let again = parse(&form);
            prop_assert_eq!(again.map(|again| again.to_string()), Ok(form));
        }
        let _ = parse_selector(&query);
    }
}
