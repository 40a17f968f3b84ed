//! What an AllocSvr is told at its start.

use std::time::Duration;

use seq_api::clock::Clock;
use seq_core::AdvanceLimit;
use seq_core::lease::{LeaseTerms, TermsError};
use seq_core::limits;
use seq_core::raises::RaiseOptions;
use seq_core::renewals::RenewalOptions;
use seq_core::set_spec::SetSpec;
use seq_core::store_calls::DEFAULT_ATTEMPT_TIMEOUT;

/// An AllocSvr's place in its set.
#[derive(Clone, Debug)]
pub struct AllocConfig {
    /// The set it serves.
    pub spec: SetSpec,
    /// Its name, one of the spec's AllocSvrs.
    pub name: String,
    /// Address its gRPC port is reached at by others, "host:port".
    pub advertise: String,
    /// Whether to take the place of a living process of this name at another address.
    pub replace: bool,
    /// Paces and bounds.
    pub options: AllocOptions,
    /// The clocks that its lease is counted with.
    pub clock: Clock,
}

/// Paces and bounds of an AllocSvr.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocOptions {
    /// How long an answer of the store lets it serve, from when the question was sent. The store refuses a node whose
    /// lease could outlast its own patience.
    pub lease: Duration,
    /// How much sooner it stops.
    pub lease_margin: Duration,
    /// Time between renewals while it owns sections.
    pub renew_every: Duration,
    /// Time between renewals while it owns none, and the least time between any two.
    pub claim_every: Duration,
    /// How long one call to one member of the store may take before the next member is asked.
    pub store_timeout: Duration,
    /// Wait after the first failed round of calls to the store; doubles with each further one.
    pub retry_min: Duration,
    /// Longest wait between rounds of calls to the store.
    pub retry_max: Duration,
    /// Most sections raised by one call.
    pub raise_batch: usize,
    /// Calls for raises that are under way at a time.
    pub raises_in_flight: usize,
    /// Connections to each other node and to each member of the store.
    pub connections: usize,
    /// How far above its section's ceiling a uid may be raised by name.
    pub max_advance: AdvanceLimit,
}

/// Most calls for raises under way: each is an entry of the store's log, and past a few they only queue there.
const MAX_RAISES_IN_FLIGHT: usize = 64;

impl AllocOptions {
    /// What fits an ordinary network.
    pub const DEFAULTS: AllocOptions = AllocOptions {
        lease: LeaseTerms::DEFAULTS.lease,
        lease_margin: LeaseTerms::DEFAULTS.margin,
        renew_every: RenewalOptions::DEFAULTS.renew_every,
        claim_every: RenewalOptions::DEFAULTS.min_interval,
        store_timeout: DEFAULT_ATTEMPT_TIMEOUT,
        retry_min: RenewalOptions::DEFAULTS.retry_min,
        retry_max: RenewalOptions::DEFAULTS.retry_max,
        raise_batch: RaiseOptions::DEFAULTS.batch,
        raises_in_flight: RaiseOptions::DEFAULTS.in_flight,
        connections: 2,
        max_advance: AdvanceLimit(limits::DEFAULT_MAX_ADVANCE),
    };

    /// The terms of its lease. The wait is the store's, which compares it with the lease when the node registers.
    pub(crate) fn terms(&self) -> LeaseTerms {
        let AllocOptions { lease, lease_margin: margin, renew_every, .. } = *self;
        LeaseTerms { lease, margin, renew_every, wait: lease * 2 }
    }

    /// Intervals of renewals.
    pub(crate) fn renewals(&self) -> RenewalOptions {
        let AllocOptions { renew_every, claim_every: min_interval, retry_min, retry_max, .. } = *self;
        RenewalOptions { renew_every, min_interval, retry_min, retry_max }
    }

    /// Batches and intervals of raises.
    pub(crate) fn raises(&self) -> RaiseOptions {
        let AllocOptions { raise_batch: batch, raises_in_flight: in_flight, retry_min, retry_max, .. } = *self;
        RaiseOptions { batch, in_flight, retry_min, retry_max }
    }

    /// Checks every value and the relations between them.
    ///
    /// # Errors
    /// [`OptionsError`] says which does not hold, and why it must.
    pub fn validate(&self) -> Result<(), OptionsError> {
        let positive = [
            ("renew_every", self.renew_every),
            ("claim_every", self.claim_every),
            ("store_timeout", self.store_timeout),
            ("retry_min", self.retry_min),
        ];
        if let Some((key, _)) = positive.into_iter().find(|(_, value)| value.is_zero()) {
            return Err(OptionsError::Zero { key });
        }
        self.terms().validate()?;
        if self.renew_every + self.store_timeout * 2 >= self.lease - self.lease_margin {
            let AllocOptions { renew_every: renew, store_timeout: timeout, .. } = *self;
            return Err(OptionsError::SlowStore { renew, timeout, served: self.terms().served() });
        }
        if self.claim_every > self.renew_every {
            return Err(OptionsError::SlowClaim { claim: self.claim_every, renew: self.renew_every });
        }
        if self.retry_min > self.retry_max {
            return Err(OptionsError::ReversedRetry { min: self.retry_min, max: self.retry_max });
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

/// Values that cannot work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// A time that must pass, but is 0.
    #[error("{key} is 0: it would turn without pause")]
    Zero {
        /// The key.
        key: &'static str,
    },
    /// The lease does not hold.
    #[error(transparent)]
    Terms(#[from] TermsError),
    /// A leader of the store that dies would cost the lease.
    #[error(
        "renew_every {renew:?} + store_timeout {timeout:?} * 2 is not below lease - lease_margin, {served:?}: a renewal \
         that is lost with the store's leader, and the next one, must fit into a lease"
    )]
    SlowStore {
        /// `renew_every`.
        renew: Duration,
        /// `store_timeout`.
        timeout: Duration,
        /// How long a lease is served under.
        served: Duration,
    },
    /// A node without sections would ask for them less often than one that has them.
    #[error("claim_every {claim:?} is above renew_every {renew:?}: a node without sections must ask at least as often")]
    SlowClaim {
        /// `claim_every`.
        claim: Duration,
        /// `renew_every`.
        renew: Duration,
    },
    /// The first wait is longer than the longest.
    #[error("retry_min {min:?} is above retry_max {max:?}")]
    ReversedRetry {
        /// `retry_min`.
        min: Duration,
        /// `retry_max`.
        max: Duration,
    },
    /// A count of nothing, or of more than is sound.
    #[error("{key} {value} is not in 1..={most}")]
    Count {
        /// The key.
        key: &'static str,
        /// Its value.
        value: usize,
        /// The most it may be.
        most: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_hold() {
        assert_eq!(AllocOptions::DEFAULTS.validate(), Ok(()));
    }

    #[test]
    fn what_cannot_work_is_refused_by_key() {
        let d = AllocOptions::DEFAULTS;
        let table = [
            (AllocOptions { store_timeout: Duration::ZERO, ..d }, "store_timeout"),
            (AllocOptions { claim_every: Duration::from_secs(9), ..d }, "claim_every"),
            (AllocOptions { retry_min: Duration::from_secs(9), ..d }, "retry_min"),
            (AllocOptions { raise_batch: limits::MAX_RAISES + 1, ..d }, "raise_batch"),
            (AllocOptions { raises_in_flight: 0, ..d }, "raises_in_flight"),
            (AllocOptions { connections: 0, ..d }, "connections"),
        ];
        for (options, key) in table {
            let error = options.validate().unwrap_err().to_string();
            assert!(error.starts_with(key), "{error}");
        }
    }
}
