//! Which tables a credential of a host may write.
//!
//! The names are those of this folder: a host may have tables that are called otherwise, whose records go to a table here. Names
//! are compared as the service does it, without regard to case. `*` stands for any characters.

use super::name_pattern::fits;
use daytable_model::key::TableName;

/// Patterns at most.
pub const PATTERNS_MAX: usize = 64;
/// Bytes of a pattern at most.
const PATTERN_BYTES_MAX: usize = 64;

/// The patterns of the tables. Without one, all tables are permitted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableBounds(Vec<String>);

impl TableBounds {
    /// Checks patterns that somebody typed.
    ///
    /// # Errors
    ///
    /// The reason.
    pub fn new(patterns: &[String]) -> Result<TableBounds, String> {
        let is_pattern = |pattern: &String| {
            let is_of_names = |c: char| c.is_ascii_alphanumeric() || c == '*';
            (1..=PATTERN_BYTES_MAX).contains(&pattern.len()) && pattern.chars().all(is_of_names)
        };
        if let Some(wrong) = patterns.iter().find(|pattern| !is_pattern(pattern)) {
            return Err(format!(
                "{wrong:?} is not a pattern of tables: a pattern has letters, digits and \"*\", as in Log or Audit*"
            ));
        }
        if patterns.len() > PATTERNS_MAX {
            return Err(format!("there can be {PATTERNS_MAX} patterns of tables"));
        }
        Ok(TableBounds(patterns.to_vec()))
    }

    /// Whether this table may be written.
    pub fn permit(&self, table: &TableName) -> bool {
        let name = table.as_str().to_ascii_lowercase();
        self.0.is_empty() || self.0.iter().any(|pattern| fits(&pattern.to_ascii_lowercase(), &name))
    }

    /// The patterns; none if all tables are permitted.
    pub fn patterns(&self) -> &[String] {
        &self.0
    }

    pub(super) fn stored(text: Option<String>) -> TableBounds {
        TableBounds(text.unwrap_or_default().split_whitespace().map(str::to_owned).collect())
    }

    pub(super) fn to_stored(&self) -> String {
        self.0.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_patterns() {
        let bounds =
            |patterns: &[&str]| TableBounds::new(&patterns.iter().map(|p| (*p).to_owned()).collect::<Vec<_>>());
        let permits = |patterns: &[&str], table| {
            bounds(patterns).expect("patterns").permit(&TableName::new(table).expect("a name"))
        };
        for (patterns, table, permitted) in [
            (&[][..], "Log", true),
            (&["Log"], "Log", true),
            (&["log"], "LOG", true),
            (&["Log"], "Logs", false),
            (&["Log"], "Blog", false),
            (&["Audit*", "Log"], "AuditTrail", true),
            (&["Audit*", "Log"], "MyAudit", false),
            (&["*"], "Log", true),
        ] {
            assert_eq!(permits(patterns, table), permitted, "{patterns:?} {table}");
        }
        let kept = bounds(&["Audit*", "Log"]).expect("patterns");
        assert_eq!(TableBounds::stored(Some(kept.to_stored())), kept);
        assert_eq!(TableBounds::stored(None), TableBounds::default());
        for wrong in ["", "a b", "Log,Audit", "L\u{f6}g", "a\n", &"x".repeat(65)] {
            assert!(bounds(&[wrong]).is_err(), "{wrong:?}");
        }
        assert!(TableBounds::new(&vec!["Log".to_owned(); PATTERNS_MAX + 1]).is_err());
    }
}
