//! Suggests the most similar name for a misspelt one.

/// The known name with the fewest edits, if they are few enough for a slip.
pub fn did_you_mean<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    // A file may contain a name of any length; a slip is not much longer than the longest known name.
    let name: Vec<char> = name.to_ascii_lowercase().chars().take(64).collect();
    let edits =
        known.iter().map(|known| (edits(&name, &known.to_ascii_lowercase().chars().collect::<Vec<_>>()), *known));
    edits.filter(|(count, known)| *count <= 1 + known.len() / 4).min().map(|(_, known)| known)
}

/// The [Levenshtein distance](https://en.wikipedia.org/wiki/Levenshtein_distance) of two texts.
fn edits(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_the_name_that_was_meant() {
        assert_eq!(
            did_you_mean("erorr", &["err", "error"]),
            Some("error"),
            "a nearer name is too short for so many edits"
        );
        let known = ["include", "instance", "ignore_older", "format"];
        for (name, meant) in [
            ("includes", Some("include")),
            ("Include", Some("include")),
            ("ignore-older", Some("ignore_older")),
            ("formt", Some("format")),
            ("colour", None),
            ("", None),
        ] {
            assert_eq!(did_you_mean(name, &known), meant, "{name}");
        }
    }
}
