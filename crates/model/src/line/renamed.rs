//! The layout of a record whose fields get other names.

/// A layout that names fields by other properties; `rename` gives the new property of those that get one. `None` if the layout
/// names none of these. `%%` is a percent sign.
pub fn renamed_layout(layout: &str, rename: impl Fn(&str) -> Option<String>) -> Option<String> {
    let (mut renamed, mut rest, mut is_changed) = (String::new(), layout, false);
    while let Some(at) = rest.find('%') {
        let (before, after) = rest.split_at(at + 1);
        renamed.push_str(before);
        rest = after;
        if let Some(after) = rest.strip_prefix('%') {
            renamed.push('%');
            rest = after;
        } else if let Some((name, after)) = rest.strip_prefix('(').and_then(|named| named.split_once(')'))
            && let Some(name) = rename(name)
        {
            renamed.push_str(&format!("({name})"));
            (rest, is_changed) = (after, true);
        }
    }
    renamed.push_str(rest);
    is_changed.then_some(renamed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_renamed_where_a_layout_names_them() {
        let rename = |name: &str| (name == "a").then(|| "b".to_owned());
        for (layout, renamed) in [
            ("%%(a) %(a) %v", Some("%%(a) %(b) %v")),
            ("%(a)%(ab)%(a)", Some("%(b)%(ab)%(b)")),
            ("%(ab) (a) %%(a)", None),
            ("%(a", None),
            ("", None),
        ] {
            assert_eq!(renamed_layout(layout, rename).as_deref(), renamed, "{layout}");
        }
    }
}
