//! Updates of an open page: a stream of server-sent events, each with the rows that have changed.
//!
//! The stream begins with all rows, so a browser that connects again misses nothing and gets nothing twice.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use futures::Stream;
use futures::stream;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, watch};

use crate::console::Console;
use crate::model::{Age, OpenPage, Seen};
use crate::page;
use crate::route::Route;
use crate::staircase::{self, Attributes};
use crate::view::{Block, Page, Region, Row};

/// Interval of the updates of a page that queries nodes itself, as the page of a section.
const QUERY_INTERVAL: Duration = Duration::from_secs(1);

/// Interval of comments that keep an idle stream open, and reveal a browser that is gone.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A stream of updates.
struct Live {
    console: Arc<Console>,
    route: Route,
    seen: watch::Receiver<Seen>,
    sent: Sent,
    is_first: bool,
    _open: OpenPage,
    _permit: OwnedSemaphorePermit,
}

/// An update of a page.
#[derive(Serialize)]
struct Message<'a> {
    /// Random text of the process of the console, which the page has as well.
    console: &'a str,
    /// Milliseconds since the values were measured; absent before the first observation.
    #[serde(skip_serializing_if = "Option::is_none")]
    age_ms: Option<u64>,
    /// Time of day of the measurement.
    as_of: String,
    /// Ids of all regions and of the chart. A browser whose page has other ids loads the page again. Absent for a page
    /// that does not change.
    #[serde(skip_serializing_if = "Option::is_none")]
    layout: Option<Vec<&'static str>>,
    /// Changes by the ids of regions.
    regions: HashMap<&'static str, Change<'a>>,
    /// Attributes of the chart by the ids of elements.
    #[serde(skip_serializing_if = "Option::is_none")]
    staircase: Option<Attributes>,
}

/// A change of a region.
#[derive(Serialize)]
struct Change<'a> {
    /// Keys of all rows in order; absent if they are as before.
    #[serde(skip_serializing_if = "Option::is_none")]
    order: Option<Vec<&'a str>>,
    /// Rows that have changed, by their keys.
    rows: HashMap<&'a str, &'a Row>,
}

/// The rows that the browser has.
#[derive(Default)]
struct Sent(HashMap<&'static str, Vec<Row>>);

impl Sent {
    /// Returns the changes of regions since they were last sent.
    fn changes<'a>(&mut self, regions: &[&'a Region]) -> HashMap<&'static str, Change<'a>> {
        let mut changes = HashMap::new();
        for region in regions {
            let before = self.0.insert(region.id, region.rows.clone());
            let known: HashMap<&str, &Row> = before.iter().flatten().map(|row| (row.key.as_str(), row)).collect();
            let is_changed = |row: &&Row| known.get(row.key.as_str()) != Some(row);
            let rows: HashMap<&str, &Row> =
                region.rows.iter().filter(is_changed).map(|row| (row.key.as_str(), row)).collect();
            let keys = |rows: &'a [Row]| rows.iter().map(|row| row.key.as_str()).collect::<Vec<&'a str>>();
            let is_same = before.as_ref().is_some_and(|before| {
                before.len() == region.rows.len()
                    && before.iter().zip(&region.rows).all(|(one, other)| one.key == other.key)
            });
            let order = (!is_same).then(|| keys(&region.rows));
            if order.is_some() || !rows.is_empty() {
                changes.insert(region.id, Change { order, rows });
            }
        }
        changes
    }
}

/// Returns the updates of a page. The stream ends when the browser closes the connection or the console stops.
pub(crate) fn stream(
    console: Arc<Console>,
    route: Route,
    permit: OwnedSemaphorePermit,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let (mut seen, open) = console.model.open();
    seen.mark_changed();
    let live = Live { console, route, seen, sent: Sent::default(), is_first: true, _open: open, _permit: permit };
    let events = stream::unfold(live, |mut live| async {
        let event = live.next().await?;
        Some((Ok(event), live))
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
}

/// Returns whether only the header of a page changes while it is open. The configuration would be requested from every
/// node for each update, and the runbook never changes.
fn is_still(route: &Route) -> bool {
    matches!(route, Route::Config { .. } | Route::Runbook(_))
}

impl Live {
    /// Waits for a change of the page, and returns it. Returns `None` when the console stops.
    async fn next(&mut self) -> Option<Event> {
        let mut is_due = std::mem::take(&mut self.is_first);
        loop {
            if !is_due {
                self.wait().await?;
            }
            let seen = self.seen.borrow_and_update().clone();
            let page = if is_still(&self.route) {
                Page { title: String::new(), blocks: Vec::new() }
            } else {
                page::page(&self.console, &self.route, &seen).await
            };
            if let Some(event) = self.event(&seen, &page, is_due) {
                return Some(event);
            }
            is_due = false;
        }
    }

    /// Waits until the page is to be made again.
    async fn wait(&mut self) -> Option<()> {
        let queries = matches!(self.route, Route::Section(_) | Route::Uid(Some(_)));
        tokio::select! {
            changed = self.seen.changed() => changed.ok(),
            () = tokio::time::sleep(QUERY_INTERVAL), if queries => Some(()),
        }
    }

    /// Returns the event for a page; `None` if the browser has all of it.
    fn event(&mut self, seen: &Seen, page: &Page, is_first: bool) -> Option<Event> {
        let state = page::state(seen);
        let mut regions = vec![&state];
        regions.extend(page.blocks.iter().filter_map(|block| match block {
            Block::Region(region) => Some(region),
            Block::Map(_, marks) => Some(marks),
            _ => None,
        }));
        let staircase = page.blocks.iter().find_map(|block| match block {
            Block::Staircase(staircase) => Some(staircase.attributes()),
            _ => None,
        });
        let changes = self.sent.changes(&regions);
        let is_observed = seen.error.is_none() && seen.last.is_some();
        if changes.is_empty() && staircase.is_none() && !is_first && !is_observed {
            return None;
        }
        let Age { ms: age_ms, as_of } = Age::of(seen);
        let layout = (!is_still(&self.route)).then(|| {
            let chart = staircase.is_some().then_some(staircase::ID);
            regions.iter().map(|region| region.id).chain(chart).collect()
        });
        let message = Message { console: &self.console.id, layout, age_ms, as_of, regions: changes, staircase };
        let text = serde_json::to_string(&message).expect("a message is plain data");
        Some(Event::default().event("values").data(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::{Shape, cell};

    fn region(rows: &[(&str, &str)]) -> Region {
        let rows = rows.iter().map(|(key, text)| Row::new(*key, vec![cell(*text)])).collect();
        Region { id: "sets", label: "Sets", shape: Shape::List, rows, empty: "none" }
    }

    #[test]
    fn only_changed_rows_are_sent() {
        let mut sent = Sent::default();
        let mut changes = |rows: &[(&str, &str)]| {
            let region = region(rows);
            serde_json::to_value(sent.changes(&[&region])).expect("plain data").to_string()
        };
        assert_eq!(
            changes(&[("a", "1"), ("b", "2")]),
            r#"{"sets":{"order":["a","b"],"rows":{"a":{"v":[{"t":"1"}]},"b":{"v":[{"t":"2"}]}}}}"#
        );
        assert_eq!(changes(&[("a", "1"), ("b", "2")]), "{}");
        assert_eq!(changes(&[("a", "1"), ("b", "3")]), r#"{"sets":{"rows":{"b":{"v":[{"t":"3"}]}}}}"#);
        assert_eq!(changes(&[("b", "3"), ("a", "1")]), r#"{"sets":{"order":["b","a"],"rows":{}}}"#);
        assert_eq!(changes(&[("a", "1")]), r#"{"sets":{"order":["a"],"rows":{}}}"#);
        assert_eq!(changes(&[]), r#"{"sets":{"order":[],"rows":{}}}"#);
    }
}
