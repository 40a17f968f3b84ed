//! Request of operators to list the records of sections.

use seq_core::state::{Phase, Residence, SectionRecord, SetDefinition, State};
use seq_core::{Epoch, MigrationId, NodeId, SectionId, Seq};
use seq_proto::v1::{ListSectionsRequest, ListSectionsResponse, SectionInfo, SectionRange, SectionState};
use tonic::Status;

use super::{SetAdmin, name_of};

/// Maximum number of runs of sections in one response. With this number, a response has some 130 kB.
const MAX_RUNS: u32 = 1_000;

/// Maximum number of sections whose records are read for one request. Reading them takes a few milliseconds, during
/// which no log entry is applied.
const MAX_READ: u32 = 65_536;

impl SetAdmin {
    pub(super) async fn list_sections(&self, request: ListSectionsRequest) -> Result<ListSectionsResponse, Status> {
        self.linearize().await?;
        // The sums are read together with the state, so that they belong to the same entry as the ceilings.
        let writes = self.between.replicated.writes();
        self.read(|state, set| list((state, set), &request, |section| writes.raised(section)))
    }
}

/// Lists the records of sections. `raised` returns the sum of the distances of a section's raises.
fn list(
    (state, set): (&State, &SetDefinition),
    request: &ListSectionsRequest,
    raised: impl Fn(SectionId) -> u64,
) -> ListSectionsResponse {
    let (first, count) = (request.first_section, set.layout.sections());
    let limit = if request.limit == 0 { MAX_RUNS } else { request.limit.min(MAX_RUNS) } as usize;
    let end = first.saturating_add(MAX_READ).min(count);
    let mut listed: Vec<SectionInfo> = Vec::new();
    let mut next = first;
    while next < end {
        let section = SectionId(next);
        let record = state.sections.get(section).copied().unwrap_or_default();
        let mut info = info(state, set, section, record);
        if request.summarize {
            let SectionInfo { range, state, set, uid_start, uid_end, .. } = info;
            info = SectionInfo { range, state, set, uid_start, uid_end, ..SectionInfo::default() };
        } else {
            info.raised = Some(raised(section));
        }
        let joins = |last: &&mut SectionInfo| {
            let same = (last.state, &last.set, last.uid_end) == (info.state, &info.set, info.uid_start);
            request.summarize && same
        };
        if let Some(last) = listed.last_mut().filter(joins) {
            last.uid_end = info.uid_end;
            last.range = last.range.map(|range| SectionRange { sections: range.sections + 1, ..range });
        } else if listed.len() == limit {
            break;
        } else {
            listed.push(info);
        }
        next += 1;
    }
    ListSectionsResponse { sections: listed, next_section: if next < count { next } else { 0 } }
}

fn info(state: &State, set: &SetDefinition, section: SectionId, record: SectionRecord) -> SectionInfo {
    let home = match record {
        SectionRecord::Resident(_) => Some(set.id),
        _ => state.directory.get(section).map(|claim| claim.set),
    };
    let named = |id: Option<NodeId>| id.and_then(|id| state.node(id)).map(|node| node.name.clone()).unwrap_or_default();
    let owner = record.resident().and_then(|residence| residence.owner);
    let began = record.resident().and_then(Residence::beginning);
    let (kind, ceiling, migration) = match record {
        SectionRecord::Never => (SectionState::Never, Seq::ZERO, MigrationId(0)),
        SectionRecord::Resident(residence) => (SectionState::Resident, residence.max_seq, residence.came_by),
        SectionRecord::Departed(tombstone) => {
            let kind = if tombstone.arrived { SectionState::Arrived } else { SectionState::Departed };
            let completed = state.migrations.get(&tombstone.by).is_none_or(|one| !can_roll_back(one.phase));
            (kind, tombstone.max_seq, if completed { MigrationId(0) } else { tombstone.by })
        }
        SectionRecord::Quarantined(quarantine) => (SectionState::Quarantined, quarantine.max_seq, MigrationId(0)),
    };
    // The addresses of lanes are used only inside the system, so they are not shown.
    let has_lanes = set.layout.lanes_at(section).is_some();
    let uids = if has_lanes { 0..0 } else { set.layout.uids_of(section) };
    let Epoch(epoch) = record.fence();
    SectionInfo {
        range: Some(SectionRange { first_section: section.0, sections: 1 }),
        state: kind.into(),
        set: home.map_or(String::new(), |home| name_of(state, home)),
        owner: named(owner),
        moved_to: named(state.balancing.moved(section)),
        epoch,
        ceiling: ceiling.0,
        uid_start: uids.start,
        uid_end: uids.end,
        migration_id: migration.0,
        began_at_unix_ms: began.map_or(0, |began| began.at_unix_ms),
        began_by: began.map_or_else(String::new, |began| began.by.kind().name().to_owned()),
        began_ceiling: began.map(|began| began.ceiling.0),
        raised: None,
    }
}

fn can_roll_back(phase: Phase) -> bool {
    !matches!(phase, Phase::Completed { .. })
}

#[cfg(test)]
mod tests {
    use seq_core::state::{BeganBy, Beginning, Command, Registration};
    use seq_core::{Incarnation, Layout};

    use super::*;

    /// Returns a set of one node, which owns sections 0 and 1. The beginning of section 0 is known.
    fn state() -> State {
        let mut state = State::default();
        state.apply(&Command::DefineSet(SetDefinition::only("im-a", Layout::new(0..300, 100).unwrap())));
        state.apply(&Command::Register(Registration::new("a1", "h:1", 7)));
        let known =
            Beginning { at_unix_ms: 5_000, by: BeganBy::Takeover, ceiling: Seq(90), skipped: None, floor: None };
        for (section, began) in [(0, known), (1, Beginning::default())] {
            let (owner, incarnation) = (Some(NodeId(1)), Incarnation(1));
            let residence =
                Residence { epoch: Epoch(3), owner, incarnation, max_seq: Seq(100), began, ..Default::default() };
            state.sections.put(SectionId(section), SectionRecord::Resident(residence));
        }
        state
    }

    /// Returns the fields of the beginning of each listed run.
    fn beginnings(state: &State, summarize: bool) -> Vec<(u64, String, Option<u64>)> {
        let request = ListSectionsRequest { summarize, ..ListSectionsRequest::default() };
        let listed = list((state, state.set.as_ref().unwrap()), &request, |section| u64::from(section.0));
        let one = |info: SectionInfo| (info.began_at_unix_ms, info.began_by, info.began_ceiling);
        listed.sections.into_iter().map(one).collect()
    }

    #[test]
    fn a_beginning_is_listed_only_where_it_is_known() {
        let state = state();
        let (known, unknown) = ((5_000, "takeover".to_owned(), Some(90)), (0, String::new(), None));
        assert_eq!(beginnings(&state, false), [known, unknown.clone(), unknown.clone()], "section 2 has no owner");
        assert_eq!(beginnings(&state, true), [unknown], "neighbours are one run, without owners");
    }

    #[test]
    fn each_section_is_listed_with_the_sum_of_its_raises() {
        let state = state();
        let sums = |summarize| {
            let request = ListSectionsRequest { summarize, ..ListSectionsRequest::default() };
            let listed = list((&state, state.set.as_ref().unwrap()), &request, |section| u64::from(section.0) + 7);
            listed.sections.into_iter().map(|info| info.raised).collect::<Vec<_>>()
        };
        assert_eq!((sums(false), sums(true)), (vec![Some(7), Some(8), Some(9)], vec![None]));
    }
}
