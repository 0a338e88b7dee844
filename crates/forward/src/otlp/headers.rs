//! The file with the headers of a backend, such as its token: a line has `NAME: VALUE`. Lines that begin with `#`, and empty ones,
//! are skipped. No error has a value.

use daytable_model::path_text::PathText;
use daytable_platform::small_file;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use std::path::Path;

/// Bytes of the file.
const BYTES_MAX: u64 = 64 << 10;
/// Headers that the sender writes itself.
const OWN: [&str; 8] = [
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "host",
    "te",
    "transfer-encoding",
    "user-agent",
];

/// Reads the headers, all of them marked as sensitive.
///
/// # Errors
///
/// The file cannot be read, or a line is not a header. The text names the line.
pub fn read(path: &Path) -> Result<HeaderMap, String> {
    let text = small_file::read_named(path, BYTES_MAX)?;
    parse(&text).map_err(|(line, problem)| format!("{}:{line}: {problem}", path.escaped()))
}

fn parse(text: &str) -> Result<HeaderMap, (usize, String)> {
    let mut headers = HeaderMap::new();
    for (number, line) in (1..).zip(text.lines().map(str::trim)) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (name, value) = line.split_once(':').ok_or_else(|| (number, "must be NAME: VALUE".to_owned()))?;
        let name = HeaderName::from_bytes(name.trim().as_bytes())
            .map_err(|_| (number, "has no name that a header can have before its \":\"".to_owned()))?;
        if OWN.contains(&name.as_str()) {
            return Err((number, format!("{name} is a header that daytable writes")));
        }
        let mut value =
            HeaderValue::from_str(value.trim()).map_err(|_| (number, format!("the value of {name} cannot be sent")))?;
        value.set_sensitive(true);
        headers.append(name, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers() {
        let headers = parse("# a token\nAuthorization: Bearer a:b\n\nX-Scope-OrgID:logs\n").expect("headers");
        assert_eq!(headers["authorization"], "Bearer a:b");
        assert_eq!(headers["x-scope-orgid"], "logs");
        assert!(headers["authorization"].is_sensitive());
        assert!(!format!("{headers:?}").contains("a:b"));
    }

    #[test]
    fn a_line_that_is_none_is_named_without_its_value() {
        for (text, line, named) in [
            ("c2VjcmV0", 1, "NAME: VALUE"),
            ("a: 1\nb c: c2VjcmV0", 2, "no name"),
            ("a: c2VjcmV0\u{1}", 1, "the value of a"),
            ("Content-Type: c2VjcmV0", 1, "content-type"),
        ] {
            let (number, problem) = parse(text).expect_err("an error");
            assert!(number == line && problem.contains(named) && !problem.contains("c2VjcmV0"), "{problem}");
        }
    }
}
