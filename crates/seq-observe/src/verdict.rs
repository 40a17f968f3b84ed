//! The verdict on a set. It states in one sentence whether the sections of the set are served and whether its store can
//! commit, followed by the operator's next step.
//!
//! [`CONDITIONS`] is the table of all possible verdicts. The first condition that holds determines the verdict on a
//! set. [`REMARKS`] are appended to a verdict and do not change it. Conditions and remarks depend only on the [`Facts`]
//! about the set.

use std::collections::{BTreeMap, BTreeSet};

use seq_command::output::grouped;

use crate::advice::{Advice, Severity};
use crate::certificate::Expiry;

mod conditions;
mod remarks;

pub use conditions::CONDITIONS;
pub use remarks::{REMARKS, Remark};

/// State of a set or of the cluster. The variants are ordered from the worst to the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// An AllocSvr has detected that the store lost committed entries, so numbers may be allocated twice.
    RolledBack,
    /// Two processes respond as the same StoreSvr, so one process is a copy of the other. Or StoreSvrs of two sets with
    /// different ids respond under one set name, so one set may be a copy of the other.
    Cloned,
    /// StoreSvrs of the set have different lineages because they were restored from different backups or with different
    /// counts of restores. The set is split into parts that may allocate the same numbers.
    Split,
    /// Members of the store have different states although they have applied the same entries of the Raft log.
    Differs,
    /// Sections are in no set of the cluster.
    Unplaced,
    /// No StoreSvr is connected to a majority of the store's voters, so nothing can be committed, and the leases of the
    /// owners expire.
    NoQuorum,
    /// No StoreSvr has reported a leader with a majority for a few seconds, and an election may still be in progress.
    Election,
    /// No set is defined in the store yet.
    Undefined,
    /// The set was restored from a backup and serves nothing yet.
    Quarantined,
    /// The store has a quorum, but some sections are not served.
    Unserved,
    /// All sections are served, but a node does not respond, has no lease or has an expired certificate, or callers
    /// cannot reach it, or its disk is nearly full.
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

    /// Returns the urgency of the state. Returns `None` for the states `Ok` and `Closed`, which are no faults.
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
    /// State of the set if this condition is the first that holds.
    pub state: State,
    /// The name of the condition in the table of `docs/operations/watching.md`.
    pub name: &'static str,
    /// The page and heading in `docs/runbook`.
    pub runbook: &'static str,
    /// Function that returns whether the condition holds. It may assume that no condition before it in the table holds.
    pub(crate) holds: fn(&Facts) -> bool,
    /// Function that returns the sentence of the verdict and the operator's next step.
    pub(crate) text: fn(&Facts) -> Advice,
}

/// Addresses of nodes, by the name of the node. If the name of a node is not known, its address is the key, and the set
/// of addresses is empty.
pub(crate) type Nodes = BTreeMap<String, BTreeSet<String>>;

/// The facts about a set on which the verdict and the remarks depend. They are taken from the responses of nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// Whether a member of the set's store, or a node of another set, reports that the set is closed.
    pub(crate) closed: bool,
    /// Number of nodes of the set that respond.
    pub(crate) responding: usize,
    /// Names of all voters of the store, each with whether the voter responds at any address. The list is empty if no
    /// StoreSvr responded.
    pub(crate) voters: Vec<(String, bool)>,
    /// Names of the StoreSvrs that respond without a list of members. Their store was never formed.
    pub(crate) unformed: Vec<String>,
    /// Whether any StoreSvr of the set reports a leader with a majority of the voters.
    pub(crate) quorum: bool,
    /// Milliseconds since any StoreSvr last reported a majority of the voters. It is 0 if unknown, and while there is a
    /// majority.
    pub(crate) quorum_lost_ms: u64,
    /// Uptime in milliseconds of the responding StoreSvr that started first.
    pub(crate) store_uptime_ms: u64,
    /// Whether a responding StoreSvr has the definition of the set.
    pub(crate) defined: bool,
    /// Reason why the set, which was restored from a backup, serves nothing yet. It is empty if the set is not in
    /// quarantine.
    pub(crate) quarantine: String,
    /// Number of sections of the set, including the delayed sections. It is `None` if no StoreSvr responded.
    pub(crate) sections: Option<u32>,
    /// Number of sections whose owner has an unexpired lease.
    pub(crate) served: u32,
    /// Number of sections that departed to another set at least one second ago and have not arrived. `delayed_ms` is
    /// the longest time since one of these departures, in milliseconds.
    pub(crate) delayed: u32,
    pub(crate) delayed_ms: u64,
    /// Names of the AllocSvrs that stopped serving because they detected that the store had lost committed entries,
    /// each with the evidence.
    pub(crate) halted: Vec<(String, String)>,
    /// Names of the AllocSvrs that callers cannot reach, each with the cause and the operator's next step.
    pub(crate) withdrawn: Vec<(String, String)>,
    /// Pairs of AllocSvrs. In each pair, the second AllocSvr reports that it cannot reach the first at the first's
    /// address for callers.
    pub(crate) unreached: Vec<(String, String)>,
    /// Names of the AllocSvrs that respond and have been running for at least ten seconds. Reports by other AllocSvrs
    /// that they cannot reach an AllocSvr count only if its name is listed here.
    pub(crate) present: Vec<String>,
    /// Evidence, recorded in the store, that the store lost committed entries. It is empty if there is none.
    pub(crate) entries_lost: String,
    /// StoreSvrs as which more than one process responds, with the addresses of these processes.
    pub(crate) copies: Nodes,
    /// Names of the StoreSvrs that respond, by the id of the set to which they report to belong.
    pub(crate) set_ids: BTreeMap<u64, Vec<String>>,
    /// Text about members of the store whose states differ. It is empty if the states are equal.
    pub(crate) difference: String,
    /// Names of the StoreSvrs that respond, by the lineage that they report for the set.
    pub(crate) lineages: BTreeMap<u64, Vec<String>>,
    /// Number of allocators that respond.
    pub(crate) allocs: usize,
    /// Allocators without a lease, by name.
    pub(crate) unleased: Vec<String>,
    /// Remaining time of the longest lease, in milliseconds. It is 0 if no AllocSvr has a lease.
    pub(crate) lease_left_ms: u64,
    /// Milliseconds since the most recent expiry of a lease. It is 0 if no AllocSvr reports an expired lease.
    pub(crate) lease_ended_ms: u64,
    /// StoreSvrs that do not respond at any address.
    pub(crate) silent_stores: Nodes,
    /// Allocators that do not respond at any address.
    pub(crate) silent_allocs: Nodes,
    /// Highest count of restores of any set of the cluster, as far as StoreSvrs of this set report it.
    pub(crate) restores: u32,
    /// Count of restores of the lineage that the set began without an operator, because another set knew of more
    /// restores. It is 0 if the set began no lineage this way.
    pub(crate) begun: u32,
    /// Nodes whose certificates have expired or expire soon.
    pub(crate) expiry: Expiry,
    /// Names of the StoreSvrs, each with the free bytes and the total bytes of the file system of its data directory.
    pub(crate) disks: Vec<(String, u64, u64)>,
    /// Names of the StoreSvrs, each with the time in microseconds within which 99 of 100 syncs of its log ended in the
    /// last minute.
    pub(crate) syncs: Vec<(String, u64)>,
    /// Names of the nodes whose clocks differ from the median of the cluster's clocks, each with the milliseconds by
    /// which its clock is ahead of the median.
    pub(crate) clocks: Vec<(String, i64)>,
    /// The pause of balancing; empty if balancing is not paused.
    pub(crate) paused: String,
    /// Number of sections that operators moved to an allocator.
    pub(crate) moved: u32,
    /// Names of the AllocSvrs that operators drain or have drained, each with the number of sections that it still
    /// owns.
    pub(crate) drained: Vec<(String, u32)>,
    /// Names of the nodes that respond, by the version and source revision of their program.
    pub(crate) releases: BTreeMap<String, Vec<String>>,
    /// Names of the nodes that respond, by their kind, `stores` or `allocators`, and the digest of the settings that
    /// nodes of a kind should have in common.
    pub(crate) settings: BTreeMap<&'static str, BTreeMap<u64, Vec<String>>>,
    /// Names of the AllocSvrs whose leases expired in the last ten minutes, each with the number of expiries.
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

    /// Returns the remarks that apply to these facts, in the order of [`REMARKS`].
    pub(crate) fn remarks(&self) -> impl Iterator<Item = (&'static Remark, Advice)> {
        REMARKS.iter().flat_map(|remark| (remark.text)(self).into_iter().map(move |advice| (remark, advice)))
    }

    /// Returns texts that name the StoreSvrs that do not respond. Voters whose addresses are not known are included.
    /// StoreSvrs with expired certificates are excluded, because another remark names them.
    fn missing_stores(&self) -> Vec<String> {
        let silent =
            |(name, _): &&(String, bool)| !self.silent_stores.contains_key(name) && !self.expiry.is_cause(name);
        let unknown = self.voters.iter().filter(|(_, responds)| !responds).filter(silent).map(|(name, _)| name.clone());
        listed(&self.silent_stores).chain(unknown).collect()
    }

    /// Returns two numbers, the voters of the store that respond and all voters.
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

/// Returns a text for each node with its name and its addresses, such as `s1 (h:1)`.
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
