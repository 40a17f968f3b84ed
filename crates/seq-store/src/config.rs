//! Configuration of a store member.
//!
//! [`StoreConfig::validate`] checks all values before the member opens a file or a socket. Its error names the relation
//! that does not hold, and the reason why it must hold.

use std::time::Duration;

use seq_api::clock::Clock;
use seq_api::node_events::NodeEvents;
use seq_core::arbiter::ArbiterTimeouts;
use seq_core::layout::LayoutError;
use seq_core::lease::LeaseTerms;
use seq_core::set_spec::{SetSpec, StoreSpec};
use seq_core::{Layout, limits};
use seq_kit::config::durations;
use seq_kit::connection::Listener;
use seq_proto::settings::NodeSettings;
use seq_raft::{DataDir, InvalidOptions, RaftOptions};

use crate::definition::DeclaredSet;

/// Supported numbers of members of a store. Two members tolerate no more failures than one member does, and four no
/// more than three do. With more than five members, each write would wait for more disks, and the store would not be
/// safer in practice.
const STORE_SIZES: [usize; 3] = [1, 3, 5];

/// Configuration of one store member.
#[derive(Debug)]
pub struct StoreConfig {
    /// Description of the set, from the set file.
    pub spec: SetSpec,
    /// Name of the cluster. All members of all stores have the same value. A data directory belongs permanently to one
    /// cluster.
    pub cluster: String,
    /// Raft id of this member among the set's stores.
    pub id: u64,
    /// Location of the member's data.
    pub data: DataDir,
    /// Whether the member waits to be added to an existing group. Such a member never forms a group.
    pub join: bool,
    /// Whether the member may form a store from an empty data directory although no other store of the set could report
    /// whether this member ever held data. This is required only for a store with one member.
    pub form: bool,
    /// Listeners of the member's gRPC ports. The caller binds them before the start.
    pub sockets: Sockets,
    /// Durations and sizes of the member.
    pub options: StoreOptions,
    /// Clock with which the arbiter measures its timeouts.
    pub clock: Clock,
    /// Source revision of the program, shown to operators; "unknown" if it is not known.
    pub revision: String,
    /// Function that returns the CPU time of the process in microseconds, shown to operators.
    pub cpu_us: fn() -> u64,
    /// Settings of the process, shown to operators.
    pub settings: NodeSettings,
    /// Event log of the node, shown to operators.
    pub events: NodeEvents,
}

/// Listeners of a member's gRPC ports.
#[derive(Debug)]
pub struct Sockets {
    /// The port for peers.
    pub peers: Listener,
    /// The port for Raft. If it is `None`, the port for peers also serves Raft. This is so in a simulation, where each
    /// host has one socket.
    pub raft: Option<Listener>,
    /// The admin port, if the member has one.
    pub admin: Option<Listener>,
}

seq_kit::options! {
    /// Timeouts, intervals and sizes of a store member. All members of a store need the same values, because a member
    /// with shorter election timeouts would stand for election sooner than the others.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct StoreOptions {
        /// Interval of the Raft leader's heartbeats. A heartbeat must be acknowledged before the next is due: nine
        /// tenths of the interval is the longest round trip between members that the store supports; the log and
        /// `seqsvr status -o wide` show the measured round trips.
        #[serde(rename = "heartbeat_ms", with = "durations::ms")]
        pub heartbeat: Duration,
        /// Shortest election timeout: a follower without a heartbeat for a random time between this and election_max_ms
        /// starts an election.
        #[serde(rename = "election_min_ms", with = "durations::ms")]
        pub election_min: Duration,
        /// Longest election timeout.
        #[serde(rename = "election_max_ms", with = "durations::ms")]
        pub election_max: Duration,
        /// Timeout of a proposal until it is committed.
        #[serde(rename = "commit_timeout_ms", with = "durations::ms")]
        pub commit_timeout: Duration,
        /// Timeout of sending a snapshot to a follower and installing it there.
        #[serde(rename = "snapshot_timeout_ms", with = "durations::ms")]
        pub snapshot_timeout: Duration,
        /// Entries applied between two snapshots. With log_retained_entries it bounds the log, which is also held in
        /// memory.
        pub snapshot_interval_entries: u64,
        /// Log entries retained behind a snapshot, so a follower that was briefly away needs no snapshot.
        pub log_retained_entries: u64,
        /// Interval at which members compare digests of their states, if entries were applied since the last
        /// comparison. A member that the majority contradicts stops.
        #[serde(rename = "comparison_interval_ms", with = "durations::ms")]
        pub comparison_interval: Duration,
        /// How long sections wait for allocators that have not registered, from the first registration.
        #[serde(rename = "registration_grace_ms", with = "durations::ms")]
        pub registration_grace: Duration,
        /// How long no request of an allocator is applied before its sections are taken over by others. It must outlast
        /// the allocators' leases despite clock drift (lease_wait_ms >= lease_ms * 1.11 / 0.89); an allocator with a
        /// longer lease is refused.
        #[serde(rename = "lease_wait_ms", with = "durations::ms")]
        pub lease_wait: Duration,
        /// How long the set of live allocators must be stable before sections are handed over only to balance the load.
        #[serde(rename = "rebalance_after_ms", with = "durations::ms")]
        pub rebalance_after: Duration,
        /// Whether the leader raises the format of the log by itself once every member runs a release that reads the
        /// next format. Otherwise an operator runs `seqsvr store upgrade`; until then the former release can return.
        pub auto_upgrade: bool,
    }
}

impl StoreOptions {
    /// Values for members whose disks sync within milliseconds and whose network lies within one region.
    pub const DEFAULTS: StoreOptions = StoreOptions {
        lease_wait: LeaseTerms::DEFAULTS.wait,
        rebalance_after: Duration::from_secs(10),
        registration_grace: Duration::from_secs(3),
        ..StoreOptions::with_raft(RaftOptions::DEFAULTS)
    };

    /// Values for members on up to three continents. Round trips between the members may take up to
    /// [`StoreOptions::max_round_trip`].
    pub const WAN: StoreOptions = StoreOptions {
        lease_wait: Duration::from_secs(10),
        rebalance_after: Duration::from_secs(30),
        registration_grace: Duration::from_secs(10),
        ..StoreOptions::with_raft(RaftOptions::WAN)
    };

    /// Returns options whose values for the replicated log are taken from `raft`, and whose other values are zero.
    const fn with_raft(raft: RaftOptions) -> StoreOptions {
        StoreOptions {
            heartbeat: raft.heartbeat,
            election_min: raft.election_min,
            election_max: raft.election_max,
            commit_timeout: raft.commit_timeout,
            snapshot_timeout: raft.snapshot_timeout,
            snapshot_interval_entries: raft.snapshot_interval_entries,
            log_retained_entries: raft.log_retained_entries,
            comparison_interval: raft.comparison_interval,
            registration_grace: Duration::ZERO,
            lease_wait: Duration::ZERO,
            rebalance_after: Duration::ZERO,
            auto_upgrade: false,
        }
    }

    /// Returns those options that concern the replicated log.
    #[must_use]
    pub fn raft(&self) -> RaftOptions {
        RaftOptions {
            heartbeat: self.heartbeat,
            election_min: self.election_min,
            election_max: self.election_max,
            commit_timeout: self.commit_timeout,
            snapshot_timeout: self.snapshot_timeout,
            snapshot_interval_entries: self.snapshot_interval_entries,
            log_retained_entries: self.log_retained_entries,
            comparison_interval: self.comparison_interval,
        }
    }

    /// Returns the longest round trip between two members with which these options work, see
    /// [`RaftOptions::max_round_trip`].
    #[must_use]
    pub fn max_round_trip(&self) -> Duration {
        self.raft().max_round_trip()
    }

    /// Returns those options that concern the arbiter.
    pub(crate) fn arbiter_timeouts(&self) -> ArbiterTimeouts {
        ArbiterTimeouts { registration_grace: self.registration_grace, stable_for: self.rebalance_after }
    }

    /// Checks the relations that must hold between the values, for example that an election ends before the lease wait.
    ///
    /// # Errors
    /// [`ConfigError`] names the relation that does not hold, and the reason why it must hold.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.raft().validate()?;
        if self.election_max < self.lease_wait {
            return Ok(());
        }
        let (what, why) = ("election_max < lease_wait", "an election must not cost the AllocSvrs their sections");
        Err(ConfigError::Relation(InvalidOptions { what, why }))
    }
}

impl Default for StoreOptions {
    fn default() -> StoreOptions {
        StoreOptions::DEFAULTS
    }
}

impl StoreConfig {
    /// Checks the configuration as far as this is possible without input and output. Returns the set as the set file
    /// declares it.
    ///
    /// # Errors
    /// [`ConfigError`] names the invalid value, and the reason why it is invalid.
    pub fn validate(&self) -> Result<DeclaredSet, ConfigError> {
        self.options.validate()?;
        if self.cluster.is_empty() || self.cluster.len() > limits::MAX_NAME_BYTES {
            return Err(ConfigError::ClusterName { name: self.cluster.clone() });
        }
        let stores = self.spec.stores.len();
        if !STORE_SIZES.contains(&stores) {
            return Err(ConfigError::StoreSize { set: self.spec.name.clone(), stores });
        }
        self.me()?;
        if self.join && stores == 1 {
            return Err(ConfigError::NothingToJoin { set: self.spec.name.clone() });
        }
        let layout = Layout::new(self.spec.uids.clone(), self.spec.section_size)
            .map_err(|source| ConfigError::Layout { set: self.spec.name.clone(), source })?;
        Ok(DeclaredSet { name: self.spec.name.clone(), layout, genesis: self.spec.genesis })
    }

    /// Returns the entry of this member in the set file.
    ///
    /// # Errors
    /// [`ConfigError::UnknownStore`] if the set file has no store with this member's id.
    pub fn me(&self) -> Result<&StoreSpec, ConfigError> {
        let unknown = || ConfigError::UnknownStore {
            set: self.spec.name.clone(),
            id: self.id,
            known: self.spec.stores.iter().map(|store| store.id).collect(),
        };
        self.spec.stores.iter().find(|store| store.id == self.id && store.id != 0).ok_or_else(unknown)
    }
}

/// Reason why a member cannot start with its configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// An option is out of range, or two options contradict each other.
    #[error(transparent)]
    Relation(#[from] InvalidOptions),
    /// The name of the cluster is empty or too long.
    #[error("cluster name {name:?} does not have 1..={} bytes", limits::MAX_NAME_BYTES)]
    ClusterName {
        /// Name in the configuration.
        name: String,
    },
    /// The store has an unsupported number of members.
    #[error("set {set:?} has {stores} stores; have 1, 3 or 5: an even one more only adds a disk that can fail")]
    StoreSize {
        /// Name of the set.
        set: String,
        /// Number of stores in the set file.
        stores: usize,
    },
    /// The set file has no entry for this member.
    #[error("set {set:?} has no store with id {id}, only {known:?}")]
    UnknownStore {
        /// Name of the set.
        set: String,
        /// Id of this member in the configuration.
        id: u64,
        /// The ids in the set file.
        known: Vec<u64>,
    },
    /// The member was started to join a group, but the set file has no other store.
    #[error("set {set:?} has no other store to join; name the members of the group in the set file, too")]
    NothingToJoin {
        /// Name of the set.
        set: String,
    },
    /// The set's uids cannot be divided into sections.
    #[error("set {set:?} cannot be laid out")]
    Layout {
        /// Name of the set.
        set: String,
        /// Rule of layouts that is violated.
        source: LayoutError,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_hold() {
        assert_eq!(StoreOptions::DEFAULTS.validate(), Ok(()));
        assert_eq!(StoreOptions::DEFAULTS.max_round_trip(), Duration::from_millis(90));
    }

    #[test]
    fn the_wan_preset_holds_and_carries_half_a_second() {
        assert_eq!(StoreOptions::WAN.validate(), Ok(()));
        assert!(StoreOptions::WAN.max_round_trip() >= Duration::from_millis(500));
    }

    #[test]
    fn each_relation_is_checked_and_gives_its_reason() {
        let ms = Duration::from_millis;
        type Change = fn(&mut StoreOptions);
        let changes: [(Change, &str); 8] = [
            (|options| options.heartbeat = Duration::ZERO, "heartbeat >= 10 ms"),
            (|options| options.heartbeat = options.election_min / 2, "heartbeat * 3 <= election_min"),
            (|options| options.election_max = options.election_min, "election_min < election_max"),
            (|options| options.commit_timeout = options.election_max, "election_max < commit_timeout"),
            (|options| options.snapshot_timeout = Duration::ZERO, "snapshot_timeout >= 1 s"),
            (|options| options.lease_wait = options.election_max, "election_max < lease_wait"),
            (|options| options.comparison_interval = Duration::ZERO, "comparison_interval >= heartbeat"),
            (|options| options.snapshot_interval_entries = 0, "snapshot_interval_entries >= 1"),
        ];
        for (change, relation) in changes {
            let mut options = StoreOptions { heartbeat: ms(50), ..StoreOptions::DEFAULTS };
            change(&mut options);
            let error = options.validate().unwrap_err().to_string();
            assert!(error.starts_with(&format!("{relation} does not hold: ")), "{error}");
        }
    }
}
