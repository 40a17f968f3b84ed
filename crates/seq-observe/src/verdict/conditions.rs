//! The table of conditions. Each condition has a state, a test of the facts, and a function for the sentence of the
//! verdict.

use super::{Advice, Condition, Facts, Nodes, State, age, listed};

/// Time in milliseconds that the voters may spend without a leader while the verdict is still ELECTION. After it, the
/// verdict is NO QUORUM. It is longer than an election takes with any allowed timeouts.
const ELECTION_MS: u64 = 10_000;

/// Divisor of the size of a StoreSvr's disk. The disk counts as nearly full if its free space is less than the
/// quotient. A write will then soon fail, and a StoreSvr exits if a write fails.
pub(crate) const DISK_FULL: u64 = 100;

/// Commands that restore a set from the data that its stores still have. Only the operator knows the words in capitals,
/// because files and directories are on other machines.
const RECOVER: &str = "`seqsvr unsafe recover --set FILE --data DIR --out BACKUP`, then on each store \
                       `seqsvr restore --set FILE --id N --data NEW_DIR --from BACKUP`";

/// The conditions in the order in which they are tested. The first is the condition of a closed set, and the others
/// follow from the worst to the best. The first condition that holds determines the verdict.
pub const CONDITIONS: [Condition; 20] = [
    Condition {
        state: State::Closed,
        name: "closed",
        runbook: "sets.md#closed",
        holds: |facts| facts.closed,
        text: closed,
    },
    Condition {
        state: State::RolledBack,
        name: "rolled back, as an allocator saw",
        runbook: "sets.md#rolled-back",
        holds: |facts| !facts.halted.is_empty(),
        text: halted,
    },
    Condition {
        state: State::RolledBack,
        name: "rolled back, as the store has it",
        runbook: "sets.md#rolled-back",
        holds: |facts| !facts.entries_lost.is_empty(),
        text: entries_lost,
    },
    Condition {
        state: State::Cloned,
        name: "two sets have one name",
        runbook: "sets.md#cloned",
        holds: |facts| facts.set_ids.len() > 1,
        text: namesakes,
    },
    Condition {
        state: State::Cloned,
        name: "two processes are one store",
        runbook: "sets.md#cloned",
        holds: |facts| !facts.copies.is_empty(),
        text: copies,
    },
    Condition {
        state: State::Split,
        name: "several lineages",
        runbook: "sets.md#split",
        holds: |facts| facts.lineages.len() > 1,
        text: split,
    },
    Condition {
        state: State::Differs,
        name: "states differ",
        runbook: "store.md#seqsvrstatediffers",
        holds: |facts| !facts.difference.is_empty(),
        text: differs,
    },
    Condition {
        state: State::NoQuorum,
        name: "no store responds",
        runbook: "store.md#seqsvrnoquorum",
        holds: |facts| !facts.quorum && facts.voters.is_empty() && facts.unformed.is_empty(),
        text: no_store,
    },
    Condition {
        state: State::NoQuorum,
        name: "not formed",
        runbook: "sets.md#not-formed-or-not-defined",
        holds: |facts| !facts.quorum && facts.voters.is_empty(),
        text: not_formed,
    },
    Condition {
        state: State::NoQuorum,
        name: "no majority responds",
        runbook: "store.md#seqsvrnoquorum",
        holds: |facts| !facts.quorum && !majority_responds(facts),
        text: no_majority,
    },
    Condition {
        state: State::Election,
        name: "an election",
        runbook: "store.md#seqsvrnoleader",
        holds: elects,
        text: election,
    },
    Condition {
        state: State::NoQuorum,
        name: "no leader",
        runbook: "store.md#seqsvrnoleader",
        holds: |facts| !facts.quorum,
        text: no_leader,
    },
    Condition {
        state: State::Undefined,
        name: "no set is defined",
        runbook: "sets.md#not-formed-or-not-defined",
        holds: |facts| !facts.defined,
        text: |facts| {
            let next = "`seqsvr set init --set FILE`, or `seqsvr set create --set FILE --join ADDR` for a set of a cluster that \
                        exists";
            Advice::new(format!("UNDEFINED: the store has no set yet (NO_SET); {}", facts.voters())).next(next)
        },
    },
    Condition {
        state: State::Quarantined,
        name: "quarantined",
        runbook: "sets.md#quarantined",
        holds: |facts| !facts.quarantine.is_empty(),
        text: |facts| Advice::new(facts.quarantine.clone()).next("start the stores of the sets that do not respond"),
    },
    Condition {
        state: State::Unserved,
        name: "sections do not arrive",
        runbook: "sets.md#sections-do-not-arrive",
        holds: |facts| is_unserved(facts) && facts.delayed > 0,
        text: |facts| unserved(facts, "`seqsvr migration list` shows what the other set does not do"),
    },
    Condition {
        state: State::Unserved,
        name: "no allocator responds",
        runbook: "ownership.md#seqsvrsectionsunserved",
        holds: |facts| is_unserved(facts) && facts.allocs == 0,
        text: |facts| match facts.silent_allocs.is_empty() {
            true => unserved(facts, "start its allocators (`seqsvr alloc`)"),
            false => unserved(facts, &format!("start {} again", names(&facts.silent_allocs))),
        },
    },
    Condition {
        state: State::Unserved,
        name: "an allocator is lost",
        runbook: "ownership.md#seqsvrsectionsunserved",
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
        runbook: "ownership.md#seqsvrsectionsunserved",
        holds: is_unserved,
        text: |facts| unserved(facts, "sections get an owner within seconds: repeat, then `seqsvr node list`"),
    },
    Condition {
        state: State::Degraded,
        name: "degraded",
        runbook: "process.md#seqsvrdown",
        holds: is_degraded,
        text: degraded,
    },
    Condition {
        state: State::Ok,
        name: "ok",
        runbook: "README.md#runbook",
        holds: |_| true,
        text: |facts| Advice::new(format!("ok: {}; {}", facts.served(), facts.voters())),
    },
];

fn closed(facts: &Facts) -> Advice {
    let rest = match facts.responding {
        0 => "its processes need not run".to_owned(),
        1 => "1 of its processes responds, and can be stopped".to_owned(),
        some => format!("{some} of its processes respond, and can be stopped"),
    };
    Advice::new(format!("closed: its users are in other sets; {rest}"))
}

fn halted(facts: &Facts) -> Advice {
    let (first, reason) = &facts.halted[0];
    let names: Vec<&str> = facts.halted.iter().map(|(name, _)| name.as_str()).collect();
    let next = format!("stop all stores, keep their directories, and do not start these allocators again: {RECOVER}");
    Advice::new(format!("ROLLED BACK: {} serve nothing; {first}: {reason}", names.join(", "))).next(next)
}

fn entries_lost(facts: &Facts) -> Advice {
    let text = format!("ROLLED BACK: no allocator registers and no section gets another owner; {}", facts.entries_lost);
    Advice::new(text).next(format!("stop all stores, keep their directories: {RECOVER}"))
}

fn copies(facts: &Facts) -> Advice {
    let copies = listed(&facts.copies).collect::<Vec<_>>().join(", ");
    Advice::new(format!(
        "CLONED: one store responds as two processes: {copies}; a copy of the set runs, and gives out the same numbers"
    ))
    .next("stop the copy, and name only the nodes of one of both")
}

fn namesakes(facts: &Facts) -> Advice {
    let groups = facts.set_ids.iter().map(|(id, stores)| format!("{} of set {id}", stores.join(", ")));
    let groups = groups.collect::<Vec<_>>().join(", and ");
    Advice::new(format!("CLONED: sets with several ids have this name: {groups}"))
        .next("name only the nodes of one of them")
}

fn split(facts: &Facts) -> Advice {
    let groups = facts.lineages.iter().map(|(lineage, stores)| format!("{} of lineage {lineage}", stores.join(", ")));
    let groups = groups.collect::<Vec<_>>().join(", and ");
    Advice::new(format!(
        "SPLIT: stores {groups}: they were restored from other files or under other counts, and may allocate the same numbers"
    ))
    .next("stop the stores that were restored otherwise, and restore them as the others")
}

fn differs(facts: &Facts) -> Advice {
    let next = "replace the stores outside of the majority under new ids (`seqsvr store replace`); without a majority of \
                equal states, keep all directories and restore the newest backup (`seqsvr restore`)";
    Advice::new(format!("DIFFERS: {}; {}", facts.difference, facts.voters())).next(next)
}

fn majority_responds(facts: &Facts) -> bool {
    let (responding, all) = facts.voters_responding();
    responding * 2 > all
}

fn elects(facts: &Facts) -> bool {
    let since = if facts.quorum_lost_ms > 0 { facts.quorum_lost_ms } else { facts.store_uptime_ms };
    !facts.quorum && since < ELECTION_MS
}

/// Returns the text of a verdict on a store without a leader. The text begins with `word`, which names the verdict.
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

fn no_store(facts: &Facts) -> Advice {
    let mut text = without_leader(facts, "NO QUORUM");
    if facts.allocs == 0 && !facts.silent_allocs.is_empty() {
        let allocs = listed(&facts.silent_allocs).collect::<Vec<_>>().join(", ");
        text.push_str(&format!("; no allocator responds: {allocs}"));
    }
    Advice::new(text).next(match facts.silent_stores.is_empty() {
        true => "no address of its stores is known here: name one with --addr".to_owned(),
        false => format!("start its stores again: {}", names(&facts.silent_stores)),
    })
}

fn not_formed(facts: &Facts) -> Advice {
    let (verb, next) = match (facts.unformed.len(), facts.silent_stores.is_empty()) {
        (_, true) => ("", "repeat within seconds, then look at the logs of the stores".to_owned()),
        (1, false) => ("s", format!("start the others: {}", names(&facts.silent_stores))),
        (_, false) => ("", format!("start the others: {}", names(&facts.silent_stores))),
    };
    let unformed = facts.unformed.join(", ");
    Advice::new(format!(
        "NO QUORUM: {unformed} respond{verb}, and the store is not formed yet; nothing can be committed"
    ))
    .next(next)
}

fn no_majority(facts: &Facts) -> Advice {
    let gone: Vec<&str> =
        facts.voters.iter().filter(|(_, responds)| !responds).map(|(name, _)| name.as_str()).collect();
    Advice::new(without_leader(facts, "NO QUORUM"))
        .next(format!("start {} again; if their disks are lost, {RECOVER}", gone.join(", ")))
}

fn election(facts: &Facts) -> Advice {
    Advice::new(without_leader(facts, "ELECTION")).next("an election is under way: repeat within seconds")
}

fn no_leader(facts: &Facts) -> Advice {
    Advice::new(without_leader(facts, "NO QUORUM"))
        .next("the voters do not reach each other, or have just started: repeat, then look at their logs")
}

fn is_unserved(facts: &Facts) -> bool {
    facts.delayed > 0 || facts.sections.is_none_or(|all| facts.served < all)
}

fn unserved(facts: &Facts, next: &str) -> Advice {
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
    Advice::new(text).next(next)
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

/// Returns the verdict DEGRADED. The remarks after it name the faulty nodes and the next steps.
fn degraded(facts: &Facts) -> Advice {
    Advice::new(format!("DEGRADED: {}", facts.served()))
}

/// Returns the names of nodes, separated by commas.
fn names(nodes: &Nodes) -> String {
    nodes.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
}
