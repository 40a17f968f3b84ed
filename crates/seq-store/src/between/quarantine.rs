//! Ends the quarantine of a restored set, beside the leader: when the leases of its older lineages are over, and every
//! other set has fenced those lineages.
//!
//! **Invariant:** nothing ends a quarantine but the entry that the state accepts: it refuses one without the responses
//! of all sets that it knows. The wait is counted from when this process leads and has the restored state, which is
//! after the restore, so a new leader waits anew.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use seq_core::state::{BeginLineage, EndQuarantine, State};
use seq_core::{Lineage, SectionId, SetId};
use seq_proto::v1::StatusRequest;
use seq_proto::v1::status_response::Role;
use seq_proto::v1::status_service_client::StatusServiceClient;
use seq_proto::{inter_set, v1};
use tokio::sync::watch;
use tokio::time::Instant;

use super::Between;
use super::link::Member;
use crate::audit;
use crate::definition::draw_nonce;

/// Least time between two attempts to end a quarantine.
const RETRY: Duration = Duration::from_millis(200);

/// As [`State::quarantine_lineages`].
type Lineages = (Lineage, BTreeMap<SetId, Lineage>);

/// The quarantine that this leader ends.
struct Quarantine {
    lineages: Lineages,
    began: Instant,
    /// The lineage with the highest count, as high as the own one or higher, of a group of stores of this set that was
    /// restored otherwise and may have served.
    rival: Option<Lineage>,
}

/// A listed member that responds as one of another group: it was restored otherwise.
struct Rival {
    name: String,
    lineage: Lineage,
    /// Whether its group has a majority: it may end its quarantine.
    has_majority: bool,
    serves: bool,
}

/// What a quarantine waits for, for operators; empty where this member does not lead.
pub(crate) type Awaited = watch::Receiver<String>;

/// Why a restored set serves nothing, for refusals, probes and operators.
pub(crate) fn text(set: &str, awaited: &str) -> String {
    let awaited = if awaited.is_empty() { "its leader ends the quarantine" } else { awaited };
    format!("QUARANTINED: set {set:?} was restored from a backup and serves nothing yet: {awaited}")
}

/// A channel for what is awaited.
pub(crate) fn awaited() -> (watch::Sender<String>, Awaited) {
    watch::channel(String::new())
}

/// Runs until it is dropped, or the Raft library has stopped.
pub(crate) async fn run(between: Between, awaited: watch::Sender<String>) {
    let set = &between.replicated;
    let mut changes = set.raft().changes();
    let mut current: Option<Quarantine> = None;
    loop {
        let quarantine = |state: &State| Some((state.quarantine_lineages(), state.quarantine_wait()?));
        match set.read(quarantine).filter(|_| set.raft().is_leader()) {
            Some((lineages, wait)) => {
                let known = current.take().filter(|known| known.lineages == lineages);
                let began = Instant::now();
                let quarantine = current.insert(known.unwrap_or(Quarantine { lineages, began, rival: None }));
                let left = wait.saturating_sub(quarantine.began.elapsed());
                publish(&awaited, step(&between, quarantine, left).await.err().unwrap_or_default());
            }
            None => {
                current = None;
                publish(&awaited, String::new());
                if changes.changed().await.is_err() {
                    return;
                }
            }
        }
        // Entries are applied far more often than a quarantine begins or changes.
        tokio::time::sleep(RETRY).await;
    }
}

/// Does what can be done now; the error is what is awaited.
async fn step(between: &Between, quarantine: &mut Quarantine, left: Duration) -> Result<(), String> {
    outlast_rivals(between, quarantine).await?;
    let lineages = &quarantine.lineages;
    let sets: Vec<(SetId, SectionId)> = between.replicated.read(|state| state.awaited_responses().collect());
    let rounds = join_all(sets.iter().map(|(set, first)| learn(between, *set, *first))).await;
    let failed = |(set, outcome): (&(SetId, SectionId), Result<(), String>)| {
        Some(format!("{} has not responded to the fence: {}", name(between, set.0), outcome.err()?))
    };
    let failures: Vec<String> = sets.iter().zip(rounds).filter_map(failed).collect();
    if !failures.is_empty() {
        return Err(failures.join("; "));
    }
    if between.replicated.read(State::quarantine_lineages) != *lineages {
        return Err("another set was restored, too: the leases of before it may last".to_owned());
    }
    if !left.is_zero() {
        return Err(format!("the leases of before the restore may last for {:.1} s", left.as_secs_f64()));
    }
    let lineage = lineages.0;
    // A response may have named other sets, and another one may have begun another lineage: the state refuses then.
    let outcome = between.replicated.propose(EndQuarantine { lineage }).await.map_err(|error| error.to_string())?;
    outcome.map_err(|refusal| refusal.to_string())?;
    tracing::info!(lineage = lineage.0, "the quarantine is over, and the set serves");
    Ok(())
}

/// Refuses to go on while a listed member responds as one of another group. Where that group may have served under a
/// count that is not below the own one, a lineage begins that counts more: both have the same numbers.
async fn outlast_rivals(between: &Between, quarantine: &mut Quarantine) -> Result<(), String> {
    let lineage = quarantine.lineages.0;
    let found = rivals(between, lineage).await;
    let is_ahead = |rival: &&Rival| rival.has_majority && rival.lineage.restores() >= lineage.restores();
    let newest = found.iter().filter(is_ahead).map(|rival| rival.lineage).chain(quarantine.rival);
    quarantine.rival = newest.max_by_key(|rival| rival.restores());
    // Two groups in quarantine wait for each other, and do not outbid each other.
    let is_served = found.is_empty() || found.iter().any(|rival| rival.serves);
    if let Some(rival) = quarantine.rival.filter(|_| is_served) {
        // A member of this group may be ahead of its leader.
        between.replicated.raft().catch_up().await.map_err(|error| error.to_string())?;
        let least = rival.restores().saturating_add(1);
        return begin_lineage(between, lineage, least, "stores that were restored otherwise may have served").await;
    }
    match found.first() {
        None => Ok(()),
        Some(Rival { name, lineage: other, .. }) => Err(format!(
            "store {name} is of lineage {other}, and this one of {lineage}: it was restored from another file, or under \
             another count: stop it, and restore it as the others"
        )),
    }
}

async fn rivals(between: &Between, lineage: Lineage) -> Vec<Rival> {
    let raft = between.replicated.raft();
    let status = raft.status();
    let others = status.members.iter().filter(|member| member.id != status.id);
    let ask = async |name: &str, addr: &str| {
        let mut member = StatusServiceClient::new(raft.connect(addr).ok()?);
        let asked = tokio::time::timeout(RETRY, member.status(StatusRequest {})).await;
        let Some(Role::Store(store)) = asked.ok()?.ok()?.into_inner().role else { return None };
        let (name, stated) = (name.to_owned(), Lineage(store.lineage));
        let (has_majority, serves) = (store.quorum, store.quarantine.is_empty());
        (stated != lineage).then_some(Rival { name, lineage: stated, has_majority, serves })
    };
    join_all(others.map(|member| ask(&member.name, &member.addr))).await.into_iter().flatten().collect()
}

/// Has a set fence the older lineages, and learns its records from a section on, page by page.
async fn learn(between: &Between, set: SetId, mut first: SectionId) -> Result<(), String> {
    loop {
        let head = between.head(set).ok_or("this set is not defined")?;
        let request = v1::FenceRequest { between: Some(head), first_section: first.0 };
        let method = async |mut member: Member, request| member.fence(request).await;
        let response = between.links.call(set, request, method).await;
        let response = response.map_err(|status| status.message().to_owned())?;
        if response.least_restores > 0 {
            let (own, least) = (Lineage(response.fenced), response.least_restores);
            return begin_lineage(between, own, least, "another set counts more restores").await;
        }
        let page = inter_set::fence_response(set, &response).map_err(|status| status.message().to_owned())?;
        let next = page.next;
        let learned = between.replicated.propose(page).await.map_err(|error| error.to_string())?;
        // A page that is not the awaited one: another leader has learned it, or what was learned is void.
        match (learned.map_err(|refusal| refusal.to_string())?, next) {
            (true, Some(next)) => first = next,
            (true, None) => return Ok(()),
            (false, _) => return Err("its records are requested again".to_owned()),
        }
    }
}

/// Begins a lineage after the own one that counts so many restores or more.
async fn begin_lineage(between: &Between, own: Lineage, least: u32, why: &str) -> Result<(), String> {
    if own != between.replicated.read(|state| state.lineage) {
        return Err("another lineage has begun meanwhile".to_owned());
    }
    // Other sets may need more by now, which this log has learned of them.
    let least = between.replicated.read(State::least_restores).max(least);
    let lineage = Lineage::of_set(least, draw_nonce() as u32);
    let text = format!("begin a lineage that counts {least} restores, after {}: note it", own.restores());
    audit::recorded(&between.replicated, "store", &text, async {
        let outcome = between.replicated.propose(BeginLineage { lineage }).await.map_err(|error| error.to_string())?;
        outcome.map_err(|refusal| refusal.to_string())
    })
    .await?;
    tracing::warn!(lineage = lineage.0, before = own.0, count = least, "a newer lineage begins: {why}");
    Err(format!("lineage {lineage} begins: {why}"))
}

/// A set as operators know it.
fn name(between: &Between, set: SetId) -> String {
    let name = |state: &State| Some(state.sets.get(&set)?.facts.as_ref()?.name.clone());
    match between.replicated.read(name) {
        Some(name) => format!("set {name:?}"),
        None => format!("the set with id {set}"),
    }
}

fn publish(awaited: &watch::Sender<String>, text: String) {
    awaited.send_if_modified(|published| {
        let differs = *published != text;
        if differs {
            if !text.is_empty() {
                tracing::debug!(awaited = text, "the set is in quarantine");
            }
            *published = text;
        }
        differs
    });
}
