//! Idempotency keys: a repeated push changes nothing.
//!
//! An [`IdempotencyKey`] belongs to a submission. The transaction of the commit point writes the key together with the
//! rows. So after a kill between the commit and its answer, a repeat finds the key. Only the committer decides
//! (`PendingKeys`, then the table), because it is the only writer. So of two equal pushes, in one commit or in two, one
//! is the first and the other is a repeat.
//!
//! | the key is | with this body | with another |
//! |---|---|---|
//! | not known | written with the rows | |
//! | in the next commit | repeated, after that commit | refused after that commit: other body |
//! | on disk | repeated | refused: other body |
//!
//! **How long.** Keys are kept for [`KEPT`], and at most [`KEYS_MAX`] of them. The oldest are removed first. Rows are
//! numbered in the order of their commits and removed from the lowest number up, so the numbers have no gaps. The
//! number of rows is the difference of the last and the first number, and the oldest row needs no index. A commit with
//! keys removes at most twice as many as it adds, and `REMOVED_MIN` more, so that no single commit removes a week of
//! keys.

use super::database::Catalog;
use crate::StoreError;
use daytable_model::time::Ticks;
use rusqlite::{Connection, OptionalExtension, params};
use std::time::Duration;

/// How long a key is kept after its commit.
pub const KEPT: Duration = Duration::from_secs(7 * 86_400);
/// The most keys that are kept at a time. A key needs about 130 bytes of the catalog.
pub const KEYS_MAX: u64 = 1_000_000;
/// Keys that a commit may remove in addition to two for each added key.
const REMOVED_MIN: u64 = 64;

/// A SHA-256.
pub type KeyHash = [u8; 32];

/// The idempotency key of a submission, with its body and answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// A hash of the sender, the endpoint and the sender's key.
    pub key: KeyHash,
    /// A hash of the decoded body: the same key with another body is refused.
    pub body: KeyHash,
    /// The answer to a repeat.
    pub answer: StoredAnswer,
}

/// The part of an answer that is stored for repeats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredAnswer {
    /// Accepted records.
    pub records: u32,
    /// Refused records of the same request.
    pub refused: u32,
}

impl IdempotencyKey {
    /// Compares `other`, which has the same key, with this one, which was committed first.
    pub(crate) fn compare(&self, other: &IdempotencyKey) -> Repeat {
        if self.body == other.body { Repeat::SameBody(self.answer) } else { Repeat::OtherBody }
    }
}

/// A submission whose key is known, compared with the first submission that had the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// The bodies are equal; the first submission got this answer.
    SameBody(StoredAnswer),
    /// The bodies differ.
    OtherBody,
}

/// The number of keys after a commit, and of keys that were removed before [`KEPT`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyCount {
    pub(crate) keys: u64,
    pub(crate) dropped: u64,
}

/// Looks the key up in the table.
pub(crate) fn repeat_of(connection: &Connection, idempotency: &IdempotencyKey) -> rusqlite::Result<Option<Repeat>> {
    let mut statement =
        connection.prepare_cached("SELECT body, records, refused FROM idempotency_key WHERE key = ?1")?;
    let found = statement.query_row([idempotency.key], |row| {
        let answer = StoredAnswer { records: row.get(1)?, refused: row.get(2)? };
        Ok(IdempotencyKey { key: idempotency.key, body: row.get(0)?, answer })
    });
    Ok(found.optional()?.map(|first| first.compare(idempotency)))
}

/// Writes the keys of a commit and removes those that are older than [`KEPT`], or more than `keys_max`.
pub(crate) fn keep<'k>(
    transaction: &Connection,
    new: impl ExactSizeIterator<Item = &'k IdempotencyKey>,
    now: Ticks,
    keys_max: u64,
) -> rusqlite::Result<KeyCount> {
    let removed_max = REMOVED_MIN + 2 * new.len() as u64;
    for IdempotencyKey { key, body, answer } in new {
        transaction
            .prepare_cached(
                "INSERT INTO idempotency_key (key, body, records, refused, at) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![key, body, answer.records, answer.refused, now.get()])?;
    }
    let mut count_after = KeyCount { keys: count(transaction)?, dropped: 0 };
    let mut oldest = transaction.prepare_cached("SELECT number, at FROM idempotency_key ORDER BY number LIMIT ?1")?;
    let mut rows = oldest.query([removed_max.cast_signed()])?;
    let mut last = None;
    while let Some(row) = rows.next()? {
        let is_expired = row.get::<_, i64>(1)? < now.minus(KEPT).get();
        if !is_expired && count_after.keys <= keys_max {
            break;
        }
        last = Some(row.get::<_, i64>(0)?);
        count_after.keys -= 1;
        count_after.dropped += u64::from(!is_expired);
    }
    if let Some(last) = last {
        transaction.prepare_cached("DELETE FROM idempotency_key WHERE number <= ?1")?.execute([last])?;
    }
    Ok(count_after)
}

/// The number of keys: their numbers have no gaps.
pub fn count(connection: &Connection) -> rusqlite::Result<u64> {
    let count = "SELECT (SELECT max(number) FROM idempotency_key) - (SELECT min(number) FROM idempotency_key) + 1";
    let count: Option<i64> = connection.prepare_cached(count)?.query_row([], |row| row.get(0))?;
    Ok(count.map_or(0, |count| u64::try_from(count).unwrap_or(0)))
}

impl Catalog {
    /// How a submission with this key repeats an earlier one; none if the key is new.
    pub(crate) fn repeat_of(&self, idempotency: &IdempotencyKey) -> Result<Option<Repeat>, StoreError> {
        self.sql(repeat_of(&self.connection, idempotency))
    }

    /// Whether a submission with this key was committed.
    pub fn knows(&self, idempotency: &IdempotencyKey) -> Result<bool, StoreError> {
        Ok(self.repeat_of(idempotency)?.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    fn opened() -> Connection {
        let connection = Connection::open_in_memory().expect("opened");
        connection.execute_batch(crate::format::catalog::schema::SCHEMA.formats[0][0]).expect("made");
        connection
    }

    fn idempotency_key(key: u16, body: u8) -> IdempotencyKey {
        let mut hash = [0; 32];
        hash[..2].copy_from_slice(&key.to_le_bytes());
        IdempotencyKey {
            key: hash,
            body: [body; 32],
            answer: StoredAnswer { records: key.into(), refused: body.into() },
        }
    }

    fn at(seconds: u64) -> Ticks {
        Ticks::from_date(2026, 11, 21).expect("a date").plus(Duration::from_secs(seconds))
    }

    #[test]
    fn a_key_is_stored_with_its_body_and_answer() {
        let connection = opened();
        let first = idempotency_key(7, 1);
        assert_eq!(repeat_of(&connection, &first), Ok(None));
        keep(&connection, [first].iter(), at(0), KEYS_MAX).expect("kept");
        let other_answer = StoredAnswer { records: 99, ..StoredAnswer::default() };
        let again = IdempotencyKey { answer: other_answer, ..first };
        assert_eq!(repeat_of(&connection, &again), Ok(Some(Repeat::SameBody(first.answer))));
        assert_eq!(repeat_of(&connection, &idempotency_key(7, 2)), Ok(Some(Repeat::OtherBody)));
        assert_eq!(repeat_of(&connection, &idempotency_key(8, 1)), Ok(None));
    }

    #[test]
    fn the_oldest_go_by_their_age_and_by_their_number_a_few_a_commit() {
        let connection = opened();
        let all: Vec<_> = (0..300).map(|key| idempotency_key(key, 0)).collect();
        assert_eq!(keep(&connection, all[..100].iter(), at(0), 1000), Ok(KeyCount { keys: 100, dropped: 0 }));
        assert_eq!(keep(&connection, all[100..200].iter(), at(60), 1000), Ok(KeyCount { keys: 200, dropped: 0 }));
        // The first hundred are too old: one commit removes a part of them, the next the rest.
        let later = at(KEPT.as_secs() + 30);
        assert_eq!(keep(&connection, all[200..201].iter(), later, 1000), Ok(KeyCount { keys: 135, dropped: 0 }));
        assert_eq!(keep(&connection, all[201..202].iter(), later, 1000), Ok(KeyCount { keys: 102, dropped: 0 }));
        assert_eq!(keep(&connection, all[202..203].iter(), later, 50), Ok(KeyCount { keys: 50, dropped: 53 }));
        let known = |key: u16| repeat_of(&connection, &idempotency_key(key, 0)).expect("read").is_some();
        assert_eq!((known(99), known(152), known(153), known(202)), (false, false, true, true));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

        /// With any commits and times, the keys are those of a queue, and their numbers have no gaps.
        #[test]
        fn the_table_is_a_queue(commits in prop::collection::vec((0_usize..40, 0_u64..200_000), 1..30), most in 1_u64..60) {
            let connection = opened();
            let (mut model, mut next, mut now) = (VecDeque::new(), 0_u16, 0);
            for (new, seconds) in commits {
                now += seconds;
                let keys: Vec<_> = (0..new).map(|n| idempotency_key(next + u16::try_from(n).expect("few"), 0)).collect();
                next += u16::try_from(new).expect("few");
                let count_after = keep(&connection, keys.iter(), at(now), most).expect("kept");
                model.extend(keys.iter().map(|key| (*key, now)));
                let (mut removed, mut dropped) = (0, 0);
                while let Some((_, since)) = model.front().copied().filter(|_| removed < 64 + 2 * new) {
                    let is_expired = since + KEPT.as_secs() < now;
                    if !is_expired && model.len() as u64 <= most {
                        break;
                    }
                    model.pop_front();
                    removed += 1;
                    dropped += u64::from(!is_expired);
                }
                prop_assert_eq!(count_after, KeyCount { keys: model.len() as u64, dropped });
                for key in 0..next {
                    let is_there = model.iter().any(|(kept, _)| *kept == idempotency_key(key, 0));
                    prop_assert_eq!(repeat_of(&connection, &idempotency_key(key, 0)).expect("read").is_some(), is_there);
                }
            }
        }
    }
}
