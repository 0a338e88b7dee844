//! Sets of labels: names and values, sorted by name.

use std::fmt;

/// A set of labels. No name occurs twice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Labels(Vec<(String, String)>);

impl Labels {
    /// The set of these pairs. Of two pairs with one name, the first stays.
    pub fn new(mut pairs: Vec<(String, String)>) -> Labels {
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        pairs.dedup_by(|later, first| later.0 == first.0);
        Labels(pairs)
    }

    /// The value of a label.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.binary_search_by(|(known, _)| known.as_str().cmp(name)).ok().map(|at| self.0[at].1.as_str())
    }

    /// Sets a label. An empty value removes the label.
    pub fn set(&mut self, name: &str, value: &str) {
        match (self.0.binary_search_by(|(known, _)| known.as_str().cmp(name)), value.is_empty()) {
            (Ok(at), true) => drop(self.0.remove(at)),
            (Ok(at), false) => value.clone_into(&mut self.0[at].1),
            (Err(_), true) => {}
            (Err(at), false) => self.0.insert(at, (name.to_owned(), value.to_owned())),
        }
    }

    /// The pairs, sorted by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The labels whose names satisfy `keep`.
    pub fn filtered(&self, keep: impl Fn(&str) -> bool) -> Labels {
        Labels(self.0.iter().filter(|(name, _)| keep(name)).cloned().collect())
    }

    /// The labels of a series: those whose names satisfy `keep`, and that have a value. As in Prometheus, an empty label of a
    /// series and an absent one are the same.
    pub(crate) fn of_series(&self, keep: impl Fn(&str) -> bool) -> Labels {
        Labels(self.0.iter().filter(|(name, value)| !value.is_empty() && keep(name)).cloned().collect())
    }

    /// The pairs, sorted by name.
    pub(crate) fn into_pairs(self) -> Vec<(String, String)> {
        self.0
    }

    /// An estimate of their memory.
    pub fn bytes(&self) -> usize {
        /// What an allocation takes beside its bytes, on average.
        const ALLOCATION_BYTES: usize = 8;
        let pair = size_of::<(String, String)>() + 2 * ALLOCATION_BYTES;
        self.0.iter().map(|(name, value)| pair + name.len() + value.len()).sum()
    }

    /// Whether there is no label.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The form of a selector: `{app="shop", pod="web-1"}`.
impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (at, (name, value)) in self.iter().enumerate() {
            let comma = if at > 0 { ", " } else { "" };
            write!(f, "{comma}{name}={}", crate::text::quoted(value))?;
        }
        f.write_str("}")
    }
}

/// A name that Prometheus accepts: letters, digits and `_`, and no digit first.
pub fn label_name(name: &str) -> String {
    let mut sanitized = String::with_capacity(name.len() + 1);
    for c in name.trim().chars() {
        if sanitized.is_empty() && c.is_ascii_digit() {
            sanitized.push('_');
        }
        sanitized.push(if c.is_ascii_alphanumeric() { c } else { '_' });
    }
    sanitized
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_sorted_and_unique() {
        let pair = |n: &str, v: &str| (n.to_owned(), v.to_owned());
        let mut labels = Labels::new(vec![pair("pod", "1"), pair("app", "shop"), pair("pod", "2")]);
        assert_eq!(labels.to_string(), r#"{app="shop", pod="1"}"#);
        labels.set("app", "");
        labels.set("b", "x\"y");
        assert_eq!(labels.to_string(), r#"{b="x\"y", pod="1"}"#);
        assert_eq!((labels.get("pod"), labels.get("app")), (Some("1"), None));
    }

    #[test]
    fn names_are_made_acceptable() {
        for (name, label) in [("http.status", "http_status"), ("2xx", "_2xx"), (" a b ", "a_b"), ("größe", "gr__e")] {
            assert_eq!(label_name(name), label);
        }
    }
}
