//! Settings in which running nodes of a kind differ.

use std::collections::BTreeMap;

use seq_proto::v1::{GetConfigResponse, Setting};
use serde::{Serialize, Serializer};

use super::{OWN, typed};

/// The settings of a node.
pub struct Report {
    /// Address of the node, as `host:port`.
    pub addr: String,
    /// Its settings, as it reports them.
    pub settings: GetConfigResponse,
}

impl Report {
    fn row(&self, key: &str) -> Option<&Setting> {
        self.settings.settings.iter().find(|row| row.key == key)
    }
}

/// A setting that has different values on nodes of the same set and kind, as JSON.
#[derive(Debug, PartialEq, Serialize)]
pub struct Difference {
    /// Name of the set; empty for proxies.
    pub set: String,
    /// `store`, `alloc` or `proxy`.
    pub kind: String,
    /// Key of the setting.
    pub key: String,
    /// Value that more than half of the nodes have, in the syntax of TOML. `None` if no value has a majority, or if
    /// more than half of the nodes do not have the setting.
    #[serde(serialize_with = "as_typed")]
    pub majority: Option<String>,
    /// Nodes whose value is not the majority's. If there is no majority, all nodes of this set and kind.
    pub nodes: Vec<ValueOfNode>,
}

/// The value of a setting on a node, as JSON.
#[derive(Debug, PartialEq, Serialize)]
pub struct ValueOfNode {
    /// Name of the node.
    pub node: String,
    /// Address of the node, as `host:port`.
    pub addr: String,
    /// Value in the syntax of TOML. `None` if the release of the node does not have the setting.
    #[serde(serialize_with = "as_typed")]
    pub value: Option<String>,
    /// Origin of the value.
    pub origin: Option<String>,
}

/// Returns the settings that differ between nodes of the same set and kind, in the order in which the nodes report
/// their settings. Settings with the prefix [`OWN`] differ for each node by their nature, and are included only if
/// `all` is true.
#[must_use]
pub fn differences(reports: &[Report], all: bool) -> Vec<Difference> {
    let mut groups: BTreeMap<(usize, &str, &str), Vec<&Report>> = BTreeMap::new();
    for report in reports {
        let GetConfigResponse { set, kind, .. } = &report.settings;
        let order = ["store", "alloc", "proxy"].iter().position(|known| known == kind).unwrap_or(3);
        groups.entry((order, set, kind)).or_default().push(report);
    }
    let mut found = Vec::new();
    for ((_, set, kind), nodes) in groups {
        let mut keys: Vec<&str> = Vec::new();
        for key in nodes.iter().flat_map(|report| &report.settings.settings).map(|row| row.key.as_str()) {
            if !keys.contains(&key) && (all || !key.starts_with(OWN)) {
                keys.push(key);
            }
        }
        let of_key = |key: &str| difference((set, kind, key), &nodes);
        found.extend(keys.into_iter().filter_map(of_key));
    }
    found
}

/// Compares the setting `key` of the nodes of one set and kind. Returns `None` if all nodes have the same value.
fn difference((set, kind, key): (&str, &str, &str), nodes: &[&Report]) -> Option<Difference> {
    let rows: Vec<Option<&Setting>> = nodes.iter().map(|report| report.row(key)).collect();
    let value = |row: &Option<&Setting>| row.map(|row| row.value.clone());
    let mut counts: BTreeMap<Option<String>, usize> = BTreeMap::new();
    rows.iter().for_each(|row| *counts.entry(value(row)).or_default() += 1);
    if counts.len() < 2 {
        return None;
    }
    let majority = counts.into_iter().find(|(_, count)| count * 2 > rows.len()).map(|(value, _)| value);
    let others = nodes.iter().zip(&rows).filter(|(_, row)| majority.as_ref() != Some(&value(row)));
    let others = others.map(|(report, row)| ValueOfNode {
        node: report.settings.node.clone(),
        addr: report.addr.clone(),
        value: row.map(|row| row.value.clone()),
        origin: row.map(|row| row.origin.clone()),
    });
    Some(Difference {
        set: set.to_owned(),
        kind: kind.to_owned(),
        key: key.to_owned(),
        nodes: others.collect(),
        majority: majority.flatten(),
    })
}

/// Serializes a value in the type of its key.
fn as_typed<S: Serializer>(value: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    value.as_deref().map(typed).serialize(serializer)
}
