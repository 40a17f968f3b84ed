//! The ownership update that comes with each response of the store.

use super::handover::MAX_OUTGOING;
use alloc::vec::Vec;

use super::{Grant, GrantedCopy, OwnershipUpdate, Session};
use crate::arbiter::{Plan, PlannedHandover};
use crate::high_water::Mark;
use crate::id::{Epoch, RouteVersion, SectionId};
use crate::limits;
use crate::state::{KeptCopy, Residence, State};

/// Maximum number of handovers inside the set in one update to a node that is not draining. Callers hardly notice a few
/// handovers for each renewal. A draining node gets as many handovers as it can make at the same time.
const MAX_HANDOVERS_TO_REBALANCE: usize = 2;

/// Maximum number of handovers to other sets in one update. During each of them the section is frozen until the stores
/// of both sets have made a commit, so each section would be frozen for longer if there were more of these handovers at
/// the same time.
const MAX_DEPARTURES: usize = 4;

/// Returns the first of the kept copies from which the ownerships of an incarnation start. If there are any, returns at
/// least one copy, and more copies only as long as all of them together stay below [`limits::MAX_GRANTED_COPY_BYTES`].
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
    /// Returns the update for an incarnation that knows the routes up to version `since`. The update has the newer
    /// routes, the sections in these routes that the incarnation owns, and the handovers that the incarnation should
    /// make according to the arbiter's plan and the coordinator's `departures`.
    ///
    /// Returns `None` if the incarnation is over. An incarnation can be over even after the store applied its request,
    /// because the next incarnation may begin before the store reads the state for the response.
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
