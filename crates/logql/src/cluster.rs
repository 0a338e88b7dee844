//! Patterns of lines that look alike: `GET /api/<_> took <_>`.
//!
//! A line is cut at white space. Lines with as many words, the same first word and mostly the same words are one
//! cluster; where they differ, the pattern has `<_>`. Words with digits differ from the start. The number of clusters is
//! bounded: when too many are known, the rarest go.

use std::collections::{BTreeMap, HashMap};

/// Clusters that are kept.
const CLUSTERS_MAX: usize = 300;
/// Words of a line that are compared.
const WORDS_MAX: usize = 80;
/// Words that must be equal, in percent.
const LIKENESS_PERCENT: usize = 60;

/// Lines that look alike.
#[derive(Debug)]
pub struct Cluster {
    words: Vec<Option<String>>,
    spaces: Vec<String>,
    /// The level of the lines.
    pub level: String,
    /// The number of lines by the start of their step.
    pub counts: BTreeMap<i64, u64>,
    /// The number of lines.
    pub total: u64,
}

/// Finds clusters in lines that come one after another.
#[derive(Debug, Default)]
pub struct Clusters {
    by_shape: HashMap<(usize, String, String), Vec<Cluster>>,
    count: usize,
}

impl Clusters {
    /// Adds a line.
    pub fn add(&mut self, line: &str, level: &str, step_start: i64) {
        let line = line.lines().next().unwrap_or_default();
        let (mut words, mut spaces) = (Vec::new(), Vec::new());
        let mut rest = line;
        while words.len() < WORDS_MAX && !rest.is_empty() {
            let word_at = rest.find(|c: char| !c.is_whitespace()).unwrap_or(rest.len());
            spaces.push(rest[..word_at].to_owned());
            rest = &rest[word_at..];
            let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
            words.push(fixed(&rest[..end]));
            rest = &rest[end..];
        }
        if words.is_empty() {
            return;
        }
        let first = words[0].clone().unwrap_or_default();
        let of_shape = self.by_shape.entry((words.len(), first, level.to_owned())).or_default();
        let alike = |cluster: &Cluster| {
            let equal = cluster.words.iter().zip(&words).filter(|(a, b)| a == b).count();
            equal * 100 >= LIKENESS_PERCENT * words.len()
        };
        match of_shape.iter_mut().find(|cluster| alike(cluster)) {
            Some(cluster) => {
                for (known, word) in cluster.words.iter_mut().zip(words) {
                    if *known != word {
                        *known = None;
                    }
                }
                *cluster.counts.entry(step_start).or_default() += 1;
                cluster.total += 1;
            }
            None => {
                let counts = BTreeMap::from([(step_start, 1)]);
                of_shape.push(Cluster { words, spaces, level: level.to_owned(), counts, total: 1 });
                self.count += 1;
            }
        }
        if self.count > 2 * CLUSTERS_MAX {
            self.forget();
        }
    }

    fn forget(&mut self) {
        let mut totals: Vec<u64> = self.by_shape.values().flatten().map(|cluster| cluster.total).collect();
        totals.sort_unstable_by(|a, b| b.cmp(a));
        let least = totals.get(CLUSTERS_MAX).copied().unwrap_or(0);
        for clusters in self.by_shape.values_mut() {
            clusters.retain(|cluster| cluster.total > least);
        }
        self.by_shape.retain(|_, clusters| !clusters.is_empty());
        self.count = self.by_shape.values().map(Vec::len).sum();
    }

    /// The clusters, those of most lines first.
    pub fn into_sorted(self) -> Vec<Cluster> {
        let mut clusters: Vec<Cluster> = self.by_shape.into_values().flatten().collect();
        clusters.sort_by(|a, b| b.total.cmp(&a.total).then_with(|| a.pattern().cmp(&b.pattern())));
        clusters.truncate(CLUSTERS_MAX);
        clusters
    }
}

impl Cluster {
    /// The pattern, which the filter `|>` understands.
    pub fn pattern(&self) -> String {
        let mut pattern = String::new();
        for (space, word) in self.spaces.iter().zip(&self.words) {
            match word {
                Some(word) => {
                    pattern.push_str(space);
                    pattern.push_str(word);
                }
                // Two captures in a row are one.
                None if pattern.ends_with("<_>") => {}
                None => {
                    pattern.push_str(space);
                    pattern.push_str("<_>");
                }
            }
        }
        pattern
    }
}

/// The word with its changing part as `<_>`; `None` if all of the word changes.
fn fixed(word: &str) -> Option<String> {
    if !word.bytes().any(|byte| byte.is_ascii_digit()) {
        return Some(word.to_owned());
    }
    // `key=value` keeps its key.
    let (key, value) = word.split_once('=').filter(|(key, _)| !key.bytes().any(|byte| byte.is_ascii_digit()))?;
    let quote = if value.starts_with('"') { "\"" } else { "" };
    let end = if value.len() > 1 && value.ends_with('"') && !quote.is_empty() { "\"" } else { "" };
    Some(format!("{key}={quote}<_>{end}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_look_alike_are_one_pattern() {
        let mut clusters = Clusters::default();
        for n in 0..10 {
            clusters.add(&format!("worker {n} did step {} of batch {n}ab", n * 7), "info", 0);
            clusters.add(&format!("order={n} user=bob took={n}ms"), "info", 60);
        }
        clusters.add("a lonely line", "warn", 0);
        let found = clusters.into_sorted();
        let shown: Vec<_> = found.iter().map(|cluster| (cluster.pattern(), cluster.total)).collect();
        assert_eq!(
            shown,
            [
                ("order=<_> user=bob took=<_>".to_owned(), 10),
                ("worker <_> did step <_> of batch <_>".to_owned(), 10),
                ("a lonely line".to_owned(), 1),
            ]
        );
        assert_eq!(found[0].counts, BTreeMap::from([(60, 10)]));
    }

    #[test]
    fn the_number_of_clusters_is_bounded() {
        let mut clusters = Clusters::default();
        for n in 0..5000u32 {
            let word = |seed: u32| char::from(b'a' + u8::try_from(seed % 26).expect("small"));
            let line: String = (0..6).map(|at| format!("{} ", word(n * 31 + at * n))).collect();
            clusters.add(&line, "info", 0);
        }
        assert!(clusters.count <= 2 * CLUSTERS_MAX && clusters.into_sorted().len() <= CLUSTERS_MAX);
    }
}
