//! The holder of the third set's certificate: any request, in the name of any set, and any response.

use arbitrary::Result;
use seq_core::state::{SectionRecord, State};
use seq_core::{Lineage, SectionId, SetId, limits};
use seq_proto::{inter_set, v1};

use super::service::Request;
use super::{CLUSTER, HOSTILE, SECTIONS, World, id, name, stores};
use crate::input::Input;

/// Most rows of one request.
const MAX_ROWS: u64 = 3;

impl World {
    /// Makes a request of the hostile set, a response of it, or an honest step of the others.
    pub(super) fn hostile_step(&mut self, input: &mut Input<'_>) -> Result<()> {
        let at = input.below(HOSTILE as u64)? as usize;
        match input.below(6)? {
            0 | 1 => self.honest_step(input),
            2 => {
                let claims = input.some(MAX_ROWS, |input| self.claim(input, at))?;
                if let Ok(facts) = inter_set::facts(&self.facts(input, at, id(HOSTILE).0)?) {
                    // The client accepts only a response of the set that it dialled.
                    if facts.id == id(HOSTILE) && facts.name == name(HOSTILE) {
                        self.learn(at, id(HOSTILE), facts, claims);
                    }
                }
                Ok(())
            }
            _ => {
                let request = self.request(input, at)?;
                self.reach("hostile requests");
                if self.receive(at, HOSTILE, request, Some(input))?.is_some() {
                    self.reach("hostile requests that are accepted");
                }
                Ok(())
            }
        }
    }

    fn request(&self, input: &mut Input<'_>, at: usize) -> Result<Request> {
        let between = self.between(input, at)?;
        let from = between.from_set_id;
        let between = Some(between);
        let state = &self.sets[at];
        Ok(match input.below(9)? {
            0..3 => {
                let mut request = v1::ArriveRequest {
                    between,
                    to_lineage: input.around(state.lineage.0)?,
                    layout_id: input.around(self.layout_id.0)?,
                    ..Default::default()
                };
                for _ in 0..=input.below(MAX_ROWS)? {
                    let section = section(input)?;
                    request.sections.push(section.0);
                    request.epochs.push(next_epoch(input, state, section)?);
                    request.ceilings.push(ceiling(input, state, section)?);
                    request.handover_ids.push(input.around(self.drawn)?);
                    request.node_ids.push(input.around_small(1)?);
                    request.incarnations.push(incarnation(input, state)?);
                    request.migration_ids.push(self.migration(input)?);
                }
                Request::Arrive(request)
            }
            3 => Request::StartReturn(v1::StartReturnRequest {
                between,
                of_migration_id: self.migration(input)?,
                return_id: input.around(self.drawn + 1)?,
                rate: input.around_small(10)?,
                max_pause_ms: input.around_small(10)?,
                settled: input.flag()?,
            }),
            4 => {
                let migration_id = self.migration(input)?;
                Request::CompleteArrival(v1::CompleteArrivalRequest { between, migration_id })
            }
            5 => Request::Fence(v1::FenceRequest { between, first_section: input.around_small(0)? }),
            6 => Request::Exchange(v1::ExchangeRequest {
                between,
                facts: Some(self.facts(input, at, from)?),
                route_version: input.around(0)?,
                layout_id: input.around(self.layout_id.0)?,
            }),
            7 => {
                let sections = input.some(MAX_ROWS, |input| Ok(section(input)?.0))?;
                Request::Confirm(v1::ConfirmRequest { between, sections, migration_id: self.migration(input)? })
            }
            _ => Request::ReadFinal(v1::ReadFinalRequest { between, first_section: input.around_small(0)? }),
        })
    }

    /// Returns the sender and the receiver of a request: in most cases the hostile set, and the set that receives it.
    fn between(&self, input: &mut Input<'_>, at: usize) -> Result<v1::Between> {
        let cluster = if input.below(32)? == 0 { "other" } else { CLUSTER };
        Ok(v1::Between {
            cluster: cluster.to_owned(),
            from_set_id: self.set(input, 4)?,
            from_lineage: self.lineage(input, at)?,
            to_set_id: if input.below(16)? == 0 { input.around(0)? } else { id(at).0 },
        })
    }

    /// Returns the hostile set, except once in so many times.
    fn set(&self, input: &mut Input<'_>, times: u64) -> Result<u64> {
        if input.below(times)? > 0 {
            return Ok(id(HOSTILE).0);
        }
        let other = input.below(HOSTILE as u64)? as usize;
        input.around(id(other).0)
    }

    /// Returns a lineage of the hostile set: the known lineage, or a lineage that counts more.
    fn lineage(&self, input: &mut Input<'_>, at: usize) -> Result<u64> {
        let state = &self.sets[at];
        let known = state.sets.get(&id(HOSTILE)).map_or(0, |peer| peer.fenced.0);
        match input.below(4)? {
            0 => {
                let count = u64::from(state.most_restores()) + input.below(3)?;
                Ok(Lineage::of_restore(count as u32, self.drawn as u32).0)
            }
            _ => input.around(known),
        }
    }

    fn migration(&self, input: &mut Input<'_>) -> Result<u64> {
        let known: Vec<u64> = self
            .sets
            .iter()
            .flat_map(|state| state.migrations.keys().chain(state.foreign_migrations.keys()))
            .map(|id| id.0)
            .collect();
        let fits = known.get(input.below(known.len().max(1) as u64)? as usize).copied();
        input.around(fits.unwrap_or(self.drawn))
    }

    /// Returns facts, in most cases of the set that sends them.
    fn facts(&self, input: &mut Input<'_>, at: usize, from: u64) -> Result<v1::SetFacts> {
        let set = if input.below(8)? == 0 { self.set(input, 2)? } else { from };
        let known = self.sets[at].sets.get(&SetId(set)).and_then(|peer| peer.facts.as_ref());
        let revision = known.map_or(0, |facts| facts.revision.0);
        let named = if input.below(8)? == 0 { input.below(3)? as usize } else { set.saturating_sub(1).min(9) as usize };
        let other = |input: &mut Input<'_>| Ok(id(input.below(3)? as usize).0);
        let lists = |input: &mut Input<'_>| -> Result<(Vec<u64>, Vec<u64>)> {
            let sets = input.some(MAX_ROWS, other)?;
            let lineages = sets.iter().map(|_| input.around(0)).collect::<Result<_>>()?;
            Ok((sets, lineages))
        };
        let ((refused_set_ids, refused_lineages), (inherited_set_ids, inherited_lineages)) =
            (lists(input)?, lists(input)?);
        Ok(v1::SetFacts {
            id: set,
            lineage: self.lineage(input, at)?,
            revision: input.around(revision + 1)?,
            name: name(named),
            stores: stores(HOSTILE),
            allocs: vec![],
            closing: input.below(8)? == 0,
            closed: input.below(16)? == 0,
            refused_set_ids,
            refused_lineages,
            quarantined: input.below(8)? == 0,
            inherited_set_ids,
            inherited_lineages,
        })
    }

    fn claim(&self, input: &mut Input<'_>, at: usize) -> Result<v1::ClaimRun> {
        let first = section(input)?;
        Ok(v1::ClaimRun {
            first_section: first.0,
            sections: input.around_small(1)?,
            set_id: self.set(input, 4)?,
            since: next_epoch(input, &self.sets[at], first)?,
        })
    }

    /// Returns a response of the hostile set to a request to confirm.
    pub(super) fn lie(
        &self,
        input: &mut Input<'_>,
        at: usize,
        request: &v1::ConfirmRequest,
    ) -> Result<v1::ConfirmResponse> {
        let state = &self.sets[at];
        let mut response = v1::ConfirmResponse {
            lineage: self.lineage(input, at)?,
            end: input.around_small(3)? as i32,
            settled: input.flag()?,
            ..Default::default()
        };
        for asked in &request.sections {
            let section = SectionId(*asked);
            response.sections.push(input.around_small(*asked)?);
            response.epochs.push(next_epoch(input, state, section)?);
            response.set_ids.push(if input.below(8)? == 0 { self.set(input, 2)? } else { id(at).0 });
            response.lineages.push(input.around(state.lineage.0)?);
            response.ceilings.push(ceiling(input, state, section)?);
            response.handover_ids.push(input.around(self.drawn)?);
            response.node_ids.push(input.around_small(1)?);
            response.incarnations.push(incarnation(input, state)?);
            response.migration_ids.push(self.migration(input)?);
        }
        Ok(response)
    }
}

fn section(input: &mut Input<'_>) -> Result<SectionId> {
    let section = input.below(SECTIONS.into())? as u32;
    Ok(SectionId(input.around_small(section)?))
}

fn next_epoch(input: &mut Input<'_>, state: &State, section: SectionId) -> Result<u64> {
    let fence = state.sections.get(section).map_or(0, |record| record.fence().0);
    input.around((fence + 1).min(limits::MAX_ARRIVED_EPOCH))
}

fn ceiling(input: &mut Input<'_>, state: &State, section: SectionId) -> Result<u64> {
    let ceiling = match state.sections.get(section) {
        Some(SectionRecord::Resident(record)) => record.max_seq.0,
        Some(SectionRecord::Departed(tombstone)) => tombstone.max_seq.0,
        _ => 0,
    };
    input.around(ceiling)
}

fn incarnation(input: &mut Input<'_>, state: &State) -> Result<u64> {
    input.around(state.nodes.first().map_or(1, |node| node.incarnation.0))
}
