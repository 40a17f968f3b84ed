//! Confirmation of the statements in a request from another set. This member asks the sets that the statements concern,
//! over connections that it opens itself.
//!
//! Nothing is proposed before everything is confirmed. If a set that is asked does not respond, the request fails and
//! its sender repeats it.

use std::time::Duration;

use futures::future::join_all;
use seq_core::confirmation::Confirmation;
use seq_core::state::{Arrive, SectionRecord, State, Tombstone};
use seq_core::{Lineage, MigrationId, SectionId, SetId, limits};
use seq_proto::v1::{ConfirmRequest, ConfirmResponse, MigrationEnd};
use seq_proto::{Reason, inter_set};
use tonic::{Code, Status};

use super::Between;
use super::link::Member;

/// Timeout for all requests that one confirmation needs. It is less than one second, which is the timeout of the
/// waiting sender.
const TIMEOUT: Duration = Duration::from_millis(900);

impl Between {
    /// Asks other sets to confirm that the sections in `arrive` have departed to this set. Returns the arrival with the
    /// values in the sections' tombstones, instead of the values in the request.
    ///
    /// # Errors
    /// `SET_UNAVAILABLE` if a departure cannot be confirmed now.
    pub(super) async fn confirm_arrival(&self, arrive: Arrive) -> Result<Arrive, Status> {
        let mut confirmation = self.replicated.read(|state| Confirmation::new(state, arrive));
        let walks = async {
            loop {
                let asks = confirmation.asks();
                if asks.is_empty() {
                    return Ok(());
                }
                let calls = asks.iter().map(|(set, sections)| self.ask(*set, sections, MigrationId(0)));
                for (set, response) in asks.keys().zip(join_all(calls).await) {
                    match response {
                        Ok(response) => {
                            let records = inter_set::confirmed(&response)?;
                            let lineage = Lineage(response.lineage);
                            self.replicated.read(|state| confirmation.on_records(state, *set, lineage, &records));
                        }
                        Err(status) if is_of_release_before(*set, &status) => confirmation.trust(*set),
                        Err(status) => confirmation.fail(*set, status.message()),
                    }
                }
            }
        };
        let outcome: Result<(), Status> = tokio::time::timeout(TIMEOUT, walks).await.unwrap_or_else(|_| late());
        outcome?;
        confirmation.finish().map_err(|unconfirmed| Reason::SetUnavailable.status(unconfirmed.to_string()))
    }

    /// Asks the set `set` to confirm that its migration `id` has ended in the way `end`. Returns whether all sections
    /// that departed by this migration have arrived.
    ///
    /// # Errors
    /// `SET_UNAVAILABLE` if the end cannot be confirmed now.
    pub(super) async fn confirm_end(&self, set: SetId, id: MigrationId, end: MigrationEnd) -> Result<bool, Status> {
        let Some(response) = self.ask_in_time(set, id).await? else { return Ok(true) };
        if response.end() == end {
            return Ok(response.settled);
        }
        let text = format!("set {set} does not confirm that migration {id} ended so: it states {:?}", response.end());
        Err(Reason::SetUnavailable.status(text))
    }

    /// Asks the set `set` whether it knows the migration `id`, which began in it. Also returns the lineage that the set
    /// states. If the set runs an earlier release without this method, it is assumed to know the migration.
    ///
    /// # Errors
    /// `SET_UNAVAILABLE` if the set did not respond.
    pub(super) async fn knows_migration(&self, set: SetId, id: MigrationId) -> Result<(Lineage, bool), Status> {
        Ok(match self.ask_in_time(set, id).await? {
            Some(response) => (Lineage(response.lineage), response.end() != MigrationEnd::Unspecified),
            None => (Lineage(u64::MAX), true),
        })
    }

    /// Asks the set `set` to confirm that it has the lineage `lineage`.
    ///
    /// # Errors
    /// `SET_UNAVAILABLE` if the lineage cannot be confirmed now.
    pub(super) async fn confirm_lineage(&self, set: SetId, lineage: Lineage) -> Result<(), Status> {
        match self.ask_in_time(set, MigrationId(0)).await? {
            Some(response) if response.lineage != lineage.0 => {
                let stated = Lineage(response.lineage);
                let text = format!("set {set} does not confirm that it is of lineage {lineage}: it states {stated}");
                Err(Reason::SetUnavailable.status(text))
            }
            _ => Ok(()),
        }
    }

    /// Asks `set` for the state of its migration `migration`. Returns `None` if the set runs an earlier release that
    /// lacks this method. Fails if the set does not respond within [`TIMEOUT`].
    async fn ask_in_time(&self, set: SetId, migration: MigrationId) -> Result<Option<ConfirmResponse>, Status> {
        let asked = tokio::time::timeout(TIMEOUT, self.ask(set, &[], migration)).await.unwrap_or_else(|_| late());
        match asked {
            Ok(response) => Ok(Some(response)),
            Err(status) if is_of_release_before(set, &status) => Ok(None),
            Err(status) => {
                let text = format!("set {set} does not confirm it: {}", status.message());
                Err(Reason::SetUnavailable.status(text))
            }
        }
    }

    async fn ask(&self, set: SetId, sections: &[SectionId], migration: MigrationId) -> Result<ConfirmResponse, Status> {
        let head = self.head(set).ok_or_else(|| Status::unavailable("this set is not defined yet"))?;
        let sections = sections.iter().map(|section| section.0).collect();
        let request = ConfirmRequest { between: Some(head), sections, migration_id: migration.0 };
        let method = async |mut member: Member, request| member.confirm(request).await;
        self.links.call(set, request, method).await
    }
}

/// Returns this set's response to another set's request for a confirmation: the requested tombstones, and the state of
/// the requested migration.
pub(super) fn confirmed(state: &State, request: &ConfirmRequest) -> Result<ConfirmResponse, Status> {
    if request.sections.len() > limits::MAX_MOVES {
        let text = format!("{} sections: name up to {}", request.sections.len(), limits::MAX_MOVES);
        return Err(Reason::BadRuns.status(text));
    }
    let mut sections: Vec<SectionId> = request.sections.iter().copied().map(SectionId).collect();
    sections.sort_unstable();
    sections.dedup();
    let departed = |section: &SectionId| match state.sections.get(*section) {
        Some(SectionRecord::Departed(tombstone)) => Some((*section, *tombstone)),
        _ => None,
    };
    // The records of a set in quarantine may belong to an abandoned history, so other sets must state newer facts
    // first.
    let known = sections.iter().filter(|_| !state.is_quarantined());
    let tombstones: Vec<(SectionId, Tombstone)> = known.filter_map(departed).collect();
    let id = MigrationId(request.migration_id);
    Ok(ConfirmResponse {
        end: end_of(state, id).into(),
        settled: state.has_settled(id),
        ..inter_set::to_confirmed(state.lineage, &tombstones)
    })
}

fn end_of(state: &State, id: MigrationId) -> MigrationEnd {
    use seq_core::state::Phase;
    match state.migrations.get(&id).map(|migration| migration.phase) {
        None => MigrationEnd::Unspecified,
        Some(Phase::Open) => MigrationEnd::Open,
        Some(Phase::RolledBack { .. }) => MigrationEnd::RolledBack,
        Some(Phase::Completed { .. }) => MigrationEnd::Completed,
    }
}

fn late<T>() -> Result<T, Status> {
    Err(Reason::SetUnavailable.status(format!("no response within {TIMEOUT:?}")))
}

/// Returns whether the error `status` means that the leader of `set` runs an earlier release without this method. Until
/// that set is upgraded, its statements are trusted without a confirmation, as in the earlier release.
fn is_of_release_before(set: SetId, status: &Status) -> bool {
    let before = status.code() == Code::Unimplemented;
    if before {
        tracing::warn!(set = set.0, "a set of an earlier release cannot confirm what it sends: upgrade it");
    }
    before
}
