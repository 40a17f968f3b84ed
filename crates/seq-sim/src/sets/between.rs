//! Messages between the stores of two sets. A member sends a request to the leader of the other set's store, and the
//! response goes back to this member.
//!
//! **Invariant:** a set sends the other set a message about a change only after the log entry of this change was
//! applied to its state.

use seq_core::directory::ClaimRun;
use seq_core::migration::{Armed, Effect};
use seq_core::state::{
    AdoptSeries, Answer, Arrival, Arrive, Closing, Command, CommandRefusal, Complete, FenceResponse, Inherit,
    LearnDirectory, SetFacts, SetRefusal, StartReturn, State,
};
use seq_core::{LayoutId, Lineage, MigrationId, SectionId, Seq};

use crate::bugs::Bug;
use crate::coverage::Situation;
use crate::events::{Event, StoreStep};
use crate::faults::MS;
use crate::hosts::{index_of, set_id, set_of_member};
use crate::net::{Address, Body};
use crate::store::Entry;
use crate::world::World;

/// Range of the delay of messages that are sent while the two sets are divided, and are not lost.
const LATE: (u64, u64) = (300 * MS, 4_000 * MS);

/// A message between sets.
#[derive(Clone, Debug)]
pub(crate) enum Between {
    /// A request to the target set of a migration to name the next owners of sections. `layout_id` identifies the
    /// layout of the source set up to the last of these sections.
    Arm {
        migration: MigrationId,
        layout_id: LayoutId,
        sections: Vec<SectionId>,
    },
    Armed {
        migration: MigrationId,
        armed: Vec<Armed>,
    },
    Arrive(Arrive),
    Arrived {
        arrive: Arrive,
        outcome: Vec<Arrival>,
        lineage: Lineage,
    },
    StartReturn(StartReturn),
    Complete(Complete),
    Ended {
        lineage: Lineage,
        migration: MigrationId,
    },
    /// A request of a restored set for one page of the response to its fence.
    Fence {
        lineage: Lineage,
        first: SectionId,
    },
    /// One page of the response to a fence, and the series that the sending set knows.
    Page(FenceResponse, Box<AdoptSeries>),
    TooFewRestores {
        lineage: Lineage,
        least: u32,
    },
    /// Facts about the sending set, the series that it knows, and its claims to the sections of these series.
    Facts(SetFacts, Box<AdoptSeries>, Vec<ClaimRun>),
    /// A request to a closing set for one page of its final records.
    Final {
        first: SectionId,
    },
    FinalPage(FenceResponse),
}

/// A request of the other set for which a member has proposed a log entry. It is kept until the entry is applied,
/// because the response is sent after that.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// The member that proposed the entry.
    member: usize,
    /// The member of the other set that sent the request.
    from: usize,
    message: Between,
}

impl World {
    /// Sends a message from a member to the leader of the store of the set `to`.
    pub(crate) fn send_to_set(&mut self, member: usize, to: usize, message: Between) {
        let leader = self.stores[to].leader;
        self.send_to_member(member, leader, message);
    }

    fn send_to_member(&mut self, from: usize, to: usize, message: Between) {
        let (host, to, body) = (self.hosts.of_member(from), Address::Member(to), Body::Between { from, message });
        if self.divided_until <= self.now {
            return self.send(host, to, body);
        }
        if self.rng.chance(500) {
            let wait = self.rng.between(LATE.0, LATE.1);
            self.after(wait, Event::Message { to, body });
        }
    }

    /// Lets a member propose a command to the log of its set. If the member no longer leads, the command may never be
    /// committed.
    pub(crate) fn propose_command(&mut self, member: usize, command: impl Into<Command>, asked: Option<Asked>) {
        let set = set_of_member(member);
        if member != self.stores[set].leader && self.rng.chance(500) {
            return;
        }
        let wait = self.rng.between(MS / 2, 4 * MS);
        let entry = Entry::Between(Box::new(command.into()), asked);
        self.after(wait, Event::Store(StoreStep::Apply(set, Box::new(entry))));
    }

    /// Carries out a decision of a member's coordinator.
    pub(crate) fn carry_out_between(&mut self, member: usize, effect: Effect) {
        let set = set_of_member(member);
        match effect {
            Effect::Arm { migration, to, sections } => {
                let store = &mut self.stores[set];
                for section in &sections {
                    let max_seq = store.state.sections.resident(*section).map_or(Seq::ZERO, |one| one.max_seq);
                    store.armed_at.insert(*section, max_seq);
                }
                let layout = store.state.set.as_ref().map(|set| &set.layout);
                let last = sections.iter().max().copied().unwrap_or(SectionId(0));
                let Some(layout_id) = layout.and_then(|layout| layout.id_of(last)) else { return };
                self.send_to_set(member, index_of(to), Between::Arm { migration, layout_id, sections });
            }
            Effect::Arrive { to, arrive } => self.send_to_set(member, index_of(to), Between::Arrive(arrive)),
            Effect::StartReturn { to, start } => self.send_to_set(member, index_of(to), Between::StartReturn(start)),
            Effect::Complete { to, complete } => self.send_to_set(member, index_of(to), Between::Complete(complete)),
            Effect::Ask { of, migration } => self.ask(member, index_of(of), migration),
            Effect::Commit(proposal) => self.propose_command(member, proposal, None),
        }
    }

    /// Asks the restored set `of` whether it still knows a migration that it had begun before the restore, and
    /// processes the response at `member`. The exchange takes no time in the simulation.
    fn ask(&mut self, member: usize, of: usize, migration: MigrationId) {
        let asked = &self.stores[of].state;
        let (stated, knows) = ((set_id(of), asked.lineage), asked.migrations.contains_key(&migration));
        let state = self.stores[set_of_member(member)].state.clone();
        let Some(seat) = self.seat(member) else { return };
        if let Some(effect) = seat.coordinator.on_asked(&state, stated, migration, knows) {
            self.carry_out_between(member, effect);
        }
    }

    /// Processes a message from a member of the other set, `from`, to `member`. Drops the message if `member` does not
    /// believe that it leads.
    pub(crate) fn receive_between(&mut self, member: usize, from: usize, message: Between) {
        let (set, other) = (set_of_member(member), set_id(set_of_member(from)));
        let quarantined = self.stores[set].state.is_quarantined();
        let reads = self.bug == Some(Bug::QuarantineByReading);
        let asked = |message: &Between| Some(Asked { member, from, message: message.clone() });
        let Some((seat, now)) = self.seat_and_time(member) else { return };
        let coordinator = &mut seat.coordinator;
        let effect = match &message {
            Between::Armed { migration, armed } if armed.is_empty() => {
                coordinator.on_arm_refused(*migration, now);
                None
            }
            Between::Armed { migration, armed } => coordinator.on_armed(*migration, armed, now),
            Between::Arrived { arrive, outcome, lineage } => coordinator.on_arrive((other, *lineage), arrive, outcome),
            Between::Ended { lineage, migration } => Some(coordinator.on_end((other, *lineage), *migration)),
            Between::Arm { migration, layout_id, sections } => {
                return self.arm(member, from, *migration, (*layout_id, sections));
            }
            Between::Arrive(arrive) => return self.propose_command(member, arrive.clone(), asked(&message)),
            Between::StartReturn(start) => return self.propose_command(member, *start, asked(&message)),
            Between::Complete(_) if quarantined => None,
            Between::Complete(complete) => return self.propose_command(member, *complete, asked(&message)),
            Between::Facts(facts, series, claims) => {
                self.adopt_series(member, series);
                return self.learn(member, facts.clone(), claims);
            }
            Between::Final { first } => {
                let page = self.stores[set].state.final_records(other, *first);
                return page.into_iter().for_each(|page| self.send_to_member(member, from, Between::FinalPage(page)));
            }
            Between::FinalPage(page) => {
                return self.propose_command(member, Command::Inherit(Inherit(page.clone())), None);
            }
            Between::Fence { lineage, .. } if reads => {
                return self.respond_by_reading(set, Asked { member, from, message: message.clone() }, *lineage);
            }
            Between::Fence { lineage, .. } => return self.fence(member, other, *lineage, asked(&message)),
            // A page may have sections of series that this set created after its backup was made. In this case, this
            // set adopts these series first, and requests the page again.
            Between::Page(_, series) if self.adopt_series(member, series) => None,
            Between::Page(page, _) => return self.propose_command(member, Command::LearnRecords(page.clone()), None),
            Between::TooFewRestores { lineage, least } => return self.begin_lineage(member, *lineage, *least),
        };
        effect.into_iter().for_each(|effect| self.carry_out_between(member, effect));
    }

    /// Lets `member` propose a command by which its set adopts the series and the hand-over of their creation that
    /// another set stated. Does nothing if the set knows them already. Returns whether the command is proposed.
    fn adopt_series(&mut self, member: usize, stated: &AdoptSeries) -> bool {
        let adopts = self.stores[set_of_member(member)].state.adopts_series(stated);
        if adopts {
            self.coverage.saw(Situation::SeriesAdopted);
            self.propose_command(member, stated.clone(), None);
        }
        adopts
    }

    /// Lets `member` propose a command by which its set adopts the facts that another set stated about itself, unless
    /// only their revision is new, and the other set's claims to sections that are in the layout of this set.
    fn learn(&mut self, member: usize, facts: SetFacts, claims: &[ClaimRun]) {
        let state = &self.stores[set_of_member(member)].state;
        let known = state.sets.get(&facts.id).and_then(|peer| peer.facts.as_ref());
        let same = |known: &SetFacts| SetFacts { revision: facts.revision, ..known.clone() } == facts;
        let is_known = known.is_some_and(same);
        let end = state.set.as_ref().map_or(0, |set| set.layout.sections());
        let fits = |run: &&ClaimRun| run.sections.end().is_some_and(|last| last <= end);
        let fitting: Vec<ClaimRun> = claims.iter().filter(fits).copied().collect();
        let claims = state.vouched_claims(facts.id, &fitting);
        if !claims.is_empty() {
            let (from, sets) = (Some(facts.id), if is_known { Vec::new() } else { vec![facts] });
            self.propose_command(member, LearnDirectory { from, claims, sets }, None);
        } else if !is_known {
            self.propose_command(member, Command::LearnDirectory(LearnDirectory::of(facts)), None);
        }
    }

    /// Names the next owners of sections that will arrive from another set, and sends them to the member `to` of that
    /// set. Names no owners if the set of `member` accepts no sections.
    fn arm(
        &mut self,
        member: usize,
        to: usize,
        migration: MigrationId,
        (layout_id, sections): (LayoutId, &[SectionId]),
    ) {
        let set = set_of_member(member);
        let state = &self.stores[set].state;
        let seen = match self.bug {
            Some(Bug::ReservesWhileClosing) => State { closing: Closing::Open, ..state.clone() },
            _ => state.clone(),
        };
        let Some(seat) = self.seat(member) else { return };
        let owners = seat.reserver.reserve(&seat.plan, &seen, layout_id, sections).unwrap_or_default();
        let state = &self.stores[set].state;
        let lineage = state.lineage;
        let armed = sections.iter().zip(&owners).map(|(section, owner)| {
            let addr = state.node(owner.0).map(|node| node.addr.clone()).unwrap_or_default();
            Armed { section: *section, set: (set_id(set), lineage), owner: *owner, addr }
        });
        let armed: Vec<Armed> = armed.collect();
        if state.closing > Closing::Open && !armed.is_empty() {
            let text = format!("set {set} closes, and names owners of {sections:?}");
            self.check.broken(self.now, "a closing set takes no sections", text);
        }
        self.send_to_member(member, to, Between::Armed { migration, armed });
    }

    /// Responds to a request of another set, after the log entry of the request was applied with the result `answer`.
    pub(crate) fn respond_to_set(&mut self, set: usize, asked: Asked, answer: Answer) {
        let state = &self.stores[set].state;
        let Asked { member, from, message } = asked;
        let (to, lineage) = (set_id(set_of_member(from)), state.lineage);
        let response = match (message, answer) {
            (Between::Arrive(arrive), Answer::Arrived(Ok(outcome))) => Between::Arrived { arrive, outcome, lineage },
            (Between::StartReturn(start), Answer::ReturnStarted(Ok(_))) if start.settled => {
                Between::Ended { lineage, migration: start.of }
            }
            (Between::Complete(complete), Answer::Completed(Ok(()))) => {
                Between::Ended { lineage, migration: complete.id }
            }
            (Between::Fence { lineage: fenced, first }, Answer::Fenced(Ok(()))) => {
                let Ok(page) = state.fence_response(to, fenced, first) else { return };
                Between::Page(page, Box::new(state.stated_series()))
            }
            (
                Between::Fence { lineage: fenced, .. },
                Answer::Fenced(Err(CommandRefusal::BetweenSets(SetRefusal::TooFewRestores { least, .. }))),
            ) => Between::TooFewRestores { lineage: fenced, least },
            _ => return,
        };
        self.send_to_member(member, from, response);
    }

    /// Sends facts about the set of `member` to the other set, and requests the final records of a closing set that it
    /// lacks.
    pub(crate) fn exchange(&mut self, member: usize) {
        let set = set_of_member(member);
        let state = &self.stores[set].state;
        let Some(facts) = state.facts(Vec::new()) else { return };
        let awaited: Vec<_> = state.awaited_inheritances().collect();
        let (mut series, first) = (state.stated_series(), self.layout.declared().sections());
        if !state.states_layout() {
            series.series.clear();
        }
        // In the set that creates series, a single run of sections may contain sections of uids followed by sections of
        // lanes.
        let of_lanes = |run: ClaimRun| run.split_at(SectionId(first)).1;
        let claims: Vec<ClaimRun> = state.directory.runs().filter_map(of_lanes).collect();
        for to in (0..self.hosts.sets).filter(|to| *to != set) {
            self.send_to_set(member, to, Between::Facts(facts.clone(), Box::new(series.clone()), claims.clone()));
        }
        for (closing, first) in awaited {
            self.send_to_set(member, index_of(closing), Between::Final { first });
        }
    }
}
