//! The replicated state of one set, and the function that applies commands to it, [`State::apply`].
//!
//! Every member of the store applies the same commands in the same order. [`State::apply`] is deterministic, because it
//! reads no clock and no random number. It asserts that no epoch, ceiling or incarnation ever falls.
//!
//! A command raises a ceiling only if it names the section's present owner, the incarnation of this owner, and the
//! epoch of its ownership. A new ownership starts at the committed ceiling under the next epoch. So a raise by the
//! previous owner either precedes the new ownership in the log, or is refused. For this reason no number is allocated
//! twice, and no clock is involved.
//!
//! If an owner no longer renews its lease, the store's leader proposes to give the owner's sections to other nodes. The
//! proposal names the liveness counter of the owner as the leader read it. Every renewal, raise and transfer of the
//! owner changes this counter. If such a command is applied after the leader has read the counter, the proposal is
//! refused. So time decides when a takeover is proposed, but not whether it is applied.
//!
//! A section is in one set at a time. Only an entry in the log of this set can send the section to another set, by a
//! tombstone under the next epoch (`moves.rs`). The record of a section is never removed, so a message that arrives
//! late is compared with the section's fence (`record.rs`).

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use crate::directory::{Claim, ClaimRun, Directory};
use crate::id::{
    Epoch, HandoverId, Incarnation, Lineage, Liveness, MigrationId, NodeId, RenewSeq, Revision, RouteVersion,
    SectionId, Seq, SetId,
};
use crate::layout::{self, Layout, SectionRun};
use crate::lease::LeaseTerms;
use crate::limits;
use crate::route::{self, Route, RouteNode, RouteSet, RouteUpdate};
use crate::series::Series;

mod audit;
mod balancing;
mod beginning;
mod closing;
mod command;
mod commands;
mod copies;
mod deaths;
mod events;
mod inheritance;
mod keyspaces;
mod layout_writer;
mod loss;
mod migration;
mod migrations;
mod moves;
mod record;
mod recovery;
mod restore;
mod rules;
mod sections;
mod series;
mod set_command;
mod succession;

pub use audit::{Audit, AuditEvent, AuditHash, AuditRecord, BeginOperation, EndOperation, audit_text};
pub use balancing::{Balancing, MoveSections, Pause, PauseBalancing};
pub use beginning::{BeganBy, Beginning};
pub use closing::Closing;
pub use command::{
    ClaimStoreId, CommandRefusal, Drain, Raise, RaiseCeilings, Reassign, Registration, Renew, SetTerms, Transfer,
    Transferred,
};
pub use commands::{Answer, Command, Fields, Replicated};
pub use copies::{Copies, CopyPart, KeptCopy, KeptFor};
pub use deaths::{Death, Died};
pub use events::{Event, EventKind, EventRecord, Events, Note, Noted, Ownerships, SectionCount, Severity};
pub use inheritance::Inheritance;
pub use keyspaces::CreateKeyspace;
pub use layout_writer::{LayoutWriter, SetLayoutWriter};
pub use loss::{Loss, ReportLoss};
pub use migration::{Migration, Pace, PeerSet, Phase, Scope, SetFacts};
pub use record::{Destination, Quarantine, Residence, SectionRecord, Tombstone};
pub use recovery::{FenceResponse, RecordClaim, Recovery};
pub use rules::Rules;
pub use sections::SectionRecords;
pub use series::{AdoptSeries, CreateSeries, NoteClock, NoteReadsLanes, RetireSeries, StatedSeries};
pub use set_command::{
    Arrival, Arrive, Arrived, Arriving, BeginLineage, Close, Complete, Depart, DepartSilent, EndQuarantine, Fence,
    Forget, Inherit, LearnDirectory, Rollback, SetPace, SetRefusal, StartMigration, StartReturn,
};

/// The committed state of one set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The set's definition; `None` until a command has defined the set.
    pub set: Option<SetDefinition>,
    /// One record for each section of the layout.
    pub sections: SectionRecords,
    /// The AllocSvrs that have registered since the last restore. The node with id `n` has the index `n - 1`.
    pub nodes: Vec<NodeRecord>,
    /// Version of the route table. It grows with each command that changes the table, for example the owner of a
    /// section or the address of a node.
    pub route_version: RouteVersion,
    /// Every Raft id that a member of the store ever had, in ascending order.
    pub store_ids: Vec<u64>,
    /// The lease terms that were set; `None` until the store's first leader has set them. [`State::terms`] returns the
    /// terms in force.
    pub terms: Option<Terms>,
    /// Number of commands that were applied, including refused commands. A restore increases it further, so that no
    /// earlier lineage has reached its value.
    pub revision: Revision,
    /// The history to which this state belongs. Each restore begins another lineage.
    pub lineage: Lineage,
    /// Whether the set takes more sections.
    pub closing: Closing,
    /// Facts that this restored set has learned from other sets while it is in quarantine; `None` outside of
    /// quarantine.
    pub recovery: Option<Recovery>,
    /// The directory: for each section, the set that has it, as far as this log knows. The log knows this from
    /// departures and arrivals of its own, and from claims of other sets.
    pub directory: Directory,
    /// The other sets that this log knows.
    pub sets: BTreeMap<SetId, PeerSet>,
    /// Fences of forgotten sets ([`Forget`]), which are not in `sets`. If a forgotten set becomes known again, this log
    /// still refuses messages of lineages that are older than the set's fence. At most [`limits::MAX_SETS`] fences.
    pub fences: BTreeMap<SetId, Lineage>,
    /// Every migration that began in this set; none is ever removed.
    pub migrations: BTreeMap<MigrationId, Migration>,
    /// Migrations that began in another set. Each of them has brought sections to this set, or was rolled back, so that
    /// its sections are to return. Each is noted with the set in which it began, because only that set can get the
    /// sections back, or decide that they stay here. At most [`limits::MAX_MIGRATIONS`].
    pub foreign_migrations: BTreeMap<MigrationId, SetId>,
    /// Operations of administrators.
    pub audit: Audit,
    /// Changes of the set, for people.
    pub events: Events,
    /// Version of the route table in which another set was last forgotten ([`Forget`]); 0 if none ever was. An AllocSvr
    /// whose copy of the table is older than this version gets the whole table instead of the changed routes, because
    /// changed routes do not show that a set was removed.
    pub forgotten: RouteVersion,
    /// The kept copies of sections whose last owners stopped in an orderly way.
    pub copies: Copies,
    /// Changes that operators made to the placement of sections.
    pub balancing: Balancing,
    /// Evidence that committed entries of the log are gone; `None` if no loss was reported since the last restore.
    pub loss: Option<Loss>,
    /// Amount by which ceilings are raised for each restore.
    pub restore_margin: RestoreMargin,
    /// The series, in the order of their lanes in the layout.
    pub series: Vec<Series>,
    /// The newest layout writer that this log knows from a hand-over or from the statement of another set; `None` if
    /// this log knows neither. In that case, [`State::layout_writer`] returns the first writer, which the set's
    /// definition names.
    pub writer: Option<LayoutWriter>,
    /// Time of the newest restore, in milliseconds since 1970 by the clock of the store; `None` until it is noted. It
    /// is noted just before the quarantine ends, so no earlier lineage has raised a ceiling after this time. If no
    /// series of the set has a clock then, it is noted when the first series with a clock is created.
    pub restored_ms: Option<u64>,
    /// The rules by which commands are applied.
    pub rules: Rules,
}

/// Amount by which ceilings are raised for each restore that a [`Lineage`] counts. If a restore has to raise ceilings
/// by a larger amount, its lineage counts this restore several times. Each restore sets the amount to at least
/// [`limits::RESTORE_MARGIN`]. The amount is part of the state, because an earlier release could begin a lineage with
/// another amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RestoreMargin(pub u64);

impl Default for RestoreMargin {
    fn default() -> RestoreMargin {
        RestoreMargin(limits::RESTORE_MARGIN)
    }
}

/// The replicated settings of leases. The order of numbers depends on them and on the nodes' clocks (promise 2 in
/// `docs/safety.md`). They are replicated so that all members of a store have the same settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Time from the last applied command of a node until the store's leader gives the node's sections to other nodes.
    /// If this time is too short for the node's lease, the leader waits longer ([`Terms::wait_for`]).
    pub lease_wait: Duration,
}

impl Terms {
    /// Terms in force until the first leader has set others.
    pub const DEFAULTS: Terms = Terms { lease_wait: LeaseTerms::DEFAULTS.wait };

    /// Returns the time from the last applied command of an incarnation until the store's leader gives the
    /// incarnation's sections to other nodes. `lease` is the length of the incarnation's leases.
    #[must_use]
    pub fn wait_for(&self, lease: Duration) -> Duration {
        self.lease_wait.max(LeaseTerms::shortest_wait(lease))
    }

    /// Checks that these terms, which are about to be set, are within their bounds.
    ///
    /// # Errors
    /// [`CommandRefusal::BadTerms`].
    pub fn check(self) -> Result<(), CommandRefusal> {
        let is_within = (Duration::from_millis(1)..=limits::MAX_LEASE_WAIT).contains(&self.lease_wait);
        if is_within { Ok(()) } else { Err(CommandRefusal::BadTerms { terms: self }) }
    }
}

impl fmt::Display for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lease_wait {:?}", self.lease_wait)
    }
}

/// Definition of a set. It never changes, except that lanes are appended to the layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetDefinition {
    /// Name of the set.
    pub name: String,
    /// Id of the set in the directory, 1 or above. The proposer of the definition draws it at random.
    pub id: SetId,
    /// The cluster's uids, divided into sections, and the lanes of the cluster's series. No command changes the
    /// division, because uids would then continue with the counters of other uids. Lanes are only appended.
    pub layout: Layout,
    /// The sets in which the sections of the cluster begin, in ascending order of section. Empty for a set that joins
    /// an existing cluster, because such a set gets sections only by migration.
    pub homes: Vec<Home>,
}

/// The set in which neighbouring sections begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Home {
    /// The neighbouring sections.
    pub sections: SectionRun,
    /// The set in which they begin.
    pub set: SetId,
}

impl SetDefinition {
    /// Returns the definition of the first set of a cluster, in which all sections begin.
    #[must_use]
    pub fn first(name: &str, id: SetId, layout: Layout) -> SetDefinition {
        let sections = SectionRun { first: SectionId(0), sections: layout.sections() };
        SetDefinition { name: name.into(), id, layout, homes: Vec::from([Home { sections, set: id }]) }
    }

    /// Returns the definition of a set that joins an existing cluster and begins without sections.
    #[must_use]
    pub fn joining(name: &str, id: SetId, layout: Layout) -> SetDefinition {
        SetDefinition { name: name.into(), id, layout, homes: Vec::new() }
    }

    /// Returns the definition of the first set of a cluster with an id that depends on its name alone, for tests and
    /// simulations.
    #[must_use]
    pub fn only(name: &str, layout: Layout) -> SetDefinition {
        SetDefinition::first(name, SetId(layout::fnv1a(layout::NO_SPACES.0, name.as_bytes())), layout)
    }

    /// Returns whether this is the definition of a set with this name and layout. The id is not compared, because each
    /// member of the store may propose a definition with an id that it drew at random.
    #[must_use]
    pub fn defines(&self, name: &str, layout: &Layout) -> bool {
        self.name == name && self.layout.declared() == layout.declared()
    }

    /// Returns the set with which the cluster began, if this definition names it. That set is the layout writer until
    /// it hands the layout to another set.
    pub(crate) fn first_writer(&self) -> Option<SetId> {
        self.homes.iter().find(|home| home.sections.first == SectionId(0)).map(|home| home.set)
    }

    /// Returns whether the homes are in order, do not overlap and fit the layout.
    fn is_sound(&self) -> bool {
        let mut end = 0;
        self.homes.iter().all(|home| {
            let in_order = home.sections.first.0 >= end;
            end = home.sections.end().unwrap_or(u32::MAX);
            in_order && home.sections.sections > 0 && end <= self.layout.sections()
        })
    }
}

/// Committed state of one AllocSvr.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRecord {
    /// Name in the set file.
    pub name: String,
    /// Address of its port for callers.
    pub addr: String,
    /// Address of its port for peers.
    pub peer_addr: String,
    /// The node's newest incarnation, 1 or above; never falls. The incarnations of a later lineage are above all
    /// incarnations of earlier lineages, so no session of an earlier lineage is mistaken for a later session.
    pub incarnation: Incarnation,
    /// Random number with which the newest incarnation registered. A registration with the same number is a repeat, and
    /// begins no further incarnation.
    pub token: u64,
    /// Number of the last renewal of the newest incarnation.
    pub renew_seq: RenewSeq,
    /// The node's liveness counter: the number of renewals, raises and transfers that were applied for the node in all
    /// its incarnations; never falls. The store's leader observes the counter to find nodes that no longer renew.
    pub liveness: Liveness,
    /// Value of `liveness` when the newest incarnation registered. Only commands of the newest incarnation raise the
    /// counter above this value, because commands of earlier incarnations are now refused.
    pub registered_at: Liveness,
    /// The longest lease of all incarnations of the node that may still serve: of the newest incarnation, and of
    /// earlier incarnations that still own sections.
    pub lease: Duration,
    /// Whether an operator drained the node, so that it is to own nothing.
    pub drained: bool,
    /// Whether the newest incarnation is about to exit.
    pub leaving: bool,
    /// Whether the newest incarnation can own sections of series; see [`NoteReadsLanes`].
    pub reads_lanes: bool,
    /// Number of the process of the newest incarnation ([`Registration::process`]); 0 if the process stated none.
    pub process: u64,
    /// The last reported death of a process of this node, which may be of an earlier incarnation than the newest.
    pub died: Option<Death>,
}

impl State {
    /// Returns the terms in force.
    #[must_use]
    pub fn terms(&self) -> Terms {
        self.terms.unwrap_or(Terms::DEFAULTS)
    }

    /// Checks that the terms in force are long enough for this lease: the store's leader must wait longer than the
    /// lease before it gives the sections of a silent node to other nodes.
    ///
    /// # Errors
    /// [`CommandRefusal::LeaseTooLong`].
    pub fn check_lease(&self, lease: Duration) -> Result<(), CommandRefusal> {
        let terms = self.terms();
        let fits = !lease.is_zero() && terms.wait_for(lease) == terms.lease_wait;
        if fits { Ok(()) } else { Err(CommandRefusal::LeaseTooLong { lease, terms }) }
    }

    /// Returns a node's record.
    #[must_use]
    pub fn node(&self, id: NodeId) -> Option<&NodeRecord> {
        (id.0 as usize).checked_sub(1).and_then(|index| self.nodes.get(index))
    }

    /// Returns every node with its id, in order of id.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &NodeRecord)> {
        (1..).map(NodeId).zip(&self.nodes)
    }

    /// Returns the sections that an incarnation of a node owns and whose owner changed after version `since` of the
    /// route table, in order of section.
    pub fn owned_since(
        &self,
        (node, incarnation): (NodeId, Incarnation),
        since: RouteVersion,
    ) -> impl Iterator<Item = (SectionId, &Residence)> {
        let owns = move |record: &Residence| record.owner == Some(node) && record.incarnation == incarnation;
        let changed = self.sections.changed(since);
        changed
            .filter_map(|(section, record)| Some((section, record.resident()?)))
            .filter(move |(_, record)| owns(record))
    }

    /// Returns the routes that changed after version `since` of the route table; `None` if no route changed, or no set
    /// is defined yet.
    #[must_use]
    pub fn routes_since(&self, since: RouteVersion) -> Option<RouteUpdate> {
        let set = self.set.as_ref()?;
        if since >= self.route_version {
            return None;
        }
        let since = if since < self.forgotten { RouteVersion(0) } else { since };
        Some(RouteUpdate {
            set: set.name.clone(),
            id: set.id,
            layout: set.layout.clone(),
            version: self.route_version,
            base: since,
            nodes: self
                .nodes()
                .map(|(id, node)| (id, RouteNode { name: node.name.clone(), addr: node.addr.clone() }))
                .collect(),
            sets: self.route_sets(since),
            runs: route::runs(self.changed_routes(since).map(|section| (section, self.route(section)))),
            series: self.series.as_slice().into(),
        })
    }

    /// Returns the sections whose route changed after version `since` of the route table, in order.
    fn changed_routes(&self, since: RouteVersion) -> impl Iterator<Item = SectionId> {
        let mut changed: Vec<SectionId> = self.sections.changed(since).map(|(section, _)| section).collect();
        let learned = changed.len();
        changed.extend(self.directory.since(since).flat_map(|run| run.sections.iter()));
        if learned < changed.len() {
            changed.sort_unstable();
            changed.dedup();
        }
        changed.into_iter()
    }

    /// Returns the route of a section. If this log's record has the section in this set, the route leads to the
    /// section's owner. Even a newer claim of another set does not change this, because only an entry of this log could
    /// have sent the section away. Otherwise the route leads to the set that has the section as far as this log knows.
    fn route(&self, section: SectionId) -> Route {
        let record = self.sections.get(section).copied().unwrap_or_default();
        if let SectionRecord::Resident(residence) = record {
            return Route::here(residence.owner, residence.epoch);
        }
        let own = self.set.as_ref().map(|set| set.id);
        match self.directory.get(section) {
            Some(claim) if Some(claim.set) != own => Route::away(claim.set, claim.since.max(record.fence())),
            _ => Route::here(None, record.fence()),
        }
    }

    /// Returns the facts that this set states about itself to other sets; `None` before the set is defined. `stores`
    /// has the addresses of the members of this set's store.
    #[must_use]
    pub fn facts(&self, stores: Vec<String>) -> Option<SetFacts> {
        let set = self.set.as_ref()?;
        let allocs = self.nodes.iter().filter(|node| !node.leaving).take(limits::MAX_SET_ADDRS);
        Some(SetFacts {
            id: set.id,
            lineage: self.lineage,
            revision: self.revision,
            name: set.name.clone(),
            stores,
            allocs: allocs.map(|node| node.addr.clone()).collect(),
            closing: self.closing,
            refuses: self.refuses(),
            inherited: self.inherited(),
            quarantined: self.is_quarantined(),
        })
    }

    fn route_sets(&self, since: RouteVersion) -> BTreeMap<SetId, RouteSet> {
        let changed = self.sets.iter().filter(|(_, peer)| peer.routed > since);
        let facts = changed.filter_map(|(id, peer)| Some((*id, peer.facts.as_ref()?)));
        facts.map(|(id, facts)| (id, RouteSet { name: facts.name.clone(), allocs: facts.allocs.clone() })).collect()
    }

    fn define_set(&mut self, given: &SetDefinition) -> Result<(), CommandRefusal> {
        match &self.set {
            None if !given.is_sound() => Err(SetRefusal::BadRuns.into()),
            None => {
                self.sections = SectionRecords::new(given.layout.sections());
                let own = given.homes.iter().filter(|home| home.set == given.id);
                let first = Residence { began: Beginning::FIRST, ..Residence::default() };
                for section in own.flat_map(|home| home.sections.iter()) {
                    self.advance(section, SectionRecord::Resident(first));
                }
                let claim =
                    |home: &Home| ClaimRun { sections: home.sections, claim: Claim { since: Epoch(0), set: home.set } };
                let version = self.route_version.next();
                if given.homes.iter().any(|home| home.set != given.id) {
                    self.route_version = version;
                }
                self.directory.merge(&given.homes.iter().map(claim).collect::<Vec<_>>(), version);
                self.set = Some(given.clone());
                self.note_event(EventRecord::SetDefined { set: given.id });
                Ok(())
            }
            // A definition with another id is from a proposal that came second, so the stored definition stays.
            Some(stored) if stored.defines(&given.name, &given.layout) => Ok(()),
            Some(stored) => {
                Err(CommandRefusal::OtherSet { stored: Box::new(stored.clone()), given: Box::new(given.clone()) })
            }
        }
    }

    fn set_terms(&mut self, command: &SetTerms) -> Result<(), CommandRefusal> {
        let SetTerms { replaces, terms } = *command;
        terms.check()?;
        // A repeat of a change that was already applied has the same result as the change.
        if self.terms != replaces && self.terms != Some(terms) {
            return Err(CommandRefusal::OtherTerms { current: self.terms() });
        }
        if self.terms.replace(terms) != Some(terms) {
            let lease_wait_ms = u64::try_from(terms.lease_wait.as_millis()).unwrap_or(u64::MAX);
            self.note_event(EventRecord::Terms { lease_wait_ms });
        }
        Ok(())
    }

    fn register(&mut self, registration: &Registration) -> Result<(NodeId, Incarnation), CommandRefusal> {
        let Registration { name, addr, peer_addr, token, lease, follows, seen, process } = registration;
        if self.set.is_none() {
            return Err(CommandRefusal::NoSet);
        }
        self.refuse_after_loss()?;
        self.check_lease(*lease)?;
        // The process has received no response to this command yet, so the revision of this command must be above
        // `seen`.
        if self.revision <= *seen {
            return Err(CommandRefusal::StoreBehind { current: self.revision, seen: *seen });
        }
        let known = self.nodes.iter().position(|node| node.name == *name);
        known.map_or(Ok(()), |index| self.refuse_dead(index, *process))?;
        if let Some(index) = known.filter(|index| self.nodes[*index].token == *token) {
            return Ok((NodeId(index as u32 + 1), self.nodes[index].incarnation));
        }
        // The first incarnation in a lineage follows a number that is above all incarnations of older lineages.
        let first = self.lineage.first_number();
        let current = known.map_or(Incarnation(first), |index| self.nodes[index].incarnation);
        if current != *follows {
            return Err(CommandRefusal::OtherPredecessor { name: name.clone(), current, given: *follows });
        }
        let index = match known {
            Some(index) => {
                let owns = |(_, record): (SectionId, &Residence)| record.owner == Some(NodeId(index as u32 + 1));
                // The previous incarnation may serve until its lease is over, if it owns sections.
                let earlier =
                    if self.sections.residents().any(owns) { self.nodes[index].lease } else { Duration::ZERO };
                let node = &mut self.nodes[index];
                node.incarnation = node.incarnation.next();
                node.token = *token;
                node.process = *process;
                node.renew_seq = RenewSeq(0);
                node.leaving = false;
                node.reads_lanes = false;
                node.registered_at = node.liveness;
                node.lease = earlier.max(*lease);
                node.peer_addr.clone_from(peer_addr);
                if node.addr != *addr {
                    node.addr.clone_from(addr);
                    self.route_version.0 += 1;
                }
                index
            }
            None if self.nodes.len() == limits::MAX_NODES => return Err(CommandRefusal::TooManyNodes),
            None => {
                self.nodes.push(NodeRecord {
                    name: name.clone(),
                    addr: addr.clone(),
                    peer_addr: peer_addr.clone(),
                    incarnation: Incarnation(first).next(),
                    token: *token,
                    renew_seq: RenewSeq(0),
                    liveness: Liveness(first),
                    registered_at: Liveness(first),
                    lease: *lease,
                    drained: false,
                    leaving: false,
                    reads_lanes: false,
                    process: *process,
                    died: None,
                });
                self.route_version.0 += 1;
                self.nodes.len() - 1
            }
        };
        let (node, incarnation) = (NodeId(index as u32 + 1), self.nodes[index].incarnation);
        self.note_event(EventRecord::Registered { node: name.clone(), incarnation });
        Ok((node, incarnation))
    }

    fn renew(&mut self, renew: &Renew) -> Result<(), CommandRefusal> {
        let Renew { node: id, incarnation, renew_seq, copies, released, taken, leaving } = renew;
        let (id, incarnation, renew_seq) = (*id, *incarnation, *renew_seq);
        self.living(id, incarnation)?;
        let node = &mut self.nodes[id.0 as usize - 1];
        let repeat = renew_seq == node.renew_seq;
        if !repeat && renew_seq.0 != node.renew_seq.0 + 1 {
            return Err(CommandRefusal::OtherRenewal { node: id, current: node.renew_seq, given: renew_seq });
        }
        node.renew_seq = renew_seq;
        // A repeat counts too, because the node counts its lease from the time when it sent the repeat.
        node.liveness = node.liveness.next();
        let was_leaving = core::mem::replace(&mut node.leaving, *leaving);
        if *leaving && !was_leaving {
            let node = self.node_name(id);
            self.note_event(EventRecord::Leaving { node, incarnation });
        }
        self.keep_copies(id, incarnation, copies);
        self.release(id, incarnation, released);
        self.drop_taken(id, incarnation, taken);
        Ok(())
    }

    /// Ends the ownerships in `released`, which the incarnation gives up. These sections have no owner until the
    /// store's leader has assigned one.
    fn release(&mut self, node: NodeId, incarnation: Incarnation, released: &[(SectionId, Epoch)]) {
        let version = RouteVersion(self.route_version.0 + 1);
        for &(section, epoch) in released {
            if let Some(record) = self.owned_under(node, incarnation, section, epoch) {
                let next = Residence {
                    epoch: record.epoch.next(),
                    owner: None,
                    incarnation: Incarnation(0),
                    routed: version,
                    handover_id: HandoverId(0),
                    ..record
                };
                self.advance(section, SectionRecord::Resident(next));
                self.route_version = version;
            }
        }
    }

    /// Returns the residence of a section if this incarnation of the node owns the section under this epoch.
    fn owned_under(
        &self,
        node: NodeId,
        incarnation: Incarnation,
        section: SectionId,
        epoch: Epoch,
    ) -> Option<Residence> {
        let owns =
            |record: &&Residence| (record.owner, record.incarnation, record.epoch) == (Some(node), incarnation, epoch);
        self.sections.resident(section).filter(owns).copied()
    }

    fn raise(&mut self, command: &RaiseCeilings) -> Result<Vec<Option<Seq>>, CommandRefusal> {
        let RaiseCeilings { node, incarnation, raises } = command;
        let (node, incarnation) = (*node, *incarnation);
        self.living(node, incarnation)?;
        let liveness = &mut self.nodes[node.0 as usize - 1].liveness;
        *liveness = liveness.next();
        // The distance of a raise is bounded per command, so a section that is listed twice is raised only once. An
        // AllocSvr sends the raises sorted by section, and a sorted list has no duplicates.
        let distinct = raises.is_sorted_by(|one, next| one.section < next.section);
        let mut raised = BTreeSet::new();
        let copies = &mut self.copies;
        let layout = self.set.as_ref().map(|set| &set.layout);
        let raise_one = |raise: &Raise| {
            if !distinct && !raised.insert(raise.section) {
                return None;
            }
            let record = self.sections.resident_mut(raise.section)?;
            let owns = record.owner == Some(node) && record.incarnation == incarnation && record.epoch == raise.epoch;
            if !owns || raise.to > Seq::MAX {
                return None;
            }
            // The leader limited ceilings of ticks by its clock before it proposed this command.
            let is_ticks = layout.is_some_and(|layout| layout.clock_of(raise.section).is_some());
            let bound = if is_ticks { Seq::MAX } else { Seq(record.max_seq.0.saturating_add(limits::MAX_RAISE)) };
            record.advance(Residence { max_seq: record.max_seq.max(raise.to.min(bound)), ..*record });
            copies.on_started(raise.section, raise.epoch);
            Some(record.max_seq)
        };
        Ok(raises.iter().map(raise_one).collect())
    }

    fn reassign(&mut self, reassigns: &[Reassign]) -> Vec<Option<Epoch>> {
        let version = RouteVersion(self.route_version.0 + 1);
        let mut outcome = Vec::with_capacity(reassigns.len());
        for change in reassigns {
            outcome.push(self.reassign_one(change, version));
        }
        if outcome.iter().any(Option::is_some) {
            self.route_version = version;
        }
        outcome
    }

    fn reassign_one(&mut self, change: &Reassign, version: RouteVersion) -> Option<Epoch> {
        self.refuse_after_loss().ok()?;
        self.living(change.to, change.incarnation).ok()?;
        let record = *self.sections.resident(change.section)?;
        if record.epoch != change.expected || self.owner_liveness(&record) != change.liveness {
            return None;
        }
        let epoch = record.epoch.next();
        let next = Residence {
            epoch,
            owner: Some(change.to),
            incarnation: change.incarnation,
            routed: version,
            handover_id: HandoverId(0),
            ..record
        };
        self.advance(change.section, SectionRecord::Resident(next));
        Some(epoch)
    }

    /// Returns the liveness counter of a section's owner; `None` if the section has no owner, or the owner has
    /// registered a newer incarnation since it got the section.
    fn owner_liveness(&self, record: &Residence) -> Option<Liveness> {
        let owner = record.owner.and_then(|owner| self.node(owner))?;
        (owner.incarnation == record.incarnation).then_some(owner.liveness)
    }

    fn transfer(&mut self, transfer: &Transfer) -> Result<Transferred, CommandRefusal> {
        let Transfer { section, epoch, from, incarnation, to, to_incarnation, handover_id } = *transfer;
        self.living(from, incarnation)?;
        let target = self.living(to, to_incarnation).and_then(|()| self.staying(to));
        let version = RouteVersion(self.route_version.0 + 1);
        let other = |current| CommandRefusal::OtherOwnership { section, current, from, given: epoch };
        let fence = self.sections.get(section).map_or(Epoch(0), SectionRecord::fence);
        let mut record = *self.sections.resident(section).ok_or(other(fence))?;
        let owns = (record.epoch, record.owner, record.incarnation) == (epoch, Some(from), incarnation);
        // The epoch comes from a request, so it is incremented only by a checked addition.
        let began = (Some(record.epoch.0), record.owner, record.incarnation, record.handover_id);
        let asked = (epoch.0.checked_add(1), Some(to), to_incarnation, handover_id);
        let repeat = began == asked && handover_id != HandoverId(0);
        if !owns && !repeat {
            return Err(other(record.epoch));
        }
        if owns {
            // This check comes last, because a repeat of a committed transfer must not be refused if the next owner has
            // exited since. After such a refusal, the previous owner would resume serving the section.
            target?;
            record = Residence {
                epoch: record.epoch.next(),
                owner: Some(to),
                incarnation: to_incarnation,
                routed: version,
                handover_id,
                ..record
            };
            self.advance(section, SectionRecord::Resident(record));
            self.route_version = version;
        }
        let made = Transferred { epoch: record.epoch, max_seq: record.max_seq };
        let liveness = &mut self.nodes[from.0 as usize - 1].liveness;
        *liveness = liveness.next();
        Ok(made)
    }

    fn drain(&mut self, drain: &Drain) -> Result<NodeId, CommandRefusal> {
        let Drain { name, drained } = drain;
        let unknown = || CommandRefusal::UnknownName { name: name.clone() };
        let index = self.nodes.iter().position(|node| node.name == *name).ok_or_else(unknown)?;
        let node = NodeId(index as u32 + 1);
        if core::mem::replace(&mut self.nodes[index].drained, *drained) != *drained {
            self.note_event(EventRecord::Drained { node: name.clone(), drained: *drained });
        }
        Ok(node)
    }

    fn claim_store_id(&mut self, claim: &ClaimStoreId) -> bool {
        let ClaimStoreId { id } = *claim;
        match self.store_ids.binary_search(&id) {
            Ok(_) => false,
            Err(place) => {
                self.store_ids.insert(place, id);
                true
            }
        }
    }

    /// Refuses a handover to a node that is about to exit, because the process may be gone before it serves the
    /// section.
    fn staying(&self, node: NodeId) -> Result<(), CommandRefusal> {
        match self.node(node).filter(|record| record.leaving && self.rules >= Rules::Nine) {
            Some(record) => Err(CommandRefusal::TargetLeaves { node, incarnation: record.incarnation }),
            None => Ok(()),
        }
    }

    fn living(&self, id: NodeId, given: Incarnation) -> Result<(), CommandRefusal> {
        let node = self.node(id).ok_or(CommandRefusal::UnknownNode { node: id })?;
        if node.incarnation != given {
            return Err(CommandRefusal::OtherIncarnation { node: id, current: node.incarnation, given });
        }
        if node.has_died(given) {
            return Err(CommandRefusal::ProcessDied { node: id, incarnation: given });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
