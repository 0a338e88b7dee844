//! Double-entry accounting: the accepted records and rows equal the stored ones and those that left.

use super::{FindingKind, Verification};
use daytable_store::StoreError;
use daytable_store::accounting::Accounts;
use daytable_store::catalog::Catalog;

const ADVICE: &str = "another program changed catalog.db, or this is a bug of daytable: keep a copy of the folder; `daytable repair` starts the accounts again";

impl Verification<'_> {
    /// Compares all accounts of one snapshot.
    pub(super) fn accounting(&mut self, catalog: &Catalog) {
        let accounts = match catalog.accounts() {
            Ok(accounts) => accounts,
            Err(StoreError::SourceLogDamaged { which, what: reason, .. }) => {
                return self.source_log_damaged(&which, &reason);
            }
            Err(error) => return self.find(FindingKind::Accounting, "catalog.db", None, error.to_string(), ADVICE),
        };
        for description in out_of_balance(&accounts) {
            self.find(FindingKind::Accounting, "catalog.db", None, description, ADVICE);
        }
    }
}

fn out_of_balance(accounts: &Accounts) -> Vec<String> {
    let mut found = Vec::new();
    if accounts.records_surplus() != 0 {
        let Accounts { source_records, forgotten_records, listener_records, records_before, records_in, .. } = accounts;
        let committed = source_records + forgotten_records + listener_records;
        found.push(format!(
            "the ledgers of sources and listeners have committed {committed} records, commits were given {records_in}, and the opening balance is {records_before}"
        ));
    }
    if accounts.rows_surplus() != 0 {
        let Accounts { live_rows, dropped_rows, sent_rows, replaced_rows, rows_in, rows_before, .. } = accounts;
        found.push(format!(
            "{live_rows} rows are stored, {dropped_rows} were dropped, {sent_rows} sent and {replaced_rows} replaced; commits were given {rows_in}, and the opening balance is {rows_before}"
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_too_few_and_a_record_too_many_are_two_findings() {
        let whole = Accounts {
            records_in: 5,
            source_records: 3,
            listener_records: 2,
            rows_in: 7,
            live_rows: 4,
            ..Accounts::default()
        };
        let whole = Accounts { dropped_rows: 1, sent_rows: 1, replaced_rows: 1, ..whole };
        assert_eq!(out_of_balance(&whole), Vec::<String>::new());
        let found = out_of_balance(&Accounts { live_rows: 3, source_records: 4, ..whole });
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("committed 6 records, commits were given 5"), "{found:?}");
        assert!(found[1].starts_with("3 rows are stored"), "{found:?}");
    }
}
