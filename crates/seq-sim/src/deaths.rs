//! Reports of the deaths of processes, which the parent of a process sends to the store after it has reaped the process
//! ([`seq_core::state::Died`]).
//!
//! The parent runs on the machine of its process. Its reports travel through the simulated network. They are late,
//! repeated and lost, and some of them go to a member that no longer leads. A report may arrive after the next process
//! of the same name has registered.
//!
//! **Promise:** a report changes nothing for a process that lives. From the entry of a report on, no command of the
//! dead incarnation changes the state, and the dead process registers no more.

use std::collections::BTreeSet;

use seq_core::state::{Answer, Command, Died, NodeRecord, RaiseCeilings, Reassign, State};
use seq_core::{Epoch, Incarnation, NodeId};

use crate::bugs::Bug;
use crate::coverage::Situation;
use crate::events::{Event, StoreStep};
use crate::faults::{MS, SECOND};
use crate::hosts::{MEMBERS, members_of, set_of_member, set_of_name};
use crate::net::{Address, Body};
use crate::rng::Rng;
use crate::store::Entry;
use crate::world::World;

/// Number that is combined with the seed of a run to draw the reports, so that this draw is independent of the other
/// draws of the run.
const DEATHS_SEED: u64 = 0x5d1e_77ac_90b3_264f;

/// Number of worlds, of a thousand, in which deaths are reported.
const REPORTED: u64 = 600;

/// Number of deaths, of a thousand, that are not reported, because the parent dies as well.
const UNREPORTED: u64 = 150;

/// Number of reports, of a thousand, that are sent again.
const REPEATED: u64 = 400;

/// For [`Bug::DeathOfSignalled`], the longest time for which a process runs on after it got the signal.
const LAST_BREATH: u64 = 2 * SECOND;

/// The reports of deaths in a world.
#[derive(Debug)]
pub(crate) struct Deaths {
    rng: Rng,
    /// Whether deaths are reported in this world.
    are_reported: bool,
    /// Every incarnation of a node of a set that a store has noted as dead.
    noted: BTreeSet<(usize, NodeId, Incarnation)>,
}

impl Deaths {
    pub(crate) fn draw(seed: u64, bug: Option<Bug>) -> Deaths {
        let mut rng = Rng::new(seed ^ DEATHS_SEED);
        let are_reported = rng.chance(REPORTED) || bug.is_some_and(Bug::is_of_deaths);
        Deaths { rng, are_reported, noted: BTreeSet::new() }
    }
}

impl World {
    /// Returns the number of a process, which it states in its registrations.
    pub(crate) fn process_number(&self, p: usize) -> u64 {
        let source = if self.bug == Some(Bug::ReusedProcessNumber) { self.procs[p].name } else { p };
        source as u64 + 1
    }

    /// Sends the reports of the parent of process `p`.
    pub(crate) fn report_death(&mut self, p: usize) {
        let (name, number) = (self.procs[p].name, self.process_number(p));
        let Deaths { rng, are_reported, .. } = &mut self.deaths;
        if !*are_reported || rng.chance(UNREPORTED) {
            return;
        }
        let reports = 1 + u32::from(rng.chance(REPEATED)) + u32::from(rng.chance(REPEATED));
        for _ in 0..reports {
            let rng = &mut self.deaths.rng;
            let delay = match rng.below(10) {
                0..7 => rng.between(MS, 60 * MS),
                7 | 8 => rng.below(SECOND),
                _ => rng.below(20 * SECOND),
            };
            // The parent sends its report to one member after another until the leader responds. Here, most reports go
            // to the member that leads when they are sent, and the others to any member.
            let to = if rng.chance(600) { None } else { Some(rng.index(MEMBERS)) };
            self.after(delay, Event::ReportDeath { name, number, to });
        }
    }

    /// Sends one report of a death to a member of the store of the name's set; to the leader if `to` is `None`.
    pub(crate) fn send_report(&mut self, name: usize, number: u64, to: Option<usize>) {
        let set = set_of_name(name);
        let member = to.map_or(self.stores[set].leader, |index| members_of(set).start + index);
        self.send(name, Address::Member(member), Body::Died { name, number });
    }

    /// Processes a report at a member of the store, which proposes it if the member believes that it leads.
    pub(crate) fn death_reported(&mut self, member: usize, name: usize, number: u64) {
        if self.seat(member).is_none() {
            return;
        }
        let set = set_of_member(member);
        let wait = self.rng.between(MS / 2, 4 * MS);
        if member == self.stores[set].leader {
            self.after(wait, Event::Store(StoreStep::Apply(set, Box::new(Entry::Died(name, number)))));
        } else if self.rng.chance(500) {
            self.coverage.saw(Situation::LateEntry);
            let wait = wait + self.rng.below(SECOND);
            self.after(wait, Event::Store(StoreStep::Apply(set, Box::new(Entry::Died(name, number)))));
        }
    }

    /// Reports the death of the process that runs under a name although it lives, if [`Bug::DeathOfSilent`] is planted.
    pub(crate) fn report_silent(&mut self, name: usize) {
        if self.bug == Some(Bug::DeathOfSilent)
            && let Some(p) = self.running(name)
        {
            self.report_death(p);
        }
    }

    /// Ends a process by a signal, and reports its death. With [`Bug::DeathOfSignalled`], the death is reported when
    /// the signal is sent, and the process runs on for a while.
    pub(crate) fn kill_by_signal(&mut self, p: usize) {
        if self.bug != Some(Bug::DeathOfSignalled) {
            return self.kill(p);
        }
        self.report_death(p);
        let wait = self.deaths.rng.below(LAST_BREATH);
        self.after(wait, Event::Kill(p));
    }

    /// Checks that an entry changes nothing for an incarnation that was noted as dead, and keeps newly noted deaths.
    pub(crate) fn look_at_death(&mut self, set: usize, (command, answer): (&Command, &Answer)) {
        let state = &self.stores[set].state;
        if self.stores[set].rolled_back.is_some() {
            // The store may have lost the entry of the report.
            return;
        }
        let session = match (command, answer) {
            (Command::Died(Died { node, .. }), Answer::DeathNoted(Ok(noted))) => {
                self.coverage.saw(if noted.is_some() { Situation::DeathNoted } else { Situation::DeathOfOther });
                self.deaths.noted.extend(noted.map(|incarnation| (set, *node, incarnation)));
                return;
            }
            (Command::Renew(renew), Answer::Renewed(Ok(()))) => (renew.node, renew.incarnation),
            (Command::Raise(RaiseCeilings { node, incarnation, .. }), Answer::Raised(Ok(_))) => (*node, *incarnation),
            (Command::Transfer(transfer), Answer::Transferred(Ok(_))) => (transfer.from, transfer.incarnation),
            (Command::Register(_), Answer::Registered(Ok(session))) => *session,
            (Command::Reassign(changes), Answer::Reassigned(outcome)) => {
                let dead = |(change, epoch): &(&Reassign, &Option<Epoch>)| {
                    let owner = state.sections.resident(change.section).map(|record| record.incarnation);
                    epoch.is_some()
                        && owner.is_some_and(|incarnation| self.deaths.noted.contains(&(set, change.to, incarnation)))
                };
                let Some((change, _)) = changes.iter().zip(outcome).find(dead) else { return };
                (change.to, change.incarnation)
            }
            _ => return,
        };
        if self.deaths.noted.contains(&(set, session.0, session.1)) {
            let text = format!("node {} of set {set} died in incarnation {}: {command:?}", session.0, session.1);
            self.check.broken(self.now, "a dead incarnation changes nothing", text);
        }
    }
}

/// Plants a bug in the store's rules about dead incarnations: applies a command as if no death was noted.
pub(crate) fn apply_undead(bug: Bug, state: &mut State, command: &Command) -> Option<Answer> {
    let is_planted = match command {
        Command::Renew(_) | Command::Raise(_) | Command::Transfer(_) => bug == Bug::DeadMayRaise,
        Command::Register(_) => bug == Bug::DeadMayRegister,
        _ => false,
    };
    if !is_planted {
        return None;
    }
    let deaths: Vec<_> = state.nodes.iter_mut().map(|node| node.died.take()).collect();
    let answer = state.apply(command);
    for (node, died) in state.nodes.iter_mut().zip(deaths) {
        node.died = died;
    }
    Some(answer)
}

/// Plants [`Bug::DeathOfNode`]: returns the report of the death of a process as a report of the death of the newest
/// process of its node.
pub(crate) fn of_newest(state: &State, died: Died) -> Died {
    Died { process: state.node(died.node).map_or(0, |node| node.process), ..died }
}

/// Plants [`Bug::DeathOfEarlier`]: adds changes of owner for the sections of all incarnations of a node of which one
/// was reported dead.
pub(crate) fn reassign_earlier(state: &State, reassigns: &mut Vec<Reassign>) {
    for (section, record) in state.sections.residents() {
        let Some(owner) = record.owner else { continue };
        let is_earlier = |node: &NodeRecord| node.died.is_some() && node.incarnation != record.incarnation;
        if !state.node(owner).is_some_and(is_earlier) || reassigns.iter().any(|change| change.section == section) {
            continue;
        }
        let is_lane = state.set.as_ref().is_some_and(|set| set.layout.lanes_at(section).is_some());
        let others = state.nodes().filter(|(id, node)| *id != owner && (node.reads_lanes || !is_lane));
        if let Some((to, node)) = others.last() {
            let (expected, incarnation) = (record.epoch, node.incarnation);
            reassigns.push(Reassign { section, expected, liveness: None, to, incarnation });
        }
    }
}
