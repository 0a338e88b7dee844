//! The blocks of sources, `[[tail]]`, `[[syslog]]` and `[[journal]]`: their list, and what the kinds share.
//!
//! A new kind of source is a file with `impl SourceBlock` for the options of the source, and a line in the list of
//! [`SourceBlocks`]. No two blocks have the same name.

use super::changes::Changes;
use super::key::{self, ConfigKey, KeyDraft, SectionDoc, SectionPlace, bare};
use super::section::Section;
use super::values;
use daytable_intake::journal::JournalOptions;
use daytable_intake::source::ReadFrom;
use daytable_intake::syslog::SyslogOptions;
use daytable_intake::tail::TailOptions;
use daytable_net::tls::TlsOptions;
use daytable_parse::ParseOptions;
use daytable_parse::redact::{Redaction, Redactor};

pub(super) const READ_FROM: [(&str, ReadFrom); 2] = [("beginning", ReadFrom::Beginning), ("end", ReadFrom::End)];

/// The options of one block.
pub(super) trait SourceBlock: Clone + PartialEq + 'static {
    /// The name of the section with its brackets. Without them it is also the name of the first block that has no name.
    const HEADER: &'static str;
    const ABOUT: &'static str;
    /// Whether the sample has the block, or has it as a comment.
    const IS_IN_SAMPLE: bool = false;
    /// Blocks of the sample after the first one; see [`SectionDoc::after`].
    const AFTER: &'static str = "";

    /// The options that a block begins with.
    fn new(name: &str, reading: ParseOptions) -> Self;

    /// All keys except `name`.
    fn keys() -> Vec<ConfigKey<Self>>;

    /// Checks a block as a whole. A block that is not accepted is left out; a problem is reported for it.
    fn complete(&mut self, _section: &Section<'_>) -> bool {
        true
    }

    /// Why the block cannot be beside another one of its kind.
    fn conflict(&self, _other: &Self) -> Option<String> {
        None
    }

    fn summary(&self) -> BlockSummary<'_>;
}

/// What the blocks of every kind have.
#[derive(Clone, Copy)]
pub struct BlockSummary<'a> {
    /// `[[tail]]`
    pub header: &'static str,
    /// The name, which no other block has.
    pub name: &'a str,
    /// How its records are parsed.
    pub reading: &'a ParseOptions,
    /// The files of a listener with TLS.
    pub tls: Option<&'a TlsOptions>,
}

macro_rules! source_blocks {
    ($($field:ident: $options:ty,)*) => {
        /// The blocks of all sources.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct SourceBlocks {
            $(
                /// The blocks of this kind, in the order of the file.
                pub $field: Vec<$options>,
            )*
        }

        impl SourceBlocks {
            /// All blocks, kind by kind.
            pub fn all(&self) -> impl Iterator<Item = BlockSummary<'_>> {
                std::iter::empty()$(.chain(self.$field.iter().map(SourceBlock::summary)))*
            }

            /// What the documents say about the kinds, in their order.
            pub(super) fn docs() -> Vec<SectionDoc> {
                vec![$(doc::<$options>()),*]
            }

            /// The blocks of a file. `redact` are the patterns of the whole file; a block adds its own.
            pub(super) fn read(file: &mut Section<'_>, redact: &[Redaction]) -> SourceBlocks {
                let mut names = Vec::new();
                SourceBlocks { $($field: read(file, redact, &mut names)),* }
            }

            /// Adds the changes from `before`.
            pub(super) fn compare(&mut self, before: &SourceBlocks, changes: &mut Changes) {
                $(compare(&before.$field, &mut self.$field, changes);)*
            }
        }
    };
}

source_blocks! {
    tails: TailOptions,
    syslogs: SyslogOptions,
    journals: JournalOptions,
}

fn doc<T: SourceBlock>() -> SectionDoc {
    let name = KeyDraft::by_hand("name", "letters, digits, \"-\", \"_\" and \".\"", |options: &mut T| options, |_, _| ())
        .shown(|_| Some(format!("{:?}", bare(T::HEADER))))
        .live(
            "The name of the block, which metrics have as the label `source`. daytable stores positions under this name. A block without a name is called like its \
             kind; the next one has a number, as in \"tail-2\".",
        );
    let keys = std::iter::once(name).chain(T::keys()).collect();
    let place = SectionPlace::Blocks { in_sample: T::IS_IN_SAMPLE };
    let doc = SectionDoc::new(T::HEADER, place, keys, &mut T::new(bare(T::HEADER), ParseOptions::default()));
    SectionDoc { about: T::ABOUT, after: T::AFTER, ..doc }
}

/// The blocks of one kind. `names` are the names of the blocks before them.
fn read<T: SourceBlock>(file: &mut Section<'_>, redact: &[Redaction], names: &mut Vec<String>) -> Vec<T> {
    let (keys, mut blocks, mut unnamed) = (T::keys(), Vec::new(), 0);
    for mut section in file.sections(bare(T::HEADER), T::HEADER) {
        let name = section.text("name", values::name).unwrap_or_else(|| {
            unnamed += 1;
            if unnamed == 1 { bare(T::HEADER).into() } else { format!("{}-{unnamed}", bare(T::HEADER)) }
        });
        let redactor = Redactor::new(redact.iter().cloned());
        let new = T::new(&name, ParseOptions { redactor, ..ParseOptions::default() });
        let mut block = key::read(&keys, &mut section, new);
        if block.complete(&section) {
            if names.contains(&name) {
                section.problem(format_args!("two blocks are called {name:?}; give this one a name"));
            }
            if let Some(reason) = blocks.iter().find_map(|other| block.conflict(other)) {
                section.problem(reason);
            }
            names.push(name);
            blocks.push(block);
        }
        section.finish();
    }
    blocks
}

fn compare<T: SourceBlock>(before: &[T], now: &mut [T], changes: &mut Changes) {
    changes.add_blocks(bare(T::HEADER), &T::keys(), before, now, |block| block.summary().name);
}
