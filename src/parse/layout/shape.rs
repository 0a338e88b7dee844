//! What a word of a header looks like.

use crate::parse::pairs::is_space;
use crate::parse::scan;
use crate::record::Level;

/// Bytes of a group in brackets at most; what is longer is text.
const GROUP_BYTES_MAX: usize = 200;
/// Bytes of a name at most.
const NAME_BYTES_MAX: usize = 160;

/// A word of a line, or a group in brackets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'a> {
    pub(super) start: usize,
    /// Behind it, and behind the mark that it has at its end.
    pub(super) end: usize,
    pub(super) kind: Kind<'a>,
    /// `:` or `,` at its end, else 0.
    pub(super) mark: u8,
    /// How many spaces and tabs follow, a tab counted as two, and 2 at the end of the line.
    pub(super) gap: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind<'a> {
    /// Digits and nothing else.
    Number(&'a str),
    /// `-`, `--`, `---`, `|`, `:`: what stands between the parts of a header.
    Dash,
    /// What is within brackets, without the spaces around it.
    Group(&'a str),
    /// `name[123]`.
    Tagged(&'a str, &'a str),
    /// `file.go:123`.
    Source(&'a str, &'a str),
    /// Any other.
    Word(&'a str),
}

/// The token that begins at `at`, which is no space; none at the end of the line.
#[inline]
pub(super) fn token(line: &str, at: usize) -> Option<Token<'_>> {
    let bytes = line.as_bytes();
    let first = *bytes.get(at)?;
    if matches!(first, b'[' | b'(' | b'{' | b'<')
        && let Some(close) = closing(bytes, at)
    {
        let inner = line.get(at + 1..close)?;
        let (mark, end) = mark(bytes, close + 1);
        return Some(Token { start: at, end, kind: Kind::Group(inner.trim_ascii()), mark, gap: gap(bytes, end) });
    }
    let end = scan::space(bytes, at);
    let gap = gap(bytes, end);
    let word = line.get(at..end)?;
    if end - at <= 3 && matches!(word, "-" | "--" | "---" | "|" | "||" | ":" | "::" | "=>" | "->") {
        return Some(Token { start: at, end, kind: Kind::Dash, mark: 0, gap });
    }
    let (word, mark) = match bytes[end - 1] {
        mark @ (b':' | b',') if word.len() > 1 => (line.get(at..end - 1)?, mark),
        _ => (word, 0),
    };
    Some(Token { start: at, end, kind: kind_of(word), mark, gap })
}

fn kind_of(word: &str) -> Kind<'_> {
    let bytes = word.as_bytes();
    match bytes {
        [b'0'..=b'9', ..] if bytes.iter().all(u8::is_ascii_digit) => Kind::Number(word),
        [.., b']'] => match word.get(..word.len() - 1).and_then(|word| word.split_once('[')) {
            Some((name, pid)) if is_number(pid) && !name.is_empty() => Kind::Tagged(name, pid),
            _ => Kind::Word(word),
        },
        [.., b'0'..=b'9'] | [.., b')'] => {
            source(word).map_or(Kind::Word(word), |(file, line)| Kind::Source(file, line))
        }
        _ => Kind::Word(word),
    }
}

/// `file.go:123` or `file.cc(123)`: a file name with an extension of letters, and a line.
pub(super) fn source(word: &str) -> Option<(&str, &str)> {
    let (file, line) = match word.strip_suffix(')') {
        Some(word) => word.rsplit_once('(')?,
        None => word.rsplit_once(':')?,
    };
    let (file, line) = match file.rsplit_once(':') {
        // `file.c:2725:main` and `file.rs:12:5`.
        Some((inner, number)) if is_number(number) => (inner, number),
        _ => (file, line),
    };
    let (stem, extension) = file.rsplit_once('.')?;
    let fits = !stem.is_empty()
        && is_number(line)
        && (1..=5).contains(&extension.len())
        && extension.bytes().all(|byte| byte.is_ascii_alphabetic())
        && file.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-./\\@<>+".contains(&byte));
    fits.then_some((file, line))
}

/// The bracket that closes the one at `at`, with others of its kind between them closed too.
#[inline]
pub(super) fn closing(bytes: &[u8], at: usize) -> Option<usize> {
    let open = bytes[at];
    let close = match open {
        b'[' => b']',
        b'(' => b')',
        b'{' => b'}',
        _ => b'>',
    };
    let mut depth = 0usize;
    for (offset, byte) in bytes.get(at..)?.iter().take(GROUP_BYTES_MAX).enumerate() {
        if *byte == open {
            depth += 1;
        } else if *byte == close {
            depth -= 1;
            if depth == 0 {
                return Some(at + offset);
            }
        } else if *byte == b'\n' {
            return None;
        }
    }
    None
}

/// The `:` or `,` at `at` that ends a token, if a space or nothing follows, and the place behind it.
fn mark(bytes: &[u8], at: usize) -> (u8, usize) {
    match bytes.get(at) {
        Some(mark @ (b':' | b',')) if bytes.get(at + 1).is_none_or(|byte| is_space(*byte)) => (*mark, at + 1),
        _ => (0, at),
    }
}

fn gap(bytes: &[u8], at: usize) -> usize {
    match bytes.get(at..) {
        None | Some([]) => 2,
        Some([b'\t', ..]) => 2,
        Some([b' ', b' ' | b'\t', ..]) => 2,
        Some([b' ', ..]) => 1,
        _ => 0,
    }
}

/// Digits, at least one, and no more than a process number has.
pub(super) fn is_number(text: &str) -> bool {
    (1..=19).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The level that a letter stands for where a letter is a level: glog's, Android's and Chrome's.
pub(super) fn letter(letter: u8) -> Option<Level> {
    Some(match letter {
        b'V' | b'T' => Level::Trace,
        b'D' => Level::Debug,
        b'I' => Level::Info,
        b'N' => Level::Notice,
        b'W' => Level::Warn,
        b'E' => Level::Error,
        b'C' => Level::Critical,
        b'A' => Level::Alert,
        b'F' => Level::Fatal,
        _ => return None,
    })
}

/// What a word can be the name of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    /// Of a component, whatever is around it: no word of a language is written so.
    Surely,
    /// Of a component, or a plain word.
    Perhaps,
    /// Of nothing.
    Never,
}

/// Whether a word is written as the name of a component is: `dfs.DataNode$Xceiver`, `WindowManager`, `mod::path`.
pub(super) fn name(word: &str) -> Name {
    let bytes = word.as_bytes();
    if !matches!(bytes.first(), Some(b'A'..=b'Z' | b'a'..=b'z' | b'_' | b'%' | b'$')) || bytes.len() > NAME_BYTES_MAX {
        return Name::Never;
    }
    let (mut surely, mut before) = (false, 0u8);
    for byte in bytes {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {
                surely |= byte.is_ascii_uppercase() && before.is_ascii_lowercase();
            }
            b'0'..=b'9' | b'_' | b'-' | b'.' | b'$' | b'@' | b'#' | b'*' | b'~' | b'%' | b'+' => surely = true,
            b'/' if before != b'/' => surely = true,
            b':' | b'(' | b')' | b'<' | b'>' => surely = true,
            _ => return Name::Never,
        }
        before = *byte;
    }
    if before == b'.' || before == b'/' {
        return Name::Never;
    }
    if surely { Name::Surely } else { Name::Perhaps }
}

/// Whether a bare word is a name with dots such as loggers have, and not the name of a file or of a host.
pub(super) fn is_dotted(word: &str) -> bool {
    const DOMAINS: [&str; 12] = ["com", "org", "net", "io", "de", "fr", "uk", "ru", "cn", "eu", "local", "internal"];
    const EXTENSIONS: [&str; 19] = [
        "log", "txt", "json", "yaml", "yml", "xml", "conf", "cfg", "ini", "toml", "html", "js", "py", "sh", "jar",
        "service", "exe", "dll", "so",
    ];
    let segments = word.split('.').count();
    let Some((_, last)) = word.rsplit_once('.') else { return false };
    let is_name = |segment: &str| {
        matches!(segment.as_bytes().first(), Some(b'a'..=b'z' | b'A'..=b'Z' | b'_'))
            && segment.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'-'))
    };
    let is_long = segments > 2 || word.split('.').all(|segment| segment.len() > 1);
    let is_other = DOMAINS.contains(&last) || segments == 2 && EXTENSIONS.contains(&last);
    is_long && word.split('.').all(is_name) && !is_other
}

/// Letters only, and not all of them capitals: a word of a language, most likely.
pub(super) fn is_plain(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'\'')
        && word.bytes().any(|byte| byte.is_ascii_lowercase())
}
