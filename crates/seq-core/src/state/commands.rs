//! The table of all commands of the store's log. Each row has a command, its output, the method of [`State`] that
//! applies the command, and the first format of the log that can contain it.
//!
//! The table defines the enum [`Command`], whose values are the entries of the log, and the enum [`Answer`], which has
//! the outputs. A process that proposes a command of some type gets the output that belongs to this type
//! ([`Replicated`]). `docs/how-to-add.md` has the steps to add a row to the table.

use alloc::vec::Vec;

use super::audit::{BeginOperation, EndOperation};
use super::balancing::{MoveSections, PauseBalancing};
use super::command::{
    ClaimStoreId, CommandRefusal, Drain, RaiseCeilings, Reassign, Registration, Renew, SetTerms, Transfer, Transferred,
};
use super::deaths::Died;
use super::events::Note;
use super::keyspaces::CreateKeyspace;
use super::layout_writer::{LayoutWriter, SetLayoutWriter};
use super::loss::ReportLoss;
use super::series::{AdoptSeries, CreateSeries, NoteClock, NoteReadsLanes, RetireSeries};
use super::set_command::{
    Arrival, Arrive, Arrived, BeginLineage, Close, Complete, Depart, DepartSilent, EndQuarantine, Fence, Forget,
    Inherit, LearnDirectory, Rollback, SetPace, StartMigration, StartReturn,
};
use super::{Closing, FenceResponse, SetDefinition, State};
use crate::id::{Epoch, Incarnation, MigrationId, NodeId, Seq};
use crate::layout::SectionRun;

mod fields;
#[macro_use]
mod table;

pub use fields::Fields;

commands! {
    State: Command => Answer, Replicated;

    /// Defines the set. Only the first definition takes effect. A later definition with the same name and layout
    /// succeeds, but its id is ignored. A later definition with another name or layout is refused.
    5 define_set: DefineSet(SetDefinition) => SetDefined(Result<(), CommandRefusal>);

    /// Sets the lease terms, which are the same for all members of the store.
    5 set_terms: SetTerms(SetTerms) => TermsSet(Result<(), CommandRefusal>);

    /// Starts a new incarnation of an AllocSvr.
    5 register: Register(Registration) => Registered(Result<(NodeId, Incarnation), CommandRefusal>);

    /// Renews an incarnation of an AllocSvr.
    5 renew: Renew(Renew) => Renewed(Result<(), CommandRefusal>);

    /// Raises ceilings. Increases the liveness counter of the sections' owner, like a renewal.
    5 raise: Raise(RaiseCeilings) =>
        /// The committed ceiling of each section, in the order of the request. `None` if the node does not own the
        /// section under the requested epoch, if it requested more than [`Seq::MAX`], or if an earlier entry of the
        /// request has the same section.
        Raised(Result<Vec<Option<Seq>>, CommandRefusal>);

    /// Gives sections new owners. The owner of a section changes only if the section's epoch, and the liveness counter
    /// of its present owner, are still as the proposer read them.
    5 reassign: Reassign(Vec<Reassign>) =>
        /// The new epoch of each section, in the order of the request. `None` if the section's owner did not change,
        /// usually because the section's record or its owner's liveness counter has changed since the proposer read it.
        Reassigned(Vec<Option<Epoch>>);

    /// Commits a handover, which transfers a section to another node. The present owner of the section sends the
    /// request.
    5 transfer: Transfer(Transfer) =>
        /// The ownership that began by the handover. A repeat of the command has the same result.
        Transferred(Result<Transferred, CommandRefusal>);

    /// Sets whether an AllocSvr may own sections.
    5 drain: Drain(Drain) => Drained(Result<NodeId, CommandRefusal>);

    /// Moves sections to an AllocSvr, or ends earlier moves of sections.
    10 move_sections: MoveSections(MoveSections) => SectionsMoved(Result<(), CommandRefusal>);

    /// Begins or ends a pause of balancing.
    10 pause_balancing: PauseBalancing(PauseBalancing) => BalancingPaused(Result<(), CommandRefusal>);

    /// Claims a Raft id permanently for a member of the store, so that no id is used twice. If an id could be used
    /// twice, an old disk could come back under an id that another member has by then, and vote as that member with a
    /// different log.
    5 claim_store_id: ClaimStoreId(ClaimStoreId) =>
        /// Whether the id was free.
        StoreIdClaimed(bool);

    /// Begins a migration.
    5 start_migration: StartMigration(StartMigration) => MigrationStarted(Result<MigrationId, CommandRefusal>);

    /// Changes the pace of a migration.
    5 set_pace: Pace(SetPace) => PaceSet(Result<(), CommandRefusal>);

    /// Sends a section to another set, as its owner requests.
    5 depart: Depart(Depart) =>
        /// The ownership that begins in the other set. A repeat of the command has the same result.
        Departed(Result<Transferred, CommandRefusal>);

    /// Sends sections without a living owner to another set.
    5 depart_silent: DepartSilent(Vec<DepartSilent>) =>
        /// For each section, in the order of the request, the epoch that begins in the other set. `None` if the section
        /// may not depart, or if its record, or its owner's liveness counter, has changed since the proposer read it.
        DepartedSilently(Vec<Option<Epoch>>);

    /// Takes sections that departed from another set.
    5 arrive: Arrive(Arrive) =>
        /// The outcome for each section, in the order of the request.
        Arrived(Result<Vec<Arrival>, CommandRefusal>);

    /// Notes that sections which departed from this set are in the log of the target set, and that the target set has
    /// noted ends of migrations.
    5 arrived: Arrived(Arrived) =>
        /// Number of arrivals and ends of migrations that were not noted before.
        ArrivalsNoted(u32);

    /// Cancels a migration. The sections that have departed are to return to this set.
    5 roll_back: Rollback(Rollback) => RolledBack(Result<(), CommandRefusal>);

    /// Ends a migration after all its sections arrived.
    5 complete: Complete(Complete) => Completed(Result<(), CommandRefusal>);

    /// Begins the return of sections that came by a migration.
    5 start_return: StartReturn(StartReturn) =>
        /// The id of the return. If an earlier request has begun the return already, it is the id in that request.
        ReturnStarted(Result<MigrationId, CommandRefusal>);

    /// Fences the older lineages of another set. From this entry on, messages of these lineages are refused.
    5 fence: Fence(Fence) => Fenced(Result<(), CommandRefusal>);

    /// Keeps facts that another set stated about itself, and its claims of sections.
    5 learn: LearnDirectory(LearnDirectory) =>
        /// Whether anything was new.
        DirectoryLearned(Result<bool, CommandRefusal>);

    /// Keeps a page of the response of another set to the fence of this restored set. The pages of a response are
    /// applied in order.
    5 learn_records: LearnRecords(FenceResponse) =>
        /// Whether the page was the awaited page.
        RecordsLearned(Result<bool, CommandRefusal>);

    /// Begins a newer lineage of a set in quarantine.
    5 begin_lineage: BeginLineage(BeginLineage) => LineageBegun(Result<(), CommandRefusal>);

    /// Ends the quarantine of a restored set.
    5 end_quarantine: EndQuarantine(EndQuarantine) => QuarantineEnded(Result<(), CommandRefusal>);

    /// Keeps a page of the final records of another set, which is closing. The pages are applied in order.
    8 inherit: Inherit(Inherit) =>
        /// Whether the page was the awaited page.
        Inherited(Result<bool, CommandRefusal>);

    /// Removes another set from the sets that this log knows.
    8 forget: Forget(Forget) =>
        /// Whether the set was known.
        Forgotten(Result<bool, CommandRefusal>);

    /// Keeps the evidence that committed entries are gone.
    8 report_loss: ReportLoss(ReportLoss) =>
        /// Whether it is the first report of a loss.
        LossReported(Result<bool, CommandRefusal>);

    /// Closes this set permanently.
    5 close: Close(Close) => Closed(Result<Closing, CommandRefusal>);

    /// Creates a series.
    11 create_series: CreateSeries(CreateSeries) as 1 { name, shape, lanes, created_ms } =>
        /// The sections of its lanes.
        SeriesCreated(Result<SectionRun, CommandRefusal>);

    /// Creates a keyspace.
    11 create_keyspace: CreateKeyspace(CreateKeyspace) as 9 { name, seed, of_uids, created_ms } =>
        /// The sections of its buckets.
        KeyspaceCreated(Result<SectionRun, CommandRefusal>);

    /// Retires a series permanently.
    11 retire_series: RetireSeries(RetireSeries) as 2 { name } =>
        /// Whether it was in use.
        SeriesRetired(Result<bool, CommandRefusal>);

    /// Adopts the list of series and the layout writer that another set states.
    11 adopt_series: AdoptSeries(AdoptSeries) as 3 { from, lineage, series, writer } =>
        /// Whether anything was new.
        SeriesAdopted(Result<bool, CommandRefusal>);

    /// Hands the creation of series to another set.
    11 set_layout_writer: SetLayoutWriter(SetLayoutWriter) as 6 { term, to } =>
        /// The next writer.
        LayoutWriterSet(Result<LayoutWriter, CommandRefusal>);

    /// Notes that an incarnation of an AllocSvr can own sections of series and buckets.
    11 note_reads_lanes: NoteReadsLanes(NoteReadsLanes) as 4 { node, incarnation } =>
        /// Whether that was not known.
        ReadsLanesNoted(Result<bool, CommandRefusal>);

    /// Notes the time of a restore. After the restore, ticks of series begin above this time.
    11 note_clock: NoteClock(NoteClock) as 5 { unix_ms } => ClockNoted(Result<(), CommandRefusal>);

    /// Notes the time, and facts that only a leader of the store knows.
    11 note: Note(Note) as 7 { unix_ms, about } => Noted(());

    /// Notes that an AllocSvr process has ended, as its parent reports.
    11 died: Died(Died) as 8 { node, process } =>
        /// The incarnation that died. `None` if nothing changed, because the report is a repeat, or because another
        /// process has registered under the name since.
        DeathNoted(Result<Option<Incarnation>, CommandRefusal>);

    /// Records that an operation of an administrator begins.
    7 begin_operation: BeginOperation(BeginOperation) =>
        /// The number of the operation.
        OperationBegun(Result<u64, CommandRefusal>);

    /// Records how an operation of an administrator ended.
    7 end_operation: EndOperation(EndOperation) => OperationEnded(Result<(), CommandRefusal>);
}

impl State {
    /// Applies one committed command, and returns its output. The new state and the output depend only on the old state
    /// and the command.
    ///
    /// # Panics
    /// When a committed value, such as a ceiling, would fall. The process must stop in this case, because its state is
    /// broken.
    pub fn apply(&mut self, command: &Command) -> Answer {
        self.revision = self.revision.next();
        self.apply_by_rule(command)
    }
}

#[cfg(test)]
mod tests;
