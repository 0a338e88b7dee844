//! When the rows of a page arrived: the times of its commits.
//!
//! A key has the time of a record, and not that of its arrival. What arrives is a commit, so its time is kept once a page,
//! in the header, and costs no byte a record. A page that was merged from others has the range of all of them.

use daytable_model::time::Ticks;
use serde::{Deserialize, Serialize};

/// The commits of a page whose last commit is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommitRange {
    /// How many commits the first one of the page is before its last one; 0 if there is one.
    pub before: u64,
    /// The latest time of a commit of the page, by the wall clock. [`Ticks::MIN`] if the times are not known.
    pub newest: Ticks,
    /// Ticks from the earliest time to the latest.
    pub span: u64,
}

impl CommitRange {
    /// The bytes that the checksum of a page covers.
    pub(crate) const BYTES: usize = 24;

    /// A single commit at `time`.
    pub(crate) fn at(time: Ticks) -> CommitRange {
        CommitRange { before: 0, newest: time, span: 0 }
    }

    /// The earliest and the latest time; `None` if they are not known.
    pub fn times(&self) -> Option<(Ticks, Ticks)> {
        let oldest = i64::try_from(self.span).ok().and_then(|span| Ticks::new(self.newest.get().checked_sub(span)?));
        (self.newest > Ticks::MIN).then_some(oldest.unwrap_or(Ticks::MIN)).map(|oldest| (oldest, self.newest))
    }

    /// The range of pages, each with its last commit, relative to the last commit of all; and that commit. The times are
    /// unknown if those of one page are. `None` without pages.
    pub(crate) fn of_all(pages: impl IntoIterator<Item = (i64, CommitRange)>) -> Option<(i64, CommitRange)> {
        let mut commits: Option<(i64, i64)> = None;
        let mut times: Option<(Ticks, Ticks)> = None;
        let mut is_known = true;
        for (last, range) in pages {
            let first = last.saturating_sub_unsigned(range.before);
            commits = Some(commits.map_or((first, last), |(a, b)| (a.min(first), b.max(last))));
            match range.times() {
                Some((oldest, newest)) => {
                    times = Some(times.map_or((oldest, newest), |(a, b)| (a.min(oldest), b.max(newest))));
                }
                None => is_known = false,
            }
        }
        let (first, last) = commits?;
        let (oldest, newest) = times.filter(|_| is_known).unwrap_or((Ticks::MIN, Ticks::MIN));
        let span = (newest.get() - oldest.get()).unsigned_abs();
        Some((last, CommitRange { before: last.abs_diff(first), newest, span }))
    }

    /// A fixed-size form.
    pub(crate) fn to_bytes(self) -> [u8; CommitRange::BYTES] {
        let mut bytes = [0; CommitRange::BYTES];
        for (at, number) in bytes.chunks_exact_mut(8).zip([self.before, self.newest.get().unsigned_abs(), self.span]) {
            at.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }
}

/// The commits of a sealed day, in its footer: a range and its last commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FooterCommits {
    last: i64,
    before: u64,
    /// In ticks.
    newest: i64,
    span: u64,
}

impl FooterCommits {
    /// `None` if the times of the range are not known.
    pub(crate) fn new((last, range): (i64, CommitRange)) -> Option<FooterCommits> {
        let CommitRange { before, newest, span } = range;
        range.times().map(|_| FooterCommits { last, before, newest: newest.get(), span })
    }

    /// The last commit and the range. `None` if a time is out of range.
    pub(crate) fn range(self) -> Option<(i64, CommitRange)> {
        let FooterCommits { last, before, newest, span } = self;
        Some((last, CommitRange { before, newest: Ticks::new(newest)?, span }))
    }
}

/// The commits of a sealed day, in its manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedCommits {
    /// The number of the first commit.
    pub first: i64,
    /// The number of the last commit.
    pub last: i64,
    /// The earliest time of a commit, RFC 3339.
    pub oldest: String,
    /// The latest time of a commit, RFC 3339.
    pub newest: String,
}

impl SealedCommits {
    /// As a footer has them.
    pub(crate) fn of(footer: FooterCommits) -> Option<SealedCommits> {
        let (last, range) = footer.range()?;
        let (oldest, newest) = range.times()?;
        let first = last.saturating_sub_unsigned(range.before);
        Some(SealedCommits { first, last, oldest: oldest.to_string(), newest: newest.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range() -> impl Strategy<Value = (i64, CommitRange)> {
        (1000i64..2000, 0u64..900, 1i64..1_000_000, 0u64..1_000_000).prop_map(|(last, before, newest, span)| {
            let newest = Ticks::UNIX_EPOCH.get() + newest;
            (last, CommitRange { before, newest: Ticks::new(newest).expect("in range"), span })
        })
    }

    proptest! {
        /// The range of pages begins and ends with theirs, however they are merged, also in a footer.
        #[test]
        fn ranges_are_merged(pages in proptest::collection::vec(range(), 1..9), at in 0usize..9) {
            let (last, all) = CommitRange::of_all(pages.iter().copied()).expect("pages");
            prop_assert_eq!(last, pages.iter().map(|page| page.0).max().expect("a page"));
            let first = pages.iter().map(|(last, range)| last - range.before.cast_signed()).min().expect("a page");
            prop_assert_eq!(last - all.before.cast_signed(), first);
            let times: Vec<_> = pages.iter().map(|(_, range)| range.times().expect("known")).collect();
            let (oldest, newest) = all.times().expect("known");
            prop_assert_eq!(Some(oldest), times.iter().map(|times| times.0).min());
            prop_assert_eq!(Some(newest), times.iter().map(|times| times.1).max());

            let (some, rest) = pages.split_at(at.min(pages.len()));
            let parts = [some, rest].into_iter().filter_map(|pages| CommitRange::of_all(pages.iter().copied()));
            prop_assert_eq!(CommitRange::of_all(parts), Some((last, all)));
            let footer = FooterCommits::new((last, all)).expect("known");
            prop_assert_eq!(footer.range(), Some((last, all)));
            let sealed = SealedCommits::of(footer).expect("known");
            prop_assert_eq!((sealed.first, sealed.oldest), (first, oldest.to_string()));

            let unknown = pages.iter().copied().chain([(1, CommitRange::default())]);
            prop_assert_eq!(CommitRange::of_all(unknown).expect("pages").1.times(), None);
        }
    }
}
