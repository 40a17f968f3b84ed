//! The page of one section: the record of the section in its set's store, the state at the owner, the chart of the
//! ceiling, the last raises, and the events that may concern the section.

use seq_command::output::{grouped, printable};
use seq_command::selection::contents_text;
use seq_command::utc;
use seq_observe::Observation;
use seq_observe::activity::{FiguresView, rate_text};
use seq_observe::section::{self, Record};
use seq_proto::v1::{DescribeSectionResponse, SectionInfo, SectionState};

use super::{cut, events, missing};
use crate::console::Console;
use crate::staircase::Staircase;
use crate::view::{Block, Column, Page, Region, Row, Shape, Tone, cell, link, number, text};

/// Raises in the table; the chart has all that the owner returns.
const RAISES: usize = 20;

/// Events in the history of the section.
const EVENTS: usize = 50;

const FACTS: &[Column] = &[text("fact"), text("value")];

const RAISE_COLUMNS: &[Column] = &[text("requested"), number("took"), number("from"), number("to"), number("distance")];

pub(super) async fn page(console: &Console, observation: &Observation, section: u32) -> Page {
    let title = format!("Section {}", grouped(section.into()));
    let record = match section::record(&console.pool, &observation.cluster, section, console.timeout).await {
        Ok(record) => record,
        Err(error) => return Page { title, blocks: vec![Block::Text(printable(&error).into_owned())] },
    };
    let owner = record.owner(&observation.cluster);
    let described = match owner {
        Some(owner) => section::describe(&console.pool, &owner.addr, section, console.timeout).await,
        None if record.info.owner.is_empty() => Err("the section has no owner".to_owned()),
        None => Err(format!("its owner {} does not respond", record.info.owner)),
    };
    let mut blocks = vec![Block::Region(Region {
        id: "facts",
        label: "State of the section",
        shape: Shape::Table(FACTS),
        rows: facts(&record, &described),
        empty: "",
    })];
    if let Ok(described) = &described {
        blocks.push(Block::Heading("Ceiling"));
        blocks.push(Block::Staircase(Staircase::new(described)));
    }
    blocks.push(Block::Heading("Raises"));
    blocks.extend(raises(described.as_ref().map_or(&[], |described| &described.raises), section));
    blocks.push(missing(&record.missing));
    blocks.push(Block::Heading("Events that may concern it"));
    blocks.extend(history(observation, &record.set, section));
    let command = format!("seqsvr section show {section}");
    blocks.push(Block::Command { text: "The same in a terminal:", command });
    Page { title, blocks }
}

/// Returns the facts about a section, from its record and its owner.
pub(super) fn facts(record: &Record, described: &Result<DescribeSectionResponse, String>) -> Vec<Row> {
    let Record { set, info, .. } = record;
    let SectionInfo { owner, epoch, ceiling, uid_start, uid_end, moved_to, .. } = info;
    let fact = |name: &'static str, value: String| Row::new(name, vec![cell(name), cell(value)]);
    let mut rows = Vec::new();
    rows.push(fact("uids", contents_text(&(*uid_start..*uid_end))));
    rows.push(Row::new("set", vec![cell("set"), link(&**set, format!("/nodes?set={}", crate::route::escaped(set)))]));
    rows.push(fact("state", state(info)));
    let moved = match moved_to.as_str() {
        "" => String::new(),
        to => format!(", moved to {to} by an operator"),
    };
    let owner = if owner.is_empty() { "none".to_owned() } else { format!("{owner}, epoch {}{moved}", grouped(*epoch)) };
    rows.push(fact("owner", owner));
    rows.extend(section::beginning(info).map(|text| fact("ownership", text)));
    rows.push(fact("ceiling at the store", grouped(*ceiling)));
    match described {
        Ok(described) => rows.extend(activity(info, described)),
        Err(error) => {
            let text = printable(error).into_owned();
            rows.push(Row::new("activity", vec![cell("activity"), cell(text)]).tone(Tone::Attention));
        }
    }
    rows
}

fn state(info: &SectionInfo) -> String {
    let set = &info.set;
    match info.state() {
        SectionState::Resident => "in the set".to_owned(),
        SectionState::Departed => format!("departed to {set}, which has not confirmed it yet"),
        SectionState::Arrived => format!("arrived in {set}"),
        SectionState::Quarantined => "not known: the set was restored from a backup".to_owned(),
        SectionState::Never | SectionState::Unspecified => "never in the set".to_owned(),
    }
}

/// Returns the facts that the owner reports.
fn activity(info: &SectionInfo, described: &DescribeSectionResponse) -> Vec<Row> {
    let figures = FiguresView::new(&described.figures.unwrap_or_default());
    let fact = |name: &'static str, value: String| Row::new(name, vec![cell(name), cell(value)]);
    let numbers = if described.in_ticks {
        "not counted, because they follow a clock".to_owned()
    } else {
        format!("{} a second; {} in this ownership", rate_text(figures.numbers_per_second), grouped(described.numbers))
    };
    let a_write =
        if figures.writes > 0 { rate_text(figures.numbers as f64 / figures.writes as f64) } else { "-".to_owned() };
    let mut rows = vec![
        fact("owned since", utc::text_of_ms(described.owned_since_ms)),
        fact("numbers", numbers),
        fact("writes", format!("{} a minute; {a_write} numbers a write", rate_text(figures.writes_per_second * 60.0))),
        fact("highest number", grouped(described.highest)),
        fact(
            "remaining",
            format!(
                "{} below the ceiling; the owner raises it when {} remain",
                grouped(described.remaining),
                grouped(described.raise_due_at)
            ),
        ),
        fact(
            "uids with a number",
            format!("{} of {}", grouped(described.touched.into()), grouped(described.uids.into())),
        ),
        fact("numbers of this ownership are above", grouped(described.base)),
    ];
    if described.skipped_at_begin > 0 {
        let most = grouped(described.skipped_at_begin);
        let cause = section::skip_text(section::skip_word(Some(info), described));
        let text = format!(
            "at most {most} by the highest uid, because of {cause}; each other uid began above {}",
            grouped(described.base)
        );
        rows.push(Row::new("skipped", vec![cell("skipped when it began"), cell(text)]).tone(Tone::Attention));
    }
    if described.skipped_by_advances > 0 {
        rows.push(fact("skipped by advances", grouped(described.skipped_by_advances)));
    }
    rows
}

/// Returns the table of the last raises of a section, and a text if it does not show all that the owner returned.
pub(super) fn raises(raises: &[seq_proto::v1::CeilingRaise], section: u32) -> [Block; 2] {
    let row = |raise: &seq_proto::v1::CeilingRaise| {
        Row::new(
            format!("{} {}", raise.requested_ms, raise.to),
            vec![
                cell(utc::text_with_ms(raise.requested_ms)),
                cell(format!("{:.1} ms", f64::from(raise.took_us) / 1_000.0)),
                cell(grouped(raise.from)),
                cell(grouped(raise.to)),
                cell(grouped(raise.to.saturating_sub(raise.from))),
            ],
        )
    };
    let rows: Vec<Row> = raises.iter().rev().take(RAISES).map(row).collect();
    let shown = (rows.len(), raises.len());
    let rest = format!("seqsvr section show {section} -o json has all");
    [
        Block::Region(Region {
            id: "raises",
            label: "The last raises of the ceiling",
            shape: Shape::Table(RAISE_COLUMNS),
            rows,
            empty: "the owner has no record of a raise",
        }),
        cut("raises-cut", shown, &rest),
    ]
}

/// Returns the table of the events whose sections lie around the section, and so may include it, and a text if it does
/// not show all of them.
pub(super) fn history(observation: &Observation, set: &str, section: u32) -> [Block; 2] {
    let may_concern = |one: &&seq_observe::ClusterEvent| one.set == set && one.is_around(section);
    let found: Vec<_> = observation.events.iter().filter(may_concern).collect();
    let rows: Vec<Row> = found.iter().take(EVENTS).map(|event| events::row(event)).collect();
    let shown = (rows.len(), found.len());
    [events::region(rows), cut("events-cut", shown, &format!("seqsvr events list --section {section}"))]
}
