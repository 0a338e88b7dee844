//! The documents that follow from the rows: the manual page `daytable.toml(5)` (`daytable man`), the reference (`daytable config --reference`, `docs/reference/configuration.md`) and
//! the sample (`daytable config`, `config/daytable.toml`).

use super::key::{KeyDoc, Reload, SectionDoc, SectionPlace};
use super::parts::sections;
use std::fmt::Write;

/// Characters of a line of the sample.
const WIDTH: usize = 120;

const REFERENCE_HEAD: &str = "# Configuration\n\n<!-- Generated: `daytable config --reference`. A test compares it. -->\n\n\
    One TOML file, `/etc/daytable/daytable.toml` as installed. `daytable config` prints every key with its default. `daytable check --config FILE` \
    reports problems with their lines. A variable of the [environment](environment.md) can replace each key.\n\n\
    Durations and sizes have units: ms, s, m, h, d, w, and B, KiB, MiB, GiB (1024), KB, MB, GB (1000). An unknown key is an error.\n\n\
    *Reload* is the effect of `systemctl reload daytable` on a running daemon: **live** applies the key at once, **new** applies it to connections that \
    open later, **restart** applies it at the next start; the answer names such keys.\n";

const SAMPLE_HEAD: &str = "The configuration of daytable: every key, with its default.\n\n\
    A line that begins with \"#\" and a key (\"#keep = …\") has the default of the key, or an example where it has none. To set it, remove \
    the \"#\" of the key, and that of its [section]. A block of a page of the guide can stand at the end of this file as it is. \
    Only the sources are set here: without a block such as [[tail]], daytable reads nothing.\n\n\
    Durations and sizes have units: ms, s, m, h, d, w, and B, KiB, MiB, GiB (1024), KB, MB, GB (1000). An unknown key is an error. \
    `daytable check --config FILE` reports problems with their lines.\n\n\
    This file is generated (`daytable config`). A test compares it.";

const MANUAL_HEAD: &str = "One TOML file. `daytable check` reports problems with their lines. A variable of the environment can replace each key: \
    DAYTABLE_, the section, and the key in capitals.\nDurations and sizes have units: ms, s, m, h, d, w, and B, KiB, MiB, GiB (1024), KB, MB, GB (1000). \
    An unknown key is an error.";

/// The reference, as Markdown.
pub fn reference() -> String {
    let mut page = REFERENCE_HEAD.to_owned();
    for section in sections() {
        let prefix = section.bare_name().to_uppercase();
        let (title, variables) = match section.place {
            SectionPlace::Top => ("At the top".into(), Some("`DAYTABLE_`".into())),
            SectionPlace::Inline => (format!("`{}` of {}", section.name, section.within), None),
            SectionPlace::Table => (format!("`{}`", section.name), Some(format!("`DAYTABLE_{prefix}_`"))),
            SectionPlace::Blocks { .. } => {
                (format!("`{}`", section.name), Some(format!("`DAYTABLE_{prefix}_0_` (the number of the block)")))
            }
        };
        // Writing to a text cannot fail.
        let _ = write!(page, "\n## {title}\n\n");
        if !section.about.is_empty() {
            let _ = write!(page, "{}\n\n", markdown(section.about));
        }
        if let Some(variables) = variables {
            let _ = write!(page, "Variables: {variables} and the key in capitals.\n\n");
        }
        page.push_str("| key | takes | default | reload |\n|---|---|---|---|\n");
        for key in &section.keys {
            let _ = writeln!(page, "| `{}` | {} | {} | {} |", key.name, cell(&key.takes), default(key), reload(key));
        }
        for key in &section.keys {
            let _ = write!(page, "\n**`{}`**: {}\n", key.name, markdown(key.about));
        }
    }
    page
}

/// A list of an about text is a list of Markdown.
fn markdown(text: &str) -> String {
    let is_item = |line: &str| line.starts_with("- ");
    let mut page = String::new();
    for (index, line) in text.lines().enumerate() {
        let is_next_item = is_item(line) && text.lines().nth(index.wrapping_sub(1)).is_some_and(is_item);
        page.push_str(if index == 0 {
            ""
        } else if is_next_item {
            "\n"
        } else {
            "\n\n"
        });
        page.push_str(line);
    }
    page
}

/// A cell of a table, in which no character ends the cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn default(key: &KeyDoc) -> String {
    match &key.default {
        _ if key.is_required => "required".into(),
        Some(default) => format!("`{}`", cell(default)),
        None => "–".into(),
    }
}

fn reload(key: &KeyDoc) -> &'static str {
    match key.reload {
        Reload::Live => "live",
        Reload::NewConnections => "new",
        Reload::Restart => "restart",
    }
}

/// The manual page `daytable.toml(5)`, in the language of `man`.
pub fn manual_page() -> String {
    let mut page = format!(
        ".TH DAYTABLE.TOML 5 \"\" \"daytable {}\"\n.SH NAME\ndaytable.toml \\- configuration of daytable\n.SH DESCRIPTION\n",
        env!("CARGO_PKG_VERSION")
    );
    page.push_str(&roff(MANUAL_HEAD));
    for section in sections() {
        let within =
            if section.within.is_empty() { String::new() } else { format!(" OF {}", section.within.replace('`', "")) };
        let title = if section.place == SectionPlace::Top { "TOP OF THE FILE" } else { section.name };
        // Writing to a text cannot fail.
        let _ = write!(page, ".SH \"{}{within}\"\n{}", title.to_uppercase(), roff(section.about));
        for key in &section.keys {
            let default = match &key.default {
                _ if key.is_required => "required".into(),
                Some(default) => format!("default {default}"),
                None => "no default".into(),
            };
            let head = format!("{}, {default}", key.takes);
            let _ = write!(page, ".TP\n.B {}\n({})\n.br\n{}", key.name, roff(&head).trim_end(), roff(key.about));
            let _ = writeln!(page, "A reload applies this key {}.", reload_text(key.reload));
        }
    }
    page.push_str(
        ".SH FILES\n.TP\n.I /etc/daytable/daytable.toml\nthe installed configuration\n.TP\n.I /var/lib/daytable\nthe data folder\n\
         .SH EXAMPLES\n.EX\ndaytable config > daytable.toml\ndaytable check daytable.toml\nsystemctl reload daytable\n.EE\n\
         .SH SEE ALSO\n.BR daytable (1),\n.BR daytable\\-check (1),\n.BR daytable\\-config (1)\n",
    );
    page
}

const fn reload_text(reload: Reload) -> &'static str {
    match reload {
        Reload::Live => "at once",
        Reload::NewConnections => "to connections that open later",
        Reload::Restart => "only at the next start",
    }
}

/// A text whose characters mean themselves in a manual page, each paragraph on its own.
fn roff(text: &str) -> String {
    let line = |line: &str| {
        let line = line.replace('\\', "\\e").replace('-', "\\-").replace('`', "");
        let guard = if line.starts_with(['.', '\'']) { "\\&" } else { "" };
        format!("{guard}{line}\n")
    };
    text.lines().filter(|line| !line.is_empty()).map(line).collect::<Vec<_>>().join(".br\n")
}

/// The sample: every key with its text and its default.
pub fn sample() -> String {
    let mut sample = comment(SAMPLE_HEAD);
    for section in sections().iter().filter(|section| section.place != SectionPlace::Inline) {
        let is_set = section.place == SectionPlace::Blocks { in_sample: true };
        let is_spaced = section.place != SectionPlace::Blocks { in_sample: false };
        sample.push('\n');
        sample.push_str(&comment(section.about));
        sample.push_str(&around(section, section.before));
        if section.place != SectionPlace::Top {
            let _ = writeln!(sample, "{}{}", if is_set { "" } else { "#" }, section.name);
        }
        let own = section.keys.iter().filter(|key| !is_around(section, key.name));
        for (index, key) in own.enumerate() {
            let value = match (key.in_sample, &key.default) {
                (Some(value), _) if is_set || section.place == SectionPlace::Top => format!("{} = {value}", key.name),
                (_, Some(default)) => format!("#{} = {default}", key.name),
                (_, None) => format!("#{} = {}", key.name, key.example.unwrap_or_default()),
            };
            let gap = if index > 0 && is_spaced { "\n" } else { "" };
            let _ = writeln!(sample, "{gap}{}{value}", comment(&about(key)));
        }
        if !section.after.is_empty() {
            let _ = write!(sample, "\n{}", around(section, section.after));
        }
    }
    sample
}

/// Whether the text about a key is in the blocks before or after the section's own.
fn is_around(section: &SectionDoc, key: &str) -> bool {
    [section.before, section.after].iter().any(|blocks| blocks.lines().any(|line| is_place_of(line, key)))
}

fn is_place_of(line: &str, key: &str) -> bool {
    line.strip_prefix('{').and_then(|line| line.strip_suffix('}')) == Some(key)
}

/// The blocks before or after the section's own, with the texts about their keys.
fn around(section: &SectionDoc, blocks: &str) -> String {
    let line = |line: &str| match section.keys.iter().find(|key| is_place_of(line, key.name)) {
        Some(key) => comment(&about(key)),
        None => format!("{line}\n"),
    };
    blocks.lines().map(line).collect()
}

/// The text about a key, with its limits or words.
fn about(key: &KeyDoc) -> String {
    let has_limits = ["from", "a whole", "\""].iter().any(|start| key.takes.starts_with(start));
    if has_limits { format!("{} Takes {}.", key.about, key.takes) } else { key.about.into() }
}

/// A text as comments of [`WIDTH`] characters.
fn comment(text: &str) -> String {
    let mut lines = String::new();
    for paragraph in text.lines() {
        let mut line = String::from("#");
        for word in paragraph.split(' ').filter(|word| !word.is_empty()) {
            if line.chars().count() + 1 + word.chars().count() > WIDTH {
                lines.push_str(&line);
                lines.push('\n');
                line = String::from("#");
            }
            line.push(' ');
            line.push_str(word);
        }
        lines.push_str(&line);
        lines.push('\n');
    }
    lines
}

/// The sample with the keys set that have no default.
pub fn sample_with_every_key() -> String {
    let sample = sample();
    let set = |line: &str| match line.strip_prefix('#') {
        Some(key) if key.starts_with(|c: char| c.is_ascii_lowercase() || c == '[') => key.to_owned(),
        _ => line.to_owned(),
    };
    sample.lines().map(set).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str) -> String {
        std::fs::read_to_string(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap_or_default()
    }

    #[test]
    fn the_reference_is_the_generated_one() {
        let is_same = file("docs/reference/configuration.md") == reference();
        assert!(is_same, "run: daytable config --reference >docs/reference/configuration.md");
    }

    #[test]
    fn the_sample_is_the_generated_one() {
        assert!(file("config/daytable.toml") == sample(), "run: daytable config >config/daytable.toml");
    }

    #[test]
    fn the_manual_page_has_every_key_and_no_line_that_man_takes_for_a_command() {
        let page = manual_page();
        for key in sections().iter().flat_map(|section| &section.keys) {
            assert!(page.contains(&format!("\n.B {}\n", key.name)), "{}", key.name);
        }
        let known = [".TH", ".SH", ".TP", ".B", ".br", ".I", ".EX", ".EE", ".BR"];
        for line in page.lines().filter(|line| line.starts_with(['.', '\''])) {
            assert!(known.contains(&line.split(' ').next().unwrap_or_default()), "{line}");
        }
        assert_eq!(roff(".a\n\nb-`c`\\d"), "\\&.a\n.br\nb\\-c\\ed\n");
    }

    #[test]
    fn every_key_has_a_text() {
        for section in sections() {
            for key in &section.keys {
                assert!(key.about.ends_with(['.', '}', 'p']) && !key.takes.is_empty(), "{} {}", section.name, key.name);
            }
        }
    }
}
