//! Runs the scenarios in `testdata/arbiter`. They show the plans of an arbiter while the arbiter's own proposals and
//! commands of AllocSvrs change the state.

use alloc::format;
use alloc::string::{String, ToString};

use super::*;
use crate::id::{HandoverId, RenewSeq};
use crate::layout::Layout;
use crate::state::{Answer, Command as StoreCommand, Died, Drain, Registration, Renew, SetDefinition, Transfer};
use crate::testdata::{Command, Machine, run_all};

/// The AllocSvrs that the set file names.
const NAMES: [&str; 3] = ["a1", "a2", "a3"];

const TIMEOUTS: ArbiterTimeouts =
    ArbiterTimeouts { registration_grace: Duration::from_secs(3), stable_for: Duration::from_secs(60) };

/// Number of sections of the set.
const SECTIONS: u64 = 6;

#[test]
fn arbiters_plan_as_their_scenarios_state() {
    run_all("arbiter", || {
        let mut state = State::default();
        let layout = Layout::new(0..SECTIONS * 100, 100).expect("it is valid");
        state.apply(&StoreCommand::DefineSet(SetDefinition::only("s", layout)));
        Scenario {
            state,
            arbiter: Arbiter::new(TIMEOUTS),
            plan: Arc::default(),
            now: Duration::ZERO,
            tokens: 0,
            attempts: 0,
        }
    });
}

/// The state of a set, the arbiter at the leader of the set's store, and the arbiter's clock.
struct Scenario {
    state: State,
    arbiter: Arbiter,
    /// The plan of the last evaluation.
    plan: Arc<Plan>,
    now: Duration,
    tokens: u64,
    attempts: u64,
}

impl Machine for Scenario {
    /// Carries out one command of a scenario. The commands are:
    ///
    /// * `clock DURATION` lets time pass. `pass DURATION renew=NAME,..` lets time pass in steps of a second; after each
    ///   step the named nodes renew, and the arbiter evaluates the state.
    /// * `register NAME`, `renew NAME,..`, `renew NAME leaving`, `drain NAME` and `undrain NAME` apply the command of
    ///   this name to the state. `die NAME` reports the death of the process of the node's newest incarnation.
    /// * `evaluate` shows the plan. `propose` applies the reassignments of the last plan to the state.
    /// * `transfer SECTION,..` commits handovers of these sections as the last plan has them.
    /// * `new-leader` replaces the arbiter with a new arbiter, which has no observations.
    /// * `owners` shows the owner of each section.
    fn carry_out(&mut self, command: &Command<'_>, out: &mut String) {
        match command.name() {
            "clock" => {
                self.now += command.word::<Duration>();
                *out += &format!("now {:?}\n", self.now);
            }
            "pass" => {
                let seconds = command.word::<Duration>().as_secs();
                let renewing = command.list::<String>("renew");
                for _ in 0..seconds {
                    self.now += Duration::from_secs(1);
                    renewing.iter().for_each(|name| self.renew(command, name, false));
                    self.evaluate();
                }
                *out += &format!("now {:?}\n", self.now);
            }
            "register" => *out += &self.register(command),
            "renew" => {
                let leaving = command.has("leaving");
                for name in command.word::<String>().split(',') {
                    self.renew(command, name, leaving);
                    let (node, record) = self.node(command, name);
                    *out += &format!("{name}, node {node}: liveness {}\n", record.liveness);
                }
            }
            "drain" | "undrain" => {
                let (name, drained) = (command.word(), command.name() == "drain");
                self.state.apply(&StoreCommand::Drain(Drain { name, drained }));
            }
            "die" => *out += &self.die(command),
            "evaluate" => {
                self.evaluate();
                *out += &self.describe_plan();
            }
            "propose" => *out += &self.propose(),
            "transfer" => {
                for section in command.word::<String>().split(',') {
                    *out += &self.transfer(command, section);
                }
            }
            "new-leader" => self.arbiter = Arbiter::new(TIMEOUTS),
            "owners" => *out += &self.owners(),
            _ => command.unknown(),
        }
    }
}

impl Scenario {
    fn node(&self, command: &Command<'_>, name: &str) -> (NodeId, &NodeRecord) {
        let found = self.state.nodes().find(|(_, node)| node.name == name);
        found.unwrap_or_else(|| command.fail(&format!("no node {name} registered")))
    }

    fn evaluate(&mut self) {
        let declared = NAMES.map(|name| Declared { name, weight: 1 });
        self.plan = self.arbiter.evaluate(&self.state, &declared, || self.now).clone();
    }

    fn register(&mut self, command: &Command<'_>) -> String {
        self.tokens += 1;
        let name: String = command.word();
        let follows = self.state.nodes().find(|(_, node)| node.name == name).map(|(_, node)| node.incarnation);
        let registration = Registration {
            follows: follows.unwrap_or(Incarnation(0)),
            process: self.tokens,
            ..Registration::new(&name, "127.0.0.1:1", self.tokens)
        };
        match self.state.apply(&StoreCommand::Register(registration)) {
            Answer::Registered(Ok((node, incarnation))) => format!("{name}, node {node}: incarnation {incarnation}\n"),
            other => command.fail(&format!("{other:?}")),
        }
    }

    fn renew(&mut self, command: &Command<'_>, name: &str, leaving: bool) {
        let (node, record) = self.node(command, name);
        let (incarnation, renew_seq) = (record.incarnation, RenewSeq(record.renew_seq.0 + 1));
        let renew = StoreCommand::Renew(Renew { node, incarnation, renew_seq, leaving, ..Renew::default() });
        assert_eq!(self.state.apply(&renew), Answer::Renewed(Ok(())));
    }

    fn die(&mut self, command: &Command<'_>) -> String {
        let name: String = command.word();
        let (node, record) = self.node(command, &name);
        let died = StoreCommand::Died(Died { node, process: record.process });
        match self.state.apply(&died) {
            Answer::DeathNoted(Ok(Some(incarnation))) => {
                format!("{name}, node {node}: incarnation {incarnation} died\n")
            }
            other => command.fail(&format!("{other:?}")),
        }
    }

    /// Applies the plan's reassignments, even if other commands were applied after the plan was made.
    fn propose(&mut self) -> String {
        let reassigns = self.plan.reassigns.clone();
        let Answer::Reassigned(outcome) = self.state.apply(&StoreCommand::Reassign(reassigns.clone())) else {
            unreachable!("the result is that of the command")
        };
        let describe = |(change, epoch): (&Reassign, Option<Epoch>)| match epoch {
            Some(epoch) => format!("section {}: node {} under epoch {epoch}\n", change.section, change.to),
            None => format!("section {}: refused, its record is another one\n", change.section),
        };
        reassigns.iter().zip(outcome).map(describe).collect()
    }

    fn transfer(&mut self, command: &Command<'_>, section: &str) -> String {
        let planned = self.plan.handovers.iter().find(|one| one.section.to_string() == section);
        let Some(planned) = planned else { command.fail("the last plan has no such handover") };
        self.attempts += 1;
        let transfer = Transfer {
            section: planned.section,
            epoch: planned.epoch,
            from: planned.from,
            incarnation: self.state.sections.resident(planned.section).expect("it is planned").incarnation,
            to: planned.to,
            to_incarnation: planned.incarnation,
            handover_id: HandoverId(self.attempts),
        };
        match self.state.apply(&StoreCommand::Transfer(transfer)) {
            Answer::Transferred(Ok(made)) => {
                format!("section {section}: node {} under epoch {}\n", transfer.to, made.epoch)
            }
            other => format!("section {section}: {other:?}\n"),
        }
    }

    fn owners(&self) -> String {
        let describe = |(section, record): (SectionId, &Residence)| match record.owner {
            Some(owner) => {
                let Residence { epoch, incarnation, .. } = record;
                format!("section {section}: node {owner} incarnation {incarnation}, epoch {epoch}\n")
            }
            None => format!("section {section}: no owner, epoch {}\n", record.epoch),
        };
        self.state.sections.residents().map(describe).collect()
    }

    fn describe_plan(&self) -> String {
        let Plan {
            reassigns,
            former_owners: _,
            stranded,
            handovers,
            living,
            draining,
            no_other_candidate,
            candidates: _,
            uneven: _,
            silent,
        } = &*self.plan;
        let mut text = String::new();
        for (what, nodes) in [("live", living), ("draining", draining), ("no other candidate for", no_other_candidate)]
        {
            if !nodes.is_empty() {
                let nodes: Vec<_> = nodes.iter().map(ToString::to_string).collect();
                text += &format!("{what}: {}\n", nodes.join(", "));
            }
        }
        for DeadOwner { node, incarnation, since } in silent {
            let silent = self.now - *since;
            text += &format!("silent: node {node} incarnation {incarnation} for {silent:?}\n");
        }
        for Reassign { section, expected, liveness, to, incarnation } in reassigns {
            let record = self.state.sections.resident(*section).expect("it is planned");
            let from = match (record.owner, liveness) {
                (None, _) => String::from("no owner"),
                (Some(owner), Some(liveness)) => format!("node {owner} at liveness {liveness}"),
                (Some(owner), None) => format!("node {owner} incarnation {}, which is over", record.incarnation),
            };
            let to = format!("node {to} incarnation {incarnation}");
            text += &format!("reassign section {section} epoch {expected} from {from} to {to}\n");
        }
        for Stranded { section, expected, .. } in stranded {
            text += &format!("section {section} epoch {expected} has no candidate\n");
        }
        for PlannedHandover { section, epoch, from, to, incarnation, departure: _ } in handovers {
            let to = format!("node {to} incarnation {incarnation}");
            text += &format!("plan a handover of section {section} epoch {epoch} from node {from} to {to}\n");
        }
        text += &match self.arbiter.next_deadline() {
            Some(deadline) => format!("evaluate again at {deadline:?}\n"),
            None => String::from("evaluate again after the next command\n"),
        };
        text
    }
}
