//! A series as text and as JSON.

use seq_command::exit::{Exit, Failure};
use seq_command::output::{digits, grouped};
use seq_command::utc;
use seq_ids::{CounterShape, Shape, TimedShape};
use seq_proto::series::SeriesShape;
use seq_proto::v1::{Lanes, Series, TickClock};
use serde::Serialize;

use crate::id_client::shape_of;

/// The state of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    /// Ids of the series can be allocated.
    Serves,
    /// The time of the series' last ids has passed.
    Ended,
    /// The series was retired.
    Retired,
}

/// A series.
#[derive(Debug, Serialize)]
pub(super) struct SeriesView {
    pub(super) name: String,
    pub(super) state: State,
    #[serde(flatten)]
    ids: Ids,
    pub(super) lanes: u32,
    pub(super) lanes_per_section: u32,
    /// Index of the first section.
    pub(super) first_section: u32,
    pub(super) sections: u32,
    /// Time at which the series was created, in UTC.
    pub(super) created: String,
}

/// The ids of a series.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Ids {
    Counter(CounterIds),
    Timed(TimedIds),
    /// The series has a shape of a later release.
    Unknown,
}

#[derive(Debug, Serialize)]
struct CounterIds {
    #[serde(serialize_with = "digits")]
    first: u64,
    #[serde(serialize_with = "digits")]
    increment: u64,
    #[serde(serialize_with = "digits")]
    last: u64,
}

#[derive(Debug, Serialize)]
struct TimedIds {
    /// Time that the ids count from.
    epoch: String,
    /// Last time of which there are ids.
    end: String,
    unit_ms: u32,
    time_bits: u8,
    lane_bits: u8,
    seq_bits: u8,
    spread: bool,
    named_lanes: bool,
    ahead_ms: u32,
    lead_ms: u32,
}

impl SeriesView {
    pub(super) fn new(series: &Series) -> SeriesView {
        SeriesView::at(series, utc::now_ms())
    }

    /// Converts the series in a store's response to its view.
    ///
    /// # Errors
    /// The response contains no series.
    pub(super) fn stated(series: Option<&Series>) -> Result<SeriesView, Failure> {
        let none = || Failure::new(Exit::Failed, "the response of the store has no series");
        series.map(SeriesView::new).ok_or_else(none)
    }

    /// Converts a series to its view. `now_ms` is the time by the wall clock, which shows whether the series has ended.
    fn at(series: &Series, now_ms: u64) -> SeriesView {
        let Lanes { count, per_section, start, first_section, clock, .. } = series.lanes.clone().unwrap_or_default();
        let (ids, end_ms) = match shape_of(series) {
            Err(_) => (Ids::Unknown, None),
            Ok(SeriesShape { shape: Shape::Counter(counter), .. }) => {
                (Ids::Counter(CounterIds::new(&counter, start)), None)
            }
            Ok(SeriesShape { shape: Shape::Timed(timed), named_lanes, ahead_ms }) => {
                let lead_ms = clock.map_or(0, |TickClock { lead_ms, .. }| lead_ms);
                let ids = TimedIds { named_lanes, ahead_ms, lead_ms, ..TimedIds::of(&timed) };
                (Ids::Timed(ids), timed.end_ms())
            }
        };
        let state = match (series.retired, end_ms.is_some_and(|end_ms| end_ms < now_ms)) {
            (true, _) => State::Retired,
            (false, true) => State::Ended,
            (false, false) => State::Serves,
        };
        SeriesView {
            name: series.name.clone(),
            state,
            ids,
            lanes: count,
            lanes_per_section: per_section,
            first_section,
            sections: if per_section == 0 { 0 } else { count.div_ceil(per_section) },
            created: utc::text_of_ms(series.created_ms),
        }
    }

    /// Returns the description of the series in one or two lines.
    pub(super) fn lines(&self) -> Vec<String> {
        let SeriesView { name, ids, lanes, sections, .. } = self;
        match ids {
            Ids::Unknown => vec![format!("{name}: a shape of a later release, {}", counted(*lanes, "lane"))],
            Ids::Counter(ids) => vec![format!("{name}: {}; the last id is {}", ids.text(3), ids.last)],
            Ids::Timed(ids) => {
                let (lanes, sections) = (counted(*lanes, "lane"), counted(*sections, "section"));
                let TimedIds { time_bits, seq_bits, epoch, end, .. } = ids;
                let (unit, date) = (ids.unit(), &end[..end.find('T').unwrap_or(end.len())]);
                let lane = if ids.named_lanes { "callers name the lane" } else { "the server chooses the lane" };
                let numbers = counted(1_u64 << seq_bits, "id");
                let ahead = match ids.ahead_ms {
                    0 => "no id is ahead of the clock".to_owned(),
                    ms => format!("ids are at most {} ahead of the clock", time(ms)),
                };
                vec![
                    format!(
                        "{name}: {time_bits} bits of {unit} from {epoch}, {lanes} in {sections}; the last id is of {date}"
                    ),
                    format!("{lane}; a lane has {numbers} in each {unit}; {ahead}"),
                ]
            }
        }
    }

    /// Returns a short text about the ids.
    pub(super) fn ids(&self) -> String {
        match &self.ids {
            Ids::Counter(ids) => ids.text(2),
            Ids::Timed(ids) => {
                let TimedIds { time_bits, lane_bits, seq_bits, .. } = ids;
                format!("{time_bits}/{lane_bits}/{seq_bits} bits, {}", ids.unit())
            }
            Ids::Unknown => "unknown".to_owned(),
        }
    }

    /// Returns a text with the last id of a counter series, or with the last time for which a timed series has ids.
    pub(super) fn last(&self) -> String {
        match &self.ids {
            Ids::Counter(ids) => ids.last.to_string(),
            Ids::Timed(ids) => ids.end.clone(),
            Ids::Unknown => "-".to_owned(),
        }
    }

    /// Returns which of `caller` and `server` chooses the lane of an id. Returns `-` for a counter series.
    pub(super) fn lane_by(&self) -> &'static str {
        match &self.ids {
            Ids::Timed(ids) if ids.named_lanes => "caller",
            Ids::Timed(_) => "server",
            Ids::Counter(_) | Ids::Unknown => "-",
        }
    }
}

impl CounterIds {
    /// Returns the ids of a counter series. The first `start` numbers of its counter make no ids.
    fn new(counter: &CounterShape, start: u64) -> CounterIds {
        let CounterShape { offset, increment, .. } = *counter;
        let first = start.saturating_mul(increment).saturating_add(offset);
        CounterIds { first, increment, last: counter.last() }
    }

    /// Returns a text with the first `count` ids of the series, such as `1, 3, 5, ...`.
    fn text(&self, count: u64) -> String {
        let id = |place: u64| self.first.checked_add(place * self.increment).filter(|id| *id <= self.last);
        let ids: Vec<String> = (0..count).map_while(id).map(|id| id.to_string()).collect();
        if id(count).is_some() { format!("{}, ...", ids.join(", ")) } else { ids.join(", ") }
    }
}

impl TimedIds {
    fn of(timed: &TimedShape) -> TimedIds {
        let TimedShape { epoch_ms, unit_ms, time_bits, lane_bits, seq_bits, spread } = *timed;
        let [epoch, end] = [epoch_ms, timed.end_ms().unwrap_or(u64::MAX)].map(utc::text_with_ms);
        let (named_lanes, ahead_ms, lead_ms) = (false, 0, 0);
        TimedIds { epoch, end, unit_ms, time_bits, lane_bits, seq_bits, spread, named_lanes, ahead_ms, lead_ms }
    }

    /// Returns the unit of time in which the ids count, such as `ms`, `s` or `10 ms`.
    fn unit(&self) -> String {
        time(self.unit_ms).trim_start_matches("1 ").to_owned()
    }
}

/// Formats a duration in whole seconds if possible, such as `1 s`, and otherwise in milliseconds, such as `10 ms`.
fn time(ms: u32) -> String {
    let (seconds, rest) = (ms / 1_000, ms % 1_000);
    if rest == 0 { format!("{} s", grouped(seconds.into())) } else { format!("{} ms", grouped(ms.into())) }
}

/// Returns a text with a count and its noun, such as `1 lane` or `1,024 lanes`.
fn counted(count: impl Into<u64>, noun: &str) -> String {
    let count = count.into();
    format!("{} {noun}{}", grouped(count), if count == 1 { "" } else { "s" })
}

impl State {
    pub(super) fn name(self) -> &'static str {
        match self {
            State::Serves => "serves",
            State::Ended => "ended",
            State::Retired => "retired",
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use seq_ids::{PRESETS, Preset};
    use seq_proto::v1;

    use super::*;

    /// 2026-11-27.
    const NOW_MS: u64 = 1_795_737_600_000;

    fn series(name: &str, shape: &SeriesShape, start: u64, per_section: u32) -> Series {
        let clock =
            matches!(shape.shape, Shape::Timed(_)).then(|| TickClock { lead_ms: 60_000, ..TickClock::default() });
        let lanes =
            Lanes { count: shape.shape.lanes(), per_section, start, margin: 0, clock, first_section: 10, keys: None };
        let (shape, lanes) = (Some(v1::Shape::from(shape)), Some(lanes));
        Series { name: name.to_owned(), shape, lanes, created_ms: NOW_MS, retired: false }
    }

    fn of(preset: &Preset) -> SeriesShape {
        let Preset { shape, named_lanes, ahead_ms, .. } = *preset;
        SeriesShape { shape, named_lanes, ahead_ms }
    }

    fn text(series: &Series) -> String {
        SeriesView::at(series, NOW_MS).lines().join("\n") + "\n"
    }

    #[test]
    fn a_series_is_described_in_two_lines() {
        let presets =
            PRESETS.iter().map(|preset| text(&series(preset.name, &of(preset), 0, 64.min(preset.shape.lanes()))));
        expect![[r#"
            snowflake: 41 bits of ms from 2010-11-04T01:42:54.657Z, 1,024 lanes in 16 sections; the last id is of 2080-07-10
            the server chooses the lane; a lane has 4,096 ids in each ms; ids are at most 1 s ahead of the clock
            leaf: 41 bits of ms from 2010-11-04T01:42:54.657Z, 1,024 lanes in 16 sections; the last id is of 2080-07-10
            the server chooses the lane; a lane has 4,096 ids in each ms; ids are at most 1 s ahead of the clock
            instagram: 40 bits of ms from 2011-08-24T21:07:01.721Z, 8,192 lanes in 128 sections; the last id is of 2046-06-27
            callers name the lane; a lane has 1,024 ids in each ms; ids are at most 1 s ahead of the clock
            js53: 31 bits of s from 2026-01-01T00:00:00.000Z, 64 lanes in 1 section; the last id is of 2094-01-19
            the server chooses the lane; a lane has 65,536 ids in each s; ids are at most 1 s ahead of the clock
            counter: 1, 2, 3, ...; the last id is 9223372036854775807
        "#]].assert_eq(&presets.collect::<String>());
        let tickets = CounterShape { offset: 2, increment: 2, max_id: 2_147_483_647 };
        let tickets = SeriesShape { shape: Shape::Counter(tickets), named_lanes: false, ahead_ms: 0 };
        expect![[r#"
            tickets: 102, 104, 106, ...; the last id is 2147483646
        "#]]
        .assert_eq(&text(&series("tickets", &tickets, 50, 1)));
        let coarse = TimedShape { epoch_ms: 0, unit_ms: 10, time_bits: 39, lane_bits: 0, seq_bits: 0, spread: false };
        let coarse = SeriesShape { shape: Shape::Timed(coarse), named_lanes: false, ahead_ms: 0 };
        expect![[r#"
            coarse: 39 bits of 10 ms from 1970-01-01T00:00:00.000Z, 1 lane in 1 section; the last id is of 2144-03-18
            the server chooses the lane; a lane has 1 id in each 10 ms; no id is ahead of the clock
        "#]]
        .assert_eq(&text(&series("coarse", &coarse, 0, 1)));
        let later = Series { shape: Some(v1::Shape { kind: None }), ..series("later", &coarse, 0, 1) };
        expect![[r#"
            later: a shape of a later release, 1 lane
        "#]]
        .assert_eq(&text(&later));
    }

    #[test]
    fn json_has_every_field_of_the_shape() {
        let json = |series: &Series| serde_json::to_string(&SeriesView::at(series, NOW_MS)).unwrap() + "\n";
        let all = PRESETS.iter().map(|preset| json(&series(preset.name, &of(preset), 0, 1)));
        expect![[r#"
            {"name":"snowflake","state":"serves","kind":"timed","epoch":"2010-11-04T01:42:54.657Z","end":"2080-07-10T17:30:30.208Z","unit_ms":1,"time_bits":41,"lane_bits":10,"seq_bits":12,"spread":true,"named_lanes":false,"ahead_ms":1000,"lead_ms":60000,"lanes":1024,"lanes_per_section":1,"first_section":10,"sections":1024,"created":"2026-11-27T00:00:00Z"}
            {"name":"leaf","state":"serves","kind":"timed","epoch":"2010-11-04T01:42:54.657Z","end":"2080-07-10T17:30:30.208Z","unit_ms":1,"time_bits":41,"lane_bits":10,"seq_bits":12,"spread":true,"named_lanes":false,"ahead_ms":1000,"lead_ms":60000,"lanes":1024,"lanes_per_section":1,"first_section":10,"sections":1024,"created":"2026-11-27T00:00:00Z"}
            {"name":"instagram","state":"serves","kind":"timed","epoch":"2011-08-24T21:07:01.721Z","end":"2046-06-27T17:00:49.496Z","unit_ms":1,"time_bits":40,"lane_bits":13,"seq_bits":10,"spread":true,"named_lanes":true,"ahead_ms":1000,"lead_ms":60000,"lanes":8192,"lanes_per_section":1,"first_section":10,"sections":8192,"created":"2026-11-27T00:00:00Z"}
            {"name":"js53","state":"serves","kind":"timed","epoch":"2026-01-01T00:00:00.000Z","end":"2094-01-19T03:14:07.999Z","unit_ms":1000,"time_bits":31,"lane_bits":6,"seq_bits":16,"spread":true,"named_lanes":false,"ahead_ms":1000,"lead_ms":60000,"lanes":64,"lanes_per_section":1,"first_section":10,"sections":64,"created":"2026-11-27T00:00:00Z"}
            {"name":"counter","state":"serves","kind":"counter","first":"1","increment":"1","last":"9223372036854775807","lanes":1,"lanes_per_section":1,"first_section":10,"sections":1,"created":"2026-11-27T00:00:00Z"}
        "#]].assert_eq(&all.collect::<String>());
    }

    #[test]
    fn a_series_ends_with_its_time_or_by_a_command() {
        let snowflake = series("tweets", &of(&PRESETS[0]), 0, 64);
        let state = |series: &Series, now_ms| SeriesView::at(series, now_ms).state;
        let end_ms = 3_487_858_230_208;
        assert_eq!(
            [NOW_MS, end_ms, end_ms + 1].map(|now_ms| state(&snowflake, now_ms)),
            [State::Serves, State::Serves, State::Ended]
        );
        assert_eq!(state(&Series { retired: true, ..snowflake }, NOW_MS), State::Retired);
    }
}
