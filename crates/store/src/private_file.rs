//! Files and folders that only their owner can read. Creation fails if the name exists, so a foreign link is never
//! followed.

use crate::StoreError;
use daytable_model::path_text::PathText;
use std::fs::{DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Creates a folder and its missing parents. Fails if the path is that of something else.
pub fn create_folder(path: &Path) -> Result<(), StoreError> {
    check_folder(path)?;
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(StoreError::io(path))
}

/// Fails if something that is no folder has the path of one.
pub fn check_folder(path: &Path) -> Result<(), StoreError> {
    match std::fs::metadata(path) {
        Ok(there) if !there.is_dir() => Err(StoreError::Refused(format!(
            "{}: it is not a folder: name another one, or move it away",
            path.escaped()
        ))),
        _ => Ok(()),
    }
}

/// Makes the entries of a folder durable.
pub(crate) fn sync(folder: &Path) -> Result<(), StoreError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(StoreError::io(folder))
}

/// Creates a file to write to. Fails if the name exists, even as a dangling link.
pub fn create_new(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).create_new(true).mode(0o600).open(path)
}

/// Creates a file in place of an earlier attempt with the same name. If the name is a link, the link is removed, and
/// its target stays.
pub fn create_anew(path: &Path) -> io::Result<File> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    create_new(path)
}

/// Replaces a file as a whole. When this returns the new bytes are on the disk; after a failure or a kill the file has the
/// old bytes or the new ones.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let partial = path.with_extension("json.partial");
    let mut file = create_anew(&partial).map_err(StoreError::io(&partial))?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(StoreError::io(&partial))?;
    daytable_platform::failpoint!("replace-written");
    std::fs::rename(&partial, path).map_err(StoreError::io(path))?;
    daytable_platform::failpoint!("replace-renamed");
    sync(path.parent().unwrap_or(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn the_target_of_a_link_is_not_changed() {
        let dir = tempfile::tempdir().expect("a folder");
        let (other, at) = (dir.path().join("other"), dir.path().join("at"));
        fs::write(&other, "precious").expect("written");
        for link in [symlink, |from: &Path, to: &Path| fs::hard_link(from, to)] {
            link(other.as_path(), at.as_path()).expect("linked");
            assert!(create_new(&at).is_err());
            create_anew(&at).expect("made").write_all(b"new").expect("written");
            assert_eq!(fs::read_to_string(&other).expect("read"), "precious");
            assert_eq!(fs::read_to_string(&at).expect("read"), "new");
            assert_eq!(fs::metadata(&at).expect("there").permissions().mode() & 0o777, 0o600);
            fs::remove_file(&at).expect("removed");
        }
    }
}
