//! Tables that the program's own tables generate within pages that are otherwise written by hand.

/// Compares the table of a page with `table`, which begins with the same row of headings. With `DAYTABLE_WRITE_DOCS`
/// (`just docs`), writes it there.
pub(crate) fn compare_table(page: &str, table: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(page);
    let text = std::fs::read_to_string(&path).expect("the page");
    let headings = table.lines().next().expect("a row of headings");
    let start = text.find(headings).expect("the table of the page");
    let end = text[start..].find("\n\n").map_or(text.len(), |end| start + end + 1);
    if std::env::var_os("DAYTABLE_WRITE_DOCS").is_some() {
        std::fs::write(&path, [&text[..start], table, &text[end..]].concat()).expect("written");
        return;
    }
    assert!(&text[start..end] == table, "{page} is not the generated one; run: just docs");
}
