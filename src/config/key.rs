//! The declarative table of the configuration: one [`ConfigKey`] a row, one list of rows a section.
//!
//! ```text
//!                              +-> section        the value is read into the options of its part
//! keys() of a section --------+-> environment    the names that variables may have
//!   (http, tail, …)            +-> changes        the keys that a reload finds changed
//!                              +-> reference      docs/reference/configuration.md
//!                              +-> sample         config/daytable.toml
//! ```
//!
//! **A new key** needs two edits: the field, with its default, in the options of its part, and a row in `keys()` of its
//! section. `just docs` then writes the generated files anew; tests compare them. A row has the name, the type with its
//! limits, the field, and an example if the key has no default. The default is that of the field.
//!
//! A row ends with the effect of a reload and the text for people: [`live`](KeyDraft::live),
//! [`for_new_connections`](KeyDraft::for_new_connections) or [`at_restart`](KeyDraft::at_restart). A row without an effect
//! does not compile. A reload keeps the values of keys that need a restart; the part has to apply all other keys, by way of
//! `daemon::reload`.

use super::section::{Section, quoted_words};
use daytable_model::units::{ByteSize, show_duration};
use std::fmt::Display;
use std::num::NonZeroU16;
use std::ops::RangeInclusive;
use std::time::Duration;

/// How a running daemon applies a changed key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reload {
    /// At once.
    Live,
    /// For connections that open later.
    NewConnections,
    /// At the next start.
    Restart,
}

/// What the reference and the sample say about a key.
pub(super) struct KeyDoc {
    pub(super) name: &'static str,
    /// The accepted values, in words.
    pub(super) takes: String,
    /// The default as TOML, or `None` where the key has none.
    pub(super) default: Option<String>,
    /// A value as TOML for the sample, where there is no default.
    pub(super) example: Option<&'static str>,
    /// The value as TOML that the sample sets.
    pub(super) in_sample: Option<&'static str>,
    /// Whether a section without this key is an error.
    pub(super) is_required: bool,
    pub(super) reload: Reload,
    pub(super) about: &'static str,
}

impl KeyDoc {
    /// A key that its section reads by hand: a part of a small language such as `when`.
    pub(super) fn new(name: &'static str, takes: &str, about: &'static str) -> KeyDoc {
        let takes = takes.into();
        KeyDoc {
            name,
            takes,
            default: None,
            example: None,
            in_sample: None,
            is_required: false,
            reload: Reload::Live,
            about,
        }
    }
}

/// Where a section stands in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SectionPlace {
    /// The keys before the first header.
    Top,
    /// `[name]`
    Table,
    /// `[[name]]`, any number of times. The sample has the block, or has it as a comment.
    Blocks { in_sample: bool },
    /// `name = { … }` within other sections.
    Inline,
}

/// What the reference and the sample say about a section.
pub(super) struct SectionDoc {
    /// As problems name the section: `[http]`, `[[tail]]`, `join`.
    pub(super) name: &'static str,
    /// Inline sections only: the sections that have it.
    pub(super) within: &'static str,
    pub(super) about: &'static str,
    pub(super) place: SectionPlace,
    /// TOML that the sample has before and after the section. A line `{key}` inserts the text about a key, which the section
    /// itself then leaves out.
    pub(super) before: &'static str,
    pub(super) after: &'static str,
    pub(super) keys: Vec<KeyDoc>,
}

impl SectionDoc {
    /// A section whose keys are rows, with the defaults of `options`.
    pub(super) fn new<T: 'static>(
        name: &'static str,
        place: SectionPlace,
        keys: Vec<ConfigKey<T>>,
        options: &mut T,
    ) -> SectionDoc {
        let doc = |key: ConfigKey<T>| KeyDoc { default: (key.default)(options), ..key.doc };
        let keys = keys.into_iter().map(doc).collect();
        SectionDoc { name, within: "", about: "", place, before: "", after: "", keys }
    }

    /// The name without brackets.
    pub(super) fn bare_name(&self) -> &'static str {
        bare(self.name)
    }
}

/// A name without its brackets.
pub(super) fn bare(header: &'static str) -> &'static str {
    header.trim_matches(['[', ']'])
}

/// Reads a key of a section into the options.
type ReadKey<T> = Box<dyn Fn(&mut Section<'_>, &mut T)>;
/// Whether a key differs between two options. Borrows mutably because a field has one accessor only.
type KeyDiffers<T> = Box<dyn Fn(&mut T, &mut T) -> bool>;
/// Gives a key of the second options the value that it has in the first.
type KeepKey<T> = Box<dyn Fn(&mut T, &mut T)>;
/// The value that a key has in the options, as the sample shows it.
type KeyDefault<T> = Box<dyn Fn(&mut T) -> Option<String>>;

/// One key of a section whose options are `T`.
pub(super) struct ConfigKey<T> {
    doc: KeyDoc,
    read: ReadKey<T>,
    differs: KeyDiffers<T>,
    keep: KeepKey<T>,
    default: KeyDefault<T>,
}

/// A row that lacks the effect of a reload and the text for people.
#[must_use]
pub(super) struct KeyDraft<T>(ConfigKey<T>);

impl<T: 'static> KeyDraft<T> {
    /// A key with one field. `read` gives `None` where the key is absent or wrong; the field then stays as it is.
    pub(super) fn new<V: Clone + PartialEq + 'static>(
        name: &'static str,
        takes: impl Into<String>,
        field: impl Fn(&mut T) -> &mut V + Copy + 'static,
        read: impl Fn(&mut Section<'_>) -> Option<V> + 'static,
    ) -> KeyDraft<T> {
        let read = move |section: &mut Section<'_>, options: &mut T| {
            if let Some(value) = read(section) {
                *field(options) = value;
            }
        };
        KeyDraft::by_hand(name, takes, field, read)
    }

    /// A key with a reader of its own.
    pub(super) fn by_hand<V: Clone + PartialEq + 'static>(
        name: &'static str,
        takes: impl Into<String>,
        field: impl Fn(&mut T) -> &mut V + Copy + 'static,
        read: impl Fn(&mut Section<'_>, &mut T) + 'static,
    ) -> KeyDraft<T> {
        let differs = move |before: &mut T, now: &mut T| *field(before) != *field(now);
        KeyDraft::of(name, takes, read, differs, move |before, now| field(now).clone_from(field(before)))
    }

    /// A key with several fields. `keep` gives the second options the value of the first.
    pub(super) fn of(
        name: &'static str,
        takes: impl Into<String>,
        read: impl Fn(&mut Section<'_>, &mut T) + 'static,
        differs: impl Fn(&mut T, &mut T) -> bool + 'static,
        keep: impl Fn(&mut T, &mut T) + 'static,
    ) -> KeyDraft<T> {
        let doc = KeyDoc { takes: takes.into(), ..KeyDoc::new(name, "", "") };
        let (read, differs, keep) = (Box::new(read), Box::new(differs), Box::new(keep));
        KeyDraft(ConfigKey { doc, read, differs, keep, default: Box::new(|_| None) })
    }

    /// The default as TOML. A test compares it with the field.
    pub(super) fn default(self, default: &'static str) -> KeyDraft<T> {
        self.shown(move |_| Some(default.into()))
    }

    pub(super) fn shown(mut self, default: impl Fn(&mut T) -> Option<String> + 'static) -> KeyDraft<T> {
        self.0.default = Box::new(default);
        self
    }

    /// A value for the sample, as TOML.
    pub(super) fn example(mut self, example: &'static str) -> KeyDraft<T> {
        self.0.doc.example = Some(example);
        self
    }

    /// A value for the sample of a key that every block needs.
    pub(super) fn required(mut self, example: &'static str) -> KeyDraft<T> {
        self.0.doc.is_required = true;
        self.in_sample(example)
    }

    /// The value that the sample sets.
    pub(super) fn in_sample(mut self, value: &'static str) -> KeyDraft<T> {
        self.0.doc.in_sample = Some(value);
        self.example(value)
    }

    /// The text about a key that a reload applies at once.
    pub(super) fn live(self, about: &'static str) -> ConfigKey<T> {
        ConfigKey { doc: KeyDoc { about, ..self.0.doc }, ..self.0 }
    }

    /// The text about a key that a reload applies to connections that open later.
    pub(super) fn for_new_connections(self, about: &'static str) -> ConfigKey<T> {
        self.live(about).on_reload(Reload::NewConnections)
    }

    /// The text about a key that only a restart applies.
    pub(super) fn at_restart(self, about: &'static str) -> ConfigKey<T> {
        self.live(about).on_reload(Reload::Restart)
    }
}

impl<T> ConfigKey<T> {
    /// The same row where a reload has another effect.
    pub(super) fn on_reload(mut self, reload: Reload) -> ConfigKey<T> {
        self.doc.reload = reload;
        self
    }
}

/// Reads all keys of a section into `options`.
pub(super) fn read<T>(keys: &[ConfigKey<T>], section: &mut Section<'_>, mut options: T) -> T {
    keys.iter().for_each(|key| (key.read)(section, &mut options));
    options
}

/// The keys that differ, and whether each needs a restart. `now` keeps the values of those from `before`.
pub(super) fn compare<T: Clone>(keys: &[ConfigKey<T>], before: &T, now: &mut T) -> Vec<(&'static str, bool)> {
    // The accessor of a field may create the options that have the field, as those of TLS.
    let (mut before, mut compared) = (before.clone(), now.clone());
    let mut differing = Vec::new();
    for key in keys {
        if (key.differs)(&mut before, &mut compared) {
            let needs_restart = key.doc.reload == Reload::Restart;
            if needs_restart {
                (key.keep)(&mut before, now);
            }
            differing.push((key.doc.name, needs_restart));
        }
    }
    differing
}

/// A text that `read` accepts.
pub(super) fn text<T: 'static, V: Clone + PartialEq + 'static, E: Display>(
    name: &'static str,
    takes: impl Into<String>,
    field: impl Fn(&mut T) -> &mut V + Copy + 'static,
    read: impl Fn(&str) -> Result<V, E> + 'static,
) -> KeyDraft<T> {
    KeyDraft::new(name, takes, field, move |section| section.text(name, &read))
}

/// A text without a default.
pub(super) fn optional_text<T: 'static, V: Clone + PartialEq + 'static, E: Display>(
    name: &'static str,
    takes: impl Into<String>,
    field: impl Fn(&mut T) -> &mut Option<V> + Copy + 'static,
    read: impl Fn(&str) -> Result<V, E> + 'static,
) -> KeyDraft<T> {
    text(name, takes, field, move |text| read(text).map(Some))
}

/// A list of at least `least` texts, each accepted by `read`.
pub(super) fn texts<T: 'static, V: Clone + PartialEq + 'static, E: Display>(
    name: &'static str,
    takes: impl Into<String>,
    least: usize,
    field: impl Fn(&mut T) -> &mut Vec<V> + Copy + 'static,
    read: impl Fn(&str) -> Result<V, E> + 'static,
) -> KeyDraft<T> {
    let key = KeyDraft::new(name, takes, field, move |section| section.texts(name, least, &read));
    if least == 0 { key.default("[]") } else { key }
}

/// One of a closed set of words.
pub(super) fn choice<T: 'static, V: Copy + PartialEq + 'static>(
    name: &'static str,
    field: impl Fn(&mut T) -> &mut V + Copy + 'static,
    choices: &'static [(&'static str, V)],
) -> KeyDraft<T> {
    let word = move |options: &mut T| {
        let default = *field(options);
        choices.iter().find(|(_, choice)| *choice == default).map(|(word, _)| format!("{word:?}"))
    };
    KeyDraft::new(name, quoted_words(choices), field, move |section| section.choice(name, choices)).shown(word)
}

pub(super) fn duration<T: 'static>(
    name: &'static str,
    field: impl Fn(&mut T) -> &mut Duration + Copy + 'static,
    range: RangeInclusive<Duration>,
) -> KeyDraft<T> {
    let takes = format!("from {:?} to {:?}", show_duration(*range.start()), show_duration(*range.end()));
    KeyDraft::new(name, takes, field, move |section| section.duration(name, &range))
        .shown(move |options| Some(format!("{:?}", show_duration(*field(options)))))
}

pub(super) fn size<T: 'static>(
    name: &'static str,
    field: impl Fn(&mut T) -> &mut ByteSize + Copy + 'static,
    range: RangeInclusive<ByteSize>,
) -> KeyDraft<T> {
    KeyDraft::new(name, sizes(&range), field, move |section| section.size(name, &range))
        .shown(move |options| Some(format!("\"{}\"", field(options))))
}

/// A size whose field is a number of bytes.
pub(super) fn bytes<T: 'static>(
    name: &'static str,
    field: impl Fn(&mut T) -> &mut usize + Copy + 'static,
    range: RangeInclusive<ByteSize>,
) -> KeyDraft<T> {
    let read = |size: ByteSize| usize::try_from(size.get()).unwrap_or(usize::MAX);
    KeyDraft::new(name, sizes(&range), field, move |section| section.size(name, &range).map(read))
        .shown(move |options| Some(format!("\"{}\"", ByteSize::new(*field(options) as u64))))
}

/// The sizes of a range, in words.
pub(super) fn sizes(range: &RangeInclusive<ByteSize>) -> String {
    format!("from \"{}\" to \"{}\"", range.start(), range.end())
}

/// A whole number.
pub(super) fn whole<T: 'static, N>(
    name: &'static str,
    field: impl Fn(&mut T) -> &mut N + Copy + 'static,
    range: RangeInclusive<N>,
) -> KeyDraft<T>
where
    N: TryFrom<i64> + PartialOrd + Display + Clone + 'static,
{
    let takes = format!("a whole number from {} to {}", range.start(), range.end());
    KeyDraft::new(name, takes, field, move |section| section.whole(name, &range))
        .shown(move |options| Some(field(options).to_string()))
}

/// A whole number from 1.
pub(super) fn count<T: 'static>(
    name: &'static str,
    field: impl Fn(&mut T) -> &mut NonZeroU16 + Copy + 'static,
    max: u16,
) -> KeyDraft<T> {
    let read = move |section: &mut Section<'_>| section.whole(name, &(1..=max)).and_then(NonZeroU16::new);
    KeyDraft::new(name, format!("a whole number from 1 to {max}"), field, read)
        .shown(move |options| Some(field(options).to_string()))
}

pub(super) fn truth<T: 'static>(
    name: &'static str,
    field: impl Fn(&mut T) -> &mut bool + Copy + 'static,
) -> KeyDraft<T> {
    KeyDraft::new(name, "true or false", field, move |section| section.truth(name))
        .shown(move |options| Some(field(options).to_string()))
}

/// A table within a section. `complete` has the last word; it gets the section to report problems.
pub(super) fn table<T: 'static, V: Clone + PartialEq + 'static>(
    name: &'static str,
    field: impl Fn(&mut T) -> &mut V + Copy + 'static,
    keys: fn() -> Vec<ConfigKey<V>>,
    complete: fn(&Section<'_>, &mut V),
) -> KeyDraft<T> {
    let read_table = move |section: &mut Section<'_>, options: &mut T| {
        let mut section = section.section(name, name);
        let options = field(options);
        keys().iter().for_each(|key| (key.read)(&mut section, options));
        complete(&section, options);
        section.finish();
    };
    let shown = move |options: &mut T| {
        let options = field(options);
        let value = |key: ConfigKey<V>| (key.default)(options).map(|value| format!("{} = {value}", key.doc.name));
        let values: Option<Vec<String>> = keys().into_iter().map(value).collect();
        values.map(|values| format!("{{ {} }}", values.join(", ")))
    };
    KeyDraft::by_hand(name, "a table", field, read_table).shown(shown)
}
