//! The credentials of this host at a receiver.
//!
//! `credential_file` has the one that `daytable join` wrote. A host replaces it by itself before it grows old, and that file may be
//! read-only for it. So what came since is in `forward-credentials.json` of the data folder, by the path of that file:
//!
//! | word | is |
//! |---|---|
//! | `file` | SHA-256 of the credential in `credential_file` to which the others belong. Another one there is newer: somebody joined again |
//! | `current` | the credential that took its place |
//! | `next` | one that is being made known to the receiver, kept before the receiver hears of it |
//! | `previous` | the one before: a receiver that was put back knows that one |
//!
//! Where `credential_file` can be replaced, it gets the current one as well. Each of the two files is replaced as a whole, the state
//! first, so a kill between them leaves the current credential in one of them.

use crate::options::ForwardOptions;
use crate::secret;
use daytable_model::path_text::PathText;
use daytable_model::property::to_hex;
use daytable_platform::{lock, small_file};
use daytable_store::{StateFile, StoreError, private_file};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Bytes of a file with a credential or a code.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// All senders of a process change one file.
static WRITING: Mutex<()> = Mutex::new(());

/// A credential, or another secret word. No log shows it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ForwardCredential(String);

impl ForwardCredential {
    /// `None` if a text cannot be one.
    pub fn new(text: &str) -> Option<ForwardCredential> {
        secret::hash(text).map(|_| ForwardCredential(text.trim().to_owned()))
    }

    /// The word, for a header.
    pub(crate) fn word(&self) -> &str {
        &self.0
    }

    /// Its SHA-256, as text.
    pub(crate) fn hash(&self) -> String {
        secret::hash(&self.0).map(|hash| to_hex(&hash)).unwrap_or_default()
    }
}

impl fmt::Debug for ForwardCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ForwardCredential(…)")
    }
}

/// The secret word of a file. Errors name the file, never its content.
pub(crate) fn read_word(path: &Path) -> Result<ForwardCredential, String> {
    let text = small_file::read_named(path, FILE_BYTES_MAX)?;
    ForwardCredential::new(&text).ok_or_else(|| format!("{} has no credential", path.escaped()))
}

/// A file for a credential, mode 0600, that is being written beside its place.
pub struct CredentialDraft {
    path: PathBuf,
    partial: PathBuf,
    file: File,
}

impl CredentialDraft {
    /// Begins to write.
    ///
    /// # Errors
    ///
    /// The folder cannot be written.
    pub fn begin(path: &Path) -> io::Result<CredentialDraft> {
        let mut partial = path.as_os_str().to_owned();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let file = private_file::create_anew(&partial)?;
        Ok(CredentialDraft { path: path.into(), partial, file })
    }

    /// The open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Writes the credential, and puts the file in its place.
    ///
    /// # Errors
    ///
    /// The disk refuses it; what was in its place stays, or was replaced.
    pub fn finish(mut self, credential: &str) -> io::Result<()> {
        writeln!(self.file, "{credential}").and_then(|()| self.file.sync_all())?;
        std::fs::rename(&self.partial, &self.path)?;
        match self.path.parent() {
            Some(folder) => File::open(folder)?.sync_all(),
            None => Ok(()),
        }
    }

    /// Removes the file of an attempt that failed.
    pub fn abandon(self) {
        // An empty file is of no use, and in nobody's way.
        let _ = std::fs::remove_file(&self.partial);
    }
}

/// The credentials at one receiver, as the data folder has them.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct KeptEntry {
    file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    current: Option<ForwardCredential>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<ForwardCredential>,
    #[serde(skip_serializing_if = "Option::is_none")]
    previous: Option<ForwardCredential>,
}

/// The credentials at one receiver.
pub struct KeptCredentials {
    path: PathBuf,
    data_dir: PathBuf,
    /// That of the file, or why there is none.
    file: Result<ForwardCredential, String>,
    kept: KeptEntry,
}

impl KeptCredentials {
    /// Reads both files.
    pub fn read(options: &ForwardOptions, data_dir: &Path) -> KeptCredentials {
        let path = options.credential_file.clone();
        let kept = read_entries(data_dir).remove(&key_of(&path)).unwrap_or_default();
        KeptCredentials { file: read_word(&path), path, data_dir: data_dir.into(), kept }
    }

    /// Why there is no credential in the file.
    pub fn problem(&self) -> String {
        self.file.as_ref().err().cloned().unwrap_or_default()
    }

    /// The credentials in the order in which they are tried: a receiver that does not know one is shown the next.
    pub fn candidates(&self) -> Vec<ForwardCredential> {
        let KeptEntry { current, next, previous, .. } = &self.kept;
        let file = self.file.as_ref().ok();
        let order = match self.is_file_new() {
            true => [file, current.as_ref(), previous.as_ref(), next.as_ref()],
            false => [current.as_ref(), file, previous.as_ref(), next.as_ref()],
        };
        let mut candidates: Vec<ForwardCredential> = Vec::new();
        for credential in order.into_iter().flatten() {
            if !candidates.contains(credential) {
                candidates.push(credential.clone());
            }
        }
        candidates
    }

    /// Whether the file has another credential than it had when it was read.
    pub fn has_file_changed(&self) -> bool {
        // A file that cannot be read now says nothing.
        read_word(&self.path).is_ok_and(|now| self.file.as_ref() != Ok(&now))
    }

    /// The receiver knows this credential, and none that was tried before it.
    pub fn accept(&mut self, credential: &ForwardCredential) -> Result<(), StoreError> {
        if self.kept.next.as_ref() == Some(credential) {
            // A kill, or an answer that was lost, came between its request and its place.
            let before = self.kept.current.clone().or_else(|| self.file.clone().ok());
            return self.replace(before.as_ref(), credential);
        }
        let first = self.candidates().into_iter().next();
        let is_of_file = self.file.as_ref() == Ok(credential);
        let kept = if is_of_file && self.is_file_new() {
            // Written by this program before a kill, or by somebody who joined again.
            let is_current = self.kept.current.as_ref() == Some(credential);
            let previous = self.kept.previous.clone().filter(|_| is_current);
            KeptEntry { file: credential.hash(), previous, ..KeptEntry::default() }
        } else if first.as_ref() == Some(credential) {
            return Ok(());
        } else {
            let current = (!is_of_file).then(|| credential.clone());
            KeptEntry { file: self.file_hash(), current, next: self.kept.next.clone(), previous: first }
        };
        self.write(kept)
    }

    /// The credential that is to take the place of the current one. It is on the disk when this returns, so that a process that is
    /// killed goes on with the same one.
    pub fn prepare_next(&mut self) -> Result<ForwardCredential, StoreError> {
        if let Some(next) = &self.kept.next {
            return Ok(next.clone());
        }
        let random = |source| StoreError::Io { path: "/dev/urandom".into(), source };
        let next = ForwardCredential(secret::credential().map_err(random)?);
        self.write(KeptEntry { next: Some(next.clone()), ..self.kept.clone() })?;
        daytable_platform::failpoint!("forward-renewal-kept");
        Ok(next)
    }

    /// The receiver accepts `new` from now on, and `before` until `new` was used.
    pub fn replace(&mut self, before: Option<&ForwardCredential>, new: &ForwardCredential) -> Result<(), StoreError> {
        let (current, previous) = (Some(new.clone()), before.cloned());
        self.write(KeptEntry { file: self.file_hash(), current, next: None, previous })?;
        daytable_platform::failpoint!("forward-renewal-replaced");
        match self.write_file(new) {
            Ok(true) => {
                daytable_platform::failpoint!("forward-renewal-filed");
                self.file = Ok(new.clone());
                let previous = self.kept.previous.clone();
                self.write(KeptEntry { file: new.hash(), previous, ..KeptEntry::default() })
            }
            Ok(false) => Ok(()),
            Err(error) => {
                tracing::debug!(file = %self.path.escaped(), %error, "the credential stays in the data folder");
                Ok(())
            }
        }
    }

    /// Puts the credential into its file. `false` if it is not a file, or somebody else changed it.
    fn write_file(&self, credential: &ForwardCredential) -> io::Result<bool> {
        let is_as_read = match std::fs::symlink_metadata(&self.path) {
            Ok(found) => found.is_file() && read_word(&self.path) == self.file,
            Err(error) => error.kind() == io::ErrorKind::NotFound && self.file.is_err(),
        };
        if is_as_read {
            CredentialDraft::begin(&self.path)?.finish(credential.word())?;
        }
        Ok(is_as_read)
    }

    fn is_file_new(&self) -> bool {
        self.file.as_ref().is_ok_and(|file| file.hash() != self.kept.file)
    }

    fn file_hash(&self) -> String {
        self.file.as_ref().map(ForwardCredential::hash).unwrap_or_default()
    }

    fn write(&mut self, kept: KeptEntry) -> Result<(), StoreError> {
        if self.kept == kept {
            return Ok(());
        }
        let _writing = lock(&WRITING);
        let mut entries = read_entries(&self.data_dir);
        entries.insert(key_of(&self.path), kept.clone());
        StateFile::ForwardCredentials.write(&self.data_dir, &serde_json::to_vec(&entries).unwrap_or_default())?;
        self.kept = kept;
        Ok(())
    }
}

/// A receiver may get another address, and its credential stays the same.
fn key_of(path: &Path) -> String {
    path.escaped().to_string()
}

fn read_entries(data_dir: &Path) -> BTreeMap<String, KeptEntry> {
    let read = match StateFile::ForwardCredentials.read(data_dir) {
        Ok(None) => return BTreeMap::new(),
        Ok(Some(bytes)) => serde_json::from_slice(&bytes).map_err(|_| "it is damaged".to_owned()),
        Err(error) => Err(error.to_string()),
    };
    read.unwrap_or_else(|error| {
        tracing::warn!(error, "forward-credentials.json cannot be read: the credentials in `credential_file` are used");
        BTreeMap::new()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Place(tempfile::TempDir);

    impl Place {
        fn new() -> Place {
            Place(tempfile::tempdir().expect("a folder"))
        }

        fn file(&self) -> PathBuf {
            self.0.path().join("forward")
        }

        fn put(&self, word: &str) {
            std::fs::write(self.file(), format!("{word}\n")).expect("written");
        }

        fn read(&self) -> KeptCredentials {
            let options =
                ForwardOptions { to: "https://logs".into(), credential_file: self.file(), ..Default::default() };
            KeptCredentials::read(&options, self.0.path())
        }

        fn words(&self) -> Vec<String> {
            self.read().candidates().iter().map(|credential| credential.0.clone()).collect()
        }
    }

    fn word(text: &str) -> ForwardCredential {
        ForwardCredential::new(text).expect("a word")
    }

    #[test]
    fn a_renewed_credential_is_in_its_file_and_the_one_before_stays_for_a_receiver_that_is_put_back() {
        let place = Place::new();
        place.put("first");
        let mut kept = place.read();
        kept.accept(&word("first")).expect("kept");
        let next = kept.prepare_next().expect("kept");
        assert_eq!(place.words(), ["first".to_owned(), next.0.clone()], "until the receiver knows the new one");
        assert_eq!(place.read().prepare_next().expect("kept"), next, "after a kill it is the same one");
        kept.replace(Some(&word("first")), &next).expect("kept");
        assert_eq!(std::fs::read_to_string(place.file()).expect("a file").trim(), next.0);
        assert_eq!(place.words(), [next.0.clone(), "first".to_owned()]);
        // The receiver was put back, and knows the first one only.
        place.read().accept(&word("first")).expect("kept");
        assert_eq!(place.words(), ["first".to_owned(), next.0.clone()]);
    }

    #[test]
    fn a_next_one_that_the_receiver_knows_takes_its_place() {
        let place = Place::new();
        let next = place.read().prepare_next().expect("kept");
        assert_eq!(place.words(), std::slice::from_ref(&next.0), "of a host without a file");
        place.read().accept(&next).expect("kept");
        assert_eq!(std::fs::read_to_string(place.file()).expect("a file").trim(), next.0);
        let other = place.read().prepare_next().expect("kept");
        assert_ne!(other, next);
        place.read().accept(&other).expect("kept");
        assert_eq!(place.words(), [other.0.clone(), next.0.clone()]);
    }

    #[test]
    fn a_file_that_cannot_be_replaced_has_its_successor_in_the_data_folder() {
        let place = Place::new();
        let target = place.0.path().join("target");
        std::fs::write(&target, "first\n").expect("written");
        std::os::unix::fs::symlink(&target, place.file()).expect("linked");
        let mut kept = place.read();
        kept.accept(&word("first")).expect("kept");
        let next = kept.prepare_next().expect("kept");
        kept.replace(Some(&word("first")), &next).expect("kept");
        assert_eq!(std::fs::read_to_string(&target).expect("a file"), "first\n");
        assert_eq!(place.words(), [next.0.clone(), "first".to_owned()]);
        // Somebody joined again: theirs is the newest.
        std::fs::write(&target, "second\n").expect("written");
        assert!(kept.has_file_changed());
        assert_eq!(place.words(), ["second".to_owned(), next.0.clone(), "first".to_owned()]);
        place.read().accept(&word("second")).expect("kept");
        assert_eq!(place.words(), ["second"]);
        // Somebody put the old file back: it is tried, and then no more.
        let mut kept = place.read();
        let next = kept.prepare_next().expect("kept");
        kept.replace(Some(&word("second")), &next).expect("kept");
        std::fs::write(&target, "first\n").expect("written");
        assert_eq!(place.words(), ["first".to_owned(), next.0.clone(), "second".to_owned()]);
        place.read().accept(&next).expect("kept");
        assert_eq!(place.words(), [next.0.clone(), "first".to_owned()]);
    }

    #[test]
    fn a_kill_between_the_files_loses_no_credential() {
        let place = Place::new();
        place.put("first");
        let mut kept = place.read();
        kept.accept(&word("first")).expect("kept");
        let (next, state) = (kept.prepare_next().expect("kept"), place.0.path().join("forward-credentials.json"));
        let entry = KeptEntry {
            file: word("first").hash(),
            current: Some(next.clone()),
            next: None,
            previous: Some(word("first")),
        };
        kept.write(entry).expect("kept");
        assert_eq!(place.words(), [next.0.clone(), "first".to_owned()], "killed before the file was replaced");
        place.put(&next.0);
        assert_eq!(place.words(), [next.0.clone(), "first".to_owned()], "killed after it was replaced");
        place.read().accept(&next).expect("kept");
        assert_eq!(place.words(), [next.0.clone(), "first".to_owned()]);
        std::fs::write(&state, "{").expect("damaged");
        assert_eq!(place.words(), std::slice::from_ref(&next.0));
    }

    #[test]
    fn no_form_for_a_log_shows_a_credential() {
        assert!(!format!("{:?}", word("hidden")).contains("hidden"));
        for wrong in ["", "two words", "\u{e9}"] {
            assert_eq!(ForwardCredential::new(wrong), None, "{wrong:?}");
        }
    }
}
