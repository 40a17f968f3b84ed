//! Permit of a pending call. It enforces the limits on the number of waiting calls, and measures how long the call
//! waits.

use seq_core::calls::Wait;
use seq_core::{Refusal, SectionId, SetId};
use tokio::time::Instant;

use super::too_many_pending;
use crate::other_sets::SetPermit;
use crate::shared::{AwaitsOwner, PendingPermit, Shared};

/// Permit of one pending call.
pub(super) struct Permit<'a> {
    shared: &'a Shared,
    _permit: PendingPermit<'a>,
    /// Permit under the limit on calls that wait for sections of another set, if the call waits for such a section.
    of_set: Option<(SetId, SetPermit)>,
    awaits: Option<AwaitsOwner<'a>>,
    /// Time since which the call waits for a ceiling to be raised.
    stalled_since: Option<Instant>,
}

impl Permit<'_> {
    /// Counts the call as waiting for the cause in `wait`. If the section is in another set, also counts the call under
    /// that set's limit.
    ///
    /// # Errors
    /// [`Refusal::TooManyPendingOfSet`].
    pub(super) fn set(&mut self, wait: &Wait, section: SectionId) -> Result<(), Refusal> {
        let other = self.shared.ownership.set_route(section).other;
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
            self.awaits = Some(self.shared.pending.await_owner());
        }
        Ok(())
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if let Some(since) = self.stalled_since {
            self.shared.counters.stalled(since.elapsed());
        }
    }
}

impl Shared {
    /// Returns a permit to wait; `None` if the allowed number of calls is already pending.
    pub(super) fn permit(&self) -> Option<Permit<'_>> {
        let permit = self.pending.admit()?;
        Some(Permit { shared: self, _permit: permit, of_set: None, awaits: None, stalled_since: None })
    }
}
