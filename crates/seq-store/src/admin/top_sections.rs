//! Gauges that show the sections whose ceilings rise most. Only the leader sets them.
//!
//! **Invariant:** the metrics have one time series for each rank, so the number of time series does not depend on the
//! number of sections. The index of a section is the value of a gauge and not a label.

use std::collections::BTreeMap;
use std::time::Duration;

use metrics::gauge;
use seq_api::metrics::{TOP_SECTION, TOP_SECTION_RAISED};
use seq_core::state::State;
use seq_core::{SectionId, Seq};

use super::status::View;

/// Number of sections that the gauges show.
const RANKS: usize = 10;

/// Interval over which the rises of ceilings are measured. Reading the state takes only milliseconds, even in the
/// largest set.
const INTERVAL: Duration = Duration::from_secs(10);

/// Updates the gauges once in each [`INTERVAL`] until the future is dropped.
pub(crate) async fn update(view: View) {
    let mut tick = tokio::time::interval(INTERVAL);
    let mut before = None;
    loop {
        tick.tick().await;
        let leads = view.replicated.raft().is_leader();
        let now = leads.then(|| view.replicated.read(ceilings));
        let top = before.as_ref().zip(now.as_ref()).map(|(before, now)| top(before, now)).unwrap_or_default();
        show(&view, &top);
        before = now;
    }
}

type Ceilings = BTreeMap<SectionId, Seq>;

fn ceilings(state: &State) -> Ceilings {
    state.sections.residents().map(|(section, record)| (section, record.max_seq)).collect()
}

/// Returns the sections whose ceilings rose most from `before` to `now`, with the rise of each, beginning with the
/// greatest. A section that is missing in `before` is left out.
fn top(before: &Ceilings, now: &Ceilings) -> Vec<(SectionId, u64)> {
    let rise =
        |(section, ceiling): (&SectionId, &Seq)| Some((*section, ceiling.0.saturating_sub(before.get(section)?.0)));
    let mut rises: Vec<(SectionId, u64)> = now.iter().filter_map(rise).filter(|(_, rise)| *rise > 0).collect();
    rises.sort_by_key(|(section, rise)| (std::cmp::Reverse(*rise), *section));
    rises.truncate(RANKS);
    rises
}

fn show(view: &View, top: &[(SectionId, u64)]) {
    for rank in 0..RANKS {
        let (section, raised) = top.get(rank).map_or((-1.0, 0), |(section, raised)| (f64::from(section.0), *raised));
        let labels =
            [("set", view.set.name.clone()), ("node", view.node.to_string()), ("rank", (rank + 1).to_string())];
        gauge!(TOP_SECTION, &labels).set(section);
        gauge!(TOP_SECTION_RAISED, &labels).set(raised as f64 / INTERVAL.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sections_that_rose_most_come_first_and_newcomers_are_left_out() {
        let of = |ceilings: &[(u32, u64)]| -> Ceilings {
            ceilings.iter().map(|(section, ceiling)| (SectionId(*section), Seq(*ceiling))).collect()
        };
        let before: Vec<(u32, u64)> = (0..30).map(|section| (section, 1_000)).collect();
        let mut now: Vec<(u32, u64)> =
            before.iter().map(|(section, ceiling)| (*section, ceiling + u64::from(section % 15))).collect();
        now.push((77, 1 << 40));
        let top = top(&of(&before), &of(&now));
        let expected =
            [(14, 14), (29, 14), (13, 13), (28, 13), (12, 12), (27, 12), (11, 11), (26, 11), (10, 10), (25, 10)];
        assert_eq!(top, expected.map(|(section, rise)| (SectionId(section), rise)));
        assert_eq!(super::top(&of(&before), &of(&before)), []);
    }
}
