//! The file of credentials: the senders that may push, and the tables for their records.
//!
//! ```toml
//! [[credential]]
//! name = "web"                  # the name in metrics and logs; idempotency keys belong to it
//! token = "…"                   # Authorization: Bearer …; or token_sha256, 64 hex digits
//! tables = ["Log"]              # the only tables for its records
//! tenant = "acme"               # the owner of its records: the property `tenant`, and a condition of `when`
//!
//! [[credential]]
//! name = "filebeat"
//! user = "filebeat"             # Authorization: Basic …
//! password = "…"                # or password_sha256
//! ```
//!
//! The file is separate from the configuration, so that it alone is secret. daytable reads a changed file again, and keeps only
//! digests of tokens and passwords. A problem names the key and the line, and never quotes a value.

use super::error::ConfigError;
use super::load::read_file;
use super::section::{ProblemList, Section};
use super::values;
use daytable_model::key::TableName;
use daytable_model::path_text::PathText;
use sha2::{Digest, Sha256};
use std::fmt;
use std::path::Path;
use toml::de::DeTable;

/// Credentials of one file.
pub const CREDENTIALS_MAX: usize = 1000;
/// Minimum characters of a token: a shorter token can be guessed.
const TOKEN_CHARS_MIN: usize = 16;
/// Minimum characters of a password.
const PASSWORD_CHARS_MIN: usize = 8;

/// A sender that may push.
#[derive(Clone, Debug)]
pub struct CredentialConfig {
    /// The name of the credential; it is unique.
    pub name: String,
    /// The secret that authenticates the sender.
    pub secret: CredentialSecret,
    /// The only tables for its records, or `None` for all tables.
    pub tables: Option<Vec<TableName>>,
    /// The owner of its records.
    pub tenant: Option<String>,
}

/// The digest of a secret. `Debug` does not show it.
#[derive(Clone)]
pub enum CredentialSecret {
    /// SHA-256 of a bearer token.
    Token([u8; 32]),
    /// A user of basic authentication, and SHA-256 of the password.
    Password(String, [u8; 32]),
}

impl CredentialSecret {
    /// Whether one secret authenticates both.
    fn is_same(&self, other: &CredentialSecret) -> bool {
        match (self, other) {
            (CredentialSecret::Token(one), CredentialSecret::Token(other)) => one == other,
            (CredentialSecret::Password(one, _), CredentialSecret::Password(other, _)) => one == other,
            _ => false,
        }
    }
}

impl fmt::Debug for CredentialSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CredentialSecret::Token(_) => "Token(…)",
            CredentialSecret::Password(..) => "Password(…)",
        })
    }
}

/// Reads a file of credentials.
///
/// # Errors
///
/// As those of [`Config::load`](super::Config::load); also a file without credentials, and two credentials of one name.
pub fn load_credentials(path: &Path) -> Result<Vec<CredentialConfig>, ConfigError> {
    parse(&read_file(path)?, &path.text())
}

/// Reads `text` as a file of credentials.
#[cfg(feature = "testing")]
pub(crate) fn parse_text(text: &str) -> Result<Vec<CredentialConfig>, ConfigError> {
    parse(text, "any.toml")
}

fn parse(text: &str, file_name: &str) -> Result<Vec<CredentialConfig>, ConfigError> {
    let problems = ProblemList::new(text);
    let (file, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        problems.add(error.span().map_or(0, |span| span.start), error.message());
    }
    let mut credentials: Vec<CredentialConfig> = Vec::new();
    if errors.is_empty() {
        let mut file = Section::root(file.get_ref(), &problems);
        let sections = file.sections("credential", "[[credential]]");
        if sections.is_empty() {
            file.problem("has no [[credential]]");
        }
        if sections.len() > CREDENTIALS_MAX {
            file.problem(format_args!("has more than {CREDENTIALS_MAX} credentials"));
        }
        for section in sections {
            let at = section.at();
            let Some(credential) = CredentialConfig::read(section) else { continue };
            if credentials.iter().any(|other| other.name == credential.name) {
                problems.add(at, format!("[[credential]]: two are called {:?}", credential.name));
            }
            if let Some(other) = credentials.iter().find(|other| other.secret.is_same(&credential.secret)) {
                let (one, other) = (&credential.name, &other.name);
                problems.add(at, format!("[[credential]]: {one:?} and {other:?} cannot be told apart"));
            }
            credentials.push(credential);
        }
        file.finish();
    }
    let problems: Vec<_> = problems.into_problems(file_name).into_iter().map(|(_, problem)| problem).collect();
    if problems.is_empty() { Ok(credentials) } else { Err(ConfigError::Invalid(problems)) }
}

impl CredentialConfig {
    fn read(mut section: Section<'_>) -> Option<CredentialConfig> {
        let name = section.text("name", values::name);
        section.require("name", "name = \"web\"");
        let secrets = [
            section.secret("token", token).map(CredentialSecret::Token),
            section.secret("token_sha256", digest).map(CredentialSecret::Token),
        ];
        let user = section.text("user", user);
        let password = section.secret("password", password);
        let password = section.secret("password_sha256", digest).or(password);
        let tables = section.texts("tables", 1, TableName::new);
        let tenant = section.text("tenant", tenant);
        let kinds = ["token", "token_sha256", "password", "password_sha256"];
        let given = kinds.into_iter().filter(|kind| section.has(kind)).count();
        if given != 1 {
            section
                .problem("must have one of `token`, `token_sha256`, and `user` with `password` or `password_sha256`");
        }
        let has_password = section.has("password") || section.has("password_sha256");
        if section.has("user") != has_password {
            section.problem("`user` and `password` (or `password_sha256`) go together");
        }
        section.finish();
        let by_password = user.zip(password).map(|(user, password)| CredentialSecret::Password(user, password));
        let secret = secrets.into_iter().flatten().next().or(by_password)?;
        Some(CredentialConfig { name: name?, secret, tables, tenant })
    }
}

fn token(text: &str) -> Result<[u8; 32], String> {
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("must be one word of printable ASCII".into());
    }
    if text.len() < TOKEN_CHARS_MIN {
        return Err(format!("must have {TOKEN_CHARS_MIN} characters at least, for example of `openssl rand -hex 32`"));
    }
    Ok(Sha256::digest(text).into())
}

fn user(text: &str) -> Result<String, &'static str> {
    let is_one = !text.is_empty() && text.len() <= 256 && !text.contains(|c: char| c == ':' || c.is_control());
    if is_one { Ok(text.into()) } else { Err("must have 1 to 256 bytes, without \":\" and control characters") }
}

fn password(text: &str) -> Result<[u8; 32], String> {
    if text.chars().count() < PASSWORD_CHARS_MIN {
        return Err(format!("must have {PASSWORD_CHARS_MIN} characters at least"));
    }
    Ok(Sha256::digest(text).into())
}

fn digest(text: &str) -> Result<[u8; 32], &'static str> {
    let fault = "must be a SHA-256, 64 hex digits, for example of `printf %s SECRET | sha256sum`";
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(fault);
    }
    let mut digest = [0; 32];
    for (at, byte) in digest.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).map_err(|_| fault)?;
    }
    Ok(digest)
}

fn tenant(text: &str) -> Result<String, &'static str> {
    let is_one = !text.is_empty() && text.len() <= 256 && !text.contains(char::is_control);
    if is_one { Ok(text.into()) } else { Err("must have 1 to 256 bytes, without control characters") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_kind_is_read() {
        let credentials = parse(
            "[[credential]]\nname = \"web\"\ntoken = \"0123456789abcdef\"\ntables = [\"Log\", \"Audit\"]\ntenant = \"acme\"\n\
             [[credential]]\nname = \"beat\"\nuser = \"beat\"\npassword = \"correct horse\"\n",
            "f",
        );
        let credentials = credentials.expect("read");
        let names: Vec<_> = credentials.iter().map(|credential| credential.name.as_str()).collect();
        assert_eq!(names, ["web", "beat"]);
        let digest = "9f9f5111f7b27a781f1f1ddde5ebc2dd2b796bfc7365c9c28b548e564176929f";
        let hashed =
            parse(&format!("[[credential]]\nname = \"web\"\ntoken_sha256 = \"{digest}\"\n"), "f").expect("read");
        assert!(credentials[0].secret.is_same(&hashed[0].secret), "a token and its digest are one");
        assert_eq!(credentials[0].tables.as_ref().map(Vec::len), Some(2));
        assert_eq!(credentials[0].tenant.as_deref(), Some("acme"));
        assert!(matches!(&credentials[1].secret, CredentialSecret::Password(user, _) if user == "beat"));
        let shown = format!("{credentials:?}");
        assert!(!shown.contains("9f9f") && !shown.contains("159, 159") && !shown.contains("48, 49"), "{shown}");
    }

    #[test]
    fn what_is_wrong_is_said_without_the_secret() {
        for (block, says) in [
            ("name = \"a\"", "must have one of `token`"),
            ("token = \"0123456789abcdef\"", "`name` is missing"),
            ("name = \"a\"\ntoken = \"hunter2\"", "f:3:9: token: must have 16 characters"),
            ("name = \"a\"\ntoken = \"hunter2 hunter2 hunter2\"", "one word"),
            ("name = \"a\"\ntoken = 72666", "token: must be a text in quotes"),
            ("name = \"a\"\ntoken_sha256 = \"hunter2\"", "64 hex digits"),
            ("name = \"a\"\npassword = \"hunter2hunter2\"", "go together"),
            ("name = \"a\"\nuser = \"a\"\npassword = \"hunter2\"", "must have 8 characters"),
            ("name = \"a\"\nuser = \"a:b\"\npassword = \"hunter2hunter2\"", "without \":\""),
            ("name = \"a\"\nuser = \"a\"", "go together"),
            ("name = \"a\"\nhmac_secret = \"hunter2\"", "must have one of"),
            ("name = \"a\"\ntoken = \"hunter2hunter2hunter2\"\ntoken_sha256 = \"hunter2\"", "must have one of"),
            ("name = \"a\"\ntokn = \"hunter2hunter2hunter2\"", "did you mean \"token\""),
            ("name = \"a\"\ntoken = \"hunter2hunter2hunter2\"\ntables = []", "must have at least 1"),
            ("name = \"a\"\ntoken = \"hunter2hunter2hunter2\"\ntables = [\"1\"]", "tables"),
            ("name = \"a\"\ntoken = \"hunter2hunter2hunter2", "f:3:"),
        ] {
            let text = format!("[[credential]]\n{block}\n");
            let said = parse(&text, "f").expect_err(block).to_string();
            assert!(said.contains(says), "{block}: {said}");
            assert!(!said.contains("hunter2") && !said.contains("72666"), "{said}");
        }
        assert!(parse("", "f").expect_err("none").to_string().contains("has no [[credential]]"));
        let twice = "[[credential]]\nname = \"a\"\ntoken = \"0123456789abcdef\"\n".repeat(2);
        assert!(parse(&twice, "f").expect_err("twice").to_string().contains("two are called \"a\""));
        let alike = twice.replacen("\"a\"", "\"b\"", 1);
        assert!(parse(&alike, "f").expect_err("alike").to_string().contains("\"a\" and \"b\" cannot be told apart"));
        let many: String = (0..=CREDENTIALS_MAX)
            .map(|n| format!("[[credential]]\nname = \"a{n}\"\ntoken = \"0123456789abcdef{n}\"\n"))
            .collect();
        assert!(parse(&many, "f").expect_err("many").to_string().contains("more than 1000"));
    }

    proptest! {
        /// No text panics, and none that is refused shows what stands between quotes.
        #[test]
        fn any_text_is_read_or_refused(key in "[a-z_0-9]{1,14}|token|password", value in "[A-Z]{6,60}") {
            let text = format!("[[credential]]\nname = \"a\"\n{key} = \"{value}\"\n");
            if let Err(error) = parse(&text, "f") {
                prop_assert!(!error.to_string().contains(&value), "{}", error);
            }
        }
    }
}
