//! Where a command may write a file that its user names: nowhere in a data folder, whose files are daytable's own.
//!
//! A file of a day that is replaced is a lost day. What does not exist yet has no place there either: the next start takes it
//! for a file that nobody owns.

use super::exit::CliError;
use daytable_model::path_text::PathText;
use std::io;
use std::path::{Path, PathBuf};

/// Refuses an output in a data folder, or of a link that leads into one.
pub(super) fn check_output(path: &Path) -> Result<(), CliError> {
    let Some(data_dir) = data_folder_of(path).map_err(|source| CliError::Write { path: path.into(), source })? else {
        return Ok(());
    };
    Err(CliError::Unavailable(format!(
        "{} is in the data folder {}, whose files are daytable's own: write to a path outside of it",
        path.escaped(),
        data_dir.escaped()
    )))
}

/// Refuses a path that is one of a data folder's days, or its catalog. A credential may stand beside them.
pub(super) fn check_beside_days(path: &Path) -> Result<(), CliError> {
    let data_dir = data_folder_of(path).map_err(|source| CliError::Write { path: path.into(), source })?;
    let of_folder = |folder: PathBuf| {
        let inside = existing_part(&std::path::absolute(path).ok()?);
        let first = inside.strip_prefix(&folder).ok()?.components().next()?.as_os_str().to_string_lossy().into_owned();
        (first == "tables" || first == "trash" || first.starts_with("catalog.db")).then_some(first)
    };
    match data_dir.and_then(of_folder) {
        Some(_) => check_output(path),
        None => Ok(()),
    }
}

/// The data folder that has a path.
fn data_folder_of(path: &Path) -> io::Result<Option<PathBuf>> {
    let named = existing_part(&std::path::absolute(path)?);
    // The name itself may be a link, and a link in a data folder may lead out of it.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let beside = existing_part(&std::path::absolute(folder)?);
    let is_data_folder = |folder: &&Path| folder.join("catalog.db").exists();
    let found = [named, beside].iter().find_map(|place| place.ancestors().find(is_data_folder).map(Path::to_owned));
    Ok(found)
}

/// The part of a path that exists, without links and `..`.
fn existing_part(path: &Path) -> PathBuf {
    path.ancestors().find_map(|part| part.canonicalize().ok()).unwrap_or_else(|| path.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn no_output_is_in_a_data_folder() {
        let place = tempfile::tempdir().expect("a folder");
        let path = |name: &str| place.path().join(name);
        std::fs::create_dir_all(path("data/tables")).expect("created");
        std::fs::create_dir(path("out")).expect("created");
        for file in ["data/catalog.db", "data/tables/Log20261120.1.db", "out/file"] {
            std::fs::write(path(file), "bytes").expect("written");
        }
        symlink(path("data/tables"), path("days")).expect("linked");
        symlink(path("data/tables/Log20261120.1.db"), path("out/day")).expect("linked");
        symlink(path("out/file"), path("data/elsewhere")).expect("linked");
        let refused = [
            "data/tables/Log20261120.1.db",
            "data/catalog.db",
            "data/new.csv",
            "data/tables/new/deeper.csv",
            "days/Log20261120.1.db",
            "days/new.csv",
            "out/../data/tables/new.csv",
            "out/day",
            "data/elsewhere",
        ];
        for name in refused {
            let error = check_output(&path(name)).expect_err(name).to_string();
            let folder = path("data").canonicalize().expect("a folder");
            assert!(error.contains(&format!("is in the data folder {}", folder.display())), "{error}");
        }
        for name in ["out/file", "out/new.csv", "new/deeper.csv", "data.csv", "days/../../new.csv"] {
            assert!(check_output(&path(name)).is_ok(), "{name}");
        }
        assert!(check_output(Path::new("/dev/stdout")).is_ok());
        for name in ["data/tables/Log20261120.1.db", "data/catalog.db", "days/new", "out/day"] {
            assert!(check_beside_days(&path(name)).is_err(), "{name}");
        }
        for name in ["data/forward", "out/new"] {
            assert!(check_beside_days(&path(name)).is_ok(), "{name}");
        }
    }
}
