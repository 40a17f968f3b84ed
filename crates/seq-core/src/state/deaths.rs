//! Records that AllocSvr processes have ended, so that the sections of an ended process get other owners without a
//! wait.
//!
//! The report of a death comes from the parent of the process. The parent sends it only after it has reaped the
//! process, so no thread of the process runs any more, and the process computes no further response. The report names
//! the process by a random number that the process drew when it started. It does not name the process by its node,
//! because the successor of the process may have registered before the report arrives.
//!
//! **Invariant:** after [`Died`] is applied, no command of the incarnation that died changes the state. So the liveness
//! counter of the incarnation no longer grows, and a section that gets another owner starts above every ceiling that
//! the process ever had.

use super::events::EventRecord;
use super::{CommandRefusal, NodeRecord, State};
use crate::id::{Incarnation, NodeId, RouteVersion};

/// Command that reports the death of an AllocSvr process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Died {
    /// The node of the process.
    pub node: NodeId,
    /// The process, by its number ([`Registration::process`](super::Registration::process)); not 0.
    pub process: u64,
}

/// A reported death of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Death {
    /// The incarnation of the process' node that died.
    pub incarnation: Incarnation,
    /// Time of the report, in milliseconds since 1970, as the leader noted it; 0 if not known. It is only shown to
    /// people.
    pub at_unix_ms: u64,
}

impl NodeRecord {
    /// Returns whether the process of an incarnation of this node was reported dead. Only the last reported death of a
    /// node is known.
    #[must_use]
    pub fn has_died(&self, incarnation: Incarnation) -> bool {
        self.died.is_some_and(|death| death.incarnation == incarnation)
    }
}

impl State {
    /// Notes that the process of a node has ended, if the newest incarnation of the node belongs to this process.
    /// Returns the incarnation that died; `None` if the report changes nothing, because it is a repeat, or because
    /// another process has registered since.
    pub(super) fn died(&mut self, died: &Died) -> Result<Option<Incarnation>, CommandRefusal> {
        let Died { node: id, process } = *died;
        let record = self.node(id).ok_or(CommandRefusal::UnknownNode { node: id })?;
        let incarnation = record.incarnation;
        if process == 0 || record.process != process || record.has_died(incarnation) {
            return Ok(None);
        }
        let (node, at_unix_ms) = (record.name.clone(), self.events.now_ms());
        self.nodes[id.0 as usize - 1].died = Some(Death { incarnation, at_unix_ms });
        let owned = self.owned_since((id, incarnation), RouteVersion(0)).count();
        self.note_event(EventRecord::Died { node, incarnation, owned: owned.try_into().unwrap_or(u32::MAX) });
        Ok(Some(incarnation))
    }

    /// Refuses a registration of a process that was reported dead. Its message was late.
    pub(super) fn refuse_dead(&self, index: usize, process: u64) -> Result<(), CommandRefusal> {
        let (node, record) = (NodeId(index as u32 + 1), &self.nodes[index]);
        let incarnation = record.incarnation;
        let is_dead = process != 0 && record.process == process && record.has_died(incarnation);
        if is_dead { Err(CommandRefusal::ProcessDied { node, incarnation }) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
