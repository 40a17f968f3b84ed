//! Continues a coordinator after the responses to its requests.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use super::stuck::Step;
use super::{ARMED_FOR, Armed, Coordinator, Effect, Owner, Proposal, REFUSED_FOR};
use crate::arbiter::{Departure, PlannedHandover};
use crate::id::{Lineage, MigrationId, SetId};
use crate::state::{Arrival, Arrive, Arrived, Complete, DepartSilent, State};

impl Coordinator {
    /// Continues after the target set named the next owners `armed` in response to [`Effect::Arm`]. For each section
    /// with a live owner, plans a handover to its next owner. If there are sections without a live owner, returns the
    /// effect that commits their departure.
    pub fn on_armed(&mut self, migration: MigrationId, armed: &[Armed], now: Duration) -> Option<Effect> {
        let mut departs = Vec::new();
        let mut is_in_time = false;
        for Armed { section, set: (set, lineage), owner: (to, incarnation), addr } in armed {
            let (set, lineage, to, incarnation) = (*set, *lineage, *to, *incarnation);
            let asked = self.moves.get_mut(section).filter(|one| one.migration == migration && one.planned.is_none());
            let Some(asked) = asked else { continue };
            is_in_time = true;
            let (section, epoch) = (*section, asked.epoch);
            match asked.owner {
                Owner::Living(from) => {
                    asked.until = now + ARMED_FOR;
                    let departure = Some(Arc::new(Departure { set, lineage, migration, addr: addr.clone() }));
                    asked.planned = Some(PlannedHandover { section, epoch, from, to, incarnation, departure });
                }
                Owner::None(liveness) => {
                    departs.push(DepartSilent { section, expected: epoch, liveness, to: set, lineage, migration });
                }
            }
        }
        if is_in_time {
            self.on_success(migration, Step::Arm);
        }
        self.wake(now);
        (!departs.is_empty()).then_some(Effect::Commit(Proposal::DepartSilent(departs)))
    }

    /// Continues after [`Effect::Arm`] failed for the reason `cause`, because the target set has no quorum, takes no
    /// sections, or did not respond.
    pub fn on_arm_refused(&mut self, migration: MigrationId, cause: &str, now: Duration) {
        self.on_failure(migration, Step::Arm, cause, now);
        self.moves.retain(|_, one| one.migration != migration || one.planned.is_some());
        let bucket = self.buckets.entry(migration).or_default();
        bucket.next = bucket.next.max(now + REFUSED_FOR);
        let next = bucket.next;
        self.wake(next);
    }

    /// Continues after [`Effect::Arrive`] failed for the reason `cause`. The effect is repeated.
    pub fn on_arrive_failed(&mut self, arrive: &Arrive, cause: &str, now: Duration) {
        for migration in arrive.sections.iter().map(|one| one.migration).collect::<BTreeSet<_>>() {
            self.on_failure(migration, Step::Arrive, cause, now);
        }
    }

    /// Continues after the target set `at` responded to [`Effect::Arrive`]. `lineage` is the lineage in the response,
    /// and `outcome` has an entry for each section of `arrive`. Returns the effect that notes, in this set's log, which
    /// sections the target set has; `None` if it has none of them.
    #[must_use]
    pub fn on_arrive(
        &mut self,
        (at, lineage): (SetId, Lineage),
        arrive: &Arrive,
        outcome: &[Arrival],
        now: Duration,
    ) -> Option<Effect> {
        let mut causes: BTreeMap<MigrationId, Option<String>> = BTreeMap::new();
        let mut sections = Vec::new();
        for (one, outcome) in arrive.sections.iter().zip(outcome) {
            let cause = causes.entry(one.migration).or_default();
            match outcome {
                Arrival::Arrived | Arrival::Past => sections.push((one.section, one.epoch)),
                Arrival::Waits => *cause = Some(String::from("the other set was restored, and is in quarantine")),
                Arrival::Refused => *cause = Some(format!("the other set refuses section {}", one.section)),
            }
        }
        for (migration, cause) in causes {
            match cause {
                Some(cause) => self.on_failure(migration, Step::Arrive, &cause, now),
                None => self.on_success(migration, Step::Arrive),
            }
        }
        let noted = !sections.is_empty();
        noted.then(|| Effect::Commit(Proposal::Arrived(Arrived { at, lineage, sections, ended: Vec::new() })))
    }

    /// Continues after the request for the end of a migration, [`Effect::StartReturn`] or [`Effect::Complete`], failed
    /// for the reason `cause`. The effect is repeated.
    pub fn on_end_failed(&mut self, migration: MigrationId, cause: &str, now: Duration) {
        self.on_failure(migration, Step::End, cause, now);
    }

    /// Continues after the target set started a return that is not settled yet.
    pub fn on_return_started(&mut self, migration: MigrationId) {
        self.on_success(migration, Step::End);
    }

    /// Continues after the target set `at`, which is in `lineage`, committed the end of a migration. Returns the effect
    /// that notes this in this set's log. After [`Effect::StartReturn`], this function must be called only if the
    /// return that was committed is settled.
    #[must_use]
    pub fn on_end(&mut self, (at, lineage): (SetId, Lineage), migration: MigrationId) -> Effect {
        self.on_success(migration, Step::End);
        let (sections, ended) = (Vec::new(), Vec::from([migration]));
        Effect::Commit(Proposal::Arrived(Arrived { at, lineage, sections, ended }))
    }

    /// Continues after the source set `of` responded to [`Effect::Ask`]. `lineage` is the lineage in the response, and
    /// `knows` is whether that set knows the migration. If that set does not know it, the set was restored from a
    /// backup that is older than the migration, and only this set's log knows the migration. In this case the sections
    /// stay in this set, and the returned effect commits this.
    #[must_use]
    pub fn on_asked(
        &mut self,
        state: &State,
        (of, lineage): (SetId, Lineage),
        migration: MigrationId,
        knows: bool,
    ) -> Option<Effect> {
        if lineage < state.sets.get(&of)?.fenced {
            return None;
        }
        if knows {
            self.known.insert(migration, lineage);
            return None;
        }
        Some(Effect::Commit(Proposal::Complete(Complete { id: migration, by: Some(of) })))
    }
}
