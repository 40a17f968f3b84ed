//! Requests of operators to create and retire series.
//!
//! **Invariant:** a series is created only in a set in which every live AllocSvr can own sections of series. The shape
//! of the series is checked before it is stored, because neither the name nor the shape of a series can be changed
//! later.

use seq_core::Seq;
use seq_core::layout::{Lanes, TickClock};
use seq_core::plan::Fingerprint;
use seq_core::series::Series;
use seq_core::state::{CommandRefusal, CreateSeries, EventKind, Replicated, RetireSeries, State};
use seq_ids::{Shape, TimedShape};
use seq_kit::wall_clock;
use seq_proto::Reason;
use seq_proto::series::SeriesShape;
use seq_proto::v1::{
    CreateSeriesRequest, CreateSeriesResponse, RetireSeriesRequest, RetireSeriesResponse, Series as SeriesMessage,
};
use tonic::Status;

use super::{SetAdmin, refused};
use crate::preconditions::{self, Required};

/// Default number of sections of a series. A series with fewer lanes has one section for each lane. The number is large
/// enough to distribute the sections over the AllocSvrs of a set.
const DEFAULT_SECTIONS: u32 = 16;

/// Default lead, in milliseconds, of a series whose lanes the server chooses. The lead is how far ceilings may be ahead
/// of the clock. For this time, ids are allocated although the store does not respond, and after a crash of its owner a
/// lane cannot be used for this time.
const CHOSEN_LEAD_MS: u32 = 60_000;

/// Default lead, in milliseconds, of a series whose callers name the lane. It is so short that the ceiling is in the
/// past by the time when the next owner may start.
const NAMED_LEAD_MS: u32 = 2_000;

/// Leads, in milliseconds, that a request may state.
const LEADS_MS: std::ops::RangeInclusive<u32> = 1_000..=600_000;

/// Minimum time, in milliseconds, for which a new series must be able to allocate ids, unless the request allows a
/// shorter time. It is ten years.
const LONGEST_SHORT_MS: u64 = 10 * 365 * 86_400_000;

impl SetAdmin {
    pub(super) async fn create_series(&self, request: CreateSeriesRequest) -> Result<CreateSeriesResponse, Status> {
        self.linearize().await?;
        self.check_series_format()?;
        let (dry_run, plan) = (request.dry_run, request.plan);
        let create = create(request, self.between.replicated.raft().clock_ms())?;
        let required = Required::new(dry_run, plan);
        let foresee = || self.read(|state, _| foresee(state, &create))?;
        let now = foresee()?;
        if now.exists {
            return Ok(now.response(false));
        }
        self.check_readers()?;
        let change = required.begin(self.between.replicated.raft()).await?;
        // Another request may have created a series before this change began.
        let now = foresee()?;
        if now.exists || change.is_none() {
            return Ok(now.response(false));
        }
        required.check(now.plan)?;
        self.between.replicated.propose(create.clone()).await?.map_err(|refusal| refused(&refusal))?;
        let created = foresee()?;
        tracing::info!(
            event = EventKind::SeriesCreated.name(),
            set = self.declared.name,
            series = create.name,
            lanes = create.lanes.count,
            "a series is created"
        );
        Ok(CreateSeriesResponse { fingerprint: now.plan.0, existed: false, ..created.response(true) })
    }

    pub(super) async fn retire_series(&self, request: RetireSeriesRequest) -> Result<RetireSeriesResponse, Status> {
        self.linearize().await?;
        self.check_series_format()?;
        let RetireSeriesRequest { name, dry_run, plan } = request;
        let required = Required::new(dry_run, plan);
        let foresee = || {
            let unknown = CommandRefusal::UnknownSeries { name: name.clone() };
            let found = self.read(|state, _| match state.series(&name).filter(|series| !series.is_keyspace()) {
                None => Err(unknown),
                Some(_) if !state.writes_series() => Err(state.not_writer()),
                Some(series) => Ok((series.clone(), preconditions::retire_series(state, &name))),
            })?;
            found.map_err(|refusal| refused(&refusal))
        };
        let response = |series: &Series, plan: Fingerprint, retired| RetireSeriesResponse {
            series: Some(series.into()),
            retired,
            fingerprint: plan.0,
        };
        let (series, plan) = foresee()?;
        if series.retired {
            return Ok(response(&series, plan, false));
        }
        let change = required.begin(self.between.replicated.raft()).await?;
        let (series, plan) = foresee()?;
        if series.retired || change.is_none() {
            return Ok(response(&series, plan, false));
        }
        required.check(plan)?;
        let retire = RetireSeries { name: name.clone() };
        let retired = self.between.replicated.propose(retire).await?.map_err(|refusal| refused(&refusal))?;
        let event = EventKind::SeriesRetired.name();
        tracing::info!(event, set = self.declared.name, series = name, "a series is retired");
        Ok(response(&foresee()?.0, plan, retired))
    }

    /// Returns an error if the group's format has no series.
    pub(super) fn check_series_format(&self) -> Result<(), Status> {
        let format = self.between.replicated.raft().state().format();
        if format >= CreateSeries::SINCE {
            return Ok(());
        }
        let (set, since) = (&self.declared.name, CreateSeries::SINCE);
        let text = format!(
            "set {set} writes format {format}, and series and keyspaces need format {since}: `seqsvr store upgrade` raises it"
        );
        Err(Reason::OldFormat.status(text))
    }

    /// Returns an error if an AllocSvr that could own sections runs a release without series.
    pub(super) fn check_readers(&self) -> Result<(), Status> {
        let outdated = self.read(|state, _| state.outdated_owner().map(|node| node.name.clone()))?;
        match outdated {
            None => Ok(()),
            Some(name) => {
                let text = format!(
                    "AllocSvr {name} of set {} runs a release without series: upgrade it first",
                    self.declared.name
                );
                Err(Reason::SetOutdated.status(text))
            }
        }
    }
}

/// Series, as it already exists or as the planned command would create it.
struct Foreseen {
    series: SeriesMessage,
    exists: bool,
    plan: Fingerprint,
}

impl Foreseen {
    fn response(self, created: bool) -> CreateSeriesResponse {
        CreateSeriesResponse { series: Some(self.series), created, fingerprint: self.plan.0, existed: self.exists }
    }
}

/// Returns the series that the command `create` would create. If an equal series exists, returns that series.
fn foresee(state: &State, create: &CreateSeries) -> Result<Foreseen, Status> {
    let plan = preconditions::create_series(state, create);
    let before = state.series(&create.name);
    match before {
        Some(series) if create.makes(series) && !series.retired => {
            Ok(Foreseen { series: series.into(), exists: true, plan })
        }
        _ => {
            let sections = state.foresee_series(create).map_err(|refusal| refused(&refusal))?;
            let CreateSeries { name, shape, lanes, created_ms } = create.clone();
            let (home, routed) = (state.set.as_ref().map(|set| set.id).unwrap_or_default(), state.route_version);
            let series = Series { name, shape, lanes, sections, created_ms, home, retired: false, routed };
            Ok(Foreseen { series: (&series).into(), exists: false, plan })
        }
    }
}

/// Returns the command that creates the requested series, or an error if the name or the shape is invalid. `now_ms` is
/// the store's time in milliseconds since 1970.
fn create(request: CreateSeriesRequest, now_ms: u64) -> Result<CreateSeries, Status> {
    let bad = |text: String| Reason::BadShape.status(text);
    let CreateSeriesRequest { name, shape, sections, start, lead_ms, allow_short, .. } = request;
    CreateSeries::check_name(&name).map_err(|refusal| refused(&refusal))?;
    let shape = shape.ok_or_else(|| bad("the request has no shape".to_owned()))?;
    let shape = SeriesShape::try_from(&shape).map_err(|error| bad(error.to_string()))?;
    let (start, margin, clock) = match shape.shape {
        Shape::Counter(counter) => {
            let first = if start == 0 { counter.offset } else { start };
            if first > counter.last() {
                return Err(bad(format!("start {start} is above {}, the last id", counter.last())));
            }
            let before = first.saturating_sub(counter.offset).div_ceil(counter.increment);
            let numbers = (counter.last() - counter.offset) / counter.increment + 1;
            (Seq(before), Lanes::margin_of(numbers - before), None)
        }
        Shape::Timed(timed) => {
            if start != 0 {
                return Err(bad(format!("start {start}: the ids of a timed series begin with the clock")));
            }
            check_times(&timed, now_ms, allow_short)?;
            let lead_ms = match lead_ms {
                0 if shape.named_lanes => NAMED_LEAD_MS,
                0 => CHOSEN_LEAD_MS,
                lead_ms => lead_ms,
            };
            if !LEADS_MS.contains(&lead_ms) {
                let (least, most) = (LEADS_MS.start() / 1_000, LEADS_MS.end() / 1_000);
                return Err(bad(format!("the lead of {lead_ms} ms is not {least} s to {most} s")));
            }
            let TimedShape { epoch_ms, unit_ms, seq_bits, .. } = timed;
            (Seq::ZERO, 0, Some(TickClock { epoch_ms, unit_ms, seq_bits, lead_ms }))
        }
    };
    let count = shape.shape.lanes();
    let sections = if sections == 0 { DEFAULT_SECTIONS.min(count) } else { sections };
    if sections > count {
        return Err(bad(format!("{sections} sections are more than the {count} lanes")));
    }
    let lanes = Lanes { count, per_section: count.div_ceil(sections), start, margin, clock, keys: None };
    Ok(CreateSeries { name, shape: shape.to_bytes(), lanes, created_ms: now_ms })
}

/// Checks that the ids of a new series begin in the past, and end late enough unless `allow_short`. `now_ms` is the
/// store's time in milliseconds since 1970.
fn check_times(timed: &TimedShape, now_ms: u64, allow_short: bool) -> Result<(), Status> {
    let bad = |text: String| Err(Reason::BadShape.status(text));
    if timed.epoch_ms > now_ms {
        return bad(format!("the epoch, {}, is in the future", wall_clock::date(timed.epoch_ms)));
    }
    let end = timed.end_ms().unwrap_or(u64::MAX);
    if end <= now_ms {
        return bad(format!("the ids of {} bits of time ended on {}", timed.time_bits, wall_clock::date(end)));
    }
    if end - now_ms < LONGEST_SHORT_MS && !allow_short {
        let (bits, end) = (timed.time_bits, wall_clock::date(end));
        return bad(format!(
            "the ids of {bits} bits of time end on {end}, within ten years; allow_short (--allow-short) accepts that"
        ));
    }
    Ok(())
}
