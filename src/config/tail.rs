//! `[[tail]]`: the files to read.

use super::key::{ConfigKey, KeyDraft, bytes, choice, duration, text, texts, truth, whole};
use super::reading;
use super::section::Section;
use super::sources::{BlockSummary, READ_FROM, SourceBlock};
use super::values::or_word;
use daytable_intake::glob::{GlobError, Pattern};
use daytable_intake::tail::{TailOptions, WatchMode};
use daytable_model::units::{ByteSize, parse_duration};
use daytable_parse::ParseOptions;
use std::ops::RangeInclusive;
use std::time::Duration;

const LINE_BYTES: RangeInclusive<ByteSize> = ByteSize::new(1 << 10)..=ByteSize::new(2 << 20);
const POLL: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(60);
const WATCH: [(&str, WatchMode); 2] = [("auto", WatchMode::Auto), ("poll", WatchMode::Poll)];

impl SourceBlock for TailOptions {
    const HEADER: &'static str = "[[tail]]";
    const ABOUT: &'static str = "A set of files. There can be any number of these blocks. The one that is set here leaves out what rsyslog writes from the journal, \
                because [[journal]] reads that.";
    const IS_IN_SAMPLE: bool = true;

    fn new(name: &str, reading: ParseOptions) -> TailOptions {
        TailOptions { reading, ..TailOptions::new(name, Vec::new()) }
    }

    fn keys() -> Vec<ConfigKey<TailOptions>> {
        let mut keys = vec![
            texts("include", "a list of absolute patterns", 1, |tail: &mut TailOptions| &mut tail.include, |pattern| {
                checked(pattern, Pattern::include)
            })
            .required("[\"/var/log/**/*.log\"]")
            .live(
                "The files, as absolute patterns: `*` and `?` match within a name, `**` matches any number of folders, and there are `[ab]` and `{a,b}`. \
                 daytable finds new files within a second.",
            ),
            texts("exclude", "a list of patterns", 0, |tail: &mut TailOptions| &mut tail.exclude, |pattern| {
                checked(pattern, Pattern::exclude)
            })
            .in_sample("[\"/var/log/{auth,cron,daemon,kern,mail,user}.log\"]")
            .live("Files to leave out of `include`, as absolute patterns, or as \"**/\" and the end of the path."),
            text("instance", "a template", |tail: &mut TailOptions| &mut tail.instance, str::parse)
                .default("\"{host}\"")
                .live(
                    "The *instance* of the records: the program or host that wrote them, which decides their partition. {host} is this host, {path} the path of the file, \
                     {stem} its name without folder and extension, {field:NAME} a field of the record (or the host, where the record has no such field). Text may stand between them.",
                ),
            text(
                "fields_from_path",
                "a pattern with fields, or \"off\"",
                |tail: &mut TailOptions| &mut tail.fields_from_path,
                |text| if text == "off" { Ok(None) } else { text.parse().map(Some) },
            )
            .default("\"off\"")
            .live(
                "Fields that the path of a file adds to its records, each written {NAME}, as in \"/var/log/pods/{namespace}_{pod}_{uid}/{container}/*\". \
                 `*` matches any part of a name, `**` any number of folders, and at the end any file below them. A path that does not match adds no fields; \
                 `daytable check` warns of a pattern that no file of `include` can match.",
            ),
            truth("containers", |tail: &mut TailOptions| &mut tail.containers).live(
                "Whether the files are logs of containers. Then `container`, `container_id`, `image`, `compose.project` and `compose.service` are fields of their \
                 records, read from the files that Docker or Podman keeps beside them, and `namespace`, `pod` and `container` of a pod, from its path. \
                 `instance = \"{field:container}\"` names the instances by them.",
            ),
            texts("container_labels", "a list of labels", 0, |tail: &mut TailOptions| &mut tail.container_labels, |text| {
                Ok::<_, String>(text.to_owned())
            })
            .live("Labels of containers that become fields, too, as in [\"team\"]."),
            KeyDraft::by_hand(
                "fields",
                "texts by their names, { NAME = \"…\" }",
                |tail: &mut TailOptions| &mut tail.fields,
                |section, tail| tail.fields = read_fields(section),
            )
            .default("{}")
            .live("Fields that every record of the block gets, as in { node = \"worker-3\" }. A line cannot replace them."),
        ];
        keys.extend(reading::keys(|tail: &mut TailOptions| &mut tail.reading));
        keys.extend([
            choice("read_from", |tail: &mut TailOptions| &mut tail.read_from, &READ_FROM).live(
                "Where daytable begins in files that exist at its first start. It reads files that appear later from their beginning.",
            ),
            text(
                "ignore_older",
                "a duration, or \"off\"",
                |tail: &mut TailOptions| &mut tail.ignore_older,
                |text| or_word("off", text, parse_duration),
            )
            .default("\"off\"")
            .live("Leave out files without a write for this long. \"off\" reads all files."),
            text(
                "unended_after",
                "a duration, or \"off\"",
                |tail: &mut TailOptions| &mut tail.unended_after,
                |text| or_word("off", text, parse_duration),
            )
            .default("\"5s\"")
            .live(
                "A last line without an end becomes a record when its file was quiet for this long. What comes behind it in the same line is a record of its own. \
                 \"off\" waits for the end of the line, in a file that was not rotated away.",
            ),
            bytes("line_bytes_max", |tail: &mut TailOptions| &mut tail.line_bytes_max, LINE_BYTES).live(
                "Bytes of a line. daytable cuts a longer line here, marks the record, and counts it. A JSON object is read as far as it goes, and short members behind the cut are kept.",
            ),
            whole("open_files_max", |tail: &mut TailOptions| &mut tail.open_files_max, 1..=usize::from(u16::MAX))
                .live("Files open at one time. With more files than this, daytable reads them in turns."),
            duration("poll", |tail: &mut TailOptions| &mut tail.poll, POLL).live(
                "How often daytable checks a file that causes no events. It checks a quiet file less and less often, down to once per second. After a minute \
                 of quiet, on a local file system with `watch = \"auto\"`, the kernel reports the next write, and daytable checks twice per minute.",
            ),
            choice("watch", |tail: &mut TailOptions| &mut tail.watch, &WATCH).live(
                "\"auto\" uses the events of the kernel, and polls where there are none. \"poll\" always polls: for network mounts, where writes of other hosts cause no events.",
            ),
        ]);
        keys
    }

    fn complete(&mut self, section: &Section<'_>) -> bool {
        section.require("include", "include = [\"/var/log/*.log\"]");
        true
    }

    fn summary(&self) -> BlockSummary<'_> {
        BlockSummary { header: Self::HEADER, name: &self.name, reading: &self.reading, tls: None }
    }
}

/// The names and values of `fields`.
fn read_fields(section: &mut Section<'_>) -> Vec<(String, String)> {
    let fields = section.source_texts("fields");
    fields.into_iter().map(|field| (field.name.to_owned(), field.text.to_owned())).collect()
}

/// A pattern that `check` accepts, as a text.
fn checked(pattern: &str, check: fn(&str) -> Result<Pattern, GlobError>) -> Result<String, GlobError> {
    check(pattern).map(|pattern| pattern.as_str().to_owned())
}
