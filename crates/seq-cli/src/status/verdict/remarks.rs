//! Remarks that are appended to a verdict and do not change the state of a set.

use super::conditions::DISK_FULL;
use super::{Facts, age};

/// Divisor of a disk's size: a disk with less than a tenth left gets a remark.
const DISK_LOW: u64 = 10;

/// A remark.
pub(in crate::status) struct Remark {
    /// The name of the remark in the table of `docs/operations.md`.
    #[cfg_attr(not(test), expect(dead_code, reason = "a test compares the documentation"))]
    pub(in crate::status) name: &'static str,
    /// Returns the text of the remark, if it applies.
    pub(super) text: fn(&Facts) -> Option<String>,
}

/// The remarks, in order.
pub(in crate::status) const REMARKS: [Remark; 12] = [
    Remark { name: "restores", text: restores },
    Remark { name: "lineage", text: begun },
    Remark { name: "disk", text: disks },
    Remark { name: "clock", text: clocks },
    Remark { name: "expired leases", text: lapses },
    Remark { name: "drained", text: drained },
    Remark { name: "balancing", text: balancing },
    Remark { name: "moved sections", text: moved },
    Remark { name: "withdrawn", text: withdrawn },
    Remark { name: "unreached", text: unreached },
    Remark { name: "releases", text: releases },
    Remark { name: "certificates", text: |facts| facts.expiry.warning() },
];

fn withdrawn(facts: &Facts) -> Option<String> {
    let text = |(name, cause): &(String, String)| format!("{name}: {cause}");
    let withdrawn: Vec<String> = facts.withdrawn.iter().map(text).collect();
    (!withdrawn.is_empty()).then(|| withdrawn.join("; "))
}

fn drained(facts: &Facts) -> Option<String> {
    let text = |(name, left): &(String, u32)| match left {
        0 => format!("{name} is drained; next: stop it, or `seqsvr node undrain {name}`"),
        1 => format!("{name} is draining, 1 section is left"),
        some => format!("{name} is draining, {some} sections are left"),
    };
    let drained: Vec<String> = facts.drained.iter().map(text).collect();
    (!drained.is_empty()).then(|| drained.join("; "))
}

/// Returns a remark if nodes of several releases run, as during an upgrade.
fn releases(facts: &Facts) -> Option<String> {
    let text = |(release, nodes): (&String, &Vec<String>)| format!("{release} on {}", nodes.join(", "));
    let releases: Vec<String> = facts.releases.iter().map(text).collect();
    (releases.len() > 1).then(|| format!("different releases run: {}; next: end the upgrade", releases.join("; ")))
}

fn balancing(facts: &Facts) -> Option<String> {
    let text = || format!("balancing is {}; next: `seqsvr section balance --resume`", facts.paused);
    (!facts.paused.is_empty()).then(text)
}

fn moved(facts: &Facts) -> Option<String> {
    match facts.moved {
        0 => None,
        1 => Some("1 section is where an operator moved it".to_owned()),
        some => Some(format!("{some} sections are where operators moved them")),
    }
}

/// Returns a remark on nodes that respond to this command, but not to other nodes. A node that does not run is reported
/// elsewhere.
fn unreached(facts: &Facts) -> Option<String> {
    let by = |name: &String| {
        let by = facts.unreached.iter().filter(|(unreached, _)| unreached == name);
        let by: Vec<&str> = by.map(|(_, by)| by.as_str()).collect();
        (!by.is_empty()).then(|| format!("{name} is not reached by {} at its address for callers", by.join(", ")))
    };
    let unreached: Vec<String> = facts.present.iter().filter_map(by).collect();
    let next = "next: check firewalls and routes between their hosts";
    (!unreached.is_empty()).then(|| format!("{}; {next}", unreached.join(", ")))
}

fn restores(facts: &Facts) -> Option<String> {
    (facts.restores > 0).then(|| format!("restores are counted up to {}", facts.restores))
}

fn begun(facts: &Facts) -> Option<String> {
    let text = |count| {
        format!(
            "it began the lineage that counts {count} by itself, as another set knew of more restores; next: add {count} to \
             the notes beside the backups"
        )
    };
    (facts.begun > 0).then(|| text(facts.begun))
}

fn disks(facts: &Facts) -> Option<String> {
    let low = facts.disks.iter().filter(|(_, free, all)| *free < all / DISK_LOW);
    let text = |(name, free, all): &(String, u64, u64)| {
        let (word, percent) = (if *free < all / DISK_FULL { "full" } else { "low" }, free.saturating_mul(100) / all);
        format!("disk of {name} is {word}: {} MiB, {percent} %, left", free >> 20)
    };
    let low: Vec<String> = low.map(text).collect();
    (!low.is_empty()).then(|| format!("{}; next: free space on it, a store ends where it cannot write", low.join(", ")))
}

fn clocks(facts: &Facts) -> Option<String> {
    let text = |(name, ms): &(String, i64)| {
        format!("{name} is {} {}", age(ms.unsigned_abs()), if *ms > 0 { "ahead" } else { "behind" })
    };
    let off: Vec<String> = facts.clocks.iter().map(text).collect();
    let next = "next: look at its time service; certificates are judged by that clock, numbers are not";
    (!off.is_empty()).then(|| format!("clock of {} of most others; {next}", off.join(", ")))
}

fn lapses(facts: &Facts) -> Option<String> {
    let text = |(name, count): &(String, u32)| match count {
        1 => format!("{name} once"),
        more => format!("{name} {more} times"),
    };
    let lapses: Vec<String> = facts.lapses.iter().map(text).collect();
    let next = "next: look for a store, a disk or a machine that is overloaded";
    (!lapses.is_empty()).then(|| format!("leases expired in the last 10 minutes: {}; {next}", lapses.join(", ")))
}
