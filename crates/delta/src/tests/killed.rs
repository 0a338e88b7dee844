//! Writers that are killed between two requests, at each of their requests.

use super::store::TroubledStore;
use super::*;
use object_store::memory::InMemory;

/// A writer is killed at its request 1, 2, 3 …, before or after the store has the request; another writer takes over. In the
/// end each file is there once, and a new reader sees the same as one that replays all commits.
#[tokio::test(start_paused = true)]
async fn whoever_takes_over_finds_each_file_once() {
    let mut kills = 0;
    for is_sent in [false, true] {
        for at in 1.. {
            let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
            let survivor = log(&store, every(2));
            for number in 0..3 {
                commit_once(&survivor, "h0", number).await.expect("committed");
            }
            // Versions 3 and 4, and the checkpoint of 4.
            let doomed = log(&TroubledStore::killed_at(&store, at, is_sent), every(2));
            let life = async {
                for number in 3..5 {
                    commit_once(&doomed, "h0", number).await.expect("committed");
                }
            };
            let is_killed = tokio::time::timeout(Duration::from_secs(60), life).await.is_err();
            for number in 3..6 {
                let outcome = commit_once(&survivor, "h0", number).await.expect("committed");
                assert!(outcome.checkpoint_error.is_none(), "{outcome:?}");
            }
            assert_each_once(&store, 1, 6).await;
            let read = survivor.snapshot(NOW, None).await.expect("a snapshot");
            for name in [
                "_last_checkpoint",
                "00000000000000000002.checkpoint.parquet",
                "00000000000000000004.checkpoint.parquet",
            ] {
                let _ = store.delete(&Path::from(format!("{TABLE}/_delta_log/{name}"))).await;
            }
            assert_eq!(read, survivor.snapshot(NOW, None).await.expect("a snapshot"), "killed at {at}, {is_sent}");
            if !is_killed {
                break;
            }
            kills += 1;
        }
    }
    assert!(kills > 20, "only {kills} kills");
}
