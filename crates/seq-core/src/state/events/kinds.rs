//! The kinds of events with their names and severities, for people, filters and log lines.

use super::{EventRecord, Ownerships, SectionCount};
use crate::event_kinds::event_kinds;
use crate::state::BeganBy;

/// Severity of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// A change that is part of normal operation.
    Info,
    /// A change that users may have noticed, or that an operator has to look at.
    Attention,
    /// A loss.
    Fault,
}

event_kinds! {
    /// The kind of an event of a set.
    EventKind {
        /// Sections came from another set.
        Arrival = "arrival",
        /// An operator paused balancing.
        BalancingPaused = "balancing_paused",
        /// An operator ended the pause of balancing.
        BalancingResumed = "balancing_resumed",
        /// The set was closed permanently.
        Closed = "closed",
        /// The set takes no more sections.
        Closing = "closing",
        /// Sections departed to another set.
        Departure = "departure",
        /// The process of an AllocSvr ended, as its parent reported.
        Died = "died",
        /// An operator drained an AllocSvr.
        Drained = "drained",
        /// A process has seen committed entries that the store no longer has.
        EntriesLost = "entries_lost",
        /// Another set was restored, and its older lineages are fenced.
        Fenced = "fenced",
        /// Sections got their first owner.
        FirstOwners = "first_owners",
        /// The format of the store was raised.
        Format = "format",
        /// An owner handed sections over.
        Handover = "handover",
        /// A keyspace was created.
        KeyspaceCreated = "keyspace_created",
        /// A member of the store became leader.
        Leader = "leader",
        /// An AllocSvr announced that it is about to exit.
        Leaving = "leaving",
        /// The store has other voters.
        Members = "members",
        /// A migration was completed.
        MigrationCompleted = "migration_completed",
        /// A migration continues, or its pace was changed.
        MigrationPaced = "migration_paced",
        /// A migration was paused.
        MigrationPaused = "migration_paused",
        /// A migration is rolled back.
        MigrationRolledBack = "migration_rolled_back",
        /// A migration was started.
        MigrationStarted = "migration_started",
        /// A migration does not advance.
        MigrationStuck = "migration_stuck",
        /// The quarantine of the restored set ended.
        QuarantineEnded = "quarantine_ended",
        /// An incarnation of an AllocSvr registered.
        Registered = "registered",
        /// Sections of an owner that stopped in an orderly way got other owners.
        Release = "release",
        /// The set continues from a backup, in quarantine.
        Restored = "restored",
        /// Sections of the restored set got owners.
        RestoredOwners = "restored_owners",
        /// A series was created.
        SeriesCreated = "series_created",
        /// A series was retired.
        SeriesRetired = "series_retired",
        /// The set was defined.
        SetDefined = "set_defined",
        /// An AllocSvr has not renewed its lease, and its sections are given to other AllocSvrs.
        Silent = "silent",
        /// Sections of an owner that was silent, started again or died got other owners.
        Takeover = "takeover",
        /// The lease terms were set.
        Terms = "terms",
        /// An operator ended the drain of an AllocSvr.
        Undrained = "undrained",
        /// Sections got owners, and the way is not known.
        UnknownOwners = "unknown_owners",
    }
}

impl BeganBy {
    /// Returns the kind of the event of ownerships that began in this way.
    #[must_use]
    pub fn kind(self) -> EventKind {
        match self {
            BeganBy::Unknown => EventKind::UnknownOwners,
            BeganBy::First => EventKind::FirstOwners,
            BeganBy::Release => EventKind::Release,
            BeganBy::Takeover => EventKind::Takeover,
            BeganBy::Handover => EventKind::Handover,
            BeganBy::Arrival => EventKind::Arrival,
            BeganBy::Restore => EventKind::RestoredOwners,
        }
    }
}

impl EventRecord {
    /// Returns the kind of the event.
    #[must_use]
    pub fn kind(&self) -> EventKind {
        match self {
            EventRecord::Leader { .. } => EventKind::Leader,
            EventRecord::Registered { .. } => EventKind::Registered,
            EventRecord::Leaving { .. } => EventKind::Leaving,
            EventRecord::Silent { .. } => EventKind::Silent,
            EventRecord::Died { .. } => EventKind::Died,
            EventRecord::Drained { drained: true, .. } => EventKind::Drained,
            EventRecord::Drained { drained: false, .. } => EventKind::Undrained,
            EventRecord::Began { ownerships } => ownerships.by.kind(),
            EventRecord::Departed { .. } => EventKind::Departure,
            EventRecord::MigrationStarted { .. } => EventKind::MigrationStarted,
            EventRecord::MigrationPaced { paused: true, .. } => EventKind::MigrationPaused,
            EventRecord::MigrationPaced { paused: false, .. } => EventKind::MigrationPaced,
            EventRecord::MigrationRolledBack { .. } => EventKind::MigrationRolledBack,
            EventRecord::MigrationCompleted { .. } => EventKind::MigrationCompleted,
            EventRecord::MigrationStuck { .. } => EventKind::MigrationStuck,
            EventRecord::Members { .. } => EventKind::Members,
            EventRecord::SetDefined { .. } => EventKind::SetDefined,
            EventRecord::Closing { closed: false } => EventKind::Closing,
            EventRecord::Closing { closed: true } => EventKind::Closed,
            EventRecord::Restored { .. } => EventKind::Restored,
            EventRecord::QuarantineEnded => EventKind::QuarantineEnded,
            EventRecord::Fenced { .. } => EventKind::Fenced,
            EventRecord::EntriesLost { .. } => EventKind::EntriesLost,
            EventRecord::Terms { .. } => EventKind::Terms,
            EventRecord::Format { .. } => EventKind::Format,
            EventRecord::SeriesCreated { .. } => EventKind::SeriesCreated,
            EventRecord::SeriesRetired { .. } => EventKind::SeriesRetired,
            EventRecord::KeyspaceCreated { .. } => EventKind::KeyspaceCreated,
            EventRecord::Balancing { paused: true } => EventKind::BalancingPaused,
            EventRecord::Balancing { paused: false } => EventKind::BalancingResumed,
        }
    }

    /// Returns the sections that the event is about.
    #[must_use]
    pub fn sections(&self) -> Option<SectionCount> {
        match self {
            EventRecord::Began { ownerships } => Some(ownerships.sections),
            EventRecord::Departed { sections, .. } => Some(*sections),
            _ => None,
        }
    }

    /// Returns the severity.
    #[must_use]
    pub fn severity(&self) -> Severity {
        match self {
            EventRecord::EntriesLost { .. } => Severity::Fault,
            EventRecord::Silent { .. }
            | EventRecord::MigrationStuck { .. }
            | EventRecord::Restored { .. }
            | EventRecord::Fenced { .. } => Severity::Attention,
            // A process that stops in an orderly way owns nothing when it ends.
            EventRecord::Died { owned: 0, .. } => Severity::Info,
            EventRecord::Died { .. } => Severity::Attention,
            EventRecord::Began { ownerships: Ownerships { most_skipped: Some(0), .. } } => Severity::Info,
            EventRecord::Began { .. } => Severity::Attention,
            _ => Severity::Info,
        }
    }
}
