use alloc::vec;

use super::*;
use crate::id::{HandoverId, RenewSeq, Revision};
use crate::layout::Layout;
use crate::lease::LeaseTerms;
use crate::state::{
    Answer, Command, Drain, MoveSections, Pause, PauseBalancing, Registration, Renew, ReportLoss, SetDefinition,
    SetTerms, Terms, Transfer,
};

mod deaths;

const NAMES: [&str; 3] = ["a1", "a2", "a3"];

const TIMEOUTS: ArbiterTimeouts =
    ArbiterTimeouts { registration_grace: Duration::from_secs(3), stable_for: Duration::from_secs(60) };

const TERMS: Terms = Terms { lease_wait: Duration::from_secs(5) };

/// A set, its arbiter, and the time.
struct World {
    state: State,
    arbiter: Arbiter,
    now: Duration,
    tokens: u64,
}

impl World {
    fn new(sections: u64) -> World {
        let mut state = State::default();
        let layout = Layout::new(0..sections * 10, 10).unwrap();
        state.apply(&Command::DefineSet(SetDefinition::only("s", layout)));
        assert_eq!(
            state.apply(&Command::SetTerms(SetTerms { replaces: None, terms: TERMS })),
            Answer::TermsSet(Ok(()))
        );
        World { state, arbiter: Arbiter::new(TIMEOUTS), now: Duration::ZERO, tokens: 0 }
    }

    /// Creates a set whose three nodes own all sections.
    fn assigned(sections: u64) -> World {
        let mut world = World::new(sections);
        for name in NAMES {
            world.register(name);
        }
        assert_eq!(world.reassign(), sections as usize);
        world
    }

    fn register(&mut self, name: &str) -> Session {
        self.register_for(name, LeaseTerms::DEFAULTS.lease)
    }

    fn register_for(&mut self, name: &str, lease: Duration) -> Session {
        self.tokens += 1;
        let known = self.state.nodes().find(|(_, node)| node.name == name);
        let registration = Registration {
            name: name.into(),
            addr: "127.0.0.1:1".into(),
            peer_addr: "127.0.0.1:2".into(),
            token: self.tokens,
            lease,
            follows: known.map_or(Incarnation(0), |(_, node)| node.incarnation),
            seen: Revision(0),
            process: self.tokens,
        };
        match self.state.apply(&Command::Register(registration)) {
            Answer::Registered(Ok(session)) => session,
            other => panic!("{other:?}"),
        }
    }

    fn renew_with(&mut self, name: &str, leaving: bool) {
        let (node, record) = self.state.nodes().find(|(_, node)| node.name == name).unwrap();
        let (incarnation, renew_seq) = (record.incarnation, RenewSeq(record.renew_seq.0 + 1));
        let renew = Command::Renew(Renew { node, incarnation, renew_seq, leaving, ..Renew::default() });
        assert_eq!(self.state.apply(&renew), Answer::Renewed(Ok(())));
    }

    fn renew(&mut self, names: &[&str]) {
        names.iter().for_each(|name| self.renew_with(name, false));
    }

    fn evaluate(&mut self) -> Arc<Plan> {
        let declared = NAMES.map(|name| Declared { name, weight: 1 });
        self.arbiter.evaluate(&self.state, &declared, || self.now).clone()
    }

    fn after(&mut self, seconds: u64) -> &mut World {
        self.now += Duration::from_secs(seconds);
        self
    }

    /// Lets time pass in which these nodes renew.
    fn pass(&mut self, seconds: u64, renewing: &[&str]) {
        for _ in 0..seconds {
            self.renew(renewing);
            self.evaluate();
            self.after(1);
        }
    }

    /// Applies the plan's reassignments; returns the number of sections.
    fn reassign(&mut self) -> usize {
        let plan = self.evaluate();
        match self.state.apply(&Command::Reassign(plan.reassigns.clone())) {
            Answer::Reassigned(outcome) => outcome.into_iter().flatten().count(),
            other => panic!("{other:?}"),
        }
    }

    fn owned(&self, name: &str) -> usize {
        let (id, node) = self.state.nodes().find(|(_, node)| node.name == name).unwrap();
        self.state.owned_since((id, node.incarnation), RouteVersion(0)).count()
    }
}

#[test]
fn sections_wait_for_all_declared_nodes_or_the_registration_grace() {
    let mut world = World::new(100);
    let plan = world.evaluate();
    assert_eq!(plan.stranded.len(), 100, "no node registered");
    assert_eq!(*plan, Plan { stranded: plan.stranded.clone(), ..Plan::default() });
    world.register("a1");
    assert_eq!(world.evaluate().reassigns, []);
    assert_eq!(world.arbiter.next_deadline(), Some(TIMEOUTS.registration_grace));
    world.after(2);
    world.register("a2");
    assert_eq!(world.evaluate().reassigns, []);
    assert_eq!(world.after(1).reassign(), 100);
    for name in ["a1", "a2"] {
        assert!((45..=55).contains(&world.owned(name)), "{name} owns {} of 100", world.owned(name));
    }
    assert_eq!(world.evaluate().reassigns, []);
}

#[test]
fn a_node_without_renewals_loses_its_sections_to_all_others() {
    let mut world = World::assigned(300);
    let lost = world.owned("a1");
    world.pass(4, &["a2", "a3"]);
    assert_eq!(world.reassign(), 0, "not before the wait is over");
    world.pass(1, &["a2", "a3"]);
    assert_eq!(world.reassign(), lost);
    assert_eq!(world.owned("a1"), 0);
    for name in ["a2", "a3"] {
        assert!(world.owned(name) <= 165 + 5, "{name} owns {} of 300", world.owned(name));
    }
}

/// A set without a node that can take the sections over is what an operator has to find in the event log.
#[test]
fn the_silence_of_an_owner_is_noted_once_even_if_no_node_can_take_over() {
    let mut world = World::assigned(30);
    let begin = world.now;
    let notes = |world: &mut World| {
        let plan = world.evaluate();
        let unix_ms = 1_000_000 + (world.now - begin).as_millis() as u64;
        let notes = plan.notes(&world.state, world.now, unix_ms);
        for note in &notes {
            world.state.apply(&Command::Note(note.clone()));
        }
        let silent = notes.iter().map(|note| match note.about {
            Noted::Silent { node, silent_ms, .. } => (node.0, silent_ms),
            ref other => panic!("{other:?}"),
        });
        (silent.collect::<Vec<(u32, u64)>>(), plan.stranded.len())
    };
    assert_eq!(notes(world.after(4)), (vec![], 0));
    assert_eq!(notes(world.after(1)), (vec![(1, 5_000), (2, 5_000), (3, 5_000)], 30));
    for _ in 0..10 {
        assert_eq!(notes(world.after(60)), (vec![], 30), "it lasts");
    }
    world.renew(&["a2"]);
    assert_eq!(notes(&mut world).1, 0);
    assert_eq!(notes(world.after(5)).0, [(2, 5_000)], "another silence");
}

/// The plan from before the loss must not stay, because the state would refuse all of it, again and again.
#[test]
fn after_a_loss_nothing_is_planned() {
    let mut world = World::assigned(30);
    world.pass(5, &["a2", "a3"]);
    assert!(!world.evaluate().reassigns.is_empty());
    let incarnation = world.state.node(NodeId(2)).unwrap().incarnation;
    let report = ReportLoss { node: "a2".into(), incarnation, seen: Revision(1 << 40), certain: true };
    assert_eq!(world.state.apply(&Command::ReportLoss(report)), Answer::LossReported(Ok(true)));
    assert_eq!(*world.evaluate(), Plan::default());
}

#[test]
fn the_sections_of_an_earlier_incarnation_wait_and_return_to_the_node() {
    let mut world = World::assigned(30);
    let owned = world.owned("a1");
    world.pass(3, &NAMES);
    world.register("a1");
    world.pass(3, &NAMES);
    assert_eq!(world.reassign(), 0, "the earlier session may still serve");
    world.pass(1, &NAMES);
    assert_eq!(world.reassign(), owned);
    assert_eq!(world.owned("a1"), owned);
}

/// A killed process that is restarted is replaced no later than a process that stays dead.
#[test]
fn the_wait_for_a_dead_node_goes_on_when_it_registers_again() {
    let mut world = World::assigned(30);
    let owned = world.owned("a1");
    world.pass(1, &NAMES);
    world.pass(2, &["a2", "a3"]);
    world.register("a1");
    world.pass(1, &NAMES);
    assert_eq!(world.reassign(), 0, "four seconds after the last renewal was first seen");
    world.pass(1, &NAMES);
    assert_eq!(world.reassign(), owned, "five seconds after it");
    assert_eq!(world.owned("a1"), owned);
}

#[test]
fn the_wait_covers_the_lease_of_the_incarnation_under_any_terms() {
    let mut world = World::new(30);
    world.register_for("a1", Duration::from_secs(4));
    world.register("a2");
    world.register("a3");
    world.evaluate();
    world.reassign();
    let shorter = Terms { lease_wait: Duration::from_secs(3) };
    world.state.apply(&Command::SetTerms(SetTerms { replaces: Some(TERMS), terms: shorter }));
    world.pass(1, &NAMES);
    // 4 s * 1.11 / 0.89 are 4.99 s.
    world.pass(3, &["a2", "a3"]);
    assert_eq!(world.reassign(), 0, "the lease may still run");
    world.pass(1, &["a2", "a3"]);
    assert!(world.reassign() > 0);

    // Another process of the name begins with a shorter lease; the wait still outlasts the longer lease.
    let mut world = World::new(30);
    world.register_for("a1", Duration::from_secs(4));
    assert_eq!(world.evaluate().reassigns, []);
    assert_eq!(world.after(3).reassign(), 30);
    world.register_for("a1", Duration::from_secs(1));
    assert_eq!(world.state.node(NodeId(1)).unwrap().lease, Duration::from_secs(4));
    world.register_for("a1", Duration::from_secs(1));
    assert_eq!(world.state.node(NodeId(1)).unwrap().lease, Duration::from_secs(4), "the first one still owns sections");
    world.pass(5, &["a1"]);
    world.reassign();
    world.state.sections.residents().for_each(|(_, record)| assert_eq!(record.incarnation, Incarnation(3)));
}

/// The arbiter's thread is stopped between its clock and the state while a node renews: the renewal is dated by the
/// state, not by the older clock.
#[test]
fn observations_are_dated_by_a_clock_that_is_read_after_the_state() {
    let mut world = World::assigned(30);
    world.pass(2, &NAMES);
    // The call has begun, and the thread is stopped for 4 s; all nodes renew during the stop.
    let stopped = world.now;
    world.after(4).renew(&NAMES);
    let (state, now) = (&world.state, world.now);
    let declared = NAMES.map(|name| Declared { name, weight: 1 });
    world.arbiter.evaluate(state, &declared, || {
        assert!(now > stopped);
        now
    });
    world.pass(2, &["a2", "a3"]);
    assert_eq!(world.reassign(), 0, "a1 renewed two seconds ago");
}

/// The arbiter was not scheduled while the old incarnation renewed once more and the new incarnation began.
#[test]
fn the_wait_for_an_earlier_incarnation_begins_when_it_is_observed_to_be_over() {
    let mut world = World::assigned(30);
    world.pass(1, &NAMES);
    world.after(3).renew(&NAMES);
    world.register("a1");
    world.evaluate();
    world.after(4).renew(&NAMES);
    assert_eq!(world.reassign(), 0);
    world.after(1).renew(&["a2", "a3"]);
    assert!(world.reassign() > 0);
}

#[test]
fn a_node_that_returns_gets_its_share_by_handovers_and_only_when_it_stays() {
    let mut world = World::assigned(300);
    let share = world.owned("a1");
    world.pass(6, &["a2", "a3"]);
    world.reassign();
    world.register("a1");
    world.pass(59, &NAMES);
    let plan = world.evaluate();
    assert_eq!((plan.reassigns.len(), plan.handovers.len()), (0, 0));
    world.pass(2, &NAMES);
    let handovers = world.evaluate().handovers.clone();
    assert_eq!(handovers.iter().filter(|one| one.to == NodeId(1)).count(), share);
    assert!(handovers.len() < share + 30, "{} handovers for a share of {share}", handovers.len());
    world.pass(6, &["a2", "a3"]);
    assert_eq!(
        world.evaluate().handovers.iter().filter(|one| one.to == NodeId(1)).count(),
        0,
        "the node is gone again"
    );
}

#[test]
fn a_drained_node_hands_over_at_once_and_is_given_nothing() {
    let mut world = World::assigned(300);
    world.state.apply(&Command::Drain(Drain { name: "a2".into(), drained: true }));
    let plan = world.evaluate();
    assert_eq!(plan.draining, BTreeSet::from([NodeId(2)]));
    assert_eq!(plan.no_other_candidate, BTreeSet::new());
    assert_eq!(plan.handovers.len(), world.owned("a2"));
    assert!(plan.handovers.iter().all(|one| one.from == NodeId(2) && one.to != NodeId(2)));
    world.pass(6, &["a2", "a3"]);
    assert!(world.evaluate().reassigns.iter().all(|one| one.to == NodeId(3)));
    world.state.apply(&Command::Drain(Drain { name: "a2".into(), drained: false }));
    assert_eq!(world.evaluate().handovers, [], "no longer drained");
}

#[test]
fn the_last_node_to_leave_has_no_other_candidate() {
    let mut world = World::assigned(30);
    world.renew_with("a1", true);
    let plan = world.evaluate();
    assert_eq!((plan.handovers.len(), plan.no_other_candidate.len()), (world.owned("a1"), 0));
    world.renew_with("a2", true);
    world.renew_with("a3", true);
    let plan = world.evaluate();
    assert_eq!((plan.handovers.len(), plan.no_other_candidate.len(), plan.reassigns.len()), (0, 3, 0));
    world.state.apply(&Command::Drain(Drain { name: "a3".into(), drained: true }));
    world.renew(&["a3"]);
    assert_eq!(
        world.evaluate().no_other_candidate,
        BTreeSet::from([NodeId(3)]),
        "a drained node serves where there is no other"
    );
}

#[test]
fn a_node_that_the_set_file_does_not_name_is_given_nothing() {
    let mut world = World::new(10);
    world.register("a9");
    assert_eq!(world.evaluate().reassigns, []);
    world.register("a1");
    world.evaluate();
    world.after(3);
    assert!(world.evaluate().reassigns.iter().all(|change| change.to == NodeId(2)));
    assert_eq!(world.reassign(), 10);
}

/// Applies all handovers of the plan, as owners would.
fn hand_over(world: &mut World) -> usize {
    let plan = world.evaluate();
    for one in &plan.handovers {
        let incarnation = world.state.node(one.from).unwrap().incarnation;
        let transfer = Transfer {
            section: one.section,
            epoch: one.epoch,
            from: one.from,
            incarnation,
            to: one.to,
            to_incarnation: one.incarnation,
            handover_id: HandoverId(1),
        };
        assert!(matches!(world.state.apply(&Command::Transfer(transfer)), Answer::Transferred(Ok(_))));
    }
    plan.handovers.len()
}

fn move_to(world: &mut World, sections: &[SectionId], to: Option<&str>) {
    let to = to.map(|name| world.state.nodes().find(|(_, node)| node.name == name).unwrap().0);
    let change = MoveSections { sections: sections.to_vec(), to };
    assert_eq!(world.state.apply(&Command::MoveSections(change)), Answer::SectionsMoved(Ok(())));
}

fn pause(world: &mut World, paused: bool) {
    let pause = paused.then(|| Pause { since_unix_ms: 1, principal: "operator/a".into() });
    assert_eq!(world.state.apply(&Command::PauseBalancing(PauseBalancing(pause))), Answer::BalancingPaused(Ok(())));
}

#[test]
fn moved_sections_go_to_their_node_alone_and_stay_there_while_it_lives() {
    let mut world = World::assigned(30);
    world.pass(60, &NAMES);
    let owned = |world: &World, name: &str| -> Vec<SectionId> {
        let (id, node) = world.state.nodes().find(|(_, node)| node.name == name).unwrap();
        world.state.owned_since((id, node.incarnation), RouteVersion(0)).map(|(section, _)| section).collect()
    };
    let hot = owned(&world, "a1")[..2].to_vec();
    assert_eq!(hand_over(&mut world), 0);
    move_to(&mut world, &hot, Some("a3"));
    assert_eq!(hand_over(&mut world), 2, "no section but the moved ones");
    assert!(hot.iter().all(|section| owned(&world, "a3").contains(section)));
    assert_eq!(hand_over(&mut world), 0, "balancing does not take them back");

    // Their node dies and returns: its sections are taken over like all others, and come back once candidates are
    // stable.
    world.pass(5, &["a1", "a2"]);
    assert!(world.reassign() >= 12, "a dead owner is replaced");
    world.register("a3");
    world.pass(59, &NAMES);
    assert_eq!(hand_over(&mut world), 0, "a node that joins and leaves would move them back and forth");
    world.pass(2, &NAMES);
    hand_over(&mut world);
    assert!(hot.iter().all(|section| owned(&world, "a3").contains(section)));

    // While it is drained, it keeps none of them.
    world.state.apply(&Command::Drain(Drain { name: "a3".into(), drained: true }));
    hand_over(&mut world);
    assert_eq!(owned(&world, "a3"), []);
    world.state.apply(&Command::Drain(Drain { name: "a3".into(), drained: false }));
    world.pass(61, &NAMES);
    hand_over(&mut world);
    move_to(&mut world, &hot, None);
    assert_eq!(hand_over(&mut world), 2, "balancing places them again");
    assert!(hot.iter().all(|section| owned(&world, "a1").contains(section)));
}

#[test]
fn a_pause_of_balancing_stops_what_evens_the_load_and_nothing_else() {
    let mut world = World::new(30);
    world.register("a1");
    world.register("a2");
    world.pass(4, &["a1", "a2"]);
    assert_eq!(world.reassign(), 30);
    pause(&mut world, true);
    world.register("a3");
    world.pass(61, &NAMES);
    assert_eq!(hand_over(&mut world), 0, "the share of a new node waits");
    move_to(&mut world, &[SectionId(7)], Some("a3"));
    assert_eq!(hand_over(&mut world), 1, "an operator's move goes on");
    world.state.apply(&Command::Drain(Drain { name: "a2".into(), drained: true }));
    hand_over(&mut world);
    assert_eq!(world.owned("a2"), 0, "so does a drain");
    world.pass(5, &["a2", "a3"]);
    world.reassign();
    assert_eq!(world.owned("a3"), 30, "and a dead owner is replaced");
    world.register("a1");
    world.pass(61, &NAMES);
    assert_eq!(hand_over(&mut world), 0);
    pause(&mut world, false);
    assert!(hand_over(&mut world) > 0, "after the pause the load is evened at once");
}
