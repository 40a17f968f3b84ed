//! The coordinator of migrations, which runs at the leader of the source set's store.
//!
//! The coordinator acts on committed state alone, so a new leader continues where the previous leader stopped. The
//! section records show which sections are still in this set, which have departed, and which have arrived in the target
//! set. The coordinator also keeps the owners that the target set named, the current rate, and the times of the last
//! requests. It can lose these without harm.
//!
//! A section moves in these steps. First the section is *armed*: the target set names the section's next owner. Then
//! the current owner hands the section over to the next owner, as it would inside the set. The commit of this handover
//! makes the section's record a tombstone. The coordinator sends the tombstone to the target set until that set
//! confirms the arrival of the section, and then notes the arrival in this set's log. If a section's owner is dead and
//! no node of this set can take the section, the section is armed in the same way, and departs without a handover.
//!
//! **Invariant:** a change of a migration's pace, including a pause of the migration, affects only sections whose
//! handover is not planned yet. A departure that an owner has already requested is never refused because of the pace.
//!
//! The caller reads the clock, sends the requests, and commits the proposals.

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

/// Maximum number of sections of one owner that are being armed, have a planned handover, or have departed without
/// having arrived. If the target set loses its quorum, up to this number of sections of each owner have no owner until
/// the quorum is back.
pub const MAX_IN_FLIGHT: usize = 16;

/// Time for which the coordinator waits for the response to a request to arm sections.
pub const ARM_TIMEOUT: Duration = Duration::from_secs(2);

/// Time for which a section stays armed. The target set's response shows only that the target set had a quorum and an
/// owner for the section when it responded.
pub const ARMED_FOR: Duration = Duration::from_secs(5);

/// Time for which a migration arms no sections after the target set refused to arm some.
pub const REFUSED_FOR: Duration = Duration::from_secs(1);

/// Interval at which the coordinator sends a tombstone or the end of a migration again, until the other set has
/// confirmed it.
pub const SEND_AGAIN: Duration = Duration::from_millis(200);

/// Time after which a tombstone that the target set has not confirmed stops the migrations to that set. No more
/// sections are armed for that set until it has confirmed the tombstone.
pub const STALLED_AFTER: Duration = Duration::from_secs(2);

/// Time after which the halved rate of a migration is doubled again, if during this time no pause of a section was
/// longer than the migration allows.
pub const RECOVERS_AFTER: Duration = Duration::from_secs(3);

/// Maximum number of times that the rate of a migration is halved, down to a sixteenth of the rate. If the pauses of
/// sections are still too long at this rate, the rate is not their cause.
const MAX_HALVINGS: u32 = 4;

/// The next owner of a section that is armed, as the target set named it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Armed {
    /// The section.
    pub section: SectionId,
    /// The target set, with the lineage in which it responded.
    pub set: (SetId, Lineage),
    /// The next owner.
    pub owner: (NodeId, Incarnation),
    /// Address of the next owner's port for peers.
    pub addr: String,
}

/// An action that the caller carries out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Request that the target set name the next owners of sections that will depart to it. Pass the response to
    /// [`Coordinator::on_armed`] or [`Coordinator::on_arm_refused`].
    Arm {
        /// The migration.
        migration: MigrationId,
        /// The other set.
        to: SetId,
        /// The sections, at most [`limits::MAX_MOVES`].
        sections: Vec<SectionId>,
    },
    /// Request that the target set commit the arrival of sections that departed to it. Pass the response to
    /// [`Coordinator::on_arrive`].
    Arrive {
        /// The other set.
        to: SetId,
        /// The sections.
        arrive: Arrive,
    },
    /// Request that the target set commit the start of a return, which brings back all sections that the target set got
    /// by a migration. Pass the response to [`Coordinator::on_end`].
    StartReturn {
        /// The other set.
        to: SetId,
        /// The return.
        start: StartReturn,
    },
    /// Request that the target set commit the completion of a migration, so that all sections that it got by the
    /// migration stay in it. Pass the response to [`Coordinator::on_end`].
    Complete {
        /// The other set.
        to: SetId,
        /// The migration.
        complete: Complete,
    },
    /// Ask a source set, which was restored from a backup, whether it still knows a migration by which sections arrived
    /// in this set. Pass the response to [`Coordinator::on_asked`].
    Ask {
        /// The other set.
        of: SetId,
        /// The migration.
        migration: MigrationId,
    },
    /// Commit a command in this set's log. If the command is lost, a later evaluation returns it again.
    Commit(Proposal),
}

/// A command of the coordinator for the log of its own set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proposal {
    /// Notes that sections arrived in the target set, or that the target set has committed the end of a migration.
    Arrived(Arrived),
    /// Completes a migration.
    Complete(Complete),
    /// Lets sections depart that have no live owner.
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

/// A section that is armed or being armed.
#[derive(Clone, Debug)]
struct Move {
    migration: MigrationId,
    epoch: Epoch,
    owner: Owner,
    /// Time when the request to arm the section, or the target set's response to it, is no longer valid.
    until: Duration,
    /// The planned handover to the next owner, which the target set named; `None` until that set has responded.
    planned: Option<PlannedHandover>,
}

/// The current owner of a section that is armed or being armed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Living(NodeId),
    /// The section has no owner, or its owner is dead. The value is the dead owner's liveness counter, which did not
    /// change during the arbiter's wait.
    None(Option<Liveness>),
}

/// A tombstone that the target set has not confirmed.
#[derive(Clone, Copy, Debug)]
struct Sent {
    epoch: Epoch,
    migration: MigrationId,
    /// Time when this coordinator first observed the tombstone, which is about when the section's pause began.
    since: Duration,
    again: Duration,
}

/// Token bucket that limits how fast a migration arms its sections.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    /// Time when the next section may be armed.
    next: Duration,
    /// Number of times that the rate was halved.
    halvings: u32,
    /// Time when the rate was halved or doubled last.
    changed: Duration,
}

/// The coordinator of one set's migrations. A member of the set's store has a coordinator for as long as the member is
/// the leader.
#[derive(Debug, Default)]
pub struct Coordinator {
    moves: BTreeMap<SectionId, Move>,
    /// The tombstones that are not confirmed yet. If their number differs from
    /// [`SectionRecords::unconfirmed`](crate::state::SectionRecords::unconfirmed), the section records are searched for
    /// the missing ones.
    sent: BTreeMap<SectionId, Sent>,
    buckets: BTreeMap<MigrationId, Bucket>,
    /// For each migration, the time when the next effect about its end, or the next [`Effect::Ask`] about it, is due.
    ends: BTreeMap<MigrationId, Duration>,
    /// Migrations by which sections arrived in this set, and that the source set still knows according to its response
    /// to [`Effect::Ask`]. Each has the lineage in which the source set responded.
    known: BTreeMap<MigrationId, Lineage>,
    /// One entry for each section whose arrival was noted since the last call of [`Coordinator::take_arrived`]. The
    /// entry has the section's migration, and the approximate time from its departure to its arrival.
    arrived: Vec<(MigrationId, Duration)>,
    deadline: Option<Duration>,
}

impl Coordinator {
    /// Returns the effects that the applied state calls for. `stranded` comes from the arbiter's last plan, and
    /// `living` returns whether an incarnation is live. `now` is the time since an arbitrary fixed origin on the
    /// coordinator's clock, which never goes back.
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
            // In quarantine the tombstones come from a backup and may be outdated, so this set first waits for newer
            // records from other sets.
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

    /// Returns the planned handovers to other sets that owners of this set should make now, in order of section.
    pub fn planned(&self) -> impl Iterator<Item = &PlannedHandover> {
        self.moves.values().filter_map(|one| one.planned.as_ref())
    }

    /// Removes and returns one entry for each section whose arrival was noted since the last call. The entry has the
    /// section's migration, and the time from the section's departure to its arrival, as this coordinator observed
    /// them.
    pub fn take_arrived(&mut self) -> Vec<(MigrationId, Duration)> {
        take(&mut self.arrived)
    }

    /// Returns, for each migration, how many of its sections are being armed, have a planned handover, or have departed
    /// without having arrived.
    #[must_use]
    pub fn in_flight_by_migration(&self) -> BTreeMap<MigrationId, usize> {
        let mut count = BTreeMap::new();
        let moving = self.moves.values().map(|one| one.migration);
        for migration in moving.chain(self.sent.values().map(|one| one.migration)) {
            *count.entry(migration).or_default() += 1;
        }
        count
    }

    /// Returns the time when [`Coordinator::evaluate`] must be called next even if no command is applied.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Duration> {
        self.deadline
    }

    /// Continues after the target set named the next owners `armed` in response to [`Effect::Arm`]. For each section
    /// with a live owner, plans a handover to its next owner. If there are sections without a live owner, returns the
    /// effect that commits their departure.
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

    /// Continues after [`Effect::Arm`] failed, because the target set has no quorum, takes no sections, or did not
    /// respond.
    pub fn on_arm_refused(&mut self, migration: MigrationId, now: Duration) {
        self.moves.retain(|_, one| one.migration != migration || one.planned.is_some());
        let bucket = self.buckets.entry(migration).or_default();
        bucket.next = bucket.next.max(now + REFUSED_FOR);
        let next = bucket.next;
        self.wake(next);
    }

    /// Continues after the target set `at` responded to [`Effect::Arrive`]. `lineage` is the lineage in the response,
    /// and `outcome` has an entry for each section of `arrive`. Returns the effect that notes, in this set's log, which
    /// sections the target set has; `None` if it has none of them.
    #[must_use]
    pub fn on_arrive(&self, (at, lineage): (SetId, Lineage), arrive: &Arrive, outcome: &[Arrival]) -> Option<Effect> {
        let known = |outcome: &Arrival| matches!(outcome, Arrival::Arrived | Arrival::Past);
        let pairs = arrive.sections.iter().zip(outcome).filter(|(_, outcome)| known(outcome));
        let sections: Vec<(SectionId, Epoch)> = pairs.map(|(one, _)| (one.section, one.epoch)).collect();
        let noted = !sections.is_empty();
        noted.then(|| Effect::Commit(Proposal::Arrived(Arrived { at, lineage, sections, ended: Vec::new() })))
    }

    /// Continues after the target set `at`, which is in `lineage`, committed the end of a migration. Returns the effect
    /// that notes this in this set's log. After [`Effect::StartReturn`], this function must be called only if the
    /// return that was committed is settled.
    #[must_use]
    pub fn on_end(&self, (at, lineage): (SetId, Lineage), migration: MigrationId) -> Effect {
        let (sections, ended) = (Vec::new(), Vec::from([migration]));
        Effect::Commit(Proposal::Arrived(Arrived { at, lineage, sections, ended }))
    }

    /// Continues after the source set `of` responded to [`Effect::Ask`]. `lineage` is the lineage in the response, and
    /// `knows` is whether that set knows the migration. If that set does not know it, the set was restored from a
    /// backup that is older than the migration, and only this set's log knows the migration. In this case the sections
    /// stay in this set, and the returned effect commits this.
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

    /// Adds the effects that ask restored source sets about the migrations by which sections arrived in this set. The
    /// effects are repeated until each source set has responded in its newest lineage that it knows the migration.
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

    /// Drops the armed sections whose owner or migration has changed or whose time has run out, and the tombstones that
    /// the target set has confirmed. Halves the rate of a migration if the pause of one of its sections was too long.
    fn observe(&mut self, state: &State, now: Duration) {
        self.moves.retain(|section, one| {
            let open = state.migrations.get(&one.migration).filter(|migration| migration.phase == Phase::Open);
            let stands = state.sections.resident(*section).is_some_and(|record| record.epoch == one.epoch);
            // A pause ends armed moves. A planned handover may have begun at its owner and continues, so that it is
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
            // A section that departed before the last change of the rate shows nothing about the changed rate: a set
            // that was cut off for a while confirms many late sections at once.
            if limit.is_some_and(|limit| now - sent.since > limit) && sent.since >= bucket.changed {
                (bucket.halvings, bucket.changed) = ((bucket.halvings + 1).min(MAX_HALVINGS), now);
            }
        }
    }

    /// Adds the effects that send all tombstones which the target sets have not confirmed yet.
    fn send_tombstones(&mut self, state: &State, own: SetId, now: Duration, effects: &mut Vec<Effect>) {
        let layout = &state.set.as_ref().expect("it is defined").layout;
        // All entries of `sent` are among the unconfirmed tombstones: see `observe`.
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

    /// Adds the effect that arms the next sections of a migration, as many as the migration's pace allows.
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
        // A target set that was closing, and was then restored from an older backup, may name owners again. But this
        // set's log refuses each departure to a closing set.
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

    /// Returns, for each owner, how many of its sections are being armed, have a planned handover, or have departed
    /// without having arrived.
    fn in_flight(&self, state: &State) -> BTreeMap<Option<NodeId>, usize> {
        let mut count: BTreeMap<Option<NodeId>, usize> = BTreeMap::new();
        for one in self.moves.values() {
            *count.entry(owner_node(one.owner)).or_default() += 1;
        }
        // Tombstones are divided among all owners, because the owner of each tombstone is not committed.
        let share = self.sent.len().div_ceil(state.nodes.len().max(1));
        let nodes = state.nodes().map(|(id, _)| Some(id)).chain([None]);
        for node in nodes {
            let in_flight = count.entry(node).or_default();
            *in_flight = (*in_flight + share).min(MAX_IN_FLIGHT);
        }
        count
    }

    /// Takes a token from the migration's bucket. One token allows one section to be armed.
    ///
    /// # Errors
    /// The time when the next token is available, if there is none now.
    fn take_token(&mut self, id: MigrationId, rate: u32, now: Duration) -> Result<(), Duration> {
        let bucket = self.buckets.entry(id).or_default();
        if bucket.halvings > 0 && now.saturating_sub(bucket.changed) >= RECOVERS_AFTER {
            (bucket.halvings, bucket.changed) = (bucket.halvings - 1, now);
        }
        if bucket.next > now {
            return Err(bucket.next);
        }
        let between = Duration::from_secs(1) / rate.max(1) * (1 << bucket.halvings);
        // Unused tokens are lost, except for tokens of the last `SEND_AGAIN`, because an evaluation may be late by this
        // time.
        bucket.next = bucket.next.max(now.saturating_sub(SEND_AGAIN)) + between;
        Ok(())
    }

    /// Adds the effect that sends the end of a migration to the target set. The effect is repeated until that set has
    /// committed the end.
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

    /// Returns whether the next effect about the end of a migration is due now. If so, schedules its repetition.
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

/// Returns the sections of a migration that are still in this set, in order.
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

/// Returns the live owner that would hand a section over, or [`Owner::None`] if no node of this set can. Returns `None`
/// if the section must wait until the arbiter assigns an owner.
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

/// Returns the id of the migration by which the sections of the migration `of` return. Every coordinator computes the
/// same id, so that there is only one return.
#[must_use]
pub fn return_id(of: MigrationId) -> MigrationId {
    MigrationId(layout::fnv1a(layout::NO_SPACES.0, &of.0.to_le_bytes()).max(1))
}

#[cfg(all(test, not(loom)))]
mod scenarios;
