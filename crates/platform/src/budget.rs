//! One account of the memory that questions use, and texts that are bounded before they are made.
//!
//! ```text
//! MemoryBudget (the process) ──► QuestionBudget (a question) ──► what is kept: groups, sorted rows, entries, answers
//!  └ ScratchSpace ─────────────► ScratchFile ──────────────────► what outgrows that: runs of groups, values and rows
//!                                BoundedText ──────────────────► what is made: a value of a record
//! ```
//!
//! 1. Whoever keeps something for a question charges its bytes first. A question has a share; all questions together have
//!    the account. Memory that does not fit is refused: it is never waited for, so two questions cannot wait for each other.
//! 2. A question that is dropped gives back all that it took.
//! 3. Where the process itself has too much memory ([`ProcessMemory`]), questions that have more than the average get no
//!    more; far beyond its limit none does.
//! 4. A text that a function of a query makes is a [`BoundedText`], which looks at the length before it grows, and asks
//!    now and then whether anybody still waits.
//!
//! Commits, sources and the lifecycle have budgets of their own and never wait for this one.

use crate::memory::ProcessMemory;
pub use crate::over_budget::OverBudget;
use crate::scratch::ScratchSpace;
use crate::sync::lock;
use daytable_model::units::ByteSize;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Bytes of a value that a query makes.
pub const VALUE_BYTES_MAX: usize = 2 << 20;
/// Bytes of all texts of a record that a query makes.
pub const RECORD_BYTES_MAX: usize = 4 << 20;
/// A question takes memory from the account in such pieces.
const PIECE_BYTES: usize = 256 << 10;
/// Beyond this part of its limit the process has no memory for any question.
const PROCESS_RESERVE: u64 = 16;
/// Bytes after which a text that grows asks whether anybody still waits.
const PATIENCE_BYTES: usize = 64 << 10;

/// The memory of all questions of the process.
#[derive(Clone, Debug)]
pub struct MemoryBudget {
    account: Arc<Account>,
    scratch: ScratchSpace,
}

#[derive(Debug)]
struct Account {
    bytes_max: usize,
    question_bytes_max: usize,
    used: AtomicUsize,
    /// The questions that have some of it.
    holders: AtomicUsize,
    process: Option<ProcessMemory>,
}

impl MemoryBudget {
    /// This many bytes for all questions, and for one of them.
    pub fn new(bytes_max: usize, question_bytes_max: usize) -> MemoryBudget {
        MemoryBudget::of_account(bytes_max, question_bytes_max, None)
    }

    /// This many bytes for all questions and for one of them, as long as the process has no more than its limit.
    pub fn within(bytes_max: usize, question_bytes_max: usize, process: ProcessMemory) -> MemoryBudget {
        MemoryBudget::of_account(bytes_max, question_bytes_max, Some(process))
    }

    fn of_account(bytes_max: usize, question_bytes_max: usize, process: Option<ProcessMemory>) -> MemoryBudget {
        let (used, holders) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let account = Account { bytes_max, question_bytes_max, used, holders, process };
        MemoryBudget { account: account.into(), scratch: ScratchSpace::of_system() }
    }

    /// The same memory; what outgrows it goes to `scratch`.
    pub fn with_scratch(self, scratch: ScratchSpace) -> MemoryBudget {
        MemoryBudget { scratch, ..self }
    }

    /// This many bytes for each question, whatever others use: for programs that ask one question.
    pub fn unshared(question_bytes_max: usize) -> MemoryBudget {
        MemoryBudget::new(usize::MAX, question_bytes_max)
    }

    /// The share of one question.
    pub fn question(&self) -> QuestionBudget {
        self.question_within(usize::MAX)
    }

    /// The share of one question that has a limit of its own, too.
    pub fn question_within(&self, bytes_max: usize) -> QuestionBudget {
        let bytes_max = bytes_max.min(self.account.question_bytes_max);
        QuestionBudget {
            account: self.account.clone(),
            bytes_max,
            taken: Mutex::default(),
            scratch: self.scratch.clone(),
        }
    }

    /// Bytes that questions have now.
    pub fn used(&self) -> usize {
        self.account.used.load(Ordering::Relaxed)
    }

    /// Whether whoever has this many bytes of its own gets no more, because the process has too much memory.
    pub fn is_short_for(&self, bytes: usize) -> bool {
        self.account.is_short_for(bytes)
    }
}

impl Account {
    fn take(&self, bytes: usize) -> bool {
        let more = |used: usize| used.checked_add(bytes).filter(|used| *used <= self.bytes_max);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Bytes that the process has beyond its limit.
    fn excess(&self) -> u64 {
        self.process.as_ref().map_or(0, ProcessMemory::excess)
    }

    /// The largest give way first, so that a small question does not pay for a large one.
    fn is_short_for(&self, bytes: usize) -> bool {
        let excess = self.excess();
        let average = || self.used.load(Ordering::Relaxed) / self.holders.load(Ordering::Relaxed).max(1);
        let reserve = || self.process.as_ref().map_or(0, ProcessMemory::bytes_max) / PROCESS_RESERVE;
        excess > 0 && (excess > reserve() || bytes > PIECE_BYTES.max(average()))
    }
}

/// The memory of one question, until it is dropped.
#[derive(Debug)]
pub struct QuestionBudget {
    account: Arc<Account>,
    bytes_max: usize,
    taken: Mutex<Taken>,
    scratch: ScratchSpace,
}

#[derive(Debug, Default)]
struct Taken {
    /// What the question charged.
    charged: usize,
    /// What the account gave: whole pieces.
    reserved: usize,
}

impl QuestionBudget {
    /// Memory without a limit: for programs that answer one question and end.
    pub fn unlimited() -> QuestionBudget {
        MemoryBudget::unshared(usize::MAX).question()
    }

    /// Takes memory for what the question keeps.
    ///
    /// # Errors
    ///
    /// The question, or all questions, would use too much: nothing was taken.
    pub fn charge(&self, bytes: usize, kept: &str) -> Result<(), OverBudget> {
        let mut taken = lock(&self.taken);
        let charged = taken.charged.saturating_add(bytes);
        if charged > self.bytes_max {
            return Err(self.too_large(kept));
        }
        if charged > taken.reserved {
            // The last piece may reach beyond the share of the question, but not beyond the account.
            let missing = charged - taken.reserved;
            let piece = missing.next_multiple_of(PIECE_BYTES);
            if self.account.is_short_for(charged) {
                return Err(self.busy(kept));
            }
            let got = [piece, missing].into_iter().find(|bytes| self.account.take(*bytes));
            let got = got.ok_or_else(|| self.busy(kept))?;
            if taken.reserved == 0 {
                self.account.holders.fetch_add(1, Ordering::Relaxed);
            }
            taken.reserved += got;
        }
        taken.charged = charged;
        Ok(())
    }

    /// Why there is no memory for `kept`, where somebody found that there is none.
    pub fn exhausted(&self, kept: &str) -> OverBudget {
        let is_short_for_others = self.left() < self.bytes_max - self.charged();
        if is_short_for_others { self.busy(kept) } else { self.too_large(kept) }
    }

    fn too_large(&self, kept: &str) -> OverBudget {
        let size = ByteSize::new(self.bytes_max as u64);
        OverBudget::TooLarge(format!("its {kept} need more than {size} of memory; narrow the query"))
    }

    fn busy(&self, kept: &str) -> OverBudget {
        OverBudget::Busy(format!("other questions use the memory that its {kept} need: ask again"))
    }

    /// Why the question has to end because the process has too much memory, if it has to.
    pub fn shortage(&self) -> Option<OverBudget> {
        let is_short = self.account.excess() > 0 && self.account.is_short_for(self.charged());
        is_short.then(|| self.busy("rows"))
    }

    /// Gives back memory of what the question no longer keeps.
    pub fn release(&self, bytes: usize) {
        let mut taken = lock(&self.taken);
        taken.charged = taken.charged.saturating_sub(bytes);
        let spare = (taken.reserved - taken.charged) / PIECE_BYTES * PIECE_BYTES;
        if spare > 4 * PIECE_BYTES {
            taken.reserved -= spare;
            self.account.give_back(spare);
            if taken.reserved == 0 {
                self.account.holders.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// The memory that is left to the question, if others take no more.
    pub fn left(&self) -> usize {
        let taken = lock(&self.taken);
        let others = self.account.bytes_max.saturating_sub(self.account.used.load(Ordering::Relaxed));
        let reserved = taken.reserved - taken.charged;
        (self.bytes_max - taken.charged).min(others.saturating_add(reserved))
    }

    /// What the question charged.
    pub fn charged(&self) -> usize {
        lock(&self.taken).charged
    }

    /// Where that goes which outgrows the memory.
    pub fn scratch(&self) -> &ScratchSpace {
        &self.scratch
    }

    /// The share of the question.
    pub fn bytes_max(&self) -> usize {
        self.bytes_max
    }
}

impl Drop for QuestionBudget {
    fn drop(&mut self) {
        let reserved = lock(&self.taken).reserved;
        if reserved > 0 {
            self.account.holders.fetch_sub(1, Ordering::Relaxed);
        }
        self.account.give_back(reserved);
    }
}

/// Why a text was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextRefusal {
    /// It would be longer than this many bytes.
    TooLong(usize),
    /// The question is over: its client is gone, or its time.
    Stopped,
}

impl fmt::Display for TextRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TextRefusal::TooLong(bytes) => write!(f, "would be longer than {}", ByteSize::new(*bytes as u64)),
            TextRefusal::Stopped => f.write_str("is not made: the question is over"),
        }
    }
}

/// The result of what makes a text.
pub type TextResult = Result<(), TextRefusal>;

/// A text that grows to a bound, and no further.
pub struct BoundedText<'q> {
    text: String,
    bytes_max: usize,
    go_on: &'q dyn Fn() -> bool,
    /// Bytes read and made since `go_on` was asked.
    since: usize,
}

impl<'q> BoundedText<'q> {
    /// A text of at most this many bytes. `go_on` says whether anybody still waits.
    pub fn new(bytes_max: usize, go_on: &'q dyn Fn() -> bool) -> BoundedText<'q> {
        BoundedText { text: String::new(), bytes_max, go_on, since: 0 }
    }

    /// The text.
    pub fn finish(self) -> String {
        self.text
    }

    /// The length so far.
    pub fn len(&self) -> usize {
        self.text.len()
    }

    /// Whether the text is empty.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Counts bytes that were read for the text.
    ///
    /// # Errors
    ///
    /// The question is over.
    pub fn worked(&mut self, bytes: usize) -> TextResult {
        self.since = self.since.saturating_add(bytes);
        if self.since < PATIENCE_BYTES {
            return Ok(());
        }
        self.since = 0;
        if (self.go_on)() { Ok(()) } else { Err(TextRefusal::Stopped) }
    }

    /// Makes room for this many bytes more.
    ///
    /// # Errors
    ///
    /// The text would be too long, or the question is over.
    pub fn grow(&mut self, bytes: usize) -> TextResult {
        if bytes > self.bytes_max - self.text.len() {
            return Err(TextRefusal::TooLong(self.bytes_max));
        }
        self.worked(bytes)
    }

    /// Adds a text.
    ///
    /// # Errors
    ///
    /// See [`BoundedText::grow`].
    pub fn push_str(&mut self, text: &str) -> TextResult {
        self.grow(text.len())?;
        self.text.push_str(text);
        Ok(())
    }

    /// Adds a character.
    ///
    /// # Errors
    ///
    /// See [`BoundedText::grow`].
    pub fn push(&mut self, c: char) -> TextResult {
        self.grow(c.len_utf8())?;
        self.text.push(c);
        Ok(())
    }

    /// Adds characters.
    ///
    /// # Errors
    ///
    /// See [`BoundedText::grow`].
    pub fn extend(&mut self, chars: impl IntoIterator<Item = char>) -> TextResult {
        chars.into_iter().try_for_each(|c| self.push(c))
    }

    /// Adds a text this many times.
    ///
    /// # Errors
    ///
    /// See [`BoundedText::grow`].
    pub fn push_repeated(&mut self, text: &str, times: usize) -> TextResult {
        self.grow(text.len().saturating_mul(times))?;
        // Nothing, however often, is nothing: the bound on bytes would not end its copies.
        let times = if text.is_empty() { 0 } else { times };
        (0..times).for_each(|_| self.text.push_str(text));
        Ok(())
    }

    /// Adds what `write` displays, of which nothing is made beyond the bound.
    ///
    /// # Errors
    ///
    /// See [`BoundedText::grow`].
    pub fn push_shown(&mut self, shown: impl fmt::Display) -> TextResult {
        let mut refused = None;
        let _ = fmt::write(&mut Shown { text: self, refused: &mut refused }, format_args!("{shown}"));
        refused.map_or(Ok(()), Err)
    }

    /// Adds `text` with `to` in place of `from`, at most `limit` times.
    ///
    /// # Errors
    ///
    /// See [`BoundedText::grow`].
    pub fn push_replaced(&mut self, text: &str, from: &str, to: &str, limit: usize) -> TextResult {
        let mut end = 0;
        for (at, found) in text.match_indices(from).take(limit) {
            self.push_str(&text[end..at])?;
            self.push_str(to)?;
            end = at + found.len();
        }
        self.push_str(&text[end..])
    }

    /// Adds a replacement, in which `$1`, `$name` and `${name}` stand for groups and `$$` for a dollar sign, as in
    /// expressions of the crate `regex`.
    ///
    /// # Errors
    ///
    /// See [`BoundedText::grow`].
    pub fn push_expanded<'t>(
        &mut self,
        replacement: &str,
        group: impl Fn(GroupName<'_>) -> Option<&'t str>,
    ) -> TextResult {
        let mut rest = replacement;
        while let Some(at) = rest.find('$') {
            self.push_str(&rest[..at])?;
            rest = &rest[at..];
            if let Some(after) = rest.strip_prefix("$$") {
                self.push('$')?;
                rest = after;
                continue;
            }
            match GroupName::read(rest) {
                Some((name, after)) => {
                    self.push_str(group(name).unwrap_or_default())?;
                    rest = after;
                }
                None => {
                    self.push('$')?;
                    rest = &rest[1..];
                }
            }
        }
        self.push_str(rest)
    }
}

/// A group of a regular expression, as a replacement names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupName<'r> {
    /// `$1`
    Number(usize),
    /// `$name`
    Name(&'r str),
}

impl GroupName<'_> {
    /// The group that a text begins with, and what follows.
    fn read(text: &str) -> Option<(GroupName<'_>, &str)> {
        let rest = text.strip_prefix('$')?;
        let (name, after) = match rest.strip_prefix('{') {
            Some(braced) => braced.split_once('}')?,
            None => {
                let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
                let end = rest.bytes().take_while(is_part).count();
                if end == 0 {
                    return None;
                }
                rest.split_at(end)
            }
        };
        Some((name.parse().map_or(GroupName::Name(name), GroupName::Number), after))
    }
}

struct Shown<'t, 'q> {
    text: &'t mut BoundedText<'q>,
    refused: &'t mut Option<TextRefusal>,
}

impl fmt::Write for Shown<'_, '_> {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        self.text.push_str(part).map_err(|refusal| {
            *self.refused = Some(refusal);
            fmt::Error
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_has_its_share_and_all_questions_have_the_account() {
        let memory = MemoryBudget::new(4 << 20, 3 << 20);
        let (one, other) = (memory.question(), memory.question());
        assert_eq!(one.charge(2 << 20, "groups"), Ok(()));
        assert!(
            matches!(one.charge(2 << 20, "groups"), Err(OverBudget::TooLarge(reason)) if reason.contains("groups"))
        );
        assert!(
            matches!(other.charge(3 << 20, "entries"), Err(OverBudget::Busy(reason)) if reason.contains("entries"))
        );
        assert_eq!(other.left(), 2 << 20);
        assert_eq!(other.charge(2 << 20, "entries"), Ok(()), "to the last byte");
        one.release(2 << 20);
        assert_eq!((one.charged(), memory.used()), (0, 2 << 20));
        drop(other);
        drop(one);
        assert_eq!(memory.used(), 0, "a question that ends gives back all");
    }

    #[test]
    fn the_largest_questions_give_way_to_the_process() {
        let within = |excess: fn() -> Option<u64>| {
            MemoryBudget::within(64 << 20, 64 << 20, ProcessMemory::measured_by(100 << 20, excess))
        };
        let memory = within(|| Some(100 << 20));
        let question = memory.question();
        assert_eq!(question.charge(32 << 20, "groups"), Ok(()), "as much as it may have");
        assert_eq!(question.shortage(), None);
        let memory = within(|| Some(101 << 20));
        let (large, small) = (memory.question(), memory.question());
        assert_eq!(small.charge(1, "rows"), Ok(()), "it has little");
        assert!(matches!(large.charge(1 << 20, "groups"), Err(OverBudget::Busy(reason)) if reason.contains("groups")));
        assert_eq!((large.charged(), small.shortage()), (0, None));
        let memory = within(|| Some(110 << 20));
        assert!(matches!(memory.question().charge(1, "rows"), Err(OverBudget::Busy(_))), "far beyond its limit");
        assert!(memory.question().shortage().is_some() && memory.is_short_for(0));
    }

    #[test]
    fn a_text_grows_to_its_bound_and_no_further() {
        let go_on = || true;
        let made = |make: &dyn Fn(&mut BoundedText<'_>) -> TextResult| {
            let mut text = BoundedText::new(10, &go_on);
            make(&mut text).map(|()| text.finish())
        };
        let group = |name: GroupName<'_>| match name {
            GroupName::Number(1) => Some("abcde"),
            GroupName::Name("x") => Some("X"),
            _ => None,
        };
        assert_eq!(made(&|text| text.push_repeated("ab", 5)).as_deref(), Ok("ababababab"));
        assert_eq!(made(&|text| text.push_repeated("ab", usize::MAX)), Err(TextRefusal::TooLong(10)));
        assert_eq!(made(&|text| text.push_repeated("", usize::MAX)).as_deref(), Ok(""));
        assert_eq!(made(&|text| text.push_replaced("a.b.c", ".", "--", 1)).as_deref(), Ok("a--b.c"));
        assert_eq!(made(&|text| text.push_replaced("ab", "", "-", usize::MAX)).as_deref(), Ok("-a-b-"));
        assert_eq!(made(&|text| text.push_replaced("lllll", "l", "lll", usize::MAX)), Err(TextRefusal::TooLong(10)));
        assert_eq!(made(&|text| text.push_expanded("$1$$${x}$z$", group)).as_deref(), Ok("abcde$X$"));
        assert_eq!(made(&|text| text.push_expanded("$1$1$1", group)), Err(TextRefusal::TooLong(10)));
        assert_eq!(made(&|text| text.push_shown(format_args!("{:>20}", 1))), Err(TextRefusal::TooLong(10)));
    }

    #[test]
    fn a_text_that_nobody_waits_for_is_not_made() {
        let mut text = BoundedText::new(usize::MAX, &|| false);
        assert_eq!(text.push_str("short"), Ok(()));
        assert_eq!(text.push_repeated("x", PATIENCE_BYTES), Err(TextRefusal::Stopped));
    }
}
