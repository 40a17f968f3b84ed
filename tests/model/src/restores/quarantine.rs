//! A restore under a count, and the quarantine after it.

use crate::restores::bounds::{Bug, Event};
use crate::restores::protocol::Protocol;
use crate::restores::world::{
    Claim, EPOCHS, LEASES, Life, Lineage, MARGIN, Record, Recovery, SETS, Stage, Store, World,
};

impl Protocol {
    /// Restores a lost set from its backup, under the next count that the operator knows.
    pub(crate) fn restore(&self, world: &mut World, set: usize, larger: bool) {
        let mut store = world.backups[set].expect("only a set with a backup is lost");
        let serving = (0..SETS).filter(|other| world.serves(*other)).map(|other| world.stores[other].most());
        let known = serving.fold(world.notebook.max(store.most()), Ord::max);
        let mut count = known + 1;
        if self.bounds.has(Bug::NthOfBackup) {
            count = store.most() + 1 + world.nth[set];
        }
        store.margin = 1;
        if larger {
            world.left.larger -= 1;
            // A double margin is one count more.
            (count, store.margin) = if self.bounds.has(Bug::MarginFalls) { (count, 3) } else { (count + 1, 1) };
        }
        world.notebook = world.notebook.max(count);
        world.nth[set] += 1;
        if let Record::Resident { since, ceiling, .. } = store.record {
            store.record = Record::Quarantined { since, ceiling, count: store.lineage.count };
        }
        let known_closed = store.known.map(|known| known == Stage::Closed);
        let closed = store.recovery.map_or(known_closed, |before| before.closed);
        store.lineage = world.lineage(count);
        store.recovery = Some(Recovery { closed, ..recovery(set) });
        (world.stores[set], world.lives[set]) = (store, Life::Running);
        if self.bounds.has(Bug::NoQuarantine) {
            self.recovered(world, set);
        }
    }

    /// Returns the sets whose responses a set in quarantine awaits.
    pub(crate) fn awaited(&self, store: &Store, set: usize) -> Vec<usize> {
        let Some(recovery) = store.recovery else { return Vec::new() };
        let is_left_out = |other: usize| {
            let closed = store.known[other] == Stage::Closed && self.bounds.has(Bug::ClosedNotAsked);
            recovery.closed[other] || store.heir_of[other] || recovery.heir_of[other] || closed
        };
        (0..SETS).filter(|other| *other != set && !recovery.answered[*other] && !is_left_out(*other)).collect()
    }

    /// Has another set fence the older lineages, and learns its record.
    pub(crate) fn ask(&self, world: &mut World, set: usize, other: usize) {
        let lineage = world.stores[set].lineage;
        if world.stores[other].admitted[set] != lineage {
            let least = least_of_fence(&world.stores[other], set, other);
            if lineage.count < least {
                return self.begin_lineage(world, set, least);
            }
            if world.stores[other].fenced[set] != lineage {
                // A count that was used before is refused permanently.
                if lineage.count <= world.stores[other].fenced[set].count {
                    return;
                }
                self.fence(world, other, set, lineage);
            }
            world.stores[other].admitted[set] = lineage;
        }
        let responds = world.stores[other];
        if responds.lineage.count < world.stores[set].fenced[other].count {
            return;
        }
        if world.stores[set].fenced[other] != responds.lineage {
            self.fence(world, set, other, responds.lineage);
        }
        let Store { recovery: Some(recovery), known, record, .. } = &mut world.stores[set] else { return };
        known[other] = known[other].max(responds.closing);
        recovery.answered[other] = true;
        let needs = responds.recovery.map_or(0, |one| one.needs).max(LEASES[other]);
        if needs > recovery.needs && !self.bounds.has(Bug::WaitsByOwnTerms) {
            recovery.needs = needs;
            self.events.mark(Event::Waited);
        }
        for (heir, one) in recovery.heir_of.iter_mut().zip(responds.heir_of) {
            *heir |= one;
        }
        let claim = claim(responds.record, other, responds.lineage);
        recovery.claim = recovery.claim.max(claim.filter(|claim| claim.since > record.since()));
    }

    /// Fences older lineages of a set, so that nothing of them is accepted any more, and voids its response.
    fn fence(&self, world: &mut World, at: usize, of: usize, lineage: Lineage) {
        let store = &mut world.stores[at];
        store.fenced[of] = lineage;
        if let Record::Departed { to, to_count, arrived, .. } = &mut store.record
            && *to == of
            && *to_count < lineage.count
            && *arrived
        {
            *arrived = false;
            self.events.mark(Event::SentAgain);
        }
        let Some(recovery) = &mut store.recovery else { return };
        recovery.elapsed = 0;
        if recovery.answered[of] && !self.bounds.has(Bug::VoidKeepsClaims) {
            (recovery.answered, recovery.claim, recovery.heir_of) = ([false; SETS], None, [false; SETS]);
            self.events.mark(Event::Voided);
        }
    }

    /// Begins a lineage by itself, because another set knows of more restores. The operator reads its count.
    fn begin_lineage(&self, world: &mut World, set: usize, least: u8) {
        if world.left.begins == 0 {
            return;
        }
        world.left.begins -= 1;
        self.events.mark(Event::BegunByItself);
        let count = least.max(world.stores[set].most() + 1);
        world.notebook = world.notebook.max(count);
        let lineage = world.lineage(count);
        let store = &mut world.stores[set];
        store.lineage = lineage;
        let closed = store.recovery.map_or([false; SETS], |before| before.closed);
        let needs = store.recovery.map_or(0, |before| before.needs);
        store.recovery = Some(Recovery { closed, needs, ..recovery(set) });
    }

    /// Ends a quarantine, if every awaited response has come.
    pub(crate) fn end_quarantine(&self, world: &mut World, set: usize) {
        let store = &world.stores[set];
        let is_over = store.recovery.is_some_and(|recovery| recovery.elapsed >= recovery.needs);
        if is_over && self.awaited(store, set).is_empty() {
            self.recovered(world, set);
        }
    }

    fn recovered(&self, world: &mut World, set: usize) {
        let store = &mut world.stores[set];
        let Some(recovery) = store.recovery.take() else { return };
        for (heir, one) in store.heir_of.iter_mut().zip(recovery.heir_of) {
            *heir |= one;
        }
        let (count, margin) = (store.lineage.count, store.margin);
        match (recovery.claim, store.record) {
            (Some(claim), record) if claim.since > record.since() => {
                let Claim { since, set: to, count: to_count, ceiling } = claim;
                if to == set {
                    self.events.mark(Event::InResponse);
                    let counts = self.margins(count - to_count);
                    world.reside(set, since + counts * EPOCHS, ceiling + counts * MARGIN);
                } else {
                    self.events.mark(Event::Gone);
                    let arrived = self.bounds.has(Bug::RecoveredNotSent);
                    store.record = Record::Departed { since, to, to_count, ceiling, arrived };
                }
            }
            (_, Record::Quarantined { since, ceiling, count: committed }) => {
                self.events.mark(Event::Home);
                let counts = self.margins(count - committed);
                world.reside(set, since + counts * EPOCHS, ceiling + counts * MARGIN * margin);
            }
            _ => {}
        }
    }
}

/// Creates a quarantine at its beginning.
fn recovery(set: usize) -> Recovery {
    Recovery {
        answered: [false; SETS],
        claim: None,
        closed: [false; SETS],
        heir_of: [false; SETS],
        needs: LEASES[set],
        elapsed: 0,
    }
}

/// Returns the contents of a record of a set.
fn claim(record: Record, of: usize, lineage: Lineage) -> Option<Claim> {
    match record {
        Record::Never => None,
        Record::Resident { since, ceiling, .. } | Record::Quarantined { since, ceiling, .. } => {
            Some(Claim { since, set: of, count: lineage.count, ceiling })
        }
        Record::Departed { since, to, to_count, ceiling, .. } => {
            Some(Claim { since, set: to, count: to_count, ceiling })
        }
    }
}

/// Returns the least count of a set's lineage that another set accepts: above every count that a set may have served
/// under.
fn least_of_fence(store: &Store, set: usize, other: usize) -> u8 {
    let own = store.lineage.count + u8::from(store.recovery.is_none());
    let others = (0..SETS).filter(|one| *one != set && *one != other).map(|one| store.fenced[one].count);
    others.filter(|count| *count > 0).map(|count| count + 1).fold(own, Ord::max)
}
