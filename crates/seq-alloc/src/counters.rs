//! The books of one allocator: counted where it happens with one uncontended add, published once a second.
//!
//! Every core counts in a shard of its own, because a counter that all cores write costs more than giving a number out.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use metrics::{Histogram, Label, counter, gauge, histogram};
use seq_core::Refusal;
use seq_kit::frontend::Via;
use seq_kit::metrics as names;
use seq_proto::status;
use tonic::Code;

/// More than the cores of the machines in use; threads beyond it share shards.
const SHARDS: usize = 64;

/// gRPC codes, OK included.
const CODES: usize = 17;

const VIAS: usize = Via::ALL.len();

/// Two cache lines, which processors fetch in pairs: neighbours never meet.
#[derive(Debug)]
#[repr(align(128))]
struct Shard {
    /// By way and code: numbers given out under OK, items refused under the others.
    outcomes: [[AtomicU64; CODES]; VIAS],
}

#[derive(Debug)]
pub(crate) struct Counters {
    set: String,
    node: String,
    shards: Box<[Shard]>,
    forwarded: AtomicU64,
    wrong_owner: AtomicU64,
    raised: AtomicU64,
    raises_refused: AtomicU64,
    raises_failed: AtomicU64,
    renewals: [AtomicU64; 2],
    raise_seconds: Histogram,
    raise_sections: Histogram,
    raise_distance: Histogram,
    stall_seconds: Histogram,
}

/// What became of the raises of one call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RaiseOutcome {
    /// The ceiling is committed.
    Raised,
    /// The store says that this node no longer owns the section under that epoch.
    Refused,
    /// No usable answer; the section is in line again.
    Failed,
}

impl Counters {
    pub(crate) fn new(set: &str, node: &str) -> Counters {
        let shard = |_| Shard { outcomes: std::array::from_fn(|_| std::array::from_fn(|_| AtomicU64::new(0))) };
        Counters {
            set: set.to_owned(),
            node: node.to_owned(),
            shards: (0..SHARDS).map(shard).collect(),
            forwarded: AtomicU64::new(0),
            wrong_owner: AtomicU64::new(0),
            raised: AtomicU64::new(0),
            raises_refused: AtomicU64::new(0),
            raises_failed: AtomicU64::new(0),
            renewals: Default::default(),
            raise_seconds: histogram!(names::CEILING_RAISE_SECONDS, "set" => set.to_owned()),
            raise_sections: histogram!(names::RAISE_BATCH_SECTIONS, "set" => set.to_owned()),
            raise_distance: histogram!(names::ALLOCATIONS_PER_RAISE, "set" => set.to_owned()),
            stall_seconds: histogram!(names::CEILING_STALL_SECONDS, "set" => set.to_owned()),
        }
    }

    /// Numbers were given out.
    #[inline]
    pub(crate) fn given(&self, via: Via, numbers: u64) {
        self.shard().outcomes[via as usize][Code::Ok as usize].fetch_add(numbers, Relaxed);
    }

    /// Items were refused.
    pub(crate) fn refused(&self, via: Via, refusal: &Refusal, items: usize) {
        let code = status::verdict(refusal).code as usize;
        self.shard().outcomes[via as usize][code].fetch_add(items as u64, Relaxed);
    }

    /// Items were sent to their owner.
    pub(crate) fn forwarded(&self, items: usize) {
        self.forwarded.fetch_add(items as u64, Relaxed);
    }

    /// Another node took this one for an owner.
    pub(crate) fn wrong_owner(&self) {
        self.wrong_owner.fetch_add(1, Relaxed);
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

    /// A renewal was answered, or not.
    pub(crate) fn renewed(&self, ok: bool) {
        self.renewals[usize::from(ok)].fetch_add(1, Relaxed);
    }

    /// The raises of so many sections came out alike.
    pub(crate) fn raise(&self, outcome: RaiseOutcome, sections: usize) {
        let counter = match outcome {
            RaiseOutcome::Raised => &self.raised,
            RaiseOutcome::Refused => &self.raises_refused,
            RaiseOutcome::Failed => &self.raises_failed,
        };
        counter.fetch_add(sections as u64, Relaxed);
    }

    /// Numbers given out since the start.
    pub(crate) fn allocations(&self) -> u64 {
        Via::ALL.into_iter().map(|via| self.outcome(via, Code::Ok as usize)).sum()
    }

    /// Items forwarded since the start.
    pub(crate) fn forwards(&self) -> u64 {
        self.forwarded.load(Relaxed)
    }

    /// Ceilings raised since the start, and raises that were refused.
    pub(crate) fn raises(&self) -> (u64, u64) {
        (self.raised.load(Relaxed), self.raises_refused.load(Relaxed))
    }

    /// Brings the process' metrics up to date.
    pub(crate) fn publish(&self) {
        for via in Via::ALL {
            for code in 0..CODES {
                let count = self.outcome(via, code);
                if count > 0 {
                    let labels = self.labels([("via", via.name()), ("code", code_name(Code::from_i32(code as i32)))]);
                    counter!(names::ALLOCATIONS_TOTAL, labels).absolute(count);
                }
            }
        }
        let raises = [("committed", &self.raised), ("refused", &self.raises_refused), ("failed", &self.raises_failed)];
        for (outcome, count) in raises {
            counter!(names::CEILING_RAISES_TOTAL, self.labels([("outcome", outcome)])).absolute(count.load(Relaxed));
        }
        for (outcome, count) in ["failed", "ok"].into_iter().zip(&self.renewals) {
            counter!(names::RENEWALS_TOTAL, self.labels([("outcome", outcome)])).absolute(count.load(Relaxed));
        }
        counter!(names::FORWARDED_TOTAL, self.node_labels()).absolute(self.forwards());
        counter!(names::WRONG_OWNER_TOTAL, self.node_labels()).absolute(self.wrong_owner.load(Relaxed));
    }

    /// Publishes what is measured rather than counted.
    pub(crate) fn publish_state(&self, sections: usize, route_version: u64) {
        let mut labels = self.node_labels();
        labels.push(Label::from_static_parts("state", "served"));
        gauge!(names::SECTIONS, labels).set(sections as f64);
        gauge!(names::ROUTE_VERSION, "node" => self.node.clone()).set(route_version as f64);
    }

    /// Publishes the memory that counters take.
    pub(crate) fn publish_slots(&self, bytes: u64) {
        gauge!(names::SLOT_BYTES, self.node_labels()).set(bytes as f64);
    }

    fn labels<const N: usize>(&self, own: [(&'static str, &'static str); N]) -> Vec<Label> {
        let set = Label::new("set", self.set.clone());
        own.map(|(key, value)| Label::from_static_parts(key, value)).into_iter().chain([set]).collect()
    }

    fn node_labels(&self) -> Vec<Label> {
        vec![Label::new("set", self.set.clone()), Label::new("node", self.node.clone())]
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
