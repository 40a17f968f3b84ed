//! The page of sets and migrations. It has the state and the rates of each set, and for each open migration its
//! progress, its pauses, the reason if no section moves, and the command that changes it.

use seq_command::output::{bar, grouped, printable};
use seq_observe::Observation;
use seq_observe::cluster::SetView;
use seq_observe::migration::{OUTDATED, Phase, details, done, speed};
use seq_proto::v1::MigrationStatus;

use super::{overview, rate, state_cell};
use crate::model::Seen;
use crate::route::escaped;
use crate::view::{Block, Column, Page, Region, Row, Shape, Tone, cell, command, link, number, spark, text};

/// Characters of the bar of a migration.
const BAR: usize = 20;

const SETS: &[Column] = &[
    text("set"),
    text("state"),
    number("uids"),
    number("sections"),
    number("delayed"),
    number("moved by operators"),
    text("balancing"),
    number("numbers/s"),
    text("15 min"),
    number("writes/s"),
    number("restores"),
    number("routes"),
];

const MIGRATIONS: &[Column] = &[
    text("migration"),
    text("from"),
    text("to"),
    text("phase"),
    text("progress"),
    number("arrived"),
    number("in flight"),
    text("speed"),
    text("pauses"),
    text("sections"),
    text("command"),
];

pub(super) fn page(observation: &Observation, seen: &Seen) -> Page {
    let cluster = &observation.cluster;
    let rows = cluster.sets.iter().map(|set| set_row(set, seen)).collect();
    let of_set = |set: &SetView| set.moves.iter().map(|one| migration_row(one, set.outdated)).collect::<Vec<Row>>();
    let moves = cluster.sets.iter().flat_map(of_set).collect();
    let of_sets = cluster.attention.iter().filter(|point| point.set.is_some()).cloned().collect::<Vec<_>>();
    Page {
        title: "Sets and migrations".to_owned(),
        blocks: vec![
            Block::Heading("Needs attention"),
            Block::Region(overview::attention(&of_sets)),
            Block::Heading("Sets"),
            Block::Region(Region { id: "sets", label: "Sets", shape: Shape::Table(SETS), rows, empty: "no set" }),
            Block::Heading("Migrations"),
            Block::Region(Region {
                id: "migrations",
                label: "Open migrations",
                shape: Shape::Table(MIGRATIONS),
                rows: moves,
                empty: "no migration is open",
            }),
            Block::Command { text: "Migrations that ended:", command: "seqsvr migration list".to_owned() },
        ],
    }
}

fn set_row(set: &SetView, seen: &Seen) -> Row {
    let balancing = set.balancing_paused.as_ref().map_or_else(|| "on".to_owned(), ToString::to_string);
    Row::new(
        &*set.name,
        vec![
            link(&*set.name, format!("/nodes?set={}", escaped(&set.name))),
            set.state.map_or_else(|| cell("-"), state_cell),
            cell(format!("{}..{}", grouped(set.uid_start), grouped(set.uid_end))),
            cell(grouped(set.sections.into())),
            cell(grouped(set.sections_delayed.into())),
            cell(grouped(set.sections_moved.into())),
            cell(balancing),
            cell(rate(set.numbers_per_second)),
            seen.rates.get(&set.name).map_or_else(|| cell(""), |rates| spark(rates.iter().copied())),
            cell(rate(set.raises_per_second)),
            cell(set.restores.to_string()),
            cell(grouped(set.route_version)),
        ],
    )
}

/// Returns the row of a migration. If `outdated` is true, its progress is that of an earlier view.
fn migration_row(migration: &MigrationStatus, outdated: bool) -> Row {
    let phase = Phase::of(migration);
    let (all, done) = (migration.sections, done(migration));
    let runs = migration.runs.iter().map(|run| {
        format!(
            "{}..{}",
            grouped(run.first_section.into()),
            grouped(u64::from(run.first_section) + u64::from(run.sections))
        )
    });
    let runs: Vec<String> = runs.collect();
    let id = migration.id;
    let typed = match phase {
        Phase::Open => format!("seqsvr migration pause {id}"),
        Phase::Paused => format!("seqsvr migration resume {id}"),
        Phase::Arrived => format!("seqsvr migration complete {id}"),
        Phase::RollingBack | Phase::RolledBack | Phase::Completed => format!("seqsvr migration watch {id}"),
    };
    let speed = match (outdated, phase.moves()) {
        (true, _) => cell(OUTDATED).tone(Tone::Attention),
        (false, true) => cell(speed(migration)),
        (false, false) => cell("-"),
    };
    let is_stuck = !migration.stuck.is_empty();
    let details = details(migration);
    let details = cell(printable(details.trim()).into_owned());
    Row::new(
        id.to_string(),
        vec![
            link(id.to_string(), "/events?kind=migration_started"),
            cell(&*migration.from),
            cell(&*migration.to),
            cell(phase.name()),
            cell(bar(done.into(), all.into(), BAR)),
            cell(format!("{}/{}", grouped(done.into()), grouped(all.into()))),
            cell(grouped(migration.in_flight.into())),
            speed,
            if is_stuck { details.tone(Tone::Attention) } else { details },
            cell(runs.join(", ")),
            command(Some(typed)),
        ],
    )
}
