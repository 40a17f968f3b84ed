//! The coordinator of migrations beside the leader of the set that sections leave.
//!
//! It acts on committed state alone, so a new leader goes on where the last one was: the section records show which
//! sections are here, which departed, and which arrived. What it remembers besides is advice, and is lost without harm:
//! which owners the other set named, how fast sections may move, what was sent when.
//!
//! A section moves in these steps: the other set is *armed*, it names the next owner; the owner here is to hand the
//! section over to that one, as it would inside the set, and the commit is the tombstone; the tombstone is sent until
//! the other set has it; that is noted. A section whose owner is dead, and which no node of this set can be given, is
//! armed in the same way and departs without an owner.
//!
//! **Invariant:** the pace of a migration, its pause included, acts where the next section is armed or planned. A
//! departure that an owner has requested is never refused for it.
//!
//! Left to the shell: the clock, sending, committing the proposals.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem::take;
use core::time::Duration;

use crate::arbiter::{Departure, PlannedHandover, Stranded};
use crate::id::{Epoch, Incarnation, Lineage, Liveness, MigrationId, NodeId, SectionId, SetId};
use crate::layout;
use crate::limits;
use crate::state::{
    Arrival, Arrive, Arrived, Arriving, Command, Complete, DepartSilent, Destination, Migration, Phase, Residence,
    Scope, SectionRecord, StartReturn, State, Tombstone,
};

/// Most sections of one owner that are armed, planned or on their way at a time: as many are without an owner for a
/// while, should the other set lose its quorum just then.
pub const MAX_IN_FLIGHT: usize = 16;

/// How long a request to arm waits for its response.
pub const ARM_TIMEOUT: Duration = Duration::from_secs(2);

/// How long the response to a request to arm counts: it shows that the other set had a quorum and an owner then.
pub const ARMED_FOR: Duration = Duration::from_secs(5);

/// Pause after the other set refused to be armed.
pub const REFUSED_FOR: Duration = Duration::from_secs(1);

/// How often what the other set has not confirmed is sent.
pub const SEND_AGAIN: Duration = Duration::from_millis(200);

/// A set that does not confirm an arrival for so long is sent no more sections until it does.
pub const STALLED_AFTER: Duration = Duration::from_secs(2);

/// After so long without a pause above the limit, a rate that was halved is doubled again.
pub const RECOVERS_AFTER: Duration = Duration::from_secs(3);

/// Most halvings of a rate: a sixteenth of it. A pause that is still too long has another cause.
const MAX_HALVINGS: u32 = 4;

/// What the other set named for a section when it was armed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Armed {
    /// The section.
    pub section: SectionId,
    /// The set with its lineage.
    pub set: (SetId, Lineage),
    /// The next owner.
    pub owner: (NodeId, Incarnation),
    /// Address of the owner's gRPC port.
    pub addr: String,
}

/// What the shell is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Ask a set to name the owners of sections that will arrive. Its response comes to [`Coordinator::on_armed`] or
    /// [`Coordinator::on_arm_refused`].
    Arm {
        /// The migration.
        migration: MigrationId,
        /// The other set.
        to: SetId,
        /// The sections, at most [`limits::MAX_MOVES`].
        sections: Vec<SectionId>,
    },
    /// Have a set commit sections that departed to it. Its response comes to [`Coordinator::on_arrive`].
    Arrive {
        /// The other set.
        to: SetId,
        /// The sections.
        arrive: Arrive,
    },
    /// Have a set commit that the sections which came to it return. Its response comes to [`Coordinator::on_end`].
    StartReturn {
        /// The other set.
        to: SetId,
        /// The return.
        start: StartReturn,
    },
    /// Have a set commit that what came to it stays. Its response comes to [`Coordinator::on_end`].
    Complete {
        /// The other set.
        to: SetId,
        /// The migration.
        complete: Complete,
    },
    /// Ask a set that was restored whether it knows a migration of its own by which sections came here. Its response
    /// comes to [`Coordinator::on_asked`].
    Ask {
        /// The other set.
        of: SetId,
        /// The migration.
        migration: MigrationId,
    },
    /// Commit a command in this set's log. One that is lost is proposed again.
    Commit(Proposal),
}

/// A command of the coordinator for the log of its own set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proposal {
    /// Notes that sections arrived, or that the other set has the end of a migration.
    Arrived(Arrived),
    /// Completes a migration.
    Complete(Complete),
    /// Sections depart without an owner.
    DepartSilent(Vec<DepartSilent>),
}

impl From<Proposal> for Command {
    fn from(proposal: Proposal) -> Command {
        match proposal {
            Proposal::Arrived(arrived) => arrived.into(),
            Proposal::Complete(complete) => complete.into(),
            Proposal::DepartSilent(departs) => departs.into(),
        }
    }
}

/// A section that is armed, or about to be.
#[derive(Clone, Debug)]
struct Move {
    migration: MigrationId,
    epoch: Epoch,
    owner: Owner,
    /// When the request, or its response, counts no more.
    until: Duration,
    /// What the other set named; `None` until it responds.
    planned: Option<PlannedHandover>,
}

/// The owner of a section that is to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Living(NodeId),
    /// None, or one that is dead, with the liveness counter that the arbiter waited for.
    None(Option<Liveness>),
}

/// A tombstone that the other set has not confirmed.
#[derive(Clone, Copy, Debug)]
struct Sent {
    epoch: Epoch,
    migration: MigrationId,
    /// When it was first observed here: about when the section's pause began.
    since: Duration,
    again: Duration,
}

/// How fast sections of one migration are armed.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    /// When the next section may be armed.
    next: Duration,
    /// How often the rate was halved.
    halvings: u32,
    /// When it was halved or doubled last.
    changed: Duration,
}

/// The coordinator of one set's migrations, while one member of its store leads.
#[derive(Debug, Default)]
pub struct Coordinator {
    moves: BTreeMap<SectionId, Move>,
    /// The unconfirmed tombstones: as many as
    /// [`SectionRecords::unconfirmed`](crate::state::SectionRecords::unconfirmed) counts, or the records are read
    /// again.
    sent: BTreeMap<SectionId, Sent>,
    buckets: BTreeMap<MigrationId, Bucket>,
    /// When the end of a migration is sent, or asked for, again.
    ends: BTreeMap<MigrationId, Duration>,
    /// The migrations of other sets that those know, each with the lineage in which they do.
    known: BTreeMap<MigrationId, Lineage>,
    /// Sections that arrived since [`Coordinator::take_arrived`], with about how long each was on its way.
    arrived: Vec<(MigrationId, Duration)>,
    deadline: Option<Duration>,
}

impl Coordinator {
    /// Evaluates the applied state. `stranded` is of the arbiter's last plan, `living` is whether an incarnation is
    /// live, `now` is the coordinator's time, from any origin, and never falls.
    pub fn evaluate(
        &mut self,
        state: &State,
        stranded: &[Stranded],
        living: impl Fn(NodeId, Incarnation) -> bool,
        now: Duration,
    ) -> Vec<Effect> {
        self.deadline = None;
        let mut effects = Vec::new();
        let Some(set) = &state.set else { return effects };
        self.ask(state, now, &mut effects);
        let over =
            |one: &Migration| matches!(one.phase, Phase::RolledBack { noted: true } | Phase::Completed { noted: true });
        if state.migrations.values().all(over) && state.sections.unconfirmed() == 0 {
            let (ends, known, deadline) = (take(&mut self.ends), take(&mut self.known), self.deadline);
            *self = Coordinator { ends, known, deadline, ..Coordinator::default() };
            return effects;
        }
        self.observe(state, now);
        if !state.is_quarantined() {
            // Those of a backup may be of a history that was given up: other sets state what is newer first.
            self.send_tombstones(state, set.id, now, &mut effects);
        }
        for (id, migration) in &state.migrations {
            match migration.phase {
                Phase::Open => {
                    self.arm(state, (*id, migration), stranded, &living, now, &mut effects);
                    let is_return = matches!(migration.scope, Scope::Return { .. });
                    if is_return && self.is_due(*id, now) && state.has_arrived(*id, migration) {
                        effects.push(Effect::Commit(Proposal::Complete(Complete { id: *id, by: None })));
                    }
                }
                _ if over(migration) => {}
                _ => self.end(state, (*id, migration), set.id, now, &mut effects),
            }
        }
        effects
    }

    /// The sections that their owners should hand over to another set now, in order of section.
    pub fn planned(&self) -> impl Iterator<Item = &PlannedHandover> {
        self.moves.values().filter_map(|one| one.planned.as_ref())
    }

    /// The sections that arrived since the last call, each with the time from its tombstone to the note of its arrival
    /// as this coordinator observed them.
    pub fn take_arrived(&mut self) -> Vec<(MigrationId, Duration)> {
        take(&mut self.arrived)
    }

    /// Sections that are armed, planned or on their way, by migration.
    #[must_use]
    pub fn in_flight_by_migration(&self) -> BTreeMap<MigrationId, usize> {
        let mut count = BTreeMap::new();
        let moving = self.moves.values().map(|one| one.migration);
        for migration in moving.chain(self.sent.values().map(|one| one.migration)) {
            *count.entry(migration).or_default() += 1;
        }
        count
    }

    /// When to evaluate again although nothing was applied.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Duration> {
        self.deadline
    }

    /// The other set named owners. Sections with a living owner are planned, the others depart without one.
    pub fn on_armed(&mut self, migration: MigrationId, armed: &[Armed], now: Duration) -> Option<Effect> {
        let mut departs = Vec::new();
        for Armed { section, set: (set, lineage), owner: (to, incarnation), addr } in armed {
            let (set, lineage, to, incarnation) = (*set, *lineage, *to, *incarnation);
            let asked = self.moves.get_mut(section).filter(|one| one.migration == migration && one.planned.is_none());
            let Some(asked) = asked else { continue };
            let (section, epoch) = (*section, asked.epoch);
            match asked.owner {
                Owner::Living(from) => {
                    asked.until = now + ARMED_FOR;
                    let departure = Some(Arc::new(Departure { set, lineage, migration, addr: addr.clone() }));
                    asked.planned = Some(PlannedHandover { section, epoch, from, to, incarnation, departure });
                }
                Owner::None(liveness) => {
                    departs.push(DepartSilent { section, expected: epoch, liveness, to: set, lineage, migration });
                }
            }
        }
        self.wake(now);
        (!departs.is_empty()).then_some(Effect::Commit(Proposal::DepartSilent(departs)))
    }

    /// The other set cannot be armed: it has no quorum, takes no sections, or did not respond.
    pub fn on_arm_refused(&mut self, migration: MigrationId, now: Duration) {
        self.moves.retain(|_, one| one.migration != migration || one.planned.is_some());
        let bucket = self.buckets.entry(migration).or_default();
        bucket.next = bucket.next.max(now + REFUSED_FOR);
        let next = bucket.next;
        self.wake(next);
    }

    /// The other set's response to [`Effect::Arrive`], with the lineage that it states; what it has is to be noted.
    #[must_use]
    pub fn on_arrive(&self, (at, lineage): (SetId, Lineage), arrive: &Arrive, outcome: &[Arrival]) -> Option<Effect> {
        let known = |outcome: &Arrival| matches!(outcome, Arrival::Arrived | Arrival::Past);
        let pairs = arrive.sections.iter().zip(outcome).filter(|(_, outcome)| known(outcome));
        let sections: Vec<(SectionId, Epoch)> = pairs.map(|(one, _)| (one.section, one.epoch)).collect();
        let noted = !sections.is_empty();
        noted.then(|| Effect::Commit(Proposal::Arrived(Arrived { at, lineage, sections, ended: Vec::new() })))
    }

    /// The other set, of this lineage, has committed the end of a migration: for a return, one that is settled.
    #[must_use]
    pub fn on_end(&self, (at, lineage): (SetId, Lineage), migration: MigrationId) -> Effect {
        let (sections, ended) = (Vec::new(), Vec::from([migration]));
        Effect::Commit(Proposal::Arrived(Arrived { at, lineage, sections, ended }))
    }

    /// The response to [`Effect::Ask`], with the lineage that the set states and whether it knows the migration. One
    /// that began after the backup of a restore is known to no log but this one, so what came by it stays.
    #[must_use]
    pub fn on_asked(
        &mut self,
        state: &State,
        (of, lineage): (SetId, Lineage),
        migration: MigrationId,
        knows: bool,
    ) -> Option<Effect> {
        if lineage < state.sets.get(&of)?.fenced {
            return None;
        }
        if knows {
            self.known.insert(migration, lineage);
            return None;
        }
        Some(Effect::Commit(Proposal::Complete(Complete { id: migration, by: Some(of) })))
    }

    /// Asks the sets that were restored for their migrations by which sections came here, once in each lineage.
    fn ask(&mut self, state: &State, now: Duration, effects: &mut Vec<Effect>) {
        let foreign = &state.foreign_migrations;
        self.known.retain(|migration, _| foreign.contains_key(migration));
        self.ends.retain(|migration, _| foreign.contains_key(migration) || state.migrations.contains_key(migration));
        if state.is_quarantined() {
            return;
        }
        for (migration, of) in foreign {
            let fenced = state.sets.get(of).map_or(Lineage(0), |peer| peer.fenced);
            let known = self.known.get(migration).copied().unwrap_or_default();
            if known < fenced && self.is_due(*migration, now) {
                effects.push(Effect::Ask { of: *of, migration: *migration });
            }
        }
    }

    /// Drops what the state is past, and what waited too long.
    fn observe(&mut self, state: &State, now: Duration) {
        self.moves.retain(|section, one| {
            let open = state.migrations.get(&one.migration).filter(|migration| migration.phase == Phase::Open);
            let stands = state.sections.resident(*section).is_some_and(|record| record.epoch == one.epoch);
            // A pause ends what is armed; what is planned may have begun at its owner and goes on, so that it is
            // counted.
            let goes_on = |migration: &Migration| !migration.pace.paused || one.planned.is_some();
            stands && now < one.until && open.is_some_and(goes_on)
        });
        let departed = |section: SectionId, epoch: Epoch| match state.sections.get(section) {
            Some(SectionRecord::Departed(tombstone)) => tombstone.epoch == epoch && !tombstone.arrived,
            _ => false,
        };
        let mut arrived = Vec::new();
        self.sent.retain(|section, sent| {
            let stays = departed(*section, sent.epoch);
            if !stays {
                arrived.push(*sent);
            }
            stays
        });
        for sent in arrived {
            self.arrived.push((sent.migration, now - sent.since));
            let limit = state.migrations.get(&sent.migration).map(|migration| migration.pace.max_pause);
            let bucket = self.buckets.entry(sent.migration).or_default();
            // One that departed before the last change says nothing of the changed rate: a set that was cut off for a
            // while confirms many late ones at once.
            if limit.is_some_and(|limit| now - sent.since > limit) && sent.since >= bucket.changed {
                (bucket.halvings, bucket.changed) = ((bucket.halvings + 1).min(MAX_HALVINGS), now);
            }
        }
    }

    /// Sends every tombstone that is not confirmed, whichever migration it is of.
    fn send_tombstones(&mut self, state: &State, own: SetId, now: Duration, effects: &mut Vec<Effect>) {
        let layout = &state.set.as_ref().expect("it is defined").layout;
        // What is kept is among them: see `observe`.
        if self.sent.len() != state.sections.unconfirmed() as usize {
            for (section, record) in state.sections.known() {
                if let SectionRecord::Departed(Tombstone { epoch, by, arrived: false, .. }) = *record {
                    self.sent.entry(section).or_insert(Sent { epoch, migration: by, since: now, again: now });
                }
            }
        }
        let mut batches: BTreeMap<_, Vec<Arriving>> = BTreeMap::new();
        for (section, sent) in &mut self.sent {
            let section = *section;
            let Some(SectionRecord::Departed(Tombstone { epoch, to, handover_id, max_seq, by, .. })) =
                state.sections.get(section).copied()
            else {
                continue;
            };
            let Some(layout_id) = layout.id_of(section).filter(|_| sent.again <= now) else { continue };
            let Destination { set, lineage, node, incarnation } = to;
            let batch = batches.entry((set, lineage, layout_id)).or_default();
            if batch.len() < limits::MAX_MOVES {
                sent.again = now + SEND_AGAIN;
                batch.push(Arriving { section, epoch, max_seq, handover_id, node, incarnation, migration: by });
            }
        }
        for ((to, to_lineage, layout_id), sections) in batches {
            let arrive = Arrive { from: own, from_lineage: state.lineage, to_lineage, layout_id, sections };
            effects.push(Effect::Arrive { to, arrive });
        }
        if let Some(again) = self.sent.values().map(|sent| sent.again).min() {
            self.wake(again);
        }
    }

    /// Arms the next sections of a migration, as far as its pace allows.
    fn arm(
        &mut self,
        state: &State,
        (id, migration): (MigrationId, &Migration),
        stranded: &[Stranded],
        living: &impl Fn(NodeId, Incarnation) -> bool,
        now: Duration,
        effects: &mut Vec<Effect>,
    ) {
        if let Some(until) = self.moves.values().filter(|one| one.migration == id).map(|one| one.until).min() {
            self.wake(until);
        }
        let is_stalled = self.sent.iter().any(|(section, sent)| {
            let to = match state.sections.get(*section) {
                Some(SectionRecord::Departed(tombstone)) => Some(tombstone.to.set),
                _ => None,
            };
            to == Some(migration.to) && now - sent.since >= STALLED_AFTER
        });
        // A set that was closing may name owners again, once it was restored from before that; this log refuses each
        // departure.
        let is_closing = state.sets.get(&migration.to).is_some_and(|peer| peer.closing);
        let rests = migration.pace.paused || is_stalled || is_closing;
        if rests || state.is_quarantined() || state.loss.is_some() {
            return;
        }
        if let Some(next) = self.buckets.get(&id).map(|bucket| bucket.next).filter(|next| *next > now) {
            self.wake(next);
            return;
        }
        let mut room = self.in_flight(state);
        let mut sections = Vec::new();
        for (section, record) in covered(state, migration) {
            if self.moves.contains_key(&section) {
                continue;
            }
            let Some(owner) = owner_of(section, record, stranded, living) else { continue };
            let in_flight = room.entry(owner_node(owner)).or_default();
            if *in_flight == MAX_IN_FLIGHT {
                continue;
            }
            if let Err(next) = self.take_token(id, migration.pace.rate, now) {
                self.wake(next);
                break;
            }
            *in_flight += 1;
            let epoch = record.epoch;
            self.moves.insert(section, Move { migration: id, epoch, owner, until: now + ARM_TIMEOUT, planned: None });
            sections.push(section);
            if sections.len() == limits::MAX_MOVES {
                break;
            }
        }
        if !sections.is_empty() {
            self.wake(now + ARM_TIMEOUT);
            effects.push(Effect::Arm { migration: id, to: migration.to, sections });
        }
    }

    /// Sections that are armed, planned or on their way, by owner.
    fn in_flight(&self, state: &State) -> BTreeMap<Option<NodeId>, usize> {
        let mut count: BTreeMap<Option<NodeId>, usize> = BTreeMap::new();
        for one in self.moves.values() {
            *count.entry(owner_node(one.owner)).or_default() += 1;
        }
        // Tombstones are shared out among all owners: which one each had is not committed.
        let share = self.sent.len().div_ceil(state.nodes.len().max(1));
        let nodes = state.nodes().map(|(id, _)| Some(id)).chain([None]);
        for node in nodes {
            let in_flight = count.entry(node).or_default();
            *in_flight = (*in_flight + share).min(MAX_IN_FLIGHT);
        }
        count
    }

    /// Takes the right to arm one section.
    ///
    /// # Errors
    /// When the next one is due.
    fn take_token(&mut self, id: MigrationId, rate: u32, now: Duration) -> Result<(), Duration> {
        let bucket = self.buckets.entry(id).or_default();
        if bucket.halvings > 0 && now.saturating_sub(bucket.changed) >= RECOVERS_AFTER {
            (bucket.halvings, bucket.changed) = (bucket.halvings - 1, now);
        }
        if bucket.next > now {
            return Err(bucket.next);
        }
        let between = Duration::from_secs(1) / rate.max(1) * (1 << bucket.halvings);
        // Rights that were not used are lost, but for those of one evaluation that came late.
        bucket.next = bucket.next.max(now.saturating_sub(SEND_AGAIN)) + between;
        Ok(())
    }

    /// Sends the end of a migration to the other set, until it has it.
    fn end(
        &mut self,
        state: &State,
        (id, migration): (MigrationId, &Migration),
        own: SetId,
        now: Duration,
        effects: &mut Vec<Effect>,
    ) {
        if !self.is_due(id, now) {
            return;
        }
        let (to, settled) = (migration.to, state.has_settled(id));
        match migration.phase {
            Phase::RolledBack { .. } => {
                let start = StartReturn { of: id, to: own, id: return_id(id), pace: migration.pace, settled };
                effects.push(Effect::StartReturn { to, start });
            }
            Phase::Completed { .. } if settled => {
                effects.push(Effect::Complete { to, complete: Complete { id, by: Some(own) } });
            }
            _ => {}
        }
    }

    /// Whether the end of a migration is sent, or asked for, now.
    fn is_due(&mut self, id: MigrationId, now: Duration) -> bool {
        let again = self.ends.entry(id).or_insert(now);
        let due = *again <= now;
        if due {
            *again = now + SEND_AGAIN;
        }
        let again = *again;
        self.wake(again);
        due
    }

    fn wake(&mut self, at: Duration) {
        self.deadline = Some(self.deadline.map_or(at, |deadline| deadline.min(at)));
    }
}

/// The sections of a migration that are still here, in order.
fn covered<'a>(
    state: &'a State,
    migration: &'a Migration,
) -> impl Iterator<Item = (SectionId, &'a Residence)> + use<'a> {
    let (runs, returns) = match &migration.scope {
        Scope::Runs(runs) => (runs.as_slice(), None),
        Scope::Return { .. } => ([].as_slice(), Some(state.sections.residents())),
    };
    let of_runs = runs.iter().flat_map(|run| run.iter());
    let of_runs = of_runs.filter_map(|section| Some((section, state.sections.resident(section)?)));
    let returning = returns.into_iter().flatten().filter(|(section, record)| migration.covers(*section, record));
    of_runs.chain(returning)
}

/// The owner that would hand a section over; `None`: it waits for the arbiter to assign one.
fn owner_of(
    section: SectionId,
    record: &Residence,
    stranded: &[Stranded],
    living: &impl Fn(NodeId, Incarnation) -> bool,
) -> Option<Owner> {
    if let Some(owner) = record.owner.filter(|owner| living(*owner, record.incarnation)) {
        return Some(Owner::Living(owner));
    }
    let found = stranded.binary_search_by_key(&section, |one| one.section).ok()?;
    (stranded[found].expected == record.epoch).then(|| Owner::None(stranded[found].liveness))
}

fn owner_node(owner: Owner) -> Option<NodeId> {
    if let Owner::Living(node) = owner { Some(node) } else { None }
}

/// Id of the return of a migration: the same for every coordinator, so that there is one.
#[must_use]
pub fn return_id(of: MigrationId) -> MigrationId {
    MigrationId(layout::fnv1a(layout::NO_SPACES.0, &of.0.to_le_bytes()).max(1))
}

#[cfg(all(test, not(loom)))]
mod scenarios;
