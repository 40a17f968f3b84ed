//! Durations and sizes that configure a member. The relations between them are checked before the member opens a file
//! or a socket.

use std::sync::Arc;
use std::time::Duration;

use openraft::{Config, SnapshotPolicy};

use crate::error::StartError;

/// Maximum number of log entries in one message to a follower. About this many entries arrive while a message is in
/// flight.
const MAX_ENTRIES_PER_MESSAGE: u64 = 1_024;

/// Minimum number of purgeable entries at which a purge begins. It is large enough to justify the sync of a purge, and
/// small enough to keep the purge short.
const PURGE_BATCH: u64 = 256;

/// Pauses between attempts to connect to another member. The first pauses are short, because a restarted process
/// accepts connections again within milliseconds.
const RECONNECT: &str = "20ms 40ms 80ms ...320ms";

/// Durations and sizes that configure a member. All members of a group need the same values, because otherwise some
/// members stand for election sooner than others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RaftOptions {
    /// Interval of the leader's heartbeats.
    pub heartbeat: Duration,
    /// Lower bound of the election timeout. A follower that receives no message of the leader for this timeout stands
    /// for election. The timeout is random.
    pub election_min: Duration,
    /// Upper bound of the random election timeout.
    pub election_max: Duration,
    /// How long a proposal may wait for its commit.
    pub commit_timeout: Duration,
    /// Maximum duration of sending a snapshot to a follower and installing it there.
    pub snapshot_timeout: Duration,
    /// Number of entries applied between two snapshots. This number and [`RaftOptions::log_retained_entries`] together
    /// bound the log, which is also held in memory.
    pub snapshot_interval_entries: u64,
    /// Interval at which the leader marks a log entry. After each marked entry the members compare their states.
    pub comparison_interval: Duration,
    /// Number of entries that the log keeps although a snapshot covers them, so that a follower that was unreachable
    /// for a short time needs no snapshot.
    pub log_retained_entries: u64,
}

impl RaftOptions {
    /// Values for disks that sync in milliseconds and networks within one region.
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

    /// Returns the longest round trip between two members that these options allow. Heartbeats set this limit, because
    /// the Raft library waits for the acknowledgement of a heartbeat only until the next heartbeat is due. Votes,
    /// appends, connections and pings have longer timeouts.
    #[must_use]
    pub fn max_round_trip(&self) -> Duration {
        self.heartbeat.mul_f64(0.9)
    }

    /// Checks the relations between the values.
    ///
    /// # Errors
    /// [`InvalidOptions`] names the violated relation and the reason for it.
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

    /// Builds the Raft library's configuration from these options. All other settings keep the library's defaults.
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

/// Two values that contradict each other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} does not hold: {why}")]
pub struct InvalidOptions {
    /// The relation.
    pub what: &'static str,
    /// The reason for it.
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
