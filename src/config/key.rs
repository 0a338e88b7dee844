//! The declarative table of the configuration: one [`ConfigKey`] a row, one list of rows a section.
//!
//! ```text
//!                              +-> section        the value is read into the options of its part
//! keys() of a section --------+-> environment    the names that variables may have
//!   (http::keys, tail::keys, …)+-> changes        the keys that a reload finds changed
//!                              +-> reference      docs/reference/configuration.md
//!                              +-> sample         config/daytable.toml
//! ```
//!
//! **A new key** needs two edits: the field, with its default, in the options of its part, and a row in `keys()` of its
//! section. `just docs` then writes the two generated files anew; tests compare them. The row only states what a reload
//! does: `live` if the row says nothing. The part has to do it, by way of `daemon::reload`.
//!
//! A row has the name, the type with its limits, the field, the text for people, and where they differ from the rule: an
//! example (for a key without a default) and the effect of a reload. The default is that of the field.

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
    /// Whether a section without this key is an error.
    pub(super) is_required: bool,
    pub(super) reload: Reload,
    pub(super) about: &'static str,
}

impl KeyDoc {
    /// A key that its section reads by hand: a part of a small language such as `when`.
    pub(super) fn new(name: &'static str, takes: &str, about: &'static str) -> KeyDoc {
        let takes = takes.into();
        KeyDoc { name, takes, default: None, example: None, is_required: false, reload: Reload::Live, about }
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
    /// Blocks of the sample before and after the section's own, as TOML. A line `{key}` stands for the text about a key, which
    /// then is absent from the section's own block.
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
        self.name.trim_matches(['[', ']'])
    }
}

/// Reads a key of a section into the options.
type ReadKey<T> = Box<dyn Fn(&mut Section<'_>, &mut T)>;
/// Whether a key differs between two options. Borrows mutably because a field has one accessor only, and changes neither.
type KeyDiffers<T> = Box<dyn Fn(&mut T, &mut T) -> bool>;
/// The value that a key has in the options, as the sample shows it.
type KeyDefault<T> = Box<dyn Fn(&mut T) -> Option<String>>;

/// One key of a section whose options are `T`.
pub(super) struct ConfigKey<T> {
    doc: KeyDoc,
    read: ReadKey<T>,
    differs: KeyDiffers<T>,
    default: KeyDefault<T>,
}

impl<T: 'static> ConfigKey<T> {
    /// A key with one field. `read` gives `None` where the key is absent or wrong; the field then stays as it is.
    pub(super) fn new<V: PartialEq + 'static>(
        name: &'static str,
        takes: impl Into<String>,
        field: impl Fn(&mut T) -> &mut V + Copy + 'static,
        read: impl Fn(&mut Section<'_>) -> Option<V> + 'static,
    ) -> ConfigKey<T> {
        let read = move |section: &mut Section<'_>, options: &mut T| {
            if let Some(value) = read(section) {
                *field(options) = value;
            }
        };
        ConfigKey::by_hand(name, takes, read, move |before, now| *field(before) != *field(now))
    }

    /// A key with a reader and a comparison of its own.
    pub(super) fn by_hand(
        name: &'static str,
        takes: impl Into<String>,
        read: impl Fn(&mut Section<'_>, &mut T) + 'static,
        differs: impl Fn(&mut T, &mut T) -> bool + 'static,
    ) -> ConfigKey<T> {
        let doc = KeyDoc { takes: takes.into(), ..KeyDoc::new(name, "", "") };
        ConfigKey { doc, read: Box::new(read), differs: Box::new(differs), default: Box::new(|_| None) }
    }

    /// The text for people.
    pub(super) fn about(mut self, about: &'static str) -> ConfigKey<T> {
        self.doc.about = about;
        self
    }

    /// The default as TOML. A test compares it with the field.
    pub(super) fn default(self, default: &'static str) -> ConfigKey<T> {
        self.shown(move |_| Some(default.into()))
    }

    fn shown(mut self, default: impl Fn(&mut T) -> Option<String> + 'static) -> ConfigKey<T> {
        self.default = Box::new(default);
        self
    }

    /// A value for the sample, as TOML.
    pub(super) fn example(mut self, example: &'static str) -> ConfigKey<T> {
        self.doc.example = Some(example);
        self
    }

    /// A value for the sample of a key that every block needs.
    pub(super) fn required(mut self, example: &'static str) -> ConfigKey<T> {
        self.doc.is_required = true;
        self.example(example)
    }

    pub(super) fn on_reload(mut self, reload: Reload) -> ConfigKey<T> {
        self.doc.reload = reload;
        self
    }

    pub(super) fn name(&self) -> &'static str {
        self.doc.name
    }
}

/// Reads all keys of a section into `options`.
pub(super) fn read<T>(keys: &[ConfigKey<T>], section: &mut Section<'_>, mut options: T) -> T {
    keys.iter().for_each(|key| (key.read)(section, &mut options));
    options
}

/// The keys that differ.
pub(super) fn differing<T: Clone>(keys: &[ConfigKey<T>], before: &T, now: &T) -> Vec<(&'static str, Reload)> {
    let (mut before, mut now) = (before.clone(), now.clone());
    let differing = keys.iter().filter(|key| (key.differs)(&mut before, &mut now));
    differing.map(|key| (key.doc.name, key.doc.reload)).collect()
}

/// A text that `read` accepts.
pub(super) fn text<T: 'static, V: PartialEq + 'static, E: Display>(
    name: &'static str,
    takes: impl Into<String>,
    field: impl Fn(&mut T) -> &mut V + Copy + 'static,
    read: impl Fn(&str) -> Result<V, E> + 'static,
) -> ConfigKey<T> {
    ConfigKey::new(name, takes, field, move |section| section.text(name, &read))
}

/// A text without a default.
pub(super) fn optional_text<T: 'static, V: PartialEq + 'static, E: Display>(
    name: &'static str,
    takes: impl Into<String>,
    field: impl Fn(&mut T) -> &mut Option<V> + Copy + 'static,
    read: impl Fn(&str) -> Result<V, E> + 'static,
) -> ConfigKey<T> {
    text(name, takes, field, move |text| read(text).map(Some))
}

/// A list of at least `least` texts, each accepted by `read`.
pub(super) fn texts<T: 'static, V: PartialEq + 'static, E: Display>(
    name: &'static str,
    takes: impl Into<String>,
    least: usize,
    field: impl Fn(&mut T) -> &mut Vec<V> + Copy + 'static,
    read: impl Fn(&str) -> Result<V, E> + 'static,
) -> ConfigKey<T> {
    let key = ConfigKey::new(name, takes, field, move |section| section.texts(name, least, &read));
    if least == 0 { key.default("[]") } else { key }
}

/// One of a closed set of words.
pub(super) fn choice<T: 'static, V: Copy + PartialEq + 'static>(
    name: &'static str,
    field: impl Fn(&mut T) -> &mut V + Copy + 'static,
    choices: &'static [(&'static str, V)],
) -> ConfigKey<T> {
    let word = move |options: &mut T| {
        let default = *field(options);
        choices.iter().find(|(_, choice)| *choice == default).map(|(word, _)| format!("{word:?}"))
    };
    ConfigKey::new(name, quoted_words(choices), field, move |section| section.choice(name, choices)).shown(word)
}

pub(super) fn duration<T: 'static>(
    name: &'static str,
    field: impl Fn(&mut T) -> &mut Duration + Copy + 'static,
    range: RangeInclusive<Duration>,
) -> ConfigKey<T> {
    let takes = format!("from {:?} to {:?}", show_duration(*range.start()), show_duration(*range.end()));
    ConfigKey::new(name, takes, field, move |section| section.duration(name, &range))
        .shown(move |options| Some(format!("{:?}", show_duration(*field(options)))))
}

pub(super) fn size<T: 'static>(
    name: &'static str,
    field: impl Fn(&mut T) -> &mut ByteSize + Copy + 'static,
    range: RangeInclusive<ByteSize>,
) -> ConfigKey<T> {
    ConfigKey::new(name, sizes(&range), field, move |section| section.size(name, &range))
        .shown(move |options| Some(format!("\"{}\"", field(options))))
}

/// A size whose field is a number of bytes.
pub(super) fn bytes<T: 'static>(
    name: &'static str,
    field: impl Fn(&mut T) -> &mut usize + Copy + 'static,
    range: RangeInclusive<ByteSize>,
) -> ConfigKey<T> {
    let read = |size: ByteSize| usize::try_from(size.get()).unwrap_or(usize::MAX);
    ConfigKey::new(name, sizes(&range), field, move |section| section.size(name, &range).map(read))
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
) -> ConfigKey<T>
where
    N: TryFrom<i64> + PartialOrd + Display + Clone + 'static,
{
    let takes = format!("a whole number from {} to {}", range.start(), range.end());
    ConfigKey::new(name, takes, field, move |section| section.whole(name, &range))
        .shown(move |options| Some(field(options).to_string()))
}

/// A whole number from 1.
pub(super) fn count<T: 'static>(
    name: &'static str,
    field: impl Fn(&mut T) -> &mut NonZeroU16 + Copy + 'static,
    max: u16,
) -> ConfigKey<T> {
    let read = move |section: &mut Section<'_>| section.whole(name, &(1..=max)).and_then(NonZeroU16::new);
    ConfigKey::new(name, format!("a whole number from 1 to {max}"), field, read)
        .shown(move |options| Some(field(options).to_string()))
}

pub(super) fn truth<T: 'static>(
    name: &'static str,
    field: impl Fn(&mut T) -> &mut bool + Copy + 'static,
) -> ConfigKey<T> {
    ConfigKey::new(name, "true or false", field, move |section| section.truth(name))
        .shown(move |options| Some(field(options).to_string()))
}

/// A table within a section. `complete` has the last word; it gets the section to report problems.
pub(super) fn table<T: 'static, V: PartialEq + 'static>(
    name: &'static str,
    field: impl Fn(&mut T) -> &mut V + Copy + 'static,
    keys: fn() -> Vec<ConfigKey<V>>,
    complete: fn(&Section<'_>, &mut V),
) -> ConfigKey<T> {
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
    ConfigKey::by_hand(name, "a table", read_table, move |before, now| *field(before) != *field(now)).shown(shown)
}
