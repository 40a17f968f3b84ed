//! The data of the section map: the activity of all sections over time, as their nodes record it.
//!
//! The console keeps the columns of each node, so the record of a node outlasts the node while the console runs, and a
//! later request fetches only new columns. A browser gets at most [`MAX_ROWS`] rows over time, or one column of
//! [`MAX_SECTIONS`].

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream;
use seq_channel::Pool;
use seq_command::utc;
use seq_observe::Observation;
use seq_observe::cluster::{AllocView, StoreView};
use seq_observe::response::within;
use seq_proto::v1::status_service_client::StatusServiceClient;
use seq_proto::v1::{ActivityLayer, ListActivityRequest};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::map_view;
use matrix::{Cut, Matrix, Value};
use record::{Record, Span};

mod matrix;
mod record;

/// Rows of the map over time.
const MAX_ROWS: u32 = 1_024;

/// Rows of the map of the present, which has each section: a cluster of 2^32 uids has 42,950.
const MAX_SECTIONS: u32 = 65_536;

/// Requests to nodes in flight.
const IN_FLIGHT: usize = 32;

/// Nodes whose columns are kept.
const MAX_NODES: usize = 4_096;

/// Pages of the responses of one node: at 8,192 sections a page, all sections that a layout may have, and one page that
/// is requested again by the clock of the node.
const MAX_PAGES: usize = 129;

/// Time limit of all pages of a node, relative to the limit of one page.
const PAGES_TIMEOUT: u32 = 4;

/// Difference from this machine's clock up to which the clock of a node decides which columns belong to the span.
const CLOCK_DIFFERENCE_MS: u64 = 600_000;

/// Subject of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Layer {
    /// Numbers, which allocators record.
    Numbers,
    /// Writes, which a store records of all sections, of any owner.
    Writes,
    /// Writes as allocators record them, of their own sections.
    OwnWrites,
}

impl Layer {
    fn wire(self) -> ActivityLayer {
        match self {
            Layer::Numbers => ActivityLayer::Numbers,
            Layer::Writes | Layer::OwnWrites => ActivityLayer::Writes,
        }
    }
}

/// Columns of all nodes, by subject and span.
pub(crate) struct Heat {
    pool: Pool,
    timeout: Duration,
    kept: parking_lot::Mutex<HashMap<(Layer, Span), SharedColumns>>,
}

/// Columns that requests share; a request holds the lock while it fetches new columns.
type SharedColumns = Arc<Mutex<Kept>>;

/// Columns of the nodes, for one subject and span.
struct Kept {
    /// Records by the set and the name of the node.
    ///
    /// **Invariant:** at most [`MAX_NODES`].
    nodes: HashMap<(String, String), Record>,
    refreshed: Option<Instant>,
}

/// A request for levels.
struct Wanted {
    layer: Layer,
    span: Span,
    /// Set and name of the allocator whose columns alone are wanted.
    owner: Option<(String, String)>,
    cut: Cut,
}

impl Heat {
    /// Returns a map without data.
    pub(crate) fn new(pool: Pool, timeout: Duration) -> Heat {
        Heat { pool, timeout, kept: parking_lot::Mutex::default() }
    }

    /// Returns the levels for a request with the given query as bytes: numbers of 32 bits with the count of rows, the
    /// count of columns, the first section, the end of the sections and the length of a column in milliseconds; the
    /// begin of the first column in milliseconds since 1970, a number of 64 bits; then a byte for each cell, column by
    /// column. All numbers are little-endian.
    pub(crate) async fn bytes(&self, query: &str, observation: &Observation) -> Vec<u8> {
        let wanted = wanted(query, map_view::sections(&observation.cluster));
        let Matrix { rows, columns, since_ms, levels } = self.levels(&wanted, observation).await;
        let mut bytes = Vec::with_capacity(28 + levels.len());
        let sections = &wanted.cut.sections;
        let header = [rows, columns, sections.start, sections.end, wanted.span.column_ms()];
        header.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
        bytes.extend(since_ms.to_le_bytes());
        bytes.extend(levels);
        bytes
    }

    /// Returns the levels of a request, after new columns were fetched.
    async fn levels(&self, wanted: &Wanted, observation: &Observation) -> Matrix {
        let kept = {
            let new = || Arc::new(Mutex::new(Kept { nodes: HashMap::new(), refreshed: None }));
            Arc::clone(self.kept.lock().entry((wanted.layer, wanted.span)).or_insert_with(new))
        };
        let mut kept = kept.lock_owned().await;
        let is_old = |at: &Instant| at.elapsed() >= wanted.span.refresh();
        if kept.refreshed.as_ref().is_none_or(is_old) {
            self.refresh(&mut kept, wanted, observation).await;
            kept.refreshed = Some(Instant::now());
        }
        let (owner, span, cut) = (wanted.owner.clone(), wanted.span, wanted.cut.clone());
        let levels = move || {
            let is_wanted = |node: &(String, String)| owner.as_ref().is_none_or(|owner| owner == node);
            let records = kept.nodes.iter().filter(|(node, _)| is_wanted(node)).map(|(_, record)| record);
            Matrix::new(records, span, &cut)
        };
        // See `Matrix::new` for the time that it takes, in which this thread serves other requests.
        match tokio::task::spawn_blocking(levels).await {
            Ok(levels) => levels,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    /// Requests the columns since the last request from all nodes that record the subject.
    async fn refresh(&self, kept: &mut Kept, wanted: &Wanted, observation: &Observation) {
        let cluster = &observation.cluster;
        let nodes: Vec<(String, String, String)> = match wanted.layer {
            Layer::Writes => {
                let of = |store: &StoreView| (store.set.clone(), store.name.clone(), store.addr.clone());
                cluster.stores.iter().map(of).collect()
            }
            Layer::Numbers | Layer::OwnWrites => {
                let of = |alloc: &AllocView| (alloc.set.clone(), alloc.name.clone(), alloc.addr.clone());
                cluster.allocs.iter().map(of).collect()
            }
        };
        let (now_ms, layer, span) = (utc::now_ms(), wanted.layer, wanted.span);
        let requests = nodes.into_iter().take(MAX_NODES).map(|(set, name, addr)| {
            let node = (set, name);
            let back = span.back_ms(now_ms, kept.nodes.get(&node).and_then(|known| known.newest_ms(span)));
            let (pool, timeout) = (self.pool.clone(), self.timeout);
            async move {
                let record = request(&pool, &addr, (layer, span), (now_ms, back), timeout);
                (node, tokio::time::timeout(timeout * PAGES_TIMEOUT, record).await.ok().flatten())
            }
        });
        let responses: Vec<_> = stream::iter(requests).buffer_unordered(IN_FLIGHT).collect().await;
        kept.nodes.retain(|_, record| !record.is_past(span, now_ms));
        for (node, response) in responses {
            // A node that does not respond keeps its columns.
            let Some(record) = response else { continue };
            if kept.nodes.len() < MAX_NODES || kept.nodes.contains_key(&node) {
                kept.nodes.entry(node).or_default().add(record, wanted.span);
            }
        }
    }
}

/// Requests the columns of a node that are at most `back_ms` old. Returns `None` if the node does not respond in time,
/// or if it responds with columns of another length or form.
async fn request(
    pool: &Pool,
    addr: &str,
    (layer, span): (Layer, Span),
    (now_ms, back_ms): (u64, u64),
    timeout: Duration,
) -> Option<Record> {
    let mut node = StatusServiceClient::new(pool.get(addr).ok()?);
    let mut record = Record::default();
    let (mut first_section, mut clock_ms, mut is_corrected) = (0, now_ms, false);
    for _ in 0..MAX_PAGES {
        let (layer, since_ms) = (layer.wire().into(), clock_ms.saturating_sub(back_ms));
        let request = ListActivityRequest { since_ms, layer, first_section, ..ListActivityRequest::default() };
        let page = within(timeout, node.list_activity(request)).await.ok()?;
        if page.column_ms != span.column_ms() {
            // The length depends on the age of the request by the clock of the node, which may be another.
            if std::mem::replace(&mut is_corrected, true) {
                return None;
            }
            clock_ms = page.clock_ms;
            continue;
        }
        let next = page.next_section;
        let clock_of_node = page.clock_ms;
        let is_plausible = clock_of_node.abs_diff(now_ms) < CLOCK_DIFFERENCE_MS;
        if !record.read(page, span, if is_plausible { clock_of_node } else { now_ms }, first_section) {
            return None;
        }
        if next <= first_section {
            break;
        }
        first_section = next;
    }
    Some(record)
}

/// Reads the parameters of a request. A parameter that is missing or wrong has its default.
fn wanted(query: &str, all: u32) -> Wanted {
    let pairs: HashMap<_, _> = form_urlencoded::parse(query.as_bytes()).collect();
    let word = |name: &str| pairs.get(name).map_or("", |value| value.as_ref());
    let number = |name: &str, default: u32| word(name).parse().unwrap_or(default);
    let owner = word("owner").split_once('/').map(|(set, name)| (set.to_owned(), name.to_owned()));
    let layer = match (word("layer"), &owner) {
        ("writes", None) => Layer::Writes,
        ("writes", Some(_)) => Layer::OwnWrites,
        _ => Layer::Numbers,
    };
    let is_now = word("span") == "now";
    let end = number("to", all).clamp(1.min(all), all);
    let first = number("from", 0).min(end.saturating_sub(1));
    let count = end - first;
    Wanted {
        layer,
        span: match word("span") {
            "minutes" | "now" => Span::Minutes,
            "day" => Span::Day,
            _ => Span::Hour,
        },
        owner,
        cut: Cut {
            sections: first..end,
            rows: if is_now { count.min(MAX_SECTIONS) } else { count.min(number("rows", MAX_ROWS).clamp(1, MAX_ROWS)) },
            is_now,
            value: if word("value") == "total" { Value::Total } else { Value::Hottest },
            are_copies: layer == Layer::Writes,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_bounded() {
        let of = |query: &str| {
            let cut = wanted(query, 42_950).cut;
            (cut.sections, cut.rows)
        };
        assert_eq!(of(""), (0..42_950, 1_024));
        assert_eq!(of("rows=688&from=100&to=200"), (100..200, 100));
        assert_eq!(of("rows=0&from=99999&to=99999999"), (42_949..42_950, 1));
        assert_eq!(of("rows=99999&from=x&to=-1"), (0..42_950, 1_024));
        assert_eq!(of("span=now"), (0..42_950, 42_950));
        assert_eq!(wanted("span=now", 0).cut.sections, 0..0);
    }

    #[test]
    fn writes_of_an_owner_are_of_its_own_record() {
        let of = |query: &str| {
            let wanted = wanted(query, 10);
            (wanted.layer, wanted.owner)
        };
        assert_eq!(of("layer=writes"), (Layer::Writes, None));
        assert_eq!(of("layer=writes&owner=dev/a1"), (Layer::OwnWrites, Some(("dev".into(), "a1".into()))));
        assert_eq!(of("layer=x&owner=a1"), (Layer::Numbers, None));
    }
}
