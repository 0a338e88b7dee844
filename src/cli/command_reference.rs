//! The command line as a page: `daytable man --reference`, and `docs/reference/commands.md`.

use clap::{Arg, ArgAction, Command};
use std::fmt::Write;

/// Three examples of each command, in the order of the page. `--help`, the manual pages and the page show them.
const EXAMPLES: [(&str, [&str; 3]); 31] = [
    (
        "run",
        [
            "daytable run --config /etc/daytable/daytable.toml",
            "daytable run --data data --tail '/srv/app/*.log' --listen off",
            "daytable run --config daytable.toml --log debug",
        ],
    ),
    ("status", ["daytable status", "daytable status --json", "daytable status --data data"]),
    ("reload", ["daytable reload", "daytable reload --json", "daytable reload --data data"]),
    (
        "check",
        ["daytable check", "daytable check new.toml --access", "daytable check --config /etc/daytable/daytable.toml"],
    ),
    (
        "doctor",
        [
            "daytable doctor",
            "daytable doctor --config /etc/daytable/daytable.toml",
            "daytable doctor --data data --json",
        ],
    ),
    ("config", ["daytable config", "daytable config --reference", "daytable config --log off"]),
    (
        "parse",
        [
            "daytable parse app.log",
            "daytable parse --explain --summary app.log",
            "daytable parse --format syslog app.log",
        ],
    ),
    (
        "import",
        [
            "daytable import --data data app.log app.log.1.gz",
            "daytable import --data data --instance {field:host} app.log",
            "daytable import --config daytable.toml app.log",
        ],
    ),
    (
        "adopt",
        [
            "daytable adopt --dry-run --promtail /var/lib/promtail/positions.yaml",
            "daytable adopt --filebeat /var/lib/filebeat/registry",
            "daytable adopt --keep-known --vector /var/lib/vector/app/checkpoints.json",
        ],
    ),
    (
        "query",
        [
            "daytable query 'status:>=500 | stats by (path) count() n' --since 1d",
            "daytable query refused --instance 'web-*' --since yesterday -C 3",
            "daytable query --level warn --instance web-2 -n 20 --json",
        ],
    ),
    ("open", ["daytable open", "daytable open --data data", "daytable open --url https://logs.example"]),
    (
        "export",
        [
            "daytable export 'level:>=error' --since yesterday --format csv --output errors.csv",
            "daytable export '* | stats by (path) count() n' --format parquet --output paths.parquet",
            "daytable export --raw --source /var/log/app.log --output app.log",
        ],
    ),
    (
        "tail",
        [
            "daytable tail",
            "daytable tail -n 0 --level warn --json",
            "daytable tail level:error --exec /usr/local/bin/act",
        ],
    ),
    ("mcp", ["daytable mcp", "daytable mcp --data data", "daytable mcp --data /var/lib/daytable"]),
    (
        "count",
        [
            "daytable count --by level",
            "daytable count --by level --every 5m --since 1d",
            "daytable count --by level,instance --json",
        ],
    ),
    (
        "sql",
        [
            "daytable sql 'select level, count(*) from logs group by all'",
            "daytable sql --csv 'select time, message from logs where status >= 500'",
            "daytable sql --data data",
        ],
    ),
    ("tables", ["daytable tables", "daytable tables --json", "daytable tables --data data"]),
    ("sources", ["daytable sources", "daytable sources --json", "daytable sources --data data"]),
    (
        "verify",
        [
            "daytable verify",
            "daytable verify --config /etc/daytable/daytable.toml --archives",
            "daytable verify --data data --json",
        ],
    ),
    ("plan", ["daytable plan", "daytable plan --config new.toml", "daytable plan --json"]),
    (
        "archive",
        [
            "daytable archive Log20261120",
            "daytable archive --data data Log20261120",
            "daytable archive --config daytable.toml Log20261120",
        ],
    ),
    (
        "restore",
        [
            "daytable restore Log20261120",
            "daytable restore Log20261120 --keep 12h",
            "daytable restore Log20261120 --as Incident",
        ],
    ),
    (
        "drop",
        [
            "daytable drop Log20261120",
            "daytable drop --older-than 90d --dry-run",
            "daytable drop --yes --without-archive Log20261120",
        ],
    ),
    (
        "backup",
        [
            "daytable backup /mnt/backup/daytable",
            "daytable backup /mnt/backup/daytable --copy",
            "daytable backup --data data /mnt/backup/daytable",
        ],
    ),
    (
        "copy",
        [
            "daytable copy --from /var/lib/daytable --to azure:/run/credentials/azure",
            "daytable copy --from /var/lib/daytable --to azure:/run/credentials/azure --until 1d",
            "daytable copy --from azure:/run/credentials/azure --to data --table Log --since 7d",
        ],
    ),
    (
        "join",
        [
            "daytable join https://logs.example:7878 k3vn-8qzt-x2ma-p7rd",
            "daytable join http://127.0.0.1:7878 k3vn-8qzt-x2ma-p7rd --config daytable.toml",
            "daytable join https://logs.example:7878 k3vn-8qzt-x2ma-p7rd --ca-file /etc/daytable/logs-ca.pem",
        ],
    ),
    (
        "hosts",
        [
            "daytable hosts --data data",
            "daytable hosts invite web-1 --data data",
            "daytable hosts enrol 'node-*' --expires 30d --url https://logs.example:7878",
        ],
    ),
    (
        "repair",
        ["daytable repair", "daytable repair --data data", "daytable repair --data /var/lib/daytable --log info"],
    ),
    (
        "healthcheck",
        [
            "daytable healthcheck",
            "daytable healthcheck --live",
            "daytable healthcheck --timeout 500ms --address 127.0.0.1:7878",
        ],
    ),
    ("man", ["daytable man /usr/share/man/man1", "daytable man target/man", "daytable man --reference"]),
    ("completions", ["daytable completions bash", "daytable completions zsh", "daytable completions fish"]),
];

/// Three commands to begin with, for `daytable --help`.
const FIRST: [&str; 3] = [
    "daytable run --data data --tail '/srv/app/*.log'",
    "daytable query --level error --since 2h",
    "daytable COMMAND --help",
];

const HEAD: &str = "# Command line

<!-- Generated: `daytable man --reference`. A test compares it. -->

`daytable --help` and `daytable COMMAND --help` print the same, `man daytable-COMMAND` as well where the package is installed.
Commands that read open the data folder, beside a running daemon or without one. Commands that write ask the running daemon,
or take the folder's lock. [Exit codes](exit-codes.md) are those of `sysexits.h`.

Every command takes `--log LEVEL`: the least severe level of the program's own messages on standard error (off, error, warn,
info, debug or trace).
";

/// Ends the help of each command in its examples.
pub(super) fn with_examples(command_line: Command) -> Command {
    let examples = |lines: [&str; 3]| format!("Examples:\n  {}", lines.join("\n  "));
    let mut root = command_line.after_help(examples(FIRST));
    for (name, lines) in EXAMPLES {
        // A build without the feature `azure` has fewer commands.
        if root.find_subcommand(name).is_some() {
            root = root.mut_subcommand(name, |command| command.after_help(examples(lines)));
        }
    }
    // What is followed has no end, which the other forms need.
    root.mut_subcommand("tail", |command| {
        let help = "The form of the records: text for people, json, or raw, the bytes as they were read";
        command.mut_arg("format", |format| format.help(help).hide_possible_values(true))
    })
}

/// The page as Markdown.
pub(super) fn reference(command_line: Command) -> String {
    let mut root = with_examples(command_line);
    root.build();
    let mut page = HEAD.to_owned();
    for (name, examples) in EXAMPLES {
        if let Some(command) = root.find_subcommand_mut(name) {
            section(&mut page, command, &examples);
            for part in command.get_subcommands_mut().filter(|part| part.get_name() != "help") {
                part_of_command(&mut page, name, part);
            }
        }
    }
    page
}

/// A command of a command, such as `hosts invite`.
fn part_of_command(page: &mut String, name: &str, part: &mut Command) {
    let usage = part.render_usage().to_string();
    let about = part.get_about().map(ToString::to_string).unwrap_or_default();
    // Writing to a string cannot fail.
    let _ = write!(page, "\n### `{name} {}`\n\n{about}.\n\n```text\n{}\n```\n", part.get_name(), usage.trim());
    arguments_of(page, part);
}

fn section(page: &mut String, command: &mut Command, examples: &[&str]) {
    let usage = command.render_usage().to_string();
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    // Writing to a string cannot fail.
    let _ = write!(page, "\n## `{}`\n\n{about}.\n\n```text\n{}", command.get_name(), usage.trim());
    let _ = write!(page, "\n```\n\nExamples:\n\n```text\n{}\n```\n", examples.join("\n"));
    arguments_of(page, command);
}

/// The arguments of a command as a table.
fn arguments_of(page: &mut String, command: &Command) {
    let arguments: Vec<&Arg> = command.get_arguments().filter(|argument| is_listed(argument)).collect();
    if !arguments.is_empty() {
        page.push_str("\n| argument | meaning | default |\n|---|---|---|\n");
    }
    for argument in arguments {
        let help =
            argument.get_help().map(ToString::to_string).unwrap_or_default().replace('|', "\\|").replace('\n', " ");
        let values: Vec<_> =
            argument.get_possible_values().iter().map(|value| format!("`{}`", value.get_name())).collect();
        let is_hidden = argument.is_hide_possible_values_set();
        let values = if values.is_empty() || is_hidden || !takes_value(argument) {
            String::new()
        } else {
            format!(" ({})", values.join(", "))
        };
        let default: Vec<_> =
            argument.get_default_values().iter().map(|value| format!("`{}`", value.display())).collect();
        let default = if takes_value(argument) { default.join(", ") } else { String::new() };
        let row = format!("| `{}` | {help}{values} | {default}", spelled(argument));
        let _ = writeln!(page, "{} |", row.trim_end());
    }
}

/// Options that every command has are listed once, at the top.
fn is_listed(argument: &Arg) -> bool {
    !argument.is_hide_set() && !matches!(argument.get_id().as_str(), "help" | "log" | "version")
}

fn takes_value(argument: &Arg) -> bool {
    matches!(argument.get_action(), ArgAction::Set | ArgAction::Append)
}

/// An argument as it is typed: `-i, --instance NAME`, `--docker[=DIR]`, `-n N`, `FILE`.
fn spelled(argument: &Arg) -> String {
    let names = argument.get_value_names().unwrap_or_default();
    let names: Vec<&str> = names.iter().map(clap::builder::Str::as_str).collect();
    let flags: Vec<String> =
        [argument.get_short().map(|short| format!("-{short}")), argument.get_long().map(|long| format!("--{long}"))]
            .into_iter()
            .flatten()
            .collect();
    let (flags, value) = (flags.join(", "), names.join(" "));
    let is_optional = argument.get_num_args().is_some_and(|number| number.min_values() == 0);
    match (takes_value(argument), flags.is_empty()) {
        (false, _) => flags,
        (true, true) => value,
        (true, false) if is_optional && argument.is_require_equals_set() => format!("{flags}[={value}]"),
        (true, false) if is_optional => format!("{flags} [{value}]"),
        (true, false) => format!("{flags} {value}"),
    }
}

#[cfg(all(test, feature = "azure"))]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::{CommandFactory, Parser};

    #[test]
    fn the_page_is_the_one_that_is_generated() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/reference/commands.md");
        let page = std::fs::read_to_string(path).unwrap_or_default();
        assert!(page == reference(Cli::command()), "run: daytable man --reference >docs/reference/commands.md");
    }

    #[test]
    fn the_help_of_every_command_ends_in_examples_that_are_accepted() {
        let root = Cli::command();
        let shown = root.get_subcommands().filter(|command| !command.is_hide_set());
        let commands: Vec<&str> = shown.map(Command::get_name).collect();
        assert_eq!(EXAMPLES.map(|(name, _)| name).to_vec(), commands);
        for (name, examples) in EXAMPLES {
            let help = with_examples(Cli::command())
                .find_subcommand_mut(name)
                .expect("a command")
                .render_long_help()
                .to_string();
            for example in examples {
                assert!(help.contains(&format!("  {example}\n")), "{help}");
                assert!(Cli::try_parse_from(shell_words(example)).is_ok(), "{example}");
                assert!(example.starts_with(&format!("daytable {name}")), "{example}");
            }
        }
    }

    /// The words of a line, as a shell splits them at spaces outside of single quotes.
    fn shell_words(line: &str) -> Vec<String> {
        let mut words = vec![String::new()];
        for (number, part) in line.split('\'').enumerate() {
            let mut pieces = part.split(' ');
            if number % 2 == 1 {
                words.last_mut().expect("a word").push_str(part);
                continue;
            }
            words.last_mut().expect("a word").push_str(pieces.next().unwrap_or_default());
            words.extend(pieces.map(str::to_owned));
        }
        words
    }
}
