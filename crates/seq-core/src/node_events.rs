//! The event log of one process. It shows people the conditions of the process itself, such as the loss of its lease,
//! which no replicated log contains.
//!
//! The process reports [`Fact`]s, and [`NodeEventLog`] decides which of them are events: a condition is an event when
//! it is lost and when it holds again, and refused requests are at most one event a minute for each kind, with a count.
//! So a stranger whose requests are refused cannot fill the log.
//!
//! **Invariant:** indexes of events grow by one and never repeat within one process. At most [`MAX_NODE_EVENTS`] events
//! are kept. If there are more, the oldest event of the most frequent kind is removed, so that refused requests do not
//! push out the loss of a lease.
//!
//! No decision depends on an event.

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;

use crate::lease::Clocks;

mod condition;
mod kinds;

use condition::{Change, Condition};
pub use kinds::{NodeEventKind, Refusals};

/// Maximum number of events that a process keeps. It is limited because the log is in memory only; the events of some
/// hours of trouble fit, and take less than 256 KiB.
pub const MAX_NODE_EVENTS: usize = 512;

/// Maximum number of bytes of [`NodeEvent::detail`]. The beginning of an error is enough to search the log for it.
pub const MAX_DETAIL_BYTES: usize = 256;

/// Time, in nanoseconds, for which refusals of one kind are counted in one event.
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
    /// change, and so is counting further refusals in it.
    pub change: u64,
    /// Time of the event by the wall clock of this machine, in milliseconds since 1970.
    pub at_unix_ms: u64,
    /// Time of the last refusal that the event counts, in milliseconds since 1970; for other kinds equal to
    /// `at_unix_ms`.
    pub until_unix_ms: u64,
    /// The kind.
    pub kind: NodeEventKind,
    /// Number of refusals, from 1 on; 0 for other kinds.
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
    /// Requests or connections were refused.
    Refused {
        /// The kind of refusal.
        refusals: Refusals,
        /// Number of refusals since the last report.
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
    /// Index of the newest event; 0 for none.
    last: u64,
    /// Number of the newest change of an event; 0 for none.
    changes: u64,
    /// The kept events, in order of index.
    kept: VecDeque<NodeEvent>,
    lease: Condition,
    quorum: Condition,
    disk: Condition,
    /// End of the validity of the last certificate about which the log has a warning, in seconds since 1970.
    warned_of: Option<u64>,
    /// For each kind of refusals, the event that counts them and the boot clock at its beginning, in nanoseconds.
    counted: [Option<(u64, u64)>; Refusals::ALL.len()],
}

impl NodeEventLog {
    /// Creates the log of a process that starts at the time `now`.
    #[must_use]
    pub fn new(now: Clocks) -> NodeEventLog {
        NodeEventLog {
            clocks: now,
            begun_unix_ms: now.realtime / NANOS_PER_MS,
            last: 0,
            changes: 0,
            kept: VecDeque::new(),
            lease: Condition::Unknown,
            quorum: Condition::Unknown,
            // A member starts only after its disk has completed writes.
            disk: Condition::Holds,
            warned_of: None,
            counted: [None; Refusals::ALL.len()],
        }
    }

    /// Adds the events that follow from a fact, which the process learned at the time `now`. Returns the kind of the
    /// event of this fact, for a log line about the fact; `None` if the fact is no event, or none of its own.
    pub fn note(&mut self, now: Clocks, fact: Fact<'_>) -> Option<NodeEventKind> {
        self.check_clock(now);
        match fact {
            Fact::Time => return None,
            Fact::Lease { holds, expired, sections } => {
                match self.lease.note(holds, now.boottime.saturating_sub(expired))? {
                    Change::Lost => self.append(NodeEventKind::LeaseLost, |event| event.sections = sections),
                    Change::Regained { lasted_ms } => self.regained(NodeEventKind::LeaseRegained, lasted_ms),
                }
            }
            Fact::Quorum { holds, status } => match self.quorum.note(holds, now.boottime)? {
                Change::Lost => self.detailed(NodeEventKind::QuorumLost, status),
                Change::Regained { lasted_ms } => self.regained(NodeEventKind::QuorumRegained, lasted_ms),
            },
            Fact::Disk { responds } => match self.disk.note(responds, now.boottime)? {
                Change::Lost => self.append(NodeEventKind::DiskSlow, |_| {}),
                Change::Regained { lasted_ms } => self.regained(NodeEventKind::DiskResponds, lasted_ms),
            },
            Fact::Halted { cause } => self.detailed(NodeEventKind::Halted, cause),
            Fact::Reloaded { changes } => self.detailed(NodeEventKind::Reloaded, changes),
            Fact::ReloadFailed { error } => self.detailed(NodeEventKind::ReloadFailed, error),
            Fact::Certificate { not_after, is_new } => return self.note_certificate(now, not_after, is_new),
            Fact::Refused { refusals, count } => {
                self.count(now, refusals, count);
                return None;
            }
        }
        self.kept.back().map(|event| event.kind)
    }

    /// Returns at most `limit` of the kept events whose [`NodeEvent::change`] is above `after`.
    #[must_use]
    pub fn page(&self, after: u64, limit: usize) -> Page {
        let mut changed: Vec<&NodeEvent> = self.kept.iter().filter(|event| event.change > after).collect();
        changed.sort_unstable_by_key(|event| event.change);
        let more = changed.len() > limit;
        let events: Vec<NodeEvent> = changed.into_iter().take(limit).cloned().collect();
        let next = if more { events.last().map_or(after, |event| event.change) } else { self.changes };
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

    fn note_certificate(&mut self, now: Clocks, not_after: u64, is_new: bool) -> Option<NodeEventKind> {
        let certificate = |event: &mut NodeEvent| event.not_after = not_after;
        if is_new {
            self.append(NodeEventKind::CertificateReloaded, certificate);
        }
        let is_close = not_after.saturating_sub(now.realtime / NANOS) < CERTIFICATE_WARNING_SECONDS;
        if is_close && self.warned_of != Some(not_after) {
            self.warned_of = Some(not_after);
            self.append(NodeEventKind::CertificateExpiring, certificate);
        }
        is_new.then_some(NodeEventKind::CertificateReloaded)
    }

    /// Counts refusals in the event of the last minute, or in a new event.
    fn count(&mut self, now: Clocks, refusals: Refusals, count: u64) {
        if count == 0 {
            return;
        }
        let counted = self.counted[refusals.place()];
        let Some((index, _)) = counted.filter(|(_, since)| now.boottime.saturating_sub(*since) < COUNTED_FOR) else {
            self.append(refusals.kind(), |event| event.count = count);
            self.counted[refusals.place()] = Some((self.last, now.boottime));
            return;
        };
        // If the event is no longer kept, the minute still ends before the next event.
        if let Some(event) = self.kept.iter_mut().rev().find(|event| event.index == index) {
            self.changes += 1;
            event.change = self.changes;
            event.count = event.count.saturating_add(count);
            event.until_unix_ms = now.realtime / NANOS_PER_MS;
        }
    }

    fn regained(&mut self, kind: NodeEventKind, lasted_ms: u64) {
        self.append(kind, |event| event.lasted_ms = lasted_ms);
    }

    fn detailed(&mut self, kind: NodeEventKind, detail: &str) {
        self.append(kind, |event| event.detail = printable(detail));
    }

    /// Appends an event at the time of the last reading of the clocks. The function `fill` sets its fields.
    fn append(&mut self, kind: NodeEventKind, fill: impl FnOnce(&mut NodeEvent)) {
        (self.last, self.changes) = (self.last + 1, self.changes + 1);
        let at_unix_ms = self.clocks.realtime / NANOS_PER_MS;
        let mut event = NodeEvent {
            index: self.last,
            change: self.changes,
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
        self.kept.push_back(event);
        if self.kept.len() > MAX_NODE_EVENTS {
            self.remove_one();
        }
    }

    /// Removes the oldest event of the kind that has the most events.
    fn remove_one(&mut self) {
        let of_kind = |kind: NodeEventKind| self.kept.iter().filter(|event| event.kind == kind).count();
        let most = NodeEventKind::ALL.iter().copied().max_by_key(|kind| of_kind(*kind));
        let oldest = self.kept.iter().position(|event| Some(event.kind) == most);
        oldest.and_then(|place| self.kept.remove(place));
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
