//! The command `series show`, which shows a series, with the sets and the owners of the sections that contain its
//! lanes.

use std::ops::Range;
use std::time::Duration;

use clap::Args;
use seq_command::exit::Exit;
use seq_command::output::{Output, Table, digits, grouped};
use seq_command::target::Target;
use seq_command::time_limit::time;
use seq_proto::v1::{RouteRun, Routes};
use serde::Serialize;

use super::view::SeriesView;
use crate::id_client::IdClient;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seqsvr series show tweets\n  seqsvr series show tweets -o json | jq '.runs'\n\n\
                        The sections are shown as the node that responds knows their owners.\n\n\
                        Exit codes: 0 shown, 1 there is no such series (UNKNOWN_SERIES), 2 a wrong file or address, 3 refused \
                        for now, 4 no node responded, 7 the deadline passed.")]
pub struct ShowArgs {
    /// Name of the series.
    #[arg(value_name = "SERIES")]
    name: String,
    #[command(flatten)]
    target: Target,
    /// Time limit of the command.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time)]
    timeout: Duration,
}

/// A series, with the sets and owners of its sections.
#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    series: SeriesView,
    runs: Vec<RunView>,
}

/// Neighbouring sections with the same owner.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct RunView {
    first_section: u32,
    sections: u32,
    first_lane: u32,
    lanes: u32,
    /// Name of the set.
    set: String,
    /// Name of the owner. It is absent if the sections have no owner, or if they are in another set than the AllocSvr
    /// that responded.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    #[serde(serialize_with = "digits")]
    epoch: u64,
}

pub(super) async fn run(args: &ShowArgs, output: &Output) -> anyhow::Result<Exit> {
    let client = IdClient::new(&args.target, args.timeout)?;
    let series = SeriesView::new(&client.series(&args.name).await?);
    let runs = runs(&series, &client.routes().await?);
    let shown = Shown { series, runs };
    if output.is_json() {
        output.json(&shown)?;
        return Ok(Exit::Ok);
    }
    shown.series.lines().into_iter().try_for_each(|line| output.line(line))?;
    output.line(format_args!("created {}, {}", shown.series.created, shown.series.state.name()))?;
    // There are no runs if a proxy responded, because its routes contain no sections of lanes.
    if !shown.runs.is_empty() {
        output.table(&table(&shown.runs))?;
    }
    Ok(Exit::Ok)
}

/// Returns the sections of a series as runs, with their sets and owners, from the route table `routes` of one set.
fn runs(series: &SeriesView, routes: &Routes) -> Vec<RunView> {
    let end = series.first_section.saturating_add(series.sections);
    let run = |run: &RouteRun| {
        let sections = overlap(run, series.first_section..end)?;
        let lane = |section: u32| {
            let lanes = u64::from(section - series.first_section) * u64::from(series.lanes_per_section);
            u32::try_from(lanes).unwrap_or(u32::MAX).min(series.lanes)
        };
        let (first_lane, end_lane) = (lane(sections.start), lane(sections.end));
        let set = routes.sets.iter().find(|set| set.id == run.away_set_id);
        let set = match run.away_set_id {
            0 => routes.set.clone(),
            id => set.map_or_else(|| id.to_string(), |set| set.name.clone()),
        };
        let owner = routes.nodes.iter().find(|node| node.id == run.owner && run.owner != 0);
        Some(RunView {
            first_section: sections.start,
            sections: sections.end - sections.start,
            first_lane,
            lanes: end_lane - first_lane,
            set,
            owner: owner.map(|node| node.name.clone()),
            epoch: run.epoch,
        })
    };
    routes.lane_runs.iter().filter_map(run).collect()
}

/// Returns the part of a run of sections that lies within `range`. Returns `None` if no section does.
fn overlap(run: &RouteRun, range: Range<u32>) -> Option<Range<u32>> {
    let sections = run.first_section.max(range.start)..run.first_section.saturating_add(run.sections).min(range.end);
    (!sections.is_empty()).then_some(sections)
}

fn table(runs: &[RunView]) -> Table {
    let mut table = Table::new(&["sections", "lanes", "set", "owner", "epoch"]).right(&[4]);
    let range = |first: u32, count: u32| format!("{}..{}", grouped(first.into()), grouped((first + count).into()));
    for run in runs {
        table.row([
            range(run.first_section, run.sections),
            range(run.first_lane, run.lanes),
            run.set.clone(),
            run.owner.clone().unwrap_or_else(|| "-".to_owned()),
            grouped(run.epoch),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use seq_ids::preset;
    use seq_proto::series::SeriesShape;
    use seq_proto::v1::{Lanes, RouteNode, RouteSet, Series, Shape};

    use super::*;

    #[test]
    fn runs_are_cut_at_the_ends_of_the_series() {
        let shape = preset("js53").unwrap().shape;
        let shape = Shape::from(&SeriesShape { shape, named_lanes: false, ahead_ms: 0 });
        // The last of seven sections has four lanes.
        let lanes = Lanes { count: 64, per_section: 10, first_section: 20, ..Lanes::default() };
        let series = Series { shape: Some(shape), lanes: Some(lanes), ..Series::default() };
        let run = |first_section, sections, owner, away_set_id| RouteRun {
            first_section,
            sections,
            owner,
            epoch: 7,
            away_set_id,
        };
        let routes = Routes {
            set: "im-a".to_owned(),
            nodes: vec![RouteNode { id: 2, name: "a2".to_owned(), addr: String::new() }],
            sets: vec![RouteSet { id: 5, name: "im-b".to_owned(), allocs: Vec::new() }],
            lane_runs: vec![
                run(10, 12, 2, 0),
                run(22, 1, 0, 0),
                run(23, 2, 0, 5),
                run(25, 1, 0, 6),
                run(26, 9, 2, 0),
                run(35, 1, 2, 0),
            ],
            ..Routes::default()
        };
        let runs = runs(&SeriesView::new(&series), &routes);
        expect![[r#"
            sections  lanes   set   owner  epoch
            20..22    0..20   im-a  a2         7
            22..23    20..30  im-a  -          7
            23..25    30..50  im-b  -          7
            25..26    50..60  6     -          7
            26..27    60..64  im-a  a2         7
        "#]]
        .assert_eq(&table(&runs).render());
        assert_eq!(runs.iter().map(|run| run.lanes).sum::<u32>(), 64);
    }
}
