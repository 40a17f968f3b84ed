//! History of the writes of each section, which every member records: the number of raises that were applied, and the
//! amount by which the ceiling grew. The members record it themselves instead of asking the owners of the sections, so
//! the history is complete even if an owner fails.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use seq_core::activity::{Activity, Figures};
use seq_core::state::{RaiseCeilings, State};
use seq_core::{SectionId, Seq};
use seq_kit::report_limits::{Listing, ReportLimits, TooManyReports};
use seq_kit::wall_clock;
use seq_proto::activity::{Extract, Times};
use seq_proto::v1::{ListActivityRequest, ListActivityResponse};

/// Interval at which writes are recorded. At its finest resolution, the history has one column for each interval.
const INTERVAL: Duration = Duration::from_secs(5);

/// Maximum number of sections whose ceilings are read at once. It is small, because no log entry is applied during the
/// read.
const AT_ONCE: usize = 256;

/// History of the writes of each section since this member's start. Clones share the history.
#[derive(Clone, Debug)]
pub(crate) struct SectionWrites(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    started: Instant,
    /// Time on the wall clock at the member's start, in milliseconds since 1970. Later times are computed as this value
    /// plus the time since the start.
    started_ms: u64,
    /// Raises of each section, indexed by section. It is an array, so that an applied raise is counted fast.
    applied: Mutex<Vec<Applied>>,
    activity: Mutex<Activity>,
    /// Time between the last two recordings, in milliseconds.
    interval_ms: AtomicU32,
    limits: ReportLimits,
}

/// The raises of one section that this member has applied.
#[derive(Clone, Copy, Debug, Default)]
struct Applied {
    /// Number of raises since the writes were last recorded.
    writes: u32,
    /// Sum of the distances by which raises moved the ceiling since this member's start. It is at most the ceiling, so
    /// it does not overflow.
    raised: u64,
}

impl Default for SectionWrites {
    fn default() -> SectionWrites {
        SectionWrites(Arc::new(Inner {
            started: Instant::now(),
            started_ms: wall_clock::now_ms(),
            applied: Mutex::default(),
            activity: Mutex::default(),
            interval_ms: AtomicU32::new(INTERVAL.as_millis() as u32),
            limits: ReportLimits::default(),
        }))
    }
}

impl SectionWrites {
    /// Counts the accepted raises of an applied command. `before` has the ceilings of its sections before the command,
    /// and `after` the ceilings in its answer, which has none for a refused raise.
    pub(crate) fn applied(&self, command: &RaiseCeilings, before: &[Seq], after: &[Option<Seq>]) {
        let mut applied = self.0.applied.lock();
        for ((raise, before), after) in command.raises.iter().zip(before).zip(after) {
            let Some(after) = after else { continue };
            // The state has accepted the raise, so the section is in the layout and its number is bounded.
            let section = raise.section.0 as usize;
            if applied.len() <= section {
                applied.resize(section + 1, Applied::default());
            }
            let Applied { writes, raised } = &mut applied[section];
            *writes = writes.saturating_add(1);
            *raised += after.0 - before.0;
        }
    }

    /// Returns the sum of the distances by which the raises that this member has applied since its start moved the
    /// ceiling of a section.
    pub(crate) fn raised(&self, section: SectionId) -> u64 {
        self.0.applied.lock().get(section.0 as usize).map_or(0, |applied| applied.raised)
    }

    /// Records the writes once in each interval until the future is dropped. `read` returns the [`ceilings`] in the
    /// applied state, beginning with the section that it is given.
    pub(crate) async fn record(self, read: impl Fn(SectionId) -> Vec<(SectionId, Seq)>) {
        let mut before = BTreeMap::new();
        let mut tick = tokio::time::interval(INTERVAL);
        let mut at = self.now_ms();
        loop {
            tick.tick().await;
            let mut next = Some(SectionId(0));
            let mut now = BTreeMap::new();
            while let Some(first) = next {
                let part = read(first);
                next = part.last().filter(|_| part.len() == AT_ONCE).map(|(section, _)| SectionId(section.0 + 1));
                now.extend(part);
                tokio::task::yield_now().await;
            }
            let now_ms = self.now_ms();
            let ms = u32::try_from(now_ms - at).unwrap_or(u32::MAX);
            let is_long = now.len() > AT_ONCE;
            let writes = self.clone();
            let step = move || {
                writes.step(&before, &now, now_ms, ms);
                now
            };
            // Many sections take milliseconds, on a blocking thread. A simulation, which has only one thread, has few.
            let now = match is_long {
                true => tokio::task::spawn_blocking(step).await.ok(),
                false => Some(step()),
            };
            let Some(now) = now else { return };
            (before, at) = (now, now_ms);
        }
    }

    /// Records the writes between two readings of all ceilings, `before` and `now`, which are `ms` milliseconds apart.
    /// `now_ms` is the time of the second reading.
    fn step(&self, before: &BTreeMap<SectionId, Seq>, now: &BTreeMap<SectionId, Seq>, now_ms: u64, ms: u32) {
        let applied: Vec<u32> =
            self.0.applied.lock().iter_mut().map(|applied| std::mem::take(&mut applied.writes)).collect();
        let mut activity = self.0.activity.lock();
        for section in before.keys().filter(|section| !now.contains_key(section)) {
            activity.leave(*section);
        }
        for (section, ceiling) in now {
            let writes = applied.get(section.0 as usize).copied().unwrap_or_default();
            match before.get(section) {
                None => activity.enter(*section, false),
                // A section that was not in `before` arrived with its ceiling, so it is entered without a growth.
                Some(was) => {
                    let raised = ceiling.0.saturating_sub(was.0);
                    activity.record(*section, Figures { writes, raised, ms, numbers: 0 });
                }
            }
        }
        activity.close_until(now_ms);
        self.0.interval_ms.store(ms.max(1), Relaxed);
    }

    fn now_ms(&self) -> u64 {
        self.0.started_ms + u64::try_from(self.0.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns a permit for one response of `ListActivity`.
    ///
    /// # Errors
    /// [`TooManyReports`] if too many responses are being created.
    pub(crate) fn begin_listing(&self) -> Result<Listing, TooManyReports> {
        self.0.limits.begin_listing()
    }

    /// Returns the response of `ListActivity`. Creating it takes milliseconds.
    pub(crate) fn response(&self, request: &ListActivityRequest, set: &str, node: &str) -> ListActivityResponse {
        let times = Times::new(wall_clock::now_ms(), self.now_ms());
        let mut response = ListActivityResponse {
            set: set.to_owned(),
            node: node.to_owned(),
            clock_ms: times.now_ms(),
            period_ms: self.0.interval_ms.load(Relaxed),
            ..ListActivityResponse::default()
        };
        let extract = Extract::of(&self.0.activity.lock(), request, &times);
        extract.fill(request, &times, &mut response);
        response
    }
}

/// Returns the ceilings of the sections of a command in `state`, in the order of its raises. The ceiling of a section
/// that is not in the set is 0.
pub(crate) fn ceilings_of(state: &State, command: &RaiseCeilings) -> Vec<Seq> {
    let ceiling = |section| state.sections.resident(section).map_or(Seq::ZERO, |record| record.max_seq);
    command.raises.iter().map(|raise| ceiling(raise.section)).collect()
}

/// Returns the ceilings of at most [`AT_ONCE`] sections of the set, beginning with the section `first`.
pub(crate) fn ceilings(state: &State, first: SectionId) -> Vec<(SectionId, Seq)> {
    state.sections.residents_from(first).take(AT_ONCE).map(|(section, record)| (section, record.max_seq)).collect()
}

#[cfg(test)]
mod tests {
    use seq_core::activity::Layer;
    use seq_core::state::Raise;
    use seq_core::{Epoch, Incarnation, NodeId};

    use super::*;

    /// Applies raises of sections from one ceiling to another; a raise without the other one is refused.
    fn raise(writes: &SectionWrites, raises: &[(u32, u64, Option<u64>)]) {
        let command = RaiseCeilings {
            node: NodeId(1),
            incarnation: Incarnation(1),
            raises: raises
                .iter()
                .map(|(section, ..)| Raise { section: SectionId(*section), epoch: Epoch(1), to: Seq(1) })
                .collect(),
        };
        let before: Vec<Seq> = raises.iter().map(|(_, from, _)| Seq(*from)).collect();
        let after: Vec<Option<Seq>> = raises.iter().map(|(.., to)| to.map(Seq)).collect();
        writes.applied(&command, &before, &after);
    }

    #[test]
    fn raises_are_counted_and_distances_are_those_of_the_ceilings() {
        let writes = SectionWrites::default();
        let ceilings = |all: &[(u32, u64)]| all.iter().map(|(id, to)| (SectionId(*id), Seq(*to))).collect();
        writes.step(&BTreeMap::new(), &ceilings(&[(1, 10), (2, 10), (3, 5)]), 1_000, 0);
        raise(&writes, &[(1, 10, Some(20)), (2, 10, None)]);
        raise(&writes, &[(1, 20, Some(30))]);
        // Section 3 departed, and 4 arrived with a ceiling of its own.
        let before = ceilings(&[(1, 10), (2, 10), (3, 5)]);
        writes.step(&before, &ceilings(&[(1, 30), (2, 10), (4, 900)]), 6_000, 5_000);
        assert_eq!([1, 2, 9].map(|section| writes.raised(SectionId(section))), [20, 0, 0], "since the start");
        let found = writes.0.activity.lock().all_figures(Layer::Writes);
        assert_eq!(found, [(SectionId(1), Figures { writes: 2, raised: 20, ms: 5_000, numbers: 0 })]);
        let request = ListActivityRequest { layer: 2, top: 9, ..ListActivityRequest::default() };
        let response = writes.response(&request, "im-a", "s1");
        assert_eq!((response.top.len(), response.top[0].raised, &*response.node), (1, 20, "s1"));
        assert_eq!(writes.response(&ListActivityRequest { top: 9, ..request }, "im-a", "s1").top.len(), 1);
    }
}
