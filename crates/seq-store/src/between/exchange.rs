//! Exchange of facts and directories with every other set, which the leader makes at an interval. Thanks to the
//! exchange, a node of any set can find the set of any uid, and a set that restarts can still refer callers to other
//! sets while those are down.
//!
//! A set's statements about itself are accepted. Its statements about other sets are used only to find these sets. This
//! set connects to an unknown set at the stated address and under the stated name, and learns that set's facts from its
//! own response.
//!
//! Facts that are learned in the exchange are used to route requests, and change no record of a section.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use seq_auth::ExpectedServer;
use seq_core::directory::ClaimRun;
use seq_core::state::{AdoptSeries, Inherit, LearnDirectory, Replicated, Rules, SetFacts, State};
use seq_core::{Lineage, RouteVersion, SectionId, SetId, limits};
use seq_proto::{inter_set, series, v1};
use tonic::Status;

use super::Between;
use super::link::Member;

/// Interval of the exchange with each set. After a migration, a node of a third set finds a section through its former
/// set until the next exchange. The interval is also the timeout of one exchange, so a set that does not respond delays
/// the next round by at most one interval.
const INTERVAL: Duration = Duration::from_secs(2);

/// Maximum number of unknown sets that are asked after one exchange. With this number, a new set is learned within a
/// few rounds. If a set names many sets that do not exist, it delays the exchange with the other sets by at most
/// [`INTERVAL`].
const MAX_INTRODUCTIONS: usize = 4;

/// For each other set, its lineage and its route version up to which its claims are merged into this set's directory.
type Merged = BTreeMap<SetId, (Lineage, RouteVersion)>;

/// Statements of another set in its response to an exchange.
pub(crate) struct Stated {
    /// Facts of the responding set about itself.
    pub(crate) facts: SetFacts,
    /// Claims that changed in the responding set's directory.
    claims: Vec<ClaimRun>,
    /// Route version of the responding set that includes these claims.
    version: RouteVersion,
    /// Facts about other sets that the responding set knows, with the addresses at which these sets can be asked.
    pub(crate) others: Vec<SetFacts>,
}

/// Exchanges facts with every other set at each interval while this member leads. Runs until the future is dropped.
pub(crate) async fn run(between: Between) {
    let mut merged = Merged::new();
    loop {
        if between.replicated.raft().is_leader() {
            let others: Vec<SetId> = between.replicated.read(|state| state.sets.keys().copied().collect());
            let one = |set: &SetId| tokio::time::timeout(INTERVAL, exchange(&between, *set, merged.get(set).copied()));
            let round = join_all(others.iter().map(one)).await;
            for (set, outcome) in others.iter().zip(round) {
                let late = |_| Err(Status::deadline_exceeded(format!("no response within {INTERVAL:?}")));
                match outcome.unwrap_or_else(late) {
                    Ok((known, claimed)) => {
                        // A set in `claimed` has had a section that it may have sent on to another set, so all claims
                        // of that set are read again.
                        merged.retain(|set, _| !claimed.contains(set));
                        merged.insert(*set, known);
                    }
                    Err(status) => tracing::debug!(set = set.0, status = status.message(), "no exchange with a set"),
                }
            }
            inherit(&between).await;
        } else {
            merged.clear();
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Exchanges facts with the set `set`, and commits the new facts. Returns the lineage and the route version up to which
/// the claims of that set are merged, and the other sets that its new claims name.
async fn exchange(
    between: &Between,
    set: SetId,
    merged: Option<(Lineage, RouteVersion)>,
) -> Result<((Lineage, RouteVersion), Vec<SetId>), Status> {
    let known = between.replicated.read(|state| Some(state.sets.get(&set)?.facts.as_ref()?.lineage));
    let since = merged.filter(|(lineage, _)| Some(*lineage) == known).map_or(RouteVersion(0), |(_, version)| version);
    let request = between.exchange_request(set, since)?;
    let method = async |mut member: Member, request| member.exchange(request).await;
    let response = between.links.call(set, request, method).await?;
    let responds = response.sets.first().map_or(SetId(0), |facts| SetId(facts.id));
    if responds != set {
        return Err(Status::unavailable(format!("set {responds} responds in the place of set {set}")));
    }
    let lineage = response.sets.first().map_or(Lineage(0), |facts| Lineage(facts.lineage));
    let is_longer = adopt_series(between, (set, lineage), &response.series, response.writer.as_ref()).await?;
    let stated = between.stated(&response)?;
    let claimed = learn(between, &stated).await?;
    introduce(between, &stated.others).await;
    // Claims of the new series' sections were left out of earlier exchanges, so all claims are read again.
    let version = if is_longer { RouteVersion(0) } else { stated.version };
    Ok(((stated.facts.lineage, version), claimed))
}

impl Between {
    /// Returns a request for an exchange with the set `to`. It contains this set's facts, and requests the claims that
    /// changed after the route version `since`.
    pub(crate) fn exchange_request(&self, to: SetId, since: RouteVersion) -> Result<v1::ExchangeRequest, Status> {
        let stores = self.replicated.raft().member_addrs();
        let own = self.replicated.read(|state| {
            let layout = state.set.as_ref()?.layout.declared().id();
            Some((state.facts(stores)?, layout))
        });
        let (Some((facts, layout_id)), Some(head)) = (own, self.head(to)) else {
            return Err(Status::unavailable("this set is not defined yet"));
        };
        Ok(v1::ExchangeRequest {
            between: Some(head),
            facts: Some((&facts).into()),
            route_version: since.0,
            layout_id: layout_id.0,
        })
    }

    /// Decodes a response to an exchange. The first facts in the response describe the responding set. Claims of
    /// sections that are not in this set's layout are left out.
    fn stated(&self, response: &v1::ExchangeResponse) -> Result<Stated, Status> {
        let layout = self.replicated.read(|state| state.set.as_ref().map(|set| set.layout.clone()));
        let layout = layout.ok_or_else(|| Status::unavailable("this set is not defined yet"))?;
        let mut stated = Stated::decode(response, layout.declared().sections())?;
        let lanes = response.lane_claims.iter().filter_map(|run| inter_set::claim(run, layout.sections()).ok());
        stated.claims.extend(lanes);
        Ok(stated)
    }
}

/// Adopts the series and the layout writer that the set `from` states, if this set may adopt them from that set.
/// Returns whether any of them was new.
///
/// # Errors
/// A series is malformed, the proposal failed, or the stated series do not begin with the series that this set already
/// knows.
pub(crate) async fn adopt_series(
    between: &Between,
    (from, lineage): (SetId, Lineage),
    stated: &[v1::StoredSeries],
    writer: Option<&v1::LayoutWriter>,
) -> Result<bool, Status> {
    let stated = stated.iter().map(series::stated_with_seed).collect::<Result<Vec<_>, _>>();
    let series = stated.map_err(|error| Status::unavailable(format!("set {from} states a series: {error}")))?;
    let adopt = AdoptSeries { from, lineage, series, writer: writer.map(series::writer) };
    let is_new = between.replicated.read(|state| state.adopts_series(&adopt));
    if !is_new || between.replicated.raft().state().format() < AdoptSeries::SINCE {
        return Ok(false);
    }
    let outcome = between.replicated.propose(adopt).await?;
    outcome.map_err(|refusal| {
        tracing::warn!(set = from.0, %refusal, "the series of another set are not adopted");
        super::refused(&refusal)
    })
}

impl Stated {
    /// Decodes a response to an exchange. `sections` is the number of sections in the layout of the responding set.
    ///
    /// # Errors
    /// The response lacks the facts of the responding set, or contains malformed facts.
    pub(crate) fn decode(response: &v1::ExchangeResponse, sections: u32) -> Result<Stated, Status> {
        let mut others = response.sets.iter().map(inter_set::facts).collect::<Result<Vec<SetFacts>, Status>>()?;
        if others.is_empty() {
            return Err(Status::unavailable("the set states nothing of itself"));
        }
        let facts = others.remove(0);
        let claims = response.claims.iter().map(|run| inter_set::claim(run, sections));
        let claims = claims.collect::<Result<Vec<ClaimRun>, Status>>()?;
        Ok(Stated { facts, claims, version: RouteVersion(response.route_version), others })
    }
}

/// Commits those statements of another set about itself that are new. Returns the other sets that its new claims name.
///
/// # Errors
/// A proposal failed, or its command was refused. The claims are committed by several commands, and the commands before
/// the failed one may have been applied.
pub(crate) async fn learn(between: &Between, stated: &Stated) -> Result<Vec<SetId>, Status> {
    let from = stated.facts.id;
    let (claims, facts) = between.replicated.read(|state| {
        let claims = match state.rules {
            Rules::Seven => stated.claims.iter().filter(|run| is_news(state, run)).copied().collect(),
            Rules::Eight | Rules::Nine | Rules::Ten | Rules::Eleven => state.vouched_claims(from, &stated.claims),
        };
        (claims, state_lacks(state, &stated.facts).then(|| stated.facts.clone()))
    });
    if claims.is_empty() && facts.is_none() {
        return Ok(Vec::new());
    }
    let mut sets: Vec<SetFacts> = facts.into_iter().collect();
    let mut parts: Vec<&[ClaimRun]> = claims.chunks(limits::MAX_RUNS).collect();
    if parts.is_empty() {
        parts.push(&[]);
    }
    for part in parts {
        let learned = LearnDirectory { from: Some(from), claims: part.to_vec(), sets: std::mem::take(&mut sets) };
        between.replicated.propose(learned).await?.map_err(|refusal| {
            tracing::warn!(set = from.0, %refusal, "the statements of another set were not learned");
            super::refused(&refusal)
        })?;
    }
    let mut claimed: Vec<SetId> = claims.iter().map(|run| run.claim.set).filter(|set| *set != from).collect();
    claimed.dedup();
    Ok(claimed)
}

/// Commits the facts that another set stated about itself, if they are new.
///
/// # Errors
/// The proposal failed, or the state refused the facts.
pub(crate) async fn learn_facts(between: &Between, facts: SetFacts) -> Result<(), Status> {
    if !between.replicated.read(|state| state_lacks(state, &facts)) {
        return Ok(());
    }
    let outcome = between.replicated.propose(LearnDirectory::of(facts)).await?;
    outcome.map(drop).map_err(|refusal| super::refused(&refusal))
}

/// Asks sets that this set does not know yet, at the addresses that another set stated in `others`. Learns the
/// statements of each asked set about itself.
pub(crate) async fn introduce(between: &Between, others: &[SetFacts]) {
    let unknown = |state: &State, facts: &SetFacts| {
        let own = state.set.as_ref().is_some_and(|set| set.id == facts.id);
        !own && state.sets.get(&facts.id).is_none_or(|peer| peer.facts.is_none())
    };
    let unknown = between.replicated.read(|state| {
        let unknown = others.iter().filter(|facts| unknown(state, facts) && !facts.stores.is_empty());
        unknown.take(MAX_INTRODUCTIONS).cloned().collect::<Vec<SetFacts>>()
    });
    let one = async |named: &SetFacts| -> Result<(), Status> {
        let request = between.exchange_request(named.id, RouteVersion(0))?;
        let method = async |mut member: Member, request| member.exchange(request).await;
        let response =
            between.links.call_at(ExpectedServer::store().of_set(&named.name), &named.stores, request, method).await?;
        let stated = between.stated(&response)?;
        if (stated.facts.id, &stated.facts.name) != (named.id, &named.name) {
            return Err(Status::unavailable(format!("set {} responds there", stated.facts.id)));
        }
        learn(between, &stated).await.map(drop)
    };
    let round = join_all(unknown.iter().map(|named| tokio::time::timeout(INTERVAL, one(named)))).await;
    for (named, outcome) in unknown.iter().zip(round) {
        match outcome {
            Ok(Ok(())) => tracing::info!(set = named.id.0, name = named.name, "another set is known"),
            Ok(Err(status)) => {
                tracing::debug!(
                    set = named.id.0,
                    status = status.message(),
                    "a set that another set names is not learned"
                );
            }
            Err(_) => tracing::debug!(set = named.id.0, "a set that another set names does not respond"),
        }
    }
}

/// Requests the final records of each closing set, and commits them page by page as inherited records.
async fn inherit(between: &Between) {
    let awaited = |state: &State| match state.rules {
        Rules::Seven => Vec::new(),
        Rules::Eight | Rules::Nine | Rules::Ten | Rules::Eleven => {
            state.awaited_inheritances().collect::<Vec<(SetId, SectionId)>>()
        }
    };
    let closing = between.replicated.read(awaited);
    let one = |(set, first): (SetId, SectionId)| tokio::time::timeout(INTERVAL, inherit_of(between, set, first));
    for outcome in join_all(closing.into_iter().map(one)).await.into_iter().flatten() {
        if let Err(status) = outcome {
            tracing::debug!(status = status.message(), "the records of a closing set are not final yet");
        }
    }
}

async fn inherit_of(between: &Between, set: SetId, mut first: SectionId) -> Result<(), Status> {
    loop {
        let head = between.head(set).ok_or_else(|| Status::unavailable("this set is not defined"))?;
        let request = v1::ReadFinalRequest { between: Some(head), first_section: first.0 };
        let method = async |mut member: Member, request| member.read_final(request).await;
        let response = between.links.call(set, request, method).await?;
        let page = inter_set::fence_response(set, &response)?;
        let next = page.next;
        let kept = between.replicated.propose(Inherit(page)).await?;
        match (kept.map_err(|refusal| super::refused(&refusal))?, next) {
            (true, Some(next)) => first = next,
            (true, None) => {
                tracing::info!(set = set.0, "the records of a closing set are inherited");
                return Ok(());
            }
            (false, _) => return Ok(()),
        }
    }
}

/// Returns whether the claim for the sections of a run is newer than the known claim for at least one of these
/// sections.
fn is_news(state: &State, run: &ClaimRun) -> bool {
    run.sections.iter().any(|section| state.directory.get(section).is_none_or(|known| known < run.claim))
}

/// Returns whether `facts` are newer than the known facts of the same set and differ from them in more than the
/// revision, which grows with each command.
fn state_lacks(state: &State, facts: &SetFacts) -> bool {
    if state.set.as_ref().is_some_and(|set| set.id == facts.id) {
        return false;
    }
    state.sets.get(&facts.id).and_then(|peer| peer.facts.as_ref()).is_none_or(|known| {
        let newer = (known.lineage, known.revision) < (facts.lineage, facts.revision);
        newer && SetFacts { revision: facts.revision, ..known.clone() } != *facts
    })
}
