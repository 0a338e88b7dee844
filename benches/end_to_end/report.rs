//! The table at the end: targets and measured values.

use std::time::Duration;

/// The rows of the report, printed at once and again as a table at the end.
#[derive(Default)]
pub(crate) struct Report {
    rows: Vec<[String; 3]>,
}

impl Report {
    /// Adds a measured value and its target. An empty target means no target.
    pub(crate) fn add(&mut self, what: impl Into<String>, target: &str, measured: String) {
        let row = [what.into(), target.to_owned(), measured];
        eprintln!("  {}: {}", row[0], row[2]);
        self.rows.push(row);
    }

    /// The report as Markdown.
    pub(crate) fn table(&self) -> String {
        let width = |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0).max(9);
        let [a, b, c] = [width(0), width(1), width(2)];
        let mut table = format!("| {:a$} | {:>b$} | {:>c$} |\n", "what", "to reach", "measured");
        table += &format!("|{:-<1$}|", "", a + 2);
        table += &format!("{:->1$}:|{2:->3$}:|\n", "", b + 1, "", c + 1);
        for [what, target, measured] in &self.rows {
            table += &format!("| {what:a$} | {target:>b$} | {measured:>c$} |\n");
        }
        table
    }
}

/// Milliseconds, with the significant digits.
pub(crate) fn millis(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1000.0;
    if ms < 10.0 { format!("{ms:.2} ms") } else { format!("{ms:.0} ms") }
}

/// Megabytes of 1,000,000 bytes.
pub(crate) fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// A rate per second.
pub(crate) fn rate(count: u64, time: Duration) -> String {
    // Whole thousands: more digits are noise.
    let thousands = (count as f64 / time.as_secs_f64() / 1000.0).round() as u64;
    match (thousands / 1000, thousands % 1000) {
        (0, thousands) => format!("{thousands},000 /s"),
        (millions, thousands) => format!("{millions},{thousands:03},000 /s"),
    }
}

/// Microseconds per item.
pub(crate) fn micros_each(time: Duration, count: u64) -> String {
    format!("{:.2} µs", time.as_secs_f64() * 1e6 / count.max(1) as f64)
}

/// Bytes per item.
pub(crate) fn bytes_each(bytes: u64, count: u64) -> String {
    format!("{:.1} B", bytes as f64 / count.max(1) as f64)
}
