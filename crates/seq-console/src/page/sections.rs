//! The busiest sections, as a table.

use std::collections::HashMap;

use seq_command::output::grouped;
use seq_observe::activity::{self, By, FiguresView, rate_text};
use seq_observe::{BusySection, Observation};

use super::missing;
use crate::model::SECTIONS;
use crate::server::Console;
use crate::view::{Block, Column, Field, Form, Page, Region, Row, Shape, cell, link, number, spark, text};

const COLUMNS: &[Column] = &[
    number("section"),
    number("uids"),
    text("set"),
    text("owner"),
    number("numbers/s"),
    text("history"),
    number("writes/min"),
    number("ceiling moved"),
    number("measured in"),
];

pub(super) async fn page(console: &Console, observation: &Observation, by_writes: bool) -> Page {
    let word = if by_writes { "writes" } else { "numbers" };
    let rows = if by_writes {
        most_writes(console, observation).await.iter().map(row).collect()
    } else {
        observation.sections.iter().map(row).collect()
    };
    let choices = vec![("numbers".to_owned(), "numbers".to_owned()), ("writes".to_owned(), "writes".to_owned())];
    let field = Field { label: "Order", name: "by", value: word.to_owned(), choices };
    Page {
        title: "Sections".to_owned(),
        blocks: vec![
            Block::Form(Form { label: "Order of the sections", fields: vec![field] }),
            Block::Region(Region {
                id: "sections",
                label: "The busiest sections",
                shape: Shape::Table(COLUMNS),
                rows,
                empty: "all sections are at rest",
            }),
            missing(observation),
            Block::Command {
                text: "The same in a terminal:",
                command: format!("seqsvr section list --top {word} --count {SECTIONS}"),
            },
        ],
    }
}

/// Requests the sections with the most writes from all allocators.
async fn most_writes(console: &Console, observation: &Observation) -> Vec<BusySection> {
    let cluster = &observation.cluster;
    let known: HashMap<u32, &BusySection> = observation.sections.iter().map(|busy| (busy.section, busy)).collect();
    let owners = cluster.allocs.iter().filter(|alloc| alloc.sections > 0);
    let requests = owners.map(|alloc| async move {
        let found = activity::request(&console.pool, &alloc.addr, By::Writes, SECTIONS, console.timeout).await;
        found.unwrap_or_default().into_iter().map(move |figures| (figures, alloc)).collect::<Vec<_>>()
    });
    let found = futures::future::join_all(requests).await.into_iter().flatten();
    let size = |set: &str| cluster.sets.iter().find(|known| known.name == set).map_or(0, |set| set.section_size);
    let busy = |(figures, alloc): (seq_proto::v1::SectionFigures, &seq_observe::cluster::AllocView)| {
        let uid_start = u64::from(figures.section) * u64::from(size(&alloc.set));
        BusySection {
            section: figures.section,
            uid_start,
            uid_end: uid_start + u64::from(size(&alloc.set)),
            set: alloc.set.clone(),
            owner: alloc.name.clone(),
            figures: FiguresView::new(&figures),
            history: known.get(&figures.section).map(|busy| busy.history.clone()).unwrap_or_default(),
        }
    };
    activity::merge(found, By::Writes).into_iter().take(SECTIONS as usize).map(busy).collect()
}

fn row(busy: &BusySection) -> Row {
    let figures = &busy.figures;
    Row::new(
        busy.section.to_string(),
        vec![
            link(grouped(busy.section.into()), format!("/section/{}", busy.section)),
            cell(format!("{}..{}", grouped(busy.uid_start), grouped(busy.uid_end))),
            cell(&*busy.set),
            cell(&*busy.owner),
            cell(rate_text(figures.numbers_per_second)),
            spark(busy.history.iter().copied()),
            cell(rate_text(figures.writes_per_second * 60.0)),
            cell(grouped(figures.raised)),
            cell(format!("{:.1} s", f64::from(figures.measured_ms) / 1_000.0)),
        ],
    )
}
