//! What templates print, and what they refuse.

use super::{LineContext, RenderError, Template};
use crate::labels::Labels;
use proptest::prelude::*;

fn render(template: &str) -> Result<String, RenderError> {
    let labels = |name: &str| match name {
        "status" => Some("500"),
        "path" => Some("/api/v1"),
        "took" => Some("1.5s"),
        "json" => Some(r#"[{"q":"a"},{"q":"b"}]"#),
        _ => None,
    };
    let all = || Labels::new(vec![("status".into(), "500".into()), ("path".into(), "/api/v1".into())]);
    let time = 1_795_168_800_123_456_789;
    let context = LineContext { line: "the line", time, now: 0, labels: &all, go_on: &|| true };
    Template::new(template).map_err(RenderError::Failed)?.render(context, &labels)
}

#[test]
fn what_go_prints() {
    for (template, text) in [
        ("a {{.status}} b", "a 500 b"),
        ("{{.missing}}|{{ default \"-\" .missing }}", "|-"),
        ("{{ .path | replace \"/\" \"_\" | trunc 5 | upper }}", "_API_"),
        ("{{ __line__ | title }}", "The Line"),
        ("{{if eq .status \"500\"}}bad{{else if eq .status \"200\"}}ok{{else}}?{{end}}", "bad"),
        ("{{if and .missing .status}}x{{else}}y{{end}}", "y"),
        ("{{with .missing}}x{{else}}none{{end}}", "none"),
        ("{{range $i, $q := fromJson .json}}{{$i}}={{$q.q}} {{end}}", "0=a 1=b "),
        ("{{range fromJson .json}}{{.q}}{{end}}", "ab"),
        ("{{ $x := .status }}{{ $x }}{{ $x = \"1\" }}{{ $x }}", "5001"),
        ("a {{- \" b\" -}} c", "a bc"),
        ("{{/* a comment */}}x", "x"),
        ("{{ \"}}\" }}", "}}"),
        ("{{ add 1 2 3 }} {{ sub 5 .status }} {{ div 7 2 }} {{ mod 7 2 }}", "6 -495 3 1"),
        ("{{ divf 10 4 }} {{ mulf 1.5 2 }} {{ round 3.14159 2 }} {{ ceil 1.2 }}", "2.5 3 3.14 2"),
        ("{{ .took | duration }} {{ bytes \"2KB\" }}", "1.5 2000"),
        ("{{ __timestamp__ | date \"2006-01-02T15:04:05.000Z07:00\" }}", "2026-11-20T10:00:00.123Z"),
        ("{{ __timestamp__ | unixEpochMillis }}", "1795168800123"),
        ("{{ toDate \"2006-01-02\" \"2021-11-02\" | unixEpoch }}", "1635811200"),
        ("{{ date \"Mon Jan _2 2006\" (unixToTime \"1679577215\") }}", "Thu Mar 23 2023"),
        ("{{ printf \"%-6s|%5d|%.2f|%q|%v\" .status 42 1.0 \"x\" true }}", "500   |   42|1.00|\"x\"|true"),
        ("{{ alignRight 5 .status }}{{ alignLeft 2 .status }}", "  50050"),
        ("{{ alignRight -5 .status }}{{ alignLeft -5 .status }}", "500500"),
        ("{{ div -9223372036854775808 -1 }} {{ mod -9223372036854775808 -1 }}", "-9223372036854775808 0"),
        ("{{ substr 1 4 .path }} {{ trimPrefix \"/\" .path }} {{ trimAll \"/1\" .path }}", "api api/v1 api/v"),
        ("{{ regexReplaceAll \"(v)(\\\\d)\" .path \"${2}$1\" }}", "/api/1v"),
        ("{{ if contains \"api\" .path }}{{ count \"a\" .path }}{{ end }}", "1"),
        ("{{ b64enc .status }} {{ b64dec \"NTAw\" }} {{ urlencode \"a b/c\" }}", "NTAw 500 a+b%2Fc"),
        ("{{ index (fromJson \"{\\\"a\\\": 55}\") \"a\" }}", "55"),
        ("{{ (fromJson \"{\\\"a\\\": {\\\"b\\\": 1}}\").a.b }}", "1"),
        ("{{ indent 2 \"a\\nb\" }}", "  a\n  b"),
        ("{{ ToUpper \"a\" }}{{ Replace \"aaa\" \"a\" \"b\" 2 }}", "Abba"),
        ("{{ not true }} {{ len .status }} {{ gt 2 1 }}", "false 3 true"),
        ("{{ $.status }}", "500"),
        ("{{ repeat 99999999999 .missing }}{{ repeat 3 \"ab\" }}", "ababab"),
        ("{{ . }} {{ len $ }} {{ range $k, $v := . }}{{ $k }}{{ end }}", "map[path:/api/v1 status:500] 2 pathstatus"),
        ("{{ fromJson \"bad\" }} {{ (fromJson \"bad\").a.b }}", "<no value> <no value>"),
        ("{{ print nil }} {{ printf \"%v\" nil }} {{ fromJson \"[null,1]\" }}", "<nil> <nil> [<nil> 1]"),
        ("{{ printf \"%d%%\" 5 6 \"x\" }}", "5%%!(EXTRA int=6, string=x)"),
        ("{{ upper \"ß é\" }}{{ lower \"İ\" }}", "ß Éi"),
        ("{{ int \"010\" }} {{ int \"1e3\" }} {{ int \"-7.9\" }} {{ int \"0x1f\" }} {{ int \"\" }}", "8 0 -7 31 0"),
        ("{{ print 1e-7 1e+21 }} {{ 1_000 }}", "1e-07 1e+21 1000"),
        ("{{ substr 2 9 .status }} {{ substr -1 2 .status }} {{ substr 3 -1 .status }}|", "0 50 |"),
        ("{{ mulf 1000 1000 }} {{ mulf 1000 100 }} {{ round -2.3 0 }}", "1e+06 100000 -3"),
        ("{{ b64dec \"N!Aw\" }}", "illegal base64 data at input byte 1"),
        ("{{ toDate \"2006-01-02\" \"soon\" }}", "0001-01-01 00:00:00 +0000 UTC"),
        ("{{ toDateInZone \"2006-01-02 15:04\" \"Europe/Berlin\" \"2026-07-01 12:00\" | unixEpoch }}", "1782900000"),
        (
            "{{ toDateInZone \"2006-01-02 15:04\" \"America/New_York\" \"2026-01-01 00:00\" | date \"15:04 MST\" }}",
            "05:00 UTC",
        ),
        ("{{ toDateInZone \"2006-01-02\" \"Nowhere/At_All\" \"2026-07-01\" | unixEpoch }}", "1782864000"),
    ] {
        assert_eq!(render(template).as_deref(), Ok(text), "{template}");
    }
}

#[test]
fn what_is_refused() {
    for template in [
        "{{",
        "{{.a",
        "{{nope}}",
        "{{if}}x{{end}}",
        "{{if .a}}x",
        "{{end}}",
        "{{ .a | }}",
        "{{ \"x }}",
        "{{define \"x\"}}{{end}}",
    ] {
        assert!(Template::new(template).is_err(), "{template}");
    }
    for template in [
        "{{ eq .status 500 }}",
        "{{ substr 4 -1 .status }}",
        "{{ substr -1 9 .status }}",
        "{{ substr 2 1 .status }}",
        "{{ divf 1 0 }}",
        "{{ repeat -1 .path }}",
        "{{ div 1 0 }}",
        "{{ repeat 99999999 .path }}",
        "{{ alignLeft 1000000000 .path }}",
        "{{ slice .status -1 }}",
        "{{ .status \"x\" }}",
        "{{ lower }}",
    ] {
        assert!(render(template).is_err(), "{template}");
    }
}

proptest! {
    /// No template panics, and its text is bounded.
    #[test]
    fn any_template(words in proptest::collection::vec(
        "\\{\\{|\\}\\}|if|range|else|end|with| |\\.status|\\.|\\$x|:=|\"a\"|printf|\"%5.2f%x\"|repeat|9999|\\||\\(|\\)|-|trunc|substr|date|now|\\PC", 0..24)) {
        if let Ok(text) = render(&words.concat()) {
            prop_assert!(text.len() < 4 << 20);
        }
    }
}
