//! The metrics of one allocator: counted where it happens with one uncontended add, published once a second.
//!
//! Every core counts in a shard of its own, because a counter that all cores write costs more than giving a number out.

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
use tonic::Code;

/// More than the cores of the machines in use; threads beyond it share shards.
const SHARDS: usize = 64;

/// gRPC codes, OK included.
const CODES: usize = 17;

const VIAS: usize = Via::ALL.len();

/// Two cache lines, which processors fetch in pairs: neighbours never meet.
#[repr(align(128))]
struct Shard {
    /// By endpoint and code: numbers allocated under OK, items refused under the others.
    outcomes: [[AtomicU64; CODES]; VIAS],
}

/// How long an expired lease is reported.
const EXPIRIES_FOR: Duration = Duration::from_secs(600);

/// Most expired leases that are reported.
const MOST_EXPIRIES: usize = 100;

pub(crate) struct Counters {
    shards: Box<[Shard]>,
    /// What of the shards' sums the metrics show already. They are added up rather than set, because two allocators of
    /// one set in one process share them.
    published: Mutex<[[u64; CODES]; VIAS]>,
    set: String,
    forwarded: Count,
    wrong_owner: Count,
    /// In the order of [`RaiseOutcome`].
    raises: [Count; 4],
    /// Failed ones, then those that succeeded.
    renewals: [Count; 2],
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
    /// When the last leases expired, in nanoseconds of the boot clock, the newest last.
    expiries: Mutex<VecDeque<u64>>,
    withdrawals: Count,
    node: String,
    peers_unreached: Gauge,
    lease: Gauge,
    sections: Gauge,
    route_version: Gauge,
    slot_bytes: Gauge,
    ceiling_max: Gauge,
    /// Each with the end of the numbers that it counts to.
    headroom: [(u64, Gauge); 2],
}

/// A count of something that is rare next to numbers, kept for this allocator and for the process' metrics.
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

/// The outcome of a handover from this node.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HandoverOutcome {
    /// The section has its new owner.
    Made,
    /// The target did not take part; the section served on.
    Refused,
    /// It was frozen, and serves again.
    Thawed,
}

/// The outcome of the raises of one call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RaiseOutcome {
    /// The ceiling is committed.
    Raised,
    /// This node no longer owns the section under that epoch.
    Refused,
    /// No response that can be used; the section is queued again.
    Failed,
    /// The ceiling would rise too fast; the section is queued again when the store accepts the raise.
    Delayed,
}

/// Why numbers are skipped.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Burned {
    /// A section started at its ceiling, because its owner was lost.
    Takeover,
    /// A section started at its ceiling, because the copy of a handover was not used.
    Handover,
    /// A uid was advanced.
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

    /// Numbers were allocated.
    #[inline]
    pub(crate) fn given(&self, via: Via, numbers: u64) {
        self.shard().outcomes[via as usize][Code::Ok as usize].fetch_add(numbers, Relaxed);
    }

    /// Items were refused.
    pub(crate) fn refused(&self, via: Via, refusal: &Refusal, items: usize) {
        let code = Reason::of(refusal).code() as usize;
        self.shard().outcomes[via as usize][code].fetch_add(items as u64, Relaxed);
    }

    /// Items were sent to their owner.
    pub(crate) fn forwarded(&self, items: usize) {
        self.forwarded.add(items as u64);
    }

    /// Another node forwarded a call here, for a section that this node does not own.
    pub(crate) fn wrong_owner(&self) {
        self.wrong_owner.add(1);
    }

    /// A call waited at a ceiling.
    pub(crate) fn stalled(&self, time: Duration) {
        self.stall_seconds.record(time);
    }

    /// A call for the raises of so many sections took its time.
    pub(crate) fn raise_took(&self, time: Duration, sections: usize) {
        self.raise_seconds.record(time);
        self.raise_sections.record(sections as f64);
    }

    /// A raise moved a ceiling so far.
    pub(crate) fn raise_moved(&self, distance: u64) {
        self.raise_distance.record(distance as f64);
    }

    /// A renewal succeeded, or failed.
    pub(crate) fn renewed(&self, ok: bool) {
        self.renewals[usize::from(ok)].add(1);
    }

    /// The raises of so many sections had the same outcome.
    pub(crate) fn raise(&self, outcome: RaiseOutcome, sections: usize) {
        self.raises[outcome as usize].add(sections as u64);
    }

    /// Numbers allocated since the start.
    pub(crate) fn allocations(&self) -> u64 {
        Via::ALL.into_iter().map(|via| self.outcome(via, Code::Ok as usize)).sum()
    }

    /// Items forwarded since the start.
    pub(crate) fn forwards(&self) -> u64 {
        self.forwarded.total()
    }

    /// Ceilings raised since the start, and raises that were refused.
    pub(crate) fn raises(&self) -> (u64, u64) {
        let total = |outcome: RaiseOutcome| self.raises[outcome as usize].total();
        (total(RaiseOutcome::Raised), total(RaiseOutcome::Refused))
    }

    /// A handover ended.
    pub(crate) fn handover(&self, outcome: HandoverOutcome) {
        self.handovers[outcome as usize].add(1);
    }

    /// A section was paused for this time in a handover, from freeze at the source to serving at the target.
    pub(crate) fn handover_paused(&self, time: Duration) {
        self.handover_seconds.record(time);
    }

    /// So many sections of handovers to this node started at the ceiling.
    pub(crate) fn copies_lost(&self, sections: usize) {
        self.copies_lost.add(sections as u64);
    }

    /// So many numbers are skipped at most.
    pub(crate) fn burned(&self, cause: Burned, numbers: u64) {
        self.burned[cause as usize].add(numbers);
    }

    /// The lease expired, at a time of the boot clock.
    pub(crate) fn lease_expired(&self, boottime: u64) {
        self.leases_expired.add(1);
        let mut expiries = self.expiries.lock();
        expiries.push_back(boottime);
        let over = expiries.len().saturating_sub(MOST_EXPIRIES);
        expiries.drain(..over);
    }

    /// How often the lease expired lately, at a time of the boot clock.
    pub(crate) fn leases_expired(&self, boottime: u64) -> u32 {
        let lately = |at: &&u64| boottime.saturating_sub(**at) < EXPIRIES_FOR.as_nanos() as u64;
        self.expiries.lock().iter().filter(lately).count() as u32
    }

    /// The node withdrew.
    pub(crate) fn peers_unreached(&self, count: usize) {
        self.peers_unreached.set(count as f64);
    }

    pub(crate) fn withdrawn(&self) {
        self.withdrawals.add(1);
    }

    /// Brings the process' metrics up to date with the shards.
    pub(crate) fn publish(&self) {
        let mut published = self.published.lock();
        for via in Via::ALL {
            for (code, shown) in published[via as usize].iter_mut().enumerate() {
                let count = self.outcome(via, code);
                if count > *shown {
                    let code = code_name(Code::from_i32(code as i32));
                    let labels = [("set", self.set.clone()), ("via", via.name().into()), ("code", code.into())];
                    counter!(names::ALLOCATIONS_TOTAL, &labels).increment(count - *shown);
                    *shown = count;
                }
            }
        }
    }

    /// Publishes what is measured rather than counted.
    pub(crate) fn publish_state(&self, sections: usize, route_version: u64, lease: Duration) {
        self.lease.set(lease.as_secs_f64());
        self.sections.set(sections as f64);
        self.route_version.set(route_version as f64);
    }

    /// Publishes the highest ceiling of the sections served, and what is left above it.
    pub(crate) fn publish_ceiling(&self, highest: Seq) {
        self.ceiling_max.set(highest.0 as f64);
        for (end, headroom) in &self.headroom {
            headroom.set(end.saturating_sub(highest.0) as f64);
        }
    }

    /// Publishes how far this node's clock is ahead of the store's.
    pub(crate) fn clock_ahead(&self, ahead_ms: i64) {
        // Made here: an older store never states its clock, and 0 would claim that the two agree.
        let labels = [("set", self.set.clone()), ("node", self.node.clone())];
        gauge!(names::CLOCK_OFFSET_SECONDS, &labels).set(ahead_ms as f64 / 1_000.0);
    }

    /// Publishes the memory that counters take.
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

/// Threads take shards in turn, at their first count.
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

/// The name of a code in gRPC's own spelling.
fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}
