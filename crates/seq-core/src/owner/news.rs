//! What a living owner is told with each answer of the store.

use super::handing::MAX_OUTGOING;
use super::{Grant, Life, News};
use crate::arbiter::{Move, Plan};
use crate::high_water::Mark;
use crate::id::{RouteVersion, SectionId};
use crate::state::{SectionRecord, State};

/// Most planned moves told in one answer where they only even the load: a few for each renewal, so that callers hardly
/// notice them. Where a node is to be emptied it is told as many as it makes at a time.
const MAX_MOVES_TO_EVEN: usize = 2;

impl News {
    /// Reads from the applied state, and from what the arbiter wants, what changed for a life since a version of the
    /// routes: what it owns among the changed sections, the newer routes, and what it should hand over.
    ///
    /// `None`: the life is over. The next one may have begun between the entry of the question and this read.
    #[must_use]
    pub fn of(state: &State, plan: &Plan, life: Life, since: RouteVersion) -> Option<News> {
        let Life { node, incarnation } = life;
        let record = state.node(node)?;
        if record.incarnation != incarnation {
            return None;
        }
        let most = if plan.emptied.contains(&node) { MAX_OUTGOING } else { MAX_MOVES_TO_EVEN };
        // The plan may be older than the state; what it says of an ownership that is over is of no use.
        let stands = |one: &&Move| {
            let record = state.sections.get(one.section.0 as usize);
            one.from == node && record.is_some_and(|record| record.epoch == one.epoch)
        };
        let mut news = News {
            moves: plan.moves.iter().filter(stands).take(most).copied().collect(),
            alone: plan.alone.contains(&node),
            mark: Mark { revision: state.revision, liveness: record.heard },
            ..News::default()
        };
        let Some(routes) = state.routes_since(since) else { return Some(news) };
        news.routes = Some(routes);
        let grant = |(section, record): (SectionId, &SectionRecord)| Grant {
            section,
            epoch: record.epoch,
            ceiling: record.max_seq,
            handover: record.handover,
        };
        let changed = state.owned_by(node, incarnation).filter(|(_, record)| record.routed > since);
        news.grants = changed.map(grant).collect();
        Some(news)
    }
}
