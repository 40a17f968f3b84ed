//! The list of faults and remarks of a cluster, which commands and pages show.

use seq_command::output::grouped;
use serde::Serialize;

use super::{Cluster, SetView};
use crate::advice::{Advice, Severity};
use crate::migration::{self, Phase};
use crate::verdict::State;

/// A fault of a cluster or a remark on it, with the next step for an operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Attention {
    /// Urgency of the fault or remark.
    pub severity: Severity,
    /// Name of the set that the fault or remark concerns. It is absent if it concerns the cluster as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set: Option<String>,
    /// The name of the condition or the remark, as in `docs/operations/watching.md`.
    pub rule: &'static str,
    /// The fault in one sentence.
    pub sentence: String,
    /// Operator's next step, including the command to type if there is a command for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// The page and heading in `docs/runbook`.
    pub runbook: &'static str,
}

/// Kind of a fault of the cluster as a whole, or of a set's migrations.
pub(crate) struct Rule {
    pub(crate) name: &'static str,
    severity: Severity,
    pub(crate) runbook: &'static str,
}

const UNPLACED: Rule = Rule { name: "unplaced", severity: Severity::Fault, runbook: "sets.md#sections-are-in-no-set" };
const UNKNOWN: Rule = Rule { name: "unknown nodes", severity: Severity::Attention, runbook: "README.md#runbook" };
const PROXIES: Rule = Rule {
    name: "certificates of proxies",
    severity: Severity::Attention,
    runbook: "../security.md#a-certificate-expires",
};
const STUCK: Rule =
    Rule { name: "stuck migration", severity: Severity::Attention, runbook: "sets.md#a-migration-does-not-move" };

const PAUSED: Rule =
    Rule { name: "paused migration", severity: Severity::Info, runbook: "sets.md#drained-paused-or-moved" };

/// The rules that are neither conditions nor remarks of a set.
#[cfg(test)]
pub(crate) const RULES: [&Rule; 5] = [&UNPLACED, &UNKNOWN, &PROXIES, &STUCK, &PAUSED];

impl Rule {
    fn of(&self, set: Option<&SetView>, advice: Advice) -> Attention {
        Attention {
            severity: self.severity,
            set: set.map(|set| set.name.clone()),
            rule: self.name,
            sentence: advice.text,
            next: advice.next,
            runbook: self.runbook,
        }
    }
}

/// Returns the faults and remarks of a cluster, the most urgent first. Entries of equal urgency are ordered by set.
pub(crate) fn list(cluster: &Cluster) -> Vec<Attention> {
    let of_cluster =
        [(UNPLACED, cluster.unplaced()), (UNKNOWN, cluster.unknown_nodes()), (PROXIES, cluster.expiry_of_proxies())];
    let of_cluster = of_cluster.into_iter().filter_map(|(rule, advice)| Some(rule.of(None, advice?)));
    let mut list: Vec<Attention> = of_cluster.chain(cluster.sets.iter().flat_map(of_set)).collect();
    list.sort_by_key(|attention| attention.severity);
    list
}

fn of_set(set: &SetView) -> Vec<Attention> {
    let condition = set.facts.condition();
    let verdict = Rule {
        name: condition.name,
        severity: condition.state.severity().unwrap_or(Severity::Info),
        runbook: condition.runbook,
    };
    // The verdict DEGRADED is not listed, because the remarks already name each fault of such a set.
    let is_fault = condition.state.severity().is_some() && condition.state != State::Degraded;
    let verdict = is_fault.then(|| verdict.of(Some(set), (condition.text)(&set.facts)));
    // A closed set gets no remarks, because its nodes need not run.
    let remarks = set.facts.remarks().filter(|_| condition.state != State::Closed).map(|(remark, advice)| {
        let rule = Rule { name: remark.name, severity: remark.severity, runbook: remark.runbook };
        rule.of(Some(set), advice)
    });
    let age = if set.outdated { ", as the leader of its store last reported" } else { "" };
    let stuck = set.moves.iter().filter(|migration| !migration.stuck.is_empty()).map(|migration| {
        let text = format!("migration {} to {} does not move: {}{age}", migration.id, migration.to, migration.stuck);
        STUCK.of(Some(set), Advice::new(text).next(format!("`seqsvr migration watch {}`", migration.id)))
    });
    let paused = set.moves.iter().filter(|migration| Phase::of(migration) == Phase::Paused).map(|migration| {
        let (done, all) = (grouped(migration::done(migration).into()), grouped(migration.sections.into()));
        let text = format!("migration {} to {} is paused at {done} of {all} sections{age}", migration.id, migration.to);
        PAUSED.of(Some(set), Advice::new(text).next(format!("`seqsvr migration resume {}`", migration.id)))
    });
    verdict.into_iter().chain(remarks).chain(stuck).chain(paused).collect()
}

#[cfg(test)]
mod tests;
