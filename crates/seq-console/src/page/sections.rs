//! The busiest sections, as a table.

use std::collections::HashMap;

use futures::FutureExt;
use seq_command::output::grouped;
use seq_command::selection::contents_text;
use seq_observe::activity::{self, By, FiguresView, rate_text};
use seq_observe::cluster::AllocView;
use seq_observe::{BusySection, Observation};
use seq_proto::v1::SectionFigures;

use super::collect::collect;
use super::{cut, missing};
use crate::console::Console;
use crate::map_view;
use crate::model::SECTIONS;
use crate::view::{Block, Column, Field, Form, Page, Region, Row, Shape, cell, link, number, spark, text};

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
    let (rows, failed): (Vec<Row>, _) = if by_writes {
        let (sections, failed) = most_writes(console, observation).await;
        (sections.iter().map(row).collect(), failed)
    } else {
        (observation.sections.iter().map(row).collect(), Vec::new())
    };
    let shown = rows.len();
    // A shorter table has all sections that are not at rest.
    let all = if shown < SECTIONS as usize { shown } else { map_view::sections(&observation.cluster) as usize };
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
            cut("sections-cut", (shown, all), "the section map has all"),
            missing(observation.missing.iter().chain(&failed)),
            Block::Command {
                text: "The same in a terminal:",
                command: format!("seqsvr section list --top {word} --count {SECTIONS}"),
            },
        ],
    }
}

/// Requests the sections with the most writes from all allocators. Returns them, and a text for each allocator that did
/// not respond.
async fn most_writes(console: &Console, observation: &Observation) -> (Vec<BusySection>, Vec<String>) {
    let cluster = &observation.cluster;
    let known: HashMap<u32, &BusySection> = observation.sections.iter().map(|busy| (busy.section, busy)).collect();
    let owners: HashMap<&str, &AllocView> =
        cluster.allocs.iter().filter(|alloc| alloc.sections > 0).map(|alloc| (&*alloc.addr, alloc)).collect();
    let request = |addr: &&str| {
        let (pool, addr, timeout) = (console.pool.clone(), (*addr).to_owned(), console.timeout);
        let name = addr.clone();
        (name, async move { activity::request(&pool, &addr, By::Writes, SECTIONS, timeout).await }.boxed())
    };
    let (responses, late) = collect(owners.keys().map(request).collect(), console.timeout).await;
    let failed = |addr: &str, error: &str| {
        let alloc = owners[addr];
        format!("writes of {} of {}: {error}", alloc.name, alloc.set)
    };
    let mut missing: Vec<String> =
        late.iter().map(|addr| failed(addr, "not requested in time, because many nodes do not respond")).collect();
    let mut found = Vec::new();
    for (addr, response) in &responses {
        match response {
            Ok(figures) => found.extend(figures.iter().map(|figures| (*figures, owners[&**addr]))),
            Err(error) => missing.push(failed(addr, error)),
        }
    }
    let busy = |(figures, alloc): (SectionFigures, &AllocView)| {
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
    let sections = activity::merge(found, By::Writes).into_iter().take(SECTIONS as usize).map(busy).collect();
    (sections, missing)
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
