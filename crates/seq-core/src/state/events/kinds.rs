//! The names and severities of the kinds of events, for people and filters.

use super::{EventRecord, Ownerships, SectionCount};
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

impl BeganBy {
    /// Returns the name of the kind of the event, in [`EventRecord::KINDS`], of ownerships that began in this way.
    #[must_use]
    pub fn kind(self) -> &'static str {
        match self {
            BeganBy::Unknown => "unknown_owners",
            BeganBy::First => "first_owners",
            BeganBy::Release => "release",
            BeganBy::Takeover => "takeover",
            BeganBy::Handover => "handover",
            BeganBy::Arrival => "arrival",
            BeganBy::Restore => "restored_owners",
        }
    }
}

impl EventRecord {
    /// The names of all kinds, in order of the alphabet.
    pub const KINDS: &[&str] = &[
        "arrival",
        "balancing_paused",
        "balancing_resumed",
        "closed",
        "closing",
        "departure",
        "died",
        "drained",
        "entries_lost",
        "fenced",
        "first_owners",
        "format",
        "handover",
        "keyspace_created",
        "leader",
        "leaving",
        "members",
        "migration_completed",
        "migration_paced",
        "migration_paused",
        "migration_rolled_back",
        "migration_started",
        "migration_stuck",
        "quarantine_ended",
        "registered",
        "release",
        "restored",
        "restored_owners",
        "series_created",
        "series_retired",
        "set_defined",
        "silent",
        "takeover",
        "terms",
        "undrained",
        "unknown_owners",
    ];

    /// Returns the name of the event's kind, in [`EventRecord::KINDS`].
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            EventRecord::Leader { .. } => "leader",
            EventRecord::Registered { .. } => "registered",
            EventRecord::Leaving { .. } => "leaving",
            EventRecord::Silent { .. } => "silent",
            EventRecord::Died { .. } => "died",
            EventRecord::Drained { drained: true, .. } => "drained",
            EventRecord::Drained { drained: false, .. } => "undrained",
            EventRecord::Began { ownerships } => ownerships.by.kind(),
            EventRecord::Departed { .. } => "departure",
            EventRecord::MigrationStarted { .. } => "migration_started",
            EventRecord::MigrationPaced { paused: true, .. } => "migration_paused",
            EventRecord::MigrationPaced { paused: false, .. } => "migration_paced",
            EventRecord::MigrationRolledBack { .. } => "migration_rolled_back",
            EventRecord::MigrationCompleted { .. } => "migration_completed",
            EventRecord::MigrationStuck { .. } => "migration_stuck",
            EventRecord::Members { .. } => "members",
            EventRecord::SetDefined { .. } => "set_defined",
            EventRecord::Closing { closed: false } => "closing",
            EventRecord::Closing { closed: true } => "closed",
            EventRecord::Restored { .. } => "restored",
            EventRecord::QuarantineEnded => "quarantine_ended",
            EventRecord::Fenced { .. } => "fenced",
            EventRecord::EntriesLost { .. } => "entries_lost",
            EventRecord::Terms { .. } => "terms",
            EventRecord::Format { .. } => "format",
            EventRecord::SeriesCreated { .. } => "series_created",
            EventRecord::SeriesRetired { .. } => "series_retired",
            EventRecord::KeyspaceCreated { .. } => "keyspace_created",
            EventRecord::Balancing { paused: true } => "balancing_paused",
            EventRecord::Balancing { paused: false } => "balancing_resumed",
        }
    }

    /// Returns the place of the event's kind in [`EventRecord::KINDS`].
    pub(super) fn place(&self) -> usize {
        EventRecord::KINDS.binary_search(&self.kind()).expect("the list has every kind, in order")
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
