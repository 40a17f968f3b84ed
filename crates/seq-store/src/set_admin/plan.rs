//! Plan of a migration, which is checked before it starts. The source set is checked against its own applied state, and
//! the target set is asked with a request that changes nothing.
//!
//! **Invariant:** if a plan has problems, it has no id, so the migration cannot be started with it. Each problem names
//! an obstacle.

use seq_core::layout::SectionRun;
use seq_core::state::{Closing, PeerSet, Phase, Rules, Scope, SetDefinition, State};
use seq_core::{MigrationId, SectionId, SetId, limits};
use seq_kit::nonce::draw_nonce;
use seq_proto::v1::{
    ArmRequest, ArmResponse, MigrationPlan, PlanMigrationRequest, PlanMigrationResponse, SectionRange,
};
use seq_proto::{Reason, status};
use tonic::Status;

use super::migrations::pace_of;
use super::{SetAdmin, name_of};
use crate::between::link::Member;

/// Plan of a migration with the results of its checks so far.
#[derive(Default)]
struct Draft {
    plan: MigrationPlan,
    /// Sections that are to be moved, as runs in ascending order that do not overlap.
    runs: Vec<SectionRun>,
    sections: u32,
    uids: u64,
    lanes: u64,
    unowned: u32,
    warnings: Vec<String>,
    problems: Vec<String>,
}

impl SetAdmin {
    pub(super) async fn plan_migration(&self, request: PlanMigrationRequest) -> Result<PlanMigrationResponse, Status> {
        self.linearize().await?;
        let mut draft = self.read(|state, set| Draft::of(state, set, &request))?;
        self.check_way_back(&mut draft);
        let target = match SetId(draft.plan.to_set_id) {
            SetId(0) => None,
            set => self.check_target(&mut draft, set).await?,
        };
        let pace = pace_of(request.pace.as_ref(), None);
        if draft.problems.is_empty() {
            draft.plan.fingerprint = self.fingerprint(&draft)?;
            draft.plan.id = draw_nonce();
        }
        let target = target.unwrap_or_default();
        Ok(PlanMigrationResponse {
            plan: Some(draft.plan),
            sections: draft.sections,
            uids: draft.uids,
            lanes: draft.lanes,
            unowned: draft.unowned,
            target_allocs: target.nodes.len() as u32,
            target_sections: target.resident,
            // The start and the end of the migration take one write each. Each section takes two, for its departure and
            // for the note of its arrival.
            writes: 2 + 2 * u64::from(draft.sections),
            seconds: u64::from(draft.sections.div_ceil(pace.rate).max(1)),
            warnings: draft.warnings,
            problems: draft.problems,
        })
    }

    fn fingerprint(&self, draft: &Draft) -> Result<u64, Status> {
        let fingerprint = self.read(|state, _| state.fingerprint(SetId(draft.plan.to_set_id), &draft.runs))?;
        let changed = || Reason::StalePlan.status("the sets changed while the migration was planned: plan it again");
        Ok(fingerprint.ok_or_else(changed)?.0)
    }

    /// Adds a warning to the draft if the sections could not be served in this set after a rollback of the migration.
    fn check_way_back(&self, draft: &mut Draft) {
        if self.between.plan.borrow().candidates.is_empty() {
            draft.warnings.push(format!(
                "set {:?} has no AllocSvr that can own sections now: after a rollback they would wait for one",
                draft.plan.from
            ));
        }
    }

    /// Asks the target set whether it can accept sections now, and adds a problem to the draft if it cannot. Otherwise
    /// returns the target set's response.
    async fn check_target(&self, draft: &mut Draft, set: SetId) -> Result<Option<ArmResponse>, Status> {
        let request = ArmRequest {
            between: self.between.head(set),
            migration_id: 0,
            layout_id: self.read(|_, own| own.layout.id().0)?,
            sections: Vec::new(),
        };
        let method = async |mut member: Member, request| member.arm(request).await;
        let name = &draft.plan.to;
        match self.between.links.call(set, request, method).await {
            Ok(response) if response.lineage != draft.plan.to_lineage => {
                let (known, stated) = (draft.plan.to_lineage, response.lineage);
                draft.problems.push(format!(
                    "set {name:?} is of lineage {stated}, and this one knows it in lineage {known}: plan it again in a few \
                     seconds"
                ));
                Ok(None)
            }
            Ok(response) => Ok(Some(response)),
            Err(refusal) => {
                let why = refusal.message();
                draft.problems.push(match status::reason(&refusal) {
                    Some(reason) => format!("set {name:?} takes no sections now, {reason}: {why}"),
                    None => format!("set {name:?} does not respond: {why}"),
                });
                Ok(None)
            }
        }
    }
}

impl Draft {
    fn of(state: &State, set: &SetDefinition, request: &PlanMigrationRequest) -> Draft {
        let mut draft = Draft {
            plan: MigrationPlan {
                from_set_id: set.id.0,
                from: set.name.clone(),
                from_lineage: state.lineage.0,
                to: request.to.clone(),
                ..MigrationPlan::default()
            },
            ..Draft::default()
        };
        if state.is_quarantined() {
            draft.problems.push(format!("set {:?} was restored from a backup and waits for the others", set.name));
        }
        if state.closing > Closing::Open {
            draft.warnings.push(match state.rules {
                Rules::Ten | Rules::Eleven => format!(
                    "set {:?} is closing: a rollback ends the migration with the sections that have departed",
                    set.name
                ),
                _ => format!("set {:?} is closing: the migration cannot be rolled back", set.name),
            });
        }
        draft.choose_target(state, set, &request.to);
        draft.choose_runs(state, set, request);
        draft.check_sections(state, set);
        draft
    }

    /// Finds the target set, which the operator gave by its name or its id, and adds a problem if this is not possible.
    fn choose_target(&mut self, state: &State, own: &SetDefinition, to: &str) {
        if to == own.name || to == own.id.to_string() {
            self.plan.to.clone_from(&own.name);
            return self.problems.push(format!("the sections are in set {:?} already", own.name));
        }
        let named = |(id, peer): (&SetId, &PeerSet)| {
            let facts = peer.facts.as_ref()?;
            (facts.name == to || id.to_string() == to)
                .then(|| (*id, peer.fenced.max(facts.lineage), facts.name.clone()))
        };
        let mut found = state.sets.iter().filter_map(named);
        let Some((id, lineage, name)) = found.next() else {
            return self.problems.push(format!("set {to:?} is not known to set {:?}", own.name));
        };
        if let Some((other, ..)) = found.next() {
            return self.problems.push(format!("sets {id} and {other} both have the name {to:?}: give the id of one"));
        }
        (self.plan.to_set_id, self.plan.to, self.plan.to_lineage) = (id.0, name, lineage.0);
        if state.sets.get(&id).is_some_and(|peer| peer.closing) {
            self.problems.push(format!("set {to:?} is closing and takes no more sections"));
        }
    }

    /// Collects the requested sections in ascending order and in as few runs as possible. Adds a problem for each
    /// invalid or overlapping run.
    fn choose_runs(&mut self, state: &State, set: &SetDefinition, request: &PlanMigrationRequest) {
        let count = set.layout.sections();
        // Each run has the name by which a problem refers to it.
        let mut given: Vec<(String, SectionRun)> = Vec::new();
        if request.all {
            let here = state.sections.residents().map(|(first, _)| SectionRun { first, sections: 1 });
            given = here.map(|run| (String::new(), run)).collect();
        }
        for name in &request.series {
            given.extend(self.sections_of(state, set, name).into_iter().map(|run| (format!("series {name:?}"), run)));
        }
        for (index, SectionRange { first_section, sections }) in request.runs.iter().enumerate() {
            let (number, end) = (index + 1, u64::from(*first_section) + u64::from(*sections));
            if *sections == 0 {
                self.problems.push(format!("run {number} from section {first_section} is empty or reversed"));
            } else if end > u64::from(count) {
                self.problems.push(format!(
                    "run {number}, sections {first_section}..{end}, is not of the layout, which has sections 0..{count}"
                ));
            } else {
                let run = SectionRun { first: SectionId(*first_section), sections: *sections };
                given.push((format!("run {number}"), run));
            }
        }
        match (request.all, request.runs.is_empty() && request.series.is_empty()) {
            (true, false) => {
                let text = "runs of sections, or series, and all sections exclude each other";
                self.problems.push(text.to_owned());
            }
            (false, true) => self.problems.push("the request names no sections".to_owned()),
            (true, true) if given.is_empty() => {
                self.problems.push(format!("set {:?} has no sections", set.name));
            }
            _ => {}
        }
        given.sort_by_key(|(_, run)| run.first);
        for ((name, run), (other, next)) in given.iter().zip(given.iter().skip(1)) {
            if run.end() > Some(next.first.0) {
                self.problems.push(format!("{name}, {}, overlaps {other}, {}", shown(*run), shown(*next)));
            }
        }
        for (_, run) in given {
            match self.runs.last_mut() {
                Some(last) if last.end() == Some(run.first.0) => last.sections += run.sections,
                _ => self.runs.push(run),
            }
        }
        if self.runs.len() > limits::MAX_RUNS {
            let (runs, most) = (self.runs.len(), limits::MAX_RUNS);
            self.problems.push(format!("{runs} runs of sections are more than the {most} of one migration"));
        }
        let range = |run: &SectionRun| SectionRange { first_section: run.first.0, sections: run.sections };
        self.plan.runs = self.runs.iter().map(range).collect();
        if let Some(layout_id) = self.runs.last().and_then(|run| set.layout.id_of(SectionId(run.end()? - 1))) {
            self.plan.layout_id = layout_id.0;
        }
    }

    /// Returns those sections of the series `name` that are in this set. Adds a problem if there are none.
    fn sections_of(&mut self, state: &State, set: &SetDefinition, name: &str) -> Vec<SectionRun> {
        let Some(series) = state.series(name) else {
            self.problems.push(format!("no series is named {name:?}: `seqsvr series list` shows the names"));
            return Vec::new();
        };
        let here = series.sections.iter().filter(|section| state.sections.resident(*section).is_some());
        let here: Vec<SectionRun> = here.map(|first| SectionRun { first, sections: 1 }).collect();
        if here.is_empty() {
            self.problems.push(format!("series {name:?} has no section in set {:?}", set.name));
        }
        here
    }

    /// Checks that each section is in this set and does not belong to another migration that is not complete. Counts
    /// the uids, the lanes and the sections without an owner.
    fn check_sections(&mut self, state: &State, set: &SetDefinition) {
        let open: Vec<_> = state
            .migrations
            .iter()
            .filter(|(_, one)| one.phase == Phase::Open && matches!(one.scope, Scope::Runs(_)))
            .collect();
        let (mut away, mut migrates): (Option<SectionId>, Option<(SectionId, MigrationId)>) = (None, None);
        let mut elsewhere = 0;
        for section in self.runs.iter().flat_map(|run| run.iter()) {
            let uids = set.layout.uids_of(section);
            let of_kind = if set.layout.lanes_at(section).is_some() { &mut self.lanes } else { &mut self.uids };
            *of_kind += uids.end - uids.start;
            self.sections += 1;
            let Some(residence) = state.sections.resident(section) else {
                elsewhere += 1;
                away.get_or_insert(section);
                continue;
            };
            self.unowned += u32::from(residence.owner.is_none());
            let came_by = Some(residence.came_by).filter(|id| *id != MigrationId(0));
            let of_open = || open.iter().find(|(_, one)| one.covers(section, residence)).map(|(id, _)| **id);
            if let Some(id) = came_by.or_else(of_open) {
                migrates.get_or_insert((section, id));
            }
        }
        if let Some(section) = away {
            let home = state.directory.get(section).filter(|claim| claim.set != set.id);
            let home = home.map_or(String::new(), |claim| format!(" but in set {:?}", name_of(state, claim.set)));
            self.problems.push(format!(
                "section {section} is not in set {:?}{home}, the first of {elsewhere} such sections",
                set.name
            ));
        }
        if let Some((section, id)) = migrates {
            self.problems.push(format!(
                "section {section} is part of migration {id}, which is not complete: complete it or roll it back first"
            ));
        }
        if self.unowned > 0 {
            self.warnings.push(format!(
                "{} sections have no owner: they depart without exact values, and continue at their ceilings",
                self.unowned
            ));
        }
    }
}

fn shown(run: SectionRun) -> String {
    format!("sections {}..{}", run.first, run.end().unwrap_or(u32::MAX))
}
