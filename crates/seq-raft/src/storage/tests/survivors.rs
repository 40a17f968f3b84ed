//! State read from the directory of a member whose group is lost.

use std::fs;

use super::*;
use crate::storage::read_survivor;

fn words(from: u64, count: u64) -> Vec<Entry> {
    (from..from + count).map(|index| command_entry(1, index, &Command::Append(index.to_le_bytes().into()))).collect()
}

/// Writes entries 0 to 5; a snapshot covers 0 and 1, and 3 is the last entry known to be committed.
async fn write(dir: &Path) -> Journal {
    let mut opened = open(&at(dir)).unwrap();
    append(&mut opened.log, words(0, 6)).await;
    apply(&mut opened.machine, words(0, 2)).await;
    opened.machine.get_snapshot_builder().await.build_snapshot().await.unwrap();
    apply(&mut opened.machine, words(2, 2)).await;
    opened.log.save_committed(Some(log_id(1, 3))).await.unwrap();
    let committed = opened.state.read(Clone::clone);
    close(opened).await;
    committed
}

#[tokio::test]
async fn committed_entries_are_applied_and_later_ones_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let committed = write(dir.path()).await;
    for _ in 0..2 {
        let survivor = read_survivor::<Journal>(dir.path()).unwrap();
        assert_eq!(survivor.state, committed);
        assert_eq!((survivor.id, survivor.committed, survivor.last), (1, 3, 5));
        let locked = read_survivor::<Journal>(dir.path()).unwrap_err();
        assert!(matches!(locked, OpenError::InUse { .. }), "{locked}");
    }
    // The member can still start.
    let mut again = open(&at(dir.path())).unwrap();
    assert_eq!(entries(&mut again.log).await, words(0, 6));
    close(again).await;
}

#[tokio::test]
async fn a_log_without_a_snapshot_is_applied_from_its_first_entry() {
    let dir = tempfile::tempdir().unwrap();
    let mut opened = open(&at(dir.path())).unwrap();
    append(&mut opened.log, words(0, 2)).await;
    opened.log.save_committed(Some(log_id(1, 0))).await.unwrap();
    append(&mut opened.log, words(2, 1)).await;
    close(opened).await;
    let survivor = read_survivor::<Journal>(dir.path()).unwrap();
    assert_eq!((survivor.state.words.len(), survivor.committed, survivor.last), (1, 0, 2));
}

#[tokio::test]
async fn a_directory_that_is_missing_or_damaged_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    let refused = |dir: &Path| text(&read_survivor::<Journal>(dir).unwrap_err());
    assert!(refused(&missing).contains("missing") && !missing.exists());
    assert!(refused(dir.path()).contains("identity"), "it is empty");
    write(dir.path()).await;
    let snapshot = fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap().path());
    let snapshot = snapshot.into_iter().find(|path| path.to_string_lossy().contains("snapshot-")).unwrap();
    let mut bytes = fs::read(&snapshot).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&snapshot, bytes).unwrap();
    assert!(refused(dir.path()).contains("snapshot-1-1-1"));
}
