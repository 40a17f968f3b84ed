//! The steps of sets that keep the rules, until everything completes.

use std::time::Duration;

use arbitrary::Result;
use seq_core::layout::SectionRun;
use seq_core::state::{
    Answer, Arrival, Arrive, Arrived, Arriving, BeginLineage, Close, Closing, Command, Complete, Depart, DepartSilent,
    Destination, EndQuarantine, Inherit, Pace, Phase, Raise, RaiseCeilings, Reassign, Registration, Residence,
    Rollback, SectionRecord, SetLayoutWriter, StartMigration, State,
};
use seq_core::{HandoverId, Incarnation, Lineage, Liveness, MigrationId, NodeId, SectionId, Seq, SetId};
use seq_proto::{inter_set, v1};

use super::service::{Request, Response};
use super::{Bug, CLUSTER, HOSTILE, SETS, World, id, index, sections, stores};
use crate::input::Input;

/// The only node of each set.
const NODE: NodeId = NodeId(1);
const PACE: Pace = Pace { rate: 10, max_pause: Duration::from_millis(10), paused: false };
/// Rounds after which everything has completed: each refused fence begins a lineage, which voids other responses.
const ROUNDS: usize = 24;

impl World {
    /// Makes a step of a set that keeps the rules.
    pub(super) fn honest_step(&mut self, input: &mut Input<'_>) -> Result<()> {
        let honest = if self.is_hostile { HOSTILE } else { SETS } as u64;
        let (set, other) = (input.below(honest)? as usize, input.below(SETS as u64)? as usize);
        let section = SectionId(input.below(super::SECTIONS.into())? as u32);
        let home = self.homes(section).first().copied().filter(|home| !self.is_hostile || *home != HOSTILE);
        match (input.below(20)?, home) {
            (0..2, Some(home)) => self.own(home, section, input.below(1_000)?),
            (2..5, Some(home)) => drop(self.start(home, other, section)),
            (5..8, Some(home)) => self.depart(home, section),
            (8..10, Some(home)) => self.depart_silent(home, section),
            (10..13, _) => {
                let arrives = input.below(4)? > 0;
                self.coordinate(set, arrives);
            }
            (13, _) => {
                let known: Vec<MigrationId> = self.sets[set].migrations.keys().copied().collect();
                let Some(migration) = known.get(input.below(known.len().max(1) as u64)? as usize).copied() else {
                    return Ok(());
                };
                self.apply(
                    set,
                    &match input.flag()? {
                        true => Command::Rollback(Rollback { id: migration }),
                        false => Command::Complete(Complete { id: migration, by: None }),
                    },
                );
            }
            (14, _) => self.backups[set] = self.sets[set].clone(),
            (15, _) if self.bug != Some(Bug::ReturnNeverWaits) => self.restore(set),
            (16, _) => self.quarantine(set),
            (17, _) => self.gossip(set, other),
            (18, _) => self.inherit(set),
            (19, _) if input.below(4)? == 0 => self.merge(set, other),
            _ => {}
        }
        Ok(())
    }

    pub(super) fn register(&mut self, set: usize) {
        let token = self.draw();
        let state = &self.sets[set];
        let first = Incarnation(state.lineage.first_number());
        let follows = state.node(NODE).map_or(first, |node| node.incarnation);
        let registration = Registration { follows, ..Registration::new("a", "a:1", token) };
        let answer = self.apply(set, &Command::Register(registration));
        assert!(matches!(answer, Answer::Registered(Ok(_))), "{answer:?}");
    }

    /// Gives a section a new owner, which raises its ceiling.
    fn own(&mut self, set: usize, section: SectionId, more: u64) {
        let state = &self.sets[set];
        let (Some(record), Some(node)) = (state.sections.resident(section).copied(), state.node(NODE)) else { return };
        let (incarnation, expected, liveness) = (node.incarnation, record.epoch, liveness(state, &record));
        self.apply(set, &Command::Reassign(vec![Reassign { section, expected, liveness, to: NODE, incarnation }]));
        let Some(record) = self.sets[set].sections.resident(section).copied() else { return };
        let raises = vec![Raise { section, epoch: record.epoch, to: Seq(record.max_seq.0.saturating_add(more)) }];
        self.apply(set, &Command::Raise(RaiseCeilings { node: NODE, incarnation, raises }));
    }

    fn start(&mut self, set: usize, to: usize, section: SectionId) -> Answer {
        let mut drawn = MigrationId(self.draw());
        // The ids of a store are random: the hostile set cannot guess the next id, as it can here.
        while self.sets[set].migrations.contains_key(&drawn) {
            drawn = MigrationId(self.draw());
        }
        let state = &self.sets[set];
        let runs = vec![SectionRun { first: section, sections: 1 }];
        let fingerprint = state.fingerprint(id(to), &runs).unwrap_or_default();
        let (lineage, layout_id) = (state.lineage, self.layout_id);
        let start = StartMigration { id: drawn, to: id(to), lineage, layout_id, runs, pace: PACE, fingerprint };
        self.apply(set, &Command::StartMigration(start))
    }

    /// Returns the last migration that began, with its target set.
    fn newest(&self, set: usize) -> Option<(MigrationId, usize)> {
        let (migration, one) = self.sets[set].migrations.last_key_value()?;
        Some((*migration, index(one.to)?))
    }

    fn depart(&mut self, set: usize, section: SectionId) {
        if let Some(newest) = self.newest(set) {
            self.depart_by(set, section, newest);
        }
    }

    fn depart_by(&mut self, set: usize, section: SectionId, (migration, to): (MigrationId, usize)) {
        let Some(record) = self.sets[set].sections.resident(section).copied() else { return };
        let (Some(from), Some(node)) = (record.owner, self.sets[to].node(NODE)) else { return };
        let incarnation = node.incarnation;
        let handover_id = HandoverId(self.draw());
        let to = Destination { set: id(to), lineage: self.sets[to].lineage, node: Some(NODE), incarnation };
        let Residence { epoch, incarnation, .. } = record;
        let depart = Depart { section, epoch, from, incarnation, to, handover_id, migration };
        if let Answer::Departed(Ok(made)) = self.apply(set, &Command::Depart(depart)) {
            self.attempts.insert((section, made.epoch), handover_id);
            self.reach("departed");
        }
    }

    fn depart_silent(&mut self, set: usize, section: SectionId) {
        if let Some((migration, to)) = self.newest(set) {
            self.depart_silent_by(set, section, (migration, id(to)));
        }
    }

    fn depart_silent_by(&mut self, set: usize, section: SectionId, (migration, to): (MigrationId, SetId)) {
        let state = &self.sets[set];
        let (Some(record), Some(target)) = (state.sections.resident(section), index(to)) else { return };
        let (expected, liveness, lineage) = (record.epoch, liveness(state, record), self.sets[target].lineage);
        let silent = DepartSilent { section, expected, liveness, to, lineage, migration };
        self.apply(set, &Command::DepartSilent(vec![silent]));
    }

    fn head(&self, from: usize, to: usize) -> v1::Between {
        v1::Between {
            cluster: CLUSTER.to_owned(),
            from_set_id: id(from).0,
            from_lineage: self.sets[from].lineage.0,
            to_set_id: id(to).0,
        }
    }

    /// Sends a request of a set that keeps the rules. The hostile set does not respond.
    fn send(&mut self, from: usize, to: usize, request: Request) -> Option<Response> {
        if self.is_hostile && to == HOSTILE {
            return None;
        }
        self.receive(to, from, request, None).ok().flatten()
    }

    /// Sends the messages that a coordinator derives from the committed state of its set; arrivals may be lost.
    fn coordinate(&mut self, set: usize, arrives: bool) {
        let state = self.sets[set].clone();
        let layout_id = self.layout_id;
        for (section, record) in state.sections.known() {
            let SectionRecord::Departed(tombstone) = *record else { continue };
            let Some(to) = index(tombstone.to.set).filter(|_| arrives && !tombstone.arrived) else { continue };
            let Destination { lineage: to_lineage, node, incarnation, .. } = tombstone.to;
            let (epoch, max_seq, migration) = (tombstone.epoch, tombstone.max_seq, tombstone.by);
            let handover_id = tombstone.handover_id;
            let one = Arriving { section, epoch, max_seq, handover_id, node, incarnation, migration };
            let (from, from_lineage) = (id(set), state.lineage);
            let arrive = Arrive { from, from_lineage, to_lineage, layout_id, sections: vec![one] };
            let request = Request::Arrive(inter_set::to_arrive(&arrive, self.head(set, to)));
            let Some(Response::Arrived(response)) = self.send(set, to, request) else { continue };
            if inter_set::arrivals(&response).iter().any(|one| matches!(one, Arrival::Arrived | Arrival::Past)) {
                self.note(set, to, response.lineage, (vec![(section, epoch)], vec![]));
                self.reach("arrived");
            }
        }
        for (migration, one) in &state.migrations {
            let Some(to) = index(one.to) else { continue };
            let between = Some(self.head(set, to));
            let settled = self.sets[set].has_settled(*migration);
            let request = match one.phase {
                Phase::RolledBack { noted: false } => Request::StartReturn(v1::StartReturnRequest {
                    between,
                    of_migration_id: migration.0,
                    return_id: self.draw(),
                    rate: PACE.rate,
                    max_pause_ms: 10,
                    settled,
                }),
                Phase::Completed { noted: false } if settled => {
                    Request::CompleteArrival(v1::CompleteArrivalRequest { between, migration_id: migration.0 })
                }
                _ => continue,
            };
            // A return begins before all sections have arrived, and is noted once they have.
            let is_accepted = matches!(self.send(set, to, request), Some(Response::Ended));
            if is_accepted && settled {
                self.note(set, to, self.sets[to].lineage.0, (vec![], vec![*migration]));
            }
        }
    }

    fn note(
        &mut self,
        set: usize,
        to: usize,
        lineage: u64,
        (sections, ended): (Vec<(SectionId, seq_core::Epoch)>, Vec<MigrationId>),
    ) {
        self.apply(set, &Command::Arrived(Arrived { at: id(to), lineage: Lineage(lineage), sections, ended }));
    }

    /// Restores a set from its backup, as an operator does, under a count above all that any set knows.
    fn restore(&mut self, set: usize) {
        let count = self.sets.iter().chain([&self.backups[set]]).map(|state| state.most_restores()).max();
        let lineage = Lineage::of_restore(count.unwrap_or_default() + 1, self.draw() as u32);
        self.sets[set] = self.backups[set].clone();
        self.sets[set].restore(lineage).expect("the count is above all others");
        self.register(set);
        self.is_restored |= set != HOSTILE;
        self.reach("restored");
    }

    /// Lets a restored set send its requests to the others, and serve once all have responded. A set that begins a
    /// newer lineage sends its requests again before the others exchange facts, because it retries ten times as often.
    fn quarantine(&mut self, set: usize) {
        while self.asks_all(set) {}
        let lineage = self.sets[set].lineage;
        if self.sets[set].is_quarantined()
            && self.apply(set, &Command::EndQuarantine(EndQuarantine { lineage })) == Answer::QuarantineEnded(Ok(()))
        {
            self.reach("quarantine over");
        }
    }

    /// Asks the others; returns whether a newer lineage began.
    fn asks_all(&mut self, set: usize) -> bool {
        let awaited: Vec<(SetId, SectionId)> = self.sets[set].awaited_responses().collect();
        for (other, first) in awaited {
            let Some(to) = index(other) else { continue };
            let mut next = Some(first);
            while let Some(first_section) = next.take() {
                let between = Some(self.head(set, to));
                let request = Request::Fence(v1::FenceRequest { between, first_section: first_section.0 });
                let Some(Response::Page(page)) = self.send(set, to, request) else { break };
                if page.least_restores > 0 {
                    let least = self.sets[set].least_restores().max(page.least_restores);
                    let lineage = Lineage::of_set(least, self.draw() as u32);
                    self.apply(set, &Command::BeginLineage(BeginLineage { lineage }));
                    self.register(set);
                    self.reach("newer lineage in quarantine");
                    return true;
                }
                self.adopt(set, (other, page.lineage), page.writer.as_ref());
                let page = inter_set::fence_response(other, &page).expect("it is of a set that keeps the rules");
                let following = page.next;
                let learned = self.apply(set, &Command::LearnRecords(page));
                if learned == Answer::RecordsLearned(Ok(true)) {
                    next = following;
                }
            }
        }
        false
    }

    /// Has a set state its facts to another set, and learn the facts of that set.
    fn gossip(&mut self, from: usize, to: usize) {
        let Some(facts) = self.sets[from].facts(stores(from)).filter(|_| from != to) else { return };
        let layout_id = self.layout_id.0;
        let (between, facts) = (Some(self.head(from, to)), Some(v1::SetFacts::from(&facts)));
        let request = Request::Exchange(v1::ExchangeRequest { between, facts, route_version: 0, layout_id });
        if let Some(Response::Exchanged(facts, claims, writer)) = self.send(from, to, request)
            && let Ok(facts) = inter_set::facts(&facts)
        {
            self.adopt(from, (id(to), facts.lineage.0), writer.as_ref());
            self.learn(from, id(to), facts, claims);
        }
    }

    fn inherit(&mut self, set: usize) {
        let awaited: Vec<(SetId, SectionId)> = self.sets[set].awaited_inheritances().collect();
        for (other, first) in awaited {
            let Some(to) = index(other) else { continue };
            let request = v1::ReadFinalRequest { between: Some(self.head(set, to)), first_section: first.0 };
            if let Some(Response::Page(page)) = self.send(set, to, Request::ReadFinal(request))
                && let Ok(page) = inter_set::fence_response(other, &page)
            {
                self.apply(set, &Command::Inherit(Inherit(page)));
                self.reach("inherited");
            }
        }
    }

    /// Sends all sections of a set to another set, and closes it.
    fn merge(&mut self, set: usize, to: usize) {
        for section in sections() {
            if let Answer::MigrationStarted(Ok(migration)) = self.start(set, to, section) {
                self.depart_silent_by(set, section, (migration, id(to)));
            }
        }
        self.coordinate(set, true);
        let open: Vec<MigrationId> = self.sets[set].migrations.keys().copied().collect();
        for migration in open {
            self.apply(set, &Command::Complete(Complete { id: migration, by: None }));
        }
        self.coordinate(set, true);
        self.close(set);
    }

    /// Closes a set, unless no honest set would be left open.
    fn close(&mut self, set: usize) {
        let is_open = |other: usize| other != set && self.sets[other].closing == Closing::Open;
        let Some(open) = (0..HOSTILE).find(|other| is_open(*other)) else { return };
        self.hand_over(set, open);
        if matches!(self.apply(set, &Command::Close(Close)), Answer::Closed(Ok(_))) {
            self.closed.insert(set);
            self.reach("closing");
        }
    }

    /// Hands the creation of series to another set, if the set has it.
    fn hand_over(&mut self, set: usize, to: usize) {
        let state = &self.sets[set];
        let Some(writer) = state.layout_writer().filter(|_| state.writes_series()) else { return };
        let hand_over = Command::SetLayoutWriter(SetLayoutWriter { term: writer.term, to: id(to) });
        if matches!(self.apply(set, &hand_over), Answer::LayoutWriterSet(Ok(_))) {
            self.reach("handed the creation of series over");
            self.gossip(to, set);
            self.gossip(set, to);
        }
    }

    fn rounds(&mut self) {
        for round in 0..ROUNDS {
            for (from, to) in (0..SETS * SETS).map(|pair| (pair / SETS, pair % SETS)) {
                self.gossip(from, to);
            }
            for set in 0..SETS {
                self.quarantine(set);
                self.coordinate(set, true);
                self.inherit(set);
            }
            if round > 3 && self.sets.iter().all(|state| !state.is_quarantined()) {
                break;
            }
        }
        for (set, state) in self.sets.iter().enumerate() {
            let waits: Vec<_> = state.awaited_responses().collect();
            assert!(!state.is_quarantined(), "the quarantine of set {set} does not end: it waits for {waits:?}");
        }
        for section in sections().filter(|section| !self.exposed.contains(section)) {
            let records: Vec<_> = self.sets.iter().map(|state| state.sections.get(section)).collect();
            assert_eq!(self.homes(section).len(), 1, "section {section} is lost: {records:?}");
        }
    }

    /// Carries the open migrations out and completes them, or rolls them back where their target closes.
    fn end_migrations(&mut self) {
        for round in 0..6 {
            for set in 0..SETS {
                let open = self.sets[set].migrations.iter().filter(|(_, one)| one.phase == Phase::Open);
                let open: Vec<(MigrationId, SetId)> = open.map(|(migration, one)| (*migration, one.to)).collect();
                for (migration, to) in open {
                    for section in sections() {
                        self.depart_silent_by(set, section, (migration, to));
                    }
                    self.apply(set, &Command::Complete(Complete { id: migration, by: None }));
                    if round == 1 {
                        self.apply(set, &Command::Rollback(Rollback { id: migration }));
                    }
                }
            }
            self.rounds();
        }
    }

    /// Replaces the certificate and restores the set; then every protocol of the others completes.
    pub(super) fn settle(&mut self) {
        self.is_hostile = false;
        self.backups[HOSTILE] = self.sets[HOSTILE].clone();
        self.restore(HOSTILE);
        self.rounds();
        self.end_migrations();
        let exposed = self.exposed.clone();
        let safe = |section: &SectionId| !exposed.contains(section);
        for section in sections().filter(safe) {
            let home = self.homes(section)[0];
            self.own(home, section, 10);
            let to = 1 - home;
            if self.closed.contains(&to) {
                continue;
            }
            let record = self.sets[home].sections.resident(section).copied().unwrap_or_default();
            if record.came_by != MigrationId(0) {
                // A restore has ended its migration in one set alone, or the hostile set has sent the arrival before
                // the set that departed it: see "What does not hold yet" in docs/safety.md.
                let of_hostile = self.sets[home].foreign_migrations.get(&record.came_by) == Some(&id(HOSTILE));
                let why = format!("section {section} is bound to a migration that is over: {record:?}");
                assert!(self.is_restored || of_hostile, "{why}");
                self.reach("bound to a migration that is over");
                continue;
            }
            let started = self.start(home, to, section);
            let why = format!("section {section} cannot migrate from set {home} to set {to}: {started:?}, {record:?}");
            let Answer::MigrationStarted(Ok(migration)) = started else { panic!("{why}") };
            self.depart_by(home, section, (migration, to));
            self.coordinate(home, true);
            assert_eq!(self.homes(section), [to], "section {section} does not arrive");
            self.own(to, section, 10);
        }
        for set in 0..HOSTILE {
            self.backups[set] = self.sets[set].clone();
            self.restore(set);
            self.rounds();
        }
    }
}

/// Returns the liveness of a section's owner, as an arbiter observes it.
fn liveness(state: &State, record: &Residence) -> Option<Liveness> {
    let owner = state.node(record.owner?)?;
    (owner.incarnation == record.incarnation).then_some(owner.liveness)
}
