//! The size of a measurement, from the arguments of the command.

use anyhow::{Context, Result};
use std::collections::HashMap;

/// Which rows are measured, of how many records and how often.
pub(crate) struct Scale {
    rows: Vec<String>,
    pub(crate) records: u64,
    pub(crate) runs: usize,
    /// Without `--bench`: only to see that it still works.
    pub(crate) is_small: bool,
    options: HashMap<&'static str, u64>,
}

impl Scale {
    /// With so many records in a small run and in another one. `options` are further ones that take a number.
    pub(crate) fn from_args(records: [u64; 2], options: &[&'static str]) -> Result<Scale> {
        let is_small = !std::env::args().any(|argument| argument == "--bench");
        let records = records[usize::from(!is_small)];
        let mut scale = Scale { rows: Vec::new(), records, runs: 1, is_small, options: HashMap::new() };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let mut number = || -> Result<u64> {
                Ok(arguments.next().context("a number is missing")?.replace([',', '_'], "").parse()?)
            };
            let option = options.iter().find(|option| **option == argument);
            match (&*argument, option) {
                (_, Some(option)) => drop(scale.options.insert(option, number()?)),
                ("--records", _) => scale.records = number()?,
                ("--runs", _) => scale.runs = usize::try_from(number()?)?,
                ("--bench" | "--test", _) => {}
                (row, _) => scale.rows.push(row.to_owned()),
            }
        }
        Ok(scale)
    }

    /// Whether a row was asked for, or none was.
    pub(crate) fn wants(&self, row: &str) -> bool {
        self.rows.is_empty() || self.names(row)
    }

    /// Whether a row was asked for by its name.
    pub(crate) fn names(&self, row: &str) -> bool {
        self.rows.iter().any(|wanted| wanted == row)
    }

    /// The number of an option; without it that of a small run or of another one.
    pub(crate) fn option(&self, name: &str, otherwise: [u64; 2]) -> u64 {
        self.options.get(name).copied().unwrap_or(otherwise[usize::from(!self.is_small)])
    }
}
