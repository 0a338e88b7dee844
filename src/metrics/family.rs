//! A metric's definition, its samples of one scrape, and their text.

use super::histogram::BucketHistogram;
use super::snapshot::Snapshot;
use std::collections::BTreeMap;
use std::fmt::Write;

/// A row of the table of metrics.
pub(super) struct Metric {
    pub(super) name: &'static str,
    pub(super) kind: MetricKind,
    /// The names of the labels, in the order of a sample's values.
    pub(super) labels: &'static [&'static str],
    /// The meaning of the value.
    #[cfg_attr(not(test), expect(dead_code, reason = "the reference page shows it"))]
    pub(super) unit: &'static str,
    #[cfg_attr(not(test), expect(dead_code, reason = "the reference page shows it"))]
    pub(super) presence: Presence,
    pub(super) help: &'static str,
    /// Adds the samples of one scrape.
    pub(super) collect: fn(&Snapshot, &mut Family),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MetricKind {
    Counter,
    Gauge,
    Histogram,
}

/// When a metric has samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// In every scrape.
    Always,
    /// One sample for each source, configured or fed by pushes, from its start on.
    Source,
    /// One sample for each block or pattern that the configuration has, from its start on.
    Configured,
    /// From the first event on that has these labels.
    Event,
    /// While something is in that state.
    While,
}

impl MetricKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        }
    }
}

/// The samples of one metric.
pub(super) struct Family {
    labels: &'static [&'static str],
    /// By the values of the labels.
    samples: BTreeMap<Vec<String>, f64>,
    histogram: Option<BucketHistogram>,
}

impl Family {
    pub(super) fn new(labels: &'static [&'static str]) -> Family {
        Family { labels, samples: BTreeMap::new(), histogram: None }
    }

    /// Adds a count. Counts of the same labels add up.
    pub(super) fn count(&mut self, labels: &[&str], count: u64) {
        *self.sample(labels) += count as f64;
    }

    /// Sets a value.
    pub(super) fn set(&mut self, labels: &[&str], value: f64) {
        *self.sample(labels) = value;
    }

    pub(super) fn histogram(&mut self, histogram: &BucketHistogram) {
        self.histogram = Some(histogram.clone());
    }

    fn sample(&mut self, labels: &[&str]) -> &mut f64 {
        debug_assert_eq!(labels.len(), self.labels.len(), "a value for each of {:?}", self.labels);
        self.samples.entry(labels.iter().map(|value| (*value).to_owned()).collect()).or_default()
    }

    /// Appends the family in Prometheus's text format; a family without samples is left out.
    pub(super) fn write(&self, metric: &Metric, text: &mut String) {
        if self.samples.is_empty() && self.histogram.is_none() {
            return;
        }
        let (name, help) = (metric.name, metric.help.replace('\\', "\\\\").replace('\n', "\\n"));
        // Writing to a string cannot fail.
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {}\n", metric.kind.name());
        for (values, value) in &self.samples {
            text.push_str(name);
            for (at, (label, value)) in self.labels.iter().zip(values).enumerate() {
                let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
                let _ = write!(text, "{}{label}=\"{value}\"", if at == 0 { '{' } else { ',' });
            }
            let _ = writeln!(text, "{} {value}", if values.is_empty() { "" } else { "}" });
        }
        if let Some(histogram) = &self.histogram {
            for (bound, count) in histogram.cumulative() {
                let _ = writeln!(text, "{name}_bucket{{le=\"{bound}\"}} {count}");
            }
            let (sum, count) = (histogram.sum(), histogram.count());
            let _ = write!(text, "{name}_bucket{{le=\"+Inf\"}} {count}\n{name}_sum {sum}\n{name}_count {count}\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_one_source_add_up_and_label_values_are_escaped() {
        let metric = Metric {
            name: "daytable_x_total",
            kind: MetricKind::Counter,
            labels: &["reason", "source"],
            unit: "records",
            presence: Presence::Event,
            help: "Of a \\ b\nc.",
            collect: |_, _| {},
        };
        let (mut family, mut text) = (Family::new(metric.labels), String::new());
        family.write(&metric, &mut text);
        assert_eq!(text, "", "a family without samples is left out");
        family.count(&["b", "app"], 1);
        family.count(&["a\"\\\n", "app"], 2);
        family.count(&["b", "app"], 40);
        family.write(&metric, &mut text);
        assert_eq!(
            text,
            concat!(
                "# HELP daytable_x_total Of a \\\\ b\\nc.\n# TYPE daytable_x_total counter\n",
                "daytable_x_total{reason=\"a\\\"\\\\\\n\",source=\"app\"} 2\n",
                "daytable_x_total{reason=\"b\",source=\"app\"} 41\n",
            )
        );
    }
}
