//! The event log of one process. It shows people the conditions of the process itself, such as the loss of its lease,
//! which no replicated log contains.
//!
//! The process reports [`Fact`]s, and [`NodeEventLog`] decides which of them are events: a condition is an event when
//! it is lost and when it holds again, and refused requests are at most one event a minute for each kind, with a count.
//! So a stranger whose requests are refused cannot fill the log. Violations of the order are counted in the same way.
//!
//! **Invariant:** indexes of events grow and never repeat within one process. At most [`MAX_NODE_EVENTS`] events are
//! kept (`kept_events.rs`).
//!
//! No decision depends on an event.

use alloc::string::String;
use alloc::vec::Vec;

use crate::kept_events::{KeptEvent, KeptEvents};
use crate::lease::Clocks;

mod condition;
mod kinds;

use condition::{Change, Condition};
pub use kinds::{NodeEventKind, Occurrences};

/// Maximum number of events that a process keeps. It is limited because the log is in memory only; the events of some
/// hours of trouble fit, and take less than 256 KiB.
pub const MAX_NODE_EVENTS: usize = 512;

/// Maximum number of bytes of [`NodeEvent::detail`]. The beginning of an error is enough to search the log for it.
pub const MAX_DETAIL_BYTES: usize = 256;

/// Time, in nanoseconds, for which occurrences of one cause are counted in one event.
const COUNTED_FOR: u64 = 60 * NANOS;

/// Smallest step of the wall clock that is an event, in nanoseconds. Times of events are shown in seconds, and an
/// offset of a second is what `status` warns of.
const LEAST_STEP: i64 = NANOS as i64;

/// Divisor of the time between two readings of the clocks. A difference of one part in `MOST_SLEW` is no step, because
/// time synchronization may change the rate of the wall clock by 0.05 %.
const MOST_SLEW: i64 = 1_000;

/// Remaining validity of a certificate, in seconds, below which an operator is warned. Two weeks leave enough time to
/// replace the certificate by hand.
pub const CERTIFICATE_WARNING_SECONDS: u64 = 14 * 86_400;

const NANOS: u64 = 1_000_000_000;
const NANOS_PER_MS: u64 = 1_000_000;

/// An event of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeEvent {
    /// Index in the log of this process, from 1 on.
    pub index: u64,
    /// Number of the last change to this event. All changes of the log are numbered together: adding an event is a
    /// change, and so is counting further occurrences in it.
    pub change: u64,
    /// Time of the event by the wall clock of this machine, in milliseconds since 1970.
    pub at_unix_ms: u64,
    /// Time of the last occurrence that the event counts, in milliseconds since 1970; for other kinds equal to
    /// `at_unix_ms`.
    pub until_unix_ms: u64,
    /// The kind.
    pub kind: NodeEventKind,
    /// Number of occurrences, from 1 on; 0 for other kinds.
    pub count: u64,
    /// Number of sections that are not served; 0 for other kinds than the loss of a lease.
    pub sections: u32,
    /// Time for which the condition was lost, in milliseconds; 0 if the event is not the end of a loss.
    pub lasted_ms: u64,
    /// Milliseconds by which the wall clock was set forward; negative if it was set back, 0 for other kinds.
    pub ahead_ms: i64,
    /// End of the certificate's validity, in seconds since 1970; 0 for kinds without a certificate.
    pub not_after: u64,
    /// Cause, or list of changes, without control characters; at most [`MAX_DETAIL_BYTES`] bytes.
    pub detail: String,
}

/// A fact that a process reports about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fact<'a> {
    /// The clocks were read.
    Time,
    /// An AllocSvr checked its lease.
    Lease {
        /// Whether the lease holds.
        holds: bool,
        /// Time since the lease expired, in nanoseconds; 0 if it holds, or if it was ended. A process that was
        /// suspended learns of the loss late.
        expired: u64,
        /// Number of sections that the AllocSvr owns.
        sections: u32,
    },
    /// A member of a store checked its connection to a majority.
    Quorum {
        /// Whether the member is connected to a majority.
        holds: bool,
        /// Description of the connection.
        status: &'a str,
    },
    /// A member of a store checked its disk.
    Disk {
        /// Whether all syncs that were begun have ended, or began only a short time ago.
        responds: bool,
    },
    /// The process permanently stopped serving.
    Halted {
        /// The cause.
        cause: &'a str,
    },
    /// The process read its files again, and uses them.
    Reloaded {
        /// The changes.
        changes: &'a str,
    },
    /// The process could not use its files, and keeps using the values from before.
    ReloadFailed {
        /// The file and the error.
        error: &'a str,
    },
    /// The process uses a certificate.
    Certificate {
        /// End of the certificate's validity, in seconds since 1970.
        not_after: u64,
        /// Whether the certificate was read just now, after the start of the process.
        is_new: bool,
    },
    /// Something occurred that is counted.
    Occurred {
        /// The cause.
        what: Occurrences,
        /// Number of occurrences since the last report.
        count: u64,
    },
}

/// A part of an event log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Events in ascending order of [`NodeEvent::change`].
    pub events: Vec<NodeEvent>,
    /// Number of the change up to which the reader then has all events.
    pub next: u64,
    /// Whether more events follow.
    pub more: bool,
    /// Time at which the log was begun, in milliseconds since 1970.
    pub begun_unix_ms: u64,
}

/// The event log of a process.
#[derive(Clone, Debug)]
pub struct NodeEventLog {
    /// The last reading of the clocks.
    clocks: Clocks,
    begun_unix_ms: u64,
    log: KeptEvents<NodeEvent>,
    lease: Condition,
    quorum: Condition,
    disk: Condition,
    /// End of the validity of the last certificate about which the log has a warning, in seconds since 1970.
    warned_of: Option<u64>,
    /// For each cause of occurrences, the event that counts them and the boot clock at its beginning, in nanoseconds.
    counted: [Option<(u64, u64)>; Occurrences::ALL.len()],
}

impl NodeEventLog {
    /// Creates the log of a process that starts at the time `now`.
    #[must_use]
    pub fn new(now: Clocks) -> NodeEventLog {
        NodeEventLog {
            clocks: now,
            begun_unix_ms: now.realtime / NANOS_PER_MS,
            log: KeptEvents::default(),
            lease: Condition::Unknown,
            quorum: Condition::Unknown,
            // A member starts only after its disk has completed writes.
            disk: Condition::Holds,
            warned_of: None,
            counted: [None; Occurrences::ALL.len()],
        }
    }

    /// Adds the events that follow from a fact, which the process learned at the time `now`.
    pub fn note(&mut self, now: Clocks, fact: Fact<'_>) {
        self.check_clock(now);
        match fact {
            Fact::Time => {}
            Fact::Lease { holds, expired, sections } => {
                match self.lease.note(holds, now.boottime.saturating_sub(expired)) {
                    Some(Change::Lost) => self.append(NodeEventKind::LeaseLost, |event| event.sections = sections),
                    Some(Change::Regained { lasted_ms }) => self.regained(NodeEventKind::LeaseRegained, lasted_ms),
                    None => {}
                }
            }
            Fact::Quorum { holds, status } => match self.quorum.note(holds, now.boottime) {
                Some(Change::Lost) => self.detailed(NodeEventKind::QuorumLost, status),
                Some(Change::Regained { lasted_ms }) => self.regained(NodeEventKind::QuorumRegained, lasted_ms),
                None => {}
            },
            Fact::Disk { responds } => match self.disk.note(responds, now.boottime) {
                Some(Change::Lost) => self.append(NodeEventKind::DiskSlow, |_| {}),
                Some(Change::Regained { lasted_ms }) => self.regained(NodeEventKind::DiskResponds, lasted_ms),
                None => {}
            },
            Fact::Halted { cause } => self.detailed(NodeEventKind::Halted, cause),
            Fact::Reloaded { changes } => self.detailed(NodeEventKind::Reloaded, changes),
            Fact::ReloadFailed { error } => self.detailed(NodeEventKind::ReloadFailed, error),
            Fact::Certificate { not_after, is_new } => self.note_certificate(now, not_after, is_new),
            Fact::Occurred { what, count } => self.count(now, what, count),
        }
    }

    /// Returns at most `limit` of the kept events whose [`NodeEvent::change`] is above `after`.
    #[must_use]
    pub fn page(&self, after: u64, limit: usize) -> Page {
        let changed = self.log.changed_after(after);
        let more = changed.len() > limit;
        let events: Vec<NodeEvent> = changed.into_iter().take(limit).cloned().collect();
        let next = if more { events.last().map_or(after, |event| event.change) } else { self.log.changes() };
        Page { events, next, more, begun_unix_ms: self.begun_unix_ms }
    }

    /// Adds an event if the wall clock was set since the last reading of the clocks.
    fn check_clock(&mut self, now: Clocks) {
        let before = core::mem::replace(&mut self.clocks, now);
        let difference =
            |later: u64, earlier: u64| i64::try_from(i128::from(later) - i128::from(earlier)).unwrap_or(i64::MAX);
        let elapsed = difference(now.boottime, before.boottime);
        let step = difference(now.realtime, before.realtime).saturating_sub(elapsed);
        if step.saturating_abs() >= LEAST_STEP.saturating_add(elapsed / MOST_SLEW) {
            self.append(NodeEventKind::ClockStep, |event| event.ahead_ms = step / NANOS_PER_MS as i64);
        }
    }

    fn note_certificate(&mut self, now: Clocks, not_after: u64, is_new: bool) {
        let certificate = |event: &mut NodeEvent| event.not_after = not_after;
        if is_new {
            self.append(NodeEventKind::CertificateReloaded, certificate);
        }
        let is_close = not_after.saturating_sub(now.realtime / NANOS) < CERTIFICATE_WARNING_SECONDS;
        if is_close && self.warned_of != Some(not_after) {
            self.warned_of = Some(not_after);
            self.append(NodeEventKind::CertificateExpiring, certificate);
        }
    }

    /// Counts occurrences in the event of the last minute, or in a new event.
    fn count(&mut self, now: Clocks, what: Occurrences, count: u64) {
        if count == 0 {
            return;
        }
        let counted = self.counted[what.place()];
        let Some((index, _)) = counted.filter(|(_, since)| now.boottime.saturating_sub(*since) < COUNTED_FOR) else {
            self.append(what.kind(), |event| {
                event.count = count;
                event.detail = what.detail().into();
            });
            self.counted[what.place()] = Some((self.log.last(), now.boottime));
            return;
        };
        // If the event is no longer kept, the minute still ends before the next event.
        self.log.change_one(MAX_NODE_EVENTS, |event| {
            let is_counted = event.index == index;
            if is_counted {
                event.count = event.count.saturating_add(count);
                event.until_unix_ms = now.realtime / NANOS_PER_MS;
            }
            is_counted
        });
    }

    fn regained(&mut self, kind: NodeEventKind, lasted_ms: u64) {
        self.append(kind, |event| event.lasted_ms = lasted_ms);
    }

    fn detailed(&mut self, kind: NodeEventKind, detail: &str) {
        self.append(kind, |event| event.detail = printable(detail));
    }

    /// Appends an event at the time of the last reading of the clocks. The function `fill` sets its fields.
    fn append(&mut self, kind: NodeEventKind, fill: impl FnOnce(&mut NodeEvent)) {
        let at_unix_ms = self.clocks.realtime / NANOS_PER_MS;
        self.log.append(|index, change| {
            let mut event = NodeEvent {
                index,
                change,
                at_unix_ms,
                until_unix_ms: at_unix_ms,
                kind,
                count: 0,
                sections: 0,
                lasted_ms: 0,
                ahead_ms: 0,
                not_after: 0,
                detail: String::new(),
            };
            fill(&mut event);
            event
        });
    }
}

impl KeptEvent for NodeEvent {
    const MOST: usize = MAX_NODE_EVENTS;
    const KINDS: usize = NodeEventKind::ALL.len();

    fn index(&self) -> u64 {
        self.index
    }

    fn change(&self) -> u64 {
        self.change
    }

    fn set_change(&mut self, change: u64) {
        self.change = change;
    }

    fn kind_number(&self) -> usize {
        self.kind as usize
    }
}

/// Returns a text without control characters, cut to [`MAX_DETAIL_BYTES`].
fn printable(text: &str) -> String {
    let text: String = text.chars().map(|one| if one.is_control() { ' ' } else { one }).collect();
    let end = text.floor_char_boundary(MAX_DETAIL_BYTES);
    text[..end].into()
}

#[cfg(test)]
mod tests;
