//! Requests of operators to move sections to a node or to pause balancing.
//!
//! **Invariant:** an operator can move a section only to a node that the arbiter accepts as an owner of sections.

use std::collections::BTreeSet;

use seq_core::SectionId;
use seq_core::plan::Fingerprint;
use seq_core::state::{
    CommandRefusal, EventRecord, MoveSections, NodeRecord, Pause, PauseBalancing, Replicated, State,
};
use seq_core::{NodeId, limits};
use seq_kit::wall_clock;
use seq_proto::Reason;
use seq_proto::v1::{
    BalancingPause, MoveSectionsRequest, MoveSectionsResponse, MovedSection, PauseBalancingRequest,
    PauseBalancingResponse,
};
use tonic::Status;

use super::nodes::{NodeAdmin, refused, unknown};
use crate::preconditions::{self, Required};

/// Returns which operator paused balancing and when, or `None` if balancing is not paused.
pub(crate) fn pause(state: &State) -> Option<BalancingPause> {
    let pause = state.balancing.paused()?;
    Some(BalancingPause { principal: pause.principal.clone(), since_unix_ms: pause.since_unix_ms })
}

impl NodeAdmin {
    /// Moves sections to a node, or makes them subject to balancing again if the request names no node. Unless all
    /// sections are already as requested, the fingerprint in the request must equal the fingerprint of the plan that is
    /// computed now.
    pub(super) async fn move_sections(&self, request: MoveSectionsRequest) -> Result<MoveSectionsResponse, Status> {
        let MoveSectionsRequest { set, sections, node, dry_run, plan } = request;
        if sections.is_empty() || sections.len() > limits::MAX_MOVED {
            let text = format!("{} sections: 1 to {} can be moved at a time", sections.len(), limits::MAX_MOVED);
            return Err(Reason::BadCount.status(text));
        }
        let sections: BTreeSet<SectionId> = sections.into_iter().map(SectionId).collect();
        let required = Required::new(dry_run, plan);
        self.check_format()?;
        let now = self.foresee_move(&sections, &node)?;
        if now.is_made {
            return Ok(now.response(false));
        }
        let change = required.begin(self.replicated.raft()).await?;
        // Another change may have been made before this change began.
        let now = self.foresee_move(&sections, &node)?;
        if now.is_made || change.is_none() {
            return Ok(now.response(false));
        }
        required.check(now.plan)?;
        let made = MoveSections { sections: sections.iter().copied().collect(), to: now.to };
        self.replicated.propose(made).await?.map_err(|refusal| refused(&refusal))?;
        tracing::info!(set, node, sections = sections.len(), "an operator moves sections, or has them balanced again");
        Ok(now.response(true))
    }

    fn foresee_move(&self, sections: &BTreeSet<SectionId>, name: &str) -> Result<ForeseenMove, Status> {
        let plan = self.plan()?;
        self.replicated.read(|state| {
            let to = match name {
                "" => None,
                name => Some(state.nodes().find(|(_, node)| node.name == name).ok_or_else(|| unknown(name))?),
            };
            if let Some((id, node)) = to
                && !plan.candidates.iter().any(|(candidate, _)| *candidate == id)
            {
                return Err(unfit(node, plan.living.contains(&id)));
            }
            let to = to.map(|(id, _)| id);
            let named =
                |id: Option<NodeId>| id.and_then(|id| state.node(id)).map(|node| node.name.clone()).unwrap_or_default();
            let listed = sections.iter().map(|&section| {
                let record = state.sections.resident(section);
                let record = record.ok_or_else(|| refused(&CommandRefusal::NotInSet { section }))?;
                let (owner, moved_to) = (named(record.owner), named(state.balancing.moved(section)));
                Ok(MovedSection { section: section.0, owner, moved_to })
            });
            let listed = listed.collect::<Result<Vec<_>, Status>>()?;
            let is_made = sections.iter().all(|section| state.balancing.moved(*section) == to);
            let plan = preconditions::move_sections(state, name, sections);
            Ok(ForeseenMove { to, sections: listed, is_made, plan })
        })
    }

    /// Begins or ends a pause of balancing. Unless balancing is already as requested, the fingerprint in the request
    /// must equal the fingerprint of the plan that is computed now. `principal` names the operator.
    pub(super) async fn pause_balancing(
        &self,
        request: PauseBalancingRequest,
        principal: String,
    ) -> Result<PauseBalancingResponse, Status> {
        let PauseBalancingRequest { set, paused, dry_run, plan } = request;
        let required = Required::new(dry_run, plan);
        self.check_format()?;
        let foresee = || {
            let sections = self.plan()?.uneven;
            let (before, plan) =
                self.replicated.read(|state| (pause(state), preconditions::pause_balancing(state, paused)));
            let is_made = before.is_some() == paused;
            Ok::<_, Status>((PauseBalancingResponse { changed: false, before, sections, fingerprint: plan.0 }, is_made))
        };
        let (now, is_made) = foresee()?;
        if is_made {
            return Ok(now);
        }
        let change = required.begin(self.replicated.raft()).await?;
        let (now, is_made) = foresee()?;
        if is_made || change.is_none() {
            return Ok(now);
        }
        required.check(Fingerprint(now.fingerprint))?;
        let pause = paused.then(|| Pause { since_unix_ms: wall_clock::now_ms(), principal: principal.clone() });
        self.replicated.propose(PauseBalancing(pause)).await?.map_err(|refusal| refused(&refusal))?;
        let event = EventRecord::Balancing { paused }.kind().name();
        tracing::info!(event, set, principal, paused, "balancing is paused, or no longer");
        Ok(PauseBalancingResponse { changed: true, ..now })
    }

    /// Returns an error if the group's format does not contain moves of sections and pauses of balancing.
    fn check_format(&self) -> Result<(), Status> {
        let format = self.replicated.raft().state().format();
        if format >= MoveSections::SINCE {
            return Ok(());
        }
        let text = format!(
            "set {} writes format {format}, and moves of sections and pauses of balancing need format {}: \
             `seqsvr store upgrade`",
            self.set.name,
            MoveSections::SINCE
        );
        Err(Reason::OldFormat.status(text))
    }
}

/// Foreseen result of a move of sections.
struct ForeseenMove {
    /// Node to which the sections are moved; `None` if they become subject to balancing again.
    to: Option<NodeId>,
    sections: Vec<MovedSection>,
    /// Whether all sections are already as requested.
    is_made: bool,
    plan: Fingerprint,
}

impl ForeseenMove {
    fn response(self, changed: bool) -> MoveSectionsResponse {
        MoveSectionsResponse { sections: self.sections, changed, fingerprint: self.plan.0 }
    }
}

/// Returns the error of a move to a node that cannot own sections. `living` states whether the node renews its lease.
fn unfit(node: &NodeRecord, living: bool) -> Status {
    let (name, drained) = (&node.name, format!("it is drained (`seqsvr node undrain {}`)", node.name));
    let why = match () {
        () if !living => "it does not renew its lease",
        () if node.leaving => "it is about to exit",
        () if node.drained => &drained,
        () => "the set file of the store's leader does not name it",
    };
    Reason::UnfitTarget.status(format!("{name} can own no sections now: {why}"))
}
