//! The verdict on a set, which states in one sentence whether the sections are served, whether the store can commit,
//! and the next step for an operator.
//!
//! [`CONDITIONS`] is the table of all verdicts, the worst first. The first condition that holds is the verdict on a
//! set. [`REMARKS`] are appended to a verdict and do not change it. Conditions and remarks depend only on [`Facts`].

use std::collections::{BTreeMap, BTreeSet};

use seq_command::output::grouped;

use crate::advice::{Advice, Severity};
use crate::certificate::Expiry;

mod conditions;
mod remarks;

pub use conditions::CONDITIONS;
pub use remarks::{REMARKS, Remark};

/// The state of a set, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// An allocator has detected that the store lost committed entries, so numbers may be allocated twice.
    RolledBack,
    /// Two processes respond as the same StoreSvr, or stores of two sets with different ids respond under the same set
    /// name, so one process or one store is a copy.
    Cloned,
    /// Stores of the set have different lineages because they were restored differently. The same numbers may be
    /// allocated by both parts of the set.
    Split,
    /// Members of the store have different states although they have applied the same entries of its log.
    Differs,
    /// Sections are in no set of the cluster.
    Unplaced,
    /// The store has no majority of its voters, so nothing can be committed, and leases expire.
    NoQuorum,
    /// A majority of the voters responds, but has elected no leader yet.
    Election,
    /// No set is defined in the store yet.
    Undefined,
    /// The set was restored from a backup and serves nothing yet.
    Quarantined,
    /// The store has a quorum, but some sections are not served.
    Unserved,
    /// All sections are served, but a node does not respond, cannot be reached by callers, has no lease or has an
    /// expired certificate, or a disk is nearly full.
    Degraded,
    /// All sections are served and all nodes respond.
    Ok,
    /// The set is closed, so its processes need not run.
    Closed,
}

impl State {
    /// Returns the word for the state.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            State::RolledBack => "rolled back",
            State::Cloned => "cloned",
            State::Split => "split",
            State::Differs => "differs",
            State::Unplaced => "unplaced",
            State::NoQuorum => "no quorum",
            State::Election => "election",
            State::Undefined => "undefined",
            State::Quarantined => "quarantined",
            State::Unserved => "unserved",
            State::Degraded => "degraded",
            State::Ok => "ok",
            State::Closed => "closed",
        }
    }

    /// Returns the urgency of the state; `None` if no fault is known.
    #[must_use]
    pub fn severity(self) -> Option<Severity> {
        match self {
            State::Ok | State::Closed => None,
            State::Degraded | State::Election => Some(Severity::Attention),
            _ => Some(Severity::Fault),
        }
    }
}

/// A condition of a set.
pub struct Condition {
    /// The state that a set has if the condition determines the verdict.
    pub state: State,
    /// The name of the condition in the table of `docs/operations.md`.
    pub name: &'static str,
    /// The page and heading in `docs/runbook`.
    pub runbook: &'static str,
    /// Returns whether the condition holds. It may assume that no earlier condition of the table holds.
    pub(crate) holds: fn(&Facts) -> bool,
    /// Returns the sentence of the verdict and the next step.
    pub(crate) text: fn(&Facts) -> Advice,
}

/// Addresses of nodes by name. If the name of a node is not known, its address is used as the name and the set of
/// addresses is empty.
pub(crate) type Nodes = BTreeMap<String, BTreeSet<String>>;

/// The facts about a set on which its verdict depends. They are taken from the responses of the nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// Whether the set itself or another set reports that the set is closed.
    pub(crate) closed: bool,
    /// Number of nodes of the set that respond.
    pub(crate) responding: usize,
    /// All voters by name, and whether they responded at any address. The list is empty if no StoreSvr responded.
    pub(crate) voters: Vec<(String, bool)>,
    /// Names of StoreSvrs that respond without a list of members, because the store was never formed.
    pub(crate) unformed: Vec<String>,
    /// Whether a StoreSvr reports that a majority of the voters is connected.
    pub(crate) quorum: bool,
    /// Milliseconds since any StoreSvr last reported a majority of the voters; 0 if unknown.
    pub(crate) quorum_lost_ms: u64,
    /// Uptime in milliseconds of the responding StoreSvr that started first.
    pub(crate) store_uptime_ms: u64,
    /// Whether a responding StoreSvr has the definition of the set.
    pub(crate) defined: bool,
    /// Reason why the restored set serves nothing yet; empty if the set is not in quarantine.
    pub(crate) quarantine: String,
    /// Number of sections of the set, including delayed sections; `None` if no StoreSvr responded.
    pub(crate) sections: Option<u32>,
    /// Number of sections whose owner has a lease that has not expired.
    pub(crate) served: u32,
    /// Number of sections that departed to another set some time ago and have not arrived. The next field has the
    /// longest time since a departure, in milliseconds.
    pub(crate) delayed: u32,
    pub(crate) delayed_ms: u64,
    /// Names of allocators that stopped serving because they found that the store had lost entries, each with the
    /// evidence.
    pub(crate) halted: Vec<(String, String)>,
    /// Names of allocators that callers cannot reach, each with the cause and the next step.
    pub(crate) withdrawn: Vec<(String, String)>,
    /// Pairs of allocators. The second allocator of a pair cannot reach the first at its address for callers.
    pub(crate) unreached: Vec<(String, String)>,
    /// Names of allocators that respond and have been running long enough for reports of their peers to count.
    pub(crate) present: Vec<String>,
    /// Evidence recorded in the store that committed entries were lost; empty if there is none.
    pub(crate) entries_lost: String,
    /// StoreSvrs as which several processes respond, with the addresses of the processes.
    pub(crate) copies: Nodes,
    /// Names of the StoreSvrs that respond, by the id of the set that they report.
    pub(crate) set_ids: BTreeMap<u64, Vec<String>>,
    /// Text about members of the store whose states differ; empty if the states are equal.
    pub(crate) difference: String,
    /// Names of the StoreSvrs that respond, by the lineage that they report.
    pub(crate) lineages: BTreeMap<u64, Vec<String>>,
    /// Number of allocators that respond.
    pub(crate) allocs: usize,
    /// Allocators without a lease, by name.
    pub(crate) unleased: Vec<String>,
    /// Milliseconds left of the longest lease; 0 if there is none.
    pub(crate) lease_left_ms: u64,
    /// Milliseconds since the most recent expiry of a lease; 0 if no allocator reports an expired lease.
    pub(crate) lease_ended_ms: u64,
    /// StoreSvrs that do not respond at any address.
    pub(crate) silent_stores: Nodes,
    /// Allocators that do not respond at any address.
    pub(crate) silent_allocs: Nodes,
    /// Highest count of restores that a StoreSvr reports, for any set of the cluster.
    pub(crate) restores: u32,
    /// The count of restores in the lineage that the set began by itself; 0 if the set did not begin a lineage by
    /// itself.
    pub(crate) begun: u32,
    /// Nodes whose certificates have expired or expire soon.
    pub(crate) expiry: Expiry,
    /// StoreSvrs with the free bytes and the size in bytes of the file systems of their data.
    pub(crate) disks: Vec<(String, u64, u64)>,
    /// Nodes whose clocks differ from the median of the cluster, with the milliseconds by which they are ahead of it.
    pub(crate) clocks: Vec<(String, i64)>,
    /// The pause of balancing; empty if balancing is not paused.
    pub(crate) paused: String,
    /// Number of sections that operators moved to an allocator.
    pub(crate) moved: u32,
    /// Allocators that operators drain or have drained, with the number of their remaining sections.
    pub(crate) drained: Vec<(String, u32)>,
    /// Names of the nodes that respond, by the version and revision of their program.
    pub(crate) releases: BTreeMap<String, Vec<String>>,
    /// Allocators whose leases expired in the last ten minutes, with the number of expiries.
    pub(crate) lapses: Vec<(String, u32)>,
}

impl Facts {
    /// Returns the first condition that holds.
    pub(crate) fn condition(&self) -> &'static Condition {
        CONDITIONS.iter().find(|condition| (condition.holds)(self)).expect("the last condition always holds")
    }

    pub(crate) fn state(&self) -> State {
        self.condition().state
    }

    /// Returns the sentence of the verdict, followed by the remarks.
    pub(crate) fn text(&self) -> String {
        let verdict = (self.condition().text)(self).to_string();
        let remarks = self.remarks().map(|(_, advice)| advice.to_string());
        std::iter::once(verdict).chain(remarks).collect::<Vec<_>>().join("; ")
    }

    /// Returns the remarks that apply, in the order of [`REMARKS`].
    pub(crate) fn remarks(&self) -> impl Iterator<Item = (&'static Remark, Advice)> {
        REMARKS.iter().flat_map(|remark| (remark.text)(self).into_iter().map(move |advice| (remark, advice)))
    }

    /// Returns the StoreSvrs that do not respond. Voters without a known address are included, and StoreSvrs with
    /// expired certificates are excluded.
    fn missing_stores(&self) -> Vec<String> {
        let silent =
            |(name, _): &&(String, bool)| !self.silent_stores.contains_key(name) && !self.expiry.is_cause(name);
        let unknown = self.voters.iter().filter(|(_, responds)| !responds).filter(silent).map(|(name, _)| name.clone());
        listed(&self.silent_stores).chain(unknown).collect()
    }

    /// Returns the number of voters that respond, and the number of all voters.
    fn voters_responding(&self) -> (usize, usize) {
        (self.voters.iter().filter(|(_, responds)| *responds).count(), self.voters.len())
    }

    fn served(&self) -> String {
        match self.sections {
            Some(0) => "it has no sections".to_owned(),
            Some(all) => format!("{} of {} sections are served", grouped(self.served.into()), grouped(all.into())),
            None => format!("{} of ? sections are served", grouped(self.served.into())),
        }
    }

    fn voters(&self) -> String {
        match self.voters_responding() {
            (_, 0) => "no store responds".to_owned(),
            (1, all) => format!("1 of {all} voters responds"),
            (responding, all) => format!("{responding} of {all} voters respond"),
        }
    }
}

/// Returns a text for each node, with its addresses, such as `s1 (h:1)`.
fn listed(nodes: &Nodes) -> impl Iterator<Item = String> {
    nodes.iter().map(|(name, addrs)| {
        let addrs = addrs.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        if addrs.is_empty() { name.clone() } else { format!("{name} ({addrs})") }
    })
}

/// Formats a time span in seconds or minutes.
#[must_use]
pub fn age(ms: u64) -> String {
    match ms {
        0..10_000 => format!("{:.1} s", ms as f64 / 1_000.0),
        10_000..120_000 => format!("{} s", ms / 1_000),
        _ => format!("{} min", ms / 60_000),
    }
}

/// Formats an uptime in its two largest units.
#[must_use]
pub fn uptime(ms: u64) -> String {
    let seconds = ms / 1_000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{:02}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

#[cfg(test)]
mod tests;
