//! The encoding of events, and the names of their kinds.

use alloc::vec::Vec;

use super::{Event, EventRecord, Noted, Ownerships, SectionCount};
use crate::state::Fields;
use crate::state::beginning::{BeganBy, Beginning};

/// Defines kinds of events: the number in the encoding, the name for people, and the fields in the order of the
/// encoding. Numbers and the order of fields never change once released.
macro_rules! kinds {
    ($($number:literal $name:literal $variant:ident { $($field:ident),* })*) => {
        impl EventRecord {
            /// The names of the variants, each with its number.
            const VARIANTS: &'static [(u8, &'static str)] = &[$(($number, $name)),*];

            /// Returns the number of the variant in the encoding.
            fn number(&self) -> u8 {
                match self {
                    $(EventRecord::$variant { .. } => $number,)*
                }
            }
        }

        impl Fields for EventRecord {
            fn put(&self, body: &mut Vec<u8>) {
                match self {
                    $(EventRecord::$variant { $($field),* } => {
                        u8::put(&$number, body);
                        $($field.put(body);)*
                    })*
                }
            }

            fn take(body: &mut &[u8]) -> Option<EventRecord> {
                match u8::take(body)? {
                    $($number => Some(EventRecord::$variant { $($field: Fields::take(body)?),* }),)*
                    _ => None,
                }
            }
        }
    };
}

impl EventRecord {
    /// Numbers of kinds are below this one.
    pub(super) const KINDS: usize = 64;

    /// The number of ownerships, which have a kind for each way in which they begin.
    const OWNERSHIPS: u8 = 6;

    /// Returns the names of all kinds.
    pub fn names() -> impl Iterator<Item = &'static str> {
        let others = EventRecord::VARIANTS.iter().filter(|(number, _)| *number != EventRecord::OWNERSHIPS);
        others.map(|(_, name)| *name).chain(BeganBy::ALL.map(BeganBy::name))
    }

    /// Returns the name of the event's kind.
    #[must_use]
    pub fn name(&self) -> &'static str {
        if let EventRecord::Began { ownerships } = self {
            return ownerships.by.name();
        }
        let number = self.number();
        let known = EventRecord::VARIANTS.iter().find(|(known, _)| *known == number);
        known.map_or("", |(_, name)| name)
    }

    /// Returns the number of the event's kind.
    pub(super) fn kind(&self) -> usize {
        match self {
            EventRecord::Began { ownerships } => EventRecord::KINDS - 1 - usize::from(ownerships.by.number()),
            other => usize::from(other.number()),
        }
    }
}

kinds! {
    1 "leader" Leader { member, term }
    2 "registered" Registered { node, incarnation }
    3 "leaving" Leaving { node, incarnation }
    4 "silent" Silent { node, incarnation, silent_ms }
    5 "drain" Drained { node, drained }
    6 "ownerships" Began { ownerships }
    7 "departed" Departed { migration, to, sections }
    8 "migration_started" MigrationStarted { migration, to }
    9 "migration_pace" MigrationPaced { migration, paused }
    10 "migration_rolled_back" MigrationRolledBack { migration }
    11 "migration_completed" MigrationCompleted { migration }
    12 "set_defined" SetDefined { set }
    13 "closing" Closing { closed }
    14 "restored" Restored { lineage }
    15 "quarantine_ended" QuarantineEnded {}
    16 "fenced" Fenced { set, lineage }
    17 "entries_lost" EntriesLost { node }
    18 "terms" Terms { lease_wait_ms }
    19 "format" Format { format }
    20 "series_created" SeriesCreated { name }
    21 "series_retired" SeriesRetired { name }
    22 "balancing" Balancing { paused }
}

/// Implements the encoding of a struct by its fields, in this order.
macro_rules! by_fields {
    ($($name:ident { $($field:ident),* })*) => {$(
        impl Fields for $name {
            fn put(&self, body: &mut Vec<u8>) {
                $(self.$field.put(body);)*
            }

            fn take(body: &mut &[u8]) -> Option<$name> {
                Some($name { $($field: Fields::take(body)?),* })
            }
        }
    )*};
}

by_fields! {
    Event { index, at_unix_ms, until_unix_ms, record }
    Ownerships { by, from, to, others, sections, most_skipped, routed }
    SectionCount { count, first, last }
    Beginning { at_unix_ms, by, ceiling, skipped }
}

/// One byte, the number of the way.
impl Fields for BeganBy {
    fn put(&self, body: &mut Vec<u8>) {
        self.number().put(body);
    }

    fn take(body: &mut &[u8]) -> Option<BeganBy> {
        BeganBy::ALL.get(usize::from(u8::take(body)?)).copied()
    }
}

/// The number of the subject, then its fields.
impl Fields for Noted {
    fn put(&self, body: &mut Vec<u8>) {
        match self {
            Noted::Time => 0_u8.put(body),
            Noted::Leader { member, term } => {
                1_u8.put(body);
                member.put(body);
                term.put(body);
            }
            Noted::Silent { node, incarnation, silent_ms } => {
                2_u8.put(body);
                node.put(body);
                incarnation.put(body);
                silent_ms.put(body);
            }
        }
    }

    fn take(body: &mut &[u8]) -> Option<Noted> {
        Some(match u8::take(body)? {
            0 => Noted::Time,
            1 => Noted::Leader { member: Fields::take(body)?, term: Fields::take(body)? },
            2 => Noted::Silent {
                node: Fields::take(body)?,
                incarnation: Fields::take(body)?,
                silent_ms: Fields::take(body)?,
            },
            _ => return None,
        })
    }
}
