//! A page of the documents as HTML, for browsers that ask the daemon and no other server.
//!
//! The build script makes it of our own text. It knows what that text has: headings, paragraphs, lists, tables, code in lines and
//! fences, bold text, links. A link to another page of the documents is text, because the daemon does not serve that page.

use std::fmt::Write;

/// The document, with the style of the page.
pub(crate) fn document(markdown: &str) -> String {
    let title = markdown.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or_default();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{} · daytable</title>\n<link rel=\"icon\" href=\"/page/icon.svg\">\n<link rel=\"stylesheet\" href=\"/page/page.css\">\n\
         </head>\n<body class=\"document\">\n<main>\n{}</main>\n</body>\n</html>\n",
        escaped(title),
        blocks(markdown)
    )
}

fn blocks(markdown: &str) -> String {
    let mut out = String::new();
    let mut lines = markdown.lines().peekable();
    while let Some(line) = lines.next() {
        // How an example is tested, and space between blocks.
        if line.trim().is_empty() || line.starts_with("<!--") {
            continue;
        }
        if line.starts_with("```") {
            let code: Vec<&str> = lines.by_ref().take_while(|line| !line.starts_with("```")).collect();
            let _ = writeln!(out, "<pre tabindex=\"0\">{}</pre>", escaped(&code.join("\n")));
        } else if let Some((depth, text)) = heading(line) {
            let _ = writeln!(out, "<h{depth} id=\"{}\">{}</h{depth}>", anchor(text), inline(text));
        } else if line.starts_with('|') {
            let mut rows = vec![line];
            while let Some(row) = lines.next_if(|line| line.starts_with('|')) {
                rows.push(row);
            }
            out.push_str(&table(&rows));
        } else {
            let is_list = |line: &str| line.starts_with("* ") || line.starts_with("- ");
            let mut text = vec![line];
            let begins = |line: &str| {
                line.trim().is_empty() || line.starts_with("```") || line.starts_with('|') || heading(line).is_some()
            };
            while let Some(more) = lines.next_if(|next| !begins(next) && (is_list(line) || !is_list(next))) {
                text.push(more);
            }
            if is_list(line) {
                let mut items: Vec<String> = Vec::new();
                for line in text {
                    match items.last_mut() {
                        Some(item) if !is_list(line) => *item = format!("{item} {}", line.trim()),
                        _ => items.push(line[2..].into()),
                    }
                }
                let items: String = items.iter().map(|item| format!("<li>{}</li>", inline(item))).collect();
                let _ = writeln!(out, "<ul>{items}</ul>");
            } else {
                let _ = writeln!(out, "<p>{}</p>", inline(&text.join(" ")));
            }
        }
    }
    out
}

fn heading(line: &str) -> Option<(usize, &str)> {
    let text = line.trim_start_matches('#');
    let depth = line.len() - text.len();
    Some((depth, text.strip_prefix(' ')?)).filter(|(depth, _)| (1..=4).contains(depth))
}

/// The name of a heading in links.
fn anchor(text: &str) -> String {
    let kept = text.to_lowercase().replace(' ', "-");
    kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect()
}

fn table(rows: &[&str]) -> String {
    let mut out = String::from("<div class=\"scroll\" tabindex=\"0\"><table class=\"rows\">\n");
    for (at, row) in rows.iter().enumerate().filter(|(at, _)| *at != 1) {
        let cell = if at == 0 { "th" } else { "td" };
        let cells: String = cells(row).iter().map(|text| format!("<{cell}>{}</{cell}>", inline(text))).collect();
        let _ = writeln!(out, "<tr>{cells}</tr>");
    }
    out + "</table></div>\n"
}

/// The cells of a row. A `\|` is a sign within a cell.
fn cells(row: &str) -> Vec<String> {
    let inner = row.trim().trim_start_matches('|');
    let inner = inner.strip_suffix('|').unwrap_or(inner);
    inner.replace("\\|", "\0").split('|').map(|cell| cell.trim().replace('\0', "|")).collect()
}

/// Text with code, bold text and links.
fn inline(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['`', '*', '[']) {
        out.push_str(&escaped(&rest[..at]));
        rest = &rest[at..];
        if let Some((code, after)) = rest.strip_prefix('`').and_then(|rest| rest.split_once('`')) {
            // A code with a backtick within has two around it.
            let (code, after) = match code.is_empty() {
                true => after.split_once("``").unwrap_or((code, after)),
                false => (code, after),
            };
            let _ = write!(out, "<code>{}</code>", escaped(code.trim()));
            rest = after;
        } else if let Some((bold, after)) = rest.strip_prefix("**").and_then(|rest| rest.split_once("**")) {
            let _ = write!(out, "<b>{}</b>", inline(bold));
            rest = after;
        } else if let Some((name, target, after)) = link(rest) {
            match target.starts_with('#') || target.starts_with("https://") {
                true => {
                    let _ = write!(out, "<a href=\"{}\" rel=\"noreferrer\">{}</a>", escaped(target), inline(name));
                }
                false => out.push_str(&inline(name)),
            }
            rest = after;
        } else {
            let (sign, after) = rest.split_at(1);
            out.push_str(sign);
            rest = after;
        }
    }
    out + &escaped(rest)
}

/// The name and the target of a link, and what follows.
fn link(text: &str) -> Option<(&str, &str, &str)> {
    let (name, after) = text.strip_prefix('[')?.split_once("](")?;
    let (target, after) = after.split_once(')')?;
    (!name.contains(['[', ']'])).then_some((name, target, after))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_documents_have_becomes_elements() {
        for (markdown, html) in [
            ("# A <b>\n\ntext of\ntwo lines", "<h1 id=\"a-b\">A &lt;b&gt;</h1>\n<p>text of two lines</p>\n"),
            (
                "<!-- not run: x -->\n```sh\na <b> | c\n\n# d\n```\nx",
                "<pre tabindex=\"0\">a &lt;b&gt; | c\n\n# d</pre>\n<p>x</p>\n",
            ),
            ("* one\n  more\n* `two`\n\nx", "<ul><li>one more</li><li><code>two</code></li></ul>\n<p>x</p>\n"),
            (
                "**B** of `**no**` [c](#d) [e](f.md) [g](https://h/?i&j) 2 * 3 [k]",
                "<p><b>B</b> of <code>**no**</code> <a href=\"#d\" rel=\"noreferrer\">c</a> e <a href=\"https://h/?i&amp;j\" rel=\"noreferrer\">g</a> 2 * 3 [k]</p>\n",
            ),
            ("`` a`b `` c", "<p><code>a`b</code> c</p>\n"),
        ] {
            assert_eq!(blocks(markdown), html, "{markdown}");
        }
        let table = blocks("| a | b |\n|---|--:|\n| `x \\| y` | 2 |");
        assert!(
            table.contains("<tr><th>a</th><th>b</th></tr>\n<tr><td><code>x | y</code></td><td>2</td></tr>"),
            "{table}"
        );
    }

    /// Nothing of the text is lost, and every link within the page has its place.
    #[test]
    fn the_page_of_the_language_is_whole() {
        let text = super::super::bundle::LANGUAGE;
        let html = document(text);
        assert!(html.contains("<title>Query language · daytable</title>"));
        for heading in text.lines().filter_map(|line| line.strip_prefix("## ")) {
            assert!(html.contains(&format!("<h2 id=\"{}\">", anchor(heading))), "{heading}");
        }
        for target in html.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()) {
            assert!(html.contains(&format!("id=\"{target}\"")), "{target}");
        }
        let rows = text.lines().filter(|line| line.starts_with('|')).count();
        let heads = html.matches("<table").count();
        assert_eq!(html.matches("<tr>").count(), rows - heads, "a row of signs below each head");
        let shown: String =
            html.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
        for code in text.split("```console\n").skip(1).filter_map(|rest| rest.split("```").next()) {
            assert!(shown.contains(code.trim_end()), "{code}");
        }
    }
}
