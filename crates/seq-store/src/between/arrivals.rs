//! Departures of sections whose arrival the target set has confirmed to this member. The member learns of an arrival
//! from the confirmation, which comes one commit earlier than the note of the arrival in its own log.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use seq_core::state::{SectionRecord, State};
use seq_core::{Epoch, SectionId};
use tokio::sync::Notify;

use crate::replicated_set::ReplicatedSet;

/// Confirmed arrivals whose note this member has not applied yet.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    /// Epoch with which the section arrived in the other set, by section. There are at most as many entries as there
    /// are sections on their way.
    confirmed: Mutex<BTreeMap<SectionId, Epoch>>,
    changed: Notify,
}

impl Arrivals {
    /// Adds sections that have arrived in another set, each with its epoch there.
    pub(crate) fn confirm(&self, sections: impl IntoIterator<Item = (SectionId, Epoch)>) {
        self.confirmed.lock().extend(sections);
        self.changed.notify_waiters();
    }

    /// Drops the confirmed arrivals whose notes are in the applied state.
    pub(crate) fn forget_noted(&self, state: &State) {
        self.confirmed.lock().retain(|section, epoch| !is_noted(state, *section, *epoch));
    }

    /// Waits until the section that departed with the epoch `epoch` has arrived in the other set, at most for
    /// `timeout`. Cancel safe.
    pub(crate) async fn wait(&self, set: &ReplicatedSet, section: SectionId, epoch: Epoch, timeout: Duration) {
        let arrived = async {
            let mut applied = set.raft().changes();
            loop {
                let changed = self.changed.notified();
                let confirmed = self.confirmed.lock().get(&section).is_some_and(|known| *known >= epoch);
                if confirmed || set.read(|state| is_noted(state, section, epoch)) {
                    return;
                }
                tokio::select! {
                    () = changed => {}
                    changed = applied.changed() => if changed.is_err() { return },
                }
            }
        };
        // The caller responds even after a timeout, because the departure is committed.
        let _ = tokio::time::timeout(timeout, arrived).await;
    }
}

fn is_noted(state: &State, section: SectionId, epoch: Epoch) -> bool {
    match state.sections.get(section) {
        Some(SectionRecord::Departed(tombstone)) => tombstone.epoch != epoch || tombstone.arrived,
        _ => true,
    }
}
