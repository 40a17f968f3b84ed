//! Remarks that are appended to the verdict on a set and do not change its state.

use std::collections::BTreeMap;

use seq_command::output::grouped;

use super::conditions::DISK_FULL;
use super::{Advice, Facts, Severity, State, age, listed};

/// Divisor of the size of a StoreSvr's disk. There is a remark if the free space is less than the quotient.
const DISK_LOW: u64 = 10;

/// Duration in microseconds of the slowest hundredth of a StoreSvr's syncs above which there is a remark, as in the
/// alert `SeqsvrStoreDiskSlow`. A healthy disk syncs within a few milliseconds.
const SYNC_SLOW_US: u64 = 100_000;

/// A kind of remark.
pub struct Remark {
    /// The name of the remark in the table of `docs/operations/watching.md`.
    pub name: &'static str,
    /// The urgency of the remark.
    pub severity: Severity,
    /// The page and heading in `docs/runbook`.
    pub runbook: &'static str,
    /// Function that returns the remarks of this kind about a set. The list is empty if no remark applies to the facts.
    pub(crate) text: fn(&Facts) -> Vec<Advice>,
}

/// The kinds of remarks, in the order in which the remarks follow a verdict. If the verdict is `DEGRADED`, the first
/// three kinds name the faulty nodes.
pub const REMARKS: [Remark; 17] = [
    Remark {
        name: "no lease",
        severity: Severity::Attention,
        runbook: "ownership.md#seqsvrnolease",
        text: |facts| if_any(no_lease(facts)),
    },
    Remark {
        name: "silent stores",
        severity: Severity::Attention,
        runbook: "store.md#seqsvrvotersilent",
        text: |facts| if_any(silent_stores(facts)),
    },
    Remark {
        name: "silent allocators",
        severity: Severity::Attention,
        runbook: "process.md#seqsvrdown",
        text: |facts| if_any(silent_allocs(facts)),
    },
    Remark {
        name: "restores",
        severity: Severity::Info,
        runbook: "sets.md#restores-are-counted",
        text: |facts| if_any(restores(facts)),
    },
    Remark {
        name: "lineage",
        severity: Severity::Attention,
        runbook: "store.md#seqsvrlineagebegun",
        text: |facts| if_any(begun(facts)),
    },
    Remark {
        name: "disk",
        severity: Severity::Attention,
        runbook: "store.md#seqsvrstorediskfull",
        text: |facts| if_any(disks(facts)),
    },
    Remark {
        name: "slow disk",
        severity: Severity::Attention,
        runbook: "store.md#seqsvrstorediskslow",
        text: |facts| if_any(slow_disks(facts)),
    },
    Remark {
        name: "clock",
        severity: Severity::Attention,
        runbook: "process.md#seqsvrclockwrong",
        text: |facts| if_any(clocks(facts)),
    },
    Remark {
        name: "expired leases",
        severity: Severity::Attention,
        runbook: "ownership.md#seqsvrleasesexpire",
        text: |facts| if_any(lapses(facts)),
    },
    Remark { name: "drained", severity: Severity::Info, runbook: "sets.md#drained-paused-or-moved", text: drained },
    Remark {
        name: "balancing",
        severity: Severity::Info,
        runbook: "sets.md#drained-paused-or-moved",
        text: |facts| if_any(balancing(facts)),
    },
    Remark {
        name: "moved sections",
        severity: Severity::Info,
        runbook: "sets.md#drained-paused-or-moved",
        text: |facts| if_any(moved(facts)),
    },
    Remark {
        name: "withdrawn",
        severity: Severity::Attention,
        runbook: "sets.md#callers-do-not-reach-a-node",
        text: withdrawn,
    },
    Remark {
        name: "unreached",
        severity: Severity::Attention,
        runbook: "sets.md#callers-do-not-reach-a-node",
        text: |facts| if_any(unreached(facts)),
    },
    Remark {
        name: "releases",
        severity: Severity::Info,
        runbook: "process.md#seqsvrmixedversions",
        text: |facts| if_any(releases(facts)),
    },
    Remark {
        name: "settings",
        severity: Severity::Info,
        runbook: "process.md#settings-differ",
        text: |facts| if_any(settings(facts)),
    },
    Remark {
        name: "certificates",
        severity: Severity::Attention,
        runbook: "../security.md#a-certificate-expires",
        text: |facts| if_any(facts.expiry.warning()),
    },
];

fn if_any(advice: Option<Advice>) -> Vec<Advice> {
    advice.into_iter().collect()
}

/// Returns a remark that names the AllocSvrs without a lease, if the verdict is DEGRADED. The verdict UNSERVED names
/// them itself.
fn no_lease(facts: &Facts) -> Option<Advice> {
    let applies = facts.state() == State::Degraded && !facts.unleased.is_empty();
    applies.then(|| {
        Advice::new(format!("without a lease: {}", facts.unleased.join(", "))).next("repeat, then look at its log")
    })
}

fn silent_stores(facts: &Facts) -> Option<Advice> {
    let stores = facts.missing_stores().join(", ");
    let applies = facts.state() == State::Degraded && !stores.is_empty();
    applies.then(|| {
        Advice::new(format!("no response of store {stores}"))
            .next("start it again, or if its disk is lost, `seqsvr store replace`")
    })
}

fn silent_allocs(facts: &Facts) -> Option<Advice> {
    let allocs = listed(&facts.silent_allocs).collect::<Vec<_>>().join(", ");
    let applies = facts.state() == State::Degraded && !allocs.is_empty();
    applies.then(|| {
        // A node that has no name in a list of its set is listed by its address, and cannot be drained.
        let name = facts.silent_allocs.iter().find(|(_, addrs)| !addrs.is_empty()).map(|(name, _)| format!(" {name}"));
        let drain = format!("`seqsvr node drain{}`", name.unwrap_or_default());
        let next = match facts.silent_allocs.len() {
            1 => format!("start it again, or if it is to stay away, {drain}"),
            _ => format!("start them again, or if they are to stay away, {drain} and so on"),
        };
        Advice::new(format!("no response of allocator {allocs}")).next(next)
    })
}

fn withdrawn(facts: &Facts) -> Vec<Advice> {
    facts.withdrawn.iter().map(|(name, cause)| Advice::new(format!("{name}: {cause}"))).collect()
}

fn drained(facts: &Facts) -> Vec<Advice> {
    let text = |(name, left): &(String, u32)| match left {
        0 => Advice::new(format!("{name} is drained")).next(format!("stop it, or `seqsvr node undrain {name}`")),
        1 => Advice::new(format!("{name} is draining, 1 section is left")),
        some => Advice::new(format!("{name} is draining, {some} sections are left")),
    };
    facts.drained.iter().map(text).collect()
}

/// Returns a remark if the nodes run different releases of the program, for example during an upgrade.
fn releases(facts: &Facts) -> Option<Advice> {
    let text = |(release, nodes): (&String, &Vec<String>)| format!("{release} on {}", nodes.join(", "));
    let releases: Vec<String> = facts.releases.iter().map(text).collect();
    (releases.len() > 1)
        .then(|| Advice::new(format!("different releases run: {}", releases.join("; "))).next("end the upgrade"))
}

/// Returns a remark that names the nodes whose settings are not those of most nodes of their kind. Nodes of different
/// releases are not compared, because their releases have different settings.
fn settings(facts: &Facts) -> Option<Advice> {
    let of_kind = |(kind, nodes): (&&str, &BTreeMap<u64, Vec<String>>)| {
        let all: usize = nodes.values().map(Vec::len).sum();
        let is_majority = |names: &&Vec<String>| names.len() * 2 > all;
        let mut others: Vec<&str> =
            nodes.values().filter(|names| !is_majority(names)).flatten().map(String::as_str).collect();
        others.sort_unstable();
        match nodes.values().find(is_majority) {
            _ if nodes.len() < 2 => None,
            Some(_) => Some(format!("{} has other settings than most {kind}", others.join(", "))),
            None => Some(format!("the {kind} {} have different settings", others.join(", "))),
        }
    };
    let found: Vec<String> = facts.settings.iter().filter_map(of_kind).collect();
    let applies = !found.is_empty() && facts.releases.len() < 2;
    applies.then(|| Advice::new(found.join("; ")).next("`seqsvr config diff` names the settings"))
}

fn balancing(facts: &Facts) -> Option<Advice> {
    let text = || Advice::new(format!("balancing is {}", facts.paused)).next("`seqsvr section balance --resume`");
    (!facts.paused.is_empty()).then(text)
}

fn moved(facts: &Facts) -> Option<Advice> {
    match facts.moved {
        0 => None,
        1 => Some(Advice::new("1 section is where an operator moved it".to_owned())),
        some => Some(Advice::new(format!("{some} sections are where operators moved them"))),
    }
}

/// Returns a remark that names the AllocSvrs that this command reaches but other AllocSvrs do not reach. Other remarks
/// name the AllocSvrs that this command does not reach.
fn unreached(facts: &Facts) -> Option<Advice> {
    let by = |name: &String| {
        let by = facts.unreached.iter().filter(|(unreached, _)| unreached == name);
        let by: Vec<&str> = by.map(|(_, by)| by.as_str()).collect();
        (!by.is_empty()).then(|| format!("{name} is not reached by {} at its address for callers", by.join(", ")))
    };
    let unreached: Vec<String> = facts.present.iter().filter_map(by).collect();
    let next = "check firewalls and routes between their hosts";
    (!unreached.is_empty()).then(|| Advice::new(unreached.join(", ")).next(next))
}

fn restores(facts: &Facts) -> Option<Advice> {
    (facts.restores > 0).then(|| Advice::new(format!("restores are counted up to {}", facts.restores)))
}

fn begun(facts: &Facts) -> Option<Advice> {
    let text = |count| {
        let text = format!("it began the lineage that counts {count} by itself, as another set knew of more restores");
        Advice::new(text).next(format!("add {count} to the notes beside the backups"))
    };
    (facts.begun > 0).then(|| text(facts.begun))
}

fn disks(facts: &Facts) -> Option<Advice> {
    let low = facts.disks.iter().filter(|(_, free, all)| *free < all / DISK_LOW);
    let text = |(name, free, all): &(String, u64, u64)| {
        let (word, percent) = (if *free < all / DISK_FULL { "full" } else { "low" }, free.saturating_mul(100) / all);
        format!("disk of {name} is {word}: {} MiB, {percent} %, left", free >> 20)
    };
    let low: Vec<String> = low.map(text).collect();
    (!low.is_empty()).then(|| Advice::new(low.join(", ")).next("free space on it, a store ends where it cannot write"))
}

fn slow_disks(facts: &Facts) -> Option<Advice> {
    let slow = facts.syncs.iter().filter(|(_, us)| *us > SYNC_SLOW_US);
    let text = |(name, us): &(String, u64)| {
        format!("disk of {name} is slow: one sync in a hundred takes {} ms or longer", grouped(us / 1_000))
    };
    let slow: Vec<String> = slow.map(text).collect();
    let next = "look for other writers to it; `seqsvr store lead` transfers the leadership to another store";
    (!slow.is_empty()).then(|| Advice::new(slow.join(", ")).next(next))
}

fn clocks(facts: &Facts) -> Option<Advice> {
    let text = |(name, ms): &(String, i64)| {
        format!("{name} is {} {}", age(ms.unsigned_abs()), if *ms > 0 { "ahead" } else { "behind" })
    };
    let off: Vec<String> = facts.clocks.iter().map(text).collect();
    let next = "look at its time service; certificates are judged by that clock, numbers are not";
    (!off.is_empty()).then(|| Advice::new(format!("clock of {} of most others", off.join(", "))).next(next))
}

fn lapses(facts: &Facts) -> Option<Advice> {
    let text = |(name, count): &(String, u32)| match count {
        1 => format!("{name} once"),
        more => format!("{name} {more} times"),
    };
    let lapses: Vec<String> = facts.lapses.iter().map(text).collect();
    let next = "look for a store, a disk or a machine that is overloaded";
    (!lapses.is_empty())
        .then(|| Advice::new(format!("leases expired in the last 10 minutes: {}", lapses.join(", "))).next(next))
}
