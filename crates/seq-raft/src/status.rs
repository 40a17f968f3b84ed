//! Status of a member for operators, probes and metrics.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use openraft::Instant as _;
use openraft::async_runtime::WatchReceiver;
use openraft::metrics::RaftMetrics;
use parking_lot::Mutex;
use seq_api::metrics::{
    CLOCK_OFFSET_SECONDS, DATA_BYTES, DATA_FREE_BYTES, RAFT_APPLIED_INDEX, RAFT_FORMAT, RAFT_IS_LEADER,
    RAFT_LAST_LOG_INDEX, RAFT_NEWEST_FORMAT, RAFT_QUORUM, RAFT_ROUND_TRIP_SECONDS, RAFT_SNAPSHOT_INDEX,
    RAFT_STATE_DIFFERS, RAFT_TERM, RAFT_VOTERS,
};

use crate::comparison::Digests;
use crate::leadership::quorum::{Quorum, QuorumStatus};
use crate::membership::changes::MemberChanges;
use crate::own_clock::OwnClock;
use crate::storage::Raft;
use crate::types::{LogId, TypeConfig};

/// Interval between two updates of the gauges.
const GAUGE_INTERVAL: Duration = Duration::from_secs(1);

/// Interval between two measurements of the size of the data directory, which contains some dozens of files.
const DISK_INTERVAL: Duration = Duration::from_secs(2);

/// One member of the group, as the reporting member sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// Raft id.
    pub id: u64,
    /// Name in the set file.
    pub name: String,
    /// Address of the member's port for peers.
    pub addr: String,
    /// Whether the member is a voter.
    pub voter: bool,
    /// Index of the last log entry that the member has, as far as the reporting member knows; 0 if it does not know.
    pub matched_index: u64,
    /// Whether the reporting member leads and this member acknowledged one of its messages within the last two election
    /// timeouts.
    pub live: bool,
    /// Last measured round trip between the leader and this member; `None` if the reporting member does not lead.
    pub round_trip: Option<Duration>,
    /// Time since the member last acknowledged a message of the reporting leader. `None` if the reporting member is a
    /// follower, if the entry describes the leader itself, and before the first acknowledgement.
    pub silent: Option<Duration>,
}

/// Status of one member, with its view of all members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RaftStatus {
    /// Raft id of the reporting member.
    pub id: u64,
    /// Raft id of the leader, if it is known.
    pub leader: Option<u64>,
    /// Newest term that the reporting member knows.
    pub term: u64,
    /// Index of the last entry in the reporting member's log.
    pub last_log_index: u64,
    /// Index of the last entry that the reporting member knows to be committed; 0 if it knows none.
    pub committed_index: u64,
    /// Index of the last entry that the reporting member has applied.
    pub applied_index: u64,
    /// Index of the last entry that the reporting member's newest snapshot covers.
    pub snapshot_index: u64,
    /// Whether a majority of voters responds to the reporting member if it leads, and otherwise whether messages of a
    /// leader arrive there.
    pub quorum: QuorumStatus,
    /// Longest round trip between two members with which the configured timeouts work.
    pub max_round_trip: Duration,
    /// Description of the members whose states differ from each other, according to this member's last comparison of
    /// states. Empty if no states differ.
    pub difference: String,
    /// Space on the file system of the data directory. `None` if the data is in memory, and before the first
    /// measurement.
    pub disk: Option<DiskSpace>,
    /// 99th percentile of the durations of the log's syncs in the last minute; the duration of the present sync if that
    /// lasts longer than a second. `None` if there were fewer than two syncs.
    pub sync_p99: Option<Duration>,
    /// All members.
    pub members: Vec<MemberStatus>,
}

/// Space on the file system of a data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    /// Bytes that are available to the user of this process.
    pub free: u64,
    /// Total bytes of the file system.
    pub total: u64,
}

/// Space on the data directory's file system at the last measurement. Clones share the value.
pub(crate) type LastDiskSpace = Arc<Mutex<Option<DiskSpace>>>;

impl RaftStatus {
    pub(crate) fn new(
        raft: &Raft,
        quorum: &Quorum,
        digests: &Digests,
        (disk, sync_p99): (Option<DiskSpace>, Option<Duration>),
    ) -> RaftStatus {
        let metrics = raft.metrics().borrow_watched().clone();
        RaftStatus {
            id: metrics.id,
            leader: metrics.current_leader,
            term: metrics.current_term,
            last_log_index: metrics.last_log_index.unwrap_or(0),
            committed_index: index(metrics.cluster_committed.max(metrics.local_committed)),
            applied_index: index(metrics.last_applied),
            snapshot_index: index(metrics.snapshot),
            quorum: quorum.status(),
            max_round_trip: quorum.max_round_trip(),
            difference: digests.difference().map(|difference| difference.to_string()).unwrap_or_default(),
            disk,
            sync_p99,
            members: members(&metrics, quorum),
        }
    }
}

fn index(id: Option<LogId>) -> u64 {
    id.map_or(0, |id| id.index())
}

fn members(metrics: &RaftMetrics<TypeConfig>, quorum: &Quorum) -> Vec<MemberStatus> {
    let live = Quorum::live(metrics, quorum.within() * 2);
    let leads = metrics.current_leader == Some(metrics.id);
    let membership = metrics.membership_config.membership();
    let voters: Vec<u64> = membership.voter_ids().collect();
    let matched = |id: &u64| {
        if *id == metrics.id {
            return metrics.last_log_index.unwrap_or(0);
        }
        metrics.replication.as_ref().and_then(|all| all.get(id)).map_or(0, |matched| index(*matched))
    };
    let silent = |id: &u64| {
        let acknowledged =
            metrics.heartbeat.as_ref().filter(|_| leads && *id != metrics.id)?.get(id).copied().flatten()?;
        Some(acknowledged.elapsed())
    };
    let member = |(id, member): (&u64, &crate::types::Member)| MemberStatus {
        id: *id,
        name: member.name.clone(),
        addr: member.addr.clone(),
        voter: voters.contains(id),
        matched_index: matched(id),
        live: leads && live.contains(id),
        round_trip: quorum.round_trip(*id).filter(|_| leads),
        silent: silent(id),
    };
    membership.nodes().map(member).collect()
}

/// Updates the gauges of a member at each [`GAUGE_INTERVAL`] until the future is dropped.
pub(crate) async fn update_gauges(
    raft: Raft,
    quorum: Quorum,
    changes: MemberChanges,
    (digests, clock): (Arc<Digests>, OwnClock),
) {
    let mut tick = tokio::time::interval(GAUGE_INTERVAL);
    loop {
        tick.tick().await;
        let metrics = raft.metrics().borrow_watched().clone();
        set_gauges(&metrics, &quorum);
        set_member_gauges(&metrics, &quorum);
        let (set, node) = quorum.names();
        let differs = u16::from(digests.difference().is_some());
        let formats = [(RAFT_FORMAT, changes.format()), (RAFT_NEWEST_FORMAT, changes.own_format())];
        for (name, format) in formats.into_iter().chain([(RAFT_STATE_DIFFERS, differs)]) {
            metrics::gauge!(name, "set" => set.to_owned(), "node" => node.to_owned()).set(f64::from(format));
        }
        if let Some(ahead_ms) = clock.ahead_ms() {
            let gauge = metrics::gauge!(CLOCK_OFFSET_SECONDS, "set" => set.to_owned(), "node" => node.to_owned());
            gauge.set(ahead_ms as f64 / 1_000.0);
        }
    }
}

/// Updates the gauges of a data directory's size and free space until the future is dropped, and stores the measurement
/// in `space`. A disk that does not respond delays only these gauges.
pub(crate) async fn update_disk_gauges(dir: PathBuf, set: String, node: String, space: LastDiskSpace) {
    let mut tick = tokio::time::interval(DISK_INTERVAL);
    let gauge = |name| metrics::gauge!(name, "set" => set.clone(), "node" => node.clone());
    let (used, free) = (gauge(DATA_BYTES), gauge(DATA_FREE_BYTES));
    loop {
        tick.tick().await;
        let dir = dir.clone();
        let Ok(Ok((used_now, now))) = tokio::task::spawn_blocking(move || disk_use(&dir)).await else { continue };
        used.set(used_now as f64);
        free.set(now.free as f64);
        *space.lock() = Some(now);
    }
}

/// Returns the total size in bytes of the files below a directory, and the space on the directory's file system.
fn disk_use(dir: &Path) -> io::Result<(u64, DiskSpace)> {
    let system = rustix::fs::statvfs(dir)?;
    let bytes = |blocks: u64| blocks.saturating_mul(system.f_frsize);
    Ok((bytes_below(dir)?, DiskSpace { free: bytes(system.f_bavail), total: bytes(system.f_blocks).max(1) }))
}

fn bytes_below(dir: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        bytes += match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => bytes_below(&entry.path())?,
            Ok(metadata) => metadata.len(),
            // A snapshot that was just replaced.
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(error),
        };
    }
    Ok(bytes)
}

fn set_gauges(metrics: &RaftMetrics<TypeConfig>, quorum: &Quorum) {
    let (set, node) = quorum.names();
    let gauge = |name: &'static str, value: u64| {
        // A gauge is a float: exact up to 2^53, which no index reaches.
        metrics::gauge!(name, "set" => set.to_owned(), "node" => node.to_owned()).set(value as f64);
    };
    gauge(RAFT_IS_LEADER, u64::from(metrics.current_leader == Some(metrics.id)));
    gauge(RAFT_TERM, metrics.current_term);
    gauge(RAFT_LAST_LOG_INDEX, metrics.last_log_index.unwrap_or(0));
    gauge(RAFT_APPLIED_INDEX, index(metrics.last_applied));
    gauge(RAFT_SNAPSHOT_INDEX, index(metrics.snapshot));
    gauge(RAFT_QUORUM, u64::from(quorum.status().has_quorum()));
}

/// Sets the gauges of the number of voters and of the number of responding voters. If this member leads, also sets the
/// gauge of the round trip to each other member. On a follower, the number of responding voters is 0.
fn set_member_gauges(metrics: &RaftMetrics<TypeConfig>, quorum: &Quorum) {
    let (set, node) = quorum.names();
    let voters: Vec<u64> = metrics.membership_config.membership().voter_ids().collect();
    let live = Quorum::live(metrics, quorum.within());
    let leads = metrics.current_leader == Some(metrics.id);
    let responding = if leads { voters.iter().filter(|id| live.contains(id)).count() } else { 0 };
    for (state, count) in [("all", voters.len()), ("responding", responding)] {
        metrics::gauge!(RAFT_VOTERS, "set" => set.to_owned(), "node" => node.to_owned(), "state" => state)
            .set(count as f64);
    }
    for (id, member) in metrics.membership_config.membership().nodes() {
        let trip = quorum.round_trip(*id).filter(|_| leads && *id != metrics.id);
        if let Some(trip) = trip {
            let labels = [("set", set.to_owned()), ("node", node.to_owned()), ("member", member.name.clone())];
            metrics::gauge!(RAFT_ROUND_TRIP_SECONDS, &labels).set(trip.as_secs_f64());
        }
    }
}
