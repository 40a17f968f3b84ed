//! Snapshots: built, installed, loaded, refused.

use std::fs;

use super::*;
use crate::storage::snapshot::{SnapshotError, decode_announced};
use crate::types::{Snapshot, SnapshotMeta};

fn some_commands(first: u64) -> Vec<Entry> {
    vec![command_entry(1, first, &first_command()), command_entry(1, first + 1, &Command::ClaimId(7))]
}

async fn build(opened: &mut Opened<Journal>) -> Snapshot {
    opened.machine.get_snapshot_builder().await.build_snapshot().await.unwrap()
}

fn check_snapshot(meta: &SnapshotMeta, bytes: &[u8]) -> Result<(), SnapshotError> {
    decode_announced::<Journal>(meta, bytes).map(drop)
}

fn snapshot_files(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("snapshot-")).collect()
}

#[tokio::test]
async fn a_restart_loads_the_snapshot_and_keeps_one_file() {
    let dir = tempfile::tempdir().unwrap();
    let data = at(dir.path());
    let mut first = open(&data).unwrap();
    apply(&mut first.machine, some_commands(0)).await;
    build(&mut first).await;
    apply(&mut first.machine, vec![blank(1, 2)]).await;
    let built = build(&mut first).await;
    assert_eq!(built.meta.last_log_id, Some(log_id(1, 2)));
    assert_eq!(snapshot_files(dir.path()), ["snapshot-2-1-1"]);
    let state = first.state.read(Clone::clone);
    close(first).await;

    // The remains of an interrupted write are removed.
    fs::write(dir.path().join("snapshot-9-1-1.tmp"), b"half").unwrap();
    let mut again = open(&data).unwrap();
    assert_eq!(snapshot_files(dir.path()), ["snapshot-2-1-1"]);
    assert_eq!(again.state.read(Clone::clone), state);
    let current = again.machine.get_current_snapshot().await.unwrap().unwrap();
    assert_eq!((current.meta, current.snapshot), (built.meta, built.snapshot));
    close(again).await;
}

#[tokio::test]
async fn an_installed_snapshot_replaces_the_state_and_never_an_older_one_a_newer_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut leader = open(&DataDir::Memory(MemoryDisk::new())).unwrap();
    apply(&mut leader.machine, some_commands(0)).await;
    let old = build(&mut leader).await;
    apply(&mut leader.machine, vec![blank(1, 2)]).await;
    let new = build(&mut leader).await;

    let data = at(dir.path());
    let mut follower = open(&data).unwrap();
    check_snapshot(&new.meta, &new.snapshot).unwrap();
    follower.machine.install_snapshot(&new.meta, new.snapshot.clone()).await.unwrap();
    assert_eq!(follower.state.read(Clone::clone), leader.state.read(Clone::clone));
    assert_eq!(follower.state.last_applied(), Some(2));
    close(follower).await;

    let again = open(&data).unwrap();
    assert_eq!(again.state.read(Clone::clone), leader.state.read(Clone::clone));
    // A builder that was started earlier finishes too late.
    again.machine.snapshots.keep(old).await.unwrap();
    let current = again.machine.snapshots.current().await.unwrap();
    assert_eq!(current.meta, new.meta);
    close(again).await;
}

#[tokio::test]
async fn a_damaged_snapshot_from_another_member_is_refused() {
    let mut leader = open(&DataDir::Memory(MemoryDisk::new())).unwrap();
    apply(&mut leader.machine, some_commands(0)).await;
    let snapshot = build(&mut leader).await;

    let mut follower = open(&DataDir::Memory(MemoryDisk::new())).unwrap();
    for (bytes, expected) in [
        (snapshot.snapshot.slice(..snapshot.snapshot.len() - 1), "truncated"),
        ([&snapshot.snapshot[..40], &[0xff], &snapshot.snapshot[41..]].concat().into(), "damaged"),
    ] {
        let error = text(&check_snapshot(&snapshot.meta, &bytes).unwrap_err());
        assert!(error.contains(expected), "{error}");
        follower.machine.install_snapshot(&snapshot.meta, bytes).await.unwrap_err();
    }
    let mut meta = snapshot.meta.clone();
    meta.last_log_id = Some(log_id(1, 99));
    let error = text(&check_snapshot(&meta, &snapshot.snapshot).unwrap_err());
    assert!(error.contains("as announced"), "{error}");
    assert_eq!(follower.state.last_applied(), None);
    assert!(follower.machine.get_current_snapshot().await.unwrap().is_none());
}
