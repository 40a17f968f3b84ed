//! The steps of the model of restores, except the steps of a quarantine.

use stateright::{Model, Property};

use crate::explore::{Events, Explorable};
use crate::restores::bounds::{Bounds, Bug, Event};
use crate::restores::world::{
    EPOCHS, Ghost, LEASES, Life, MARGIN, Promise, Record, Recovery, SETS, STEP, Stage, World,
};

/// The protocol within its bounds.
#[derive(Debug)]
pub(crate) struct Protocol {
    pub(crate) bounds: Bounds,
    pub(crate) events: Events<Event>,
}

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The owner takes a number.
    Serve {
        set: usize,
    },
    /// The owner of a lost store takes a number.
    ServeAsGhost {
        set: usize,
    },
    Tick,
    Depart {
        from: usize,
        to: usize,
    },
    Arrive {
        from: usize,
    },
    Backup {
        set: usize,
    },
    Lose {
        set: usize,
    },
    Restore {
        set: usize,
        larger: bool,
    },
    /// A set in quarantine sends its request to another set.
    Ask {
        set: usize,
        other: usize,
    },
    EndQuarantine {
        set: usize,
    },
    /// A set learns the facts of another set.
    Learn {
        set: usize,
        of: usize,
    },
    Close {
        set: usize,
    },
    Inherit {
        set: usize,
        of: usize,
    },
    Closed {
        set: usize,
    },
    Stop {
        set: usize,
    },
}

impl Explorable for Protocol {
    type Event = Event;

    fn events(&self) -> &Events<Event> {
        &self.events
    }
}

impl Model for Protocol {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World::start(&self.bounds)]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        if world.broken.is_some() {
            return;
        }
        let quarantined = |set: &usize| world.stores[*set].recovery.is_some_and(|one| one.elapsed < one.needs);
        if (0..SETS).any(|set| world.ghosts[set].is_some() || quarantined(&set)) {
            steps.push(Step::Tick);
        }
        for set in 0..SETS {
            let store = &world.stores[set];
            if world.left.serves > 0 && world.ghosts[set].is_some_and(|ghost| ghost.next <= ghost.ceiling) {
                steps.push(Step::ServeAsGhost { set });
            }
            match world.lives[set] {
                Life::Stopped => continue,
                Life::Lost => {
                    steps.push(Step::Restore { set, larger: false });
                    if world.left.larger > 0 {
                        steps.push(Step::Restore { set, larger: true });
                    }
                    continue;
                }
                Life::Running => {}
            }
            if world.left.backups[set] > 0 {
                steps.push(Step::Backup { set });
            }
            if world.left.restores[set] > 0 && world.backups[set].is_some() {
                steps.push(Step::Lose { set });
            }
            let others = (0..SETS).filter(|other| *other != set && world.runs(*other));
            for other in others {
                steps.push(Step::Learn { set, of: other });
                match store.recovery {
                    Some(_) if self.awaited(store, set).contains(&other) => steps.push(Step::Ask { set, other }),
                    None if world.stores[other].closing == Stage::Closing => {
                        steps.push(Step::Inherit { set, of: other });
                    }
                    _ => {}
                }
            }
            if store.recovery.is_some() {
                steps.push(Step::EndQuarantine { set });
                continue;
            }
            match store.record {
                Record::Resident { .. } => {
                    if world.left.serves > 0 {
                        steps.push(Step::Serve { set });
                    }
                    if world.left.migrations > 0 {
                        let to = (0..SETS).filter(|to| *to != set);
                        steps.extend(to.map(|to| Step::Depart { from: set, to }));
                    }
                }
                Record::Departed { arrived: false, .. } => steps.push(Step::Arrive { from: set }),
                _ => {}
            }
            match store.closing {
                Stage::Open if world.left.closes > 0 => steps.push(Step::Close { set }),
                Stage::Closing => steps.push(Step::Closed { set }),
                Stage::Closed => steps.push(Step::Stop { set }),
                Stage::Open => {}
            }
        }
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let mut next = world.clone();
        self.step(&mut next, step);
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no number is allocated twice", |_, world: &World| world.broken != Some(Promise::Unique)),
            Property::always("numbers are ordered in real time", |_, world: &World| {
                world.broken != Some(Promise::Ordered)
            }),
            Property::always("no ceiling falls", |_, world: &World| world.broken != Some(Promise::CeilingsRise)),
            Property::always("a section has one residence", has_one_residence),
            Property::always("no section is lost", is_somewhere),
        ]
    }
}

fn has_one_residence(_: &Protocol, world: &World) -> bool {
    let is_home = |set: &usize| world.runs(*set) && matches!(world.stores[*set].record, Record::Resident { .. });
    (0..SETS).filter(is_home).count() <= 1
}

/// Returns whether the section is resident, may become so when a quarantine ends, or some record leads to its next
/// residence.
fn is_somewhere(model: &Protocol, world: &World) -> bool {
    world.lives.contains(&Life::Lost) || (0..SETS).filter(|set| world.runs(*set)).any(|set| model.leads(world, set))
}

impl Protocol {
    fn leads(&self, world: &World, set: usize) -> bool {
        let store = &world.stores[set];
        let is_claimed = |recovery: Recovery, at: usize| {
            recovery.claim.is_some_and(|claim| claim.set == at && claim.since > world.stores[at].record.since())
        };
        match store.record {
            Record::Resident { .. } | Record::Quarantined { .. } => true,
            _ if store.recovery.is_some_and(|recovery| is_claimed(recovery, set)) => true,
            Record::Departed { since, to, arrived, .. } => {
                let target = &world.stores[to];
                let asks = target.recovery.is_some_and(|recovery| {
                    self.awaited(target, to).contains(&set) || recovery.claim.is_some_and(|claim| claim.since >= since)
                });
                world.runs(to) && target.record.since() < since && (!arrived || asks)
            }
            Record::Never => false,
        }
    }

    fn step(&self, world: &mut World, step: Step) {
        match step {
            Step::Serve { set } => {
                world.left.serves -= 1;
                let Record::Resident { since, mut ceiling, next } = world.stores[set].record else { return };
                if next > ceiling {
                    ceiling = next + STEP;
                    world.highest = world.highest.max(ceiling);
                }
                world.stores[set].record = Record::Resident { since, ceiling, next: next + 1 };
                world.take(next);
            }
            Step::ServeAsGhost { set } => {
                world.left.serves -= 1;
                self.events.mark(Event::Ghost);
                let Some(ghost) = &mut world.ghosts[set] else { return };
                ghost.next += 1;
                let number = ghost.next - 1;
                world.take(number);
            }
            Step::Tick => tick(world),
            Step::Depart { from, to } => depart(world, from, to),
            Step::Arrive { from } => self.arrive(world, from),
            Step::Backup { set } => {
                world.left.backups[set] -= 1;
                (world.backups[set], world.nth[set]) = (Some(world.stores[set]), 0);
            }
            Step::Lose { set } => {
                world.left.restores[set] -= 1;
                world.lives[set] = Life::Lost;
                if let (Record::Resident { ceiling, next, .. }, None) =
                    (world.stores[set].record, world.stores[set].recovery)
                {
                    world.ghosts[set] = Some(Ghost { next, ceiling, ticks: LEASES[set] });
                }
            }
            Step::Restore { set, larger } => self.restore(world, set, larger),
            Step::Ask { set, other } => self.ask(world, set, other),
            Step::EndQuarantine { set } => self.end_quarantine(world, set),
            Step::Learn { set, of } => {
                let (closing, lineage) = (world.stores[of].closing, world.stores[of].lineage);
                let known = &mut world.stores[set].known[of];
                *known = (*known).max(closing);
                // Facts of a set are believed, but fence nothing.
                let counted = &mut world.stores[set].fenced[of];
                if lineage.count > counted.count && world.stores[of].recovery.is_none() {
                    *counted = lineage;
                }
            }
            Step::Close { set } => close(world, set),
            Step::Inherit { set, of } => self.inherit(world, set, of),
            Step::Closed { set } => self.closed(world, set),
            Step::Stop { set } => stop(world, set),
        }
    }

    /// Applies a tombstone at its target, with margins if it departed to an older lineage, and notes it.
    fn arrive(&self, world: &mut World, from: usize) {
        let sender = world.stores[from];
        let Record::Departed { since, to, to_count, ceiling, .. } = sender.record else { return };
        let target = world.stores[to];
        let is_fenced = sender.lineage.count < target.fenced[from].count;
        if !world.serves(to) || is_fenced || to_count > target.lineage.count {
            return;
        }
        if target.record.since() < since && !matches!(target.record, Record::Resident { .. }) {
            let counts = self.margins(target.lineage.count - to_count);
            world.reside(to, since + counts * EPOCHS, ceiling + counts * MARGIN);
        }
        if let Record::Departed { arrived, .. } = &mut world.stores[from].record {
            *arrived = true;
        }
    }

    /// Returns the margins for so many counts.
    pub(crate) fn margins(&self, counts: u8) -> u8 {
        if self.bounds.has(Bug::OneMargin) { counts.min(1) } else { counts }
    }

    /// Keeps the record of a closing set whose record is final.
    fn inherit(&self, world: &mut World, set: usize, of: usize) {
        let closing = world.stores[of];
        let final_for = |other: usize| {
            let one = &world.stores[other];
            let on_its_way = matches!(one.record, Record::Departed { to, arrived: false, .. } if to == of);
            one.known[of] > Stage::Open
                && one.recovery.is_none()
                && !on_its_way
                && one.lineage.count >= closing.fenced[other].count
        };
        let others = (0..SETS).filter(|other| *other != of && world.lives[*other] != Life::Stopped);
        let is_away = matches!(closing.record, Record::Departed { arrived: true, .. });
        if closing.recovery.is_some()
            || !is_away
            || !others.into_iter().all(|other| world.runs(other) && final_for(other))
        {
            return;
        }
        world.stores[set].heir_of[of] = true;
        self.events.mark(Event::Inherited);
        if let Record::Departed { since, to, to_count, ceiling, .. } = closing.record
            && to != set
            && since > world.stores[set].record.since()
            && !matches!(world.stores[set].record, Record::Resident { .. })
            && !self.bounds.has(Bug::InheritanceSkipped)
        {
            world.stores[set].record = Record::Departed { since, to, to_count, ceiling, arrived: false };
        }
    }

    /// Closes a set once all others have its record.
    fn closed(&self, world: &mut World, set: usize) {
        let others = (0..SETS).filter(|other| *other != set && world.lives[*other] != Life::Stopped);
        let is_away = matches!(world.stores[set].record, Record::Departed { arrived: true, .. });
        if is_away && others.into_iter().all(|other| world.serves(other) && world.stores[other].heir_of[set]) {
            world.stores[set].closing = Stage::Closed;
            self.events.mark(Event::Closed);
        }
    }
}

fn tick(world: &mut World) {
    for ghost in &mut world.ghosts {
        *ghost = ghost.filter(|one| one.ticks > 1).map(|one| Ghost { ticks: one.ticks - 1, ..one });
    }
    for recovery in world.stores.iter_mut().filter_map(|store| store.recovery.as_mut()) {
        recovery.elapsed = (recovery.elapsed + 1).min(recovery.needs);
    }
}

fn depart(world: &mut World, from: usize, to: usize) {
    let target = &world.stores[to];
    let takes = world.serves(to) && target.closing == Stage::Open;
    if !takes || world.stores[from].known[to] > Stage::Open {
        return;
    }
    let to_count = target.lineage.count;
    let Record::Resident { since, ceiling, .. } = world.stores[from].record else { return };
    world.left.migrations -= 1;
    world.stores[from].record = Record::Departed { since: since + 1, to, to_count, ceiling, arrived: false };
}

/// Closes a set that has sent its section away, unless another set is lost or in quarantine.
fn close(world: &mut World, set: usize) {
    let is_away = matches!(world.stores[set].record, Record::Departed { arrived: true, .. });
    let is_calm = (0..SETS).all(|other| world.lives[other] == Life::Stopped || world.serves(other));
    if is_away && is_calm {
        world.left.closes -= 1;
        world.stores[set].closing = Stage::Closing;
    }
}

/// Stops the processes of a closed set, once every other set has a backup with its record.
fn stop(world: &mut World, set: usize) {
    let others = (0..SETS).filter(|other| *other != set && world.lives[*other] != Life::Stopped);
    if others.clone().all(|other| world.serves(other) && world.stores[other].heir_of[set]) {
        for other in others {
            if world.backups[other].is_some() {
                (world.backups[other], world.nth[other]) = (Some(world.stores[other]), 0);
            }
        }
        world.lives[set] = Life::Stopped;
    }
}
