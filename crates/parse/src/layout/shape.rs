//! The shapes of the words in a header.

use crate::pairs::is_space;
use crate::scan;
use daytable_model::record::Level;

/// Bytes of a group in brackets; a longer group is text.
const GROUP_BYTES_MAX: usize = 200;
/// Bytes of a name.
const NAME_BYTES_MAX: usize = 160;

/// The kinds of bytes in a word, a bit each.
pub(super) mod kinds {
    pub(in crate::layout) const LOWER: u16 = 1;
    pub(in crate::layout) const UPPER: u16 = 1 << 1;
    pub(in crate::layout) const DIGIT: u16 = 1 << 2;
    pub(in crate::layout) const DOT: u16 = 1 << 3;
    pub(in crate::layout) const DASH: u16 = 1 << 4;
    pub(in crate::layout) const UNDERSCORE: u16 = 1 << 5;
    pub(in crate::layout) const SLASH: u16 = 1 << 6;
    pub(in crate::layout) const COLON: u16 = 1 << 7;
    pub(in crate::layout) const ROUND: u16 = 1 << 8;
    /// `$ @ # * ~ % + < >`
    pub(in crate::layout) const NAMING: u16 = 1 << 9;
    pub(in crate::layout) const BAR: u16 = 1 << 10;
    pub(in crate::layout) const QUOTE: u16 = 1 << 11;
    /// Bytes that names never contain: `= { } " ! ?` and the like.
    pub(in crate::layout) const PROSE: u16 = 1 << 12;
    pub(in crate::layout) const OTHER: u16 = 1 << 13;
}

/// The kind of each byte: a table, because every byte of a header is looked up.
const KIND: [u16; 256] = {
    let mut table = [kinds::OTHER; 256];
    let mut byte = 0u8;
    while byte < 128 {
        table[byte as usize] = match byte {
            b'a'..=b'z' => kinds::LOWER,
            b'A'..=b'Z' => kinds::UPPER,
            b'0'..=b'9' => kinds::DIGIT,
            b'.' => kinds::DOT,
            b'-' => kinds::DASH,
            b'_' => kinds::UNDERSCORE,
            b'/' => kinds::SLASH,
            b':' => kinds::COLON,
            b'(' | b')' => kinds::ROUND,
            b'$' | b'@' | b'#' | b'*' | b'~' | b'%' | b'+' | b'<' | b'>' => kinds::NAMING,
            b'|' => kinds::BAR,
            b'\'' => kinds::QUOTE,
            b'=' | b'{' | b'}' | b'"' | b'!' | b'?' | b';' => kinds::PROSE,
            _ => kinds::OTHER,
        };
        byte += 1;
    }
    table
};

/// The kinds of all bytes in a word.
#[inline]
pub(super) fn kinds_of(word: &str) -> u16 {
    word.bytes().fold(0, |kinds, byte| kinds | KIND[usize::from(byte)])
}

/// A word of a line, or a group in brackets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'a> {
    pub(super) start: usize,
    /// The place after the token and after its mark.
    pub(super) end: usize,
    pub(super) kind: WordKind<'a>,
    /// The kinds of its bytes, without the mark; 0 for a group.
    pub(super) kinds: u16,
    /// The mark at its end: `:` or `,`, else 0.
    pub(super) mark: u8,
    /// How many spaces and tabs follow. A tab counts as two; the end of the line counts as 2.
    pub(super) gap: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WordKind<'a> {
    /// Only digits.
    Number(&'a str),
    /// A separator between parts of a header: `-`, `--`, `---`, `|`, `:`.
    Dash,
    /// The text within brackets, without spaces around it.
    Group(&'a str),
    /// `name[123]`.
    Tagged(&'a str, &'a str),
    /// `file.go:123`.
    Source(&'a str, &'a str),
    /// Any other word.
    Word(&'a str),
}

/// The token that begins at `at`; `None` at a space and at the end of the line.
#[inline]
pub(super) fn token(line: &str, at: usize) -> Option<Token<'_>> {
    let bytes = line.as_bytes();
    let first = *bytes.get(at)?;
    if matches!(first, b'[' | b'(' | b'{' | b'<')
        && let Some(close) = closing(bytes, at)
    {
        let inner = line.get(at + 1..close)?;
        let (mark, end) = mark(bytes, close + 1);
        return Some(Token {
            start: at,
            end,
            kind: WordKind::Group(inner.trim_ascii()),
            kinds: 0,
            mark,
            gap: gap(bytes, end),
        });
    }
    let end = scan::space(bytes, at);
    let gap = gap(bytes, end);
    let word = line.get(at..end).filter(|word| !word.is_empty())?;
    if matches!(first, b'-' | b'|' | b':' | b'=')
        && matches!(word, "-" | "--" | "---" | "|" | "||" | ":" | "::" | "=>" | "->")
    {
        return Some(Token { start: at, end, kind: WordKind::Dash, kinds: 0, mark: 0, gap });
    }
    let (word, mark) = match bytes[end - 1] {
        mark @ (b':' | b',') if word.len() > 1 => (line.get(at..end - 1)?, mark),
        _ => (word, 0),
    };
    let kinds = kinds_of(word);
    Some(Token { start: at, end, kind: kind_of(word, kinds), kinds, mark, gap })
}

fn kind_of(word: &str, kinds: u16) -> WordKind<'_> {
    if kinds == kinds::DIGIT {
        return WordKind::Number(word);
    }
    match word.as_bytes() {
        [.., b']'] => match word.get(..word.len() - 1).and_then(|word| word.split_once('[')) {
            Some((name, pid)) if is_number(pid) && !name.is_empty() => WordKind::Tagged(name, pid),
            _ => WordKind::Word(word),
        },
        [.., b'0'..=b'9' | b')'] if kinds & kinds::DOT != 0 && kinds & (kinds::COLON | kinds::ROUND) != 0 => {
            source(word).map_or(WordKind::Word(word), |(file, line)| WordKind::Source(file, line))
        }
        _ => WordKind::Word(word),
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

/// The bracket that closes the one at `at`; inner brackets of the same kind must be closed too.
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

/// The `:` or `,` at `at` that ends a group, if a space, another group or the end follows, and the place after it.
fn mark(bytes: &[u8], at: usize) -> (u8, usize) {
    match bytes.get(at) {
        Some(mark @ (b':' | b',')) if bytes.get(at + 1).is_none_or(|byte| is_space(*byte) || *byte == b'[') => {
            (*mark, at + 1)
        }
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

/// At least one digit, and at most as many as a process number has.
pub(super) fn is_number(text: &str) -> bool {
    (1..=19).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The level of a single letter in glog, Android and Chrome.
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

/// The level of two letters.
pub(super) fn two_letters(first: u8, second: u8) -> Option<Level> {
    // `In(05)` and `In(166)`, VMware's.
    Some(match (first, second) {
        (b'I', b'n') => Level::Info,
        (b'D', b'b') => Level::Debug,
        (b'N', b'o') => Level::Notice,
        (b'W', b'a') => Level::Warn,
        (b'E', b'r') => Level::Error,
        (b'C', b'r') => Level::Critical,
        (b'A', b'l') => Level::Alert,
        (b'E', b'm') => Level::Fatal,
        // X.Org's: `(EE)`.
        (b'E', b'E') => Level::Error,
        (b'W', b'W') => Level::Warn,
        (b'I', b'I') => Level::Info,
        _ => return None,
    })
}

/// The level of two letters with a number of two or three digits in brackets behind them, and the length: `In(05)`, `Er(163)`.
pub(super) fn before_a_number(text: &[u8]) -> Option<(Level, usize)> {
    let [first, second, b'(', rest @ ..] = text else { return None };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let is_whole = (2..=3).contains(&digits) && matches!(rest[digits..], [b')', b' ', ..]);
    Some((two_letters(*first, *second).filter(|_| is_whole)?, digits + 4))
}

/// The level of a word or a letter at a place for levels.
pub(super) fn level_word(word: &str) -> Option<Level> {
    match word.as_bytes() {
        [byte] => letter(*byte),
        b"NOTE" | b"Note" => Some(Level::Notice),
        _ => Level::from_word(word),
    }
}

/// How much a word looks like the name of a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameShape {
    /// A name in any context: ordinary words are not written this way.
    Surely,
    /// A name, or an ordinary word.
    Perhaps,
    /// Not a name.
    Never,
}

/// Whether a word is written like the name of a component: `dfs.DataNode$Xceiver`, `WindowManager`, `mod::path`.
pub(super) fn name(word: &str) -> NameShape {
    const MARKS: u16 = kinds::DIGIT
        | kinds::DOT
        | kinds::DASH
        | kinds::UNDERSCORE
        | kinds::SLASH
        | kinds::COLON
        | kinds::ROUND
        | kinds::NAMING;
    let bytes = word.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return NameShape::Never };
    let kinds = kinds_of(word);
    let never = !matches!(first, b'A'..=b'Z' | b'a'..=b'z' | b'_' | b'%' | b'$')
        || bytes.len() > NAME_BYTES_MAX
        || kinds & !(MARKS | kinds::LOWER | kinds::UPPER) != 0
        || matches!(last, b'.' | b'/')
        || kinds & kinds::SLASH != 0 && word.contains("//");
    if never {
        NameShape::Never
    } else if kinds & MARKS != 0 || has_hump(bytes) {
        NameShape::Surely
    } else {
        NameShape::Perhaps
    }
}

/// Whether a capital follows a small letter.
fn has_hump(bytes: &[u8]) -> bool {
    bytes.windows(2).any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase())
}

/// Whether a word is a logger's name with dots, and not the name of a file or a host.
pub(super) fn is_dotted(word: &str) -> bool {
    const DOMAINS: [&[u8]; 12] =
        [b"com", b"org", b"net", b"io", b"de", b"fr", b"uk", b"ru", b"cn", b"eu", b"local", b"internal"];
    const EXTENSIONS: [&[u8]; 19] = [
        b"log", b"txt", b"json", b"yaml", b"yml", b"xml", b"conf", b"cfg", b"ini", b"toml", b"html", b"js", b"py",
        b"sh", b"jar", b"service", b"exe", b"dll", b"so",
    ];
    let bytes = word.as_bytes();
    let (mut segments, mut start, mut has_short) = (0, 0, false);
    for at in 0..=bytes.len() {
        let byte = bytes.get(at).copied().unwrap_or(b'.');
        if byte == b'.' {
            let is_name = matches!(bytes.get(start), Some(b'a'..=b'z' | b'A'..=b'Z' | b'_')) && at > start;
            if !is_name {
                return false;
            }
            segments += 1;
            has_short |= at - start == 1;
            if at < bytes.len() {
                start = at + 1;
            }
        } else if KIND[usize::from(byte)]
            & (kinds::LOWER | kinds::UPPER | kinds::DIGIT | kinds::UNDERSCORE | kinds::DASH)
            == 0
            && byte != b'$'
        {
            return false;
        }
    }
    let last = bytes.get(start..).unwrap_or_default();
    match segments {
        0 | 1 => false,
        2 => !has_short && !DOMAINS.contains(&last) && !EXTENSIONS.contains(&last),
        _ => !DOMAINS.contains(&last),
    }
}

/// Only letters, and not all capitals: probably an ordinary word.
pub(super) fn is_plain(kinds: u16) -> bool {
    kinds & !(kinds::LOWER | kinds::UPPER | kinds::QUOTE) == 0 && kinds & kinds::LOWER != 0
}

/// Only capitals.
pub(super) fn is_capital(kinds: u16) -> bool {
    kinds == kinds::UPPER
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_show_which_words_are_names() {
        for (word, expected) in [
            ("dfs.DataNode$Xceiver", NameShape::Surely),
            ("WindowManager", NameShape::Surely),
            ("my_crate::api", NameShape::Surely),
            ("sshd(pam_unix)", NameShape::Surely),
            ("postfix/smtpd", NameShape::Surely),
            ("http", NameShape::Perhaps),
            ("Failed", NameShape::Perhaps),
            ("NETWORK", NameShape::Perhaps),
            ("", NameShape::Never),
            ("10.0.0.1", NameShape::Never),
            ("can't", NameShape::Never),
            ("http://a", NameShape::Never),
            ("/var/log/x", NameShape::Never),
            ("end.", NameShape::Never),
            ("a=b", NameShape::Never),
            ("caf\u{e9}", NameShape::Never),
        ] {
            assert_eq!(name(word), expected, "{word}");
        }
    }

    #[test]
    fn dotted_names_differ_from_files_and_hosts() {
        for (word, expected) in [
            ("db.pool", true),
            ("nova.osapi_compute.wsgi.server", true),
            ("o.e.j.u.log", true),
            ("org.apache.Catalina", true),
            ("word", false),
            ("e.g", false),
            ("example.com", false),
            ("www.example.com", false),
            ("notes.txt", false),
            ("10.0.0.1", false),
            ("v1.2.3", false),
            ("end.", false),
            ("..", false),
        ] {
            assert_eq!(is_dotted(word), expected, "{word}");
        }
    }

    #[test]
    fn tokens_with_their_marks_and_gaps() {
        let kind = |text| token(text, 0).map(|token| (token.kind, token.mark, token.end));
        for (text, expected) in [
            ("[QuorumPeer[myid=1]/0:2181] x", (WordKind::Group("QuorumPeer[myid=1]/0:2181"), 0, 27)),
            ("[ main ]: x", (WordKind::Group("main"), b':', 9)),
            ("[open x", (WordKind::Word("[open"), 0, 5)),
            ("sshd[7]: x", (WordKind::Tagged("sshd", "7"), b':', 8)),
            ("a.go:12: x", (WordKind::Source("a.go", "12"), b':', 8)),
            ("main.c:27:f x", (WordKind::Word("main.c:27:f"), 0, 11)),
            ("12 x", (WordKind::Number("12"), 0, 2)),
            ("--- x", (WordKind::Dash, 0, 3)),
            ("word, x", (WordKind::Word("word"), b',', 5)),
            (": x", (WordKind::Dash, 0, 1)),
        ] {
            assert_eq!(kind(text), Some(expected), "{text}");
        }
        assert!(kind("").is_none());
    }
}
