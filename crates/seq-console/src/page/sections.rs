//! The busiest sections, as a table.

use std::collections::HashMap;

use futures::StreamExt;
use futures::stream;
use seq_command::output::grouped;
use seq_command::selection::contents_text;
use seq_observe::activity::{self, By, FiguresView, rate_text};
use seq_observe::cluster::AllocView;
use seq_observe::{BusySection, Observation};
use seq_proto::v1::SectionFigures;

use super::missing;
use crate::console::Console;
use crate::model::SECTIONS;
use crate::view::{Block, Column, Field, Form, Page, Region, Row, Shape, cell, link, number, spark, text};

/// Requests for activity in flight.
const IN_FLIGHT: usize = 32;

const COLUMNS: &[Column] = &[
    number("section"),
    number("uids"),
    text("set"),
    text("owner"),
    number("numbers/s"),
    text("history"),
    number("writes/min"),
    number("ceiling raised by"),
    number("measured over"),
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
    let owners: Vec<&AllocView> = cluster.allocs.iter().filter(|alloc| alloc.sections > 0).collect();
    let addrs: Vec<(usize, String)> = owners.iter().map(|alloc| alloc.addr.clone()).enumerate().collect();
    let requests = addrs.into_iter().map(|(owner, addr)| {
        let (pool, timeout) = (console.pool.clone(), console.timeout);
        async move { (owner, activity::request(&pool, &addr, By::Writes, SECTIONS, timeout).await) }
    });
    let responses: Vec<_> = stream::iter(requests).buffer_unordered(IN_FLIGHT).collect().await;
    let found = responses.into_iter().flat_map(|(owner, figures)| {
        figures.unwrap_or_default().into_iter().map(move |figures| (figures, owner)).collect::<Vec<_>>()
    });
    let busy = |(figures, owner): (SectionFigures, usize)| {
        let alloc = owners[owner];
        let uids = cluster.uids_of(figures.section);
        BusySection {
            section: figures.section,
            uid_start: uids.start,
            uid_end: uids.end,
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
            cell(contents_text(&(busy.uid_start..busy.uid_end))),
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
