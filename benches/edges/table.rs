//! The figures of all runs.

use std::fmt;

/// Figures by row, in the order of their first measurement.
#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<Row>,
}

struct Row {
    name: String,
    unit: &'static str,
    target: &'static str,
    figures: Vec<f64>,
}

impl Table {
    /// Adds a figure to its row.
    pub(crate) fn add(&mut self, name: impl Into<String>, unit: &'static str, target: &'static str, figure: f64) {
        let name = name.into();
        eprintln!("  {name}: {} {unit}", shown(figure));
        match self.rows.iter_mut().find(|row| row.name == name) {
            Some(row) => row.figures.push(figure),
            None => self.rows.push(Row { name, unit, target, figures: vec![figure] }),
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| what | wanted | median | least | greatest |\n|---|--:|--:|--:|--:|")?;
        for Row { name, unit, target, figures } in &self.rows {
            let mut sorted = figures.clone();
            sorted.sort_by(f64::total_cmp);
            let (Some(least), Some(greatest)) = (sorted.first(), sorted.last()) else { continue };
            let median = sorted[sorted.len() / 2];
            let (median, least, greatest) = (shown(median), shown(*least), shown(*greatest));
            writeln!(f, "| {name}, {unit} | {target} | {median} | {least} | {greatest} |")?;
        }
        Ok(())
    }
}

/// Three digits or more.
fn shown(figure: f64) -> String {
    match figure {
        0.0..10.0 => format!("{figure:.2}"),
        10.0..100.0 => format!("{figure:.1}"),
        _ => format!("{figure:.0}"),
    }
}
