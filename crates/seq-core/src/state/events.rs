//! The event log of a set. It shows people the changes that explain why the numbers of users stopped, moved or jumped.
//!
//! Events are added while commands are applied, so every member of the store has the same events. Changes of the same
//! kind that follow each other closely are combined in one event. So the takeover of 14,000 sections of a node is a
//! single event, and so is a drain.
//!
//! **Invariant:** indexes of events grow by one and never repeat. At most [`limits::MAX_EVENTS`] events are kept. If
//! there are more, the oldest event of the most frequent kind is removed, so that thousands of handovers do not push
//! out a takeover.
//!
//! Events have the names of nodes instead of their ids, because after a restore of the set the ids may belong to other
//! nodes.
//!
//! No decision depends on an event. A refused request adds no event, because otherwise any client could fill the event
//! log.

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;

use super::beginning::BeganBy;
use super::record::Residence;
use crate::id::{Incarnation, Lineage, MigrationId, NodeId, RouteVersion, SectionId, SetId};
use crate::limits;

mod fields;
mod kinds;
mod noting;

pub use kinds::{EventKind, Severity};

/// An event of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Index in the event log, from 1 on.
    pub index: u64,
    /// Number of the last change to this event. All changes of the event log are numbered together: adding an event is
    /// a change, and so is adding to a recent event. A client that watches the event log sends the highest number that
    /// it has received, and gets the events with higher numbers.
    pub change: u64,
    /// Time of the first change in this event, in milliseconds since 1970 by the clock of the store's leader, precise
    /// to a second; 0 if not known. It is only shown to people.
    pub at_unix_ms: u64,
    /// Time of the last change in this event, in milliseconds since 1970. Equal to `at_unix_ms` if the event has a
    /// single change.
    pub until_unix_ms: u64,
    /// The change.
    pub record: EventRecord,
}

/// A change of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventRecord {
    /// A member of the store became leader.
    Leader {
        /// Raft id of the member.
        member: u64,
        /// The term that it leads.
        term: u64,
    },
    /// An incarnation of an AllocSvr registered.
    Registered {
        /// Name of the node.
        node: String,
        /// Its new incarnation.
        incarnation: Incarnation,
    },
    /// An AllocSvr announced that it is about to exit.
    Leaving {
        /// Name of the node.
        node: String,
        /// The incarnation that exits.
        incarnation: Incarnation,
    },
    /// An AllocSvr has not renewed its lease for so long that the store's leader gives its sections to other AllocSvrs.
    Silent {
        /// Name of the node.
        node: String,
        /// Its incarnation.
        incarnation: Incarnation,
        /// Milliseconds since the leader of the store saw its last renewal.
        silent_ms: u64,
    },
    /// The parent of an AllocSvr's process reported that the process has ended.
    Died {
        /// Name of the node.
        node: String,
        /// The incarnation that died.
        incarnation: Incarnation,
        /// Number of sections that the incarnation owned.
        owned: u32,
    },
    /// An operator drained an AllocSvr, or gave it back.
    Drained {
        /// Name of the node.
        node: String,
        /// Whether it may own nothing from now on.
        drained: bool,
    },
    /// Ownerships of sections began.
    Began {
        /// The ownerships.
        ownerships: Ownerships,
    },
    /// Sections departed to another set.
    Departed {
        /// The migration; 0 for none that can be rolled back.
        migration: MigrationId,
        /// The other set.
        to: SetId,
        /// The sections.
        sections: SectionCount,
    },
    /// A migration to another set was started.
    MigrationStarted {
        /// The migration.
        migration: MigrationId,
        /// The other set.
        to: SetId,
    },
    /// The pace of a migration was changed.
    MigrationPaced {
        /// The migration.
        migration: MigrationId,
        /// Whether it is paused from now on.
        paused: bool,
    },
    /// A migration is rolled back.
    MigrationRolledBack {
        /// The migration.
        migration: MigrationId,
    },
    /// A migration was completed.
    MigrationCompleted {
        /// The migration.
        migration: MigrationId,
    },
    /// No section of a migration has arrived for some time, because requests to the other set fail.
    MigrationStuck {
        /// The migration.
        migration: MigrationId,
        /// Error of the last request; at most [`limits::MAX_EVENT_CAUSE_BYTES`] bytes.
        cause: String,
    },
    /// The store has other voters than before, or this is the first event about them.
    Members {
        /// Raft ids of the voters, in ascending order.
        voters: Vec<u64>,
    },
    /// The set was defined.
    SetDefined {
        /// The set.
        set: SetId,
    },
    /// The set takes no more sections, or is closed.
    Closing {
        /// Whether it is closed permanently.
        closed: bool,
    },
    /// The set continues from a backup, in quarantine.
    Restored {
        /// The new lineage.
        lineage: Lineage,
    },
    /// The quarantine of the restored set ended.
    QuarantineEnded,
    /// Another set was restored, and its older lineages are fenced.
    Fenced {
        /// The other set.
        set: SetId,
        /// The oldest lineage of that set whose messages are still accepted.
        lineage: Lineage,
    },
    /// A process has seen committed entries that the store no longer has.
    EntriesLost {
        /// Name of the node that reported it.
        node: String,
    },
    /// The lease terms were set.
    Terms {
        /// Time after which the sections of a silent AllocSvr are given to other AllocSvrs, in milliseconds.
        lease_wait_ms: u64,
    },
    /// The format of the store was raised.
    Format {
        /// The new format.
        format: u16,
    },
    /// A series was created.
    SeriesCreated {
        /// Name of the series.
        name: String,
    },
    /// A series was retired.
    SeriesRetired {
        /// Name of the series.
        name: String,
    },
    /// A keyspace was created.
    KeyspaceCreated {
        /// Name of the keyspace.
        name: String,
    },
    /// An operator paused balancing, or ended the pause.
    Balancing {
        /// Whether balancing is paused from now on.
        paused: bool,
    },
}

/// Ownerships that began in the same way after the same owner, combined in one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ownerships {
    /// The way in which they began.
    pub by: BeganBy,
    /// Name and incarnation of the previous owner; `None` if the sections had no owner.
    pub from: Option<(String, Incarnation)>,
    /// Time from the last renewal of the previous owner until the store's leader gave the sections to other nodes, in
    /// milliseconds, as the leader noted it. 0 if the previous owner was not silent, or if its process was restarted.
    pub silent_ms: u64,
    /// Names of the next owners, in the order in which they got their first section, each with the number of sections
    /// that it got. At most [`limits::MAX_EVENT_NODES`].
    pub to: Vec<(String, u32)>,
    /// Number of sections that went to owners that are not in `to`.
    pub others: u32,
    /// The sections.
    pub sections: SectionCount,
    /// The highest count of numbers that were skipped for any uid of the sections; `None` if the count is not known for
    /// one of the sections.
    pub most_skipped: Option<u64>,
    /// Version of the route table that contains the last of these changes.
    pub routed: RouteVersion,
}

/// A number of sections, and the range that they are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionCount {
    /// Number of changes. A section that changed twice is counted twice.
    pub count: u32,
    /// The lowest section.
    pub first: SectionId,
    /// The highest section.
    pub last: SectionId,
}

/// The event log of a set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// Index of the newest event; 0 for none.
    last: u64,
    /// Number of the newest change of an event; 0 for none.
    changes: u64,
    /// The time of the newest note of a leader; 0: not known.
    now_ms: u64,
    /// The kept events, in order of index.
    kept: VecDeque<Event>,
}

/// Command that notes the time, and optionally a fact that only a leader of the store knows. Notes are only shown to
/// people, and no decision depends on them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Milliseconds since 1970 by the clock of the leader.
    pub unix_ms: u64,
    /// The fact that the leader notes together with the time.
    pub about: Noted,
}

/// The fact in a [`Note`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Noted {
    /// No fact. The note only gives the time of the events that follow it.
    Time,
    /// The member became leader.
    Leader {
        /// Raft id of the member.
        member: u64,
        /// The term that it leads.
        term: u64,
    },
    /// The store's leader is about to give the sections of a node to other nodes, because the node has not renewed its
    /// lease.
    Silent {
        /// The node.
        node: NodeId,
        /// Its incarnation.
        incarnation: Incarnation,
        /// Milliseconds since the leader saw its last renewal.
        silent_ms: u64,
    },
    /// A migration that the leader coordinates does not advance.
    Stuck {
        /// The migration.
        migration: MigrationId,
        /// Error of the last request; at most [`limits::MAX_EVENT_CAUSE_BYTES`] bytes.
        cause: String,
    },
    /// The voters of the store, if they differ from those in the newest event about them.
    Members {
        /// Raft ids of the voters, in ascending order.
        voters: Vec<u64>,
    },
}

impl SectionCount {
    fn one(section: SectionId) -> SectionCount {
        SectionCount { count: 1, first: section, last: section }
    }

    fn add(&mut self, section: SectionId) {
        self.count = self.count.saturating_add(1);
        (self.first, self.last) = (self.first.min(section), self.last.max(section));
    }
}

impl Events {
    /// Creates an event log from its parts; `None` if the indexes of events are not in order, an index or the number of
    /// a change is too high, or there are too many events.
    #[must_use]
    pub fn from_parts((last, changes): (u64, u64), now_ms: u64, kept: VecDeque<Event>) -> Option<Events> {
        let in_order = kept.iter().zip(kept.iter().skip(1)).all(|(one, next)| one.index < next.index);
        let fits = kept.iter().all(|event| event.index <= last && event.change <= changes);
        (in_order && fits && kept.len() <= limits::MAX_EVENTS).then_some(Events { last, changes, now_ms, kept })
    }

    /// Returns the kept events, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Event> {
        self.kept.iter()
    }

    /// Returns the kept events whose [`Event::change`] is above `change`, in ascending order of this number.
    #[must_use]
    pub fn changed_after(&self, change: u64) -> Vec<&Event> {
        if change >= self.changes {
            return Vec::new();
        }
        let mut changed: Vec<&Event> = self.kept.iter().filter(|event| event.change > change).collect();
        changed.sort_unstable_by_key(|event| event.change);
        changed
    }

    /// Returns the highest number of a change so far, see [`Event::change`]; 0 if there was no event.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns the index of the newest event; 0 for none.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Returns the time in the newest note of a leader, in milliseconds since 1970; 0 if there was no note.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Returns the voters of the store in the newest event about them; `None` if no such event is kept.
    #[must_use]
    pub fn voters(&self) -> Option<&[u64]> {
        self.kept.iter().rev().find_map(|event| match &event.record {
            EventRecord::Members { voters } => Some(&**voters),
            _ => None,
        })
    }

    /// Returns the time in milliseconds for which an incarnation did not renew its lease, as the store's leader noted
    /// it in one of the newest [`limits::OPEN_EVENTS`] events; `None` if there is no such note.
    fn silence_of(&self, name: &str, incarnation: Incarnation) -> Option<u64> {
        self.kept.iter().rev().take(limits::OPEN_EVENTS).find_map(|event| match &event.record {
            EventRecord::Silent { node, incarnation: of, silent_ms } if node == name && *of == incarnation => {
                Some(*silent_ms)
            }
            _ => None,
        })
    }

    fn append(&mut self, record: EventRecord) {
        (self.last, self.changes) = (self.last + 1, self.changes + 1);
        let (index, change, at_unix_ms) = (self.last, self.changes, self.now_ms);
        self.kept.push_back(Event { index, change, at_unix_ms, until_unix_ms: at_unix_ms, record });
        if self.kept.len() > limits::MAX_EVENTS {
            self.remove_one();
        }
    }

    /// Removes the oldest event of the kind that has the most events.
    fn remove_one(&mut self) {
        let mut counts = [0_usize; EventKind::ALL.len()];
        self.kept.iter().for_each(|event| counts[event.record.kind() as usize] += 1);
        let most = (0..counts.len()).max_by_key(|kind| counts[*kind]);
        let oldest = self.kept.iter().position(|event| Some(event.record.kind() as usize) == most);
        oldest.and_then(|place| self.kept.remove(place));
    }

    /// Adds a change to the recent event to which it belongs, if there is one. Calls `add` with one recent event after
    /// another, the newest first. If the change belongs to that event, `add` must add it to the event and return true.
    /// Returns whether the change was added.
    fn continues(&mut self, mut add: impl FnMut(&mut EventRecord) -> bool) -> bool {
        let now_ms = self.now_ms;
        let is_recent = |event: &&mut Event| now_ms.saturating_sub(event.until_unix_ms) <= limits::EVENT_PAUSE_MS;
        let recent = self.kept.iter_mut().rev().take(limits::OPEN_EVENTS).filter(is_recent);
        for event in recent {
            if add(&mut event.record) {
                self.changes += 1;
                event.change = self.changes;
                event.until_unix_ms = event.until_unix_ms.max(now_ms);
                return true;
            }
        }
        false
    }
}

impl Ownerships {
    fn one(by: BeganBy, from: Option<(String, Incarnation)>, section: SectionId) -> Ownerships {
        let sections = SectionCount::one(section);
        let (to, most_skipped, routed) = (Vec::new(), Some(0), RouteVersion(0));
        Ownerships { by, from, silent_ms: 0, to, others: 0, sections, most_skipped, routed }
    }

    /// Counts an ownership, except its section.
    fn count(&mut self, next: &Residence, owner: &str) {
        match self.to.iter().position(|(node, _)| node == owner) {
            Some(place) => self.to[place].1 = self.to[place].1.saturating_add(1),
            None if self.to.len() < limits::MAX_EVENT_NODES => self.to.push((owner.into(), 1)),
            None => self.others = self.others.saturating_add(1),
        }
        self.most_skipped = self.most_skipped.zip(next.began.skipped).map(|(most, skipped)| most.max(skipped));
        self.routed = self.routed.max(next.routed);
    }
}

#[cfg(test)]
mod tests;
