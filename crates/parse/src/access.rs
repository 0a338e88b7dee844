//! The access logs of nginx and Apache, and of programs that write the same format.
//!
//! ```text
//! 192.0.2.7 - ada [10/Oct/2000:13:55:36 -0700] "GET /a?b=1 HTTP/1.1" 200 2326                        common
//! … 200 2326 "https://example.com/" "curl/8.5.0"                                                     combined
//! example.com:443 192.0.2.7 - - […                                                                   with the virtual host
//! … "curl/8.5.0" "198.51.100.4, 10.0.0.1" 0.023 rt=0.023 uct="0.001"                                 with more parts
//! ```
//!
//! The message is the request line. The parts after the user agent have no agreed order. Addresses of proxies, a time
//! with a fraction, and pairs are recognised by their form; from the first unknown part on, the rest is the field
//! `extra`. A `-` stands for a missing value and adds no field.
//!
//! The line has no level, so the record has no level. Whether a status of 404 is an error depends on the server;
//! readers can judge by `status`.

use super::line_scanner::{LineScanner, number, text};
use super::pairs::pair_at;
use super::timestamp::{self, Form, TimestampDefaults};
use daytable_model::record::{Field, Record, Value};
use std::borrow::Cow;
use std::net::IpAddr;

/// Parses a line of an access log.
pub(super) fn record<'a>(line: &'a str, defaults: &TimestampDefaults) -> Option<Record<'a>> {
    let mut cut = LineScanner::new(line);
    let before = cut.until(b'[')?;
    let client = ClientPart::read(before)?;
    // A line of another log may have an access line as its message.
    if !begins_with_address(before)
        && timestamp::at_start(before.as_bytes(), defaults).is_some_and(|stamp| stamp.form != Form::Epoch)
    {
        return None;
    }
    let stamp = timestamp::at_start(cut.rest.as_bytes(), defaults)?;
    cut.bytes(stamp.length)?;
    cut.text("] ")?;
    let request = cut.quoted()?;
    cut.byte(b' ')?;
    let status = cut.word();
    cut.byte(b' ')?;
    let bytes = cut.word();
    if !is_count(status) || !is_count(bytes) || status.len() > 3 {
        return None;
    }
    let mut fields = Vec::with_capacity(16);
    client.add(&mut fields);
    add_request(request, &mut fields);
    add_count("status", status, &mut fields);
    add_count("bytes", bytes, &mut fields);
    add_rest(cut, &mut fields)?;
    Some(Record { time: Some(stamp.time), level: None, message: Cow::Borrowed(request), fields, ..Record::default() })
}

/// The part before the time.
struct ClientPart<'a> {
    vhost: Option<&'a str>,
    client: &'a str,
    ident: &'a str,
    user: &'a str,
}

impl<'a> ClientPart<'a> {
    /// `client ident user `, or the same after a virtual host. A user's name may contain spaces, so `ident` must be
    /// `-`, as in practice, to find its start.
    fn read(text: &'a str) -> Option<Self> {
        let (first, rest) = text.strip_suffix(' ')?.split_once(' ')?;
        let (second, rest) = rest.split_once(' ')?;
        let client = match rest.split_once(' ') {
            Some((third, user)) if second != "-" && is_host(second) => {
                ClientPart { vhost: Some(first), client: second, ident: third, user }
            }
            _ => ClientPart { vhost: None, client: first, ident: second, user: rest },
        };
        (is_host(first) && !client.user.is_empty()).then_some(client)
    }

    fn add(&self, fields: &mut Vec<Field<'a>>) {
        let vhost = self.vhost.map(|vhost| ("vhost", vhost));
        for (name, value) in
            vhost.into_iter().chain([("client", self.client), ("ident", self.ident), ("user", self.user)])
        {
            if value != "-" {
                fields.push(text(name, value));
            }
        }
    }
}

/// Whether four numbers with dots between them are the first word: most lines begin so, and no time does.
fn begins_with_address(text: &str) -> bool {
    let word = text.bytes().take_while(|byte| *byte != b' ');
    let dots = word.map(|byte| match byte {
        b'0'..=b'9' => Some(0),
        b'.' => Some(1),
        _ => None,
    });
    dots.sum::<Option<usize>>() == Some(3)
}

/// Whether a word can be an address or a host name, with or without a port.
fn is_host(word: &str) -> bool {
    !word.is_empty()
        && word
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b':' | b'-' | b'_' | b'%' | b'[' | b']'))
}

fn is_count(word: &str) -> bool {
    word == "-" || !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

fn add_count<'a>(name: &'a str, word: &'a str, fields: &mut Vec<Field<'a>>) {
    if word != "-" {
        fields.push(word.parse().map_or_else(|_| text(name, word), |count| number(name, count)));
    }
}

/// `GET /path HTTP/1.1`; any other request stays in the message alone.
pub(super) fn add_request<'a>(request: &'a str, fields: &mut Vec<Field<'a>>) {
    let Some((method, rest)) = request.split_once(' ') else { return };
    let (path, protocol) = match rest.rsplit_once(' ') {
        Some((path, protocol)) if is_protocol(protocol) => (path, Some(protocol)),
        _ => (rest, None),
    };
    if method.is_empty() || !method.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-' || byte == b'_') {
        return;
    }
    fields.push(text("method", method));
    fields.push(text("path", path));
    if let Some(protocol) = protocol {
        fields.push(text("protocol", protocol));
    }
}

fn is_protocol(word: &str) -> bool {
    matches!(word.split_once('/'), Some(("HTTP" | "RTSP" | "SIP" | "ICY", _)))
}

/// The part after the byte count; `None` unless a space separates them.
fn add_rest<'a>(mut cut: LineScanner<'a>, fields: &mut Vec<Field<'a>>) -> Option<()> {
    if !cut.rest.is_empty() && !cut.rest.starts_with(' ') {
        return None;
    }
    let mut names = ["referer", "user_agent", "forwarded_for"].into_iter();
    let mut has_time = false;
    loop {
        cut.spaces();
        let mut next = cut;
        let field = if let Some(value) = next.quoted() {
            let fits = |name: &&str| *name != "forwarded_for" || is_forwarded(value);
            names.next().filter(fits).map(|name| text(name, value))
        } else if let Some(pair) = pair_at(next.rest, 0) {
            next.bytes(pair.end)?;
            Some(Field { name: Cow::Borrowed(pair.key), value: pair.value.value() })
        } else {
            let seconds = Some(next.word()).filter(|_| !std::mem::replace(&mut has_time, true)).and_then(seconds);
            seconds.map(|seconds| Field { name: Cow::Borrowed("request_time"), value: Value::Double(seconds) })
        };
        match field.filter(|_| next.rest.is_empty() || next.rest.starts_with(' ')) {
            Some(Field { value: Value::String(value), .. }) if value == "-" => {}
            Some(field) => fields.push(field),
            None if cut.rest.is_empty() => return Some(()),
            None => {
                fields.push(text("extra", cut.rest));
                return Some(());
            }
        }
        cut = next;
    }
}

/// Whether the value is a list of client and proxy addresses.
fn is_forwarded(value: &str) -> bool {
    value
        .split(',')
        .map(str::trim)
        .all(|address| address == "-" || address == "unknown" || address.parse::<IpAddr>().is_ok())
}

/// Seconds with a fraction; a whole number could have any unit.
fn seconds(word: &str) -> Option<f64> {
    let (whole, fraction) = word.split_once('.')?;
    let digits = |digits: &str| (1..=9).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    (digits(whole) && digits(fraction)).then(|| word.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(line: &str) -> Option<Record<'_>> {
        record(line, &TimestampDefaults::default())
    }

    fn fields(line: &str) -> String {
        let record = read(line).unwrap_or_else(|| panic!("{line}"));
        let shown = |field: &Field<'_>| match &field.value {
            Value::String(text) => format!("{}={text}", field.name),
            Value::Int64(number) => format!("{}:{number}", field.name),
            Value::Double(number) => format!("{}:{number:?}", field.name),
            Value::Boolean(truth) => format!("{}:{truth}", field.name),
            Value::Binary(bytes) => format!("{}:{bytes:?}", field.name),
        };
        record.fields.iter().map(shown).collect::<Vec<_>>().join("|")
    }

    #[test]
    fn common_and_combined() {
        let line = r#"192.0.2.7 - ada [10/Oct/2000:13:55:36 -0700] "GET /a?b=1 HTTP/1.0" 200 2326"#;
        let common = "client=192.0.2.7|user=ada|method=GET|path=/a?b=1|protocol=HTTP/1.0|status:200|bytes:2326";
        assert_eq!(fields(line), common);
        let found = read(line).expect("access");
        assert_eq!((&*found.message, found.level), ("GET /a?b=1 HTTP/1.0", None));
        assert_eq!(found.time.map(|time| time.to_string()).as_deref(), Some("2000-10-10T20:55:36Z"));
        for (rest, more) in [
            (r#" "-" "curl/8.5.0""#, "|user_agent=curl/8.5.0"),
            (r#" "http://e/" "a \"b\" c""#, r#"|referer=http://e/|user_agent=a \"b\" c"#),
            (r#" "-" "-" "-""#, ""),
            (r#" "-" "-" "198.51.100.4, 2001:db8::1""#, "|forwarded_for=198.51.100.4, 2001:db8::1"),
            (r#" "-" "-" 0.120 0.119 ."#, "|request_time:0.12|extra=0.119 ."),
            (r#" "-" "-" 0.120 "-" rt=0.5 u="a b""#, "|request_time:0.12|rt:0.5|u=a b"),
            (
                r#" "-" "-" 42 "router@docker" "http://10.0.0.2" 5ms"#,
                r#"|extra=42 "router@docker" "http://10.0.0.2" 5ms"#,
            ),
            (r#" "-" "-" "a" "b""#, r#"|extra="a" "b""#),
            (r#" "-" "open"#, r#"|extra="open"#),
            ("  ", ""),
        ] {
            assert_eq!(fields(&format!("{line}{rest}")), format!("{common}{more}"), "{rest}");
        }
    }

    #[test]
    fn the_part_before_the_time() {
        let rest = r#"[10/Oct/2000:13:55:36 +0000] "-" 408 -"#;
        for (client, expected) in [
            ("192.0.2.7 - -", "client=192.0.2.7"),
            ("2001:db8::1 - -", "client=2001:db8::1"),
            ("web.example.com ada@x -", "client=web.example.com|ident=ada@x"),
            ("192.0.2.7 - Ada Lovelace", "client=192.0.2.7|user=Ada Lovelace"),
            ("example.com:443 192.0.2.7 - -", "vhost=example.com:443|client=192.0.2.7"),
            ("example.com:443 192.0.2.7 - Ada L", "vhost=example.com:443|client=192.0.2.7|user=Ada L"),
        ] {
            assert_eq!(fields(&format!("{client} {rest}")), format!("{expected}|status:408"), "{client}");
        }
    }

    #[test]
    fn a_malformed_request_stays_in_the_message() {
        for (request, expected) in [
            ("-", ""),
            ("", ""),
            (r"\x16\x03\x01", ""),
            ("GET /", "method=GET|path=/|"),
            ("GET /a b HTTP/1.1", "method=GET|path=/a b|protocol=HTTP/1.1|"),
            ("PRI * HTTP/2.0", "method=PRI|path=*|protocol=HTTP/2.0|"),
            ("t3 12.2.1", ""),
        ] {
            let line = format!(r#"a - - [10/Oct/2000:13:55:36 +0000] "{request}" 400 0"#);
            assert_eq!(fields(&line), format!("client=a|{expected}status:400|bytes:0"), "{request}");
            assert_eq!(read(&line).expect("access").message, request);
        }
    }

    #[test]
    fn near_misses_are_rejected() {
        for line in [
            "",
            "a - - []",
            r#"a - - [10/Oct/2000:13:55:36 +0000] "GET / HTTP/1.1" 200"#,
            r#"a - - [10/Oct/2000:13:55:36 +0000] "GET / HTTP/1.1" OK 0"#,
            r#"a - - [10/Oct/2000:13:55:36 +0000] "GET / HTTP/1.1" 200 0x"#,
            r#"a - - [10/Oct/2000:13:55:36 +0000] "GET / HTTP/1.1 200 0"#,
            r#"a - - [10/Oct/2000:13:55:36 +0000] GET / HTTP/1.1 200 0"#,
            r#"a - - [31/Feb/2000:13:55:36 +0000] "GET / HTTP/1.1" 200 0"#,
            r#"a - - [10/Oct/2000:13:55:36 +0000 "GET / HTTP/1.1" 200 0"#,
            r#"a - [10/Oct/2000:13:55:36 +0000] "GET / HTTP/1.1" 200 0"#,
            r#"client said: - [10/Oct/2000:13:55:36 +0000] "GET / HTTP/1.1" 200 0"#.trim_start_matches("client "),
        ] {
            assert_eq!(read(line), None, "{line}");
        }
    }

    proptest! {
        /// Every part stays in the record, whatever the parts contain, and no text makes the parser panic.
        #[test]
        fn every_part_is_kept(path in "/[!#-\\[\\]-~]{0,16}", agent in "[ -!#-\\[\\]-~]{1,16}", rest in "( [!-~]{0,6}){0,3}", near in "\\PC{0,40}") {
            prop_assume!(agent != "-");
            let line = format!(r#"a - - [10/Oct/2000:13:55:36 +0000] "GET {path} HTTP/1.1" 200 7 "-" "{agent}"{rest}"#);
            let found = read(&line).expect("access");
            let value = |name: &str| found.fields.iter().find(|field| field.name == name).map(|field| field.value.clone());
            prop_assert_eq!(value("path"), Some(Value::String(path.as_str().into())));
            prop_assert_eq!(value("user_agent"), Some(Value::String(agent.as_str().into())));
            let _ = read(&near);
            let _ = read(&format!("a - - [10/Oct/2000:13:55:36 +0000] {near}"));
        }
    }
}
