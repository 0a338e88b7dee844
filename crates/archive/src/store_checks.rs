//! Which places were found fit for tables, in this process: an archive is opened anew for each day.

use super::access::Access;
use super::delta_table::TableFormat;
use super::url::ArchiveUrl;
use daytable_delta::StoreCheck;
use daytable_platform::lock;
use std::sync::Mutex;

/// Places that are remembered. Places change when a configuration does; one that is forgotten is tried once more.
const PLACES_MAX: usize = 64;

/// A place, and how it is reached.
type Place = (ArchiveUrl, Access);

/// What is known of a place. Nothing is asked of its store before the first commit.
pub(super) fn store_check(url: &ArchiveUrl, access: &Access) -> StoreCheck {
    static CHECKS: Mutex<Vec<(Place, StoreCheck)>> = Mutex::new(Vec::new());
    // Whether archives are a table does not change the store.
    let access = Access { table_format: TableFormat::None, publish_open: None, ..access.clone() };
    let (mut checks, place) = (lock(&CHECKS), (url.clone(), access));
    if let Some((_, check)) = checks.iter().find(|(known, _)| *known == place) {
        return check.clone();
    }
    let check = StoreCheck::default();
    if checks.len() >= PLACES_MAX {
        checks.remove(0);
    }
    checks.push((place, check.clone()));
    check
}
