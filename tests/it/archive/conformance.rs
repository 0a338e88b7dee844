//! The conformance suite of archives: the same tests against a folder, S3 and Azure Blob Storage.

use super::sealed::{LARGE, ORIGIN, SMALL, Sealed};
use super::stores::{QUICK, Store};
use crate::trouble::SmallDisk;
use daytable_archive::{Access, Archive, ArchiveError, ArchivedDay};
use daytable_model::key::TableName;
use daytable_store::sealed::RangeReader;
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt;

const DATA: &str = "Log/log_day=2026-11-20/log_host=web-1/Log20261120.1.00112233445566778899aabbccddeeff.parquet";
const MANIFEST: &str =
    "Log/log_day=2026-11-20/log_host=web-1/Log20261120.1.00112233445566778899aabbccddeeff.manifest.json";

/// A change to an object.
type Change = fn(&mut Vec<u8>);

/// The listed archives of `Log` and the listed faults, as shown to users.
fn listed(archive: &Archive) -> (Vec<(String, i64)>, Vec<String>) {
    let listing = archive.list(&[TableName::new("Log").expect("a name")], &|_, _| true).expect("listed");
    let archives = listing.archives.iter().map(|archived| (archived.table().to_string(), archived.generation()));
    (archives.collect(), listing.faulty.iter().map(ToString::to_string).collect())
}

fn archived(sealed: &Sealed) -> ArchivedDay {
    ArchivedDay::new(sealed.manifest.clone()).expect("a day-table")
}

/// Fetches into a separate folder, and asserts that the folder has no other file.
fn fetched(archive: &Archive, archived: &ArchivedDay) -> Result<Vec<u8>, ArchiveError> {
    let folder = tempfile::tempdir().expect("a folder");
    let to = folder.path().join("back.parquet");
    let fetched = archive.fetch(archived, &to, &mut |_| ControlFlow::Continue(()));
    let left: Vec<_> =
        fs::read_dir(folder.path()).expect("read").map(|entry| entry.expect("read").file_name()).collect();
    match fetched {
        Ok(()) => {
            assert_eq!(left, ["back.parquet"]);
            assert_eq!(fs::metadata(&to).expect("there").permissions().mode() & 0o777, 0o600);
            Ok(fs::read(&to).expect("read"))
        }
        Err(error) => {
            assert!(left.is_empty(), "{left:?}");
            Err(error)
        }
    }
}

fn proved(archive: &Archive, sealed: &Sealed) -> Result<(), ArchiveError> {
    archive.prove(&archived(sealed), &mut |_| ControlFlow::Continue(())).map(drop)
}

#[test]
fn what_is_archived_comes_back_and_goes() {
    for store in Store::all() {
        let archive = store.archive();
        assert_eq!(listed(&archive), (vec![], vec![]), "{}", store.url);
        for (generation, length) in [(1, SMALL), (2, LARGE)] {
            let sealed = Sealed::new("Log20261120", generation, length);
            let (proof, sent, read) = sealed.put_counted(&archive);
            assert_eq!(sent, if length == LARGE { length as u64 } else { 0 }, "only large files are sent in parts");
            assert_eq!(read, length as u64, "all of it was read back");
            assert_eq!((proof.table().to_string(), proof.url()), ("Log20261120".into(), &store.url));
            assert_eq!(proof.archived(), &archived(&sealed));
            assert_eq!(fetched(&archive, proof.archived()).expect("fetched"), sealed.bytes);
            // A second archiving gives the same proof and sends no data.
            let (again, sent, read) = sealed.put_counted(&archive);
            assert_eq!((again, sent, read), (proof, 0, length as u64));
        }
        let both = vec![("Log20261120".to_owned(), 1), ("Log20261120".to_owned(), 2)];
        assert_eq!(listed(&archive), (both, vec![]), "{}", store.url);
        archive.drop_archive(&archived(&Sealed::new("Log20261120", 1, SMALL))).expect("dropped");
        assert_eq!(listed(&archive).0, [("Log20261120".to_owned(), 2)]);
        // A dropped archive is gone. A second drop has no effect.
        let first = archived(&Sealed::new("Log20261120", 1, SMALL));
        archive.drop_archive(&first).expect("dropped");
        assert!(matches!(fetched(&archive, &first), Err(ArchiveError::Missing { .. })));
        assert!(matches!(archive.reader(&first), Err(ArchiveError::Missing { .. })));
    }
}

#[test]
fn ranges_are_read_where_they_are() {
    for store in Store::all() {
        let archive = store.archive();
        let sealed = Sealed::new("Log20261120", 1, LARGE);
        sealed.put(&archive).expect("archived");
        let reader = archive.reader(&archived(&sealed)).expect("a reader");
        assert_eq!(reader.length().expect("known"), LARGE as u64);
        let (mib, end) = (1 << 20, LARGE);
        for (start, length) in [
            (0, 4),
            (end - 8, 8),
            (mib - 3, 7),
            (end, 0),
            (0, end),
            (5 * mib, mib),
            (5 * mib + 1, 3 * mib),
            (mib, 1),
            (mib + 5, 2 * mib),
        ] {
            let bytes = reader.read(start as u64, length).expect("read");
            assert!(bytes[..] == sealed.bytes[start..start + length], "{}: {start} {length}", store.url);
        }
        assert!(reader.read(end as u64, 1).is_err());
        assert!(reader.read(u64::MAX, 2).is_err());
    }
}

#[test]
fn an_upload_that_did_not_end_is_no_archive_and_is_replaced() {
    for store in Store::all() {
        let archive = store.archive();
        let sealed = Sealed::new("Log20261120", 1, SMALL);
        for left in [&sealed.bytes[..1000], &sealed.bytes[..], b"something else"] {
            store.put(DATA, left);
            let (archives, faulty) = listed(&archive);
            assert_eq!(archives, []);
            assert_eq!(faulty, [format!("{}/{DATA}: it has no manifest: its upload did not complete", store.url)]);
            assert!(matches!(proved(&archive, &sealed), Err(ArchiveError::Missing { .. })));
            sealed.put(&archive).expect("archived");
            assert_eq!(listed(&archive), (vec![("Log20261120".into(), 1)], vec![]));
            assert_eq!(store.get(DATA).expect("there"), sealed.bytes);
            store.remove(MANIFEST);
        }
    }
}

#[test]
fn what_is_damaged_is_refused_and_archived_anew_from_the_day() {
    for store in Store::all() {
        let archive = store.archive();
        let sealed = Sealed::new("Log20261120", 1, SMALL);
        let flip = |bytes: &mut Vec<u8>| bytes[SMALL / 2] ^= 1;
        let cut = |bytes: &mut Vec<u8>| bytes.truncate(SMALL - 1);
        let grow = |bytes: &mut Vec<u8>| bytes.push(0);
        let changes: [(&str, Change); 3] = [("SHA-256", flip), ("299999 bytes", cut), ("300001 bytes", grow)];
        for (what, change) in changes {
            sealed.put(&archive).expect("archived");
            store.change(DATA, change);
            for error in [proved(&archive, &sealed).err(), fetched(&archive, &archived(&sealed)).err()] {
                let error = error.expect("refused");
                assert!(matches!(error, ArchiveError::Damaged { .. }), "{}: {error:?}", store.url);
                assert!(error.to_string().contains(what), "{error}");
            }
            // The listing detects a wrong length without reading.
            let faulty = listed(&archive).1;
            assert_eq!(faulty.len(), usize::from(what != "SHA-256"), "{faulty:?}");
            assert_eq!(archive.reader(&archived(&sealed)).is_err(), what != "SHA-256");
        }
        store.remove(DATA);
        assert_eq!(
            listed(&archive),
            (vec![], vec![format!("{}/{DATA}: it is missing, but its manifest exists", store.url)])
        );
        assert!(matches!(proved(&archive, &sealed), Err(ArchiveError::Missing { .. })));
        sealed.put(&archive).expect("archived");
        proved(&archive, &sealed).expect("whole again");
    }
}

#[test]
fn what_another_one_wrote_is_left() {
    for store in Store::all() {
        let archive = store.archive();
        let sealed = Sealed::new("Log20261120", 1, SMALL);
        let foreign = [
            "readme.txt",
            "Log/log_day=2026-11-20/log_host=web-1/readme.txt",
            "Log/log_day=2026-11-20/log_host=web-1/Log20261120.parquet",
            "Log/log_day=2026-11-20/log_host=web-1/Log20261120.1.00112233445566778899aabbccddeeff.parquet.bak",
            "Log/log_day=2026-12-20/log_host=web-1/Log20261120.1.00112233445566778899aabbccddeeff.parquet",
            "Log/log_day=2026-11-20/log_host=web-1/deeper/Log20261120.1.00112233445566778899aabbccddeeff.parquet",
            "Logs/log_day=2026-11-20/log_host=web-1/Logs20261120.1.00112233445566778899aabbccddeeff.parquet",
        ];
        for object in foreign {
            store.put(object, object.as_bytes());
        }
        sealed.put(&archive).expect("archived");
        assert_eq!(listed(&archive), (vec![("Log20261120".into(), 1)], vec![]), "{}", store.url);
        archive.drop_archive(&archived(&sealed)).expect("dropped");
        for object in foreign {
            assert_eq!(store.get(object).expect(object), object.as_bytes());
        }
        assert_eq!(store.objects().len(), foreign.len());

        // Foreign objects under the name of an archive: another daytable's archive of the same day, and an invalid
        // manifest.
        let theirs = Sealed::new("Log20261120", 1, SMALL + 1);
        let other_day = Sealed::new("Log20261119", 1, SMALL);
        for (json, what) in [
            (theirs.manifest.to_json(), "give this one a prefix of its own"),
            (other_day.manifest.to_json(), "it describes Log20261119.1"),
            (String::new(), "the manifest is damaged"),
            (sealed.manifest.to_json()[..200].to_owned(), "the manifest is damaged"),
            ("{\"format\":99}".to_owned(), "use a newer daytable"),
            (" ".repeat(1 << 21), "more than a manifest has"),
        ] {
            store.put(DATA, b"theirs");
            store.put(MANIFEST, json.as_bytes());
            let error = sealed.put(&archive).expect_err("taken");
            assert!(error.to_string().contains(what), "{error}");
            assert!(matches!(error, ArchiveError::Occupied { .. } | ArchiveError::Damaged { .. }), "{error:?}");
            assert!(proved(&archive, &sealed).is_err());
            assert_eq!(store.get(DATA).as_deref(), Some(&b"theirs"[..]), "left as it was");
            assert_eq!(store.get(MANIFEST).as_deref(), Some(json.as_bytes()), "left as it was");
            let (archives, faulty) = listed(&archive);
            assert_eq!((archives.len(), faulty.len()), (0, 1), "{faulty:?}");
        }
        store.put(MANIFEST, theirs.manifest.to_json().as_bytes());
        let error = archive.drop_archive(&archived(&sealed)).expect_err("another's");
        assert!(matches!(error, ArchiveError::Occupied { .. }), "{error:?}");
        assert!(store.get(DATA).is_some() && store.get(MANIFEST).is_some());
    }
}

#[test]
fn a_sealed_file_that_is_not_what_its_manifest_says_is_not_archived() {
    for store in Store::all() {
        let archive = store.archive();
        for length in [SMALL, LARGE] {
            let sealed = Sealed::new("Log20261120", 1, length);
            let mut flipped = sealed.bytes.clone();
            flipped[length - 1] ^= 1;
            for (bytes, what) in [
                (&flipped[..], "its SHA-256 is"),
                (&sealed.bytes[..length - 1], "it is shorter"),
                (&[&sealed.bytes[..], b"x"].concat(), "it is longer"),
                (b"", "it is shorter"),
            ] {
                fs::write(&sealed.path, bytes).expect("written");
                let error = sealed.put(&archive).expect_err("refused");
                assert!(matches!(error, ArchiveError::Source { .. }), "{error:?}");
                assert!(error.to_string().contains(what), "{error}");
                assert_eq!(store.objects(), Vec::<String>::new(), "nothing of it is kept in {}", store.url);
            }
        }
    }
}

#[test]
fn a_call_that_is_stopped_leaves_nothing_that_looks_like_an_archive() {
    for store in Store::all() {
        let archive = store.archive();
        let sealed = Sealed::new("Log20261120", 1, LARGE);
        for steps in 0..4 {
            let mut left = steps;
            let stopped = archive.put(&sealed.manifest, &sealed.path, &mut |_| {
                left -= 1;
                if left < 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            assert!(matches!(stopped, Err(ArchiveError::Stopped)), "{steps}: {stopped:?}");
            assert_eq!(listed(&archive).0, []);
        }
        sealed.put(&archive).expect("archived");
        let to = sealed.path.with_extension("back");
        let stopped = archive.fetch(&archived(&sealed), &to, &mut |_| ControlFlow::Break(()));
        assert!(matches!(stopped, Err(ArchiveError::Stopped)) && !to.exists());
        assert_eq!(store.objects(), [MANIFEST, DATA]);
    }
}

#[test]
fn a_bucket_that_is_not_there_is_not_made() {
    for (store, url) in [(Store::s3(), "s3://nobodys/a"), (Store::azure(), "az://nobodys/a")] {
        let archive = Archive::open_to_write(&url.parse().expect("an address"), &store.access, &QUICK).expect("opened");
        for length in [SMALL, LARGE] {
            let error = Sealed::new("Log20261120", 1, length).put(&archive).expect_err("no bucket");
            assert!(matches!(error, ArchiveError::Setup { .. }), "{error:?}");
        }
    }
}

#[test]
fn wrong_credentials_are_said_without_showing_them() {
    let store = Store::azure();
    let file = store.access.azure_connection_string_file.clone().expect("a file");
    let text = fs::read_to_string(&file).expect("read");
    let (before, key) = text.split_once("AccountKey=").expect("a key");
    let (_, behind) = key.split_once(';').expect("an endpoint");
    fs::write(&file, format!("{before}AccountKey=U0VDUkVUU0VDUkVU;{behind}")).expect("written");
    let error = Sealed::new("Log20261120", 1, SMALL).put(&store.archive()).expect_err("refused");
    assert!(matches!(error, ArchiveError::Denied { .. }), "{error:?}");
    assert!(!error.to_string().contains("U0VDUkVU"), "{error}");
    fs::write(&file, "").expect("written");
    let error = Archive::open(&store.url, &store.access, &QUICK).map(drop).expect_err("refused");
    assert!(matches!(error, ArchiveError::Setup { .. }), "{error:?}");
}

#[test]
fn a_folder_is_its_owners_alone_and_is_swept_of_killed_uploads() {
    let store = Store::folder();
    let root = store.url.folder().expect("a folder").join("deep/below");
    let url = format!("file://{}", root.display()).parse().expect("an address");
    let missing = Archive::open(&url, &store.access, &QUICK).map(drop).expect_err("not there");
    assert!(matches!(missing, ArchiveError::Io { .. }), "reading makes no folder");
    let archive = Archive::open_to_write(&url, &store.access, &QUICK).expect("opened");
    let sealed = Sealed::new("Log20261120", 1, LARGE);
    let folder = root.join("Log/log_day=2026-11-20/log_host=web-1");
    fs::create_dir_all(&folder).expect("made");
    let part = |name: &str| format!("Log202611{}", name.replace("ORIGIN", ORIGIN));
    for name in ["20.1.ORIGIN.parquet#1", "20.1.ORIGIN.parquet#27", "20.1.ORIGIN.parquet#x", "21.1.ORIGIN.parquet#1"] {
        fs::write(folder.join(part(name)), "half").expect("written");
    }
    // Unusual names.
    use std::os::unix::ffi::OsStrExt;
    fs::write(folder.join(std::ffi::OsStr::from_bytes(b"\xff\xfe%20")), "").expect("written");
    std::os::unix::fs::symlink(&root, folder.join("loop")).expect("linked");
    sealed.put(&archive).expect("archived");
    assert_eq!(listed(&archive), (vec![("Log20261120".into(), 1)], vec![]));
    let mode = |name: &str| fs::metadata(root.join(name)).expect(name).permissions().mode() & 0o777;
    assert_eq!((mode(DATA), mode(MANIFEST), mode("")), (0o600, 0o600, 0o700));
    let left = |name: &str| folder.join(part(name)).exists();
    assert!(!left("20.1.ORIGIN.parquet#1") && !left("20.1.ORIGIN.parquet#27"));
    assert!(left("20.1.ORIGIN.parquet#x") && left("21.1.ORIGIN.parquet#1"), "not of this archive");
    // The folder disappears, like a mount. The archive must not create the folder again.
    fs::rename(&root, root.with_extension("away")).expect("renamed");
    let error = Sealed::new("Log20261121", 1, SMALL).put(&archive).expect_err("no folder");
    assert!(matches!(error, ArchiveError::Io { .. }), "{error:?}");
    assert!(!root.exists());
}

/// If the daemon cleared such a folder, it would lose proved archives.
#[test]
fn a_folder_that_is_cleared_is_no_archive() {
    let data = tempfile::tempdir().expect("a folder");
    fs::write(data.path().join("catalog.db"), "").expect("written");
    for (folder, is_good) in [("trash", false), ("tables/a/b", false), ("archive", true), ("archive/trash", true)] {
        let url = format!("file://{}/{folder}", data.path().display()).parse().expect("an address");
        let opened = Archive::open_to_write(&url, &Access::default(), &QUICK);
        assert_eq!(opened.is_ok(), is_good, "{folder}");
        assert_eq!(data.path().join(folder).exists(), is_good);
    }
}

/// A full or read-only folder: the error has the reason, and no partial file takes room.
#[test]
fn a_full_or_read_only_folder_gets_no_proof_and_keeps_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("archive");
    let Some(disk) = SmallDisk::mount(&root, "4m") else { return };
    let url = format!("file://{}", root.display()).parse().expect("an address");
    let archive = Archive::open_to_write(&url, &Access::default(), &QUICK).expect("opened");
    let sealed = Sealed::new("Log20261120", 1, LARGE);
    for (options, reason) in [("size=4m", "No space left"), ("ro", "Read-only")] {
        disk.remount(options);
        let error = sealed.put(&archive).expect_err("no proof");
        assert!(error.to_string().contains(reason), "{error}");
        assert_eq!(listed(&archive), (vec![], vec![]));
        let left = root.join("Log/log_day=2026-11-20/log_host=web-1");
        assert_eq!(fs::read_dir(&left).expect("made").count(), 0, "what did not fit is gone");
    }
    disk.remount("rw,size=64m");
    sealed.put(&archive).expect("archived");
    assert_eq!(fetched(&archive, &archived(&sealed)).expect("fetched"), sealed.bytes);
}
