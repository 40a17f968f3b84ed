//! A series of a fake cluster, with counters in memory.

use std::time::SystemTime;

use seq_core::layout::{Lanes, TickClock};
use seq_core::{Count, Seq};
use seq_ids::{Id, Shape};
use seq_proto::{Reason, v1};
use tonic::Status;

/// Sections of a series with many lanes.
const SECTIONS: u32 = 16;

/// A series of a fake cluster. It never runs out of ids, its lanes never rest, and it uses the clock of the system.
#[derive(Debug)]
pub(super) struct FakeSeries {
    name: String,
    shape: Shape,
    named_lanes: bool,
    /// The last number of each lane.
    last: Vec<u64>,
    /// Lane that was chosen for the last call whose caller named no lane; 0 before the first such call.
    next_lane: u32,
}

impl FakeSeries {
    pub(super) fn new(name: &str, shape: Shape, named_lanes: bool) -> FakeSeries {
        FakeSeries { name: name.to_owned(), shape, named_lanes, last: vec![0; shape.lanes() as usize], next_lane: 0 }
    }

    /// Returns the lanes.
    pub(super) fn lanes(&self) -> Lanes {
        let count = self.shape.lanes();
        let clock = match self.shape {
            Shape::Counter(_) => None,
            Shape::Timed(timed) => {
                let (epoch_ms, unit_ms, seq_bits) = (timed.epoch_ms, timed.unit_ms, timed.seq_bits);
                Some(TickClock { epoch_ms, unit_ms, seq_bits, lead_ms: 60_000 })
            }
        };
        Lanes { count, per_section: count.div_ceil(SECTIONS), start: Seq::ZERO, margin: 0, clock, keys: None }
    }

    /// Returns the name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn take(&mut self, count: Count, lane: Option<u32>, after: u64) -> Result<v1::NextIdsResponse, Status> {
        let lane = match (lane, self.named_lanes) {
            (None, true) => return Err(Reason::LaneRequired.status(format!("series {:?} needs a lane", self.name))),
            (Some(_), false) => return Err(Reason::LaneNotAllowed.status("the lane is named")),
            (Some(lane), true) => lane,
            (None, false) => {
                self.next_lane = (self.next_lane + 1) % self.shape.lanes();
                self.next_lane
            }
        };
        let last = self.last.get(lane as usize).ok_or_else(|| Reason::LaneOutOfRange.status("no such lane"))?;
        let (tick, step) = match self.shape {
            Shape::Counter(counter) => (0, counter.increment),
            Shape::Timed(timed) => (timed.tick(now_ms()).unwrap_or(0), 1),
        };
        let floor = self.shape.floor(lane, after).map_err(|ended| Reason::SeriesEnded.status(ended.to_string()))?;
        let first = (last + 1).max(tick).max(floor);
        let end = first + u64::from(count.get()) - 1;
        let id = |number| self.shape.id(lane, number).map(Id::get);
        let mut runs: Vec<v1::IdRun> = Vec::new();
        for number in first..=end {
            let id = id(number).map_err(|ended| Reason::SeriesEnded.status(ended.to_string()))?;
            match runs.last_mut() {
                Some(run) if run.first + u64::from(run.count) * step == id => run.count += 1,
                _ => runs.push(v1::IdRun { first: id, count: 1 }),
            }
        }
        self.last[lane as usize] = end;
        Ok(v1::NextIdsResponse { runs, step, epoch: 1, lane })
    }

    /// Returns the last id of a counter; 0 if there is none.
    pub(super) fn current(&self) -> Result<u64, Status> {
        self.check_counter()?;
        Ok(self.shape.id(0, self.last[0]).map_or(0, Id::get))
    }

    /// Raises a counter to an id.
    pub(super) fn advance(&mut self, to: u64) -> Result<(), Status> {
        self.check_counter()?;
        let parts = Id::new(to).and_then(|to| self.shape.parts(to));
        let number = parts.ok_or_else(|| Reason::NotAnId.status(format!("{to} is no id")))?.value;
        if number < self.last[0] {
            return Err(Reason::AlreadyPast.status(format!("series {:?} is past {to}", self.name)));
        }
        self.last[0] = number;
        Ok(())
    }

    fn check_counter(&self) -> Result<(), Status> {
        match self.shape {
            Shape::Counter(_) => Ok(()),
            Shape::Timed(_) => Err(Reason::NotACounter.status(format!("series {:?} is no counter", self.name))),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "ids have the time in them")]
fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a clock after 1970");
    u64::try_from(now.as_millis()).expect("a clock before the year 500,000,000")
}
