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

/// Interval between two measurements of the data directory, which has some dozens of files.
const DISK_INTERVAL: Duration = Duration::from_secs(2);

/// One member of the group, as the reporting member sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// Raft id.
    pub id: u64,
    /// Name in the set file.
    pub name: String,
    /// Address of its gRPC port.
    pub addr: String,
    /// Whether it votes.
    pub voter: bool,
    /// Index of the last entry that the member is known to have; 0 if unknown.
    pub matched_index: u64,
    /// Whether the member acknowledged the reporting leader within two election timeouts; false if the reporting member
    /// is a follower.
    pub live: bool,
    /// Last measured round trip to the member; on the leader only.
    pub round_trip: Option<Duration>,
    /// Time since the member last acknowledged the reporting leader; `None` on followers, for the leader itself, and
    /// before the first acknowledgement.
    pub silent: Option<Duration>,
}

/// One member's status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RaftStatus {
    /// Raft id of the reporting member.
    pub id: u64,
    /// Raft id of the leader, if it is known.
    pub leader: Option<u64>,
    /// The newest term.
    pub term: u64,
    /// Index of the last entry of the log.
    pub last_log_index: u64,
    /// Index of the last entry known to be committed; 0 for none.
    pub committed_index: u64,
    /// Index of the last applied entry.
    pub applied_index: u64,
    /// Index of the last entry that the current snapshot covers.
    pub snapshot_index: u64,
    /// Whether the member sees a majority.
    pub quorum: QuorumStatus,
    /// The longest round trip between two members that the timeouts allow.
    pub max_round_trip: Duration,
    /// Description of the members whose states differ, according to this member's last comparison; empty if no states
    /// differ.
    pub difference: String,
    /// Disk of the data directory; `None` in memory, and before the first measurement.
    pub disk: Option<DiskSpace>,
    /// All members.
    pub members: Vec<MemberStatus>,
}

/// Space on the file system of a data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    /// Bytes available to this user.
    pub free: u64,
    /// Total bytes of the file system.
    pub total: u64,
}

/// Space at the last measurement, shared by clones.
pub(crate) type LastDiskSpace = Arc<Mutex<Option<DiskSpace>>>;

impl RaftStatus {
    pub(crate) fn new(raft: &Raft, quorum: &Quorum, digests: &Digests, disk: Option<DiskSpace>) -> RaftStatus {
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

/// Updates the gauges of a member until the future is dropped.
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

/// Updates the gauges of a data directory until the future is dropped. A disk that does not respond delays only these
/// gauges.
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

/// Returns the bytes of the files in a directory, and the space on its file system.
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

/// Sets the gauges of the numbers of all voters and of responding voters. On the leader, also sets the gauge of the
/// round trip to each member. A follower reports no responding voters.
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
