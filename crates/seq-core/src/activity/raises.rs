//! Ring of the last raises that a process requested. A chart of a section's ceiling over time is drawn from them.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::id::{SectionId, Seq};

/// Maximum number of raises that a ring keeps for all sections together. They take 512 KiB.
pub const MAX_RAISES: usize = 16_384;

/// A raise of a ceiling that the store committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raised {
    /// Section of the ceiling.
    pub section: SectionId,
    /// Time from the request of the raise to its response, in microseconds.
    pub took_us: u32,
    /// Time of the request, in milliseconds since any origin.
    pub requested_ms: u64,
    /// Ceiling before the raise.
    pub from: Seq,
    /// Committed ceiling.
    pub to: Seq,
}

const _: () = assert!(size_of::<Raised>() == 32);

/// Ring of the last raises of all sections, oldest first.
#[derive(Debug, Default)]
pub struct RaiseRing(VecDeque<Raised>);

impl RaiseRing {
    /// Adds a raise. If the ring is full, drops the oldest raise.
    pub fn push(&mut self, raised: Raised) {
        if self.0.len() == MAX_RAISES {
            self.0.pop_front();
        }
        self.0.push_back(raised);
    }

    /// Returns the last `limit` raises of a section, oldest first.
    #[must_use]
    pub fn of(&self, section: SectionId, limit: usize) -> Vec<Raised> {
        let newest = self.0.iter().rev().filter(|raised| raised.section == section).take(limit);
        let mut raises: Vec<Raised> = newest.copied().collect();
        raises.reverse();
        raises
    }
}
