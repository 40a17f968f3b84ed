//! The state of a set in one sentence: whether its sections are served, whether its store can commit, and what to do
//! next.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::view::Expiry;

/// The state of a set, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    /// An allocator has detected that the store lost committed entries: numbers may be allocated twice.
    RolledBack,
    /// Stores of the set are of several lineages: they were restored otherwise, and may allocate the same numbers.
    Split,
    /// Members of the store have different states behind the same entry of its log.
    Differs,
    /// Sections are in no set of the cluster.
    Unplaced,
    /// The store has no majority of its voters: nothing can be committed, and leases expire.
    NoQuorum,
    /// The set was restored from a backup and serves nothing yet.
    Quarantined,
    /// The store has a quorum, and some sections are not served.
    Unserved,
    /// All sections are served, and a node does not respond, has no lease, or has an expired certificate.
    Degraded,
    /// All sections are served and all nodes respond.
    Ok,
}

/// The input of the verdict, from the responses of the nodes.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    /// Every voter by name, and whether it responded; empty if no store responded.
    pub(super) voters: Vec<(String, bool)>,
    /// Whether a responding store sees a majority.
    pub(super) quorum: bool,
    /// Milliseconds since a responding store last saw one; 0 if unknown.
    pub(super) quorum_lost_ms: u64,
    /// Why the set was restored and serves nothing yet; empty if it is not in quarantine.
    pub(super) quarantine: String,
    /// Sections of the set; `None` if no store responded.
    pub(super) sections: Option<u32>,
    /// Sections whose owner has a lease that has not expired.
    pub(super) served: u32,
    /// Allocators that serve nothing because the store lost entries, by name, with what showed it.
    pub(super) halted: Vec<(String, String)>,
    /// Evidence in the store that committed entries are gone; empty without.
    pub(super) entries_lost: String,
    /// Members of the store whose states differ; empty where none do.
    pub(super) difference: String,
    /// The lineages that stores respond with, and the names of those stores.
    pub(super) lineages: BTreeMap<u64, Vec<String>>,
    /// Allocators without a lease, by name.
    pub(super) unleased: Vec<String>,
    /// Milliseconds left of the longest lease; 0 if there is none.
    pub(super) lease_left_ms: u64,
    /// Milliseconds since the last lease expired; 0 if one is held, or none ever was.
    pub(super) lease_ended_ms: u64,
    /// Nodes that do not respond, by name where it is known.
    pub(super) silent: Vec<String>,
    /// Highest count of a restore that a store knows, of any set of the cluster.
    pub(super) restores: u32,
    /// Nodes that respond, by the expiry of their certificates.
    pub(super) expiry: Expiry,
}

impl Facts {
    pub(super) fn state(&self) -> State {
        if !self.halted.is_empty() || !self.entries_lost.is_empty() {
            return State::RolledBack;
        }
        if self.lineages.len() > 1 {
            return State::Split;
        }
        if !self.difference.is_empty() {
            return State::Differs;
        }
        if !self.quorum {
            return State::NoQuorum;
        }
        if !self.quarantine.is_empty() {
            return State::Quarantined;
        }
        let complete = self.missing().is_empty() && self.unleased.is_empty() && !self.expiry.has_expired();
        match (self.sections.is_some_and(|all| self.served >= all), complete) {
            (false, _) => State::Unserved,
            (true, false) => State::Degraded,
            (true, true) => State::Ok,
        }
    }

    /// The nodes that did not respond, including voters without a known address.
    fn missing(&self) -> Vec<&str> {
        if !self.silent.is_empty() {
            return self.silent.iter().map(String::as_str).collect();
        }
        self.voters.iter().filter(|(_, responds)| !responds).map(|(name, _)| name.as_str()).collect()
    }

    /// The verdict as a sentence.
    pub(super) fn text(&self) -> String {
        let mut text = match self.state() {
            State::RolledBack => self.rolled_back(),
            State::Split => self.split(),
            State::Differs => self.differs(),
            State::NoQuorum | State::Unplaced => self.no_quorum(),
            State::Quarantined => {
                format!("{}; next: start the stores of the sets that do not respond", self.quarantine)
            }
            State::Unserved => self.unserved(),
            State::Degraded => self.degraded(),
            State::Ok => format!("ok: {}; {}", self.served(), self.responding()),
        };
        if self.restores > 0 {
            let _ = write!(text, "; restores are counted up to {}", self.restores);
        }
        if let Some(warning) = self.expiry.warning() {
            let _ = write!(text, "; {warning}");
        }
        text
    }

    fn rolled_back(&self) -> String {
        let Some((first, reason)) = self.halted.first() else {
            return format!(
                "ROLLED BACK: no allocator registers and no section gets another owner; {}; next: stop all stores, keep their \
                 directories: `seqsvr unsafe recover`, then `seqsvr restore`",
                self.entries_lost
            );
        };
        let names: Vec<&str> = self.halted.iter().map(|(name, _)| name.as_str()).collect();
        format!(
            "ROLLED BACK: {} serve nothing; {first}: {reason}; next: stop all stores, keep their directories, and do not start \
             these allocators again: `seqsvr unsafe recover`, then `seqsvr restore`",
            names.join(", ")
        )
    }

    fn split(&self) -> String {
        let groups =
            self.lineages.iter().map(|(lineage, stores)| format!("{} of lineage {lineage}", stores.join(", ")));
        format!(
            "SPLIT: stores {}: they were restored from other files or under other counts, and may allocate the same numbers; \
             next: stop the stores that were restored otherwise, and restore them as the others",
            groups.collect::<Vec<_>>().join(", and ")
        )
    }

    fn differs(&self) -> String {
        format!(
            "DIFFERS: {}; {}; next: replace the stores outside of the majority under new ids (`seqsvr store replace`); without \
             a majority of equal states, keep all directories and restore the newest backup (`seqsvr restore`)",
            self.difference,
            self.responding()
        )
    }

    fn degraded(&self) -> String {
        let mut text = format!("DEGRADED: {}", self.served());
        if !self.unleased.is_empty() {
            let _ = write!(text, "; without a lease: {}; next: repeat, then look at its log", self.unleased.join(", "));
        }
        if !self.missing().is_empty() {
            let missing = self.missing().join(", ");
            let _ = write!(
                text,
                "; no response of {missing}; next: start it again, or `seqsvr store replace`, `seqsvr node drain`"
            );
        }
        text
    }

    fn served(&self) -> String {
        match self.sections {
            Some(0) => "it has no sections".to_owned(),
            Some(all) => format!("{} of {all} sections are served", self.served),
            None => format!("{} of ? sections are served", self.served),
        }
    }

    fn responding(&self) -> String {
        let responding = self.voters.iter().filter(|(_, responds)| *responds).count();
        match self.voters.len() {
            0 => "no store responds".to_owned(),
            all => format!("{responding} of {all} voters {}", if responding == 1 { "responds" } else { "respond" }),
        }
    }

    fn no_quorum(&self) -> String {
        let mut text = format!("NO QUORUM: {}", self.responding());
        let lost = self.quorum_lost_ms;
        if lost > 0 {
            let _ = write!(text, ", no majority since {}", age(lost));
        }
        text.push_str("; nothing can be committed");
        match (self.lease_left_ms, self.lease_ended_ms) {
            (0, 0) => {}
            (0, ended) => drop(write!(text, "; leases ended {} ago: every call is refused", age(ended))),
            (left, _) => drop(write!(text, "; leases end in {}", age(left))),
        }
        let gone: Vec<&str> =
            self.voters.iter().filter(|(_, responds)| !responds).map(|(name, _)| name.as_str()).collect();
        match (gone.is_empty(), self.silent.is_empty()) {
            (false, _) => drop(write!(text, "; next: start {} again", gone.join(", "))),
            (true, false) => drop(write!(text, "; next: start {} again", self.silent.join(", "))),
            (true, true) => text.push_str("; next: an election is under way, or the voters do not reach each other: repeat, then look at their logs"),
        }
        text
    }

    fn unserved(&self) -> String {
        let mut text = format!("UNSERVED: {}; {}", self.served(), self.responding());
        if !self.unleased.is_empty() {
            let _ = write!(text, "; without a lease: {}", self.unleased.join(", "));
        }
        if !self.silent.is_empty() {
            let _ = write!(text, "; no response of {}", self.silent.join(", "));
        }
        text.push_str("; next: sections of a lost allocator move within seconds: repeat, then start allocators (`seqsvr node list`)");
        text
    }
}

/// Formats a time span for people.
pub(super) fn age(ms: u64) -> String {
    match ms {
        0..10_000 => format!("{:.1} s", ms as f64 / 1_000.0),
        10_000..120_000 => format!("{} s", ms / 1_000),
        _ => format!("{} min", ms / 60_000),
    }
}
