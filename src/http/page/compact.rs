//! The script and the style sheet without what only people read: comments, indents, and spaces that part nothing.
//!
//! Names, strings and the order of everything stay. A line break stays unless the character before or after it makes it
//! meaningless, so that no semicolon is inserted elsewhere.

/// A script without comments and needless spaces.
pub(crate) fn script(text: &str) -> String {
    let mut compact = Compact { text, at: 0, out: String::with_capacity(text.len()), gap: Gap::None };
    compact.code();
    compact.out + "\n"
}

/// A style sheet without needless spaces and semicolons. A space parts selectors, and stands around `+` and `-` in `calc`.
pub(crate) fn style(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let is_joined = |c: char| matches!(c, '{' | '}' | ';' | ',');
    for line in text.lines().map(str::trim) {
        let mut quote = None;
        for (at, c) in line.char_indices() {
            let before = out.chars().last().unwrap_or('}');
            let after = line[at..].trim_start().chars().next().unwrap_or(' ');
            let is_value = before == ':' && quote.is_none();
            if c == ' ' && quote.is_none() && (is_joined(before) || is_joined(after) || is_value) {
                continue;
            }
            if matches!(c, '"') {
                quote = if quote.is_none() { Some(c) } else { None };
            }
            if c == '}' && before == ';' {
                out.pop();
            }
            out.push(c);
        }
    }
    out
}

/// What stood between two tokens.
#[derive(Clone, Copy, PartialEq)]
enum Gap {
    None,
    Space,
    Line,
}

struct Compact<'t> {
    text: &'t str,
    at: usize,
    out: String,
    gap: Gap,
}

impl Compact<'_> {
    /// Copies code up to the end, or to a brace that closes more than was opened.
    fn code(&mut self) {
        let mut depth = 0usize;
        while let Some(c) = self.text[self.at..].chars().next() {
            let rest = &self.text[self.at..];
            match c {
                '\n' => self.pass(1, Gap::Line),
                c if c.is_whitespace() => self.pass(c.len_utf8(), Gap::Space),
                '/' if rest.starts_with("//") => self.pass(rest.find('\n').unwrap_or(rest.len()), Gap::None),
                '/' if rest.starts_with("/*") => {
                    self.pass(rest.find("*/").map_or(rest.len(), |end| end + 2), Gap::Space)
                }
                '/' if self.begins_value() => self.copy(regex_end(rest)),
                '"' | '\'' => self.copy(string_end(rest, c)),
                '`' => self.template(),
                '}' if depth == 0 => return,
                _ => {
                    depth = match c {
                        '{' => depth + 1,
                        '}' => depth - 1,
                        _ => depth,
                    };
                    self.copy(c.len_utf8());
                }
            }
        }
    }

    /// Copies a template, and the code within it.
    fn template(&mut self) {
        self.copy(1);
        while let Some(c) = self.text[self.at..].chars().next() {
            let rest = &self.text[self.at..];
            if rest.starts_with("${") {
                self.raw(2);
                self.code();
                self.gap = Gap::None;
                self.raw(1);
                continue;
            }
            self.raw(if c == '\\' { 1 + rest[1..].chars().next().map_or(0, char::len_utf8) } else { c.len_utf8() });
            if c == '`' {
                return;
            }
        }
    }

    /// Whether a value may begin here, so that a slash begins a regular expression.
    fn begins_value(&self) -> bool {
        let before = self.out.trim_end();
        before.ends_with(|c: char| "(,=:[!&|?{};+-*<>".contains(c)) || before.is_empty() || before.ends_with("return")
    }

    fn pass(&mut self, length: usize, gap: Gap) {
        self.at += length;
        if self.gap != Gap::Line && gap != Gap::None {
            self.gap = gap;
        }
    }

    /// Copies `length` bytes without looking at them.
    fn raw(&mut self, length: usize) {
        self.out.push_str(&self.text[self.at..self.at + length]);
        self.at += length;
    }

    /// Copies a token, and what has to stand before it.
    fn copy(&mut self, length: usize) {
        let (before, after) =
            (self.out.chars().last().unwrap_or(';'), self.text[self.at..].chars().next().unwrap_or(';'));
        let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '#');
        match std::mem::replace(&mut self.gap, Gap::None) {
            Gap::Line if !"{(,;[".contains(before) && !"}),.]?:".contains(after) => self.out.push('\n'),
            Gap::Space | Gap::Line if is_word(before) && is_word(after) => self.out.push(' '),
            // `a + +b` is no `a ++b`.
            Gap::Space | Gap::Line if before == after && "+-/".contains(before) => self.out.push(' '),
            _ => {}
        }
        self.raw(length);
    }
}

fn string_end(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    let end = text[1..].find(|c| {
        let found = c == quote && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        found
    });
    end.map_or(text.len(), |end| end + 2)
}

fn regex_end(text: &str) -> usize {
    let (mut is_escaped, mut in_class) = (false, false);
    let end = text[1..].find(|c| {
        let found = c == '/' && !is_escaped && !in_class;
        match c {
            '[' if !is_escaped => in_class = true,
            ']' if !is_escaped => in_class = false,
            _ => {}
        }
        is_escaped = c == '\\' && !is_escaped;
        found
    });
    end.map_or(text.len(), |end| end + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_parts_tokens_stays() {
        for (text, compact) in [
            ("const a = 1;\n\n// A comment.\nlet b = a  + +a;\n", "const a=1;let b=a+ +a;\n"),
            ("return /[/\"] x/u.test(a / 2 / b)", "return/[/\"] x/u.test(a/2/b)\n"),
            ("f(\n  \"a // b\",\n  'it\\'s', /* c */ x\n)\n.then(y)\ng()", "f(\"a // b\",'it\\'s',x).then(y)\ng()\n"),
            ("`a  ${ f({ a: `${b }` }) }  /* no */`", "`a  ${f({a:`${b}`})}  /* no */`\n"),
            ("if (a) return;\nelse b()\nasync function f() {}\n", "if(a)return;else b()\nasync function f(){}\n"),
            ("a\n++b", "a\n++b\n"),
            ("x = (/** @type {any} */ (y)).z", "x=((y)).z\n"),
            ("const é = \"ü  ß\";", "const é=\"ü  ß\";\n"),
        ] {
            assert_eq!(script(text), compact, "{text}");
            assert_eq!(script(compact), compact);
        }
    }

    #[test]
    fn styles_mean_the_same() {
        for (text, compact) in [
            ("a:hover, b { color : red; }\n", "a:hover,b{color :red}"),
            (".a .b > i { width: calc(100% - 28px); }", ".a .b > i{width:calc(100% - 28px)}"),
            ("a::before { content: \"a : b, c\"; }", "a::before{content:\"a : b, c\"}"),
            ("@media (max-width: 719px) {\n  a { b: c d }\n}", "@media (max-width:719px){a{b:c d}}"),
            ("main :first-child { a: b }", "main :first-child{a:b}"),
        ] {
            assert_eq!(style(text), compact);
        }
    }
}
