//! The state of a set in one sentence: whether its sections are served, whether its store can commit, and what to do
//! next.
//!
//! [`CONDITIONS`] is the table of all verdicts, the worst first. The first condition that holds is the verdict on a
//! set. [`REMARKS`] are appended to a verdict and do not change it. Both are functions of [`Facts`] alone.

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
    /// Two processes respond as the same store, or stores of two sets respond under one name, so one of the two is a
    /// copy.
    Cloned,
    /// Stores of the set have different lineages, because they were restored differently, and may allocate the same
    /// numbers.
    Split,
    /// Members of the store have different states after the same entry of its log.
    Differs,
    /// Sections are in no set of the cluster.
    Unplaced,
    /// The store has no majority of its voters, so nothing can be committed, and leases expire.
    NoQuorum,
    /// A majority of the voters responds, but has elected no leader yet.
    Election,
    /// The store has no set yet.
    Undefined,
    /// The set was restored from a backup and serves nothing yet.
    Quarantined,
    /// The store has a quorum, but some sections are not served.
    Unserved,
    /// All sections are served, but a node does not respond, has no lease, or has an expired certificate, or a disk is
    /// nearly full.
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

    /// Returns how much the state needs the attention of an operator; `None` if it is well.
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
    /// The state of a set for which the condition holds.
    pub state: State,
    /// The name of the condition in the table of `docs/operations.md`.
    pub name: &'static str,
    /// The page and heading in `docs/runbook`.
    pub runbook: &'static str,
    /// Returns whether the condition holds, given that no condition before it holds.
    pub(crate) holds: fn(&Facts) -> bool,
    /// Returns the sentence of the verdict and the next step.
    pub(crate) text: fn(&Facts) -> Advice,
}

/// Addresses of nodes by name. A node without a known name has its address as the name, and no addresses.
pub(crate) type Nodes = BTreeMap<String, BTreeSet<String>>;

/// The input of the verdict, from the responses of the nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// Whether the set, or another set that knows it, states that it is closed.
    pub(crate) closed: bool,
    /// Number of nodes of the set that respond.
    pub(crate) responding: usize,
    /// Every voter by name, and whether it responded under any address; empty if no store responded.
    pub(crate) voters: Vec<(String, bool)>,
    /// Stores that respond and list no members, because the store was never formed.
    pub(crate) unformed: Vec<String>,
    /// Whether a responding store sees a majority.
    pub(crate) quorum: bool,
    /// Milliseconds since a responding store last saw a majority; 0 if unknown.
    pub(crate) quorum_lost_ms: u64,
    /// Milliseconds since the first of the responding stores started.
    pub(crate) store_uptime_ms: u64,
    /// Whether a responding store has the set's definition.
    pub(crate) defined: bool,
    /// Reason why the restored set serves nothing yet; empty if it is not in quarantine.
    pub(crate) quarantine: String,
    /// Number of sections of the set, including delayed sections; `None` if no store responded.
    pub(crate) sections: Option<u32>,
    /// Number of sections whose owner has a lease that has not expired.
    pub(crate) served: u32,
    /// Number of sections that departed to another set and have not arrived for a while; the next field has the longest
    /// delay in milliseconds.
    pub(crate) delayed: u32,
    pub(crate) delayed_ms: u64,
    /// Allocators that serve nothing because the store lost entries, by name, with the evidence.
    pub(crate) halted: Vec<(String, String)>,
    /// Allocators that callers cannot reach, by name, with the cause and the next step.
    pub(crate) withdrawn: Vec<(String, String)>,
    /// Allocators that another allocator does not reach at their addresses for callers, each with the name of that
    /// other allocator.
    pub(crate) unreached: Vec<(String, String)>,
    /// Names of allocators that respond.
    pub(crate) present: Vec<String>,
    /// Evidence in the store that committed entries are gone; empty if there is none.
    pub(crate) entries_lost: String,
    /// Stores that respond more than once, each time as another process.
    pub(crate) copies: Nodes,
    /// Ids of the set, by the stores that respond with them.
    pub(crate) set_ids: BTreeMap<u64, Vec<String>>,
    /// Text about members of the store whose states differ; empty if all are equal.
    pub(crate) difference: String,
    /// The lineages with which stores respond, and the names of these stores.
    pub(crate) lineages: BTreeMap<u64, Vec<String>>,
    /// Number of allocators that respond.
    pub(crate) allocs: usize,
    /// Allocators without a lease, by name.
    pub(crate) unleased: Vec<String>,
    /// Milliseconds left of the longest lease; 0 if there is none.
    pub(crate) lease_left_ms: u64,
    /// Milliseconds since the last lease expired; 0 if an allocator holds a lease, or no allocator ever held one.
    pub(crate) lease_ended_ms: u64,
    /// Stores that respond under no address.
    pub(crate) silent_stores: Nodes,
    /// Allocators that respond under no address.
    pub(crate) silent_allocs: Nodes,
    /// Highest count of a restore that a store knows, of any set of the cluster.
    pub(crate) restores: u32,
    /// The count of the lineage that the set began by itself; 0 if it did not begin a lineage.
    pub(crate) begun: u32,
    /// Nodes by the expiry of their certificates.
    pub(crate) expiry: Expiry,
    /// Stores with the free bytes and the size in bytes of their file systems.
    pub(crate) disks: Vec<(String, u64, u64)>,
    /// Nodes whose clocks differ from most others, with the milliseconds that they are ahead.
    pub(crate) clocks: Vec<(String, i64)>,
    /// The pause of balancing; empty if balancing is not paused.
    pub(crate) paused: String,
    /// Number of sections that operators moved to an allocator.
    pub(crate) moved: u32,
    /// Allocators that operators drained, with the number of their remaining sections.
    pub(crate) drained: Vec<(String, u32)>,
    /// Nodes that respond, by version and revision of the program.
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

    /// Returns the verdict as a sentence, with the remarks.
    pub(crate) fn text(&self) -> String {
        let verdict = (self.condition().text)(self).to_string();
        let remarks = self.remarks().map(|(_, advice)| advice.to_string());
        std::iter::once(verdict).chain(remarks).collect::<Vec<_>>().join("; ")
    }

    /// Returns the remarks that apply, in order.
    pub(crate) fn remarks(&self) -> impl Iterator<Item = (&'static Remark, Advice)> {
        REMARKS.iter().flat_map(|remark| (remark.text)(self).into_iter().map(move |advice| (remark, advice)))
    }

    /// Returns the stores that do not respond, including voters without a known address, and excluding stores whose
    /// certificates have expired.
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

/// Returns nodes with their addresses, as `s1 (h:1)`.
fn listed(nodes: &Nodes) -> impl Iterator<Item = String> {
    nodes.iter().map(|(name, addrs)| {
        let addrs = addrs.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        if addrs.is_empty() { name.clone() } else { format!("{name} ({addrs})") }
    })
}

/// Formats a time span for people.
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
