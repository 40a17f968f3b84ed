//! Counts the pending calls, and notifies these calls when the ownership changes.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use seq_core::calls::MAX_PENDING;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// Pending calls of this node. `pending` drives them.
#[derive(Debug, Default)]
pub(crate) struct PendingCalls {
    /// Number of calls that have a [`PendingPermit`]. It is at most [`MAX_PENDING`], and exceeds it only for the moment
    /// in which a further call is refused.
    calls: AtomicUsize,
    /// Number of calls with an [`AwaitsOwner`].
    awaiting_owner: AtomicUsize,
    ownership_changed: Notify,
}

/// Permit of one call to be pending.
pub(crate) struct PendingPermit<'a>(&'a PendingCalls);

/// Mark of one call that waits for an ownership update.
pub(crate) struct AwaitsOwner<'a>(&'a PendingCalls);

impl PendingCalls {
    /// Admits a call; `None` if [`MAX_PENDING`] calls are pending.
    pub(crate) fn admit(&self) -> Option<PendingPermit<'_>> {
        if self.calls.fetch_add(1, Relaxed) >= MAX_PENDING {
            self.calls.fetch_sub(1, Relaxed);
            return None;
        }
        Some(PendingPermit(self))
    }

    /// Marks a call as waiting for an ownership update.
    pub(crate) fn await_owner(&self) -> AwaitsOwner<'_> {
        self.awaiting_owner.fetch_add(1, Relaxed);
        AwaitsOwner(self)
    }

    /// Returns whether a call waits for an ownership update.
    pub(crate) fn is_owner_awaited(&self) -> bool {
        self.awaiting_owner.load(Relaxed) > 0
    }

    /// Returns a future that completes at the next change of the served sections, the routes or the lease after this
    /// function is called. A caller calls it before it reads the ownership, so that it misses no change.
    pub(crate) fn ownership_changed(&self) -> Notified<'_> {
        self.ownership_changed.notified()
    }

    /// Notifies the pending calls after a step of the owner's state machine. `changed` is whether the step changed the
    /// ownership, and `extended` whether it extended the lease. If it only extended the lease, notifies the calls only
    /// if some of them wait for any response of the store.
    pub(crate) fn on_ownership_step(&self, changed: bool, extended: bool) {
        if changed || (extended && self.is_owner_awaited()) {
            self.ownership_changed.notify_waiters();
        }
    }
}

impl Drop for PendingPermit<'_> {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Relaxed);
    }
}

impl Drop for AwaitsOwner<'_> {
    fn drop(&mut self) {
        self.0.awaiting_owner.fetch_sub(1, Relaxed);
    }
}
