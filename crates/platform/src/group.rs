//! The groups of this host, as `/etc/group` has them.

use std::io;

/// The file with the groups.
const GROUPS: &str = "/etc/group";

/// The number of a group by its name, or of a group that is a number already; `None` if there is no such group.
///
/// # Errors
///
/// The groups cannot be read.
pub fn number(name: &str) -> io::Result<Option<u32>> {
    match name.parse() {
        Ok(number) => Ok(Some(number)),
        Err(_) => Ok(number_in(&std::fs::read_to_string(GROUPS)?, name)),
    }
}

/// The number of a group in the text of the file: `name:password:number:members`.
fn number_in(groups: &str, name: &str) -> Option<u32> {
    groups.lines().find_map(|line| {
        let mut parts = line.split(':');
        (parts.next()? == name).then(|| parts.nth(1)?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_numbers() {
        let groups = "root:x:0:\nadm:x:4:syslog,ann\n# adm2\nbad:x:many:\nadm3:x\n";
        for (name, number) in
            [("root", Some(0)), ("adm", Some(4)), ("adm3", None), ("bad", None), ("", None), ("ad", None)]
        {
            assert_eq!(number_in(groups, name), number, "{name}");
        }
        assert_eq!(number("4").expect("a number"), Some(4));
    }
}
