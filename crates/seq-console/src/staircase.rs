//! The chart of a section: its committed ceiling over the last minutes as a staircase, and its highest number.

use std::collections::BTreeMap;

use maud::{Markup, html};
use seq_command::output::grouped;
use seq_command::utc::time_of_day;
use seq_proto::v1::DescribeSectionResponse;

/// Time that the chart shows at least, in milliseconds.
const LEAST_SPAN_MS: u64 = 60_000;

/// Time that the chart shows at most.
const MOST_SPAN_MS: u64 = 900_000;

/// Size in the units of the drawing.
const WIDTH: f64 = 800.0;
const HEIGHT: f64 = 200.0;

/// Id of the line of the ceiling, by which a browser knows that its page has the chart.
pub(crate) const ID: &str = "stairs";

/// Attributes by the ids of elements; the attribute `text` is the text of the element.
pub(crate) type Attributes = BTreeMap<&'static str, BTreeMap<&'static str, String>>;

/// The ceiling of a section over time.
pub(crate) struct Staircase {
    /// Begin and end of the chart, in milliseconds since 1970.
    times: (u64, u64),
    /// Lowest and highest number of the chart.
    numbers: (u64, u64),
    /// Ceiling at times, oldest first.
    steps: Vec<(u64, u64)>,
    highest: u64,
}

impl Staircase {
    /// Returns the chart of a section as its owner reports it.
    pub(crate) fn new(described: &DescribeSectionResponse) -> Staircase {
        let now = described.clock_ms;
        let oldest = described.raises.first().map_or(now, |raise| raise.requested_ms);
        let begin = oldest.clamp(now.saturating_sub(MOST_SPAN_MS), now.saturating_sub(LEAST_SPAN_MS));
        let mut steps = Vec::new();
        let mut before = described.raises.first().map_or(described.ceiling, |raise| raise.from);
        for raise in &described.raises {
            // A ceiling is committed when the response of its raise has arrived.
            let committed = raise.requested_ms.saturating_add(u64::from(raise.took_us) / 1_000);
            if committed < begin {
                before = raise.to;
            } else {
                steps.push((committed.min(now), raise.to));
            }
        }
        // A section has no ceiling before its first raise, so its line begins with that raise.
        if before > 0 || steps.is_empty() {
            steps.insert(0, (begin, before));
        }
        let lowest = steps.iter().map(|(_, ceiling)| *ceiling).chain([described.highest]).min().unwrap_or(0);
        let most = steps.iter().map(|(_, ceiling)| *ceiling).chain([described.ceiling]).max().unwrap_or(0);
        let margin = ((most - lowest.min(most)) / 20).max(1);
        let numbers = (lowest.saturating_sub(margin), most.saturating_add(margin));
        Staircase { times: (begin, now), numbers, steps, highest: described.highest }
    }

    fn x(&self, time: u64) -> f64 {
        let (begin, end) = self.times;
        WIDTH * time.saturating_sub(begin) as f64 / end.saturating_sub(begin).max(1) as f64
    }

    fn y(&self, number: u64) -> f64 {
        let (low, high) = self.numbers;
        // The difference is exact where the numbers themselves are above 2^53.
        let above = number.clamp(low, high) - low;
        HEIGHT * (1.0 - above as f64 / (high - low).max(1) as f64)
    }

    /// Returns the path of the ceiling.
    fn ceiling(&self) -> String {
        let mut path = String::new();
        for (place, (time, ceiling)) in self.steps.iter().enumerate() {
            let (x, y) = (self.x(*time), self.y(*ceiling));
            path += &if place == 0 { format!("M{x:.1} {y:.1}") } else { format!("H{x:.1}V{y:.1}") };
        }
        path + &format!("H{WIDTH:.1}")
    }

    /// Returns what changes while the page is open.
    pub(crate) fn attributes(&self) -> Attributes {
        let (begin, end) = self.times;
        let (low, high) = self.numbers;
        let one = |name, value: String| BTreeMap::from([(name, value)]);
        BTreeMap::from([
            (ID, one("d", self.ceiling())),
            ("highest", one("d", format!("M0 {y:.1}H{WIDTH:.1}", y = self.y(self.highest)))),
            ("chart-begin", one("text", time_of_day(begin))),
            ("chart-end", one("text", time_of_day(end))),
            ("chart-high", one("text", grouped(high))),
            ("chart-low", one("text", grouped(low))),
            ("chart-label", one("aria-label", self.label())),
        ])
    }

    fn label(&self) -> String {
        let ceiling = self.steps.last().map_or(0, |(_, ceiling)| *ceiling);
        let raises = self.steps.iter().filter(|(time, _)| *time > self.times.0).count();
        format!(
            "Ceiling {} after {raises} raises since {}; highest number {}",
            grouped(ceiling),
            time_of_day(self.times.0),
            grouped(self.highest)
        )
    }

    /// Returns the chart.
    pub(crate) fn html(&self) -> Markup {
        let (begin, end) = self.times;
        let (low, high) = self.numbers;
        html! {
            figure.chart {
                svg #chart-label viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label=(self.label()) preserveAspectRatio="none" {
                    path #highest .highest d={ "M0 " (format!("{:.1}", self.y(self.highest))) "H" (WIDTH) } {}
                    path id=(ID) .stairs d=(self.ceiling()) {}
                }
                span #chart-high .high aria-hidden="true" { (grouped(high)) }
                span #chart-low .low aria-hidden="true" { (grouped(low)) }
                span #chart-begin .begin aria-hidden="true" { (time_of_day(begin)) }
                span #chart-end .end aria-hidden="true" { (time_of_day(end)) }
                figcaption { span.stairs { "━ committed ceiling" } " " span.highest { "┄ highest number now" } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use seq_proto::v1::CeilingRaise;

    use super::*;

    fn described(raises: &[(u64, u64, u64)]) -> DescribeSectionResponse {
        let raise = |(requested_ms, from, to): &(u64, u64, u64)| CeilingRaise {
            requested_ms: *requested_ms,
            took_us: 2_000,
            from: *from,
            to: *to,
        };
        DescribeSectionResponse {
            clock_ms: 10_000_000,
            ceiling: raises.last().map_or(20_000, |raise| raise.2),
            highest: 15_000,
            raises: raises.iter().map(raise).collect(),
            ..DescribeSectionResponse::default()
        }
    }

    #[test]
    fn a_ceiling_without_raises_is_a_line() {
        let chart = Staircase::new(&described(&[]));
        assert_eq!(chart.times, (10_000_000 - LEAST_SPAN_MS, 10_000_000));
        assert_eq!(chart.ceiling(), "M0.0 9.1H800.0");
    }

    #[test]
    fn each_raise_is_a_step() {
        let chart = Staircase::new(&described(&[(9_970_000, 10_000, 20_000), (9_985_000, 20_000, 30_000)]));
        assert_eq!(chart.ceiling(), "M0.0 190.9H400.0V100.0H600.0V9.1H800.0");
        assert_eq!(chart.label(), "Ceiling 30,000 after 2 raises since 02:45:40; highest number 15,000");
    }

    #[test]
    fn the_first_raise_of_a_section_begins_its_line() {
        let chart = Staircase::new(&described(&[(9_985_000, 0, 20_000)]));
        assert_eq!(chart.ceiling(), "M600.0 9.1H800.0");
    }

    #[test]
    fn raises_before_the_chart_count_as_its_begin() {
        let chart = Staircase::new(&described(&[(1_000, 0, 10_000), (9_999_000, 10_000, 20_000)]));
        assert_eq!(chart.times.0, 10_000_000 - MOST_SPAN_MS);
        assert_eq!(chart.steps[0], (chart.times.0, 10_000));
    }

    #[test]
    fn numbers_above_two_to_the_53rd_keep_their_differences() {
        let high = (1 << 60) + 1;
        let described = DescribeSectionResponse { highest: high, ..described(&[(9_999_000, high, high + 10_000)]) };
        let chart = Staircase::new(&described);
        assert!(chart.y(high) > chart.y(high + 5_000) && chart.y(high + 5_000) > chart.y(high + 10_000));
        assert!(chart.label().starts_with("Ceiling 1,152,921,504,606,856,977 after 1 raises"), "{}", chart.label());
    }
}
