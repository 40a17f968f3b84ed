//! A keyspace as text and as JSON, and the runs of its buckets.

use std::ops::Range;

use seq_command::exit::{Exit, Failure};
use seq_command::output::digits;
use seq_command::utc;
use seq_core::keyspace::BUCKETS;
use seq_proto::Reason;
use seq_proto::v1::{RouteRun, Routes, StoredSeries};
use serde::Serialize;

/// A keyspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct KeyspaceView {
    pub(super) name: String,
    pub(super) buckets: u32,
    /// Section of the first bucket.
    pub(super) first_section: u32,
    /// Whether the keys are the sparse uids.
    pub(super) uids: bool,
    /// Time at which the keyspace was created, in UTC.
    pub(super) created: String,
}

/// Neighbouring buckets with the same owner.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct BucketRun {
    pub(super) first_bucket: u32,
    pub(super) buckets: u32,
    /// Name of the set.
    pub(super) set: String,
    /// Name of the owner. It is absent if the buckets have no owner, or if they are in another set than the AllocSvr
    /// that responded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) owner: Option<String>,
    #[serde(serialize_with = "digits")]
    pub(super) epoch: u64,
}

impl KeyspaceView {
    pub(super) fn new(name: &str, first_section: u32, created_ms: u64, uids: bool) -> KeyspaceView {
        let (name, created) = (name.to_owned(), utc::text_of_ms(created_ms));
        KeyspaceView { name, buckets: BUCKETS.into(), first_section, uids, created }
    }

    /// Returns the kind of the keys.
    pub(super) fn kind(&self) -> &'static str {
        if self.uids { "sparse uids" } else { "any bytes" }
    }

    /// Returns the sections of the buckets.
    fn sections(&self) -> Range<u32> {
        self.first_section..self.first_section.saturating_add(self.buckets)
    }
}

/// Returns the keyspaces in a route table, in the order in which they were created.
pub(super) fn keyspaces(routes: &Routes) -> Vec<KeyspaceView> {
    let keyspace = |series: &StoredSeries| {
        let lanes = series.lanes.as_ref()?;
        let uids = lanes.keys.as_ref()?.of_uids;
        Some(KeyspaceView::new(&series.name, lanes.first_section, series.created_ms, uids))
    };
    routes.series.iter().filter_map(keyspace).collect()
}

/// Returns the keyspace with a name; without a name, the only keyspace.
///
/// # Errors
/// `UNKNOWN_KEYSPACE` if there is none, or a usage error if there are several and none is named.
pub(super) fn find(routes: &Routes, name: Option<&str>) -> Result<KeyspaceView, Failure> {
    let mut all = keyspaces(routes);
    let unknown = |message: String| {
        Failure::new(Exit::Failed, format!("{message} ({})", Reason::UnknownKeyspace))
            .reason(Reason::UnknownKeyspace.name())
            .hint("`seqsvr keyspace list` lists them")
    };
    let Some(name) = name else {
        return match all.len() {
            0 => Err(unknown("the cluster has no keyspace".to_owned())),
            1 => Ok(all.remove(0)),
            several => {
                let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
                let message = format!("the cluster has {several} keyspaces: {}", names.join(", "));
                Err(Failure::new(Exit::Usage, message).hint("--keyspace NAME chooses one"))
            }
        };
    };
    let found = all.into_iter().find(|keyspace| keyspace.name == name);
    found.ok_or_else(|| unknown(format!("the cluster has no keyspace {name:?}")))
}

/// Returns the buckets of a keyspace as runs, with their sets and owners, from the route table of one set.
pub(super) fn runs(keyspace: &KeyspaceView, routes: &Routes) -> Vec<BucketRun> {
    let Range { start, end } = keyspace.sections();
    let run = |run: &RouteRun| {
        let sections = run.first_section.max(start)..run.first_section.saturating_add(run.sections).min(end);
        if sections.is_empty() {
            return None;
        }
        let set = match run.away_set_id {
            0 => routes.set.clone(),
            id => {
                let other = routes.sets.iter().find(|set| set.id == id);
                other.map_or_else(|| id.to_string(), |set| set.name.clone())
            }
        };
        let owner = routes.nodes.iter().find(|node| node.id == run.owner && run.owner != 0);
        Some(BucketRun {
            first_bucket: sections.start - start,
            buckets: sections.end - sections.start,
            set,
            owner: owner.map(|node| node.name.clone()),
            epoch: run.epoch,
        })
    };
    routes.lane_runs.iter().filter_map(run).collect()
}

#[cfg(test)]
mod tests {
    use seq_proto::v1::{Hashing, Lanes, RouteNode, RouteSet};

    use super::*;

    fn routes(names: &[&str]) -> Routes {
        let series = |(name, index): (&&str, u32)| StoredSeries {
            name: (*name).to_owned(),
            lanes: Some(Lanes {
                count: 16_384,
                per_section: 1,
                first_section: 20 + index * 16_384,
                keys: Some(Hashing::default()),
                ..Lanes::default()
            }),
            ..StoredSeries::default()
        };
        let of_a_series = StoredSeries { lanes: Some(Lanes::default()), ..StoredSeries::default() };
        let run = |first_section, sections, owner, away_set_id| RouteRun {
            first_section,
            sections,
            owner,
            epoch: 7,
            away_set_id,
        };
        Routes {
            set: "im-a".to_owned(),
            nodes: vec![RouteNode { id: 2, name: "a2".to_owned(), addr: String::new() }],
            sets: vec![RouteSet { id: 5, name: "im-b".to_owned(), allocs: Vec::new() }],
            series: std::iter::once(of_a_series).chain(names.iter().zip(0..).map(series)).collect(),
            lane_runs: vec![run(10, 26, 2, 0), run(36, 16, 0, 0), run(52, 16_336, 0, 5), run(16_388, 99, 2, 0)],
            ..Routes::default()
        }
    }

    #[test]
    fn a_keyspace_is_found_by_its_name_or_alone() {
        let name =
            |routes: &Routes, name| find(routes, name).map(|found| found.name).map_err(|error| error.to_string());
        let one = routes(&["main"]);
        assert_eq!([name(&one, None), name(&one, Some("main"))], [Ok("main".to_owned()), Ok("main".to_owned())]);
        assert_eq!(name(&one, Some("other")).unwrap_err(), "the cluster has no keyspace \"other\" (UNKNOWN_KEYSPACE)");
        let none = name(&routes(&[]), None).unwrap_err();
        assert_eq!(none, "the cluster has no keyspace (UNKNOWN_KEYSPACE)", "a series is no keyspace");
        let several = routes(&["main", "more"]);
        assert_eq!(name(&several, None).unwrap_err(), "the cluster has 2 keyspaces: main, more");
        assert_eq!(find(&several, Some("more")).unwrap().first_section, 20 + 16_384);
    }

    #[test]
    fn runs_are_cut_at_the_ends_of_the_keyspace() {
        let routes = routes(&["main"]);
        let runs = runs(&find(&routes, None).unwrap(), &routes);
        let shown: Vec<_> =
            runs.iter().map(|run| (run.first_bucket, run.buckets, run.set.as_str(), run.owner.as_deref())).collect();
        let expected = [
            (0, 16, "im-a", Some("a2")),
            (16, 16, "im-a", None),
            (32, 16_336, "im-b", None),
            (16_368, 16, "im-a", Some("a2")),
        ];
        assert_eq!(shown, expected);
    }
}
