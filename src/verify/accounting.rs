//! Double-entry accounting: accepted records and rows are those that are stored, and those that left.

use super::{FindingKind, Verification};
use daytable_store::StoreError;
use daytable_store::accounting::Accounts;
use daytable_store::catalog::Catalog;

const ADVICE: &str = "another program changed catalog.db, or this is a bug of daytable: keep a copy of the folder; `daytable repair` starts the accounts again";

impl Verification<'_> {
    /// Compares all accounts of one snapshot.
    pub(super) fn accounting(&mut self, catalog: &Catalog) {
        let books = match catalog.books() {
            Ok(Some(books)) => books,
            // No daemon of this version has opened the folder: there are no accounts yet.
            Ok(None) => return,
            Err(StoreError::SourceLogDamaged { which, what, .. }) => return self.source_log_damaged(&which, &what),
            Err(error) => return self.find(FindingKind::Accounting, "catalog.db", None, error.to_string(), ADVICE),
        };
        for what in out_of_balance(&books) {
            self.find(FindingKind::Accounting, "catalog.db", None, what, ADVICE);
        }
    }
}

fn out_of_balance(books: &Accounts) -> Vec<String> {
    let mut found = Vec::new();
    if books.records_out() != 0 {
        let Accounts { of_sources, forgotten, of_listeners, records_before, records_in, .. } = books;
        let committed = of_sources + forgotten + of_listeners;
        found.push(format!(
            "the ledgers of sources and listeners have committed {committed} records, commits were given {records_in}, and {records_before} were there before"
        ));
    }
    if books.rows_out() != 0 {
        let Accounts { standing, dropped, sent, replaced, rows_in, rows_before, .. } = books;
        found.push(format!(
            "{standing} rows stand, {dropped} were dropped, {sent} sent and {replaced} replaced; commits were given {rows_in}, and {rows_before} were there before"
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_too_few_and_a_record_too_many_are_two_findings() {
        let whole =
            Accounts { records_in: 5, of_sources: 3, of_listeners: 2, rows_in: 7, standing: 4, ..Accounts::default() };
        let whole = Accounts { dropped: 1, sent: 1, replaced: 1, ..whole };
        assert_eq!(out_of_balance(&whole), Vec::<String>::new());
        let found = out_of_balance(&Accounts { standing: 3, of_sources: 4, ..whole });
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("committed 6 records, commits were given 5"), "{found:?}");
        assert!(found[1].starts_with("3 rows stand"), "{found:?}");
    }
}
