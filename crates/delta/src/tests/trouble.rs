//! Stores whose answers are lost, late, double or wrong.

use super::store::{Fate, TroubledStore};
use super::*;
use crate::{DeltaError, StoreCheck};
use object_store::memory::InMemory;
use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Each single trouble, in the first write: the commit is there once, and its writer knows.
#[tokio::test(start_paused = true)]
async fn a_commit_survives_each_trouble() {
    for fate in [Fate::AnswerLost, Fate::RequestLost, Fate::Late, Fate::Twice, Fate::Lie, Fate::Unreadable] {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let troubled = TroubledStore::with_plan(&store, move |number| if number == 0 { fate } else { Fate::Done });
        let outcome = commit_once(&log(&troubled, options()), "h0", 0).await.expect("committed");
        assert_eq!(outcome.version, Some(0), "{fate:?}");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_each_once(&store, 1, 1).await;
        assert_eq!(commit_once(&log(&store, options()), "h0", 1).await.expect("committed").version, Some(1));
    }
}

/// What is never answered is not guessed; whoever asks again finds out.
#[tokio::test(start_paused = true)]
async fn a_commit_without_any_answer_is_uncertain_and_may_be_repeated() {
    for (fate, version) in [(Fate::Late, None), (Fate::RequestLost, Some(0))] {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let troubled = TroubledStore::with_plan(&store, move |_| fate);
        // The waits are shorter than the store is late.
        let hasty = DeltaOptions { wait_min: Duration::ZERO, ..options() };
        let error = commit_once(&log(&troubled, hasty), "h0", 0).await.expect_err("uncertain");
        assert!(error.to_string().contains("may or may not have been written"), "{error}");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(commit_once(&log(&store, options()), "h0", 0).await.expect("known").version, version);
        assert_each_once(&store, 1, 1).await;
    }
}

/// A write that arrives after its version was given up finds it taken, and the file is not committed twice.
#[tokio::test(start_paused = true)]
async fn many_writers_on_a_bad_store_commit_each_file_once() {
    let mut random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    for _ in 0..40 {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let mut writers = tokio::task::JoinSet::new();
        for host in 0..5 {
            let seed = random.next_u64().to_le_bytes().repeat(4);
            let mut fates = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
            let troubled = TroubledStore::with_plan(&store, move |_| match fates.next_u32() % 12 {
                0 => Fate::AnswerLost,
                1 => Fate::RequestLost,
                2 => Fate::Late,
                3 => Fate::Twice,
                4 => Fate::Lie,
                5 => Fate::Unreadable,
                _ => Fate::Done,
            });
            let log =
                log(&troubled, DeltaOptions { questions_max: NonZeroU32::new(2).expect("2 is not zero"), ..every(7) });
            writers.spawn(async move {
                let host = format!("h{host}");
                for number in 0..6 {
                    // Whoever does not know asks again.
                    while commit_once(&log, &host, number).await.is_err() {}
                }
            });
        }
        while let Some(writer) = writers.join_next().await {
            writer.expect("a writer");
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_each_once(&store, 5, 6).await;
    }
}

#[tokio::test]
async fn a_store_that_overwrites_is_found_out() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    log(&store, options()).check_store().await.expect("a good store");
    let troubled = TroubledStore::with_plan(&store, |_| Fate::Unconditional);
    let error = log(&troubled, options()).check_store().await.expect_err("a store that overwrites").to_string();
    assert!(error.contains("writes over an object"), "{error}");
    assert!(log(&store, options()).names_from(0).await.expect("names").is_empty());
    // Nobody else knows the name of the trial: a store that refuses it has written it before.
    let twice = TroubledStore::with_plan(&store, |_| Fate::Twice);
    log(&twice, options()).check_store().await.expect("a good store");
    assert!(log(&store, options()).names_from(0).await.expect("names").is_empty());
}

/// On such a store a commit that its writer has read back may be gone a moment later. So the first one is not made.
#[tokio::test]
async fn nothing_is_committed_to_a_store_that_overwrites() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let overwriting = TroubledStore::with_plan(&store, |_| Fate::Unconditional);
    let check = StoreCheck::default();
    for table in ["lake/Log", "lake/Other"] {
        let log = DeltaLog::new(Arc::clone(&overwriting), &Path::from(table), options()).with_check(check.clone());
        let error = commit_once(&log, "h0", 0).await.expect_err("refused");
        assert!(matches!(error, CommitError::Log(DeltaError::NotConditional { .. })), "{error}");
        assert_eq!(log.snapshot(NOW, None).await.expect("no table").version(), None);
    }
    // A good one is tried once for all tables, before the first version.
    let (writes, check) = (Arc::new(AtomicUsize::new(0)), StoreCheck::default());
    let counted = Arc::clone(&writes);
    let good = TroubledStore::with_plan(&store, move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        Fate::Done
    });
    for (table, expected) in [("lake/Log", 3), ("lake/Other", 4)] {
        let log = DeltaLog::new(Arc::clone(&good), &Path::from(table), options()).with_check(check.clone());
        let nothing = log.commit(NOW, None, |_| Ok::<_, Infallible>(Vec::new())).await.expect("nothing to do");
        assert_eq!(nothing.version, None);
        assert_eq!(commit_once(&log, "h0", 0).await.expect("committed").version, Some(0));
        assert_eq!(writes.load(Ordering::Relaxed), expected);
    }
}
