//! The hosts that forward to this folder: invitations, credentials, and how far each host was received.
//!
//! Credentials and codes are stored as their SHA-256. A credential has the name that the invitation gave, and is bound to the
//! first origin that shows it, and to tables if the invitation names some. The position of an origin moves in the transaction that stores its rows, so
//! a repeated request is known by its position alone.

use super::database::Catalog;
use super::name_pattern::fits;
use super::table_bounds::TableBounds;
pub use super::values::SecretHash;
use crate::StoreError;
use crate::format::forward_intervals::{HeadInterval, HostAdvance, ReceivedCommits};
use crate::format::forward_position::{FolderOrigin, ForwardPosition};
use daytable_model::property::to_hex;
use daytable_model::time::Ticks;
use rusqlite::{Connection, OptionalExtension, Row, params};

/// Hosts, credentials and invitations at most, of each.
pub const HOSTS_MAX: i64 = 20_000;
/// Earlier positions of a host that are kept, to find the last commit that both sides have.
const HISTORY_MAX: usize = 64;
/// Bytes of an entry of the history: a commit and its checksum.
const ENTRY_BYTES: usize = 16;

/// An invitation: whoever shows its code gets a credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invitation {
    /// The hash of the code.
    pub code: SecretHash,
    /// The name of the host, or a pattern of names with `*`.
    pub name: String,
    /// Until when the code is good.
    pub expires: Ticks,
    /// Whether the code may be used again.
    pub is_reusable: bool,
    /// The tables that the host may write.
    pub tables: TableBounds,
}

/// A credential, as a request shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostCredential {
    /// The name of the host.
    pub name: String,
    /// The origin that used it first.
    pub origin: Option<FolderOrigin>,
    /// When it was given.
    pub given: Ticks,
    /// The tables that it may write.
    pub tables: TableBounds,
    /// Whether it was made to take the place of another one, and was not used yet.
    pub is_successor: bool,
}

/// A host that forwards here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardingHost {
    /// The name: the value of `log_host`. Empty fields are those of an invited host that was not heard of.
    pub name: String,
    /// The name that its keys have in them.
    pub name_in_keys: String,
    /// The processes that spoke for the folder last, as the receiver noted them; empty before the first.
    pub processes: String,
    /// Its folder; `None` if it was not heard of yet.
    pub origin: Option<FolderOrigin>,
    /// What was received of it.
    pub received: ReceivedCommits,
    /// Records that were received of it.
    pub records: u64,
    /// Records that were refused because their day is gone here.
    pub expired: u64,
    /// The last report of the host, as JSON; empty before the first.
    pub report: String,
    /// When the host was last heard of, as far as the catalog knows.
    pub seen: Ticks,
    /// Whether no credential of it is good any more.
    pub is_revoked: bool,
    /// When its credential was given; `None` without one.
    pub given: Option<Ticks>,
    /// The tables that its credential may write.
    pub tables: TableBounds,
}

/// What is written down of a host that was heard of.
#[derive(Clone, Debug)]
pub struct HostNote {
    /// Its folder.
    pub origin: FolderOrigin,
    /// Its last report, as JSON.
    pub report: String,
    /// The processes that speak for the folder, as the receiver notes them.
    pub processes: String,
    /// When it was heard of last.
    pub seen: Ticks,
}

/// Whether a credential is of the folder that shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OriginBinding {
    /// It is.
    Bound,
    /// It is bound to another folder.
    OtherFolder,
    /// Nobody used it yet, and the folder is that of a host of this other name, which has a credential.
    OfHost(String),
}

/// Why a code is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinRefusal {
    /// It was used, or is too old, or was never given.
    #[error(
        "the code was used already, is older than ten minutes, or is not of this daytable: ask for another one with `daytable hosts invite NAME`"
    )]
    Code,
    /// The host has another name than that of the invitation.
    #[error(
        "the code is for a host that is called {expected}, and this one is called {found}: ask for a code for {found}, or set {}",
        setting_of(.expected)
    )]
    Name {
        /// As the invitation has it.
        expected: String,
        /// As the host says.
        found: String,
    },
    /// The invitation is for names of a pattern, and the host has none.
    #[error("the code is for names like {0}, and this host has no name: set host = \"NAME\"")]
    Nameless(String),
    /// The credentials of the host were revoked, and it shows what many hosts have.
    #[error(
        "{0} was revoked, so neither a code for several hosts nor a certificate lets it in: `daytable hosts invite {0}` gives it a code of its own, and \
         `daytable hosts forget {0}` ends that"
    )]
    Revoked(String),
    /// There are too many hosts.
    #[error("there are {HOSTS_MAX} hosts already: remove some with `daytable hosts forget NAME`")]
    Many,
}

/// What the configuration of a host says so that it is called `expected`, which may be a pattern.
fn setting_of(expected: &str) -> String {
    match expected.contains('*') {
        true => "`host` to a name like this".to_owned(),
        false => format!("host = \"{expected}\""),
    }
}

/// Moves the ends of what was received of a host, in the transaction of the commit that stores its rows.
pub(super) fn put_received(
    connection: &Connection,
    advance: &HostAdvance<ReceivedCommits>,
    now: Ticks,
) -> rusqlite::Result<()> {
    let HostAdvance { origin, step: ReceivedCommits { epoch, position: to, head }, records, expired } = advance;
    let select = "SELECT history FROM host WHERE origin = ?1";
    let history = connection.prepare_cached(select)?.query_row([origin.0], |row| row.get(0)).optional()?;
    let history: Vec<u8> = history.unwrap_or_default();
    let history = if to.is_between_commits() { with_entry(&history, to.commit, to.checksum) } else { history };
    let update = "UPDATE host SET epoch = ?2, commits = ?3, pages = ?4, checksum = ?5, copies = ?6, copied = ?7,
                  history = ?8, records = records + ?9, expired = expired + ?10, seen = max(seen, ?11), head_after = ?12,
                  head_after_checksum = ?13, head_commits = ?14, head_pages = ?15, head_checksum = ?16 WHERE origin = ?1";
    let changed = connection.prepare_cached(update)?.execute(params![
        origin.0,
        epoch,
        to.commit,
        to.pages,
        to.checksum.cast_signed(),
        to.copies.cast_signed(),
        to.copied.cast_signed(),
        history,
        records.cast_signed(),
        expired.cast_signed(),
        now.get(),
        head.map(|head| head.begin.commit),
        head.map(|head| head.begin.checksum.cast_signed()),
        head.map(|head| head.end.commit),
        head.map(|head| head.end.pages),
        head.map(|head| head.end.checksum.cast_signed()),
    ])?;
    super::values::one(changed)
}

/// A history with one more entry, in the order of commits. Of too many, one goes whose neighbours are close to each other for
/// their age, so the entries stand closer the newer they are.
fn with_entry(history: &[u8], commit: i64, checksum: u64) -> Vec<u8> {
    let mut entries = entries_of(history);
    // A sender that went back begins anew from there.
    entries.retain(|(known, _)| *known < commit);
    entries.push((commit, checksum));
    if entries.len() > HISTORY_MAX {
        let gap = |at: usize| {
            let width = entries[at + 1].0.abs_diff(entries[at - 1].0);
            let age = commit.abs_diff(entries[at].0);
            width as f64 / age.max(1) as f64
        };
        let closest = (1..entries.len() - 1).min_by(|a, b| gap(*a).total_cmp(&gap(*b)));
        if let Some(at) = closest {
            entries.remove(at);
        }
    }
    entries.iter().flat_map(|(commit, checksum)| [commit.to_le_bytes(), checksum.to_le_bytes()]).flatten().collect()
}

fn entries_of(history: &[u8]) -> Vec<(i64, u64)> {
    let number = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).unwrap_or_default();
    let entries = history.chunks_exact(ENTRY_BYTES);
    entries.map(|entry| (number(&entry[..8]).cast_signed(), number(&entry[8..]))).collect()
}

const HOSTS: &str = "
    SELECT host.name, host.origin, epoch, commits, pages, checksum, copies, copied, records, expired, report, seen,
           head_after, head_after_checksum, head_commits, head_pages, head_checksum, credential.given, credential.tables,
           name_in_keys, processes
    FROM host LEFT JOIN host_credential AS credential ON credential.origin = host.origin AND NOT credential.is_successor";

fn read_host(row: &Row<'_>) -> rusqlite::Result<ForwardingHost> {
    let count = |at| row.get::<_, i64>(at).map(i64::cast_unsigned);
    let given: Option<i64> = row.get(17)?;
    Ok(ForwardingHost {
        name: row.get(0)?,
        name_in_keys: row.get(19)?,
        processes: row.get(20)?,
        origin: Some(FolderOrigin(row.get(1)?)),
        received: ReceivedCommits {
            epoch: row.get(2)?,
            position: ForwardPosition {
                commit: row.get(3)?,
                pages: row.get(4)?,
                checksum: count(5)?,
                copies: count(6)?,
                copied: count(7)?,
            },
            head: read_head(row, 12)?,
        },
        records: count(8)?,
        expired: count(9)?,
        report: row.get(10)?,
        seen: Ticks::new(row.get(11)?).unwrap_or(Ticks::MIN),
        is_revoked: given.is_none(),
        given: given.map(|given| Ticks::new(given).unwrap_or(Ticks::MIN)),
        tables: TableBounds::stored(row.get(18)?),
    })
}

/// The head of a host, in five columns from `at` on.
fn read_head(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<HeadInterval>> {
    let Some(after) = row.get::<_, Option<i64>>(at)? else { return Ok(None) };
    let checksum = |at| row.get::<_, i64>(at).map(i64::cast_unsigned);
    let begin = ForwardPosition { commit: after, checksum: checksum(at + 1)?, ..ForwardPosition::default() };
    let (commit, pages, checksum) = (row.get(at + 2)?, row.get(at + 3)?, checksum(at + 4)?);
    Ok(Some(HeadInterval { begin, end: ForwardPosition { commit, pages, checksum, ..ForwardPosition::default() } }))
}

impl Catalog {
    /// The credential with this hash.
    pub fn host_credential(&self, credential: &SecretHash) -> Result<Option<HostCredential>, StoreError> {
        self.sql((|| {
            let select = "SELECT name, origin, given, tables, is_successor FROM host_credential WHERE hash = ?1";
            let found = self.connection().prepare_cached(select)?.query_row([credential], |row| {
                Ok(HostCredential {
                    name: row.get(0)?,
                    origin: row.get::<_, Option<[u8; 16]>>(1)?.map(FolderOrigin),
                    given: Ticks::new(row.get(2)?).unwrap_or(Ticks::MIN),
                    tables: TableBounds::stored(row.get(3)?),
                    is_successor: row.get(4)?,
                })
            });
            found.optional()
        })())
    }

    /// The host with this origin.
    pub fn forwarding_host(&self, origin: &FolderOrigin) -> Result<Option<ForwardingHost>, StoreError> {
        self.sql((|| {
            let mut statement = self.connection().prepare_cached(&format!("{HOSTS} WHERE host.origin = ?1"))?;
            statement.query_row([origin.0], read_host).optional()
        })())
    }

    /// Earlier positions of a host, by commit.
    pub fn host_history(&self, origin: &FolderOrigin) -> Result<Vec<(i64, u64)>, StoreError> {
        let select = "SELECT history FROM host WHERE origin = ?1";
        let found = self.connection().query_row(select, [origin.0], |row| row.get::<_, Vec<u8>>(0)).optional();
        Ok(entries_of(&self.sql(found)?.unwrap_or_default()))
    }

    /// All hosts by name, those included that were invited and not heard of.
    pub fn forwarding_hosts(&self) -> Result<Vec<ForwardingHost>, StoreError> {
        let mut hosts = self.all(&format!("{HOSTS} ORDER BY host.name, host.origin"), read_host)?;
        let select = "SELECT name, given, tables FROM host_credential WHERE origin IS NULL";
        let waiting: Vec<(String, i64, Option<String>)> =
            self.all(select, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        for (name, given, tables) in waiting {
            let is_known = hosts.iter().any(|host: &ForwardingHost| host.name == name);
            if !is_known {
                hosts.push(ForwardingHost {
                    name_in_keys: name.clone(),
                    name,
                    processes: String::new(),
                    origin: None,
                    received: ReceivedCommits::default(),
                    records: 0,
                    expired: 0,
                    report: String::new(),
                    seen: Ticks::MIN,
                    is_revoked: false,
                    given: Ticks::new(given),
                    tables: TableBounds::stored(tables),
                });
            }
        }
        hosts.sort_by(|a, b| (&a.name, a.origin).cmp(&(&b.name, b.origin)));
        Ok(hosts)
    }

    /// Adds an invitation, and removes those that are over.
    pub(crate) fn invite(&mut self, invitation: &Invitation, now: Ticks) -> Result<(), StoreError> {
        let Invitation { code, name, expires, is_reusable, tables } = invitation;
        let added = self.change(|transaction| {
            transaction.execute("DELETE FROM invitation WHERE expires <= ?1", [now.get()])?;
            let count: i64 = transaction.query_row("SELECT count(*) FROM invitation", [], |row| row.get(0))?;
            if count >= HOSTS_MAX {
                return Ok(false);
            }
            let insert = "INSERT INTO invitation VALUES (?1, ?2, ?3, ?4, ?5)";
            let values = params![code, name, expires.get(), is_reusable, tables.to_stored()];
            transaction.execute(insert, values).map(|_| true)
        })?;
        if added { Ok(()) } else { Err(StoreError::Refused(JoinRefusal::Many.to_string())) }
    }

    /// Trades a code for a credential, and returns the name of the host. `found` is the name that the host has in its
    /// configuration. A code that may not be used again is gone with this transaction.
    pub(crate) fn join(
        &mut self,
        code: &SecretHash,
        found: Option<&str>,
        credential: &SecretHash,
        now: Ticks,
    ) -> Result<Result<String, JoinRefusal>, StoreError> {
        self.change(|transaction| {
            let select = "SELECT name, is_reusable, tables FROM invitation WHERE code = ?1 AND expires > ?2";
            let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
            let invited = transaction.query_row(select, params![code, now.get()], read).optional()?;
            let Some((expected, is_reusable, tables)): Option<(String, bool, String)> = invited else {
                return Ok(Err(JoinRefusal::Code));
            };
            let name = match found {
                Some(found) if fits(&expected, found) => found.to_owned(),
                Some(found) => return Ok(Err(JoinRefusal::Name { expected, found: found.into() })),
                None if expected.contains('*') => return Ok(Err(JoinRefusal::Nameless(expected))),
                None => expected,
            };
            if are_many(transaction)? {
                return Ok(Err(JoinRefusal::Many));
            }
            // Hosts join by themselves with a code of this kind, so a revoked one would be back at once.
            if is_reusable && is_revoked(transaction, &name)? {
                return Ok(Err(JoinRefusal::Revoked(name)));
            }
            transaction.execute("DELETE FROM revoked_host WHERE name = ?1", [&name])?;
            // A host that made its credential itself repeats a request that had no answer.
            let select = "SELECT name FROM host_credential WHERE hash = ?1";
            let known: Option<String> = transaction.query_row(select, [credential], |row| row.get(0)).optional()?;
            if let Some(known) = known {
                return Ok(if known == name { Ok(name) } else { Err(JoinRefusal::Code) });
            }
            if !is_reusable {
                transaction.execute("DELETE FROM invitation WHERE code = ?1", [code])?;
            }
            let insert =
                "INSERT INTO host_credential(hash, name, given, tables, is_successor) VALUES (?1, ?2, ?3, ?4, 0)";
            transaction.execute(insert, params![credential, name, now.get(), tables])?;
            Ok(Ok(name))
        })
    }

    /// Binds a credential to the origin that shows it first. An older credential of the same origin ends: the host joined again. One
    /// of another name ends only if the host `may_rename` itself: whoever was invited by one name may not take the place of another.
    pub(crate) fn bind_origin(
        &mut self,
        credential: &SecretHash,
        origin: &FolderOrigin,
        may_rename: bool,
        now: Ticks,
    ) -> Result<OriginBinding, StoreError> {
        self.change(|transaction| {
            let select = "SELECT name, origin FROM host_credential WHERE hash = ?1";
            let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
            let found = transaction.query_row(select, [credential], read).optional()?;
            let Some((name, bound)): Option<(String, Option<[u8; 16]>)> = found else {
                return Ok(OriginBinding::OtherFolder);
            };
            if let Some(bound) = bound {
                return Ok(if bound == origin.0 { OriginBinding::Bound } else { OriginBinding::OtherFolder });
            }
            let select = "SELECT name FROM host_credential WHERE origin = ?1 AND name <> ?2";
            let other = transaction.query_row(select, params![origin.0, name], |row| row.get(0)).optional()?;
            if let Some(other) = other.filter(|_| !may_rename) {
                return Ok(OriginBinding::OfHost(other));
            }
            let insert = "INSERT INTO host(origin, name, seen, name_in_keys) VALUES (?1, ?2, ?3, ?4)
                          ON CONFLICT (origin) DO UPDATE SET name = ?2, seen = ?3";
            let in_keys = name_in_keys(transaction, &name, origin)?;
            transaction.execute(insert, params![origin.0, name, now.get(), in_keys])?;
            super::host_renewal::end_others(transaction, credential, origin)?;
            let bind = "UPDATE host_credential SET origin = ?2 WHERE hash = ?1";
            transaction.execute(bind, params![credential, origin.0])?;
            Ok(OriginBinding::Bound)
        })
    }

    /// Records the reports of hosts, when these were heard of last, and the processes that speak for them.
    pub(crate) fn note_hosts(&mut self, notes: &[HostNote]) -> Result<(), StoreError> {
        let update = "UPDATE host SET report = ?2, processes = ?3, seen = ?4 WHERE origin = ?1";
        self.change(|transaction| {
            let mut update = transaction.prepare_cached(update)?;
            notes.iter().try_for_each(|note| {
                update.execute(params![note.origin.0, note.report, note.processes, note.seen.get()]).map(drop)
            })
        })
    }

    /// The credential of a host that shows a certificate with this name, for these tables. It is made at the first time.
    pub(crate) fn admit_certificate(
        &mut self,
        (name, tables): (&str, &TableBounds),
        credential: &SecretHash,
        now: Ticks,
    ) -> Result<Result<(), JoinRefusal>, StoreError> {
        self.change(|transaction| {
            if is_revoked(transaction, name)? {
                return Ok(Err(JoinRefusal::Revoked(name.to_owned())));
            }
            if are_many(transaction)? {
                return Ok(Err(JoinRefusal::Many));
            }
            let insert =
                "INSERT INTO host_credential(hash, name, given, tables, is_successor) VALUES (?1, ?2, ?3, ?4, 0)
                          ON CONFLICT (hash) DO UPDATE SET tables = ?4";
            transaction.execute(insert, params![credential, name, now.get(), tables.to_stored()])?;
            Ok(Ok(()))
        })
    }

    /// Ends all credentials of a name, and the invitations for it. Returns whether there were any. A host that joined keeps out until
    /// it is invited by its name.
    pub(crate) fn revoke_host(&mut self, name: &str) -> Result<bool, StoreError> {
        self.change(|transaction| {
            let credentials = transaction.execute("DELETE FROM host_credential WHERE name = ?1", [name])?;
            let invitations = transaction.execute("DELETE FROM invitation WHERE name = ?1", [name])?;
            if credentials > 0 {
                transaction.execute("INSERT OR IGNORE INTO revoked_host VALUES (?1)", [name])?;
            }
            Ok(credentials + invitations > 0)
        })
    }

    /// Ends all credentials of a name, and forgets its hosts. Returns whether there were any.
    pub(crate) fn forget_host(&mut self, name: &str) -> Result<bool, StoreError> {
        let is_revoked = self.revoke_host(name)?;
        let forgotten = self.change(|transaction| {
            transaction.execute("DELETE FROM revoked_host WHERE name = ?1", [name])?;
            transaction.execute("DELETE FROM host WHERE name = ?1", [name])
        })?;
        Ok(forgotten > 0 || is_revoked)
    }
}

/// Whether a name was revoked, and neither invited nor forgotten since.
fn is_revoked(connection: &Connection, name: &str) -> rusqlite::Result<bool> {
    let select = "SELECT EXISTS (SELECT 1 FROM revoked_host WHERE name = ?1)";
    connection.query_row(select, [name], |row| row.get(0))
}

/// The name in the keys of a folder that is new: that of an earlier one of this host, whose records may come again. A name that was
/// given to a host which is called otherwise since is not that of another one.
fn name_in_keys(connection: &Connection, name: &str, origin: &FolderOrigin) -> rusqlite::Result<String> {
    let select = "SELECT name_in_keys FROM host WHERE name = ?1 ORDER BY name_in_keys <> ?1, seen DESC LIMIT 1";
    if let Some(known) = connection.query_row(select, [name], |row| row.get(0)).optional()? {
        return Ok(known);
    }
    let select = "SELECT EXISTS (SELECT 1 FROM host WHERE name_in_keys = ?1)";
    let is_given: bool = connection.query_row(select, [name], |row| row.get(0))?;
    Ok(if is_given { format!("{name} {}", to_hex(&origin.0)) } else { name.to_owned() })
}

fn are_many(connection: &Connection) -> rusqlite::Result<bool> {
    let count = "SELECT max((SELECT count(*) FROM host_credential), (SELECT count(*) FROM host))";
    Ok(connection.query_row(count, [], |row| row.get::<_, i64>(0))? >= HOSTS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Which name the keys of a folder have, by the folders and names that were bound before: a host keeps the one that it had.
    #[test]
    fn keys_have_the_first_name_of_their_host() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut catalog = Catalog::open_to_repair(folder.path()).expect("made");
        let (mut bound, now) = (0u8, Ticks::MIN);
        let mut bind = |catalog: &mut Catalog, origin: u8, name: &str| {
            bound += 1;
            let (code, expires) = ([bound; 32], now.plus(std::time::Duration::from_secs(60)));
            let tables = TableBounds::default();
            let invitation = Invitation { code, name: name.into(), expires, is_reusable: false, tables };
            catalog.invite(&invitation, now).expect("invited");
            catalog.join(&code, None, &[100 + bound; 32], now).expect("written").expect("joined");
            let origin = FolderOrigin([origin; 16]);
            let binding = catalog.bind_origin(&[100 + bound; 32], &origin, true, now).expect("written");
            assert_eq!(binding, OriginBinding::Bound);
            let host = catalog.forwarding_host(&origin).expect("read").expect("a host");
            assert_eq!(host.name, name);
            host.name_in_keys
        };
        assert_eq!(bind(&mut catalog, 1, "web-1"), "web-1");
        assert_eq!(bind(&mut catalog, 2, "web-1"), "web-1", "its folder was lost");
        assert_eq!(bind(&mut catalog, 2, "db-1"), "web-1", "it was renamed");
        assert_eq!(bind(&mut catalog, 3, "db-1"), "web-1", "and lost its folder afterwards");
        assert_eq!(bind(&mut catalog, 1, "db-2"), "web-1");
        let other = bind(&mut catalog, 4, "web-1");
        assert!(other.starts_with("web-1 0404"), "another host has the name now: {other}");
        assert_eq!(bind(&mut catalog, 5, "web-1"), other);
        assert!(catalog.forget_host("web-1").expect("forgotten"));
        assert_eq!(bind(&mut catalog, 6, "db-3"), "db-3");
    }

    proptest! {
        /// The history is bounded, ascends, has the newest entry, and reaches back to the first one.
        #[test]
        fn a_history_is_short_and_reaches_far_back(steps in proptest::collection::vec(1i64..500, 1..400)) {
            let (mut history, mut commit) = (Vec::new(), 0);
            for step in &steps {
                commit += step;
                history = with_entry(&history, commit, commit.unsigned_abs() * 3);
            }
            let entries = entries_of(&history);
            prop_assert!(entries.len() <= HISTORY_MAX);
            prop_assert!(entries.is_sorted());
            prop_assert_eq!(entries.last(), Some(&(commit, commit.unsigned_abs() * 3)));
            prop_assert_eq!(entries.first().map(|entry| entry.0), Some(steps[0]));
        }

        /// Any bytes are a history.
        #[test]
        fn any_bytes_are_a_history(bytes: Vec<u8>) {
            prop_assert_eq!(entries_of(&bytes).len(), bytes.len() / ENTRY_BYTES);
        }
    }
}
