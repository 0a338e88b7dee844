//! Patterns of names: of hosts, and of tables.

/// Whether a name is of a pattern. `*` stands for any characters, and everything else for itself.
pub fn fits(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(name) = name.strip_prefix(start) else { return false };
    let (middle, end) = rest.rsplit_once('*').map_or((None, rest), |(middle, end)| (Some(middle), end));
    let Some(name) = name.strip_suffix(end) else { return false };
    let mut left = name;
    middle.unwrap_or_default().split('*').all(|part| match left.find(part) {
        Some(at) => {
            left = &left[at + part.len()..];
            true
        }
        None => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_names() {
        for (pattern, name, is_of_it) in [
            ("web-1", "web-1", true),
            ("web-1", "web-11", false),
            ("node-*", "node-7", true),
            ("node-*", "node-", true),
            ("node-*", "anode-7", false),
            ("*", "x", true),
            ("a*b", "ab", true),
            ("a*b", "a-b", true),
            ("a*b", "abc", false),
            ("aa*aa", "aaa", false),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "a1c", false),
        ] {
            assert_eq!(fits(pattern, name), is_of_it, "{pattern} {name}");
        }
    }
}
