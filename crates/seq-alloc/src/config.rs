//! Configuration of an AllocSvr: the set and node that it is, and its options, which are keys of the settings file.

use std::time::Duration;

use seq_api::clock::Clock;
use seq_api::node_events::NodeEvents;
use seq_core::lease::{LeaseTerms, TermsError};
use seq_core::raises::RaiseOptions;
use seq_core::renewals::RenewalOptions;
use seq_core::set_spec::SetSpec;
use seq_core::store_calls::DEFAULT_ATTEMPT_TIMEOUT;
use seq_core::{AdvanceLimit, Layout, Step, limits};
use seq_kit::config::durations;

/// Configuration of one AllocSvr.
#[derive(Clone, Debug)]
pub struct AllocConfig {
    /// Definition of the set.
    pub spec: SetSpec,
    /// Name of the node, one of the spec's AllocSvrs.
    pub name: String,
    /// Address at which callers and other nodes reach this node's port for callers, "host:port".
    pub advertise: String,
    /// Address at which other AllocSvrs reach this node's port for peers, "host:port"; `None` if the port for callers
    /// also serves peers.
    pub advertise_to_peers: Option<String>,
    /// Whether to replace a live process that is registered under this name at another address.
    pub replace: bool,
    /// Random number of this process, by which its parent can report its death; 0 if the process has no such parent.
    /// Two processes must never have the same number, and neither must two runs of a program.
    pub process: u64,
    /// Intervals, timeouts and limits.
    pub options: AllocOptions,
    /// Clocks of the lease.
    pub clock: Clock,
    /// Event log of the node.
    pub events: NodeEvents,
}

/// Identity of a node and its configuration, checked.
#[derive(Debug)]
pub(crate) struct NodeConfig {
    /// Name of the set.
    pub(crate) set: String,
    /// Name of the node, one of the set's AllocSvrs.
    pub(crate) name: String,
    /// As in [`AllocConfig`].
    pub(crate) advertise: String,
    /// As in [`AllocConfig`].
    pub(crate) advertise_to_peers: Option<String>,
    /// As in [`AllocConfig`].
    pub(crate) replace: bool,
    /// As in [`AllocConfig`].
    pub(crate) process: u64,
    /// Sections of the set's uids.
    pub(crate) layout: Layout,
    pub(crate) options: AllocOptions,
}

seq_kit::options! {
    /// Intervals, timeouts and limits of an AllocSvr.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct AllocOptions {
        /// Lease granted by a response of the store, from when the request was sent. The store refuses a node whose
        /// lease could outlast the store's lease_wait_ms.
        #[serde(rename = "lease_ms", with = "durations::ms")]
        pub lease: Duration,
        /// How much earlier than its lease expires the node stops serving.
        #[serde(rename = "lease_margin_ms", with = "durations::ms")]
        pub lease_margin: Duration,
        /// How long before its certificate expires the node hands its sections over to nodes whose certificates last
        /// longer, and is not ready any more.
        #[serde(rename = "certificate_margin_ms", with = "durations::ms")]
        pub certificate_margin: Duration,
        /// Interval of renewals while the node owns sections.
        #[serde(rename = "renew_interval_ms", with = "durations::ms")]
        pub renew_interval: Duration,
        /// Shortest interval between two renewals, and the interval while the node owns no section or calls are
        /// pending.
        #[serde(rename = "min_renew_interval_ms", with = "durations::ms")]
        pub min_renew_interval: Duration,
        /// Timeout of one request to one store member, before the next member is tried.
        #[serde(rename = "store_timeout_ms", with = "durations::ms")]
        pub store_timeout: Duration,
        /// Backoff after the first failed round of requests to the store. It doubles with each further failed round.
        #[serde(rename = "retry_min_ms", with = "durations::ms")]
        pub retry_min: Duration,
        /// Longest backoff between rounds of requests to the store.
        #[serde(rename = "retry_max_ms", with = "durations::ms")]
        pub retry_max: Duration,
        /// Limit on sections in one raise request.
        pub raise_batch: usize,
        /// Limit on raise requests in flight.
        pub raises_in_flight: usize,
        /// Limit on the step of a busy section. The step of a section that is raised more than twice a second doubles
        /// up to this limit, and halves for each ten seconds without a raise, so a busy section costs the store fewer
        /// writes, and a crash skips more of its numbers: up to one and a half steps, some 1.5 s of its own rate. At
        /// 0, each section has the step of the set. Use the same limit at all nodes.
        pub step_max: u64,
        /// Connections to each other AllocSvr and to each store member.
        pub connections: usize,
        /// How far above its section's ceiling a uid may be advanced (Advance, SET). A ceiling never falls, and the
        /// section's next owner starts every uid at it, so one advance to 2^62 would move all uids of the section
        /// there. An advance to more than 2^34 takes several raises, at some hundreds a second, and to more than 2^38 a
        /// second for each 2^30. An advance whose request ends before these raises may be repeated.
        #[serde(with = "advance_limit")]
        pub max_advance: AdvanceLimit,
        /// Limit on the keys of keyspaces for which the node has room; a key takes up to 42 bytes. At the limit, keys
        /// without a counter are refused (KEYS_EXHAUSTED), and keys with one are served. Counters that are handed over
        /// to the node are accepted above it.
        pub max_keys: u64,
        /// Time for which no call has used the counter of a key before the counter may be evicted. Counters are evicted
        /// while the node has room for more than 90 % of max_keys, or a bucket has more than 90 % of the keys that a
        /// bucket may have. An evicted key skips numbers up to the highest number of the evicted keys of its bucket.
        #[serde(rename = "key_idle_ms", with = "durations::ms")]
        pub key_idle: Duration,
    }
}

/// An [`AdvanceLimit`] as a whole number.
mod advance_limit {
    use seq_core::AdvanceLimit;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(limit: &AdvanceLimit, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(limit.0)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<AdvanceLimit, D::Error> {
        u64::deserialize(deserializer).map(AdvanceLimit)
    }
}

/// Upper limit of [`AllocOptions::raises_in_flight`]. Each request becomes an entry of the store's log. If more than a
/// few requests are in flight, the others only wait in the store.
const MAX_RAISES_IN_FLIGHT: usize = 64;

/// Lower limit of [`AllocOptions::key_idle`], in which every bucket of a crowded node is copied once.
const MIN_IDLE: Duration = Duration::from_secs(1);

impl AllocOptions {
    /// Options for nodes in one region.
    pub const DEFAULTS: AllocOptions = AllocOptions {
        lease: LeaseTerms::DEFAULTS.lease,
        lease_margin: LeaseTerms::DEFAULTS.margin,
        certificate_margin: Duration::from_secs(300),
        renew_interval: RenewalOptions::DEFAULTS.renew_interval,
        min_renew_interval: RenewalOptions::DEFAULTS.min_interval,
        store_timeout: DEFAULT_ATTEMPT_TIMEOUT,
        retry_min: RenewalOptions::DEFAULTS.retry_min,
        retry_max: RenewalOptions::DEFAULTS.retry_max,
        raise_batch: RaiseOptions::DEFAULTS.batch,
        raises_in_flight: RaiseOptions::DEFAULTS.in_flight,
        step_max: RaiseOptions::DEFAULTS.step_max.0,
        connections: 2,
        max_advance: AdvanceLimit(limits::DEFAULT_MAX_ADVANCE),
        max_keys: 10_000_000,
        key_idle: Duration::from_secs(600),
    };

    /// Returns the terms of the lease. The value of `wait` in them is a placeholder, because only the store knows how
    /// long it waits after a lease. The store compares this wait with the lease when the node registers.
    pub(crate) fn terms(&self) -> LeaseTerms {
        let AllocOptions { lease, lease_margin: margin, renew_interval, .. } = *self;
        LeaseTerms { lease, margin, renew_interval, wait: lease * 2 }
    }

    /// Returns the intervals of renewals.
    pub(crate) fn renewals(&self) -> RenewalOptions {
        let AllocOptions { renew_interval, min_renew_interval: min_interval, retry_min, retry_max, .. } = *self;
        RenewalOptions { renew_interval, min_interval, retry_min, retry_max }
    }

    /// Returns the batches and intervals of raises.
    pub(crate) fn raises(&self) -> RaiseOptions {
        let AllocOptions { raise_batch: batch, raises_in_flight: in_flight, retry_min, retry_max, .. } = *self;
        RaiseOptions { batch, in_flight, retry_min, retry_max, step_max: Step(self.step_max) }
    }

    /// Checks every value and the relations between them.
    ///
    /// # Errors
    /// [`OptionsError`] names the relation that does not hold, and the reason for it.
    pub fn validate(&self) -> Result<(), OptionsError> {
        let positive = [
            ("renew_interval", self.renew_interval),
            ("min_renew_interval", self.min_renew_interval),
            ("store_timeout", self.store_timeout),
            ("retry_min", self.retry_min),
        ];
        if let Some((key, _)) = positive.into_iter().find(|(_, value)| value.is_zero()) {
            return Err(OptionsError::Zero { key });
        }
        self.terms().validate()?;
        if self.renew_interval + self.store_timeout * 2 >= self.lease - self.lease_margin {
            let AllocOptions { renew_interval: renew, store_timeout: timeout, .. } = *self;
            return Err(OptionsError::SlowStore { renew, timeout, served: self.terms().served() });
        }
        if self.min_renew_interval > self.renew_interval {
            return Err(OptionsError::SlowClaim { claim: self.min_renew_interval, renew: self.renew_interval });
        }
        if self.retry_min > self.retry_max {
            return Err(OptionsError::ReversedRetry { min: self.retry_min, max: self.retry_max });
        }
        if self.key_idle < MIN_IDLE {
            return Err(OptionsError::ShortIdle { idle: self.key_idle });
        }
        if self.step_max > limits::MAX_STEP {
            return Err(OptionsError::LargeStep { step_max: self.step_max });
        }
        let counts = [
            ("raise_batch", self.raise_batch, limits::MAX_RAISES),
            ("raises_in_flight", self.raises_in_flight, MAX_RAISES_IN_FLIGHT),
            ("connections", self.connections, seq_channel::MAX_CONNECTIONS),
        ];
        match counts.into_iter().find(|(_, value, most)| *value == 0 || value > most) {
            Some((key, value, most)) => Err(OptionsError::Count { key, value, most }),
            None => Ok(()),
        }
    }
}

/// Error of [`AllocOptions::validate`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// An interval or a timeout of 0.
    #[error("{key} is 0: requests would follow each other without pause")]
    Zero {
        /// The key.
        key: &'static str,
    },
    /// Time after which counters of keys are evicted that is so short that eviction takes much of a core.
    #[error("key_idle {idle:?} is below {MIN_IDLE:?}: buckets would be copied all the time")]
    ShortIdle {
        /// `key_idle`.
        idle: Duration,
    },
    /// Limit on the step above the largest step.
    #[error("step_max {step_max} is above {}, the largest step of a set", limits::MAX_STEP)]
    LargeStep {
        /// `step_max`.
        step_max: u64,
    },
    /// Broken relation between the terms of the lease.
    #[error(transparent)]
    Terms(#[from] TermsError),
    /// Interval of renewals that is so long that the node would lose its lease whenever the store's leader fails.
    #[error(
        "renew_interval {renew:?} + store_timeout {timeout:?} * 2 is not below lease - lease_margin, {served:?}: a \
         renewal that is lost with the store's leader, and the next one, must fit into a lease"
    )]
    SlowStore {
        /// `renew_interval`.
        renew: Duration,
        /// `store_timeout`.
        timeout: Duration,
        /// Time for which the node serves under one lease.
        served: Duration,
    },
    /// Interval of renewals of a node without sections that is longer than the interval of a node with sections.
    #[error(
        "min_renew_interval {claim:?} is above renew_interval {renew:?}: a node without sections must renew at least as often"
    )]
    SlowClaim {
        /// `min_renew_interval`.
        claim: Duration,
        /// `renew_interval`.
        renew: Duration,
    },
    /// First backoff above the longest backoff.
    #[error("retry_min {min:?} is above retry_max {max:?}")]
    ReversedRetry {
        /// `retry_min`.
        min: Duration,
        /// `retry_max`.
        max: Duration,
    },
    /// Option that is a limit, with a value of 0 or above the largest allowed value.
    #[error("{key} {value} is not in 1..={most}")]
    Count {
        /// The key.
        key: &'static str,
        /// Its value.
        value: usize,
        /// Its limit.
        most: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid() {
        assert_eq!(AllocOptions::DEFAULTS.validate(), Ok(()));
    }

    #[test]
    fn invalid_options_are_refused_by_key() {
        let d = AllocOptions::DEFAULTS;
        let table = [
            (AllocOptions { store_timeout: Duration::ZERO, ..d }, "store_timeout"),
            (AllocOptions { min_renew_interval: Duration::from_secs(9), ..d }, "min_renew_interval"),
            (AllocOptions { retry_min: Duration::from_secs(9), ..d }, "retry_min"),
            (AllocOptions { raise_batch: limits::MAX_RAISES + 1, ..d }, "raise_batch"),
            (AllocOptions { raises_in_flight: 0, ..d }, "raises_in_flight"),
            (AllocOptions { connections: 0, ..d }, "connections"),
            (AllocOptions { step_max: limits::MAX_STEP + 1, ..d }, "step_max"),
        ];
        for (options, key) in table {
            let error = options.validate().unwrap_err().to_string();
            assert!(error.starts_with(key), "{error}");
        }
    }
}
