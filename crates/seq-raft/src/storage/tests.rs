//! Tests of the storage as a whole, on sled and in memory, with real crashes in child processes.

use std::path::Path;

use openraft::StorageError;
use openraft::storage::{IOFlushed, RaftLogReader, RaftLogStorage, RaftSnapshotBuilder, RaftStateMachine};
use openraft::testing::log::{StoreBuilder, Suite};
use openraft::type_config::TypeConfigExt;
use openraft::type_config::alias::OneshotReceiverOf;

use super::*;
use crate::encoding;
use crate::test_machine::{Command, Journal, OLDEST, unobserved};
use crate::types::{EncodedBatch, Entry, LeaderId, LogId, Payload, TypeConfig, Vote};

mod child;
mod crash;
mod damage;
mod model;
mod rate;
mod snapshots;
mod survivors;
mod sync;

const CLUSTER: &str = "test";

fn at(dir: &Path) -> DataDir {
    DataDir::Path(dir.to_owned())
}

fn open(data: &DataDir) -> Result<Opened<Journal>, OpenError> {
    prepare(data, CLUSTER, 1)?.open(unobserved())
}

/// Returns the whole text of an error, with its causes.
fn text(error: &dyn std::error::Error) -> String {
    let cause = error.source().map(|source| format!(": {}", text(source))).unwrap_or_default();
    format!("{error}{cause}")
}

async fn close(opened: Opened<Journal>) {
    let Opened { log, machine, closed, .. } = opened;
    drop((log, machine));
    closed.wait().await;
}

fn log_id(term: u64, index: u64) -> LogId {
    LogId::new(LeaderId { term, node_id: 1 }, index)
}

fn vote(term: u64) -> Vote {
    Vote { leader_id: LeaderId { term, node_id: 1 }, committed: false }
}

fn blank(term: u64, index: u64) -> Entry {
    Entry { log_id: log_id(term, index), payload: Payload::Blank }
}

/// An entry of about 24 bytes for each raise.
fn raise(term: u64, index: u64, raises: usize) -> Entry {
    command_entry(term, index, &Command::Append(index.to_le_bytes().repeat(3 * raises)))
}

fn command_entry(term: u64, index: u64, command: &Command) -> Entry {
    let command = encoding::write_command::<Journal>(OLDEST, command).unwrap();
    Entry { log_id: log_id(term, index), payload: Payload::Normal(EncodedBatch::of(&[command])) }
}

fn first_command() -> Command {
    Command::Append(b"first".to_vec())
}

/// Starts an append, which is acknowledged through the channel.
async fn start_append(log: &mut LogStore, entries: Vec<Entry>) -> OneshotReceiverOf<TypeConfig, std::io::Result<()>> {
    let (done, wait) = TypeConfig::oneshot();
    log.append(entries, IOFlushed::signal(done)).await.unwrap();
    wait
}

async fn append(log: &mut LogStore, entries: Vec<Entry>) {
    start_append(log, entries).await.await.unwrap().unwrap();
}

async fn entries(log: &mut LogStore) -> Vec<Entry> {
    log.get_log_reader().await.try_get_log_entries(..).await.unwrap()
}

async fn read_vote(log: &mut LogStore) -> Option<Vote> {
    log.get_log_reader().await.read_vote().await.unwrap()
}

#[test]
fn the_commands_of_an_entry_are_applied_in_order_with_an_output_each() {
    let opened = open(&DataDir::Memory(MemoryDisk::new())).unwrap();
    let words = [b"one", b"two", b"six"].map(|word| Command::Append(word.to_vec()));
    let commands = words.each_ref().map(|command| encoding::write_command::<Journal>(OLDEST, command).unwrap());
    let payload = Payload::Normal(EncodedBatch::of(&commands));
    let outputs = opened.state.replica().apply(Entry { log_id: log_id(1, 0), payload }).0;
    assert_eq!(outputs.into_iter().map(crate::types::Output::downcast::<usize>).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(opened.state.read(|journal| journal.words.clone()), [b"one", b"two", b"six"]);
    assert_eq!(opened.state.last_applied(), Some(0));
    assert!(opened.state.replica().apply(blank(1, 1)).0.is_empty());
}

async fn apply(machine: &mut Machine, entries: Vec<Entry>) {
    machine.apply(futures::stream::iter(entries.into_iter().map(|entry| Ok((entry, None))))).await.unwrap();
}

struct OnSled;

/// Removes the directory once storage has released it: a failed write would stop the process.
struct RemovedLater {
    closed: Option<Closed>,
    _dir: tempfile::TempDir,
}

impl Drop for RemovedLater {
    fn drop(&mut self) {
        let closed = self.closed.take().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        // A separate thread, because a runtime cannot block within another runtime.
        std::thread::spawn(move || runtime.block_on(closed.wait())).join().unwrap();
    }
}

impl StoreBuilder<TypeConfig, LogStore, Machine, RemovedLater> for OnSled {
    async fn build(&self) -> Result<(RemovedLater, LogStore, Machine), StorageError<TypeConfig>> {
        let dir = tempfile::tempdir().unwrap();
        let opened = open(&at(dir.path())).unwrap();
        Ok((RemovedLater { closed: Some(opened.closed), _dir: dir }, opened.log, opened.machine))
    }
}

struct InMemory;

impl StoreBuilder<TypeConfig, LogStore, Machine> for InMemory {
    async fn build(&self) -> Result<((), LogStore, Machine), StorageError<TypeConfig>> {
        let opened = open(&DataDir::Memory(MemoryDisk::new())).unwrap();
        Ok(((), opened.log, opened.machine))
    }
}

#[tokio::test]
async fn the_suite_of_the_raft_library_passes_on_sled() {
    Suite::test_all(OnSled).await.unwrap();
}

#[tokio::test]
async fn the_suite_of_the_raft_library_passes_in_memory() {
    Suite::test_all(InMemory).await.unwrap();
}

#[tokio::test]
async fn everything_is_there_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    for data in [at(dir.path()), DataDir::Memory(MemoryDisk::new())] {
        let mut first = open(&data).unwrap();
        let nonce = first.nonce;
        first.log.save_vote(&vote(3)).await.unwrap();
        // The largest entry spans several parts.
        let all = vec![blank(1, 0), raise(1, 1, 4_096), raise(2, 2, 1), blank(3, 3), raise(3, 4, 4_096)];
        append(&mut first.log, all.clone()).await;
        first.log.save_committed(Some(log_id(2, 2))).await.unwrap();
        first.log.truncate_after(Some(log_id(3, 3))).await.unwrap();
        append(&mut first.log, vec![raise(3, 4, 7)]).await;
        close(first).await;

        let mut again = open(&data).unwrap();
        assert_eq!(again.nonce, nonce);
        assert_eq!(entries(&mut again.log).await, [&all[..4], &[raise(3, 4, 7)]].concat());
        assert_eq!(read_vote(&mut again.log).await, Some(vote(3)));
        assert_eq!(again.log.read_committed().await.unwrap(), Some(log_id(2, 2)));
        close(again).await;
    }
}

#[tokio::test]
async fn replication_reads_a_bounded_batch() {
    let mut opened = open(&DataDir::Memory(MemoryDisk::new())).unwrap();
    append(&mut opened.log, (0..40).map(|index| raise(1, index, 4_096)).collect()).await;
    let mut reader = opened.log.get_log_reader().await;
    let read = reader.limited_get_log_entries(3, 40).await.unwrap();
    assert_eq!(read[0].log_id.index, 3);
    assert!((2..20).contains(&read.len()), "{} entries of 80 KiB and more", read.len());
}

#[tokio::test]
async fn a_directory_serves_one_process_one_cluster_and_one_node() {
    let dir = tempfile::tempdir().unwrap();
    for data in [at(dir.path()), DataDir::Memory(MemoryDisk::new())] {
        let prepared = prepare(&data, CLUSTER, 1).unwrap();
        assert!(prepared.is_fresh());
        assert!(matches!(prepare(&data, CLUSTER, 1), Err(OpenError::InUse { .. })));
        // A member that its peers refused leaves the directory empty.
        drop(prepared);
        assert!(prepare(&data, CLUSTER, 1).unwrap().is_fresh());

        close(open(&data).unwrap()).await;
        assert!(!prepare(&data, CLUSTER, 1).unwrap().is_fresh());
        let error = prepare(&data, "other", 1).unwrap_err().to_string();
        assert!(error.contains(r#"belongs to cluster "test", not to "other""#), "{error}");
        let error = prepare(&data, CLUSTER, 2).unwrap_err().to_string();
        assert!(error.contains("belongs to node 1, not to node 2"), "{error}");
    }
}

#[tokio::test]
async fn a_directory_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;

    let dir = tempfile::tempdir().unwrap();
    let made = dir.path().join("made");
    close(open(&at(&made)).unwrap()).await;
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&made), 0o700);
    for file in ["identity", "acknowledged", "lock", "log/db"] {
        assert_eq!(mode(&made.join(file)) & 0o077, 0, "{file}");
    }
    for open_to in [0o775, 0o757, 0o777] {
        std::fs::set_permissions(&made, std::fs::Permissions::from_mode(open_to)).unwrap();
        // As an orchestrator does to a volume: the directory and all that is in it.
        for file in ["identity", "log/db"] {
            std::fs::set_permissions(made.join(file), std::fs::Permissions::from_mode(0o666)).unwrap();
        }
        close(open(&at(&made)).unwrap()).await;
        for file in ["", "identity", "acknowledged", "lock", "log", "log/db"] {
            assert_eq!(mode(&made.join(file)) & 0o077, 0, "{file} after {open_to:o}");
        }
    }
    std::fs::set_permissions(&made, std::fs::Permissions::from_mode(0o755)).unwrap();
    close(open(&at(&made)).unwrap()).await;

    // Only root can transfer the ownership of a directory, and only root could then still open it.
    let user = rustix::process::geteuid().as_raw();
    if user == 0 {
        std::os::unix::fs::chown(&made, Some(1), None).unwrap();
        let error = open(&at(&made)).unwrap_err().to_string();
        assert!(error.contains("belongs to user 1, and this process runs as user 0"), "{error}");
    }
}

#[tokio::test]
async fn a_power_cut_in_memory_keeps_what_was_acknowledged() {
    let disk = MemoryDisk::new();
    let data = DataDir::Memory(disk.clone());
    let mut first = open(&data).unwrap();
    append(&mut first.log, vec![blank(1, 0), blank(1, 1)]).await;
    first.log.save_committed(Some(log_id(1, 1))).await.unwrap();
    close(first).await;
    disk.cut_power();
    let mut again = open(&data).unwrap();
    assert_eq!(entries(&mut again.log).await.len(), 2);
}

#[tokio::test]
async fn a_purge_goes_on_in_steps_and_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let data = at(dir.path());
    let mut first = open(&data).unwrap();
    let all: Vec<Entry> =
        std::iter::once(command_entry(1, 0, &first_command())).chain((1..2_000).map(|index| blank(1, index))).collect();
    append(&mut first.log, all.clone()).await;
    apply(&mut first.machine, all[..1_900].to_vec()).await;
    first.machine.get_snapshot_builder().await.build_snapshot().await.unwrap();
    first.log.purge(log_id(1, 1_800)).await.unwrap();
    close(first).await;

    let mut again = open(&data).unwrap();
    assert_eq!(entries(&mut again.log).await, all[1_801..]);
    assert_eq!(again.log.get_log_state().await.unwrap().last_purged_log_id, Some(log_id(1, 1_800)));
    assert_eq!(again.state.last_applied(), Some(1_899));
    close(again).await;
}
