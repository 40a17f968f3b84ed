//! The steps of the model of two sets: their conditions, and the places of their effects.

use stateright::{Model, Property};

use crate::explore::{Events, Explorable};
use crate::sets::bounds::{Bounds, Bug, Setting};
use crate::sets::events::Event;
use crate::sets::promises;
use crate::sets::world::{AllocSvr, Call, Message, Outcome, Receiver, Record, Session, Set, World};

/// The protocol within its bounds.
#[derive(Debug)]
pub(crate) struct Protocol {
    pub(crate) bounds: Bounds,
    pub(crate) events: Events<Event>,
    /// Whether only promises to callers and clients are checked, and not the promises of the stores' records.
    pub(crate) callers_only: bool,
}

impl Explorable for Protocol {
    type Event = Event;

    fn events(&self) -> &Events<Event> {
        &self.events
    }
}

/// A step of a participant. Between any two steps any other step may happen, and any step may never happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A call reaches an owner, which allocates a number; no call is sent later than that.
    Take {
        session: Session,
    },
    /// A call reaches an owner, which reads the slot.
    Read {
        session: Session,
    },
    /// The client sends a call to the set that its directory names.
    Send {
        call: usize,
    },
    /// A node of that set responds to the call or forwards it.
    Handle {
        call: usize,
    },
    Raise {
        session: Session,
    },
    /// The lease of a session ends: its process has crashed, is paused, or is cut off from its store.
    Lapse {
        session: Session,
    },
    /// The session renews after all.
    Renew {
        session: Session,
    },
    /// The AllocSvr of a set registers a new session.
    Register {
        set: Set,
    },
    /// The arbiter of a set gives the section to the newest session.
    Reassign {
        set: Set,
    },
    /// The store sends an ownership update.
    Update {
        set: Set,
    },
    StartMigration {
        set: Set,
    },
    Pause {
        set: Set,
    },
    Resume {
        set: Set,
    },
    Rollback {
        set: Set,
    },
    Complete {
        set: Set,
    },
    /// The owner begins to hand the section over to a session of the other set, as that set's store names it now.
    BeginHandover {
        session: Session,
    },
    /// The owner freezes the slot, copies it and sends the copy.
    Stage {
        session: Session,
    },
    /// The owner treats a message to the target as failed, and thaws.
    Abort {
        session: Session,
    },
    /// The arbiter proposes that a section without a live owner departs.
    ProposeSilent {
        set: Set,
    },
    SendArrive {
        from: Set,
    },
    SendStartReturn {
        from: Set,
    },
    Backup {
        set: Set,
    },
    Restore {
        set: Set,
    },
    SendFence {
        from: Set,
    },
    SendClaim {
        from: Set,
        to: Receiver,
    },
    /// A message is delivered, for the last time or not.
    Deliver {
        message: Message,
        again: bool,
    },
    /// With a bug only: a leader sends the Arrive of a Depart that it only proposed.
    LoseProposal {
        message: Message,
    },
}

impl Model for Protocol {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        let mut world = World::start(&self.bounds);
        world.normalise(&self.bounds);
        vec![world]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        let all_answered = world.calls.iter().all(|call| *call == Call::Answered);
        if world.history.broken.is_some() || (all_answered && world.left.takes + world.left.reads == 0) {
            return;
        }
        self.call_steps(world, steps);
        for node in &world.nodes {
            self.node_steps(world, node, steps);
        }
        for set in Set::ALL {
            self.migration_steps(world, set, steps);
            self.restore_steps(world, set, steps);
            self.claim_steps(world, set, steps);
        }
        for message in world.network.iter().copied().filter(|message| self.can_deliver(world, message)) {
            steps.push(Step::Deliver { message, again: false });
            if world.left.duplicates > 0 {
                steps.push(Step::Deliver { message, again: true });
            }
            if matches!(message, Message::Depart { .. }) && self.bounds.has(Bug::ProposedTombstoneSent) {
                steps.push(Step::LoseProposal { message });
            }
        }
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let mut next = world.clone();
        self.step(&mut next, step);
        next.normalise(&self.bounds);
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        promises::properties(self.callers_only)
    }
}

impl Protocol {
    fn node_steps(&self, world: &World, node: &AllocSvr, steps: &mut Vec<Step>) {
        let session = node.session;
        let is_ordered = self.bounds.setting == Setting::Ordered;
        if !node.leased {
            if world.left.renewals > 0 {
                steps.push(Step::Renew { session });
            }
            return;
        }
        if self.bounds.setting != Setting::Calm && node.table.is_some() {
            if world.left.takes > 0 {
                steps.push(Step::Take { session });
            }
            if world.left.reads > 0 {
                steps.push(Step::Read { session });
            }
        }
        if self.can_raise(world, node) {
            steps.push(Step::Raise { session });
        }
        let is_older_lineage = session.lineage < world.stores[session.set].lineage;
        if is_ordered && (world.left.lapses[session.set] > 0 || is_older_lineage) {
            steps.push(Step::Lapse { session });
        }
        if self.can_begin(world, node) {
            steps.push(Step::BeginHandover { session });
        }
        if self.can_stage(node) {
            steps.push(Step::Stage { session });
        }
        if self.can_abort(node) {
            steps.push(Step::Abort { session });
        }
    }

    fn migration_steps(&self, world: &World, set: Set, steps: &mut Vec<Step>) {
        let (store, left) = (&world.stores[set], &world.left);
        let is_resident = matches!(store.record, Record::Resident(_));
        if left.registrations[set] > 0 {
            steps.push(Step::Register { set });
        }
        if self.can_reassign(world, set) {
            steps.push(Step::Reassign { set });
        }
        if self.can_update(world, set) {
            steps.push(Step::Update { set });
        }
        if is_resident && !store.moving && left.migrations > 0 {
            steps.push(Step::StartMigration { set });
        }
        if store.moving && !store.paused && left.pauses > 0 {
            steps.push(Step::Pause { set });
        }
        if store.paused {
            steps.push(Step::Resume { set });
        }
        if self.can_rollback(world, set) {
            steps.push(Step::Rollback { set });
        }
        if self.can_complete(world, set) {
            steps.push(Step::Complete { set });
        }
        if self.can_propose_silent(world, set) {
            steps.push(Step::ProposeSilent { set });
        }
        if let Record::Departed(tombstone) = store.record {
            if !tombstone.arrived {
                steps.push(Step::SendArrive { from: set });
            }
            if store.returns & (1 << tombstone.migration) != 0 {
                steps.push(Step::SendStartReturn { from: set });
            }
        }
    }

    fn restore_steps(&self, world: &World, set: Set, steps: &mut Vec<Step>) {
        let can_restore = world.left.restores[set] > 0;
        if can_restore && world.backups[set].is_none() {
            steps.push(Step::Backup { set });
        }
        if can_restore && world.backups[set].is_some() {
            steps.push(Step::Restore { set });
        }
        if world.stores[set].quarantined {
            steps.push(Step::SendFence { from: set });
        }
    }

    fn claim_steps(&self, world: &World, set: Set, steps: &mut Vec<Step>) {
        if world.left.claims > 0 {
            steps.push(Step::SendClaim { from: set, to: Receiver::Client });
            steps.push(Step::SendClaim { from: set, to: Receiver::Store(set.other()) });
        }
    }

    /// Returns whether a message may be delivered now.
    fn can_deliver(&self, world: &World, message: &Message) -> bool {
        match message {
            Message::Arrive { from, tombstone, .. } => self.can_arrive(world, from.other(), tombstone),
            Message::Fenced { to, from_lineage, .. } => self.can_end_quarantine(world, *to, *from_lineage),
            _ => true,
        }
    }

    fn step(&self, world: &mut World, step: Step) {
        match step {
            Step::Take { session } => self.take(world, session),
            Step::Read { session } => self.read(world, session),
            Step::Send { call } => self.send_call(world, call),
            Step::Handle { call } => self.handle(world, call),
            Step::Raise { session } => self.request_raise(world, session),
            Step::Lapse { session } => self.lapse(world, session),
            Step::Renew { session } => self.renew(world, session),
            Step::Register { set } => self.register(world, set),
            Step::Reassign { set } => self.reassign(world, set),
            Step::Update { set } => self.send_update(world, set),
            Step::StartMigration { set } => self.start_migration(world, set),
            Step::Pause { set } => {
                world.left.pauses -= 1;
                world.stores[set].paused = true;
            }
            Step::Resume { set } => world.stores[set].paused = false,
            Step::Rollback { set } => self.rollback(world, set),
            Step::Complete { set } => self.complete(world, set),
            Step::BeginHandover { session } => self.begin_handover(world, session),
            Step::Stage { session } => self.stage(world, session),
            Step::Abort { session } => self.thaw(world, session),
            Step::ProposeSilent { set } => self.propose_silent(world, set),
            Step::SendArrive { from } => self.send_arrive(world, from),
            Step::SendStartReturn { from } => self.send_start_return(world, from),
            Step::Backup { set } => world.backups[set] = Some(world.stores[set]),
            Step::Restore { set } => self.restore(world, set),
            Step::SendFence { from } => {
                let lineage = world.stores[from].lineage;
                world.send(Message::Fence { from, lineage });
            }
            Step::SendClaim { from, to } => {
                world.left.claims -= 1;
                let claim = world.stores[from].directory;
                world.send(Message::Claim { to, claim });
            }
            Step::Deliver { message, again } => self.deliver(world, message, again),
            Step::LoseProposal { message } => self.lose_proposal(world, message),
        }
    }

    fn deliver(&self, world: &mut World, message: Message, again: bool) {
        if again {
            world.left.duplicates -= 1;
        } else {
            remove(world, message);
        }
        match message {
            Message::Raise { session, epoch, to } => self.raise(world, session, epoch, to),
            Message::Raised { session, epoch, ceiling } => self.on_raised(world, session, epoch, ceiling),
            Message::Update { session, epoch, claim, grant } => self.on_update(world, session, epoch, claim, grant),
            Message::Stage { from, to, copy } => self.on_stage(world, from, to, copy),
            Message::Staged { to, handover_id } => self.on_staged(world, to, handover_id),
            Message::Depart { session, handover_id, .. } => {
                let outcome = self.depart(world, message);
                match outcome {
                    Outcome::Lost => self.events.mark(Event::DepartLost),
                    Outcome::Refused => self.events.mark(Event::DepartRefused),
                    Outcome::Departed => {}
                }
                world.send(Message::DepartResponse { session, handover_id, outcome });
            }
            Message::DepartResponse { session, outcome, .. } => self.on_depart_response(world, session, outcome),
            Message::DepartSilent { .. } => self.depart_silent(world, message),
            Message::Arrive { from, lineage, tombstone } => self.arrive(world, from, lineage, tombstone),
            Message::Arrived { to, epoch } => self.on_arrived(world, to, epoch),
            Message::StartReturn { from, lineage, migration } => self.start_return(world, from, lineage, migration),
            Message::Fence { from, lineage } => self.fence(world, from, lineage),
            Message::Fenced { to, lineage, from_lineage, record } => {
                self.on_fenced(world, to, lineage, from_lineage, record);
            }
            Message::Claim { to, claim } => self.on_claim(world, to, claim),
        }
    }
}

pub(crate) fn remove(world: &mut World, message: Message) {
    let index = world.network.iter().position(|other| *other == message).expect("it is in flight");
    world.network.remove(index);
}
