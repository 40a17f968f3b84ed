//! Format 8. To format 7, it adds the records about other sets that exist since [`Rules::Eight`](state::Rules::Eight),
//! and the record that the store has lost entries.
//!
//! ```text
//! command   body of format 7, whose last byte is 0 or 1; or a body of this format, and a last byte of 2
//! state     body of format 7; body of the rest; last 4 bytes: length of the rest, little-endian
//! ```
//!
//! A command that has more fields than in format 7 is always encoded in the new form, even if the additional fields are
//! empty.

use std::time::Duration;

use rkyv::rancor;
use rkyv::{Archive, Deserialize, Serialize};
use seq_core::state::{
    self, Command, Complete, Forget, Inherit, Inheritance, LearnDirectory, Loss, PeerSet, Recovery, ReportLoss,
    SetFacts,
};
use seq_core::{Incarnation, Lineage, MigrationId, Revision, RouteVersion, SectionId, SetId};
use seq_raft::Malformed;

use super::command::nanos;
use super::recovery_columns::FenceResponse;
use super::set_command::{Claims, Facts};
use super::{Contradiction, aligned, append, malformed, split};

/// Last byte of the encoding of a command that this format adds or extends.
const ADDED: u8 = 2;

/// Archived form of a command that format 7 does not have, or has with fewer fields. The order of the variants is part
/// of the format.
#[derive(Archive, Serialize, Deserialize, Debug)]
enum Added {
    LearnRecords(Page),
    LearnDirectory { from: Option<u64>, claims: Claims, sets: Vec<StatedFacts> },
    Complete { id: u64, by: Option<u64> },
    Inherit(Page),
    Forget { set: u64 },
    ReportLoss { node: String, incarnation: u64, seen: u64, certain: bool },
}

/// Archived form of a page of another set's records, with the longest time for which a session of that set may serve,
/// and with the sets whose records that set has inherited.
#[derive(Archive, Serialize, Deserialize, Debug)]
struct Page {
    records: FenceResponse,
    wait_nanos: u64,
    inherited: WithLineages,
}

/// Archived form of sets with a lineage for each.
#[derive(Archive, Serialize, Deserialize, Debug, Default)]
struct WithLineages {
    sets: Vec<u64>,
    lineages: Vec<u64>,
}

/// Archived form of the facts that a set states about itself, including the facts that this format adds.
#[derive(Archive, Serialize, Deserialize, Debug)]
struct StatedFacts {
    facts: Facts,
    more: MoreFacts,
}

/// Archived form of the facts about a set that this format adds.
#[derive(Archive, Serialize, Deserialize, Debug, Default)]
struct MoreFacts {
    quarantined: bool,
    inherited: WithLineages,
}

/// Archived form of the parts of a state that this format adds. The vectors about other sets are in the order of these
/// sets' ids.
#[derive(Archive, Serialize, Deserialize, Debug)]
struct Rest {
    /// Closed sets, from which a set in quarantine needs no response.
    closed: Vec<u64>,
    /// Sets whose records a set in quarantine has received in the responses of the sets that inherited them.
    inherited: WithLineages,
    migrations: Vec<u64>,
    /// For each migration in `migrations`, the set in which it began.
    migrations_of: Vec<u64>,
    inheritances: Vec<Option<Progress>>,
    facts: Vec<MoreFacts>,
    loss: Option<(String, u64, u64)>,
    forgotten: u64,
    /// For each forgotten set, its lineage that this set has fenced.
    fences: WithLineages,
}

/// Archived form of the progress of inheriting a closing set's records.
#[derive(Archive, Serialize, Deserialize, Debug)]
struct Progress {
    lineage: u64,
    next: Option<u32>,
}

/// Encodes a command. `earlier` encodes in format 7 the commands that format 7 has with all their fields.
pub(super) fn encode_command(command: &Command, earlier: impl FnOnce(&Command) -> Vec<u8>) -> Vec<u8> {
    let Some(added) = Added::from_core(command) else { return earlier(command) };
    let mut body = rkyv::to_bytes::<rancor::Error>(&added).expect("encoding into memory does not fail").into_vec();
    body.push(ADDED);
    body
}

/// Decodes a command. `earlier` decodes the commands of format 7.
pub(super) fn decode_command(
    body: &[u8],
    earlier: impl FnOnce(&[u8]) -> Result<Command, Malformed>,
) -> Result<Command, Malformed> {
    let Some((&ADDED, body)) = body.split_last() else { return earlier(body) };
    let added = rkyv::from_bytes::<Added, rancor::Error>(&aligned(body)).map_err(malformed)?;
    Ok(added.into_core()?)
}

/// Appends the parts of the state that this format adds to `earlier`, the encoding of the state in format 7.
pub(super) fn encode_state(state: &state::State, earlier: Vec<u8>) -> Vec<u8> {
    let peers = || state.sets.values();
    let progress = |peer: &PeerSet| {
        peer.inherited.map(|one| Progress { lineage: one.lineage.0, next: one.next.map(|next| next.0) })
    };
    let recovery = || state.recovery.iter();
    let rest = Rest {
        closed: recovery().flat_map(|recovery| &recovery.closed).map(|set| set.0).collect(),
        inherited: WithLineages::from_core(
            recovery().flat_map(|one| &one.inherited).map(|(set, known)| (*set, *known)),
        ),
        migrations: state.foreign_migrations.keys().map(|id| id.0).collect(),
        migrations_of: state.foreign_migrations.values().map(|set| set.0).collect(),
        inheritances: peers().map(progress).collect(),
        facts: peers().map(|peer| peer.facts.as_ref().map(MoreFacts::from_core).unwrap_or_default()).collect(),
        forgotten: state.forgotten.0,
        fences: WithLineages::from_core(state.fences.iter().map(|(set, fenced)| (*set, *fenced))),
        loss: state.loss.as_ref().map(|loss| (loss.node.clone(), loss.seen.0, loss.noted.0)),
    };
    append(earlier, &rkyv::to_bytes::<rancor::Error>(&rest).expect("encoding into memory does not fail"))
}

/// Decodes a state. `earlier` decodes the part of the body that is in format 7.
pub(super) fn decode_state(
    body: &[u8],
    earlier: impl FnOnce(&[u8]) -> Result<state::State, Malformed>,
) -> Result<state::State, Malformed> {
    let (body, rest) = split(body)?;
    let rest = rkyv::from_bytes::<Rest, rancor::Error>(&aligned(rest)).map_err(malformed)?;
    Ok(rest.complete(earlier(body)?)?)
}

impl Added {
    /// Converts a command. Returns `None` if format 7 has the command with all its fields.
    fn from_core(command: &Command) -> Option<Added> {
        Some(match command {
            Command::LearnRecords(response) => Added::LearnRecords(Page::from_core(response)),
            Command::LearnDirectory(LearnDirectory { from, claims, sets }) => Added::LearnDirectory {
                from: from.map(|set| set.0),
                claims: Claims::from_core(claims),
                sets: sets.iter().map(StatedFacts::from_core).collect(),
            },
            Command::Complete(Complete { id, by }) => Added::Complete { id: id.0, by: by.map(|set| set.0) },
            Command::Inherit(Inherit(page)) => Added::Inherit(Page::from_core(page)),
            Command::Forget(Forget { set }) => Added::Forget { set: set.0 },
            Command::ReportLoss(ReportLoss { node, incarnation, seen, certain }) => {
                Added::ReportLoss { node: node.clone(), incarnation: incarnation.0, seen: seen.0, certain: *certain }
            }
            _ => return None,
        })
    }

    fn into_core(self) -> Result<Command, Contradiction> {
        Ok(match self {
            Added::LearnRecords(page) => Command::LearnRecords(page.into_core()?),
            Added::LearnDirectory { from, claims, sets } => {
                let sets = sets.into_iter().map(StatedFacts::into_core).collect::<Result<_, _>>()?;
                Command::LearnDirectory(LearnDirectory { from: from.map(SetId), claims: claims.into_core()?, sets })
            }
            Added::Complete { id, by } => Command::Complete(Complete { id: MigrationId(id), by: by.map(SetId) }),
            Added::Inherit(page) => Command::Inherit(Inherit(page.into_core()?)),
            Added::Forget { set } => Command::Forget(Forget { set: SetId(set) }),
            Added::ReportLoss { node, incarnation, seen, certain } => {
                let (incarnation, seen) = (Incarnation(incarnation), Revision(seen));
                Command::ReportLoss(ReportLoss { node, incarnation, seen, certain })
            }
        })
    }
}

impl Page {
    fn from_core(page: &state::FenceResponse) -> Page {
        let inherited = WithLineages::from_core(page.inherited.iter().copied());
        Page { records: FenceResponse::from_core(page), wait_nanos: nanos(page.wait), inherited }
    }

    fn into_core(self) -> Result<state::FenceResponse, Contradiction> {
        let (wait, inherited) = (Duration::from_nanos(self.wait_nanos), self.inherited.into_core()?);
        Ok(state::FenceResponse { wait, inherited, ..self.records.into_core()? })
    }
}

impl StatedFacts {
    fn from_core(facts: &SetFacts) -> StatedFacts {
        StatedFacts { facts: facts.into(), more: MoreFacts::from_core(facts) }
    }

    fn into_core(self) -> Result<SetFacts, Contradiction> {
        self.more.complete(self.facts.into_core()?)
    }
}

impl MoreFacts {
    fn from_core(facts: &SetFacts) -> MoreFacts {
        let inherited = WithLineages::from_core(facts.inherited.iter().copied());
        MoreFacts { quarantined: facts.quarantined, inherited }
    }

    fn complete(self, facts: SetFacts) -> Result<SetFacts, Contradiction> {
        let MoreFacts { quarantined, inherited } = self;
        Ok(SetFacts { quarantined, inherited: inherited.into_core()?, ..facts })
    }
}

impl WithLineages {
    fn from_core(sets: impl Iterator<Item = (SetId, Lineage)>) -> WithLineages {
        let (sets, lineages) = sets.map(|(set, lineage)| (set.0, lineage.0)).unzip();
        WithLineages { sets, lineages }
    }

    fn into_core<C: FromIterator<(SetId, Lineage)>>(self) -> Result<C, Contradiction> {
        let WithLineages { sets, lineages } = self;
        if lineages.len() != sets.len() {
            return Err("the columns of sets and lineages differ in length");
        }
        Ok(sets.into_iter().map(SetId).zip(lineages.into_iter().map(Lineage)).collect())
    }
}

impl Rest {
    /// Adds these parts to a state that was decoded from format 7.
    fn complete(self, mut state: state::State) -> Result<state::State, Contradiction> {
        let Rest { closed, inherited, migrations, migrations_of, inheritances, facts, loss, forgotten, fences } = self;
        if migrations_of.len() != migrations.len() || [inheritances.len(), facts.len()] != [state.sets.len(); 2] {
            return Err("the columns of other sets differ in length");
        }
        if let Some(recovery) = state.recovery.take() {
            let closed = closed.into_iter().map(SetId).collect();
            state.recovery = Some(Recovery { closed, inherited: inherited.into_core()?, ..recovery });
        }
        state.foreign_migrations =
            migrations.into_iter().map(MigrationId).zip(migrations_of.into_iter().map(SetId)).collect();
        for ((peer, progress), more) in state.sets.values_mut().zip(inheritances).zip(facts) {
            peer.inherited =
                progress.map(|one| Inheritance { lineage: Lineage(one.lineage), next: one.next.map(SectionId) });
            peer.facts = peer.facts.take().map(|facts| more.complete(facts)).transpose()?;
        }
        state.forgotten = RouteVersion(forgotten);
        state.fences = fences.into_core()?;
        state.loss = loss.map(|(node, seen, noted)| Loss { node, seen: Revision(seen), noted: Revision(noted) });
        Ok(state)
    }
}
