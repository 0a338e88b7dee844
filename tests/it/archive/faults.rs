//! Stores that fail, hang, truncate and lie: a proof exists only for stored bytes, and the error has the reason.

use super::sealed::{LARGE, SMALL, Sealed};
use super::stub::{Fault, Request, Stub};
use daytable_archive::{Archive, ArchiveError, ArchivedDay, Proof};
use daytable_store::sealed::Manifest;
use std::ops::ControlFlow;

const DATA: &str = "a/Log/log_day=2026-11-20/log_host=web-1/Log20261120.1.00112233445566778899aabbccddeeff.parquet";
const MANIFEST: &str =
    "a/Log/log_day=2026-11-20/log_host=web-1/Log20261120.1.00112233445566778899aabbccddeeff.manifest.json";

/// Archives, and compares the result with the stored bytes: a proof, a listing and a whole file must be true.
fn put(stub: &Stub, archive: &Archive, sealed: &Sealed) -> Result<Proof, ArchiveError> {
    let put = sealed.put(archive);
    if put.is_ok() {
        // The bytes of an archive say nothing in a message.
        assert!(stub.kept(DATA).as_deref() == Some(&sealed.bytes[..]), "proved, and not there");
        let manifest = Manifest::from_json(&stub.kept(MANIFEST).expect("proved, and not there"));
        assert_eq!(manifest.expect("a manifest"), sealed.manifest);
    }
    put
}

/// Each of `faults` at each request of archiving a day, once or from then on. Every result is true, and the healthy
/// store accepts the day afterwards.
fn faults_at_every_request(length: usize, faults: &[Fault], on_and_on: &[bool]) {
    let stub = Stub::start();
    let (archive, sealed) = (stub.archive(0), Sealed::new("Log20261120", 1, length));
    stub.right();
    put(&stub, &archive, &sealed).expect("archived");
    let requests = stub.requests();
    assert!(requests >= 6, "{requests}");
    for &fault in faults {
        for (at, &on) in (0..requests).flat_map(|at| on_and_on.iter().map(move |on| (at, on))) {
            // Each silence costs a timeout.
            if fault == Fault::Silence && on {
                continue;
            }
            stub.clear();
            stub.wrong(move |number, _| (number == at || on && number > at).then_some(fault));
            if let Err(error) = put(&stub, &archive, &sealed) {
                let text = error.to_string();
                assert!(text.len() < 1000 && !text.contains('\n'), "{text}");
                assert!(!matches!(error, ArchiveError::Source { .. } | ArchiveError::Stopped), "{error:?}");
            }
            stub.right();
            // The client notices a closed connection only at its next use, which needs a retry.
            let again = put(&stub, &stub.archive(2), &sealed);
            again.unwrap_or_else(|error| panic!("{fault:?} at {at}, then: {error}"));
        }
    }
}

#[test]
fn no_fault_of_a_store_makes_a_false_proof() {
    faults_at_every_request(SMALL, &Fault::ALL, &[false, true]);
}

#[test]
fn no_fault_of_a_store_makes_a_false_proof_of_a_day_in_parts() {
    let faults = [Fault::Status(500), Fault::Hangup, Fault::KeepsNothing, Fault::KeepsLess, Fault::KeepsOther];
    faults_at_every_request(LARGE, &faults, &[false]);
}

/// The message of a fault, and its advice.
#[test]
fn the_reason_is_said() {
    let stub = Stub::start();
    let (archive, sealed) = (stub.archive(0), Sealed::new("Log20261120", 1, SMALL));
    let of_data = |method: &'static str, fault: Fault| {
        move |_: usize, request: &Request| (request.method == method && request.object == DATA).then_some(fault)
    };
    for (method, fault, name, what) in [
        ("PUT", Fault::Status(503), "unreachable", "503"),
        ("PUT", Fault::Status(403), "denied", "refuses access"),
        ("PUT", Fault::Silence, "unreachable", "does not answer"),
        ("PUT", Fault::KeepsNothing, "unproven", "it is not there"),
        ("PUT", Fault::KeepsLess, "unproven", "299999 bytes"),
        ("PUT", Fault::KeepsOther, "unproven", "SHA-256"),
        ("HEAD", Fault::SaysLess, "unproven", "299999 bytes"),
        ("GET", Fault::GivesOther, "unproven", "SHA-256"),
        ("GET", Fault::GivesLess, "unreachable", "does not answer"),
        ("GET", Fault::Status(404), "unproven", "it is not there"),
    ] {
        stub.clear();
        stub.wrong(of_data(method, fault));
        let error = put(&stub, &archive, &sealed).expect_err("no proof");
        assert_eq!(error.name(), name, "{method} {fault:?}: {error}");
        assert!(error.to_string().contains(what) && error.to_string().contains(DATA), "{error}");
        assert_eq!(stub.kept(MANIFEST), None, "without a manifest it is no archive");
    }
}

#[test]
fn what_fails_for_a_moment_is_tried_again() {
    let stub = Stub::start();
    let (archive, sealed) = (stub.archive(2), Sealed::new("Log20261120", 1, LARGE));
    for fault in [Fault::Status(503), Fault::Status(500), Fault::Hangup] {
        stub.clear();
        stub.wrong(move |number, _| (number % 2 == 0).then_some(fault));
        put(&stub, &archive, &sealed).expect("archived");
    }
}

#[test]
fn an_upload_that_failed_is_aborted() {
    let stub = Stub::start();
    let (archive, sealed) = (stub.archive(0), Sealed::new("Log20261120", 1, LARGE));
    // The second part.
    stub.wrong(|number, _| (number == 3).then_some(Fault::Status(500)));
    put(&stub, &archive, &sealed).expect_err("no proof");
    assert_eq!((stub.uploads(), stub.kept(DATA)), (0, None));
    let stopped = archive.put(&sealed.manifest, &sealed.path, &mut |_| ControlFlow::Break(()));
    assert!(matches!(stopped, Err(ArchiveError::Stopped)));
    assert_eq!((stub.uploads(), stub.kept(DATA)), (0, None));
}

#[test]
fn what_is_replaced_between_reading_back_and_the_manifest_is_noticed() {
    let stub = Stub::start();
    let (archive, sealed) = (stub.archive(0), Sealed::new("Log20261120", 1, SMALL));
    let (other, theirs) = (stub.archive(0), Sealed::new("Log20261120", 1, SMALL + 1));
    // Meanwhile another daytable with the same address archives its own day.
    let mut once = Some(());
    let put = archive.put(&sealed.manifest, &sealed.path, &mut |_| {
        if once.take().is_some() {
            // A separate thread, because this call runs inside a runtime.
            std::thread::scope(|scope| drop(scope.spawn(|| theirs.put(&other).expect("archived"))));
        }
        ControlFlow::Continue(())
    });
    let error = put.expect_err("no proof");
    assert!(matches!(error, ArchiveError::Unproven { .. }), "{error:?}");
}

#[test]
fn a_store_that_fails_gives_an_error_and_no_file() {
    let stub = Stub::start();
    let (archive, sealed) = (stub.archive(0), Sealed::new("Log20261120", 1, LARGE));
    stub.right();
    put(&stub, &archive, &sealed).expect("archived");
    let archived = ArchivedDay::new(sealed.manifest.clone()).expect("a day-table");
    let to = sealed.path.with_extension("back");
    for fault in Fault::ALL {
        for at in 0..4 {
            stub.wrong(move |number, _| (number >= at).then_some(fault));
            let fetched = archive.fetch(&archived, &to, &mut |_| ControlFlow::Continue(()));
            if fetched.is_ok() {
                assert_eq!(std::fs::read(&to).expect("there"), sealed.bytes, "{fault:?}");
                std::fs::remove_file(&to).expect("removed");
            }
            let left: Vec<_> = std::fs::read_dir(to.parent().expect("a folder")).expect("read").collect();
            assert_eq!(left.len(), 1, "nothing but the sealed file");
        }
    }
}

/// An untrusted certificate, here a server without TLS, is an error of the store.
#[test]
fn a_server_without_tls_is_not_believed() {
    let stub = Stub::start();
    let error = Sealed::new("Log20261120", 1, SMALL).put(&stub.archive_with("https", 0)).expect_err("no proof");
    assert!(matches!(error, ArchiveError::Unreachable { .. }), "{error:?}");
    assert_eq!(stub.kept(DATA), None);
}
