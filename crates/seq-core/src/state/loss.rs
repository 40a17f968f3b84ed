//! Keeps the evidence that committed entries of this set's log are gone, for example because old data directories were
//! put back.
//!
//! An AllocSvr process that has received a response for a lost entry detects the loss (`high_water.rs`) and stops. A
//! process that starts after the loss has received no such response. It would register, and allocate the same numbers
//! that were already allocated under the lost entries. So a process that detects a loss reports it, and the report is
//! committed to the log with which the store continues. From then on, until the set is restored from a backup, no
//! process can register, and no section gets another owner, in this set or in another set.
//!
//! **Invariant:** only a restore ends [`State::loss`].

use alloc::string::String;

use super::events::EventRecord;
use super::{CommandRefusal, State};
use crate::id::{Incarnation, Revision};
use crate::limits;

/// Command that reports that committed entries of this log are gone. The reporting process has received a response from
/// a newer state than the store has now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportLoss {
    /// Name of the process' node, at most [`limits::MAX_NAME_BYTES`] bytes.
    pub node: String,
    /// The newest incarnation of the node that the process knows. It shows the lineage that the report is about,
    /// because a restored set ignores losses in its older lineages.
    pub incarnation: Incarnation,
    /// The newest revision that the process received in a response; 0 if not known.
    pub seen: Revision,
    /// Whether the process has other evidence of the loss than `seen`. Without other evidence, the report is ignored if
    /// the revision of this state is above `seen`, because the state may have this revision without any loss.
    pub certain: bool,
}

/// Evidence that committed entries are gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The node that reported it first.
    pub node: String,
    /// The newest revision that the node's process received in a response; 0 if not known.
    pub seen: Revision,
    /// Revision of this state when the report was applied. It can be above `seen`, because the log has grown since the
    /// loss.
    pub noted: Revision,
}

impl State {
    /// Keeps the report if it shows a loss in this lineage and no loss was reported before. Returns whether it was
    /// kept.
    pub(super) fn report_loss(&mut self, report: &ReportLoss) -> Result<bool, CommandRefusal> {
        let ReportLoss { node, incarnation, seen, certain } = report;
        if self.set.is_none() {
            return Err(CommandRefusal::NoSet);
        }
        let is_of_lineage = incarnation.0 >= self.lineage.first_number();
        if self.loss.is_some() || !is_of_lineage || !certain && *seen < self.revision {
            return Ok(false);
        }
        let end = (0..=node.len().min(limits::MAX_NAME_BYTES)).rev().find(|end| node.is_char_boundary(*end));
        let node: String = node[..end.unwrap_or_default()].into();
        self.note_event(EventRecord::EntriesLost { node: node.clone() });
        self.loss = Some(Loss { node, seen: *seen, noted: self.revision });
        Ok(true)
    }

    /// Returns a refusal if a loss was reported. Called by commands that would register an incarnation, give a section
    /// another owner, or change the layout, because such a change could conflict with the lost entries.
    ///
    /// # Errors
    /// [`CommandRefusal::EntriesLost`].
    pub fn refuse_after_loss(&self) -> Result<(), CommandRefusal> {
        match &self.loss {
            None => Ok(()),
            Some(loss) => Err(CommandRefusal::EntriesLost { loss: loss.clone() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::id::{Epoch, Lineage, NodeId, SectionId};
    use crate::layout::Layout;
    use crate::state::{Answer, Command, Reassign, Registration, SetDefinition};

    #[test]
    fn after_a_loss_no_process_registers_and_no_section_gets_an_owner_until_a_restore() {
        let mut state = State::default();
        state.apply(&Command::DefineSet(SetDefinition::only("dev", Layout::new(0..1_000, 100).unwrap())));
        let register = |state: &mut State, name, follows| {
            let registration = Registration { follows, ..Registration::new(name, name, 7) };
            match state.apply(&Command::Register(registration)) {
                Answer::Registered(outcome) => outcome,
                other => unreachable!("{other:?}"),
            }
        };
        let (to, incarnation) = register(&mut state, "a1", crate::id::Incarnation(0)).unwrap();
        let by = |node: &str, seen, certain| {
            Command::ReportLoss(ReportLoss { node: node.into(), incarnation, seen: Revision(seen), certain })
        };
        assert_eq!(state.apply(&by("a2", 2, false)), Answer::LossReported(Ok(false)), "a response of this state");
        let report = |node: &str| by(node, 90, false);
        assert_eq!(state.apply(&report("a2")), Answer::LossReported(Ok(true)));
        assert_eq!(state.apply(&report("a3")), Answer::LossReported(Ok(false)), "the first report counts");
        let loss = Loss { node: "a2".into(), seen: Revision(90), noted: Revision(4) };
        assert_eq!(state.loss, Some(loss.clone()));
        let lost = CommandRefusal::EntriesLost { loss };
        assert_eq!(register(&mut state, "a4", crate::id::Incarnation(0)), Err(lost.clone()));
        assert_eq!(register(&mut state, "a1", incarnation), Err(lost), "a repeat gets no other answer");
        let give = Reassign { section: SectionId(0), expected: Epoch(0), liveness: None, to, incarnation };
        assert_eq!(state.apply(&Command::Reassign(vec![give])), Answer::Reassigned(vec![None]));
        state.restore(Lineage(1 << 32)).unwrap();
        assert_eq!(state.loss, None);
        assert_eq!(state.apply(&by("a3", 90, true)), Answer::LossReported(Ok(false)), "of the lineage before");
        let first = crate::id::Incarnation(state.lineage.first_number());
        assert_eq!(register(&mut state, "a1", first).unwrap().0, NodeId(1));
    }
}
