//! The steps of `InterSetService` around the state: the check of a request's sender, its confirmation, its command.

use std::time::Duration;

use arbitrary::Result;
use seq_core::confirmation::Confirmation;
use seq_core::state::{
    AdoptSeries, Answer, Arrive, Command, CommandRefusal, Complete, Fence, LearnDirectory, Pace, Phase, SectionRecord,
    SetFacts, SetRefusal, StartReturn,
};
use seq_core::{Lineage, MigrationId, RouteVersion, SectionId, SetId};
use seq_proto::v1::{self, MigrationEnd};
use seq_proto::{inter_set, series};

use super::{Bug, CLUSTER, HOSTILE, World, id, index, stores};
use crate::input::Input;

/// A request of another set.
#[derive(Clone, Debug)]
pub(super) enum Request {
    Arrive(v1::ArriveRequest),
    StartReturn(v1::StartReturnRequest),
    CompleteArrival(v1::CompleteArrivalRequest),
    Fence(v1::FenceRequest),
    Exchange(v1::ExchangeRequest),
    Confirm(v1::ConfirmRequest),
    ReadFinal(v1::ReadFinalRequest),
}

/// A response.
#[derive(Clone, Debug)]
pub(super) enum Response {
    Arrived(v1::ArriveResponse),
    /// A return has begun, or an end is noted.
    Ended,
    Page(v1::FenceResponse),
    /// Facts, claims, and the set that creates series.
    Exchanged(v1::SetFacts, Vec<v1::ClaimRun>, Option<v1::LayoutWriter>),
    /// The facts that a request to confirm reads, which changes nothing.
    Confirmed,
}

impl Request {
    fn between(&self) -> Option<&v1::Between> {
        match self {
            Request::Arrive(request) => request.between.as_ref(),
            Request::StartReturn(request) => request.between.as_ref(),
            Request::CompleteArrival(request) => request.between.as_ref(),
            Request::Fence(request) => request.between.as_ref(),
            Request::Exchange(request) => request.between.as_ref(),
            Request::Confirm(request) => request.between.as_ref(),
            Request::ReadFinal(request) => request.between.as_ref(),
        }
    }
}

impl World {
    /// Receives a request at a set under the certificate of another set; `None` if it is refused. To requests in
    /// between, the hostile set responds with statements that `lies` draws.
    pub(super) fn receive(
        &mut self,
        at: usize,
        certificate: usize,
        request: Request,
        lies: Option<&mut Input<'_>>,
    ) -> Result<Option<Response>> {
        let Some(between) = request.between().cloned() else { return Ok(None) };
        let from = SetId(between.from_set_id);
        let is_for_us =
            between.to_set_id == id(at).0 || between.to_set_id == 0 && matches!(request, Request::Exchange(_));
        if between.cluster != CLUSTER || !is_for_us {
            return Ok(None);
        }
        // Names of sets do not change, so the certificate's name is compared as the id of the set with that name.
        let known = self.sets[at].sets.get(&from).is_some_and(|peer| peer.facts.is_some());
        let is_of_holder = from == id(certificate) || self.bug == Some(Bug::AnySender);
        if !is_of_holder || !known && !matches!(request, Request::Exchange(_)) {
            return Ok(None);
        }
        match request {
            Request::Arrive(request) => self.on_arrive(at, &between, &request, lies),
            Request::StartReturn(request) => self.on_start_return(at, from, &request, lies),
            Request::CompleteArrival(request) => {
                let migration = MigrationId(request.migration_id);
                if self.confirm_end(at, from, migration, MigrationEnd::Completed, lies)?.is_none() {
                    return Ok(None);
                }
                let complete = Command::Complete(Complete { id: migration, by: Some(from) });
                Ok((self.apply(at, &complete) == Answer::Completed(Ok(()))).then_some(Response::Ended))
            }
            Request::Fence(request) => self.on_fence(at, (from, Lineage(between.from_lineage)), &request, lies),
            Request::Exchange(request) => Ok(self.on_exchange(at, from, &request)),
            Request::Confirm(request) => {
                self.confirmed(at, &request);
                Ok(Some(Response::Confirmed))
            }
            Request::ReadFinal(request) => {
                let page = self.sets[at].final_records(from, SectionId(request.first_section));
                Ok(page.ok().map(|page| Response::Page((&page).into())))
            }
        }
    }

    fn on_arrive(
        &mut self,
        at: usize,
        between: &v1::Between,
        request: &v1::ArriveRequest,
        lies: Option<&mut Input<'_>>,
    ) -> Result<Option<Response>> {
        let Ok(arrive) = inter_set::arrive(request, between) else { return Ok(None) };
        let lineage = self.sets[at].lineage.0;
        if self.sets[at].is_quarantined() {
            let outcomes = vec![v1::ArrivalOutcome::Waits.into(); arrive.sections.len()];
            return Ok(Some(Response::Arrived(v1::ArriveResponse { lineage, outcomes })));
        }
        let Some(arrive) = self.confirm_arrival(at, arrive, lies)? else { return Ok(None) };
        let Answer::Arrived(Ok(outcomes)) = self.apply(at, &Command::Arrive(arrive)) else { return Ok(None) };
        let outcomes = outcomes.into_iter().map(|one| v1::ArrivalOutcome::from(one).into()).collect();
        Ok(Some(Response::Arrived(v1::ArriveResponse { lineage, outcomes })))
    }

    fn confirm_arrival(
        &mut self,
        at: usize,
        arrive: Arrive,
        mut lies: Option<&mut Input<'_>>,
    ) -> Result<Option<Arrive>> {
        if self.bug == Some(Bug::Unconfirmed) {
            return Ok(Some(arrive));
        }
        let mut confirmation = Confirmation::new(&self.sets[at], arrive);
        loop {
            let asks = confirmation.asks();
            if asks.is_empty() {
                return Ok(confirmation.finish().ok());
            }
            for (set, sections) in asks {
                match self.ask(at, set, (&sections, MigrationId(0)), lies.as_deref_mut())? {
                    Some(response) => {
                        let Ok(records) = inter_set::confirmed(&response) else { return Ok(None) };
                        confirmation.on_records(&self.sets[at], set, Lineage(response.lineage), &records);
                    }
                    None => confirmation.fail(set, "no response"),
                }
            }
        }
    }

    fn on_start_return(
        &mut self,
        at: usize,
        to: SetId,
        request: &v1::StartReturnRequest,
        lies: Option<&mut Input<'_>>,
    ) -> Result<Option<Response>> {
        let of = MigrationId(request.of_migration_id);
        let Some(settled) = self.confirm_end(at, to, of, MigrationEnd::RolledBack, lies)? else { return Ok(None) };
        let max_pause = Duration::from_millis(request.max_pause_ms.into());
        let pace = Pace { rate: request.rate, max_pause, paused: false };
        let settled = (request.settled && settled) || self.bug == Some(Bug::ReturnNeverWaits);
        let start = StartReturn { of, to, id: MigrationId(request.return_id), pace, settled };
        let answer = self.apply(at, &Command::StartReturn(start));
        Ok(matches!(answer, Answer::ReturnStarted(Ok(_))).then_some(Response::Ended))
    }

    /// Returns whether all sections that departed by a migration have arrived; `None` if the end of the migration is
    /// not confirmed.
    fn confirm_end(
        &mut self,
        at: usize,
        set: SetId,
        migration: MigrationId,
        end: MigrationEnd,
        lies: Option<&mut Input<'_>>,
    ) -> Result<Option<bool>> {
        let response = self.ask(at, set, (&[], migration), lies)?;
        Ok(response.filter(|response| response.end() == end).map(|response| response.settled))
    }

    fn on_fence(
        &mut self,
        at: usize,
        (set, lineage): (SetId, Lineage),
        request: &v1::FenceRequest,
        lies: Option<&mut Input<'_>>,
    ) -> Result<Option<Response>> {
        let first = SectionId(request.first_section);
        let mut page = self.sets[at].fence_response(set, lineage, first);
        if let Err(CommandRefusal::BetweenSets(SetRefusal::FenceNotApplied { .. })) = page {
            let confirmed = self.ask(at, set, (&[], MigrationId(0)), lies)?;
            if confirmed.is_none_or(|response| response.lineage != lineage.0) {
                return Ok(None);
            }
            match self.apply(at, &Command::Fence(Fence { set, lineage })) {
                Answer::Fenced(Ok(())) => {
                    self.reach("fenced");
                    page = self.sets[at].fence_response(set, lineage, first);
                }
                Answer::Fenced(Err(CommandRefusal::BetweenSets(SetRefusal::TooFewRestores { least, .. }))) => {
                    let (lineage, fenced) = (self.sets[at].lineage.0, lineage.0);
                    let low = v1::FenceResponse { lineage, fenced, least_restores: least, ..Default::default() };
                    return Ok(Some(Response::Page(low)));
                }
                _ => return Ok(None),
            }
        }
        let writer = self.sets[at].layout_writer().as_ref().map(v1::LayoutWriter::from);
        Ok(page.ok().map(|page| Response::Page(v1::FenceResponse { writer, ..(&page).into() })))
    }

    fn on_exchange(&mut self, at: usize, from: SetId, request: &v1::ExchangeRequest) -> Option<Response> {
        let state = &self.sets[at];
        if request.layout_id != 0 && request.layout_id != state.set.as_ref()?.layout.id().0 {
            return None;
        }
        let claims = state.directory.since(RouteVersion(request.route_version));
        let claims = claims.map(|run| v1::ClaimRun::from(&run)).collect();
        let own = v1::SetFacts::from(&state.facts(stores(at))?);
        let writer = state.layout_writer().as_ref().map(v1::LayoutWriter::from);
        if let Some(facts) = &request.facts {
            let facts = inter_set::facts(facts).ok()?;
            let named = self.sets[at].sets.get(&from).and_then(|peer| peer.facts.as_ref()).map(|facts| &facts.name);
            if facts.id != from || named.is_some_and(|named| *named != facts.name) {
                return None;
            }
            self.learn(at, from, facts, vec![]);
        }
        Some(Response::Exchanged(own, claims, writer))
    }

    /// Learns the facts and the claims that another set states.
    pub(super) fn learn(&mut self, at: usize, from: SetId, facts: SetFacts, claims: Vec<v1::ClaimRun>) {
        let count = self.sets[at].sections.len() as u32;
        let claims: std::result::Result<Vec<_>, _> = claims.iter().map(|run| inter_set::claim(run, count)).collect();
        let Ok(claims) = claims else { return };
        if self.bug == Some(Bug::AnyClaims) {
            let version = self.sets[at].route_version;
            self.sets[at].directory.merge(&claims, version);
        }
        let known = self.sets[at].sets.get(&from).and_then(|peer| peer.facts.as_ref());
        let is_newer = |known: &SetFacts| (known.lineage, known.revision) < (facts.lineage, facts.revision);
        let sets = if known.is_none_or(is_newer) { vec![facts] } else { vec![] };
        let claims = self.sets[at].vouched_claims(from, &claims);
        let learned = self.apply(at, &Command::LearnDirectory(LearnDirectory { from: Some(from), claims, sets }));
        if matches!(learned, Answer::DirectoryLearned(Ok(true))) {
            self.reach("learned");
        }
    }

    /// Adopts the set that creates series, as another set states it. There are no series.
    pub(super) fn adopt(&mut self, at: usize, (from, lineage): (SetId, u64), writer: Option<&v1::LayoutWriter>) {
        let writer = writer.map(series::writer);
        let adopt = AdoptSeries { from, lineage: Lineage(lineage), series: Vec::new(), writer };
        if self.sets[at].adopts_series(&adopt)
            && matches!(self.apply(at, &Command::AdoptSeries(adopt)), Answer::SeriesAdopted(Ok(true)))
        {
            self.reach("adopted the set that creates series");
        }
    }

    /// Has a set ask another set, over a connection of its own; `None`: no response, or a refusal.
    fn ask(
        &mut self,
        at: usize,
        set: SetId,
        (sections, migration): (&[SectionId], MigrationId),
        lies: Option<&mut Input<'_>>,
    ) -> Result<Option<v1::ConfirmResponse>> {
        let request = v1::ConfirmRequest {
            between: None,
            sections: sections.iter().map(|section| section.0).collect(),
            migration_id: migration.0,
        };
        match (index(set), lies) {
            (Some(HOSTILE), Some(lies)) if self.is_hostile => {
                self.reach("asked the hostile set");
                self.lie(lies, at, &request).map(Some)
            }
            (Some(HOSTILE), None) if self.is_hostile => Ok(None),
            (Some(set), _) => Ok(Some(self.confirmed(set, &request))),
            (None, _) => Ok(None),
        }
    }

    /// Returns a set's true response to a request to confirm.
    fn confirmed(&self, at: usize, request: &v1::ConfirmRequest) -> v1::ConfirmResponse {
        let state = &self.sets[at];
        let mut asked: Vec<SectionId> = request.sections.iter().copied().map(SectionId).collect();
        asked.sort_unstable();
        asked.dedup();
        let departed = |section: &SectionId| match state.sections.get(*section) {
            Some(SectionRecord::Departed(tombstone)) => Some((*section, *tombstone)),
            _ => None,
        };
        let known = asked.iter().filter(|_| !state.is_quarantined());
        let tombstones: Vec<_> = known.filter_map(departed).collect();
        let migration = MigrationId(request.migration_id);
        let end = match state.migrations.get(&migration).map(|one| one.phase) {
            None => MigrationEnd::Unspecified,
            Some(Phase::Open) => MigrationEnd::Open,
            Some(Phase::RolledBack { .. }) => MigrationEnd::RolledBack,
            Some(Phase::Completed { .. }) => MigrationEnd::Completed,
        };
        v1::ConfirmResponse {
            end: end.into(),
            settled: state.has_settled(migration),
            ..inter_set::to_confirmed(state.lineage, &tombstones)
        }
    }
}
