//! The table of conditions, each with its state, its predicate and its sentence.

use super::{Condition, Facts, Nodes, State, age, listed};

/// Time for which a responding majority may have no leader, in milliseconds: longer than an election with any timeouts.
const ELECTION_MS: u64 = 10_000;

/// Divisor of a disk's size: a store whose disk has less than one hundredth left is about to end.
pub(super) const DISK_FULL: u64 = 100;

/// The conditions, the worst first. The verdict is the first condition that holds.
pub(in crate::status) const CONDITIONS: [Condition; 20] = [
    Condition { state: State::Closed, name: "closed", holds: |facts| facts.closed, text: closed },
    Condition {
        state: State::RolledBack,
        name: "rolled back, as an allocator saw",
        holds: |facts| !facts.halted.is_empty(),
        text: halted,
    },
    Condition {
        state: State::RolledBack,
        name: "rolled back, as the store has it",
        holds: |facts| !facts.entries_lost.is_empty(),
        text: entries_lost,
    },
    Condition {
        state: State::Cloned,
        name: "two sets have one name",
        holds: |facts| facts.set_ids.len() > 1,
        text: namesakes,
    },
    Condition {
        state: State::Cloned,
        name: "two processes are one store",
        holds: |facts| !facts.copies.is_empty(),
        text: copies,
    },
    Condition { state: State::Split, name: "several lineages", holds: |facts| facts.lineages.len() > 1, text: split },
    Condition {
        state: State::Differs,
        name: "states differ",
        holds: |facts| !facts.difference.is_empty(),
        text: differs,
    },
    Condition {
        state: State::NoQuorum,
        name: "no store responds",
        holds: |facts| !facts.quorum && facts.voters.is_empty() && facts.unformed.is_empty(),
        text: no_store,
    },
    Condition {
        state: State::NoQuorum,
        name: "not formed",
        holds: |facts| !facts.quorum && facts.voters.is_empty(),
        text: not_formed,
    },
    Condition {
        state: State::NoQuorum,
        name: "no majority responds",
        holds: |facts| !facts.quorum && !majority_responds(facts),
        text: no_majority,
    },
    Condition { state: State::Election, name: "an election", holds: elects, text: election },
    Condition { state: State::NoQuorum, name: "no leader", holds: |facts| !facts.quorum, text: no_leader },
    Condition {
        state: State::Undefined,
        name: "no set is defined",
        holds: |facts| !facts.defined,
        text: |facts| {
            format!(
                "UNDEFINED: the store has no set yet (NO_SET); {}; next: `seqsvr set init --set FILE`, or `seqsvr set create --set FILE --join ADDR` for a set of a cluster that exists",
                facts.voters()
            )
        },
    },
    Condition {
        state: State::Quarantined,
        name: "quarantined",
        holds: |facts| !facts.quarantine.is_empty(),
        text: |facts| format!("{}; next: start the stores of the sets that do not respond", facts.quarantine),
    },
    Condition {
        state: State::Unserved,
        name: "sections do not arrive",
        holds: |facts| is_unserved(facts) && facts.delayed > 0,
        text: |facts| unserved(facts, "`seqsvr migration list` shows what the other set does not do"),
    },
    Condition {
        state: State::Unserved,
        name: "no allocator responds",
        holds: |facts| is_unserved(facts) && facts.allocs == 0,
        text: |facts| match facts.silent_allocs.is_empty() {
            true => unserved(facts, "start its allocators (`seqsvr alloc`)"),
            false => unserved(facts, &format!("start {} again", names(&facts.silent_allocs))),
        },
    },
    Condition {
        state: State::Unserved,
        name: "an allocator is lost",
        holds: |facts| is_unserved(facts) && !(facts.unleased.is_empty() && facts.silent_allocs.is_empty()),
        text: |facts| {
            let next =
                "sections of a lost allocator move within seconds: repeat, then start allocators (`seqsvr node list`)";
            unserved(facts, next)
        },
    },
    Condition {
        state: State::Unserved,
        name: "sections have no owner",
        holds: is_unserved,
        text: |facts| unserved(facts, "sections get an owner within seconds: repeat, then `seqsvr node list`"),
    },
    Condition { state: State::Degraded, name: "degraded", holds: is_degraded, text: degraded },
    Condition {
        state: State::Ok,
        name: "ok",
        holds: |_| true,
        text: |facts| format!("ok: {}; {}", facts.served(), facts.voters()),
    },
];

fn closed(facts: &Facts) -> String {
    let rest = match facts.responding {
        0 => "its processes need not run".to_owned(),
        1 => "1 of its processes responds, and can be stopped".to_owned(),
        some => format!("{some} of its processes respond, and can be stopped"),
    };
    format!("closed: its users are in other sets; {rest}")
}

fn halted(facts: &Facts) -> String {
    let (first, reason) = &facts.halted[0];
    let names: Vec<&str> = facts.halted.iter().map(|(name, _)| name.as_str()).collect();
    format!(
        "ROLLED BACK: {} serve nothing; {first}: {reason}; next: stop all stores, keep their directories, and do not start \
         these allocators again: `seqsvr unsafe recover`, then `seqsvr restore`",
        names.join(", ")
    )
}

fn entries_lost(facts: &Facts) -> String {
    format!(
        "ROLLED BACK: no allocator registers and no section gets another owner; {}; next: stop all stores, keep their \
         directories: `seqsvr unsafe recover`, then `seqsvr restore`",
        facts.entries_lost
    )
}

fn copies(facts: &Facts) -> String {
    format!(
        "CLONED: one store responds as two processes: {}; a copy of the set runs, and gives out the same numbers; next: stop the \
         copy, and name only the nodes of one of both",
        listed(&facts.copies).collect::<Vec<_>>().join(", ")
    )
}

fn namesakes(facts: &Facts) -> String {
    let groups = facts.set_ids.iter().map(|(id, stores)| format!("{} of set {id}", stores.join(", ")));
    format!(
        "CLONED: sets with several ids have this name: {}; next: name only the nodes of one of them",
        groups.collect::<Vec<_>>().join(", and ")
    )
}

fn split(facts: &Facts) -> String {
    let groups = facts.lineages.iter().map(|(lineage, stores)| format!("{} of lineage {lineage}", stores.join(", ")));
    format!(
        "SPLIT: stores {}: they were restored from other files or under other counts, and may allocate the same numbers; next: \
         stop the stores that were restored otherwise, and restore them as the others",
        groups.collect::<Vec<_>>().join(", and ")
    )
}

fn differs(facts: &Facts) -> String {
    format!(
        "DIFFERS: {}; {}; next: replace the stores outside of the majority under new ids (`seqsvr store replace`); without a \
         majority of equal states, keep all directories and restore the newest backup (`seqsvr restore`)",
        facts.difference,
        facts.voters()
    )
}

fn majority_responds(facts: &Facts) -> bool {
    let (responding, all) = facts.voters_responding();
    responding * 2 > all
}

fn elects(facts: &Facts) -> bool {
    let since = if facts.quorum_lost_ms > 0 { facts.quorum_lost_ms } else { facts.store_uptime_ms };
    !facts.quorum && since < ELECTION_MS
}

/// Returns the beginning of a verdict on a store without a leader.
fn without_leader(facts: &Facts, word: &str) -> String {
    let mut text = format!("{word}: {}", facts.voters());
    if facts.quorum_lost_ms > 0 {
        text.push_str(&format!(", no majority since {}", age(facts.quorum_lost_ms)));
    }
    text.push_str("; nothing can be committed");
    match (facts.lease_left_ms, facts.lease_ended_ms) {
        (0, 0) => {}
        (0, ended) => text.push_str(&format!("; leases ended {} ago: every call is refused", age(ended))),
        (left, _) => text.push_str(&format!("; leases end in {}", age(left))),
    }
    text
}

fn no_store(facts: &Facts) -> String {
    let mut text = without_leader(facts, "NO QUORUM");
    if facts.allocs == 0 && !facts.silent_allocs.is_empty() {
        let allocs = listed(&facts.silent_allocs).collect::<Vec<_>>().join(", ");
        text.push_str(&format!("; no allocator responds: {allocs}"));
    }
    match facts.silent_stores.is_empty() {
        true => text.push_str("; next: no address of its stores is known here: name one with --addr"),
        false => text.push_str(&format!("; next: start its stores again: {}", names(&facts.silent_stores))),
    }
    text
}

fn not_formed(facts: &Facts) -> String {
    let (verb, next) = match (facts.unformed.len(), facts.silent_stores.is_empty()) {
        (_, true) => ("", "repeat within seconds, then look at the logs of the stores".to_owned()),
        (1, false) => ("s", format!("start the others: {}", names(&facts.silent_stores))),
        (_, false) => ("", format!("start the others: {}", names(&facts.silent_stores))),
    };
    format!(
        "NO QUORUM: {} respond{verb}, and the store is not formed yet; nothing can be committed; next: {next}",
        facts.unformed.join(", ")
    )
}

fn no_majority(facts: &Facts) -> String {
    let gone: Vec<&str> =
        facts.voters.iter().filter(|(_, responds)| !responds).map(|(name, _)| name.as_str()).collect();
    let text = without_leader(facts, "NO QUORUM");
    format!("{text}; next: start {} again; if their disks are lost: `seqsvr unsafe recover`", gone.join(", "))
}

fn election(facts: &Facts) -> String {
    format!("{}; next: an election is under way: repeat within seconds", without_leader(facts, "ELECTION"))
}

fn no_leader(facts: &Facts) -> String {
    let text = without_leader(facts, "NO QUORUM");
    format!("{text}; next: the voters do not reach each other, or have just started: repeat, then look at their logs")
}

fn is_unserved(facts: &Facts) -> bool {
    facts.delayed > 0 || facts.sections.is_none_or(|all| facts.served < all)
}

fn unserved(facts: &Facts, next: &str) -> String {
    let mut text = format!("UNSERVED: {}; {}", facts.served(), facts.voters());
    if facts.delayed > 0 {
        let (count, verb) = match facts.delayed {
            1 => ("1 section".to_owned(), "has"),
            some => (format!("{some} sections"), "have"),
        };
        let since = age(facts.delayed_ms);
        text.push_str(&format!("; {count} departed to another set and {verb} not arrived for {since}"));
    }
    if facts.allocs == 0 {
        text.push_str("; no allocator responds");
    }
    if !facts.unleased.is_empty() {
        text.push_str(&format!("; without a lease: {}", facts.unleased.join(", ")));
    }
    let silent: Vec<String> = facts.missing_stores().into_iter().chain(listed(&facts.silent_allocs)).collect();
    if !silent.is_empty() {
        text.push_str(&format!("; no response of {}", silent.join(", ")));
    }
    format!("{text}; next: {next}")
}

fn is_degraded(facts: &Facts) -> bool {
    let full = facts.disks.iter().any(|(_, free, all)| *free < all / DISK_FULL);
    !facts.missing_stores().is_empty()
        || !facts.silent_allocs.is_empty()
        || !facts.unleased.is_empty()
        || !facts.withdrawn.is_empty()
        || facts.expiry.has_expired()
        || full
}

fn degraded(facts: &Facts) -> String {
    let mut text = format!("DEGRADED: {}", facts.served());
    if !facts.unleased.is_empty() {
        let unleased = facts.unleased.join(", ");
        text.push_str(&format!("; without a lease: {unleased}; next: repeat, then look at its log"));
    }
    let stores = facts.missing_stores();
    if !stores.is_empty() {
        text.push_str(&format!(
            "; no response of store {}; next: start it again, or if its disk is lost, `seqsvr store replace`",
            stores.join(", ")
        ));
    }
    if !facts.silent_allocs.is_empty() {
        text.push_str(&format!(
            "; no response of allocator {}; next: start it again, or if it is to stay away, `seqsvr node drain`",
            listed(&facts.silent_allocs).collect::<Vec<_>>().join(", ")
        ));
    }
    text
}

/// Returns the names of nodes, for a command.
fn names(nodes: &Nodes) -> String {
    nodes.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
}
