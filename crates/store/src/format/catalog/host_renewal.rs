//! A credential takes the place of another one of the same host.
//!
//! ```text
//! host                                      here
//! keeps a word of its own
//!   ── its hash, with the old credential ─► a successor: both are good
//! keeps the word as its credential
//!   ── any request with it ───────────────► all others of the origin end
//! ```
//!
//! The old one is good until the new one was used, so a kill or a lost answer leaves the host one that is good. A repeat of the
//! first step changes nothing; one that was delayed comes with a credential that ended, and is refused. A successor has the
//! name, the origin and the tables of the one before it, so who renews gains nothing.

use super::database::Catalog;
use super::values::SecretHash;
use crate::StoreError;
use crate::format::forward_position::FolderOrigin;
use daytable_model::time::Ticks;
use rusqlite::{Connection, OptionalExtension, params};

/// Successors of an origin that were not used, at most. A host keeps its word until it has an answer, so there is one, or a few if
/// the host lost what it kept.
const SUCCESSORS_MAX: i64 = 4;

/// Ends all credentials of an origin but this one. The host remembers the one that was in use, so that whoever still shows it is
/// told why it is refused.
pub(super) fn end_others(
    connection: &Connection,
    credential: &SecretHash,
    origin: &FolderOrigin,
) -> rusqlite::Result<()> {
    let select = "SELECT hash FROM host_credential WHERE origin = ?1 AND hash <> ?2 AND NOT is_successor";
    let ended: Option<SecretHash> =
        connection.query_row(select, params![origin.0, credential], |row| row.get(0)).optional()?;
    if let Some(ended) = ended {
        connection.execute("UPDATE host SET replaced = ?2 WHERE origin = ?1", params![origin.0, ended])?;
    }
    let end = "DELETE FROM host_credential WHERE origin = ?1 AND hash <> ?2";
    connection.execute(end, params![origin.0, credential]).map(drop)
}

impl Catalog {
    /// Makes a credential the successor of another one, which has to be bound to this origin. Returns whether it is.
    pub(crate) fn renew_credential(
        &mut self,
        (old, origin): (&SecretHash, &FolderOrigin),
        new: &SecretHash,
        now: Ticks,
    ) -> Result<bool, StoreError> {
        self.change(|transaction| {
            let select = "SELECT EXISTS (SELECT 1 FROM host_credential WHERE hash = ?1 AND origin = ?2)";
            let is_of_origin =
                |hash: &SecretHash| transaction.query_row(select, params![hash, origin.0], |row| row.get::<_, bool>(0));
            if !is_of_origin(old)? {
                return Ok(false);
            }
            // One of another host stays what it is.
            let insert = "INSERT OR IGNORE INTO host_credential(hash, name, origin, given, tables, is_successor)
                          SELECT ?2, name, origin, ?3, tables, 1 FROM host_credential WHERE hash = ?1";
            transaction.execute(insert, params![old, new, now.get()])?;
            let surplus = "DELETE FROM host_credential WHERE hash IN (SELECT hash FROM host_credential
                           WHERE origin = ?1 AND is_successor AND hash <> ?2 ORDER BY given DESC LIMIT -1 OFFSET ?3)";
            transaction.execute(surplus, params![origin.0, new, SUCCESSORS_MAX - 1])?;
            is_of_origin(new)
        })
    }

    /// A successor was used: the others of its origin end. Returns whether it is there.
    pub(crate) fn use_successor(&mut self, credential: &SecretHash, origin: &FolderOrigin) -> Result<bool, StoreError> {
        self.change(|transaction| {
            let used = "UPDATE host_credential SET is_successor = 0 WHERE hash = ?1 AND origin = ?2";
            let is_there = transaction.execute(used, params![credential, origin.0])? > 0;
            if is_there {
                end_others(transaction, credential, origin)?;
            }
            Ok(is_there)
        })
    }

    /// Whether a credential ended because another one of its host was used.
    pub fn is_replaced_credential(&self, credential: &SecretHash) -> Result<bool, StoreError> {
        self.sql((|| {
            let select = "SELECT EXISTS (SELECT 1 FROM host WHERE replaced = ?1)";
            self.connection().prepare_cached(select)?.query_row([credential], |row| row.get(0))
        })())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::catalog::hosts::{Invitation, JoinRefusal, OriginBinding};
    use crate::format::catalog::table_bounds::TableBounds;

    const ORIGIN: FolderOrigin = FolderOrigin([7; 16]);
    const NOW: Ticks = Ticks::MIN;

    fn hash(of: u8) -> SecretHash {
        [of; 32]
    }

    /// A catalog with a host that joined with the credential 1, for some tables.
    fn joined(folder: &tempfile::TempDir) -> Catalog {
        let mut catalog = Catalog::open_to_repair(folder.path()).expect("made");
        join(&mut catalog, 1);
        assert_eq!(catalog.bind_origin(&hash(1), &ORIGIN, false, NOW).expect("bound"), OriginBinding::Bound);
        catalog
    }

    fn join(catalog: &mut Catalog, credential: u8) {
        let tables = TableBounds::new(&["Log".to_owned()]).expect("a pattern");
        let expires = NOW.plus(std::time::Duration::from_secs(60));
        let invitation = Invitation { code: hash(100), name: "web-1".into(), expires, is_reusable: false, tables };
        catalog.invite(&invitation, NOW).expect("invited");
        let joined = catalog.join(&hash(100), None, &hash(credential), NOW).expect("written");
        assert_eq!(joined.as_deref(), Ok("web-1"));
    }

    fn known(catalog: &Catalog) -> Vec<u8> {
        (0..50).filter(|of| catalog.host_credential(&hash(*of)).expect("read").is_some()).collect()
    }

    #[test]
    fn a_code_for_one_host_does_not_take_the_place_of_another() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut catalog = joined(&folder);
        let tables = TableBounds::new(&["Log".to_owned()]).expect("a pattern");
        let expires = NOW.plus(std::time::Duration::from_secs(60));
        let invitation = Invitation { code: hash(101), name: "db-1".into(), expires, is_reusable: false, tables };
        catalog.invite(&invitation, NOW).expect("invited");
        catalog.join(&hash(101), None, &hash(2), NOW).expect("written").expect("joined");
        let refused = catalog.bind_origin(&hash(2), &ORIGIN, false, NOW).expect("read");
        assert_eq!(refused, OriginBinding::OfHost("web-1".into()));
        assert_eq!(known(&catalog), [1, 2], "nothing ended");
        assert_eq!(catalog.forwarding_host(&ORIGIN).expect("read").expect("a host").name, "web-1");
        // The host itself may, and so may a host of that name, which joins again.
        join(&mut catalog, 3);
        assert_eq!(catalog.bind_origin(&hash(3), &ORIGIN, false, NOW).expect("bound"), OriginBinding::Bound);
        assert_eq!(known(&catalog), [2, 3]);
        assert_eq!(catalog.bind_origin(&hash(2), &ORIGIN, true, NOW).expect("bound"), OriginBinding::Bound);
        assert_eq!(known(&catalog), [2]);
        assert_eq!(catalog.forwarding_host(&ORIGIN).expect("read").expect("a host").name, "db-1");
    }

    #[test]
    fn the_old_one_is_good_until_the_new_one_was_used() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut catalog = joined(&folder);
        for _ in 0..2 {
            assert!(catalog.renew_credential((&hash(1), &ORIGIN), &hash(2), NOW).expect("written"), "also a repeat");
            assert_eq!(known(&catalog), [1, 2]);
        }
        let successor = catalog.host_credential(&hash(2)).expect("read").expect("it is there");
        assert!(successor.is_successor && successor.origin == Some(ORIGIN) && successor.name == "web-1");
        assert_eq!(successor.tables.patterns(), ["Log"], "who renews gains no tables");
        let listed = catalog.forwarding_hosts().expect("read");
        assert!(listed.len() == 1 && !listed[0].is_revoked && listed[0].tables.patterns() == ["Log"], "{listed:?}");
        assert!(catalog.use_successor(&hash(2), &ORIGIN).expect("written"));
        assert_eq!(known(&catalog), [2]);
        assert!(!catalog.host_credential(&hash(2)).expect("read").expect("it is there").is_successor);
        assert!(catalog.is_replaced_credential(&hash(1)).expect("read"));
        assert!(!catalog.is_replaced_credential(&hash(3)).expect("read"));
        // What was delayed until now comes with a credential that ended.
        assert!(!catalog.renew_credential((&hash(1), &ORIGIN), &hash(3), NOW).expect("written"));
        assert!(!catalog.use_successor(&hash(3), &ORIGIN).expect("written"));
        assert_eq!(known(&catalog), [2]);
    }

    #[test]
    fn a_successor_that_nobody_kept_ends_with_the_others() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut catalog = joined(&folder);
        for new in 10..20 {
            let now = NOW.plus(std::time::Duration::from_secs(new.into()));
            assert!(catalog.renew_credential((&hash(1), &ORIGIN), &hash(new), now).expect("written"));
        }
        assert_eq!(known(&catalog), [1, 16, 17, 18, 19], "the newest, and the one in use");
        assert!(catalog.use_successor(&hash(17), &ORIGIN).expect("written"));
        assert_eq!(known(&catalog), [17]);
    }

    #[test]
    fn a_credential_of_another_host_is_no_successor_and_stays_what_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut catalog = joined(&folder);
        join(&mut catalog, 2);
        let other = FolderOrigin([8; 16]);
        assert!(!catalog.renew_credential((&hash(2), &other), &hash(3), NOW).expect("written"), "it was not used yet");
        assert_eq!(catalog.bind_origin(&hash(2), &other, false, NOW).expect("bound"), OriginBinding::Bound);
        assert!(!catalog.renew_credential((&hash(1), &other), &hash(3), NOW).expect("written"));
        assert!(!catalog.renew_credential((&hash(1), &ORIGIN), &hash(2), NOW).expect("written"));
        assert!(!catalog.use_successor(&hash(2), &ORIGIN).expect("written"));
        assert_eq!(known(&catalog), [1, 2]);
        assert_eq!(catalog.host_credential(&hash(2)).expect("read").expect("there").origin, Some(other));
    }

    #[test]
    fn revoking_ends_successors_and_codes_for_several_hosts_do_not_bring_it_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut catalog = joined(&folder);
        assert!(catalog.renew_credential((&hash(1), &ORIGIN), &hash(2), NOW).expect("written"));
        let expires = NOW.plus(std::time::Duration::from_secs(60));
        let (name, tables) = ("web-*".to_owned(), TableBounds::default());
        let invitation = Invitation { code: hash(101), name, expires, is_reusable: true, tables };
        catalog.invite(&invitation, NOW).expect("invited");
        let by_code = |catalog: &mut Catalog, credential| {
            catalog.join(&hash(101), Some("web-1"), &hash(credential), NOW).expect("written")
        };
        assert!(by_code(&mut catalog, 3).is_ok(), "a folder that was lost joins again");
        assert!(by_code(&mut catalog, 3).is_ok(), "the answer was lost");
        assert_eq!(known(&catalog), [1, 2, 3]);
        assert!(catalog.revoke_host("web-1").expect("written"));
        assert!(known(&catalog).is_empty());
        assert_eq!(by_code(&mut catalog, 4), Err(JoinRefusal::Revoked("web-1".into())));
        join(&mut catalog, 5);
        assert!(by_code(&mut catalog, 6).is_ok(), "it was invited since");
        assert!(catalog.forget_host("web-1").expect("written"));
        assert!(by_code(&mut catalog, 7).is_ok(), "it was forgotten");
    }
}
