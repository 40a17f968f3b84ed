//! Computes the rows of the page from an observation, the state of the screen and the size of the terminal.

use std::time::Duration;

use seq_command::output::{grouped, printable};
use seq_command::utc::time_of_day;
use seq_observe::activity::{By, rate_text};
use seq_observe::advice::Severity;
use seq_observe::attention::Attention;
use seq_observe::verdict::age;

use super::columns::cut;
use super::row::{Look, Row, Seen};
use super::screen::{Screen, Tab};
use super::tables;

/// Maximum number of faults and remarks on the page. `seqsvr status -o json` lists all faults and remarks.
const ATTENTION: usize = 4;

/// Number of events that are shown below the sections.
const EVENTS: usize = 3;

/// Minimum width of the terminal, in characters, with which the header contains whole words.
const WIDE: usize = 100;

/// Age from which on an observation is marked as old.
const OLD: Duration = Duration::from_secs(6);

/// The lines of the help on keys.
const HELP: [&str; 10] = [
    "1 2 3 4, Tab   nodes, sections, migrations, events",
    "up down j k    select a row; PgUp PgDn Home End move further",
    "Enter          show the selected section as its owner has it, or hide it",
    "s              order sections by numbers or by writes",
    "/              filter: rows that have all typed words; Enter ends, Esc clears",
    "space          pause, and go on",
    "q, Ctrl-C      end",
    "",
    "numbers/s are numbers that callers got; writes are section writes of the store, one of about 10,000 numbers",
    "any key closes this page",
];

fn row(text: impl Into<String>, look: Look) -> Row {
    Row { text: text.into(), look }
}

/// Returns the rows of the page. There are at most `height` rows of at most `width` characters.
pub(super) fn page(seen: &Seen, screen: &Screen, width: usize, height: usize) -> Vec<Row> {
    let mut rows = vec![header(seen, width)];
    rows.extend(attention(&seen.observation.cluster.attention, width));
    rows.extend(seen.observation.missing.iter().take(1).map(|text| row(format!("○ {text}"), Look::Attention)));
    rows.push(row(tabs(screen), Look::Heading));
    if screen.help {
        rows.extend(HELP.map(|line| row(line, Look::Plain)));
    } else {
        rows.extend(body(seen, screen, width, height.saturating_sub(rows.len())));
    }
    rows.truncate(height);
    for row in &mut rows {
        row.text = cut(&printable(&row.text), width);
    }
    rows
}

fn header(seen: &Seen, width: usize) -> Row {
    let cluster = &seen.observation.cluster;
    let names: Vec<&str> = cluster.sets.iter().map(|set| set.name.as_str()).collect();
    let (all, served) = cluster
        .sets
        .iter()
        .fold((0, 0), |(all, served), set| (all + u64::from(set.sections), served + u64::from(set.sections_served)));
    let sum = |rate: &dyn Fn(&seq_observe::cluster::SetView) -> Option<f64>| -> Option<f64> {
        cluster.sets.iter().filter_map(rate).reduce(|one, other| one + other)
    };
    let rate = |rate: Option<f64>| rate.map_or_else(|| "-".to_owned(), rate_text);
    let (numbers, writes) = (rate(sum(&|set| set.numbers_per_second)), rate(sum(&|set| set.raises_per_second)));
    let severity = cluster.worst().severity();
    let (mark, look) = match severity {
        None => ("●", Look::Plain),
        Some(severity) => (severity.mark(), look_of(severity)),
    };
    let state = cluster.worst().name();
    let time = time_of_day(seen.observation.unix_ms);
    let (names, served, all) = (names.join(" "), grouped(served), grouped(all));
    let text = if width < WIDE {
        format!("top {names} {mark} {state} {served}/{all} {numbers} n/s {writes} w/s {time}")
    } else {
        format!(
            "seqsvr top  {names}  {mark} {state}  {served}/{all} served  {numbers} numbers/s  {writes} writes/s  {time}"
        )
    };
    match &seen.error {
        Some(error) => row(format!("✕ {} ago: {error}  |  {text}", age(millis(seen.age))), Look::Fault),
        None if seen.age >= OLD => row(format!("{text} ({} ago)", age(millis(seen.age))), Look::Old),
        None => row(text, look),
    }
}

fn look_of(severity: Severity) -> Look {
    match severity {
        Severity::Fault => Look::Fault,
        Severity::Attention => Look::Attention,
        Severity::Info => Look::Plain,
    }
}

fn millis(age: Duration) -> u64 {
    u64::try_from(age.as_millis()).unwrap_or(u64::MAX)
}

/// Returns rows with the most urgent faults and remarks of `list`, and a row with the number of the others. If a fault
/// and its next step do not fit in one row of `width` characters, the next step is on a row of its own.
fn attention(list: &[Attention], width: usize) -> Vec<Row> {
    let shown = if list.len() > ATTENTION { ATTENTION - 1 } else { list.len() };
    let mut rows = Vec::new();
    for Attention { severity, set, sentence, next, .. } in list.iter().take(shown) {
        let (mark, look) = (severity.mark(), look_of(*severity));
        let set = set.as_ref().map(|set| format!("{set}: ")).unwrap_or_default();
        let text = format!("{mark} {set}{sentence}");
        match next {
            Some(next) if text.chars().count() + next.chars().count() + "; next: ".len() > width => {
                rows.extend([row(text, look), row(format!("  next: {next}"), look)]);
            }
            Some(next) => rows.push(row(format!("{text}; next: {next}"), look)),
            None => rows.push(row(text, look)),
        }
    }
    if list.len() > shown {
        rows.push(row(format!("  and {} more: `seqsvr status`", list.len() - shown), Look::Plain));
    }
    rows
}

fn tabs(screen: &Screen) -> String {
    let tab = |(place, tab): (usize, &Tab)| {
        let name = if *tab == screen.tab { tab.name().to_uppercase() } else { tab.name().to_owned() };
        format!("{} {name}", place + 1)
    };
    let tabs: Vec<String> = Tab::ALL.iter().enumerate().map(tab).collect();
    let by = if screen.by == By::Numbers { "numbers" } else { "writes" };
    let filter = match (screen.is_typing, screen.filter.as_str()) {
        (true, filter) => format!("{filter}_"),
        (false, "") => "-".to_owned(),
        (false, filter) => filter.to_owned(),
    };
    let paused = if screen.paused { "  PAUSED" } else { "" };
    format!("{}  sort: {by}  filter: {filter}  ? help{paused}", tabs.join("  "))
}

/// Returns the rows of the selected table. If it is the table of sections, rows with the section that the user has
/// opened, or with the newest events, follow.
fn body(seen: &Seen, screen: &Screen, width: usize, height: usize) -> Vec<Row> {
    let (heading, lines) = tables::lines(&seen.observation, screen, width.saturating_sub(2));
    let mut below = Vec::new();
    match (&seen.described, screen.detail) {
        (Some((section, lines)), Some(detail)) if *section == detail && screen.tab == Tab::Sections => {
            below.push(row(format!("section {}", grouped(detail.into())), Look::Heading));
            below.extend(lines.iter().map(|line| row(line, Look::Plain)));
        }
        _ if screen.tab == Tab::Sections => {
            let event = |one: &seq_observe::ClusterEvent| {
                format!("{} {} {}: {}", time_of_day(one.at_unix_ms()), one.set, one.source(), one.text())
            };
            below.extend(seen.observation.events.iter().take(EVENTS).map(|one| row(event(one), Look::Plain)));
        }
        _ => {}
    }
    // If the terminal is too low, only the table is shown.
    if height < below.len() + 4 {
        below.clear();
    }
    let space = height.saturating_sub(below.len() + 1);
    let selected = screen.selected.min(lines.len().saturating_sub(1));
    let first = if selected < space { 0 } else { selected + 1 - space };
    let mut rows = vec![row(format!("  {heading}"), Look::Heading)];
    if lines.is_empty() {
        rows.push(row(format!("  {}", nothing(screen)), Look::Plain));
    }
    for (place, (line, look)) in lines.into_iter().enumerate().skip(first).take(space) {
        let is_selected = place == selected;
        let mark = if is_selected { '>' } else { ' ' };
        rows.push(row(format!("{mark} {line}"), if is_selected { Look::Selected } else { look }));
    }
    rows.extend(below);
    rows
}

/// Returns the text that is shown instead of an empty table.
fn nothing(screen: &Screen) -> &'static str {
    match screen.tab {
        _ if !screen.filter.is_empty() => "the filter leaves no row; Esc clears it",
        Tab::Nodes => "no node",
        Tab::Sections => "all sections are at rest",
        Tab::Migrations => "no migration is open",
        Tab::Events => "no events are kept, or none were read yet",
    }
}

#[cfg(test)]
mod tests;
