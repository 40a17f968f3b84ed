//! Task of the leader that ends the quarantine of a restored set. [`seq_core::quarantine`] decides which step is next,
//! and this module carries out the steps.
//!
//! **Invariant:** only a committed command that the state accepts ends a quarantine. The state accepts it only after
//! all sets that it knows have responded.

use std::time::Duration;

use futures::future::join_all;
use seq_core::quarantine::{Contest, Quarantine, Rival, Step, next_count};
use seq_core::state::{BeginLineage, EventKind, NoteClock, State};
use seq_core::{Lineage, SectionId, SetId};
use seq_kit::nonce::draw_nonce;
use seq_proto::v1::StatusRequest;
use seq_proto::v1::status_response::Role;
use seq_proto::v1::status_service_client::StatusServiceClient;
use seq_proto::{inter_set, v1};
use tokio::sync::watch;
use tokio::time::Instant;

use super::Between;
use super::exchange;
use super::link::Member;
use crate::audit;

/// Minimum time between two attempts to end a quarantine.
const RETRY: Duration = Duration::from_millis(200);

/// Receiver of the reason why the quarantine has not ended yet. The text is empty while this member does not lead.
pub(crate) type Awaited = watch::Receiver<String>;

/// Returns the text that states why a restored set does not serve yet. It is used in errors, in probes and in the
/// status.
pub(crate) fn text(set: &str, awaited: &str) -> String {
    let awaited = if awaited.is_empty() { "its leader ends the quarantine" } else { awaited };
    format!("QUARANTINED: set {set:?} was restored from a backup and serves nothing yet: {awaited}")
}

/// Returns a channel for the reason why a quarantine has not ended yet.
pub(crate) fn awaited() -> (watch::Sender<String>, Awaited) {
    watch::channel(String::new())
}

/// Tries to end the set's quarantine while this member leads. Runs until the future is dropped, or until the Raft
/// library has stopped.
pub(crate) async fn run(between: Between, awaited: watch::Sender<String>) {
    let set = &between.replicated;
    let mut changes = set.raft().changes();
    let clock = Instant::now();
    let mut current: Option<Quarantine> = None;
    loop {
        let known = current.take();
        let quarantine = set.read(|state| Quarantine::of(known, state, clock.elapsed()));
        match quarantine.filter(|_| set.raft().is_leader()) {
            Some(quarantine) => {
                let quarantine = current.insert(quarantine);
                publish(&awaited, step(&between, quarantine, clock).await.err().unwrap_or_default());
            }
            None => {
                publish(&awaited, String::new());
                if changes.changed().await.is_err() {
                    return;
                }
            }
        }
        // This pause limits the number of evaluations, because entries are applied far more often than a quarantine
        // begins or changes.
        tokio::time::sleep(RETRY).await;
    }
}

/// Carries out the next steps toward the end of the quarantine. The error is the reason why the quarantine has not
/// ended.
async fn step(between: &Between, quarantine: &mut Quarantine, clock: Instant) -> Result<(), String> {
    outlast_rivals(between, quarantine).await?;
    let next = || between.replicated.read(|state| quarantine.step(state, clock.elapsed()));
    let mut end = next();
    if let Step::Fence(sets) = &end {
        learn_all(between, sets).await?;
        end = next();
    }
    if end == Step::NoteClock {
        let note = NoteClock { unix_ms: between.replicated.raft().clock_ms() };
        let outcome = between.replicated.propose(note).await.map_err(|error| error.to_string())?;
        outcome.map_err(|refusal| refusal.to_string())?;
        end = next();
    }
    match end {
        Step::NoteClock => Err("the time of the restore is to be noted again".to_owned()),
        Step::Fence(sets) => Err(format!("the responses name other sets: {} of them have to respond", sets.len())),
        Step::Restart => Err("another set was restored, too: the leases of before it may last".to_owned()),
        Step::Wait(left) => Err(format!("the leases of before the restore may last for {:.1} s", left.as_secs_f64())),
        Step::End(end) => {
            let outcome = between.replicated.propose(end).await.map_err(|error| error.to_string())?;
            outcome.map_err(|refusal| refusal.to_string())?;
            let event = EventKind::QuarantineEnded.name();
            tracing::info!(event, lineage = quarantine.lineage().0, "the quarantine is over, and the set serves");
            Ok(())
        }
    }
}

/// Asks each of the sets to fence this set's older lineages, and commits the records that these sets send. For each
/// set, begins with the given section.
async fn learn_all(between: &Between, sets: &[(SetId, SectionId)]) -> Result<(), String> {
    let rounds = join_all(sets.iter().map(|(set, first)| learn(between, *set, *first))).await;
    let failed = |(set, outcome): (&(SetId, SectionId), Result<(), String>)| {
        Some(format!("{} has not responded to the fence: {}", name(between, set.0), outcome.err()?))
    };
    let failures: Vec<String> = sets.iter().zip(rounds).filter_map(failed).collect();
    if failures.is_empty() { Ok(()) } else { Err(failures.join("; ")) }
}

/// Returns an error if another member of this store belongs to another group, because it was restored differently.
/// Begins a newer lineage if [`Quarantine::contest`] requires it.
async fn outlast_rivals(between: &Between, quarantine: &mut Quarantine) -> Result<(), String> {
    let lineage = quarantine.lineage();
    let (names, rivals): (Vec<String>, Vec<Rival>) = rivals(between, lineage).await.into_iter().unzip();
    match quarantine.contest(&rivals) {
        Contest::None => Ok(()),
        Contest::Waits => Err(format!(
            "store {} is of lineage {}, and this one of {lineage}: it was restored from another file, or under another \
             count: stop it, and restore it as the others",
            names[0], rivals[0].lineage
        )),
        Contest::Begin(least) => {
            // The other members of this group may have applied entries that this leader has not applied yet.
            between.replicated.raft().catch_up().await.map_err(|error| error.to_string())?;
            begin_lineage(between, lineage, least, "stores that were restored otherwise may have served").await
        }
    }
}

/// Returns the names and states of those members of the store that have another lineage than `lineage`, and therefore
/// belong to another group.
async fn rivals(between: &Between, lineage: Lineage) -> Vec<(String, Rival)> {
    let raft = between.replicated.raft();
    let status = raft.status();
    let others = status.members.iter().filter(|member| member.id != status.id);
    let ask = async |name: &str, addr: &str| {
        let mut member = StatusServiceClient::new(raft.connect(addr).ok()?);
        let asked = tokio::time::timeout(RETRY, member.status(StatusRequest {})).await;
        let Some(Role::Store(store)) = asked.ok()?.ok()?.into_inner().role else { return None };
        let (has_majority, serves) = (store.quorum, store.quarantine.is_empty());
        let rival = Rival { lineage: Lineage(store.lineage), has_majority, serves };
        (rival.lineage != lineage).then(|| (name.to_owned(), rival))
    };
    join_all(others.map(|member| ask(&member.name, &member.addr))).await.into_iter().flatten().collect()
}

/// Asks the set `set` to fence this set's older lineages, and commits the records that the set sends, page by page,
/// beginning with the section `first`.
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
        // The sections in a page may belong to series that this set created after its backup was made.
        let stated = (set, Lineage(response.lineage));
        let adopted = exchange::adopt_series(between, stated, &response.series, response.writer.as_ref()).await;
        adopted.map_err(|status| status.message().to_owned())?;
        let page = inter_set::fence_response(set, &response).map_err(|status| status.message().to_owned())?;
        let next = page.next;
        let learned = between.replicated.propose(page).await.map_err(|error| error.to_string())?;
        // The state does not accept a page if another leader has already committed it, or if a newer lineage has begun.
        match (learned.map_err(|refusal| refusal.to_string())?, next) {
            (true, Some(next)) => first = next,
            (true, None) => return Ok(()),
            (false, _) => return Err("its records are requested again".to_owned()),
        }
    }
}

/// Begins a new lineage after the set's own lineage `own`. The new lineage counts at least `least` restores. `why` is
/// the reason, for the log.
async fn begin_lineage(between: &Between, own: Lineage, least: u32, why: &str) -> Result<(), String> {
    let least = between.replicated.read(|state| next_count(state, own, least));
    let least = least.ok_or("the quarantine is over, or another lineage has begun")?;
    let lineage = Lineage::of_set(least, draw_nonce() as u32);
    let text = format!("begin a lineage that counts {least} restores, after {}: note it", own.restores());
    audit::recorded(&between.replicated, "store", &text, async {
        let outcome = between.replicated.propose(BeginLineage { lineage }).await.map_err(|error| error.to_string())?;
        outcome.map_err(|refusal| refusal.to_string())
    })
    .await?;
    let event = EventKind::Restored.name();
    tracing::warn!(event, lineage = lineage.0, before = own.0, count = least, "a newer lineage begins: {why}");
    Err(format!("lineage {lineage} begins: {why}"))
}

/// Returns the text with which a set is named to operators.
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
