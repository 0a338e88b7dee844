//! What the blocks of sources share: `[[tail]]`, `[[syslog]]` and `[[journal]]` have names, and no two have the same.

use super::key::{self, ConfigKey, text};
use super::section::{ProblemList, Section};
use super::values;
use daytable_intake::source::ReadFrom;

pub(super) const READ_FROM: [(&str, ReadFrom); 2] = [("beginning", ReadFrom::Beginning), ("end", ReadFrom::End)];

/// The `name` of a block. Its text ends with the names of blocks without one.
pub(super) fn name<T: 'static>(field: impl Fn(&mut T) -> &mut String + Copy + 'static) -> ConfigKey<T> {
    text("name", "letters, digits, \"-\", \"_\" and \".\"", field, values::name).about(
        "The name of the block, which metrics have as the label `source`. daytable stores positions under this name. A block without a name is called like its \
         kind; the next one has a number, as in \"tail-2\".",
    )
}

/// The blocks of one kind of source.
pub(super) struct Blocks<'a, T> {
    /// `tail`; also the name of the first block without one.
    pub(super) kind: &'static str,
    pub(super) keys: Vec<ConfigKey<T>>,
    /// The options that a block begins with. The field `name` is empty.
    pub(super) new: &'a dyn Fn() -> T,
    pub(super) name: fn(&mut T) -> &mut String,
    /// Checks a block as a whole. A block that it refuses is left out; a problem is reported for it.
    pub(super) complete: fn(&mut Section<'_>, &mut T) -> bool,
}

impl<T> Blocks<'_, T> {
    /// Reads all of them. `names` has the names that are in use, and gets those of these blocks.
    pub(super) fn read(
        &self,
        sections: Vec<Section<'_>>,
        problems: &ProblemList<'_>,
        names: &mut Vec<String>,
    ) -> Vec<T> {
        let (mut blocks, mut unnamed) = (Vec::new(), 0);
        for mut section in sections {
            let at = section.at();
            let mut block = key::read(&self.keys, &mut section, (self.new)());
            let name = (self.name)(&mut block);
            if name.is_empty() {
                unnamed += 1;
                *name = if unnamed == 1 { self.kind.into() } else { format!("{}-{unnamed}", self.kind) };
            }
            let name = name.clone();
            let is_accepted = (self.complete)(&mut section, &mut block);
            section.finish();
            if !is_accepted {
                continue;
            }
            if names.contains(&name) {
                let kind = self.kind;
                problems.add(at, format!("[[{kind}]]: two blocks are called {name:?}; give this one a name"));
            }
            names.push(name);
            blocks.push(block);
        }
        blocks
    }
}
