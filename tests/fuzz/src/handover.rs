//! Any offers, copies and routes of peers to a node with sections of its store. The node must not panic, and must get
//! no ownership that the store did not commit.

use std::collections::BTreeMap;

use arbitrary::Result;
use seq_core::lease::{Clocks, LeaseTerms};
use seq_core::owner::{Effect, Effects, Owner, OwnershipUpdate, Session, TableEffect};
use seq_core::route::RouteUpdate;
use seq_core::section::AnyCopy;
use seq_core::state::{Answer, Command, Raise, RaiseCeilings, Reassign, Registration, Residence, State, Transfer};
use seq_core::{
    Count, Epoch, HandoverId, Incarnation, NodeId, RouteVersion, Section, SectionId, Seq, SetId, SlotIndex, Step,
};
use seq_proto::{owners, staged, v1};

use crate::input::Input;
use crate::replica::{Replica, SET, layout};

/// Distance by which a ceiling is raised, which the sections need.
const STEP: Step = Step(100);

/// The node under test, and a peer that owns sections as well.
const ME: NodeId = NodeId(1);
const PEER: NodeId = NodeId(2);

/// Most rows of a message.
const MAX_ROWS: u64 = 4;

/// Sends messages of peers that `data` draws around the current committed state, while the store reassigns sections.
pub fn handover(data: &[u8]) {
    let mut input = Input::new(data);
    let mut replica = Replica::new();
    for (name, token) in [("a1", 1), ("a2", 2)] {
        replica.apply(&Command::Register(Registration::new(name, &format!("{name}:1"), token)));
    }
    let mut node = Node::new(&replica.state);
    while !input.is_over() && step(&mut input, &mut replica, &mut node).is_ok() {}
}

fn step(input: &mut Input<'_>, replica: &mut Replica, node: &mut Node) -> Result<()> {
    let section = SectionId(input.below(layout().sections().into())? as u32);
    match input.below(10)? {
        0 => commit(input, replica, section)?,
        1 | 2 => node.renew(replica),
        3 => node.prepare(&v1::PrepareRequest { offer: Some(offer(input, replica, section)?) }),
        4 | 5 => node.stage(&stage(input, replica, section)?),
        6 | 7 => {
            let offer = Some(offer(input, replica, section)?);
            node.activate(&v1::ActivateRequest { offer });
        }
        8 => node.peer_routes(&routes(input, replica)?),
        _ => node.take_all(),
    }
    Ok(())
}

/// Changes the record of a section in the store by the rules.
fn commit(input: &mut Input<'_>, replica: &mut Replica, section: SectionId) -> Result<()> {
    let record = record(replica, section);
    let incarnation = |node: NodeId| replica.state.node(node).map_or(Incarnation(0), |node| node.incarnation);
    let to = if input.flag()? { ME } else { PEER };
    let command = match (input.below(3)?, record.owner) {
        (0, Some(from)) if from != to => Command::Transfer(Transfer {
            section,
            epoch: record.epoch,
            from,
            incarnation: record.incarnation,
            to,
            to_incarnation: incarnation(to),
            handover_id: HandoverId(1 + input.below(3)?),
        }),
        (1, Some(node)) => {
            let to = Seq(record.max_seq.0 + STEP.0);
            let raises = vec![Raise { section, epoch: record.epoch, to }];
            Command::Raise(RaiseCeilings { node, incarnation: record.incarnation, raises })
        }
        _ => {
            let owner = record.owner.and_then(|owner| replica.state.node(owner));
            let liveness = owner.filter(|owner| owner.incarnation == record.incarnation).map(|owner| owner.liveness);
            let incarnation = incarnation(to);
            Command::Reassign(vec![Reassign { section, expected: record.epoch, liveness, to, incarnation }])
        }
    };
    replica.apply(&command);
    Ok(())
}

fn record(replica: &Replica, section: SectionId) -> Residence {
    *replica.state.sections.resident(section).expect("no section leaves the set")
}

/// Draws an offer around the next ownership, or the last ownership.
fn offer(input: &mut Input<'_>, replica: &Replica, section: SectionId) -> Result<v1::HandoverOffer> {
    let record = record(replica, section);
    let incarnation = replica.state.node(ME).map_or(1, |node| node.incarnation.0);
    let epoch = record.epoch.0.saturating_add(input.below(2)?);
    Ok(v1::HandoverOffer {
        set: SET.to_owned(),
        section: section.0,
        epoch: input.around(epoch)?,
        handover_id: 1 + input.below(3)?,
        incarnation: input.around(incarnation)?,
        ..v1::HandoverOffer::default()
    })
}

fn stage(input: &mut Input<'_>, replica: &Replica, section: SectionId) -> Result<Vec<v1::StageRequest>> {
    let ceiling = record(replica, section).max_seq.0;
    let offer = offer(input, replica, section)?;
    let base = input.around(ceiling)?;
    let mut messages = input.some(MAX_ROWS, |input| {
        let mut slots: Vec<u32> = input.some(MAX_ROWS, |input| Ok(input.below(100)? as u32))?;
        slots.sort_unstable();
        let distances = slots.iter().map(|_| input.around(1)).collect::<Result<_>>()?;
        let advanced = input.some(MAX_ROWS, |input| Ok(input.below(MAX_ROWS)? as u32))?;
        // The section has no keys, so a copy with keys is refused.
        let keys = if input.below(8)? == 0 { vec![1; 16 * slots.len()] } else { Vec::new() };
        Ok(v1::StageRequest { slots, distances, advanced, keys, ..v1::StageRequest::default() })
    })?;
    messages.insert(0, v1::StageRequest { offer: Some(offer), base, ..v1::StageRequest::default() });
    Ok(messages)
}

/// Draws routes around the committed routes.
fn routes(input: &mut Input<'_>, replica: &Replica) -> Result<v1::Routes> {
    let version = replica.state.route_version.0;
    let since = RouteVersion(input.below(version.max(1))?);
    let update = replica.state.routes_since(since);
    let mut routes = update.as_ref().map(v1::Routes::from).unwrap_or_default();
    routes.version = input.around(version)?;
    for run in &mut routes.runs {
        run.owner = input.around_small(run.owner)?;
        run.epoch = input.around(run.epoch)?;
    }
    Ok(routes)
}

/// An AllocSvr: the machine, the sections that its shell serves, and the store's grants.
pub(crate) struct Node {
    owner: Owner,
    sections: BTreeMap<SectionId, (Epoch, Section)>,
    /// Every ownership of this node that the store committed, with the highest ceiling committed for it.
    committed: BTreeMap<(SectionId, Epoch), Seq>,
}

impl Node {
    /// Creates the first node of a state, which has registered.
    pub(crate) fn new(state: &State) -> Node {
        let mut owner = Owner::new(SET, layout(), LeaseTerms::DEFAULTS);
        let incarnation = state.node(ME).expect("it has registered").incarnation;
        owner.on_registered(Session { node: ME, incarnation });
        Node { owner, sections: BTreeMap::new(), committed: BTreeMap::new() }
    }

    /// Renews, and applies the response.
    pub(crate) fn renew(&mut self, replica: &mut Replica) {
        let Some(renewal) = self.owner.renewal() else { return };
        let command = Command::Renew(renewal.command());
        let answer = replica.apply(&command);
        let (Answer::Renewed(Ok(())), Some(update)) = (
            answer,
            OwnershipUpdate::of(&replica.state, &Default::default(), &[], renewal.session, renewal.route_version),
        ) else {
            // Another process renewed or registered in its name, so the incarnation is over.
            let mut effects = Vec::new();
            self.owner.on_session_over(renewal.session, &mut effects);
            return self.carry_out(effects);
        };
        for (id, record) in
            replica.state.owned_since((renewal.session.node, renewal.session.incarnation), RouteVersion(0))
        {
            self.committed.insert((id, record.epoch), record.max_seq);
        }
        let update =
            owners::update(Some(&v1::OwnershipUpdate::from(&update)), &layout(), ME).expect("the store's own update");
        let mut effects = Vec::new();
        // After peer routes it may be a mismatch; then the next response has the whole table.
        let _ = self.owner.on_renewed(&renewal, Clocks::default(), update, &mut effects);
        self.carry_out(effects);
    }

    pub(crate) fn prepare(&mut self, message: &v1::PrepareRequest) {
        if let Ok(offer) = owners::offer(message.offer.as_ref(), SET, SetId(0), &layout()) {
            let _ = self.owner.on_prepare(&offer);
        }
    }

    pub(crate) fn stage(&mut self, messages: &[v1::StageRequest]) {
        let [first, ..] = messages else { return };
        let Ok(offer) = owners::offer(first.offer.as_ref(), SET, SetId(0), &layout()) else { return };
        let Ok(mut copy) = staged::begin_copy(first, offer.section, &layout()) else { return };
        let extended =
            messages.iter().try_for_each(|message| staged::extend_copy(&mut copy, message, offer.section, &layout()));
        if extended.is_ok() {
            let _ = self.owner.on_stage(&offer, copy);
        }
    }

    pub(crate) fn activate(&mut self, message: &v1::ActivateRequest) {
        let Ok(offer) = owners::offer(message.offer.as_ref(), SET, SetId(0), &layout()) else { return };
        let mut effects = Vec::new();
        let _ = self.owner.on_activate(&offer, &mut effects);
        self.carry_out(effects);
    }

    fn peer_routes(&mut self, routes: &v1::Routes) {
        let Ok(update) = RouteUpdate::try_from(routes) else { return };
        let mut effects = Vec::new();
        let _ = self.owner.on_peer_routes(&update, &mut effects);
        self.carry_out(effects);
    }

    /// Applies effects as a shell does, and checks that a section is entered only under an ownership that the store
    /// committed for this node.
    fn carry_out(&mut self, effects: Effects) {
        for effect in effects {
            match effect {
                Effect::Table(TableEffect::Enter { section, epoch, ceiling, copy }) => {
                    let committed = self.committed.get(&(section, epoch)).copied();
                    assert!(
                        committed >= Some(ceiling),
                        "section {section} begins under epoch {epoch} and ceiling {ceiling}, and {committed:?} is committed"
                    );
                    let uids = layout().uids_of(section);
                    let uids = (uids.end - uids.start) as u32;
                    let served = match copy {
                        Some(AnyCopy::Keys(_)) => unreachable!("the layout has no keyspace"),
                        Some(AnyCopy::Slots(copy)) => {
                            Section::handed_over(uids, &copy, ceiling, STEP).expect("a copy that fits")
                        }
                        None => Section::takeover(uids, ceiling, STEP),
                    };
                    self.sections.insert(section, (epoch, served));
                }
                Effect::Table(TableEffect::Leave { section, epoch })
                    if self.sections.get(&section).is_some_and(|served| served.0 == epoch) =>
                {
                    self.sections.remove(&section);
                }
                _ => {}
            }
        }
        let owned: Vec<_> = self.owner.owned().collect();
        let served: Vec<_> = self.sections.iter().map(|(id, (epoch, _))| (*id, *epoch)).collect();
        assert_eq!(served, owned, "the shell serves what the machine owns");
    }

    /// Takes a number of every uid that is served, and checks that none is above the committed ceiling.
    fn take_all(&self) {
        for (id, (epoch, section)) in &self.sections {
            for slot in (0..section.uids()).map(SlotIndex) {
                if let seq_core::Take::Given { value, prev, .. } = section.take(slot, Count::ONE) {
                    let ceiling = self.committed[&(*id, *epoch)];
                    assert!(value <= ceiling && prev < value, "{value} after {prev}, under {ceiling}");
                }
            }
        }
    }
}
