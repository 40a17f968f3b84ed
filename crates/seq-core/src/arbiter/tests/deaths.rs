//! Reported deaths of processes.

use super::*;
use crate::state::Died;

impl World {
    /// Reports the death of the process of the newest incarnation of a node.
    fn die(&mut self, name: &str) {
        let (node, record) = self.state.nodes().find(|(_, node)| node.name == name).unwrap();
        let died = Died { node, process: record.process };
        assert!(matches!(self.state.apply(&Command::Died(died)), Answer::DeathNoted(Ok(Some(_)))));
    }
}

#[test]
fn the_sections_of_a_dead_process_get_other_owners_without_a_wait() {
    let mut world = World::assigned(300);
    let lost = world.owned("a1");
    world.pass(1, &NAMES);
    world.die("a1");
    let plan = world.evaluate();
    assert_eq!(plan.reassigns.len(), lost);
    assert_eq!(plan.silent, [], "the node was not silent");
    assert!(plan.candidates.iter().all(|(node, _)| *node != NodeId(1)), "{:?}", plan.candidates);
    assert!(!world.arbiter.is_living(NodeId(1), Incarnation(1)));
    let now = world.now;
    assert!(world.arbiter.dead_owners().eq([DeadOwner { node: NodeId(1), incarnation: Incarnation(1), since: now }]));
    assert_eq!(world.reassign(), lost);
    assert_eq!(world.reassign(), 0);
}

/// The sections of a process that died are free even after the next process of the node has registered.
#[test]
fn the_next_process_of_the_node_gets_the_sections_at_once() {
    let mut world = World::assigned(30);
    let owned = world.owned("a1");
    world.pass(1, &NAMES);
    world.die("a1");
    world.register("a1");
    assert_eq!(world.reassign(), owned);
    assert_eq!(world.owned("a1"), owned);
}

#[test]
fn sections_of_an_earlier_incarnation_keep_their_wait() {
    let mut world = World::assigned(30);
    let owned = world.owned("a1");
    world.pass(1, &NAMES);
    world.register("a1");
    world.pass(1, &NAMES);
    world.die("a1");
    assert_eq!(world.reassign(), 0, "another process may have had them");
    world.pass(2, &["a2", "a3"]);
    assert_eq!(world.reassign(), 0);
    world.pass(1, &["a2", "a3"]);
    assert_eq!(world.reassign(), owned, "five seconds after the last renewal of the earlier incarnation");
}

/// A death in the first state that an arbiter evaluates may be from before a rollback of the store.
#[test]
fn a_new_arbiter_waits_also_for_a_process_that_was_dead_before() {
    let mut world = World::assigned(30);
    let owned = world.owned("a1");
    world.pass(1, &NAMES);
    world.die("a1");
    world.arbiter = Arbiter::new(TIMEOUTS);
    let plan = world.evaluate();
    assert_eq!(plan.reassigns, []);
    assert!(!plan.living.contains(&NodeId(1)), "it gets no sections either");
    world.pass(4, &["a2", "a3"]);
    assert_eq!(world.reassign(), 0);
    world.pass(1, &["a2", "a3"]);
    assert_eq!(world.reassign(), owned);
}
