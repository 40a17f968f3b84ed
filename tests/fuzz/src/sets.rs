//! Commands between sets, each drawn around the values in the current state.

use std::time::Duration;

use arbitrary::Result;
use seq_core::directory::{Claim, ClaimRun};
use seq_core::layout::SectionRun;
use seq_core::plan::Fingerprint;
use seq_core::state::{
    Arrive, Arrived, Arriving, BeginLineage, Close, Closing, Command, Complete, Depart, DepartSilent, Destination,
    EndQuarantine, Fence, FenceResponse, Forget, Inherit, LearnDirectory, Migration, Pace, RecordClaim, ReportLoss,
    Rollback, SectionRecord, SetFacts, SetPace, StartMigration, StartReturn, State,
};
use seq_core::{
    Epoch, HandoverId, Incarnation, LayoutId, Lineage, Liveness, MigrationId, NodeId, Revision, SectionId, Seq, SetId,
};

use crate::input::Input;
use crate::replica::layout;

/// Most rows of a command.
const MAX_ROWS: u64 = 4;

/// Sets other than the set of the state.
const OTHERS: [SetId; 2] = [SetId(1), SetId(2)];

/// Draws a command of another set, of its coordinator, or of this set's coordinator.
pub(crate) fn command(input: &mut Input<'_>, state: &State) -> Result<Command> {
    Ok(match input.below(18)? {
        0 | 1 => Command::StartMigration(start(input, state)?),
        2 => Command::Pace(SetPace { id: migration(input, state)?.0, pace: pace(input)? }),
        3..6 => depart(input, state)?,
        6 => Command::DepartSilent(input.some(MAX_ROWS, |input| depart_silent(input, state))?),
        7..10 => arrive(input, state)?,
        10 => {
            let noted = |input: &mut Input<'_>| {
                let section = section(input)?;
                Ok((section, epoch(input, state, section, 0)?))
            };
            let ended = |input: &mut Input<'_>| Ok(migration(input, state)?.0);
            let at = set(input, state)?;
            let (sections, ended) = (input.some(MAX_ROWS, noted)?, input.some(MAX_ROWS, ended)?);
            Command::Arrived(Arrived { at, lineage: Lineage(input.below(3)? << 32), sections, ended })
        }
        11 => Command::Rollback(Rollback { id: migration(input, state)?.0 }),
        12 => Command::Complete(Complete { id: migration(input, state)?.0, by: None }),
        13 => Command::StartReturn(StartReturn {
            of: MigrationId(input.around(3)?),
            to: set(input, state)?,
            id: migration(input, state)?.0,
            pace: pace(input)?,
            settled: input.flag()?,
        }),
        14 => {
            Command::Fence(Fence { set: set(input, state)?, lineage: Lineage(input.below(3)? << 32 | input.below(2)?) })
        }
        15 => Command::LearnRecords(page(input, state)?),
        16 => match input.below(4)? {
            0 | 1 => Command::Inherit(Inherit(page(input, state)?)),
            2 => Command::Forget(Forget { set: set(input, state)? }),
            // Drawn rarely, because no node registers after it.
            _ if input.below(16)? == 0 => Command::ReportLoss(report(input, state)?),
            _ => Command::BeginLineage(BeginLineage {
                lineage: Lineage(input.around(state.lineage.0.wrapping_add(1 << 32))?),
            }),
        },
        // Drawn rarely, because it is permanent, and no section comes any more.
        _ if input.below(16)? == 0 => Command::Close(Close),
        _ if input.flag()? => {
            Command::EndQuarantine(EndQuarantine { lineage: Lineage(input.around(state.lineage.0)?) })
        }
        _ => {
            let claims = input.some(MAX_ROWS, |input| claim(input, state))?;
            let sets = input.some(MAX_ROWS, |input| facts(input, state))?;
            // The facts are of the sender itself, if there is only one set.
            let from = sets.first().map(|facts| facts.id);
            Command::LearnDirectory(LearnDirectory { from, claims, sets })
        }
    })
}

/// Draws a page of the records of another set, in most cases an awaited page.
fn page(input: &mut Input<'_>, state: &State) -> Result<FenceResponse> {
    let record = |input: &mut Input<'_>| {
        let section = section(input)?;
        let claim = Claim { since: epoch(input, state, section, 1)?, set: set(input, state)? };
        let (lineage, max_seq) = (Lineage(input.below(3)? << 32), Seq(input.around(1_000)?));
        Ok((section, RecordClaim { claim, lineage, max_seq, migration: MigrationId(input.around(3)?) }))
    };
    let awaited = state.awaited_responses().chain(state.awaited_inheritances()).next();
    let (set_id, first) = match awaited {
        Some(awaited) if input.below(4)? > 0 => awaited,
        _ => (set(input, state)?, section(input)?),
    };
    Ok(FenceResponse {
        set: set_id,
        lineage: Lineage(input.below(3)? << 32),
        fenced: Lineage(input.around(state.lineage.0)?),
        first,
        next: if input.flag()? { Some(section(input)?) } else { None },
        records: input.some(MAX_ROWS, record)?,
        sets: input.some(MAX_ROWS, |input| set(input, state))?,
        closing: input.flag()?,
        wait: Duration::from_millis(input.around(10)?),
        inherited: Vec::new(),
    })
}

fn report(input: &mut Input<'_>, state: &State) -> Result<ReportLoss> {
    let node = state.nodes.first().map_or("a1", |node| &node.name).to_owned();
    let incarnation = Incarnation(input.around(state.nodes.first().map_or(1, |node| node.incarnation.0))?);
    Ok(ReportLoss { node, incarnation, seen: Revision(input.around(state.revision.0 + 9)?), certain: input.flag()? })
}

fn start(input: &mut Input<'_>, state: &State) -> Result<StartMigration> {
    let (to, runs) = (set(input, state)?, input.some(MAX_ROWS, run)?);
    let planned = state.fingerprint(to, &runs).map_or(0, |fingerprint| fingerprint.0);
    Ok(StartMigration {
        id: migration(input, state)?.0,
        to,
        lineage: Lineage(input.around(state.lineage.0)?),
        layout_id: LayoutId(input.around(layout().id().0)?),
        runs,
        pace: pace(input)?,
        fingerprint: Fingerprint(input.around(planned)?),
    })
}

fn section(input: &mut Input<'_>) -> Result<SectionId> {
    let section = input.below(layout().sections().into())? as u32;
    Ok(SectionId(input.around_small(section)?))
}

fn set(input: &mut Input<'_>, state: &State) -> Result<SetId> {
    match input.below(8)? {
        0 => Ok(state.set.as_ref().map_or(SetId(0), |set| set.id)),
        1 => input.around(9).map(SetId),
        other => Ok(OTHERS[other as usize % OTHERS.len()]),
    }
}

/// Draws a migration, in most cases a migration that began here.
fn migration(input: &mut Input<'_>, state: &State) -> Result<(MigrationId, Option<Migration>)> {
    let known = input.below(state.migrations.len().max(1) as u64)? as usize;
    match state.migrations.iter().nth(known) {
        Some((id, migration)) if input.below(4)? > 0 => Ok((*id, Some(migration.clone()))),
        _ => Ok((MigrationId(input.around(5)?), None)),
    }
}

fn run(input: &mut Input<'_>) -> Result<SectionRun> {
    Ok(SectionRun { first: section(input)?, sections: input.around_small(1)? })
}

fn pace(input: &mut Input<'_>) -> Result<Pace> {
    let (rate, max_pause) = (input.around_small(10)?, Duration::from_nanos(input.around(1_000_000)?));
    Ok(Pace { rate, max_pause, paused: input.flag()? })
}

/// Returns an epoch around the fence of a section plus `more`.
fn epoch(input: &mut Input<'_>, state: &State, section: SectionId, more: u64) -> Result<Epoch> {
    let fence = state.sections.get(section).map_or(Epoch(1), SectionRecord::fence);
    input.around(fence.0.saturating_add(more)).map(Epoch)
}

fn depart(input: &mut Input<'_>, state: &State) -> Result<Command> {
    let section = section(input)?;
    let record = state.sections.resident(section).copied().unwrap_or_default();
    let (id, migration) = migration(input, state)?;
    let set = match migration {
        Some(migration) => migration.to,
        None => set(input, state)?,
    };
    let node = if input.flag()? { Some(NodeId(input.around_small(1)?)) } else { None };
    Ok(Command::Depart(Depart {
        section,
        epoch: epoch(input, state, section, 0)?,
        from: record.owner.unwrap_or(NodeId(input.around_small(1)?)),
        incarnation: Incarnation(input.around(record.incarnation.0)?),
        to: Destination { set, lineage: Lineage(input.below(2)?), node, incarnation: Incarnation(input.around(1)?) },
        handover_id: HandoverId(input.around(1)?),
        migration: id,
    }))
}

fn depart_silent(input: &mut Input<'_>, state: &State) -> Result<DepartSilent> {
    let section = section(input)?;
    let owner = state.sections.resident(section).and_then(|record| state.node(record.owner?));
    let (id, migration) = migration(input, state)?;
    let to = match migration {
        Some(migration) => migration.to,
        None => set(input, state)?,
    };
    let liveness = if input.below(8)? > 0 { owner.map(|owner| owner.liveness) } else { Some(Liveness(0)) };
    let expected = epoch(input, state, section, 0)?;
    Ok(DepartSilent { section, expected, liveness, to, lineage: Lineage(input.below(2)?), migration: id })
}

fn arrive(input: &mut Input<'_>, state: &State) -> Result<Command> {
    let one = |input: &mut Input<'_>| {
        let section = section(input)?;
        Ok(Arriving {
            section,
            epoch: epoch(input, state, section, 1)?,
            max_seq: Seq(input.around(1_000)?),
            handover_id: HandoverId(input.around(1)?),
            node: if input.flag()? { Some(NodeId(input.around_small(1)?)) } else { None },
            incarnation: Incarnation(input.around(1)?),
            migration: MigrationId(input.around(3)?),
        })
    };
    Ok(Command::Arrive(Arrive {
        from: set(input, state)?,
        from_lineage: Lineage(input.below(3)? << 32),
        to_lineage: Lineage(input.around(state.lineage.0)?),
        layout_id: LayoutId(input.around(layout().id().0)?),
        sections: input.some(MAX_ROWS, one)?,
    }))
}

fn claim(input: &mut Input<'_>, state: &State) -> Result<ClaimRun> {
    let sections = run(input)?;
    let since = epoch(input, state, sections.first, 1)?;
    Ok(ClaimRun { sections, claim: Claim { since, set: set(input, state)? } })
}

fn facts(input: &mut Input<'_>, state: &State) -> Result<SetFacts> {
    let id = set(input, state)?;
    Ok(SetFacts {
        id,
        lineage: Lineage(input.around(0)?),
        revision: Revision(input.around(1)?),
        name: format!("other-{id}"),
        stores: vec!["other:1".to_owned()],
        allocs: vec![],
        // Drawn rarely, because it is permanent, and no section departs there any more.
        closing: if input.below(32)? == 0 { Closing::Closing } else { Closing::Open },
        ..SetFacts::default()
    })
}
