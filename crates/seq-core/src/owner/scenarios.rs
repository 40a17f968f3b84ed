//! Runs the scenarios in `testdata/owner`. They show the decisions of the [`Owner`] of an AllocSvr, and the lease that
//! the AllocSvr keeps.
//!
//! The node's set has four sections of 100 uids. All clocks of the node run at the same rate, from zero.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use super::handover::{Commit, Handover, HandoverOffer, HandoverRequest};
use super::*;
use crate::arbiter::Departure;
use crate::id::{Lineage, MigrationId, SetId, SlotIndex};
use crate::lease::Lease;
use crate::route::{Route, RouteNode, RouteRun};
use crate::section::{AnyCopy, Distance, SectionCopy};
use crate::testdata::{Command, Machine, Value, run_all};

const TERMS: LeaseTerms = LeaseTerms::DEFAULTS;

/// The nodes of the set.
const NODES: [u32; 3] = [1, 2, 3];

#[test]
fn owners_decide_as_their_scenarios_state() {
    run_all("owner", Scenario::new);
}

fn layout() -> Layout {
    Layout::new(0..400, 100).expect("it is valid")
}

/// The owner, and the state that an AllocSvr keeps for it.
struct Scenario {
    owner: Owner,
    lease: Lease,
    now: Duration,
    /// The last renewal, and the time when it was sent.
    renewal: Option<(Renewal, Clocks)>,
    /// The handover attempts of this node as a source, each with the time when its last request was sent.
    attempts: Vec<(Handover, Clocks)>,
}

impl Machine for Scenario {
    /// Carries out one command of a scenario. The commands are:
    ///
    /// * `clock DURATION` lets time pass.
    /// * `registered node= incarnation=`, `session-over`, `leaving`, `withdrawn` and `reachable` are the events of
    ///   these names. `restarted` replaces the process with another process, which has no state.
    /// * `renew` sends a renewal, and `renewed UPDATE` is its response. `raised OWNERSHIP sent= UPDATE`, `raise-failed
    ///   OWNERSHIP` and `lost OWNERSHIP` are responses to a raise. `peer-routes ROUTES` are routes from a peer.
    /// * An UPDATE consists of ROUTES, `grants=SECTION@EPOCH:CEILING[:ATTEMPT],..`,
    ///   `planned=SECTION@EPOCH->NODE/INCARNATION,..` and `no-other-candidate`; with `to-set=` the planned handovers go
    ///   to nodes of that set. ROUTES consist of `version=`, `base=` unless they are the whole table, and
    ///   `routes=SECTION:NODE@EPOCH,..`, where NODE is `none`, or `set2` for a section that is in another set.
    /// * If the node is the source, these commands are responses in the last attempt, or in the attempt `attempt=`:
    ///   `prepare-accepted`, `prepare-refused`, `copy-staged`, `copy-refused`, `commit made UPDATE`, `commit unknown`,
    ///   `commit target-gone`, `commit migration-over`, `commit unknown-migration`, `commit lost`.
    /// * If the node is the target, these commands are requests of a source: `prepare OWNERSHIP attempt= incarnation=`,
    ///   with `from-set=` if the section comes from another set; `stage` with the same arguments and
    ///   `copy=SLOT:NUMBER,..`; `activate`.
    /// * `owns` shows the served sections.
    fn carry_out(&mut self, command: &Command<'_>, out: &mut String) {
        let mut effects = Effects::new();
        let result = match command.name() {
            "clock" => {
                self.now += command.word::<Duration>();
                *out += &format!("now {:?}, {}\n", self.now, self.lease_left());
                Ok(())
            }
            "owns" => {
                *out += &self.owns();
                Ok(())
            }
            "renew" => {
                *out += &self.renew(command);
                Ok(())
            }
            "prepare" | "stage" | "activate" => {
                self.offered(command, &mut effects, out);
                Ok(())
            }
            "prepare-accepted" | "prepare-refused" | "copy-staged" | "copy-refused" | "commit" => {
                self.responded(command, &mut effects)
            }
            _ => self.notified(command, &mut effects),
        };
        for effect in &effects {
            *out += &format!("{}\n", self.carry_out_effect(effect));
        }
        for effect in effects {
            if let Effect::Table(TableEffect::Freeze { section, epoch }) = effect {
                // One uid of each section has numbers.
                self.owner.on_frozen(section, epoch, &one_slot(SlotIndex(2), 40).into());
            }
        }
        if let Err(error) = result {
            *out += &format!("not adopted: {error}\n");
        }
    }
}

impl Scenario {
    fn new() -> Scenario {
        Scenario {
            owner: Owner::new("s", layout(), TERMS),
            lease: Lease::default(),
            now: Duration::ZERO,
            renewal: None,
            attempts: Vec::new(),
        }
    }

    fn clocks(&self) -> Clocks {
        clocks(self.now)
    }

    /// Carries out a command other than a response or a request of a handover.
    fn notified(&mut self, command: &Command<'_>, effects: &mut Effects) -> Result<(), AdoptError> {
        let now = self.clocks();
        match command.name() {
            "registered" => {
                self.owner
                    .on_registered(Session { node: command.get("node"), incarnation: command.get("incarnation") });
            }
            "restarted" => *self = Scenario { now: self.now, ..Scenario::new() },
            "leaving" => self.owner.leave(),
            "withdrawn" => self.owner.withdraw(true),
            "reachable" => self.owner.withdraw(false),
            "session-over" => {
                let session = self.session(command);
                self.owner.on_session_over(session, effects);
            }
            "renewed" => {
                let (renewal, sent) = self.renewal.clone().unwrap_or_else(|| command.fail("no renewal was sent"));
                return self.owner.on_renewed(&renewal, sent, update(command), effects);
            }
            "raised" => {
                let session = self.session(command);
                self.owner.on_raised(&[command.word()]);
                return self.owner.on_update(session, clocks(command.get("sent")), update(command), effects);
            }
            "raise-failed" => self.owner.on_raise_failed(&[command.word()], now),
            "lost" => self.owner.on_lost(&[command.word()], effects),
            "peer-routes" => {
                let routes = routes(command).unwrap_or_else(|| command.fail("version= is missing"));
                return self.owner.on_peer_routes(&routes, effects);
            }
            _ => command.unknown(),
        }
        Ok(())
    }

    /// Carries out the response to a request that this node, as a source, sent for a handover.
    fn responded(&mut self, command: &Command<'_>, effects: &mut Effects) -> Result<(), AdoptError> {
        let attempt = command.find::<u32>("attempt").map_or(self.attempts.len(), |number| number as usize);
        let found = attempt.checked_sub(1).and_then(|index| self.attempts.get(index));
        let (handover, sent) = found.unwrap_or_else(|| command.fail("no such attempt")).clone();
        match command.name() {
            "prepare-accepted" => self.owner.on_prepared(&handover, true, 0, effects),
            "prepare-refused" => self.owner.on_prepared(&handover, false, 0, effects),
            "copy-staged" => self.owner.on_staged(&handover, true, effects),
            "copy-refused" => self.owner.on_staged(&handover, false, effects),
            _ => {
                let commit = match command.word::<String>().as_str() {
                    "made" => Commit::Made(Some(update(command))),
                    "unknown" => Commit::Unknown,
                    "target-gone" | "migration-over" => Commit::Refused,
                    "unknown-migration" => Commit::Inconclusive,
                    "lost" => Commit::Lost,
                    other => command.fail(&format!("`{other}` is no outcome of a commit")),
                };
                return self.owner.on_committed(&handover, sent, commit, effects);
            }
        }
        Ok(())
    }

    /// Carries out the request of a peer that hands a section over to this node.
    fn offered(&mut self, command: &Command<'_>, effects: &mut Effects, out: &mut String) {
        let (section, epoch) = command.word();
        let incarnation = command.get("incarnation");
        let offer = HandoverOffer {
            section,
            epoch,
            handover_id: command.get("attempt"),
            incarnation,
            from_set: command.find("from-set").unwrap_or_default(),
        };
        let result = match command.name() {
            "prepare" => self.owner.on_prepare(&offer),
            "stage" => {
                let distances = command.list("copy").into_iter().map(|Slot(slot, distance)| (slot, distance)).collect();
                self.owner.on_stage(&offer, SectionCopy { base: Seq(0), distances })
            }
            _ => self.owner.on_activate(&offer, effects),
        };
        match result {
            Ok(()) => *out += "accepted\n",
            Err(refusal) => *out += &format!("refused: {refusal}\n"),
        }
    }

    fn renew(&mut self, command: &Command<'_>) -> String {
        let renewal = self.owner.renewal().unwrap_or_else(|| command.fail("there is no incarnation"));
        let Renewal { session, renew_seq, route_version, .. } = renewal;
        let mut text = format!("send renewal {renew_seq} of incarnation {}, ", session.incarnation);
        text += &match route_version {
            RouteVersion(0) => String::from("requesting all routes"),
            version => format!("requesting routes after version {version}"),
        };
        for (index, (section, epoch)) in renewal.released.iter().enumerate() {
            let what = if index == 0 { ", releasing" } else { " and" };
            text += &format!("{what} section {section} epoch {epoch}");
        }
        for part in &renewal.copies {
            text += &format!(", with the copy of section {} epoch {}", part.section, part.epoch);
        }
        for (section, epoch) in &renewal.taken {
            text += &format!(", having started section {section} epoch {epoch}");
        }
        text += if renewal.leaving { ", leaving\n" } else { "\n" };
        self.renewal = Some((renewal, self.clocks()));
        text
    }

    /// Returns the incarnation that a command names, or the current incarnation.
    fn session(&self, command: &Command<'_>) -> Session {
        let session = self.owner.session().or(self.renewal.as_ref().map(|(renewal, _)| renewal.session));
        let session = session.unwrap_or_else(|| command.fail("there is no incarnation"));
        Session { incarnation: command.find("incarnation").unwrap_or(session.incarnation), ..session }
    }

    fn lease_left(&self) -> String {
        match self.lease.left(self.clocks()) {
            Duration::ZERO => String::from("without a lease"),
            left => format!("the lease lasts {left:?} more"),
        }
    }

    fn owns(&self) -> String {
        let owned: Vec<_> =
            self.owner.owned().map(|(section, epoch)| format!("section {section} epoch {epoch}")).collect();
        match (owned.is_empty(), self.owner.is_empty()) {
            (false, _) => format!("{}\n", owned.join(", ")),
            (true, false) => String::from("nothing, and the store has yet to apply what is released\n"),
            (true, true) => String::from("nothing\n"),
        }
    }

    /// Carries out an effect as an AllocSvr does, with changes of the lease and notes of the sent requests, and returns
    /// its description.
    fn carry_out_effect(&mut self, effect: &Effect) -> String {
        match effect {
            Effect::Table(effect) => self.describe_table(effect),
            Effect::Lease(LeaseEffect::Extend { sent }) => {
                let lasted = self.now + self.lease.left(self.clocks());
                self.lease.extend(*sent, TERMS.served());
                let sent = Duration::from_nanos(sent.boottime);
                let end = sent + TERMS.served();
                let already = match lasted {
                    _ if end <= self.now => String::from(", which is over"),
                    lasted if lasted > end => format!("; it lasts to {lasted:?} already"),
                    _ => String::new(),
                };
                format!("extend the lease to {end:?}, counted from {sent:?}{already}")
            }
            Effect::Lease(LeaseEffect::End) => {
                self.lease.end();
                String::from("end the lease")
            }
            Effect::Send(request) => self.send(request),
            Effect::RenewNow => String::from("renew now"),
            Effect::CopyLost { section, epoch, why } => format!("copy lost: section {section} epoch {epoch}: {why}"),
        }
    }

    fn describe_table(&self, effect: &TableEffect) -> String {
        match effect {
            TableEffect::Publish => {
                let version = self.owner.routes().map_or(RouteVersion(0), |routes| routes.version());
                format!("publish routes of version {version}")
            }
            TableEffect::Enter { section, epoch, ceiling, copy } => {
                let start = copy.as_ref().map_or(String::from("every uid at the ceiling"), describe_copy);
                format!("enter section {section} epoch {epoch}: ceiling {ceiling}, {start}")
            }
            TableEffect::Leave { section, epoch } => format!("leave section {section} epoch {epoch}"),
            TableEffect::Freeze { section, epoch } => format!("freeze section {section} epoch {epoch} to release it"),
            TableEffect::Thaw { section, epoch } => format!("thaw section {section} epoch {epoch}"),
        }
    }

    fn send(&mut self, request: &HandoverRequest) -> String {
        let (what, handover) = match request {
            HandoverRequest::Prepare(handover) => ("prepare", handover),
            HandoverRequest::Stage(handover) => ("freeze, copy and stage", handover),
            HandoverRequest::Commit(handover) => ("commit", handover),
            HandoverRequest::Activate(handover) => ("activate", handover),
        };
        let now = self.clocks();
        let attempt = self.attempts.iter().position(|(one, _)| one == handover).unwrap_or(self.attempts.len());
        if attempt == self.attempts.len() {
            self.attempts.push((handover.clone(), now));
        }
        self.attempts[attempt].1 = now;
        let Handover { section, epoch, to, incarnation, departure, .. } = handover;
        let attempt = attempt + 1;
        let set = departure.as_ref().map(|departure| format!(" of set {}", departure.set)).unwrap_or_default();
        format!("{what} section {section} epoch {epoch} to node {to}{set} incarnation {incarnation}, attempt {attempt}")
    }
}

fn clocks(now: Duration) -> Clocks {
    let nanos = now.as_nanos() as u64;
    Clocks { boottime: nanos, raw: nanos, realtime: nanos }
}

fn describe_copy(copy: &AnyCopy) -> String {
    let AnyCopy::Slots(copy) = copy else { unreachable!("no scenario has a keyspace") };
    let slots =
        copy.distances.iter().map(|(slot, distance)| format!("slot {slot} at {}", copy.base.0 + distance.get()));
    let slots: Vec<_> = slots.collect();
    format!("{}, every other uid at {}", slots.join(", "), copy.base)
}

/// Reads the ownership update of a response.
fn update(command: &Command<'_>) -> OwnershipUpdate {
    let to_set = |set| Departure { set, lineage: Lineage(0), migration: MigrationId(1), addr: "b1:1".to_string() };
    let departure = command.find("to-set").map(|set| Arc::new(to_set(set)));
    let planned = |Planned { ownership: (section, epoch), to, incarnation }: Planned| PlannedHandover {
        section,
        epoch,
        from: NodeId(1),
        to,
        incarnation,
        departure: departure.clone(),
    };
    OwnershipUpdate {
        routes: routes(command),
        grants: command.list("grants"),
        handovers: command.list("planned").into_iter().map(planned).collect(),
        no_other_candidate: command.has("no-other-candidate"),
        copies: command.list("copies"),
        mark: Mark::default(),
    }
}

fn routes(command: &Command<'_>) -> Option<RouteUpdate> {
    let node = |id: u32| {
        let name = format!("a{id}");
        (NodeId(id), RouteNode { addr: name.clone() + ":1", name })
    };
    Some(RouteUpdate {
        version: command.find("version")?,
        set: command.find("set").unwrap_or_else(|| "s".to_string()),
        id: SetId(1),
        sets: BTreeMap::new(),
        layout: layout(),
        base: command.find("base").unwrap_or_default(),
        nodes: NODES.map(node).into(),
        runs: command.list("routes").into_iter().map(|Routed(run)| run).collect(),
        series: [].into(),
    })
}

struct Routed(RouteRun);

impl Value for Routed {
    const WHAT: &str = "a route, as SECTION:NODE@EPOCH, SECTION:none@EPOCH or SECTION:setSET@EPOCH";

    fn parse(text: &str) -> Option<Routed> {
        let (section, route) = text.split_once(':')?;
        let (owner, epoch) = route.split_once('@')?;
        let epoch = Epoch::parse(epoch)?;
        let route = match (owner, owner.strip_prefix("set")) {
            ("none", _) => Route::here(None, epoch),
            (_, Some(set)) => Route::away(SetId::parse(set)?, epoch),
            _ => Route::here(Some(NodeId::parse(owner)?), epoch),
        };
        Some(Routed(RouteRun { first: SectionId::parse(section)?, sections: 1, route }))
    }
}

impl Value for Grant {
    const WHAT: &str = "a grant, as SECTION@EPOCH:CEILING, SECTION@EPOCH:CEILING:ATTEMPT or SECTION@EPOCH:CEILING:kept";

    fn parse(text: &str) -> Option<Grant> {
        let (ownership, rest) = text.split_once(':')?;
        let (section, epoch) = Value::parse(ownership)?;
        let (ceiling, how) = rest.split_once(':').unwrap_or((rest, "0"));
        let copied = how == "kept";
        let handover_id = if copied { HandoverId(0) } else { HandoverId::parse(how)? };
        Some(Grant { section, epoch, ceiling: Seq(u64::parse(ceiling)?), handover_id, copied })
    }
}

impl Value for GrantedCopy {
    const WHAT: &str = "a kept copy, as SECTION@EPOCH:SLOT:NUMBER";

    fn parse(text: &str) -> Option<GrantedCopy> {
        let (ownership, slot) = text.split_once(':')?;
        let (section, epoch) = Value::parse(ownership)?;
        let Slot(slot, distance) = Slot::parse(slot)?;
        let bytes = Arc::new(one_slot(slot, distance.get()).encode());
        Some(GrantedCopy { section, epoch, highest: Seq(distance.get()), bytes })
    }
}

/// Creates the copy of a section in which one uid has numbers.
fn one_slot(slot: SlotIndex, number: u64) -> SectionCopy {
    let distance = Distance::new(number, false).expect("it is above 0");
    SectionCopy { base: Seq(0), distances: Vec::from([(slot, distance)]) }
}

struct Planned {
    ownership: (SectionId, Epoch),
    to: NodeId,
    incarnation: Incarnation,
}

impl Value for Planned {
    const WHAT: &str = "a planned handover, as SECTION@EPOCH->NODE/INCARNATION";

    fn parse(text: &str) -> Option<Planned> {
        let (ownership, to) = text.split_once("->")?;
        let (node, incarnation) = to.split_once('/')?;
        Some(Planned {
            ownership: Value::parse(ownership)?,
            to: Value::parse(node)?,
            incarnation: Value::parse(incarnation)?,
        })
    }
}

/// A touched slot of a copy whose base is 0.
struct Slot(SlotIndex, Distance);

impl Value for Slot {
    const WHAT: &str = "a slot of a copy, as SLOT:NUMBER";

    fn parse(text: &str) -> Option<Slot> {
        let (slot, number) = text.split_once(':')?;
        Some(Slot(SlotIndex(u32::parse(slot)?), Distance::new(u64::parse(number)?, false)?))
    }
}
