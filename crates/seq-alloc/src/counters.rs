//! Metrics of one allocator. Each event is counted where it occurs, with one uncontended atomic add. A task publishes
//! the counts once a second.
//!
//! Each thread has its own shard of counters, because a counter that all cores write would cost more than the
//! allocation of a number.

use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use parking_lot::Mutex;
use seq_api::metrics as names;
use seq_api::service::Via;
use seq_core::{Refusal, Seq};
use seq_proto::Reason;
use seq_proto::reason::code_name;
use tonic::Code;

use crate::fault_metrics::FaultMetrics;
use crate::key_metrics::KeyMetrics;
use crate::lane_metrics::LaneMetrics;

/// Number of shards of counters. It is larger than the number of cores of usual machines. If there are more threads
/// than shards, several threads share a shard.
const SHARDS: usize = 64;

/// Number of gRPC codes, including OK.
const CODES: usize = 17;

const VIAS: usize = Via::ALL.len();

/// Counters of one thread. A shard is aligned to two cache lines, because processors fetch cache lines in pairs, and no
/// two shards may be in the same pair.
#[repr(align(128))]
struct Shard {
    /// Counts by endpoint and gRPC code. For the code OK the count is of allocated numbers, and for every other code it
    /// is of refused items.
    outcomes: [[AtomicU64; CODES]; VIAS],
}

/// Time after the expiry of a lease during which reports count this expiry.
const EXPIRIES_FOR: Duration = Duration::from_secs(600);

/// Limit on the expired leases that are kept for reports.
const MOST_EXPIRIES: usize = 100;

pub(crate) struct Counters {
    shards: Box<[Shard]>,
    /// Sums of the shards at the last publication, which the process' metrics already include. The metrics are
    /// incremented and not set, because two allocators of one set in one process share the same metrics.
    published: Mutex<[[u64; CODES]; VIAS]>,
    set: String,
    forwarded: Count,
    wrong_owner: Count,
    /// In the order of [`RaiseOutcome`].
    raises: [Count; 4],
    /// Failed renewals, then successful renewals.
    renewals: [Count; 2],
    clamped: Count,
    pub(crate) lanes: LaneMetrics,
    pub(crate) faults: FaultMetrics,
    pub(crate) keys: KeyMetrics,
    raise_seconds: Histogram,
    raise_sections: Histogram,
    raise_distance: Histogram,
    stall_seconds: Histogram,
    /// In the order of [`HandoverOutcome`].
    handovers: [Count; 3],
    handover_seconds: Histogram,
    copies_lost: Count,
    /// In the order of [`Burned`].
    burned: [Count; 3],
    leases_expired: Count,
    /// Times of the most recent expiries of the lease, in nanoseconds of the boot clock, in ascending order.
    expiries: Mutex<VecDeque<u64>>,
    withdrawals: Count,
    node: String,
    peers_unreached: Gauge,
    lease: Gauge,
    sections: Gauge,
    route_version: Gauge,
    slot_bytes: Gauge,
    ceiling_max: Gauge,
    /// Gauges of the distances from the highest ceiling to 2^53 and to 2^63. Each gauge is stored with its limit.
    headroom: [(u64, Gauge); 2],
}

/// Count of events that are much rarer than allocations. The count is kept twice: for this allocator, and in the
/// process' metrics.
struct Count {
    total: AtomicU64,
    metric: Counter,
}

impl Count {
    fn new(metric: Counter) -> Count {
        Count { total: AtomicU64::new(0), metric }
    }

    fn add(&self, count: u64) {
        self.total.fetch_add(count, Relaxed);
        self.metric.increment(count);
    }

    fn total(&self) -> u64 {
        self.total.load(Relaxed)
    }
}

impl fmt::Debug for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counters").field("set", &self.set).finish_non_exhaustive()
    }
}

/// Outcome of a handover from this node.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HandoverOutcome {
    /// Commit of the handover by the store, so that the section has its new owner.
    Made,
    /// Refusal of the prepare by the target, so that this node continued to serve the section without a freeze.
    Refused,
    /// Failure after the freeze, after which this node serves the section again.
    Thawed,
}

/// Outcome of a call's raises.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RaiseOutcome {
    /// Committed ceiling.
    Raised,
    /// Refusal by the store, because this node no longer owns the section under the epoch in the request.
    Refused,
    /// Lack of a usable response from the store, after which the section is enqueued again.
    Failed,
    /// Refusal by the store, because the ceiling would rise too fast. The section is enqueued again for the time at
    /// which the store accepts the raise.
    Delayed,
}

/// Cause for which numbers are skipped.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Burned {
    /// Start of a section at its ceiling after a takeover, because its previous owner failed.
    Takeover,
    /// Start of a section at its ceiling after a handover, because this node could not use the handover's copy.
    Handover,
    /// Advance of a uid.
    Advance,
}

impl Counters {
    pub(crate) fn new(set: &str, node: &str) -> Counters {
        let shard = |_| Shard { outcomes: std::array::from_fn(|_| std::array::from_fn(|_| AtomicU64::new(0))) };
        let (set, node) = (set.to_owned(), node.to_owned());
        let raises = ["committed", "refused", "failed", "delayed"];
        let raises = raises.map(|is| counter!(names::CEILING_RAISES_TOTAL, "set" => set.clone(), "outcome" => is));
        let renewals = ["failed", "ok"];
        let renewals = renewals.map(|is| counter!(names::RENEWALS_TOTAL, "set" => set.clone(), "outcome" => is));
        let handovers = ["made", "refused", "thawed"];
        let handovers = handovers.map(|is| counter!(names::HANDOVERS_TOTAL, "set" => set.clone(), "outcome" => is));
        let burned = ["takeover", "handover", "advance"];
        let burned = burned.map(|by| counter!(names::BURNED_SEQUENCES_TOTAL, "set" => set.clone(), "cause" => by));
        Counters {
            lanes: LaneMetrics::new(&set, &node),
            faults: FaultMetrics::new(&set, &node),
            keys: KeyMetrics::new(&set, &node),
            handovers: handovers.map(Count::new),
            handover_seconds: histogram!(names::HANDOVER_PAUSE_SECONDS, "set" => set.clone()),
            copies_lost: Count::new(counter!(names::HANDOVER_COPIES_LOST_TOTAL, "set" => set.clone())),
            burned: burned.map(Count::new),
            leases_expired: Count::new(counter!(names::LEASE_EXPIRED_TOTAL, "node" => node.clone())),
            expiries: Mutex::default(),
            withdrawals: Count::new(counter!(names::WITHDRAWALS_TOTAL, "node" => node.clone())),
            peers_unreached: gauge!(names::PEERS_UNREACHED, "node" => node.clone()),
            lease: gauge!(names::LEASE_REMAINING_SECONDS, "node" => node.clone()),
            shards: (0..SHARDS).map(shard).collect(),
            published: Mutex::default(),
            forwarded: Count::new(counter!(names::FORWARDED_TOTAL, "set" => set.clone(), "node" => node.clone())),
            wrong_owner: Count::new(counter!(names::WRONG_OWNER_TOTAL, "set" => set.clone(), "node" => node.clone())),
            raises: raises.map(Count::new),
            renewals: renewals.map(Count::new),
            clamped: Count::new(counter!(names::RAISES_CLAMPED_TOTAL, "set" => set.clone(), "node" => node.clone())),
            raise_seconds: histogram!(names::CEILING_RAISE_SECONDS, "set" => set.clone()),
            raise_sections: histogram!(names::RAISE_BATCH_SECTIONS, "set" => set.clone()),
            raise_distance: histogram!(names::ALLOCATIONS_PER_RAISE, "set" => set.clone()),
            stall_seconds: histogram!(names::CEILING_STALL_SECONDS, "set" => set.clone()),
            sections: gauge!(
                names::SECTIONS, "set" => set.clone(), "node" => node.clone(), "state" => "served"
            ),
            route_version: gauge!(names::ROUTE_VERSION, "node" => node.clone()),
            slot_bytes: gauge!(names::SLOT_BYTES, "set" => set.clone(), "node" => node.clone()),
            ceiling_max: gauge!(names::CEILING_MAX, "set" => set.clone(), "node" => node.clone()),
            headroom: [(1 << 53, "2^53"), (1 << 63, "2^63")].map(|(end, below)| {
                (end, gauge!(names::CEILING_HEADROOM, "set" => set.clone(), "node" => node.clone(), "below" => below))
            }),
            set,
            node,
        }
    }

    /// Counts allocated numbers.
    #[inline]
    pub(crate) fn given(&self, via: Via, numbers: u64) {
        self.shard().outcomes[via as usize][Code::Ok as usize].fetch_add(numbers, Relaxed);
    }

    /// Counts refused items.
    pub(crate) fn refused(&self, via: Via, refusal: &Refusal, items: usize) {
        let code = Reason::of(refusal).code() as usize;
        self.shard().outcomes[via as usize][code].fetch_add(items as u64, Relaxed);
    }

    /// Counts items that are sent to their owners.
    pub(crate) fn forwarded(&self, items: usize) {
        self.forwarded.add(items as u64);
    }

    /// Counts a call that another node forwarded to this node although this node does not own the section.
    pub(crate) fn wrong_owner(&self) {
        self.wrong_owner.add(1);
    }

    /// Records how long a call waited for a ceiling to be raised.
    pub(crate) fn stalled(&self, time: Duration) {
        self.stall_seconds.record(time);
    }

    /// Records the duration of a call to the store that raised the ceilings of `sections` sections.
    pub(crate) fn raise_took(&self, time: Duration, sections: usize) {
        self.raise_seconds.record(time);
        self.raise_sections.record(sections as f64);
    }

    /// Records the distance by which a raise moved a ceiling.
    pub(crate) fn raise_moved(&self, distance: u64) {
        self.raise_distance.record(distance as f64);
    }

    /// Counts a renewal that succeeded or failed.
    pub(crate) fn renewed(&self, ok: bool) {
        self.renewals[usize::from(ok)].add(1);
    }

    /// Counts the raises of `sections` sections with the same outcome.
    pub(crate) fn raise(&self, outcome: RaiseOutcome, sections: usize) {
        self.raises[outcome as usize].add(sections as u64);
    }

    /// Counts `sections` raises of ceilings in ticks that the store cut short because this node's clock is ahead of the
    /// store's clock.
    pub(crate) fn clamped(&self, sections: usize) {
        self.clamped.add(sections as u64);
    }

    /// Returns the numbers allocated since the start.
    pub(crate) fn allocations(&self) -> u64 {
        Via::ALL.into_iter().map(|via| self.outcome(via, Code::Ok as usize)).sum()
    }

    /// Returns the items forwarded since the start.
    pub(crate) fn forwards(&self) -> u64 {
        self.forwarded.total()
    }

    /// Returns two counts since the start of the allocator: of raised ceilings, and of refused raises.
    pub(crate) fn raises(&self) -> (u64, u64) {
        let total = |outcome: RaiseOutcome| self.raises[outcome as usize].total();
        (total(RaiseOutcome::Raised), total(RaiseOutcome::Refused))
    }

    /// Counts a handover that ended.
    pub(crate) fn handover(&self, outcome: HandoverOutcome) {
        self.handovers[outcome as usize].add(1);
    }

    /// Records how long a handover paused its section. The pause lasts from the freeze at the source until the target
    /// serves the section.
    pub(crate) fn handover_paused(&self, time: Duration) {
        self.handover_seconds.record(time);
    }

    /// Counts sections that were handed over to this node but started at their ceilings, because this node could not
    /// use the copies.
    pub(crate) fn copies_lost(&self, sections: usize) {
        self.copies_lost.add(sections as u64);
    }

    /// Counts skipped numbers by the cause of the skip. `numbers` is an upper bound of the count of skipped numbers.
    pub(crate) fn burned(&self, cause: Burned, numbers: u64) {
        self.burned[cause as usize].add(numbers);
    }

    /// Counts an expiry of the lease at `boottime`, in nanoseconds of the boot clock.
    pub(crate) fn lease_expired(&self, boottime: u64) {
        self.leases_expired.add(1);
        let mut expiries = self.expiries.lock();
        expiries.push_back(boottime);
        let over = expiries.len().saturating_sub(MOST_EXPIRIES);
        expiries.drain(..over);
    }

    /// Returns how often the lease expired in the period [`EXPIRIES_FOR`] before `boottime`, a time in nanoseconds of
    /// the boot clock.
    pub(crate) fn leases_expired(&self, boottime: u64) -> u32 {
        let lately = |at: &&u64| boottime.saturating_sub(**at) < EXPIRIES_FOR.as_nanos() as u64;
        self.expiries.lock().iter().filter(lately).count() as u32
    }

    /// Publishes the number of peers that this node cannot reach.
    pub(crate) fn peers_unreached(&self, count: usize) {
        self.peers_unreached.set(count as f64);
    }

    /// Counts a withdrawal of this node.
    pub(crate) fn withdrawn(&self) {
        self.withdrawals.add(1);
    }

    /// Adds to the process' metrics what all shards have counted since the last call of this function.
    pub(crate) fn publish(&self) {
        let mut published = self.published.lock();
        for via in Via::ALL {
            for (code, shown) in published[via as usize].iter_mut().enumerate() {
                let count = self.outcome(via, code);
                if count > *shown {
                    let code = code_name(Code::from_i32(code as i32));
                    let labels = [("set", self.set.clone()), ("via", via.name().into()), ("code", code)];
                    counter!(names::ALLOCATIONS_TOTAL, &labels).increment(count - *shown);
                    *shown = count;
                }
            }
        }
    }

    /// Publishes values that are measured and not counted.
    pub(crate) fn publish_state(&self, sections: usize, route_version: u64, lease: Duration) {
        self.lease.set(lease.as_secs_f64());
        self.sections.set(sections as f64);
        self.route_version.set(route_version as f64);
    }

    /// Publishes the highest ceiling of the served sections, and its distances to 2^53 and to 2^63.
    pub(crate) fn publish_ceiling(&self, highest: Seq) {
        self.ceiling_max.set(highest.0 as f64);
        for (end, headroom) in &self.headroom {
            headroom.set(end.saturating_sub(highest.0) as f64);
        }
    }

    /// Publishes the milliseconds by which this node's clock is ahead of the store's clock.
    pub(crate) fn clock_ahead(&self, ahead_ms: i64) {
        // The gauge is created here and not at the start of the allocator, because a store of an older release never
        // states its clock. A value of 0 would then claim that the clocks agree.
        let labels = [("set", self.set.clone()), ("node", self.node.clone())];
        gauge!(names::CLOCK_OFFSET_SECONDS, &labels).set(ahead_ms as f64 / 1_000.0);
    }

    /// Publishes the memory of the pages of slots.
    pub(crate) fn publish_slots(&self, bytes: u64) {
        self.slot_bytes.set(bytes as f64);
    }

    fn outcome(&self, via: Via, code: usize) -> u64 {
        self.shards.iter().map(|shard| shard.outcomes[via as usize][code].load(Relaxed)).sum()
    }

    #[inline]
    fn shard(&self) -> &Shard {
        &self.shards[shard_of_thread() % SHARDS]
    }
}

/// Returns the number of the current thread, by which the thread's shard is selected. A thread gets the next free
/// number at its first call of this function.
#[inline]
fn shard_of_thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    const NONE: usize = usize::MAX;
    thread_local! {
        static MINE: Cell<usize> = const { Cell::new(NONE) };
    }
    MINE.with(|mine| {
        if mine.get() == NONE {
            mine.set(NEXT.fetch_add(1, Relaxed));
        }
        mine.get()
    })
}
