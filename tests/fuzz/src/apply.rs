//! Any commands on any reachable state of the store: an entry that panics stops every member at every start.

use std::collections::BTreeSet;
use std::time::Duration;

use arbitrary::Result;
use seq_core::arbiter::{Arbiter, ArbiterTimeouts, Declared};
use seq_core::keyspace::{Hashing, Seed};
use seq_core::layout::{Lanes, TickClock};
use seq_core::state::{
    AdoptSeries, BeginOperation, ClaimStoreId, Command, CopyPart, CreateKeyspace, CreateSeries, Died, Drain,
    EndOperation, LayoutWriter, MoveSections, Note, NoteClock, NoteReadsLanes, Noted, Pause, PauseBalancing, Raise,
    RaiseCeilings, Reassign, Registration, Renew, Residence, RetireSeries, SetDefinition, SetLayoutWriter, SetTerms,
    StatedSeries, Terms, Transfer,
};
use seq_core::{
    Epoch, HandoverId, Incarnation, Layout, Lineage, Liveness, MigrationId, NodeId, RenewSeq, Revision, SectionId, Seq,
    SetId,
};

use crate::input::Input;
use crate::replica::{Replica, SET, layout};
use crate::sets;

/// Names of nodes. They are few, so that they are registered again and again.
const NAMES: [&str; 4] = ["a1", "a2", "a3", ""];

/// Most rows of a command.
const MAX_ROWS: u64 = 4;

/// Applies the commands that `data` makes, each drawn around the values in the current state, together with the
/// commands of an arbiter.
pub fn apply(data: &[u8]) {
    drop(applied(data));
}

/// Applies the commands like [`apply`], and returns the names of the commands that were applied.
pub(crate) fn applied(data: &[u8]) -> BTreeSet<&'static str> {
    let mut input = Input::new(data);
    let mut run = Run { replica: Replica::new(), arbiter: None, now: Duration::ZERO };
    // If too few bytes are left for a command, the run ends.
    while !input.is_over() && run.step(&mut input).is_ok() {}
    run.replica.applied
}

struct Run {
    replica: Replica,
    arbiter: Option<Arbiter>,
    now: Duration,
}

impl Run {
    fn step(&mut self, input: &mut Input<'_>) -> Result<()> {
        let command = match input.below(24)? {
            0 | 1 => self.register(input)?,
            2 | 3 => self.renew(input)?,
            4..7 => self.raise(input)?,
            7..10 => Command::Reassign(input.some(MAX_ROWS, |input| self.reassign(input))?),
            10..13 => self.transfer(input)?,
            13 => match input.below(3)? {
                0 => Command::Drain(Drain { name: name(input)?, drained: input.flag()? }),
                1 => Command::PauseBalancing(PauseBalancing(
                    input.flag()?.then(|| Pause { since_unix_ms: 1, principal: "operator/a".into() }),
                )),
                _ => Command::MoveSections(MoveSections {
                    sections: input.some(MAX_ROWS, |input| self.section(input))?,
                    to: input.flag()?.then(|| NodeId(1 + u32::from(self.replica.state.nodes.len() > 1))),
                }),
            },
            14 => match input.below(5)? {
                0 => {
                    let terms =
                        |input: &mut Input<'_>| Ok(Terms { lease_wait: Duration::from_millis(input.around(2_500)?) });
                    let current = self.replica.state.terms;
                    let replaces = if input.below(4)? == 0 { Some(terms(input)?) } else { current };
                    Command::SetTerms(SetTerms { replaces, terms: terms(input)? })
                }
                1 => {
                    let size = input.around_small(layout().section_size())?;
                    let layout = Layout::new(0..input.around(layout().uids().end)?, size).unwrap_or(layout());
                    // A larger set would be as good, but would only take time.
                    let small = layout.sections() <= 1_000;
                    let layout = if small { layout } else { crate::replica::layout() };
                    Command::DefineSet(SetDefinition::only(if input.flag()? { SET } else { "other" }, layout))
                }
                2 => self.operation(input)?,
                3 => note(input)?,
                _ => Command::ClaimStoreId(ClaimStoreId { id: input.around(1)? }),
            },
            15 => return self.arbitrate(input),
            16 => return self.restore(input),
            17 => self.series(input)?,
            _ => sets::command(input, &self.replica.state)?,
        };
        self.replica.apply(&command);
        Ok(())
    }

    /// Restores the set from its own state as from a backup, with a low probability.
    fn restore(&mut self, input: &mut Input<'_>) -> Result<()> {
        if input.below(4)? == 0 {
            let lineage = Lineage(input.around(self.replica.state.lineage.0.wrapping_add(1 << 32))?);
            self.replica.restore(lineage);
            self.arbiter = None;
        }
        Ok(())
    }

    /// Lets an arbiter evaluate the state, and applies its proposals.
    fn arbitrate(&mut self, input: &mut Input<'_>) -> Result<()> {
        let second = Duration::from_secs(1);
        let timeouts = ArbiterTimeouts { registration_grace: second, stable_for: second };
        let arbiter = self.arbiter.get_or_insert_with(|| Arbiter::new(timeouts));
        self.now += Duration::from_millis(input.below(2_000)?);
        let declared = NAMES.map(|name| Declared { name, weight: 1 });
        let plan = arbiter.evaluate(&self.replica.state, &declared, || self.now).clone();
        self.replica.apply(&Command::Reassign(plan.reassigns.clone()));
        if input.below(4)? == 0 {
            self.arbiter = None;
        }
        Ok(())
    }

    fn section(&self, input: &mut Input<'_>) -> Result<SectionId> {
        let section = input.below(layout().sections().into())? as u32;
        Ok(SectionId(input.around_small(section)?))
    }

    /// Returns a node with its newest incarnation, or other values.
    fn node(&self, input: &mut Input<'_>) -> Result<(NodeId, Incarnation)> {
        let nodes = self.replica.state.nodes.len() as u64;
        let id = NodeId(input.around_small(1)?.wrapping_add(input.below(nodes.max(1))? as u32));
        let current = self.replica.state.node(id).map_or(1, |node| node.incarnation.0);
        Ok((id, Incarnation(input.around(current)?)))
    }

    /// Returns the incarnation that owns a section, with a high probability.
    fn owner(&self, input: &mut Input<'_>, section: SectionId) -> Result<(NodeId, Incarnation)> {
        match self.record(section).and_then(|record| Some((record.owner?, record.incarnation))) {
            Some(owner) if input.below(4)? > 0 => Ok(owner),
            _ => self.node(input),
        }
    }

    fn record(&self, section: SectionId) -> Option<Residence> {
        self.replica.state.sections.resident(section).copied()
    }

    fn epoch(&self, input: &mut Input<'_>, section: SectionId) -> Result<Epoch> {
        input.around(self.record(section).map_or(1, |record| record.epoch.0)).map(Epoch)
    }

    fn register(&self, input: &mut Input<'_>) -> Result<Command> {
        let (name, addr) = (name(input)?, format!("host{}:1", input.below(3)?));
        let newest = self.replica.state.nodes.iter().find(|node| node.name == name).map(|node| node.incarnation.0);
        let registration = Registration::new(&name, &addr, input.around(7)?);
        Ok(Command::Register(Registration {
            lease: Duration::from_millis(input.around(2_000)?),
            follows: Incarnation(input.around(newest.unwrap_or(0))?),
            seen: Revision(input.around(0)?),
            process: input.around(9)?,
            ..registration
        }))
    }

    fn renew(&self, input: &mut Input<'_>) -> Result<Command> {
        let (node, incarnation) = self.node(input)?;
        let last = self.replica.state.node(node).map_or(0, |node| node.renew_seq.0);
        let renew_seq = RenewSeq(input.around(last.wrapping_add(1))?);
        let released = |input: &mut Input<'_>| {
            let section = self.section(input)?;
            Ok((section, self.epoch(input, section)?))
        };
        let copy = |input: &mut Input<'_>| {
            let section = self.section(input)?;
            let (epoch, highest) = (self.epoch(input, section)?, Seq(input.around(100)?));
            let bytes = vec![7; input.below(8)? as usize];
            let length = if input.flag()? { bytes.len() as u32 } else { input.around_small(7)? };
            let offset = if input.flag()? { 0 } else { input.around_small(7)? };
            Ok(CopyPart { section, epoch, highest, length, offset, bytes })
        };
        let copies = input.some(MAX_ROWS, copy)?;
        let (taken, released) = (input.some(MAX_ROWS, released)?, input.some(MAX_ROWS, released)?);
        let leaving = input.flag()?;
        Ok(Command::Renew(Renew { node, incarnation, renew_seq, copies, released, taken, leaving }))
    }

    fn raise(&self, input: &mut Input<'_>) -> Result<Command> {
        let first = self.section(input)?;
        let (node, incarnation) = self.owner(input, first)?;
        let one = |input: &mut Input<'_>| {
            let section = if input.flag()? { first } else { self.section(input)? };
            let ceiling = self.record(section).map_or(0, |record| record.max_seq.0);
            Ok(Raise {
                section,
                epoch: self.epoch(input, section)?,
                to: Seq(input.around(ceiling.saturating_add(100))?),
            })
        };
        Ok(Command::Raise(RaiseCeilings { node, incarnation, raises: input.some(MAX_ROWS, one)? }))
    }

    fn reassign(&self, input: &mut Input<'_>) -> Result<Reassign> {
        let section = self.section(input)?;
        let (to, incarnation) = self.node(input)?;
        let owner = self.record(section).and_then(|record| self.replica.state.node(record.owner?));
        let liveness = match owner {
            Some(owner) if input.below(8)? > 0 => Some(Liveness(input.around(owner.liveness.0)?)),
            None if input.below(8)? == 0 => Some(Liveness(input.around(0)?)),
            _ => None,
        };
        Ok(Reassign { section, expected: self.epoch(input, section)?, liveness, to, incarnation })
    }

    fn transfer(&self, input: &mut Input<'_>) -> Result<Command> {
        let section = self.section(input)?;
        let (from, incarnation) = self.owner(input, section)?;
        let (to, to_incarnation) = self.node(input)?;
        let epoch = self.epoch(input, section)?;
        let handover_id = HandoverId(input.around(1)?);
        Ok(Command::Transfer(Transfer { section, epoch, from, incarnation, to, to_incarnation, handover_id }))
    }
}

impl Run {
    /// Returns an event of the audit log.
    fn series(&self, input: &mut Input<'_>) -> Result<Command> {
        let create = |input: &mut Input<'_>| {
            let clock = TickClock { epoch_ms: input.around(0)?, unit_ms: 1, seq_bits: 12, lead_ms: 60_000 };
            let clock = if input.flag()? { Some(clock) } else { None };
            let (count, per_section) = (input.around_small(4)?, input.around_small(2)?);
            let (start, margin) = (Seq(input.around(1)?), input.around(0)?);
            let lanes = match input.below(8)? {
                0 => Lanes::of_keyspace(Hashing::new(seed(input)?).with_uids(input.flag()?)),
                _ => Lanes { count, per_section, start, margin, clock, keys: None },
            };
            Ok(CreateSeries {
                name: name(input)?,
                shape: vec![0; input.around_small(64)? as usize % 80],
                lanes,
                created_ms: 1,
            })
        };
        let known = self.replica.state.layout_writer();
        let term = known.map_or(0, |writer| writer.term);
        Ok(match input.below(8)? {
            0 => Command::CreateSeries(create(input)?),
            1 => Command::RetireSeries(RetireSeries { name: name(input)? }),
            2 => Command::AdoptSeries(AdoptSeries {
                from: SetId(input.around(1)?),
                lineage: Lineage(input.around(0)?),
                series: input.some(MAX_ROWS, |input| {
                    let (create, home) = (create(input)?, SetId(input.around(1)?));
                    Ok(StatedSeries { create, home, retired: input.flag()? })
                })?,
                writer: if input.flag()? {
                    Some(LayoutWriter {
                        term: input.around(term.wrapping_add(1))?,
                        from: SetId(input.around(1)?),
                        set: SetId(input.around(1)?),
                        changes: input.around_small(0)?,
                        restores: input.around_small(0)?,
                        taken: input.flag()?,
                    })
                } else {
                    None
                },
            }),
            4 => Command::SetLayoutWriter(SetLayoutWriter { term: input.around(term)?, to: SetId(input.around(2)?) }),
            3 => Command::NoteClock(NoteClock { unix_ms: input.around(1)? }),
            5 => {
                let (node, _) = self.node(input)?;
                let process = self.replica.state.node(node).map_or(0, |node| node.process);
                Command::Died(Died { node, process: input.around(process)? })
            }
            6 => Command::CreateKeyspace(CreateKeyspace {
                name: name(input)?,
                seed: seed(input)?,
                of_uids: input.flag()?,
                created_ms: 1,
            }),
            _ => Command::NoteReadsLanes(NoteReadsLanes {
                node: NodeId(input.around_small(1)?),
                incarnation: Incarnation(input.around(1)?),
            }),
        })
    }

    fn operation(&self, input: &mut Input<'_>) -> Result<Command> {
        let at_unix_ms = input.around(0)?;
        if input.flag()? {
            let [principal, node, operation] = [name(input)?, name(input)?, name(input)?];
            return Ok(Command::BeginOperation(BeginOperation { at_unix_ms, principal, node, operation, plan: 0 }));
        }
        let operation = input.around(self.replica.state.audit.last().0)?;
        let refusal = if input.flag()? { Some(name(input)?) } else { None };
        Ok(Command::EndOperation(EndOperation { at_unix_ms, operation, refusal }))
    }
}

/// Returns one of two seeds.
fn seed(input: &mut Input<'_>) -> Result<Seed> {
    Ok(Seed::new([u8::from(input.flag()?); 16]))
}

fn name(input: &mut Input<'_>) -> Result<String> {
    Ok(NAMES[input.below(NAMES.len() as u64)? as usize].to_owned())
}

fn note(input: &mut Input<'_>) -> Result<Command> {
    let (node, incarnation) = (NodeId(input.around_small(1)?), Incarnation(input.around(1)?));
    let about = match input.below(5)? {
        0 => Noted::Time,
        1 => Noted::Leader { member: input.around(1)?, term: input.around(1)? },
        2 => Noted::Stuck { migration: MigrationId(input.around(1)?), cause: name(input)? },
        3 => Noted::Members { voters: vec![input.around(1)?, input.around(2)?] },
        _ => Noted::Silent { node, incarnation, silent_ms: input.around(0)? },
    };
    Ok(Command::Note(Note { unix_ms: input.around(1)?, about }))
}
