//! Validation of messages from the wire. After a message was decoded, this module checks it and converts it to types of
//! `seq_core`.

use std::collections::BTreeMap;
use std::ops::Range;

use seq_core::limits;
use seq_core::route::{Route, RouteNode, RouteRun, RouteSet, RouteUpdate};
use seq_core::{Count, Epoch, Layout, NodeId, Refusal, RouteVersion, SectionId, SetId, Target, Uid};

use crate::series::{self, SeriesError};
use crate::v1;

/// The validated items of a batch. The items of a read have no counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Items<'a> {
    uids: &'a [u64],
    /// Counts of the items. If the list is empty, or if a count is 0, the item takes one number.
    counts: &'a [u32],
    /// Newest epochs of the uids' sections that the caller has seen. If the list is empty, the caller has seen none.
    epochs: &'a [u64],
}

impl<'a> Items<'a> {
    /// Checks that the lists of a batch have allowed lengths. The counts are checked later, item by item, by
    /// [`Items::iter`].
    ///
    /// # Errors
    /// [`Refusal::EmptyBatch`], [`Refusal::BatchTooLarge`] or [`Refusal::CountsMismatch`].
    pub fn new(uids: &'a [u64], counts: &'a [u32], epochs: &'a [u64]) -> Result<Items<'a>, Refusal> {
        check_lists(uids.len(), counts, epochs)?;
        Ok(Items { uids, counts, epochs })
    }

    /// Returns the items in the order of the request, each with the newest epoch of its section that the caller has
    /// seen. If the count of an item is out of range, the item has a refusal instead of the count.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (Uid, Result<Count, Refusal>, Epoch)> {
        self.uids.iter().enumerate().map(|(index, uid)| {
            let (count, epoch) = nth(index, self.counts, self.epochs);
            (Uid(*uid), count, epoch)
        })
    }
}

/// Checks that the lists of a batch of `items` keys have allowed lengths, and returns the counts and epochs of the
/// items, as [`Items::iter`] does.
///
/// # Errors
/// As [`Items::new`].
pub fn items(
    items: usize,
    counts: &[u32],
    epochs: &[u64],
) -> Result<impl ExactSizeIterator<Item = (Result<Count, Refusal>, Epoch)>, Refusal> {
    check_lists(items, counts, epochs)?;
    Ok((0..items).map(|index| nth(index, counts, epochs)))
}

fn nth(index: usize, counts: &[u32], epochs: &[u64]) -> (Result<Count, Refusal>, Epoch) {
    let count = counts.get(index).map_or(Ok(Count::ONE), |wire| count(*wire));
    (count, Epoch(epochs.get(index).copied().unwrap_or(0)))
}

fn check_lists(items: usize, counts: &[u32], epochs: &[u64]) -> Result<(), Refusal> {
    match items {
        0 => return Err(Refusal::EmptyBatch),
        1..=limits::MAX_ITEMS => {}
        items => return Err(Refusal::BatchTooLarge { items }),
    }
    match [counts.len(), epochs.len()].into_iter().find(|list| *list != 0 && *list != items) {
        Some(list) => Err(Refusal::CountsMismatch { uids: items, counts: list }),
        None => Ok(()),
    }
}

/// Checks that a request has a uid, and returns the uid. If `hops` is above 0, a node forwarded the request. In this
/// case a missing uid is accepted as 0, because nodes of earlier releases leave out the uid 0.
///
/// # Errors
/// [`Refusal::UidMissing`].
pub fn uid(wire: Option<u64>, hops: u32) -> Result<Uid, Refusal> {
    match wire {
        None if hops == 0 => Err(Refusal::UidMissing),
        wire => Ok(Uid(wire.unwrap_or(0))),
    }
}

/// Checks the number to which a uid is to be advanced, and returns it. If `hops` is above 0, a missing number is
/// accepted as 0, for the same reason as a missing uid in [`uid`].
///
/// # Errors
/// [`Refusal::ToMissing`], or the errors of [`Target::new`].
pub fn to(wire: Option<u64>, hops: u32) -> Result<Target, Refusal> {
    match wire {
        None if hops == 0 => Err(Refusal::ToMissing),
        wire => Target::new(wire.unwrap_or(0)),
    }
}

/// Checks the count of an item, and returns it. A count of 0 is taken as 1, because it is also the count of a message
/// that states no count.
///
/// # Errors
/// [`Refusal::CountOutOfRange`].
pub fn count(wire: u32) -> Result<Count, Refusal> {
    if wire == 0 { Ok(Count::ONE) } else { Count::new(wire) }
}

/// Checks that a request was not forwarded more often than allowed.
///
/// # Errors
/// [`Refusal::TooManyHops`].
pub fn check_hops(hops: u32) -> Result<(), Refusal> {
    if hops > limits::MAX_HOPS { Err(Refusal::TooManyHops { hops }) } else { Ok(()) }
}

impl From<&RouteUpdate> for v1::Routes {
    fn from(update: &RouteUpdate) -> Self {
        let (uids, lanes) = (update.layout.uids(), update.layout.declared().sections());
        v1::Routes {
            set: update.set.clone(),
            version: update.version.0,
            base_version: update.base.0,
            uid_start: uids.start,
            uid_end: uids.end,
            section_size: update.layout.section_size(),
            nodes: update
                .nodes
                .iter()
                .map(|(id, node)| v1::RouteNode { id: id.0, name: node.name.clone(), addr: node.addr.clone() })
                .collect(),
            runs: wire_runs(&update.runs, 0..lanes),
            series: update.series.iter().map(v1::StoredSeries::from).collect(),
            lane_runs: wire_runs(&update.runs, lanes..u32::MAX),
            set_id: update.id.0,
            sets: update
                .sets
                .iter()
                .map(|(id, set)| v1::RouteSet { id: id.0, name: set.name.clone(), allocs: set.allocs.clone() })
                .collect(),
        }
    }
}

/// Encodes the parts of `runs` that are within the range `range` of sections.
fn wire_runs(runs: &[RouteRun], range: Range<u32>) -> Vec<v1::RouteRun> {
    let part = |run: &RouteRun| {
        let (first, end) = (run.first.0.max(range.start), run.first.0.saturating_add(run.sections).min(range.end));
        (first < end).then(|| v1::RouteRun {
            first_section: first,
            sections: end - first,
            owner: run.route.owner.map_or(0, |owner| owner.0),
            epoch: run.route.epoch.0,
            away_set_id: run.route.away.0,
        })
    };
    runs.iter().filter_map(part).collect()
}

/// Error of a route message that is not a valid route update.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RoutesError {
    /// Its layout is invalid.
    #[error("routes of set {set:?}: {source}")]
    Layout {
        /// The set it names.
        set: String,
        /// Violated rule of the layout.
        source: seq_core::layout::LayoutError,
    },
    /// A series is invalid.
    #[error("routes of set {set:?}: {source}")]
    Series {
        /// The set it names.
        set: String,
        /// The flaw of the series.
        source: SeriesError,
    },
    /// The lanes of a series do not continue the layout.
    #[error("routes of set {set:?}: the lanes of series {series:?} do not continue the layout")]
    Lanes {
        /// The set it names.
        set: String,
        /// Name of the series.
        series: String,
    },
    /// The routes have no version, or contain changes relative to a version that is not older than the version of the
    /// routes.
    #[error("routes of set {set:?}: version {version} on base {base}")]
    Version {
        /// The set it names.
        set: String,
        /// The stated version.
        version: u64,
        /// The version to which the changes are relative.
        base: u64,
    },
    /// A node with id 0.
    #[error("routes of set {set:?}: node {name:?} has id 0")]
    NodeId {
        /// The set it names.
        set: String,
        /// The node.
        name: String,
    },
    /// A run has no section, overlaps the previous run, or extends beyond the layout.
    #[error("routes of set {set:?}: run of {sections} sections at {first} does not fit")]
    Run {
        /// The set it names.
        set: String,
        /// First section of the run.
        first: u32,
        /// Sections in the run.
        sections: u32,
    },
    /// A run has an owner that is not among the nodes in the routes, or has an owner although its sections are in
    /// another set.
    #[error("routes of set {set:?}: section {first} belongs to node {owner}, which is not listed")]
    UnknownOwner {
        /// The set it names.
        set: String,
        /// First section of the run.
        first: u32,
        /// The id of the owner.
        owner: u32,
    },
}

impl TryFrom<&v1::Routes> for RouteUpdate {
    type Error = RoutesError;

    fn try_from(routes: &v1::Routes) -> Result<Self, RoutesError> {
        let set = || routes.set.clone();
        let mut layout = Layout::new(routes.uid_start..routes.uid_end, routes.section_size)
            .map_err(|source| RoutesError::Layout { set: set(), source })?;
        let lanes = layout.sections();
        let mut series = Vec::with_capacity(routes.series.len());
        for one in &routes.series {
            let one = series::routed(one, RouteVersion(routes.version))
                .map_err(|source| RoutesError::Series { set: set(), source })?;
            let appended = layout.append(one.lanes).ok().filter(|(_, sections)| *sections == one.sections);
            layout = appended.ok_or_else(|| RoutesError::Lanes { set: set(), series: one.name.clone() })?.0;
            series.push(one);
        }
        if routes.version == 0 || routes.base_version >= routes.version {
            return Err(RoutesError::Version { set: set(), version: routes.version, base: routes.base_version });
        }
        let mut nodes = BTreeMap::new();
        for node in &routes.nodes {
            if node.id == 0 {
                return Err(RoutesError::NodeId { set: set(), name: node.name.clone() });
            }
            nodes.insert(NodeId(node.id), RouteNode { name: node.name.clone(), addr: node.addr.clone() });
        }
        let mut runs = Vec::with_capacity(routes.runs.len() + routes.lane_runs.len());
        let mut end = 0u64;
        let places = routes.runs.iter().map(|run| (run, 0..lanes));
        let places = places.chain(routes.lane_runs.iter().map(|run| (run, lanes..layout.sections())));
        for (run, place) in places {
            let first = u64::from(run.first_section);
            let run_end = first + u64::from(run.sections);
            let fits = first >= end.max(place.start.into()) && run_end <= u64::from(place.end);
            if run.sections == 0 || !fits {
                return Err(RoutesError::Run { set: set(), first: run.first_section, sections: run.sections });
            }
            end = run_end;
            let owner = (run.owner != 0).then_some(NodeId(run.owner));
            if owner.is_some_and(|owner| !nodes.contains_key(&owner) || run.away_set_id != 0) {
                return Err(RoutesError::UnknownOwner { set: set(), first: run.first_section, owner: run.owner });
            }
            let (first, sections) = (SectionId(run.first_section), run.sections);
            let route = Route { owner, epoch: Epoch(run.epoch), away: SetId(run.away_set_id) };
            match runs.last_mut() {
                // On the wire, a run that reaches from uids into lanes is split into two runs at the first section of
                // lanes.
                Some(RouteRun { first: of, sections: before, route: same })
                    if first.0 == lanes && of.0 + *before == lanes && *same == route =>
                {
                    *before += sections;
                }
                _ => runs.push(RouteRun { first, sections, route }),
            }
        }
        let set_of = |set: &v1::RouteSet| RouteSet { name: set.name.clone(), allocs: set.allocs.clone() };
        let sets = routes.sets.iter().map(|set| (SetId(set.id), set_of(set)));
        Ok(RouteUpdate {
            set: set(),
            id: SetId(routes.set_id),
            sets: sets.collect(),
            layout,
            version: RouteVersion(routes.version),
            base: RouteVersion(routes.base_version),
            nodes,
            runs,
            series: series.into(),
        })
    }
}
