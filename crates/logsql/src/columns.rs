//! What the columns of an answer are, from its query alone.

use crate::field_name::{Column, FieldName};
use crate::query::{ParsedQuery, Pipe, StepSize};
use std::time::Duration;

impl ParsedQuery {
    /// The columns of the answer that tell its groups apart, and whose values no function made: a chart has no line of them.
    pub fn group_columns(&self) -> Vec<String> {
        let mut groups: Vec<String> = Vec::new();
        let names = |by: &[FieldName]| by.iter().map(|field| field.written().to_owned()).collect();
        for pipe in &self.pipes {
            match pipe {
                Pipe::Stats { by, .. } => groups = by.iter().map(|by| by.field.written().to_owned()).collect(),
                Pipe::Top { by, .. } | Pipe::Uniq { by, .. } => groups = names(by),
                Pipe::FieldValues { field, .. } => groups = vec![field.written().to_owned()],
                Pipe::FieldNames { name } => groups = vec![name.clone()],
                Pipe::Sessions { by, .. } | Pipe::Gaps { by, .. } => groups = names(by),
                Pipe::Pivot(pivot) => groups = names(&pivot.groups),
                Pipe::Facets { .. } => groups = vec!["field_name".into(), "field_value".into()],
                Pipe::Rename(pairs) => pairs.iter().for_each(|(from, to)| {
                    groups
                        .iter_mut()
                        .filter(|name| *name == from.written())
                        .for_each(|name| *name = to.written().into());
                }),
                Pipe::Copy(pairs) => pairs.iter().for_each(|(from, to)| {
                    if groups.iter().any(|name| name == from.written()) {
                        groups.push(to.written().to_owned());
                    }
                }),
                _ => {}
            }
        }
        groups
    }

    /// The step of time by which the answer has groups; that of the longest month or year for steps of the calendar.
    pub fn time_step(&self) -> Option<Duration> {
        const DAY: Duration = Duration::from_secs(86_400);
        let by = self.pipes.iter().rev().find_map(|pipe| match pipe {
            Pipe::Stats { by, .. } => Some(by),
            _ => None,
        })?;
        let time = by.iter().find(|by| by.field.column() == Column::Time)?;
        match time.step.as_ref()?.size {
            StepSize::Number(nanos) => Duration::try_from_secs_f64(nanos / 1e9).ok(),
            StepSize::Week => Some(7 * DAY),
            StepSize::Month => Some(31 * DAY),
            StepSize::Year => Some(366 * DAY),
            StepSize::AddressBits(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_by_are_told_from_those_of_functions() {
        let cases: [(&str, &[&str], Option<u64>); 10] = [
            ("error", &[], None),
            ("* | stats count() n, avg(took) a", &[], None),
            ("* | stats by (_time:1h, status) count() n, avg(took) a", &["_time", "status"], Some(3600)),
            ("* | stats by (time:1d) count() n | sort by (n) | filter n:>1", &["time"], Some(86_400)),
            ("* | stats by (_time:month, user.id) max(size) m", &["_time", "user.id"], Some(31 * 86_400)),
            ("* | stats by (_time, status:100) count() n", &["_time", "status"], None),
            ("* | stats by (status) count() n | rename status as code, n as m | math m*2 as x", &["code"], None),
            ("* | stats by (status) count() n | copy status as code, n as m", &["status", "code"], None),
            ("* | top 3 by (path)", &["path"], None),
            ("* | uniq by (a, b) with hits", &["a", "b"], None),
        ];
        for (query, groups, step) in cases {
            let parsed = ParsedQuery::parse(query).expect(query);
            assert_eq!(parsed.group_columns(), groups, "{query}");
            assert_eq!(parsed.time_step().map(|step| step.as_secs()), step, "{query}");
        }
    }
}
