//! Exchanges facts and directories with every other set, beside the leader: a set that restarts while others are down can
//! still point at them, and a node of any set finds the set of any uid.
//!
//! What is learned routes requests and changes no record.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use seq_core::directory::ClaimRun;
use seq_core::state::{LearnDirectory, SetFacts, State};
use seq_core::{Lineage, RouteVersion, SetId, limits};
use seq_proto::{inter_set, v1};
use tonic::Status;

use super::Between;

/// Interval of the exchange with each set: a section that moved is found by way of its former set meanwhile. Also how long
/// an exchange may take: a set that does not respond delays the next round with the others by no more.
const INTERVAL: Duration = Duration::from_secs(2);

/// How far the claims of each set are merged: a version of its routes, in its lineage.
type Merged = BTreeMap<SetId, (Lineage, RouteVersion)>;

/// Runs until it is dropped.
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
                    Ok(known) => _ = merged.insert(*set, known),
                    Err(status) => tracing::debug!(set = set.0, status = status.message(), "no exchange with a set"),
                }
            }
        } else {
            merged.clear();
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Exchanges with one set, and commits what is new.
async fn exchange(
    between: &Between,
    set: SetId,
    merged: Option<(Lineage, RouteVersion)>,
) -> Result<(Lineage, RouteVersion), Status> {
    let stores = between.replicated.raft().member_addrs();
    let own = between.replicated.read(|state| {
        let layout = state.set.as_ref()?.layout.clone();
        Some((state.facts(stores)?, layout))
    });
    let (Some((facts, layout)), Some(head)) = (own, between.head(set)) else {
        return Err(Status::unavailable("this set is not defined yet"));
    };
    let known = between.replicated.read(|state| Some(state.sets.get(&set)?.facts.as_ref()?.lineage));
    let since = merged.filter(|(lineage, _)| Some(*lineage) == known).map_or(RouteVersion(0), |(_, version)| version);
    let request = v1::ExchangeRequest {
        between: Some(head),
        facts: Some((&facts).into()),
        route_version: since.0,
        layout_id: layout.id().0,
    };
    let method = async |mut member: super::link::Member, request| member.exchange(request).await;
    let response = between.links.call(set, request, method).await?;
    let sets = response.sets.iter().map(inter_set::facts).collect::<Result<Vec<SetFacts>, Status>>()?;
    let claims = response.claims.iter().map(|run| inter_set::claim(run, layout.sections()));
    let claims = claims.collect::<Result<Vec<ClaimRun>, Status>>()?;
    let lineage = sets.iter().find(|facts| facts.id == set).map_or(Lineage(0), |facts| facts.lineage);
    learn(between, &claims, &sets).await?;
    Ok((lineage, RouteVersion(response.route_version)))
}

/// Commits the facts and claims that are new here.
///
/// # Errors
/// The proposal failed.
pub(crate) async fn learn(between: &Between, claims: &[ClaimRun], sets: &[SetFacts]) -> Result<(), Status> {
    let (claims, sets) = between.replicated.read(|state| {
        let claims: Vec<ClaimRun> = claims.iter().filter(|run| is_news(state, run)).copied().collect();
        let sets: Vec<SetFacts> = sets.iter().filter(|facts| state_lacks(state, facts)).cloned().collect();
        (claims, sets)
    });
    if claims.is_empty() && sets.is_empty() {
        return Ok(());
    }
    let mut sets = Some(sets);
    let mut parts: Vec<&[ClaimRun]> = claims.chunks(limits::MAX_RUNS).collect();
    if parts.is_empty() {
        parts.push(&[]);
    }
    for part in parts {
        let learned = LearnDirectory { from: None, claims: part.to_vec(), sets: sets.take().unwrap_or_default() };
        let outcome = between.replicated.propose(learned).await?;
        if let Err(refusal) = outcome {
            tracing::warn!(%refusal, "what another set stated was not learned");
        }
    }
    Ok(())
}

/// Whether a claim is newer than what is known of any of its sections.
fn is_news(state: &State, run: &ClaimRun) -> bool {
    run.sections.iter().any(|section| state.directory.get(section).is_none_or(|known| known < run.claim))
}

/// Whether facts differ from those that are known, and are newer. The revision alone is no news: it grows with each command.
fn state_lacks(state: &State, facts: &SetFacts) -> bool {
    if state.set.as_ref().is_some_and(|set| set.id == facts.id) {
        return false;
    }
    state.sets.get(&facts.id).and_then(|peer| peer.facts.as_ref()).is_none_or(|known| {
        let newer = (known.lineage, known.revision) < (facts.lineage, facts.revision);
        newer && SetFacts { revision: facts.revision, ..known.clone() } != *facts
    })
}
