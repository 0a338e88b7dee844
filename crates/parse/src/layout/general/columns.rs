//! Headers with `|` between their parts.

use super::LineHeader;
use crate::layout::shape::{NameShape, is_number, level_word, name};
use crate::pairs::skip_spaces;
use daytable_model::record::Level;

/// Columns before the message.
const COLUMNS_MAX: usize = 8;

impl<'a> LineHeader<'a> {
    /// Reads the columns between `|`: a level, a number, a name, each at most once; then the message.
    pub(super) fn columns(&mut self) {
        let mut has_number = false;
        for _ in 0..COLUMNS_MAX {
            let Some(length) = self.rest().bytes().position(|byte| byte == b'|') else { break };
            let Some(cell) = self.line.get(self.at..self.at + length).map(str::trim_ascii) else { break };
            let start = skip_spaces(self.bytes(), self.at);
            // Of two cells with a level the first is a name: `| TRACE | INFO | text`.
            let is_name = || {
                let next = self.line.get(self.at + length + 1..).and_then(|rest| rest.split_once('|'));
                cell.len() > 1 && next.is_some_and(|(next, _)| level_word(next.trim_ascii()).is_some())
            };
            match level_word(cell).filter(|_| !is_name()) {
                Some(level) if self.sketch.level.is_none() => self.sketch.level(level, start, start + cell.len()),
                _ if is_number(cell) && !has_number => {
                    has_number = true;
                    self.sketch.pid(cell);
                }
                _ if cell.is_empty() => {}
                _ if cell == "SUCCESS" && self.sketch.level.is_none() => {
                    self.sketch.level(Level::Info, start, start + cell.len());
                }
                _ if name(cell) != NameShape::Never && !self.sketch.has_component => self.sketch.component(cell),
                _ => break,
            }
            self.at += length + 1;
        }
        // `logger:function:12 - text`
        let rest = self.rest().trim_ascii_start();
        let start = self.line.len() - rest.len();
        if !self.sketch.has_component
            && let Some((cell, _)) = rest.split_once(" - ").filter(|(cell, _)| name(cell) == NameShape::Surely)
        {
            self.numbered_component(cell);
            self.at = start + cell.len() + 3;
        }
    }
}
