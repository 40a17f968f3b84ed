//! Runs the scenarios in `testdata/migration`. They show the effects of one set's coordinator while sections move to
//! another set. Each of the two sets has a complete [`State`]. The scenario acts as the owners, and carries the
//! messages between the sets.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;

use super::*;
use crate::arbiter::{Arbiter, ArbiterTimeouts, Declared, Departure};
use crate::id::{HandoverId, Lineage, RenewSeq, Revision, Seq};
use crate::layout::{Layout, SectionRun};
use crate::state::{
    Answer, Closing, Command as StoreCommand, Depart, Home, LearnDirectory, Pace, Registration, Renew, Rollback, Rules,
    SetDefinition, SetFacts, SetPace, StartMigration,
};
use crate::testdata::{Command, Machine, run_all};

const TIMEOUTS: ArbiterTimeouts =
    ArbiterTimeouts { registration_grace: Duration::from_secs(3), stable_for: Duration::from_secs(60) };

/// Number of sections of the cluster. All of them begin in the first set.
const SECTIONS: u32 = 40;

const SOURCE: SetId = SetId(1);
const TARGET: SetId = SetId(2);

#[test]
fn coordinators_act_as_their_scenarios_state() {
    run_all("migration", || {
        let mut scenario = Scenario {
            source: set(SOURCE, TARGET),
            target: set(TARGET, SOURCE),
            arbiter: Arbiter::new(TIMEOUTS),
            coordinator: Coordinator::default(),
            effects: Vec::new(),
            requested: Vec::new(),
            now: Duration::ZERO,
            attempts: 0,
        };
        register(&mut scenario.source, "a1");
        register(&mut scenario.source, "a2");
        register(&mut scenario.target, "b1");
        scenario
    });
}

#[test]
fn a_restored_set_is_asked_for_the_migrations_by_which_sections_came_here() {
    let (mut target, mut coordinator) = (set(TARGET, SOURCE), Coordinator::default());
    let (migration, section) = (MigrationId(7), SectionId(3));
    let arriving = Arriving {
        section,
        epoch: Epoch(5),
        max_seq: Seq(10),
        handover_id: HandoverId(0),
        node: None,
        incarnation: Incarnation(0),
        migration,
    };
    target.rules = Rules::Nine;
    let layout_id = target.set.as_ref().expect("it is defined").layout.id();
    let lineages = (Lineage(0), Lineage(0));
    let arrive =
        Arrive { from: SOURCE, from_lineage: lineages.0, to_lineage: lineages.1, layout_id, sections: vec![arriving] };
    target.apply(&StoreCommand::Arrive(arrive));
    let came_by = |target: &State| target.sections.resident(section).expect("it arrived").came_by;
    assert_eq!(came_by(&target), migration);
    let mut seconds = 0;
    let mut evaluate = |coordinator: &mut Coordinator, target: &State| {
        seconds += 1;
        coordinator.evaluate(target, &[], |_, _| true, Duration::from_secs(seconds))
    };
    assert_eq!(evaluate(&mut coordinator, &target), [], "the other set was not restored");

    let fence =
        |target: &mut State, count: u64| target.sets.get_mut(&SOURCE).expect("known").fenced = Lineage(count << 32);
    let ask = [Effect::Ask { of: SOURCE, migration }];
    fence(&mut target, 1);
    assert_eq!(evaluate(&mut coordinator, &target), ask);
    assert_eq!(coordinator.on_asked(&target, (SOURCE, Lineage(0)), migration, false), None, "an older lineage");
    assert_eq!(evaluate(&mut coordinator, &target), ask, "until it responds");
    assert_eq!(coordinator.on_asked(&target, (SOURCE, Lineage(1 << 32)), migration, true), None);
    assert_eq!(evaluate(&mut coordinator, &target), [], "its log decides on it");

    // Restored once more, from a backup of the time before the migration began.
    fence(&mut target, 2);
    assert_eq!(evaluate(&mut coordinator, &target), ask);
    let effect = coordinator.on_asked(&target, (SOURCE, Lineage(2 << 32)), migration, false);
    let Some(Effect::Commit(complete)) = effect else { panic!("{effect:?}") };
    target.apply(&complete.into());
    assert_eq!(came_by(&target), MigrationId(0), "it stays, and may migrate again");
    assert_eq!(evaluate(&mut coordinator, &target), []);
}

#[test]
fn a_migration_that_a_restore_rolls_back_is_not_settled_in_quarantine_nor_before_what_departed_has_arrived() {
    let (mut source, migration, section) = (set(SOURCE, TARGET), MigrationId(7), SectionId(3));
    let pace = Pace { rate: 1, max_pause: Duration::from_millis(50), paused: false };
    let scope = Scope::Runs(vec![SectionRun { first: section, sections: 1 }]);
    let open = Migration { to: TARGET, scope, pace, phase: Phase::Open, began: Revision(1) };
    source.migrations.insert(migration, open);
    let expected = source.sections.resident(section).expect("it is here").epoch;
    let depart = DepartSilent { section, expected, liveness: None, to: TARGET, lineage: Lineage(0), migration };
    source.apply(&StoreCommand::DepartSilent(vec![depart]));
    assert!(source.restore(Lineage(1 << 32)).is_ok());
    let settled = |source: &State| {
        let effects = Coordinator::default().evaluate(source, &[], |_, _| true, Duration::ZERO);
        let of_start = |effect: &Effect| match effect {
            Effect::StartReturn { start, .. } => Some(start.settled),
            _ => None,
        };
        effects.iter().find_map(of_start).expect("the return is requested")
    };
    assert!(!settled(&source), "other sets may state more departures");
    source.recovery = None;
    assert!(!settled(&source), "it has not arrived");
    let epoch = expected.next();
    let arrived = Arrived { at: TARGET, lineage: Lineage(0), sections: vec![(section, epoch)], ended: vec![] };
    source.apply(&StoreCommand::Arrived(arrived));
    assert!(settled(&source));
}

fn set(own: SetId, other: SetId) -> State {
    let layout = Layout::new(0..u64::from(SECTIONS) * 10, 10).expect("it is valid");
    let homes = vec![Home { sections: SectionRun { first: SectionId(0), sections: SECTIONS }, set: SOURCE }];
    let mut state = State::default();
    state.apply(&StoreCommand::DefineSet(SetDefinition { name: format!("s{own}"), id: own, layout, homes }));
    let name = format!("s{other}");
    let facts = SetFacts { id: other, revision: Revision(1), name, ..SetFacts::default() };
    state.apply(&StoreCommand::LearnDirectory(LearnDirectory::of(facts)));
    state
}

fn register(state: &mut State, name: &str) {
    let answer = state.apply(&StoreCommand::Register(Registration::new(name, &format!("{name}:1"), 1)));
    assert!(matches!(answer, Answer::Registered(Ok(_))), "{answer:?}");
}

/// Two sets, the coordinator at the leader of the first set's store, and the coordinator's clock.
struct Scenario {
    source: State,
    target: State,
    arbiter: Arbiter,
    coordinator: Coordinator,
    /// The effects of the last evaluation that are not carried out.
    effects: Vec<Effect>,
    /// All effects of the last evaluation.
    requested: Vec<Effect>,
    now: Duration,
    attempts: u64,
}

impl Machine for Scenario {
    /// Carries out one command of a scenario. The commands are:
    ///
    /// * `clock DURATION` lets time pass. `pass DURATION renew=NAME,..` lets time pass in steps of a second; after each
    ///   step the named nodes renew, and the coordinator evaluates the state. `assign` applies the arbiter's proposals.
    /// * `start ID first=SECTION sections=NUMBER rate=NUMBER max-pause=DURATION`, `pause ID`, `resume ID`, `rollback
    ///   ID` and `complete ID` apply the command of an operator that has this name.
    /// * `evaluate` shows the effects and the planned handovers.
    /// * `armed` and `arm-refused CAUSE` are the other set's responses to the requests of the last evaluation.
    ///   `arrive-failed CAUSE` and `end-failed CAUSE` let the other requests of the last evaluation fail, also after
    ///   another response.
    /// * `close-target` lets the first set learn that the other set is closing.
    /// * `stuck` shows the migrations that are stuck and the events about them, and `event-failed ID` lets the proposal
    ///   of such an event fail.
    /// * `depart SECTION` commits the handover of a section that is planned.
    /// * `arrive` and `end` let the other set commit the arrivals and the ends of migrations that the last evaluation
    ///   sent.
    /// * `commit` applies the proposals of the last evaluation to the first set.
    /// * `new-leader` replaces the coordinator and the arbiter with new ones. `records` shows the sections of the first
    ///   set.
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
                    renewing.iter().for_each(|name| self.renew(name));
                    self.evaluate();
                }
                *out += &format!("now {:?}\n", self.now);
            }
            "assign" => {
                self.evaluate();
                let plan = self.plan();
                self.source.apply(&StoreCommand::Reassign(plan.reassigns.clone()));
            }
            "start" => *out += &self.start(command),
            "pause" | "resume" => {
                let (id, paused) = (MigrationId(command.word()), command.name() == "pause");
                let pace = Pace { paused, ..self.source.migrations[&id].pace };
                *out += &format!("{:?}\n", self.source.apply(&StoreCommand::Pace(SetPace { id, pace })));
            }
            "rollback" => {
                let rollback = Rollback { id: MigrationId(command.word()) };
                *out += &format!("{:?}\n", self.source.apply(&StoreCommand::Rollback(rollback)));
            }
            "complete" => {
                let complete = Complete { id: MigrationId(command.word()), by: None };
                *out += &format!("{:?}\n", self.source.apply(&StoreCommand::Complete(complete)));
            }
            "evaluate" => {
                self.evaluate();
                *out += &self.describe();
            }
            "armed" => *out += &self.armed(),
            "arm-refused" | "arrive-failed" | "end-failed" => self.fail(command.name(), &command.word::<String>()),
            "close-target" => {
                let name = format!("s{TARGET}");
                let facts = SetFacts {
                    id: TARGET,
                    revision: Revision(2),
                    name,
                    closing: Closing::Closing,
                    ..SetFacts::default()
                };
                self.source.apply(&StoreCommand::LearnDirectory(LearnDirectory::of(facts)));
            }
            "stuck" => *out += &self.stuck(),
            "event-failed" => self.coordinator.on_event_failed(MigrationId(command.word()), self.now),
            "depart" => *out += &self.depart(command),
            "arrive" | "end" => *out += &self.deliver(),
            "commit" => {
                for effect in core::mem::take(&mut self.effects) {
                    if let Effect::Commit(proposal) = effect {
                        *out += &format!("{:?}\n", self.source.apply(&proposal.into()));
                    }
                }
            }
            "new-leader" => {
                self.arbiter = Arbiter::new(TIMEOUTS);
                self.coordinator = Coordinator::default();
            }
            "records" => *out += &self.records(),
            _ => command.unknown(),
        }
    }
}

impl Scenario {
    /// Lets requests of the last evaluation fail.
    fn fail(&mut self, name: &str, cause: &str) {
        for effect in self.requested.clone() {
            match (name, effect) {
                ("arm-refused", Effect::Arm { migration, .. }) => {
                    self.coordinator.on_arm_refused(migration, cause, self.now);
                }
                ("arrive-failed", Effect::Arrive { arrive, .. }) => {
                    self.coordinator.on_arrive_failed(&arrive, cause, self.now);
                }
                ("end-failed", Effect::StartReturn { start: StartReturn { of: id, .. }, .. })
                | ("end-failed", Effect::Complete { complete: Complete { id, .. }, .. }) => {
                    self.coordinator.on_end_failed(id, cause, self.now);
                }
                _ => {}
            }
        }
    }

    fn stuck(&mut self) -> String {
        let stuck = self.coordinator.stuck(self.now).map(|(id, cause)| format!("migration {id} is stuck: {cause}\n"));
        let mut text: String = stuck.collect();
        for (id, cause) in self.coordinator.take_stuck_events(self.now) {
            text += &format!("event: migration {id}: {cause}\n");
        }
        text += &match self.coordinator.next_stuck_deadline(self.now) {
            Some(at) => format!("decide again at {at:?}\n"),
            None => String::from("decide again after the next failure\n"),
        };
        text
    }

    fn plan(&mut self) -> alloc::sync::Arc<crate::arbiter::Plan> {
        let declared = ["a1", "a2"].map(|name| Declared { name, weight: 1 });
        self.arbiter.evaluate(&self.source, &declared, || self.now).clone()
    }

    fn evaluate(&mut self) {
        let plan = self.plan();
        let living = |node, incarnation| self.arbiter.is_living(node, incarnation);
        self.effects = self.coordinator.evaluate(&self.source, &plan.stranded, living, self.now);
        self.requested.clone_from(&self.effects);
    }

    fn renew(&mut self, name: &str) {
        let (node, record) = self.source.nodes().find(|(_, node)| node.name == name).expect("it registered");
        let (incarnation, renew_seq) = (record.incarnation, RenewSeq(record.renew_seq.0 + 1));
        let renew = StoreCommand::Renew(Renew { node, incarnation, renew_seq, leaving: false, ..Renew::default() });
        assert_eq!(self.source.apply(&renew), Answer::Renewed(Ok(())));
    }

    fn start(&mut self, command: &Command<'_>) -> String {
        let sections = SectionRun { first: SectionId(command.get("first")), sections: command.get("sections") };
        let runs = vec![sections];
        let start = StartMigration {
            fingerprint: self.source.fingerprint(TARGET, &runs).expect("the sets know each other"),
            id: MigrationId(command.word()),
            to: TARGET,
            lineage: self.source.lineage,
            layout_id: self.source.set.as_ref().expect("it is defined").layout.id(),
            runs,
            pace: Pace { rate: command.get("rate"), max_pause: command.get("max-pause"), paused: false },
        };
        format!("{:?}\n", self.source.apply(&StoreCommand::StartMigration(start)))
    }

    /// Responds to the requests to arm with the other set's only node.
    fn armed(&mut self) -> String {
        let (set, owner) = ((TARGET, Lineage(0)), (NodeId(1), Incarnation(1)));
        let mut text = String::new();
        for effect in core::mem::take(&mut self.effects) {
            let Effect::Arm { migration, sections, .. } = effect else { continue };
            let one = |section: &SectionId| Armed { section: *section, set, owner, addr: String::from("b1:1") };
            let armed: Vec<Armed> = sections.iter().map(one).collect();
            if let Some(effect) = self.coordinator.on_armed(migration, &armed, self.now) {
                text += &describe_effect(&effect);
                self.effects.push(effect);
            }
        }
        text
    }

    fn depart(&mut self, command: &Command<'_>) -> String {
        let section: SectionId = command.word();
        let planned = self.coordinator.planned().find(|one| one.section == section).cloned();
        let Some(planned) = planned else { command.fail("it is not planned") };
        let Departure { set, lineage, migration, .. } = *planned.departure.expect("it goes to the other set");
        let to = Destination { set, lineage, node: Some(planned.to), incarnation: planned.incarnation };
        self.attempts += 1;
        let depart = Depart {
            section,
            epoch: planned.epoch,
            from: planned.from,
            incarnation: Incarnation(1),
            to,
            handover_id: HandoverId(self.attempts),
            migration,
        };
        match self.source.apply(&StoreCommand::Depart(depart)) {
            Answer::Departed(Ok(made)) => format!("section {section} departed under epoch {}\n", made.epoch),
            other => format!("section {section}: {other:?}\n"),
        }
    }

    /// Applies the requests of the last evaluation to the other set, and notes that set's responses at once.
    fn deliver(&mut self) -> String {
        let mut text = String::new();
        for effect in core::mem::take(&mut self.effects) {
            let note = match effect {
                Effect::Arrive { to, arrive } => {
                    let Answer::Arrived(Ok(outcome)) = self.target.apply(&StoreCommand::Arrive(arrive.clone())) else {
                        unreachable!("the scenario restores no set")
                    };
                    text += &format!("the other set: {outcome:?}\n");
                    self.coordinator.on_arrive((to, Lineage(0)), &arrive, &outcome, self.now)
                }
                Effect::StartReturn { to, start } => {
                    text += &format!("the other set: {:?}\n", self.target.apply(&StoreCommand::StartReturn(start)));
                    start.settled.then(|| self.coordinator.on_end((to, Lineage(0)), start.of))
                }
                Effect::Complete { to, complete } => {
                    text += &format!("the other set: {:?}\n", self.target.apply(&StoreCommand::Complete(complete)));
                    Some(self.coordinator.on_end((to, Lineage(0)), complete.id))
                }
                _ => None,
            };
            if let Some(Effect::Commit(proposal)) = note {
                text += &format!("{:?}\n", self.source.apply(&proposal.into()));
            }
        }
        text
    }

    fn describe(&self) -> String {
        let mut text: String = self.effects.iter().map(describe_effect).collect();
        for PlannedHandover { section, epoch, from, to, departure, .. } in self.coordinator.planned() {
            let Departure { set, migration, addr, .. } = &**departure.as_ref().expect("it goes to the other set");
            let to = format!("set {set} node {:?} at {addr}", Some(to.0));
            text += &format!("plan section {section} epoch {epoch} from node {from} to {to}, migration {migration}\n");
        }
        text += &match self.coordinator.next_deadline() {
            Some(deadline) => format!("evaluate again at {deadline:?}\n"),
            None => String::from("evaluate again after the next command\n"),
        };
        text
    }

    fn records(&self) -> String {
        let mut text = String::new();
        for (section, record) in self.source.sections.known() {
            match record {
                SectionRecord::Departed(one) if one.arrived => {
                    text += &format!("section {section} arrived under epoch {}\n", one.epoch);
                }
                SectionRecord::Departed(one) => {
                    text += &format!("section {section} departed under epoch {}\n", one.epoch)
                }
                _ => {}
            }
        }
        text
    }
}

fn describe_effect(effect: &Effect) -> String {
    let list = |sections: &mut dyn Iterator<Item = SectionId>| {
        sections.map(|section| section.to_string()).collect::<Vec<_>>().join(",")
    };
    match effect {
        Effect::Arm { migration, to, sections } => {
            format!("arm set {to} for {}, migration {migration}\n", list(&mut sections.iter().copied()))
        }
        Effect::Arrive { to, arrive } => {
            format!("send set {to} the departed {}\n", list(&mut arrive.sections.iter().map(|one| one.section)))
        }
        Effect::StartReturn { to, start } => {
            let settled = if start.settled { ", settled" } else { "" };
            format!("send set {to} the return of migration {}{settled}\n", start.of)
        }
        Effect::Ask { of, migration } => format!("ask set {of} whether it knows migration {migration}\n"),
        Effect::Complete { to, complete } => format!("send set {to} that migration {} is complete\n", complete.id),
        Effect::Commit(Proposal::DepartSilent(departs)) => {
            format!("propose that {} depart without an owner\n", list(&mut departs.iter().map(|one| one.section)))
        }
        Effect::Commit(proposal) => format!("propose {:?}\n", StoreCommand::from(proposal.clone())),
    }
}
