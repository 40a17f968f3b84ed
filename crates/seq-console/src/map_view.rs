//! The section map as data: the number of sections, the choices of its controls, and the events to be marked.

use std::collections::BTreeSet;

use seq_core::limits::MAX_SECTIONS;
use seq_observe::cluster::Cluster;

/// The canvas of the map with its controls.
pub(crate) struct MapView {
    pub(crate) sections: u32,
    pub(crate) section_size: u32,
    pub(crate) uid_start: u64,
    /// Set and name of each allocator.
    pub(crate) owners: BTreeSet<(String, String)>,
}

/// Returns the number of sections of the cluster, by the uids of its sets.
pub(crate) fn sections(cluster: &Cluster) -> u32 {
    let of_set = cluster.sets.iter().filter(|set| set.section_size > 0).map(|set| {
        let sections = set.uid_end.saturating_sub(set.uid_start).div_ceil(u64::from(set.section_size));
        u32::try_from(sections).unwrap_or(u32::MAX)
    });
    of_set.max().unwrap_or(0).min(MAX_SECTIONS)
}
