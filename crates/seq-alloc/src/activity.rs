//! Activity of the sections that this node owns: how many numbers each section allocated, and how often its ceiling was
//! raised, over time.
//!
//! The code that allocates a number counts nothing, so that it stays fast. Instead a task slowly reads the slots of all
//! sections ([`reader`]) and adds them up for each section. The difference between the sums of two readings of a
//! section is the count of numbers that the section allocated between these readings. A raise is counted when this node
//! adopts the store's response to it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use seq_core::activity::{Activity, Figures, RaiseRing, Raised};
use seq_core::lease::Clocks;
use seq_core::{SectionId, Seq};
use seq_kit::report_limits::ReportLimits;
use seq_proto::activity::{Extract, Times};
use seq_proto::v1::ListActivityRequest;

mod order_check;
pub(crate) mod reader;

/// Nanoseconds of a millisecond.
const MS: u64 = 1_000_000;

/// Activity of this node's sections since the node was started.
#[derive(Debug)]
pub(crate) struct NodeActivity {
    /// Clocks at the node's start. The times of recorded raises, and of the periods for which activity is recorded, are
    /// derived from them ([`NodeActivity::ms`]).
    origin: Clocks,
    recorded: Mutex<Recorded>,
    /// Bytes of the pages of slots of all owned sections, as counted in the reader's last complete pass. A page exists
    /// only after a uid in it was used.
    slot_bytes: AtomicU64,
    /// Duration of the reader's last complete pass, in milliseconds.
    pass_ms: AtomicU32,
    /// Limits on reports.
    pub(crate) limits: ReportLimits,
}

#[derive(Debug, Default)]
struct Recorded {
    activity: Activity,
    raises: RaiseRing,
    /// Raises of each section that are not yet added to the section's recorded figures. There are at most as many
    /// entries as the layout has sections.
    unrecorded: BTreeMap<SectionId, Figures>,
}

impl NodeActivity {
    pub(crate) fn new(origin: Clocks) -> NodeActivity {
        NodeActivity {
            origin,
            recorded: Mutex::default(),
            slot_bytes: AtomicU64::new(0),
            pass_ms: AtomicU32::new(reader::MIN_PASS_MS),
            limits: ReportLimits::default(),
        }
    }

    /// Converts a time of the boot clock, in nanoseconds, to milliseconds since 1970. The wall clock is read only once,
    /// at the node's start, so the result does not jump when the wall clock is set.
    pub(crate) fn ms(&self, boottime: u64) -> u64 {
        self.origin.realtime / MS + boottime.saturating_sub(self.origin.boottime) / MS
    }

    /// Records the raises of a request to the store. Each item of `raises` is a section with its ceiling
    /// before and after the raise. The request was sent at `requested`, and its response arrived at `now`.
    pub(crate) fn raised(&self, raises: impl Iterator<Item = (SectionId, (Seq, Seq))>, requested: Clocks, now: Clocks) {
        let took_ns = now.boottime.saturating_sub(requested.boottime);
        let took_us = u32::try_from(took_ns / 1_000).unwrap_or(u32::MAX);
        let requested_ms = self.ms(requested.boottime);
        let mut recorded = self.recorded.lock();
        for (section, (from, to)) in raises {
            recorded.raises.push(Raised { section, took_us, requested_ms, from, to });
            let unrecorded = recorded.unrecorded.entry(section).or_default();
            unrecorded.writes = unrecorded.writes.saturating_add(1);
            unrecorded.raised = unrecorded.raised.saturating_add(to.0.saturating_sub(from.0));
        }
    }

    /// Returns the bytes of the pages of slots of all owned sections, as counted in the reader's last complete pass.
    pub(crate) fn slot_bytes(&self) -> u64 {
        self.slot_bytes.load(Relaxed)
    }

    /// Returns the [`Times`] with which times from [`NodeActivity::ms`] are converted to times of the wall clock. `now`
    /// has the present time of the wall clock.
    pub(crate) fn times(&self, now: Clocks) -> Times {
        Times::new(now.realtime / MS, self.ms(now.boottime))
    }

    /// Returns the duration of the reader's last complete pass, in milliseconds.
    pub(crate) fn pass_ms(&self) -> u32 {
        self.pass_ms.load(Relaxed)
    }

    /// Copies the part of the activity that a request needs.
    pub(crate) fn extract(&self, request: &ListActivityRequest, times: &Times) -> Extract {
        Extract::of(&self.recorded.lock().activity, request, times)
    }

    /// Returns the figures of a section, and its last raises.
    pub(crate) fn section(&self, section: SectionId, raises: usize) -> (Option<Figures>, Vec<Raised>) {
        let recorded = self.recorded.lock();
        (recorded.activity.figures(section), recorded.raises.of(section, raises))
    }

    /// Adopts the results of a pass.
    pub(crate) fn end_pass(&self, slot_bytes: u64, ms: u64) {
        self.slot_bytes.store(slot_bytes, Relaxed);
        self.pass_ms.store(u32::try_from(ms).unwrap_or(u32::MAX), Relaxed);
    }
}
