//! A file that is written under another name, and gets its own once it is whole.
//!
//! ```text
//! .NAME.partial ──► sync ──► rename to NAME ──► sync the folder
//! ```
//!
//! Only its user reads the file. A command that fails removes what it wrote; a kill leaves the partial file, which the next
//! command of the same output overwrites. A lock keeps two commands apart. What is not a regular file (`/dev/stdout`, a
//! pipe) is written as it is.

use super::exit::CliError;
use daytable_model::path_text::PathText;
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A file that does not have its name yet.
pub(super) struct AtomicFile {
    file: File,
    path: PathBuf,
    /// Where the file is until it is whole; `None` if it has its name already.
    partial: Option<PathBuf>,
}

impl AtomicFile {
    /// Begins to write `path`.
    pub(super) fn create(path: &Path) -> Result<AtomicFile, CliError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| CliError::Write { path, source }
        };
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        if path.metadata().is_ok_and(|file| !file.is_file()) {
            let file = options.open(path).map_err(failed(path))?;
            return Ok(AtomicFile { file, path: path.into(), partial: None });
        }
        let Some(name) = path.file_name() else {
            return Err(failed(path)(io::ErrorKind::IsADirectory.into()));
        };
        let mut partial = std::ffi::OsString::from(".");
        partial.push(name);
        partial.push(".partial");
        let partial = path.with_file_name(partial);
        let file = options.open(&partial).map_err(failed(&partial))?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(CliError::Unavailable(format!(
                "another command writes {}: wait for it, or choose another file",
                path.escaped()
            )));
        }
        file.set_len(0).and_then(|()| file.set_permissions(Permissions::from_mode(0o600))).map_err(failed(&partial))?;
        Ok(AtomicFile { file, path: path.into(), partial: Some(partial) })
    }

    /// The file to write.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Gives the file its name.
    pub(super) fn finish(mut self) -> Result<(), CliError> {
        let Some(partial) = self.partial.take() else { return Ok(()) };
        daytable_platform::failpoint!("export-written");
        let folder = match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let named = self.file.sync_all().and_then(|()| std::fs::rename(&partial, &self.path));
        if named.is_err() {
            // The error that is reported comes first.
            let _ = std::fs::remove_file(&partial);
        }
        let named = named.and_then(|()| File::open(folder)?.sync_all());
        named.map_err(|source| CliError::Write { path: self.path.clone(), source })
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if let Some(partial) = &self.partial {
            // The command reports its own error.
            let _ = std::fs::remove_file(partial);
        }
    }
}
