//! Tests: the texts that are replaced, and the texts that stay.

use super::*;
use daytable_model::record::Field;
use proptest::prelude::*;

fn redactor(presets: &[&str]) -> Redactor {
    Redactor::new(presets.iter().map(|name| Redaction::preset(name).expect(name))).expect("some")
}

fn all() -> Redactor {
    Redactor::new(Redaction::presets().map(|name| Redaction::preset(name).expect(name))).expect("some")
}

fn message(redactor: &Redactor, text: &str) -> String {
    let mut record = Record { message: text.into(), ..Record::default() };
    redactor.redact_parts(&mut record);
    record.message.into_owned()
}

#[test]
fn every_preset_is_there() {
    let names: Vec<_> = Redaction::presets().collect();
    assert_eq!(names, ["credit-card", "email", "bearer-token", "private-key"]);
}

#[test]
fn presets_replace_secrets() {
    let jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
    for (text, clean) in [
        ("paid with 4111 1111 1111 1111, thanks", "paid with [redacted credit-card], thanks".to_owned()),
        ("mail from <ann.o'neil+x@mail.example.com>", "mail from <[redacted email]>".into()),
        ("GET /u?m=ann%40example.com&x=1", "GET /u?m=[redacted email]&x=1".into()),
        ("jürgen@müller.de and b@c.org", "[redacted email] and [redacted email]".into()),
        (r#"{\"mail\":\"ann\u0040example.com\"}"#, r#"{\"mail\":\"[redacted email]\"}"#.into()),
        ("Authorization: Bearer abc.def-123", "Authorization: [redacted bearer-token]".into()),
        ("authorization=\"Basic dXNlcjpwYXNz\" ok", "authorization=\"[redacted bearer-token]\" ok".into()),
        ("sent bEaReR 0123456789abcdef", "sent bEaReR [redacted bearer-token]".into()),
        ("sent Bearer 0123456789abcdef", "sent Bearer [redacted bearer-token]".into()),
        ("?access=Bearer%20abcdefgh1", "?access=Bearer%20[redacted bearer-token]".into()),
        (&format!("token {jwt} expired"), "token [redacted bearer-token] expired".into()),
        (
            "key -----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc=\n-----END RSA PRIVATE KEY----- read",
            "key [redacted private-key] read".into(),
        ),
        (r"k=-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\n", r"k=[redacted private-key]\n".into()),
        // Without an end, the rest of the text may belong to the key.
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nMIIE", "[redacted private-key]".into()),
    ] {
        assert_eq!(message(&all(), text), clean, "{text}");
    }
}

#[test]
fn lookalikes_of_secrets_stay() {
    for text in [
        "basic authentication failed, bearer certificates missing",
        "order 4111111111111112 at 1763596800123454",
        "@mention user@host foo@ @bar a@b",
        "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----",
        "nothing at all",
        "",
    ] {
        assert_eq!(message(&all(), text), text);
    }
}

#[test]
fn fields_of_every_type_and_their_names_are_searched() {
    let text = |value: &'static str| Value::String(value.into());
    let card = 4_111_111_111_111_111;
    let fields = [
        ("user", text("ann@example.com"), text("[redacted email]")),
        ("ann@example.com", Value::Boolean(true), Value::Boolean(true)),
        ("card", Value::Int64(card), text("[redacted credit-card]")),
        ("pid", Value::Int64(4711), Value::Int64(4711)),
        ("seconds", Value::Double(0.25), Value::Double(0.25)),
        ("headers.Authorization", text("opaque"), text("[redacted bearer-token]")),
        ("escaped", Value::String(Cow::Owned("b@example.com".into())), text("[redacted email]")),
    ];
    let field = |name: &'static str, value: &Value<'static>| Field { name: name.into(), value: value.clone() };
    let mut record =
        Record { fields: fields.iter().map(|(name, value, _)| field(name, value)).collect(), ..Record::default() };
    let redactor = all();
    redactor.redact_parts(&mut record);
    for (field, (name, _, clean)) in record.fields.iter().zip(&fields) {
        assert_eq!(&field.value, clean, "{name}");
    }
    assert_eq!(record.fields[1].name, "[redacted email]");
    let counted: Vec<_> = redactor.patterns().iter().map(|pattern| (pattern.name(), pattern.matches())).collect();
    assert_eq!(counted, [("credit-card", 1), ("email", 3), ("bearer-token", 1), ("private-key", 0)]);
}

#[test]
fn custom_patterns() {
    for (pattern, replace, text, clean) in [
        (r"\b[0-9]{3}-[0-9]{2}-[0-9]{4}\b", None, "ssn 078-05-1120.", "ssn [redacted own]."),
        (r"password=(\S+)", Some("***"), "password=a password=b", "password=*** password=***"),
        (r"(?:pin (\d+)|puk (\d+))", Some(""), "pin 1 puk 2", "pin  puk "),
        (r"\b|x", Some("-"), "axb", "a-b"),
    ] {
        match Redaction::regex("own", pattern, replace) {
            Ok(own) => assert_eq!(message(&Redactor::new([own]).expect("one"), text), clean, "{pattern}"),
            Err(error) => panic!("{error}"),
        }
    }
    let error = Redaction::regex("own", "x*", None).expect_err("matches nothing").to_string();
    assert_eq!(error, "matches the empty text, and so every text\n    x*\n    ^");
    assert!(Redaction::preset("e-mail").is_none());
}

#[test]
fn custom_patterns_search_numbers() {
    let own = Redaction::regex("insurance", r"\b[0-9]{9}\b", None).expect("a pattern");
    let mut record = Record::default();
    record.fields.push(Field { name: "id".into(), value: Value::Int64(123_456_789) });
    Redactor::new([own]).expect("one").redact_parts(&mut record);
    assert_eq!(record.fields[0].value, Value::String("[redacted insurance]".into()));
}

#[test]
fn after_the_match_limit_the_rest_is_replaced() {
    let text = "a@b.de ".repeat(MATCHES_MAX + 10);
    let clean = message(&redactor(&["email"]), &text);
    assert!(!clean.contains('@'));
    assert_eq!(clean.matches("[redacted email]").count(), MATCHES_MAX + 1);
}

#[test]
fn a_word_split_by_a_cut_is_removed() {
    let redactor = all();
    for (text, kept) in [
        ("mail ann@exam", "mail "),
        ("card 4111 1111 11", "card"),
        ("card 4111-1111-11", "card"),
        ("whole ", "whole"),
        ("", ""),
        ("oneword", ""),
    ] {
        assert_eq!(text[..redactor.keep_of_cut(text)].trim_end(), kept.trim_end(), "{text}");
    }
    let long = "x".repeat(10_000);
    assert_eq!(redactor.keep_of_cut(&long), long.len() - CUT_BYTES);
}

#[test]
fn the_lines_of_a_key_belong_together() {
    let follow = |redactor: &Redactor, lines: &[&str]| -> Vec<bool> {
        let mut is_open = false;
        let mut goes_on = |line: &str| {
            let goes_on = is_open && Redactor::goes_on_with_key(line);
            is_open = redactor.leaves_key_open(goes_on, line);
            goes_on
        };
        lines.iter().map(|line| goes_on(line)).collect()
    };
    let key = [
        "key: -----BEGIN RSA PRIVATE KEY-----",
        "Proc-Type: 4,ENCRYPTED",
        "MIIEpAIBAAKCAQEA7bq0",
        "abc=",
        "-----END RSA PRIVATE KEY-----",
        "word",
    ];
    assert_eq!(follow(&all(), &key), [false, true, true, true, true, false]);
    assert_eq!(follow(&redactor(&["email"]), &key), [false; 6]);
    // The text names only the head of a key; a certificate is not a secret.
    assert_eq!(follow(&all(), &[key[0], "2026-11-21 08:00:00 up", "word"]), [false; 3]);
    assert_eq!(follow(&all(), &["-----BEGIN CERTIFICATE-----", "MIIE"]), [false; 2]);
    assert_eq!(follow(&all(), &["-----BEGIN PRIVATE KEY-----MIIE-----END PRIVATE KEY-----", "MIIE"]), [false; 2]);
}

proptest! {
    /// A secret is replaced at any place, and the text around it stays.
    #[test]
    fn no_secret_stays(before in "[a-z ,;]{0,9}", after in "( [a-z ,;]{0,9})?",
                       secret in prop_oneof![Just("4111111111111111"), Just("ann@example.com"), Just("Bearer 0a1b2c3d4e")]) {
        let text = format!("{before} {secret}{after}");
        let clean = message(&all(), &text);
        prop_assert!(!clean.contains(secret) && clean.starts_with(&before) && clean.ends_with(&after), "{}", clean);
    }

    /// Any text stays except for its matches. The kept part of a cut text ends between characters, and no text panics.
    #[test]
    fn text_without_matches_stays(text in "(\\PC|[0-9]{1,6}|@|eyJ|Bearer |-----BEGIN PRIVATE KEY-----|[ .-]){0,20}") {
        let redactor = all();
        message(&redactor, &text);
        prop_assert!(text.is_char_boundary(redactor.keep_of_cut(&text)));
    }
}
