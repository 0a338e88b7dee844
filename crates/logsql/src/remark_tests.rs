//! What is said about queries that look like something else.

use crate::ParsedQuery;

/// What a query is warned of, or why it is refused.
fn said(query: &str) -> Vec<String> {
    match ParsedQuery::parse_remarked(query) {
        Ok((_, remarks)) => remarks.warnings().iter().map(|warning| warning.message().to_owned()).collect(),
        Err(error) => vec![format!("error: {}", error.message())],
    }
}

fn same(one: &str, other: &str) {
    assert_eq!(said(one), Vec::<String>::new(), "{one}");
    assert_eq!(ParsedQuery::parse(one), ParsedQuery::parse(other), "{one}");
}

#[test]
fn a_word_that_looks_like_something_else_is_said_with_what_to_write() {
    for (query, written) in [
        ("status>=500", "status:>=500"),
        ("status=500", "status:=500"),
        ("status==500", "status:=500"),
        ("status!=200", "status:!=200"),
        ("status<>200", "status:!=200"),
        ("status=>500", "status:>=500"),
        ("-status=200", "status:=200"),
        ("(a or status<500)", "status:<500"),
        ("http.status=500", "http.status:=500"),
        ("user=\"bob smith\"", "user:=\"bob smith\""),
        ("path=~/api", "path:~\"/api\""),
        ("level>=error", "level:>=error"),
        ("severity>=error", "level:>=error"),
        ("host=web-9", "instance:=web-9"),
        (".status>=500", "status:>=500"),
        ("@status=500", "status:=500"),
        ("index=main", "table:=main"),
        ("path contains login", "path:*login*"),
        ("status:5xx", "status:range[500, 600)"),
        ("status:=5XX", "status:range[500, 600)"),
        ("status:50?", "status:range[500, 510)"),
        ("status:5..", "status:range[500, 600)"),
        ("status:500-599", "status:range[500, 599]"),
        ("status:500..599", "status:range[500, 599]"),
        ("status:=>500", "status:>=500"),
        ("took:>10gigs", "units"),
        ("path:/api/*/users", "path:~\"^/api/.*/users$\""),
        ("path:=/api/*.js", "path:~\"^/api/.*\\\\.js$\""),
        ("\"status\">=500", "status:>=500"),
        ("err?r", "~\"err.r\""),
        ("%timeout%", "*timeout*"),
        ("^error", "~\"^error\""),
        ("error.*timeout", "~\"error.*timeout\""),
        ("path:/api.*/x", "path:~\"/api.*/x\""),
        ("a && b", "leave it out"),
        ("+error -debug", "error"),
        ("path like \"%login%\"", "path:*login*"),
        ("path LIKE '/api%'", "path:=\"/api\"*"),
        ("user is null", "-user:*"),
        ("status between 500 and 599", "status:range[500"),
        ("message contains \"timeout\"", "message:*timeout*"),
        ("url startswith \"/api\"", "url:=\"/api\"*"),
        ("error limit 10", "| limit 10"),
        ("error sort by (time)", "| sort by (a)"),
        ("error group by path", "| stats by (a)"),
        ("-i timeout", "i(word)"),
        ("-v debug", "-word"),
        ("SELECT * FROM logs WHERE status >= 500", "daytable sql"),
        ("show tables", "daytable sql"),
        ("* | stats by (path) count() n | sort by (hits)", "path, n"),
        ("* | fields path, status | sort by (stats)", "did you mean status?"),
        ("* | stats count() n | filter hits:>1", "columns are n"),
        ("* | stats count() n | math hits * 2 as k", "columns are n"),
    ] {
        let said = said(query);
        assert_eq!(said.len(), 1, "{query}: {said:?}");
        assert!(said[0].contains(written) && !said[0].starts_with("error"), "{query}: {said:?}");
        assert!(ParsedQuery::parse_strictly(query).is_err(), "{query}");
    }
}

#[test]
fn a_warning_has_the_query_that_was_meant() {
    for (query, instead) in [
        ("error status>=500 | count()", Some("error status:>=500 | count()")),
        ("ü severity=error", Some("ü level:=error")),
        ("a && b", Some("a  b")),
        ("+timeout x", Some("timeout x")),
        ("%part% | limit 3", Some("*part* | limit 3")),
        ("^error", Some("~\"^error\"")),
        ("err?r", Some("~\"err.r\"")),
        ("status:5xx or a", Some("status:range[500, 600) or a")),
        ("status:500-599", Some("status:range[500, 599]")),
        ("status:=5xx", None),
        ("message contains \"timeout\"", Some("message:*timeout*")),
        ("user is null", Some("-user:*")),
        ("status between 500 and 599", None),
        ("path:/a/*/b x", None),
        ("error limit 10", None),
    ] {
        let (_, remarks) = ParsedQuery::parse_remarked(query).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(remarks.warnings()[0].instead(), instead, "{query}");
        if let Some(instead) = instead {
            let (_, remarks) = ParsedQuery::parse_remarked(instead).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(remarks.warnings(), [], "{instead}");
        }
    }
}

#[test]
fn a_warning_has_the_place_of_the_text() {
    for (query, text) in [
        ("error status>=500 | count()", "status>=500"),
        ("(a or -status=200)", "status=200"),
        ("ü status:5xx", "5xx"),
        ("* | stats count() n | sort by (m desc)", "m"),
        ("path:/a/*/b x", "/a/*/b"),
    ] {
        let (_, remarks) = ParsedQuery::parse_remarked(query).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(&query[remarks.warnings()[0].at()], text, "{query}");
    }
}

#[test]
fn what_is_right_is_not_warned_of() {
    for query in [
        "",
        "*",
        "error",
        "\"status>=500\"",
        "`a && b`",
        "status:>=500 level:error",
        "level:ERROR AND NOT status:200",
        "NOT level:debug or (a b)",
        "error ~\"a.*b\" !~\"c\"",
        "/api/v1?x=1",
        "path:/a?b=c",
        "a->b",
        "dGV4dA==",
        "0x1f ip:10.0.0.1 id:0xx",
        "version:1.2.3 took:>1.5s size:>10KiB",
        "date:2026-11-21",
        "connection limit",
        "too many order errors",
        "-go 5",
        "web-*",
        "path:=\"/p\"*",
        "*fuse*",
        "word* other",
        "really? 50% $HOME a?b=c /x?y",
        "please select a file from the list",
        "level:\"\" -level:*",
        "level:~\"^e\" level:err*",
        "* | stats by (path) count() n | sort by (n desc) | limit 3 | fields path, n",
        "* | fields time, http.* | sort by (_time) | delete x*",
        "* | stats by (_time:1h) count() n | sort by (time)",
        "* | extract \"a=<a> \" | stats by (a) sum(b) s | math s / 2 as h, h * 2 as k | filter k:>1",
        "* | math a + b as c | stats avg(c) m | rename m as x | sort by (x)",
        "* | top 5 by (path) rank | filter rank:<3 hits:>1",
        "* | field_values user | filter hits:>1 | copy user as u, u as v",
    ] {
        assert_eq!(said(query), Vec::<String>::new(), "{query}");
        assert!(ParsedQuery::parse_strictly(query).is_ok(), "{query}");
    }
}

#[test]
fn a_comparison_with_white_space_is_one() {
    same("status >= 500", "status:>=500");
    same("status >=500", "status:>=500");
    same("status>= 500", "status:>=500");
    same("status = 500 or user != \"bob\"", "status:=500 or user:!=\"bob\"");
    same("level == error | count()", "level:=error | count()");
    same(".http.status <> 200", "http.status:!=200");
    same("content-type =~ \"json$\"", "content-type:~\"json$\"");
    same("not (status < 500)", "not (status:<500)");
    same("time >= 2026-11-21", "_time:>=2026-11-21");
    same("status in (500, 502)", "status:in(500, 502)");
    same("level IN ('error', 'warn')", "level:in(error, warn)");
    same("* | filter n > 5", "* | filter n:>5");
    same("* | where Level == \"Error\"", "* | filter Level:=Error");
}

#[test]
fn a_query_of_another_language_is_refused_with_what_to_write() {
    for (query, written) in [
        ("{a=\"b\"} |= \"x\"", "here it is written {a=\"b\"} *\"x\"*"),
        ("{a=\"b\"} |= \"x\" != \"y\" |~ `z+`", "{a=\"b\"} *\"x\"* -*\"y\"* ~`z+`"),
        ("{a=\"b\"} |= \"x\" | json", "LogQL"),
        ("{a=\"b\"} != \"x\"", "-*\"x\"*"),
        ("{a=\"b\"} | json", "fields are parsed"),
        ("{a=\"b\"} | level=\"error\"", "| filter level:="),
        ("count_over_time({a=\"b\"}[5m])", "LogQL"),
        ("* | stats count by path", "stats by (path) count()"),
        ("* | count", "it is written count()"),
        ("* | stats mean(took) n", "here it is written avg(…)"),
        ("* | stats dc(user) n", "here it is written count_uniq(…)"),
        ("* | stats by path count()", "in parentheses"),
        ("* | stats count() by (path)", "before the functions"),
        ("* | sort by time", "sort by (path desc)"),
        ("* | timechart span=1h count", "stats by (_time:1h"),
        ("* | project a, b", "fields a, b"),
        ("* | take 10", "limit N"),
        ("* | dedup user", "uniq by (a)"),
        ("error|warning", "joined by or: a or warning"),
        ("a || b", "joined by or"),
        ("level:(error|warn)", "joined by or"),
        ("select(.level == \"error\")", "level:=error"),
        ("SELECT count(*) FROM logs", "daytable sql"),
        ("status:[400 TO 499]", "status:range[1, 10)"),
        ("level : error", "level:VALUE"),
        ("level:error,warn", "name:in(a, b)"),
    ] {
        let said = said(query);
        assert!(said.len() == 1 && said[0].starts_with("error: ") && said[0].contains(written), "{query}: {said:?}");
    }
}

#[test]
fn a_word_that_is_no_level_is_refused_where_a_level_is_compared() {
    for (query, meant) in [
        ("level:>=warnning", "did you mean warning?"),
        ("level:errror", "did you mean error?"),
        ("level:=loud", "the levels are trace,"),
        ("level:!=eror1", "error"),
        ("level:in(error, wran)", "wran is not a level"),
        ("level >= erorr", "did you mean error?"),
        ("{level=\"loud\"}", "loud is not a level"),
        ("level:range[inof, error]", "expected"),
        ("level:>=30", "30 is not a level"),
        ("* | filter level:loud", "loud"),
        ("* | stats count() if (level:eror2) n", "eror2"),
    ] {
        let said = said(query);
        assert!(said.len() == 1 && said[0].starts_with("error: ") && said[0].contains(meant), "{query}: {said:?}");
    }
    let error = ParsedQuery::parse("a level:in(error, wran)").expect_err("no level");
    assert_eq!(error.at(), 18..22);
}

#[test]
fn the_fields_of_records_are_listed_with_their_places() {
    let query =
        "status:>=500 -user:bob | stats by (path, http.method) sum(took) t, count() if (size:>1) n | sort by (t)";
    let (_, remarks) = ParsedQuery::parse_remarked(query).expect("a query");
    let names: Vec<&str> = remarks.fields().iter().map(|field| field.name.written()).collect();
    assert_eq!(names, ["status", "user", "path", "http.method", "took", "size"]);
    assert!(remarks.fields().iter().all(|field| &query[field.at.clone()] == field.name.written()));
    let (_, remarks) = ParsedQuery::parse_remarked("level:error time:1h instance:a message:b | fields time, row_key")
        .expect("a query");
    assert_eq!(remarks.fields(), []);
}

#[test]
fn another_name_of_the_level_is_refused_where_nobody_would_see_that_no_record_has_it() {
    for query in ["severity:>=error", "a or lvl:=warn", "-priority:err"] {
        let error = ParsedQuery::parse_strictly(query).expect_err("a level");
        assert!(error.message().contains("is called level"), "{error}");
        assert_eq!(said(query), Vec::<String>::new(), "records may have it: {query}");
    }
    for query in ["\"severity\":>=error", "severity:high", "priority:>=3", "level:>=error"] {
        assert!(ParsedQuery::parse_strictly(query).is_ok(), "{query}");
    }
}
