//! The encoding of events.

use alloc::vec::Vec;

use super::{Event, EventRecord, Noted, Ownerships, SectionCount};
use crate::state::beginning::{BeganBy, Beginning};
use crate::state::{Death, Fields};

/// Implements the encoding of [`EventRecord`] from a list of its variants, each with its number and its fields in the
/// order of the encoding. Once released, numbers and the order of fields never change.
macro_rules! records {
    ($($number:literal $variant:ident { $($field:ident),* })*) => {
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

records! {
    1 Leader { member, term }
    2 Registered { node, incarnation }
    3 Leaving { node, incarnation }
    4 Silent { node, incarnation, silent_ms }
    5 Drained { node, drained }
    6 Began { ownerships }
    7 Departed { migration, to, sections }
    8 MigrationStarted { migration, to }
    9 MigrationPaced { migration, paused }
    10 MigrationRolledBack { migration }
    11 MigrationCompleted { migration }
    12 SetDefined { set }
    13 Closing { closed }
    14 Restored { lineage }
    15 QuarantineEnded {}
    16 Fenced { set, lineage }
    17 EntriesLost { node }
    18 Terms { lease_wait_ms }
    19 Format { format }
    20 SeriesCreated { name }
    21 SeriesRetired { name }
    22 Balancing { paused }
    23 MigrationStuck { migration, cause }
    24 Members { voters }
    25 Died { node, incarnation, owned }
    26 KeyspaceCreated { name }
}

/// Implements the encoding of each struct in a list as the encodings of its fields, in the order of the list.
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
    Event { index, change, at_unix_ms, until_unix_ms, record }
    Ownerships { by, from, silent_ms, to, others, sections, most_skipped, routed }
    SectionCount { count, first, last }
    Beginning { at_unix_ms, by, ceiling, skipped, floor }
    Death { incarnation, at_unix_ms }
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
            Noted::Stuck { migration, cause } => {
                3_u8.put(body);
                migration.put(body);
                cause.put(body);
            }
            Noted::Members { voters } => {
                4_u8.put(body);
                voters.put(body);
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
            3 => Noted::Stuck { migration: Fields::take(body)?, cause: Fields::take(body)? },
            4 => Noted::Members { voters: Fields::take(body)? },
            _ => return None,
        })
    }
}
