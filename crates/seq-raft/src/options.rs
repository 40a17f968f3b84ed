//! Durations and sizes that configure a member. [`RaftOptions::validate`] checks the relations between these values
//! before the member opens a file or a socket.

use std::sync::Arc;
use std::time::Duration;

use openraft::{Config, SnapshotPolicy};

use crate::error::StartError;

/// Maximum number of log entries in one message to a follower. Under full load, about this many new entries reach the
/// leader while the previous message is in flight.
const MAX_ENTRIES_PER_MESSAGE: u64 = 1_024;

/// Minimum number of purgeable log entries at which a purge begins. The number is large enough to justify the disk sync
/// of a purge, and small enough to keep each purge short.
const PURGE_BATCH: u64 = 256;

/// Pauses between attempts to connect to another member. The first pauses are short, because a restarted process
/// accepts connections again within milliseconds.
const RECONNECT: &str = "20ms 40ms 80ms ...320ms";

/// Durations and sizes that configure a member. All members of a group need the same values, because a member with
/// shorter election timeouts would stand for election sooner than the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RaftOptions {
    /// Interval of the leader's heartbeats.
    pub heartbeat: Duration,
    /// Lower bound of the random election timeout. A follower that receives no message from the leader for its election
    /// timeout stands for election.
    pub election_min: Duration,
    /// Upper bound of the random election timeout.
    pub election_max: Duration,
    /// Maximum time that a proposal waits until its command is committed and applied.
    pub commit_timeout: Duration,
    /// Maximum time for sending a snapshot to a follower and installing the snapshot there.
    pub snapshot_timeout: Duration,
    /// Number of log entries that a member applies between two snapshots of its state. This number and
    /// [`RaftOptions::log_retained_entries`] together bound the length of the log, which each member also holds in
    /// memory.
    pub snapshot_interval_entries: u64,
    /// Interval at which the leader marks a log entry. After applying a marked entry, the members compare their states.
    pub comparison_interval: Duration,
    /// Number of log entries that a member keeps after a snapshot covers them. A follower that was unreachable for a
    /// short time then gets these entries and needs no snapshot.
    pub log_retained_entries: u64,
}

impl RaftOptions {
    /// Values for members whose disks sync within milliseconds and whose network lies within one region.
    pub const DEFAULTS: RaftOptions = RaftOptions {
        heartbeat: Duration::from_millis(100),
        election_min: Duration::from_millis(300),
        election_max: Duration::from_millis(500),
        commit_timeout: Duration::from_secs(5),
        snapshot_timeout: Duration::from_secs(60),
        comparison_interval: Duration::from_secs(10),
        snapshot_interval_entries: 20_000,
        log_retained_entries: 5_000,
    };

    /// Values for members on up to three continents. Round trips between the members may take up to
    /// [`RaftOptions::max_round_trip`].
    pub const WAN: RaftOptions = RaftOptions {
        heartbeat: Duration::from_millis(600),
        election_min: Duration::from_millis(2_000),
        election_max: Duration::from_millis(3_000),
        commit_timeout: Duration::from_secs(15),
        snapshot_timeout: Duration::from_secs(180),
        ..RaftOptions::DEFAULTS
    };

    /// Returns the longest round trip between two members with which these options work. The heartbeat interval sets
    /// this limit, because the Raft library waits for the acknowledgement of a heartbeat only until the next heartbeat
    /// is due. Votes, appends, connections and pings have longer timeouts than heartbeats.
    #[must_use]
    pub fn max_round_trip(&self) -> Duration {
        self.heartbeat.mul_f64(0.9)
    }

    /// Checks the relations that must hold between the values, for example that the heartbeat interval is short enough
    /// for the election timeout.
    ///
    /// # Errors
    /// [`InvalidOptions`] names the first relation that does not hold and the reason for this relation.
    pub fn validate(&self) -> Result<(), InvalidOptions> {
        let relation = |holds: bool, what: &'static str, why: &'static str| {
            if holds { Ok(()) } else { Err(InvalidOptions { what, why }) }
        };
        relation(
            self.heartbeat >= Duration::from_millis(10),
            "heartbeat >= 10 ms",
            "each heartbeat must be acknowledged before the next one is due",
        )?;
        relation(
            self.heartbeat * 3 <= self.election_min,
            "heartbeat * 3 <= election_min",
            "two lost heartbeats must not cost an election",
        )?;
        relation(
            self.election_min < self.election_max,
            "election_min < election_max",
            "members that stand for election at the same moment split the votes",
        )?;
        relation(
            self.election_max < self.commit_timeout,
            "election_max < commit_timeout",
            "a proposal should outlive one change of leader",
        )?;
        relation(
            self.snapshot_timeout >= Duration::from_secs(1),
            "snapshot_timeout >= 1 s",
            "a follower far behind would never get a whole snapshot",
        )?;
        relation(
            self.comparison_interval >= self.heartbeat,
            "comparison_interval >= heartbeat",
            "members would compare more than they apply",
        )?;
        relation(self.snapshot_interval_entries >= 1, "snapshot_interval_entries >= 1", "the log would grow for ever")
    }

    /// Returns the Raft library's configuration with these options. `cluster` is the cluster's name. All other settings
    /// keep the library's defaults.
    pub(crate) fn library(&self, cluster: &str) -> Result<Arc<Config>, StartError> {
        let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let config = Config {
            cluster_name: cluster.to_owned(),
            heartbeat_interval: ms(self.heartbeat),
            election_timeout_min: ms(self.election_min),
            election_timeout_max: ms(self.election_max),
            install_snapshot_timeout: ms(self.snapshot_timeout),
            max_payload_entries: MAX_ENTRIES_PER_MESSAGE,
            snapshot_policy: SnapshotPolicy::LogsSinceLast(self.snapshot_interval_entries),
            max_in_snapshot_log_to_keep: self.log_retained_entries,
            purge_batch_size: PURGE_BATCH,
            // A member that was cut off must not depose the leader when it returns.
            enable_pre_vote: Some(true),
            // A leader that restarts stands for election: if its leadership were restored without an election, it could
            // respond from a stale state.
            enable_leader_restore: Some(false),
            backoff: RECONNECT.to_owned(),
            ..Config::default()
        };
        config.validate().map(Arc::new).map_err(|error| StartError::raft(&error))
    }
}

/// Error of options that are out of range or contradict each other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} does not hold: {why}")]
pub struct InvalidOptions {
    /// Text of the relation that does not hold, such as `heartbeat >= 10 ms`.
    pub what: &'static str,
    /// Reason why the relation must hold.
    pub why: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_hold() {
        assert_eq!(RaftOptions::DEFAULTS.validate(), Ok(()));
        assert_eq!(RaftOptions::DEFAULTS.max_round_trip(), Duration::from_millis(90));
    }

    #[test]
    fn the_wan_preset_holds_and_carries_half_a_second() {
        assert_eq!(RaftOptions::WAN.validate(), Ok(()));
        assert!(RaftOptions::WAN.max_round_trip() >= Duration::from_millis(500));
    }
}
