//! How many calls are pending at a node, and which of them wait for what.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use seq_core::calls::{MAX_PENDING, Wait};
use seq_core::{Refusal, SectionId, SetId};
use tokio::time::Instant;

use super::too_many_pending;
use crate::other_sets::SetPermit;
use crate::shared::Shared;

/// How many calls are pending at this node.
#[derive(Debug, Default)]
pub(crate) struct PendingCalls {
    calls: AtomicUsize,
    /// Those that wait for an ownership update.
    awaiting_owner: AtomicUsize,
}

impl PendingCalls {
    /// Whether a call waits for an ownership update.
    pub(crate) fn await_owner(&self) -> bool {
        self.awaiting_owner.load(Relaxed) > 0
    }
}

/// One call that waits for an ownership update.
pub(super) struct AwaitsOwner<'a>(&'a PendingCalls);

impl AwaitsOwner<'_> {
    pub(super) fn begin(calls: &PendingCalls) -> AwaitsOwner<'_> {
        calls.awaiting_owner.fetch_add(1, Relaxed);
        AwaitsOwner(calls)
    }
}

impl Drop for AwaitsOwner<'_> {
    fn drop(&mut self) {
        self.0.awaiting_owner.fetch_sub(1, Relaxed);
    }
}

/// The permit of one pending call.
pub(super) struct Permit<'a> {
    shared: &'a Shared,
    /// Its place among the calls for sections of another set.
    of_set: Option<(SetId, SetPermit)>,
    awaits: Option<AwaitsOwner<'a>>,
    /// Since when it waits at a ceiling.
    stalled_since: Option<Instant>,
}

impl Permit<'_> {
    /// Counts the call as one that waits so.
    ///
    /// # Errors
    /// [`Refusal::TooManyPendingOfSet`].
    pub(super) fn set(&mut self, wait: &Wait, section: SectionId) -> Result<(), Refusal> {
        let other = self.shared.set_route(section).other;
        if self.of_set.as_ref().map(|(set, _)| *set) != other {
            self.of_set = None;
            if let Some((id, set)) = other.and_then(|id| Some((id, self.shared.other_set(id)?))) {
                let permit = set.admit_pending().ok_or(too_many_pending(section, id))?;
                self.of_set = Some((id, permit));
            }
        }
        if wait.stalled {
            self.stalled_since.get_or_insert_with(Instant::now);
        }
        if !wait.awaits_owner {
            self.awaits = None;
        } else if self.awaits.is_none() {
            self.awaits = Some(AwaitsOwner::begin(&self.shared.pending));
        }
        Ok(())
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.shared.pending.calls.fetch_sub(1, Relaxed);
        if let Some(since) = self.stalled_since {
            self.shared.counters.stalled(since.elapsed());
        }
    }
}

impl Shared {
    /// A permit to wait; `None` when as many calls as allowed are pending.
    pub(super) fn permit(&self) -> Option<Permit<'_>> {
        if self.pending.calls.fetch_add(1, Relaxed) >= MAX_PENDING {
            self.pending.calls.fetch_sub(1, Relaxed);
            return None;
        }
        Some(Permit { shared: self, of_set: None, awaits: None, stalled_since: None })
    }
}
