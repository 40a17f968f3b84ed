//! The ownership update that comes with each response of the store.

use super::handover::MAX_OUTGOING;
use alloc::vec::Vec;

use super::{Grant, GrantedCopy, OwnershipUpdate, Session};
use crate::arbiter::{Plan, PlannedHandover};
use crate::high_water::Mark;
use crate::id::{Epoch, RouteVersion, SectionId};
use crate::limits;
use crate::state::{KeptCopy, Residence, State};

/// Most handovers in one update if they only even the load: a few for each renewal, so that callers hardly notice them.
/// A draining node gets as many as it can make at a time.
const MAX_HANDOVERS_TO_REBALANCE: usize = 2;

/// Most handovers to another set at a time: each handover waits for two stores while its section is frozen, and more of
/// them at once make each pause longer.
const MAX_DEPARTURES: usize = 4;

/// Returns the first kept copies that ownerships of an incarnation start from: at least one copy, and the copies after
/// it up to a limit of bytes.
fn granted_copies(state: &State, session: Session) -> Vec<GrantedCopy> {
    let mut bytes = 0;
    let copies = state.copies_for(session.node, session.incarnation).take_while(|(_, _, kept)| {
        let first = bytes == 0;
        // Each copy has an envelope of its own, even a copy without bytes.
        bytes += kept.bytes.len() + 32;
        first || bytes <= limits::MAX_GRANTED_COPY_BYTES
    });
    let granted = |(section, epoch, kept): (SectionId, Epoch, &KeptCopy)| GrantedCopy {
        section,
        epoch,
        highest: kept.highest,
        bytes: kept.bytes.clone(),
    };
    copies.map(granted).collect()
}

impl OwnershipUpdate {
    /// Reads the changes for an incarnation since a version of the routes from the applied state, the arbiter's plan
    /// and the coordinator's departures: the newer routes, the sections among them that it owns, and the sections that
    /// it should hand over.
    ///
    /// Returns `None` if the incarnation is over. The next incarnation may have begun between the entry of the request
    /// and this read.
    #[must_use]
    pub fn of(
        state: &State,
        plan: &Plan,
        departures: &[PlannedHandover],
        session: Session,
        since: RouteVersion,
    ) -> Option<OwnershipUpdate> {
        let Session { node, incarnation } = session;
        let record = state.node(node)?;
        if record.incarnation != incarnation {
            return None;
        }
        let most = if plan.draining.contains(&node) { MAX_OUTGOING } else { MAX_HANDOVERS_TO_REBALANCE };
        // The plan may be older than the state, so plans for an ownership that is over are left out.
        let stands = |one: &&PlannedHandover| {
            let record = state.sections.resident(one.section);
            one.from == node && record.is_some_and(|record| record.epoch == one.epoch)
        };
        let departures = departures.iter().filter(stands).take(MAX_DEPARTURES);
        let mut update = OwnershipUpdate {
            handovers: departures.chain(plan.handovers.iter().filter(stands).take(most)).cloned().collect(),
            no_other_candidate: plan.no_other_candidate.contains(&node),
            copies: granted_copies(state, session),
            mark: Mark { revision: state.revision, liveness: record.liveness },
            ..OwnershipUpdate::default()
        };
        let Some(routes) = state.routes_since(since) else { return Some(update) };
        update.routes = Some(routes);
        let grant = |(section, record): (SectionId, &Residence)| Grant {
            section,
            epoch: record.epoch,
            ceiling: record.max_seq,
            handover_id: record.handover_id,
            copied: state.copies.is_granted(section, record.epoch),
        };
        update.grants = state.owned_since((node, incarnation), since).map(grant).collect();
        Some(update)
    }
}
