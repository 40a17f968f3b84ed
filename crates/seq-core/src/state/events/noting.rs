//! Adds the changes of a state to its event log.

use alloc::string::String;

use super::{EventRecord, Note, Noted, Ownerships, SectionCount};
use crate::id::{Incarnation, MigrationId, NodeId, SectionId, SetId};
use crate::state::record::{Residence, SectionRecord};
use crate::state::{BeganBy, Closing, Command, Rules, State};

impl Command {
    /// Returns whether applying the command may add an event. If so, the store's leader should propose a [`Note`] with
    /// the time before it proposes the command, because the event gets the time of the newest note.
    #[must_use]
    pub fn may_add_event(&self) -> bool {
        match self {
            Command::Renew(renew) => renew.leaving || !renew.released.is_empty(),
            Command::Raise(_)
            | Command::ClaimStoreId(_)
            | Command::MoveSections(_)
            | Command::Arrived(_)
            | Command::LearnDirectory(_)
            | Command::LearnRecords(_)
            | Command::Inherit(_)
            | Command::Forget(_)
            | Command::AdoptSeries(_)
            | Command::SetLayoutWriter(_)
            | Command::NoteReadsLanes(_)
            | Command::NoteClock(_)
            | Command::Note(_)
            | Command::BeginOperation(_)
            | Command::EndOperation(_) => false,
            Command::DefineSet(_)
            | Command::SetTerms(_)
            | Command::Register(_)
            | Command::Reassign(_)
            | Command::Transfer(_)
            | Command::Drain(_)
            | Command::PauseBalancing(_)
            | Command::StartMigration(_)
            | Command::Pace(_)
            | Command::Depart(_)
            | Command::DepartSilent(_)
            | Command::Arrive(_)
            | Command::Rollback(_)
            | Command::Complete(_)
            | Command::StartReturn(_)
            | Command::Fence(_)
            | Command::BeginLineage(_)
            | Command::EndQuarantine(_)
            | Command::ReportLoss(_)
            | Command::Died(_)
            | Command::Close(_)
            | Command::CreateSeries(_)
            | Command::CreateKeyspace(_)
            | Command::RetireSeries(_) => true,
        }
    }
}

impl State {
    /// Appends an event.
    pub(in crate::state) fn note_event(&mut self, record: EventRecord) {
        // Members of an earlier release keep no events.
        if self.rules >= Rules::Eleven {
            self.events.append(record);
        }
    }

    /// Adds the change of a section's record from `before` to `next` to the event log, if the section departed or an
    /// ownership of it began.
    pub(in crate::state) fn note_change(&mut self, section: SectionId, before: &SectionRecord, next: &SectionRecord) {
        if self.rules < Rules::Eleven {
            return;
        }
        match (before, next) {
            (SectionRecord::Resident(last), SectionRecord::Departed(tombstone)) if last.epoch < tombstone.epoch => {
                self.note_departure(section, tombstone.by, tombstone.to.set);
            }
            (_, SectionRecord::Resident(next)) => {
                let last = before.resident().filter(|last| last.owner.is_some());
                let is_new = before.resident().is_none_or(|last| last.epoch < next.epoch);
                if let Some(owner) = next.owner.filter(|_| is_new) {
                    let from = last.and_then(|last| Some((last.owner?, last.incarnation)));
                    self.note_ownership(section, from, next, owner);
                }
            }
            _ => {}
        }
    }

    fn note_departure(&mut self, section: SectionId, by: MigrationId, set: SetId) {
        let is_continued = self.events.continues(|record| match record {
            EventRecord::Departed { migration, to, sections } if (*migration, *to) == (by, set) => {
                sections.add(section);
                true
            }
            _ => false,
        });
        if !is_continued {
            self.events.append(EventRecord::Departed { migration: by, to: set, sections: SectionCount::one(section) });
        }
    }

    fn note_ownership(
        &mut self,
        section: SectionId,
        from: Option<(NodeId, Incarnation)>,
        next: &Residence,
        owner: NodeId,
    ) {
        let (by, owner) = (next.began.by, self.node_name(owner));
        let from = from.map(|(node, incarnation)| (self.node_name(node), incarnation));
        let is_continued = self.events.continues(|record| match record {
            EventRecord::Began { ownerships } if ownerships.by == by && ownerships.from == from => {
                ownerships.count(next, &owner);
                ownerships.sections.add(section);
                true
            }
            _ => false,
        });
        if is_continued {
            return;
        }
        let silent = from.as_ref().filter(|_| by == BeganBy::Takeover);
        let silent = silent.and_then(|(name, incarnation)| self.events.silence_of(name, *incarnation));
        let mut ownerships = Ownerships::one(by, from, section);
        ownerships.silent_ms = silent.unwrap_or(0);
        ownerships.count(next, &owner);
        self.events.append(EventRecord::Began { ownerships });
    }

    /// Returns the name of a node for an event.
    pub(in crate::state) fn node_name(&self, node: NodeId) -> String {
        self.node(node).map(|node| node.name.clone()).unwrap_or_default()
    }

    /// Notes a change of [`State::closing`].
    pub(in crate::state) fn note_closing(&mut self, before: Closing) {
        if self.closing > before {
            self.note_event(EventRecord::Closing { closed: self.closing == Closing::Closed });
        }
    }

    /// Applies a note of a leader.
    pub(in crate::state) fn note(&mut self, note: &Note) {
        let Note { unix_ms, about } = note;
        self.events.now_ms = *unix_ms;
        match about.clone() {
            Noted::Time => {}
            Noted::Leader { member, term } => self.note_event(EventRecord::Leader { member, term }),
            Noted::Silent { node, incarnation, silent_ms } => {
                let node = self.node_name(node);
                self.note_event(EventRecord::Silent { node, incarnation, silent_ms });
            }
            Noted::Stuck { migration, cause } => self.note_event(EventRecord::MigrationStuck { migration, cause }),
            // Two leaders may note the same change.
            Noted::Members { voters } if self.events.voters() == Some(&*voters) => {}
            Noted::Members { voters } => self.note_event(EventRecord::Members { voters }),
        }
    }

    /// Sets the rules of a group whose format was raised.
    pub fn raise_format(&mut self, format: u16) {
        self.rules = Rules::of_format(format);
        self.note_event(EventRecord::Format { format });
    }
}
